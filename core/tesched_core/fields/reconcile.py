"""Reconciliation of one field of jobs: what is wanted, what tesched has set, and what Slurm shows.

    wanted(want, change, state, shown) -> change'      unwanted(change, state) -> change', is to be put back

Definitions
    want       what an order or a policy wants a job's field to be, said anew in each cycle for as long as it does
    change     what tesched has set of the field, and the job's own value, kept until that is seen to be back
    state      where Slurm shows the field to be, by the change: at the value that was set, at an earlier one of
               tesched's, at the job's own, or at one that others have set

Principle
    No order and no policy sets, remembers, follows and puts back a value by itself. The same function sets what is
    wanted, sends again what was lost, and puts back what is not wanted any more; `tesched undo` is the same with no
    want at all. So each of these is one case, whatever the field is:

    - A change is believed when it is seen, and so is its end: a command that got no answer may have arrived, and is
      awaited for `RESEND_AFTER_S`.
    - What others have set is theirs, and counts as the job's own value from then on; a rule may say that it is left for
      as long as the field is wanted (`FieldRule.taken_over`).
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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from math import inf
from typing import Any, ClassVar, Generic, TypeVar

from tesched_core.context import RESEND_AFTER_S, CycleContext
from tesched_core.fields.contract import Lever, Orders, certainly_failed, final
from tesched_core.model.actions import Outcome, Reason, SetField, Status, sets
from tesched_core.model.change import By, Change, first_change
from tesched_core.model.cluster import Job
from tesched_core.model.field import Field
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order
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
    #: what for, where a field is wanted for several purposes
    by: By | None = None
    #: it is tried although Slurm has refused such a change: without it the order ends
    insists: bool = False


class FieldState(Enum):
    """Where Slurm shows a field to be, by what tesched has set of it."""

    IN_PLACE = auto()
    #: at a value that tesched had set before
    EARLIER = auto()
    OWN = auto()
    #: at a value that others have set
    OTHERS = auto()
    #: others have set a part of it, and the rest is tesched's
    PARTLY = auto()

    @property
    def is_ours(self) -> bool:
        """Check whether it is a value of tesched's."""
        return self in {FieldState.IN_PLACE, FieldState.EARLIER}


def state_of(one: Change[V], shown: V) -> FieldState:
    """State of a field that is shown with this value."""
    if shown == one.previous:
        return FieldState.OWN
    if shown == one.value:
        return FieldState.IN_PLACE
    return FieldState.EARLIER if one.before is not None and shown == one.before else FieldState.OTHERS


def is_on_its_way(one: Change[V], now: UnixSeconds, within_s: float = RESEND_AFTER_S) -> bool:
    """Check whether a command that sets the change's value may yet arrive; it has not been seen to."""
    # Not after a clock that was set back by more, or it would be awaited until it is that time again.
    return one.taken_at is None and abs(now - one.at) <= within_s


def unwanted(one: Change[V], where: FieldState, now: UnixSeconds) -> tuple[Change[V] | None, bool]:
    """Rest of a change that is not wanted any more (None: it is over), and whether it is to be put back."""
    if one.dry or one.restored or where is FieldState.OTHERS:
        return None, False
    if where is FieldState.OWN:
        return (one if is_on_its_way(one, now) and one.value != one.previous else None), False
    return replace(one, taken_at=now if one.taken_at is None and where is FieldState.IN_PLACE else one.taken_at), True


def wanted(
    want: Want[V], one: Change[V], where: FieldState, shown: V, *, now: UnixSeconds, again_s: float = RESEND_AFTER_S
) -> Change[V]:
    """Return a change that is wanted; another one than before if the value is to be set, for the first time or again.

    `shown` is what Slurm shows, and after `again_s` seconds a command that has not been seen to arrive is lost.
    """
    in_force = one.value if one.dry else shown
    on_its_way = want.value == one.value and is_on_its_way(one, now, again_s)
    if one.restored or want.value == in_force or on_its_way:
        return one
    before = shown if where.is_ours else None
    return replace(one, value=want.value, before=before, at=now, taken_at=None, order_id=want.why.order_id)


def unsent(one: Change[V], *, dry: bool) -> Change[V]:
    """Return a change whose last value was not set for certain: the one before it is in place, or none."""
    if one.before is not None:
        return replace(one, value=one.before, before=None)
    return replace(one, dry=True) if dry else replace(one, value=one.previous)


