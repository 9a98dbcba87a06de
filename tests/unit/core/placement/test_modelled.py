"""A TE job with a request that placement does not model gets a refusal that names it, and no victim."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tesched_core.model.cluster import Node, Partition, Request, Reservation, SlurmSettings, Switch
from tesched_core.model.decision import RefusalCode
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.capacity_of import capacity_of
from tesched_core.placement.demand import demand_of, demands_of
from tesched_core.placement.modelled import unsupported, unsupported_in
from tesched_core.policy import MakeRoom
from tesched_policies.fitgpp import FitGpp

from tests.builders import NOW, cluster, node, running, share, view_of, waiting

FULL = [running(1, share("n1", 32)), running(2, share("n2", 32))]
EVERYWHERE = frozenset({"n1", "n2"})
TWO = Request(cpus=2, tasks=2, min_nodes=2, max_nodes=2, mem_per_node_mib=1)
TWO_TYPES = (("gpu:a", 1), ("gpu:b", 1))
SWITCHES = (Switch(name="s1", nodes=("n1",)), Switch(name="s2", nodes=("n2",)))


def site(
    request: Request,
    *,
    partition: Partition | None = None,
    settings: SlurmSettings | None = None,
    reservation: Reservation | None = None,
) -> Snapshot:
    """Return two full nodes, and one job that waits."""
    te = waiting(9, request, reservation=reservation.name if reservation else "")
    return cluster(
        [node("n1"), node("n2")],
        [*FULL, te],
        partitions=[partition or Partition(name="p", nodes=EVERYWHERE)],
        reservations=[reservation] if reservation else [],
        settings=settings,
    )


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        (Request(not_modelled=("--new-option=7", "--other")), "--new-option=7, --other"),
        (replace(TWO, contiguous=True), "--contiguous"),
        (Request(core_spec="2"), "--core-spec=2"),
        (Request(sharing="MCS"), "--exclusive=mcs"),
        (Request(sharing="TOPO"), "--exclusive=topo"),
        (Request(sharing="SOMETHING"), "--exclusive=something"),
        (Request(cores_per_socket=4), "--cores-per-socket=4"),
        (Request(tasks_per_socket=1), "--ntasks-per-socket=1"),
        (Request(tasks_per_core=2, gres_per_node=(("gpu", 1),)), "--ntasks-per-core=2"),
        (replace(TWO, tasks=6, cpus=6, tasks_per_core=2, gres_per_node=(("gpu", 1),)), "--ntasks-per-core=2"),
        (
            Request(cpus=2, tasks=2, min_nodes=2, max_nodes=2, tasks_per_node=3),
            "--ntasks-per-node=3 with 2 tasks on 2 nodes",
        ),
        (Request(cpus=6, tasks=6, tasks_per_node=3), "--ntasks-per-node=3 with 6 tasks on 1 nodes"),
        (Request(tasks_per_node=2), "--ntasks-per-node=2 with 1 tasks on 1 nodes"),
        (
            replace(TWO, max_nodes=3, cpus_per_gres=(("gpu", 3),), gres_per_node=(("gpu", 1),)),
            "--cpus-per-gpu=3 on 2 nodes",
        ),
        (replace(TWO, min_cpus_per_node=3), "--mincpus=3 on 2 nodes"),
        (
            Request(cpus=3, tasks=3, cpus_per_gres=(("gpu", 1),), gres_per_node=(("gpu", 1),)),
            "--cpus-per-gpu=1 with 3 tasks",
        ),
        (
            Request(cpus=2, tasks=2, max_nodes=4, cpus_per_gres=(("gpu", 2),), gres_per_node=TWO_TYPES),
            "--cpus-per-gpu=2 with GPUs of 2 types",
        ),
        (Request(gres_per_socket=(("gpu", 1),)), "--gpus-per-socket=gpu:1"),
        (Request(exclusive=True, gres_per_node=(("shard", 1),)), "--exclusive with shards"),
        (Request(features="a*2"), "--constraint=a*2"),
    ],
)
def test_a_request_that_is_not_modelled_costs_no_victim(request_: Request, named: str) -> None:
    proposal = FitGpp().propose(view_of(site(replace(request_, mem_per_node_mib=1))), None)
    assert proposal.plans == ()
    (refusal,) = proposal.refusals
    assert (refusal.job_id, refusal.code) == (9, RefusalCode.UNSUPPORTED)
    assert f"({named})" in refusal.text


@pytest.mark.parametrize(
    ("snapshot", "named"),
    [
        (
            site(TWO, partition=Partition(name="p", nodes=EVERYWHERE, oversubscribe="FORCE:2")),
            "OverSubscribe=FORCE:2 of partition p",
        ),
        (
            site(replace(TWO, sharing="YES"), partition=Partition(name="p", nodes=EVERYWHERE, oversubscribe="YES:4")),
            "OverSubscribe=YES:4 of partition p",
        ),
        (
            site(TWO, partition=Partition(name="p", nodes=EVERYWHERE, max_cpus_per_socket=4)),
            "MaxCPUsPerSocket=4 of partition p",
        ),
        (
            site(
                replace(TWO, max_nodes=6, tasks=6, cpus=6, gres_per_node=(("gpu", 1),)),
                settings=SlurmSettings(def_cpus_per_gpu=2),
            ),
            "DefCpuPerGPU=2 with 6 tasks",
        ),
        (
            site(
                replace(TWO, tasks=6, cpus=6, gres_per_node=(("gpu", 1),), exclusive=True),
                settings=SlurmSettings(def_cpus_per_gpu=2),
            ),
            "DefCpuPerGPU=2 with 6 tasks",
        ),
        (  # 26.05 starts 2 tasks a node: each type of GPU for itself brings 2 CPUs
            site(
                Request(cpus=4, tasks=4, max_nodes=4, gres_per_node=TWO_TYPES, mem_per_node_mib=1),
                settings=SlurmSettings(def_cpus_per_gpu=2),
            ),
            "DefCpuPerGPU=2 with 4 tasks",
        ),
        (  # 26.05 would have refused it, had it not been submitted with a hold
            site(
                replace(TWO, tasks=6, cpus=6, gres_per_node=(("gpu", 1),)),
                settings=SlurmSettings(def_cpus_per_gpu=2, release="26.05.1"),
            ),
            "DefCpuPerGPU=2 with 6 tasks",
        ),
        (  # 2 GPUs on each node would do, and there are 3 in all
            site(
                replace(TWO, tasks=8, cpus=8, gres_per_job=(("gpu", 3),)),
                settings=SlurmSettings(def_cpus_per_gpu=2, release="26.05.1"),
            ),
            "DefCpuPerGPU=2 with 8 tasks",
        ),
        (site(TWO, settings=SlurmSettings(select_type="select/linear")), "SelectType=select/linear"),
        (site(TWO, settings=SlurmSettings(whole_sockets=True)), "SelectTypeParameters=CR_Socket"),
        (site(replace(TWO, switches=2), settings=SlurmSettings(switches=SWITCHES)), "--switches=2"),
        (
            site(
                TWO,
                reservation=Reservation(
                    name="half", start_time=NOW - 1, end_time=NOW + 1e6, nodes=EVERYWHERE, cores=True
                ),
            ),
            "--reservation=half (of cores, not of whole nodes)",
        ),
    ],
)
def test_a_site_that_is_not_modelled_costs_no_victim(snapshot: Snapshot, named: str) -> None:
    proposal = FitGpp().propose(view_of(snapshot), None)
    assert proposal.plans == ()
    assert [one.code for one in proposal.refusals] == [RefusalCode.UNSUPPORTED]
    assert f"({named})" in proposal.refusals[0].text


def test_a_job_of_several_reservations_is_left_to_slurm() -> None:
    jobs = [running(1, share("n1", 32)), waiting(9, reservation="r,s")]
    (said,) = FitGpp().propose(view_of(cluster([node("n1")], jobs)), None).refusals
    assert said.code is RefusalCode.UNSUPPORTED
    assert "(--reservation=r,s)" in said.text


@pytest.mark.parametrize(
    ("request_", "settings"),
    [
        (replace(TWO, switches=1), None),  # no topology: Slurm takes no notice
        (Request(cpus=1, mem_per_node_mib=1, switches=1), SlurmSettings(switches=SWITCHES)),  # one node, one switch
        (Request(cpus=1, mem_per_node_mib=1, contiguous=True), None),
        (Request(cpus=1, mem_per_node_mib=1, sharing="YES"), None),  # OverSubscribe=NO gives it cores of its own
        (Request(cpus=1, mem_per_node_mib=1, core_spec="*"), None),
        (Request(cpus=1, mem_per_node_mib=1, tasks_per_core=1), SlurmSettings(select_type="select/cons_tres")),
        (Request(cpus=4, tasks=4, mem_per_node_mib=1, tasks_per_core=2), None),  # no device
    ],
)
def test_what_changes_nothing_is_served(request_: Request, settings: SlurmSettings | None) -> None:
    snapshot = site(request_, settings=settings)
    assert not unsupported(snapshot.jobs[JobId(9)], snapshot)
    (plan,) = FitGpp().propose(view_of(snapshot), None).plans
    assert isinstance(plan, MakeRoom)
    assert plan.victims


@pytest.mark.parametrize(
    ("memory", "left"),
    [
        ({"mem_per_cpu_mib": 100}, {"q"}),
        ({"mem_per_node_mib": 0}, {"q"}),
        ({"mem_per_cpu_mib": 101}, {"p", "q"}),
        ({"mem_per_node_mib": 50}, {"p", "q"}),
    ],
)
def test_memory_that_only_one_of_two_partitions_gives_by_gpu(memory: dict[str, int], left: set[str]) -> None:
    """Tried in q first, a job that names none wants all of a node's in p: a victim there would leave for nothing."""
    parts = [
        Partition(name="p", nodes=frozenset({"n1"})),
        Partition(name="q", nodes=frozenset({"n2"}), def_mem_per_gpu_mib=500),
    ]
    request = Request(gres_per_node=(("gpu", 1),), **memory)  # type: ignore[arg-type] # numbers
    te = waiting(9, request, partitions=("p", "q"))
    nodes = [node(name, gres={"gpu": 1}) for name in ("n1", "n2")]
    snapshot = cluster(nodes, [te], partitions=parts, settings=SlurmSettings(def_mem_per_cpu_mib=100))
    assert {name for name in ("p", "q") if not unsupported_in(te, snapshot.partitions[name], snapshot)} == left


