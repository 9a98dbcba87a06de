"""What is out of bounds in one node, partition or setting costs no other, and raises nowhere."""

from __future__ import annotations

from typing import Any

import pytest
from tesched_core.model.cluster import Node, Partition
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.capacity_of import capacity_of
from tesched_daemon.plausibility import unread
from tesched_slurm.cluster_bounds import MOST, MOST_GRES, MOST_GRES_IN_ALL, MOST_REASON
from tesched_slurm.pyslurm_jobs import nodes_of, partitions_of
from tesched_slurm.pyslurm_wire import NodeRecord, PartitionRecord
from tesched_slurm.scontrol_cluster import KnownNodes, read_nodes, read_partitions, read_reservations, read_settings

from tests.builders import NOW, running, share

NODE = (
    "NodeName={name} Arch=x86_64 CoresPerSocket={cores}  CPUAlloc={held} CPUEfctv={cpus} CPUTot=16 ActiveFeatures=x"
    " Gres={gres} GresUsed={used} RealMemory={mem} AllocMem={held_mem} Sockets={sockets} State={state}"
    " ThreadsPerCore={threads} TmpDisk={tmp} Weight=1 Partitions=main {behind}\n"
)
WELL = {
    "name": "n1",
    "cores": "4",
    "held": "4",
    "cpus": "16",
    "gres": "gpu:a:4",
    "used": "gpu:a:2(IDX:0-1)",
    "mem": "16000",
    "held_mem": "200",
    "sockets": "2",
    "state": "MIXED",
    "threads": "2",
    "tmp": "7",
    "behind": "",
}
PARTITION = (
    "PartitionName={name} AllowAccounts=ALL AllowQos=ALL Default=NO GraceTime={grace} MaxNodes={nodes} MaxTime={time}"
    " MinNodes=0 MaxCPUsPerNode={cpus} Nodes={where} PriorityTier={tier} OverSubscribe=NO PreemptMode=OFF State=UP"
    " JobDefaults={defaults} MaxMemPerNode={mem}\n"
)
WELL_DEFINED = {
    "name": "main",
    "grace": "0",
    "nodes": "UNLIMITED",
    "time": "UNLIMITED",
    "cpus": "UNLIMITED",
    "where": "n[1-2]",
    "tier": "1",
    "defaults": "(null)",
    "mem": "UNLIMITED",
}
HUGE = ("9223372036854775807", "18446744073709551614", "9" * 400, "9" * 5000, "-1")
#: what can't be a number, or not one of these
ODD = ("", "many", "1e9", "²")


def node(**odd: str) -> str:
    return NODE.format(**WELL | odd)


def partition(**odd: str) -> str:
    return PARTITION.format(**WELL_DEFINED | odd)


def by_name(nodes: tuple[Node, ...]) -> dict[str, Node]:
    return {one.name: one for one in nodes}


@pytest.mark.parametrize("number", [*HUGE, *ODD])
@pytest.mark.parametrize("field", ["cores", "held", "cpus", "mem", "held_mem", "sockets", "threads", "tmp"])
def test_one_nodes_number_makes_that_node_unreadable_and_no_other(field: str, number: str) -> None:
    nodes = by_name(read_nodes(node(name="odd", **{field: number}) + node()))
    assert nodes["n1"] == by_name(read_nodes(node()))["n1"]
    odd = nodes["odd"]
    assert odd.doubt or odd.total.cpus == 16, "an empty CPUEfctv is that of an older release"
    assert bool(odd.doubt) is not odd.available


def test_more_memory_for_the_system_than_a_node_says_it_has_leaves_none() -> None:
    (found,) = read_nodes(node(mem="1", behind="MemSpecLimit=2000"))
    assert (found.total.mem_mib, found.doubt) == (0, "")


