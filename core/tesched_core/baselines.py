"""What FitGpp is measured against: nobody yields, or somebody yields by a simpler rule.

All three that preempt ask running best-effort jobs one by one until the TE job fits somewhere, then let go of those
that are not needed there (`planning.in_order`); they differ in whom they ask first:

    lrtp       the longest remaining run time, by time limit; a job without a limit has the longest.
               Rule of Big-C (Chen, Rao, Zhou: "Preemptive, Low Latency Datacenter Scheduling via Lightweight
               Virtualization", USENIX ATC 2017), as FitGpp's paper compares itself with it.
    rand       at random, the same for the same seed and the same pair of jobs.
    youngest   the last one that started: Slurm's own preempt_youngest_first (slurm.conf(5), SchedulerParameters).

Example: A has run 5 of 60 minutes, B 50 of 60 and started first. `lrtp` asks A (55 minutes left), `youngest` asks A
too; had B a limit of 24 hours, `lrtp` would ask B.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from tesched_core.cluster import Job
from tesched_core.decision import Refusal, RefusalCode
from tesched_core.planning import in_order, plan_all
from tesched_core.policy import Proposal, View
from tesched_core.resources import JobId

#: Seconds that stand for "no time limit": longer than any limit, and still a number that a store can keep.
UNLIMITED_S = 1e10


@dataclass(frozen=True, slots=True, kw_only=True)
class Nobody:
    """No preemption: TE jobs wait their turn. What a site has without tesched."""

    name: str = "none"

    def propose(self, view: View) -> Proposal:
        """Return no plan."""
        return Proposal(
            plans=(),
            refusals=tuple(
                Refusal(
                    job_id=job.job_id,
                    preemptor=job.job_id,
                    code=RefusalCode.POLICY_NONE,
                    text="the policy is `none`: nobody is asked to yield",
                )
                for job in view.waiting
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LongestRemaining:
    """`lrtp`."""

    name: str = "lrtp"

    def propose(self, view: View) -> Proposal:
        """Ask whoever would hold his room longest."""
        return plan_all(view, lambda view, _: _by_remaining(view), in_order)


def _by_remaining(view: View) -> Mapping[JobId, float]:
    now = view.snapshot.taken_at
    return {
        job.job_id: -UNLIMITED_S
        if job.time_limit_s is None or job.start_time is None
        else -(job.start_time + job.time_limit_s - now)
        for job in view.running
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class AtRandom:
    """`rand`."""

    seed: int
    name: str = "rand"

    def propose(self, view: View) -> Proposal:
        """Ask in an order that depends on the seed and the two jobs alone."""
        return plan_all(view, self._rank, in_order)

    def _rank(self, view: View, preemptor: Job) -> Mapping[JobId, float]:
        return {job.job_id: self._draw(preemptor.job_id, job.job_id) for job in view.running}

    def _draw(self, preemptor: JobId, victim: JobId) -> float:
        digest = hashlib.blake2b(f"{self.seed}:{preemptor}:{victim}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64


@dataclass(frozen=True, slots=True, kw_only=True)
class YoungestFirst:
    """`youngest`."""

    name: str = "youngest"

    def propose(self, view: View) -> Proposal:
        """Ask the last one that started."""
        return plan_all(view, lambda view, _: {job.job_id: -(job.start_time or 0.0) for job in view.running}, in_order)
