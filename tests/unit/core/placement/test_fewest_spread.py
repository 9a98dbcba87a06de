"""Nodes on which unevenly spread tasks cost the fewest victims."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tesched_core.model.cluster import Request, SlurmSettings
from tesched_core.placement.columns_of import columns_of
from tesched_core.placement.fewest_spread import (
    MOST_JOBS,
    MOST_SETS,
    MOST_STATES,
    MOST_VICTIMS,
    Reach,
    fewest_victims,
    reach_of,
)
from tesched_core.placement.uneven import Uneven
from tesched_core.policy import MakeRoom, Proposal
from tesched_policies.fitgpp import FitGpp

from tests.builders import cluster, node, running, share, view_of, waiting

EIGHT = Request(cpus=8, tasks=8, min_nodes=2, max_nodes=2, mem_per_node_mib=1)


def plans(proposal: Proposal[None]) -> list[tuple[str, tuple[int, ...]]]:
    return [(",".join(one.nodes), one.victim_ids) for one in proposal.plans if isinstance(one, MakeRoom)]


def uneven(nodes: int, *, tasks: int, least: int = 2, most: int = 2, devices: int = 0) -> Uneven:
    """Return tasks of one CPU each, on nodes with CPUs and memory; GPUs in all are the third resource."""

    def takes_of(count: int, gpus: int) -> tuple[np.ndarray, np.ndarray]:
        takes = np.tile(np.array([count, 0, gpus][: 3 if devices else 2], dtype=np.int64), (nodes, 1))
        return takes, takes

    return Uneven(
        tasks=tasks,
        least=least,
        most=most,
        allowed=np.ones(nodes, dtype=np.bool_),
        kinds=np.zeros(nodes, dtype=np.intp),
        takes_of=takes_of,
        devices=devices,
        columns=(2,) if devices else (),
    )


def test_a_node_on_which_less_can_be_freed_costs_fewer_victims() -> None:
    """The worked example; of n3 one CPU is not to be had."""
    nodes = [node("n1", cpus=6), node("n2", cpus=6), node("n3", cpus=4)]
    jobs = [
        running(1, share("n1", 1)),
        *(running(job_id, share("n2", 2)) for job_id in (2, 3, 4)),
        running(5, share("n3", 3)),
        running(6, share("n3", 1)),
    ]
    snapshot = cluster(nodes, [*jobs, waiting(9, EIGHT)], exempt=(6,))
    assert plans(FitGpp().propose(view_of(snapshot), None)) == [("n1,n3", (5,))]


def test_gpus_in_all_are_spread_by_victims_too() -> None:
    """--gpus=4: n1 has 2 free and n3 1, and 2 without one job; on n2 four jobs hold one each."""
    nodes = [node(name, cpus=4, gres={"gpu": gpus}) for name, gpus in (("n1", 2), ("n2", 4), ("n3", 2))]
    jobs = [
        *(running(job_id, share("n2", 1, 0, {"gpu": 1})) for job_id in (1, 2, 4, 5)),
        running(3, share("n3", 4, 0, {"gpu": 1})),
    ]
    request = Request(cpus=3, tasks=3, min_nodes=2, max_nodes=2, mem_per_node_mib=1, gres_per_job=(("gpu", 4),))
    snapshot = cluster(nodes, [*jobs, waiting(9, request)], settings=SlurmSettings(release="22.05.8"))
    assert plans(FitGpp().propose(view_of(snapshot), None)) == [("n1,n3", (3,))]


#: CPUs and GPUs of nodes, of which only n1 and n2 have enough for 9 tasks and 9 GPUs: not those with most CPUs, n1 and
#: n4, nor those with most GPUs, n3 and n2
BOTH = (("n1", 7, 1), ("n2", 3, 8), ("n3", 1, 9), ("n4", 5, 1))


@pytest.mark.parametrize(("held", "gpus"), [(0, 9), (1, 9), (MOST_VICTIMS + 1, 9), (0, 10)])
def test_nodes_of_which_none_has_most_of_both_are_found(held: int, gpus: int) -> None:
    """`held` GPUs of n2 are those of jobs, more than its levels in the last but one."""
    nodes = [node(name, cpus=cpus, gres={"gpu": count}) for name, cpus, count in BOTH]
    jobs = [running(one, share("n2", 0, 0, {"gpu": 1})) for one in range(1, held + 1)]
    request = Request(cpus=9, tasks=9, min_nodes=2, max_nodes=2, mem_per_node_mib=1, gres_per_job=(("gpu", gpus),))
    snapshot = cluster(nodes, [*jobs, waiting(9, request)], settings=SlurmSettings(release="22.05.8"))
    found = plans(FitGpp().propose(view_of(snapshot), None))
    assert found == ([("n1,n2", tuple(range(1, held + 1)))] if gpus == 9 else [])


def test_the_reach_is_that_of_the_best_set() -> None:
    """One job has 3 of 4 CPUs, another the GPU: without that one task fits, without both 4 do."""
    jobs = [running(1, share("n1", 3)), running(2, share("n1", 0, 0, {"gpu": 1})), running(3, share("n2", 1))]
    columns = columns_of(cluster([node("n1", cpus=4, gres={"gpu": 1}), node("n2", cpus=4)], jobs))
    by_cpu = uneven(2, tasks=4)
    rows, pool = np.array([0, 1]), np.ones(3, dtype=np.bool_)

    def with_gpu(count: int, _: int) -> tuple[np.ndarray, np.ndarray]:
        takes = np.tile(np.array([count, 0, 1], dtype=np.int64), (2, 1))
        return takes, takes

    reach = reach_of(replace(by_cpu, takes_of=with_gpu), rows, columns.capacity.free, columns.running, pool)
    assert reach.tasks.tolist()[:4] == [[0, 0], [1, 0], [4, 0], [4, 0]]

    def without_gpu(count: int, _: int) -> tuple[np.ndarray, np.ndarray]:
        takes = with_gpu(count, 0)[0] * [1, 1, 0]
        return takes, takes

    by_cpu = replace(by_cpu, takes_of=without_gpu)
    assert reach_of(by_cpu, rows, columns.capacity.free, columns.running, pool).tasks.tolist()[:2] == [[1, 3], [4, 4]]
    without = reach_of(by_cpu, rows, columns.capacity.free, columns.running, np.zeros(3, dtype=np.bool_))
    assert without.tasks.tolist() == [[1, 3]] * (MOST_VICTIMS + 1)


def test_of_many_jobs_the_largest_are_added_up() -> None:
    jobs = [running(job_id, share("n1", 1 + job_id % 2)) for job_id in range(1, 21)]
    columns = columns_of(cluster([node("n1", cpus=30)], jobs))
    reach = reach_of(
        uneven(1, tasks=8), np.array([0]), columns.capacity.free, columns.running, np.ones(20, dtype=np.bool_)
    )
    assert MOST_SETS < 20 * 19 / 2
    assert MOST_JOBS >= 20
    assert reach.tasks[:, 0].tolist()[:4] == [0, 2, 4, 6]


@pytest.mark.parametrize(
    ("required", "levels", "found"),
    [
        ((), [[4, 2, 0], [4, 4, 6]], [0, 1]),
        ((), [[4, 0, 0], [4, 1, 2]], [0, 2]),
        ((2,), [[4, 1, 0], [4, 4, 2]], [0, 2]),
        ((2,), [[3, 3, 0], [3, 3, 0]], None),
    ],
)
def test_required_nodes_are_among_them(required: tuple[int, ...], levels: list[list[int]], found: list[int]) -> None:
    tasks = np.array(levels)
    reach = Reach(tasks=tasks, devices=np.zeros_like(tasks))
    must = np.isin(np.arange(3), required)
    answer = fewest_victims(uneven(3, tasks=6), reach, must)
    assert (None if answer is None else answer[0].tolist()) == found


def test_as_many_nodes_as_it_may_have() -> None:
    """3 tasks fit on each of four nodes if a job leaves; on two at once, and of the others on one if two leave."""
    tasks = np.array([[1, 3, 0, 3], [3, 3, 0, 3], [3, 3, 3, 3]])
    reach = Reach(tasks=tasks, devices=np.zeros_like(tasks))
    none = np.zeros(4, dtype=np.bool_)

    def nodes(least: int, most: int, wanted: int) -> list[int] | None:
        found = fewest_victims(uneven(4, tasks=wanted, least=least, most=most), reach, none)
        return None if found is None else found[0].tolist()

    assert nodes(2, 2, 6) == [1, 3]
    assert nodes(2, 3, 7) == [0, 1, 3]  # 1, 3 and 3: no victim
    assert nodes(3, 3, 9) == [0, 1, 3]  # one victim
    assert nodes(2, 3, 12) is None
    assert nodes(4, 4, 12) == [0, 1, 2, 3]
    assert nodes(5, 8, 12) is None


def test_jobs_of_too_many_tasks_are_not_weighed() -> None:
    tasks = np.full((2, 2), MOST_STATES)
    reach = Reach(tasks=tasks, devices=np.zeros_like(tasks))
    assert fewest_victims(uneven(2, tasks=MOST_STATES // 2), reach, np.zeros(2, dtype=np.bool_)) is None
