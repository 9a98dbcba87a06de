"""PD-ORS's plans with Slurm's levers, by hand: waits for certain nodes, left-over jobs, that a trial comes first.

Where nothing else is said the site is that of `pdors_site.py`; the head of that file has the times of its jobs.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import FailureKind, Notify, Status, kind_of, sets
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.order import Ending
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import changed_still, undo

from tests.builders import NOW, Extra, nodes_set, share, waiting
from tests.scenarios.pdors_site import LIMITS, TRIAL, A, B, C, Site, filler, wide
from tests.scenarios.said_late import SaysLate


def kinds(site: Site) -> list[tuple[str, int]]:
    return [(kind_of(action), action.job_id) for action in site.decision.actions]


def said(site: Site, job_id: int) -> str:
    return next(refusal.text for refusal in site.decision.refusals if refusal.job_id == job_id)


def one_node_of_each_rack_is_taken() -> Site:
    """Return a site where a1 is free again after 60 s, b1 after 600 s, and A wants two nodes."""
    return Site(filler(7, "a1"), filler(8, "b1"), wide(A), run_times={7: 60, 8: 600})


def test_a_job_waits_for_a_rack_in_which_it_ends_sooner() -> None:
    site = one_node_of_each_rack_is_taken()
    site.obeys(*site.cycle(0))
    assert kinds(site) == [("hold", A)]
    option, other = site.plan(A).option, site.plan(A).next_best
    assert option is not None
    assert other is not None
    # 60 s until a1 is free and 70 s there are less than the 250 s that it would take across the racks from now on.
    assert (option.nodes, option.rack, option.wait_slots, option.slots) == (2, "a", 6, 7)
    assert (other.nodes, other.rack, other.wait_slots, other.slots) == (2, "", 0, 25)
    assert option.payoff > other.payoff
    assert site.why_not(A) is RefusalCode.NOTE
    words = said(site, A)
    assert site.cycle(5) == ()
    assert said(site, A) == words, "the same words as long as the plan stays"


def test_it_starts_as_soon_as_the_rack_is_free_sooner_than_planned() -> None:
    site = one_node_of_each_rack_is_taken()
    site.obeys(*site.cycle(0))
    site.ends(7)
    site.obeys(*site.cycle(20))
    nodes = [nodes.names for _, nodes in nodes_set(site.decision.actions)]
    assert nodes == [("a1", "a2")]
    assert kinds(site)[-1] == ("release", A)
    site.begins(A, 21)
    site.cycle(22)
    assert [order.ending for order in site.memory.orders.values()] == [Ending.STARTED_HERE]
    assert (site.plan(A).started, site.plan(A).start_at, site.plan(A).run_s) == (True, NOW + 21, 70)


def test_a_later_job_fits_in_before_a_reservation_or_behind_it_and_never_into_it() -> None:
    site = one_node_of_each_rack_is_taken()
    site.obeys(*site.cycle(0))
    # 120 s on a2 would last into A's slots there; on b2 they harm no job.
    site.comes(wide(B, 1, 1))
    site.obeys(*site.cycle(1))
    assert [nodes.names for _, nodes in nodes_set(site.decision.actions)] == [("b2",)]
    # The next one: a2 is free for 60 s only, so it has to wait until A has ended there, or B on b2. B ends a slot
    # sooner, but then half of its rack is taken, and dear; A leaves an empty one.
    site.comes(wide(C, 1, 1))
    site.obeys(*site.cycle(2))
    assert ("hold", C) in kinds(site)
    option, other = site.plan(C).option, site.plan(C).next_best
    assert option is not None
    assert other is not None
    assert [(each.rack, each.wait_slots) for each in (option, other)] == [("a", 13), ("b", 12)]
    assert (option.worth < other.worth, option.price < other.price) == (True, True)


def test_a_number_of_nodes_is_chosen_and_set_and_undo_puts_the_range_back() -> None:
    site = Site(wide(A, 1, 4))
    actions = site.cycle(0)
    # On one node 120 s, two of a rack 70 s; four are in two racks and take 225 s.
    ((_, nodes),) = nodes_set(actions)
    assert nodes.count is not None
    assert (nodes.names, str(nodes.count)) == (("a1", "a2"), "2-2")
    site.obeys(*actions)
    assert site.jobs[JobId(A)].request.min_nodes == 2
    memory, decision = undo(site.memory, site.snapshot(1), LIMITS)
    site.obeys(*decision.actions)
    request = site.jobs[JobId(A)].request
    assert (request.min_nodes, request.max_nodes, request.required_nodes, request.cpus) == (1, 4, (), 32)
    memory, decision = undo(memory, site.snapshot(2), LIMITS)
    site.obeys(*decision.actions)
    memory, decision = undo(memory, site.snapshot(3), LIMITS)
    assert changed_still(memory, site.snapshot(3)) == 0


def test_undo_releases_held_jobs() -> None:
    site = one_node_of_each_rack_is_taken()
    site.obeys(*site.cycle(0))
    memory, decision = undo(site.memory, site.snapshot(1), LIMITS)
    site.obeys(*decision.actions)
    assert not site.jobs[JobId(A)].held
    memory, _ = undo(memory, site.snapshot(2), LIMITS)
    assert changed_still(memory, site.snapshot(2)) == 0


def test_a_trial_comes_first_and_its_victim_is_planned_anew_with_what_is_left() -> None:
    site = Site(filler(7, "b1", "b2"), wide(A), waiting(TRIAL, cpus=32), run_times={7: 300})
    site.change(TRIAL, reason="Dependency")
    site.obeys(*site.cycle(0))
    site.begins(A, 0)
    site.cycle(1)
    site.change(TRIAL, reason="Resources")
    actions = site.cycle(30)
    asked = {action.job_id for action in actions if isinstance(action, Notify)}
    assert asked, "somebody is asked to go"
    site.obeys(*actions)
    victim = asked.pop()
    assert victim == A, "FitGpp's size is the same, and its grace period: A has run for less"
    site.requeued(A)
    site.change(A, submit_time=NOW + 35)
    site.starts(TRIAL, share("a1", 32, 1), at_s=35)
    site.obeys(*site.cycle(35))
    assert ("hold", A) in kinds(site)
    plan = site.plan(A)
    # 35 s of 70 s are done; 35 s are three slots and a half.
    assert plan.rest == pytest.approx(0.5)
    assert plan.option is not None
    assert plan.promised
    assert (plan.option.rack, plan.option.slots) == ("b", 4), "of unknown length, the trial may stay in the other rack"
    assert plan.note.startswith("it was preempted")


def worth_nothing_any_more() -> Site:
    """Return a site with one free node, on which A wants two; its patience is over since long."""
    site = Site(filler(7, "a1"), filler(8, "b1", "b2"), wide(A), run_times={7: 60, 8: 600_000})
    site.start = site.start.with_traits(
        {job_id: replace(one, utility="critical") for job_id, one in site.start.traits.items()}
    )
    site.change(A, submit_time=NOW - 100_000)
    return site


def test_a_job_that_costs_more_than_it_is_worth_starts_when_resources_are_left_over() -> None:
    site = worth_nothing_any_more()
    site.obeys(*site.cycle(0))
    assert not site.plan(A).promised
    assert kinds(site) == [("hold", A)]
    assert "left over" in said(site, A)
    site.ends(7)
    site.obeys(*site.cycle(30))
    assert kinds(site)[-1] == ("release", A)


def test_no_job_is_left_over_for_ever() -> None:
    site = worth_nothing_any_more()
    site.obeys(*site.cycle(0))
    assert site.cycle(600) == ()
    assert not site.plan(A).promised
    site.cycle(601)
    assert site.plan(A).promised
    assert site.plan(A).note == "it was left over for a whole horizon"


def test_a_late_job_is_planned_anew() -> None:
    site = one_node_of_each_rack_is_taken()
    site.obeys(*site.cycle(0))
    # The filler runs on after its 60 s: a slot's patience, then another plan, with reserved slots.
    site.obeys(*site.cycle(65))
    assert site.plan(A).start_at == NOW + 60
    site.obeys(*site.cycle(71))
    plan = site.plan(A)
    assert plan.promised
    assert plan.start_at > NOW + 71
    assert plan.note.startswith("its nodes were not free in its slot")


def test_a_job_that_slurm_does_not_start_is_set_free_and_left_to_slurm() -> None:
    site = Site(wide(A, 1, 4))
    site.obeys(*site.cycle(0))
    site.cycle(1)
    # The order's time is over: a minute and KillWait.
    actions = site.cycle(95)
    assert [(nodes.names, str(nodes.count)) for _, nodes in nodes_set(actions)] == [((), "1-4")]
    site.obeys(*actions)
    site.obeys(*site.cycle(96))
    site.obeys(*site.cycle(97))
    assert site.plan(A).dropped
    assert not any(kind in {"hold", "setnodes"} for kind, _ in kinds(site))
    assert not site.jobs[JobId(A)].held
    assert "left to Slurm" in said(site, A)


def test_a_job_that_slurm_refuses_to_bind_is_released() -> None:
    site = one_node_of_each_rack_is_taken()
    site.obeys(*site.cycle(0))
    site.ends(7)
    actions = site.cycle(20)
    bind = next(action for action in actions if sets(action, Field.NODES))
    site.says(Status.FAILED, bind, kind=FailureKind.REFUSED)
    assert site.jobs[JobId(A)].held
    site.obeys(*site.cycle(21))
    site.obeys(*site.cycle(22))
    assert not site.jobs[JobId(A)].held
    assert site.plan(A).dropped


def test_a_job_that_slurm_has_not_considered_is_held_before_it_does() -> None:
    site = one_node_of_each_rack_is_taken()
    site.change(A, reason="")
    site.cycle(0)
    assert kinds(site) == [("hold", A)]


@pytest.mark.parametrize("reason", ["", "BeginTime"])
@pytest.mark.parametrize("restarts", [0, 1])
def test_a_job_that_its_user_puts_off_has_no_turn_and_none_waits_for_it(restarts: int, reason: str) -> None:
    site = one_node_of_each_rack_is_taken()
    site.obeys(*site.cycle(0))
    assert site.jobs[JobId(A)].held
    site.change(A, eligible_time=NOW + 3600, restarts=restarts)
    site.comes(wide(B))
    site.obeys(*site.cycle(1))
    assert not site.jobs[JobId(A)].held, "it waits for its time alone"
    site.change(A, reason=reason)
    site.ends(7)
    site.obeys(*site.cycle(2))
    assert kinds(site) == [("setnodes", B), ("release", B)], "B has the rack that A was to have"
    site.begins(B, 2)
    site.ends(8)
    site.cycle(3)
    assert site.decision.actions == (), "nor is it held again"


def test_a_job_that_slurm_starts_first_is_taken_as_it_is() -> None:
    site = one_node_of_each_rack_is_taken()
    site.starts(A, share("a2", 32, 1), share("b2", 32, 1), at_s=0)
    site.comes(wide(B))
    site.obeys(*site.cycle(1))
    assert site.plan(A).run_s == 250
    option = site.plan(B).option
    assert option is not None
    assert (option.rack, option.wait_slots) == ("a", 25), "A has a2 for 250 s"


def test_the_state_is_the_same_until_the_cluster_changes() -> None:
    site = one_node_of_each_rack_is_taken()
    site.obeys(*site.cycle(0))
    before = site.state("pdors")
    site.cycle(2)
    assert site.state("pdors") == before
    site.ends(7)
    site.cycle(4)
    assert site.state("pdors") != before


@pytest.mark.parametrize(
    "change",
    [{"array_job_id": JobId(A), "array_tasks": "0-9"}, {"het_job_id": JobId(A)}, {"batch": False}],
    ids=["an array", "a heterogeneous job", "salloc"],
)
def test_a_job_that_cannot_be_planned_is_left_to_slurm(change: Extra) -> None:
    site = one_node_of_each_rack_is_taken()
    site.change(A, **change)
    assert site.cycle(0) == ()
    site.change(A, array_job_id=None, array_tasks="", het_job_id=None, batch=True)
    site.change(A, request=replace(site.jobs[JobId(A)].request, required_nodes=("a2", "b2")))
    assert site.cycle(1) == ()


def test_an_answer_that_cannot_be_read_keeps_no_job_waiting_for_ever() -> None:
    site = one_node_of_each_rack_is_taken()
    site.obeys(*site.cycle(0))
    site.ends(7)
    tries = 0
    for at_s in range(20, 40):
        actions = site.cycle(at_s)
        bind = [action for action in actions if sets(action, Field.NODES)]
        tries += len(bind)
        site.says(Status.FAILED, *bind, kind=FailureKind.UNKNOWN)
        if bind:
            # What comes after it in its order is not tried.
            site.says(Status.SKIPPED, *(action for action in actions if action not in bind))
        else:
            site.obeys(*actions)
    assert tries >= 3
    assert site.plan(A).dropped
    assert not site.jobs[JobId(A)].held


def test_without_a_node_nothing_is_done() -> None:
    site = Site(wide(A))
    site.nodes.clear()
    assert site.cycle(0) == ()


class LimitedSite(SaysLate, Site):
    """The two racks, where some users are at a limit."""


def test_a_job_at_a_limit_has_no_order_after_order() -> None:
    site = LimitedSite(wide(A))
    site.limited = (A,)
    (order,) = site.polls(0, 60)
    assert order.ending is Ending.BLOCKED
    assert not site.jobs[JobId(A)].held
    assert site.jobs[JobId(A)].request.required_nodes == ()
    assert site.cycle(60) == ()
    assert "no nodes are reserved for it" in said(site, A)
    site.limited = ()
    site.passes()
    assert len(site.polls(60, int(LIMITS.retry_after_s))) == 0
    (order,) = site.polls(int(LIMITS.retry_after_s), int(LIMITS.retry_after_s) + 10)
    assert order.ending is None, "it is tried again"


def test_jobs_at_a_limit_keep_no_nodes_from_another_job() -> None:
    at_a_limit = range(10, 16)
    site = LimitedSite(*map(wide, at_a_limit), wide(20), filler(7, "b1", "b2"), run_times={7: 600})
    site.limited = at_a_limit
    orders = [int(order.preemptor) for order in site.polls(0, 60)]
    assert 20 in orders
    assert len(orders) == len(set(orders)), "each job has one order at most"
    assert site.jobs[JobId(20)].request.required_nodes == ("a1", "a2")


def test_what_a_job_that_is_left_alone_has_done_between_two_starts_is_not_planned_again() -> None:
    site = Site(filler(7, "b1", "b2"), wide(A), waiting(TRIAL, cpus=32), run_times={7: 300})
    site.change(TRIAL, reason="Dependency")
    site.obeys(*site.cycle(0))
    site.begins(A, 0)
    site.cycle(1)
    site.change(TRIAL, reason="Resources")
    site.obeys(*site.cycle(30))
    site.requeued(A)
    alone = replace(site.memory.job(JobId(A)), retry_at=NOW + 1000)
    site.memory = replace(site.memory, jobs={**site.memory.jobs, JobId(A): alone})
    site.change(A, submit_time=NOW + 35)
    site.cycle(35)
    site.starts(A, share("a1", 32, 1), share("a2", 32, 1), at_s=36)
    site.cycle(37)
    plan = site.plan(A)
    assert plan.started
    assert plan.rest == pytest.approx(0.5), "35 s of 70 s are done"
    assert plan.run_s == 35
