"""The tables. One writer (the daemon), any number of readers (the command line).

Times are Unix seconds (UTC), durations end in `_s`, memory in `_mib`, as in core. Two habits keep the store small and
an idle cycle cheap:

- What still holds has no end: a job that Slurm still knows and a refusal that still stands have `last_seen` NULL, which
  reads as "at the last good poll" (`daemon.seen_at`). A cycle in which nothing changed touches neither.
- Cycles that did nothing and say the same are one row with a count.

A Slurm job id is used again once Slurm's counter has wrapped, or was reset. `job_id` is always Slurm's; `job_key` and
`jobs.key` are ours and name one job for good.

Over 400 lines: one list of all tables; foreign keys and migrations refer to the whole of it.
"""

from __future__ import annotations

from typing import Any, ClassVar, NotRequired, TypedDict

from sqlalchemy import BigInteger, ForeignKey, Index, MetaData

from tesched_db.declared import KEY, Stored, TableBase, stored


class Base(TableBase):
    """Every table, with constraint names that a migration can rely on."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class Doubts(TypedDict):
    """Jobs with records that a daemon could not read whole."""

    count: int
    #: of the first of them: label, user, why
    first: list[tuple[str, str, str]]


class RunQuestion(TypedDict):
    """A `classify.Question`, whose module takes longer to import than most readers need."""

    submit_time: float
    restarts: int
    name: str
    comment: str
    partitions: list[str]
    qos: str
    account: str
    time_limit_s: int | None


class TresRecord(TypedDict):
    """A `Tres`."""

    cpus: NotRequired[int]
    mem_mib: NotRequired[int]
    gres: NotRequired[list[tuple[str, int]]]


class SizeRecord(TypedDict):
    """A `Size`, whose module takes longer to import than most readers need."""

    nodes: int
    tres: TresRecord
    exclusive: NotRequired[bool]
    all_memory: NotRequired[bool]
    time_limit_s: NotRequired[int | None]
    licenses: NotRequired[str]
    partitions: NotRequired[list[str]]
    seen_waiting: NotRequired[bool]


class LostNodeRecord(TypedDict):
    """A `LostNode`."""

    name: str
    state: str
    reason: str


class ChangeRecord(TypedDict):
    """What is read first of a `Change`: it says how the rest is to be read."""

    field: str


#: columns of `DaemonRow` in which a daemon says what is wrong with parts of its own, in words
TROUBLES = ("marks_trouble", "admission_trouble", "metrics_trouble", "idle_trouble")


class DaemonRow(Base):
    """One row: the daemon as it last reported, and the scalars of its memory."""

    __tablename__ = "daemon"

    #: always 1
    key: Stored[int] = stored(KEY, primary_key=True, autoincrement=False)
    #: counts writes; a writer that does not find its own number knows that another process writes here
    revision: Stored[int]
    #: what the process below is: "daemon" or "undo"
    role: Stored[str] = stored(server_default="daemon")
    mode: Stored[str]
    pid: Stored[int]
    #: when its process was started, in clock ticks since the boot: a pid may be another process's by now
    pid_ticks: Stored[int | None]
    host: Stored[str]
    started_at: Stored[float]
    version: Stored[str]
    client: Stored[str]
    #: when it last reported, and its last good poll of the cluster
    reported_at: Stored[float]
    seen_at: Stored[float | None]
    failure_kind: Stored[str | None]
    failure: Stored[str | None]
    next_at: Stored[float]
    #: when it ended and said so, by the store's clock; NULL while it runs, and of one that died
    stopped_at: Stored[float | None]
    summary: Stored[str]
    #: until when the daemon above leads, by the store's own clock, and how often the lead has changed hands
    lease_until: Stored[float]
    lease_token: Stored[int]
    #: in which boot and process namespace its pid counts
    lease_place: Stored[str]
    #: since when it leads, by the store's clock
    lease_since: Stored[float]
    #: its clock less the store's, seconds, when it last wrote its memory
    clock_ahead_s: Stored[float]
    #: its calls to Slurm in the minute before its last report, by kind: {"scontrol show job": 30, …}
    calls: Stored[dict[str, float]]
    #: of the command that notifies users, since its start: {"told": 3, "failed": 1, …}; None before 0.2
    told: Stored[dict[str, int | str] | None]
    #: jobs with records that it could not read whole: {"count": 1, "first": [["17", "ada", "why"]]}; None before 0.2
    doubts: Stored[Doubts | None] = stored(holds=Doubts)
    #: why Slurm may not obey its marks, in words; empty if it does
    marks_trouble: Stored[str]
    #: what is wrong with the submission hook's admission file, in words; empty if nothing
    admission_trouble: Stored[str]
    #: what is wrong with the endpoint of the metrics, in words; empty if nothing
    metrics_trouble: Stored[str]
    #: why no job counts as idle, in words; empty if nothing is wrong
    idle_trouble: Stored[str]
    #: how new jobs are found between two polls, in words
    new_jobs: Stored[str]
    #: what is left of mode enforce, and is put back before this mode begins, in words; empty if nothing
    leaving: Stored[str]
    #: how far the limits on TE jobs are enforced (`enforcement.Enforcement`); {}: none is set
    enforced: Stored[dict[str, Any]]
    #: limits that it could not read: [{"kind": "limits", "since": …, "said": "why", "kept": false}]
    limits_unread: Stored[list[dict[str, Any]]]
    #: kinds of change that Slurm refuses, by the field: {"nice": {"count": 3, "said": …}}
    refused: Stored[dict[str, Any]]
    #: amounts that TE jobs hold, and that all nodes have: {"te": {"cpu": 8, "gpu": 1}, "all": {"cpu": 64, "gpu": 8}}
    held: Stored[dict[str, dict[str, int]]]
    #: what is left of the bounds of BE jobs (`decision.BoundNow`); {}: nothing is bounded
    bound: Stored[dict[str, Any]]
    #: Memory.cycle and Memory.next_order
    cycle: Stored[int]
    next_order: Stored[int]


class JobRow(Base):
    """One job, from its first submission on, over all its restarts."""

    __tablename__ = "jobs"

    key: Stored[int] = stored(KEY, primary_key=True, autoincrement=False)
    job_id: Stored[int]
    first_submit_time: Stored[float]
    #: of the present run; each requeue resets it
    submit_time: Stored[float]
    array_job_id: Stored[int | None]
    array_task_id: Stored[int | None]
    het_job_id: Stored[int | None]
    het_offset: Stored[int | None]
    #: as squeue writes it: 123, 120_4, 130+1
    label: Stored[str]
    name: Stored[str]
    user: Stored[str] = stored("user_name")
    account: Stored[str]
    partition: Stored[str]
    qos: Stored[str]
    job_class: Stored[str]
    rule: Stored[str]
    grace_period_s: Stored[float]
    grace_source: Stored[str]
    #: empty for none; which of its processes get it; and where it was declared, in words
    notice_signal: Stored[str]
    notice_target: Stored[str]
    notice_source: Stored[str]
    #: what exit status 0 in its grace period means
    exit0: Stored[str]
    #: its user says that its tasks are workers of one training
    elastic: Stored[bool]
    #: when it is preempted it ends, and does not run again, as its owner has said
    ends: Stored[bool]
    #: of a BE job: how often it may be preempted at most, as its owner has said
    most_preemptions: Stored[int | None]
    #: what its user said and does not count, or not as it was said (`model.not_followed.NotFollowed`)
    not_followed: Stored[list[dict[str, str]]]
    #: over all its nodes
    cpus: Stored[int]
    mem_mib: Stored[int]
    gpus: Stored[int]
    min_nodes: Stored[int]
    state: Stored[str]
    #: Slurm's flags on the state, sorted, with commas
    flags: Stored[str]
    reason: Stored[str]
    priority: Stored[int]
    nice: Stored[int]
    restarts: Stored[int]
    start_time: Stored[float | None]
    end_time: Stored[float | None]
    time_limit_s: Stored[int | None]
    #: how long it runs, in its owner's word
    run_time_s: Stored[float | None]
    #: of a waiting TE job: for how long it has no victims, by its owner's word, and until when
    patience_s: Stored[float | None]
    patience_until: Stored[float | None]
    #: of a running BE job that the site calls idle: since when
    idle_since: Stored[float | None]
    nodes: Stored[list[str]]
    #: while it holds nodes: what it said of itself when that run began (`classify.Question`); its class comes from that
    question: Stored[RunQuestion | None] = stored(holds=RunQuestion)
    first_seen: Stored[float]
    #: None: Slurm knows it still
    last_seen: Stored[float | None]
    #: once it has ended: seconds that it waited and ran, all runs together; None if tesched did not see all of it
    waited_s: Stored[float | None]
    ran_s: Stored[float | None]

    __indexes__ = (
        Index(None, "job_id", "key"),
        Index(None, "array_job_id", "array_task_id"),
        Index(None, "het_job_id", "het_offset"),
        Index(None, "last_seen"),
        Index(None, "end_time"),
    )


class HistoryRow(Base):
    """A change of a job's state, as seen: it started, was requeued, was suspended, moved, ended."""

    __tablename__ = "job_history"

    key: Stored[int] = stored(KEY, primary_key=True)
    job_key: Stored[int] = stored(ForeignKey("jobs.key", ondelete="CASCADE"), index=True)
    at: Stored[float]
    state: Stored[str]
    #: its processes are being ended
    completing: Stored[bool]
    reason: Stored[str]
    restarts: Stored[int]
    submit_time: Stored[float]
    start_time: Stored[float | None]
    end_time: Stored[float | None]
    nodes: Stored[list[str]]


