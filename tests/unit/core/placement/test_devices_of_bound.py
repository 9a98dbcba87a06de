"""Devices that a node must have for a job of several nodes to be bound to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tesched_core.model.cluster import Request, SlurmSettings
from tesched_core.placement.capacity_of import capacity_of
from tesched_core.placement.demand import demands_of
from tesched_core.placement.devices_of_bound import shares_of_tasks
from tesched_core.placement.modelled import unsupported

from tests.builders import cluster, node, waiting

#: -N1-2 --ntasks-per-node=2 -n3 --gpus=3
OPEN = Request(cpus=3, tasks=3, max_nodes=2, tasks_per_node=2, mem_per_node_mib=1, gres_per_job=(("gpu", 3),))
NEWER = "26.05.5"


def why_not(request: Request, release: str = NEWER, gpus: int = 4) -> str:
    te = waiting(9, request)
    nodes = [node(name, gres={"gpu": gpus}) for name in ("n1", "n2")]
    return unsupported(te, cluster(nodes, [te], settings=SlurmSettings(release=release)))


def test_a_last_node_with_fewer_tasks_counts() -> None:
    on_two = replace(OPEN, min_nodes=2)
    for request in (OPEN, on_two):
        assert shares_of_tasks(request, NEWER) == {"gpu": -1}, "2 of two tasks and 2 of one are not 3"
        assert shares_of_tasks(request, "22.05.8") == {}
    assert shares_of_tasks(replace(OPEN, tasks=2, cpus=2, gres_per_job=(("gpu", 2),)), NEWER) == {}, (
        "one node is enough"
    )
    assert shares_of_tasks(replace(OPEN, tasks=4, cpus=4, gres_per_job=(("gpu", 4),)), NEWER) == {"gpu": 2}


def test_an_open_number_of_nodes_is_named_with_what_its_tasks_take_at_least() -> None:
    assert why_not(OPEN) == "--ntasks-per-node=2 with gpu:3 in all that its nodes do not share evenly"
    assert why_not(OPEN, "22.05.8") == ""
    even = replace(OPEN, tasks=4, cpus=4, gres_per_job=(("gpu", 4),))
    assert why_not(even) == "--ntasks-per-node=2 with a number of gpu in all"
    assert why_not(even, gpus=2) == ""


def test_devices_by_node_and_in_all_on_what_may_be_one_node_are_modelled() -> None:
    assert why_not(replace(OPEN, tasks=2, cpus=2, tasks_per_node=0, gres_per_node=(("gpu", 2),))) == ""


@pytest.mark.parametrize(
    ("tasks", "gpus", "cpus_of_26_05"), [(6, 3, 4), (6, 2, 3), (6, 4, 3), (6, 6, 3), (8, 4, 4), (10, 5, 6), (4, 8, 2)]
)
def test_tasks_that_share_a_device_in_all_are_on_one_node(tasks: int, gpus: int, cpus_of_26_05: int) -> None:
    """Tried on both releases, bound to two nodes with two to six free CPUs each."""
    te = waiting(
        9, replace(OPEN, tasks=tasks, cpus=tasks, min_nodes=2, tasks_per_node=0, gres_per_job=(("gpu", gpus),))
    )
    for release, cpus in (("22.05.8", -(-tasks // 2)), (NEWER, cpus_of_26_05)):
        snapshot = cluster(
            [node(name, gres={"gpu": 4}) for name in ("n1", "n2")], [te], settings=SlurmSettings(release=release)
        )
        (demand,) = demands_of(te, snapshot, capacity_of(snapshot))
        assert demand.takes[:, 0].tolist() == [cpus, cpus], release
        (by_itself,) = demands_of(te, snapshot, capacity_of(snapshot), binds=False)
        assert by_itself.takes[:, 0].tolist() == [-(-tasks // 2)] * 2


@pytest.mark.parametrize(("cpus", "is_modelled"), [(2, True), (4, True), (5, False)])
@pytest.mark.parametrize("nodes", [1, 4])
def test_more_cpus_on_a_node_than_all_tasks_want_beside_devices_in_all(
    cpus: int, nodes: int, *, is_modelled: bool
) -> None:
    """26.05 says BadConstraints of `-n4 --mincpus=5 --gpus=1`, with -N1, too; 22.05 starts it."""
    request = replace(OPEN, tasks=4, cpus=4, max_nodes=nodes, tasks_per_node=0, min_cpus_per_node=cpus)
    assert why_not(request) == ("" if is_modelled else "--mincpus=5 with gpu in all")
    assert why_not(request, "22.05.8") == ""
    assert why_not(replace(request, gres_per_job=(), gres_per_node=(("gpu", 1),))) == ""


@pytest.mark.parametrize(
    ("change", "is_modelled"),
    [
        *(({"gres_per_job": (("gpu", count),)}, count != 3) for count in (2, 3, 4, 6)),
        *(({name: 1}, True) for name in ("threads_per_core", "tasks_per_core")),
        ({"cpus": 6, "cpus_per_task": 2}, True),
        ({"cpus_per_gres": (("gpu", 2),)}, True),
        ({"exclusive": True}, True),
        ({"cpus": 2, "tasks": 2, "gres_per_job": (("gpu", 2),)}, True),
    ],
)
def test_tasks_with_one_device_of_those_in_all_that_share_cores(change: dict[str, Any], *, is_modelled: bool) -> None:
    """26.05 says BadConstraints of `-N2 -n3 --gpus=3` on nodes of two threads a core."""
    te = waiting(9, replace(OPEN, min_nodes=2, tasks_per_node=0, **change))
    two = [replace(node(name, gres={"gpu": 4}), threads_per_core=2) for name in ("n1", "n2")]
    one = [node(name, gres={"gpu": 4}) for name in ("n3", "n4")]
    words = "a device in all for each of 3 tasks that share cores on 2 nodes"
    for nodes, release, expected in (
        (two, NEWER, "" if is_modelled else words),
        (two, "22.05.8", ""),
        (one, NEWER, ""),
    ):
        assert unsupported(te, cluster(nodes, [te], settings=SlurmSettings(release=release))) == expected
    snapshot = cluster([*two, *one], [te], settings=SlurmSettings(release=NEWER))
    (demand,) = demands_of(te, snapshot, capacity_of(snapshot))
    assert demand.allowed.tolist() == [is_modelled, is_modelled, True, True]


def test_tasks_that_share_cpus_want_none_for_whole_groups() -> None:
    te = waiting(9, replace(OPEN, tasks=6, cpus=2, min_nodes=2, tasks_per_node=0))
    snapshot = cluster(
        [node(name, gres={"gpu": 4}) for name in ("n1", "n2")], [te], settings=SlurmSettings(release=NEWER)
    )
    (demand,) = demands_of(te, snapshot, capacity_of(snapshot))
    assert demand.takes[:, 0].tolist() == [1, 1]
