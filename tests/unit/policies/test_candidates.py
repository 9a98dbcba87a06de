"""TE jobs that Slurm starts by itself, and not certainly on nodes that they are bound to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from tesched_core.model.actions import OrderId
from tesched_core.model.cluster import Job, Node, Partition, Request, SlurmSettings
from tesched_core.model.decision import RefusalCode
from tesched_core.model.order import Order, OrderState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.columns_of import columns_of
from tesched_core.placement.reserved import demand_there
from tesched_core.placement.spread import fits_on
from tesched_core.policy import MakeRoom
from tesched_policies.fitgpp import FitGpp

from tests.builders import NODE_MEM_MIB, cluster, node, running, share, view_of, waiting

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
    cpus=12, tasks=4, cpus_per_task=3, min_cpus_per_node=3, max_nodes=4, mem_per_cpu_mib=1, gres_per_node=(("gpu", 1),)
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


#: a CPU of a job that names no memory has some by default, and so has a GPU
BOTH_DEFAULTS = replace(SETTINGS, def_mem_per_cpu_mib=300, def_mem_per_gpu_mib=600)
BY_DEFAULT = Request(min_nodes=1, max_nodes=1, cpus=16, mem_per_cpu_mib=300, gres_per_node=(("gpu", 1),))


@pytest.mark.parametrize("tasks", [1, 4])
def test_memory_by_a_default_that_a_bound_job_would_need_is_named(tasks: int) -> None:
    te = waiting(9, replace(BY_DEFAULT, tasks=tasks, cpus_per_task=16 // tasks))
    nodes = [node("n1", cpus=16, mem_mib=4000, gres={"gpu": 4})]
    full = cluster(nodes, [running(1, share("n1", 16)), te], settings=BOTH_DEFAULTS)
    ((code, text),) = refused(full)
    assert code is RefusalCode.UNSUPPORTED
    assert "memory by DefMemPerCPU=300, which Slurm counts first for a job with GPUs that names none" in text
    assert planned(full) == []
    assert planned(replace(full, jobs={JobId(9): te})) == [("n1", ())], "Slurm starts it on what is free"


def test_it_is_named_where_a_job_of_several_nodes_can_be_bound_to_none() -> None:
    te = waiting(9, replace(BY_DEFAULT, min_nodes=2, max_nodes=2, tasks=3, cpus=12, cpus_per_task=4, exclusive=True))
    nodes = [node(name, cpus=16, mem_mib=4000, gres={"gpu": 4}) for name in ("n1", "n2")]
    full = cluster(nodes, [running(1, share("n1", 16), share("n2", 16)), te], settings=BOTH_DEFAULTS)
    ((code, text),) = refused(full)
    assert code is RefusalCode.IMPOSSIBLE
    assert "large enough, even empty, for memory by DefMemPerCPU=300" in text
    larger = [replace(one, total=replace(one.total, mem_mib=4800)) for one in nodes]
    full = cluster(larger, [running(1, share("n1", 16), share("n2", 16)), te], settings=BOTH_DEFAULTS)
    assert planned(full) == [("n1,n2", (1,))]


def test_memory_by_a_default_of_nodes_is_named_where_it_is_too_much_on_any_node() -> None:
    te = waiting(9, replace(BY_DEFAULT, mem_per_cpu_mib=None, mem_per_node_mib=5000))
    settings = replace(SETTINGS, def_mem_per_node_mib=5000, def_mem_per_gpu_mib=600)
    nodes = [node("n1", cpus=16, mem_mib=4000, gres={"gpu": 4})]
    ((_, text),) = refused(cluster(nodes, [running(1, share("n1", 16)), te], settings=settings))
    assert "memory by DefMemPerNode=5000" in text


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


@pytest.mark.parametrize("names", [("p", "q"), ("q", "p")])
def test_where_one_partition_alone_gives_memory_by_gpu_all_of_a_nodes_is_wanted_in_the_other(
    names: tuple[str, ...],
) -> None:
    """As Slurm 22.05 wants it where there is no other default; else it is that."""
    parts = [
        Partition(name="p", nodes=frozenset({"n1", "n3"})),
        Partition(name="q", nodes=frozenset({"n1", "n2"}), def_mem_per_gpu_mib=500),
    ]
    te = replace(waiting(9, Request(gres_per_node=(("gpu", 1),), mem_per_node_mib=0)), partitions=names)
    nodes = [node(name, gres={"gpu": 1}) for name in ("n1", "n2", "n3")]
    jobs = [running(1, share("n1", 32)), running(2, share("n2", 32)), running(3, share("n3", 0, 1)), te]
    for settings, planned_ in (
        (SETTINGS, [("n3", (3,))]),
        (replace(SETTINGS, release="26.05.5"), []),
        (replace(SETTINGS, def_mem_per_cpu_mib=100), [("n3", (3,))]),
    ):
        snapshot = cluster(nodes, jobs, partitions=parts, settings=settings, exempt=[1, 2])
        assert planned(snapshot) == planned_, settings


@pytest.mark.parametrize("shown", [{"mem_per_cpu_mib": 500}, {"mem_per_cpu_mib": 300}, {"mem_per_node_mib": 0}])
@pytest.mark.parametrize(
    ("names", "least"),
    [
        # on p's node two CPUs bring 1000 MiB, on q's a GPU 600; on one of both that of q is enough, in either order
        (("p", "q"), {"n1": 1000, "n2": 600, "n3": 600}),
        (("q", "p"), {"n1": 1000, "n2": 600, "n3": 600}),
        # another partition's default is none of these
        (("p", "q", "r"), {"n1": 1000, "n2": 600, "n3": 600}),
    ],
)
def test_each_partition_gives_its_own_default_of_memory(
    names: tuple[str, ...], least: dict[str, int], shown: dict[str, int]
) -> None:
    """As 22.05 does, whichever it has tried last and whatever the record shows of that."""
    parts = [
        Partition(name="p", nodes=frozenset({"n1", "n3"}), def_mem_per_cpu_mib=500),
        Partition(name="q", nodes=frozenset({"n2", "n3"}), def_mem_per_gpu_mib=600),
        Partition(name="r", nodes=frozenset({"n4"})),
    ]
    request = replace(Request(cpus=2, tasks=2, max_nodes=1, gres_per_node=(("gpu", 1),)), **shown)  # type: ignore[arg-type] # amounts
    te = replace(waiting(9, request), partitions=names)
    nodes = [node(name, gres={"gpu": 1}) for name in ("n1", "n2", "n3", "n4")]
    settings = replace(SETTINGS, def_mem_per_cpu_mib=300)
    for name, wanted in least.items():
        for free, planned_ in ((wanted, [(name, (7,))]), (wanted - 1, [])):
            others = [share(one, 32) for one in ("n1", "n2", "n3", "n4") if one != name]
            jobs = [running(1, *others, share(name, 0, NODE_MEM_MIB - free)), running(7, share(name, 32)), te]
            snapshot = cluster(nodes, jobs, partitions=parts, settings=settings, exempt=[1])
            assert planned(snapshot) == planned_, (name, free)


def test_without_a_victim_all_memory_of_a_node_is_wanted_beside_a_partition_that_gives_it_by_gpu() -> None:
    """Bound to none, 22.05 leaves it waiting beside less; bound to nodes of p alone, it starts with p's default."""
    parts = [
        Partition(name="p", nodes=frozenset({"n1", "n3"}), def_mem_per_cpu_mib=500),
        Partition(name="q", nodes=frozenset({"n2"}), def_mem_per_gpu_mib=600),
    ]
    request = Request(cpus=2, tasks=2, max_nodes=1, gres_per_node=(("gpu", 1),), mem_per_cpu_mib=500)
    te = replace(waiting(9, request), partitions=("p", "q"))
    nodes = [node(name, gres={"gpu": 1}) for name in ("n1", "n2", "n3")]
    jobs = [running(1, share("n2", 32)), running(3, share("n3", 32)), running(4, share("n1", 1, 1)), te]
    exempt = cluster(nodes, jobs, partitions=parts, settings=SETTINGS, exempt=[1, 4])
    assert planned(exempt) == [("n3", (3,))]
    assert planned(cluster(nodes, jobs, partitions=parts, settings=SETTINGS, exempt=[1, 3])) == [("n1", (4,))]
    bound = replace(te, request=replace(request, required_nodes=("n1",)))
    snapshot = cluster(nodes, [*jobs[:3], bound], partitions=parts, settings=SETTINGS, exempt=[1, 4])
    assert planned(snapshot) == [("n1", ())]