class CycleRow(Base):
    """One cycle and its decision, or several in a row that did nothing and say the same."""

    __tablename__ = "cycles"

    key: Stored[int] = stored(KEY, primary_key=True, autoincrement=False)
    #: of the memory; None where the cluster could not be seen
    first_cycle: Stored[int | None]
    last_cycle: Stored[int | None]
    first_at: Stored[float]
    last_at: Stored[float] = stored(index=True)
    count: Stored[int]
    #: nothing was ordered and no order moved: a row that may stand for several cycles
    idle: Stored[bool]
    mode: Stored[str]
    client: Stored[str]
    policy: Stored[str]
    summary: Stored[str]
    failure_kind: Stored[str | None]
    failure: Stored[str | None]
    #: seconds of all `count` cycles together, and of the slowest one
    observe_s: Stored[float]
    observe_max_s: Stored[float]
    step_s: Stored[float]
    step_max_s: Stored[float]
    act_s: Stored[float]
    #: jobs by class and state, as seen last: {"te": {"PENDING": 2}, …}
    counts: Stored[dict[str, dict[str, int]]]

    __indexes__ = (Index(None, "idle", "key"),)


class ActionRow(Base):
    """One action of a decision, and what became of it (`status` NULL: tesched died in between, or is about to act)."""

    __tablename__ = "actions"

    cycle_key: Stored[int] = stored(ForeignKey("cycles.key", ondelete="CASCADE"), primary_key=True)
    #: its place in the decision, from 0
    position: Stored[int] = stored(primary_key=True)
    intended_at: Stored[float] = stored(index=True)
    kind: Stored[str]
    job_id: Stored[int]
    job_key: Stored[int | None] = stored(ForeignKey("jobs.key", ondelete="CASCADE"), index=True)
    reason: Stored[str]
    text: Stored[str]
    preemptor: Stored[int | None]
    order_id: Stored[int | None] = stored(index=True)
    #: Notify's
    signal: Stored[str | None]
    target: Stored[str | None]
    #: Notify's, Requeue's, Cancel's, Rerun's and Suspend's
    restarts: Stored[int | None]
    #: of a field that is set to a number
    value: Stored[int | None]
    previous: Stored[int | None]
    status: Stored[str | None]
    at: Stored[float | None]
    took_s: Stored[float | None]
    failure_kind: Stored[str | None]
    failure: Stored[str | None]


