"""Several TE jobs in one poll, some of them patient: the policy plans once or twice, the others have what they had."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest
from tesched_core.model.actions import holds
from tesched_core.model.cluster import Job, Request
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Bound, Limits
from tesched_core.model.resources import JobId
from tesched_core.policy import ChosenVictim, MakeRoom, Policy, Proposal, View
from tesched_policies.fitgpp import FitGpp
from tesched_policies.patient import Patient

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import Driver

#: another user's TE job that is not patient, the last of all
OTHER = 900
MANY = range(100, 140)


#: policies that plan by the guard's word, and those that do not
BY_GUARD = pytest.mark.parametrize("by_guard", [True, False], ids=["by the guard's word", "without it"])


@dataclass(frozen=True, kw_only=True)
class Counted(Policy[None]):
    """Another policy, and how often it plans."""

    name: ClassVar[str] = "counted"
    serves_te: ClassVar[bool] = True
    of: Policy[Any] = field(default_factory=FitGpp)
    #: it plans by the guard's word
    by_guard: bool = True
    asked: list[int] = field(default_factory=list)

    def propose(self, view: View, state: None) -> Proposal[None]:
        self.asked.append(len(view.waiting))
        return self.of.propose(view if self.by_guard else replace(view, admission=None), state)


@dataclass(frozen=True, kw_only=True)
class Stubborn(Policy[None]):
    """Ask a job of each node for the first TE jobs, whatever the guard says of these."""

    name: ClassVar[str] = "stubborn"
    serves_te: ClassVar[bool] = True

    def propose(self, view: View, state: None) -> Proposal[None]:
        victims = [JobId(number) for number in view.running.job_id.tolist()]
        return Proposal(
            intents=tuple(
                MakeRoom(preemptor=te.job_id, nodes=(f"n{victim}",), victims=(ChosenVictim(job_id=victim),))
                for te, victim in zip(view.waiting, victims, strict=False)
            )
        )


def patient(drive: Driver, jobs: Iterable[int]) -> Driver:
    """Let the owners of these have said 300 s."""
    known = drive.start.traits
    said = {JobId(number): replace(known[JobId(number)], patience_s=300.0) for number in jobs}
    drive.start = drive.start.with_traits({**known, **said})
    return drive


def many(policy: Policy[Any], *, cpus: int, nodes: int = 4) -> Driver:
    """Return full nodes, for parts of which many patient TE jobs wait that came now, and another one after them."""
    numbers = range(1, nodes + 1)
    full = [running(number, share(f"n{number}", 32)) for number in numbers]
    jobs = [waiting(number, cpus=cpus, submit_time=NOW - 1, user="ada") for number in MANY]
    other = waiting(OTHER, cpus=32, submit_time=NOW, user="bob")
    limits = Limits(min_run_time_s=0, cool_down_s=0)
    drive = Driver([node(f"n{number}") for number in numbers], [*full, *jobs, other], limits=limits, policy=policy)
    return patient(drive, MANY)


@pytest.mark.parametrize("cpus", [32, 3], ids=["a node each", "what the victims of others leave over"])
@pytest.mark.parametrize("policy", [FitGpp(), Patient(patience_s=0)], ids=lambda one: one.name)
@BY_GUARD
def test_the_policy_is_called_once_or_twice_however_many_are_patient(
    policy: Policy[Any], cpus: int, *, by_guard: bool
) -> None:
    counted = Counted(of=policy, by_guard=by_guard)
    drive = many(counted, cpus=cpus)
    drive.cycle(0)
    assert counted.asked == [len(MANY) + 1] * (1 if by_guard else 2)
    assert [(order.preemptor, len(order.victims)) for order in drive.memory.open_orders()] == [(OTHER, 1)]
    own = {one.job_id: one.code for one in drive.decision.refusals if one.job_id == one.preemptor}
    assert own == dict.fromkeys(MANY, RefusalCode.PATIENCE), "each has one reason"


def test_a_policy_that_selects_victims_for_them_all_the_same_is_called_once_more() -> None:
    counted = Counted(of=Stubborn())
    drive = many(counted, cpus=32)
    drive.cycle(0)
    assert counted.asked == [len(MANY) + 1, len(MANY) + 1, 1]
    assert [order.preemptor for order in drive.memory.open_orders()] == [OTHER]
    assert {drive.why_not(number) for number in MANY} == {RefusalCode.PATIENCE}


def test_those_for_which_resources_are_free_start_behind_one_that_would_need_a_victim() -> None:
    drive = many(FitGpp(), cpus=4)
    drive.change(MANY[0], request=Request(cpus=32, mem_per_node_mib=1))
    drive.jobs[JobId(2)] = running(2, share("n2", 24))
    drive.cycle(0)
    served = {order.preemptor: len(order.victims) for order in drive.memory.open_orders()}
    assert served == {MANY[1]: 0, MANY[2]: 0, OTHER: 1}


@BY_GUARD
def test_what_is_no_matter_of_patience_is_said_as_it_is(*, by_guard: bool) -> None:
    drive = many(Counted(by_guard=by_guard), cpus=32)
    drive.change(MANY[1], request=Request(cpus=64, mem_per_node_mib=1))
    drive.cycle(0)
    assert drive.why_not(MANY[0]) is RefusalCode.PATIENCE
    assert [one.code for one in drive.decision.refusals if one.job_id == MANY[1]] == [RefusalCode.IMPOSSIBLE]


@BY_GUARD
def test_one_that_awaits_resources_by_its_policy_goes_on_with_that(*, by_guard: bool) -> None:
    drive = many(Counted(of=Patient(patience_s=60), by_guard=by_guard), cpus=32, nodes=len(MANY) + 1)
    for number in MANY:
        drive.change(number, submit_time=NOW - 100)
    drive.change(MANY[1], submit_time=NOW)
    drive.change(OTHER, submit_time=NOW - 100)
    drive.cycle(0)
    orders = {order.preemptor: order.waits for order in drive.memory.open_orders()}
    assert orders == {MANY[1]: True, OTHER: False}


LAST, FIRST = 910, 890


def bounded(*jobs: Job, by_guard: bool) -> Driver:
    """Return two full nodes with a bound; FIRST is patient, OTHER is not, and LAST of 600 s fits on n2 alone."""
    full = [
        running(number, share(f"n{number}", 32), start_time=NOW - ran_s, submit_time=NOW - ran_s, user="bob")
        for number, ran_s in ((1, 100), (2, 300))
    ]
    on_n2 = Request(cpus=32, mem_per_node_mib=1, required_nodes=("n2",))
    te = [
        waiting(OTHER, cpus=32, time_limit_s=60, user="cyd", submit_time=NOW - 2),
        waiting(LAST, on_n2, time_limit_s=600, user="eve", submit_time=NOW - 1),
    ]
    limits = Limits(bound=Bound(slowdown=1.5, te_time_limit_s=600), cool_down_s=0, max_slowdown=1e6)
    policy = Counted(by_guard=by_guard)
    return Driver([node("n1"), node("n2")], [*full, *jobs, *te], graces={1: 0, 2: 0}, limits=limits, policy=policy)


@BY_GUARD
@pytest.mark.parametrize("is_there", [False, True])
def test_no_te_job_is_held_for_a_victim_that_was_selected_only_while_a_patient_one_was_planned(
    is_there: bool, *, by_guard: bool
) -> None:
    jobs = [waiting(FIRST, cpus=32, time_limit_s=60, user="ada", submit_time=NOW - 3)] if is_there else []
    drive = patient(bounded(*jobs, by_guard=by_guard), [FIRST] if is_there else [])
    actions = drive.cycle(0)
    assert [(order.preemptor, order.victims[0].job_id) for order in drive.memory.open_orders()] == [(OTHER, 1)]
    assert [one.job_id for one in actions if holds(one)] == []


def test_a_patient_one_awaits_resources_though_one_before_it_may_not_have_a_victim_yet() -> None:
    """Plans that the guard drops take no place among `guard.max_open_orders`."""
    drive = many(Patient(patience_s=120), cpus=32)
    first, second = MANY[:2]
    drive.jobs = {number: one for number, one in drive.jobs.items() if number not in {*MANY[2:], OTHER}}
    drive.jobs[JobId(first)] = replace(drive.jobs[JobId(first)], submit_time=NOW - 200)
    drive.limits = replace(drive.limits, max_open_orders=1)
    drive.cycle(0)
    assert [(order.preemptor, order.waits) for order in drive.memory.open_orders()] == [(second, True)]


@pytest.mark.parametrize("limits", [Limits(max_open_orders=1), Limits(max_victims_per_cycle=1)])
def test_of_one_for_which_there_is_no_place_its_owners_patience_is_said_first(limits: Limits) -> None:
    drive = many(FitGpp(), cpus=32)
    drive.jobs[JobId(OTHER)] = replace(drive.jobs[JobId(OTHER)], priority=1000, submit_time=NOW - 100)
    drive.limits = replace(limits, min_run_time_s=0, cool_down_s=0)
    drive.cycle(0)
    assert [order.preemptor for order in drive.memory.open_orders()] == [OTHER]
    own = {one.job_id: one.code for one in drive.decision.refusals if one.job_id == one.preemptor}
    assert own == dict.fromkeys(MANY, RefusalCode.PATIENCE)


def test_the_policy_is_called_once_however_many_a_limit_refuses() -> None:
    counted = Counted()
    drive = many(counted, cpus=32)
    drive.start = drive.start.with_traits(
        {job_id: replace(one, patience_s=0.0) for job_id, one in drive.start.traits.items()}
    )
    drive.limits = replace(drive.limits, max_victims_per_cycle=2)
    drive.cycle(0)
    assert (len(counted.asked), len(drive.memory.open_orders())) == (1, 2)
    own = {one.job_id: one.text for one in drive.decision.refusals if one.job_id == one.preemptor}
    assert set(own) == {*MANY[2:], OTHER}
    assert {text.partition(",")[2] for text in own.values()} == {" so no victims were searched for it"}
