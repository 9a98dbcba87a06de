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

from typing import Any

from sqlalchemy import JSON, BigInteger, Dialect, Float, ForeignKey, Index, Integer, MetaData, Text, TypeDecorator
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

#: SQLite counts rows up by itself only in a column declared INTEGER.
_Key = BigInteger().with_variant(Integer, "sqlite")


class UserText(TypeDecorator[str]):
    """Text that any user may have chosen.

    A job's name is whatever bytes its user typed. PostgreSQL takes no NUL and neither database takes what is not UTF-8,
    and one user must not be able to stop the store with a job name; such characters are written as escapes.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 (SQLAlchemy's)
        """Return the text that is stored."""
        return None if value is None else storable(value)


def storable(text: str) -> str:
    """Return the text as every database takes it: unchanged, unless it has a NUL or is not UTF-8."""
    if "\0" not in text:
        if text.isascii():
            return text
        try:
            text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


class Base(DeclarativeBase):
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
    type_annotation_map = {  # noqa: RUF012
        str: UserText,
        int: BigInteger,
        float: Float(53),
        dict[str, Any]: JSON,
        list[dict[str, Any]]: JSON,
        list[str]: JSON,
    }


#: columns of `DaemonRow` in which a daemon says what is wrong with parts of its own, in words
TROUBLES = ("marks_trouble", "admission_trouble", "metrics_trouble", "idle_trouble")


class DaemonRow(Base):
    """One row: the daemon as it last reported, and the scalars of its memory."""

    __tablename__ = "daemon"

    #: always 1
    key: Mapped[int] = mapped_column(_Key, primary_key=True, autoincrement=False)
    #: counts writes; a writer that does not find its own number knows that another process writes here
    revision: Mapped[int]
    #: what the process below is: "daemon" or "undo"
    role: Mapped[str] = mapped_column(server_default="daemon")
    mode: Mapped[str]
    pid: Mapped[int]
    #: when its process was started, in clock ticks since the boot: a pid may be another process's by now
    pid_ticks: Mapped[int | None]
    host: Mapped[str]
    started_at: Mapped[float]
    version: Mapped[str]
    client: Mapped[str]
    #: when it last reported, and its last good poll of the cluster
    reported_at: Mapped[float]
    seen_at: Mapped[float | None]
    failure_kind: Mapped[str | None]
    failure: Mapped[str | None]
    next_at: Mapped[float]
    #: when it ended and said so, by the store's clock; NULL while it runs, and of one that died
    stopped_at: Mapped[float | None]
    summary: Mapped[str]
    #: until when the daemon above leads, by the store's own clock, and how often the lead has changed hands
    lease_until: Mapped[float]
    lease_token: Mapped[int]
    #: in which boot and process namespace its pid counts
    lease_place: Mapped[str]
    #: since when it leads, by the store's clock
    lease_since: Mapped[float]
    #: its clock less the store's, seconds, when it last wrote its memory
    clock_ahead_s: Mapped[float]
    #: its calls to Slurm in the minute before its last report, by kind: {"scontrol show job": 30, …}
    calls: Mapped[dict[str, Any]]
    #: of the command that notifies users, since its start: {"told": 3, "failed": 1, …}; None before 0.2
    told: Mapped[dict[str, Any] | None]
    #: jobs with records that it could not read whole: {"count": 1, "first": [["17", "ada", "why"]]}; None before 0.2
    doubts: Mapped[dict[str, Any] | None]
    #: why Slurm may not obey its marks, in words; empty if it does
    marks_trouble: Mapped[str]
    #: what is wrong with the submission hook's admission file, in words; empty if nothing
    admission_trouble: Mapped[str]
    #: what is wrong with the endpoint of the metrics, in words; empty if nothing
    metrics_trouble: Mapped[str]
    #: why no job counts as idle, in words; empty if nothing is wrong
    idle_trouble: Mapped[str]
    #: how new jobs are found between two polls, in words
    new_jobs: Mapped[str]
    #: how far the limits on TE jobs are enforced (`enforcement.Enforcement`); {}: none is set
    enforced: Mapped[dict[str, Any]]
    #: limits that it could not read: [{"kind": "limits", "since": …, "said": "why", "kept": false}]
    limits_unread: Mapped[list[dict[str, Any]]]
    #: kinds of change that Slurm refuses, by the field: {"nice": {"count": 3, "said": …}}
    refused: Mapped[dict[str, Any]]
    #: amounts that TE jobs hold, and that all nodes have: {"te": {"cpu": 8, "gpu": 1}, "all": {"cpu": 64, "gpu": 8}}
    held: Mapped[dict[str, Any]]
    #: what is left of the bounds of BE jobs (`decision.BoundNow`); {}: nothing is bounded
    bound: Mapped[dict[str, Any]]
    #: Memory.cycle and Memory.next_order
    cycle: Mapped[int]
    next_order: Mapped[int]


class JobRow(Base):
    """One job, from its first submission on, over all its restarts."""

    __tablename__ = "jobs"

    key: Mapped[int] = mapped_column(_Key, primary_key=True, autoincrement=False)
    job_id: Mapped[int]
    first_submit_time: Mapped[float]
    #: of the present run; each requeue resets it
    submit_time: Mapped[float]
    array_job_id: Mapped[int | None]
    array_task_id: Mapped[int | None]
    het_job_id: Mapped[int | None]
    het_offset: Mapped[int | None]
    #: as squeue writes it: 123, 120_4, 130+1
    label: Mapped[str]
    name: Mapped[str]
    user: Mapped[str] = mapped_column("user_name", key="user")
    account: Mapped[str]
    partition: Mapped[str]
    qos: Mapped[str]
    job_class: Mapped[str]
    rule: Mapped[str]
    grace_period_s: Mapped[float]
    grace_source: Mapped[str]
    #: empty for none; which of its processes get it; and where it was declared, in words
    notice_signal: Mapped[str]
    notice_target: Mapped[str]
    notice_source: Mapped[str]
    #: what exit status 0 in its grace period means
    exit0: Mapped[str]
    #: its user says that its tasks are workers of one training
    elastic: Mapped[bool]
    #: when it is preempted it ends, and does not run again, as its owner has said
    ends: Mapped[bool]
    #: of a BE job: how often it may be preempted at most, as its owner has said
    most_preemptions: Mapped[int | None]
    #: what its user said and does not count, or not as it was said (`model.not_followed.NotFollowed`)
    not_followed: Mapped[list[dict[str, Any]]]
    #: over all its nodes
    cpus: Mapped[int]
    mem_mib: Mapped[int]
    gpus: Mapped[int]
    min_nodes: Mapped[int]
    state: Mapped[str]
    #: Slurm's flags on the state, sorted, with commas
    flags: Mapped[str]
    reason: Mapped[str]
    priority: Mapped[int]
    nice: Mapped[int]
    restarts: Mapped[int]
    start_time: Mapped[float | None]
    end_time: Mapped[float | None]
    time_limit_s: Mapped[int | None]
    #: how long it runs, in its owner's word
    run_time_s: Mapped[float | None]
    #: of a waiting TE job: for how long it has no victims, by its owner's word, and until when
    patience_s: Mapped[float | None]
    patience_until: Mapped[float | None]
    #: of a running BE job that the site calls idle: since when
    idle_since: Mapped[float | None]
    nodes: Mapped[list[str]]
    #: while it holds nodes: what it said of itself when that run began (`classify.Question`); its class comes from that
    question: Mapped[dict[str, Any] | None]
    first_seen: Mapped[float]
    #: None: Slurm knows it still
    last_seen: Mapped[float | None]
    #: once it has ended: seconds that it waited and ran, all runs together; None if tesched did not see all of it
    waited_s: Mapped[float | None]
    ran_s: Mapped[float | None]

    __table_args__ = (
        Index(None, "job_id", "key"),
        Index(None, "array_job_id", "array_task_id"),
        Index(None, "het_job_id", "het_offset"),
        Index(None, "last_seen"),
        Index(None, "end_time"),
    )


class HistoryRow(Base):
    """A change of a job's state, as seen: it started, was requeued, was suspended, moved, ended."""

    __tablename__ = "job_history"

    key: Mapped[int] = mapped_column(_Key, primary_key=True)
    job_key: Mapped[int] = mapped_column(ForeignKey("jobs.key", ondelete="CASCADE"), index=True)
    at: Mapped[float]
    state: Mapped[str]
    #: its processes are being ended
    completing: Mapped[bool]
    reason: Mapped[str]
    restarts: Mapped[int]
    submit_time: Mapped[float]
    start_time: Mapped[float | None]
    end_time: Mapped[float | None]
    nodes: Mapped[list[str]]


