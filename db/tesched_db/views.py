"""Views that `read` returns: plain values, with nothing of the database in them.

Over 400 lines: all values that one reader returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tesched_core.intake.job_times import Run, StateChange, Times, lost_node_s
from tesched_core.model.actions import FailureKind, OrderId, ReasonCode, Status
from tesched_core.model.cluster import FINISHED, JobState
from tesched_core.model.decision import BoundNow, RefusalCode
from tesched_core.model.enforcement import Enforcement
from tesched_core.model.field import Field
from tesched_core.model.not_followed import NotFollowed
from tesched_core.model.notice import ExitZero, Target, gets_notice
from tesched_core.model.order import Order, Transition
from tesched_core.model.refused import RefusedChange
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.slurm_limits import UnreadLimits
from tesched_core.model.snapshot import JobClass

from tesched_db.deeds import Deed
from tesched_db.delay_views import Delays, Waited
from tesched_db.lease import Pause, Standby
from tesched_db.te_refused import TeRefused

#: What a process that writes the store may be (`DaemonView.role`).
DAEMON, UNDO = "daemon", "undo"


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonView:
    """The daemon, as it last said of itself."""

    #: what wrote last: `DAEMON` or `UNDO`
    role: str
    mode: str
    pid: int
    #: when its process was started, in clock ticks since the boot, and where its pid counts (`process`)
    pid_ticks: int | None
    place: str
    host: str
    version: str
    #: which client spoke to Slurm
    client: str
    started_at: UnixSeconds
    #: when it last wrote of itself, and when it means to poll next
    reported_at: UnixSeconds
    next_at: UnixSeconds
    #: by how many seconds its clock is ahead of this host's, as far as the store knows
    ahead_s: float
    #: when it counts as hanging, or gone, if it has not written again; by this host's clock, from the store's
    late_at: UnixSeconds
    #: when it ended and said so; None while it runs, and of one that died
    stopped_at: UnixSeconds | None
    #: the last good poll of the cluster; None if there was none
    seen_at: UnixSeconds | None
    failure_kind: FailureKind | None
    failure: str
    summary: str
    cycle: int
    #: since when it leads of all daemons on this store
    leads_since: UnixSeconds
    #: calls to Slurm in the minute before it reported, by kind; beside them pokes served and left to the poll
    calls: Mapping[str, float]
    #: of the site's command that notifies users, since the daemon's start: told, failed, held_off, last_failure
    told: Mapping[str, int | str] = field(default_factory=dict)
    #: how many jobs' records could not be read whole, and the first of them: label, user, why
    doubtful: int = 0
    doubts: tuple[tuple[str, str, str], ...] = ()
    #: why Slurm may not obey the marks of the lever `plugin`, in words; empty if it does, or with another lever
    marks_trouble: str = ""
    #: what is wrong with the submission hook's admission file, in words; empty if nothing
    admission_trouble: str = ""
    #: what is wrong with the endpoint of the metrics, in words; empty if nothing
    metrics_trouble: str = ""
    #: why no job counts as idle, in words; empty if nothing is wrong
    idle_trouble: str = ""
    #: how new jobs are found between two polls, in words
    new_jobs: str = ""
    #: what is left of mode enforce, and is put back before this mode begins, in words; empty if nothing
    leaving: str = ""
    #: how far the limits on TE jobs are enforced; None: none is set
    enforced: Enforcement | None = None
    #: limits of associations and QOS that could not be read
    limits_unread: tuple[UnreadLimits, ...] = ()
    #: kinds of change that Slurm refuses, by the field that is set
    refused: Mapping[Field, RefusedChange] = field(default_factory=dict)
    #: CPUs and GPUs that TE jobs hold, and that all nodes have: {"te": {"cpu": 8, "gpu": 1}, "all": …}; empty: unknown
    held: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    #: what is left of the bounds of BE jobs; None: nothing is bounded
    bound: BoundNow | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleView:
    """One cycle, or several in a row that did nothing and say the same."""

    #: None where the cluster could not be seen
    first_cycle: int | None
    last_cycle: int | None
    first_at: UnixSeconds
    last_at: UnixSeconds
    count: int
    idle: bool
    mode: str
    client: str
    policy: str
    summary: str
    failure_kind: FailureKind | None
    failure: str
    #: seconds, mean over the `count` cycles and the slowest of them
    observe_s: float
    observe_max_s: float
    step_s: float
    step_max_s: float
    act_s: float
    #: jobs by class and state, as seen last
    counts: Mapping[JobClass, Mapping[JobState, int]]
    actions: tuple[ActionView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionView:
    """One action and what became of it."""

    intended_at: UnixSeconds
    #: "notify", "requeue", "setnice", …: what the action does, in one word
    kind: str
    job_id: JobId
    #: the job as squeue writes it
    label: str
    reason: ReasonCode
    text: str
    preemptor: JobId | None
    order_id: OrderId | None
    #: a notice's signal
    signal: str | None
    #: a changed nice value or priority, and what it was before
    value: int | None
    previous: int | None
    #: None: meant, and no outcome is known (tesched died in between, or is about to act)
    status: Status | None
    at: UnixSeconds | None
    took_s: float | None
    failure_kind: FailureKind | None
    failure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """One job, from its first submission on."""

    #: names the job for good; Slurm's id may be used again
    key: int
    job_id: JobId
    #: as squeue writes it
    label: str
    name: str
    user: str
    account: str
    #: several with commas while it waits
    partition: str
    qos: str
    job_class: JobClass
    #: the rule that gave the class
    rule: str
    grace_period_s: float
    grace_source: str
    #: empty for none
    notice_signal: str
    notice_target: Target
    #: where it was declared, in words
    notice_source: str
    #: what exit status 0 in its grace period means
    exit0: ExitZero
    #: its user says that its tasks are workers of one training
    elastic: bool
    #: of a BE job: when it is preempted it ends, and does not run again, as its owner has said
    ends: bool
    #: of a BE job: how often it may be preempted at most, as its owner has said; the site's limit may be lower
    most_preemptions: int | None
    #: what its user said and does not count, or not as it was said
    not_followed: tuple[NotFollowed, ...]
    #: over all its nodes
    cpus: int
    mem_mib: int
    gpus: int
    min_nodes: int
    state: JobState
    flags: frozenset[str]
    reason: str
    priority: int
    nice: int
    restarts: int
    first_submit_time: UnixSeconds
    start_time: UnixSeconds | None
    end_time: UnixSeconds | None
    #: for how long its run was suspended, seconds, without the suspension that goes on; and since when that one does
    suspended_s: float
    suspended_since: UnixSeconds | None
    time_limit_s: int | None
    #: how long it runs, in its owner's word
    run_time_s: float | None
    #: while a TE job waits: for how long since it became eligible it has no victims, by its owner's word; until when,
    #: null while it is held
    patience_s: float | None
    patience_until: UnixSeconds | None
    #: of a running BE job that the site calls idle (idle.file): since when; null of a busy one
    idle_since: UnixSeconds | None
    nodes: tuple[str, ...]
    first_seen: UnixSeconds
    last_seen: UnixSeconds
    #: Slurm knows it no longer
    gone: bool
    #: how often it left its nodes for another job
    preemptions: int
    #: once it has ended: seconds that it waited and ran, all runs together; None if tesched did not see all of it
    waited_s: float | None
    ran_s: float | None

    @property
    def gets_notice(self) -> bool:
        """Check whether it is sent its signal before it leaves."""
        return gets_notice(self.notice_signal, self.grace_period_s)

    @property
    def is_forgotten(self) -> bool:
        """Check whether Slurm forgot it before its end was seen: `state` is the last that is known."""
        return self.gone and self.state not in FINISHED

    def run_s(self, now: UnixSeconds) -> float:
        """Seconds that its present run, or its last, has run by then, as squeue counts; 0 while it waits.

        Of a job that Slurm has forgotten, up to the last poll that saw it.
        """
        if self.start_time is None or self.state is JobState.PENDING:
            return 0.0
        until = self.last_seen if self.gone else now
        if self.end_time is not None:
            until = self.end_time
        if self.suspended_since is not None:
            until = self.suspended_since
        return max(until - self.start_time - self.suspended_s, 0.0)

    @property
    def may_get_notice(self) -> bool:
        """Check whether it is sent its signal, or may be: the script of a job that has not run yet is not read."""
        return self.gets_notice or (self.state is JobState.PENDING and not self.restarts and not self.notice_signal)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderView:
    """An order, its jobs as squeue writes them, and its steps so far."""

    order: Order
    preemptor_label: str
    preemptor_user: str
    #: in the order of `order.victims`
    victim_labels: tuple[str, ...]
    victim_users: tuple[str, ...]
    transitions: tuple[Transition, ...]

    @property
    def lost_node_s(self) -> float:
        """Return the node-seconds that its requeues threw away."""
        return sum(lost_node_s(victim) for victim in self.order.victims)


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusalView:
    """Why a job was considered and not preempted, and for how long that has been so."""

    job_id: JobId
    job_label: str
    preemptor: JobId
    preemptor_label: str
    code: RefusalCode
    #: as first said (a preemptor's own: as last said)
    text: str
    score: float | None
    #: the BE job for which a TE job has to wait, as squeue writes it; empty: none
    behind: str
    #: how many more candidates of this preemptor are refused by this code, and not listed
    more: int
    first_seen: UnixSeconds
    last_seen: UnixSeconds
    #: it was still so at the last good poll
    stands: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStory:
    """All that is remembered of one job."""

    job: JobView
    changes: tuple[StateChange, ...]
    runs: tuple[Run, ...]
    times: Times
    #: oldest first
    orders_as_preemptor: tuple[OrderView, ...]
    orders_as_victim: tuple[OrderView, ...]
    #: those that stand, else those said last: why no victim leaves for it and which jobs it could not have as victims;
    #: and why it was no victim itself
    refusals_as_preemptor: tuple[RefusalView, ...]
    refusals_as_candidate: tuple[RefusalView, ...]
    #: newest last
    actions: tuple[ActionView, ...]
    #: seconds that jobs of the same user and name took to leave when they were requeued without a notice, newest last
    leave_times: tuple[float, ...] = ()
    #: what it has waited for TE jobs
    bystander: Waited = field(default_factory=Waited)
    #: what policies remember, by their names: `Policy.describe` says what of it is about this job
    policy_states: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Percentiles:
    """Of how many jobs, and their 50th, 95th and 99th percentile; None where there are no jobs."""

    count: int
    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """One class's jobs."""

    job_class: JobClass
    #: at the last good poll, by state
    states: Mapping[JobState, int]
    #: seconds since the first submission of those that wait now
    waiting_s: Percentiles
    longest_wait_s: float | None
    #: of those that ended within the window and were seen from the start: slowdown, and seconds that they waited
    slowdown: Percentiles
    waited_s: Percentiles


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTally:
    """Orders that ended within the window, and what they cost."""

    #: those that were given; without the next ones
    orders: int
    #: orders of mode shadow: recorded, and nothing was done
    shadow: int
    #: the TE job started on the nodes that were freed for it
    started_here: int
    #: a victim left, and the preemptor did not start there: the goal is 0
    futile: int
    victims_left: int
    #: victims that left by themselves in their grace period, having finished or put themselves back in the queue
    victims_saved: int
    #: victims that died of their notice and were put back in the queue
    died_of_notice: int
    #: of `victims_left`: ended for good, as their owners had said
    ended: int
    #: victims that were to run again and could not be put back in the queue: the goal is 0
    lost: int
    #: victims that wait to run again and would not start now, whenever they left: the job, and Slurm's reason
    stuck: tuple[str, ...]
    lost_node_s: float
    #: the same of BE policies that go in rounds, which are not counted above (but for `futile` and `lost`): jobs that
    #: started in their turn, victims that gave way to a turn, or moved, and what that cost
    turns: int
    gave_way: int
    turns_lost_node_s: float
    #: preemptions that stand in the victim's Slurm record, those that could not be written there, and why the last
    noted: int = 0
    not_noted: int = 0
    not_noted_why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A waiting TE job with an order that ended or was refused without success, and when it is tried again."""

    label: str
    user: str
    at: UnixSeconds


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusView:
    """Values that `tesched status` shows."""

    #: None: no daemon has ever written here
    daemon: DaemonView | None
    #: daemons that wait for the lead
    standbys: tuple[Standby, ...]
    #: None: it is not paused
    paused: Pause | None
    #: newest first
    cycles: tuple[CycleView, ...]
    #: the last cycles with an action or a transition, newest first
    decisions: tuple[CycleView, ...]
    queues: tuple[QueueView, ...]
    open_orders: tuple[OrderView, ...]
    #: the next one first
    retries: tuple[Retry, ...]
    #: what admins did last, newest first
    deeds: tuple[Deed, ...]
    tally: OrderTally
    #: by TE jobs, of the jobs that were preempted within the window, came back in it or are away
    delays: Delays
    #: TE jobs that had to wait for guard.bound within the window
    te_refused: TeRefused
    #: seconds before now from which percentiles and tally count
    window_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Filter of jobs; all that is given must hold."""

    #: None: any
    ids: frozenset[JobId] | None = None
    #: any of these; empty: any
    users: frozenset[str] = frozenset()
    account: str | None = None
    partitions: frozenset[str] = frozenset()
    job_class: JobClass | None = None
    states: frozenset[JobState] = frozenset()
    #: those that Slurm forgot before their end was seen: beside the states; or none of them; None: by their last state
    forgotten: bool | None = None
    #: also those that Slurm no longer knows
    with_gone: bool = False
    #: only those that have ended since
    ended_since: UnixSeconds | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderFilter:
    """Filter of orders; all that is given must hold."""

    open_only: bool = False
    futile_only: bool = False
    #: the TE job, or a victim, is a job of one of these users; empty: any
    users: frozenset[str] = frozenset()
    #: created since, and before
    since: UnixSeconds | None = None
    until: UnixSeconds | None = None
    limit: int | None = 100