@pytest.mark.parametrize("gres", [f"gpu:{HUGE[0]}", f"x:{HUGE[1]}", f"x:{HUGE[3]}", f"x:{2**44}M", "x:65P"])
@pytest.mark.parametrize("field", ["gres", "used"])
def test_one_nodes_gres_makes_that_node_unreadable_and_no_other(field: str, gres: str) -> None:
    nodes = by_name(read_nodes(node(name="odd", **{field: gres}) + node()))
    assert (bool(nodes["odd"].doubt), nodes["n1"].doubt) == (True, "")


@pytest.mark.parametrize(("gres", "count"), [("tmp:100T", 100 * 2**40), ("tmp:5P", 5 * 2**50), ("tmp:64p", MOST_GRES)])
def test_a_local_disk_in_bytes_is_within_bounds(gres: str, count: int) -> None:
    (found,) = read_nodes(node(gres=gres, used=f"tmp:{count - 1}"))
    assert (found.doubt, found.total.gres) == ("", (("tmp", count),))
    assert found.held is not None
    assert found.held.gres == (("tmp", count - 1),)


def test_gres_of_all_nodes_together_fit_into_64_bits() -> None:
    each = MOST_GRES_IN_ALL // 4096
    well = read_nodes("".join(node(name=f"n{number}", gres=f"tmp:{each}") for number in range(4096)))
    assert not any(one.doubt for one in well)
    partitions = [Partition(name="main", nodes=frozenset(one.name for one in well))]
    capacity = capacity_of(Snapshot.of(NOW, nodes=well, partitions=partitions))
    assert int(capacity.total.sum(axis=0)[capacity.resources.index("tmp")]) == MOST_GRES_IN_ALL
    too_many = [node(name=f"n{number}", gres=f"tmp:{each + (number == 7)}") for number in range(4096)]
    assert [one.name for one in read_nodes("".join(too_many)) if one.doubt] == ["n7"]
    known = KnownNodes()
    assert not any(one.doubt for one in read_nodes(too_many[7], known))
    assert [one.name for one in read_nodes("".join(too_many), known) if one.doubt] == ["n7"]


def test_an_unreadable_node_has_nothing_free_and_breaks_no_sum() -> None:
    nodes = read_nodes(node(name="odd", mem=HUGE[0]) + node(mem=str(MOST)) + node(name="n2", mem=str(MOST)))
    partitions = [Partition(name="main", nodes=frozenset({"odd", "n1", "n2"}))]
    job = running(1, share("odd", 8))
    capacity = capacity_of(Snapshot.of(NOW, jobs=[job], nodes=nodes, partitions=partitions))
    assert capacity.available.tolist() == [False, True, True]
    assert (capacity.free[0] <= 0).all()
    assert int(capacity.total.sum(axis=0).max()) == 2 * MOST


def test_a_node_with_two_records_is_in_doubt() -> None:
    """A comment of an Operator's, with a line feed, reads like one."""
    nodes = by_name(read_nodes(node(name="n2") + node(behind=f"Comment=x\n{node(name='n2', cpus='64')}")))
    assert (nodes["n2"].doubt, nodes["n1"].doubt) == ("it has two records", "")


@pytest.mark.parametrize(
    "text", ["Extra=x State=IDLE CPUEfctv=64 RealMemory=1", "Comment=\u2028NodeName=n1 State=DOWN"]
)
def test_a_text_of_an_operators_is_no_word_of_slurms(text: str) -> None:
    (found,) = read_nodes(node(behind=text))
    assert (found.state, found.total.cpus, found.total.mem_mib, found.doubt) == ("MIXED", 16, 16000, "")


def test_a_nodes_reason_is_kept_up_to_a_bound() -> None:
    (found,) = read_nodes(node(behind=f"Reason={'x' * 1_000_000} [root@2026-11-25T13:00:00]"))
    assert (len(found.reason), found.doubt) == (MOST_REASON, "")