class CycleRow(Base):
    """One cycle and its decision, or several in a row that did nothing and say the same."""

    __tablename__ = "cycles"

    key: Mapped[int] = mapped_column(_Key, primary_key=True, autoincrement=False)
    #: of the memory; None where the cluster could not be seen
    first_cycle: Mapped[int | None]
    last_cycle: Mapped[int | None]
    first_at: Mapped[float]
    last_at: Mapped[float] = mapped_column(index=True)
    count: Mapped[int]
    #: nothing was ordered and no order moved: a row that may stand for several cycles
    idle: Mapped[bool]
    mode: Mapped[str]
    client: Mapped[str]
    policy: Mapped[str]
    summary: Mapped[str]
    failure_kind: Mapped[str | None]
    failure: Mapped[str | None]
    #: seconds of all `count` cycles together, and of the slowest one
    observe_s: Mapped[float]
    observe_max_s: Mapped[float]
    step_s: Mapped[float]
    step_max_s: Mapped[float]
    act_s: Mapped[float]
    #: jobs by class and state, as seen last: {"te": {"PENDING": 2}, …}
    counts: Mapped[dict[str, Any]]


class ActionRow(Base):
    """One action of a decision, and what became of it (`status` NULL: tesched died in between, or is about to act)."""

    __tablename__ = "actions"

    cycle_key: Mapped[int] = mapped_column(ForeignKey("cycles.key", ondelete="CASCADE"), primary_key=True)
    #: its place in the decision, from 0
    position: Mapped[int] = mapped_column(primary_key=True)
    intended_at: Mapped[float]
    kind: Mapped[str]
    job_id: Mapped[int]
    job_key: Mapped[int | None] = mapped_column(ForeignKey("jobs.key", ondelete="CASCADE"), index=True)
    reason: Mapped[str]
    text: Mapped[str]
    preemptor: Mapped[int | None]
    order_id: Mapped[int | None] = mapped_column(index=True)
    #: Notify's
    signal: Mapped[str | None]
    target: Mapped[str | None]
    #: Notify's, Requeue's, Cancel's and Rerun's
    restarts: Mapped[int | None]
    #: of a field that is set to a number
    value: Mapped[int | None]
    previous: Mapped[int | None]
    status: Mapped[str | None]
    at: Mapped[float | None]
    took_s: Mapped[float | None]
    failure_kind: Mapped[str | None]
    failure: Mapped[str | None]


