"""Slurm through pyslurm: an observer and an actuator for sites where pyslurm matches Slurm.

- pyslurm: jobs, nodes and partitions; suspend, resume, nice, priority, hold and release.
- squeue's columns (`columns.py`), each time while jobs wait: what a pending job asks for a job, task and socket
  (TresPerJob, ...), whether its memory is a GPU's, and its dependency, none of which pyslurm has whole.
- squeue's columns and `scontrol -d -o show job` (`queue.py`), once a run: what each job that has started requested and
  holds on each node; a completing job, each time it has changed; any job that pyslurm cannot read; a few one by one.
- `scontrol -o show node`, while a node that is partly allocated has a reason: pyslurm may hide that it is down; and
  where nodes have GRES that are counted in units (`tmp:400G`), which it leaves out.
- `scontrol -o show reservation`, while there are any; `scontrol show config` and, where limits
  are enforced, `scontrol show assoc_mgr`, every five minutes.
- scontrol and scancel: what means one run of a job, from 26.05 on; they take its SLUID, and pyslurm does not.
- `scancel`: the notice, since pyslurm reads the outcome of its signal call from a stale error number. `scontrol
  requeue`: pyslurm's call requeues a job that has just ended, too. scontrol: the note for a preempted job's user.
  scontrol and scancel: an array, and its last task, which bears the array's id; pyslurm can only name job ids.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import msgspec
from tesched_core.intake.pending_reason import has_reason
from tesched_core.model.actions import (
    Action,
    Cancel,
    Failure,
    FailureKind,
    Notify,
    Outcome,
    Requeue,
    Rerun,
    Resume,
    SetField,
    SetMarks,
    Suspend,
    TellUser,
    sets,
)
from tesched_core.model.cluster import Job, JobState, Node, Partition, Request, Reservation, SlurmSettings
from tesched_core.model.field import Field, HoldState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.ports import Barred, never_barred

from tesched_slurm.columns import QueueRow, read_rows, strange
from tesched_slurm.commands_actuator import (
    OF_A_RUN,
    CommandsActuator,
    fresh_look,
    is_running,
    sent,
    skipped,
)
from tesched_slurm.commands_observer import Settings
from tesched_slurm.hidden_tasks import LATE, HiddenTask, HiddenTasks, TaskRows, arrays_of
from tesched_slurm.job_records import UNREADABLE, unread_job
from tesched_slurm.notes import without_hook_mark
from tesched_slurm.pyslurm_jobs import (
    job_of,
    lacking,
    may_be_wrong,
    nodes_of,
    partitions_of,
    pending_job,
    same_run,
    started_job,
)
from tesched_slurm.pyslurm_process import PyslurmProcess
from tesched_slurm.pyslurm_wire import Do, Done, JobRecord, LookAtJob, PollAll, PolledObjects, Question
from tesched_slurm.queue import Queue
from tesched_slurm.right_before import NiceReleases, not_that_run, not_to_be_set
from tesched_slurm.run_command import Commands
from tesched_slurm.scontrol_cluster import read_nodes, read_partitions, read_reservations
from tesched_slurm.scontrol_limits import LimitsInForce

COMPLETING = "COMPLETING"
#: Up to this many jobs are read one by one, or up to one in so many: a command costs as much as that many records.
ONE_BY_ONE = 5
ONE_IN = 100
MOST_ONE_BY_ONE = 20


@dataclass(slots=True)
class _KeptJob:
    """A job of the last poll, to be used again where nothing has changed."""

    record: JobRecord
    row: QueueRow | None
    job: Job
    #: what the commands said when this run was first seen
    known: Job | None


@dataclass(kw_only=True)
class PyslurmObserver:
    """Sees the cluster through pyslurm."""

    process: PyslurmProcess
    commands: Commands
    _settings: Settings = field(init=False)
    _limits: LimitsInForce = field(init=False)
    _queue: Queue = field(init=False)
    _hidden: HiddenTasks = field(init=False)
    #: with these settings no node has any of the GRES that pyslurm does not show
    _no_gres: SlurmSettings | None = None
    _kept: dict[int, _KeptJob] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make ready to read the settings and what pyslurm does not say of a job."""
        self._settings = Settings(commands=self.commands)
        self._limits = LimitsInForce(commands=self.commands)
        self._queue = Queue(commands=self.commands)
        self._hidden = HiddenTasks(commands=self.commands)

    def observe(self) -> Snapshot | Failure:
        """Read what Slurm says now, unclassified. `taken_at` is the time before the first question."""
        taken_at = time.time()
        settings = self._settings.now()
        if isinstance(settings, Failure):
            return settings
        # Before pyslurm's query: what has started since is then no pending job, and is not missed here.
        waiting = read_rows(self.commands, "-t", "PENDING")
        if isinstance(waiting, Failure):
            return waiting
        seen = _seen(self.process, PollAll())
        if isinstance(seen, Failure):
            return seen
        tasks = self._hidden_tasks(seen, {row.job_id: row for row in waiting})
        if isinstance(tasks, Failure):
            return tasks
        rows = {int(row.job_id): row for row in (*waiting, *tasks.rows.values())}
        jobs = self._jobs(seen, rows, {int(job_id): row for job_id, row in tasks.late.items()})
        if isinstance(jobs, Failure):
            return jobs
        nodes = self._nodes(seen, settings)
        if isinstance(nodes, Failure):
            return nodes
        reservations = self._reservations() if seen.reservations else ()
        if isinstance(reservations, Failure):
            return reservations
        partitions = self._partitions(seen)
        if isinstance(partitions, Failure):
            return partitions
        found = Snapshot.of(
            taken_at,
            jobs=jobs,
            nodes=nodes,
            partitions=partitions,
            reservations=reservations,
            settings=settings,
            limits=self._limits.now(settings, partitions, jobs),
        )
        return self._settings.with_controller(found)

    def _hidden_tasks(self, seen: PolledObjects, rows: dict[str, QueueRow]) -> TaskRows | Failure:
        """Return the rows of tasks that squeue shows as one with the rest of their array."""
        arrays = arrays_of(rows)
        hidden = {
            str(record.id): HiddenTask(
                array_id=str(record.array_id), task=str(record.array_task_id or 0), user=record.user, record=record
            )
            for record in seen.jobs
            if record.state == "PENDING" and str(record.id) not in rows and str(record.array_id) in arrays
        }
        return self._hidden.read(hidden, arrays)

    def _jobs(
        self, seen: PolledObjects, rows: Mapping[int, QueueRow], late: Mapping[int, QueueRow]
    ) -> list[Job] | Failure:
        """Return the jobs, those of the last poll where nothing has changed."""
        kept: dict[int, _KeptJob] = {}
        unknown: set[int] = set(seen.unread)
        jobs: list[Job] = []
        named = [self._named(record) for record in seen.jobs]
        for record in named:
            last = self._kept.get(record.id)
            if record.id in late:
                jobs.append(unread_job(late[record.id], LATE) if last is None else replace(last.job, doubt=LATE))
                kept |= {} if last is None else {record.id: last}
                continue
            row = rows.get(record.id) if record.state == "PENDING" else None
            try:
                now = _as_before(last, record, row)
            except UNREADABLE:
                now = None
            if now is None:
                unknown.add(record.id)
            else:
                kept[record.id] = now
                jobs.append(now.job)
        self._queue.forget_others({*kept, *unknown})
        if unknown:
            records: dict[int, JobRecord | None] = {record.id: record for record in named}
            waiting = {record.id for record in named if record.state == "PENDING"}
            pending = {job_id: rows[job_id] for job_id in unknown & waiting & rows.keys()}
            known = self._look_closely(unknown, {*kept, *unknown}, pending)
            if isinstance(known, Failure):
                return known
            for job in known:
                jobs.append(job)
                shown = records.get(job.job_id)
                if shown is None or job.doubt or job.partly_read or not same_run(shown, job):
                    continue
                # A completing job has given back part of what it had: that is no word on the whole run.
                last = self._kept.get(job.job_id)
                whole = job if shown.state != COMPLETING else last.known if last else None
                kept[shown.id] = _KeptJob(shown, None, job, whole)
        self._kept = kept
        return jobs

    def _named(self, record: JobRecord) -> JobRecord:
        name = self._queue.names.of(record.user_id, record.user)
        return record if name == record.user else msgspec.structs.replace(record, user=name)

    def _look_closely(self, wanted: set[int], ids: set[int], pending: Mapping[int, QueueRow]) -> list[Job] | Failure:
        """Return these jobs as the commands show them; one that is gone meanwhile is left out.

        `pending` are the rows of this poll of those that wait.
        """
        if len(wanted) <= max(ONE_BY_ONE, min(len(ids) // ONE_IN, MOST_ONE_BY_ONE)):
            few = self._queue.read_few(wanted, pending)
            return few if isinstance(few, Failure) else list(few)
        read = self._queue.query(wanted=wanted)
        return read if isinstance(read, Failure) else [job for job in read[0] if job.job_id in wanted]

    def _nodes(self, seen: PolledObjects, settings: SlurmSettings) -> tuple[Node, ...] | Failure:
        lacks = lacking(seen.nodes or (), settings)
        complete = self._no_gres is settings or not lacks
        if seen.nodes is not None and complete and not any(map(may_be_wrong, seen.nodes)):
            try:
                return nodes_of(seen.nodes)
            except ValueError as error:
                return strange("pyslurm's nodes", error)
        answer = self.commands.run(("scontrol", "-a", "-d", "-o", "show", "node"))
        if isinstance(answer, Failure):
            return answer
        try:
            nodes = read_nodes(answer)
        except (KeyError, ValueError) as error:
            return strange("scontrol -o show node", error)
        on_nodes = {name for node in nodes for name, _ in node.total.gres}
        self._no_gres = settings if lacks.isdisjoint(on_nodes) else None
        return nodes

    def _partitions(self, seen: PolledObjects) -> tuple[Partition, ...] | Failure:
        if seen.partitions is not None:
            try:
                return partitions_of(seen.partitions)
            except ValueError as error:
                return strange("pyslurm's partitions", error)
        answer = self.commands.run(("scontrol", "-a", "-o", "show", "partition"))
        if isinstance(answer, Failure):
            return answer
        try:
            return read_partitions(answer)
        except (KeyError, ValueError) as error:
            return strange("scontrol -o show partition", error)

    def _reservations(self) -> tuple[Reservation, ...] | Failure:
        answer = self.commands.run(("scontrol", "-a", "-o", "show", "reservation"))
        if isinstance(answer, Failure):
            return answer
        try:
            return read_reservations(answer)
        except (KeyError, ValueError) as error:
            return strange("scontrol -o show reservation", error)


def _as_before(last: _KeptJob | None, record: JobRecord, row: QueueRow | None) -> _KeptJob | None:
    """Return the job where pyslurm's record, squeue's row and what is known of its run say all; None where they do not.

    Raises one of `UNREADABLE` for a value that can't be read.
    """
    if last is not None and last.record == record and last.row == row:
        return last
    if row is not None:
        return _KeptJob(record, row, pending_job(record, row), None)
    if last is None or last.known is None or record.state == COMPLETING or not same_run(record, last.known):
        return None
    return _KeptJob(record, None, started_job(record, last.known), last.known)


@dataclass(frozen=True, slots=True, kw_only=True)
class PyslurmWatcher:
    """Polls one job through pyslurm."""

    process: PyslurmProcess

    def looked_at(self, job_id: JobId) -> bool:
        """Check whether Slurm has said why this job waits, or it waits no more, or that is not to be had."""
        seen = _seen(self.process, LookAtJob(job_id))
        if isinstance(seen, Failure):
            return True
        return not any(job.state == JobState.PENDING and not has_reason(job.state_reason or "") for job in seen.jobs)

    def has_ended(self, job_id: JobId) -> bool:
        """Check whether this job, which ran, runs no more, or that is not to be had.

        By an array's id, which its last task bears, pyslurm shows the tasks that wait: of that one nothing is known.
        """
        seen = _seen(self.process, LookAtJob(job_id))
        if isinstance(seen, Failure):
            return True
        return not any(
            is_running(job.state) or (job.array_id == job_id and job.state == JobState.PENDING) for job in seen.jobs
        )


def _seen(process: PyslurmProcess, question: Question) -> PolledObjects | Failure:
    answer = process.ask(question)
    if isinstance(answer, PolledObjects | Failure):
        return answer
    return Failure(kind=FailureKind.UNKNOWN, message="pyslurm's process gave the answer to another question")


#: What pyslurm can't say: scancel's targets, and a requeue of a job only if it has not ended yet.
_BY_COMMANDS = (Notify, Requeue, Cancel, Rerun, TellUser)
#: Fields that it can't set.
_SET_BY_COMMANDS = (Field.DEPENDENCY, Field.NODES, Field.BEGIN)


@dataclass(kw_only=True)
class PyslurmActuator:
    """Acts through pyslurm, and through scancel and scontrol where pyslurm cannot."""

    process: PyslurmProcess
    commands: Commands
    #: the commands take SLUIDs, which pyslurm does not know
    by_sluid: bool = False
    nice_releases: NiceReleases | None = None

    def act(self, action: Action, barred: Barred = never_barred) -> Outcome:
        """Perform the action; Slurm's errors come back as values."""
        self.nice_releases = nice = self.nice_releases or NiceReleases(commands=self.commands)
        by_commands = CommandsActuator(commands=self.commands, by_sluid=self.by_sluid, nice_releases=nice)
        if self.by_sluid and isinstance(action, OF_A_RUN):
            return by_commands.act(action, barred)
        began = time.time()
        seen = fresh_look(lambda: self._look(action.job_id), barred)
        if seen is None:
            return skipped(action, began)
        if sets(action, Field.THROTTLE) or (isinstance(seen, Job) and seen.array_job_id == seen.job_id):
            return by_commands.act(action, barred)
        by_commands_alone = isinstance(action, _BY_COMMANDS) or sets(action, *_SET_BY_COMMANDS)
        if by_commands_alone and isinstance(seen, Job):
            return by_commands.act(action, barred, seen)
        failure = seen if isinstance(seen, Failure) else self._perform(action, seen, nice)
        return sent(action, began, failure)

    def _perform(self, action: Action, seen: Job, nice: NiceReleases) -> Failure | None:
        match action:
            case Suspend():
                return not_that_run(seen, action.restarts) or self._do(seen, "suspend")
            case Resume():
                return self._do(seen, "resume")
            case SetField():
                return not_to_be_set(action, seen, nice) or self._set(action, seen)
            case Notify() | Requeue() | Cancel() | Rerun() | TellUser():
                raise AssertionError("this goes through Slurm's commands")
            case SetMarks():
                raise AssertionError("the daemon writes the marks by itself")

    def _set(self, action: SetField, seen: Job) -> Failure | None:
        match action.value:
            case HoldState.HELD:
                return self._do(seen, "hold")
            case HoldState() as state:
                failure = self._do(seen, "release") if state is HoldState.RELEASED else None
                if failure is None:
                    without_hook_mark(self.commands, seen, str(seen.job_id))
                return failure
            case int() as value if action.field in {Field.NICE, Field.PRIORITY}:
                return self._do(seen, action.field.value, value)
            case _:
                raise AssertionError("this goes through Slurm's commands")

    def _look(self, job_id: JobId) -> Job | Failure:
        """Return the job, without what it requested and holds; one that pyslurm can't read as squeue shows it."""
        seen = _seen(self.process, LookAtJob(job_id))
        if isinstance(seen, Failure):
            return seen
        if job_id in seen.unread:
            return CommandsActuator(commands=self.commands).look(job_id)
        for record in seen.jobs:
            if record.id == job_id:
                return job_of(record, Request())
        return Failure(kind=FailureKind.NOT_FOUND, message=f"job {job_id} is unknown to Slurm")

    def _do(self, seen: Job, what: str, value: int = 0) -> Failure | None:
        answer = self.process.ask(Do(seen.job_id, what, value))
        if isinstance(answer, Done):
            return None
        if isinstance(answer, Failure):
            return answer
        return Failure(kind=FailureKind.UNKNOWN, message="pyslurm's process gave the answer to another question")
