"""Sums never exclude a job that by Slurm's rules fits into what is free."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tesched_core.model.cluster import JobState, Partition, Request, SlurmSettings
from tesched_core.placement.by_sums import may_start_by_sums
from tesched_core.placement.columns_of import columns_of
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import demands_of
from tesched_core.placement.in_the_way import fits_now

from tests.builders import cluster, node, running, share, waiting
from tests.examples import examples

COUNT = st.integers(0, 3)
GRES = st.sampled_from(
    [(), (("gpu", 1),), (("gpu", 2),), (("gpu:a", 1),), (("gpu:a", 1), ("gpu:b", 1)), (("shard", 1),)]
)
MEMORY: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        *({}, {"mem_per_node_mib": 0}, {"mem_per_node_mib": 300}, {"mem_per_node_mib": 100}, {"mem_per_cpu_mib": 100}),
        *({"mem_per_cpu_mib": 150}, {"mem_per_gres": (("gpu", 200),)}, {"mem_per_node_mib": 0, "mem_counted_mib": 400}),
    ]
)
REQUESTS = st.builds(
    lambda tasks, each, nodes, more, memory, fields: Request(
        cpus=tasks * each, tasks=tasks, cpus_per_task=each, min_nodes=nodes, max_nodes=nodes + more, **memory, **fields
    ),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(0, 1),
    MEMORY,
    st.fixed_dictionaries(
        {},
        optional={
            "gres_per_node": GRES,
            "gres_per_job": GRES,
            "gres_per_task": GRES,
            "cpus_per_gres": st.sampled_from([(), (("gpu", 2),)]),
            "exclusive": st.booleans(),
            "sharing": st.sampled_from(["OK", "USER", "YES"]),
            "required_nodes": st.sampled_from([(), ("n1",), ("n2",)]),
            "min_cpus_per_node": COUNT,
        },
    ),
)
PARTITIONS = st.builds(
    Partition,
    name=st.sampled_from(["p", "q"]),
    nodes=st.sampled_from([frozenset({"n1", "n2"}), frozenset({"n1"})]),
    oversubscribe=st.sampled_from(["NO", "EXCLUSIVE", "YES:4", "FORCE:1"]),
    exclusive_user=st.booleans(),
    def_mem_per_gpu_mib=st.sampled_from([0, 0, 200]),
    def_mem_per_node_mib=st.sampled_from([0, 100, 300]),
    def_cpus_per_gpu=st.sampled_from([0, 0, 2]),
    max_cpus_per_node=st.sampled_from([None, None, 4]),
)
SETTINGS = st.builds(
    SlurmSettings,
    release=st.sampled_from(["22.05.8", "26.05.5"]),
    memory_is_shared_out=st.sampled_from([True, True, False]),
)
HELD = st.builds(
    share,
    st.sampled_from(["n1", "n2"]),
    st.integers(1, 6),
    st.sampled_from([0, 300, 700]),
    st.sampled_from([{}, {"gpu:a": 1}, {"gpu:b": 1}, {"shard": 1}, {"shard": 2}]),
)


@hypothesis_settings(max_examples=examples(400))
@given(
    REQUESTS,
    st.lists(PARTITIONS, min_size=1, max_size=2, unique_by=lambda one: one.name),
    SETTINGS,
    st.lists(st.tuples(HELD, st.booleans(), st.booleans()), max_size=2),
    st.booleans(),
)
def test_what_fits_by_slurms_rules_may_start_by_sums(
    request: Request,
    partitions: list[Partition],
    settings: SlurmSettings,
    held: list[tuple[Any, bool, bool]],
    has_shards: bool,
) -> None:
    gres = {"gpu:a": 1, "gpu:b": 2, **({"shard": 6} if has_shards else {})}
    nodes = [replace(node(name, cpus=8, mem_mib=1000, gres=gres), threads_per_core=1) for name in ("n1", "n2")]
    others = [
        running(
            number,
            one,
            user="ann" if is_own else "bob",
            state=JobState.SUSPENDED if is_suspended else JobState.RUNNING,
            partitions=(partitions[-1].name,),
        )
        for number, (one, is_own, is_suspended) in enumerate(held, start=1)
    ]
    te = waiting(9, request, user="ann", partitions=tuple(one.name for one in partitions))
    snapshot = cluster(nodes, [*others, te], partitions=partitions, settings=settings)
    capacity = columns_of(snapshot).capacity
    try:
        demands = demands_of(te, snapshot, capacity, binds=False)
    except UnsupportedRequestError:
        return
    if fits_now(demands, capacity):
        assert may_start_by_sums(te, snapshot, capacity)