class RefusalRow(Base):
    """Why a job was considered and not selected, for as long as that was so."""

    __tablename__ = "refusals"

    key: Mapped[int] = mapped_column(_Key, primary_key=True, autoincrement=False)
    preemptor: Mapped[int]
    preemptor_key: Mapped[int | None] = mapped_column(ForeignKey("jobs.key", ondelete="CASCADE"), index=True)
    job_id: Mapped[int]
    job_key: Mapped[int | None] = mapped_column(ForeignKey("jobs.key", ondelete="CASCADE"), index=True)
    code: Mapped[str]
    #: as it was when it was first said; of a preemptor's own refusal, as it was said last
    text: Mapped[str]
    score: Mapped[float | None]
    #: the BE job for which a TE job has to wait, as squeue writes it; empty: none
    behind: Mapped[str]
    #: how many more candidates of this preemptor are refused by this code, and not written
    more: Mapped[int]
    first_seen: Mapped[float]
    #: None: it still stands
    last_seen: Mapped[float | None] = mapped_column(index=True)


class OrderRow(Base):
    """One order."""

    __tablename__ = "orders"

    order_id: Mapped[int] = mapped_column(_Key, primary_key=True, autoincrement=False)
    #: it is part of the daemon's memory
    in_memory: Mapped[bool] = mapped_column(index=True)
    preemptor: Mapped[int]
    preemptor_key: Mapped[int | None] = mapped_column(ForeignKey("jobs.key", ondelete="SET NULL"), index=True)
    state: Mapped[str]
    created_at: Mapped[float] = mapped_column(index=True)
    expires_at: Mapped[float]
    nodes: Mapped[list[str]]
    waits_until: Mapped[float | None]
    #: the newest task that its preemptor, a job array, had started when the order was made
    newest_task: Mapped[int | None] = mapped_column(BigInteger)
    #: what its preemptor requested when it was made
    size: Mapped[Any | None] = mapped_column(JSON(none_as_null=True))
    #: how often it had been requeued then, or at its start, and since when that is yet to become a useful run
    restarts: Mapped[int | None] = mapped_column(BigInteger)
    run_seen_at: Mapped[float | None]
    started_at: Mapped[float | None]
    ending: Mapped[str | None]
    ended_at: Mapped[float | None] = mapped_column(index=True)