class RefusalRow(Base):
    """Why a job was considered and not selected, for as long as that was so."""

    __tablename__ = "refusals"

    key: Stored[int] = stored(KEY, primary_key=True, autoincrement=False)
    preemptor: Stored[int]
    preemptor_key: Stored[int | None] = stored(ForeignKey("jobs.key", ondelete="CASCADE"), index=True)
    job_id: Stored[int]
    job_key: Stored[int | None] = stored(ForeignKey("jobs.key", ondelete="CASCADE"), index=True)
    code: Stored[str]
    #: as it was when it was first said; of a preemptor's own refusal, as it was said last
    text: Stored[str]
    score: Stored[float | None]
    #: the BE job for which a TE job has to wait, as squeue writes it; empty: none
    behind: Stored[str]
    #: how many more candidates of this preemptor are refused by this code, and not written
    more: Stored[int]
    first_seen: Stored[float]
    #: None: it still stands
    last_seen: Stored[float | None] = stored(index=True)


class OrderRow(Base):
    """One order."""

    __tablename__ = "orders"

    order_id: Stored[int] = stored(KEY, primary_key=True, autoincrement=False)
    #: it is part of the daemon's memory
    in_memory: Stored[bool] = stored(index=True)
    preemptor: Stored[int]
    preemptor_key: Stored[int | None] = stored(ForeignKey("jobs.key", ondelete="SET NULL"), index=True)
    state: Stored[str]
    created_at: Stored[float] = stored(index=True)
    expires_at: Stored[float]
    nodes: Stored[list[str]]
    #: its preemptor was a TE job when it was made
    made_for_te: Stored[bool]
    waits_until: Stored[float | None]
    #: the newest task that its preemptor, a job array, had started when the order was made
    newest_task: Stored[int | None]
    #: its nodes that are out of service and awaited
    lost_nodes: Stored[list[LostNodeRecord]] = stored(holds=list[LostNodeRecord])
    #: what its preemptor requested when it was made
    size: Stored[SizeRecord | None] = stored(holds=SizeRecord)
    #: how often it had been requeued then, or at its start, and since when that is yet to become a useful run
    restarts: Stored[int | None]
    run_seen_at: Stored[float | None]
    started_at: Stored[float | None]
    ending: Stored[str | None]
    ended_at: Stored[float | None] = stored(index=True)


