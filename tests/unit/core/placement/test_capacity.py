"""Free resources on nodes, seen from both sides: what jobs say that they hold, and what the nodes say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.cluster import Job, JobState, Node, Partition, Request, SlurmSettings, Switch
from tesched_core.model.decision import RefusalCode
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId, Tres
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.capacity_of import capacity_of
from tesched_core.placement.demand import Demand, demand_of, demands_of, share_of
from tesched_core.policy import MakeRoom
from tesched_policies.fitgpp import FitGpp

from tests.builders import cluster, excused, node, running, share, view_of, waiting


def free(snapshot: Snapshot, name: str = "n1") -> dict[str, int]:
    capacity = capacity_of(snapshot)
    return dict(zip(capacity.resources, capacity.free[capacity.index[name]].tolist(), strict=True))


def victims(snapshot: Snapshot) -> list[tuple[tuple[str, ...], list[int]]]:
    """Return for each plan its nodes and its victims."""
    plans = FitGpp().propose(view_of(snapshot), None).plans
    return [(plan.nodes, list(plan.victim_ids)) for plan in plans if isinstance(plan, MakeRoom)]


def threaded(name: str, **sizes: int) -> Node:
    """Return a node with two threads a core."""
    shape = {"sockets": 1, "cores_per_socket": 16, "threads_per_core": 2, **sizes}
    return replace(node(name), **shape)  # type: ignore[arg-type] # fields of a node, each a number


class TestNodesSayWhatIsHeld:
    def test_a_job_without_a_record_frees_no_resources(self) -> None:
        held = replace(node("n1", gres={"gpu": 4}), held=Tres(cpus=20, mem_mib=5000, gres=(("gpu", 3),)))
        snapshot = cluster([held], [running(1, share("n1", 4, 1000, {"gpu": 1}))])
        assert free(snapshot) == {"cpu": 12, "mem_mib": 59_000, "gpu": 1}

    def test_a_job_that_says_more_than_its_node_is_believed(self) -> None:
        snapshot = cluster([replace(node("n1"), held=Tres(cpus=2))], [running(1, share("n1", 4, 1000))])
        assert free(snapshot) == {"cpu": 28, "mem_mib": 63_000}

    def test_a_suspended_jobs_cpus_are_free_by_both(self) -> None:
        held = replace(node("n1"), held=Tres(cpus=0, mem_mib=1000))
        snapshot = cluster([held], [running(1, share("n1", 4, 1000), state=JobState.SUSPENDED)])
        assert free(snapshot) == {"cpu": 32, "mem_mib": 63_000}

    def test_resources_of_unknown_jobs_are_not_freed_by_a_victim(self) -> None:
        held = replace(node("n1"), held=Tres(cpus=32))
        snapshot = cluster([held], [running(1, share("n1", 16)), waiting(9, cpus=20)])
        assert victims(snapshot) == []
        assert victims(cluster([held], [running(1, share("n1", 16)), waiting(9, cpus=16)])) == [(("n1",), [1])]


class TestCores:
    def test_one_thread_a_core_takes_both(self) -> None:
        request = Request(cpus=4, tasks=4, threads_per_core=1, mem_per_node_mib=1)
        snapshot = cluster([threaded("n1"), node("n2")], [waiting(9, request)])
        demand = demand_of(snapshot.jobs[JobId(9)], snapshot, capacity_of(snapshot))
        assert share_of(demand, [0, 1])[:, 0].tolist() == [8, 4]
        assert demand.per_node[0] == 8

    def test_a_node_with_cores_for_cpus_gives_them_out_one_by_one(self) -> None:
        cores = replace(threaded("n1", cores_per_socket=32), ids_of_a_cpu=2)
        snapshot = cluster([cores], [waiting(9, Request(cpus=3, mem_per_node_mib=1))])
        assert share_of(demand_of(snapshot.jobs[JobId(9)], snapshot, capacity_of(snapshot)), [0])[0, 0] == 3

    def test_memory_of_a_whole_node_is_counted_for_each_of_its_cpus(self) -> None:
        request = Request(exclusive=True, mem_per_cpu_mib=2001)
        snapshot = cluster([node("n1")], [waiting(9, request)])
        assert victims(snapshot) == []
        fits = replace(request, mem_per_cpu_mib=2000)
        assert victims(cluster([node("n1")], [waiting(9, fits)])) == [(("n1",), [])]

    def test_and_for_each_of_its_gpus(self) -> None:
        nodes = [node("n1", gres={"gpu": 4})]
        request = Request(exclusive=True, gres_per_node=(("gpu", 1),), mem_per_gres=(("gpu", 16_001),))
        assert victims(cluster(nodes, [waiting(9, request)])) == []
        fits = replace(request, mem_per_gres=(("gpu", 16_000),))
        assert victims(cluster(nodes, [waiting(9, fits)])) == [(("n1",), [])]


class TestPartitions:
    def partition(self, name: str, *nodes: str, tier: int = 1, **limits: int) -> Partition:
        return replace(Partition(name=name, nodes=frozenset(nodes), priority_tier=tier), **limits)  # type: ignore[arg-type]

    def test_nodes_of_two_partitions_make_no_job_of_two_nodes(self) -> None:
        both = Request(cpus=64, tasks=64, min_nodes=2, max_nodes=2, mem_per_node_mib=1)
        parts = [self.partition("p", "n1", "n2"), self.partition("q", "n3", "n4")]
        nodes = [node(f"n{number}") for number in range(1, 5)]
        # n1 and n3 are free; in each partition one more is needed
        jobs = [running(2, share("n2", 32)), running(4, share("n4", 32), partitions=("q",))]
        snapshot = cluster(nodes, [*jobs, waiting(9, both, partitions=("p", "q"))], partitions=parts)
        assert victims(snapshot) == [(("n1", "n2"), [2])]

    def test_the_partition_with_the_fewest_victims_is_taken(self) -> None:
        parts = [self.partition("p", "n1"), self.partition("q", "n2")]
        jobs = [running(1, share("n1", 16)), running(2, share("n1", 16)), running(3, share("n2", 32))]
        te = waiting(9, cpus=32, partitions=("p", "q"))
        assert victims(cluster([node("n1"), node("n2")], [*jobs, te], partitions=parts)) == [(("n2",), [3])]

    def test_free_resources_in_any_of_them_come_before_a_victim(self) -> None:
        parts = [self.partition("p", "n1"), self.partition("q", "n2")]
        jobs = [running(1, share("n1", 32)), waiting(9, cpus=32, partitions=("p", "q"))]
        assert victims(cluster([node("n1"), node("n2")], jobs, partitions=parts)) == [(("n2",), [])]

    def test_the_higher_tier_is_tried_first(self) -> None:
        parts = [self.partition("p", "n1"), self.partition("q", "n2", tier=5)]
        snapshot = cluster([node("n1"), node("n2")], [waiting(9, partitions=("p", "q"))], partitions=parts)
        first, second = demands_of(snapshot.jobs[JobId(9)], snapshot, capacity_of(snapshot))
        assert (first.allowed.tolist(), second.allowed.tolist()) == ([False, True], [True, False])
        union = demand_of(snapshot.jobs[JobId(9)], snapshot, capacity_of(snapshot))
        assert union.allowed.tolist() == [True, True]

    def test_nodes_of_a_partition_tried_before_are_kept_from_the_next(self) -> None:
        # in p it would need more than there is; Slurm then keeps n1 from it in q as well
        parts = [self.partition("p", "n1", def_cpus_per_gpu=99), self.partition("q", "n1", "n2")]
        nodes = [node("n1", gres={"gpu": 4}), node("n2", gres={"gpu": 4})]
        te = waiting(9, Request(gres_per_node=(("gpu", 1),), mem_per_node_mib=1), partitions=("p", "q"))
        assert victims(cluster(nodes, [te], partitions=parts)) == [(("n2",), [])]

    def test_max_cpus_per_node_counts_the_partitions_own_jobs(self) -> None:
        parts = [self.partition("p", "n1"), self.partition("few", "n1", max_cpus_per_node=8)]
        mine, other = running(1, share("n1", 6), partitions=("few",)), running(2, share("n1", 6))
        te = waiting(9, cpus=4, partitions=("few",))
        # 20 CPUs are free, and 2 of this partition's: only its own job is of use
        assert victims(cluster([node("n1")], [mine, other, te], partitions=parts)) == [(("n1",), [1])]
        too_many = waiting(9, cpus=9, partitions=("few",))
        assert victims(cluster([node("n1")], [mine, other, too_many], partitions=parts)) == []

    def test_jobs_that_may_share_cores_keep_others_off_their_node(self) -> None:
        parts = [self.partition("p", "n1"), replace(self.partition("s", "n1"), oversubscribe="YES:2")]
        sharing = running(1, share("n1", 1), partitions=("s",))
        assert victims(cluster([node("n1")], [sharing, waiting(9)], partitions=parts)) == [(("n1",), [1])]
        mine = waiting(9, partitions=("s",))
        assert victims(cluster([node("n1")], [sharing, mine], partitions=parts)) == [(("n1",), [])]

    @pytest.mark.parametrize(
        ("limits", "wanted", "served"),
        [
            ({"max_mem_per_node_mib": 1000}, Request(mem_per_node_mib=1000), True),
            ({"max_mem_per_node_mib": 1000}, Request(mem_per_node_mib=1001), False),
            ({"max_mem_per_node_mib": 1000}, Request(mem_per_node_mib=0), False),
            # 4 tasks on a node: Slurm holds the memory of their CPUs against the limit
            ({"max_mem_per_node_mib": 1000}, Request(tasks=4, cpus=4, mem_per_cpu_mib=250), True),
            ({"max_mem_per_node_mib": 1000}, Request(tasks=4, cpus=4, mem_per_cpu_mib=251), False),
            ({"max_mem_per_node_mib": 1000}, Request(tasks=2, cpus=4, cpus_per_task=2, mem_per_cpu_mib=251), False),
            ({"max_mem_per_node_mib": 1000}, Request(cpus=1, min_cpus_per_node=4, mem_per_cpu_mib=251), False),
            ({"max_mem_per_cpu_mib": 10}, Request(mem_per_cpu_mib=10), True),
            ({"max_mem_per_cpu_mib": 10}, Request(mem_per_cpu_mib=11), False),
        ],
    )
    def test_more_memory_than_the_partition_gives(
        self, limits: dict[str, int], wanted: Request, *, served: bool
    ) -> None:
        snapshot = cluster([node("n1")], [waiting(9, wanted)], partitions=[self.partition("p", "n1", **limits)])
        assert bool(victims(snapshot)) is served

    def test_defaults_for_each_gpu_are_the_partitions_or_the_sites(self) -> None:
        te = waiting(9, Request(gres_per_node=(("gpu", 2),), mem_per_cpu_mib=1), partitions=("p", "q"))
        parts = [self.partition("p", "n1"), self.partition("q", "n2", def_cpus_per_gpu=4, def_mem_per_gpu_mib=50)]
        nodes = [node("n1", gres={"gpu": 4}), node("n2", gres={"gpu": 4})]
        snapshot = cluster(nodes, [te], partitions=parts, settings=SlurmSettings(def_cpus_per_gpu=3))
        amounts = [one.per_node[:2].tolist() for one in demands_of(te, snapshot, capacity_of(snapshot))]
        assert amounts == [[6, 6], [8, 100]]

    @pytest.mark.parametrize(
        ("of_a_task", "in_all", "by_task", "wanted"),
        [
            (1, 1, False, 6),
            (4, 4, False, 4),  # -c4: Slurm gives it no default
            (2, 1, True, 6),  # the default's, shown in the place of -c's
            (4, 4, True, 4),
            (4, 2, False, 4),  # fewer in all, as of -N2-3 -c4 without -n
        ],
    )
    def test_cpus_by_default_for_each_gpu_are_not_for_a_job_that_names_those_of_a_task(
        self, of_a_task: int, in_all: int, by_task: bool, wanted: int
    ) -> None:
        two, least = (("gpu", 2),), of_a_task if not by_task else 1
        te = Request(cpus=in_all, cpus_per_task=of_a_task, mem_per_node_mib=1, min_cpus_per_node=least)
        te = replace(te, gres_per_task=two) if by_task else replace(te, gres_per_node=two)
        settings = SlurmSettings(def_cpus_per_gpu=3)
        snapshot = cluster([node("n1", gres={"gpu": 4})], [waiting(9, te)], settings=settings)
        assert demand_of(snapshot.jobs[JobId(9)], snapshot, capacity_of(snapshot)).per_node[0] == wanted

    def test_default_memory_of_a_gpu_needs_one_victim_and_not_the_whole_node(self) -> None:
        parts = [self.partition("p", "n1", def_mem_per_gpu_mib=700)]
        jobs = [running(job_id, share("n1", 1, 8000, {"gpu": 1})) for job_id in range(1, 9)]
        nodes = [node("n1", gres={"gpu": 8})]
        te = Request(gres_per_job=(("gpu", 1),), mem_per_node_mib=0, mem_counted_mib=700)
        # As 22.05 counts it may be --mem=0, too.
        for request in (te, replace(te, mem_counted_mib=64_000)):
            ((_, gone),) = victims(cluster(nodes, [*jobs, waiting(9, request)], partitions=parts))
            assert len(gone) == 1
        all_of_it = replace(te, mem_counted_mib=64_000)
        settings = SlurmSettings(release="26.05.5")
        ((_, gone),) = victims(cluster(nodes, [*jobs, waiting(9, all_of_it)], partitions=parts, settings=settings))
        assert len(gone) == 8

    def test_a_limit_of_memory_holds_against_a_job_that_may_want_all(self) -> None:
        """Slurm 22.05 says MaxMemPerLimit of each job that names no memory in such a partition."""
        te = waiting(9, Request(gres_per_job=(("gpu", 1),), mem_per_node_mib=0, mem_counted_mib=64_000))
        nodes = [node("n1", gres={"gpu": 8})]
        for limits, served in (({}, True), ({"max_mem_per_node_mib": 60_000}, False)):
            parts = [self.partition("p", "n1", def_mem_per_gpu_mib=700, **limits)]
            assert bool(victims(cluster(nodes, [te], partitions=parts))) is served

    def test_no_more_nodes_than_the_partition_gives(self) -> None:
        wide = Request(cpus=64, tasks=64, max_nodes=64, mem_per_node_mib=1)
        for most, served in ((1, False), (2, True)):
            parts = [self.partition("p", "n1", "n2", max_nodes=most)]
            snapshot = cluster([node("n1"), node("n2")], [waiting(9, wide)], partitions=parts)
            assert bool(victims(snapshot)) is served

    def test_a_partition_with_too_few_nodes_for_the_job_keeps_none_from_the_next(self) -> None:
        parts = [self.partition("p", "n1"), self.partition("q", "n1", "n2")]
        two = Request(cpus=2, tasks=2, min_nodes=2, max_nodes=2, mem_per_node_mib=1)
        snapshot = cluster([node("n1"), node("n2")], [waiting(9, two, partitions=("p", "q"))], partitions=parts)
        assert victims(snapshot) == [(("n1", "n2"), [])]

    def test_nodes_of_a_partition_that_is_not_modelled_are_left_out(self) -> None:
        parts = [self.partition("p", "n1", max_cpus_per_socket=4), self.partition("q", "n1", "n2")]
        snapshot = cluster([node("n1"), node("n2")], [waiting(9, partitions=("p", "q"))], partitions=parts)
        assert victims(snapshot) == [(("n2",), [])]
        only_there = cluster([node("n1")], [waiting(9, partitions=("p", "q"))], partitions=parts[:1])
        (refusal,) = FitGpp().propose(view_of(only_there), None).refusals
        assert refusal.code is RefusalCode.UNSUPPORTED
        assert "MaxCPUsPerSocket=4 of partition p" in refusal.text


class TestUsersByThemselves:
    """--exclusive=user, and partitions with ExclusiveUser: a node has one user's jobs at a time."""

    def of(self, job: Job, te: Job, *, alone: bool = False) -> list[tuple[tuple[str, ...], list[int]]]:
        part = Partition(name="p", nodes=frozenset({"n1"}), exclusive_user=alone)
        return victims(cluster([node("n1")], [job, te], partitions=[part]))

    def test_another_users_node_is_no_place(self) -> None:
        job = replace(running(1, share("n1", 1), user="ann"), request=Request(sharing="USER"))
        assert self.of(job, waiting(9, user="bob")) == []
        assert self.of(job, waiting(9, user="ann")) == [(("n1",), [])]

    def test_nor_is_a_node_with_others_for_a_job_that_wants_no_others(self) -> None:
        te = Request(sharing="USER", mem_per_node_mib=1)
        assert self.of(running(1, share("n1", 1), user="ann"), waiting(9, te, user="bob")) == []
        assert self.of(running(1, share("n1", 1), user="bob"), waiting(9, te, user="bob")) == [(("n1",), [])]

    def test_nor_in_a_partition_that_has_it_so(self) -> None:
        assert self.of(running(1, share("n1", 1), user="ann"), waiting(9, user="bob"), alone=True) == []


