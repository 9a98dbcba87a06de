"""Ledger of the attacks on guard.bound: by how much TE jobs truly delayed each BE job.

Definitions (docs/reference/delays.md; "TE job" is one of another user)
    lost        from the start of a run that a TE job ended, or from when it was last saved, to its notice, or to its
                requeue without one
    away        from then until the job runs again, or is over; without the seconds, `behind_be_s`, for which it is
                eligible again and BE jobs alone keep it waiting: it would not fit either if no TE job ran, or it fits,
                and no TE job is ahead of it in the queue
    bystander   while it is eligible and pending, does not fit into what is free, and would fit if the TE jobs that
                started since it became eligible had not. A second counts once
    D           the sum of the three, less `behind_be_s`
    R           the job's run time, without what it did twice; of a job that was ended, as far as it came. What its
                owner says of it counts, if that is more: one who says too much harms no other job
    bound       max((B - 1) R, T), T = te_time_limit_s and what one preemption costs (`Terms.least_s`)

Principle
    It is written from the definitions and the cluster's true state, and calls nothing of tesched's.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tesched_core.model.cluster import JobState
from tesched_core.model.resources import JobId

from tesched_testcluster.harness.bound.jobs import ClusterNow, ModelJob, Phase

#: what rounding may add, seconds
EPSILON_S = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Terms of the bound. Seconds."""

    #: B
    slowdown: float
    te_time_limit_s: float
    #: of the guard
    min_run_time_s: float
    #: longest time between two polls
    poll_s: float
    kill_wait_s: float
    requeue_delay_s: float
    #: most by which a job outruns its limit, KillWait included
    late_s: float

    def least_s(self, job: ModelJob) -> float:
        """Return T."""
        costs_s = job.grace_s + self.kill_wait_s + self.requeue_delay_s + self.late_s
        return self.te_time_limit_s + costs_s + self.min_run_time_s + 3 * self.poll_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Delay of one BE job that is over, and its bound. Seconds."""

    job_id: JobId
    at: float
    run_s: float
    lost_s: float
    away_s: float
    #: no part of `away_s`
    behind_be_s: float
    bystander_s: float
    bound_s: float
    #: the bound by its owner's word of its run time, if that is longer
    said_bound_s: float

    @property
    def delay_s(self) -> float:
        """Return D."""
        return self.lost_s + self.away_s + self.bystander_s

    @property
    def violated(self) -> bool:
        """Return whether it was delayed by more than the bound, as its owner's word has it."""
        return self.delay_s > self.said_bound_s + EPSILON_S

    @property
    def is_behind_be(self) -> bool:
        """Return whether it was delayed by more than that only because BE jobs had its place."""
        return not self.violated and self.delay_s + self.behind_be_s > self.said_bound_s + EPSILON_S

    def __str__(self) -> str:
        """Return it in one line."""
        return (
            f"job {self.job_id} at {self.at:.0f} s: delayed by {self.delay_s:.1f} s (lost {self.lost_s:.1f}, away "
            f"{self.away_s:.1f}, bystander {self.bystander_s:.1f}; behind BE jobs {self.behind_be_s:.1f}), "
            f"bound {self.said_bound_s:.1f} s, run time {self.run_s:.1f} s"
        )


@dataclass(slots=True, eq=False)
class _Account:
    lost_s: float = 0.0
    away_s: float = 0.0
    behind_be_s: float = 0.0
    bystander_s: float = 0.0
    #: its last notice, and that of a preemption after which it is yet to run again
    noticed_at: float | None = None
    away_since: float | None = None


