"""Slurm's configuration files for a `ClusterDefinition` in a `Placement`: pure functions from one to the other.

The settings are those that were tried on real Slurm 22.05, 24.11 and 26.05. Where releases differ, the function takes
the release, as `parse_release` gives it.
"""

from __future__ import annotations

from collections.abc import Mapping

from tesched_testcluster.definition import (
    ClusterDefinition,
    NativePreemption,
    NodeGroup,
    PartitionDefinition,
    Placement,
    Scheduling,
    fold_numbers,
)

#: SchedulerParameters by the definition's scheduling
_SCHEDULER: Mapping[Scheduling, tuple[str, ...]] = {
    "fast": ("sched_interval=1", "sched_min_interval=0", "batch_sched_delay=0", "bf_interval=2"),
    "stock": (),
    "large_site": (
        "defer",
        "max_rpc_cnt=64",
        "bf_continue",
        "bf_interval=90",
        "bf_max_time=600",
        "bf_yield_sleep=1000000",
        "sched_min_interval=5000000",
    ),
}

#: the first release with SchedulerParameters=requeue_delay and with its preemption options in PreemptParameters
_RELEASE_2605 = (26, 5)

#: the first release that knows CgroupPlugin=disabled in cgroup.conf
_RELEASE_CGROUP_PLUGIN = (24, 11)

#: the gres that stands for parts of GPUs
_SHARD = "shard"


def device_names(group: NodeGroup) -> dict[str, tuple[str, ...]]:
    """Return, by gres (`gpu` or `gpu:a100`), the device file names of one node; a GPU's is nvidia0 and so on."""
    taken: dict[str, int] = {}
    names = {}
    for gres, count in group.gres.items():
        if gres == _SHARD:
            continue  # of the GPUs' files
        stem = _device_stem(gres)
        first = taken.get(stem, 0)
        names[gres] = tuple(f"{stem}{number}" for number in range(first, first + count))
        taken[stem] = first + count
    return names


def all_device_names(definition: ClusterDefinition) -> tuple[str, ...]:
    """Return the device file names that `Placement.dev` must hold; nodes on one host share them."""
    names = {name for group in definition.groups for files in device_names(group).values() for name in files}
    return tuple(sorted(names))


def render_slurm_conf(definition: ClusterDefinition, placement: Placement, release: tuple[int, int]) -> str:
    """Return slurm.conf."""
    settings = _settings(definition, placement, release)
    ours = {name.lower(): name for name in settings}
    for name, value in definition.settings.items():
        settings[ours.get(name.lower(), name)] = value
    lines = [f"{name}={value}" for name, value in settings.items()]
    port = placement.slurmd_port
    for group in definition.groups:
        lines.append(_node_line(group, placement, port))
        port += group.count
    lines += [_partition_line(partition) for partition in definition.partitions]
    return "\n".join([*lines, *definition.extra_lines, ""])


def render_gres_conf(definition: ClusterDefinition, placement: Placement) -> str:
    """Return gres.conf. Each device has a file: Slurm takes a node with a mere count of devices for a broken one.

    Shards are parts of GPUs and a mere count: Slurm divides them evenly among the node's GPUs.
    """
    lines = ["AutoDetect=off"]
    for group in definition.groups:
        for gres, files in device_names(group).items():
            if not files:
                continue
            stem = _device_stem(gres)
            name, _, kind = gres.partition(":")
            typed = f" Type={kind}" if kind else ""
            first = int(files[0].removeprefix(stem))
            path = f"{placement.dev}/{stem}{fold_numbers(first, len(files))}"
            lines.append(f"NodeName={group.hostlist} Name={name}{typed} File={path}")
        if shards := group.gres.get(_SHARD, 0):
            lines.append(f"NodeName={group.hostlist} Name={_SHARD} Count={shards}")
        for gres, count in group.counted.items():
            name, _, kind = gres.partition(":")
            # `no_consume` stands in the place of a type in slurm.conf alone.
            typed = f" Type={kind}" if kind not in {"", "no_consume"} else ""
            lines.append(f"NodeName={group.hostlist} Name={name}{typed} Count={count} Flags=CountOnly")
    return "\n".join([*lines, ""])


def further_files(definition: ClusterDefinition) -> dict[str, str]:
    """Return what else stands beside slurm.conf, by name: the definition's files, and topology.conf."""
    if not definition.racks:
        return dict(definition.files)
    leaves = [f"SwitchName={name} Nodes={nodes}" for name, nodes in definition.racks.items()]
    tree = "\n".join([*leaves, f"SwitchName=all-racks Switches={','.join(definition.racks)}", ""])
    return {"topology.conf": tree, **definition.files}


def render_cgroup_conf(release: tuple[int, int]) -> str:
    """Return a cgroup.conf that leaves the host's control groups alone."""
    return "CgroupPlugin=disabled\n" if release >= _RELEASE_CGROUP_PLUGIN else "CgroupAutomount=no\n"