class TestNumberOfNodes:
    """A job that leaves the number of its nodes to Slurm gets the fewest on which it can run."""

    def wanted(self, request: Request, *nodes: Node) -> Demand:
        snapshot = cluster(nodes, [waiting(9, request)])
        return demand_of(snapshot.jobs[JobId(9)], snapshot, capacity_of(snapshot))

    def test_one_if_one_is_large_enough(self) -> None:
        request = Request(cpus=6, tasks=2, cpus_per_task=3, max_nodes=2, mem_per_node_mib=1)
        assert self.wanted(request, node("n1"), node("n2")).nodes == 1

    def test_more_if_it_is_not(self) -> None:
        request = Request(cpus=40, tasks=40, max_nodes=40, mem_per_node_mib=1)
        demand = self.wanted(request, node("n1"), node("n2"))
        assert (demand.nodes, demand.per_node[0]) == (2, 20)

    def test_as_many_as_its_tasks_a_node_ask_for(self) -> None:
        request = Request(cpus=4, tasks=4, max_nodes=4, tasks_per_node=2, mem_per_node_mib=1)
        assert self.wanted(request, node("n1"), node("n2")).nodes == 2

    def test_one_required_node_may_have_others_beside_it(self) -> None:
        request = Request(cpus=40, tasks=40, max_nodes=40, mem_per_node_mib=1, required_nodes=("n2",))
        demand = self.wanted(request, node("n1"), node("n2"))
        assert (demand.nodes, demand.required, demand.allowed.tolist()) == (2, (1,), [True, True])
        alone = self.wanted(replace(request, cpus=4, tasks=4), node("n1"), node("n2"))
        assert (alone.nodes, alone.allowed.tolist()) == (1, [False, True])


