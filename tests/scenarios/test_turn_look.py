"""Turns of BE jobs that tesched holds: no victim leaves before Slurm has said that the job waits for resources.

Everywhere: v is the only GPU, A is on it, C is held, and from 360 s on the turn is C's. A hold hides what else C waits
for (a limit, a licence, a dependency): that shows once C is released, at the next pass of Slurm's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tesched_core.fields.slurms_word import LOOK_WITHIN_S
from tesched_core.model.actions import kind_of
from tesched_core.model.cluster import Job, JobState, NodeShare, Request
from tesched_core.model.field import Field
from tesched_core.model.order import Ending, OrderState, VictimState
from tesched_core.model.resources import JobId

from tests.builders import NOW, node, share
from tests.scenarios.said_late import LIMIT, SaysLate
from tests.scenarios.test_gavel_rounds import A, C, Site, kinds, on, queued


class LateSite(SaysLate, Site):
    """The node v alone."""


def in_its_turn(*, grace_s: float = 30.0, as_submitted: Callable[[Job], Job] = lambda job: job) -> LateSite:
    """Return the site at 360 s, with C bound and released; Slurm has not come to it yet."""
    site = LateSite(on(A, "v"), as_submitted(queued(C)), speeds={A: {"v100": 2}, C: {"v100": 4}})
    site.nodes.pop("k")
    told = site.start.traits
    site.start = site.start.with_traits({**told, JobId(A): replace(told[JobId(A)], grace_period_s=grace_s)})
    site.obeys(*site.cycle(0))
    assert kinds(site) == [("hold", C)]
    site.obeys(*site.cycle(360))
    return site


def notified(site: LateSite) -> bool:
    return any(kind_of(one) in {"notify", "requeue"} for one in site.decision.actions)


@pytest.mark.parametrize("grace_s", [30.0, 0.0])
@pytest.mark.parametrize("word", [LIMIT, "Licenses", "Dependency", "AssocGrpCpuLimit"])
def test_no_victim_leaves_for_a_limit_that_the_hold_has_hidden(word: str, grace_s: float) -> None:
    site = in_its_turn(grace_s=grace_s)
    assert not notified(site)
    site.obeys(*site.cycle(361))
    assert not notified(site), "Slurm has said nothing yet"
    site.change(C, reason=word)
    site.obeys(*site.cycle(362))
    assert not notified(site)
    order = site.order(1)
    assert (order.ending, order.futile, site.victim().state) == (Ending.BLOCKED, False, VictimState.SPARED)
    for at_s in range(363, 640, 10):
        site.obeys(*site.cycle(at_s))
        assert not notified(site)
        assert not site.jobs[JobId(C)].held, "until it is tried again it is left to Slurm"
    assert site.jobs[JobId(C)].request.required_nodes == ()


#: what Slurm says of the second of two jobs that are bound to one node and wait for it (22.05, tried)
SECOND_THERE = "ReqNodeNotAvail,_UnavailableNodes:v"
B, D = JobId(7), JobId(8)


def two_turns() -> LateSite:
    """Return a site at 361 s whose only node has two GPUs, where the turns of two held jobs have begun."""
    speeds = {A: {"v100": 2}, B: {"v100": 2}, C: {"v100": 4}, D: {"v100": 4}}
    site = LateSite(on(A, "v"), on(B, "v"), queued(C), queued(D), speeds=speeds)
    site.nodes.pop("k")
    site.nodes["v"] = node("v", gres={"gpu:v100": 2})
    for at_s in (0, 360, 361):
        site.obeys(*site.cycle(at_s))
    assert [order.preemptor for order in site.memory.open_orders()] == [C, D]
    return site


def leave(site: LateSite) -> list[JobId]:
    return sorted(one.job_id for one in site.decision.actions if kind_of(one) in {"notify", "requeue"})


def test_of_two_turns_on_one_node_the_second_has_no_other_word_than_that_the_first_waits_there() -> None:
    site = two_turns()
    site.change(C, reason="Resources")
    site.change(D, reason=SECOND_THERE)
    site.cycle(362)
    assert leave(site) == [A, B]


@pytest.mark.parametrize(
    ("word", "first"),
    [
        (SECOND_THERE, "ended"),
        ("ReqNodeNotAvail,_Reserved_for_maintenance", "waits"),
        ("ReqNodeNotAvail,_May_be_reserved_for_other_job", "waits"),
    ],
)
def test_that_a_node_is_not_available_is_no_such_word_for_any_other_reason(word: str, first: str) -> None:
    site = two_turns()
    if first == "ended":
        site.change(C, state=JobState.CANCELLED)
    site.change(D, reason=word)
    site.cycle(362)
    assert leave(site) == []


def test_before_slurms_word_the_job_is_bound_and_may_start_on_its_own_nodes_alone() -> None:
    site = in_its_turn()
    assert kinds(site) == [("setnodes", C), ("release", C)]
    assert site.jobs[JobId(C)].request.required_nodes == ("v",)
    site.ends(A)
    site.starts(C, share("v", 1, 1, {"gpu:v100": 1}), at_s=361)
    site.cycle(362)
    assert site.order(1).ending is Ending.STARTED_HERE
    assert not notified(site)


@pytest.mark.parametrize("grace_s", [30.0, 0.0])
def test_victims_leave_as_soon_as_slurm_says_that_it_waits_for_resources(grace_s: float) -> None:
    site = in_its_turn(grace_s=grace_s)
    site.obeys(*site.cycle(361))
    site.passes()
    site.cycle(362)
    assert notified(site)


def test_behind_another_job_its_reason_hides_a_limit_as_well() -> None:
    site = in_its_turn()
    site.obeys(*site.cycle(361))
    site.change(C, reason="Priority")
    site.cycle(362)
    assert not notified(site)


@pytest.mark.parametrize("word", ["None", "Priority", "Reservation"])
def test_if_slurm_does_not_come_to_it_in_time_its_victims_go_on(word: str) -> None:
    site = in_its_turn(grace_s=0.0)
    site.change(C, reason=word)
    site.obeys(*site.cycle(360 + LOOK_WITHIN_S))
    assert site.order(1).state is OrderState.OPEN
    site.change(C, reason=word)
    site.obeys(*site.cycle(361 + LOOK_WITHIN_S))
    assert (site.order(1).ending, site.victim().state) == (Ending.NOT_LOOKED_AT, VictimState.SPARED)
    assert site.memory.job(JobId(C)).retry_at == NOW + 361 + LOOK_WITHIN_S + site.limits.retry_after_s


def test_a_late_word_takes_nothing_of_the_orders_time() -> None:
    site = in_its_turn()
    lasts_s = site.order(1).expires_at - (NOW + 360)
    for at_s in range(361, 440):
        site.obeys(*site.cycle(at_s))
    site.passes()
    site.obeys(*site.cycle(440))
    assert notified(site)
    assert site.order(1).expires_at >= NOW + 439 + lasts_s
    site.change(C, reason="None")
    site.obeys(*site.cycle(441))
    assert site.order(1).expires_at <= NOW + 440 + lasts_s, "from the notice on it runs"


def test_what_slurm_said_at_its_submission_is_no_such_word_and_one_that_is_first_is_raised_for_it() -> None:
    site = in_its_turn(as_submitted=lambda job: replace(job, submit_time=NOW + 330))
    whole = replace(site.start.partitions["p"], oversubscribe="EXCLUSIVE")
    site.start = replace(site.start, partitions={"p": whole})
    site.change(C, reason="Resources", priority=500)
    site.obeys(*site.cycle(361))
    assert not notified(site)
    assert ("setnice", C) in kinds(site), "its raise makes Slurm come to it"
    site.passes()
    site.cycle(362)
    assert notified(site)


def test_without_limits_another_reason_than_a_lack_of_resources_is_a_word_as_well() -> None:
    site = LateSite(on(A, "v"), queued(C), speeds={A: {"v100": 2}, C: {"v100": 4}})
    site.nodes.pop("k")
    site.enforces_limits = False
    site.obeys(*site.cycle(0))
    site.obeys(*site.cycle(360))
    assert not notified(site), "of a held job Slurm does not say since when it is eligible"
    site.change(C, eligible_time=NOW + 360, reason="Reservation")
    site.cycle(361)
    assert not notified(site)
    site.change(C, reason="Priority")
    site.cycle(362)
    assert notified(site)


def test_where_there_are_no_limits_and_it_asks_for_nodes_alone_no_word_is_awaited() -> None:
    for licences, at_once in (("", True), ("matlab", False)):
        site = LateSite(on(A, "v"), queued(C), speeds={A: {"v100": 2}, C: {"v100": 4}})
        site.nodes.pop("k")
        site.enforces_limits = False
        site.jobs[JobId(C)] = replace(site.jobs[JobId(C)], eligible_time=NOW - 50, licenses=licences)
        site.obeys(*site.cycle(0))
        assert site.memory.changes_of(Field.HOLD).keys() == {C}
        site.obeys(*site.cycle(360))
        assert notified(site) is at_once


NEWCOMER = JobId(11)
BOTH = Request(cpus=1, mem_per_node_mib=1, gres_per_node=(("gpu", 2),))


def beside_free() -> LateSite:
    """Return a site at 361 s: of the node's two GPUs A has one, and C has its turn on both."""
    site = LateSite(on(A, "v"), replace(queued(C), request=BOTH), speeds={A: {"v100": 2}, C: {"v100": 4}})
    site.nodes.pop("k")
    site.nodes["v"] = node("v", gres={"gpu:v100": 2})
    for at_s in (0, 360, 361):
        site.obeys(*site.cycle(at_s))
    assert (site.order(1).preemptor, site.victim().state) == (C, VictimState.PLANNED)
    return site


