"""Actions on Slurm, their reasons and outcomes. Actions are data; only an actuator performs them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NewType, TypeAlias

from tesched_core.model.notice import Target
from tesched_core.model.resources import JobId, UnixSeconds

#: A preemption under way; counted up from 1 in the memory, never used twice.
OrderId = NewType("OrderId", int)


class ReasonCode(StrEnum):
    """Why an action is taken."""

    #: the TE job must be first in the queue before room is made for it
    MAKE_ROOM_FIRST = "make_room_first"
    #: the TE job fits into free room that the queue order keeps from it
    ROOM_IS_FREE = "room_is_free"
    #: the victim is told that it will have to go
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
    #: the victim is back in the queue, or lost: its user is told
    TELLS_USER = "tells_user"
    #: the victim's CPUs are enough, and it loses nothing
    GIVES_CPUS = "gives_cpus"
    #: the CPUs of a suspended victim are free again, or it is not needed any more
    GOES_ON = "goes_on"
    #: Slurm leaves a job held that it requeued while it was suspended; which was not asked for
    LEFT_HELD = "left_held"
    #: it has victims, and waits for their resources
    BOUND = "bound"
    #: it is bound to those nodes no more
    SET_FREE = "set_free"
    #: a victim waits to run again, ahead of the other best-effort jobs
    BACK_TO_THE_HEAD = "back_to_the_head"
    #: a victim that has left does not start again while others of its order still leave
    STAYS_AWAY = "stays_away"
    #: it fits into room that is left over, and is brought to the head of the best-effort queue
    FILLS_ROOM = "fills_room"
    #: it has started, or others took the room: its place in the queue is its own again
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
    #: an admin asked for it
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
class SetDependency:
    """Write a pending job's dependency anew, after Slurm has called it never satisfied: it keeps to that by itself."""

    job_id: JobId
    reason: Reason
    dependency: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend:
    """Stop the job's processes; gives back its CPUs, and neither memory nor GRES."""

    job_id: JobId
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Let a suspended job go on."""

    job_id: JobId
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class SetNice:
    """Change a job's nice value; lower is sooner. It leaves Slurm in charge of the priority."""

    job_id: JobId
    reason: Reason
    nice: int
    #: what it was before, to put it back
    previous: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetPriority:
    """Give a job an explicit priority. Slurm stops managing it, and ignores nice, until it is held and released."""

    job_id: JobId
    reason: Reason
    priority: int
    #: what it was before, to put it back
    previous: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCount:
    """Number of nodes that a pending job wants, and what Slurm reckons from that (scontrol(1), NumNodes)."""

    least: int
    most: int
    #: tasks and CPUs over all nodes, to put them back; 0: what Slurm makes of the nodes
    tasks: int = 0
    cpus: int = 0

    def __str__(self) -> str:
        """Return it as Slurm writes it: `2-4`."""
        return f"{self.least}-{self.most}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetNodes:
    """Set the nodes that must be part of a pending job's allocation (ReqNodeList); none is "wherever it may run"."""

    job_id: JobId
    reason: Reason
    nodes: tuple[str, ...]
    #: what they were before, to put them back
    previous: tuple[str, ...]
    #: how many it shall have, in the same command; None: that is not changed
    count: NodeCount | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBegin:
    """Set the time before which a pending job does not start (--begin)."""

    job_id: JobId
    reason: Reason
    #: Unix seconds; what has passed is now
    begin: int
    #: what it was before
    previous: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetThrottle:
    """Set how many tasks of a job array may run at once (ArrayTaskThrottle); those that run are left alone."""

    #: the array's
    job_id: JobId
    reason: Reason
    #: 0: as many as there is room for
    throttle: int
    #: what it was before, to put it back
    previous: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Keep a pending job from starting."""

    job_id: JobId
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """End a hold."""

    job_id: JobId
    reason: Reason
    #: the hold is over: of the submission hook's the mark alone is removed
    mark_only: bool = False


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
    #: seconds for which a TE job awaits room that comes free by itself
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
    """Field of a job's Slurm record that tells its user of a preemption."""

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
    """Tell a preempted job's user what happened: in the job's record, and by the site's command."""

    job_id: JobId
    reason: Reason
    #: the job as squeue writes it, and its user's own name for it
    label: str
    name: str
    user: str
    #: when it was seen to have left its room
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


Action: TypeAlias = (
    Notify
    | Requeue
    | Cancel
    | Rerun
    | SetDependency
    | Suspend
    | Resume
    | SetNice
    | SetPriority
    | SetNodes
    | SetBegin
    | SetThrottle
    | Hold
    | Release
    | SetMarks
    | TellUser
)


class Status(StrEnum):
    """Status of an action."""

    #: Slurm took the command; whether it worked, the next snapshot shows
    SENT = "sent"
    #: Slurm, or the look right before acting, said no (see `FailureKind`)
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
