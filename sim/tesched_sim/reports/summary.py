"""One run in figures: what jobs of each class went through, what preemption cost, how well the cluster was used.

Percentiles are numpy's linear ones: of n sorted values, the one at place (n - 1) * q / 100, counted from 0, and between
two places in proportion. Worked example: of 1, 2, 3, 10 the median is 2.5, the 95th percentile 3 + 0.85 * 7 = 8.95.

A job that has not ended has no slowdown, wait or JCT; it is counted as not finished, and missing from the percentiles.
What there is nothing to say about is None. Times are rounded to microseconds first: what is below, in a difference
between two instants of a long simulation, is the numbers' own error, and in a comparison it would not be 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from tesched_core.intake.job_times import bounded_slowdown

from tesched_sim.result import Result


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanAndPercentiles:
    """Mean and percentiles of the values that are known, in their own unit."""

    count: int
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None

    @staticmethod
    def of(values: NDArray[np.float64]) -> MeanAndPercentiles:
        """Return those of the finite values."""
        known = values[np.isfinite(values)]
        if not len(known):
            return MeanAndPercentiles(count=0, mean=None, p50=None, p95=None, p99=None)
        p50, p95, p99 = (float(value) for value in np.percentile(known, (50, 95, 99)))
        return MeanAndPercentiles(count=len(known), mean=float(known.mean()), p50=p50, p95=p95, p99=p99)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassSummary:
    """The jobs of one class."""

    jobs: int
    not_finished: int
    #: 1 + waiting / run time (FitGpp, section on the metric)
    slowdown: MeanAndPercentiles
    #: max(1, (waiting + run time) / max(run time, 10 s)) (Feitelson et al., JSSPP 1997)
    bounded_slowdown: MeanAndPercentiles
    #: completion time in which no work was done that lasted
    wait_s: MeanAndPercentiles
    #: end - submission, over all restarts
    jct_s: MeanAndPercentiles
    #: of those that were put back in the queue for a TE job (`delay_s`)
    delay_s: MeanAndPercentiles
    #: how often a job of the class was put back in the queue
    preemptions_per_job: float | None
    #: parts of the class's jobs, 0 to 1, that were put back so often
    preempted_once_share: float | None
    preempted_twice_share: float | None
    preempted_more_share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundSummary:
    """Use of guard.bound."""

    #: of the BE jobs that waited for what TE jobs of other users held
    bystander_delay_s: MeanAndPercentiles
    #: largest part of a BE job's bound that was used, 0 to 1; above 1 it was passed
    largest_part: float | None
    #: TE jobs that had to wait for it in a poll
    te_held: int
    #: guard.bound.te_time_limit_s, TE jobs with a longer time limit, and the longest; None: no limit
    te_time_limit_s: float
    te_too_long: int
    te_longest_limit_s: float | None

    @property
    def why_not_kept(self) -> str:
        """Reason that the bound cannot be kept for these jobs, in words, and what would be right; empty if it can."""
        if not self.te_too_long:
            return ""
        longest = "no limit" if self.te_longest_limit_s is None else f"{self.te_longest_limit_s:.0f} s"
        advice = "give TE jobs a time limit" if self.te_longest_limit_s is None else f"set it to {longest} at least"
        return (
            f"guard.bound.te_time_limit_s is {self.te_time_limit_s:.0f} s, and {self.te_too_long} TE job(s) of the "
            f"workload have longer time limits (the longest: {longest}): the bound cannot be kept; {advice}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One run."""

    workload: str
    policy: str
    te: ClassSummary
    be: ClassSummary
    all_jobs: ClassSummary
    #: victims that were given notice, and those that left their nodes for it
    notices: int
    preemptions: int
    #: left, and did not run again before the simulation's end
    not_back: int
    #: from leaving its nodes to running again
    restart_interval_s: MeanAndPercentiles
    #: preemptions after which the preemptor did not start on the resources that were freed
    futile: int
    #: nodes times seconds that jobs held and did no work in that lasted; a job counts all of each node that it is on
    lost_node_s: float
    lost_node_s_per_preemption: float | None
    #: nodes times seconds that finished jobs held, and the part of it, 0 to 1, that they lost
    used_node_s: float
    lost_share: float | None
    #: seconds in which jobs waited or ran, and the part, 0 to 1, of each resource that was held in them
    busy_s: float
    utilisation_share: Mapping[str, float | None]
    #: from the first submission to the last end
    makespan_s: float | None
    #: real time that the simulation took
    took_s: float
    #: None: nothing was bounded
    bound: BoundSummary | None = None

    def as_json(self) -> dict[str, object]:
        """Return it as JSON has it; the keys are the fields' names and stay."""
        return asdict(self)


def waited_s(result: Result) -> NDArray[np.float64]:
    """Return [jobs] the seconds of each job's completion time in which it did no work that lasted; nan: not ended."""
    return _rounded(result.waited_s)


def slowdown(result: Result) -> NDArray[np.float64]:
    """Return [jobs] 1 + waiting / run time; nan: not ended."""
    return 1.0 + waited_s(result) / result.workload.run_s


def lost_node_s(result: Result) -> NDArray[np.float64]:
    """Return [jobs] the nodes times seconds that each held without doing work that lasted."""
    return _rounded(result.lost_node_s)


