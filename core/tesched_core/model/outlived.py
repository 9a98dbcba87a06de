"""TE runs that outlived their time limits, and the users who have no TE jobs for that (`guard/misuse.py`)."""

from __future__ import annotations

from dataclasses import dataclass

from tesched_core.model.resources import JobId, UnixSeconds

#: The rule of a TE job that runs for longer than the time limit that it had when it started: it is BE since then.
OUTLIVED = "outlived its time limit"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlived:
    """A TE run that went on past the time limit with which it started."""

    job_id: JobId
    #: when that was, by Slurm's clock: its start and the limit
    at: UnixSeconds
    user: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Barred:
    """A user who has none of the TE jobs that wait started."""

    user: str
    #: runs of the last 24 h that outlived their limits, and how many there may be
    count: int
    most: int
    until: UnixSeconds

    @property
    def said(self) -> str:
        """Summary of these runs, in words."""
        runs = "1 TE job" if self.count == 1 else f"{self.count} TE jobs"
        return f"{runs} of {self.user} outlived the time limits with which they started in the last 24 h"
