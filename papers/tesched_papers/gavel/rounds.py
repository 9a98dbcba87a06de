"""Gavel's simulator, round by round, like its authors', and with the cost of a restart as an option.

Kept from the authors' simulator for the sake of their figures: an allocation is made again only when a job has come or
gone, and not before 32 minutes have passed since the last one; a job that comes between two allocations waits for the
next, and the place that the round would give it stays empty; a round ends when its last slice does, so it is a little
shorter than its nominal length; a start costs nothing. The last is a parameter here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from tesched_policies.gavel.allocators.problem import Pairs
from tesched_policies.gavel.round_scheduling import NOWHERE, assign, changes, deficits, priorities
from tesched_sim.workload import WorkloadError

from tesched_papers.gavel.throughputs import TYPES
from tesched_papers.gavel.workload import GavelJob

#: seconds between two allocations at least, in the authors' simulator
RECOMPUTE_S = 1920.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """The jobs that are there when an allocation is made, in their order of arrival; M of them, T types."""

    job: NDArray[np.int64]
    #: (M,) rows of the table of speeds
    row: NDArray[np.int64]
    #: (M, T) steps/s
    throughput: NDArray[np.float64]
    scale_factor: NDArray[np.int64]
    weight: NDArray[np.float64]
    steps: NDArray[np.float64]
    steps_left: NDArray[np.float64]
    #: seconds since it came
    age_s: NDArray[np.float64]
    #: (T,) accelerators
    capacity: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """Fractions of the time, also of pairs of jobs on the same accelerators."""

    #: (M, T) of jobs alone
    x: NDArray[np.float64]
    pairs: Pairs
    #: (K, T)
    pairs_x: NDArray[np.float64]


#: Gives each job its fraction of the time on each type, (M, T), with pairs or without.
Allocate = Callable[[Waiting], NDArray[np.float64] | Division]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The accelerators, and how time passes on them."""

    #: accelerators of each type, in the order of `throughputs.TYPES`
    capacity: tuple[int, ...]
    round_s: float = 360.0
    recompute_s: float = RECOMPUTE_S
    #: seconds without progress at the head of a slice of a job that was not on the same type in the round before
    restart_cost_s: float = 0.0
    #: resources free in mid-round go to waiting jobs (filling.py), instead of staying empty until the next round
    fill: bool = False
    #: no rounds at all (ideal.py)
    ideal: bool = False

    def __post_init__(self) -> None:
        """Raise WorkloadError for what cannot be."""
        if len(self.capacity) != len(TYPES) or min(self.capacity) < 0 or sum(self.capacity) == 0:
            raise WorkloadError(f"a cluster has so many accelerators of {':'.join(TYPES)}, some of them at least 1")
        if not 0 < self.round_s < float("inf"):
            raise WorkloadError(f"a round of {self.round_s:g} s cannot be")
        if self.ideal and (self.fill or self.restart_cost_s):
            raise WorkloadError("without rounds there is no mid-round time to fill, and no start costs time")
        if not 0 <= self.restart_cost_s < self.round_s:
            raise WorkloadError(
                f"a restart that costs {self.restart_cost_s:g} s leaves nothing of a round of {self.round_s:g} s"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """Settings of the mechanism that depend on the policy, in the authors' simulator."""

    #: types choose in a shuffled order, drawn again each round; else as listed
    shuffled: bool = False
    #: accelerators are given only to jobs with a fraction
    entitled_only: bool = False
    #: pairs of jobs may have the same accelerators
    sharing: bool = False


@dataclass(slots=True, kw_only=True)
class Outcome:
    """Result of a run."""

    #: seconds from arrival to end, by job index: of all jobs that ended
    jct_s: dict[int, float] = field(default_factory=dict)
    #: seconds from the first arrival to the last end
    end_s: float = 0.0
    rounds: int = 0
    allocations: int = 0
    #: accelerator-seconds held, also those that a restart cost
    busy_s: float = 0.0
    #: accelerator-seconds that restarts cost
    restarting_s: float = 0.0
    #: slices of jobs that were not on the type before
    starts: int = 0
    #: slices of jobs that ran in the round before, and of these those that stayed where they were
    could_renew: int = 0
    renewed: int = 0
    #: seconds of the processor's time, of this those in which allocations were made
    took_s: float = 0.0
    allocating_s: float = 0.0


class Run:
    """The state; rows of all arrays are the jobs that are there, in their order of arrival."""

    #: the arrays with a row for each job
    by_job: ClassVar[tuple[str, ...]] = (
        "steps_left",
        "throughput",
        "scale_factor",
        "share",
        "allocated",
        "received_s",
        "deficit_s",
        "on",
        "slice_end_s",
        "slice_steps",
    )

    def __init__(
        self, jobs: Iterator[GavelJob], cluster: Cluster, allocate: Allocate, manner: Manner, seed: int
    ) -> None:
        self.cluster, self.allocate, self.manner = cluster, allocate, manner
        self.outcome = Outcome()
        self.order = Random(seed + 5)  # noqa: S311 - not for secrets
        self.to_come = jobs
        self.next = next(jobs, None)
        self.capacity = np.array(cluster.capacity, dtype=np.int64)
        #: what a job is taken to have had of each type when an allocation is made
        self.head_start_s = cluster.round_s / 2
        self.jobs: list[GavelJob] = []
        kinds = len(TYPES)
        self.steps_left = np.zeros(0)
        self.throughput = np.zeros((0, kinds))
        self.scale_factor = np.zeros(0, dtype=np.int64)
        #: X, and whether the job was there when it was made
        self.share = np.zeros((0, kinds))
        self.allocated = np.zeros(0, dtype=np.bool_)
        self.received_s = np.zeros((0, kinds))
        self.deficit_s = np.zeros((0, kinds))
        self.given_s = np.zeros(kinds)
        #: the type of this round's slice, and when and with how many steps it ends
        self.on = np.zeros(0, dtype=np.intp)
        self.slice_end_s = np.zeros(0)
        self.slice_steps = np.zeros(0)
        self.now = self.round_start = self.round_end = self.last_allocation = 0.0
        self.stale = False

    def turn(self) -> list[int]:
        """Go on by one round and return the indices of the jobs that ended."""
        running = np.flatnonzero(self.on != NOWHERE)
        ended: list[int] = []
        if len(running):
            self.round_start, self.round_end = self.round_end, float(self.slice_end_s[running].max())
            self.now = self.round_end
            ended = self._finish(running)
        elif self.next is None:
            raise WorkloadError("the jobs come to an end before the window does")
        else:
            self.now = self.next.arrival_s
        self.arrive()
        self.reallocate()
        self._start()
        return ended

    def _finish(self, running: NDArray[np.intp]) -> list[int]:
        """Book this round's slices, and take out the jobs that are done."""
        self.steps_left[running] -= self.slice_steps[running]
        self.book(running, self.slice_end_s[running] - self.round_start)
        return self.leave(running[self.steps_left[running] <= 0])

    def book(self, running: NDArray[np.intp], took_s: NDArray[np.float64]) -> None:
        """Count so many seconds to the jobs that had them, and to the types that gave them."""
        kind = self.on[running]
        self.received_s[running, kind] += took_s
        np.add.at(self.given_s, kind, took_s)

    def leave(self, done: NDArray[np.intp]) -> list[int]:
        """Take out the jobs that are done, each at the end of its slice, and return their indices."""
        if len(done) == 0:
            return []
        self.stale = True
        ended = []
        for row in done.tolist():
            job, end_s = self.jobs[row], float(self.slice_end_s[row])
            self.outcome.jct_s[job.index] = end_s - job.arrival_s
            self.outcome.end_s = max(self.outcome.end_s, end_s)
            ended.append(job.index)
        keep = np.ones(len(self.jobs), dtype=np.bool_)
        keep[done] = False
        self.jobs = [job for job, stays in zip(self.jobs, keep.tolist(), strict=True) if stays]
        for name in self.by_job:
            setattr(self, name, getattr(self, name)[keep])
        return ended

    def arrive(self) -> None:
        """Take in all jobs that have come by now."""
        new: list[GavelJob] = []
        while self.next is not None and self.next.arrival_s <= self.now:
            new.append(self.next)
            self.next = next(self.to_come, None)
        if not new:
            return
        self.stale = True
        self.jobs += new
        count, kinds = len(new), len(TYPES)
        none = np.zeros((count, kinds))
        self.steps_left = np.append(self.steps_left, [job.steps for job in new])
        self.throughput = np.vstack([self.throughput, *(self._speeds(job) for job in new)])
        self.scale_factor = np.append(self.scale_factor, [job.scale_factor for job in new])
        self.share = np.vstack([self.share, none])
        self.allocated = np.append(self.allocated, np.zeros(count, dtype=np.bool_))
        self.received_s = np.vstack([self.received_s, none + self.head_start_s])
        self.deficit_s = np.vstack([self.deficit_s, none])
        self.on = np.append(self.on, np.full(count, NOWHERE, dtype=np.intp))
        self.slice_end_s = np.append(self.slice_end_s, np.zeros(count))
        self.slice_steps = np.append(self.slice_steps, np.zeros(count))

    def _speeds(self, job: GavelJob) -> NDArray[np.float64]:
        """Return its steps/s by type, 0 where a round has no step. Raises WorkloadError if it never runs."""
        cluster = self.cluster
        runs = self.runs_on(job)
        if not np.any(runs & (self.capacity >= job.scale_factor)):
            raise WorkloadError(
                f"job {job.index} ({job.model} on {job.scale_factor}) can never run on "
                f"{':'.join(map(str, cluster.capacity))} of {':'.join(TYPES)} in rounds of {cluster.round_s:g} s"
            )
        return np.where(runs, job.throughput, 0.0)

    def runs_on(self, job: GavelJob) -> NDArray[np.bool_]:
        """Return on which types it does at least a step in a round."""
        steps = np.floor(job.throughput * (self.cluster.round_s - self.cluster.restart_cost_s))
        return np.asarray(steps > 0)

    def reallocate(self) -> None:
        """Book what each job is behind by, and make a new allocation, if that is due."""
        due = self.now - self.last_allocation >= self.cluster.recompute_s or self.last_allocation == 0.0
        if not (self.stale and due):
            return
        received_s = self.received_s - self.head_start_s
        elapsed_s = self.now - self.last_allocation
        self.deficit_s = deficits(self.deficit_s, self.share, received_s, elapsed_s)
        self.received_s[:] = self.head_start_s
        self.given_s[:] = self.head_start_s * len(self.jobs)
        self.last_allocation, self.stale = self.now, False
        began = time.process_time()
        self.share = self.ask(
            Waiting(
                job=np.array([job.index for job in self.jobs], dtype=np.int64),
                row=np.array([job.row for job in self.jobs], dtype=np.int64),
                throughput=self.throughput,
                scale_factor=self.scale_factor,
                weight=np.array([job.weight for job in self.jobs]),
                steps=np.array([job.steps for job in self.jobs]),
                steps_left=self.steps_left.copy(),
                age_s=self.now - np.array([job.arrival_s for job in self.jobs]),
                capacity=self.capacity,
            ),
            elapsed_s,
        )
        self.allocated[:] = True
        self.outcome.allocations += 1
        self.outcome.allocating_s += time.process_time() - began

    def ask(self, waiting: Waiting, elapsed_s: float) -> NDArray[np.float64]:
        """Return the new fractions of jobs alone, so long after the last ones were made."""
        del elapsed_s  # pairs need it
        answer = self.allocate(waiting)
        return answer.x if isinstance(answer, Division) else answer

    def order_of_types(self) -> list[int]:
        """Return the order in which types choose in this round."""
        order = list(range(len(TYPES)))
        if self.manner.shuffled:
            self.order.shuffle(order)
        return order

    def assigned(
        self, order: Sequence[int], rows: NDArray[np.intp] | slice, unassigned: NDArray[np.int64]
    ) -> NDArray[np.intp]:
        """Return on which types these jobs are, if so much is free."""
        return assign(
            order,
            priorities(self.share, self.received_s, self.given_s, self.throughput)[rows],
            self.deficit_s[rows],
            self.share[rows],
            throughput=self.throughput[rows],
            scale_factor=self.scale_factor[rows],
            capacity=unassigned,
            entitled_only=self.manner.entitled_only,
        )

    def _start(self) -> None:
        """Begin the round: set the type of each job, and the length of each slice."""
        cluster, outcome = self.cluster, self.outcome
        before = self.on
        after = self.place()
        after[~self.allocated] = NOWHERE  # it had been given a place, which stays empty
        self.on = after
        rows = np.flatnonzero(after != NOWHERE)
        if len(rows) == 0:
            return
        change = changes(before, after)
        speed = self.speeds(rows, after[rows])
        cost_s = np.where(change.started[rows], cluster.restart_cost_s, 0.0)
        steps = np.minimum(np.floor(speed * (cluster.round_s - cost_s)), self.steps_left[rows])
        took_s = cost_s + steps / speed
        self.slice_steps[rows] = steps
        self.slice_end_s[rows] = self.now + took_s
        outcome.rounds += 1
        outcome.busy_s += float(self.held(rows, took_s).sum())
        outcome.restarting_s += float(self.scale_factor[rows] @ cost_s)
        outcome.starts += int(change.started.sum())
        outcome.could_renew += int((before != NOWHERE).sum())
        outcome.renewed += int(change.renewed.sum())

    def place(self) -> NDArray[np.intp]:
        """Return on which types jobs are in this round."""
        return self.assigned(self.order_of_types(), slice(None), self.capacity)

    def speeds(self, rows: NDArray[np.intp], kinds: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return steps/s of these jobs on these types."""
        return self.throughput[rows, kinds]

    def held(self, rows: NDArray[np.intp], took_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return accelerator-seconds of slices of so many seconds."""
        return self.scale_factor[rows] * took_s