def delay_s(result: Result) -> NDArray[np.float64]:
    """Return [jobs] the seconds by which TE jobs delayed each: work thrown away, grace periods, and time away.

    nan: it has not ended, or was never put back in the queue for a TE job.
    """
    preemptions, workload = result.preemptions, result.workload
    counts = np.isfinite(preemptions.back_s) & np.isfinite(preemptions.left_s) & workload.te[preemptions.preemptor]
    victims = preemptions.victim[counts]
    lost_s = (preemptions.lost_node_s / preemptions.nodes)[counts]
    delayed_s = np.zeros(len(workload))
    np.add.at(delayed_s, victims, lost_s + (preemptions.back_s - preemptions.left_s)[counts])
    delayed_s[~result.finished | ~np.isin(np.arange(len(workload)), victims)] = np.nan
    return _rounded(delayed_s)


def restart_intervals_s(result: Result) -> NDArray[np.float64]:
    """Return, for each victim that left its nodes, the seconds until it ran again; nan: it did not."""
    left = np.isfinite(result.preemptions.left_s)
    return _rounded((result.preemptions.back_s - result.preemptions.left_s)[left])


def summarise(result: Result) -> Summary:
    """Return one run in figures."""
    workload, preemptions = result.workload, result.preemptions
    left = np.isfinite(preemptions.left_s)
    intervals_s = restart_intervals_s(result)
    lost = lost_node_s(result)
    finished = result.finished
    # What an unfinished job holds still is not in a result, so it counts on neither side of the share.
    used_node_s = float(_rounded(result.held_node_s)[finished].sum())
    return Summary(
        workload=workload.name,
        policy=result.policy,
        te=_of_class(result, workload.te),
        be=_of_class(result, workload.be),
        all_jobs=_of_class(result, np.ones(len(workload), dtype=np.bool_)),
        notices=len(left),
        preemptions=int(left.sum()),
        not_back=int(np.isnan(intervals_s).sum()),
        restart_interval_s=MeanAndPercentiles.of(intervals_s),
        futile=int((left & preemptions.futile).sum()),
        lost_node_s=float(lost.sum()),
        lost_node_s_per_preemption=_ratio(float(lost.sum()), int(left.sum())),
        used_node_s=used_node_s,
        lost_share=_ratio(float(lost[finished].sum()), used_node_s),
        busy_s=result.use.busy_s,
        utilisation_share=_utilisation(result),
        makespan_s=float(result.end_s[finished].max() - workload.submit_s[0]) if finished.any() else None,
        took_s=result.took_s,
        bound=_of_bound(result),
    )


def _of_bound(result: Result) -> BoundSummary | None:
    use, te, be = result.bound, result.workload.te, result.workload.be
    if use is None:
        return None
    limits_s, waited_s = result.workload.limit_s[te], _rounded(use.bystander_s)[be]
    longest_s = float(limits_s.max(initial=0.0))
    return BoundSummary(
        bystander_delay_s=MeanAndPercentiles.of(waited_s[waited_s > 0]),
        largest_part=float(use.part[be].max()) if be.any() else None,
        te_held=int((use.held & te).sum()),
        te_time_limit_s=use.te_time_limit_s,
        te_too_long=int((limits_s > use.te_time_limit_s).sum()),
        te_longest_limit_s=longest_s if np.isfinite(longest_s) else None,
    )


def _of_class(result: Result, mask: NDArray[np.bool_]) -> ClassSummary:
    jobs = int(mask.sum())
    preempted = result.preempted[mask]
    done = mask & result.finished
    wait_s, run_s = waited_s(result)[done], result.workload.run_s[done]
    bounded = np.fromiter(map(bounded_slowdown, wait_s, run_s), dtype=np.float64, count=len(run_s))
    return ClassSummary(
        jobs=jobs,
        not_finished=jobs - len(run_s),
        slowdown=MeanAndPercentiles.of(slowdown(result)[done]),
        bounded_slowdown=MeanAndPercentiles.of(bounded),
        wait_s=MeanAndPercentiles.of(wait_s),
        jct_s=MeanAndPercentiles.of(result.jct_s[done]),
        delay_s=MeanAndPercentiles.of(delay_s(result)[done]),
        preemptions_per_job=_ratio(int(preempted.sum()), jobs),
        preempted_once_share=_ratio(int((preempted == 1).sum()), jobs),
        preempted_twice_share=_ratio(int((preempted == 2).sum()), jobs),
        preempted_more_share=_ratio(int((preempted > 2).sum()), jobs),
    )


def _utilisation(result: Result) -> dict[str, float | None]:
    """Part of each resource that was held while there was work."""
    use, machines = result.use, result.workload.machines
    total = machines.total.sum(axis=0)
    return {
        name: _ratio(float(use.held_s[column]), float(total[column]) * use.busy_s)
        for column, name in enumerate(machines.resources)
    }


def _rounded(values_s: NDArray[np.float64]) -> NDArray[np.float64]:
    # The sum makes 0 of -0, which would be seen in JSON.
    rounded: NDArray[np.float64] = np.round(values_s, 6) + 0.0
    return rounded


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
