"""A job that moves is overtaken by those alone that have taken what it lacks on its new nodes.

As in `test_gavel_returns.py`: A is to leave k for v, which was free, and is back in the queue. A newcomer then starts.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tesched_core.context import CycleContext
from tesched_core.model.cluster import NodeShare, Request, Reservation
from tesched_core.model.order import Ending
from tesched_core.model.resources import JobId, Tres, with_bare_names
from tesched_core.orders.overtaken import overtaken
from tesched_core.placement.columns_of import columns_of

from tests.builders import NODE_CPUS, NODE_MEM_MIB, NOW, node, share, waiting
from tests.scenarios.test_gavel_returns import NEWCOMER, ON_V, moving, put_back
from tests.scenarios.test_gavel_rounds import A, B, C, Site, on, queued

#: it takes nothing that A lacks then
SMALL = share("v", 1, 1)


def came(site: Site, held: NodeShare = SMALL, *, at_s: float = 20.0, job_id: int = NEWCOMER) -> None:
    site.submits(waiting(job_id, Request(cpus=1, mem_per_node_mib=1)), like=A)
    site.starts(job_id, held, at_s=at_s)


@pytest.mark.parametrize(
    "held",
    [ON_V, share("v", NODE_CPUS, 1), share("v", 1, NODE_MEM_MIB)],
    ids=["the GPU", "all CPUs", "all memory"],
)
def test_by_what_takes_any_of_what_it_wants(held: NodeShare) -> None:
    site = moving()
    came(site, held)
    site.cycle(21)
    assert site.order(1).ending is Ending.OVERTAKEN


def test_not_as_a_node_does_not_respond() -> None:
    site = moving()
    came(site)
    site.nodes["v"] = replace(site.nodes["v"], flags=frozenset({"NOT_RESPONDING"}))
    site.cycle(21)
    assert site.open_orders() == [1]


def test_not_as_a_reservation_keeps_the_node() -> None:
    site = moving()
    came(site)
    kept = Reservation(name="x", start_time=NOW, end_time=NOW + 1e6, nodes=frozenset({"v"}), users=frozenset({"x"}))
    site.start = replace(site.start, reservations={kept.name: kept})
    site.cycle(21)
    assert site.open_orders() == [1]


def test_not_by_its_own_start_that_its_node_shows_first() -> None:
    site = moving()
    site.nodes["v"] = replace(node("v", gres={"gpu:v100": 2}), held=Tres(gres=with_bare_names([("gpu:v100", 2)])))
    came(site, ON_V)
    site.cycle(21)
    assert site.open_orders() == [1]


def test_the_one_that_took_it_is_named_alone() -> None:
    site = moving()
    came(site, job_id=B)
    came(site, ON_V)
    site.cycle(21)
    (said,) = [one.text for one in site.decision.transitions if one.after == "settling"]
    assert said.startswith(f"job {NEWCOMER} has started on v")


@pytest.mark.parametrize(("before_s", "ends"), [(1.5, True), (3.0, False)])
def test_slurms_clock_may_be_behind_by_two_seconds(before_s: float, ends: bool) -> None:
    site = moving()
    came(site, ON_V, at_s=-before_s)
    site.cycle(21)
    assert (site.order(1).ending is Ending.OVERTAKEN) == ends


def test_a_shard_is_a_part_of_its_gpu() -> None:
    site = moving()
    site.nodes["v"] = node("v", gres={"gpu:v100": 1, "shard": 2})
    came(site, share("v", 1, 1, {"shard": 1}))
    site.cycle(21)
    assert site.order(1).ending is Ending.OVERTAKEN


@pytest.mark.parametrize(("user", "sharing", "ends"), [("x", "USER", True), ("x", "", False), ("ada", "USER", False)])
def test_by_what_keeps_the_node_for_another_user(user: str, sharing: str, ends: bool) -> None:
    site = moving()
    site.change(A, user="ada")
    came(site)
    # It fits nowhere then, for another reason.
    site.nodes["v"] = replace(site.nodes["v"], flags=frozenset({"NOT_RESPONDING"}))
    site.change(NEWCOMER, user=user, request=replace(site.jobs[JobId(NEWCOMER)].request, sharing=sharing))
    site.cycle(21)
    assert (site.order(1).ending is Ending.OVERTAKEN) is ends


def test_by_any_of_another_user_where_its_own_node_is_to_be_its_users_alone() -> None:
    site = moving()
    site.change(A, user="ada", request=replace(site.jobs[JobId(A)].request, sharing="USER"))
    came(site)
    site.change(NEWCOMER, user="x")
    site.cycle(21)
    assert site.order(1).ending is Ending.OVERTAKEN


def test_by_any_where_it_is_not_known_what_it_lacks() -> None:
    site = moving()
    site.change(A, request=replace(site.jobs[JobId(A)].request, not_modelled=("--new=1",)))
    came(site)
    site.cycle(21)
    assert site.order(1).ending is Ending.OVERTAKEN


def test_by_the_jobs_alone_where_a_simulator_has_columns_of_its_own() -> None:
    site = moving()
    came(site, ON_V)
    snapshot = site.snapshot(21)
    columns = columns_of(snapshot)
    capacity = columns.capacity
    total, free = (np.pad(held, ((0, 0), (0, 1))) for held in (capacity.total, capacity.free))
    columns.capacity = replace(capacity, resources=(*capacity.resources, "gpu:none"), total=total, free=free)
    context = CycleContext.of(site.memory, snapshot, columns, site.limits)
    assert overtaken(site.order(1), snapshot.jobs[JobId(A)], context)


def test_its_next_turn_waits_where_others_have_left_for_it() -> None:
    site = Site(on(A, "v"), queued(C), speeds={A: {"v100": 2}, C: {"v100": 4}})
    site.nodes.pop("k")
    site.obeys(*site.cycle(0))
    site.obeys(*site.cycle(360))
    site.obeys(*site.cycle(361))
    put_back(site, A, 365)
    site.obeys(*site.cycle(366))
    came(site, ON_V, at_s=367)
    site.obeys(*site.cycle(368))
    assert (site.order(1).ending, site.order(1).preemptor) == (Ending.OVERTAKEN, C)
    assert site.memory.job(JobId(C)).retry_at == NOW + 368 + site.limits.retry_after_s
    site.ends(NEWCOMER)
    site.cycle(370)
    assert site.open_orders() == [], "A has left for nothing, and it may be so again"


def test_it_may_have_another_turn_at_once_where_it_alone_has_left() -> None:
    site = moving()
    came(site, ON_V)
    site.cycle(21)
    assert (site.order(1).ending, site.memory.job(JobId(A)).retry_at) == (Ending.OVERTAKEN, None)