def test_cpus_of_a_task_are_no_device() -> None:
    """26.05 writes `cpu=2` among what a task asks for."""
    request = Request(cpus=2, cpus_per_task=2, mem_per_node_mib=1, threads_per_core=1, gres_per_task=(("cpu", 2),))
    snapshot = site(request, settings=SlurmSettings(def_cpus_per_gpu=2))
    assert not unsupported(snapshot.jobs[JobId(9)], snapshot)


def test_gres_that_are_no_gpus_bring_no_cpus_and_no_memory() -> None:
    parts = [
        Partition(name="p", nodes=frozenset({"n1"})),
        Partition(name="q", nodes=frozenset({"n2"}), def_mem_per_gpu_mib=500),
    ]
    te = waiting(9, Request(threads_per_core=1, gres_per_node=(("tmp", 1),)), partitions=("p", "q"))
    nodes = [two_threads(name, {"tmp": 1}) for name in ("n1", "n2")]
    settings = SlurmSettings(def_cpus_per_gpu=2, def_mem_per_cpu_mib=100, release="22.05.8")
    snapshot = cluster(nodes, [te], partitions=parts, settings=settings)
    assert not any(unsupported_in(te, partition, snapshot) for partition in snapshot.partitions.values())


def two_threads(name: str, gres: dict[str, int]) -> Node:
    return replace(node(name, gres=gres), sockets=1, cores_per_socket=16, threads_per_core=2)


