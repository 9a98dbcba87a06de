"""Use of guard.bound in the figures of a simulated run, and why it cannot be kept for a workload."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tesched_core.model.decision import Decision, Refusal, RefusalCode
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_sim.experiment import ExperimentSetting, Site, run_one, simulation
from tesched_sim.reports.compare import compare
from tesched_sim.reports.run_summary import Case
from tesched_sim.reports.summary import summarise
from tesched_sim.result import Result
from tesched_sim.workload import SimulatedNodes, Workload


def site(te_limits_s: Sequence[float]) -> Workload:
    """Return a node of 4 CPUs: a BE job that fills it, and TE jobs of 50 s, one each 20 s from 15 s on."""
    te = np.arange(1 + len(te_limits_s)) > 0
    return Workload.of(
        "site",
        SimulatedNodes.alike(1, cpus=4, mem_mib=1024, gpus=0),
        submit_s=[0.0, *(15.0 + 20.0 * each for each in range(len(te_limits_s)))],
        run_s=np.where(te, 50.0, 300.0),
        limit_s=[1000.0, *te_limits_s],
        demand=[[4, 1, 0]] * len(te),
        te=te,
        user=te.astype(np.int64),
        user_names=["bea", "tea"],
    )


def setting(te_time_limit_s: float | None) -> ExperimentSetting:
    values = {"site.poll_s": "5", "site.hook": "true", "guard.min_run_time_s": "10", "guard.cool_down_s": "0"}
    values["guard.max_preemptions_per_job"] = "100"
    if te_time_limit_s is not None:
        values |= {"guard.bound.slowdown": "2", "guard.bound.te_time_limit_s": f"{te_time_limit_s:g}"}
    return ExperimentSetting.of(Site.SLURM).with_values(values)


def ran(workload: Workload, te_time_limit_s: float | None) -> Result:
    return run_one("fitgpp", setting(te_time_limit_s), workload)


def test_bound_is_used_and_not_passed() -> None:
    bound = summarise(ran(site([60.0] * 20), 60.0)).bound
    assert bound is not None
    assert bound.largest_part is not None
    assert 0.3 < bound.largest_part <= 1
    assert (bound.te_too_long, bound.te_longest_limit_s, bound.why_not_kept) == (0, 60.0, "")


def test_te_jobs_that_the_bound_keeps_waiting_are_counted_once_and_no_other() -> None:
    workload = site([60.0] * 4)
    run = simulation("fitgpp", setting(60.0), workload)
    assert run.watch is not None
    waits = Refusal(job_id=JobId(2), preemptor=JobId(2), code=RefusalCode.BOUND, text="")
    others = (
        Refusal(job_id=JobId(1), preemptor=JobId(3), code=RefusalCode.BOUND, text=""),
        Refusal(job_id=JobId(4), preemptor=JobId(4), code=RefusalCode.TE_LIMIT, text=""),
    )
    decided = Decision(cycle=1, at=0.0, policy="", actions=(), refusals=(waits, *others), transitions=(), summary="")
    for _ in range(2):
        run.watch.saw(Memory(), decided)
    assert [*np.flatnonzero(run.watch.use(setting(60.0).guard).held)] == [1]


def test_be_job_that_waits_for_what_a_te_job_holds_is_a_bystander() -> None:
    # A BE job for 2 of 4 CPUs waits while another runs on 3; a TE job takes the free one, and outlasts that.
    workload = Workload.of(
        "site",
        SimulatedNodes.alike(1, cpus=4, mem_mib=1024, gpus=0),
        submit_s=[0.0, 20.0, 40.0],
        run_s=[100.0, 300.0, 300.0],
        limit_s=[1000.0, 1000.0, 300.0],
        demand=[[3, 1, 0], [4, 1, 0], [1, 1, 0]],
        te=[False, False, True],
        user=[0, 0, 1],
        user_names=["bea", "tea"],
    )
    result = ran(workload, 300.0)
    assert result.bound is not None
    first, waits, te = result.bound.bystander_s
    assert (first, te) == (0, 0)
    # From the end of the first BE job, or a poll before, until that of the TE job.
    assert 190 < waits < 320
    bound = summarise(result).bound
    assert bound is not None
    assert bound.bystander_delay_s.count == 1
    assert bound.bystander_delay_s.mean == pytest.approx(waits)
    assert bound.te_held == 0


def test_without_a_bound_nothing_is_said_of_it() -> None:
    assert summarise(ran(site([60.0]), None)).bound is None


@pytest.mark.parametrize(
    ("longest_s", "longest", "advice"),
    [(90.0, "90 s", "set it to 90 s at least"), (np.inf, "no limit", "give TE jobs a time limit")],
)
def test_report_warns_where_te_jobs_may_run_for_longer_than_the_bound_counts_on(
    longest_s: float, longest: str, advice: str
) -> None:
    case = Case.of(ran(site([60.0, longest_s]), 60.0), seed=0)
    (warning, *_) = compare([case]).warnings
    said = f"1 TE job(s) of the workload have longer time limits (the longest: {longest})"
    assert warning == f"fitgpp: guard.bound.te_time_limit_s is 60 s, and {said}: the bound cannot be kept; {advice}"
    enough = Case.of(ran(site([60.0, 60.0]), 60.0), seed=0)
    assert compare([enough]).warnings == ("one seed: no confidence intervals",)
