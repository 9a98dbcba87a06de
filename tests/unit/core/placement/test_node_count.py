"""TE jobs that leave their number of nodes open: the number is planned, and set when they are bound."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.change import Change
from tesched_core.model.cluster import Partition, Request, SlurmSettings
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field, Nodes
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.refused import RefusedChange
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.placement.capacity_of import capacity_of
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.modelled import with_whole_tasks
from tesched_core.placement.node_count import MOST_NUMBERS, demand_on, demands_if_fixed, is_open
from tesched_core.policy import MakeRoom, Proposal, View
from tesched_policies.candidates import can_be_fixed, candidates_of
from tesched_policies.fitgpp import FitGpp

from tests.builders import NOW, cluster, node, running, share, traits, view_of, waiting

#: three GPUs for three tasks: no node has them by itself
THREE = Request(cpus=3, tasks=3, cpus_per_task=1, max_nodes=3, mem_per_node_mib=1, gres_per_job=(("gpu", 3),))
PAIRS = [node("n1", cpus=8, gres={"gpu": 2}), node("n2", cpus=8, gres={"gpu": 2})]
BOTH_FULL = [running(one, share(f"n{one}", 1, 0, {"gpu": 2})) for one in (1, 2)]


def plans(proposal: Proposal[None]) -> list[tuple[str, tuple[int, ...]]]:
    return [(",".join(one.nodes), one.victim_ids) for one in proposal.plans if isinstance(one, MakeRoom)]


def proposed(view: View) -> Proposal[None]:
    return FitGpp().propose(view, None)


def refused(proposal: Proposal[None]) -> list[RefusalCode]:
    return [one.code for one in proposal.refusals if one.job_id == 9]


def test_a_number_of_nodes_above_the_fewest_is_planned() -> None:
    assert plans(proposed(view_of(cluster(PAIRS, [*BOTH_FULL, waiting(9, THREE)])))) == [("n1,n2", (1, 2))]


def test_the_number_with_the_fewest_victims_is_taken() -> None:
    nodes = [node("n1", cpus=24), node("n2", cpus=12), node("n3", cpus=12)]
    jobs = [running(one, share("n1", 8)) for one in (1, 2, 3)]
    jobs += [running(4, share("n2", 6)), running(5, share("n3", 6))]
    eight = Request(cpus=24, tasks=8, cpus_per_task=3, min_cpus_per_node=3, max_nodes=2, mem_per_node_mib=1)
    # All of n1, or four tasks each on n2 and n3.
    assert plans(proposed(view_of(cluster(nodes, [*jobs, waiting(9, eight)])))) == [("n2,n3", (4, 5))]


REFUSED = RefusedChange(users=("alice",), last="alice", count=3, since=NOW, at=NOW, said="no")


@pytest.mark.parametrize(
    ("why", "change", "limits", "memory"),
    [
        ("no binding at all", {}, Limits(bind_for_s=0), Memory()),
        ("a job array", {"array_job_id": JobId(9)}, Limits(), Memory()),
        ("a part of a heterogeneous job", {"het_job_id": JobId(9)}, Limits(), Memory()),
        ("Slurm refuses node lists", {"user": "alice"}, Limits(), Memory(refused={Field.NODES: REFUSED})),
    ],
)
def test_where_it_can_not_be_set_no_victim_leaves_for_it(
    why: str, change: dict[str, JobId], limits: Limits, memory: Memory
) -> None:
    te = replace(waiting(9, THREE), **change)  # type: ignore[arg-type] # of their fields' types
    at_once = replace(traits(JobClass.BE), notice_signal="")
    snapshot = cluster(PAIRS, [*BOTH_FULL, te])
    snapshot = snapshot.with_traits(dict.fromkeys(snapshot.jobs, at_once))
    view = replace(view_of(snapshot), limits=limits, memory=memory)
    proposal = proposed(view)
    assert (plans(proposal), refused(proposal)) == ([], [RefusalCode.UNSUPPORTED]), why


def test_victims_that_save_for_longer_than_it_is_bound_leave_for_no_fixed_number() -> None:
    """Once it is bound no more its number of nodes is open again, and they would leave for nothing."""
    snapshot = cluster(PAIRS, [*BOTH_FULL, waiting(9, THREE)])
    for grace_s, planned in ((600.0, True), (601.0, False)):
        saving = snapshot.with_traits({job_id: traits(JobClass.BE, grace_s) for job_id in snapshot.jobs})
        proposal = proposed(view_of(saving))
        assert bool(plans(proposal)) is planned, grace_s
        assert refused(proposal) == ([] if planned else [RefusalCode.UNSUPPORTED])


def test_one_that_was_bound_before_is_bound_for_the_rest_alone() -> None:
    before = Change(
        job_id=JobId(9),
        field=Field.NODES,
        previous=Nodes(names=()),
        value=Nodes(names=("n1",)),
        at=NOW - 590,
        since=NOW - 590,
        restored=True,
    )
    snapshot = cluster(PAIRS, [*BOTH_FULL, waiting(9, THREE)])
    saving = snapshot.with_traits({job_id: traits(JobClass.BE, 30) for job_id in snapshot.jobs})
    memory = Memory(changes={Field.NODES: {JobId(9): before}})
    assert plans(proposed(replace(view_of(saving), memory=memory))) == []
    assert plans(proposed(view_of(saving))) == [("n1,n2", (1, 2))]


def test_beside_more_cpus_by_mincpus_the_number_stays_open() -> None:
    """26.05 says BadConstraints of 3 tasks with --mincpus=5 whose number of nodes was set to one."""
    full = [running(1, share("n1", 6)), running(2, share("n2", 6))]
    three = replace(THREE, gres_per_job=())
    for least, number in ((1, 1), (5, 0)):
        te = waiting(9, replace(three, min_cpus_per_node=least))
        view = view_of(cluster(PAIRS, [*full, te]))
        assert bool(candidates_of(te, view, view.capacity).fixed) is bool(number)
        assert can_be_fixed(te, view) is bool(number)


@pytest.mark.parametrize(
    ("release", "numbers"),
    [
        # four tasks of 3 CPUs: 5 CPUs on each of three nodes are more than 12, and Slurm would change that
        ("22.05.8", [1, 2]),
        ("26.05.5", []),
    ],
)
def test_the_number_is_set_while_mincpus_changes_no_cpus(release: str, numbers: list[int]) -> None:
    four = Request(cpus=12, tasks=4, cpus_per_task=3, min_cpus_per_node=5, max_nodes=4, mem_per_node_mib=1)
    snapshot = cluster(
        [node(f"n{one}", cpus=16) for one in range(4)], [waiting(9, four)], settings=SlurmSettings(release=release)
    )
    te, capacity = snapshot.jobs[JobId(9)], capacity_of(snapshot)
    assert [one.nodes for one in demands_if_fixed(te, snapshot, capacity)] == numbers
    assert [count for count in (1, 2, 3, 4) if is_open(te, release, count)] == numbers
    assert demand_on(te, 2, snapshot, capacity).nodes == (2 if numbers else 1)


def test_mincpus_on_each_of_several_nodes_is_planned_on_22_05() -> None:
    """Two tasks of 3 CPUs on each of two nodes: 6 CPUs, which are above --mincpus=5; one task: 5."""
    nodes = [node("n1", cpus=8), node("n2", cpus=8)]
    jobs = [running(1, share("n1", 2)), running(2, share("n2", 3))]
    four = Request(cpus=12, tasks=4, cpus_per_task=3, min_cpus_per_node=5, max_nodes=4, mem_per_node_mib=1)
    settings = SlurmSettings(release="22.05.8")
    assert plans(proposed(view_of(cluster(nodes, [*jobs, waiting(9, four)], settings=settings)))) == [("n1,n2", (2,))]
    two = replace(four, cpus=6, tasks=2, min_nodes=2, max_nodes=2)
    assert plans(proposed(view_of(cluster(nodes, [*jobs, waiting(9, two)], settings=settings)))) == [("n1,n2", ())]
    jobs[0] = running(1, share("n1", 4))
    assert plans(proposed(view_of(cluster(nodes, [*jobs, waiting(9, two)], settings=settings)))) == [("n1,n2", (1,))]


def test_nodes_of_its_own_are_among_those_that_are_planned() -> None:
    nodes = [*PAIRS, node("n3", cpus=8, gres={"gpu": 2})]
    own = replace(THREE, required_nodes=("n2",))
    # n3 is free, and n1 has one victim that would be enough with it
    assert plans(proposed(view_of(cluster(nodes, [*BOTH_FULL, waiting(9, own)])))) == [("n2,n3", (2,))]
    both = replace(own, required_nodes=("n1", "n2"))
    assert plans(proposed(view_of(cluster(nodes, [*BOTH_FULL, waiting(9, both)])))) == [("n1,n2", (1, 2))]


#: the GPU brings two CPUs, and the six tasks want six
FEW_CPUS = Request(cpus=6, tasks=6, max_nodes=2, mem_per_node_mib=1, gres_per_node=(("gpu", 1),))


def test_what_slurm_starts_with_a_fixed_number_alone_is_planned_for() -> None:
    settings = SlurmSettings(def_cpus_per_gpu=2, release="22.05.8")
    full = cluster(PAIRS[:1], [*BOTH_FULL[:1], waiting(9, FEW_CPUS)], settings=settings)
    assert plans(proposed(view_of(full))) == [("n1", (1,))]
    # On what is free it is raised alone, as Slurm may start it there by itself.
    free = proposed(view_of(cluster(PAIRS[:1], [waiting(9, FEW_CPUS)], settings=settings)))
    assert (plans(free), refused(free)) == ([("n1", ())], [])


def test_few_numbers_are_tried() -> None:
    snapshot = cluster(
        [node(f"n{one}") for one in range(9)],
        [waiting(9, replace(THREE, gres_per_job=(), tasks=9, cpus=9, max_nodes=9))],
    )
    found = demands_if_fixed(snapshot.jobs[JobId(9)], snapshot, capacity_of(snapshot))
    assert [one.nodes for one in found] == list(range(1, MOST_NUMBERS + 1))


def test_a_number_that_its_partition_does_not_give_is_not_planned() -> None:
    for limits, numbers in (({"max_nodes": 2}, [1, 2]), ({"min_nodes": 2}, [2, 3])):
        part = Partition(name="p", nodes=frozenset({"n1", "n2", "n3"}), **limits)  # type: ignore[arg-type] # numbers
        te = waiting(9, replace(THREE, gres_per_job=()))
        snapshot = cluster([node(f"n{one}") for one in (1, 2, 3)], [te], partitions=[part])
        found = demands_if_fixed(snapshot.jobs[JobId(9)], snapshot, capacity_of(snapshot))
        assert [one.nodes for one in found] == numbers


def test_a_job_without_a_number_gets_the_fewest_nodes_that_its_partition_gives() -> None:
    """Slurm starts -n1 and -n2 on three nodes in a partition of MinNodes=3 (22.05), -n2 so on 26.05, too."""
    nodes = [node(f"n{one}") for one in (1, 2, 3)]
    for tasks in (1, 2, 4):
        te = waiting(9, Request(cpus=tasks, tasks=tasks, cpus_per_task=1, max_nodes=tasks, mem_per_node_mib=1))
        part = Partition(name="p", nodes=frozenset({"n1", "n2", "n3"}), min_nodes=3)
        view = view_of(cluster(nodes, [te], partitions=[part]))
        found = candidates_of(te, view, view.capacity)
        assert [one.nodes for one in found.as_asked] == [3], tasks
        assert [one.nodes for one in found.fixed] == ([3] if tasks == 4 else []), tasks


def test_a_number_that_its_user_has_set_below_what_the_partition_gives_is_impossible() -> None:
    """PartitionNodeLimit: -N2 in a partition of MinNodes=3; -n2 starts on three nodes there."""
    two = Request(cpus=2, tasks=2, cpus_per_task=1, max_nodes=2, mem_per_node_mib=1)
    by_node = replace(two, tasks_per_node=1, min_nodes=2)
    for request, impossible in ((two, False), (replace(two, min_nodes=2), True), (by_node, True)):
        te = waiting(9, request)
        part = Partition(name="p", nodes=frozenset({"n1", "n2", "n3"}), min_nodes=3)
        view = view_of(cluster([node(f"n{one}") for one in (1, 2, 3)], [te], partitions=[part]))
        assert bool(candidates_of(te, view, view.capacity).impossible) is impossible, request


def test_a_partition_that_gives_fewer_nodes_than_it_wants_makes_it_impossible() -> None:
    te = waiting(9, Request(cpus=3, tasks=3, cpus_per_task=1, min_nodes=3, max_nodes=3, mem_per_node_mib=1))
    for most, impossible in ((3, False), (2, True)):
        part = Partition(name="p", nodes=frozenset({"n1", "n2", "n3"}), max_nodes=most)
        view = view_of(cluster([node(f"n{one}") for one in (1, 2, 3)], [te], partitions=[part]))
        assert bool(candidates_of(te, view, view.capacity).impossible) is impossible


def test_all_memory_or_a_default_of_gpus_is_read_for_the_fewest_nodes() -> None:
    te = waiting(9, replace(THREE, mem_per_node_mib=0, gres_per_node=(("gpu", 1),), gres_per_job=()))
    snapshot = cluster(PAIRS, [te], settings=SlurmSettings(def_mem_per_gpu_mib=100))
    found = demands_if_fixed(snapshot.jobs[JobId(9)], snapshot, capacity_of(snapshot))
    assert [one.nodes for one in found] == [1]
    named = replace(te, request=replace(te.request, mem_per_node_mib=None, mem_per_gres=(("gpu", 50),)))
    snapshot = cluster(PAIRS, [named], settings=SlurmSettings(def_mem_per_gpu_mib=100))
    found = demands_if_fixed(named, snapshot, capacity_of(snapshot))
    assert [one.nodes for one in found] == [1, 2]


def test_what_it_takes_of_its_orders_nodes_is_known_before_it_is_bound() -> None:
    snapshot = cluster(PAIRS, [waiting(9, FEW_CPUS)], settings=SlurmSettings(def_cpus_per_gpu=2, release="22.05.8"))
    capacity, te = capacity_of(snapshot), snapshot.jobs[JobId(9)]
    assert demand_on(te, 1, snapshot, capacity).per_node.tolist()[:3] == [6, 1, 1]
    with pytest.raises(UnsupportedRequestError):
        demand_on(replace(te, array_tasks="1-2"), 1, snapshot, capacity)


def test_mincpus_is_a_multiple_of_a_tasks_cpus_on_26_05() -> None:
    request = Request(cpus=4, cpus_per_task=4, min_cpus_per_node=5)
    assert with_whole_tasks(request, "26.05.5").min_cpus_per_node == 8
    assert with_whole_tasks(request, "22.05.8").min_cpus_per_node == 5
    assert with_whole_tasks(replace(request, cpus_per_task=1), "26.05.5").min_cpus_per_node == 5