@pytest.mark.parametrize(
    ("release", "tasks", "gpus", "is_modelled"),
    [
        ("22.05.8", 1, 2, False),  # started with the CPU of its task, and held
        ("22.05.8", 2, 2, True),
        ("24.11.5", 1, 2, False),
        ("26.05.5", 1, 2, True),
        ("", 1, 2, False),
    ],
)
def test_threads_a_core_with_cpus_for_each_gpu(release: str, tasks: int, gpus: int, *, is_modelled: bool) -> None:
    request = Request(
        tasks=tasks, cpus=tasks, threads_per_core=1, gres_per_node=(("gpu", gpus),), cpus_per_gres=(("gpu", 1),)
    )
    te = waiting(9, replace(request, mem_per_node_mib=1))
    nodes = [two_threads("n1", {"gpu": 4})]
    snapshot = cluster(nodes, [te], settings=SlurmSettings(release=release))
    what = "" if is_modelled else "--threads-per-core=1 with CPUs for each GPU"
    assert unsupported(te, snapshot) == what
    # A node with one thread a core takes it anyway, and that one alone.
    snapshot = cluster([*nodes, node("n2", gres={"gpu": 4})], [te], settings=SlurmSettings(release=release))
    assert not unsupported(te, snapshot)
    demand = demand_of(te, snapshot, capacity_of(snapshot))
    assert demand.allowed.tolist() == [is_modelled, True]