@pytest.mark.parametrize("names", [("p", "q"), ("q", "p")])
@pytest.mark.parametrize(
    ("shown", "least"),
    [
        ({"mem_per_cpu_mib": 500}, {"n1": 1000, "n2": 1800}),
        # which may be its own: in p, too
        ({"mem_per_cpu_mib": 900}, {"n1": 1800, "n2": 1800}),
        ({"mem_per_cpu_mib": 700}, {"n1": 1400, "n2": 1400}),
        ({"mem_per_node_mib": 7}, {"n1": 7, "n2": 7}),
        ({"mem_per_node_mib": 0}, {"n1": NODE_MEM_MIB, "n2": NODE_MEM_MIB}),
    ],
)
def test_the_default_of_the_partition_that_was_tried_last_is_not_enough_in_another(
    shown: dict[str, int], least: dict[str, int], names: tuple[str, ...]
) -> None:
    """22.05 shows 500 MiB a CPU and wants 900 in q; with 500 there, the victim would leave for nothing."""
    parts = [
        Partition(name="p", nodes=frozenset({"n1"}), def_mem_per_cpu_mib=500),
        Partition(name="q", nodes=frozenset({"n2"}), def_mem_per_cpu_mib=900),
    ]
    te = replace(waiting(9, replace(Request(cpus=2, tasks=2, max_nodes=1), **shown)), partitions=names)  # type: ignore[arg-type] # amounts
    for name, wanted in least.items():
        for free, planned_ in ((wanted, [(name, (7,))]), (wanted - 1, [])):
            others = [share(one, 32) for one in ("n1", "n2") if one != name]
            jobs = [running(1, *others, share(name, 0, NODE_MEM_MIB - free)), running(7, share(name, 32)), te]
            nodes = [node("n1"), node("n2")]
            assert planned(cluster(nodes, jobs, partitions=parts, settings=SETTINGS, exempt=[1])) == planned_, name
    alike = replace(SETTINGS, release="26.05.5")
    shown_there = cluster([node("n1"), node("n2")], [running(1, share("n2", 32)), te], partitions=parts, settings=alike)
    assert planned(shown_there)[0][0] == "n1"