class VictimRow(Base):
    """One victim of an order."""

    __tablename__ = "victims"

    order_id: Mapped[int] = mapped_column(ForeignKey("orders.order_id", ondelete="CASCADE"), primary_key=True)
    #: its place in the order, from 0
    position: Mapped[int] = mapped_column(primary_key=True)
    job_id: Mapped[int]
    job_key: Mapped[int | None] = mapped_column(ForeignKey("jobs.key", ondelete="SET NULL"), index=True)
    state: Mapped[str]
    restarts: Mapped[int]
    grace_period_s: Mapped[float]
    notice_signal: Mapped[str]
    notice_target: Mapped[str]
    exit0: Mapped[str]
    score: Mapped[float]
    #: why the policy chose it
    why: Mapped[str]
    nodes: Mapped[list[str]]
    started_at: Mapped[float]
    queued_at: Mapped[float]
    user: Mapped[str] = mapped_column("user_name", key="user")
    account: Mapped[str]
    for_user: Mapped[str]
    for_account: Mapped[str]
    #: a TE job, or the turn of a BE job
    purpose: Mapped[str]
    noticed_at: Mapped[float | None]
    requeue_sent_at: Mapped[float | None]
    by_suspending: Mapped[bool]
    suspend_sent_at: Mapped[float | None]
    suspended_at: Mapped[float | None]
    ending_since: Mapped[float | None]
    #: up to when its run is saved, by its own word
    saved_at: Mapped[float | None]
    #: when it was seen that it will not run again though it was to
    given_up_at: Mapped[float | None]
    left_at: Mapped[float | None]
    departure: Mapped[str | None]
    back_at: Mapped[float | None]
    #: a user or an admin had set a hold on the run that pays
    held_before: Mapped[bool]
    #: when it leaves it ends for good, as its owner has said
    ends: Mapped[bool]
    #: what it had when it was chosen
    size: Mapped[Any | None] = mapped_column(JSON(none_as_null=True))