class VictimRow(Base):
    """One victim of an order."""

    __tablename__ = "victims"

    order_id: Stored[int] = stored(ForeignKey("orders.order_id", ondelete="CASCADE"), primary_key=True)
    #: its place in the order, from 0
    position: Stored[int] = stored(primary_key=True)
    job_id: Stored[int]
    job_key: Stored[int | None] = stored(ForeignKey("jobs.key", ondelete="SET NULL"), index=True)
    state: Stored[str]
    restarts: Stored[int]
    grace_period_s: Stored[float]
    notice_signal: Stored[str]
    notice_target: Stored[str]
    exit0: Stored[str]
    score: Stored[float]
    #: why the policy chose it
    why: Stored[str]
    nodes: Stored[list[str]]
    started_at: Stored[float]
    queued_at: Stored[float]
    user: Stored[str] = stored("user_name")
    account: Stored[str]
    for_user: Stored[str]
    for_account: Stored[str]
    #: a TE job, or the turn of a BE job
    purpose: Stored[str]
    noticed_at: Stored[float | None]
    requeue_sent_at: Stored[float | None]
    by_suspending: Stored[bool]
    suspend_sent_at: Stored[float | None]
    suspend_unanswered_at: Stored[float | None]
    suspended_at: Stored[float | None] = stored(index=True)
    ending_since: Stored[float | None]
    #: up to when its run is saved, by its own word
    saved_at: Stored[float | None]
    #: when it was seen that it will not run again though it was to
    given_up_at: Stored[float | None]
    left_at: Stored[float | None] = stored(index=True)
    departure: Stored[str | None]
    back_at: Stored[float | None] = stored(index=True)
    #: a user or an admin had set a hold on the run that pays
    held_before: Stored[bool]
    #: when it leaves it ends for good, as its owner has said
    ends: Stored[bool]
    #: what it had when it was chosen
    size: Stored[SizeRecord | None] = stored(holds=SizeRecord)


