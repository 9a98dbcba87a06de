"""A site's own policy that proposes what it may not: the guard refuses it, says why, and nothing of it is done."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
from tesched_core.model.actions import Notify, Requeue, sets
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits, TurnLimits
from tesched_core.model.resources import JobId
from tesched_core.policy import (
    BoostJob,
    ChosenVictim,
    HoldJob,
    Intent,
    MakeRoom,
    Policy,
    Proposal,
    ThrottleArray,
    View,
    with_scopes,
)
from tesched_core.step import step
from tesched_policies.baselines import NoPreemption
from tesched_policies.fitgpp import FitGpp

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import Driver

VICTIM, OTHER, MOVED, TRIAL = 1, 2, 3, 9


@dataclass(frozen=True, kw_only=True)
class Strange(Policy[None]):
    """Propose what a test says, whatever it is shown."""

    name: ClassVar[str] = "strange"
    serves_te: ClassVar[bool] = True
    intents: tuple[Intent, ...] = ()

    def propose(self, view: View, state: None) -> Proposal[None]:
        return Proposal(intents=self.intents)


@dataclass(frozen=True, kw_only=True)
class StrangeToo(Strange):
    """The same for BE jobs."""

    name: ClassVar[str] = "strange_too"
    serves_te: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Moving(StrangeToo):
    """The same with limits, within which it moves BE jobs."""

    @property
    def turn_limits(self) -> TurnLimits:
        return TurnLimits()


@dataclass(frozen=True, kw_only=True)
class Failing(Policy[None]):
    """Raise an error, or return what is no proposal."""

    name: ClassVar[str] = "failing"
    serves_te: ClassVar[bool] = True
    returns: object = None

    def propose(self, view: View, state: None) -> Proposal[None]:
        if self.returns is not None:
            return self.returns  # type: ignore[return-value]
        raise KeyError("no such node")


@dataclass(frozen=True, kw_only=True)
class FailingToo(Failing):
    """The same for BE jobs."""

    name: ClassVar[str] = "failing_too"
    serves_te: ClassVar[bool] = False


def site(policy: Policy[None], *, limits: Limits | None = None) -> Driver:
    jobs = [running(VICTIM, share("n1", 32)), running(OTHER, share("n2", 32)), waiting(TRIAL)]
    te, be = (policy, None) if policy.serves_te else (NoPreemption(), policy)
    return Driver([node("n1"), node("n2")], jobs, policy=te, best_effort=be, limits=limits, run_times={OTHER: 60})


def capacity(preemptor: int, *victims: int) -> MakeRoom:
    return MakeRoom(
        preemptor=JobId(preemptor),
        nodes=("n1",),
        victims=tuple(ChosenVictim(job_id=JobId(job_id)) for job_id in victims),
    )


def test_a_protected_job_is_no_victim_whatever_a_policy_says() -> None:
    drive = site(Strange(intents=(capacity(TRIAL, VICTIM),)), limits=Limits(protected_names=("be-*", "job*", "*")))
    assert drive.cycle(0) == ()
    (refusal,) = [one for one in drive.decision.refusals if one.job_id == TRIAL]
    assert refusal.code is RefusalCode.PROTECTED_NAME
    assert "chose job 1 as a victim" in refusal.text


@pytest.mark.parametrize("victim", [TRIAL, 77])
def test_what_holds_no_nodes_is_no_victim(victim: int) -> None:
    drive = site(Strange(intents=(capacity(TRIAL, victim),)))
    assert drive.cycle(0) == ()
    assert drive.why_not(TRIAL) is RefusalCode.NOT_MANAGED


SECOND = 8


def plan(preemptor: int, *victims: int, nodes: tuple[str, ...] = ("n1",)) -> MakeRoom:
    return replace(capacity(preemptor, *victims), nodes=nodes)


@pytest.mark.parametrize(
    ("plans", "code", "leave"),
    [
        ((plan(SECOND, VICTIM), plan(TRIAL, VICTIM)), RefusalCode.ALREADY_LEAVING, [VICTIM]),
        ((plan(TRIAL, VICTIM, VICTIM),), RefusalCode.ALREADY_LEAVING, []),
        ((plan(TRIAL, VICTIM, nodes=()),), RefusalCode.NOT_MANAGED, []),
        ((plan(TRIAL, VICTIM, nodes=("n1", "n1")),), RefusalCode.NOT_MANAGED, []),
        ((plan(TRIAL, VICTIM, nodes=("n1", "n77")),), RefusalCode.NOT_MANAGED, []),
        ((plan(TRIAL, VICTIM), plan(TRIAL, OTHER, nodes=("n2",))), RefusalCode.ORDER_OPEN, []),
    ],
)
def test_no_job_leaves_twice_or_for_no_nodes_and_no_trial_has_two_orders(
    plans: tuple[MakeRoom, ...], code: RefusalCode, leave: list[int]
) -> None:
    drive = site(Strange(intents=plans), limits=Limits(max_open_orders=4))
    drive.submits(replace(waiting(SECOND), priority=101), like=TRIAL)
    assert [one.job_id for one in drive.cycle(0) if isinstance(one, Notify | Requeue)] == leave
    assert drive.why_not(TRIAL) is code
    assert len(drive.memory.open_orders()) == len(leave)


def test_a_job_for_which_resources_are_being_freed_gets_no_second_order() -> None:
    drive = site(StrangeToo(intents=(plan(MOVED, VICTIM),)))
    drive.submits(waiting(MOVED), like=OTHER)
    drive.best_effort = Moving(intents=(plan(MOVED, VICTIM),))
    assert any(isinstance(one, Notify | Requeue) for one in drive.cycle(0))
    drive.best_effort = Moving(intents=(plan(MOVED, OTHER, nodes=("n2",)),))
    assert not any(isinstance(one, Notify | Requeue) for one in drive.cycle(2))
    assert drive.why_not(MOVED) is RefusalCode.ORDER_OPEN
    assert len(drive.memory.open_orders()) == 1


def test_a_policy_for_trials_frees_resources_for_waiting_trials_alone() -> None:
    drive = site(Strange(intents=(capacity(OTHER, VICTIM), HoldJob(job_id=JobId(OTHER), why=""))))
    assert drive.cycle(0) == ()


@pytest.mark.parametrize(
    "intent",
    [
        HoldJob(job_id=JobId(TRIAL), why=""),
        BoostJob(job_id=JobId(TRIAL), why=""),
        HoldJob(job_id=JobId(77), why=""),
        ThrottleArray(job_id=JobId(77), tasks=1, why=""),
        capacity(TRIAL),
    ],
)
def test_a_policy_for_best_effort_jobs_touches_no_other(intent: Intent) -> None:
    drive = site(StrangeToo(intents=(intent,)))
    assert drive.cycle(0) == ()
    assert any(one.code is RefusalCode.NOT_MANAGED for one in drive.decision.refusals)


@pytest.mark.parametrize(("deadline", "held"), [(None, [OTHER]), (NOW + 5000, [])])
def test_no_policy_holds_a_job_that_slurm_may_end_in_the_queue(deadline: float | None, held: list[int]) -> None:
    drive = site(StrangeToo(intents=(HoldJob(job_id=JobId(OTHER), why=""),)))
    drive.change(OTHER, deadline=deadline)
    assert [one.job_id for one in drive.cycle(0) if sets(one, Field.HOLD)] == held
    said = [one.text for one in drive.decision.refusals if one.job_id == OTHER and "--deadline" in one.text]
    assert len(said) == (deadline is not None)


def test_without_limits_of_its_own_a_policy_moves_no_best_effort_job() -> None:
    drive = site(StrangeToo(intents=(capacity(OTHER, VICTIM),)))
    assert drive.cycle(0) == ()
    assert drive.why_not(OTHER) is RefusalCode.NOT_MANAGED


def test_a_policy_keeps_to_the_partitions_of_its_entry() -> None:
    drive = site(StrangeToo(intents=(HoldJob(job_id=JobId(OTHER), why=""),)))
    entries = with_scopes([(NoPreemption(), (), ()), (drive.best_effort, ("gpu",), ())])  # type: ignore[list-item]
    _, decision = step(drive.memory, drive.snapshot(0), entries, drive.limits)
    assert decision.actions == ()
    assert "its own partitions and QOS" in " ".join(one.text for one in decision.refusals)


def test_a_policy_that_fails_is_reported_and_the_others_go_on() -> None:
    drive = site(FailingToo())
    drive.policy = FitGpp()
    assert len(drive.cycle(0)) > 0, "resources are freed for the trial all the same"
    assert drive.decision.summary.startswith("the policy failing_too has failed: KeyError: 'no such node'; ")


@pytest.mark.parametrize("returns", [None, "a text"])
def test_trials_of_a_failing_policy_get_the_reason_why_they_wait(returns: object) -> None:
    drive = site(Failing(returns=returns))
    assert drive.cycle(0) == ()
    assert drive.why_not(TRIAL) is RefusalCode.POLICY_FAILED
    assert "has failed" in drive.decision.summary
