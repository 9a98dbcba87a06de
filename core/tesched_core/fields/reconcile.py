"""Reconciliation of one field of jobs: what is wanted, what tesched has set, and what Slurm shows.

    decide(want, change, shown, now) -> (change', value to be set)

Definitions
    want       what an order or a policy wants a job's field to be, said anew in each cycle for as long as it does
    change     what tesched has set of the field, and the job's own value, kept until that is seen to be back
    standing   where Slurm shows the field to be, by the change: at the value that was set, at an earlier one of
               tesched's, at the job's own, or at one that others have set

Principle
    No order and no policy sets, remembers, follows and puts back a value by itself. The same function sets what is
    wanted, sends again what was lost, and puts back what is not wanted any more; `tesched undo` is the same with no
    want at all. So each of these is one case, whatever the field is:

    - A change is believed when it is seen, and so is its end: a command that got no answer may have arrived, and is
      awaited for `RESEND_AFTER_S`.
    - What others have set is theirs. It counts as the job's own value from then on, or is left for as long as the field
      is wanted (`FieldRule.yields_to_others`).
    - A job that an answer of slurmctld does not show (`context.absent`) is left until it is shown again.
    - In shadow mode nothing was set, so nothing is put back: the change is `dry`.
    - What Slurm has refused is left for a while (`model/refused.py`); so is what exceeds `FieldRule.most_a_poll`.

    What a field needs beyond this is its rule (`FieldRule`): how it is read, and when it can be set.

Worked example
    Array 10 has no throttle (0), and SLAQ wants two tasks: `set 2`, own 0. At the next poll Slurm shows 2, and SLAQ
    wants 3: `set 3`, own 0, earlier 2. A user sets 5: the change is forgotten, and 5 is the user's. Had SLAQ ended
    while 2 was shown, `set 0` would be sent at each poll until 0 is seen.

Source
    tesched's own; as the reconcilers of orchestrators do for what they run.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from math import inf
from typing import Any, ClassVar, Generic, TypeVar

from tesched_core.context import RESEND_AFTER_S, CycleContext
from tesched_core.fields.contract import Lever, Orders, certainly_failed
from tesched_core.model.actions import FailureKind, Outcome, Reason, SetField, Status, sets
from tesched_core.model.change import Change
from tesched_core.model.cluster import Job
from tesched_core.model.field import Field
from tesched_core.model.memory import Memory
from tesched_core.model.refused import PUTS_BACK
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import Snapshot

V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class Want(Generic[V]):
    """A value that a field of a job is to have in this cycle, and why; its order, if any, is in `why`."""

    job_id: JobId
    value: V
    why: Reason


class Standing(Enum):
    """Where Slurm shows a field to be, by what tesched has set of it."""

    IN_PLACE = auto()
    #: at a value that tesched had set before
    EARLIER = auto()
    OWN = auto()
    #: at a value that others have set
    OTHERS = auto()

    @property
    def is_ours(self) -> bool:
        """Check whether it is a value of tesched's."""
        return self in {Standing.IN_PLACE, Standing.EARLIER}


def standing(one: Change[V], shown: V) -> Standing:
    """Return where a field stands that is shown with this value."""
    if shown == one.previous:
        return Standing.OWN
    if shown == one.value:
        return Standing.IN_PLACE
    return Standing.EARLIER if one.before is not None and shown == one.before else Standing.OTHERS


def is_on_its_way(one: Change[V], now: UnixSeconds) -> bool:
    """Check whether a command that sets the change's value may yet arrive; it has not been seen to."""
    return one.taken_at is None and now - one.at <= RESEND_AFTER_S


def decide(
    want: Want[V] | None, one: Change[V] | None, shown: V, now: UnixSeconds
) -> tuple[Change[V] | None, V | None]:
    """Return a known change after this cycle (None: there is none any more), and the value to be set (None: none).

    Pure. A first change is made by `first`, as it needs the rule's name.
    """
    if one is None or (one.restored and want is not None):
        return one, None
    where = standing(one, shown)
    if want is None:
        if one.dry or one.restored or where is Standing.OTHERS:
            return None, None
        if where is Standing.OWN:
            return (one if is_on_its_way(one, now) and one.value != one.previous else None), None
        seen = where is Standing.IN_PLACE and one.taken_at is None
        return replace(one, taken_at=now) if seen else one, one.previous
    in_force = one.value if one.dry else shown
    if want.value == in_force or (want.value == one.value and is_on_its_way(one, now)):
        return one, None
    before = shown if where.is_ours else None
    order_id = want.why.order_id
    return replace(one, value=want.value, before=before, at=now, taken_at=None, order_id=order_id), want.value


def unsent(one: Change[V], *, dry: bool) -> Change[V]:
    """Return a change whose last value was not set for certain: the one before it is in place, or none."""
    if one.before is not None:
        return replace(one, value=one.before, before=None)
    return replace(one, dry=True) if dry else replace(one, value=one.previous)