@pytest.mark.parametrize(
    ("release", "change", "is_modelled"),
    [
        ("22.05.8", {}, True),
        ("22.05.8", {"max_nodes": 2}, False),
        ("22.05.8", {"exclusive": True}, True),
        ("22.05.8", {"gres_per_node": (), "gres_per_job": (("gpu", 1),)}, False),
        ("26.05.5", {}, False),
    ],
)
def test_fewer_cpus_by_gpu_than_its_tasks_need(release: str, change: dict[str, Any], *, is_modelled: bool) -> None:
    request = Request(tasks=4, cpus=4, gres_per_node=(("gpu", 1),), cpus_per_gres=(("gpu", 1),), mem_per_node_mib=1)
    te = waiting(9, replace(request, **change))
    snapshot = cluster([node("n1", gres={"gpu": 4})], [te], settings=SlurmSettings(release=release))
    assert unsupported(te, snapshot) == ("" if is_modelled else "--cpus-per-gpu=1 with 4 tasks")
    if is_modelled:
        assert demand_of(te, snapshot, capacity_of(snapshot)).per_node[0] == 4


@pytest.mark.parametrize(
    ("release", "threads", "is_modelled"), [("22.05.8", 2, False), ("22.05.8", 1, True), ("26.05.5", 2, True)]
)
def test_cpus_of_each_tasks_gpu_on_several_nodes(release: str, threads: int, *, is_modelled: bool) -> None:
    request = Request(tasks=4, cpus=4, min_nodes=2, max_nodes=2, mem_per_node_mib=1)
    te = waiting(9, replace(request, gres_per_task=(("gpu", 1),), cpus_per_gres=(("gpu", 1),)))
    nodes = [node("n1", gres={"gpu": 4}), replace(node("n2", gres={"gpu": 4}), threads_per_core=threads)]
    snapshot = cluster(nodes, [te], settings=SlurmSettings(release=release))
    assert unsupported(te, snapshot) == ("" if is_modelled else "--cpus-per-gpu=1 with --gpus-per-task on 2 nodes")


@pytest.mark.parametrize("release", ["22.05.8", "26.05.5"])
@pytest.mark.parametrize(
    ("change", "is_modelled"),
    [
        ({}, False),
        ({"gres_per_job": (("gpu:a", 4),), "gres_per_node": (("gpu:a", 2),)}, False),
        ({"gres_per_job": (), "gres_per_task": (("gpu", 1),)}, False),
        ({"gres_per_job": ()}, True),
        ({"gres_per_node": ()}, True),
        ({"gres_per_job": (("gpu", 2),), "gres_per_node": (("gpu", 1),)}, True),
        ({"gres_per_job": (("gpu", 8),), "gres_per_node": (("gpu", 4),)}, True),
        ({"gres_per_job": (("gpu", 2),), "min_nodes": 1, "max_nodes": 1}, True),
    ],
)
def test_devices_by_node_and_in_all_on_nodes_with_more(
    release: str, change: dict[str, Any], *, is_modelled: bool
) -> None:
    request = replace(TWO, tasks=4, cpus=4, gres_per_job=(("gpu", 4),), gres_per_node=(("gpu", 2),))
    te = waiting(9, replace(request, **change))
    nodes = [node("n1", gres={"gpu:a": 4}), node("n2", gres={"gpu:a": 4})]
    found = unsupported(te, cluster(nodes, [te], settings=SlurmSettings(release=release)))
    device = dict(te.request.gres_per_node)
    assert found == ("" if is_modelled else f"{next(iter(device))}:2 by node beside a number in all")


@pytest.mark.parametrize(
    ("tasks_per_node", "gpus", "on_22_05_alone"),
    [
        *((1, 4, False), (2, 2, False), (2, 3, False), (2, 4, True), (2, 5, False), (2, 6, False), (2, 7, False)),
        *((2, 8, False), (3, 2, False), (3, 3, True), (3, 4, False), (3, 5, False), (3, 6, True), (3, 7, False)),
    ],
)
def test_tasks_by_node_that_share_devices_in_all_evenly(
    tasks_per_node: int, gpus: int, *, on_22_05_alone: bool
) -> None:
    """Tried on both releases, two nodes of four GPUs, bound (docs/reference/slurm-requests.md)."""
    tasks = 2 * tasks_per_node
    request = replace(TWO, tasks=tasks, cpus=tasks, tasks_per_node=tasks_per_node, gres_per_job=(("gpu", gpus),))
    te = waiting(9, request)
    nodes = [node(name, gres={"gpu": 4}) for name in ("n1", "n2")]
    for release, is_refused in (("22.05.8", False), ("26.05.5", on_22_05_alone)):
        found = unsupported(te, cluster(nodes, [te], settings=SlurmSettings(release=release)))
        which = "gpu:3 in all that its nodes do not share evenly" if gpus == 3 else "a number of gpu in all"
        words = f"--ntasks-per-node={tasks_per_node} with {which}"
        assert found == (words if is_refused else ""), release


