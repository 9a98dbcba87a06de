"""Demand of a job on each node, the nodes on which it may run, and what is free there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job, JobState, Partition, Request, Reservation, SlurmSettings
from tesched_core.model.request import demand_per_node, requested_gpus, wants_all_memory
from tesched_core.model.resources import Tres
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.capacity_of import capacity_of
from tesched_core.placement.constraint import UnsupportedConstraintError, has_features
from tesched_core.placement.demand import Demand, demand_of

from tests.builders import NOW, cluster, node, running, share, waiting


def demand(job: Job, snapshot: Snapshot) -> tuple[Demand, Capacity]:
    capacity = capacity_of(snapshot)
    return demand_of(job, snapshot, capacity), capacity


def allowed(job: Job, snapshot: Snapshot) -> set[str]:
    """Return the names of the nodes where the job may run."""
    wanted, capacity = demand(job, snapshot)
    return {capacity.names[row] for row in np.flatnonzero(wanted.allowed)}


def fitting(job: Job, snapshot: Snapshot) -> set[str]:
    """Return the names of the nodes where the job fits now."""
    wanted, capacity = demand(job, snapshot)
    return {capacity.names[row] for row in np.flatnonzero(wanted.fits(capacity))}


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        (Request(cpus=4), Tres(cpus=4)),
        # 10 CPUs on 4 nodes: 2.5 each, rounded up
        (Request(min_nodes=4, max_nodes=4, cpus=10), Tres(cpus=3)),
        # --mincpus is above the even share of 2
        (Request(min_nodes=2, max_nodes=2, cpus=4, min_cpus_per_node=6), Tres(cpus=6)),
        # the fewest nodes of --nodes=2-8
        (Request(min_nodes=2, max_nodes=8, cpus=16), Tres(cpus=8)),
        (Request(min_nodes=0, max_nodes=0, cpus=3), Tres(cpus=3)),
        (Request(cpus=4, mem_per_node_mib=500), Tres(cpus=4, mem_mib=500)),
        # by CPU, of the CPUs on this node: 3 * 100
        (Request(min_nodes=2, max_nodes=2, cpus=6, mem_per_cpu_mib=100), Tres(cpus=3, mem_mib=300)),
        # by CPU, where --mincpus gives it more of them: 4 * 100
        (Request(cpus=2, min_cpus_per_node=4, mem_per_cpu_mib=100), Tres(cpus=4, mem_mib=400)),
        (Request(gres_per_node=(("gpu", 2),), min_nodes=3, max_nodes=3, cpus=3), Tres(cpus=1, gres=(("gpu", 2),))),
        (Request(gres_per_node=(("gpu:a100", 2),)), Tres(cpus=1, gres=(("gpu", 2), ("gpu:a100", 2)))),
        # 5 GPUs a job on 2 nodes: 2.5 each, rounded up
        (Request(gres_per_job=(("gpu", 5),), min_nodes=2, max_nodes=2, cpus=2), Tres(cpus=1, gres=(("gpu", 3),))),
        # 8 CPUs at 2 a task on 2 nodes are 2 tasks a node, with 1 GPU each
        (
            Request(gres_per_task=(("gpu", 1),), min_nodes=2, max_nodes=2, cpus=8, tasks=4, cpus_per_task=2),
            Tres(cpus=4, gres=(("gpu", 2),)),
        ),
        # 3 tasks on 2 nodes: one of them gets 2
        (
            Request(gres_per_task=(("gpu", 2),), min_nodes=2, max_nodes=2, cpus=3, tasks=3),
            Tres(cpus=2, gres=(("gpu", 4),)),
        ),
        (Request(gres_per_socket=(("gpu", 2),)), Tres(cpus=1, gres=(("gpu", 2),))),
        (
            Request(gres_per_node=(("gpu", 1),), gres_per_job=(("shard", 4),), min_nodes=2, max_nodes=2, cpus=2),
            Tres(cpus=1, gres=(("gpu", 1), ("shard", 2))),
        ),
    ],
)
def test_demand_of_one_node(request_: Request, wanted: Tres) -> None:
    assert demand_per_node(request_) == wanted


@pytest.mark.parametrize(
    ("request_", "all_of_it"),
    [
        (Request(), True),
        (Request(mem_per_node_mib=0), True),
        (Request(mem_per_cpu_mib=0), True),
        (Request(mem_per_node_mib=1), False),
        (Request(mem_per_cpu_mib=1), False),
    ],
)
def test_memory_that_is_not_bounded_is_all_of_it(request_: Request, all_of_it: bool) -> None:
    assert wants_all_memory(request_) is all_of_it


@pytest.mark.parametrize(
    ("request_", "gpus"),
    [
        (Request(), 0),
        (Request(gres_per_node=(("gpu", 3),)), 3),
        (Request(gres_per_node=(("gpu:a100", 2),), min_nodes=3, max_nodes=3), 6),
        # by job they are counted as requested, not as rounded up on each node
        (Request(gres_per_job=(("gpu", 5),), min_nodes=2, max_nodes=2), 5),
        (Request(gres_per_job=(("gpu:a100", 5), ("shard", 3)), min_nodes=2, max_nodes=2), 5),
        # another device requested by job does not hide the GPUs requested by node
        (Request(gres_per_job=(("shard", 3),), gres_per_node=(("gpu", 2),), min_nodes=2, max_nodes=2), 4),
    ],
)
def test_gpus_over_all_nodes(request_: Request, gpus: int) -> None:
    assert requested_gpus(request_) == gpus


class TestFeatures:
    """`--constraint`."""

    @pytest.mark.parametrize(
        ("expression", "features", "satisfied"),
        [
            ("fast", {"fast", "big"}, True),
            ("fast", {"faster"}, False),
            ("fast&big", {"fast", "big"}, True),
            ("fast&big", {"fast"}, False),
            ("fast&big", {"big"}, False),
            ("fast|big", {"fast"}, True),
            ("fast,big", {"fast"}, False),
            ("fast|big", {"big"}, True),
            ("fast|big", {"slow"}, False),
            ("fast & big", {"fast", "big"}, True),
            # from left to right: (a|b)&c, which is not a|(b&c)
            ("a|b&c", {"a"}, False),
            ("a|b&c", {"a", "c"}, True),
            # and (a&b)|c
            ("a&b|c", {"c"}, True),
            ("a|(b&c)", {"a"}, True),
            ("(a|b)&(c|d)", {"b", "d"}, True),
            ("(a|b)&(c|d)", {"a", "b"}, False),
            ("cpu:zen-4.1/x=y", {"cpu:zen-4.1/x=y"}, True),
        ],
    )
    def test_feature_expression_is_weighed(self, expression: str, features: set[str], satisfied: bool) -> None:
        assert has_features(expression, frozenset(features)) is satisfied

    @pytest.mark.parametrize("expression", ["a*2", "[a|b]", "[a*1&b*1]", "!a", "a&", "&a", "(a", "a)", "a b", "()", ""])
    def test_what_is_not_about_one_node_is_left_to_slurm(self, expression: str) -> None:
        with pytest.raises(UnsupportedConstraintError):
            has_features(expression, frozenset({"a", "b"}))

    def test_how_deep_it_goes_is_bounded(self) -> None:
        assert has_features("(" * 100 + " a \n" + ")" * 100, frozenset({"a"}))
        with pytest.raises(UnsupportedConstraintError):
            has_features("(" * 100_000 + "a" + ")" * 100_000, frozenset({"a"}))


class TestAllowed:
    """Where a job may run, whatever is free there."""

    def test_nodes_of_its_partitions_that_are_up(self) -> None:
        snapshot = cluster(
            [node("n1"), node("n2"), node("n3"), node("n4")],
            partitions=[
                Partition(name="p", nodes=frozenset({"n1"})),
                Partition(name="q", nodes=frozenset({"n2", "gone"})),
                Partition(name="drained", nodes=frozenset({"n3"}), state="DRAIN"),
                Partition(name="other", nodes=frozenset({"n4"})),
            ],
        )
        assert allowed(waiting(1, partitions=("p", "q", "drained", "unknown")), snapshot) == {"n1", "n2"}

    @pytest.mark.parametrize("state", ["DOWN", "UNKNOWN", "FUTURE", "ERROR"])
    def test_no_node_in_a_state_that_starts_no_jobs(self, state: str) -> None:
        snapshot = cluster([node("n1"), replace(node("n2"), state=state)])
        assert allowed(waiting(1), snapshot) == {"n1"}

    @pytest.mark.parametrize("flag", ["DRAIN", "NOT_RESPONDING", "FAIL", "POWERED_DOWN", "POWERING_DOWN"])
    def test_no_node_with_a_flag_that_keeps_jobs_away(self, flag: str) -> None:
        snapshot = cluster([node("n1"), replace(node("n2"), flags=frozenset({flag, "PLANNED"}))])
        assert allowed(waiting(1), snapshot) == {"n1"}

    def test_a_busy_or_planned_node_is_allowed(self) -> None:
        busy = replace(node("n1"), state="ALLOCATED", flags=frozenset({"PLANNED"}))
        mixed = replace(node("n2"), state="MIXED", flags=frozenset({"COMPLETING"}))
        assert allowed(waiting(1), cluster([busy, mixed])) == {"n1", "n2"}

    def test_only_nodes_with_the_features(self) -> None:
        nodes = [
            replace(node("n1"), features=frozenset({"fast", "big"})),
            replace(node("n2"), features=frozenset({"fast"})),
            replace(node("n3"), features=frozenset({"fast", "big"})),
        ]
        assert allowed(waiting(1, Request(features="fast&big")), cluster(nodes)) == {"n1", "n3"}

    def test_a_constraint_that_cannot_be_weighed_is_said_so(self) -> None:
        with pytest.raises(UnsupportedConstraintError):
            allowed(waiting(1, Request(features="[a|b]")), cluster([node("n1")]))

    def test_not_the_excluded_nodes(self) -> None:
        snapshot = cluster([node("n1"), node("n2")])
        assert allowed(waiting(1, Request(excluded_nodes=("n2", "gone"))), snapshot) == {"n1"}

    def test_a_complete_node_list_allows_no_other_node(self) -> None:
        snapshot = cluster([node("n1"), node("n2"), node("n3")])
        wanted, capacity = demand(waiting(1, Request(required_nodes=("n3",))), snapshot)
        assert [capacity.names[row] for row in np.flatnonzero(wanted.allowed)] == ["n3"]
        assert wanted.required == (2,)

    def test_an_incomplete_node_list_allows_others_beside_it(self) -> None:
        snapshot = cluster([node("n1"), node("n2"), node("n3")])
        job = waiting(1, Request(required_nodes=("n2",), min_nodes=2, max_nodes=2, cpus=2))
        wanted, _ = demand(job, snapshot)
        assert wanted.required == (1,)
        assert allowed(job, snapshot) == {"n1", "n2", "n3"}

    def test_a_node_list_with_an_unknown_node_allows_nothing(self) -> None:
        snapshot = cluster([node("n1"), node("n2"), node("n3")])
        job = waiting(1, Request(required_nodes=("gone",), min_nodes=2, max_nodes=2, cpus=2))
        assert allowed(job, snapshot) == set()


class TestReservations:
    """A reservation is for its own jobs, and its jobs are for it."""

    def snapshot(self, *, start: float, end: float) -> Snapshot:
        reserved = Reservation(name="r", start_time=start, end_time=end, nodes=frozenset({"n2"}))
        return cluster([node("n1"), node("n2")], reservations=[reserved])

    def test_its_jobs_run_on_its_nodes_alone(self) -> None:
        assert allowed(waiting(1, reservation="r"), self.snapshot(start=NOW - 5, end=NOW + 5)) == {"n2"}

    def test_other_jobs_do_not_run_on_its_nodes(self) -> None:
        assert allowed(waiting(1, time_limit_s=60), self.snapshot(start=NOW - 5, end=NOW + 5)) == {"n1"}

    def test_a_job_of_an_unknown_reservation_runs_nowhere(self) -> None:
        assert allowed(waiting(1, reservation="gone"), self.snapshot(start=NOW - 5, end=NOW + 5)) == set()

    def test_a_reservation_that_is_over_is_in_nobodys_way(self) -> None:
        assert allowed(waiting(1, time_limit_s=60), self.snapshot(start=NOW - 50, end=NOW)) == {"n1", "n2"}

    def test_a_job_that_ends_before_it_starts_may_run(self) -> None:
        snapshot = self.snapshot(start=NOW + 100, end=NOW + 200)
        assert allowed(waiting(1, time_limit_s=100), snapshot) == {"n1", "n2"}
        assert allowed(waiting(1, time_limit_s=101), snapshot) == {"n1"}

    @pytest.mark.parametrize(("days", "nodes"), [(364, {"n1"}), (366, {"n1", "n2"})])
    def test_a_job_without_a_limit_is_in_its_way_within_a_year(self, days: int, nodes: set[str]) -> None:
        start = NOW + days * 86_400
        assert allowed(waiting(1, time_limit_s=None), self.snapshot(start=start, end=start + 1)) == nodes


class TestCapacity:
    """What is free."""

    def test_free_is_what_no_job_holds(self) -> None:
        snapshot = cluster(
            [node("n1", cpus=32, mem_mib=1000, gres={"gpu:a100": 4}), node("n2", cpus=16, mem_mib=500)],
            [
                running(1, share("n1", 8, 100, {"gpu:a100": 1}), share("n2", 2, 50)),
                running(2, share("n1", 4, 200)),
                running(3, share("elsewhere", 99)),
            ],
        )
        capacity = capacity_of(snapshot)
        assert capacity.resources == ("cpu", "mem_mib", "gpu", "gpu:a100")
        # n1: 32 - 8 - 4, 1000 - 100 - 200, 4 - 1 twice; n2: 16 - 2, 500 - 50
        assert capacity.free.tolist() == [[20, 700, 3, 3], [14, 450, 0, 0]]
        assert capacity.total.tolist() == [[32, 1000, 4, 4], [16, 500, 0, 0]]

    def test_a_suspended_job_gives_back_its_cpus_alone(self) -> None:
        job = running(1, share("n1", 8, 100, {"gpu": 2}))
        n1 = node("n1", cpus=32, mem_mib=1000, gres={"gpu": 4})
        assert capacity_of(cluster([n1], [job])).free.tolist() == [[24, 900, 2]]
        assert capacity_of(cluster([n1], [replace(job, state=JobState.SUSPENDED)])).free.tolist() == [[32, 900, 2]]

    def test_a_completing_job_still_holds_its_resources(self) -> None:
        ending = running(1, share("n1", 8), state=JobState.COMPLETED, flags=frozenset({"COMPLETING"}))
        assert capacity_of(cluster([node("n1", cpus=32)], [ending])).free[0, 0] == 24

    def test_a_change_gives_new_free_resources(self) -> None:
        capacity = capacity_of(cluster([node("n1", cpus=32), node("n2", cpus=32)]))
        changed = capacity.changed([1, 1], np.array([[-8, 0], [-4, -10]]))
        assert changed.free.tolist() == [[32, 64_000], [20, 63_990]]
        assert capacity.free.tolist() == [[32, 64_000], [32, 64_000]]

    def test_free_resources_cannot_be_written_to(self) -> None:
        capacity = capacity_of(cluster([node("n1")]))
        for array in (capacity.free, capacity.total, capacity.changed([0], np.array([[-1, 0]])).free):
            with pytest.raises(ValueError, match="read-only"):
                array[0, 0] = 0


class TestFits:
    """Whether a job's share fits into what is free."""

    def snapshot(self) -> Snapshot:
        # n1 has 8 of 32 CPUs and 900 of 1000 MiB free, n2 all of 16 and 1000
        return cluster(
            [node("n1", cpus=32, mem_mib=1000), node("n2", cpus=16, mem_mib=1000)], [running(9, share("n1", 24, 100))]
        )

    @pytest.mark.parametrize(
        ("request_", "names"),
        [
            (Request(cpus=8, mem_per_node_mib=1), {"n1", "n2"}),
            (Request(cpus=9, mem_per_node_mib=1), {"n2"}),
            (Request(cpus=17, mem_per_node_mib=1), set()),
            (Request(mem_per_node_mib=900), {"n1", "n2"}),
            (Request(mem_per_node_mib=901), {"n2"}),
            # all memory of the node: no other job may hold any
            (Request(mem_per_node_mib=0), {"n2"}),
            (Request(exclusive=True, mem_per_node_mib=1), {"n2"}),
        ],
    )
    def test_share_fits(self, request_: Request, names: set[str]) -> None:
        assert fitting(waiting(1, request_), self.snapshot()) == names

    def test_memory_that_the_site_does_not_share_out_is_in_nobodys_way(self) -> None:
        settings = SlurmSettings(memory_is_shared_out=False)
        assert fitting(waiting(1, Request()), replace(self.snapshot(), settings=settings)) == {"n1", "n2"}

    @pytest.mark.parametrize(
        ("request_", "names"),
        [
            # as 22.05 reads it, for the CPUs that it wants on a node at least: 2 * 450 and 2 * 501 MiB, not 8 times
            (Request(cpus=8, tasks=4, cpus_per_task=2, min_cpus_per_node=2, mem_per_cpu_mib=450), {"n1", "n2"}),
            (Request(cpus=8, tasks=4, cpus_per_task=2, min_cpus_per_node=2, mem_per_cpu_mib=501), set()),
            (Request(mem_per_node_mib=900), {"n1", "n2"}),
            (Request(mem_per_node_mib=1001), set()),
        ],
    )
    def test_where_no_memory_is_shared_out_a_node_must_have_the_least(self, request_: Request, names: set[str]) -> None:
        settings = SlurmSettings(memory_is_shared_out=False, release="22.05.8")
        assert fitting(waiting(1, request_), replace(self.snapshot(), settings=settings)) == names

    def test_there_memory_of_gpus_counts_for_nothing(self) -> None:
        request = Request(gres_per_node=(("gpu", 1),), mem_per_gres=(("gpu", 2000),))
        for release, names in (("22.05.8", {"n1"}), ("26.05.5", set())):
            settings = SlurmSettings(memory_is_shared_out=False, release=release)
            snapshot = cluster([node("n1", mem_mib=1000, gres={"gpu": 1})], settings=settings)
            assert fitting(waiting(1, request), snapshot) == names

    def test_a_job_that_sleeps_there_is_in_the_way_of_an_exclusive_one(self) -> None:
        asleep = running(9, share("n1", 24, 100), state=JobState.SUSPENDED)
        snapshot = cluster([node("n1", cpus=32, mem_mib=1000)], [asleep])
        assert fitting(waiting(1, Request(exclusive=True, mem_per_node_mib=1)), snapshot) == set()
        assert fitting(waiting(1, Request(cpus=32, mem_per_node_mib=1)), snapshot) == {"n1"}

    def test_a_type_of_gpu_fits_where_that_type_is_free(self) -> None:
        snapshot = cluster(
            [node("n1", gres={"gpu:a100": 2}), node("n2", gres={"gpu:v100": 2}), node("n3")],
            [running(9, share("n1", 0, 0, {"gpu:a100": 1}))],
        )

        def job(name: str, count: int) -> Job:
            return waiting(1, Request(gres_per_node=((name, count),), mem_per_node_mib=1))

        assert fitting(job("gpu", 1), snapshot) == {"n1", "n2"}
        assert fitting(job("gpu", 2), snapshot) == {"n2"}
        assert fitting(job("gpu:a100", 1), snapshot) == {"n1"}
        assert fitting(job("gpu:a100", 2), snapshot) == set()

    def test_a_gres_that_no_node_has_fits_nowhere_and_is_named(self) -> None:
        wanted, capacity = demand(
            waiting(1, Request(gres_per_node=(("fpga", 1),), mem_per_node_mib=1)), cluster([node("n1")])
        )
        assert wanted.unknown_gres == "fpga"
        assert not wanted.fits(capacity).any()

    def test_rows_may_be_read_one_by_one(self) -> None:
        wanted, capacity = demand(waiting(1, Request(cpus=9, mem_per_node_mib=1)), self.snapshot())
        assert wanted.fits(capacity, np.array([1, 0, 1])).tolist() == [True, False, True]
