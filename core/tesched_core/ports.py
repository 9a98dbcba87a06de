"""Ports of the heart: observer, reports, actuator, journal. The real cluster and the simulated one fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Protocol, TypeAlias

from tesched_core.intake.classify import Question
from tesched_core.model.actions import Action, Failure, Outcome
from tesched_core.model.cluster import Job
from tesched_core.model.decision import Decision
from tesched_core.model.enforcement import Enforcement
from tesched_core.model.job_report import Reported
from tesched_core.model.lead import Lead
from tesched_core.model.memory import Memory
from tesched_core.model.notice import Declared
from tesched_core.model.order import Transition
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.slurm_limits import UnreadLimits
from tesched_core.model.snapshot import ExpectedRun, Snapshot


class Observer(Protocol):
    """Sees the cluster."""

    def observe(self, *, whole: bool = True, ends: bool = False) -> Snapshot | Failure:
        """Observe the cluster now, unclassified; else say why it could not be seen. Never raises for Slurm's errors.

        Without `whole`, all but the jobs may be of an earlier answer, though `taken_at` is now; and the jobs, too,
        where none has changed, or for some seconds none of those that wait: then they are the same object. With `ends`
        any change of a job is seen at once.
        """
        ...


class SingleReads(Protocol):
    """Reads a few jobs by their ids, and the nodes: what an early turn is decided on, before a poll that takes long."""

    def records(self, job_ids: Sequence[JobId], within_s: float) -> Mapping[JobId, Job] | Failure:
        """Read these few jobs as they are now, unclassified; one that Slurm doesn't know is left out.

        With an array's id come its tasks that have a record of their own. Never raises for Slurm's errors. Each of its
        two rounds of commands takes at most `within_s` seconds, and is a failure if it would take longer.
        """
        ...

    def site(self, last: Snapshot, within_s: float) -> Snapshot | Failure:
        """Read nodes, partitions and reservations as they are now; the jobs are those of the `last` snapshot.

        All else is as new as a poll would have it, or a failure says that only a poll reads it. Bounded in time, and
        without Slurm's errors, as `records` is.
        """
        ...


class Watcher(Protocol):
    """Polls one job, at the cost of one small query: between two polls of everything."""

    def looked_at(self, job_id: JobId) -> bool:
        """Check whether Slurm has said why this job waits, or it waits no more, or that is not to be had."""
        ...

    def has_ended(self, job_id: JobId) -> bool:
        """Check whether this job, which ran, runs no more, or that is not to be had."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """Reports of jobs on themselves. Each report is the same object for as long as nothing is new."""

    by_job: Mapping[JobId, Reported] = field(default_factory=dict)
    #: of job arrays, what their tasks said, gathered (`training.py`)
    by_array: Mapping[JobId, Reported] = field(default_factory=dict)


class Reports(Protocol):
    """Hears what jobs say of themselves."""

    def read(self, snapshot: Snapshot) -> Heard:
        """Read what these jobs have reported.

        Returns in bounded time, never raises for what a job or a file system does.
        """
        ...

    def stand_by(self) -> None:
        """Hear nothing until the next read, which goes on with what the journal has: another daemon leads."""
        ...


class Speeds(Protocol):
    """Knows how fast jobs go on which accelerators."""

    def read(self, snapshot: Snapshot) -> Mapping[JobId, Mapping[str, float]]:
        """Return steps a second by accelerator type, of the jobs of which that is known. Raises JournalError."""
        ...

    def beside(self) -> Mapping[tuple[str, str], Mapping[str, float]]:
        """Return steps a second by accelerator type of a workload that shares its GPU with another: one GPU each.

        By workload and the other one. Raises JournalError.
        """
        ...


class Expectations(Protocol):
    """Knows how long jobs are expected to run."""

    def read(self, snapshot: Snapshot, *, waiting: bool) -> Mapping[JobId, ExpectedRun]:
        """Read expected runs of the jobs on nodes whose owners say nothing; and of the waiting ones if `waiting`.

        Returns in bounded time. Raises JournalError.
        """
        ...


#: Says why an action may no longer be taken; empty if it may.
Barred: TypeAlias = Callable[[], str]


def never_barred() -> str:
    """Return that the action may be taken: for callers that hold no lease."""
    return ""


class FreeOfLimits(Protocol):
    """Knows which pending jobs no limit of an association or a QOS keeps from starting."""

    def among(
        self,
        wanted: Sequence[Job],
        seen: Snapshot,
        pending: Sequence[Job],
        *,
        early: bool = False,
        within_s: float = inf,
    ) -> frozenset[JobId]:
        """Return those of the `wanted` jobs, as slurmctld has the limits now; `pending` may start before them, too.

        Returns in bounded time, `within_s` seconds at most, and fewer where it is not known. For
        an `early` turn, before a poll that takes long, they are read in any case. Never raises for Slurm's errors.
        """
        ...


class Declarations(Protocol):
    """Knows which signal jobs have declared in the options of their submission."""

    def read(self, snapshot: Snapshot, patterns: tuple[str, ...] = ()) -> Mapping[JobId, Declared]:
        """Read what the running BE jobs of a classified snapshot declared; a missing job is yet to be read.

        `patterns` are texts that the site's rules search for in the scripts. Returns in bounded time; never raises for
        Slurm's errors.
        """
        ...

    def known(self, snapshot: Snapshot) -> Mapping[JobId, Declared]:
        """Return the same, as far as it was read before: calls nothing."""
        ...


class Actuator(Protocol):
    """Performs one action."""

    def act(self, action: Action, barred: Barred = never_barred) -> Outcome:
        """Perform it and say what became of it. Never raises for Slurm's errors; returns within its time-out.

        An action may begin with a query of the job, which may take long. `barred` is called right before the command:
        where it says why not, nothing is sent, and the outcome is that the action was skipped.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleReport:
    """Report of the daemon on itself after each cycle."""

    at: UnixSeconds
    mode: str
    #: which client spoke to Slurm: "pyslurm 25.11.2", "commands"
    client: str
    #: seconds spent observing, deciding, and writing what was meant (acting comes after)
    observe_s: float
    step_s: float
    #: why the cluster could not be seen, if it could not
    failure: Failure | None = None
    #: seconds until the next try; the lease lasts that long, and a little longer
    next_in_s: float = 0.0
    #: calls to Slurm in the last minute, by kind: "scontrol show job", "scancel"
    calls: Mapping[str, float] = field(default_factory=dict)
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
    #: why no job counts as idle, though a file is to say which do, in words; empty if nothing is wrong
    idle_trouble: str = ""
    #: how new jobs are found between two polls, in words
    new_jobs: str = ""
    #: what is left of mode enforce, and is put back before this mode begins, in words; empty if nothing
    leaving: str = ""
    #: how far the limits on TE jobs are enforced; None: none is set
    enforcement: Enforcement | None = None
    #: limits of associations and QOS that could not be read
    limits_unread: tuple[UnreadLimits, ...] = ()


