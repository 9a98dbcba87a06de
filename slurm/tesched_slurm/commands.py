"""Slurm through its own commands: an observer and an actuator for Slurm 22.05 and later.

`scontrol -o` is what every release has, what names each field, and what a poll can afford; `squeue --json` takes
seconds for a long queue.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
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
from tesched_core.cluster import Job, JobState, SlurmSettings
from tesched_core.resources import JobId
from tesched_core.snapshot import Snapshot
from tesched_core.waiting import has_reason

from tesched_slurm.command import Commands
from tesched_slurm.jobs import own_record, read_jobs
from tesched_slurm.places import (
    has_topology,
    read_nodes,
    read_partitions,
    read_reservations,
    read_settings,
    read_topology,
)

log = logging.getLogger(__name__)

#: More unreadable records than this, and the whole answer is not believed.
MOST_DROPPED = 10


@dataclass(kw_only=True)
class Settings:
    """What slurm.conf says, asked for anew after a while."""

    commands: Commands
    #: seconds for which the settings are believed
    age_s: float = 300.0
    _read: SlurmSettings | None = None
    _read_at: float = 0.0

    def now(self) -> SlurmSettings | Failure:
        """Return the settings."""
        if self._read is None or time.time() - self._read_at > self.age_s:
            config = self.commands.run(("scontrol", "show", "config"))
            if isinstance(config, Failure):
                return config
            # It changes with a reconfigure only, as the rest does.
            topology = self.commands.run(("scontrol", "-o", "show", "topology")) if has_topology(config) else ""
            if isinstance(topology, Failure):
                return topology
            try:
                settings = replace(read_settings(config), switches=read_topology(topology))
            except (KeyError, ValueError) as error:
                return strange("scontrol show config, or show topology", error)
            self._read, self._read_at = settings, time.time()
        return self._read


#: Seconds in which a trial is raised and bound by one look at it. Slurm itself refuses to bind one that has started.
ONE_LOOK_S = 0.5

#: What a look asks of scontrol.
_LOOK = (
    ("-d", "-o", "show", "job"),
    ("-o", "show", "node"),
    ("-o", "show", "partition"),
    ("-o", "show", "reservation"),
)


@dataclass(kw_only=True)
class CommandsObserver:
    """Sees the cluster through scontrol."""

    commands: Commands
    _settings: Settings = field(init=False)

    def __post_init__(self) -> None:
        """Make ready to read the settings."""
        self._settings = Settings(commands=self.commands)

    def observe(self) -> Snapshot | Failure:
        """Return what Slurm says now, unclassified. `taken_at` is the time before the first question."""
        taken_at = time.time()
        settings = self._settings.now()
        if isinstance(settings, Failure):
            return settings
        # At the same time: it is sooner done, and the four are of nearly one instant.
        answers = self.commands.run_together([("scontrol", "-a", *what) for what in _LOOK])
        if isinstance(answers, Failure):
            return answers
        # Asked for after the records: a job that came in between has no record yet.
        # -r: else the waiting tasks of an array are shown as one, also those that have a record of their own.
        ids = self.commands.run(("squeue", "-a", "-h", "-r", "-t", "all", "-o", "%A"))
        if isinstance(ids, Failure):
            return ids
        known = frozenset(int(word) for word in ids.split() if word.isdecimal())
        read = read_jobs(answers[0], partial(real_name, self.commands), known)
        alone = read_alone(self.commands, read.doubtful)
        if isinstance(alone, Failure):
            return alone
        if read.dropped:
            log.warning("%d job record(s) of scontrol could not be read", read.dropped)
            if read.dropped > MOST_DROPPED:
                return Failure(kind=FailureKind.UNKNOWN, message=f"{read.dropped} job records could not be read")
        try:
            return Snapshot.of(
                taken_at,
                jobs=(*read.jobs, *alone),
                nodes=read_nodes(answers[1]),
                partitions=read_partitions(answers[2]),
                reservations=read_reservations(answers[3]),
                settings=settings,
            )
        except (KeyError, ValueError) as error:
            return strange("scontrol -o show", error)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandsWatcher:
    """Looks at one job through squeue."""

    commands: Commands

    def looked_at(self, job_id: JobId) -> bool:
        """Return whether Slurm has said why this job waits, or it waits no more, or that is not to be had."""
        answer = self.commands.run(("squeue", "-a", "-h", "-t", "all", "-j", str(job_id), "-o", "%T|%r"))
        if isinstance(answer, Failure):
            return True
        state, _, reason = answer.strip().partition("|")
        return state != JobState.PENDING or has_reason(reason)


def read_alone(commands: Commands, job_ids: Iterable[int]) -> list[Job] | Failure:
    """Return these jobs, each asked for alone, so that nobody else's text is near; one that is gone is left out."""
    found: list[Job] = []
    for job_id in sorted(job_ids):
        answer = commands.run(("scontrol", "-a", "-d", "-o", "show", "job", str(job_id)))
        if not isinstance(answer, Failure):
            found += read_jobs(own_record(answer, job_id), partial(real_name, commands), {job_id}).jobs
        elif answer.kind is not FailureKind.NOT_FOUND:
            return answer
    return found


def real_name(commands: Commands, job_id: str) -> str:
    """Return the job's name, as squeue says it; empty if it has none (any more)."""
    answer = commands.run(("squeue", "-a", "-h", "-t", "all", "-j", job_id, "-o", "%j"))
    return "" if isinstance(answer, Failure) else answer.removesuffix("\n")


def strange(command: str, error: Exception) -> Failure:
    """Return that the command's answer has another form than known."""
    return Failure(kind=FailureKind.UNKNOWN, message=f"{command}: unexpected answer ({type(error).__name__}: {error})")


