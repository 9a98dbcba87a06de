"""A training that is a job array: what its workers reported, gathered into one report.

Definitions
    training   a job array with tasks that work on one model. Its report stands under the array's id.
    worker     a task of it. It reports its losses under its own id, 120_4; iterations count for the whole training.
    part       the losses of one worker, or of several that were gathered before, as one curve.

Principle
    Workers report at different iterations, at different times, some twice, and some of them are gone: slurmctld forgets
    a task some minutes after its end. So:
    - A worker's curve holds from its first iteration to its last one; between two points it is a straight line.
    - The loss after an iteration is the mean over the workers with a curve that holds there, each counting as one.
      Workers that took over from another, and reported some iterations again, are averaged with it there.
    - Work per core-second is the sum over those that reported it there: what all of them do in a second of a core each.
    - An iteration was reached when the first worker reported it.
    - A worker that slurmctld has forgotten stays in the mean: such parts are gathered into one, which counts as
      many.
    The order in which workers were heard, and repeated reports, change nothing. Speeds stay with the tasks.

    The newest iterations may be those of the fastest worker alone, until the others are heard.

Worked example
    Task 0 reported 0: 8, 10: 4; task 1 reported 5: 4, 10: 2, 20: 1. Task 0 is 6 at 5, and task 1 holds from 5 on.
    So the training's losses are 0: 8, 5: (6 + 4) / 2 = 5, 10: (4 + 2) / 2 = 3, 20: 1.

Parameters
    none. A gathered curve has at most `report.MOST_POINTS` points: the newest half of them whole, the others thinned.

Source
    tesched's own. Data-parallel training averages the losses of equal shards. SLAQ's driver (docs/discussion/slaq.md)
    gets one loss an iteration from the training itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from tesched_core.model.arrays import NDArray, np
from tesched_core.model.cluster import Job
from tesched_core.model.job_report import Curve, Reported, thinned
from tesched_core.model.resources import JobId


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """The losses of some of a training's workers, as one curve."""

    curve: Curve
    #: [points] number of workers that each loss is the mean of
    workers: NDArray[np.float64]

    @staticmethod
    def of(curve: Curve) -> Part:
        """Return the part of one worker."""
        return Part(curve=curve, workers=np.ones(len(curve)))


def gathered(parts: Iterable[Part]) -> Part:
    """Return these parts as one (see the head of this file); an empty one if there is no loss in them."""
    told = [part for part in parts if len(part.curve)]
    if len(told) == 1:
        return told[0]
    grid = np.unique(np.concatenate([[], *(part.curve.iteration for part in told)]).astype(np.int64))
    grid = grid[thinned(len(grid))]
    shape = len(grid)
    workers, loss, work = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    works = np.zeros(shape, dtype=np.bool_)
    at = np.full(shape, np.inf)
    for part in told:
        curve = part.curve
        here = _within(grid, curve.iteration)
        many = np.interp(grid[here], curve.iteration, part.workers)
        workers[here] += many
        loss[here] += many * np.interp(grid[here], curve.iteration, curve.loss)
        at[here] = np.minimum(at[here], np.interp(grid[here], curve.iteration, curve.at))
        said = ~np.isnan(curve.work)
        if said.any():
            here = _within(grid, curve.iteration[said])
            work[here] += np.interp(grid[here], curve.iteration[said], curve.work[said])
            works[here] = True
    # A thinned grid may lie between two points of a part, and so outside of all parts.
    there = workers > 0
    rows = np.stack([grid, loss / np.maximum(workers, 1), at, np.where(works, work, np.nan)], axis=1)
    return Part(curve=Curve.of(rows[there]), workers=workers[there])


def _within(grid: NDArray[np.int64], iteration: NDArray[np.int64]) -> slice:
    return slice(int(np.searchsorted(grid, iteration[0])), int(np.searchsorted(grid, iteration[-1], side="right")))


