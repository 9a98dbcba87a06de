"""An order: one preemption under way, from the plan until its victims are back.

    order    open ──► settling ──► ended
    victim   planned ──► noticed ──► requeuing ──► left ──► back
                            ├──────────────────────►┘        left on its own, in its grace period
                            └──► spared                      let go before it left
             planned ─► suspended ───────────────────────► back      its CPUs were enough (`suspension`)

An order is advanced by what a snapshot shows (`advance.advance`), never by believing that a command worked. This file
holds the data; it is what the store persists.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tesched_core.model.actions import OrderId
from tesched_core.model.notice import ExitZero, Target, gets_notice
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.size import Size


class OrderState(StrEnum):
    """State of an order."""

    #: resources are being freed, or are free and the preemptor has not started
    OPEN = "open"
    #: the preemptor no longer waits; its victims are not all back, or its priority is not yet what it was
    SETTLING = "settling"
    #: nothing more will be done for it
    ENDED = "ended"


class Ending(StrEnum):
    """Ending of an order: the outcome for its preemptor."""

    #: it started on nodes that the order freed
    STARTED_HERE = "started_here"
    #: it started there, and was back in the queue, or ended without success, before it had a useful run
    NO_RUN = "no_run"
    #: of no order: by its record a TE job came back so. For which job Slurm's plugin preempts, the plugin alone knows
    CAME_BACK = "came_back"
    #: it started somewhere else
    STARTED_ELSEWHERE = "started_elsewhere"
    #: it was cancelled, or vanished, before it started
    PREEMPTOR_GONE = "preemptor_gone"
    #: it did not start within the order's time
    EXPIRED = "expired"
    #: it would not start any more, whatever is free: a limit, a dependency, a hold, its partition
    BLOCKED = "blocked"
    #: Slurm did not consider it as the first in its queue in time; no victim was notified
    NOT_LOOKED_AT = "not_looked_at"
    #: it asks for more than when the order was made, or for another partition
    GROWN = "grown"
    #: its user has changed its request: it may not start on the order's nodes, or a victim need not leave for it. Or a
    #: victim stays, as the site protects it by now, and what the others free is too little
    CHANGED = "changed"
    #: a node on which resources were freed starts no jobs any more
    NODE_GONE = "node_gone"
    #: it is a BE job, and others have started on the nodes of its turn, or a TE job is to have them: it gets others
    OVERTAKEN = "overtaken"
    #: others have put its priority back again and again: an admin, or Slurm's backfill
    OVERRULED = "overruled"
    #: an admin withdrew it (`tesched undo`)
    WITHDRAWN = "withdrawn"
    #: Slurm refused what the order needed
    REFUSED = "refused"
    #: Slurm refuses to raise it, another job is ahead, and no victim had been notified
    CHANGE_REFUSED = "change_refused"
    #: shadow mode: recorded and not done
    SHADOW = "shadow"


class Purpose(StrEnum):
    """Purpose that a victim leaves for."""

    #: a TE job
    TE = "te"
    #: the turn of another BE job, or of the victim itself on other nodes
    ROUND = "round"


class VictimState(StrEnum):
    """State of a victim."""

    #: chosen; its notice has certainly not been sent
    PLANNED = "planned"
    #: notice was sent (or intended, and tesched died: it is never sent twice); the grace period runs
    NOTICED = "noticed"
    #: the grace period is over and the requeue was requested
    REQUEUING = "requeuing"
    #: it was to be suspended, or is: it has given its CPUs, holds everything else, and will be resumed
    SUSPENDED = "suspended"
    #: it no longer holds its nodes
    LEFT = "left"
    #: it runs again
    BACK = "back"
    #: let go: its resources were not needed any more
    SPARED = "spared"


class Departure(StrEnum):
    """Way in which a victim left its nodes."""

    #: tesched requeued it when its grace period was over
    REQUEUED = "requeued"
    #: it put itself back in the queue, by scontrol requeue or by a RequeueExit code
    REQUEUED_ITSELF = "requeued_itself"
    #: it finished in its grace period; it must not run again
    FINISHED = "finished"
    #: it died of its notice; it is put back in the queue
    DIED_OF_NOTICE = "died_of_notice"
    #: it ended with exit status 0, which for this job means that it has saved its work and is to run again
    SAVED = "saved"
    #: it has left and does not run again, as its owner has said (`preempted=end`)
    ENDED = "ended"
    #: it was cancelled, or ended by Slurm itself, in its grace period
    DIED = "died"
    #: Slurm no longer knows it
    VANISHED = "vanished"
    #: it died of its notice or has saved its work and could not be put back in the queue, or its deadline passed there
    LOST = "lost"


#: Departures of victims after which the run has ended for good, though they are to run again.
TO_RERUN = frozenset({Departure.DIED_OF_NOTICE, Departure.SAVED})
#: Departures by which a run was thrown away for a preemptor, saved or not.
PREEMPTED = frozenset({Departure.REQUEUED, Departure.REQUEUED_ITSELF, *TO_RERUN, Departure.LOST})


#: States in which a victim still holds its nodes.
HOLDS_RESOURCES = frozenset({VictimState.PLANNED, VictimState.NOTICED, VictimState.REQUEUING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """One victim of an order."""

    job_id: JobId
    state: VictimState
    #: the run that pays: the job's `restarts` when it was chosen
    restarts: int
    grace_period_s: float
    #: empty: it gets none, and is requeued without
    notice_signal: str
    notice_target: Target
    #: the policy's score, lower goes first
    score: float
    #: why the policy chose it, one clause
    why: str = ""
    #: nodes that it held, and since when (for lost time)
    nodes: tuple[str, ...]
    started_at: UnixSeconds
    #: when the run that pays was put in the queue, or since when it could have started (`open.victim_of`)
    queued_at: UnixSeconds = 0.0
    user: str = ""
    account: str = ""
    #: the TE job's user and account, which cause it; empty where the preemptor is not TE
    for_user: str = ""
    for_account: str = ""
    #: a TE job, or the turn of a BE job (of a policy that goes in rounds)
    purpose: Purpose = Purpose.TE
    #: what exit status 0 in its grace period means
    exit0: ExitZero = ExitZero.SLURM
    #: when it had its notice; without one, when its requeue or suspension was first requested
    noticed_at: UnixSeconds | None = None
    #: when its requeue, or its rerun, was last requested
    requeue_sent_at: UnixSeconds | None = None
    #: it gives its CPUs alone: it is suspended, without a notice, and not requeued
    by_suspending: bool = False
    #: when its suspension was last requested, and when it was first seen suspended
    suspend_sent_at: UnixSeconds | None = None
    suspended_at: UnixSeconds | None = None
    #: when a command for its suspension was last given up without an answer: slurmctld may have it still
    suspend_unanswered_at: UnixSeconds | None = None
    #: when its run that pays was first seen to be ending on its nodes (COMPLETING)
    ending_since: UnixSeconds | None = None
    left_at: UnixSeconds | None = None
    #: up to when its run that paid is saved, by its own word; None if it does not say
    saved_at: UnixSeconds | None = None
    departure: Departure | None = None
    back_at: UnixSeconds | None = None
    #: when it was seen that it will not run again though it was to: cancelled in the queue, lost, unknown to Slurm
    given_up_at: UnixSeconds | None = None
    #: a user or an admin had set a hold on its run that pays: it is to stay held after its requeue
    held_before: bool = False
    #: when it leaves for a TE job it ends for good, as its owner has said (`intake/ends_for_good.py`)
    ends: bool = False
    #: what it had when it was chosen; None: not known
    size: Size | None = None

    @property
    def of_own_user(self) -> bool:
        """Check whether a TE job of its own user causes it: then it has no claim on others by that.

        Users count, not accounts: without slurmdbd a user may name any account, and so take away another's claim.
        """
        return bool(self.user) and self.user == self.for_user

    @property
    def gets_notice(self) -> bool:
        """Check whether it is sent its signal before it leaves."""
        return gets_notice(self.notice_signal, self.grace_period_s)

    @property
    def loses_run(self) -> bool:
        """Check whether what it did in the run that pays is lost, or will be: it is sent no signal, or did not save.

        Of one that Slurm has forgotten that is not known.
        """
        return not self.gets_notice or self.departure in {Departure.DIED_OF_NOTICE, Departure.VANISHED}

    @property
    def is_limited(self) -> bool:
        """Check whether a job may be such a victim only so often: of other users' TE jobs, and not of turns."""
        return self.purpose is Purpose.TE and not self.of_own_user

    @property
    def deadline(self) -> UnixSeconds | None:
        """End of its grace period."""
        return None if self.noticed_at is None else self.noticed_at + self.grace_period_s

    @property
    def awaited(self) -> bool:
        """Check whether it has left its nodes and is to run again."""
        never = {Departure.FINISHED, Departure.ENDED, Departure.DIED, Departure.VANISHED, Departure.LOST}
        return self.state is VictimState.LEFT and self.departure not in never

    @property
    def by_slurm(self) -> bool:
        """Check whether Slurm itself has preempted it, by its mark: it was never notified."""
        return self.departure is Departure.REQUEUED and self.noticed_at is None

    @property
    def settled(self) -> bool:
        """Check whether it is where it stays: nothing more is to be done for it but to put changes back."""
        return self.state in {VictimState.LEFT, VictimState.BACK, VictimState.SPARED} and not self.awaited


