"""Advice: the configuration under which a site's own jobs would have gone best, what it had brought, and at what cost.

Definitions
    candidate    a policy with settings, on the site as it is
    alone        Slurm by itself; native: Slurm's own preemption by partition priority, with REQUEUE
    part         one week of the recorded time; one day of less than two weeks. One with less than a tenth of the jobs
                 of a mean one is passed over: a job of months ago that ended lately would be a part of its own

Goal (of the candidates, those that reach all of it are good)
    TE wait      95th percentile at most 1.2 times native's, or a minute
    lost         node-hours at most a fifth of native's
    futile       no preemption after which the TE job did not start
    ended        no fewer jobs than with native: percentiles leave out those that had not

Choice
    Of the good ones the one that loses least, then the one with the shorter TE wait. Where none is good, of those that
    lose at most a fifth of native's node-hours, and then of all, the one with the shortest TE wait; what it misses is
    said. Where TE jobs wait at most a minute with Slurm alone, none is needed.

Worked example
    native: TE p95 20 s, 100 node-hours lost. fitgpp: 22 s, 18; patient: 140 s, 2; fitgpp with P = 2: 20 s, 19.
    patient waits too long (140 > 60 > 1.2 * 20); of the others fitgpp loses less: it is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from tesched_sim.experiment import ExperimentSetting, best_effort_of, run_one
from tesched_sim.reports.run_summary import Case
from tesched_sim.reports.summary import Summary, lost_node_s, waited_s
from tesched_sim.result import Result
from tesched_sim.slurm_settings import Behaviour
from tesched_sim.workload import Workload

ALONE, NATIVE, CONFIGURED = "Slurm alone", "native preemption", "as configured"
#: seconds that a TE job may wait for what counts as at once
AT_ONCE_S = 60.0
#: times native's TE wait, and part of its lost node-hours
MOST_WAIT, MOST_LOST = 1.2, 0.2
DAY_S, WEEK_S = 86_400.0, 7 * 86_400.0
#: of the jobs of a mean part
_LEAST_PART = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One configuration that is tried."""

    #: as it is shown
    name: str
    #: the simulation's: "fifo", "native", "patient+fill"
    contender: str
    #: what is set besides: {"policy.patient.patience_s": "30"}
    values: Mapping[str, str] = field(default_factory=dict)
    #: it is tesched's, and may be advised
    can_be_advised: bool = True


#: what is tried besides the site's own configuration
CANDIDATES = (
    Candidate(name="fitgpp", contender="fitgpp+none"),
    Candidate(name="fitgpp, P = 1", contender="fitgpp+none", values={"guard.max_preemptions_per_job": "1"}),
    Candidate(name="patient 30 s", contender="patient+none", values={"policy.patient.patience_s": "30"}),
    Candidate(name="patient 120 s", contender="patient+none", values={"policy.patient.patience_s": "120"}),
    Candidate(name="patient 30 s + fill", contender="patient+fill", values={"policy.patient.patience_s": "30"}),
    Candidate(name="patient 120 s + fill", contender="patient+fill", values={"policy.patient.patience_s": "120"}),
    # Each of these needs jobs or nodes that few workloads have (`experiment.check_needs`).
    Candidate(name="fitgpp + gavel", contender="fitgpp+gavel"),
    Candidate(name="fitgpp + slaq", contender="fitgpp+slaq"),
    Candidate(name="fitgpp + pdors", contender="fitgpp+pdors"),
)


def candidates(setting: ExperimentSetting) -> tuple[Candidate, ...]:
    """All that is tried on a site with this configuration; what comes to the same as it is tried once."""
    configured = Candidate(name=CONFIGURED, contender=str(setting.policy.te))
    others = (one for one in CANDIDATES if _comes_to(one, setting) != _comes_to(configured, setting))
    return (
        Candidate(name=ALONE, contender="fifo", can_be_advised=False),
        Candidate(name=NATIVE, contender="native", can_be_advised=False),
        configured,
        *others,
    )