class BystanderRow(Base):
    """Delay of one job as a bystander (`tesched_core.model.bystander`)."""

    __tablename__ = "bystanders"

    job_key: Stored[int] = stored(ForeignKey("jobs.key", ondelete="CASCADE"), primary_key=True, autoincrement=False)
    job_id: Stored[int]
    #: it is part of the daemon's memory
    in_memory: Stored[bool] = stored(index=True)
    submitted_at: Stored[float]
    user: Stored[str] = stored("user_name")
    #: it is delayed since then, and by these TE jobs: (job id, user, start)
    since: Stored[float | None]
    by: Stored[list[tuple[int, str, float]]] = stored("by_jobs")
    #: seconds before
    delayed_s: Stored[float]
    by_own_user_s: Stored[float]
    shares: Stored[list[tuple[int, str, float]]]
    until: Stored[float | None] = stored("until_at", index=True)


class TransitionRow(Base):
    """One step of an order, or of a victim of it."""

    __tablename__ = "transitions"

    key: Stored[int] = stored(KEY, primary_key=True)
    order_id: Stored[int] = stored(ForeignKey("orders.order_id", ondelete="CASCADE"), index=True)
    at: Stored[float]
    job_id: Stored[int | None]
    before: Stored[str] = stored("state_before")
    after: Stored[str] = stored("state_after")
    text: Stored[str]


class PolicyStateRow(Base):
    """State of one policy, whole: no query asks for a part of it."""

    __tablename__ = "policy_states"

    policy: Stored[str] = stored(primary_key=True)
    state: Stored[Any]


class ChangeRow(Base):
    """Change of one field of one job (of a throttle, of one array) that is yet to be put back."""

    __tablename__ = "changes"

    #: the field, or the name of a lever of a site's own
    lever: Stored[str] = stored(primary_key=True)
    job_id: Stored[int] = stored(primary_key=True, autoincrement=False)
    #: a `Change`: when, from what, to what
    record: Stored[ChangeRecord] = stored(holds=ChangeRecord)


class StandbyRow(Base):
    """A daemon that waits for the lead."""

    __tablename__ = "standbys"

    host: Stored[str] = stored(primary_key=True)
    pid: Stored[int] = stored(primary_key=True, autoincrement=False)
    started_at: Stored[float]
    #: when it last said so, by the store's clock
    seen_at: Stored[float]


class PauseRow(Base):
    """One row while an admin has paused tesched; else none."""

    __tablename__ = "pause"

    #: always 1
    key: Stored[int] = stored(KEY, primary_key=True, autoincrement=False)
    since: Stored[float]
    #: None: until `tesched unpause`
    until: Stored[float | None]
    by: Stored[str] = stored("by_user")
    reason: Stored[str]


class DeedRow(Base):
    """Deed of an admin at the command line, with the admin by the kernel's word."""

    __tablename__ = "deeds"

    key: Stored[int] = stored(KEY, primary_key=True)
    at: Stored[float]
    by: Stored[str] = stored("by_user")
    what: Stored[str]


class PaidRow(Base):
    """Payment of one victim; of the last day."""

    __tablename__ = "paid"

    job_id: Stored[int] = stored(primary_key=True, autoincrement=False)
    at: Stored[float] = stored(primary_key=True)
    user: Stored[str] = stored("user_name")
    account: Stored[str]
    nodes: Stored[list[str]]
    node_s: Stored[float]
    preemptor: Stored[int | None]
    #: its restarts, where Slurm preempted for it
    preemptor_restarts: Stored[int | None]
    #: when Slurm put the victim back, then
    put_back_at: Stored[float | None]
    for_user: Stored[str]
    for_account: Stored[str]
    #: a TE job, or the turn of a BE job
    purpose: Stored[str]
    #: it was let go after its notice
    withdrawn: Stored[bool]


class OutlivedRow(Base):
    """TE run that outlived its time limit, of the last day."""

    __tablename__ = "outlived"

    job_id: Stored[int] = stored(primary_key=True, autoincrement=False)
    at: Stored[float] = stored(primary_key=True)
    user: Stored[str] = stored("user_name")


