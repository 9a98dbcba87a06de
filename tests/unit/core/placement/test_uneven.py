"""Which jobs Slurm spreads unevenly over their nodes, and over which: each case was tried on Slurm 22.05."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tesched_core.model.cluster import Job, Node, Partition, Request, SlurmSettings
from tesched_core.model.resources import JobId
from tesched_core.placement.capacity_of import capacity_of
from tesched_core.placement.demand import demands_of
from tesched_core.placement.in_the_way import fits_now
from tesched_core.policy import MakeRoom
from tesched_policies.fitgpp import FitGpp

from tests.builders import cluster, node, running, share, view_of, waiting

#: with --gpus=4, one task on each of two nodes
IN_ALL = Request(cpus=2, tasks=2, min_nodes=2, max_nodes=2, mem_per_node_mib=1, gres_per_job=(("gpu", 4),))
A_CORE = Request(cpus=6, tasks=6, min_nodes=2, max_nodes=2, mem_per_node_mib=1, tasks_per_core=1)
BY_TASK = Request(cpus=4, tasks=4, min_nodes=2, max_nodes=2, mem_per_node_mib=1, gres_per_task=(("gpu", 1),))
OF_THREE = Request(cpus=9, tasks=3, cpus_per_task=3, min_cpus_per_node=3, min_nodes=2, max_nodes=2, mem_per_node_mib=1)


def with_threads(name: str, cpus: int, threads: int, gpus: int = 0) -> Node:
    one = node(name, cpus=cpus, gres={"gpu": gpus} if gpus else None)
    return replace(one, sockets=1, cores_per_socket=cpus // threads, threads_per_core=threads)


def plans(
    nodes: Sequence[Node],
    jobs: Sequence[Job],
    request: Request,
    settings: SlurmSettings | None = None,
    *,
    fixable: bool = True,
    reason: str = "Resources",
) -> list[tuple[str, tuple[int, ...]]]:
    """Return nodes and victims, on 22.05 if nothing else is said; no number can be set of one that is not `fixable`."""
    te = replace(waiting(9, request), reason=reason, het_job_id=None if fixable else JobId(9))
    snapshot = cluster(nodes, [*jobs, te], settings=settings or SlurmSettings(release="22.05.8"))
    proposal = FitGpp().propose(view_of(snapshot), None)
    return [(",".join(one.nodes), one.victim_ids) for one in proposal.plans if isinstance(one, MakeRoom)]


def may_start(nodes: Sequence[Node], request: Request, settings: SlurmSettings | None = None) -> bool:
    """Check whether a best-effort job that Slurm places by itself fits on these nodes, if they are empty."""
    partition = Partition(name="p", nodes=frozenset(one.name for one in nodes))
    job = waiting(9, request)
    snapshot = cluster(nodes, [job], partitions=[partition], settings=settings or SlurmSettings(release="22.05.8"))
    capacity = capacity_of(snapshot)
    return fits_now(demands_of(job, snapshot, capacity, binds=False), capacity)


class TestGpusInAll:
    NODES = (node("n1", gres={"gpu": 4}), node("n2", gres={"gpu": 4}))

    def test_one_node_has_more_of_them_than_the_other(self) -> None:
        jobs = [running(job_id, share(f"n{job_id}", 1, gres={"gpu": 3})) for job_id in (1, 2)]
        assert plans(self.NODES, jobs, IN_ALL) == [("n1,n2", (1,))]  # 3 and 1, where 2 and 2 take both victims

    def test_each_node_has_one(self) -> None:
        jobs = [running(1, share("n1", 1, gres={"gpu": 4})), running(2, share("n2", 1, gres={"gpu": 1}))]
        three = replace(IN_ALL, gres_per_job=(("gpu", 3),))
        assert plans(self.NODES, jobs, three) == [("n1,n2", (1,))]
        assert plans(self.NODES, jobs, replace(IN_ALL, gres_per_job=(("gpu", 1),))) == [("n1,n2", (1,))]

    def test_tasks_and_gpus_may_be_on_different_nodes(self) -> None:
        jobs = [running(1, share("n1", 27, gres={"gpu": 3})), running(2, share("n2", 31))]
        six = replace(IN_ALL, tasks=6, cpus=6)
        # n1 has 5 CPUs and 1 GPU free, n2 1 CPU and 4 GPUs
        assert plans(self.NODES, jobs, six) == [("n1,n2", ())]
        assert plans(self.NODES, jobs, replace(six, gres_per_job=(("gpu", 6),))) == [("n1,n2", (1,))]

    def test_only_of_the_type_that_it_wants(self) -> None:
        nodes = [node("n1", gres={"gpu:a": 1, "gpu:b": 3}), node("n2", gres={"gpu:a": 3, "gpu:b": 1})]
        assert plans(nodes, [], replace(IN_ALL, gres_per_job=(("gpu:a", 4),))) == [("n1,n2", ())]
        assert plans(nodes, [], replace(IN_ALL, gres_per_job=(("gpu:a", 5),))) == []

    @pytest.mark.parametrize(
        ("request_", "settings"),
        [
            (IN_ALL, SlurmSettings(release="26.05.5")),
            (IN_ALL, SlurmSettings(release="22.05.8", def_cpus_per_gpu=1)),
            (IN_ALL, SlurmSettings(release="22.05.8", def_mem_per_gpu_mib=1)),
            (replace(IN_ALL, cpus_per_gres=(("gpu", 1),)), None),
            (replace(IN_ALL, mem_per_gres=(("gpu", 1),), mem_per_node_mib=None), None),
            (replace(IN_ALL, gres_per_node=(("gpu", 1),)), None),
            (replace(IN_ALL, exclusive=True), None),
        ],
    )
    def test_others_have_the_same_number_on_each_node(self, request_: Request, settings: SlurmSettings | None) -> None:
        nodes = [node("n1", gres={"gpu": 3}), node("n2", gres={"gpu": 1})]
        assert plans(nodes, [], request_, settings) == []
        assert plans(nodes, [], IN_ALL) == [("n1,n2", ())]

    def test_nodes_of_an_open_number_may_be_too_many_for_slurm(self) -> None:
        """Bound to n1 and n2 without a number Slurm may take one of them alone."""
        jobs = [running(1, share("n1", 1, gres={"gpu": 3})), running(2, share("n2", 1, gres={"gpu": 3}))]
        own = replace(IN_ALL, min_nodes=1, required_nodes=("n1",))
        assert plans(self.NODES, jobs, own) == [("n1", (1,))]
        five = replace(own, gres_per_job=(("gpu", 5),))
        assert plans(self.NODES, jobs, five) == [("n1,n2", (1,))]
        assert plans(self.NODES, jobs, five, fixable=False) == []


class TestATaskACore:
    NODES = (with_threads("n1", 8, 2), with_threads("n2", 4, 2))

    def test_as_many_on_each_node_as_it_has_free_cores(self) -> None:
        assert plans(self.NODES, [], A_CORE) == [("n1,n2", ())]
        assert plans(self.NODES, [running(1, share("n2", 2))], A_CORE) == [("n1,n2", (1,))]
        assert plans(self.NODES, [], replace(A_CORE, tasks=7, cpus=7)) == []

    def test_tasks_go_to_the_node_that_a_victim_has_to_leave_in_any_case(self) -> None:
        nodes = [with_threads("n1", 8, 2), with_threads("n2", 8, 2)]
        jobs = [running(1, share("n1", 8)), running(2, share("n2", 4))]
        assert plans(nodes, jobs, A_CORE) == [("n1,n2", (1,))]  # 4 and 2, not 2 and 4

    def test_no_victim_leaves_on_a_node_that_slurm_may_leave_out(self) -> None:
        own = replace(A_CORE, min_nodes=1, max_nodes=6, required_nodes=("n1",))
        assert plans(self.NODES, [running(1, share("n2", 2))], own) == [("n1,n2", (1,))]
        assert plans(self.NODES, [running(1, share("n2", 2))], own, fixable=False) == []

    def test_over_nodes_with_different_numbers_of_threads(self) -> None:
        assert plans([with_threads("n1", 8, 2), with_threads("n2", 2, 1)], [], A_CORE) == [("n1,n2", ())]

    def test_not_several_a_core_nor_beside_devices_nor_on_releases_where_it_was_not_seen(self) -> None:
        nodes = [with_threads("n1", 8, 2, gpus=1), with_threads("n2", 4, 2, gpus=1)]
        assert plans(nodes, [], A_CORE) == [("n1,n2", ())]
        assert plans(nodes, [], replace(A_CORE, gres_per_node=(("gpu", 1),))) == []
        assert plans(nodes, [], A_CORE, SlurmSettings(release="26.05.5")) == [("n1,n2", ())]
        assert plans(nodes, [], A_CORE, SlurmSettings(release="24.11.5")) == []
        assert plans(nodes, [], replace(A_CORE, tasks_per_core=2, tasks=11, cpus=11)) == []


class TestThreads:
    NODES = (with_threads("n1", 8, 2, gpus=2), with_threads("n2", 3, 1, gpus=1))

    def test_tasks_with_a_cores_threads_or_more_are_spread_over_any(self) -> None:
        assert plans(self.NODES, [], OF_THREE) == [("n1,n2", ())]
        assert plans(self.NODES, [running(1, share("n1", 4))], OF_THREE) == [("n1,n2", (1,))]

    def test_not_with_devices_for_each_task_nor_fewer_threads_nor_where_it_was_not_seen(self) -> None:
        assert plans(self.NODES, [], replace(OF_THREE, gres_per_task=(("gpu", 1),))) == []
        assert plans(self.NODES, [], replace(OF_THREE, threads_per_core=2)) == []
        assert plans(self.NODES, [], OF_THREE, SlurmSettings(release="26.05.5")) == [("n1,n2", ())]
        assert plans(self.NODES, [], OF_THREE, SlurmSettings(release="24.11.5")) == []
        four = [with_threads("n1", 16, 4), with_threads("n2", 3, 1)]
        assert plans(four, [], replace(OF_THREE, tasks=6, cpus=18)) == []

    def test_with_one_thread_of_each_core_over_any(self) -> None:
        nodes = [with_threads("n1", 12, 2), with_threads("n2", 3, 1)]
        one = replace(OF_THREE, threads_per_core=1)
        assert plans(nodes, [], one) == [("n1,n2", ())]
        assert plans(nodes, [running(1, share("n1", 2))], one) == [("n1,n2", (1,))]
        assert plans(nodes, [], one, SlurmSettings(release="26.05.5")) == [("n1,n2", ())]
        assert plans(nodes, [], one, SlurmSettings(release="24.11.5")) == []


class TestCpusOfATasksGpus:
    """--gpus-per-task where each GPU brings CPUs: tasks of so many CPUs, which are spread as such."""

    NODES = (with_threads("n1", 8, 2, gpus=4), with_threads("n2", 2, 1, gpus=1))
    OWN = replace(BY_TASK, cpus_per_gres=(("gpu", 2),))

    @pytest.mark.parametrize("gpus_bring", ["own", "default", "examined"])
    def test_each_task_has_those_of_its_gpus(self, gpus_bring: str) -> None:
        settings = SlurmSettings(release="22.05.8", def_cpus_per_gpu=0 if gpus_bring == "own" else 2)
        request = self.OWN if gpus_bring == "own" else BY_TASK
        if gpus_bring == "examined":  # Slurm has put the default in the place of -c's, and left the CPUs
            request = replace(request, cpus_per_task=2)
        assert plans(self.NODES, [], request, settings) == [("n1,n2", ())]
        assert plans(self.NODES, [running(1, share("n1", 4))], request, settings) == [("n1,n2", (1,))]

    @pytest.mark.parametrize(("gpus_bring", "place_for_two"), [("nothing", 2), ("cpus", 3)])
    def test_more_cpus_on_a_node_are_those_of_further_tasks(self, gpus_bring: str, place_for_two: int) -> None:
        """A fixed number of nodes starts with the GPUs of its tasks (22.05); others may want those of further tasks."""
        nodes = [with_threads("n1", 4, 1, gpus=2)]
        own = replace(self.OWN, cpus_per_gres=self.OWN.cpus_per_gres if gpus_bring == "cpus" else ())
        one = replace(own, tasks=1, cpus=1, min_nodes=1, max_nodes=1)
        more = replace(one, min_cpus_per_node=place_for_two)
        gpu = [running(1, share("n1", 0, gres={"gpu": 1}))]
        assert plans(nodes, gpu, one) == [("n1", ())]
        assert plans(nodes, gpu, more) == [("n1", ())]
        assert plans(nodes, gpu, more, SlurmSettings(release="26.05.5")) == [("n1", (1,))]
        two = replace(more, tasks=2, cpus=2, min_cpus_per_node=5)
        large = [with_threads("n1", 5, 1, gpus=3)]
        assert plans(large, gpu, two) == [("n1", ())]
        # All its CPUs must be free.
        assert plans(large, [running(1, share("n1", 1))], two) == [("n1", (1,))]
        # Bound with an open number of nodes it does not start with the GPUs of its tasks.
        assert plans(large, gpu, replace(two, max_nodes=2)) != [("n1", ())]

    def test_tasks_with_gpus_that_fill_no_cores_share_them(self) -> None:
        assert plans(self.NODES, [], replace(self.OWN, cpus_per_gres=(("gpu", 1),))) == []

    def test_not_with_several_gpus_a_task_on_whole_nodes_nor_on_releases_where_it_was_not_seen(self) -> None:
        nodes = [with_threads("n1", 12, 2, gpus=6), with_threads("n2", 4, 1, gpus=2)]
        two = replace(self.OWN, cpus_per_gres=(("gpu", 1),), gres_per_task=(("gpu", 2),))
        assert plans(nodes, [], two) == []
        assert plans(self.NODES, [], replace(self.OWN, exclusive=True)) == []
        assert plans(self.NODES, [], self.OWN, SlurmSettings(release="26.05.5")) == [("n1,n2", ())]
        assert plans(self.NODES, [], self.OWN, SlurmSettings(release="24.11.5")) == []


@pytest.mark.parametrize(("release", "served"), [("22.05.8", True), ("26.05.5", False)])
def test_gpus_of_two_types_with_cpus_by_default(release: str, *, served: bool) -> None:
    nodes = [node("n1", gres={"gpu:a": 2, "gpu:b": 2})]
    settings = SlurmSettings(release=release, def_cpus_per_gpu=2)
    one = Request(mem_per_node_mib=1, gres_per_node=(("gpu:a", 1), ("gpu:b", 1)))
    full = [running(1, share("n1", 32))]
    assert bool(plans(nodes, full, one, settings)) is served
    assert plans(nodes, full, replace(one, tasks=2, cpus=2, max_nodes=1), settings) == [("n1", (1,))]
    of_none = replace(settings, def_cpus_per_gpu=0)
    assert plans(nodes, full, one, of_none) == [("n1", (1,))]
    by_itself = replace(one, cpus=2, cpus_per_gres=(("gpu", 1),))
    assert bool(plans(nodes, full, by_itself, of_none)) is served
    assert plans(nodes, full, replace(by_itself, tasks=2, max_nodes=1), of_none) == [("n1", (1,))]


class TestDevicesForEachTask:
    @pytest.mark.parametrize("release", ["22.05.8", "26.05.5"])
    def test_tasks_that_share_a_core_are_not_spread_unevenly(self, release: str) -> None:
        """Slurm leaves 4 tasks waiting where n2 has a GPU and a core: it counts two CPUs there, and places a task."""
        nodes = [with_threads("n1", 8, 2, gpus=4), with_threads("n2", 8, 2, gpus=1)]
        jobs = [running(1, share("n1", 2, gres={"gpu": 1}))]
        settings = SlurmSettings(release=release)
        assert plans(nodes, jobs, BY_TASK, settings) == []
        alone = [with_threads("n1", 8, 1, gpus=4), with_threads("n2", 8, 1, gpus=1)]
        assert plans(alone, jobs, BY_TASK, settings) == [("n1,n2", ())]

    @pytest.mark.parametrize(
        ("tasks", "of_a_task", "starts"),
        [
            (2, 1, True),  # one on each node
            (2, 3, True),
            (4, 1, True),  # two fill one core
            (6, 1, False),  # with 4 GPUs on the first node it takes 4 CPUs there, and two are left
            (8, 1, True),  # each node has no more GPUs than these
            (4, 3, False),
            (4, 2, True),  # each fills one
        ],
    )
    def test_nor_evenly_but_for_one_on_each_node_or_one_core(self, tasks: int, of_a_task: int, *, starts: bool) -> None:
        nodes = [with_threads(name, 8, 2, gpus=4) for name in ("n1", "n2")]
        nodes.append(with_threads("n3", 12, 1, gpus=4))
        request = replace(BY_TASK, tasks=tasks, cpus=tasks * of_a_task, cpus_per_task=of_a_task)
        later = SlurmSettings(release="26.05.5")
        assert bool(plans(nodes, [], replace(request, min_cpus_per_node=of_a_task), later)) is starts

    def test_tasks_that_share_cores_start_where_each_node_has_two_gpus_free(self) -> None:
        """5 tasks on 2 and 3 free GPUs (22.05); with 1 and 4 Slurm would leave them waiting."""
        nodes = [with_threads(name, 8, 2, gpus=4) for name in ("n1", "n2")]
        jobs = [running(1, share("n1", 2, gres={"gpu": 1}))]
        of_five = replace(BY_TASK, tasks=5, cpus=5)
        for held, victims in ((2, ()), (3, (2,))):
            second = running(2, share("n2", 2, gres={"gpu": held}))
            assert plans(nodes, [*jobs, second], of_five) == [("n1,n2", victims)]
        all_jobs = [*jobs, running(2, share("n2", 2, gres={"gpu": 2}))]
        by_type = replace(of_five, gres_per_task=(("gpu", 2),), tasks=3, cpus=3)
        for other in (by_type, replace(of_five, tasks_per_node=3), replace(of_five, mem_per_cpu_mib=1)):
            assert plans(nodes, all_jobs, other) == []
        for settings in (SlurmSettings(release="26.05.5"), SlurmSettings(release="22.05.8", single_cpus=True)):
            assert plans(nodes, all_jobs, of_five, settings) == []
        as_before = [with_threads("n1", 8, 2, gpus=4), with_threads("n2", 8, 2, gpus=1)]
        assert plans(as_before, [], of_five) == []

    def test_a_number_of_nodes_that_is_left_open_is_set(self) -> None:
        nodes = [with_threads(name, 8, 2, gpus=4) for name in ("n1", "n2")]
        eight = replace(BY_TASK, tasks=8, cpus=8, min_nodes=1, max_nodes=8)
        assert plans(nodes, [running(1, share("n1", 1, gres={"gpu": 1}))], eight) == [("n1,n2", (1,))]

    def test_with_more_gpus_on_a_node_only_by_a_number_of_tasks_for_each(self) -> None:
        nodes = [with_threads(name, 8, 2, gpus=5) for name in ("n1", "n2")]
        eight = replace(BY_TASK, tasks=8, cpus=8)
        assert plans(nodes, [], eight, SlurmSettings(release="26.05.5")) == []
        assert plans(nodes, [], replace(eight, tasks_per_node=4)) == [("n1,n2", ())]
        assert plans(nodes, [], replace(eight, tasks=6, cpus=6, tasks_per_node=3)) == []
        of_three = replace(BY_TASK, cpus=12, cpus_per_task=3, tasks_per_node=2, min_cpus_per_node=3)
        assert plans(nodes, [], of_three) == []

    def test_one_thread_a_core_is_filled_by_any(self) -> None:
        nodes = [with_threads(name, 8, 2, gpus=4) for name in ("n1", "n2")]
        assert plans(nodes, [], replace(BY_TASK, tasks=8, cpus=8, threads_per_core=1)) == [("n1,n2", ())]
        assert plans(nodes, [], replace(BY_TASK, tasks=6, cpus=6, threads_per_core=1)) == [("n1,n2", ())]


def test_threads_a_core_with_cpus_by_gpus_on_a_number_of_nodes_that_they_fit() -> None:
    """Seen with -N1; with a task on each of two nodes, of two CPUs by the GPU, Slurm 22.05 holds the job again."""
    nodes = [with_threads(name, 8, 2, gpus=2) for name in ("n1", "n2")]
    jobs = [running(job_id, share(f"n{job_id}", 8)) for job_id in (1, 2)]
    request = Request(cpus=2, tasks=2, max_nodes=2, gres_per_node=(("gpu", 1),), threads_per_core=1)
    settings = SlurmSettings(release="22.05.8", def_cpus_per_gpu=2)
    request = replace(request, mem_per_node_mib=1)
    assert plans(nodes, jobs, request, settings) == [("n1", (1,))]
    assert plans(nodes, jobs, replace(request, min_nodes=2), settings) == []


class TestWithoutBinding:
    """What Slurm may start by itself, as a best-effort job is read: never less than it starts."""

    @pytest.mark.parametrize("release", ["22.05.8", "26.05.5"])
    def test_it_fits_wherever_slurm_may_spread_it(self, release: str) -> None:
        settings = SlurmSettings(release=release)
        gpus = [node("n1", gres={"gpu": 3}), node("n2", gres={"gpu": 1})]
        cores = [with_threads("n1", 8, 2), with_threads("n2", 4, 2)]
        both = [with_threads("n1", 8, 2, gpus=3), with_threads("n2", 3, 1, gpus=1)]
        assert may_start(gpus, IN_ALL, settings)
        assert may_start(gpus, IN_ALL, replace(settings, def_mem_per_gpu_mib=1))
        assert may_start(cores, A_CORE, settings)
        assert may_start(both, OF_THREE, settings)
        assert may_start(both, replace(OF_THREE, tasks=11, cpus=11, cpus_per_task=1, min_cpus_per_node=1), settings)
        assert may_start(both, BY_TASK, settings)
        assert not may_start(both, replace(BY_TASK, tasks=5, cpus=5), settings)

    @pytest.mark.parametrize(
        "changes",
        [
            {"tasks": 12, "cpus": 12, "tasks_per_core": 1, "gres_per_job": ()},
            {"tasks": 12, "cpus": 12, "tasks_per_core": 1, "gres_per_job": (), "gres_per_node": (("gpu", 1),)},
            {"tasks": 12, "cpus": 12, "tasks_per_core": 1},
            {"tasks": 12, "cpus": 12, "tasks_per_core": 2, "gres_per_job": ()},
            {"cpus": 4, "cpus_per_gres": (("gpu", 1),)},
            {"tasks": 3, "cpus": 3, "gres_per_job": (), "gres_per_task": (("gpu", 2),)},
            {"tasks": 12, "cpus": 16, "sharing": "NO", "exclusive": True},
            {"tasks": 12, "cpus": 16, "sharing": "NO", "exclusive": True, "min_nodes": 1},
            {"tasks": 12, "cpus": 12, "min_cpus_per_node": 2, "gres_per_job": (), "min_nodes": 1},
        ],
        ids=["a-core", "a-core-gres", "a-core-gpus", "two-a-core", "by-gpu", "by-task", "whole", "whole-open", "least"],
    )
    def test_it_fits_where_shares_that_no_preemptor_is_planned_with_do(self, changes: dict[str, object]) -> None:
        """Seen on 22.05: 12 CPUs and 4 GPUs on one node, 4 CPUs and 2 GPUs on the other."""
        nodes = [with_threads("n1", 12, 1, gpus=4), with_threads("n2", 4, 1, gpus=2)]
        request = replace(replace(IN_ALL, gres_per_job=(("gpu", 6),)), **changes)  # type: ignore[arg-type]
        assert may_start(nodes, request)
        assert not may_start([with_threads("n1", 6, 1, gpus=3), nodes[1]], request)

    def test_it_fits_on_more_nodes_than_a_preemptor_is_planned_on(self) -> None:
        """`-n300` starts on 200 and 110 free CPUs, and `-n120` on 60 nodes of 2; so does `-n140 --exclusive`."""
        assert may_start(
            [node("n1", cpus=200), node("n2", cpus=110)], replace(A_CORE, tasks=300, cpus=300, tasks_per_core=0)
        )
        small = [node(f"n{number}", cpus=2) for number in range(70)]
        request = Request(cpus=140, tasks=140, max_nodes=1000, mem_per_node_mib=1)
        assert may_start(small, request)
        assert may_start(small, replace(request, sharing="NO", exclusive=True))
        assert not may_start(small, replace(request, tasks=141, cpus=141))

    def test_tasks_with_gres_that_share_cores_start_on_one_node(self) -> None:
        """`-n4 -c3 --gres=gpu:1` starts on a node of two threads a core; with -N1 and memory for each CPU not."""
        one = [with_threads("n1", 16, 2, gpus=2)]
        request = Request(
            cpus=12, tasks=4, cpus_per_task=3, max_nodes=4, gres_per_node=(("gpu", 1),), mem_per_cpu_mib=1
        )
        assert may_start(one, request)
        assert plans(one, [running(1, share("n1", 16))], request) == []

    def test_threads_a_core_with_cpus_by_gpus_on_the_fewest_nodes(self) -> None:
        """`-n2 --gpus-per-node=1 --cpus-per-gpu=2 --threads-per-core=1` starts on one node; two would have too many."""
        one = [with_threads("n1", 8, 2, gpus=2)]
        request = Request(cpus=2, tasks=2, max_nodes=2, gres_per_node=(("gpu", 1),), threads_per_core=1)
        request = replace(request, cpus_per_gres=(("gpu", 2),), mem_per_node_mib=1)
        assert may_start(one, request)

    def test_gres_beside_gpus_that_bring_cpus(self) -> None:
        """`--gpus=1 --cpus-per-gpu=3 --gres=tmp:1` without -n starts; with -N1 -n1, which has the same record, not."""
        nodes = [node("n1", gres={"gpu": 1, "tmp": 2})]
        request = Request(gres_per_job=(("gpu", 1),), cpus_per_gres=(("gpu", 3),), gres_per_node=(("tmp", 1),))
        assert may_start(nodes, replace(request, mem_per_node_mib=1))
        full, one = [running(1, share("n1", 32))], replace(request, mem_per_node_mib=1)
        # Of the one that has set the number of its tasks Slurm says BadConstraints, and not that it lacks resources.
        assert plans(nodes, full, one) == [("n1", (1,))]
        assert plans(nodes, full, one, reason="Priority") == []
        assert plans(nodes, full, replace(one, tasks=2, cpus=2, max_nodes=2)) == []

    def test_shards_may_be_of_one_gpu_and_cores_of_each_socket(self) -> None:
        """Of which GPU the free shards are, and of which socket the free cores, the records do not say."""
        one = replace(node("n1", cpus=8, gres={"gpu": 2, "shard": 8}), sockets=2, cores_per_socket=4)
        shards = Request(gres_per_node=(("shard", 3),), mem_per_node_mib=1)
        sockets = Request(cpus=2, tasks=2, sockets_per_node=2, mem_per_node_mib=1)
        busy = [running(1, share("n1", 4, gres={"shard": 4}))]
        for request, amount in ((shards, 3), (sockets, 2)):
            snapshot = cluster([one], [*busy, waiting(9, request)])
            column = 0 if request is sockets else capacity_of(snapshot).resources.index("shard")
            job = snapshot.jobs[JobId(9)]
            wanted = [
                demands_of(job, snapshot, capacity_of(snapshot), binds=binds)[0].takes[0, column]
                for binds in (False, True)
            ]
            assert wanted == [amount, 5]
