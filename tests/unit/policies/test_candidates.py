"""TE jobs that Slurm starts by itself, and not certainly on nodes that they are bound to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from tesched_core.model.cluster import Job, Node, Partition, Request, SlurmSettings
from tesched_core.model.decision import RefusalCode
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.policy import MakeRoom
from tesched_policies.fitgpp import FitGpp

from tests.builders import cluster, node, running, share, view_of, waiting

SETTINGS = SlurmSettings(release="22.05.8")


def with_threads(name: str, cpus: int, gpus: int = 2) -> Node:
    """Return a node with two threads a core."""
    one = node(name, cpus=cpus, gres={"gpu": gpus})
    return replace(one, sockets=1, cores_per_socket=cpus // 2, threads_per_core=2)


def planned(snapshot: Snapshot) -> list[tuple[str, tuple[int, ...]]]:
    proposal = FitGpp().propose(view_of(snapshot), None)
    return [(",".join(one.nodes), one.victim_ids) for one in proposal.plans if isinstance(one, MakeRoom)]


def refused(snapshot: Snapshot) -> list[tuple[RefusalCode, str]]:
    return [(one.code, one.text) for one in FitGpp().propose(view_of(snapshot), None).refusals if one.job_id == 9]


def site(nodes: Sequence[Node], jobs: Iterable[Job], partitions: Sequence[Partition] | None = None) -> Snapshot:
    return cluster(nodes, jobs, partitions=partitions, settings=SETTINGS)


#: 22.05 says BadConstraints of it with -N1 on a node of two threads a core; without -N it starts there
FOUR = Request(
    cpus=12, tasks=4, cpus_per_task=3, min_cpus_per_node=3, max_nodes=4, mem_per_node_mib=1, gres_per_node=(("gpu", 1),)
)


def test_what_slurm_starts_by_itself_on_what_is_free_waits_for_no_victim() -> None:
    assert planned(site([with_threads("n1", 16)], [running(1, share("n1", 4)), waiting(9, FOUR)])) == [("n1", ())]


def test_no_victim_leaves_for_it_and_its_refusal_does_not_say_that_it_is_impossible() -> None:
    full = site([with_threads("n1", 16)], [running(1, share("n1", 8)), waiting(9, FOUR)])
    assert planned(full) == []
    ((code, text),) = refused(full)
    assert code is RefusalCode.UNSUPPORTED
    assert "only if it is bound to none" in text
    small = site([with_threads("n1", 8)], [running(1, share("n1", 8)), waiting(9, FOUR)])
    assert [code for code, _ in refused(small)] == [RefusalCode.IMPOSSIBLE]


def test_what_slurm_has_declined_so_is_not_tried_so_again() -> None:
    free = site([with_threads("n1", 16)], [waiting(9, FOUR)])
    assert planned(replace(free, declined=frozenset({JobId(9)}))) == []


@pytest.mark.parametrize("names", [("p", "q"), ("q", "p")])
def test_nodes_of_a_partition_that_is_not_modelled_for_it_are_not_called_too_small(names: tuple[str, ...]) -> None:
    """The GPU brings two CPUs in `q`, and the four tasks on each of two whole nodes want four."""
    parts = [
        Partition(name="p", nodes=frozenset({"n1", "n2", "n3"})),
        Partition(name="q", nodes=frozenset({"n1", "n2"}), def_cpus_per_gpu=2),
    ]
    request = Request(cpus=8, tasks=8, min_nodes=2, max_nodes=2, mem_per_node_mib=1, gres_per_node=(("gpu", 1),))
    te = replace(waiting(9, replace(request, exclusive=True)), partitions=names)
    nodes = [with_threads("n1", 8), with_threads("n2", 8), node("n3", cpus=8)]
    full = site(nodes, [running(1, share("n1", 8)), te], parts)
    ((code, text),) = refused(full)
    assert (code, "DefCpuPerGPU=2 with 8 tasks" in text) == (RefusalCode.UNSUPPORTED, True)


def test_in_a_list_of_partitions_a_number_of_nodes_is_set_where_that_is_modelled_alone() -> None:
    """DefCpuPerGPU with too few CPUs for six tasks: on 22.05 such a job starts with a fixed number of nodes."""
    parts = [
        Partition(name="p", nodes=frozenset({"n1", "n2"})),
        Partition(name="q", nodes=frozenset({"n1"}), def_cpus_per_gpu=2),
    ]
    request = Request(cpus=6, tasks=6, max_nodes=6, mem_per_node_mib=1, gres_per_node=(("gpu", 1),))
    te = replace(waiting(9, request), partitions=("p", "q"))
    full = site([with_threads("n1", 8), node("n2", cpus=8)], [running(1, share("n1", 8)), te], parts)
    assert planned(full) == [("n1", (1,))]


#: three GPUs, and two tasks on each of two nodes
BY_NODE = Request(
    cpus=4,
    tasks=4,
    min_cpus_per_node=2,
    min_nodes=2,
    max_nodes=2,
    tasks_per_node=2,
    mem_per_node_mib=1,
    gres_per_job=(("gpu", 3),),
)


def test_gpus_in_all_are_spread_unevenly_over_nodes_with_the_same_number_of_tasks() -> None:
    nodes = [node("n1", cpus=4, gres={"gpu": 2}), node("n2", cpus=4, gres={"gpu": 2})]
    held = running(1, share("n2", 2, gres={"gpu": 1}))
    assert planned(site(nodes, [held, waiting(9, BY_NODE)])) == [("n1,n2", ())]
    # Two tasks fit beside no more than two CPUs.
    more = running(2, share("n1", 1))
    more_on_2 = running(3, share("n2", 1))
    assert planned(site(nodes, [held, more, waiting(9, BY_NODE)])) == [("n1,n2", ())]
    assert planned(site(nodes, [held, more_on_2, waiting(9, BY_NODE)]))[0][1] in {(1,), (3,)}
