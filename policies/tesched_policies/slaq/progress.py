"""Progress of a job's training: the losses that it reported, and what an iteration costs.

Definitions
    report         (iteration, loss, core-seconds that the job had used by then).
    largest drop   the most that the loss fell from one report to the next, per iteration: max dL_i. What SLAQ divides a
                   job's gain by, so that losses of different scales can be compared.
    cost           core-seconds of one iteration, the mean over all but the first: w.

A report that cannot be true is refused, and counted: a number that is not finite or is beyond all reason, an iteration
that does not follow the one before, core-seconds that ran backwards. So whatever a job sends changes no other job's
numbers.

Source
    SLAQ, section 3 (normalised loss change) and 5 (history). Of a history only the last points are kept: what a fit can
    use, twice its window.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tesched_policies.slaq.curves import Bools, Floats

#: Losses that are kept: twice the window of a fit, for a fit that has to be tried with more.
KEPT = 200
#: No loss or number of core-seconds is larger.
MOST = 1e100
#: No iteration is later: beyond it, whole numbers are no longer distinct floats.
LAST = 2.0**53


def _none() -> Floats:
    return np.zeros(0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Progress:
    """A job's history, in bounded space."""

    #: [points] the newest KEPT reports that were taken, oldest first
    iterations: Floats = field(default_factory=_none)
    losses: Floats = field(default_factory=_none)
    #: reports taken and refused
    taken: int = 0
    refused: int = 0
    first_loss: float = 0.0
    lowest: float = 0.0
    #: 0 while the loss has never fallen
    largest_drop: float = 0.0
    #: of the first report, and core-seconds used by then
    first_iteration: float = 0.0
    first_core_s: float = 0.0
    #: core-seconds used by the newest report
    core_s: float = 0.0

    def with_reports(self, iterations: Floats, losses: Floats, core_s: Floats) -> Progress:
        """Return the history with further reports, each [points], in the order in which they came."""
        good = np.isfinite(iterations) & np.isfinite(losses) & np.isfinite(core_s)
        for column, most in ((iterations, LAST), (losses, MOST), (core_s, MOST)):
            good &= np.abs(np.where(good, column, 0.0)) <= most
        good &= iterations >= 1
        seen = self.taken > 0
        good &= _ascending(np.where(good, iterations, -np.inf), self.iterations[-1] if seen else 0.0, strictly=True)
        good &= _ascending(np.where(good, core_s, -np.inf), self.core_s if seen else 0.0, strictly=False)
        count = int(good.sum())
        refused = self.refused + len(good) - count
        if not count:
            return replace(self, refused=refused)
        at, loss = iterations[good], losses[good]
        tail_at = np.concatenate([self.iterations[-1:], at])
        tail_loss = np.concatenate([self.losses[-1:], loss])
        drops = -np.diff(tail_loss) / np.maximum(np.diff(tail_at), 1.0)
        return Progress(
            iterations=np.concatenate([self.iterations, at])[-KEPT:],
            losses=np.concatenate([self.losses, loss])[-KEPT:],
            taken=self.taken + count,
            refused=refused,
            first_loss=self.first_loss if seen else float(loss[0]),
            lowest=min(self.lowest, float(loss.min())) if seen else float(loss.min()),
            largest_drop=max(self.largest_drop, float(drops.max(initial=0.0))),
            first_iteration=self.first_iteration if seen else float(at[0]),
            first_core_s=self.first_core_s if seen else float(core_s[good][0]),
            core_s=float(core_s[good][-1]),
        )

    @property
    def iteration(self) -> float:
        """Return the newest iteration; 0 if there is none."""
        return float(self.iterations[-1]) if self.taken else 0.0

    @property
    def cost_core_s(self) -> float | None:
        """Return core-seconds an iteration, the first one left out; None while that is not known."""
        more = self.iteration - self.first_iteration
        used = self.core_s - self.first_core_s
        return used / more if more > 0 and used > 0 else None


def _ascending(values: Floats, after: float, *, strictly: bool) -> Bools:
    """Mask of the values [points] that lie above all before them, and above `after`."""
    before = np.maximum.accumulate(np.concatenate([[after], values]))[:-1]
    return values > before if strictly else (values >= before) & (values > -np.inf)