def render_slurmdbd_conf(definition: ClusterDefinition, placement: Placement) -> str:
    """Return slurmdbd.conf, which must be written with mode 600. ValueError without accounting."""
    if definition.accounting is None:
        raise ValueError(f"cluster {definition.name} has no accounting, so it has no slurmdbd")
    settings = {
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={placement.munge_socket}",
        "DbdHost": placement.slurmdbd_host,
        "DbdPort": str(placement.slurmdbd_port),
        "SlurmUser": placement.slurm_user,
        "PidFile": f"{placement.run}/slurmdbd.pid",
        "LogFile": f"{placement.log}/slurmdbd.log",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": placement.storage_host,
        "StoragePort": str(placement.storage_port),
        "StorageUser": placement.storage_user,
        "StorageLoc": "slurm_acct_db",
    }
    if placement.storage_password is not None:
        settings["StoragePass"] = placement.storage_password
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def sacctmgr_commands(definition: ClusterDefinition) -> tuple[tuple[str, ...], ...]:
    """Return the arguments of each sacctmgr call, in order, that fill the accounting of a new cluster."""
    accounting = definition.accounting
    if accounting is None:
        return ()
    # Each call takes half a second: what is added alike is added at once.
    # slurmctld registers the cluster by itself, but maybe later than the accounts need it.
    calls: list[tuple[str, ...]] = [("add", "cluster", definition.name)]
    if accounting.qos:
        calls.append(("add", "qos", ",".join(qos.name for qos in accounting.qos)))
    for qos in accounting.qos:
        changes = [f"priority={qos.priority}"] if qos.priority else []
        if qos.preempts:
            changes.append(f"preempt={','.join(qos.preempts)}")
        if qos.preempt_mode is not None:
            changes.append(f"preemptmode={qos.preempt_mode}")
        if qos.grace_time_s is not None:
            changes.append(f"gracetime={qos.grace_time_s}")
        if changes:
            calls.append(("modify", "qos", qos.name, "set", *changes))
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for account in accounting.accounts:
        alike.setdefault((account.users, account.qos), []).append(account.name)
    if alike:
        names = ",".join(account.name for account in accounting.accounts)
        calls.append(("add", "account", names, f"cluster={definition.name}"))
    for (users, may_use), accounts in alike.items():
        if users:
            rights = (f"qos={','.join(may_use)}", f"defaultqos={may_use[0]}") if may_use else ()
            calls.append(("add", "user", ",".join(users), f"account={','.join(accounts)}", *rights))
    calls += [("modify", "user", user, "set", "adminlevel=Operator") for user in accounting.operators]
    return tuple(("--immediate", *call) for call in calls)


def _settings(definition: ClusterDefinition, placement: Placement, release: tuple[int, int]) -> dict[str, str]:
    """Return slurm.conf's settings apart from nodes and partitions."""
    address = f"({placement.controller_address})" if placement.controller_address else ""
    settings = {
        "ClusterName": definition.name,
        "SlurmctldHost": f"{placement.controller_host}{address}",
        "SlurmctldPort": str(placement.slurmctld_port),
        "SlurmUser": placement.slurm_user,
        "SlurmdUser": placement.slurm_user if placement.shared_host else "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={placement.munge_socket},cred_expire={definition.cred_expire_s}",
        "CredType": "cred/munge",
        "StateSaveLocation": placement.state,
        "SlurmdSpoolDir": f"{placement.spool}/%n",
        "SlurmctldPidFile": f"{placement.run}/slurmctld.pid",
        "SlurmdPidFile": f"{placement.run}/slurmd.%n.pid",
        "SlurmctldLogFile": f"{placement.log}/slurmctld.log",
        "SlurmdLogFile": f"{placement.log}/slurmd.%n.log",
        # No control groups, and no accounting of what a job's processes use: neither is there in a plain container.
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "MpiDefault": "none",
        # `true` takes mail and drops it; without a program here every daemon logs an error.
        "MailProg": "/bin/true",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "SchedulerType": "sched/backfill",
        "PriorityType": "priority/basic",
        "JobRequeue": "1",
        "RequeueExit": str(definition.requeue_exit),
        # A node that comes back is used again, whatever took it down.
        "ReturnToService": "2",
        "KillWait": str(definition.kill_wait_s),
        "MinJobAge": str(definition.min_job_age_s),
        "SlurmdTimeout": str(definition.slurmd_timeout_s),
        "MaxJobCount": "20000",
        "MaxArraySize": "20001",
        # Nodes may claim more CPUs and memory than the host has.
        "SlurmdParameters": "config_overrides",
    }
    kinds = sorted({gres.partition(":")[0] for group in definition.groups for gres in (*group.gres, *group.counted)})
    if kinds:
        settings["GresTypes"] = ",".join(kinds)
    if definition.racks:
        settings["TopologyPlugin"] = "topology/tree"
    if definition.def_mem_per_cpu_mib is not None:
        settings["DefMemPerCPU"] = str(definition.def_mem_per_cpu_mib)
    if placement.shared_host:
        settings["CommunicationParameters"] = "NoCtldInAddrAny,NoInAddrAny"  # the host's own address only
    scheduler = list(_SCHEDULER[definition.scheduling])
    if release >= _RELEASE_2605 and definition.scheduling == "fast":
        scheduler.append(f"requeue_delay={definition.requeue_delay_s}")
    scheduler += _add_preemption(settings, definition.preemption, release)
    if definition.preemption is not None and definition.preemption.kind == "tesched":
        _add_plugin(settings, definition.preemption, placement)
    if scheduler:
        settings["SchedulerParameters"] = ",".join(scheduler)
    if definition.accounting is not None:
        settings["AccountingStorageType"] = "accounting_storage/slurmdbd"
        # slurmdbd sends slurmctld each change at the address that its call came from. Where all daemons are on one
        # host, slurmctld listens at the host's own address alone.
        own = placement.controller_address if placement.shared_host else None
        settings["AccountingStorageHost"] = own or placement.slurmdbd_host
        settings["AccountingStoragePort"] = str(placement.slurmdbd_port)
        # With munge this is the socket's path; without it sacctmgr uses the system's munged.
        settings["AccountingStoragePass"] = placement.munge_socket
        if kinds:
            settings["AccountingStorageTRES"] = ",".join(f"gres/{kind}" for kind in kinds)
        if definition.accounting.enforce:
            settings["AccountingStorageEnforce"] = definition.accounting.enforce
    return settings


