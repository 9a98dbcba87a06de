"""Jobs that other clusters of a federation may run, too, are left to Slurm, and `tesched explain` names it."""

from __future__ import annotations

import pytest
from tesched_core.model.actions import holds
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field, HoldState
from tesched_core.model.hook import HOOK_MARK
from tesched_core.model.limits import Limits, TeLimits
from tesched_core.model.resources import JobId
from tesched_core.policy import BoostJob, HoldJob, Intent

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import BE, TE, Driver
from tests.scenarios.test_strange_policies import OTHER, VICTIM, Strange, StrangeToo, capacity, site


def test_it_is_no_victim() -> None:
    alone = Driver([node("n1")], [running(BE, share("n1", 32), federated=True), waiting(TE, cpus=16)])
    assert alone.cycle(0) == ()
    (refusal,) = [one for one in alone.decision.refusals if one.job_id == BE]
    assert (refusal.code, "other clusters" in refusal.text) == (RefusalCode.FEDERATED, True)
    alone.change(BE, federated=False)
    assert BE in {action.job_id for action in alone.cycle(1)}


def test_as_a_te_job_it_has_no_victim() -> None:
    alone = Driver([node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16, federated=True)])
    assert alone.cycle(0) == ()
    (refusal,) = [one for one in alone.decision.refusals if one.job_id == TE]
    assert (refusal.code, "--clusters" in refusal.text) == (RefusalCode.UNSUPPORTED, True)
    alone.change(TE, federated=False)
    assert alone.cycle(1) != ()


def test_of_an_array_it_is_not_said_that_others_may_run_it_nor_that_an_option_keeps_it() -> None:
    array = waiting(TE, cpus=16, federated=True, array_job_id=JobId(TE), array_tasks="0-3")
    alone = Driver([node("n1")], [running(BE, share("n1", 32)), array])
    assert alone.cycle(0) == ()
    (text,) = [one.text for one in alone.decision.refusals if one.job_id == TE]
    assert text.startswith("it is of an array that was submitted in a federation")
    assert "keep it here" not in text


@pytest.mark.parametrize(("federated", "held"), [(False, [8, TE]), (True, [8])])
def test_above_the_limits_of_te_jobs_it_is_not_held(federated: bool, held: list[int]) -> None:
    jobs = [waiting(job_id, cpus=1, submit_time=NOW - 100 + job_id) for job_id in (7, 8, TE)]
    alone = Driver([node("n1")], jobs, limits=Limits(te=TeLimits(max_running_per_user=1)))
    alone.change(TE, federated=federated)
    assert sorted(action.job_id for action in alone.cycle(0) if holds(action)) == held


def test_one_that_the_submission_hook_holds_is_released() -> None:
    marked = waiting(TE, cpus=1, federated=True, priority=0, reason="JobHeldUser", admin_comment=HOOK_MARK)
    alone = Driver([node("n1")], [marked], limits=Limits(te=TeLimits(max_running_per_user=1)))
    (action,) = alone.cycle(0)
    assert (action.job_id, getattr(action, "field", None)) == (TE, Field.HOLD)
    assert getattr(action, "value", None) is HoldState.RELEASED


@pytest.mark.parametrize("intent", [HoldJob(job_id=JobId(OTHER), why=""), BoostJob(job_id=JobId(OTHER), why="")])
@pytest.mark.parametrize("federated", [False, True])
def test_a_sites_own_policy_changes_none(intent: Intent, federated: bool) -> None:
    own = site(StrangeToo(intents=(intent,)))
    own.jobs[JobId(OTHER)] = waiting(OTHER, priority=1, federated=federated)
    own.jobs[JobId(VICTIM)] = waiting(VICTIM, priority=50)
    assert [action.job_id for action in own.cycle(0)] == ([] if federated else [OTHER])


def test_nor_frees_it_anything_for_one() -> None:
    own = site(Strange(intents=(capacity(TE, 1),)))
    own.change(TE, federated=True)
    assert own.cycle(0) == ()


def test_what_was_set_before_it_was_federated_is_put_back() -> None:
    alone = Driver([node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16)])
    raised = [action for action in alone.cycle(0) if getattr(action, "field", None) is Field.NICE]
    assert [action.job_id for action in raised] == [TE]
    nice = getattr(raised[0], "value", 0)
    alone.change(TE, federated=True, nice=nice)
    alone.jobs.pop(JobId(BE))
    back = [one for at in range(1, 400, 20) for one in alone.cycle(at) if getattr(one, "field", None) is Field.NICE]
    assert [(one.job_id, getattr(one, "value", None)) for one in back][:1] == [(TE, 0)]
