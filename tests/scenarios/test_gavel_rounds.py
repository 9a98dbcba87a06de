"""Gavel's rounds with Slurm's levers, by hand: holds, moves, victims, and that a trial comes first.

Everywhere: two nodes of one GPU each, v is a v100 and k a k80; las divides the time; a round takes 360 s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tesched_core.model.actions import Notify, kind_of, releases
from tesched_core.model.cluster import Job, Request
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.order import Ending
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.orders.undo import undo
from tesched_policies.gavel.policy import Gavel
from tesched_policies.gavel.weights import Entity

from tests.builders import NOW, node, nodes_set, running, share, waiting
from tests.scenarios.driver import Driver

GPU = Request(cpus=1, mem_per_node_mib=1, gres_per_node=(("gpu", 1),))
LIMITS = Limits(min_run_time_s=0, cool_down_s=0, max_preemptions_per_job=100, max_slowdown=1000)
A, B, C, TRIAL = 1, 2, 3, 9


class Site(Driver):
    """The two nodes, with the speeds of the jobs."""

    def __init__(
        self,
        *jobs: Job,
        speeds: Mapping[int, Mapping[str, float]],
        fills: bool = True,
        named: str = "las",
        weights: Mapping[str, Any] | None = None,
    ) -> None:
        gpus = {"v": {"gpu:v100": 1}, "k": {"gpu:k80": 1}}
        gavel = Gavel(allocator=named, types=("v100", "k80"), fills=fills, **(weights or {}))
        super().__init__(
            [node(name, gres=gres) for name, gres in gpus.items()],
            jobs,
            limits=LIMITS,
            best_effort=gavel,
            run_times={int(job.job_id): 3600 for job in jobs if job.job_id != TRIAL},
        )
        self.speeds = {JobId(job_id): dict(one) for job_id, one in speeds.items()}

    def snapshot(self, at_s: float) -> Snapshot:
        return replace(super().snapshot(at_s), speeds=self.speeds)


def on(job_id: int, where: str) -> Job:
    held = share(where, 1, 1, {"gpu:v100" if where == "v" else "gpu:k80": 1})
    return replace(running(job_id, held, start_time=NOW - 100, submit_time=NOW - 100 + job_id), request=GPU)


def queued(job_id: int) -> Job:
    return waiting(job_id, GPU, submit_time=NOW - 50 + job_id)


def kinds(site: Site) -> list[tuple[str, int]]:
    return [(kind_of(action), action.job_id) for action in site.decision.actions]


def test_two_jobs_change_places_where_each_is_good() -> None:
    site = Site(on(A, "k"), on(B, "v"), speeds={A: {"v100": 4, "k80": 1}, B: {"v100": 2, "k80": 2}})
    actions = site.cycle(0)
    notices = [action for action in actions if isinstance(action, Notify)]
    assert {action.job_id for action in notices} == {A, B}
    # A's nodes are freed by B, and each of them moves: no job gets two notices.
    assert len(notices) == 2
    site.obeys(*actions)
    assert site.cycle(5) == ()
    for job_id in (A, B):
        site.requeued(job_id)
        site.change(job_id, reason="Resources")
    site.cycle(10)
    nodes = {job_id: nodes.names for job_id, nodes in nodes_set(site.decision.actions)}
    site.obeys(*site.decision.actions)
    site.cycle(11)
    nodes |= {job_id: nodes.names for job_id, nodes in nodes_set(site.decision.actions)}
    assert nodes == {A: ("v",), B: ("k",)}


def test_a_job_without_a_turn_is_held_and_released_when_it_comes() -> None:
    site = Site(on(A, "v"), queued(C), speeds={A: {"v100": 2}, C: {"v100": 4}})
    site.nodes.pop("k")
    site.obeys(*site.cycle(0))
    assert kinds(site) == [("hold", C)], "nothing has been received yet: the older one has its turn"
    assert site.why_not(C) is RefusalCode.NOTE
    assert site.cycle(100) == ()
    site.obeys(*site.cycle(360))
    assert kinds(site) == [("setnodes", C), ("release", C)], "the other has had its part"
    site.obeys(*site.cycle(361))
    assert kinds(site) == [("setnice", C), ("notify", A)], "now that it is released, it has a priority to raise"
    site.requeued(A)
    site.starts(C, share("v", 1, 1, {"gpu:v100": 1}), at_s=365)
    site.change(A, reason="Resources")
    site.cycle(366)
    assert ("hold", A) in kinds(site)


def test_resources_that_come_free_in_mid_round_go_to_the_next_job() -> None:
    alike = {"v100": 2, "k80": 1}
    site = Site(on(A, "v"), on(B, "k"), queued(C), speeds={A: alike, B: alike, C: alike})
    site.obeys(*site.cycle(0))
    site.ends(A)
    site.obeys(*site.cycle(20))
    assert ("release", C) in kinds(site)
    site.starts(C, share("v", 1, 1, {"gpu:v100": 1}), at_s=21)
    site.cycle(22)
    assert [order.ending for order in site.memory.orders.values()] == [Ending.STARTED_HERE]


def test_as_in_the_paper_it_waits_for_the_round() -> None:
    alike = {"v100": 2, "k80": 1}
    site = Site(on(A, "v"), on(B, "k"), queued(C), speeds={A: alike, B: alike, C: alike}, fills=False)
    site.obeys(*site.cycle(0))
    site.ends(A)
    assert site.cycle(20) == ()
    site.cycle(360)
    assert ("release", C) in kinds(site)


def test_a_release_that_did_not_arrive_is_repeated_at_the_next_chance() -> None:
    site = Site(on(A, "v"), queued(C), speeds={A: {"v100": 2}, C: {"v100": 4}})
    site.nodes.pop("k")
    site.obeys(*site.cycle(0))
    actions = site.cycle(360)
    site.obeys(*(action for action in actions if not releases(action)))
    site.requeued(A)
    site.change(A, reason="Resources")
    site.obeys(*site.cycle(362))
    site.obeys(*site.cycle(363))
    assert site.jobs[JobId(C)].priority > 0
    assert C in {order.preemptor for order in site.memory.open_orders()}


def test_a_job_that_comes_in_mid_round_is_held_until_the_next() -> None:
    alike = {"v100": 2, "k80": 1}
    site = Site(on(A, "v"), on(B, "k"), speeds={A: alike, B: alike, C: alike}, fills=False)
    site.cycle(0)
    late = queued(C)
    site.jobs[late.job_id] = late
    site.start = site.start.with_traits({**site.start.traits, late.job_id: site.start.traits[JobId(A)]})
    site.obeys(*site.cycle(10))
    assert kinds(site) == [("hold", C)]
    assert site.why_not(C) is RefusalCode.NOTE


def test_a_trial_comes_before_the_round() -> None:
    alike = {"v100": 2, "k80": 1}
    site = Site(on(A, "v"), on(B, "k"), waiting(TRIAL, GPU), speeds={A: alike, B: alike})
    site.obeys(*site.cycle(0))
    assert [kind for kind, _ in kinds(site)] == ["setnice", "notify"]
    (order,) = site.memory.open_orders()
    assert order.preemptor == TRIAL
    paying = order.victims[0].job_id
    site.requeued(paying)
    site.starts(TRIAL, share(order.nodes[0], 1, 1, {"gpu:v100" if order.nodes == ("v",) else "gpu:k80": 1}), at_s=30)
    site.obeys(*site.cycle(31))
    site.change(paying, reason="Resources")
    site.obeys(*site.cycle(361))
    asked = [nodes.names for _, nodes in nodes_set(site.decision.actions)]
    assert asked == [("k",) if order.nodes == ("v",) else ("v",)], "the trial's GPU is not divided"


def test_where_no_gpu_has_a_type_nothing_is_done() -> None:
    site = Site(on(A, "v"), queued(C), speeds={A: {"v100": 2}, C: {"v100": 4}})
    site.nodes = {"v": node("v", gres={"gpu": 1})}
    assert site.cycle(0) == ()
    assert site.cycle(360) == ()


def test_nodes_that_are_all_down_hold_no_job() -> None:
    site = Site(on(A, "v"), queued(C), speeds={A: {"v100": 2}, C: {"v100": 4}})
    site.nodes = {name: replace(one, flags=frozenset({"DRAIN"})) for name, one in site.nodes.items()}
    assert site.cycle(0) == ()


def test_a_job_that_fits_on_none_of_the_types_is_left_to_slurm() -> None:
    other = Request(cpus=1, mem_per_node_mib=1, gres_per_node=(("gpu:a100", 1),))
    site = Site(on(A, "v"), replace(queued(C), request=other), speeds={A: {"v100": 2}})
    site.nodes["a"] = node("a", gres={"gpu:a100": 1})
    for at_s in (0, 360):
        site.cycle(at_s)
        assert site.decision.actions == ()


def test_a_held_job_that_can_have_no_turn_any_more_is_let_go() -> None:
    alike = {"v100": 2, "k80": 1}
    site = Site(on(A, "v"), on(B, "k"), queued(C), speeds={A: alike, B: alike, C: alike})
    site.obeys(*site.cycle(0))
    assert kinds(site) == [("hold", C)]
    site.change(C, request=Request(cpus=1, mem_per_node_mib=1, gres_per_node=(("gpu", 2),)))
    site.obeys(*site.cycle(5))
    assert kinds(site) == [("release", C)]
    site.obeys(*site.cycle(10))
    assert kinds(site) == []


def test_another_users_hold_is_not_ended() -> None:
    alike = {"v100": 2, "k80": 1}
    site = Site(on(A, "v"), queued(C), speeds={A: alike, C: alike})
    site.change(C, priority=0, reason="JobHeldUser")
    site.cycle(0)
    assert site.decision.actions == ()


def test_undo_releases_all_jobs() -> None:
    alike = {"v100": 2, "k80": 1}
    site = Site(on(A, "v"), on(B, "k"), queued(C), speeds={A: alike, B: alike, C: alike})
    site.obeys(*site.cycle(0))
    site.memory, site.decision = undo(site.memory, site.snapshot(5), site.limits)
    assert kinds(site) == [("release", C)]
    site.obeys(*site.decision.actions)
    site.memory, site.decision = undo(site.memory, site.snapshot(6), site.limits)
    assert (site.decision.actions, site.memory.changes_of(Field.HOLD)) == ((), {})


def test_another_policy_releases_all_jobs_as_well() -> None:
    alike = {"v100": 2, "k80": 1}
    site = Site(on(A, "v"), on(B, "k"), queued(C), speeds={A: alike, B: alike, C: alike})
    site.obeys(*site.cycle(0))
    assert kinds(site) == [("hold", C)]
    site.best_effort = None
    site.obeys(*site.cycle(5))
    assert kinds(site) == [("release", C)]
    site.cycle(6)
    assert (site.decision.actions, site.memory.changes_of(Field.HOLD)) == ((), {})


def test_jobs_that_are_as_fast_everywhere_stay_where_they_are() -> None:
    alike = {"v100": 2, "k80": 2}
    site = Site(on(A, "v"), on(B, "k"), speeds={A: alike, B: alike})
    moves = 0
    for turn in range(12):
        moves += sum(isinstance(action, Notify) for action in site.cycle(360 * turn))
    assert moves == 0


def test_jobs_that_are_as_fast_everywhere_still_take_turns_with_waiting_jobs() -> None:
    alike = {"v100": 2, "k80": 2}
    site = Site(on(A, "v"), on(B, "k"), queued(C), speeds={A: alike, B: alike, C: alike})
    site.obeys(*site.cycle(0))
    site.obeys(*site.cycle(360))
    leaving = [action.job_id for action in site.cycle(361) if isinstance(action, Notify)]
    assert len(leaving) == 1, "one leaves for the third, and the other does not move for that"


def test_a_job_of_a_weighty_qos_has_more_of_the_time() -> None:
    one = {"v100": 2}
    weights = {"qos_weights": ("high=3",), "most_weight": 1.0}
    site = Site(on(A, "v"), replace(queued(C), qos="high"), speeds={A: one, C: one}, weights=weights)
    site.nodes.pop("k")
    site.cycle(0)
    share = {job_id: known.share[0] for job_id, known in site.state("gavel").jobs.items()}
    assert share == {A: pytest.approx(0.25), C: pytest.approx(0.75)}
    (why,) = [refusal for refusal in site.decision.refusals if refusal.job_id == C]
    assert "its weight is 3" in why.text


def test_a_job_that_says_when_it_is_due_goes_before_the_cheaper_one() -> None:
    # k is cheaper by the step for both; C keeps its deadline on v alone: 3600 s of work in 3700 s, 50 s after it came.
    speeds = {A: {"v100": 2, "k80": 1}, C: {"v100": 2, "k80": 1}}
    prices = {"prices": ("v100=1", "k80=1")}
    site = Site(on(A, "v"), queued(C), speeds=speeds, named="cost-slo", weights=prices)
    traits = site.start.traits
    site.start = site.start.with_traits({**traits, JobId(C): replace(traits[JobId(C)], slo_s=3700.0)})
    site.cycle(0)
    shares = {job_id: known.share for job_id, known in site.state("gavel").jobs.items()}
    assert shares[JobId(C)][0] > 0.95
    (why,) = [refusal for refusal in site.decision.refusals if refusal.job_id == C]
    assert "it should end within 3700 s of its submission" in why.text


@pytest.mark.parametrize(("prices", "shares"), [(("v100=1", "k80=1"), (1, 0)), (("v100=1", "k80=0.2"), (0, 1))])
def test_what_a_type_costs_decides_which_one_is_used(prices: tuple[str, str], shares: tuple[int, int]) -> None:
    # By the price A gets 4 of 1 and 1 of 1, or 1 of 0.2; C less of each.
    speeds: dict[int, dict[str, float]] = {A: {"v100": 4, "k80": 1}, C: {"v100": 3, "k80": 0.5}}
    site = Site(on(A, "v"), queued(C), speeds=speeds, named="cost", weights={"prices": prices})
    site.cycle(0)
    found = {job_id: known.share for job_id, known in site.state("gavel").jobs.items()}
    assert found == {A: pytest.approx(shares, abs=1e-6), C: pytest.approx((0, 0), abs=1e-6)}


@pytest.mark.parametrize(("slow", "first"), [(2.0, A), (0.4, C)])
def test_a_second_on_a_slow_type_is_no_second_of_the_fastest(slow: float, first: int) -> None:
    # After 1,080 s A has at most 180 s left of its 1,260 (at 0.4 of 2 steps/s 1,044 s); C needs 600 s.
    speeds = {job_id: {"v100": 2, "k80": slow} for job_id in (A, B, C, TRIAL)}
    site = Site(replace(on(A, "k"), start_time=NOW), replace(on(B, "v"), start_time=NOW), speeds=speeds, named="sjf")
    runs = {A: 1260.0, B: 60.0, C: 600.0, TRIAL: 9000.0}
    for turn in range(3):
        if turn == 2:  # time is allocated anew
            site.jobs[JobId(TRIAL)] = queued(TRIAL)
            site.start = site.start.with_traits({**site.start.traits, JobId(TRIAL): site.start.traits[JobId(A)]})
        site.cycle(360 * turn)
    site.jobs[JobId(C)] = replace(queued(C), submit_time=NOW + 1000)
    traits = {job_id: replace(site.start.traits[JobId(A)], run_time_s=runs[job_id]) for job_id in runs}
    site.start = site.start.with_traits({JobId(job_id): one for job_id, one in traits.items()})
    site.cycle(1080)
    share = {job_id: known.share[1] for job_id, known in site.state("gavel").jobs.items()}
    assert share[JobId(first)] == pytest.approx(1.0), share


def test_accounts_share_by_weight_whatever_the_number_of_their_jobs() -> None:
    one = {"v100": 2}
    jobs = [replace(on(A, "v"), account="vision")]
    jobs += [replace(queued(job_id), account="speech") for job_id in (B, C)]
    site = Site(*jobs, speeds=dict.fromkeys((A, B, C), one), named="hierarchical")
    site.nodes.pop("k")
    site.cycle(0)
    share = [site.state("gavel").jobs[JobId(job_id)].share[0] for job_id in (A, B, C)]
    assert share == pytest.approx([0.5, 0.25, 0.25])
    in_order = {"entity": Entity.ACCOUNT, "entity_weights": ("speech=3",), "in_order": ("speech",)}
    site = Site(*jobs, speeds=dict.fromkeys((A, B, C), one), named="hierarchical", weights=in_order)
    site.nodes.pop("k")
    site.cycle(0)
    share = [site.state("gavel").jobs[JobId(job_id)].share[0] for job_id in (A, B, C)]
    assert share == pytest.approx([0.25, 0.75, 0])
    (why,) = [refusal for refusal in site.decision.refusals if refusal.job_id == C]
    assert "it counts to the account speech" in why.text


def test_a_job_of_unknown_speed_takes_its_turns_like_the_others() -> None:
    site = Site(on(A, "v"), queued(C), speeds={A: {"v100": 2, "k80": 1}})
    site.nodes.pop("k")
    site.obeys(*site.cycle(0))
    assert kinds(site) == [("hold", C)]
    site.cycle(360)
    assert ("release", C) in kinds(site)