class TestShards:
    """Each of 4 GPUs has 2 shards."""

    nodes = (node("n1", gres={"gpu": 4, "shard": 8}),)

    def test_a_gpu_that_is_held_in_part_is_free_for_none_that_wants_it_whole(self) -> None:
        jobs = [running(1, share("n1", 1, 0, {"shard": 3})), running(2, share("n1", 1, 0, {"gpu": 1}))]
        assert free(cluster(self.nodes, jobs)) == {"cpu": 30, "mem_mib": 64_000, "gpu": 1, "shard": 3}

    def test_a_job_that_gives_back_gpus_frees_shards(self) -> None:
        te = waiting(9, Request(gres_per_node=(("shard", 1),), mem_per_node_mib=1))
        assert victims(cluster(self.nodes, [running(1, share("n1", 1, 0, {"gpu": 4})), te])) == [(("n1",), [1])]

    def test_and_the_other_way_round(self) -> None:
        te = waiting(9, Request(gres_per_node=(("gpu", 4),), mem_per_node_mib=1))
        assert victims(cluster(self.nodes, [running(1, share("n1", 1, 0, {"shard": 1})), te])) == [(("n1",), [1])]

    def test_all_of_a_jobs_shards_are_of_one_gpu(self) -> None:
        # 5 of 8 are free, and may be one or two of each of the 4 GPUs: two of one GPU are certain
        pair = waiting(9, Request(gres_per_node=(("shard", 2),), mem_per_node_mib=1))
        job = running(1, share("n1", 1, 0, {"shard": 3}))
        assert victims(cluster(self.nodes, [job, pair])) == [(("n1",), [])]
        more = running(2, share("n1", 1, 0, {"shard": 1}))
        assert victims(cluster(self.nodes, [job, more, pair])) == [(("n1",), [2])]
        assert victims(cluster(self.nodes, [waiting(9, Request(gres_per_node=(("shard", 3),)))])) == []

    @pytest.mark.parametrize(
        ("sharing", "wanted", "leave"),
        [
            (6, Request(gres_per_node=(("shard", 1),), mem_per_node_mib=1), []),
            (8, Request(gres_per_node=(("shard", 1),), mem_per_node_mib=1), [1]),
            (8, Request(cpus=24, tasks=24, mem_per_node_mib=1), []),
            (8, Request(cpus=25, tasks=25, mem_per_node_mib=1), [1]),
        ],
    )
    def test_gpus_of_which_more_jobs_have_shards_than_there_are_hinder_none_that_wants_no_gpu(
        self, sharing: int, wanted: Request, leave: list[int]
    ) -> None:
        jobs = [running(job, share("n1", 1, 0, {"shard": 1})) for job in range(1, sharing + 1)]
        assert victims(cluster(self.nodes, [*jobs, waiting(9, wanted)])) == [(("n1",), leave)]

    def test_a_shard_takes_no_gpu_of_a_type_that_only_other_nodes_have(self) -> None:
        nodes = (*self.nodes, node("n2", gres={"gpu:a100": 4}))
        jobs = [running(1, share("n1", 16, 0, {"shard": 3})), running(2, share("n2", 32))]
        assert free(cluster(nodes, jobs)) == {"cpu": 16, "mem_mib": 64_000, "gpu": 2, "gpu:a100": 0, "shard": 5}
        assert victims(cluster(nodes, [*jobs, waiting(9, cpus=16)])) == [(("n1",), [])]

    def test_two_jobs_of_one_cycle_do_not_get_the_same_gpu(self) -> None:
        whole = waiting(8, Request(gres_per_node=(("gpu", 4),), mem_per_node_mib=1))
        part = waiting(9, Request(gres_per_node=(("shard", 1),), mem_per_node_mib=1))
        assert victims(cluster(self.nodes, [whole, part])) == [(("n1",), [])]