@pytest.mark.parametrize(
    "odd",
    [
        *({field: number} for field in ("grace", "tier") for number in (*HUGE, *ODD)),
        *({field: HUGE[0]} for field in ("nodes", "cpus", "mem")),
        {"time": "99999999999999-00:00:00"},
        {"defaults": f"DefMemPerGPU={HUGE[0]}"},
        {"defaults": f"DefCpuPerGPU={HUGE[3]}"},
        {"where": "n[1-99999999]"},
        {"where": "@x"},
    ],
)
def test_one_partitions_number_makes_that_partition_unreadable_and_no_other(odd: dict[str, str]) -> None:
    found, well = read_partitions(partition(name="odd", **odd) + partition())
    assert (found.name, found.state, found.nodes) == ("odd", "UNKNOWN", frozenset())
    assert found.doubt
    assert well == read_partitions(partition())[0]


def test_an_answer_of_which_nothing_can_be_read_has_another_form_than_known() -> None:
    with pytest.raises(ValueError, match="n1: its record could not be read"):
        read_nodes("NodeName=n1 Status=fine\nNodeName=n2 Status=fine\n")
    with pytest.raises(ValueError, match="main: its record could not be read"):
        read_partitions("PartitionName=main Status=fine\n")
    assert read_nodes("") == ()


def test_unreadable_objects_are_listed_by_name_before_users_jobs() -> None:
    nodes = read_nodes(node(name="odd", cpus="x") + node())
    partitions = read_partitions(partition(name="wide", tier="x") + partition())
    reservations = read_reservations("ReservationName=course StartTime=1 EndTime=2 Nodes=@\n")
    named = list(unread(Snapshot.of(NOW, nodes=nodes, partitions=partitions, reservations=reservations)))
    labels = [("node odd", ""), ("partition wide", ""), ("reservation course", "")]
    assert [(label, user) for label, user, _ in named] == labels
    assert all("could not be read" in why for _, _, why in named)


NODE_RECORD = NodeRecord(
    name="n1",
    state="IDLE",
    total_cpus=16,
    effective_cpus=16,
    real_memory=16000,
    memory_reserved_for_system=0,
    allocated_cpus=0,
    allocated_memory=0,
    configured_gres={"gpu": 4},
    sockets=2,
    cores_per_socket=4,
    threads_per_core=2,
    temporary_disk=7,
    active_features=(),
    partitions=("main",),
    reason=None,
    slurmd_start_time=1_700_000_000,
)
PARTITION_RECORD = PartitionRecord(
    name="main",
    state="UP",
    nodes="n[1-2]",
    priority_tier=1,
    preempt_mode=None,
    preemption_grace_time=0,
    max_time="UNLIMITED",
    default_time=None,
    min_nodes=0,
    max_nodes="UNLIMITED",
    max_cpus_per_node="UNLIMITED",
    max_cpus_per_socket="UNLIMITED",
    max_memory_per_node="UNLIMITED",
    max_memory_per_cpu="UNLIMITED",
    oversubscribe=None,
    is_user_exclusive=False,
    default_cpus_per_gpu=None,
    default_memory_per_gpu=None,
    default_memory_per_cpu=None,
    default_memory_per_node=None,
    is_default=True,
    allowed_accounts=(),
    allowed_qos=(),
    denied_accounts=(),
    denied_qos=(),
    allowed_groups=("ALL",),
    is_root_only=False,
    requires_reservation=False,
    qos=None,
)


def _changed(record: Any, **changes: object) -> Any:
    return type(record)(**{name: changes.get(name, getattr(record, name)) for name in record.__struct_fields__})


@pytest.mark.parametrize(
    "odd",
    [
        {"effective_cpus": 2**63 - 1},
        {"real_memory": 2**63 - 1},
        {"allocated_memory": 2**64},
        {"configured_gres": {"gpu": 2**63 - 1}},
        {"sockets": 2**40},
        {"temporary_disk": 2**60},
    ],
)
def test_a_node_of_pyslurms_goes_through_the_same_door(odd: dict[str, object]) -> None:
    found, well = nodes_of([_changed(NODE_RECORD, name="odd", **odd), NODE_RECORD])
    assert (found.name, bool(found.doubt), found.available) == ("odd", True, False)
    assert (well.doubt, well.available) == ("", True)


