"""Baselines that FitGpp is measured against: no victim, or victims by a simpler rule.

All three that preempt ask running best-effort jobs one by one until the TE job fits somewhere, then let go of those
that are not needed there (`victim_search.in_order`); they differ in which job they ask first:

    lrtp       the longest remaining run time, as far as it is known, else by time limit; without either, the longest.
               Rule of Big-C (Chen, Rao, Zhou: "Preemptive, Low Latency Datacenter Scheduling via Lightweight
               Virtualization", USENIX ATC 2017), as FitGpp's paper compares itself with it.
    rand       at random, the same for the same seed and the same pair of jobs.
    youngest   the last one that started: Slurm's own preempt_youngest_first (slurm.conf(5), SchedulerParameters).

Example: A has run 5 of 60 minutes, B 50 of 60 and started first. `lrtp` asks A (55 minutes left), `youngest` asks A
too; had B a limit of 24 hours, `lrtp` would ask B.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from tesched_core.model.arrays import NDArray, np
from tesched_core.model.decision import Refusal, RefusalCode, Refusals
from tesched_core.model.ranges import between, check_ranges
from tesched_core.policy import Policy, Proposal, View

#: Seconds that stand for "no time limit": longer than any limit, and still a number that a store can keep.
UNLIMITED_S = 1e10


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPreemption(Policy[None]):
    """No preemption: TE jobs wait their turn. What a site has without tesched."""

    name: ClassVar[str] = "none"
    serves_te: ClassVar[bool] = True

    def propose(self, view: View, state: None) -> Proposal[None]:
        """Return no plan."""
        return Proposal(
            refusals=Refusals(
                Refusal(
                    job_id=job.job_id,
                    preemptor=job.job_id,
                    code=RefusalCode.POLICY_NONE,
                    text="the policy is `none`: no job is preempted",
                )
                for job in view.waiting
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LongestRemaining(Policy[None]):
    """`lrtp`."""

    name: ClassVar[str] = "lrtp"
    serves_te: ClassVar[bool] = True

    def propose(self, view: View, state: None) -> Proposal[None]:
        """Ask the job that would hold its nodes longest."""
        from tesched_policies.victim_search import in_order, plan_all  # noqa: PLC0415 - a configuration needs none

        scores = _by_remaining(view)
        return plan_all(view, lambda _view, _job: scores, in_order, why="it has the longest remaining run time")

    def rank(self, view: View, state: None) -> NDArray[np.float64]:
        """Rank by expected end, latest first: minus the time, a score that does not change while time passes."""
        ends = view.running.ends_at
        return -np.where(np.isfinite(ends), ends, UNLIMITED_S)


def _by_remaining(view: View) -> NDArray[np.float64]:
    remaining = view.running.ends_at - view.snapshot.taken_at
    return -np.where(np.isfinite(remaining), remaining, UNLIMITED_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class AtRandom(Policy[None]):
    """`rand`."""

    seed: Annotated[int, between(0, 2**63 - 1)] = 0
    name: ClassVar[str] = "rand"
    serves_te: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise ValueError for what is no seed."""
        check_ranges(self)

    def propose(self, view: View, state: None) -> Proposal[None]:
        """Ask in an order that depends on the seed and the two jobs alone."""
        from tesched_policies.victim_search import in_order, plan_all  # noqa: PLC0415 - a configuration needs none

        why = "it was drawn at random"
        return plan_all(view, lambda view, job: self._drawn(view, job.job_id), in_order, why=why, drawn=True)

    def rank(self, view: View, state: None) -> NDArray[np.float64]:
        """Return a draw that depends on the seed and each job alone."""
        return self._drawn(view, 0)

    def _drawn(self, view: View, preemptor: int) -> NDArray[np.float64]:
        of_both = _mixed(np.array([self.seed], dtype=np.uint64)) ^ np.uint64(preemptor)
        drawn = _mixed(_mixed(of_both) ^ view.running.job_id.astype(np.uint64))
        return (drawn >> np.uint64(11)).astype(np.float64) / 2**53


def _mixed(number: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return each number's image under a one-to-one map that leaves no pattern (the finaliser of SplitMix64)."""
    number = (number + np.uint64(0x9E3779B97F4A7C15)).astype(np.uint64)
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return number ^ (number >> np.uint64(31))


@dataclass(frozen=True, slots=True, kw_only=True)
class YoungestFirst(Policy[None]):
    """`youngest`."""

    name: ClassVar[str] = "youngest"
    serves_te: ClassVar[bool] = True

    def propose(self, view: View, state: None) -> Proposal[None]:
        """Ask the last one that started."""
        from tesched_policies.victim_search import in_order, plan_all  # noqa: PLC0415 - a configuration needs none

        # By how long it has run: of times of day no part is a margin (`among_equals.py`).
        scores = view.now - view.running.started
        return plan_all(view, lambda _view, _job: scores, in_order, why="it started last")

    def rank(self, view: View, state: None) -> NDArray[np.float64]:
        """Rank by start, latest first: minus the time."""
        return -view.running.started
