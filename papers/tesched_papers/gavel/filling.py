"""Gavel's rounds as tesched runs them on Slurm: accelerators that come free in mid-round are given away at once.

What differs from the authors' simulator (rounds.py): a job that comes in the middle of a round starts at once where
resources are free, though none was allocated to it yet; when a job ends, the next has its place; no job is moved for
either. A round has its full length, and an allocation is made at its beginning if jobs have come or gone. A job may be
interrupted between two steps without losing anything. Where a job is as fast on another type, it stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from tesched_policies.gavel.avoid_moves import alike, booked, kept
from tesched_policies.gavel.round_scheduling import NOWHERE, changes
from tesched_sim.workload import WorkloadError

from tesched_papers.gavel.rounds import Allocate, Cluster, Manner, Run
from tesched_papers.gavel.throughputs import TYPES
from tesched_papers.gavel.workload import GavelJob


class FillingRun(Run):
    """The same state; a turn goes to the next arrival, end, or beginning of a round, whichever comes first."""

    by_job: ClassVar[tuple[str, ...]] = (*Run.by_job, "ready_s")

    def __init__(
        self, jobs: Iterator[GavelJob], cluster: Cluster, allocate: Allocate, manner: Manner, seed: int
    ) -> None:
        """Begin with an empty cluster."""
        super().__init__(jobs, cluster, allocate, manner, seed)
        #: when a running job's start is over and its progress begins
        self.ready_s = np.zeros(0)

    def turn(self) -> list[int]:
        """Go on to the next event and return the indices of the jobs that ended."""
        running = np.flatnonzero(self.on != NOWHERE)
        before = self.now
        if self.jobs:
            arrival_s = self.next.arrival_s if self.next is not None else np.inf
            self.now = min(self.round_end, arrival_s, float(self.slice_end_s[running].min(initial=np.inf)))
        elif self.next is not None:
            self.now = self.round_end = self.next.arrival_s  # with the first job a round begins
        else:
            raise WorkloadError("the jobs come to an end before the window does")
        ended = self._book(running, before)
        self.arrive()
        if self.now >= self.round_end:
            self.reallocate()
            self._begin_round()
        else:
            self._fill()
        return ended

    def arrive(self) -> None:
        """Take in all jobs that have come by now."""
        super().arrive()
        self.ready_s = np.append(self.ready_s, np.zeros(len(self.jobs) - len(self.ready_s)))

    def runs_on(self, job: GavelJob) -> NDArray[np.bool_]:
        """Return on which types it runs at all: a step may take several rounds."""
        return job.throughput > 0

    def _book(self, running: NDArray[np.intp], since_s: float) -> list[int]:
        """Book what has been done since then, and take out the jobs that are done."""
        kind, size = self.on[running], self.scale_factor[running]
        took_s = self.now - since_s
        worked_s = np.maximum(self.now - np.maximum(self.ready_s[running], since_s), 0.0)
        self.steps_left[running] -= self.throughput[running, kind] * worked_s
        received_s = np.zeros((len(running), len(TYPES)))
        received_s[np.arange(len(running)), kind] = took_s
        received_s = booked(received_s, self.share[running], alike(self.throughput[running]))
        self.received_s[running] += received_s
        self.given_s += received_s.sum(axis=0)
        self.outcome.busy_s += float(size.sum()) * took_s
        self.outcome.restarting_s += float(size @ (took_s - worked_s))
        return self.leave(running[self.slice_end_s[running] <= self.now])

    def _begin_round(self) -> None:
        self.round_start, self.round_end = self.now, self.now + self.cluster.round_s
        after = kept(
            self.on,
            self.assigned(self.order_of_types(), slice(None), self.capacity),
            alike_types=alike(self.throughput),
            scale_factor=self.scale_factor,
            capacity=self.capacity,
        )
        runs = self.on != NOWHERE
        self.outcome.rounds += 1
        self.outcome.could_renew += int(runs.sum())
        self.outcome.renewed += int((runs & (self.on == after)).sum())
        self._place(after)

    def _fill(self) -> None:
        """Give what is free to waiting jobs; no job is moved for it."""
        waits = np.flatnonzero(self.on == NOWHERE)
        unassigned = self.capacity.copy()
        runs = self.on != NOWHERE
        np.subtract.at(unassigned, self.on[runs], self.scale_factor[runs])
        if len(waits) == 0 or not unassigned.any():
            return
        after = self.on.copy()
        after[waits] = self.assigned(range(len(TYPES)), waits, unassigned)
        self._place(after)

    def _place(self, after: NDArray[np.intp]) -> None:
        """Put jobs where they should be now; a job that comes to a type has to start there."""
        started = np.flatnonzero(changes(self.on, after).started)
        self.on = after
        self.ready_s[started] = self.now + self.cluster.restart_cost_s
        speed = self.throughput[started, after[started]]
        self.slice_end_s[started] = self.ready_s[started] + self.steps_left[started] / speed
        self.outcome.starts += len(started)