def _first(want: Want[V], field: Field, shown: V, now: UnixSeconds) -> Change[V]:
    return first_change(want.job_id, field, shown, want.value, now, order_id=want.why.order_id)


class FieldLever(Lever, Generic[V]):
    """Lever that sets a field of jobs to what is wanted of it."""

    field: ClassVar[Field]
    #: most jobs whose field is set in one poll: each is a command, and the others come with the next poll
    most_a_poll: ClassVar[float] = inf

    @abstractmethod
    def read(self, job: Job) -> V:
        """Return the value that Slurm shows."""

    def record(self, job_id: JobId, context: CycleContext) -> Job | None:
        """Return the record in which the field of this job is shown."""
        return context.snapshot.jobs.get(job_id)

    def can_be_set(self, job: Job) -> bool:
        """Check whether Slurm takes a change of the field of this job."""
        return job.pending

    def wants_of(self, order: Order, context: CycleContext) -> Iterable[Want[V]]:
        """Yield what an open order wants of its preemptor before its victims are notified."""
        return ()

    @abstractmethod
    def changed(self, want: Want[V], one: Change[V] | None, job: Job, context: CycleContext) -> Change[V] | None:
        """Change by which the field gets what is wanted, the first one or the one after `one`; None: it is left."""

    def setting(self, after: Change[V], why: Reason, job: Job) -> SetField:
        """Action that sets the value of a change."""
        return self.action(after.job_id, why, after.value, self.read(job))

    def was_set(self, before: Change[V] | None, after: Change[V], want: Want[V], context: CycleContext) -> None:
        """Record, where the cycle's log is to say so, that a want has been carried out."""

    def set(self, want: Want[V], context: CycleContext) -> None:
        """Set what is wanted of one job, where it is not in place, and not on its way."""
        changes, job = context.changes_of(self.name), self.record(want.job_id, context)
        if job is None or want.job_id in context.absent or not self.can_be_set(job):
            return
        one = changes.get(want.job_id)
        after = self.changed(want, one, job, context)
        if after is None:
            return
        if not after.restored:
            if not want.insists and not self._may_send(after, job, context):
                return
            context.actions.append(self.setting(after, want.why, job))
        changes[want.job_id] = after
        self.was_set(one, after, want, context)

    def action(self, job_id: JobId, why: Reason, value: V, previous: V) -> SetField:
        """Return the action that sets the field: the rule's values have the type that its field takes."""
        return SetField(job_id=job_id, reason=why, field=self.field, value=value, previous=previous)  # type: ignore[call-overload, no-any-return]

    def _may_send(self, one: Change[V], job: Job, context: CycleContext, *, puts_back: bool = False) -> bool:
        """Check that Slurm does not refuse such a change, and that this poll has not set as many as it may."""
        if context.is_refused(one.field, job.user, puts_back=puts_back):
            return False
        return self.most_a_poll == inf or sum(sets(action, self.field) for action in context.actions) < self.most_a_poll