def report_of(tasks: Mapping[int, Reported], ended: Part | None = None) -> Reported:
    """Return the report of a training: of its tasks, by index, and of those that are gone.

    Workload and target are those of the first task that says them. It is refused where a task's report is.
    """
    in_order = [tasks[index] for index in sorted(tasks)]
    parts = [Part.of(reported.curve) for reported in in_order]
    refused = [f"task {index}: {tasks[index].refused}" for index in sorted(tasks) if tasks[index].refused]
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    return Reported(
        curve=gathered(parts if ended is None else [*parts, ended]).curve,
        workload=next((reported.workload for reported in in_order if reported.workload), ""),
        target_loss=next((reported.target_loss for reported in in_order if reported.target_loss is not None), None),
        dropped=sum(reported.dropped for reported in in_order),
        refused=f"{refused[0]}{more}" if refused else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Array:
    """One training, as it was heard last."""

    #: by task index, of the tasks that slurmctld knows
    tasks: Mapping[int, Reported]
    ended: Part | None
    #: what the first task that is gone said of the training
    workload: str
    target_loss: float | None
    reported: Reported


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainings:
    """All trainings that are job arrays, as far as they reported anything."""

    _arrays: Mapping[JobId, _Array] = field(default_factory=dict)

    @property
    def reported(self) -> Mapping[JobId, Reported]:
        """Reports by the array's id; the same object for as long as nothing is new."""
        return MappingProxyType({array: one.reported for array, one in self._arrays.items()})

    def heard(
        self,
        jobs: Iterable[Job],
        reported: Mapping[JobId, Reported],
        earlier: Callable[[JobId, Collection[int]], Sequence[Curve]] = lambda _array, _there: (),
    ) -> Trainings:
        """Return the trainings after these jobs of a snapshot were heard; an array without any job is forgotten.

        `earlier` gives, for an array that is heard for the first time here, the curves of its tasks that are gone: all
        but those with these indices.
        """
        #: indices of the tasks that slurmctld knows
        there: dict[JobId, set[int]] = {}
        told: dict[JobId, dict[int, Reported]] = {}
        for job in jobs:
            if job.array_job_id is None:
                continue
            indices = there.setdefault(job.array_job_id, set())
            if job.array_task_id is not None:
                indices.add(job.array_task_id)
                if job.job_id in reported:
                    told.setdefault(job.array_job_id, {})[job.array_task_id] = reported[job.job_id]
        known = self._arrays.keys() & there.keys()
        arrays: dict[JobId, _Array] = {}
        for array in sorted(known | told.keys()):
            before = self._arrays.get(array) or _new(earlier(array, there[array]))
            arrays[array] = _again(before, told.get(array, {}))
        return Trainings(_arrays=arrays)


def _new(earlier: Sequence[Curve]) -> _Array:
    ended = gathered(map(Part.of, earlier)) if earlier else None
    return _Array(tasks={}, ended=ended, workload="", target_loss=None, reported=Reported())


def _again(before: _Array, tasks: Mapping[int, Reported]) -> _Array:
    """Array after these reports of its tasks."""
    gone = {index: told for index, told in before.tasks.items() if index not in tasks}
    new = gone or any(before.tasks.get(index) is not told for index, told in tasks.items())
    if not new:
        return before
    last = report_of(gone)
    ended = before.ended
    if gone:
        ended = gathered([*([ended] if ended else []), *(Part.of(told.curve) for told in gone.values())])
    workload, target_loss = before.workload or last.workload, before.target_loss
    target_loss = last.target_loss if target_loss is None else target_loss
    # The word of a forgotten worker holds for as long as no other says anything.
    silent = Reported(workload=workload, target_loss=target_loss)
    return _Array(
        tasks=dict(tasks),
        ended=ended,
        workload=workload,
        target_loss=target_loss,
        reported=report_of({**tasks, 1 + max(tasks, default=0): silent}, ended),
    )