def test_devices_by_node_and_in_all_are_freed_where_a_node_has_just_so_many() -> None:
    request = replace(TWO, gres_per_job=(("gpu", 4),), gres_per_node=(("gpu", 2),))
    nodes = [node("n1", gres={"gpu": 4}), node("n2", gres={"gpu": 2}), node("n3", gres={"gpu": 2})]
    jobs = [running(number, share(f"n{number}", 1, 0, {"gpu": 2})) for number in (2, 3)]
    view = view_of(cluster(nodes, [*jobs, waiting(9, request)]))
    plans = [one for one in FitGpp().propose(view, None).plans if isinstance(one, MakeRoom)]
    # Two GPUs of n1 are free, and with them one victim would do.
    assert [(one.nodes, one.victim_ids) for one in plans] == [(("n2", "n3"), (2, 3))]


@pytest.mark.parametrize(
    ("partitions", "cpus"), [(("p",), 1), (("p", "q"), 8), (("q", "p"), 8), (("p", "r"), 1), (("q",), 8)]
)
def test_whole_nodes_in_all_partitions_where_one_gives_no_others(partitions: tuple[str, ...], cpus: int) -> None:
    te = waiting(9, Request(cpus=1, mem_per_node_mib=1), partitions=partitions)
    known = [
        Partition(name="p", nodes=EVERYWHERE),
        Partition(name="q", nodes=EVERYWHERE, oversubscribe="EXCLUSIVE"),
        Partition(name="r", nodes=EVERYWHERE),
    ]
    for release, takes in (("22.05.8", cpus), ("26.05.5", 8 if partitions[0] == "q" else 1)):
        settings = SlurmSettings(release=release)
        snapshot = cluster([node("n1", cpus=8), node("n2", cpus=8)], [te], partitions=known, settings=settings)
        assert demands_of(te, snapshot, capacity_of(snapshot))[0].takes[:, 0].tolist() == [takes, takes]


def test_several_tasks_a_core_with_devices_fill_cores() -> None:
    te = waiting(9, Request(tasks=4, cpus=4, tasks_per_core=2, gres_per_node=(("gpu", 1),), mem_per_node_mib=1))
    snapshot = cluster([two_threads("n1", {"gpu": 4})], [te])
    assert not unsupported(te, snapshot)
    assert demand_of(te, snapshot, capacity_of(snapshot)).per_node[0] == 4


@pytest.mark.parametrize(("release", "is_modelled"), [("22.05.8", False), ("26.05.5", True)])
def test_gres_beside_gpus_that_bring_cpus(release: str, *, is_modelled: bool) -> None:
    request = Request(
        tasks=3, cpus=3, gres_per_node=(("tmp", 1),), gres_per_job=(("gpu", 3),), cpus_per_gres=(("gpu", 3),)
    )
    te = waiting(9, replace(request, mem_per_node_mib=1))
    snapshot = cluster([node("n1", gres={"gpu": 4, "tmp": 4})], [te], settings=SlurmSettings(release=release))
    assert unsupported(te, snapshot) == ("" if is_modelled else "--gres=tmp with CPUs for each GPU")
    assert not unsupported(te, snapshot, binds=False), "its number of nodes stays as it was"
    enough = waiting(9, replace(request, cpus_per_gres=(("gpu", 1),), mem_per_node_mib=1))
    assert not unsupported(enough, snapshot)
    # Of whole nodes a job with GPUs in all was once seen to be refused, bound to an empty one.
    whole = replace(te, request=replace(te.request, exclusive=True))
    assert bool(unsupported(whole, snapshot)) is not is_modelled
    by_node = replace(whole.request, gres_per_node=(("gpu", 3), ("tmp", 1)), gres_per_job=())
    assert not unsupported(replace(whole, request=by_node), snapshot)
