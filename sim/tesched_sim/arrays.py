"""Job arrays of the simulated Slurm, and the trainings whose workers their tasks are.

An array's tasks are rows of the workload one after the other, submitted at the same time. Those that have not started
are one record, which has the id of the last of them, as in Slurm; a task that starts becomes a record of its own.
Slurm ends no task for a throttle: while as many run as it allows, none starts.

A training is as far as its workers have brought it, together: each does an iteration in `worker_s` seconds by itself,
and n of them n in that time. It reports each iteration with its loss, as `tesched_report` does. When it has done its
iterations its running tasks end, and those that wait are cancelled (docs/howto/reports.md).
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from math import floor

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.job_report import MOST_POINTS, Curve, Reported, thinned


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingModel:
    """A training: how much there is to do, and how its loss falls."""

    #: iterations until it is done
    iterations: int
    #: seconds of one worker for one iteration
    worker_s: float
    #: its loss is `floor + fall * rate ** iteration`
    floor: float = 0.1
    fall: float = 1.0
    rate: float = 0.95

    def loss(self, iterations: NDArray[np.float64]) -> NDArray[np.float64]:
        """Loss after so many iterations [points]."""
        losses: NDArray[np.float64] = self.floor + self.fall * self.rate**iterations
        return losses


@dataclass(slots=True, kw_only=True)
class TrainingProgress:
    """How far one training is."""

    model: TrainingModel
    #: iterations done, and up to when that is counted
    done: float = 0.0
    counted_s: float = 0.0
    #: [points, 4]: iteration, loss, when, and the work, which it does not report
    points: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 4)))

    def count(self, now: float, workers: int) -> None:
        """Count what `workers` have done since it was last counted, and report the iterations that ended in it."""
        each_s = (now - self.counted_s) * workers / self.model.worker_s
        done = min(self.done + each_s, float(self.model.iterations))
        # What is a rounding error short of an iteration is one.
        ended = np.arange(floor(self.done + 1e-9) + 1, floor(done + 1e-9) + 1, dtype=np.float64)
        if len(ended):
            at = self.counted_s + (ended - self.done) * self.model.worker_s / workers
            rows = np.column_stack([ended, self.model.loss(ended), at, np.full(len(ended), np.nan)])
            points = np.concatenate([self.points, rows])
            self.points = points[thinned(len(points))] if len(points) > MOST_POINTS else points
        self.done, self.counted_s = done, now

    def ends_s(self, workers: int) -> float:
        """When it will have done its iterations, if it keeps so many workers, of which there is one at least."""
        return self.counted_s + (self.model.iterations - self.done) * self.model.worker_s / workers

    @property
    def is_done(self) -> bool:
        """Check whether all iterations are done."""
        return self.done >= self.model.iterations - 1e-6

    @property
    def newest(self) -> int:
        """The last iteration that was reported; 0: none was."""
        return int(self.points[-1, 0]) if len(self.points) else 0

    def reported(self) -> Reported:
        """What its tasks have reported, gathered."""
        return Reported(curve=Curve.of(self.points))


class Arrays:
    """Which rows are tasks of one array, how many of them run, and how many may."""

    def __init__(self, array: NDArray[np.int32], throttles: NDArray[np.int32]) -> None:
        """Take the array of each row [jobs], -1 for none, and each array's own throttle [arrays], 0 for none."""
        #: [jobs]
        self.of: list[int] = array.tolist()
        self.rows: list[list[int]] = [np.flatnonzero(array == number).tolist() for number in range(len(throttles))]
        self.throttle: list[int] = throttles.tolist()
        self.running = [0] * len(throttles)
        #: of each array: the rows that wait, in order, and the last of them that its throttle lets start
        self.waiting: list[list[int]] = [[] for _ in throttles]
        self.open_to = [-1] * len(throttles)
        #: how many of its tasks slurmctld knows
        self.known = [0] * len(throttles)
        #: rows that have started once: each is a record of its own
        self.started: set[int] = set()

    def waits(self, row: int) -> None:
        """Take a row among those that wait."""
        if self.of[row] >= 0:
            rows = self.waiting[self.of[row]]
            at = bisect_left(rows, row)
            if at == len(rows) or rows[at] != row:
                rows.insert(at, row)

    def waits_no_more(self, row: int) -> None:
        """Take a row out of those that wait."""
        if self.of[row] >= 0:
            rows = self.waiting[self.of[row]]
            del rows[bisect_left(rows, row)]

    def record_of(self, row: int) -> int:
        """Row whose id is the array's."""
        return self.rows[self.of[row]][-1]

    def is_hidden(self, row: int) -> bool:
        """Check whether a waiting row has no record of its own: another row's stands for it."""
        return self.of[row] >= 0 and row not in self.started and row != self.record_of(row)

    def index_of(self, row: int) -> int:
        """Index of a task in its array."""
        return row - self.rows[self.of[row]][0]

    def together(self, row: int) -> list[int]:
        """Rows that one record stands for."""
        if self.of[row] < 0 or row in self.started:
            return [row]
        return [one for one in self.rows[self.of[row]] if one not in self.started]
