"""patient: waits a moment for room that comes free by itself; else asks whoever leaves soonest and holds least.

Definitions
    TE job         pending; it does not fit now. GP_j, Size(D_j), J as in `fitgpp`.
    E              when it would fit without anybody's being asked, if everybody who runs (TE jobs, too) ends when he is
                   expected to: by what is known of his run time, else by his time limit.
    A              how long it has waited already.

Principle
    A preemption costs best-effort jobs what their grace period and their restart hold idle, and their place; it saves
    the TE job what is left of somebody's run time. If that is little, it is not worth it.

    Score(j) = GP_j + tilt * Size(D_j)        seconds; the victims are found by `fewest_and_cheapest`

    Let GP be the longest grace period of the victims found. The TE job waits for E, and nobody is asked, if
        E - now <= GP                  (asking would be no faster), or
        A + E - now <= GP + patience   (it is little slower).
    Room that comes free is kept for it by its place at the head of the queue. If it does not come in time, somebody is
    asked after all: A has grown by then, so that it does not wait for ever.

Worked example
    patience 120 s. A TE job has just come and wants 2 GPUs; all are busy.
        j1 leaves 60 s after its notice, j2 after 30 s; a TE job on n3 with 2 GPUs has 100 s to go.
        Whom it would ask is j2: GP = 30. E - now = 100 > 30, and 0 + 100 <= 30 + 120: it waits for n3.
        With 200 s to go it would ask j2: 200 > 150.
    Had it waited 60 s already when j2 began to be asked: 60 + 100 > 150, it asks.

Parameters
    patience_s     120: how much later than by preemption a TE job may start to spare somebody. 0: never later.
    tilt_s         1: seconds of grace period that a whole node's room is worth; it settles ties.
    P              as for FitGpp: `guard.Limits.max_preemptions_per_job`

Source
    tesched's own. It needs run times that are roughly known; where they are not, it is FitGpp with a large s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tesched_core.cluster import Job
from tesched_core.planning import Found, fewest_and_cheapest, plan_all
from tesched_core.policy import Proposal, View
from tesched_core.resources import UnixSeconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Patient:
    """The policy; see the head of this file."""

    #: seconds
    patience_s: float = 120.0
    #: seconds of grace period that a whole node's room is worth
    tilt_s: float = 1.0
    name: str = "patient"

    def propose(self, view: View) -> Proposal:
        """Return for each waiting TE job whose end it awaits, or the victims that leave soonest."""
        return plan_all(view, self._rank, fewest_and_cheapest, self._until)

    def _rank(self, view: View, _preemptor: Job) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = view.running.grace_s + self.tilt_s * view.running.size
        return scores

    def _until(self, view: View, preemptor: Job, found: Found | None) -> UnixSeconds | None:
        """Return until when room that comes free by itself is worth waiting for; None: nobody can be asked anyway."""
        if found is None:
            return None
        now = view.snapshot.taken_at
        grace_s = max((float(view.running.grace_s[row]) for row in found.victims), default=0.0)
        since = preemptor.eligible_time if preemptor.eligible_time is not None else preemptor.submit_time
        waited_s = max(now - since, 0.0)
        return now + max(grace_s, grace_s + self.patience_s - waited_s)
