"""Levels at which quantiles are read, so that as many runs are covered as they say: a conformal correction.

Definitions
    score          of a run that has ended: which share of what was known at its start lay below it, and which share
                   was not above it. The two differ where run times are often equal
    level          nominal, such as 0.9; the quantile is read at a corrected one

Principle
    If predictions are right, 1 score in 10 is above 0.9. If 1 in 10 is above 0.96, the quantile has to be read at 0.96.
    So the corrected level is the quantile of the newest scores themselves: of n scores the ceil((n + 1) * level) th
    smallest share below, for levels above one half, and the floor((n + 1) * level) th smallest share not above for the
    others (split conformal prediction with the rank for a score). It holds for all jobs together, not for each kind of
    job, and as far as the next jobs are to what is known as the last ones were. The median stays.

    A group keeps its newest runs alone. Of a run so long that all of them ended after its start, what was known then is
    gone; it is scored by those that are kept, though they ended later. Without a score, long runs would be missing in
    the scores wherever many jobs end, and the high quantiles would be read too low.

Worked example
    1,000 scores, of which 150 are above 0.9 and 100 above 0.96: 0.9 is read at 0.96.

Source
    Vovk, Gammerman, Shafer, "Algorithmic learning in a random world", 2005. Ranks as scores: Chernozhukov, Wuethrich,
    Zhu, "Distributional conformal prediction", PNAS 2021. The newest scores alone: run times drift.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, floor

#: Newest scores that count.
MOST_SCORES = 2048
#: With fewer, levels are what they are: of 100 scores 10 say what is above 0.9.
FEWEST_SCORES = 100
#: Once there are `MOST_SCORES`, one run in so many is scored: it costs three times what it costs to learn a run.
STRIDE = 4
#: Newest runs of a history among which runs are scored.
SCORED_RUNS = STRIDE * MOST_SCORES
#: A quantile that just this run would have needed is read a little higher.
_JUST_ABOVE = 1e-9


@dataclass(slots=True)
class Calibration:
    """The newest scores."""

    _newest: deque[tuple[float, float]] = field(default_factory=deque)
    #: the same, each share ascending
    _below: list[float] = field(default_factory=list)
    _not_above: list[float] = field(default_factory=list)
    _runs: int = 0

    def is_due(self) -> bool:
        """Count a run; True if it is to be scored."""
        self._runs += 1
        return len(self._newest) < MOST_SCORES or self._runs % STRIDE == 0

    def add(self, below: float, not_above: float) -> None:
        """Take a score, in the place of the oldest if there are too many."""
        self._newest.append((below, not_above))
        insort(self._below, below)
        insort(self._not_above, not_above)
        if len(self._newest) > MOST_SCORES:
            old_below, old_not_above = self._newest.popleft()
            del self._below[bisect_left(self._below, old_below)]
            del self._not_above[bisect_left(self._not_above, old_not_above)]

    def levels(self, nominal: Sequence[float]) -> tuple[float, ...]:
        """Correct these levels, which ascend; so do the corrected ones."""
        return tuple(self._level(level) for level in nominal)

    def _level(self, level: float) -> float:
        count = len(self._newest)
        if count < FEWEST_SCORES or level == 0.5:
            return level
        if level < 0.5:
            rank = floor((count + 1) * level)
            return min(self._not_above[rank - 1], 0.5) if rank else 0.0
        rank = ceil((count + 1) * level)
        return min(max(self._below[rank - 1] + _JUST_ABOVE, 0.5), 1.0) if rank <= count else 1.0