class FieldRule(Lever, Generic[V]):
    """Rule of one field of jobs: how it is read, when it can be set, and who wants what of it."""

    field: ClassVar[Field]
    #: most jobs whose field is set in one poll: each is a command, and the others come with the next poll
    most_a_poll: ClassVar[float] = inf
    #: what others have set is left for as long as the field is wanted; else it counts as the job's own from then on
    yields_to_others: ClassVar[bool] = False

    @abstractmethod
    def read(self, job: Job) -> V:
        """Return the value that Slurm shows."""

    @abstractmethod
    def wants(self, intents: Sequence[Any], orders: Orders, context: CycleContext) -> Iterable[Want[V]]:
        """Yield what is wanted in this cycle, of each job once."""

    @abstractmethod
    def back(self, one: Change[V], context: CycleContext) -> tuple[V, Reason]:
        """Return the value that puts the field back, and why in words."""

    def record(self, job_id: JobId, context: CycleContext) -> Job | None:
        """Return the record in which the field of this job is shown."""
        return context.snapshot.jobs.get(job_id)

    def can_be_set(self, job: Job) -> bool:
        """Check whether Slurm takes a change of the field of this job."""
        return job.pending

    def unsent(self, one: Change[V], outcome: Outcome) -> Change[V] | None:
        """Return a change after its command did not reach the job; None: nothing is left of it."""
        is_dry = outcome.status is Status.WOULD
        return unsent(one, dry=is_dry) if is_dry or certainly_failed(outcome) else one

    def follow(self, context: CycleContext) -> None:
        """See which changes have arrived, which are over, and which others have made theirs."""
        changes = context.changes_of(self.name)
        for job_id, one in list(changes.items()):
            if job_id in context.absent:
                continue
            job = self.record(job_id, context)
            if job is None or not self.can_be_set(job):
                del changes[job_id]
                continue
            if one.restored or one.dry:
                continue
            where = standing(one, self.read(job))
            if where is Standing.IN_PLACE and one.taken_at is None:
                changes[job_id] = replace(one, taken_at=context.now)
            elif where is Standing.OTHERS and self.yields_to_others:
                changes[job_id] = replace(one, restored=True)
            elif where is Standing.OTHERS:
                del changes[job_id]

    def carry_out(self, intents: Sequence[Any], orders: Orders, context: CycleContext) -> None:
        """Set what is wanted in this cycle, and put back what is not wanted any more."""
        self.reconcile({want.job_id: want for want in self.wants(intents, orders, context)}, context)

    def restore(self, orders: Orders, context: CycleContext) -> None:
        """Put all back: nothing is wanted."""
        self.reconcile({}, context)

    def reconcile(self, wants: Mapping[JobId, Want[V]], context: CycleContext) -> None:
        """Set what is wanted, and put back what is not; changes and actions go to the context."""
        changes = context.changes_of(self.name)
        for job_id, one in list(changes.items()):
            if job_id not in wants and job_id not in context.absent:
                job = self.record(job_id, context)
                after = self._put_back(one, job, context) if job is not None and self.can_be_set(job) else None
                if after is None:
                    del changes[job_id]
                else:
                    changes[job_id] = after
        for job_id, want in wants.items():
            job = self.record(job_id, context)
            if job is not None and job_id not in context.absent and self.can_be_set(job):
                self._set(want, job, context)

    def learned(self, outcomes: Sequence[Outcome], orders: Orders, context: CycleContext) -> None:
        """Take in which commands did not reach Slurm; in shadow mode none did."""
        changes = context.changes_of(self.name)
        for outcome in outcomes:
            one = changes.get(outcome.action.job_id)
            if one is None or not sets(outcome.action, self.field):
                continue
            gone = outcome.failure is not None and outcome.failure.kind is FailureKind.NOT_FOUND
            if not gone and (outcome.status is Status.SENT or outcome.action.reason.code in PUTS_BACK):
                continue
            after = None if gone else self.unsent(one, outcome)
            if after is None:
                del changes[one.job_id]
            else:
                changes[one.job_id] = after

    def outstanding(self, memory: Memory, snapshot: Snapshot) -> int:
        """Count the changes that are to be put back, and can be."""
        jobs = snapshot.jobs
        return sum(
            not (one.restored or one.dry or one.value == one.previous)
            and job_id in jobs
            and self.can_be_set(jobs[job_id])
            for job_id, one in memory.changes_of(self.name).items()
        )

    def _put_back(self, one: Change[V], job: Job, context: CycleContext) -> Change[V] | None:
        shown = self.read(job)
        after, own = decide(None, one, shown, context.now)
        if own is not None and self._may_send(job, context, puts_back=True):
            value, why = self.back(one, context)
            self._send(one.job_id, value, shown, why, context)
        return after

    def _set(self, want: Want[V], job: Job, context: CycleContext) -> None:
        changes, shown = context.changes_of(self.name), self.read(job)
        one = changes.get(want.job_id)
        after, value = decide(want, one, shown, context.now)
        if one is None and want.value != shown:
            after, value = self._first(want, shown, context), want.value
        if after is None or value is None or not self._may_send(job, context):
            return
        changes[want.job_id] = after
        self._send(want.job_id, value, shown, want.why, context)
        self.was_set(one, want, context)

    def was_set(self, before: Change[V] | None, want: Want[V], context: CycleContext) -> None:
        """Record, where the cycle's log is to say so, that a want has been carried out; `before`: its change so far."""

    def _first(self, want: Want[V], shown: V, context: CycleContext) -> Change[V]:
        return Change(
            lever=self.name,
            job_id=want.job_id,
            field=self.field,
            previous=shown,
            value=want.value,
            at=context.now,
            since=context.now,
            order_id=want.why.order_id,
        )

    def _may_send(self, job: Job, context: CycleContext, *, puts_back: bool = False) -> bool:
        """Check that Slurm does not refuse such a change, and that this poll has not set as many as it may."""
        if context.is_refused(self.field, job.user, puts_back=puts_back):
            return False
        return self.most_a_poll == inf or sum(sets(action, self.field) for action in context.actions) < self.most_a_poll

    def _send(self, job_id: JobId, value: V, shown: V, why: Reason, context: CycleContext) -> None:
        # The rule's field and its values have one type.
        context.actions.append(
            SetField(job_id=job_id, reason=why, field=self.field, value=value, previous=shown)  # type: ignore[call-overload]
        )
