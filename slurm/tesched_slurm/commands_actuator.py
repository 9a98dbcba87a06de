"""Acts on Slurm through its own commands, scontrol and scancel: Slurm 22.05 and later.

A command that means one run of a job (its notice, its requeue, its suspension) rests on a poll of the job right before.
From 26.05 on it goes by the run's SLUID, which is another one after each requeue and never falls back to the job's id:
one that comes late, however late, meets no later run. Of a run without a SLUID that is not so: it goes by the job's id.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tesched_core.intake.ends_for_good import ends_when_preempted
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
    Status,
    Suspend,
    TellUser,
    sets,
)
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.field import Field, HoldState, Nodes
from tesched_core.model.notice import Target
from tesched_core.model.resources import JobId
from tesched_core.ports import Barred, never_barred

from tesched_slurm.columns import QueueRow, read_rows, strange
from tesched_slurm.job_records import read_job, states
from tesched_slurm.notes import without_hook_mark, write_note
from tesched_slurm.queue import details_alone
from tesched_slurm.right_before import NiceReleases, not_ended_as, not_that_run, not_to_be_set
from tesched_slurm.run_command import Commands
from tesched_slurm.waiting_tasks import (
    address,
    address_to_set,
    is_as_set,
    is_set_of_tasks,
    may_be_set,
    not_nameable,
    waits_as_one,
    with_list,
)

#: Seconds in which a trial is raised and bound by one query of it. Slurm itself refuses to bind one that has started.
ONE_LOOK_S = 0.5

#: Seconds for which a query of a job holds, and how many are taken until one does. A job that was requeued meanwhile is
#: not eligible to run again for longer than that.
LOOK_HOLDS_S = 1.0
LOOKS = 3

#: Actions that mean one run of a job.
OF_A_RUN = (Notify, Requeue, Cancel, Suspend)

#: How scontrol names a field of numbers or words.
_SCONTROL: Mapping[Field, str] = MappingProxyType(
    {
        Field.NICE: "nice=",
        Field.PRIORITY: "priority=",
        Field.THROTTLE: "arraytaskthrottle=",
        Field.DEPENDENCY: "dependency=",
        # Unix seconds, whatever the time zones here and there are.
        Field.BEGIN: "starttime=uts",
    }
)

#: A SLUID, as in "s0K9M8AN110R00"; nothing, "N/A" and the number 0 are none.
_SLUID = re.compile(r"s(?!0*$)[0-9A-Za-z]+", re.ASCII)

#: scancel's word for which of a job's processes get a signal; without one it is the steps
_SCANCEL: Mapping[Target, tuple[str, ...]] = MappingProxyType(
    {Target.STEPS: (), Target.BATCH: ("--batch",), Target.FULL: ("--full",)}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandsWatcher:
    """Polls one job through squeue."""

    commands: Commands

    def looked_at(self, job_id: JobId) -> bool:
        """Check whether Slurm has said why this job waits, or it waits no more, or that is not to be had."""
        answer = self._ask(job_id)
        if isinstance(answer, Failure):
            return True
        state, _, reason = answer.strip().partition("|")
        return state != JobState.PENDING or has_reason(reason)

    def has_ended(self, job_id: JobId) -> bool:
        """Check whether this job, which ran, runs no more, or that is not to be had.

        Of the last task of an array, which bears the array's id, Slurm says what it says of all tasks.
        """
        answer = self._ask(job_id)
        return isinstance(answer, Failure) or not any(is_running(line.partition("|")[0]) for line in answer.split("\n"))

    def _ask(self, job_id: JobId) -> str | Failure:
        return self.commands.run(("squeue", "-a", "-h", "-t", "all", "-j", str(job_id), "-o", "%T|%r"))


def is_running(word: str) -> bool:
    """Check whether a state's word, or a flag's in its place, is that of a job that holds its nodes for itself."""
    state, flags = states(word)
    return state in {JobState.RUNNING, JobState.SUSPENDED} and "COMPLETING" not in flags


def look_at(commands: Commands, job_id: JobId) -> QueueRow | Failure:
    """Read squeue's row of this job."""
    rows = read_rows(commands, "-t", "all", "-j", str(job_id))
    if isinstance(rows, Failure):
        return rows
    # With the id of an array come its other tasks.
    for row in rows:
        if row.job_id == str(job_id):
            return row
    return Failure(kind=FailureKind.NOT_FOUND, message=f"job {job_id} is unknown to Slurm")