class JobMemoryRow(Base):
    """Memory by job."""

    __tablename__ = "job_memory"

    job_id: Stored[int] = stored(KEY, primary_key=True, autoincrement=False)
    preemptions: Stored[int | None]
    lost_runs: Stored[int | None]
    last_preempted: Stored[float | None]
    retry_at: Stored[float | None]
    #: how many orders for it were futile, how the last one ended, what Slurm said of it then, a digest of what another
    #: order would depend on, how many jobs that share its limits ran at most since, and whether anything has changed
    futile_count: Stored[int | None]
    futile_ending: Stored[str | None]
    futile_said: Stored[str | None]
    futile_basis: Stored[str | None]
    futile_fellows: Stored[int | None]
    futile_changed: Stored[bool | None]
    futile_first_restart: Stored[int | None]
    #: of a job that was preempted: its first submission, and how long it ran before its present turn in the queue
    submitted_at: Stored[float | None]
    ran_s: Stored[float | None]
    suspended_s: Stored[float | None]
    longest_run_s: Stored[float | None]
    delayed_s: Stored[float | None]
    excused_s: Stored[float | None]


class ReportRow(Base):
    """Last report of one job on itself, but for its losses."""

    __tablename__ = "reports"

    job_key: Stored[int] = stored(
        KEY, ForeignKey("jobs.key", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    #: when its newest loss or speed was reported, by the job's own clock; None if it has reported none
    at: Stored[float | None]
    #: what it trains, in its own word; empty: it does not say
    workload: Stored[str]
    target_loss: Stored[float | None]
    #: up to when its work is saved, by its own word; None if it does not say
    saved_at: Stored[float | None]
    #: why its newest report is not used; empty if it is
    refused: Stored[str]
    #: the newest of its speeds that is in `throughputs`
    sampled_at: Stored[float]


class ProgressRow(Base):
    """One loss that a job has reported."""

    __tablename__ = "progress"

    job_key: Stored[int] = stored(
        BigInteger, ForeignKey("jobs.key", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    iteration: Stored[int] = stored(primary_key=True, autoincrement=False)
    at: Stored[float]
    loss: Stored[float]
    #: work done per core-second, if it says so
    work: Stored[float | None]


class ThroughputRow(Base):
    """Speed of a workload on a type of accelerator, alone or beside another one."""

    __tablename__ = "throughputs"

    #: the user of the jobs that reported it; empty: an admin's file, which holds for all users
    user: Stored[str] = stored("user_name", primary_key=True)
    workload: Stored[str] = stored(primary_key=True)
    #: on how many accelerators
    scale: Stored[int] = stored(primary_key=True, autoincrement=False)
    accelerator: Stored[str] = stored(primary_key=True)
    #: the workload that shares the accelerators, and on how many it runs; empty and 0: none
    partner: Stored[str] = stored(primary_key=True)
    partner_scale: Stored[int] = stored(primary_key=True, autoincrement=False)
    steps_per_s: Stored[float]
    #: how many measurements are in it
    samples: Stored[int]
    #: of the newest
    at: Stored[float] = stored(index=True)


class FinishedRunRow(Base):
    """Run that ended by itself, from which run times are learned (`finished_runs.py`): the newest of them."""

    __tablename__ = "finished_runs"
    # A reader asks for greater keys than the last one that it has: SQLite would use those of deleted rows again.
    __options__: ClassVar = {"sqlite_autoincrement": True}

    key: Stored[int] = stored(KEY, primary_key=True)
    #: as Slurm names it; empty: of a trace
    cluster: Stored[str]
    #: one name for one run, whatever it was learned from: 120_4@1700000000
    run: Stored[str] = stored(unique=True)
    #: "daemon", "sacct" or "trace"
    source: Stored[str]
    user: Stored[str] = stored("user_name")
    account: Stored[str]
    partition: Stored[str]
    name: Stored[str]
    #: over all its nodes
    gpus: Stored[int]
    cpus: Stored[int]
    nodes: Stored[int]
    time_limit_s: Stored[float | None]
    run_s: Stored[float]
    end_s: Stored[float] = stored(index=True)


class RunTimeLevelsRow(Base):
    """Levels at which the daemon of a cluster reads quantiles of run times (`run_time_levels.py`)."""

    __tablename__ = "run_time_levels"

    cluster: Stored[str] = stored(primary_key=True)
    #: by the level that is wanted: {"0.1": 0.08, "0.9": 0.94}
    levels: Stored[dict[str, float]]
    written_at: Stored[float]
