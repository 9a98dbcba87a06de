"""Jobs and settings of the small Slurm of the attack on guard.bound, and what it reports to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from math import inf
from typing import Protocol

from tesched_core.model.cluster import Job, JobState
from tesched_core.model.resources import JobId


class Phase(IntEnum):
    """Phase of a job."""

    QUEUE = 0
    RUNS = 1
    ENDING = 2
    OVER = 3


class Heeds(StrEnum):
    """Way in which a job heeds its notice."""

    IGNORES = "ignores"
    REQUEUES = "requeues itself"
    FINISHES = "finishes"
    FAILS = "fails"


class Order(StrEnum):
    """Way in which the queue is gone over."""

    #: nothing passes a job that does not fit
    FIFO = "fifo"
    #: what ends before the first job can start, by the time limits, passes it, and what runs on other nodes
    EASY = "easy"
    #: whatever fits starts
    LIST = "list"


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Settings of one cluster."""

    nodes: int
    cpus: int
    kill_wait_s: int
    requeue_delay_s: int
    #: most seconds by which a job outruns its limit before it is ended, KillWait apart
    late_s: float
    order: Order
    #: TE jobs are in a tier above
    te_first: bool
    #: seconds for which a finished job is known
    min_job_age_s: int = 60


@dataclass(slots=True, kw_only=True, eq=False)
class ModelJob:
    """One job: what it was submitted as, and its state."""

    job_id: JobId
    te: bool
    user: str
    nodes: int
    cpus: int
    #: None: it may run for ever
    limit_s: int | None
    #: how long it runs if it is left alone
    run_s: float
    #: its owner's word on that
    said_s: float | None = None
    grace_s: float = 0.0
    heeds: Heeds = Heeds.IGNORES
    #: it saves its work so often, says so, and goes on from there; None: it begins anew
    saves_each_s: float | None = None
    #: it is cancelled so long after its submission
    cancel_s: float = inf
    #: its comment says preempted=end
    ends: bool = False
    phase: Phase = Phase.QUEUE
    submitted_at: float = 0.0
    eligible_at: float = 0.0
    started_at: float = 0.0
    where: tuple[int, ...] = ()
    ran_on: tuple[int, ...] = ()
    #: its longest run that is over, what it had saved before its present or next run, and all that it has ever done
    longest_s: float = 0.0
    done_s: float = 0.0
    worked_s: float = 0.0
    last_saved_at: float = 0.0
    restarts: int = 0
    own_priority: int = 0
    priority: int = 0
    nice: int = 0
    explicit: bool = False
    held: bool = False
    reason: str = "None"
    bound_to: tuple[int, ...] = ()
    note: str = ""
    state: JobState = JobState.PENDING
    #: an event of an earlier run is void
    epoch: int = 0
    #: by Slurm's clock
    submit_stamp: float = 0.0
    eligible_stamp: float = 0.0
    start_stamp: float | None = None
    end_stamp: float | None = None
    record: Job | None = None

    @property
    def asks(self) -> tuple[int, int]:
        """Return nodes, and CPUs on each."""
        return self.nodes, self.cpus


class ClusterNow(Protocol):
    """A cluster at one moment, as the ledger sees it."""

    #: those that are not over, and perhaps others
    jobs: dict[JobId, ModelJob]
    #: CPUs of each node
    free: list[int]

    def waiting(self) -> Iterable[ModelJob]:
        """Return the jobs that may start."""
        ...


class Watcher(Protocol):
    """What the model reports to."""

    def passes(self, slurm: ClusterNow, since: float, until: float) -> None:
        """Take in a time in which nothing changes."""

    def notified(self, job: ModelJob, te_user: str, at: float, *, anew: bool) -> None:
        """Take in a notice, or a requeue or a cancel, which is none `anew` if the job has had its notice."""

    def left(self, job: ModelJob, saved_at: float) -> None:
        """Take in that a run is over and the job goes back to the queue; what it had saved until then is not lost."""

    def started(self, job: ModelJob, at: float) -> None:
        """Take in a start."""

    def over(self, job: ModelJob, at: float) -> None:
        """Take in the end of a job."""
