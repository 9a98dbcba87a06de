"""Groups of finished runs, nested from the most specific to all, each with a bounded number of its newest runs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum
from math import inf, log

from tesched_predict.history import FinishedRun, JobFacts, name_pattern, size_class

RUNS_PER_GROUP = 256
RUNS_OF_ALL = 1024
GROUPS_PER_LIKENESS = 5_000


class Likeness(Enum):
    """What the jobs of a group have in common, the most specific first; the value is how `explain` says it."""

    SAME_SHAPE = "like it"
    SAME_NAME = "of its user with such a name"
    SAME_USER = "of its user"
    SAME_PARTITION = "of its account and partition"
    ALL = "of all users"


#: end (s) and logarithm of the run time of one run
_EndAndLog = tuple[float, float]


def keys_of(job: JobFacts) -> dict[Likeness, Hashable]:
    """Return the groups that a job belongs to, the most specific first; a fact that is not known makes no group."""
    keys: dict[Likeness, Hashable] = {}
    if job.user and job.job_name:
        pattern = name_pattern(job.job_name)
        keys[Likeness.SAME_SHAPE] = (job.user, pattern, size_class(job), job.limit_s)
        keys[Likeness.SAME_NAME] = (job.user, pattern)
    elif job.user:
        keys[Likeness.SAME_SHAPE] = (job.user, "", size_class(job), job.limit_s)
    if job.user:
        keys[Likeness.SAME_USER] = job.user
    if job.account or job.partition:
        keys[Likeness.SAME_PARTITION] = (job.account, job.partition)
    keys[Likeness.ALL] = ()
    return keys


@dataclass(slots=True)
class NewestRuns:
    """The newest runs of a group: of equally new ones the longest, so that the order of learning does not matter."""

    most: int
    #: ascending
    by_end: list[_EndAndLog] = field(default_factory=list)
    #: the logarithms of the run times, ascending
    logs: list[float] = field(default_factory=list)
    newest_end_s: float = float("-inf")

    def __len__(self) -> int:
        """Count the runs that are kept."""
        return len(self.logs)

    def add(self, run: _EndAndLog) -> None:
        """Keep a run, in the place of the oldest if there are too many."""
        self.newest_end_s = max(self.newest_end_s, run[0])
        if len(self.by_end) >= self.most:
            if run <= self.by_end[0]:
                return
            del self.logs[bisect_left(self.logs, self.by_end.pop(0)[1])]
        insort(self.by_end, run)
        insort(self.logs, run[1])

    def ranks_at(self, at_s: float, low: float, high: float) -> tuple[int, int, int]:
        """Count the runs that had ended by then: all, those with a logarithm below `low`, and those not above `high`.

        Where so many have ended since that those have been dropped, all that are kept count.
        """
        known = bisect_right(self.by_end, (at_s, inf))
        if len(self.by_end) >= self.most and not known:
            known = len(self.by_end)
        if known <= len(self.by_end) // 2:
            logs = [log_s for _, log_s in self.by_end[:known]]
            return known, sum(one < low for one in logs), sum(one <= high for one in logs)
        logs = [log_s for _, log_s in self.by_end[known:]]
        below = bisect_left(self.logs, low) - sum(one < low for one in logs)
        return known, below, self.at_most(high) - sum(one <= high for one in logs)

    def at_most(self, log_s: float) -> int:
        """Count the runs that are not longer."""
        return bisect_right(self.logs, log_s)


@dataclass(slots=True)
class Groups:
    """All groups of all likenesses. Two bounds hold the memory: runs in a group, and groups of a likeness."""

    runs_per_group: int = RUNS_PER_GROUP
    runs_of_all: int = RUNS_OF_ALL
    groups_per_likeness: int = GROUPS_PER_LIKENESS
    _groups: dict[Likeness, dict[Hashable, NewestRuns]] = field(
        default_factory=lambda: {likeness: {} for likeness in Likeness}
    )
    _last_end_s: float | None = None

    def add(self, run: FinishedRun) -> None:
        """Add a run to its groups."""
        if run.end_s != self._last_end_s:
            # Not amid runs of one time: their order must not matter.
            self._drop_the_oldest()
            self._last_end_s = run.end_s
        entry = (run.end_s, log(run.run_s))
        for likeness, key in keys_of(run).items():
            most = self.runs_of_all if likeness is Likeness.ALL else self.runs_per_group
            self._groups[likeness].setdefault(key, NewestRuns(most)).add(entry)

    def of(self, job: JobFacts) -> list[tuple[Likeness, NewestRuns]]:
        """Return the groups of a job that have runs, the most specific first."""
        found = ((likeness, self._groups[likeness].get(key)) for likeness, key in keys_of(job).items())
        return [(likeness, group) for likeness, group in found if group]

    def keys(self, job: JobFacts) -> tuple[tuple[Likeness, Hashable], ...]:
        """Return the keys of these groups."""
        return tuple((likeness, key) for likeness, key in keys_of(job).items() if self._groups[likeness].get(key))

    def _drop_the_oldest(self) -> None:
        """Drop the groups without new runs where there are too many; an eighth at once, which keeps it cheap."""
        for likeness, groups in self._groups.items():
            if len(groups) <= self.groups_per_likeness:
                continue
            keep = max(self.groups_per_likeness - self.groups_per_likeness // 8, 1)
            cutoff_s = sorted(group.newest_end_s for group in groups.values())[len(groups) - keep]
            kept = {key: group for key, group in groups.items() if group.newest_end_s > cutoff_s}
            # Of equally old groups, those kept must not depend on the order of learning.
            tied = sorted((key for key, group in groups.items() if group.newest_end_s == cutoff_s), key=repr)
            kept.update((key, groups[key]) for key in tied[: keep - len(kept)])
            self._groups[likeness] = kept
