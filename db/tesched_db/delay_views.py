"""Delays of best-effort jobs by TE jobs, as `delays` returns them: plain values."""

from __future__ import annotations

from dataclasses import dataclass

from tesched_core.intake.delays import Delay
from tesched_core.model.cluster import JobState
from tesched_core.model.resources import UnixSeconds

#: what jobs are grouped by, as in `GroupDelay.by`
GROUPS = ("user", "account", "partition", "qos")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waited:
    """Delay of one job as a bystander, until now."""

    delay_s: float = 0.0
    by_own_user_s: float = 0.0
    #: TE job, as squeue writes it, its user, and seconds; the largest part first
    parts: tuple[tuple[str, str, float], ...] = ()
    #: since when it waits, and for which TE jobs; None: it does not now
    since: UnixSeconds | None = None
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One TE job that has delayed a job."""

    #: as squeue writes it
    job: str
    user: str
    delay: Delay


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDelay:
    """Delay of one job, by all its preemptions and waits together."""

    #: as squeue writes it
    job: str
    user: str
    account: str
    partition: str
    qos: str
    state: JobState
    #: by TE jobs of other users, and by those of its own user
    delay: Delay
    by_own_user: Delay
    #: the longest delay first
    causes: tuple[Cause, ...]
    #: since when it waits for TE jobs, and for which; None: it does not now
    waits_since: UnixSeconds | None = None
    waits_for: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDelay:
    """Delay of the delayed jobs of one user, account, partition or QOS, by TE jobs of other users."""

    #: one of `GROUPS`, and which one of these
    by: str
    name: str
    #: how many of its jobs were delayed
    jobs: int
    mean_s: float
    most_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Delays:
    """Delays of the jobs that left, were suspended or waited within a time, or are still away."""

    #: the most delayed ones (`delays.MOST_LISTED`), the longest delay first; without those that their own users alone
    #: have delayed
    jobs: tuple[JobDelay, ...]
    #: by `GROUPS`, in each the longest mean first
    groups: tuple[GroupDelay, ...]
    #: of all: how many there are, how many wait for TE jobs now, and the mean, seconds
    count: int = 0
    waiting: int = 0
    mean_s: float = 0.0

    def worst(self, by: str) -> GroupDelay | None:
        """Return the user, account, partition or QOS with the longest mean; None if no job was delayed."""
        return next((one for one in self.groups if one.by == by and one.name), None)
