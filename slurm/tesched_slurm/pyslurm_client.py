"""Slurm through pyslurm: an observer and an actuator for sites whose pyslurm matches their Slurm.

What comes from where:

- pyslurm: jobs, nodes and partitions; requeue, suspend, resume, nice, priority, hold and release.
- `squeue`, each time while jobs wait: what a pending job asks for a job, task and socket (TresPerJob, …), whether its
  memory is a GPU's, and its dependency, none of which pyslurm has whole.
- `scontrol -d -o show job`, once a run: what each job that has started asked for and holds on each node; a completing
  job, each time it has changed; any job that pyslurm cannot read. A few such jobs one by one, more than that all at
  once.
- `scontrol -o show node`, while a node that is partly allocated has a reason: pyslurm may hide that it is down.
- `scontrol -o show reservation`, while there are any; `scontrol show config`, every five minutes.
- `scancel`: the notice, since pyslurm reads the outcome of its signal call from a stale error number. scontrol and
  scancel: an array, and its last task, which bears the array's id; pyslurm can only name job ids.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from functools import partial

from tesched_core.actions import (
    Action,
    Failure,
    FailureKind,
    Hold,
    Notify,
    Outcome,
    Release,
    Requeue,
    Resume,
    SetNice,
    SetNodes,
    SetPriority,
    SetThrottle,
    Status,
    Suspend,
)
from tesched_core.cluster import Job, JobState, Node, Request, Reservation
from tesched_core.resources import JobId
from tesched_core.snapshot import Snapshot
from tesched_core.waiting import has_reason

from tesched_slurm.command import Commands
from tesched_slurm.commands import (
    MOST_DROPPED,
    CommandsActuator,
    Settings,
    not_that_run,
    read_alone,
    real_name,
    strange,
)
from tesched_slurm.jobs import read_jobs
from tesched_slurm.places import read_nodes, read_reservations
from tesched_slurm.pyslurm_jobs import (
    ASKED_FORMAT,
    Asked,
    job_of,
    may_be_wrong,
    node_of,
    partition_of,
    pending_job,
    read_asked,
    same_run,
    started_job,
)
from tesched_slurm.pyslurm_process import PyslurmProcess
from tesched_slurm.pyslurm_wire import Do, Done, JobRecord, Look, LookAtJob, Question, Seen

log = logging.getLogger(__name__)

COMPLETING = "COMPLETING"
#: Up to this many jobs are looked at one by one, or up to one in so many: a command costs as much as that many records.
ONE_BY_ONE = 5
ONE_IN = 100


@dataclass(slots=True)
class _Kept:
    """A job of the last look, to be used again where nothing has changed."""

    record: JobRecord
    asked: Asked | None
    job: Job
    #: what scontrol said when this run was first seen
    known: Job | None


@dataclass(kw_only=True)
class PyslurmObserver:
    """Sees the cluster through pyslurm."""

    process: PyslurmProcess
    commands: Commands
    _settings: Settings = field(init=False)
    _kept: dict[int, _Kept] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make ready to read the settings."""
        self._settings = Settings(commands=self.commands)

    def observe(self) -> Snapshot | Failure:
        """Return what Slurm says now, unclassified. `taken_at` is the time before the first question."""
        taken_at = time.time()
        settings = self._settings.now()
        if isinstance(settings, Failure):
            return settings
        asked = self._asked()
        if isinstance(asked, Failure):
            return asked
        seen = _seen(self.process, Look())
        if isinstance(seen, Failure):
            return seen
        jobs = self._jobs(seen, asked)
        if isinstance(jobs, Failure):
            return jobs
        nodes = self._nodes(seen)
        if isinstance(nodes, Failure):
            return nodes
        reservations = self._reservations() if seen.reservations else ()
        if isinstance(reservations, Failure):
            return reservations
        return Snapshot.of(
            taken_at,
            jobs=jobs,
            nodes=nodes,
            partitions=map(partition_of, seen.partitions),
            reservations=reservations,
            settings=settings,
        )

    def _asked(self) -> dict[int, Asked] | Failure:
        # Before pyslurm's look: what has started since is then no pending job, and is not missed here.
        # -r: else the waiting tasks of an array are shown as one, also those that have a record of their own.
        answer = self.commands.run(("squeue", "-a", "-h", "-r", "-t", "PENDING", "-O", ASKED_FORMAT))
        if isinstance(answer, Failure):
            return answer
        try:
            return read_asked(answer)
        except ValueError as error:
            return strange("squeue", error)

    def _jobs(self, seen: Seen, asked: dict[int, Asked]) -> list[Job] | Failure:
        """Return the jobs, those of the last look where nothing has changed."""
        kept: dict[int, _Kept] = {}
        unknown: set[int] = set(seen.unread)
        for record in seen.jobs:
            last = self._kept.get(record.id)
            says = asked.get(record.id) if record.state == "PENDING" else None
            if last is not None and last.record == record and last.asked == says:
                kept[record.id] = last
            elif says is not None:
                kept[record.id] = _Kept(record, says, pending_job(record, says), None)
            elif (
                last is not None
                and last.known is not None
                and record.state != COMPLETING
                and same_run(record, last.known)
            ):
                kept[record.id] = _Kept(record, None, started_job(record, last.known), last.known)
            else:
                unknown.add(record.id)
        jobs = [each.job for each in kept.values()]
        if unknown:
            known = self._look_closely(unknown, {*kept, *unknown})
            if isinstance(known, Failure):
                return known
            records: dict[int, JobRecord | None] = {record.id: record for record in seen.jobs}
            for job in known:
                jobs.append(job)
                shown = records.get(job.job_id)
                if shown is None or not same_run(shown, job):
                    continue
                # A completing job has given back part of what it had: that is no word on the whole run.
                last = self._kept.get(job.job_id)
                whole = job if shown.state != COMPLETING else last.known if last else None
                kept[shown.id] = _Kept(shown, None, job, whole)
        self._kept = kept
        return jobs

    def _look_closely(self, wanted: set[int], ids: set[int]) -> list[Job] | Failure:
        """Return these jobs as scontrol shows them; one that is gone meanwhile is left out."""
        if len(wanted) > max(ONE_BY_ONE, len(ids) // ONE_IN):
            answer = self.commands.run(("scontrol", "-a", "-d", "-o", "show", "job"))
            if isinstance(answer, Failure):
                return answer
            read = read_jobs(answer, partial(real_name, self.commands), ids, wanted)
            if read.dropped:
                log.warning("%d job record(s) of scontrol could not be read", read.dropped)
            if read.dropped > MOST_DROPPED:
                return Failure(kind=FailureKind.UNKNOWN, message=f"{read.dropped} job records could not be read")
            alone = read_alone(self.commands, read.doubtful)
            return alone if isinstance(alone, Failure) else [*read.jobs, *alone]
        return read_alone(self.commands, wanted)

    def _nodes(self, seen: Seen) -> tuple[Node, ...] | Failure:
        if seen.nodes is not None and not any(map(may_be_wrong, seen.nodes)):
            return tuple(map(node_of, seen.nodes))
        answer = self.commands.run(("scontrol", "-a", "-o", "show", "node"))
        if isinstance(answer, Failure):
            return answer
        try:
            return read_nodes(answer)
        except (KeyError, ValueError) as error:
            return strange("scontrol -o show node", error)

    def _reservations(self) -> tuple[Reservation, ...] | Failure:
        answer = self.commands.run(("scontrol", "-a", "-o", "show", "reservation"))
        if isinstance(answer, Failure):
            return answer
        try:
            return read_reservations(answer)
        except (KeyError, ValueError) as error:
            return strange("scontrol -o show reservation", error)


@dataclass(frozen=True, slots=True, kw_only=True)
class PyslurmWatcher:
    """Looks at one job through pyslurm."""

    process: PyslurmProcess

    def looked_at(self, job_id: JobId) -> bool:
        """Return whether Slurm has said why this job waits, or it waits no more, or that is not to be had."""
        seen = _seen(self.process, LookAtJob(job_id))
        if isinstance(seen, Failure):
            return True
        return not any(job.state == JobState.PENDING and not has_reason(job.state_reason or "") for job in seen.jobs)


def _seen(process: PyslurmProcess, question: Question) -> Seen | Failure:
    answer = process.ask(question)
    if isinstance(answer, Seen | Failure):
        return answer
    return Failure(kind=FailureKind.UNKNOWN, message="pyslurm's process gave the answer to another question")


@dataclass(kw_only=True)
class PyslurmActuator:
    """Acts through pyslurm, and through scancel and scontrol where pyslurm cannot."""

    process: PyslurmProcess
    commands: Commands

    def act(self, action: Action) -> Outcome:
        """Perform the action; Slurm's errors come back as values."""
        began = time.time()
        seen = self._look(action.job_id)
        if isinstance(action, SetThrottle) or (isinstance(seen, Job) and seen.array_job_id == seen.job_id):
            return CommandsActuator(commands=self.commands).act(action)
        if isinstance(action, Notify | SetNodes) and isinstance(seen, Job):
            return CommandsActuator(commands=self.commands).act(action, seen)
        failure = seen if isinstance(seen, Failure) else self._perform(action, seen)
        return Outcome(
            action=action,
            status=Status.FAILED if failure else Status.SENT,
            at=began,
            took_s=time.time() - began,
            failure=failure,
        )

    def _perform(self, action: Action, seen: Job) -> Failure | None:
        match action:
            case Requeue():
                return self._requeue(action, seen)
            case Suspend():
                return self._do(seen, "suspend")
            case Resume():
                return self._do(seen, "resume")
            case SetNice():
                return self._do(seen, "nice", action.nice)
            case SetPriority():
                return self._do(seen, "priority", action.priority)
            case Hold():
                if not seen.pending:
                    return Failure(kind=FailureKind.ALREADY_DONE, message=f"job {seen.job_id} is {seen.state} by now")
                return self._do(seen, "hold")
            case Release():
                return self._do(seen, "release")
            case Notify() | SetNodes() | SetThrottle():
                raise AssertionError("this goes through Slurm's commands")

    def _requeue(self, action: Requeue, seen: Job) -> Failure | None:
        failure = not_that_run(seen, action.restarts) or self._do(seen, "requeue")
        if failure is None and seen.state is JobState.SUSPENDED:
            # Slurm puts a suspended job back in the queue held.
            return self._do(seen, "release")
        return failure

    def _look(self, job_id: JobId) -> Job | Failure:
        """Return the job, without what it asked for and holds."""
        seen = _seen(self.process, LookAtJob(job_id))
        if isinstance(seen, Failure):
            return seen
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