@dataclass(frozen=True, slots=True, kw_only=True)
class LostNode:
    """A node of an order that is out of service, as Slurm shows it."""

    name: str
    #: base state and flags, as scontrol writes them ("IDLE+DRAIN"); empty: it is none of Slurm's nodes any more
    state: str
    reason: str = ""

    def __str__(self) -> str:
        """Return its name, with what is known of why."""
        why = ": ".join(filter(None, (self.state, self.reason))) or "no node of Slurm's any more"
        return f"{self.name} ({why})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One preemption under way."""

    order_id: OrderId
    preemptor: JobId
    state: OrderState
    created_at: UnixSeconds
    #: when it is given up if the preemptor has not started
    expires_at: UnixSeconds
    #: nodes of the preemptor; empty while it waits for resources to be released, on whichever nodes
    nodes: tuple[str, ...]
    #: empty if the resources were free and only the queue's order stood in the way
    victims: tuple[Victim, ...]
    #: its preemptor was a TE job when it was made; else it is the turn of a BE job
    made_for_te: bool = False
    #: until when it waits for resources to be released, before a victim is notified
    waits_until: UnixSeconds | None = None
    #: of a preemptor that is a job array: the newest task that it had started when the order was made, and from its
    #: start on the task that has started; None: no array, or no task
    newest_task: JobId | None = None
    #: its nodes that are out of service and awaited: its preemptor is bound to none meanwhile
    lost_nodes: tuple[LostNode, ...] = ()
    #: what its preemptor requested when it was made; None: not known
    size: Size | None = None
    #: how often its preemptor had been requeued then, or at its start; None: not known, or tasks of an array
    restarts: int | None = None
    #: since when its preemptor is seen to run, while that has yet to become a useful run (`orders/useful_run.py`)
    run_seen_at: UnixSeconds | None = None
    #: Slurm's start of that run; None: it has not begun, or it was short and is over, and how it ended is not known yet
    started_at: UnixSeconds | None = None
    ending: Ending | None = None
    ended_at: UnixSeconds | None = None

    @property
    def run_id(self) -> JobId:
        """Return the job that has started: of a job array the task, which has a record of its own from then on."""
        return self.preemptor if self.newest_task is None else self.newest_task

    @property
    def all_left_at(self) -> UnixSeconds | None:
        """Time at which the last of its victims left; None: one holds its nodes, or none has left."""
        if any(victim.state in HOLDS_RESOURCES for victim in self.victims):
            return None
        return max((victim.left_at for victim in self.victims if victim.left_at is not None), default=None)

    @property
    def for_te(self) -> bool:
        """Check whether its victims leave for a TE job, whatever class that has by now."""
        return any(victim.purpose is Purpose.TE for victim in self.victims)

    @property
    def waits(self) -> bool:
        """Check whether it waits for resources to come free by themselves, and has no victim yet."""
        return self.state is OrderState.OPEN and not self.nodes

    @property
    def frees_resources(self) -> bool:
        """Check whether its resources are being freed, or are free; whether its victims run again is no part of it."""
        return self.state is OrderState.OPEN and bool(self.nodes)

    @property
    def futile(self) -> bool:
        """Check whether a victim left because it was notified, and the preemptor had no useful run on its nodes.

        A victim that ended by itself before its notice has paid nothing; nor has one that was to move, and finished.
        """
        left = (
            victim.left_at is not None
            and (victim.noticed_at is not None or victim.by_slurm)
            and not (victim.job_id == self.preemptor and victim.departure is Departure.FINISHED)
            for victim in self.victims
        )
        return self.ending not in {None, Ending.STARTED_HERE} and any(left)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One step of an order, as the store keeps it."""

    order_id: OrderId
    at: UnixSeconds
    #: the victim that moved; None for the order itself
    job_id: JobId | None
    #: state before and after; "" before the first
    before: str
    after: str
    #: one sentence
    text: str
