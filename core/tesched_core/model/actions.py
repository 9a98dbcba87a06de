"""Actions on Slurm, their reasons and outcomes. Actions are data; only an actuator performs them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Literal, NewType, TypeAlias, TypeGuard, overload

from tesched_core.model.field import Field, FieldValue, HoldState, Nodes, NumberField
from tesched_core.model.notice import Target
from tesched_core.model.resources import JobId, UnixSeconds

#: A preemption under way; counted up from 1 in the memory, never used twice.
OrderId = NewType("OrderId", int)


class ReasonCode(StrEnum):
    """Why an action is taken."""

    #: the TE job must be first in the queue before resources are freed for it
    MAKE_ROOM_FIRST = "make_room_first"
    #: the TE job fits, and only the queue order keeps it from free resources
    ROOM_IS_FREE = "room_is_free"
    #: the victim is notified that it will have to go
    NOTICE = "notice"
    #: the grace period is over and the victim still runs
    GRACE_OVER = "grace_over"
    #: the victim has no grace period
    NO_GRACE = "no_grace"
    #: no signal was declared for the victim: it has Slurm's own SIGTERM and KillWait
    NO_SIGNAL = "no_signal"
    #: the victim died of its notice, or has saved its work and exited: it is to run again
    RUNS_AGAIN = "runs_again"
    #: a job depends on a victim that had died of its notice
    MENDS_DEPENDENCY = "mends_dependency"
    #: the victim is back in the queue, or lost: its user is notified
    TELLS_USER = "tells_user"
    #: the victim's CPUs are enough, and it loses nothing
    GIVES_CPUS = "gives_cpus"
    #: the CPUs of a suspended victim are free again, or it is not needed any more
    GOES_ON = "goes_on"
    #: Slurm leaves a job held that it requeued while it was suspended; which was not requested
    LEFT_HELD = "left_held"
    #: it has victims, and waits for their resources
    BOUND = "bound"
    #: it is bound to those nodes no more
    SET_FREE = "set_free"
    #: a victim waits to run again, ahead of the other best-effort jobs
    BACK_TO_THE_HEAD = "back_to_the_head"
    #: a victim that has left does not start again while others of its order still leave
    STAYS_AWAY = "stays_away"
    #: it fits into left-over resources, and is brought to the head of the best-effort queue
    FILLS_ROOM = "fills_room"
    #: it has started, or others took the resources: its place in the queue is its own again
    FILLED = "filled"
    #: this round's accelerators go to others; and it is its turn
    NOT_ITS_TURN = "not_its_turn"
    ITS_TURN = "its_turn"
    #: so many of its workers gain most in quality; and it is the array's own limit again
    GETS_SHARE = "gets_share"
    SHARE_ENDED = "share_ended"
    #: of those that wait, a core would lower its loss most
    GAINS_MOST = "gains_most"
    #: TE jobs may delay it no more (guard.bound), and one waits for it
    DUE = "due"
    #: the order has ended: what was changed for it is put back
    ORDER_ENDED = "order_ended"
    #: which jobs Slurm's plugin may preempt has changed, or the marks are renewed
    MARKS = "marks"
    #: an admin requested it
    ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Reason of an action: a code, the preemptor, and one sentence, made when it was decided."""

    code: ReasonCode
    text: str
    preemptor: JobId | None = None
    order_id: OrderId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """Send the victim its notice."""

    job_id: JobId
    reason: Reason
    #: "USR1", "USR2", "TERM", …
    signal: str
    #: which of its processes get it
    target: Target
    #: the run that is meant: the job's `restarts` when it was decided
    restarts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Requeue:
    """End the job's present run and put it back in the queue; a job that has ended meanwhile is left alone."""

    job_id: JobId
    reason: Reason
    #: the run that is meant; the actuator refuses if the job has restarted or ended since
    restarts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """End the job's present run for good, as its owner has said (`preempted=end`); else it is left alone."""

    job_id: JobId
    reason: Reason
    #: the run that is meant; the actuator refuses if the job has restarted or ended since, or its comment says no more
    #: that it ends
    restarts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """Put a job back in the queue after its run has ended in its grace period, while Slurm remembers it."""

    job_id: JobId
    reason: Reason
    #: the run that is meant; the actuator refuses if the job has restarted since
    restarts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend:
    """Stop the processes of the job's present run; gives back its CPUs, and neither memory nor GRES."""

    job_id: JobId
    reason: Reason
    #: the run that is meant; the actuator refuses if the job has restarted or ended since
    restarts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Let a suspended job go on."""

    job_id: JobId
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class SetField:
    """Set one field of a job's record in Slurm.

    nice        Lower is sooner. It leaves Slurm in charge of the priority.
    priority    An explicit priority. Slurm stops managing it, and ignores nice, until it is held and released.
    nodes       The nodes that must be part of a pending job's allocation (ReqNodeList), and in the same command how
                many it shall have; without a count that is not changed.
    begin       The time before which a pending job does not start (--begin); what has passed is now.
    throttle    How many tasks of a job array may run at once (ArrayTaskThrottle), by the array's id; 0: as many as
                fit. Those that run are left alone.
    hold        Whether a pending job is kept from starting.
    dependency  Written anew, after Slurm has called it never satisfied: it keeps to that by itself.
    """

    job_id: JobId
    reason: Reason
    field: Field
    value: FieldValue
    #: what it was before, to put it back
    previous: FieldValue

    @overload
    def __init__(self, *, job_id: JobId, reason: Reason, field: NumberField, value: int, previous: int) -> None: ...
    @overload
    def __init__(
        self, *, job_id: JobId, reason: Reason, field: Literal[Field.NODES], value: Nodes, previous: Nodes
    ) -> None: ...
    @overload
    def __init__(
        self, *, job_id: JobId, reason: Reason, field: Literal[Field.HOLD], value: HoldState, previous: HoldState
    ) -> None: ...
    @overload
    def __init__(
        self, *, job_id: JobId, reason: Reason, field: Literal[Field.DEPENDENCY], value: str, previous: str
    ) -> None: ...

    def __init__(self, *, job_id: JobId, reason: Reason, field: Field, value: FieldValue, previous: FieldValue) -> None:
        """Take what is set; the overloads tie the type of a value to its field."""
        set_once = partial(object.__setattr__, self)
        set_once("job_id", job_id)
        set_once("reason", reason)
        set_once("field", field)
        set_once("value", value)
        set_once("previous", previous)


@dataclass(frozen=True, slots=True, kw_only=True)
class CameBack:
    """A TE job that came back from its start without a useful run: the plugin has no further job leave for it yet."""

    job_id: JobId
    #: its restarts before the first of the runs that count: a victim that left earlier has served
    restarts: int
    #: Unix seconds; None: as long as the marks hold
    until: int | None
    #: Unix seconds; when the last victim in one of these runs is known to have left; 0: of none that is known. A
    #: slurmctld that was restarted since has forgotten it
    victim_left_at: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMarks:
    """Write the marks of all jobs that Slurm's plugin may preempt, in place of those before."""

    #: of no job
    job_id: JobId
    reason: Reason
    marks: tuple[MarkLine, ...]
    #: users whose TE jobs preempt no job
    barred: tuple[str, ...] = ()
    #: seconds for which a TE job awaits resources that come free by themselves
    wait_s: int = 0
    #: TE jobs for which no job is preempted yet, if one was before they came back; each with its time
    came_back: tuple[CameBack, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkLine:
    """One mark as the plugin reads it (slurm_plugin/README.md); any TE job may be the preemptor."""

    job_id: JobId
    order: int
    grace_s: int
    #: at this many restarts it is not preempted
    max_restarts: int
    least_run_s: int
    #: Unix seconds
    after: int
    until: int


class Record(StrEnum):
    """Field of a job's Slurm record that shows its user a preemption."""

    #: nowhere
    NONE = "none"
    #: AdminComment: squeue and scontrol show it, only SlurmUser, root and administrators write it
    #: `extra` where this Slurm has it, else its AdminComment
    AUTO = "auto"
    ADMIN_COMMENT = "admin_comment"
    #: extra (Slurm 23.11 and later): scontrol shows it; the job's user and Operators write it, too
    EXTRA = "extra"


@dataclass(frozen=True, slots=True, kw_only=True)
class TellUser:
    """Notify a preempted job's user of what happened: in the job's record, and by the site's command."""

    job_id: JobId
    reason: Reason
    #: the job as squeue writes it, and its user's own name for it
    label: str
    name: str
    user: str
    #: when it was seen to have left its nodes
    at: UnixSeconds
    #: for what kind of job, in words
    cause: str
    #: how it left (`orders.Departure`)
    departure: str
    #: how often it has been preempted by now, and how often it may be
    times: int
    most: int
    #: it could not be put back in the queue
    lost: bool
    #: which part of its record is written; another's text there is left
    record: Record


Action: TypeAlias = Notify | Requeue | Cancel | Rerun | Suspend | Resume | SetField | SetMarks | TellUser


def sets(action: Action, *fields: Field) -> TypeGuard[SetField]:
    """Check whether an action sets one of these fields."""
    return isinstance(action, SetField) and action.field in fields


def holds(action: Action) -> bool:
    """Check whether an action holds a job."""
    return sets(action, Field.HOLD) and action.value is HoldState.HELD


def releases(action: Action) -> bool:
    """Check whether an action ends a job's hold."""
    return sets(action, Field.HOLD) and action.value is HoldState.RELEASED


def kind_of(action: Action) -> str:
    """Word for an action in the store, in JSON and in logs: "notify", "setnice", "release", …."""
    if not isinstance(action, SetField):
        return type(action).__name__.lower()
    if action.field is Field.HOLD:
        return "hold" if action.value is HoldState.HELD else "release"
    return f"set{action.field}"


class Status(StrEnum):
    """Status of an action."""

    #: Slurm took the command; whether it worked, the next snapshot shows
    SENT = "sent"
    #: Slurm, or the poll right before acting, said no (see `FailureKind`)
    FAILED = "failed"
    #: not tried, since an earlier action of the same order failed
    SKIPPED = "skipped"
    #: dry run: it would have been sent
    WOULD = "would"


class FailureKind(StrEnum):
    """Why Slurm could not be reached, or refused."""

    #: no such job (any more)
    NOT_FOUND = "not_found"
    #: there is nothing to do: the job has ended, moved on or is already so
    ALREADY_DONE = "already_done"
    #: tesched lacks the right (Operator)
    DENIED = "denied"
    #: Slurm refuses this for this job, such as a requeue of a --no-requeue job
    REFUSED = "refused"
    #: no answer: slurmctld is down, or the call took too long
    UNREACHABLE = "unreachable"
    #: slurmctld says that it is too busy; try later
    BUSY = "busy"
    #: an answer that tesched does not understand
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error of Slurm's, as a value."""

    kind: FailureKind
    #: one line, for an admin
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of one action."""

    action: Action
    status: Status
    at: UnixSeconds
    #: seconds that the call took
    took_s: float = 0.0
    failure: Failure | None = None
