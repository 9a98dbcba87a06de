"""Nodes, partitions and reservations as scontrol prints them on 22.05 and 26.05."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import inf

import msgspec
import pytest
from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Partition, SlurmSettings
from tesched_core.model.resources import Tres
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.commands_observer import Settings
from tesched_slurm.pyslurm_jobs import nodes_of
from tesched_slurm.scontrol_cluster import (
    KnownNodes,
    read_nodes,
    read_partitions,
    read_reservations,
    read_settings,
)

from tests.unit.slurm.answering import Answering
from tests.unit.slurm.test_cluster_bounds import NODE_RECORD

NODE = (
    "NodeName=n1 Arch=x86_64 CoresPerSocket=4  CPUAlloc=4 CPUEfctv=16 CPUTot=16 CPULoad=0.37 ActiveFeatures=x"
    " Gres=gpu:a:4,shard:a:8 GresDrain=N/A GresUsed={used} NodeAddr=127.0.0.1 RealMemory=16000 AllocMem=200"
    " Sockets=2 Boards=1 State=MIXED ThreadsPerCore=2 TmpDisk=7 Weight=1 Owner=N/A Partitions=main \n"
)
PARTITION_2205 = (
    "PartitionName=lim AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=NO DefaultTime=NONE ExclusiveUser=YES"
    " GraceTime=0 MaxNodes=2 MaxTime=UNLIMITED MinNodes=1 LLN=NO MaxCPUsPerNode=8 Nodes=m1,n[1-2] PriorityTier=1"
    " OverSubscribe=YES:2 PreemptMode=OFF State=UP TotalCPUs=40 JobDefaults=DefCpuPerGPU=2,DefMemPerGPU=500"
    " DefMemPerNode=UNLIMITED MaxMemPerNode=4000 \n"
)
PARTITION_2605 = (
    "PartitionName=lim AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=NO QoS=N/A Exclusive={exclusive}"
    " GraceTime=0 MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=0 LLN=NO MaxCPUsPerNode=UNLIMITED MaxCPUsPerSocket=4"
    " NodeSets=ALL Nodes=n1 PriorityTier=1 OverSubscribe=NO PreemptMode=OFF State=UP JobDefaults=(null)"
    " DefMemPerNode=UNLIMITED MaxMemPerCPU=30 \n"
)


@pytest.mark.parametrize(
    ("used", "gres"),
    [
        ("gpu:a:2(IDX:0-1),shard:a:0(IDX:N/A)", (("gpu", 2), ("gpu:a", 2))),
        ("gpu:a:1(IDX:0),shard:a:3(-/2,2/2,1/2,0/2)", (("gpu", 1), ("gpu:a", 1), ("shard", 3), ("shard:a", 3))),
        ("gpu:0", ()),
    ],
)
def test_what_a_node_says_is_held(used: str, gres: tuple[tuple[str, int], ...]) -> None:
    (node,) = read_nodes(NODE.format(used=used))
    assert node.held == Tres(cpus=4, mem_mib=200, gres=gres)
    assert (node.sockets, node.cores_per_socket, node.threads_per_core, node.tmp_mib) == (2, 4, 2, 7)


@pytest.mark.parametrize(
    ("cpus", "effective", "threads", "ids"),
    [(16, 16, 2, 1), (8, 8, 2, 2), (8, 6, 2, 2), (16, 6, 2, 1), (32, 32, 4, 1), (8, 8, 4, 4), (8, 8, 1, 1)],
)
def test_ids_of_a_cpu_are_those_of_a_core_where_each_core_is_one_cpu(
    cpus: int, effective: int, threads: int, ids: int
) -> None:
    """Eight cores; some of them may be set aside for the system."""
    said = NODE.format(used="gpu:0").replace("CPUEfctv=16 CPUTot=16", f"CPUEfctv={effective} CPUTot={cpus}")
    (node,) = read_nodes(said.replace("ThreadsPerCore=2", f"ThreadsPerCore={threads}"))
    shown = msgspec.structs.replace(
        NODE_RECORD, total_cpus=cpus, effective_cpus=effective, threads_per_core=threads, sockets=2, cores_per_socket=4
    )
    (by_pyslurm,) = nodes_of((shown,))
    assert (node.ids_of_a_cpu, by_pyslurm.ids_of_a_cpu) == (ids, ids)


def test_a_node_of_which_its_load_alone_has_changed_is_not_read_again() -> None:
    known, said = KnownNodes(), NODE.format(used="gpu:0")
    (first,) = read_nodes(said, known)
    (second,) = read_nodes(said.replace("CPULoad=0.37", "CPULoad=7.00"), known)
    assert second is first


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("AllocMem=200", "AllocMem=300"),
        ("State=MIXED", "State=MIXED+DRAIN"),
        (" \n", " Reason=bad disk [root@2026-11-28T10:00:00]\n"),
    ],
)
def test_a_known_node_that_has_changed_is_read_again(old: str, new: str) -> None:
    known, said = KnownNodes(), NODE.format(used="gpu:0")
    read_nodes(said, known)
    after = said.replace(old, new)
    assert read_nodes(after, known) == read_nodes(after) != read_nodes(said)


def test_text_in_a_nodes_reason_is_not_taken_for_its_load() -> None:
    known = KnownNodes()
    one, other = (
        NODE.format(used="gpu:0").replace(" \n", f" Reason=x CPULoad={n} [root@2026-11-28T10:00:00]\n") for n in (1, 2)
    )
    read_nodes(one, known)
    assert read_nodes(other, known) == read_nodes(other) != read_nodes(one)


def test_a_known_node_is_forgotten_with_its_record() -> None:
    known, said = KnownNodes(), NODE.format(used="gpu:0")
    read_nodes(said + said.replace("=n1 ", "=n2 "), known)
    read_nodes(said, known)
    assert [node.name for node in known.values()] == ["n1"]


def test_a_partition_of_2205() -> None:
    (partition,) = read_partitions(PARTITION_2205)
    assert partition == Partition(
        name="lim",
        nodes=frozenset({"m1", "n1", "n2"}),
        preempt_mode="OFF",
        min_nodes=1,
        max_nodes=2,
        max_cpus_per_node=8,
        max_mem_per_node_mib=4000,
        oversubscribe="YES:2",
        exclusive_user=True,
        def_cpus_per_gpu=2,
        def_mem_per_gpu_mib=500,
    )


@pytest.mark.parametrize(
    ("exclusive", "oversubscribe", "alone"),
    [("NO", "NO", False), ("USER", "NO", True), ("NODE", "EXCLUSIVE", False)],
)
def test_a_partition_of_2605(exclusive: str, oversubscribe: str, *, alone: bool) -> None:
    (partition,) = read_partitions(PARTITION_2605.format(exclusive=exclusive))
    assert (partition.oversubscribe, partition.exclusive_user) == (oversubscribe, alone)
    limits = partition.max_cpus_per_node, partition.max_cpus_per_socket, partition.max_mem_per_cpu_mib
    assert limits == (None, 4, 30)


def test_a_reservation_of_cores_is_distinguished_from_one_of_nodes() -> None:
    answer = (
        "ReservationName=r1 StartTime=1795348382 EndTime=1795351982 Duration=01:00:00 Nodes=n1 NodeCnt=1 CoreCnt=2"
        " Features=(null) PartitionName=main Flags=   NodeName=n1 CoreIDs=0-1 TRES=cpu=2 Users=root Accounts=(null)\n"
        "ReservationName=r2 StartTime=1795348382 EndTime=1795351982 Duration=01:00:00 Nodes=n2 NodeCnt=1 CoreCnt=8"
        " Features=(null) PartitionName=(null) Flags=SPEC_NODES TRES=cpu=8 Users=root Accounts=(null)\n"
    )
    assert [(one.name, one.cores) for one in read_reservations(answer)] == [("r1", True), ("r2", False)]


RESERVATION = "ReservationName={name} StartTime=100 EndTime={end} Duration=1 {nodes} NodeCnt=1 Users=root\n"


def reservation(name: str = "r", end: str = "200", nodes: str = "Nodes=n1") -> str:
    return RESERVATION.format(name=name, end=end, nodes=nodes)


@pytest.mark.parametrize(
    ("odd", "nodes"),
    [
        (reservation("odd", nodes="Nodes=n[1-2]x@y"), None),
        (reservation("odd", nodes=""), None),
        (reservation("odd", end="Unknown", nodes="Nodes=n[1-2]"), {"n1", "n2"}),
        (reservation("odd", nodes="Nodes=n1") + reservation("odd", nodes="Nodes=n2"), {"n1", "n2"}),
        (reservation("odd", nodes="Nodes=n1") + reservation("odd", nodes="Nodes=@"), None),
        (reservation("odd", nodes="Nodes=@") + reservation("odd", nodes="Nodes=n1"), None),
    ],
    ids=["nodes", "none", "end", "two", "two, one unreadable", "two, the first unreadable"],
)
def test_an_unreadable_reservation_ends_no_poll_and_has_all_nodes_that_it_may_name(
    odd: str, nodes: set[str] | None
) -> None:
    for answer in (odd, odd + reservation()):
        found = {one.name: one for one in read_reservations(answer)}
        one = found.pop("odd")
        assert (one.doubt != "", one.any_node, one.end_time) == (True, nodes is None, inf)
        assert one.nodes == (nodes or set())
        assert all(
            (other.doubt, other.end_time, other.nodes) == ("", 200.0, frozenset({"n1"})) for other in found.values()
        )


def test_defaults_of_the_site() -> None:
    answer = (
        "ClusterName             = tesched\nKillWait                = 2 sec\nJobRequeue              = 1\n"
        "JobDefaults             = DefCpuPerGPU=3,DefMemPerGPU=900\nMinJobAge               = 300 sec\n"
        "PreemptType             = (null)\nPriorityType            = priority/basic\n"
        "SLURM_VERSION           = 26.05.5\nSelectType              = select/cons_tres\n"
        "SelectTypeParameters    = CR_SOCKET_MEMORY\n"
    )
    settings = read_settings(answer)
    assert (settings.def_cpus_per_gpu, settings.def_mem_per_gpu_mib) == (3, 900)
    assert (settings.select_type, settings.whole_sockets) == ("select/cons_tres", True)
    assert [
        read_settings(answer.replace("CR_SOCKET_MEMORY", by)).single_cpus for by in ("CR_CPU_MEMORY", "CR_CORE_MEMORY")
    ] == [True, False]
    assert (settings.def_mem_per_cpu_mib, settings.def_mem_per_node_mib) == (0, 0)
    for line, expected in (
        ("DefMemPerCPU            = 1000\n", (1000, 0)),
        ("DefMemPerNode           = 2000\n", (0, 2000)),
        ("DefMemPerNode           = UNLIMITED\n", (0, 0)),
    ):
        settings = read_settings(answer + line)
        assert (settings.def_mem_per_cpu_mib, settings.def_mem_per_node_mib) == expected


def test_burst_buffers_are_noticed() -> None:
    config = CONFIG_OF.format(enforce="none", started="noon")
    assert not read_settings(f"{config}BurstBufferType = (null)\n").has_burst_buffers
    assert read_settings(f"{config}BurstBufferType = burst_buffer/lua\n").has_burst_buffers


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [("(null)", ()), ("lua", ("lua",)), ("require_timelimit, job_submit/lua", ("lua", "require_timelimit"))],
)
def test_submission_plugins_and_the_path_of_slurm_conf(plugins: str, expected: tuple[str, ...]) -> None:
    answer = (
        "ClusterName = tesched\nKillWait = 2 sec\nJobRequeue = 1\nMinJobAge = 300 sec\nPreemptType = (null)\n"
        f"PriorityType = priority/basic\nSLURM_CONF = /etc/slurm/slurm.conf\nSLURM_VERSION = 26.05.5\n"
        f"JobSubmitPlugins = {plugins}\n"
    )
    settings = read_settings(answer)
    assert (settings.job_submit, settings.conf) == (frozenset(expected), "/etc/slurm/slurm.conf")


@pytest.mark.parametrize(
    ("said", "expected"),
    [("DefMemPerCPU=1000", (1000, 0)), ("DefMemPerNode=2000", (0, 2000)), ("DefMemPerNode=UNLIMITED", (0, 0))],
)
def test_a_partitions_memory_of_a_job_that_names_none(said: str, expected: tuple[int, int]) -> None:
    (partition,) = read_partitions(PARTITION_2205.replace("DefMemPerNode=UNLIMITED", said))
    assert (partition.def_mem_per_cpu_mib, partition.def_mem_per_node_mib) == expected


@pytest.mark.parametrize(
    ("storage", "enforce", "has"),
    [
        ("accounting_storage/slurmdbd", "associations,limits", True),
        ("accounting_storage/slurmdbd", "nojobs,nosteps", False),
        ("(null)", "none", False),
    ],
)
def test_slurmdbd_has_command_lines_only_where_jobs_are_stored(storage: str, enforce: str, *, has: bool) -> None:
    answer = (
        "ClusterName = tesched\nKillWait = 2 sec\nJobRequeue = 1\nMinJobAge = 300 sec\nPreemptType = (null)\n"
        "PriorityType = priority/basic\nSLURM_VERSION = 22.05.8\n"
        f"AccountingStorageType = {storage}\nAccountingStorageEnforce = {enforce}\n"
    )
    assert read_settings(answer).has_slurmdbd is has


@pytest.mark.parametrize(
    ("said", "expected"),
    [("none", set()), ("accounts,Jobs", {"accounts", "jobs"})],
)
def test_what_is_hidden_from_ordinary_users(said: str, expected: set[str]) -> None:
    answer = (
        "ClusterName = tesched\nKillWait = 2 sec\nJobRequeue = 1\nMinJobAge = 300 sec\nPreemptType = (null)\n"
        f"PriorityType = priority/basic\nSLURM_VERSION = 22.05.8\nPrivateData = {said}\n"
    )
    assert read_settings(answer).private == expected


@pytest.mark.parametrize(("said", "expected"), [("NONE", None), ("00:10:00", 600), ("1-00:00:00", 86_400)])
def test_the_time_limit_of_a_job_that_names_none(said: str, expected: int | None) -> None:
    (partition,) = read_partitions(PARTITION_2205.replace("DefaultTime=NONE", f"DefaultTime={said}"))
    assert partition.default_time_s == expected


CONFIG_OF = (
    "AccountingStorageEnforce = {enforce}\nBOOT_TIME = {started}\nClusterName = c\nKillWait = 2 sec\nJobRequeue = 1\n"
    "MinJobAge = 300 sec\nPreemptType = (null)\nPriorityType = priority/basic\nSLURM_VERSION = 22.05.8\n"
)


def test_limits_count_as_enforced_until_slurmctld_is_started_anew() -> None:
    def config(enforce: str, started: str) -> str:
        return CONFIG_OF.format(enforce=enforce, started=started)

    answers = [config("limits", "noon"), config("none", "noon"), config("none", "one"), config("limits", "one")]
    settings = Settings(commands=Answering(answers=[*answers]), age_s=-1)
    found = [settings.now() for _ in answers]
    assert [isinstance(one, SlurmSettings) and one.limits_enforced for one in found] == [True, True, False, True]


def test_the_settings_are_read_again_in_time_after_the_clock_was_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1e9)
    answers = [CONFIG_OF.format(enforce=one, started="noon") for one in ("none", "limits")]
    steady = iter([10.0, 69.0, 71.0])
    settings = Settings(commands=Answering(answers=[*answers]), stopwatch=lambda: next(steady))
    settings.now()
    monkeypatch.setattr(time, "time", lambda: 1e9 - 3600.0)
    found = [settings.now() for _ in answers]
    assert [isinstance(one, SlurmSettings) and one.limits_enforced for one in found] == [False, True]


SEEN_UP = "Slurmctld(primary) at a is {first}\nSlurmctld(backup) at b is {second}\n"


def changes_of(answers: Sequence[str | Failure]) -> list[bool]:
    """Read these answers, each after a command without an answer, and return of each whether slurmctld is another."""
    commands = Answering(answers=[*answers])
    settings = Settings(commands=commands, age_s=1e9)
    changed = []
    for _ in answers:
        settings.now()
        changed.append(settings.take_change())
        commands.unanswered["squeue"] += 1
    assert not settings.take_change()
    return changed


def test_slurmctld_is_another_one_where_its_start_or_its_host_has_changed_while_it_did_not_answer() -> None:
    def config(started: str, first: str) -> str:
        return CONFIG_OF.format(enforce="none", started=started) + SEEN_UP.format(first=first, second="UP")

    silent = Failure(kind=FailureKind.UNREACHABLE, message="timed out")
    answers: list[str | Failure] = [
        config("1", "UP"),
        config("1", "UP"),
        config("2", "UP"),
        silent,
        config("2", "DOWN"),
        config("3", "DOWN"),
    ]
    assert changes_of(answers) == [False, False, True, False, True, True]


def test_a_ping_of_its_host_that_failed_is_no_sign_as_it_may_be_busy() -> None:
    up = CONFIG_OF.format(enforce="none", started="1") + "Slurmctld(primary) at a is {}\n"
    assert changes_of([up.format(one) for one in ("UP", "DOWN", "UP")]) == [False, False, False]


def test_a_start_that_is_found_by_the_way_is_no_sign_as_it_may_be_long_ago() -> None:
    answers = [CONFIG_OF.format(enforce="none", started=one) for one in ("1", "2")]
    settings = Settings(commands=Answering(answers=[*answers]), age_s=-1)
    for _ in answers:
        settings.now()
    assert not settings.take_change()


@pytest.mark.parametrize(("timeout", "available"), [("0 sec", True), ("300 sec", False)])
def test_where_slurmctld_has_no_node_report_none_is_awaited_for_ever(timeout: str, *, available: bool) -> None:
    line = NODE.format(used="gpu:0").replace(" Owner=", " SlurmdStartTime=None Owner=")
    config = CONFIG_OF.format(enforce="none", started="1") + f"SlurmdTimeout = {timeout}\n"
    settings = Settings(commands=Answering(answers=[config]))
    found = settings.now()
    assert isinstance(found, SlurmSettings)
    seen = settings.with_controller(Snapshot.of(1.0, nodes=read_nodes(line), settings=found))
    (node,) = seen.nodes.values()
    assert (node.available, seen.controller_is_new) == (available, not available)


@pytest.mark.parametrize(
    ("state", "started", "has_not"),
    [
        ("MIXED", "None", True),
        ("IDLE+DRAIN", "None", True),
        ("IDLE", "1700000000", False),
        ("UNKNOWN", "None", True),
        ("DOWN", "None", False),
        ("IDLE*", "None", False),
        ("IDLE+CLOUD+POWERED_DOWN", "None", False),
        ("MIXED+CLOUD+POWERING_UP", "None", False),
    ],
)
def test_a_node_without_a_start_of_its_slurmd_has_yet_to_report_unless_it_is_away(
    state: str, started: str, has_not: bool
) -> None:
    line = NODE.format(used="gpu:0").replace("State=MIXED", f"State={state}")
    (node,) = read_nodes(line.replace(" Owner=", f" SlurmdStartTime={started} Owner="))
    assert node.has_not_reported is has_not
