"""Size: what is more than before, in each way in which a user may ask for more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tesched_core.model.cluster import Job, Request
from tesched_core.model.size import growth, is_less, size_of

from tests.builders import running, share, waiting

PLAIN = Request(cpus=4, tasks=4, mem_per_node_mib=1000, gres_per_node=(("gpu", 1),))
BEFORE = waiting(1, PLAIN, time_limit_s=3600, partitions=("p",))
HELD = running(1, share("n1", 4, 1000, {"gpu:a100": 1}), time_limit_s=3600)


def asks(**fields: Any) -> Job:
    """Return the waiting job with another request."""
    return replace(BEFORE, request=replace(PLAIN, **fields))


GROWN = [
    (asks(min_nodes=2, max_nodes=2), "2 nodes, not 1"),
    (asks(cpus=5), "5 CPUs, not 4"),
    (asks(min_cpus_per_node=8), "8 CPUs, not 4"),
    (asks(cpus_per_gres=(("gpu", 16),)), "16 CPUs, not 4"),
    (asks(mem_per_node_mib=1001), "1001 MiB of memory, not 1000"),
    (asks(mem_per_node_mib=None, mem_per_cpu_mib=300), "1200 MiB of memory, not 1000"),
    (asks(mem_per_node_mib=None, mem_per_gres=(("gpu", 2000),)), "2000 MiB of memory, not 1000"),
    (asks(mem_per_node_mib=0, mem_counted_mib=64_000), "64000 MiB of memory, not 1000"),
    (asks(gres_per_node=(("gpu", 8),)), "8 gpu, not 1"),
    (asks(gres_per_node=(), gres_per_job=(("gpu", 2),)), "2 gpu, not 1"),
    (asks(gres_per_node=(), gres_per_task=(("gpu", 1),)), "4 gpu, not 1"),
    (asks(gres_per_node=(), gres_per_socket=(("gpu", 1),), sockets_per_node=2), "2 gpu, not 1"),
    (asks(gres_per_node=(("shard", 3),)), "3 shard, not 0"),
    (asks(exclusive=True), "whole nodes"),
    (replace(BEFORE, time_limit_s=3601), "a time limit of 3601 s, not 3600 s"),
    (replace(BEFORE, time_limit_s=None), "no time limit, not 3600 s"),
    (replace(BEFORE, licenses="matlab:50"), "licences matlab:50, not none"),
    (replace(BEFORE, partitions=("p", "big")), "partition big, not p"),
]


@pytest.mark.parametrize(("now", "text"), GROWN, ids=[text for _, text in GROWN])
def test_growth_is_named(now: Job, text: str) -> None:
    assert text in growth(size_of(BEFORE), size_of(now))


@pytest.mark.parametrize("before", [BEFORE, HELD], ids=["waiting", "running"])
@pytest.mark.parametrize(
    "now",
    [
        BEFORE,
        asks(cpus=2, tasks=1),
        asks(mem_per_node_mib=10),
        asks(gres_per_node=()),
        asks(gres_per_node=(), gres_per_job=(("gpu", 1),)),
        replace(BEFORE, time_limit_s=60),
    ],
)
def test_the_same_or_less_is_no_growth(before: Job, now: Job) -> None:
    assert growth(size_of(before), size_of(now)) == ""


def test_a_type_of_device_that_it_did_not_have_is_more() -> None:
    now = size_of(asks(gres_per_node=(("gpu:h100", 1),)))
    assert growth(size_of(HELD), now) == "1 gpu:h100, not 0"
    assert growth(size_of(HELD), size_of(asks(gres_per_node=(("gpu:a100", 1),)))) == ""


def test_what_it_held_counts_where_it_is_more_than_it_requested() -> None:
    """Slurm gives out whole cores, and several nodes where the number is left open."""
    held = running(1, share("n1", 8, 64_000), share("n2", 8, 64_000))
    now = waiting(1, Request(cpus=16, min_nodes=1, max_nodes=2, mem_per_node_mib=64_000))
    assert growth(size_of(held), size_of(now)) == ""


def test_a_job_without_a_time_limit_runs_with_one_of_a_year() -> None:
    assert growth(size_of(replace(HELD, time_limit_s=365 * 86_400)), size_of(replace(BEFORE, time_limit_s=None))) == ""
    assert growth(size_of(replace(HELD, time_limit_s=364 * 86_400)), size_of(replace(BEFORE, time_limit_s=None)))


def test_all_memory_of_the_nodes_is_as_much_as_they_have() -> None:
    """What Slurm counts for such a job depends on the nodes of its partition, which are not all alike."""
    everything = replace(BEFORE, request=replace(PLAIN, mem_per_node_mib=0, mem_counted_mib=64_000))
    larger = replace(everything, request=replace(everything.request, mem_counted_mib=128_000))
    assert growth(size_of(everything), size_of(larger)) == ""
    unsaid = replace(everything, request=replace(everything.request, mem_counted_mib=None))
    assert growth(size_of(BEFORE), size_of(unsaid)) == "all memory of its nodes"


class TestPartitions:
    """A running job shows the one of its partitions in which it runs; back in the queue it shows them all."""

    def test_those_in_which_it_is_first_seen_to_wait_are_its_own(self) -> None:
        size = size_of(HELD).waiting(replace(BEFORE, partitions=("p", "other")))
        assert growth(size, size_of(replace(BEFORE, partitions=("p", "other")))) == ""
        assert growth(size, size_of(replace(BEFORE, partitions=("other",)))) == ""

    def test_later_ones_are_not(self) -> None:
        size = size_of(HELD).waiting(BEFORE).waiting(replace(BEFORE, partitions=("p", "other")))
        assert growth(size, size_of(replace(BEFORE, partitions=("p", "other")))) == "partition other, not p"

    def test_nor_is_one_to_which_it_was_moved(self) -> None:
        moved = replace(BEFORE, partitions=("other",))
        assert growth(size_of(HELD).waiting(moved), size_of(moved)) == "partition other, not p"

    def test_a_record_that_is_not_read_whole_says_nothing(self) -> None:
        unread = replace(BEFORE, partitions=("p", "other"), partly_read="its record is being read")
        assert not size_of(HELD).waiting(unread).seen_waiting


@pytest.mark.parametrize(
    "now",
    [
        asks(cpus=3, tasks=3),
        asks(mem_per_node_mib=999),
        asks(gres_per_node=()),
        replace(BEFORE, request=replace(PLAIN, exclusive=False)),
    ],
    ids=["CPUs", "memory", "GPUs", "whole nodes"],
)
def test_less_of_what_victims_free_is_less(now: Job) -> None:
    whole = now.request == PLAIN
    assert is_less(size_of(asks(exclusive=True) if whole else BEFORE), size_of(now))


def test_fewer_nodes_or_not_all_of_their_memory_is_less() -> None:
    assert is_less(size_of(asks(min_nodes=2, max_nodes=2)), size_of(BEFORE))
    assert is_less(size_of(asks(mem_per_node_mib=0)), size_of(asks(mem_per_node_mib=1)))


@pytest.mark.parametrize(
    "now",
    [
        BEFORE,
        asks(cpus=5, tasks=5),
        replace(BEFORE, time_limit_s=60),
        replace(BEFORE, partitions=()),
        asks(min_nodes=1, max_nodes=4),
    ],
)
def test_as_much_or_more_is_not_less(now: Job) -> None:
    assert not is_less(size_of(BEFORE), size_of(now))


def test_all_memory_of_other_nodes_is_not_less() -> None:
    before, now = asks(mem_per_node_mib=0, mem_counted_mib=64_000), asks(mem_per_node_mib=0, mem_counted_mib=32_000)
    assert not is_less(size_of(before), size_of(now))