@dataclass(kw_only=True)
class CommandsActuator:
    """Acts through scontrol and scancel."""

    commands: Commands
    #: the commands take SLUIDs (26.05 and later)
    by_sluid: bool = False
    #: another actuator's, of the same slurmctld; None: one of its own
    nice_releases: NiceReleases | None = None
    #: the job that was raised last, as it was then, and when
    _raised: tuple[float, Job] | None = None

    def act(self, action: Action, barred: Barred = never_barred, seen: Job | None = None) -> Outcome:
        """Perform the action; Slurm's errors come back as values.

        `seen` is the job if it has just been queried; it is not the last task of an array.
        """
        began = time.time()
        known, sluid, of_tasks = seen or self._just_raised(action, began), "", False

        def look() -> Job | Failure:
            nonlocal known, sluid, of_tasks
            first, known = known, None
            if first is not None:
                return first
            row = look_at(self.commands, action.job_id)
            if isinstance(row, Failure):
                return row
            by_run = self.by_sluid and isinstance(action, OF_A_RUN) and _SLUID.fullmatch(row.sluid)
            sluid = row.sluid if by_run else ""
            job = _job_of(row)
            # They have no run that another one might follow; and of a large array the query takes long.
            of_tasks = isinstance(job, Job) and waits_as_one(job) and is_set_of_tasks(action)
            return with_list(self.commands, job, row) if isinstance(job, Job) and of_tasks else job

        seen_now = fresh_look(look, barred, lambda: math.inf if sluid or of_tasks else LOOK_HOLDS_S)
        if seen_now is None or (isinstance(seen_now, Job) and _is_taken_back(action, seen_now)):
            return skipped(action, began)
        failure = seen_now if isinstance(seen_now, Failure) else self._perform(action, seen_now, sluid)
        if sets(action, Field.NICE, Field.PRIORITY) and isinstance(seen_now, Job):
            self._raised = began, seen_now
        return sent(action, began, failure)

    def _just_raised(self, action: Action, now: float) -> Job | None:
        """Return the job if it was raised a moment ago and is now to be bound: one query is enough for both."""
        if sets(action, Field.NODES) and self._raised is not None:
            at, job = self._raised
            if job.job_id == action.job_id and 0 <= now - at < ONE_LOOK_S:
                return job
        return None

    def _perform(self, action: Action, seen: Job, sluid: str) -> Failure | None:
        job = address(seen)
        match action:
            case Notify():
                where = _SCANCEL[action.target]
                return not_that_run(seen, action.restarts) or self._do_to_run(
                    seen, sluid, "scancel", f"--signal={action.signal}", *where
                )
            case Requeue():
                return self._requeue(action, seen, sluid)
            case Cancel():
                # Not one that has put itself back in the queue since the query; a run's own id means no later run.
                running = () if sluid else ("--state=RUNNING",)
                return not_that_run(seen, action.restarts) or self._do_to_run(seen, sluid, "scancel", *running)
            case Rerun():
                return not_ended_as(seen, action.restarts) or self._do("scontrol", "requeue", job)
            case Suspend():
                return not_that_run(seen, action.restarts) or self._do_to_run(seen, sluid, "scontrol", "suspend")
            case Resume():
                return self._do("scontrol", "resume", job)
            case SetField():
                return self._set(action, seen)
            case TellUser():
                return write_note(self.commands, action, seen, job)
            case SetMarks():
                raise AssertionError("the daemon writes the marks by itself")

    def _set(self, action: SetField, seen: Job) -> Failure | None:
        self.nice_releases = self.nice_releases or NiceReleases(commands=self.commands)
        failure = (
            not_nameable(action, seen) or not_to_be_set(action, seen, self.nice_releases) or self._tried(action, seen)
        )
        if failure is not None and (waits_as_one(seen) or action.field is Field.THROTTLE) and may_be_set(failure):
            failure = self._unless_set(action, failure)
        if failure is None and action.value in {HoldState.RELEASED, HoldState.UNMARKED}:
            without_hook_mark(self.commands, seen, address_to_set(action, seen))
        return failure

    def _tried(self, action: SetField, seen: Job) -> Failure | None:
        job = address_to_set(action, seen)
        match action.value:
            case Nodes() as nodes:
                return self._do("scontrol", "update", f"jobid={job}", *_nodes(nodes))
            case HoldState.HELD:
                return self._do("scontrol", "hold", job)
            case HoldState.RELEASED:
                return self._do("scontrol", "release", job)
            case HoldState.UNMARKED:
                return None
            case int() | str() as value:
                # A task's own id is refused, or taken without any effect (22.05).
                whose = str(action.job_id) if action.field is Field.THROTTLE else job
                return self._do("scontrol", "update", f"jobid={whose}", f"{_SCONTROL[action.field]}{value}")

    def _unless_set(self, action: SetField, failure: Failure) -> Failure | None:
        """Return none if the record shows what was to be set of an array: Slurm fails for tasks that have ended."""
        row = look_at(self.commands, action.job_id)
        if isinstance(row, Failure):
            return failure if row.kind is FailureKind.NOT_FOUND else row
        job = _job_of(row)
        details = details_alone(self.commands, row) if action.field is Field.THROTTLE else None
        if isinstance(job, Failure) or isinstance(details, Failure):
            return failure
        return None if is_as_set(action, job, details) else failure

    def _requeue(self, action: Requeue, seen: Job, sluid: str) -> Failure | None:
        # incomplete: slurmctld leaves a job alone that has ended since the query, and answers as if it had done it.
        failure = not_that_run(seen, action.restarts) or self._do_to_run(
            seen, sluid, "scontrol", "requeue", "incomplete"
        )
        if failure is None and seen.state is JobState.SUSPENDED:
            # Slurm puts a suspended job back in the queue held.
            return self._do("scontrol", "release", address(seen))
        return failure

    def look(self, job_id: JobId) -> Job | Failure:
        """Return the job as squeue shows it."""
        row = look_at(self.commands, job_id)
        return row if isinstance(row, Failure) else _job_of(row)

    def _do_to_run(self, seen: Job, sluid: str, *argv: str) -> Failure | None:
        """Send a command to the run that was seen: by its SLUID, or without one to the job, with the run that it has.

        Slurm's answer on a SLUID of the past is that there is no such job, or another (26.05.5: of a suspension
        "Unexpected message received"): the job has gone on if it is known by another SLUID now.
        """
        if not sluid:
            return self._do(*argv, address(seen))
        failure = self._do(*argv, sluid)
        if failure is None or failure.kind in {FailureKind.UNREACHABLE, FailureKind.BUSY, FailureKind.DENIED}:
            return failure
        row = look_at(self.commands, seen.job_id)
        if isinstance(row, Failure):
            return row if row.kind is FailureKind.NOT_FOUND else failure
        if row.sluid == sluid:
            return failure
        return Failure(kind=FailureKind.ALREADY_DONE, message=f"job {seen.job_id} has gone on: run {sluid} is over")

    def _do(self, *argv: str) -> Failure | None:
        answer = self.commands.run(argv)
        return answer if isinstance(answer, Failure) else None


