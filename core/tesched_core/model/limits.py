"""Limits that the guard holds: what TE jobs may cause, and what the turns of rounds may cause."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil
from sys import maxsize
from typing import Annotated, ClassVar, Literal

from tesched_core.model.payment import HOUR_S
from tesched_core.model.ranges import LONGEST_S, MOST_AMOUNT, Amount, Count, Range, Seconds, between, check_ranges

_SLOWDOWN = Range(
    least=1,
    is_above=True,
    or_zero=True,
    most=MOST_AMOUNT,
    right="a number above 1, such as 3, or 0: then nothing is bounded",
)
_TE_TIME_LIMIT = Range(
    most=LONGEST_S, words=", a hundred years", right="the longest time limit of a trial-and-error job, such as 1800"
)
_SHARE = Range(is_above=True, most=1, right="above 0 and at most 1, such as 0.25 for a quarter", right_tells_most=True)
_MAX_SLOWDOWN = Range(least=1, most=MOST_AMOUNT, right="at least 1: no slowdown is below")


class YieldBy(StrEnum):
    """Way in which victims free resources."""

    #: they are put back in the queue, which frees all that they hold
    REQUEUE = "requeue"
    #: where their CPUs are enough they are suspended, and lose nothing; else they are requeued
    AUTO = "auto"
    #: Slurm itself preempts them: they are marked for its plugin preempt/tesched, and no order asks them
    PLUGIN = "plugin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """By how much TE jobs may delay a BE job (`placement/deadlines.py`)."""

    #: the key without which the others say nothing
    SWITCH: ClassVar[str] = "slowdown"

    #: B: a job that runs for R may be delayed by (B - 1) R; 0: by any time
    slowdown: Annotated[float, _SLOWDOWN] = 0.0
    #: the longest time limit of a TE job, seconds: any job may be delayed by so much, and what one preemption costs
    te_time_limit_s: Annotated[float, _TE_TIME_LIMIT] = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for a bound that no job can keep, or half a bound."""
        check_ranges(self)
        if self.te_time_limit_s and not self.is_set:
            raise ValueError("slowdown must be set beside te_time_limit_s, such as to 3")
        if self.is_set and self.te_time_limit_s == 0:
            raise ValueError(
                "te_time_limit_s must be set beside slowdown: the longest time limit of a trial-and-error job, such "
                "as 1800"
            )

    @property
    def is_set(self) -> bool:
        """Check whether anything is bounded."""
        return self.slowdown > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TeLimits:
    """What TE jobs may hold at once; those above it wait (`guard/te_limits.py`)."""

    #: most TE jobs of one user that run; 0: any number
    max_running_per_user: Count = 0
    #: most nodes times minutes of time limit that one user's running TE jobs have together; 0: any
    max_node_minutes_per_user: Amount = 0.0
    #: most TE jobs of one user that wait or run, each task of an array as one; 0: any number
    max_submitted_per_user: Count = 0
    #: largest share of the cluster's CPUs, and of its GPUs, that all TE jobs hold together
    max_cluster_share: Annotated[float, _SHARE] = 1.0
    #: a user with so many TE runs in 24 h that outlived their time limits has no TE jobs (`guard/misuse.py`); 0: any
    max_outlived_per_user_day: Count = 0

    def __post_init__(self) -> None:
        """Raise ValueError for a limit below zero, or for more than there is."""
        check_ranges(self)

    @property
    def is_set(self) -> bool:
        """Check whether any of them limits anything."""
        return self != TeLimits()

    @property
    def counts_what_starts(self) -> bool:
        """Check whether it matters how many TE jobs have started."""
        return replace(self, max_outlived_per_user_day=0, max_submitted_per_user=0) != TeLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The site's limits. Times in seconds; names are shell globs."""

    #: FitGpp's P: how often one job may be preempted in its life for TE jobs of other users
    max_preemptions_per_job: Count = 16
    #: … and after how many of these its run may be lost, since it is sent no signal, or has died of it
    max_lost_runs_per_job: Count = 1
    #: a job is not eligible before it has run this long since its last start
    min_run_time_s: Seconds = 60.0
    #: nor this soon after it was last preempted; for TE jobs of one user, after it was let go by one of them
    cool_down_s: Seconds = 600.0
    #: nor if the waiting that it has behind it makes its slowdown more than this, by its expected run time
    max_slowdown: Annotated[float, _MAX_SLOWDOWN] = 10.0
    #: most jobs notified in one cycle
    max_victims_per_cycle: Count = 20
    #: most preemptions in any hour: in all, of one user's jobs, of one account's, and on one node
    max_preemptions_per_hour: Count = 200
    max_preemptions_per_user_hour: Count = 50
    max_preemptions_per_account_hour: Count = 100
    max_preemptions_per_node_hour: Count = 20
    #: most jobs that one TE job, the TE jobs of one user, and those of one account cause to leave in any hour
    max_victims_for_te_job_hour: Count = 20
    max_victims_for_te_user_hour: Count = 40
    max_victims_for_te_account_hour: Count = 80
    #: most node-hours of runs that may be lost in any 24 hours: of a job that declared a signal what it runs after its
    #: notice, unless it dies of that; of any other all of its run
    max_lost_node_hours_per_day: Amount = 500.0
    #: most orders at once that are freeing resources; those with victims that only wait to run again do not count
    max_open_orders: Count = 50
    protected_users: tuple[str, ...] = ()
    protected_accounts: tuple[str, ...] = ()
    protected_qos: tuple[str, ...] = ()
    protected_partitions: tuple[str, ...] = ()
    #: jobs that run inside these reservations
    protected_reservations: tuple[str, ...] = ()
    #: jobs of these names
    protected_names: tuple[str, ...] = ()
    #: of victims that do as well, those of the TE job's own user go first, then those of its own account
    own_jobs_first: bool = True
    #: as well: a policy's price may be above another's by this part of it for each of the two steps
    equal_within: Annotated[float, between(0, 0.1)] = 0.01
    #: a TE job with victims waits so long for their resources, though others come free: else they leave for nothing;
    #: for longer while a victim is ending. 0: it takes what comes first
    bind_for_s: Seconds = 600.0
    #: where resources that a TE job fits into come free by themselves within so many seconds, with 95 %, going by what
    #: ended in the last 30 s, it awaits them at the head of its queue before a victim is notified. 0: it never does
    wait_for_free_s: Seconds = 10.0
    #: whether victims leave only after Slurm has said that a TE job waits for resources; "auto": unless it can wait for
    #: nothing else, by slurm.conf, its own request and the limits that Slurm shows (`orders/first_look.py`)
    await_first_look: Literal["auto"] | bool = "auto"
    #: how victims free resources
    lever: YieldBy = YieldBy.REQUEUE
    #: a suspended victim goes on as soon as its CPUs are free and reserved for no order; after this long, as soon as
    #: they are free, and `tesched status` points it out
    suspend_for_s: Seconds = 3600.0
    #: with the plugin: for so long a mark holds without a daemon that renews it
    mark_for_s: Seconds = 900.0
    #: an order is given up this long after the last grace period and KillWait could have ended; a victim that takes
    #: longer to end, as in a long Epilog, is awaited
    order_timeout_s: Seconds = 60.0
    #: and its TE job is not tried again for this long
    retry_after_s: Seconds = 300.0
    #: a TE job has had a useful run when it has run so long, or a tenth of its time limit, or ended with success
    useful_run_s: Seconds = 60.0
    #: orders that make victims leave for a TE job without a useful run of its; then it is left alone
    max_futile_orders_per_job: Count = 2
    #: a victim that does not run again within this time is pointed out by `tesched status`
    return_within_s: Seconds = 3600.0
    #: by how much TE jobs may delay a BE job
    bound: Bound = Bound()
    #: what TE jobs may hold at once
    te: TeLimits = TeLimits()

    def __post_init__(self) -> None:
        """Raise ValueError for a limit below zero, or a slowdown that no job can have."""
        check_ranges(self)

    def most_preemptions(self, *, gets_notice: bool, preempted: int = 0, lost: int = 0) -> int:
        """How often a job may be preempted in its life for TE jobs of other users.

        By whether it is sent its signal, how often it was preempted already, and how many runs it lost by that.
        """
        if lost >= max(self.max_lost_runs_per_job, 1):
            return min(self.max_preemptions_per_job, preempted)
        saved = preempted - lost
        return min(self.max_preemptions_per_job, maxsize if gets_notice else saved + self.max_lost_runs_per_job)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimits:
    """The limits of a policy that goes in rounds: its turns cost preemptions by design, and they count by themselves.

    Times in seconds. What is protected, `max_victims_per_cycle` and `max_slowdown` are the guard's for both.
    """

    #: the table of the configuration that has them
    table: str = "policy"
    #: how often one job may give its place to another's turn, or move to another one, in any hour
    max_preemptions_per_job_hour: Count = 60
    #: a job is not eligible before it has run this long since its last start
    min_run_time_s: Seconds = 0.0
    #: most preemptions in any hour, and most node-hours of runs lost in any 24 hours; None: no limit of its own
    max_preemptions_per_hour: Count | None = None
    max_lost_node_hours_per_day: Amount | None = None

    @staticmethod
    def of_round(round_s: float) -> TurnLimits:
        """Return the limits that fit rounds of so many seconds: one turn a round for each job, after half of one."""
        return TurnLimits(max_preemptions_per_job_hour=ceil(HOUR_S / round_s), min_run_time_s=min(60.0, round_s / 2))

    def __post_init__(self) -> None:
        """Raise ValueError for a limit below zero."""
        check_ranges(self)
