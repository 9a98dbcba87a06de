"""Use of `guard.bound` in a simulation: by how much TE jobs have delayed each BE job, and which TE jobs it held."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tesched_core.intake.bounds import delays_of
from tesched_core.model.bystander import ended
from tesched_core.model.decision import Decision, RefusalCode
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.placement.deadlines import TIME_LIMITS_EACH_S

from tesched_sim.slurm import Slurm


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BoundUse:
    """Use of the bound in one run."""

    #: guard.bound.te_time_limit_s
    te_time_limit_s: float
    #: [jobs] seconds by which TE jobs of other users delayed each while it waited for what they held
    bystander_s: NDArray[np.float64]
    #: [jobs] part of its bound that was used, 0 to 1; above 1 the bound was passed
    part: NDArray[np.float64]
    #: [jobs] TE jobs that the bound kept waiting in a poll
    held: NDArray[np.bool_]


class BoundWatch:
    """What a run's cycles say of delays and of the bound."""

    def __init__(self, slurm: Slurm) -> None:
        """Begin; the run's daemon is to hand each cycle over."""
        self._slurm = slurm
        count = len(slurm.workload)
        #: [jobs] D by tesched's own account, and what of it each waited as a bystander
        self.delays_s = np.zeros(count)
        self.bystander_s = np.zeros(count)
        #: [jobs] how much of D BE jobs have kept a victim waiting: no part of the bound (docs/the-bound.md)
        self.behind_be_s = np.zeros(count)
        self.held = np.zeros(count, dtype=np.bool_)

    def saw(self, memory: Memory, decision: Decision) -> None:
        """Take what one cycle has decided, and the memory after it."""
        free: NDArray[np.int64] | None = None
        for job_id, seconds in delays_of(memory, decision.at).items():
            row = job_id - 1
            more_s = seconds - self.delays_s[row]
            if more_s <= 0:
                continue
            self.delays_s[row] = seconds
            if self._slurm.restarts[row] and self._slurm.waits_in(self._slurm.line_of(row), row):
                free = self._free_without_te() if free is None else free
                if self._slurm.fits(row, free).sum() < self._slurm.nodes_wanted[row]:
                    self.behind_be_s[row] += more_s
        for job_id, one in memory.bystanders.items():
            self.bystander_s[job_id - 1] = max(self.bystander_s[job_id - 1], ended(one, decision.at).delayed_s)
        for refusal in decision.refusals:
            if refusal.code is RefusalCode.BOUND and refusal.job_id == refusal.preemptor:
                self.held[refusal.job_id - 1] = True

    def use(self, limits: Limits) -> BoundUse:
        """Return the use of the bound of these limits, by each job's true run time."""
        slurm, bound = self._slurm, limits.bound
        site, workload = slurm.behaviour, slurm.workload
        costs_s = site.kill_wait_s + site.requeue_delay_s + TIME_LIMITS_EACH_S + site.kill_wait_s
        least_s = bound.te_time_limit_s + workload.grace_s + costs_s + limits.min_run_time_s + 3 * site.poll_s
        most_s = np.maximum((bound.slowdown - 1.0) * workload.run_s, least_s)
        return BoundUse(
            te_time_limit_s=bound.te_time_limit_s,
            bystander_s=self.bystander_s,
            part=(self.delays_s - self.behind_be_s) / most_s,
            held=self.held,
        )

    def _free_without_te(self) -> NDArray[np.int64]:
        slurm = self._slurm
        free = slurm.free.copy()
        gone: dict[int, list[int]] = {}
        for row in slurm.running:
            if slurm.te[row]:
                for node in slurm.where[row]:
                    free[node] += slurm.workload.demand[row]
                    gone.setdefault(node, []).append(row)
        if slurm.shared is not None:
            for node, rows in gone.items():
                slurm.shared.write(free[node], node, slurm.shared.left(node, gone=rows, beside_kept=False))
        return free
