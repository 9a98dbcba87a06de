"""patient: awaits resources that come free by themselves for a moment; then selects the job that loses least.

Definitions
    TE job         pending; it does not fit now. GP_j, L_j, Size(D_j) as in `fitgpp`.
    age            seconds since the TE job could first have started.

Principle
    On a busy cluster some job ends every few seconds, most often another TE job. The first job in the queue gets its
    nodes, and no job pays. A preemption saves the TE job that moment, and costs a best-effort job its place, and the
    cluster what a grace period and a restart hold idle. So no victim is notified while age < patience.
    Then, and if it is still worth it, the victim is the job that loses least of its run, and of two the one that holds
    less. Where all save their work it is the one that leaves soonest:

        Score(j) = L_j + tilt * Size(D_j)        seconds

    found like FitGpp's: one that frees enough, else few and cheap ones on one node.
    No run time is needed, neither known nor guessed.

Worked example
    patience 120 s, tilt 1 s. All GPUs are busy; j1 holds a node, j2 half of one, both leave 30 s after their notice.
    A TE job comes at 0. It is put first in the queue. At 70 a debug job ends, its nodes fit, the TE job starts there.
    Had nothing ended until 120, j2 would be notified: 30 + 0.5 < 30 + 1. The TE job would start at 150, and not at 30.

Parameters
    patience_s     how long a TE job waits before a victim is notified, 120. With 0 at once, like FitGpp with a
                   large s
    tilt_s         seconds of grace period that a whole node is worth, 1: it settles ties
    P              as for FitGpp: `model.limits.Limits.max_preemptions_per_job`

Source
    tesched's own. docs/discussion/reproduction.md has what it gains, where, and what each part of it is worth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from tesched_core.model.arrays import NDArray, np
from tesched_core.model.cluster import Job
from tesched_core.model.ranges import SecondsOfADay, check_ranges
from tesched_core.model.resources import UnixSeconds
from tesched_core.policy import Policy, Proposal, View

if TYPE_CHECKING:
    from tesched_policies.ground import FoundVictims


@dataclass(frozen=True, slots=True, kw_only=True)
class Patient(Policy[None]):
    """The policy; see the head of this file."""

    #: seconds
    patience_s: SecondsOfADay = 120.0
    #: seconds of grace period that a whole node is worth
    tilt_s: SecondsOfADay = 1.0
    name: ClassVar[str] = "patient"
    serves_te: ClassVar[bool] = True
    refuses_alone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise ValueError for a wait that makes no sense."""
        check_ranges(self)

    def propose(self, view: View, state: None) -> Proposal[None]:
        """Return for each waiting TE job that it goes on waiting, or the victims that leave soonest."""
        from tesched_policies.loss import weighed_loss_s  # noqa: PLC0415 - as below
        from tesched_policies.victim_search import fewest_and_cheapest, plan_all  # noqa: PLC0415 - a configuration needs none

        scores = self._scores(view, weighed_loss_s(view.running, view.now))
        return plan_all(
            view,
            lambda _view, _preemptor: scores,
            fewest_and_cheapest,
            self._until,
            why="it loses least of those that free enough ({score:.1f} s)",
        )

    def rank(self, view: View, state: None) -> NDArray[np.float64]:
        """Return the seconds after which each leaves, and its size. With the lever `plugin` no TE job is patient."""
        return self._scores(view, view.running.grace_s)

    def _scores(self, view: View, lost_s: NDArray[np.float64]) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = lost_s + self.tilt_s * view.running.size
        return scores

    def _until(self, _view: View, preemptor: Job, _found: FoundVictims) -> UnixSeconds:
        since = preemptor.eligible_time if preemptor.eligible_time is not None else preemptor.submit_time
        return since + self.patience_s
