"""The rule by which `tesched advise` chooses, on figures that are given, and the parts of the recorded time."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from tesched_core.model.limits import Limits
from tesched_policies.registry import policy_config
from tesched_sim.advice import (
    ALONE,
    CONFIGURED,
    DAY_S,
    NATIVE,
    WEEK_S,
    Candidate,
    Figures,
    LeastAndMost,
    Tried,
    advise,
    candidates,
    other_lines,
    parts_of,
)
from tesched_sim.experiment import ExperimentSetting
from tesched_sim.slurm_settings import Behaviour

NOTHING = LeastAndMost(low=None, high=None)


def tried(
    name: str, wait_s: float | None, lost_h: float, *, futile: int = 0, line: str = "", not_finished: int = 0
) -> Tried:
    figures = Figures(
        name=name,
        te_wait_p50_s=0.0,
        te_wait_p95_s=wait_s,
        te_wait_p95_parts_s=NOTHING,
        be_wait_mean_s=0.0,
        be_slowdown_p95=1.0,
        preempted=10,
        futile=futile,
        lost_node_h=lost_h,
        lost_node_h_parts=NOTHING,
        not_finished=not_finished,
    )
    candidate = Candidate(name=name, contender="", can_be_advised=name not in {ALONE, NATIVE})
    return Tried(candidate=candidate, line=line, figures=figures, case=cast("Any", SimpleNamespace()))


BOUNDS = (tried(ALONE, 7200, 0), tried(NATIVE, 20, 100))


def test_worked_example_of_the_module_is_chosen() -> None:
    found = advise([*BOUNDS, tried("fitgpp", 22, 18), tried("patient", 140, 2), tried("two", 20, 19)])
    assert (found.chosen, found.missed) == ("fitgpp", ())


def test_wait_of_a_minute_is_at_once_whatever_native_preemption_reaches() -> None:
    assert advise([*BOUNDS, tried("fitgpp", 22, 18), tried("patient", 60, 2)]).chosen == "patient"


def test_candidate_with_a_futile_preemption_is_passed_over_for_one_without() -> None:
    assert advise([*BOUNDS, tried("cheap", 20, 1, futile=1), tried("dear", 20, 19)]).chosen == "dear"


def test_candidate_that_leaves_jobs_unfinished_is_not_the_best_for_that() -> None:
    found = advise([*BOUNDS, tried("stuck", 1, 1, not_finished=3), tried("dear", 20, 19)])
    assert (found.chosen, found.missed) == ("dear", ())
    found = advise([*BOUNDS, tried("no TE job ends", None, 1, not_finished=3), tried("slow", 600, 4)])
    assert found.chosen == "slow"
    (only,) = advise([*BOUNDS, tried("stuck", 1, 1, not_finished=3)]).missed
    assert "3 jobs had not ended" in only


def test_what_no_candidate_reaches_is_said_of_the_one_that_is_advised() -> None:
    found = advise([*BOUNDS, tried("dear", 20, 50), tried("slow", 600, 4, futile=2), tried("slower", 900, 1)])
    assert found.chosen == "slow"
    assert [text.partition(" ")[0] for text in found.missed] == ["TE", "after"]
    assert "600 s" in found.missed[0]
    assert "the goal is 60 s" in found.missed[0]
    assert "2 of 10" in found.missed[1]
    (only,) = advise([*BOUNDS, tried("dear", 20, 50)]).missed
    assert "50.0 node-hours; the goal is 20.0" in only


def test_site_needs_no_preemption_if_te_jobs_start_at_once_by_slurm_alone() -> None:
    assert advise([tried(ALONE, 59, 0), tried(NATIVE, 1, 9), tried("fitgpp", 1, 1)]).chosen == ""


def test_run_with_another_line_of_slurm_conf_is_no_candidate() -> None:
    found = advise([*BOUNDS, tried("fitgpp", 22, 18), tried("fitgpp", 1, 0, line="KillWait=5"), tried("b", 21, 17)])
    assert found.chosen == "b"


@pytest.mark.parametrize(
    ("days", "counts"),
    [([0, 0.5, 0.9, 1.5, 3], [3, 1, 1]), ([0, 6.9, 7, 13.9, 14, 20], [2, 2, 2]), ([0, 13.9], [1, 1])],
)
def test_recorded_time_is_cut_into_weeks_or_below_two_weeks_into_days(days: list[float], counts: list[int]) -> None:
    assert WEEK_S == 7 * DAY_S
    parts = list(parts_of(np.array(days) * DAY_S))
    assert [int(part.sum()) for part in parts] == counts
    assert np.array(parts).sum(axis=0).tolist() == [1] * len(days)


def test_configuration_of_the_site_is_tried_once() -> None:
    default = ExperimentSetting(guard=Limits())
    names = [one.name for one in candidates(default)]
    assert names[:3] == [ALONE, NATIVE, CONFIGURED]
    assert "fitgpp" not in names
    patient = ExperimentSetting(policy=policy_config("patient", "fill"), guard=Limits())
    found = [one.name for one in candidates(patient)]
    assert "fitgpp" in found
    assert "patient 120 s + fill" not in found
    assert "patient 120 s" in found


def test_line_that_slurm_conf_has_already_is_not_tried() -> None:
    slurm = Behaviour.slurm()
    assert len(other_lines(slurm)) == 3
    quick = other_lines(replace(slurm, kill_wait_s=5.0, requeue_delay_s=1.0))
    assert [*quick] == ["SchedulerParameters=bf_max_job_test=5000"]
    assert not other_lines(replace(slurm, kill_wait_s=5.0, requeue_delay_s=1.0, backfill_depth=0))


def test_part_of_few_jobs_is_passed_over() -> None:
    hours = np.arange(0, 3 * 24, dtype=np.float64)
    late = 60 * 24.0
    for submit_h in (np.append(hours, late), np.append(-late, hours)):
        (part,) = parts_of(submit_h * 3600)
        assert part.sum() == len(hours)
