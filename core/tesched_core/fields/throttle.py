"""Throttle rule: how many tasks of a job array may run (ArrayTaskThrottle). Slurm ends none that runs.

A policy proposes `ThrottleArray` for an array at each poll for as long as it shares workers with others. The throttle
that an array came with is its user's limit: put back when no policy proposes one any more, or none of its tasks waits.
What others have set meanwhile is the user's limit from then on.

It is put back also when all tasks have ended, for as long as Slurm shows one of them: a user may requeue the array, and
its tasks would run by the throttle that it has (22.05.8). Where Slurm takes no such change, it is over with the array.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tesched_core.context import CycleContext
from tesched_core.fields.contract import Orders
from tesched_core.fields.reconcile import FieldRule, Want
from tesched_core.model.actions import FailureKind, Outcome, Reason, ReasonCode, SetField, sets
from tesched_core.model.change import Change
from tesched_core.model.cluster import Job
from tesched_core.model.field import Field
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.policy import ThrottleArray


class ThrottleRule(FieldRule[int]):
    """Throttles of job arrays, by the array's id."""

    name = Field.THROTTLE
    field = Field.THROTTLE
    intents = (ThrottleArray,)
    most_a_poll = 50

    def record(self, job_id: JobId, context: CycleContext) -> Job | None:
        """Return a record of the array: all show the throttle. One that has ended only where there is no other."""
        tasks = context.tasks_of(job_id)
        return next((task for task in tasks if not task.finished), next(iter(tasks), None))

    def can_be_set(self, job: Job) -> bool:
        """Return True: Slurm sets the throttle of an array whose tasks have ended, too."""
        return True

    def read(self, job: Job) -> int:
        """Read the number of tasks that may run; 0: any number."""
        return job.array_throttle

    def wants(self, intents: Sequence[Any], orders: Orders, context: CycleContext) -> Iterable[Want[int]]:
        """Yield the proposed throttles."""
        for one in intents:
            yield Want(job_id=one.job_id, value=one.tasks, why=Reason(code=ReasonCode.GETS_SHARE, text=one.why))

    def carry_out(self, intents: Sequence[Any], orders: Orders, context: CycleContext) -> None:
        """Set the proposed throttles, and put the others back. Paused, an array runs on as it is."""
        if not context.paused:
            super().carry_out(intents, orders, context)

    def back(self, one: Change[int], job: Job, context: CycleContext) -> SetField:
        """Put the array's own throttle back."""
        what = "no limit" if one.previous == 0 else str(one.previous)
        why = Reason(code=ReasonCode.SHARE_ENDED, text=f"put its throttle back to {what}")
        return self.action(one.job_id, why, one.previous, self.read(job))

    def learned(self, outcomes: Sequence[Outcome], orders: Orders, context: CycleContext) -> None:
        """Take in what became of the commands; of an array that has ended Slurm may take none, and nothing is left."""
        super().learned(outcomes, orders, context)
        for outcome in outcomes:
            array, failure = outcome.action.job_id, outcome.failure
            is_over = failure is not None and failure.kind is FailureKind.ALREADY_DONE
            if is_over and sets(outcome.action, self.field) and all(one.finished for one in context.tasks_of(array)):
                context.changes_of(self.name).pop(array, None)

    def outstanding(self, memory: Memory, snapshot: Snapshot) -> int:
        """Count the throttles that are to be put back: an array's id may be no task's any more."""
        here = {job.array_job_id for job in snapshot.jobs.values()}
        changes = memory.changes_of(self.name)
        return sum(one.value != one.previous and not one.dry and array in here for array, one in changes.items())


def in_place(seen: int, one: Change[int] | None) -> int:
    """Return the throttle that an array has, if it shows `seen`: in shadow mode, the one that it would have."""
    return seen if one is None or not one.dry else one.value


THROTTLE_RULE = ThrottleRule()