@pytest.mark.parametrize(
    ("flag", "served"),
    [
        ("PLANNED", True),
        ("COMPLETING", True),
        ("CLOUD", True),
        ("RESERVED", True),
        ("POWERED_DOWN", False),
        ("POWERING_UP", False),
        ("POWERING_DOWN", False),
        ("REBOOT_REQUESTED", False),
        ("DRAIN", False),
        ("NOT_RESPONDING", False),
        ("SOMETHING_NEW", False),
    ],
)
def test_flags_of_a_node(flag: str, *, served: bool) -> None:
    snapshot = cluster([replace(node("n1"), flags=frozenset({flag}))], [waiting(9)])
    assert bool(victims(snapshot)) is served


def test_one_switch_for_all_of_its_nodes() -> None:
    names = ("n1", "n2", "n3", "n4")
    switches = (Switch(name="s1", nodes=names[:2]), Switch(name="s2", nodes=names[2:]))
    request = Request(cpus=64, tasks=64, min_nodes=2, max_nodes=2, switches=1, mem_per_node_mib=1)
    jobs = [running(2, share("n2", 32)), running(3, share("n3", 16)), running(4, share("n3", 16)), waiting(9, request)]
    snapshot = cluster([node(name) for name in names], jobs, settings=SlurmSettings(switches=switches))
    # n1 and n4 are free, and of two switches
    assert victims(snapshot) == [(("n1", "n2"), [2])]


def test_a_job_on_a_node_that_is_not_shown_is_no_victim() -> None:
    hidden = running(1, share("n1", 32), share("gone", 32))
    snapshot = cluster([node("n1")], [hidden, waiting(9)])
    assert excused(snapshot, Memory(), Limits(min_run_time_s=0))[JobId(1)][0] is RefusalCode.UNSUPPORTED


def test_local_disk_is_counted() -> None:
    snapshot = cluster(
        [replace(node("n1"), tmp_mib=99), replace(node("n2"), tmp_mib=100)],
        [waiting(9, Request(tmp_mib=100, mem_per_node_mib=1))],
    )
    assert victims(snapshot) == [(("n2",), [])]