def _is_taken_back(action: Action, seen: Job) -> bool:
    """Check whether a job is to be cancelled, and its owner does not say any more that it ends."""
    return isinstance(action, Cancel) and not ends_when_preempted(seen.comment)


def _job_of(row: QueueRow) -> Job | Failure:
    try:
        return read_job(row, None)
    except ValueError as error:
        return strange("squeue", error)


def _nodes(nodes: Nodes) -> Iterator[str]:
    """Yield scontrol's words for it.

    Of the number of nodes Slurm 22.05 changes the upper end alone where a task would be left without a node, so the
    tasks come first; and where it refuses a number, the CPUs stay changed all the same, so none is sent that may be.
    """
    count = nodes.count
    if count is not None:
        yield from (f"numtasks={count.tasks}",) if count.tasks else ()
        yield f"numnodes={count}"
        yield from (f"numcpus={count.cpus}",) if count.cpus else ()
    yield f"reqnodelist={','.join(nodes.names)}"


def skipped(action: Action, began: float) -> Outcome:
    """Outcome of an action that was not sent: the query of the job took too long, or the store was lost meanwhile."""
    return Outcome(action=action, status=Status.SKIPPED, at=began, took_s=time.time() - began)


def sent(action: Action, began: float, failure: Failure | None) -> Outcome:
    """Return that it was sent, or why that failed."""
    return Outcome(
        action=action,
        status=Status.FAILED if failure else Status.SENT,
        at=began,
        took_s=time.time() - began,
        failure=failure,
    )


def fresh_look(
    look: Callable[[], Job | Failure], barred: Barred, holds_s: Callable[[], float] = lambda: LOOK_HOLDS_S
) -> Job | Failure | None:
    """Return the job as it is right before the command; None if nothing may be sent any more.

    A process, or a machine, that was frozen after its query may wake up to another run of the job: it queries again,
    unless the query holds for so many seconds, which is read after it.
    """
    for _ in range(LOOKS):
        began = time.time()
        seen = look()
        if isinstance(seen, Failure):
            return seen
        if barred():
            return None
        if 0 <= time.time() - began < holds_s():
            return seen
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunActuator:
    """Does nothing, and says that it would have."""

    def act(self, action: Action, barred: Barred = never_barred) -> Outcome:  # noqa: ARG002 (the port's)
        """Return that the action would have been sent."""
        return Outcome(action=action, status=Status.WOULD, at=time.time())
