"""The bound and where jobs may start: nodes of one user, reservations, and what holds for jobs bound to nodes alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import Notify, holds, kind_of
from tesched_core.model.bystander import ended
from tesched_core.model.cluster import Job, NodeShare, Partition, Request, Reservation
from tesched_core.model.job_memory import Past
from tesched_core.model.limits import Bound, Limits
from tesched_core.model.resources import JobId

from tests.builders import NOW, node, nodes_set, remembered, running, share, waiting
from tests.scenarios.driver import BE, TE, Driver

WAITS, FIRST, OTHER = JobId(20), 8, 7
LIMITS = Limits(bound=Bound(slowdown=1.5, te_time_limit_s=600))
FEW = Request(cpus=4, mem_per_node_mib=1)
ALONE = replace(FEW, sharing="USER")
#: two GPUs on each of two nodes, and four in all
BY_NODE_AND_IN_ALL = Request(
    tasks=2,
    cpus=2,
    min_nodes=2,
    max_nodes=2,
    mem_per_node_mib=1,
    gres_per_job=(("gpu", 4),),
    gres_per_node=(("gpu", 2),),
)
ALL_GPUS = (("gpu", 4),)


def site(first: Request, waits: Request, *jobs: Job, exclusive_user: bool = False) -> Driver:
    """Return a node that a TE job has left mostly free, and a best-effort job of another user that waits for it."""
    drive = Driver(
        [node("n1")],
        [
            waiting(FIRST, first, time_limit_s=600, user="ada", submit_time=NOW - 5),
            waiting(WAITS, waits, user="bob", eligible_time=NOW - 10, submit_time=NOW - 10),
            *jobs,
        ],
        limits=LIMITS,
        run_times={WAITS: 100},
        graces={WAITS: 0},
    )
    partition = Partition(name="p", nodes=frozenset({"n1"}), exclusive_user=exclusive_user)
    drive.start = replace(drive.start, partitions={"p": partition})
    drive.cycle(0)
    drive.starts(FIRST, share("n1", 4), at_s=0)
    drive.cycle(1)
    return drive


def delayed_s(drive: Driver) -> float:
    one = drive.memory.bystanders.get(WAITS)
    return 0.0 if one is None else ended(one, NOW + drive.at_s).delayed_s


@pytest.mark.parametrize(
    ("first", "waits", "exclusive_user"), [(ALONE, FEW, False), (FEW, ALONE, False), (FEW, FEW, True)]
)
def test_te_job_is_in_the_way_where_it_or_the_other_has_nodes_for_its_user_alone(
    first: Request, waits: Request, exclusive_user: bool
) -> None:
    drive = site(first, waits, exclusive_user=exclusive_user)
    drive.cycle(300)
    assert delayed_s(drive) == 300
    drive.cycle(700)
    drive.submits(waiting(TE, FEW, time_limit_s=100, user="ada"), like=FIRST)
    drive.cycle(730)
    assert [one.job_id for one in drive.decision.actions if holds(one)] == [TE]


def test_te_run_between_two_polls_counts_though_another_job_keeps_the_node_for_its_user_by_then() -> None:
    drive = site(ALONE, FEW)
    drive.ends(FIRST)
    drive.cycle(2)
    before_s = delayed_s(drive)
    drive.submits(waiting(TE, ALONE, time_limit_s=100, user="ada"), like=FIRST)
    drive.starts(TE, share("n1", 4), at_s=12)
    drive.at_s = 20
    drive.ends(TE)
    drive.submits(waiting(OTHER, ALONE, user="eve"), like=WAITS)
    drive.starts(OTHER, share("n1", 4), at_s=25)
    drive.cycle(32)
    # From 12 to 20, and the Epilog.
    assert delayed_s(drive) - before_s == 10


def test_te_job_is_in_no_ones_way_where_a_best_effort_job_keeps_the_node_for_its_user() -> None:
    drive = site(FEW, FEW, replace(running(OTHER, share("n1", 4), user="eve"), request=ALONE))
    drive.cycle(300)
    assert delayed_s(drive) == 0


def test_each_time_limit_is_no_kind_of_its_own_where_there_is_a_reservation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tesched_core.orders.bystanders.MOST_KINDS", 2)
    ahead = [
        waiting(30 + more, cpus=16, user="eve", eligible_time=NOW - 5, time_limit_s=600 + more, priority=200)
        for more in range(4)
    ]
    last = waiting(WAITS, cpus=16, user="bob", eligible_time=NOW - 5, time_limit_s=60)
    later = Reservation(name="m", nodes=frozenset({"n1"}), start_time=NOW + 86_400, end_time=NOW + 90_000)
    drive = Driver(
        [node("n1")],
        [waiting(TE, cpus=32), *ahead, last],
        run_times={WAITS: 1000, **{job.job_id: 1000 for job in ahead}},
        reservations=[later],
        limits=LIMITS,
    )
    drive.cycle(0)
    drive.starts(TE, share("n1", 32), at_s=0)
    drive.cycle(1)
    assert WAITS in drive.memory.bystanders


def near_on_n2(drive: Driver) -> None:
    """Let a best-effort job wait for all of n2 that TE jobs may delay by no more."""
    request = Request(cpus=32, mem_per_node_mib=1, excluded_nodes=("n1",))
    drive.submits(waiting(WAITS, request, user="bob", eligible_time=NOW - 900, submit_time=NOW - 900), like=OTHER)
    past = Past(submitted_at=NOW - 900, ran_s=0, delayed_s=860)
    drive.memory = remembered(drive.memory, WAITS, past=past)


def bound_to_n1(*jobs: Job) -> Driver:
    """Return a TE job that waits bound to n1, where BE saves its work; job OTHER fills n2, and is no victim."""
    be = running(BE, share("n1", 16), user="bob", start_time=NOW - 61)
    other = running(OTHER, share("n2", 32), requeueable=False, user="eve")
    te = waiting(TE, cpus=32, time_limit_s=60, user="ada")
    drive = Driver(
        [node("n1"), node("n2")],
        [be, other, te, *jobs],
        limits=LIMITS,
        graces={BE: 100},
        run_times={2: 1000},
        binds=True,
    )
    drive.obeys(*drive.cycle(0))
    assert [one.job_id for one in drive.order().victims] == [BE]
    assert drive.jobs[JobId(TE)].request.required_nodes == ("n1",)
    return drive


def test_te_job_is_held_before_it_is_set_free_of_the_nodes_that_kept_it_out_of_the_way() -> None:
    drive = bound_to_n1()
    near_on_n2(drive)
    assert drive.cycle(5) == ()
    drive.nodes["n1"] = replace(drive.nodes["n1"], flags=frozenset({"DRAIN"}))
    kinds = [kind_of(one) for one in drive.cycle(10) if one.job_id == TE]
    assert kinds.index("hold") < kinds.index("setnodes")


@pytest.mark.parametrize("is_near", [True, False])
def test_te_job_is_not_moved_into_the_way_when_its_resources_are_taken(is_near: bool) -> None:
    drive = bound_to_n1(waiting(2, cpus=16, user="eve"))
    drive.starts(2, share("n1", 16), at_s=4)
    drive.ends(OTHER)
    if is_near:
        near_on_n2(drive)
    actions = drive.cycle(5)
    assert [nodes.names for _, nodes in nodes_set(actions)] == ([] if is_near else [("n2",)])
    # On n1 it is in no one's way: there another victim may be notified.
    assert [one.job_id for one in actions if isinstance(one, Notify)] == ([2] if is_near else [])


def te_delays(drive: Driver, *shares: NodeShare) -> float:
    """Return by how much a TE run of 700 s on these delays the best-effort job that waits."""
    drive.cycle(0)
    drive.starts(FIRST, *shares, at_s=0)
    drive.cycle(1)
    drive.cycle(700)
    return delayed_s(drive)


@pytest.mark.parametrize("exact", [("n3", "n4"), ()], ids=["two nodes with just so many", "none"])
def test_job_that_tesched_binds_to_no_nodes_waits_for_those_with_more_devices_than_it_wants_by_node(
    exact: tuple[str, ...],
) -> None:
    drive = Driver(
        [*(node(name, gres={"gpu": 4}) for name in ("n1", "n2")), *(node(name, gres={"gpu": 2}) for name in exact)],
        [
            waiting(FIRST, Request(cpus=1, mem_per_node_mib=1, gres_per_node=ALL_GPUS), time_limit_s=600, user="ada"),
            waiting(WAITS, BY_NODE_AND_IN_ALL, user="bob", eligible_time=NOW - 10, submit_time=NOW - 10),
            *(running(30 + number, share(name, 32), user="eve") for number, name in enumerate(exact)),
        ],
        limits=LIMITS,
        run_times={WAITS: 100},
        graces={WAITS: 0},
    )
    assert te_delays(drive, share("n1", 1, 1, {"gpu": 4})) == 700
    request = Request(cpus=1, mem_per_node_mib=1, gres_per_node=ALL_GPUS, excluded_nodes=exact)
    drive.submits(waiting(TE, request, time_limit_s=100, user="ada"), like=FIRST)
    drive.cycle(730)
    assert [one.job_id for one in drive.decision.actions if holds(one)] == [TE]


@pytest.mark.parametrize(
    ("te_cpus", "other_cpus", "most_cpus"),
    [(16, 16, None), (4, 0, None), (16, 0, 16)],
    ids=["no part of the node is free", "not all of it is free", "no whole node is ever given"],
)
def test_job_that_slurm_may_give_a_part_of_a_node_or_a_whole_one_waits_for_either(
    te_cpus: int, other_cpus: int, most_cpus: int | None
) -> None:
    drive = Driver(
        [node("n1"), node("n2")],
        [
            waiting(FIRST, cpus=te_cpus, time_limit_s=600, user="ada"),
            waiting(WAITS, FEW, user="bob", eligible_time=NOW - 10, partitions=("p", "whole"), submit_time=NOW - 10),
            running(OTHER, share("n2", 32), user="eve"),
            *([running(9, share("n1", other_cpus), user="eve")] if other_cpus else []),
        ],
        limits=LIMITS,
        run_times={WAITS: 100},
        graces={WAITS: 0},
    )
    known = [
        Partition(name="p", nodes=frozenset({"n1"}), max_cpus_per_node=most_cpus),
        Partition(name="whole", nodes=frozenset({"n2"}), oversubscribe="EXCLUSIVE"),
    ]
    drive.start = replace(drive.start, partitions={one.name: one for one in known})
    assert te_delays(drive, share("n1", te_cpus)) == 700
    drive.submits(waiting(TE, FEW, time_limit_s=100, user="ada"), like=FIRST)
    drive.cycle(730)
    assert [one.job_id for one in drive.decision.actions if holds(one)] == [TE]