@dataclass(kw_only=True)
class CommandsActuator:
    """Acts through scontrol and scancel."""

    commands: Commands
    #: the job that was raised last, as it was then, and when
    _raised: tuple[float, Job] | None = None

    def act(self, action: Action, seen: Job | None = None) -> Outcome:
        """Perform the action; Slurm's errors come back as values.

        `seen` is the job if it has just been looked at; it is not the last task of an array.
        """
        began = time.time()
        seen_now = seen or self._just_raised(action, began) or self._look(action.job_id)
        failure = seen_now if isinstance(seen_now, Failure) else self._perform(action, seen_now)
        if isinstance(action, SetNice | SetPriority) and isinstance(seen_now, Job):
            self._raised = began, seen_now
        return Outcome(
            action=action,
            status=Status.FAILED if failure else Status.SENT,
            at=began,
            took_s=time.time() - began,
            failure=failure,
        )

    def _just_raised(self, action: Action, now: float) -> Job | None:
        """Return the job if it was raised a moment ago and is now to be bound: one look is enough for both."""
        if isinstance(action, SetNodes) and self._raised is not None:
            at, job = self._raised
            if job.job_id == action.job_id and 0 <= now - at < ONE_LOOK_S:
                return job
        return None

    def _perform(self, action: Action, seen: Job) -> Failure | None:
        job = _address(seen)
        match action:
            case Notify():
                return not_that_run(seen, action.restarts) or self._do(
                    "scancel", f"--signal={action.signal}", "--batch" if action.batch_only else "--full", job
                )
            case Requeue():
                return self._requeue(action, seen)
            case Suspend():
                return self._do("scontrol", "suspend", job)
            case Resume():
                return self._do("scontrol", "resume", job)
            case SetNice():
                return self._do("scontrol", "update", f"jobid={job}", f"nice={action.nice}")
            case SetPriority():
                return self._do("scontrol", "update", f"jobid={job}", f"priority={action.priority}")
            case SetNodes():
                if not seen.pending:
                    return Failure(kind=FailureKind.ALREADY_DONE, message=f"job {seen.job_id} is {seen.state} by now")
                return self._do("scontrol", "update", f"jobid={job}", *_nodes(action))
            case SetThrottle():
                return self._throttle(action)
            case Hold():
                if not seen.pending:
                    # Slurm would take a running job's priority, and hold it at its next requeue.
                    return Failure(kind=FailureKind.ALREADY_DONE, message=f"job {seen.job_id} is {seen.state} by now")
                return self._do("scontrol", "hold", job)
            case Release():
                return self._do("scontrol", "release", job)

    def _throttle(self, action: SetThrottle) -> Failure | None:
        """Set it by the array's id: a task's own is refused, or taken without any effect (22.05).

        Slurm sets it, and then fails for each task of the array that has finished.
        """
        failure = self._do("scontrol", "update", f"jobid={action.job_id}", f"arraytaskthrottle={action.throttle}")
        if failure is None or failure.kind in {FailureKind.UNREACHABLE, FailureKind.BUSY}:
            return failure
        seen = self._look(action.job_id)
        return None if isinstance(seen, Job) and seen.array_throttle == action.throttle else failure

    def _requeue(self, action: Requeue, seen: Job) -> Failure | None:
        job = _address(seen)
        failure = not_that_run(seen, action.restarts) or self._do("scontrol", "requeue", job)
        if failure is None and seen.state is JobState.SUSPENDED:
            # Slurm puts a suspended job back in the queue held.
            return self._do("scontrol", "release", job)
        return failure

    def _look(self, job_id: JobId) -> Job | Failure:
        answer = self.commands.run(("scontrol", "-d", "-o", "show", "job", str(job_id)))
        if isinstance(answer, Failure):
            return answer
        for job in read_jobs(own_record(answer, job_id), partial(real_name, self.commands), {job_id}).jobs:
            if job.job_id == job_id:
                return job
        return Failure(kind=FailureKind.NOT_FOUND, message=f"job {job_id} is unknown to Slurm")

    def _do(self, *argv: str) -> Failure | None:
        answer = self.commands.run(argv)
        return answer if isinstance(answer, Failure) else None


def _nodes(action: SetNodes) -> Iterator[str]:
    """Yield scontrol's words for it.

    Of the number of nodes Slurm 22.05 changes the upper end alone where a task would be left without a node, so the
    tasks come first; and where it refuses a number, the CPUs stay changed all the same, so none is sent that may be.
    """
    count = action.count
    if count is not None:
        yield from (f"numtasks={count.tasks}",) if count.tasks else ()
        yield f"numnodes={count}"
        yield from (f"numcpus={count.cpus}",) if count.cpus else ()
    yield f"reqnodelist={','.join(action.nodes)}"


def _address(job: Job) -> str:
    """Return the id that means this job alone: the last task of an array bears the id of the whole array."""
    return job.label if job.array_task_id is not None else str(job.job_id)


def not_that_run(job: Job, restarts: int) -> Failure | None:
    """Return why the job is not the run that was meant, looked at right before acting.

    Slurm would requeue a job that has finished, too, and so run it a second time.
    """
    if job.state not in {JobState.RUNNING, JobState.SUSPENDED} or job.completing:
        return Failure(kind=FailureKind.ALREADY_DONE, message=f"job {job.job_id} is {job.state} by now")
    if job.restarts != restarts:
        return Failure(kind=FailureKind.ALREADY_DONE, message=f"job {job.job_id} has restarted since")
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunActuator:
    """Does nothing, and says that it would have."""

    def act(self, action: Action) -> Outcome:
        """Return that the action would have been sent."""
        return Outcome(action=action, status=Status.WOULD, at=time.time())