def come(site: LateSite, held: NodeShare) -> None:
    site.submits(replace(queued(NEWCOMER), request=Request(cpus=1, mem_per_node_mib=1)), like=A)
    site.starts(NEWCOMER, held, at_s=361)


@pytest.mark.parametrize("word", ["None", "Resources"])
@pytest.mark.parametrize(("gpus", "ends"), [({"gpu:v100": 1}, True), ({}, False)])
def test_an_order_ends_before_any_notice_where_what_was_free_beside_its_victims_is_taken(
    word: str, gpus: dict[str, int], ends: bool
) -> None:
    site = beside_free()
    come(site, share("v", 1, 1, gpus))
    site.change(C, reason=word)
    site.cycle(362)
    assert (site.order(1).ending is Ending.OVERTAKEN) is ends
    assert notified(site) is (word == "Resources" and not ends)
    if ends:
        assert (site.order(1).futile, site.victim().state) == (False, VictimState.SPARED)


def test_after_the_first_notice_what_was_taken_ends_no_order() -> None:
    site = beside_free()
    site.passes()
    site.obeys(*site.cycle(362))
    assert notified(site)
    come(site, share("v", 1, 1, {"gpu:v100": 1}))
    site.cycle(363)
    assert site.order(1).state is OrderState.OPEN