class Journal(Protocol):
    """Remembers. Each call is one transaction, and raises JournalError if it cannot be done.

    Of several daemons on one store one leads, by a lease that each write renews. A daemon that writes without it is
    refused by JournalError, and nothing is written.
    """

    def lead(self) -> Lead:
        """Return the leader, and whether an admin has paused it."""
        ...

    def resign(self) -> None:
        """Give the lead up: for a daemon that ends."""
        ...

    def lost(self) -> str:
        """Reason that what was written is not where the next reader will search; empty if all is well.

        It costs next to nothing: it is called before each action.
        """
        ...

    def load(self) -> Memory:
        """Return the memory as it was last written; an empty one at the very first start."""
        ...

    def questions(self) -> Mapping[JobId, Question]:
        """Records of the running jobs as their runs began, as far as that is known."""
        ...

    def intend(self, snapshot: Snapshot, memory: Memory, decision: Decision, report: CycleReport) -> None:
        """Write what was seen and decided, before anything is done. Raises UnwritableError for what it cannot hold."""
        ...

    def rehearse(self, snapshot: Snapshot, memory: Memory, decision: Decision, report: CycleReport) -> None:
        """Do what `intend` does, and take it back: raises what that would."""
        ...

    def conclude(
        self, memory: Memory, decision: Decision, outcomes: Sequence[Outcome], transitions: Sequence[Transition]
    ) -> None:
        """Write what became of it; `transitions` are those that follow from the outcomes."""
        ...

    def unseen(self, report: CycleReport) -> None:
        """Write that the cluster could not be seen."""
        ...