def test_a_partition_of_pyslurms_has_its_memory_defaults() -> None:
    """It has a word for no limit, and a number of MiB."""
    odd = {"default_memory_per_cpu": 1000, "default_memory_per_node": "UNLIMITED", "default_memory_per_gpu": 700}
    (found,) = partitions_of([_changed(PARTITION_RECORD, **odd)])
    assert (found.def_mem_per_cpu_mib, found.def_mem_per_node_mib, found.def_mem_per_gpu_mib) == (1000, 0, 700)


@pytest.mark.parametrize(("said", "seconds"), [(30, 1800), (None, None), ("UNLIMITED", None)])
def test_a_partition_of_pyslurms_has_its_default_time(said: int | str | None, seconds: int | None) -> None:
    """As for the commands client, none is none."""
    (found,) = partitions_of([_changed(PARTITION_RECORD, default_time=said)])
    assert found.default_time_s == seconds


@pytest.mark.parametrize(
    "odd",
    [
        {"priority_tier": 2**40},
        {"max_memory_per_cpu": 2**63 - 1},
        {"default_memory_per_gpu": 2**63 - 1},
        {"default_memory_per_node": 2**63 - 1},
        {"max_time": 2**62},
        {"nodes": "n[1-"},
    ],
)
def test_a_partition_of_pyslurms_goes_through_the_same_door(odd: dict[str, object]) -> None:
    found, well = partitions_of([_changed(PARTITION_RECORD, name="odd", **odd), PARTITION_RECORD])
    assert (found.name, bool(found.doubt), found.state) == ("odd", True, "UNKNOWN")
    assert (well.doubt, well.state, len(well.nodes)) == ("", "UP", 2)


SETTINGS = {
    "SLURM_VERSION": "26.05.5",
    "ClusterName": "c",
    "KillWait": "30 sec",
    "RequeueExit": "(null)",
    "RequeueExitHold": "1-3,7",
    "PriorityType": "priority/basic",
    "PreemptType": "(null)",
    "MinJobAge": "300 sec",
    "JobRequeue": "1",
    "AuthInfo": "cred_expire=5",
    "SchedulerParameters": "(null)",
    "JobDefaults": "(null)",
}


def config(**odd: str) -> str:
    return "".join(f"{key:<23} = {value}\n" for key, value in {**SETTINGS, **odd}.items())


def test_settings_are_read() -> None:
    settings = read_settings(config())
    assert (settings.kill_wait_s, settings.requeue_exit_hold, settings.requeue_delay_s) == (
        30,
        frozenset({1, 2, 3, 7}),
        6,
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, f"{number} sec") for key in ("KillWait", "MinJobAge") for number in (*HUGE, *ODD)),
        ("RequeueExit", "0-4294967295"),
        ("RequeueExitHold", "x"),
        ("AuthInfo", f"cred_expire={HUGE[0]}"),
        ("SchedulerParameters", f"requeue_delay={HUGE[3]}"),
        ("JobDefaults", f"DefMemPerGPU={HUGE[0]}"),
    ],
)
def test_a_setting_out_of_bounds_is_an_error_that_names_it(key: str, value: str) -> None:
    with pytest.raises(ValueError, match=key):
        read_settings(config(**{key: value}))


def test_a_node_of_pyslurms_without_a_start_of_its_slurmd_has_not_reported() -> None:
    (well,), (odd,) = nodes_of([NODE_RECORD]), nodes_of([_changed(NODE_RECORD, slurmd_start_time=None)])
    assert (well.has_not_reported, odd.has_not_reported, odd.available) == (False, True, False)