def test_of_two_turns_that_lack_one_gpu_the_first_keeps_its_place() -> None:
    site = two_turns()
    site.ends(B)
    come(site, share("v", 1, 1, {"gpu:v100": 1}))
    site.cycle(362)
    assert [site.order(order_id).ending for order_id in (1, 2)] == [None, Ending.OVERTAKEN]


def test_with_long_polls_a_turn_has_three_for_slurms_word() -> None:
    site = LateSite(on(A, "v"), queued(C), speeds={A: {"v100": 2}, C: {"v100": 4}})
    site.nodes.pop("k")
    site.longest_wait_s = 120.0
    site.obeys(*site.cycle(0))
    for at_s in (360, 480):
        site.obeys(*site.cycle(at_s))
        assert not notified(site)
    assert ("setnice", C) in kinds(site)
    site.passes()
    site.cycle(600)
    assert notified(site)


DOWN = "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions"


@pytest.mark.parametrize(
    ("word", "licences", "leaves"), [(DOWN, "matlab", False), (DOWN, "", True), ("Resources", "matlab", True)]
)
def test_that_nodes_are_down_or_reserved_hides_a_licence_that_the_job_lacks(
    word: str, licences: str, leaves: bool
) -> None:
    site = in_its_turn(as_submitted=lambda job: replace(job, licenses=licences))
    site.obeys(*site.cycle(361))
    site.change(C, reason=word)
    site.cycle(362)
    assert notified(site) is leaves


def test_what_a_victim_gives_back_that_ends_by_itself_is_counted_already() -> None:
    site = beside_free()
    come(site, share("v", 1, 1, {"gpu:v100": 1}))
    site.completing(A, JobState.COMPLETED)
    site.cycle(362)
    assert site.order(1).ending is Ending.OVERTAKEN


def test_a_users_own_job_that_is_ahead_on_the_node_would_have_what_is_freed_there() -> None:
    site = in_its_turn()
    mine = Request(cpus=1, mem_per_node_mib=1, gres_per_node=(("gpu", 1),), required_nodes=("v",))
    site.submits(replace(queued(NEWCOMER), request=mine, reason="Resources", priority=10**6), like=A)
    for at_s in range(361, 461, 10):
        site.change(C, reason=SECOND_THERE)
        site.obeys(*site.cycle(at_s))
        assert not notified(site)
    assert site.order(1).ending is Ending.NOT_LOOKED_AT
