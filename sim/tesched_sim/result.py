"""Result of a simulation: one entry a job, one entry a preemption, and the cluster's use over time, as columns.

Times are seconds after the workload's beginning, as in `workload`; nan stands for "did not happen".
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tesched_sim.bound_use import BoundUse
from tesched_sim.slurm import PreemptionRecord
from tesched_sim.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Preemptions:
    """Every victim that was given notice, in order of notice; one entry each."""

    #: rows of the workload
    victim: NDArray[np.int64]
    preemptor: NDArray[np.int64]
    notice_s: NDArray[np.float64]
    #: when it had left its nodes; nan: its order was reverted, or it finished first
    left_s: NDArray[np.float64]
    #: when it ran again
    back_s: NDArray[np.float64]
    #: nodes times seconds in which the run that paid held its nodes and did no work that lasted: since its last
    #: checkpoint, or in its grace period. What its restart takes is in `Result.lost_node_s`
    lost_node_s: NDArray[np.float64]
    #: on how many that was
    nodes: NDArray[np.int64]
    #: the preemptor did not start on the resources that were freed
    futile: NDArray[np.bool_]

    @staticmethod
    def of(records: Sequence[PreemptionRecord], futile: Container[int]) -> Preemptions:
        """Take these records; `futile`: orders that ended so."""
        return Preemptions(
            victim=np.array([one.victim for one in records], dtype=np.int64),
            preemptor=np.array([one.preemptor for one in records], dtype=np.int64),
            notice_s=np.array([one.notice_s for one in records]),
            left_s=np.array([one.left_s for one in records]),
            back_s=np.array([one.back_s for one in records]),
            lost_node_s=np.array([one.lost_node_s for one in records]),
            nodes=np.array([len(one.nodes) for one in records], dtype=np.int64),
            futile=np.array([one.order_id in futile for one in records], dtype=np.bool_),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Use:
    """The cluster over time: sums over all of it, and samples for plots, at most one in `sample_s` seconds."""

    at_s: NDArray[np.float64]
    #: [samples, resources] what running jobs hold
    held: NDArray[np.int64]
    #: seconds in which jobs waited or ran, and [resources] what was held in them, times seconds
    busy_s: float
    held_s: NDArray[np.float64]
    #: jobs that wait
    te_waiting: NDArray[np.int64]
    be_waiting: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Result:
    """One run of one workload under one policy."""

    workload: Workload
    #: "fitgpp", "fifo", …
    policy: str
    #: what was set: {"s": 4.0, "backfill": False, …}
    settings: Mapping[str, object]
    #: [jobs] when it first started, and when it ended
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    #: [jobs] how often it was put back in the queue
    preempted: NDArray[np.int32]
    #: [jobs] nodes times seconds that its runs which are over held, and of those in which it did no work that lasted
    held_node_s: NDArray[np.float64]
    lost_node_s: NDArray[np.float64]
    preemptions: Preemptions
    use: Use
    #: events that the engine handled, and how many cycles the policy had
    events: int
    asked: int
    #: seconds of real time that the simulation took
    took_s: float
    #: use of guard.bound; None: nothing was bounded
    bound: BoundUse | None = None

    @property
    def finished(self) -> NDArray[np.bool_]:
        """Jobs that have ended, [jobs]."""
        ended: NDArray[np.bool_] = np.isfinite(self.end_s)
        return ended

    @property
    def jct_s(self) -> NDArray[np.float64]:
        """Return each job's completion time: end less submission, over all restarts; nan while it has not ended."""
        return self.end_s - self.workload.submit_s

    @property
    def waited_s(self) -> NDArray[np.float64]:
        """Return the seconds of each job's completion time in which it did no work that lasted.

        Waiting in the queue, before the first start and between preemption and restart, and what preemptions threw
        away: a user waits through both.
        """
        return self.jct_s - self.workload.run_s

    @property
    def slowdown(self) -> NDArray[np.float64]:
        """Return 1 + waiting / run time of each job, at least 1 (FitGpp, section on the metric)."""
        return 1.0 + self.waited_s / self.workload.run_s
