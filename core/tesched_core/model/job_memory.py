"""Memory of one job: what is carried from cycle to cycle of a victim, or of a TE job with an order that has ended."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypedDict

from tesched_core.model.order import Ending
from tesched_core.model.resources import UnixSeconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Futility:
    """Outcome of a TE job's orders that notified victims and came to nothing; of an array, for all its tasks."""

    #: how many there were
    count: int
    #: how the last one ended
    ending: Ending
    #: what Slurm said of the job then (its reason word)
    said: str = ""
    #: a digest of what decides whether another order can do better (`futility.basis_of`); empty until it was taken
    basis: str = ""
    #: after one that ended at a limit: the most jobs of its user, account and QOS that were seen running since
    fellows: int = 0
    #: what mattered has changed since
    changed: bool = False
    #: of a job that came back (`Ending.CAME_BACK`): Slurm's count of its restarts at the first run that counts
    first_restart: int | None = None

    @property
    def by_itself(self) -> bool:
        """Check whether the job, or this task of an array, came back from its start: that is no word on others."""
        return self.ending in {Ending.NO_RUN, Ending.CAME_BACK}


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Past of a job that Slurm does not say: it resets the submission at each requeue."""

    #: its first submission
    submitted_at: UnixSeconds
    #: how long it ran before, all runs together, seconds
    ran_s: float
    #: and for how long of that, and of its present run, tesched had it suspended
    suspended_s: float = 0.0
    #: the longest of those runs, seconds, each without what came after its notice or its suspension
    longest_run_s: float = 0.0
    #: by how much other users' TE jobs have delayed it as a victim, in preemptions that are over (`intake/delays.py`)
    delayed_s: float = 0.0
    #: how much of that, and of the present one, it could not start for other reasons: held, at a limit, …
    excused_s: float = 0.0

    def with_run(self, ran_s: float, worked_s: float) -> Past:
        """Return the past after one more run of so many seconds, and so many until its notice, or its suspension."""
        return replace(self, ran_s=self.ran_s + ran_s, longest_run_s=max(self.longest_run_s, worked_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMemory:
    """Record of one job. What came of tries to start a TE job of an array is held under the array's id."""

    #: how often it was preempted, all its runs together (never more than the guard allows)
    preemptions: int = 0
    #: and after how many of these its run was lost: it was sent no signal, or died of it
    lost_runs: int = 0
    #: when it was last preempted for another user's TE job, or let go by `tesched undo` or a refusal of Slurm's
    last_preempted: UnixSeconds | None = None
    #: what became of it, preempted, before its present turn in the queue
    past: Past | None = None
    #: of a TE job with an order that came to nothing: when it may be tried again
    retry_at: UnixSeconds | None = None
    #: what came of its futile orders
    futile: Futility | None = None
    #: of a TE job for which shadow mode has recorded an order: when it may record the next. Not persisted
    shadowed_until: UnixSeconds | None = None
    #: since when the last answers did not show it, while it is remembered. Not persisted
    missing_since: UnixSeconds | None = None

    @property
    def is_tried_or_missing(self) -> bool:
        """Whether an order for it has ended without a start, or the last answers did not show it."""
        return not (
            self.futile is None and self.retry_at is None and self.shadowed_until is None and self.missing_since is None
        )

    @property
    def lasting(self) -> JobMemory:
        """What the store keeps of the record, over a restart."""
        if self.shadowed_until is None and self.missing_since is None:
            return self
        return replace(self, shadowed_until=None, missing_since=None)


class RecordFields(TypedDict, total=False):
    """Fields of a record, each one optional, for functions that set some of them."""

    preemptions: int
    lost_runs: int
    last_preempted: UnixSeconds | None
    past: Past | None
    retry_at: UnixSeconds | None
    futile: Futility | None
    shadowed_until: UnixSeconds | None
    missing_since: UnixSeconds | None


#: Record of a job of which nothing is remembered; no memory holds it.
NOTHING = JobMemory()
