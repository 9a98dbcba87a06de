"""One run: the jobs share the cores, again each epoch and whenever one comes or ends.

An iteration takes its core-seconds over the cores; a job goes on with other cores where it was, and nothing is lost by
it. A loss is reported when its iteration ends. Between two events each job's pace is constant, so all times and means
are exact; nothing is sampled.

Source
    SLAQ, sections 2.3 (t = c S / a) and 4: tokens let running tasks end, and then give their cores to others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from tesched_policies.slaq.allocate import AllocationSettings, Objective, allocate, fair
from tesched_policies.slaq.curves import Floats, Ints
from tesched_policies.slaq.forecast import Fits, ForecastJob, KeptCurves, forecast
from tesched_policies.slaq.progress import Progress
from tesched_sim.workload import WorkloadError

from tesched_papers.slaq.workload import Jobs

#: Parts of the loss reduction; the time to each is reported.
LEVELS = (0.25, 0.5, 0.75, 0.9, 0.95)
#: An iteration that lacks less than this part of itself has ended: rounding.
WHOLE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """Settings of a policy: what it fits, and what it maximises; `fits` None: equal shares."""

    fits: Fits | None
    objective: Objective = Objective.TOTAL
    #: whether it knows which curve a job's algorithm has
    families: bool = True


POLICIES = {
    "slaq": Sharing(fits=Fits()),
    "slaq-unweighted": Sharing(fits=Fits(decay=1.0)),
    "slaq-unknown": Sharing(fits=Fits(), families=False),
    "slaq-ratio": Sharing(fits=Fits(curves=False)),
    "slaq-max-min": Sharing(fits=Fits(), objective=Objective.MAX_MIN),
    "fair": Sharing(fits=None),
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Outcome:
    """Result of a run."""

    #: [jobs] seconds from the submission to the last iteration
    done_s: Floats
    #: [jobs, levels] seconds from the submission until so much of the loss reduction was reached
    level_s: Floats
    #: normalised loss, the mean over running jobs, over the time in which there were any
    mean_loss: float
    #: cores of the quarter of running jobs with the highest loss, of the next quarter, of the rest; over the time
    #: with four jobs or more
    core_shares: tuple[float, float, float]
    #: running jobs, the mean over the time in which there were any
    mean_running: float
    #: when the last job ended, seconds
    ended_s: float
    allocations: int


def simulate(jobs: Jobs, policy: str, *, cores: int, epoch_s: float = 3.0) -> Outcome:
    """Run the jobs under a policy. Raises WorkloadError if there is no such policy."""
    if policy not in POLICIES:
        raise WorkloadError(f"policy {policy!r} is not known: {', '.join(POLICIES)}")
    return _Run(jobs=jobs, share=_sharer(jobs, POLICIES[policy], cores, epoch_s), epoch_s=epoch_s).run()


#: [running] the jobs, [running] the iterations that each has behind it -> [running] cores
_Share = Callable[[Ints, Floats], Ints]


def _sharer(jobs: Jobs, sharing: Sharing, cores: int, epoch_s: float) -> _Share:
    fits = sharing.fits
    if fits is None:
        return lambda running, _: fair(len(running), cores)
    progress = [Progress() for _ in range(len(jobs))]
    shares = AllocationSettings(epoch_s=epoch_s, objective=sharing.objective)
    memory: KeptCurves[int] = KeptCurves()

    def share(running: Ints, behind: Floats) -> Ints:
        nonlocal memory
        trainings: dict[int, ForecastJob] = {}
        for job, done in zip(running.tolist(), np.floor(behind + WHOLE).astype(np.int64).tolist(), strict=True):
            seen = int(progress[job].iteration)
            if done > seen:
                at = np.arange(seen + 1, done + 1, dtype=np.float64)
                reported = jobs.losses[job][seen:done]
                progress[job] = progress[job].with_reports(at, reported, at * jobs.cost_core_s[job])
            family = jobs.kinds[job].family if sharing.families else None
            trainings[job] = ForecastJob(progress=progress[job], family=family)
        forecasts, memory = forecast(trainings, memory, fits)
        return allocate(forecasts, cores, shares)

    return share


@dataclass(slots=True, kw_only=True, eq=False)
class _Run:
    """A run under way."""

    jobs: Jobs
    share: _Share
    epoch_s: float
    now: float = 0.0
    #: [running] the jobs in the order of their submission, and the iterations behind them
    running: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    behind: Floats = field(default_factory=lambda: np.zeros(0))
    busy_s: float = 0.0
    loss_s: float = 0.0
    job_s: float = 0.0
    shared_s: float = 0.0
    share_s: Floats = field(default_factory=lambda: np.zeros(3))
    allocations: int = 0

    def run(self) -> Outcome:
        """Run to the last job's end."""
        jobs = self.jobs
        count = len(jobs)
        hits = np.array([[int((norm <= 1 - level).argmax()) + 1 for level in LEVELS] for norm in jobs.normalised])
        level_s, done_s = np.full((count, len(LEVELS)), np.nan), np.full(count, np.nan)
        # What the normalised loss adds up to over iterations; 1 until the first one has ended.
        sums = [np.concatenate([[0.0, 1.0], 1.0 + np.cumsum(norm)]) for norm in jobs.normalised]
        came = 0
        while came < count or len(self.running):
            while came < count and jobs.submit_s[came] <= self.now:
                self.running, self.behind = np.append(self.running, came), np.append(self.behind, 0.0)
                came += 1
            next_came = float(jobs.submit_s[came]) if came < count else np.inf
            if not len(self.running):
                self.now = next_came
                continue
            given = self.share(self.running, self.behind)
            self.allocations += 1
            pace = given / jobs.cost_core_s[self.running]
            left = jobs.count[self.running] - self.behind
            with np.errstate(divide="ignore"):
                ends = np.where(pace > 0, left / pace, np.inf)
            epoch_end = (np.floor(self.now / self.epoch_s + WHOLE) + 1) * self.epoch_s
            step_s = min(epoch_end - self.now, next_came - self.now, float(ends.min()))
            after = np.where(ends <= step_s, jobs.count[self.running], self.behind + pace * step_s)
            self._measure(given, after, pace, step_s, sums)
            for row, job in enumerate(self.running.tolist()):
                hit = (hits[job] > self.behind[row]) & (hits[job] <= after[row])
                level_s[job, hit] = self.now + (hits[job][hit] - self.behind[row]) / pace[row] - jobs.submit_s[job]
            self.now = self.now + step_s
            stays = ends > step_s
            done_s[self.running[~stays]] = self.now - jobs.submit_s[self.running[~stays]]
            self.running, self.behind = self.running[stays], after[stays]
        top, second, rest = (self.share_s / self.shared_s if self.shared_s else np.full(3, np.nan)).tolist()
        return Outcome(
            done_s=done_s,
            level_s=level_s,
            mean_loss=self.loss_s / self.busy_s,
            core_shares=(top, second, rest),
            mean_running=self.job_s / self.busy_s,
            ended_s=self.now,
            allocations=self.allocations,
        )

    def _measure(self, given: Ints, after: Floats, pace: Floats, step_s: float, sums: list[Floats]) -> None:
        """Add up what is known of the time until the next event."""
        count = len(self.running)
        total, losses = 0.0, np.empty(count)
        for row, job in enumerate(self.running.tolist()):
            norm, done = self.jobs.normalised[job], int(self.behind[row] + WHOLE)
            losses[row] = norm[done - 1] if done else 1.0
            if pace[row] > 0:
                low, high = np.interp((self.behind[row], after[row]), np.arange(len(sums[job])), sums[job])
                total += (high - low) / pace[row]
            else:
                total += losses[row] * step_s
        self.busy_s += step_s
        self.loss_s += total / count
        self.job_s += count * step_s
        if count >= 4:
            held = given[np.argsort(-losses, kind="stable")]
            first, half = round(count / 4), round(count / 2)
            parts = np.array([held[:first].sum(), held[first:half].sum(), held[half:].sum()])
            self.share_s += step_s * parts / given.sum()
            self.shared_s += step_s
