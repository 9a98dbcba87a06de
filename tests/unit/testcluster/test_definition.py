"""The test cluster's definition becomes the configuration that each Slurm release wants."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from tesched_testcluster.definition import (
    Account,
    Accounting,
    ClusterDefinition,
    NativePreemption,
    NodeGroup,
    PartitionDefinition,
    Qos,
    docker_placement,
    large_site_definition,
    local_placement,
    local_port_count,
    parse_release,
)
from tesched_testcluster.load import LoadJob, Mix, plan
from tesched_testcluster.render import (
    all_device_names,
    device_names,
    further_files,
    render_cgroup_conf,
    render_gres_conf,
    render_slurm_conf,
    render_slurmdbd_conf,
    sacctmgr_commands,
)

BOOKWORM = (22, 5)
FORKY = (26, 5)
LOCAL = local_placement(folder="/t/c", host="box", first_port=20_000, user="ada")


def settings(conf: str) -> dict[str, str]:
    """Return the single settings of a slurm.conf; one that comes twice would make Slurm complain."""
    pairs = [line.split("=", 1) for line in conf.splitlines() if not re.match(r"(NodeName|PartitionName)=", line)]
    assert len({name for name, _ in pairs}) == len(pairs)
    return dict(pairs)


def lines_of(conf: str, kind: str) -> list[str]:
    """Return the lines of one kind, such as NodeName."""
    return [line for line in conf.splitlines() if line.startswith(f"{kind}=")]


@pytest.mark.parametrize(
    ("said", "release"),
    [("slurm-wlm 22.05.8", (22, 5)), ("slurm 26.05.5\n", (26, 5)), ("slurm-wlm 24.11.5-4", (24, 11))],
)
def test_release_is_read_from_what_slurm_prints(said: str, release: tuple[int, int]) -> None:
    assert parse_release(said) == release


def test_no_release_in_what_slurm_prints_is_an_error() -> None:
    with pytest.raises(ValueError, match="no Slurm release"):
        parse_release("slurmctld: command not found")


def test_default_cluster_is_eight_nodes_in_two_partitions() -> None:
    conf = render_slurm_conf(ClusterDefinition(), LOCAL, BOOKWORM)
    (nodes,) = lines_of(conf, "NodeName")
    assert nodes == (
        "NodeName=n[1-8] NodeHostname=box NodeAddr=127.0.0.1 Port=[20003-20010] CPUs=32 Boards=1 SocketsPerBoard=2 "
        "CoresPerSocket=16 ThreadsPerCore=1 RealMemory=256000 Gres=gpu:8 State=UNKNOWN"
    )
    assert lines_of(conf, "PartitionName") == [
        "PartitionName=main Nodes=ALL MaxTime=INFINITE State=UP Default=YES",
        "PartitionName=debug Nodes=ALL MaxTime=INFINITE State=UP",
    ]


def test_groups_of_nodes_share_no_port_and_stay_in_what_was_claimed() -> None:
    definition = ClusterDefinition(
        groups=(NodeGroup(count=3), NodeGroup(prefix="big", count=1), NodeGroup(prefix="x", count=2))
    )
    conf = render_slurm_conf(definition, LOCAL, BOOKWORM)
    ports = [re.search(r"Port=(\S+)", line) for line in lines_of(conf, "NodeName")]
    assert [found and found[1] for found in ports] == ["[20003-20005]", "20006", "[20007-20008]"]
    assert 20_000 + local_port_count(definition) == 20_009
    assert [line.split()[0] for line in lines_of(conf, "NodeName")] == [
        "NodeName=n[1-3]",
        "NodeName=big1",
        "NodeName=x[1-2]",
    ]


def test_nodes_in_containers_have_their_own_hosts_and_slurms_usual_port() -> None:
    conf = render_slurm_conf(ClusterDefinition(), docker_placement(), FORKY)
    (nodes,) = lines_of(conf, "NodeName")
    assert "NodeHostname" not in nodes
    assert "Port" not in nodes
    assert settings(conf)["SlurmctldHost"] == "slurmctld"
    assert settings(conf)["SlurmctldPort"] == "6817"
    # Daemons in containers must be reachable from other containers.
    assert "CommunicationParameters" not in settings(conf)
    assert settings(render_slurm_conf(ClusterDefinition(), LOCAL, FORKY))["CommunicationParameters"]


def test_fast_scheduling_and_the_quicker_requeue_of_new_releases() -> None:
    fast = "sched_interval=1,sched_min_interval=0,batch_sched_delay=0,bf_interval=2"
    definition = ClusterDefinition()
    assert settings(render_slurm_conf(definition, LOCAL, BOOKWORM))["SchedulerParameters"] == fast
    assert settings(render_slurm_conf(definition, LOCAL, FORKY))["SchedulerParameters"] == f"{fast},requeue_delay=1"
    stock = settings(render_slurm_conf(ClusterDefinition(scheduling="stock"), LOCAL, FORKY))
    assert "SchedulerParameters" not in stock
    large = settings(render_slurm_conf(large_site_definition(2), LOCAL, BOOKWORM))
    assert large["SchedulerParameters"].startswith("defer,max_rpc_cnt=64,bf_continue,bf_interval=90,")
    assert (large["PreemptType"], large["SlurmctldParameters"]) == (
        "preempt/partition_prio",
        "preempt_send_user_signal",
    )


def test_settings_replace_ours_whatever_their_case() -> None:
    definition = ClusterDefinition(
        settings={"killwait": "7", "PriorityType": "priority/multifactor", "Licenses": "a:1"}
    )
    conf = settings(render_slurm_conf(definition, LOCAL, BOOKWORM))
    assert conf["KillWait"] == "7"
    assert conf["PriorityType"] == "priority/multifactor"
    assert conf["Licenses"] == "a:1"


def test_a_job_that_asks_for_no_memory_gets_some_of_it_unless_the_definition_wants_slurms_own_way() -> None:
    assert settings(render_slurm_conf(ClusterDefinition(), LOCAL, BOOKWORM))["DefMemPerCPU"] == "1000"
    all_of_it = ClusterDefinition(def_mem_per_cpu_mib=None)
    assert "DefMemPerCPU" not in settings(render_slurm_conf(all_of_it, LOCAL, BOOKWORM))


def test_extra_lines_come_last() -> None:
    conf = render_slurm_conf(ClusterDefinition(extra_lines=("DownNodes=n1 State=DOWN",)), LOCAL, BOOKWORM)
    assert conf.endswith("\nDownNodes=n1 State=DOWN\n")


def test_typed_gpus_take_different_devices() -> None:
    group = NodeGroup(count=2, gres={"gpu:a100": 4, "gpu:v100": 1, "fpga": 2}, features=("fast", "new"))
    definition = ClusterDefinition(groups=(group,))
    assert device_names(group) == {
        "gpu:a100": ("nvidia0", "nvidia1", "nvidia2", "nvidia3"),
        "gpu:v100": ("nvidia4",),
        "fpga": ("fpga0", "fpga1"),
    }
    assert render_gres_conf(definition, LOCAL).splitlines() == [
        "AutoDetect=off",
        "NodeName=n[1-2] Name=gpu Type=a100 File=/t/c/dev/nvidia[0-3]",
        "NodeName=n[1-2] Name=gpu Type=v100 File=/t/c/dev/nvidia4",
        "NodeName=n[1-2] Name=fpga File=/t/c/dev/fpga[0-1]",
    ]
    conf = render_slurm_conf(definition, LOCAL, BOOKWORM)
    assert settings(conf)["GresTypes"] == "fpga,gpu"
    assert "Gres=gpu:a100:4,gpu:v100:1,fpga:2 Features=fast,new" in conf


def test_shards_are_a_count_of_the_gpus_that_have_the_files() -> None:
    groups = (NodeGroup(count=2, gres={"gpu:v100": 2, "shard": 4}),)
    definition = ClusterDefinition(groups=groups)
    assert all_device_names(definition) == ("nvidia0", "nvidia1")
    assert render_gres_conf(definition, LOCAL).splitlines() == [
        "AutoDetect=off",
        "NodeName=n[1-2] Name=gpu Type=v100 File=/t/c/dev/nvidia[0-1]",
        "NodeName=n[1-2] Name=shard Count=4",
    ]
    conf = render_slurm_conf(definition, LOCAL, BOOKWORM)
    assert settings(conf)["GresTypes"] == "gpu,shard"
    assert "Gres=gpu:v100:2,shard:4" in conf


def test_nodes_without_devices_name_none() -> None:
    definition = ClusterDefinition(groups=(NodeGroup(count=1, gres={}),))
    conf = render_slurm_conf(definition, LOCAL, BOOKWORM)
    assert "Gres" not in conf
    assert render_gres_conf(definition, LOCAL) == "AutoDetect=off\n"
    assert all_device_names(definition) == ()


def test_devices_are_made_once_for_all_groups() -> None:
    groups = (NodeGroup(count=1, gres={"gpu": 2}), NodeGroup(prefix="m", count=1, gres={"gpu": 3}))
    assert all_device_names(ClusterDefinition(groups=groups)) == ("nvidia0", "nvidia1", "nvidia2")


def test_control_groups_are_off_in_each_releases_words() -> None:
    assert render_cgroup_conf(BOOKWORM) == "CgroupAutomount=no\n"
    assert render_cgroup_conf((24, 11)) == "CgroupPlugin=disabled\n"


def test_native_preemption_options_stand_where_the_release_reads_them() -> None:
    preemption = NativePreemption(youngest_first=True, reorder_count=3, send_user_signal=True, exempt_time_s=3725)
    partitions = (
        PartitionDefinition(name="be", default=True, priority_tier=1, preempt_mode="REQUEUE", grace_time_s=5),
        PartitionDefinition(name="te", priority_tier=10, preempt_mode="OFF", max_time="30", settings={"AllowQos": "x"}),
    )
    definition = ClusterDefinition(preemption=preemption, partitions=partitions, scheduling="stock")
    old = settings(render_slurm_conf(definition, LOCAL, BOOKWORM))
    assert old["PreemptType"] == "preempt/partition_prio"
    assert old["PreemptMode"] == "REQUEUE"
    assert old["PreemptExemptTime"] == "01:02:05"
    assert old["SchedulerParameters"] == "preempt_youngest_first,preempt_reorder_count=3"
    assert old["SlurmctldParameters"] == "preempt_send_user_signal"
    new = settings(render_slurm_conf(definition, LOCAL, FORKY))
    assert new["PreemptParameters"] == "youngest_first,reorder_count=3,send_user_signal"
    assert "SlurmctldParameters" not in new
    be, te = lines_of(render_slurm_conf(definition, LOCAL, FORKY), "PartitionName")
    assert be.endswith("MaxTime=INFINITE State=UP Default=YES PriorityTier=1 PreemptMode=REQUEUE GraceTime=5")
    assert te == "PartitionName=te Nodes=ALL MaxTime=30 State=UP PriorityTier=10 PreemptMode=OFF AllowQos=x"


def test_the_plugin_has_its_folder_and_its_marks_file() -> None:
    preemption = NativePreemption(kind="tesched", send_user_signal=True, parameters=("tesched_te_partition=te",))
    definition = ClusterDefinition(preemption=preemption)
    placement = replace(LOCAL, plugin_folders=("/usr/lib/slurm", "/opt/tesched"))
    conf = settings(render_slurm_conf(definition, placement, BOOKWORM))
    assert (conf["PreemptType"], conf["PreemptMode"]) == ("preempt/tesched", "REQUEUE")
    assert conf["PluginDir"] == "/usr/lib/slurm:/opt/tesched"
    marks = f"tesched_marks={LOCAL.run}/marks"
    assert conf["SlurmctldParameters"] == f"preempt_send_user_signal,{marks},tesched_te_partition=te"


def test_accounting_brings_slurmdbd_qos_and_accounts() -> None:
    qos = (Qos(name="be", preempt_mode="requeue", grace_time_s=0), Qos(name="te", priority=100, preempts=("be",)))
    accounts = (
        Account(name="lab", users=("root", "ada"), qos=("be", "te")),
        Account(name="open"),
        Account(name="more", users=("root", "ada"), qos=("be", "te")),
    )
    accounting = Accounting(qos=(*qos, Qos(name="plain")), accounts=accounts)
    definition = ClusterDefinition(accounting=accounting)
    conf = settings(render_slurm_conf(definition, LOCAL, BOOKWORM))
    assert conf["AccountingStorageType"] == "accounting_storage/slurmdbd"
    assert conf["AccountingStoragePort"] == "20001"
    assert conf["AccountingStorageTRES"] == "gres/gpu"
    assert conf["AccountingStoragePass"] == "/t/c/run/munge.sock"
    dbd = render_slurmdbd_conf(definition, LOCAL)
    assert "DbdPort=20001\n" in dbd
    assert "StoragePort=20002\n" in dbd
    assert [" ".join(call[1:]) for call in sacctmgr_commands(definition)] == [
        "add cluster tesched",
        "add qos be,te,plain",
        "modify qos be set preemptmode=requeue gracetime=0",
        "modify qos te set priority=100 preempt=be",
        "add account lab,open,more cluster=tesched",
        "add user root,ada account=lab,more qos=be,te defaultqos=be",
        "add user root account=open",
    ]


def test_without_accounting_there_is_no_slurmdbd() -> None:
    assert sacctmgr_commands(ClusterDefinition()) == ()
    with pytest.raises(ValueError, match="no accounting"):
        render_slurmdbd_conf(ClusterDefinition(), LOCAL)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "Tesched"}, "cluster name"),
        ({"groups": ()}, "at least one node group"),
        ({"groups": (NodeGroup(count=2), NodeGroup(first=2, count=1))}, "node defined twice: n2"),
        ({"partitions": (PartitionDefinition(name="a"), PartitionDefinition(name="a"))}, "partition defined twice: a"),
        ({"cred_expire_s": 4}, "5 is the least"),
    ],
)
def test_a_definition_that_no_slurm_could_start_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClusterDefinition(**change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [({"count": 0}, "at least one node"), ({"cpus": 31}, "31 CPUs"), ({"prefix": "n1"}, "does not end in a digit")],
)
def test_a_node_group_that_cannot_be_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NodeGroup(**{"count": 1, **change})  # type: ignore[arg-type]


def seeded(seed: int) -> random.Random:
    """Return a generator for a load."""
    return random.Random(seed)  # noqa: S311


def test_the_same_seed_draws_the_same_load_and_another_seed_another() -> None:
    mix = Mix(on_notice=("exit", "requeue", "ignore"))
    first = plan(mix, seeded(7))
    assert first == plan(mix, seeded(7))
    assert first != plan(mix, seeded(8))


def test_a_load_has_what_its_mix_says_in_the_order_of_submission() -> None:
    mix = Mix(be_count=5, te_count=3, options={"te": ("--partition=debug",)})
    jobs = plan(mix, seeded(1))
    assert sorted(job.name for job in jobs) == [f"be-00{n}" for n in range(1, 6)] + [f"te-00{n}" for n in range(1, 4)]
    assert [job.submit_after_s for job in jobs] == sorted(job.submit_after_s for job in jobs)

    def options(kind: str) -> set[tuple[str, ...]]:
        return {job.options for job in jobs if job.kind == kind}

    assert options("te") == {("--partition=debug",)}
    assert options("be") == {()}
    assert all(fits_one_node(job) for job in jobs)


def test_racks_are_leaves_of_a_tree() -> None:
    racked = ClusterDefinition(racks={"r1": "n[1-4]", "r2": "n[5-8]"}, files={"job_submit.lua": "--"})
    assert further_files(racked) == {
        "topology.conf": (
            "SwitchName=r1 Nodes=n[1-4]\nSwitchName=r2 Nodes=n[5-8]\nSwitchName=all-racks Switches=r1,r2\n"
        ),
        "job_submit.lua": "--",
    }
    assert "TopologyPlugin=topology/tree" in render_slurm_conf(racked, LOCAL, (22, 5))
    assert "Topology" not in render_slurm_conf(ClusterDefinition(), LOCAL, (22, 5))


def fits_one_node(job: LoadJob) -> bool:
    """Return whether a job fits a node of the default cluster."""
    (group,) = ClusterDefinition().groups
    return job.gpus <= group.gres["gpu"] and job.cpus <= group.cpus and job.mem_mib <= group.mem_mib


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"be_count": -1}, "fewer than 0 jobs"),
        ({"tick_s": 0}, "more than 0 s"),
        ({"te_span_s": -1}, "0 s or more"),
        ({"on_notice": ("exit", "run")}, "not known as an answer to a notice: run"),
    ],
)
def test_a_mix_that_cannot_be_drawn_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Mix(**change)  # type: ignore[arg-type]
