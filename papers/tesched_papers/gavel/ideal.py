"""Gavel without rounds: each job has its fractions of the time, at any moment, to the digit.

It shows what a division of the time is worth if nothing is lost on the way to accelerators: a job with half a V100 and
a third of a K80 goes at half the speed of the one plus a third of that of the other. An allocation is made whenever a
job comes or ends. Accelerators that no job is entitled to stay idle, where rounds give them to any job that fits: with
few jobs rounds may be the faster. Source: OSDI 2020, section 7.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from tesched_sim.workload import WorkloadError

from tesched_papers.gavel.rounds import Allocate, Cluster, Manner, Run
from tesched_papers.gavel.workload import GavelJob


class IdealRun(Run):
    """The same state; a turn goes to the next arrival or end."""

    def __init__(
        self, jobs: Iterator[GavelJob], cluster: Cluster, allocate: Allocate, manner: Manner, seed: int
    ) -> None:
        """Begin with an empty cluster."""
        super().__init__(jobs, replace(cluster, recompute_s=0.0), allocate, manner, seed)

    def turn(self) -> list[int]:
        """Go on to the next event and return the indices of the jobs that ended."""
        speed = (self.share * self.throughput).sum(axis=1)
        with np.errstate(divide="ignore"):
            self.slice_end_s = self.now + np.where(speed > 0, self.steps_left / speed, np.inf)
        arrival_s = self.next.arrival_s if self.next is not None else np.inf
        then = min(arrival_s, float(self.slice_end_s.min(initial=np.inf)))
        if not np.isfinite(then):
            raise WorkloadError("the jobs come to an end before the window does")
        took_s, self.now = then - self.now, then
        self.steps_left -= speed * took_s
        self.outcome.busy_s += float((self.share.sum(axis=1) * self.scale_factor).sum()) * took_s
        ended = self.leave(np.flatnonzero(self.slice_end_s <= then))
        self.arrive()
        self.reallocate()
        return ended

    def runs_on(self, job: GavelJob) -> NDArray[np.bool_]:
        """Return on which types it runs at all."""
        return job.throughput > 0
