"""The offline optimum: all jobs known in advance, as one integer program, for instances small enough.

Definitions
    way          how a job may be placed in a slot: w_h workers and s_h servers on each machine h, at most F workers in
                 all and just as many servers as they need, within what each machine has. v: the samples that it does.
    idle way     one that takes at least as much as another on every machine and does no more: it is left out.

Program
    z_itp = 1 if job i is placed in the way p in slot t; f_id = 1 if it ends in slot d.

        max    sum_i sum_d u_i(d - a_i) f_id
        with   sum_d f_id <= 1
               sum_p z_itp <= sum_{d >= t} f_id                    one way a slot, and none after the end
               sum_t sum_p v_ip z_itp >= V_i sum_d f_id            all samples
               sum_i sum_p (what p takes) z_itp <= capacity        of each machine, resource and slot

    A column for each whole way, and not one for each worker and server, has no number that is large only to switch a
    row off: its linear relaxation is close to the optimum, and the solver is done in a second where it was not in a
    minute. The speed may be any function of the number of workers. Work is not counted in units here, so what PD-ORS
    loses by its units is part of what it loses.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tesched_policies.pdors.model import SLACK, TrainingJob
from tesched_sim.workload import WorkloadError

from tesched_papers.pdors.workload import Instance

#: ways of one job, before idle ones are left out: with more the program is too large for a solver in any case
MOST_WAYS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimum:
    """The best utility that was found, and its upper bound."""

    #: the best utility that was found
    utility: float
    #: no schedule has more; the same, if the solver was given time enough
    bound: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ways:
    """The ways of one job that are not idle: P of them, on H machines of R resources."""

    #: (P, H, R)
    takes: NDArray[np.float64]
    #: (P,), samples in a slot
    samples: NDArray[np.float64]

    @staticmethod
    def of(job: TrainingJob, instance: Instance) -> Ways:
        """Return them. Raises WorkloadError if there are more than MOST_WAYS."""
        workers, servers = _counts(job, instance)
        takes = workers[:, :, np.newaxis] * job.worker + servers[:, :, np.newaxis] * job.server
        machines = ((workers + servers) > 0).sum(axis=1)
        samples = np.array(
            [
                job.samples_per_slot(int(count), internal=bool(used == 1))
                for count, used in zip(workers.sum(axis=1), machines, strict=True)
            ],
            dtype=np.float64,
        )
        # The one that does most comes first; of equals only the first is kept.
        order = np.argsort(-samples, kind="stable")
        flat = takes[order].reshape(len(order), -1)
        kept: list[int] = []
        for place in range(len(order)):
            if not (flat[kept] <= flat[place]).all(axis=1).any():
                kept.append(place)
        return Ways(takes=takes[order[kept]], samples=samples[order[kept]])


def _counts(job: TrainingJob, instance: Instance) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the workers and the servers of every way, (P, H) each, machine after machine."""
    machines, most_servers = instance.machines, int(job.servers_for(np.array(job.batch)))
    w, s = np.meshgrid(np.arange(job.batch + 1), np.arange(most_servers + 1), indexing="ij")
    one = np.column_stack([w.ravel(), s.ravel()])
    demand = np.outer(one[:, 0], job.worker) + np.outer(one[:, 1], job.server)
    found = np.zeros((1, 0, 2), dtype=np.int64)
    for capacity, workers, servers in zip(
        machines.capacity, machines.takes_workers, machines.takes_servers, strict=True
    ):
        there = (demand <= capacity * (1 + SLACK)).all(axis=1)
        there &= (one[:, 0] == 0) | workers
        there &= (one[:, 1] == 0) | servers
        here = one[there]
        sums = found.sum(axis=1)[:, np.newaxis, :] + here
        fits = (sums <= (job.batch, most_servers)).all(axis=2)
        if fits.sum() > MOST_WAYS:
            raise WorkloadError(
                f"job {job.job_id} of seed {instance.seed} can be placed in more than {MOST_WAYS} ways in a slot: the "
                "optimum is found for fewer machines (workload.machines), smaller ones (workload.machine_size) or "
                "smaller batches (workload.batch_max)"
            )
        before, now = np.nonzero(fits)
        found = np.concatenate([found[before], here[now][:, np.newaxis, :]], axis=1)
    count_w, count_s = found[:, :, 0], found[:, :, 1]
    workers_in_all = count_w.sum(axis=1)
    whole = (workers_in_all > 0) & (count_s.sum(axis=1) == job.servers_for(workers_in_all))
    return count_w[whole], count_s[whole]


class _Program:
    """Columns and rows, low <= A x <= high; every column is 0 or 1."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.cost: list[float] = []
        self.entries: list[tuple[int, int, float]] = []
        self.low: list[float] = []
        self.high: list[float] = []
        #: (slot, machine, resource) -> (column, how much it takes)
        self.taken: dict[tuple[int, int, int], list[tuple[int, float]]] = {}
        for job in instance.jobs:
            self._job(job)
        for (_, machine, resource), terms in self.taken.items():
            self._row(terms, -np.inf, float(instance.machines.capacity[machine, resource]))

    def _new(self, cost: float = 0.0) -> int:
        self.cost.append(cost)
        return len(self.cost) - 1

    def _row(self, terms: list[tuple[int, float]], low: float, high: float) -> None:
        self.entries.extend((len(self.low), column, value) for column, value in terms)
        self.low.append(low)
        self.high.append(high)

    def _job(self, job: TrainingJob) -> None:
        slots = range(job.arrival, self.instance.horizon)
        ways = Ways.of(job, self.instance)
        ends = {slot: self._new(-float(job.utility.worth(np.array(slot - job.arrival)))) for slot in slots}
        self._row([(end, 1.0) for end in ends.values()], -np.inf, 1.0)
        work: list[tuple[int, float]] = []
        for slot in slots:
            placed = [self._new() for _ in ways.samples]
            self._row(
                [*((one, 1.0) for one in placed), *((ends[end], -1.0) for end in slots if end >= slot)], -np.inf, 0.0
            )
            # In parts of the job, so that the solver's tolerance means the same for all.
            work += [(one, float(done) / job.samples) for one, done in zip(placed, ways.samples, strict=True)]
            for which, machine, resource in zip(*np.nonzero(ways.takes), strict=True):
                amount = float(ways.takes[which, machine, resource])
                self.taken.setdefault((slot, int(machine), int(resource)), []).append((placed[which], amount))
        self._row([*work, *((end, -1.0) for end in ends.values())], 0.0, np.inf)


def optimum(instance: Instance, *, limit_s: float = 60.0) -> Optimum:
    """Return the offline optimum, within a time. Raises WorkloadError for what is too large, and for no answer."""
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - needed only on request
    from scipy.sparse import csr_array  # noqa: PLC0415

    program = _Program(instance)
    rows, columns, values = zip(*program.entries, strict=True)
    matrix = csr_array((values, (rows, columns)), shape=(len(program.low), len(program.cost)))
    found = milp(
        program.cost,
        integrality=np.ones(len(program.cost)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, program.low, program.high),
        options={"time_limit": limit_s, "mip_rel_gap": 1e-6},
    )
    if found.x is None:
        raise WorkloadError(f"the optimum of seed {instance.seed} was not found in {limit_s:g} s")
    return Optimum(utility=-float(found.fun), bound=-float(found.mip_dual_bound))
