"""Behaviour of the simulated Slurm, and of the daemon beside it: each line can be switched."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from tesched_sim.fault_settings import FaultSettings


class Backfill(StrEnum):
    """Whether a job that fits may start before the first one in the queue, which does not."""

    NONE = "none"
    #: if, by the time limits, it does not delay the first one (EASY)
    EASY = "easy"


class NodeChoice(StrEnum):
    """Choice among the nodes on which a job fits."""

    #: the first in the list
    FIRST_FIT = "first_fit"
    #: the one on which least stays free
    BEST_FIT = "best_fit"
    #: the one on which most stays free (SelectTypeParameters=CR_LLN)
    LEAST_LOADED = "least_loaded"


class RequeuedTo(StrEnum):
    """Place of a requeued job in the queue."""

    #: ahead of all other best-effort jobs (FitGpp's paper)
    HEAD = "head"
    #: the place that its submission gave it (Slurm 22.05)
    PLACE = "place"
    #: the end (Slurm 26.05)
    TAIL = "tail"


class ReleasedTo(StrEnum):
    """Place of a job in the queue after its hold."""

    #: the place that its submission gave it (priority/multifactor with age alone)
    PLACE = "place"
    #: the end: its priority is the lowest (priority/basic)
    TAIL = "tail"


#: Settings that are times, with an example of each.
_TIMES = {
    "requeue_delay_s": 121,
    "kill_wait_s": 30,
    "start_s": 5,
    "pass_s": 1,
    "backfill_s": 30,
    "poll_s": 5,
    "sample_s": 600,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NativePreemption:
    """Slurm's own preemption of best-effort jobs by trial-and-error jobs (preempt/partition_prio, REQUEUE)."""

    #: GraceTime of the best-effort partition, seconds
    grace_s: float = 0.0
    #: a job hears of it at the start of the grace period (PreemptParameters=send_user_signal, sbatch --signal)
    tells_job: bool = False
    #: the last one that started goes first (preempt_youngest_first); else the first one
    youngest_first: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for a time that is none."""
        if not 0 <= self.grace_s < inf:
            raise ValueError("grace_s must be at least 0 s, such as 30")


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    """A simulated site. The defaults are plain FIFO, as in FitGpp's paper: nothing is backfilled."""

    backfill: Backfill = Backfill.NONE
    #: how many of the waiting jobs are tried for it in one pass, from the head of the queue; 0: all of them
    backfill_depth: int = 0
    placement: NodeChoice = NodeChoice.FIRST_FIT
    #: trial-and-error jobs wait in a line of their own, ahead of the best-effort jobs; each line stops at its first
    #: job that does not fit. Else there is one line
    te_first: bool = False
    #: resources that an order frees are reserved for its preemptor, whatever else waits. Real Slurm knows no orders:
    #: there, the preemptor's place at the head of the queue has to do
    keeps_free: bool = False
    requeued_to: RequeuedTo = RequeuedTo.HEAD
    released_to: ReleasedTo = ReleasedTo.PLACE
    #: a requeued job may not start again for so long
    requeue_delay_s: float = 0.0
    #: from the requeue of a job that does not leave by itself to the end of its processes (KillWait)
    kill_wait_s: float = 0.0
    #: each run holds its nodes for so long besides its work, whatever the nodes: what a start and an end take
    start_s: float = 0.0
    #: the queue is gone over once in so many seconds, and between two passes only a job that comes and is first in line
    #: is tried; 0: at every event
    pass_s: float = 0.0
    #: a pass backfills once in so many seconds (bf_interval); 0: each one does
    backfill_s: float = 0.0
    #: it is; else a job that comes waits for the pass as all others do: what 22.05.8 does with batch jobs
    tries_new: bool = True
    native: NativePreemption | None = None
    #: the submission hook holds TE jobs that come while the daemon admits none
    hook: bool = False
    #: the daemon polls once in so many seconds; 0: at every event
    poll_s: float = 0.0
    #: policies know how long a job will run, not only when its time limit would end it
    true_run_times: bool = False
    #: … but for a factor, lognormal with median 1 and this spread (0: exactly), drawn with this seed
    run_time_sigma: float = 0.0
    seed: int = 0
    #: what goes wrong; nothing by default
    faults: FaultSettings = field(default_factory=FaultSettings)
    #: use and queues are sampled at most once in so many seconds
    sample_s: float = 600.0

    def __post_init__(self) -> None:
        """Raise ValueError for numbers that are none, and for what says nothing without another setting."""
        for name, such_as in _TIMES.items():
            if not 0 <= getattr(self, name) < inf:
                raise ValueError(f"{name} must be at least 0 s, such as {such_as}")
        for name in ("backfill_depth", "run_time_sigma", "seed"):
            if not 0 <= getattr(self, name) < inf:
                raise ValueError(f"{name} must be at least 0")
        if self.backfill_s and self.backfill is not Backfill.EASY:
            raise ValueError("backfill must be easy beside backfill_s, which says how often a pass backfills")
        if not (self.tries_new or self.pass_s):
            raise ValueError("pass_s must be above 0 beside tries_new=false, such as 1: the passes that jobs wait for")

    @staticmethod
    def paper(*, te_first: bool) -> Behaviour:
        """Return FitGpp's setting; `te_first` for every policy that preempts, and not for FIFO."""
        return Behaviour(te_first=te_first, keeps_free=te_first, true_run_times=True)

    @staticmethod
    def slurm(*, poll_s: float = 5.0) -> Behaviour:
        """Return a Slurm with backfill as it comes, and a daemon that polls."""
        return Behaviour(
            backfill=Backfill.EASY,
            backfill_depth=500,  # bf_max_job_test's default
            requeued_to=RequeuedTo.PLACE,
            released_to=ReleasedTo.TAIL,
            requeue_delay_s=121.0,
            kill_wait_s=30.0,
            poll_s=poll_s,
        )