class BystanderRow(Base):
    """Delay of one job as a bystander (`tesched_core.model.bystander`)."""

    __tablename__ = "bystanders"

    job_key: Mapped[int] = mapped_column(
        ForeignKey("jobs.key", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    job_id: Mapped[int]
    #: it is part of the daemon's memory
    in_memory: Mapped[bool] = mapped_column(index=True)
    submitted_at: Mapped[float]
    user: Mapped[str] = mapped_column("user_name", key="user")
    #: it is delayed since then, and by these TE jobs: (job id, user)
    since: Mapped[float | None]
    by: Mapped[list[Any]] = mapped_column("by_jobs", JSON, key="by")
    #: seconds before
    delayed_s: Mapped[float]
    by_own_user_s: Mapped[float]
    shares: Mapped[list[Any]] = mapped_column(JSON)
    until: Mapped[float | None] = mapped_column("until_at", key="until", index=True)


class TransitionRow(Base):
    """One step of an order, or of a victim of it."""

    __tablename__ = "transitions"

    key: Mapped[int] = mapped_column(_Key, primary_key=True)
    order_id: Mapped[int] = mapped_column(ForeignKey("orders.order_id", ondelete="CASCADE"), index=True)
    at: Mapped[float]
    job_id: Mapped[int | None]
    before: Mapped[str] = mapped_column("state_before", key="before")
    after: Mapped[str] = mapped_column("state_after", key="after")
    text: Mapped[str]


class PolicyStateRow(Base):
    """State of one policy, whole: no query asks for a part of it."""

    __tablename__ = "policy_states"

    policy: Mapped[str] = mapped_column(primary_key=True)
    state: Mapped[dict[str, Any]]


class ChangeRow(Base):
    """Change of one field of one job (of a throttle, of one array) that is yet to be put back."""

    __tablename__ = "changes"

    #: the field, or the name of a lever of a site's own
    lever: Mapped[str] = mapped_column(primary_key=True)
    job_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    #: a `Change`: when, from what, to what
    record: Mapped[Any] = mapped_column(JSON)


class StandbyRow(Base):
    """A daemon that waits for the lead."""

    __tablename__ = "standbys"

    host: Mapped[str] = mapped_column(primary_key=True)
    pid: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    started_at: Mapped[float]
    #: when it last said so, by the store's clock
    seen_at: Mapped[float]


class PauseRow(Base):
    """One row while an admin has paused tesched; else none."""

    __tablename__ = "pause"

    #: always 1
    key: Mapped[int] = mapped_column(_Key, primary_key=True, autoincrement=False)
    since: Mapped[float]
    #: None: until `tesched unpause`
    until: Mapped[float | None]
    by: Mapped[str] = mapped_column("by_user", key="by")
    reason: Mapped[str]


class DeedRow(Base):
    """Deed of an admin at the command line, with the admin by the kernel's word."""

    __tablename__ = "deeds"

    key: Mapped[int] = mapped_column(_Key, primary_key=True)
    at: Mapped[float]
    by: Mapped[str] = mapped_column("by_user", key="by")
    what: Mapped[str]


class PaidRow(Base):
    """Payment of one victim; of the last day."""

    __tablename__ = "paid"

    job_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[float] = mapped_column(primary_key=True)
    user: Mapped[str] = mapped_column("user_name", key="user")
    account: Mapped[str]
    nodes: Mapped[list[str]]
    node_s: Mapped[float]
    preemptor: Mapped[int | None]
    #: its restarts, where Slurm preempted for it
    preemptor_restarts: Mapped[int | None]
    #: when Slurm put the victim back, then
    put_back_at: Mapped[float | None]
    for_user: Mapped[str]
    for_account: Mapped[str]
    #: a TE job, or the turn of a BE job
    purpose: Mapped[str]
    #: it was let go after its notice
    withdrawn: Mapped[bool]


class OutlivedRow(Base):
    """TE run that outlived its time limit, of the last day."""

    __tablename__ = "outlived"

    job_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[float] = mapped_column(primary_key=True)
    user: Mapped[str] = mapped_column("user_name", key="user")


class JobMemoryRow(Base):
    """Memory by job."""

    __tablename__ = "job_memory"

    job_id: Mapped[int] = mapped_column(_Key, primary_key=True, autoincrement=False)
    preemptions: Mapped[int | None]
    last_preempted: Mapped[float | None]
    retry_at: Mapped[float | None]
    #: how many orders for it were futile, how the last one ended, what Slurm said of it then, a digest of what another
    #: order would depend on, how many jobs that share its limits ran at most since, and whether anything has changed
    futile_count: Mapped[int | None]
    futile_ending: Mapped[str | None]
    futile_said: Mapped[str | None]
    futile_basis: Mapped[str | None]
    futile_fellows: Mapped[int | None]
    futile_changed: Mapped[bool | None]
    futile_first_restart: Mapped[int | None]
    #: of a job that was preempted: its first submission, and how long it ran before its present turn in the queue
    submitted_at: Mapped[float | None]
    ran_s: Mapped[float | None]
    suspended_s: Mapped[float | None]
    longest_run_s: Mapped[float | None]
    delayed_s: Mapped[float | None]
    excused_s: Mapped[float | None]


class ReportRow(Base):
    """Last report of one job on itself, but for its losses."""

    __tablename__ = "reports"

    job_key: Mapped[int] = mapped_column(
        _Key, ForeignKey("jobs.key", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    #: when its newest loss or speed was reported, by the job's own clock; None if it has reported none
    at: Mapped[float | None]
    #: what it trains, in its own word; empty: it does not say
    workload: Mapped[str]
    target_loss: Mapped[float | None]
    #: why its newest report is not used; empty if it is
    refused: Mapped[str]
    #: the newest of its speeds that is in `throughputs`
    sampled_at: Mapped[float]


class ProgressRow(Base):
    """One loss that a job has reported."""

    __tablename__ = "progress"

    job_key: Mapped[int] = mapped_column(
        BigInteger, ForeignKey("jobs.key", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    iteration: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[float]
    loss: Mapped[float]
    #: work done per core-second, if it says so
    work: Mapped[float | None]


class ThroughputRow(Base):
    """Speed of a workload on a type of accelerator, alone or beside another one."""

    __tablename__ = "throughputs"

    #: the user of the jobs that reported it; empty: an admin's file, which holds for all users
    user: Mapped[str] = mapped_column("user_name", key="user", primary_key=True)
    workload: Mapped[str] = mapped_column(primary_key=True)
    #: on how many accelerators
    scale: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    accelerator: Mapped[str] = mapped_column(primary_key=True)
    #: the workload that shares the accelerators, and on how many it runs; empty and 0: none
    partner: Mapped[str] = mapped_column(primary_key=True)
    partner_scale: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    steps_per_s: Mapped[float]
    #: how many measurements are in it
    samples: Mapped[int]
    #: of the newest
    at: Mapped[float] = mapped_column(index=True)


class FinishedRunRow(Base):
    """Run that ended by itself, from which run times are learned (`finished_runs.py`): the newest of them."""

    __tablename__ = "finished_runs"
    # A reader asks for greater keys than the last one that it has: SQLite would use those of deleted rows again.
    __table_args__ = {"sqlite_autoincrement": True}  # noqa: RUF012 - SQLAlchemy's own form

    key: Mapped[int] = mapped_column(_Key, primary_key=True)
    #: as Slurm names it; empty: of a trace
    cluster: Mapped[str]
    #: one name for one run, whatever it was learned from: 120_4@1700000000
    run: Mapped[str] = mapped_column(unique=True)
    #: "daemon", "sacct" or "trace"
    source: Mapped[str]
    user: Mapped[str] = mapped_column("user_name", key="user")
    account: Mapped[str]
    partition: Mapped[str]
    name: Mapped[str]
    #: over all its nodes
    gpus: Mapped[int]
    cpus: Mapped[int]
    nodes: Mapped[int]
    time_limit_s: Mapped[float | None]
    run_s: Mapped[float]
    end_s: Mapped[float] = mapped_column(index=True)


class RunTimeLevelsRow(Base):
    """Levels at which the daemon of a cluster reads quantiles of run times (`run_time_levels.py`)."""

    __tablename__ = "run_time_levels"

    cluster: Mapped[str] = mapped_column(primary_key=True)
    #: by the level that is wanted: {"0.1": 0.08, "0.9": 0.94}
    levels: Mapped[dict[str, Any]]
    written_at: Mapped[float]