def test_memory_that_it_names_is_its_own_in_each_partition() -> None:
    parts = [
        Partition(name="p", nodes=frozenset({"n1"}), def_mem_per_cpu_mib=500),
        Partition(name="q", nodes=frozenset({"n2"}), def_mem_per_gpu_mib=600),
    ]
    for shown, wanted in (({"mem_per_cpu_mib": 501}, 501), ({"mem_per_node_mib": 7}, 7)):
        request = replace(Request(gres_per_node=(("gpu", 1),)), **shown)  # type: ignore[arg-type] # amounts
        te = replace(waiting(9, request), partitions=("q", "p"))
        for free, planned_ in ((wanted, [("n1", ())]), (wanted - 1, [])):
            jobs = [running(1, share("n1", 0, NODE_MEM_MIB - free), share("n2", 32)), te]
            nodes = [node(name, gres={"gpu": 1}) for name in ("n1", "n2")]
            snapshot = cluster(nodes, jobs, partitions=parts, settings=SETTINGS, exempt=[1])
            assert planned(snapshot) == planned_, shown


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


#: of these tasks the nodes below take 4 and 2, with two shards on each
SHARDS = Request(
    cpus=24,
    tasks=6,
    cpus_per_task=4,
    min_cpus_per_node=4,
    max_nodes=6,
    mem_per_node_mib=1,
    gres_per_node=(("shard", 2),),
)