def _add_preemption(
    settings: dict[str, str], preemption: NativePreemption | None, release: tuple[int, int]
) -> list[str]:
    """Add Slurm's own preemption to `settings` and return what of it belongs in SchedulerParameters."""
    if preemption is None:
        return []
    settings["PreemptType"] = f"preempt/{preemption.kind}"
    settings["PreemptMode"] = preemption.mode
    if preemption.exempt_time_s is not None:
        settings["PreemptExemptTime"] = _slurm_time(preemption.exempt_time_s)
    options = []
    if preemption.youngest_first:
        options.append("youngest_first")
    if preemption.strict_order:
        options.append("strict_order")
    if preemption.reorder_count is not None:
        options.append(f"reorder_count={preemption.reorder_count}")
    if release >= _RELEASE_2605:
        if preemption.send_user_signal:
            options.append("send_user_signal")
        if options:
            settings["PreemptParameters"] = ",".join(options)
        return []
    if preemption.send_user_signal:
        # 22.05 ignores it without a word in SchedulerParameters.
        settings["SlurmctldParameters"] = "preempt_send_user_signal"
    return [f"preempt_{option}" for option in options]


def _add_plugin(settings: dict[str, str], preemption: NativePreemption, placement: Placement) -> None:
    """Add what preempt/tesched needs to `settings`; its own parameters are in SlurmctldParameters on every release."""
    if placement.plugin_folders:
        settings["PluginDir"] = ":".join(placement.plugin_folders)
    given = settings.get("SlurmctldParameters")
    own = (f"tesched_marks={marks_path(placement)}", *preemption.parameters)
    settings["SlurmctldParameters"] = ",".join([*([given] if given else []), *own])


def marks_path(placement: Placement) -> str:
    """Return the path of the marks file that preempt/tesched reads."""
    return f"{placement.run}/marks"


def _node_line(group: NodeGroup, placement: Placement, port: int) -> str:
    """Return the NodeName line of a group; its nodes take consecutive ports from `port` on if they share a host."""
    parts = [f"NodeName={group.hostlist}"]
    if placement.shared_host:
        parts.append(f"NodeHostname={placement.controller_host}")
        parts.append(f"NodeAddr={placement.controller_address}")
        parts.append(f"Port={fold_numbers(port, group.count)}")
    cores = group.cpus // (group.sockets * group.cpus_per_core)
    parts.append(f"CPUs={group.cpus} Boards=1 SocketsPerBoard={group.sockets}")
    parts.append(f"CoresPerSocket={cores} ThreadsPerCore={group.threads_per_core} RealMemory={group.mem_mib}")
    gres = ",".join(f"{name}:{count}" for name, count in {**group.gres, **group.counted}.items() if count)
    if gres:
        parts.append(f"Gres={gres}")
    if group.features:
        parts.append(f"Features={','.join(group.features)}")
    if group.set_aside:
        parts.append(f"CoreSpecCount={group.set_aside}")
    parts.append("State=UNKNOWN")
    return " ".join(parts)


def _partition_line(partition: PartitionDefinition) -> str:
    """Return the PartitionName line."""
    parts = [f"PartitionName={partition.name}", f"Nodes={partition.nodes}", f"MaxTime={partition.max_time}", "State=UP"]
    if partition.default:
        parts.append("Default=YES")
    if partition.priority_tier is not None:
        parts.append(f"PriorityTier={partition.priority_tier}")
    if partition.preempt_mode is not None:
        parts.append(f"PreemptMode={partition.preempt_mode}")
    if partition.grace_time_s is not None:
        parts.append(f"GraceTime={partition.grace_time_s}")
    parts += [f"{name}={value}" for name, value in partition.settings.items()]
    return " ".join(parts)


def _device_stem(gres: str) -> str:
    """Return what the device files of a gres begin with."""
    name = gres.partition(":")[0]
    return "nvidia" if name == "gpu" else name


def _slurm_time(seconds: int) -> str:
    """Return HH:MM:SS."""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
