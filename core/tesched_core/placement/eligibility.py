"""Eligibility: which running jobs a TE job may ask to leave, and why not the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tesched_core.intake.job_times import most_run_s
from tesched_core.model.arrays import NDArray, np
from tesched_core.model.cluster import Job
from tesched_core.model.decision import RefusalCode, Why
from tesched_core.model.resources import JobId


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Eligibility:
    """Running jobs that may be victims, as the guard says."""

    #: [running] row of `whys`; -1: it may be a victim
    why: NDArray[np.intp]
    whys: Sequence[Why]
    #: rows of running jobs that TE jobs of one user may not ask, by user
    not_by: Mapping[str, Sequence[int]] = field(default_factory=dict)
    #: and why
    why_not_by: Why | None = None
    #: [running] time limit in seconds of the longest TE job of another user for which each may be a victim, and each
    #: one's user; None: nothing is bounded
    most_te_s: NDArray[np.float64] | None = None
    users: Sequence[str] = ()
    #: rows of running jobs that TE jobs of their own user may ask all the same, by user
    by_own: Mapping[str, Sequence[int]] = field(default_factory=dict)
    #: TE jobs that have no victim yet, and why
    not_for: Mapping[JobId, Why] = field(default_factory=dict)
    #: finds those that would leave too late for a TE job, and why; None: none would
    too_late: Callable[[Job], Iterable[tuple[NDArray[np.intp], Why]]] | None = None
    #: what was found already, by what counts of a TE job
    _by: dict[tuple[str, float, str, float | None], Eligibility] = field(default_factory=dict, init=False, repr=False)
    #: `why` where there is no victim yet, once it was needed
    _without_victims: list[NDArray[np.intp]] = field(default_factory=list, init=False, repr=False)

    def by(self, te: Job) -> Eligibility:
        """Return the same as it is for this TE job; the same object for jobs that are alike in that."""
        if te.job_id in self.not_for:
            if not self._without_victims:
                self._without_victims.append(np.where(self.may_be_asked, len(self.whys), self.why))
            return replace(self, why=self._without_victims[0], whys=(*self.whys, self.not_for[te.job_id]))
        key = te.user, most_run_s(te), te.reservation, te.deadline
        if key not in self._by:
            self._by[key] = self._by_alike(te).in_time_for(te)
        return self._by[key]

    def _by_alike(self, te: Job) -> Eligibility:
        found = self
        if own := self.by_own.get(te.user):
            why = self.why.copy()
            why[list(own)] = -1
            found = replace(self, why=why)
        rows = np.array([row for row in self.not_by.get(te.user, ()) if found.why[row] < 0], dtype=np.intp)
        found = found.without(rows, self.why_not_by) if len(rows) and self.why_not_by is not None else found
        return found.for_te_of(most_run_s(te), te.user)

    def in_time_for(self, te: Job) -> Eligibility:
        """Return the same without those that leave too late for it to start."""
        found = self
        for rows, because in () if self.too_late is None else self.too_late(te):
            late = rows[found.why[rows] < 0]
            found = found.without(late, because) if len(late) else found
        return found

    def for_te_of(self, limit_s: float, user: str | None = None) -> Eligibility:
        """Return the same as it is for TE jobs with this time limit, seconds; None: of any user."""
        if self.most_te_s is None:
            return self
        short = np.flatnonzero((self.most_te_s < limit_s) & (self.why < 0))
        short = np.array([row for row in short.tolist() if self.users[row] != user], dtype=np.intp)
        text = f"TE jobs may delay it by little more (guard.bound): not by one with a time limit of {limit_s:g} s"
        return self.without(short, (RefusalCode.BOUND, text)) if len(short) else self

    def without(self, rows: NDArray[np.intp], because: Why) -> Eligibility:
        """Return the same without the jobs of these rows."""
        why = self.why.copy()
        why[rows] = len(self.whys)
        return replace(self, why=why, whys=(*self.whys, because))

    @property
    def may_be_asked(self) -> NDArray[np.bool_]:
        """Return [running] whether each may be a victim."""
        return self.why < 0