def _comes_to(one: Candidate, setting: ExperimentSetting) -> tuple[object, ...]:
    """The policies that a candidate runs, and all that is set for them."""
    found = setting.with_values(one.values)
    te, _, _ = one.contender.partition("+")
    return te, best_effort_of(one.contender, setting), found.policy.table(te), found.guard


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastAndMost:
    """Least and most of a figure over the parts of the recorded time; None: no part has one."""

    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One candidate on the recorded jobs. Seconds, node-hours, numbers of victims; None where there is nothing."""

    name: str
    te_wait_p50_s: float | None
    te_wait_p95_s: float | None
    #: the 95th percentile in each part
    te_wait_p95_parts_s: LeastAndMost
    be_wait_mean_s: float | None
    be_slowdown_p95: float | None
    preempted: int
    futile: int
    lost_node_h: float
    lost_node_h_parts: LeastAndMost
    #: jobs that had not ended when the simulation did
    not_finished: int

    @staticmethod
    def of(name: str, result: Result, summary: Summary) -> Figures:
        """Figures of one run."""
        workload = result.workload
        waits_s, lost_s = waited_s(result), lost_node_s(result)
        waits, losses = [], []
        for part in parts_of(workload.submit_s):
            te = waits_s[part & workload.te & result.finished]
            waits += [float(np.percentile(te, 95))] if len(te) else []
            losses.append(float(lost_s[part].sum()) / 3600)
        return Figures(
            name=name,
            te_wait_p50_s=summary.te.wait_s.p50,
            te_wait_p95_s=summary.te.wait_s.p95,
            te_wait_p95_parts_s=_range(waits),
            be_wait_mean_s=summary.be.wait_s.mean,
            be_slowdown_p95=summary.be.slowdown.p95,
            preempted=summary.preemptions,
            futile=summary.futile,
            lost_node_h=summary.lost_node_s / 3600,
            lost_node_h_parts=_range(losses),
            not_finished=summary.all_jobs.not_finished,
        )


def parts_of(submit_s: NDArray[np.float64]) -> Iterator[NDArray[np.bool_]]:
    """Yield [jobs] which jobs came in each week or, of less than two weeks, on each day. The last part may be short.

    Parts of few jobs are passed over.
    """
    first, last = float(submit_s.min()), float(submit_s.max())
    length_s = WEEK_S if last - first >= 2 * WEEK_S else DAY_S
    number = ((submit_s - first) // length_s).astype(np.int64)
    parts = [number == one for one in np.unique(number)]
    least = _LEAST_PART * len(submit_s) / len(parts)
    yield from (part for part in parts if part.sum() >= least)


def _range(values: Sequence[float]) -> LeastAndMost:
    return LeastAndMost(low=min(values, default=None), high=max(values, default=None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One run to be made: a candidate on the site as it is, or with one line of slurm.conf changed."""

    candidate: Candidate
    setting: ExperimentSetting
    workload: Workload
    #: the line of slurm.conf; empty: as it is
    line: str = ""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tried:
    """What came of a trial."""

    candidate: Candidate
    line: str
    figures: Figures
    case: Case


def perform(trial: Trial) -> Tried:
    """Make one run. Raises WorkloadError for a policy that cannot run on these jobs."""
    candidate = trial.candidate
    result = run_one(candidate.contender, trial.setting.with_values(candidate.values), trial.workload)
    case = Case.of(replace(result, policy=candidate.name), seed=0, variant=trial.line)
    figures = Figures.of(candidate.name, result, case.summary)
    return Tried(candidate=candidate, line=trial.line, figures=figures, case=case)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What to use, and what it misses of the goal."""

    #: the candidate's name; empty: Slurm alone will do
    chosen: str
    #: parts of the goal that it does not reach, in words
    missed: tuple[str, ...] = ()


def advise(tried: Sequence[Tried]) -> Advice:
    """Choose by the rule at the head of this file. The trials have Slurm alone, native preemption, and candidates."""
    by_name = {one.figures.name: one.figures for one in tried if not one.line}
    if _wait(by_name[ALONE]) <= AT_ONCE_S:
        return Advice(chosen="")
    native = by_name[NATIVE]
    found = [one.figures for one in tried if one.candidate.can_be_advised and not one.line]
    good = [one for one in found if not any(_missed(one, native))]
    if good:
        return Advice(chosen=min(good, key=lambda one: (one.lost_node_h, _wait(one))).name)
    cheap = [one for one in found if one.lost_node_h <= MOST_LOST * native.lost_node_h]
    best = min(cheap or found, key=lambda one: (_wait(one), one.lost_node_h))
    return Advice(chosen=best.name, missed=tuple(_missed(best, native)))


def _wait(one: Figures) -> float:
    if one.te_wait_p95_s is None:
        return inf if one.not_finished else 0.0
    return one.te_wait_p95_s


def _missed(one: Figures, native: Figures) -> Iterator[str]:
    most_s = max(MOST_WAIT * _wait(native), AT_ONCE_S)
    if _wait(one) > most_s:
        yield f"TE jobs wait {_wait(one):.0f} s (95 %); the goal is {most_s:.0f} s"
    most_h = MOST_LOST * native.lost_node_h
    if one.lost_node_h > most_h:
        yield f"it loses {one.lost_node_h:.1f} node-hours; the goal is {most_h:.1f}, a fifth of native preemption's"
    if one.not_finished > native.not_finished:
        yield f"{one.not_finished} jobs had not ended; with native preemption {native.not_finished}"
    if one.futile:
        yield f"after {one.futile} of {one.preempted} preemptions the TE job did not start; the goal is none"


def other_lines(site: Behaviour) -> Mapping[str, Behaviour]:
    """Lines of slurm.conf that may matter, each with the site as it would be with it; those that are so already not."""
    lines = {
        "KillWait=5": replace(site, kill_wait_s=5.0),
        "a requeue delay of 5 s (AuthInfo=cred_expire=4, or requeue_delay=5)": replace(site, requeue_delay_s=5.0),
        "SchedulerParameters=bf_max_job_test=5000": replace(site, backfill_depth=5000),
    }
    return {
        line: behaviour
        for line, behaviour in lines.items()
        if behaviour.kill_wait_s < site.kill_wait_s
        or behaviour.requeue_delay_s < site.requeue_delay_s
        or 0 < site.backfill_depth < behaviour.backfill_depth
    }
