"""Patience of a TE job, by its owner's word (`patience=300`): no other job leaves for it before, whatever the policy.

Everywhere: job 1 holds n1 and job 2 holds n2; the TE job 9 came now, wants half a node, and its owner has said 300 s.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tesched_core.intake.class_rules import Classification, UserWord
from tesched_core.intake.classify import classify
from tesched_core.model.actions import Notify, SetMarks, Suspend
from tesched_core.model.cluster import PluginSettings
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.order import Ending
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.policy import Policy
from tesched_core.step import step
from tesched_policies.baselines import AtRandom, LongestRemaining, YoungestFirst
from tesched_policies.fitgpp import FitGpp
from tesched_policies.patient import Patient

from tests.builders import NOW, node, running, share, traits, waiting
from tests.scenarios.driver import BE, TE, Driver

LIMITS = Limits(min_run_time_s=0, cool_down_s=0)
OTHER = 10


def busy(*jobs: Any, policy: Policy[Any] | None = None, limits: Limits = LIMITS, **te: Any) -> Driver:
    """Return the full cluster; the TE job has these fields besides."""
    full = [running(BE, share("n1", 32)), running(2, share("n2", 32))]
    trial = waiting(TE, cpus=16, **{"submit_time": NOW, "comment": "te patience=300", **te})
    drive = Driver([node("n1"), node("n2")], [*full, trial, *jobs], limits=limits, policy=policy)
    how = Classification(user_word=UserWord(may_say_te=True))
    of_trial = classify(trial, how)
    assert of_trial.job_class is JobClass.TE
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(TE): of_trial})
    return drive


def asked(drive: Driver) -> list[int]:
    return [action.job_id for action in drive.decision.actions if isinstance(action, Notify)]


POLICIES = (FitGpp(), YoungestFirst(), LongestRemaining(), AtRandom(), Patient(patience_s=0))


@pytest.mark.parametrize("policy", POLICIES, ids=lambda one: one.name)
def test_no_job_leaves_for_it_before_its_patience_is_over_whatever_the_policy(policy: Policy[Any]) -> None:
    drive = busy(policy=policy)
    for at_s in (0, 150, 299.9):
        assert drive.cycle(at_s) == (), "nor is it put first in the queue"
        assert drive.why_not(TE) is RefusalCode.PATIENCE
    (told,) = (one for one in drive.decision.refusals if one.job_id == TE)
    assert told.text == "no other job is to leave for it yet, by its owner's word (patience=300)"
    drive.cycle(300)
    assert len(asked(drive)) == 1


def test_the_next_poll_comes_as_it_ends() -> None:
    drive = busy()
    drive.cycle(10)
    assert drive.decision.next_at == NOW + 300
    drive.cycle(300)
    assert drive.decision.next_at is None


def test_it_counts_since_it_became_eligible() -> None:
    drive = busy(submit_time=NOW - 5000, eligible_time=NOW - 299)
    drive.cycle(0)
    assert drive.why_not(TE) is RefusalCode.PATIENCE
    drive.cycle(1)
    assert len(asked(drive)) == 1


def test_it_starts_meanwhile_on_nodes_that_are_free() -> None:
    drive = busy()
    drive.cycle(0)
    drive.ends(2)
    drive.obeys(*drive.cycle(10))
    assert (drive.order().nodes, drive.order().victims) == (("n2",), ())
    drive.starts(TE, share("n2", 16, 1), at_s=11)
    drive.cycle(12)
    assert drive.order().ending is Ending.STARTED_HERE


def test_other_te_jobs_do_not_wait_behind_it() -> None:
    drive = busy(waiting(OTHER, cpus=32, submit_time=NOW + 1))
    drive.cycle(2)
    assert (drive.why_not(TE), drive.why_not(OTHER)) == (RefusalCode.PATIENCE, None)
    assert drive.order().preemptor == OTHER
    assert len(asked(drive)) == 1


def test_nor_has_it_victims_of_nodes_that_others_took_from_it() -> None:
    drive = busy()
    drive.ends(2)
    drive.obeys(*drive.cycle(0))
    assert drive.open_orders() == [1]
    drive.submits(running(3, share("n2", 32)), like=BE)
    for at_s in (10, 100, 299):
        drive.obeys(*drive.cycle(at_s))
        assert asked(drive) == []


def test_no_job_is_suspended_for_it() -> None:
    drive = busy(limits=replace(LIMITS, lever=YieldBy.AUTO))
    assert drive.cycle(0) == ()
    assert any(isinstance(one, Suspend) for one in drive.cycle(300))


def test_of_the_policy_patient_and_its_owner_the_longer_patience_counts() -> None:
    drive = busy(policy=Patient(patience_s=120))
    drive.obeys(*drive.cycle(0))
    assert drive.order().waits, "by the policy, which puts it first"
    for at_s in (121, 299):
        drive.obeys(*drive.cycle(at_s))
        assert (asked(drive), drive.why_not(TE)) == ([], RefusalCode.PATIENCE)
    drive.cycle(300)
    assert len(asked(drive)) == 1
    shorter = busy(policy=Patient(patience_s=500))
    shorter.obeys(*shorter.cycle(0))
    shorter.cycle(301)
    assert asked(shorter) == []


def test_a_victim_that_has_its_notice_leaves_whatever_is_said_after_that() -> None:
    drive = busy(comment="te")
    drive.obeys(*drive.cycle(0))
    (victim,) = asked(drive)
    drive.start = drive.start.with_traits(
        {**drive.start.traits, JobId(TE): replace(traits(JobClass.TE), patience_s=9999.0)}
    )
    drive.cycle(31)
    assert [action.job_id for action in drive.decision.actions] == [victim]


def test_slurm_decides_for_it_only_after_that_and_the_record_says_so() -> None:
    drive = busy(limits=replace(LIMITS, lever=YieldBy.PLUGIN))
    drive.start = drive.start.with_traits(
        {job_id: replace(one, notice_signal="") for job_id, one in drive.start.traits.items()}
    )
    drive.plugin = PluginSettings(marks="/m", te_partitions=frozenset({"p"}))
    drive.cycle(0)
    assert [len(one.marks) for one in drive.decision.actions if isinstance(one, SetMarks)] == [2], "for other TE jobs"
    assert drive.why_not(TE) is RefusalCode.PATIENCE
    assert drive.decision.next_at == NOW + 300
    drive.cycle(300)
    assert drive.why_not(TE) is RefusalCode.SLURM_DECIDES


def test_while_it_is_paused_no_poll_is_awaited_for_it() -> None:
    drive = busy()
    _, decision = step(drive.memory, drive.snapshot(0), drive.entries(), drive.limits, paused="maintenance")
    assert decision.next_at is None