class FieldRule(FieldLever[V]):
    """Rule of one field of jobs: how it is read, when it can be set, and who wants what of it."""

    #: seconds after which a command that is not seen to have arrived is sent again; 0: at each poll
    again_s: ClassVar[float] = RESEND_AFTER_S

    def wants(self, intents: Sequence[Any], orders: Orders, context: CycleContext) -> Iterable[Want[V]]:
        """Yield what is wanted in this cycle, of each job once; nothing where orders set the field themselves."""
        return ()

    @abstractmethod
    def back(self, one: Change[V], job: Job, context: CycleContext) -> SetField:
        """Action that puts the field back."""

    def state_of(self, one: Change[V], job: Job) -> FieldState:
        """State of the field, as Slurm shows it."""
        return state_of(one, self.read(job))

    def taken_over(self, one: Change[V]) -> Change[V] | None:
        """Record that stays of a change once others have set the field; None: that is the job's own now."""
        return None

    def over(self, one: Change[V]) -> Change[V] | None:
        """Record that stays of a change that is seen to be put back; None: nothing."""
        return None

    def unset(self, one: Change[V], job: Job | None) -> Change[V] | None:
        """Record that stays of a change where the field can't be set any more; None: nothing."""
        return None

    def unsent(self, one: Change[V], outcome: Outcome) -> Change[V] | None:
        """Return a change after its command did not reach the job; None: nothing is left of it."""
        is_dry = outcome.status is Status.WOULD
        # Of one that was requested before, and has not been seen, it is not known whether that will arrive, unless
        # Slurm says no.
        is_known = one.at == one.since or one.before is not None or final(outcome)
        return unsent(one, dry=is_dry) if is_dry or (is_known and certainly_failed(outcome)) else one

    def changed(self, want: Want[V], one: Change[V] | None, job: Job, context: CycleContext) -> Change[V] | None:
        """Change by which the field gets what is wanted: it is set, or set again where that was lost."""
        shown = self.read(job)
        if one is None:
            return None if want.value == shown else _first(want, self.field, shown, context.now)
        after = wanted(want, one, self.state_of(one, job), shown, now=context.now, again_s=self.again_s)
        return None if after == one else after

    def follow(self, context: CycleContext) -> None:
        """See which changes have arrived, which are over, and which others have made theirs."""
        changes = context.changes_of(self.name)
        for one, job in self._settable(changes, context):
            if one.restored or one.dry:
                continue
            where = self.state_of(one, job)
            if where is FieldState.IN_PLACE and one.taken_at is None:
                changes[one.job_id] = replace(one, taken_at=context.now)
            elif where is FieldState.OTHERS:
                self._keep(one, self.taken_over(one), context)

    def _settable(self, changes: Mapping[JobId, Change[V]], context: CycleContext) -> Iterator[tuple[Change[V], Job]]:
        """Yield the changes whose jobs are seen and can be set; what follows for those that can't be is kept."""
        for job_id, one in list(changes.items()):
            if job_id in context.absent:
                continue
            job = self.record(job_id, context)
            if job is None or not self.can_be_set(job):
                self._keep(one, self.unset(one, job), context)
                continue
            yield one, job

    def carry_out(self, intents: Sequence[Any], orders: Orders, context: CycleContext) -> None:
        """Set what is wanted in this cycle, and put back what is not wanted any more."""
        self.reconcile({want.job_id: want for want in self.wants(intents, orders, context)}, context)

    def restore(self, orders: Orders, context: CycleContext) -> None:
        """Put all back: nothing is wanted."""
        self.reconcile({}, context)

    def reconcile(self, wants: Mapping[JobId, Want[V]], context: CycleContext) -> None:
        """Set what is wanted, and put back what is not; changes and actions go to the context."""
        self.put_back_others(wants, context)
        for want in wants.values():
            self.set(want, context)

    def put_back_others(self, wants: Collection[JobId], context: CycleContext) -> None:
        """Put back what is set of all jobs but these."""
        others = {job_id: one for job_id, one in context.changes_of(self.name).items() if job_id not in wants}
        for one, job in self._settable(others, context):
            after, is_ours = unwanted(one, self.state_of(one, job), context.now)
            self._keep(one, self.over(one) if after is None else after, context)
            if is_ours and self._may_send(one, job, context, puts_back=True):
                context.actions.append(self.back(one, job, context))

    def learned(self, outcomes: Sequence[Outcome], orders: Orders, context: CycleContext) -> None:
        """Take in which commands did not reach Slurm; in shadow mode none did."""
        changes = context.changes_of(self.name)
        for outcome in outcomes:
            one = changes.get(outcome.action.job_id)
            if one is None or not sets(outcome.action, self.field):
                continue
            # No answer says that a change is over, nor "not found": of a job that is gone none is seen any more.
            if outcome.status is not Status.SENT and outcome.action.reason.code not in PUTS_BACK:
                self._keep(one, self.unsent(one, outcome), context)

    def outstanding(self, memory: Memory, snapshot: Snapshot) -> int:
        """Count the changes that are to be put back, and can be."""
        jobs = snapshot.jobs
        return sum(
            not (one.restored or one.dry or one.value == one.previous)
            and job_id in jobs
            and self.can_be_set(jobs[job_id])
            for job_id, one in memory.changes_of(self.name).items()
        )

    def _keep(self, one: Change[V], after: Change[V] | None, context: CycleContext) -> None:
        changes = context.changes_of(self.name)
        if after is None:
            changes.pop(one.job_id, None)
        else:
            changes[one.job_id] = after
