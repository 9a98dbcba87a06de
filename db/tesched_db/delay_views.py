"""Delays of best-effort jobs by TE jobs, as `delays` returns them: plain values."""

from __future__ import annotations

from dataclasses import dataclass

from tesched_core.intake.delays import Delay
from tesched_core.model.cluster import JobState

#: what jobs are grouped by, as in `GroupDelay.by`
GROUPS = ("user", "account", "partition", "qos")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One TE job that has delayed a job."""

    #: as squeue writes it
    job: str
    user: str
    delay: Delay


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDelay:
    """Delay of one job, all its preemptions together."""

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
    """Delays of the jobs that left, or were suspended, within a time or are still away."""

    #: the longest delay first; without those that their own users alone have delayed
    jobs: tuple[JobDelay, ...]
    #: by `GROUPS`, in each the longest mean first
    groups: tuple[GroupDelay, ...]

    def worst(self, by: str) -> GroupDelay | None:
        """Return the user, account, partition or QOS with the longest mean; None if no job was delayed."""
        return next((one for one in self.groups if one.by == by and one.name), None)