@dataclass(slots=True, eq=False)
class Ledger:
    """What became of the jobs."""

    terms: Terms
    verdicts: list[Verdict] = field(default_factory=list)
    te_waits_s: list[float] = field(default_factory=list)
    #: ends of jobs by how they ended
    ends: Counter[str] = field(default_factory=Counter)
    preemptions: int = 0
    #: victims that were cancelled, by their owners' word
    ended_for_good: int = 0
    _accounts: dict[JobId, _Account] = field(default_factory=dict)

    def passes(self, slurm: ClusterNow, since: float, until: float) -> None:
        """Count a time in which nothing changes."""
        te = [job for job in slurm.jobs.values() if job.te and job.where]
        seconds = until - since
        known: dict[object, bool] = {}
        for job in slurm.jobs.values():
            if job.te or job.phase is not Phase.QUEUE or job.held or job.eligible_at > since:
                continue
            account = self._of(job)
            away = account.away_since is not None
            if not te and not away:
                continue
            others = [one for one in te if one.user != job.user and (away or one.started_at >= job.eligible_at)]
            key = job.asks, tuple(one.job_id for one in others)
            if key not in known:
                known[key] = not _fits(job, slurm.free) and _fits(job, _without(slurm.free, others))
            if away and not known[key] and not (_fits(job, slurm.free) and _is_behind_te(job, slurm)):
                account.behind_be_s += seconds
            elif not away and known[key]:
                account.bystander_s += seconds

    def notified(self, job: ModelJob, te_user: str, at: float, *, anew: bool) -> None:
        """Note a notice, or a requeue or a cancel; the job's own user's TE jobs don't count."""
        account = self._of(job)
        if te_user == job.user:
            account.noticed_at = None
        elif anew or account.noticed_at is None:
            account.noticed_at = at

    def left(self, job: ModelJob, saved_at: float) -> None:
        """Note that a run is over and the job goes back to the queue."""
        account = self._of(job)
        if account.noticed_at is not None:
            self.preemptions += 1
            account.lost_s += max(account.noticed_at - saved_at, 0.0)
            account.away_since, account.noticed_at = account.noticed_at, None

    def started(self, job: ModelJob, at: float) -> None:
        """Note a start."""
        if job.te and job.restarts == 0:
            self.te_waits_s.append(at - job.submitted_at)
        account = self._of(job)
        self._is_back(account, at)
        account.noticed_at = None

    def over(self, job: ModelJob, at: float) -> None:
        """Note the end of a job; one that has failed of its notice may run again."""
        self.ends[f"{'TE' if job.te else 'BE'} {job.state}"] += 1
        account = self._of(job)
        self.ended_for_good += job.ends and job.state is JobState.CANCELLED and account.noticed_at is not None
        if job.te or (job.state is JobState.FAILED and account.noticed_at is not None and not job.ends):
            return
        self._is_back(account, at)
        run_s = max(job.longest_s, job.worked_s)
        said_s = max(run_s, job.said_s or 0.0)
        own = self.terms.slowdown - 1
        least_s = self.terms.least_s(job)
        self.verdicts.append(
            Verdict(
                job_id=job.job_id,
                at=at,
                run_s=run_s,
                lost_s=account.lost_s,
                away_s=account.away_s - account.behind_be_s,
                behind_be_s=account.behind_be_s,
                bystander_s=account.bystander_s,
                bound_s=max(own * run_s, least_s),
                said_bound_s=max(own * said_s, least_s),
            )
        )

    def _of(self, job: ModelJob) -> _Account:
        return self._accounts.setdefault(job.job_id, _Account())

    @staticmethod
    def _is_back(account: _Account, at: float) -> None:
        if account.away_since is not None:
            account.away_s += at - account.away_since
            account.away_since = None


def _is_behind_te(job: ModelJob, slurm: ClusterNow) -> bool:
    return any(one.te and one.user != job.user and one.priority > job.priority for one in slurm.waiting())


def _without(free: list[int], jobs: list[ModelJob]) -> list[int]:
    left = list(free)
    for job in jobs:
        for row in job.where:
            left[row] += job.cpus
    return left


def _fits(job: ModelJob, free: list[int]) -> bool:
    return sum(cpus >= job.cpus for cpus in free) >= job.nodes