def test_tasks_beside_shards_are_spread_unevenly() -> None:
    nodes = [node(f"n{number}", cpus=cpus, gres={"gpu": 2, "shard": 8}) for number, cpus in ((1, 16), (2, 8))]
    full = site(nodes, [running(1, share("n2", 1)), waiting(9, SHARDS)])
    assert planned(full) == [("n1,n2", (1,))]
    assert planned(replace(full, settings=replace(SETTINGS, release="26.05.5"))) == []
    # Of which GPU the free ones are is not known: with 1 of 4 in use on each it is certain for 2, with 3 it is not.
    for held, victims in ((1, ()), (3, ()), (6, (1,))):
        some = site(nodes, [running(1, share("n2", 0, gres={"shard": held})), waiting(9, SHARDS)])
        assert planned(some) == [("n1,n2", victims)], held


def test_shards_that_may_be_of_two_gpus_are_not_waited_for() -> None:
    """Of 4 free shards 2 may be of each GPU: a job that wants 3 would wait for what may not be there."""
    two = Request(cpus=2, tasks=2, max_nodes=2, mem_per_node_mib=1, gres_per_node=(("shard", 3),))
    nodes = [node("n1", gres={"gpu": 2, "shard": 8})]
    assert planned(site(nodes, [running(1, share("n1", 0, gres={"shard": 4})), waiting(9, two)])) == [("n1", (1,))]


def test_on_several_nodes_what_slurm_may_start_by_itself_is_not_waited_for() -> None:
    """Three tasks of three CPUs a node, with a GPU each, do not fill the cores of nodes of two threads a core."""
    request = Request(cpus=18, tasks=6, cpus_per_task=3, min_nodes=2, max_nodes=2, mem_per_node_mib=1)
    six = replace(request, gres_per_task=(("gpu", 1),))
    nodes = [with_threads("n1", 32, 4), with_threads("n2", 32, 4)]
    assert planned(site(nodes, [waiting(9, six)])) == []


@pytest.mark.parametrize(("reason", "victims"), [("Resources", [("n1", (1,))]), ("Priority", [])])
def test_one_task_of_a_gpu_with_more_cpus_beside_another_device(
    reason: str, victims: list[tuple[str, tuple[int, ...]]]
) -> None:
    """Where its user has set the number of its tasks Slurm 22.05 says BadConstraints of it, once it is examined."""
    request = Request(gres_per_node=(("gpu", 1), ("tmp", 1)), cpus_per_gres=(("gpu", 3),), mem_per_node_mib=1)
    te = replace(waiting(9, request), reason=reason)
    assert planned(site([node("n1", gres={"gpu": 1, "tmp": 4})], [running(1, share("n1", 32)), te])) == victims


def test_an_order_without_victims_is_met_where_slurm_starts_the_job_by_itself() -> None:
    snapshot = site([with_threads("n1", 16)], [running(1, share("n1", 4)), waiting(9, FOUR)])
    capacity, te = columns_of(snapshot).capacity, snapshot.jobs[JobId(9)]
    order = Order(
        order_id=OrderId(1),
        preemptor=te.job_id,
        state=OrderState.OPEN,
        created_at=0.0,
        expires_at=1.0,
        nodes=("n1",),
        victims=(),
    )
    demand = demand_there(order, te, snapshot, capacity)
    assert demand is not None
    assert fits_on(demand, [0], capacity)
    full = columns_of(site([with_threads("n1", 16)], [running(1, share("n1", 8)), te])).capacity
    other = demand_there(order, te, snapshot, full)
    assert other is not None
    assert not fits_on(other, [0], full)
