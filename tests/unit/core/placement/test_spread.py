"""Tasks that are spread unevenly over nodes, as Slurm spreads them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tesched_core.model.cluster import Node, Request
from tesched_core.model.decision import RefusalCode
from tesched_core.model.resources import JobId
from tesched_core.placement.capacity_of import capacity_of
from tesched_core.placement.demand import demand_of
from tesched_core.placement.spread import _counts, share_on
from tesched_core.policy import MakeRoom, Proposal
from tesched_policies.fitgpp import FitGpp

from tests.builders import cluster, node, running, share, view_of, waiting

#: 5, 2 and 2 of these tasks fit on them
NODES = [node("n1", cpus=16), node("n2", cpus=8), node("n3", cpus=8)]
EIGHT = Request(cpus=24, tasks=8, cpus_per_task=3, min_cpus_per_node=3, max_nodes=8, mem_per_node_mib=1)


def plans(proposal: Proposal[None]) -> list[tuple[str, tuple[int, ...]]]:
    """Return nodes and victims."""
    return [(",".join(one.nodes), one.victim_ids) for one in proposal.plans if isinstance(one, MakeRoom)]


def test_each_node_takes_as_many_tasks_as_fit() -> None:
    assert plans(FitGpp().propose(view_of(cluster(NODES, [waiting(9, EIGHT)])), None)) == [("n1,n2,n3", ())]


def test_victims_go_where_the_tasks_need_it() -> None:
    jobs = [running(1, share("n1", 14)), running(2, share("n2", 8)), running(3, share("n3", 2)), waiting(9, EIGHT)]
    # 5 tasks on n1, 2 on n2 and one on n3, beside whatever runs there
    assert plans(FitGpp().propose(view_of(cluster(NODES, jobs)), None)) == [("n1,n2,n3", (1, 2))]


def test_an_even_share_comes_first() -> None:
    nodes = [*NODES, node("n4", cpus=16)]
    jobs = [running(job_id, share(f"n{job_id}", 16 if job_id in {1, 4} else 8)) for job_id in (1, 2, 3, 4)]
    # 4 tasks on each of two nodes, not 5, 2 and 1 on three
    assert plans(FitGpp().propose(view_of(cluster(nodes, [*jobs, waiting(9, EIGHT)])), None)) == [("n1,n4", (1, 4))]


@pytest.mark.parametrize(
    "request_",
    [
        replace(EIGHT, max_nodes=2),
        replace(EIGHT, min_nodes=4),
        replace(EIGHT, tasks=10, cpus=30),
        replace(EIGHT, tasks_per_node=3),
        replace(EIGHT, excluded_nodes=("n3",)),
    ],
)
def test_what_slurm_would_not_start_so_is_not_planned(request_: Request) -> None:
    jobs = [running(1, share("n1", 16)), waiting(9, request_)]
    proposal = FitGpp().propose(view_of(cluster(NODES, jobs)), None)
    assert plans(proposal) == []
    assert [one.code for one in proposal.refusals if one.job_id == 9] == [RefusalCode.IMPOSSIBLE]


def test_nodes_with_different_numbers_of_threads_are_not_mixed() -> None:
    """Slurm leaves 3 tasks waiting on a node of two threads a core with 6 CPUs free and one of one with 1."""
    two = replace(node("n1", cpus=6), sockets=1, cores_per_socket=3, threads_per_core=2)
    one = replace(node("n2", cpus=4), sockets=1, cores_per_socket=4, threads_per_core=1)
    nine = Request(cpus=9, tasks=9, min_nodes=2, max_nodes=2, mem_per_node_mib=1)
    jobs = [running(1, share("n1", 6)), running(2, share("n2", 3)), waiting(9, nine)]
    assert plans(FitGpp().propose(view_of(cluster([two, one], jobs)), None)) == []
    alike = replace(one, sockets=1, cores_per_socket=2, threads_per_core=2)
    assert plans(FitGpp().propose(view_of(cluster([two, alike], jobs)), None)) == [("n1,n2", (2, 1))]


def test_tasks_that_fill_cores_are_spread_over_nodes_with_any_number_of_threads() -> None:
    two = replace(node("n1", cpus=8), sockets=1, cores_per_socket=4, threads_per_core=2)
    one = replace(node("n2", cpus=5), sockets=1, cores_per_socket=5, threads_per_core=1)
    six = Request(cpus=12, tasks=6, cpus_per_task=2, min_nodes=2, max_nodes=2, mem_per_node_mib=1)
    jobs = [running(1, share("n1", 2)), waiting(9, six)]
    assert plans(FitGpp().propose(view_of(cluster([two, one], jobs)), None)) == [("n1,n2", (1,))]
    for other in (replace(six, threads_per_core=1), replace(six, cpus=18, cpus_per_task=3)):
        large = [replace(two, total=replace(two.total, cpus=16), cores_per_socket=8), one]
        proposal = FitGpp().propose(view_of(cluster(large, [waiting(9, other)])), None)
        assert plans(proposal) == []


def test_tasks_of_several_gpus_are_spread_evenly_alone() -> None:
    nodes = [node("n1", gres={"gpu": 4}), node("n2", gres={"gpu": 2})]
    three = Request(cpus=3, tasks=3, min_nodes=2, max_nodes=2, mem_per_node_mib=1, gres_per_task=(("gpu", 2),))
    assert plans(FitGpp().propose(view_of(cluster(nodes, [waiting(9, three)])), None)) == []
    with_one = replace(three, gres_per_task=(("cpu", 3), ("gpu", 1)), tasks=5, cpus=5)
    assert plans(FitGpp().propose(view_of(cluster(nodes, [waiting(9, with_one)])), None)) == [("n1,n2", ())]


def test_whole_nodes_of_different_sizes() -> None:
    jobs = [running(1, share("n1", 1)), waiting(9, replace(EIGHT, exclusive=True))]
    assert plans(FitGpp().propose(view_of(cluster(NODES, jobs)), None)) == [("n1,n2,n3", (1,))]


def test_required_nodes_are_among_them() -> None:
    nodes = [*NODES, node("n4", cpus=5)]
    request = replace(EIGHT, required_nodes=("n4",))
    jobs = [running(4, share("n4", 5)), waiting(9, request)]
    assert plans(FitGpp().propose(view_of(cluster(nodes, jobs)), None)) == [("n1,n2,n4", (4,))]


def test_whole_cores_and_devices_of_each_task_count() -> None:
    def with_gpus(name: str, cpus: int, gpus: int) -> Node:
        shape = {"sockets": 1, "cores_per_socket": cpus // 4, "threads_per_core": 4}
        return replace(node(name, cpus=cpus, gres={"gpu": gpus}), **shape)  # type: ignore[arg-type] # numbers

    # A task that fills a core, and holds its memory four times
    request = Request(cpus=16, tasks=4, cpus_per_task=4, min_cpus_per_node=4, max_nodes=4, gres_per_task=(("gpu", 1),))
    request = replace(request, mem_per_cpu_mib=10)
    nodes = [with_gpus("n1", 32, 3), with_gpus("n2", 4, 1)]
    jobs = [running(1, share("n2", 0, 0, {"gpu": 1})), waiting(9, request)]
    snapshot = cluster(nodes, jobs)
    assert plans(FitGpp().propose(view_of(snapshot), None)) == [("n1,n2", (1,))]
    capacity = capacity_of(cluster(nodes, [waiting(9, request)]))
    demand = demand_of(snapshot.jobs[JobId(9)], snapshot, capacity)
    assert share_on(demand, [0, 1], capacity.free)[:, :3].tolist() == [[12, 120, 3], [4, 40, 1]]


def test_cores_that_tasks_share_are_taken_whole() -> None:
    two = replace(node("n1", cpus=6), sockets=1, cores_per_socket=3, threads_per_core=2)
    one = replace(node("n2", cpus=2), sockets=1, cores_per_socket=1, threads_per_core=2)
    request = Request(cpus=6, tasks=6, min_nodes=2, max_nodes=2, mem_per_cpu_mib=10)
    snapshot = cluster([two, one], [waiting(9, request)])
    capacity = capacity_of(snapshot)
    demand = demand_of(snapshot.jobs[JobId(9)], snapshot, capacity)
    # five tasks take three cores, and memory for six CPUs; one takes one
    assert share_on(demand, [0, 1], capacity.free)[:, :2].tolist() == [[6, 60], [2, 20]]


def test_what_it_takes_of_its_nodes_is_an_even_share_where_that_fits() -> None:
    snapshot = cluster([node("n1"), node("n2")], [waiting(9, replace(EIGHT, min_nodes=2))])
    capacity = capacity_of(snapshot)
    demand = demand_of(snapshot.jobs[JobId(9)], snapshot, capacity)
    assert share_on(demand, [0, 1], capacity.free)[:, 0].tolist() == [12, 12]
    less = capacity.changed([0], np.array([[-22, 0]]))
    assert share_on(demand, [0, 1], less.free)[:, 0].tolist() == [3, 21]


def test_no_victim_leaves_on_a_node_that_slurm_may_leave_out() -> None:
    """8 tasks of 4 CPUs: 2 on each of four nodes, but three of these nodes are enough (3, 3 and 2)."""
    nodes = [node("a1", cpus=8), node("b1", cpus=8), node("c1", cpus=12), node("c2", cpus=12)]
    jobs = [running(number, share(one.name, 5)) for number, one in enumerate(nodes, 1)]
    request = Request(cpus=32, tasks=8, cpus_per_task=4, min_cpus_per_node=4, max_nodes=8, mem_per_node_mib=1)
    assert plans(FitGpp().propose(view_of(cluster(nodes, [*jobs, waiting(9, request)])), None)) == [
        ("a1,c1,c2", (3, 4, 1))
    ]


def test_a_required_node_that_is_not_needed_costs_no_victim() -> None:
    """Slurm 26.05 starts 3 tasks of 3 CPUs on n2 alone, though --nodelist=n1 wants n1 (2 tasks), too."""
    nodes = [node("n1", cpus=8), node("n2", cpus=16)]
    jobs = [running(1, share("n1", 8)), running(2, share("n2", 16))]
    request = Request(
        cpus=9, tasks=3, cpus_per_task=3, min_cpus_per_node=3, max_nodes=3, mem_per_node_mib=1, required_nodes=("n1",)
    )
    # A part of a heterogeneous job can't be given a number of nodes.
    te = replace(waiting(9, request), het_job_id=JobId(9))
    proposal = FitGpp().propose(view_of(cluster(nodes, [*jobs, te])), None)
    assert plans(proposal) == []
    assert [one.code for one in proposal.refusals if one.job_id == 9] == [RefusalCode.UNSUPPORTED]
    fixed = replace(request, min_nodes=2, max_nodes=2)
    assert plans(FitGpp().propose(view_of(cluster(nodes, [*jobs, waiting(9, fixed)])), None)) == [("n1,n2", (1, 2))]


def test_what_does_not_fit_yet_goes_where_a_victim_has_to_leave_anyway() -> None:
    # One on each node, two more on the second, where they fit now; the first can have the last once it is left.
    assert _counts(5, np.array([0, 3]), np.array([4, 5])) == [2, 3]
