"""Reads `scontrol -d -o show node`, `… partition`, `… reservation`, `… topology` and `scontrol show config`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from math import inf

from tesched_core.model.access import PartitionAccess
from tesched_core.model.cluster import Node, Partition, PluginSettings, Reservation, SlurmSettings, Switch
from tesched_core.model.resources import Tres, with_bare_names

from tesched_slurm import slurm_formats as words
from tesched_slurm.cluster_bounds import (
    MOST,
    MOST_NAME,
    MOST_OF_EACH,
    UNREADABLE,
    each_once,
    node_within_bounds,
    partition_within_bounds,
    setting,
)
from tesched_slurm.rate_limits import limit_of

_PAIR = re.compile(r"(?:^| )(\S+?)=(\S*)")
#: what changes of a node that does nothing, and is not read
_LOAD = re.compile(r" (?:CPULoad|FreeMem|LastBusyTime|CurrentWatts|AveWatts)=\S*")
_SETTING = re.compile(r"^(\S+)\s+= (.*)$", re.MULTILINE)


#: base states of a node that may run jobs; and words for a time that slurmctld does not know
RUNS_JOBS = frozenset({"IDLE", "MIXED", "ALLOCATED"})
_NO_TIME = frozenset({"None", "Unknown"})
#: what one character behind a node's state means; source: sinfo(1), NODE STATE CODES
_SUFFIXES = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}


def _lines(answer: str, key: str) -> list[str]:
    return [line for line in answer.split("\n") if line.startswith(f"{key}=")]


def _pairs(line: str) -> dict[str, str]:
    """Return a record by Slurm's words: the first of each counts, since an Operator's texts come behind."""
    pairs = {"": line}
    for name, value in _PAIR.findall(line.partition(" Reason=")[0]):
        pairs.setdefault(name, value)
    return pairs


def _records(answer: str, key: str) -> list[dict[str, str]]:
    return [_pairs(line) for line in _lines(answer, key)]


def node_states(value: str) -> tuple[str, frozenset[str]]:
    """Return the base state and the flags of a word such as `IDLE+DRAIN`, `DOWN*`."""
    base, *flags = value.rstrip("".join(_SUFFIXES)).split("+")
    flags += [flag for suffix, flag in _SUFFIXES.items() if suffix in value]
    return base, frozenset(flag.rstrip("*") for flag in flags)


class KnownNodes(dict[tuple[int, str, str], Node]):
    """Nodes of the last answer, by how many there were and their records without what passes."""


def read_nodes(answer: str, known: KnownNodes | None = None) -> tuple[Node, ...]:
    """Return the nodes; what is `known` is not read again, and is this answer's then.

    Raises KeyError or ValueError for an answer of another form.
    """
    lines, now = _lines(answer, "NodeName"), KnownNodes()
    known = KnownNodes() if known is None else known

    def node(line: str) -> Node:
        head, reason, rest = line.partition(" Reason=")
        key = len(lines), _LOAD.sub("", head), reason + rest
        found = known.get(key)
        now[key] = found if found is not None else _node(_pairs(line), len(lines))
        return now[key]

    found = each_once(Node, ((_node_name(line), partial(node, line)) for line in lines))
    known.clear()
    known.update(now)
    return found


def _node_name(line: str) -> str:
    return line.partition("=")[2].partition(" ")[0]


def ids_of_a_cpu(cpus: int, cores: int, threads: int) -> int:
    """Return the hardware threads of each of a node's CPUs: those of a core where each core is one CPU, else one."""
    return threads if 0 < cpus <= cores and threads > 1 else 1


def _node(pairs: Mapping[str, str], nodes: int) -> Node:
    base, flags = node_states(pairs["State"])
    # RealMemory is 1 where slurm.conf does not say, whatever MemSpecLimit is.
    mem_mib = max(int(pairs["RealMemory"]) - int(pairs.get("MemSpecLimit", "0")), 0)
    sockets, cores = int(pairs.get("Sockets", "0")), int(pairs.get("CoresPerSocket", "0"))
    threads = int(pairs.get("ThreadsPerCore", "0"))
    node = Node(
        name=pairs["NodeName"],
        state=base,
        flags=flags,
        total=Tres(
            cpus=int(pairs.get("CPUEfctv") or pairs["CPUTot"]),
            mem_mib=mem_mib,
            gres=with_bare_names(words.gres(pairs.get("Gres", ""))),
        ),
        held=_held(pairs),
        sockets=sockets,
        cores_per_socket=cores,
        threads_per_core=threads,
        ids_of_a_cpu=ids_of_a_cpu(int(pairs["CPUTot"]), sockets * cores, threads),
        tmp_mib=int(pairs.get("TmpDisk", "0")),
        features=words.names(pairs.get("ActiveFeatures", "")),
        partitions=words.names(pairs.get("Partitions", "")),
        reason=_reason(pairs[""]),
        unreported=base in RUNS_JOBS and pairs.get("SlurmdStartTime") in _NO_TIME,
    )
    return node_within_bounds(node, nodes)


def _held(pairs: Mapping[str, str]) -> Tres | None:
    if "CPUAlloc" not in pairs or "AllocMem" not in pairs:
        return None
    gres = with_bare_names(words.gres(pairs.get("GresUsed", "")))
    return Tres(cpus=int(pairs["CPUAlloc"]), mem_mib=int(pairs["AllocMem"]), gres=gres)


def read_partitions(answer: str) -> tuple[Partition, ...]:
    """Return the partitions. Raises KeyError or ValueError for an answer of another form."""
    found = _records(answer, "PartitionName")
    return each_once(Partition, ((pairs["PartitionName"], partial(_partition, pairs)) for pairs in found))


def _partition(pairs: Mapping[str, str]) -> Partition:
    return partition_within_bounds(
        Partition(
            name=pairs["PartitionName"],
            state=pairs["State"],
            nodes=frozenset(words.hosts(pairs["Nodes"])),
            priority_tier=int(pairs["PriorityTier"]),
            preempt_mode=pairs["PreemptMode"],
            grace_time_s=int(pairs["GraceTime"]),
            max_time_s=words.seconds(pairs["MaxTime"]),
            default_time_s=words.seconds(pairs.get("DefaultTime", "")),
            min_nodes=_number(pairs.get("MinNodes", "")) or 0,
            max_nodes=_number(pairs["MaxNodes"]),
            max_cpus_per_node=_number(pairs.get("MaxCPUsPerNode", "")),
            max_cpus_per_socket=_number(pairs.get("MaxCPUsPerSocket", "")),
            max_mem_per_node_mib=_number(pairs.get("MaxMemPerNode", "")),
            max_mem_per_cpu_mib=_number(pairs.get("MaxMemPerCPU", "")),
            oversubscribe="EXCLUSIVE" if pairs.get("Exclusive") == "NODE" else pairs.get("OverSubscribe", "NO"),
            # 26.05 has one word for both: Exclusive=NO, NODE, USER or TOPO.
            exclusive_user="YES" in pairs.get("ExclusiveUser", "") or pairs.get("Exclusive") == "USER",
            def_cpus_per_gpu=job_default(pairs.get("JobDefaults", ""), "DefCpuPerGPU"),
            def_mem_per_gpu_mib=job_default(pairs.get("JobDefaults", ""), "DefMemPerGPU"),
            def_mem_per_cpu_mib=_number(pairs.get("DefMemPerCPU", "")) or 0,
            def_mem_per_node_mib=_number(pairs.get("DefMemPerNode", "")) or 0,
            default=pairs["Default"] == "YES",
            allow_accounts=words.names(pairs.get("AllowAccounts", "")),
            allow_qos=words.names(pairs.get("AllowQos", "")),
            access=PartitionAccess(
                deny_accounts=words.names(pairs.get("DenyAccounts", "")),
                deny_qos=words.names(pairs.get("DenyQos", "")),
                allow_groups=words.names(pairs.get("AllowGroups", "")),
                root_only=pairs.get("RootOnly") == "YES",
                needs_reservation=pairs.get("ReqResv") == "YES",
                qos=words.text(pairs.get("QoS", "")),
            ),
        )
    )


def _reason(line: str) -> str:
    """Reason of a node's state, without who said so and when: ` [root@2026-11-25T13:00:00]`."""
    said = line.partition(" Reason=")[2].rstrip()
    text, _, by = said.rpartition(" [")
    return text if "@" in by and by.endswith("]") else said


def read_reservations(answer: str) -> tuple[Reservation, ...]:
    """Return the reservations, present and future; one that is unreadable, or has two records, is in doubt.

    It has no end then, and all nodes that its records name; where these can't be read, any may be its.
    """
    found: dict[str, Reservation] = {}
    for pairs in _records(answer, "ReservationName"):
        name = pairs["ReservationName"][:MOST_NAME]
        try:
            one = _reservation(name, pairs)
        except UNREADABLE as error:
            why = f"its record could not be read ({type(error).__name__}: {str(error)[:200]})"
            one = _in_doubt(name, why, _nodes_named(pairs))
        before = found.get(name)
        if before is not None:
            every = None if one.any_node or before.any_node else one.nodes | before.nodes
            one = _in_doubt(name, "it has two records", every)
        found[name] = one
    return tuple(found.values())


def _reservation(name: str, pairs: Mapping[str, str]) -> Reservation:
    end_time = words.moment(pairs["EndTime"])
    if end_time is None:
        raise ValueError(f"its end is no time: {pairs['EndTime'][:40]!r}")
    return Reservation(
        name=name,
        start_time=words.moment(pairs["StartTime"]) or 0.0,
        end_time=end_time,
        nodes=frozenset(words.hosts(pairs["Nodes"])),
        users=words.names(pairs.get("Users", "")),
        accounts=words.names(pairs.get("Accounts", "")),
        flags=words.names(pairs.get("Flags", "")),
        cores="CoreIDs" in pairs,
    )


def _nodes_named(pairs: Mapping[str, str]) -> frozenset[str] | None:
    """Return the nodes that a reservation's record names; None where that can't be read."""
    try:
        return frozenset(words.hosts(pairs["Nodes"]))
    except UNREADABLE:
        return None


def _in_doubt(name: str, why: str, nodes: frozenset[str] | None) -> Reservation:
    known = nodes if nodes is not None else frozenset[str]()
    return Reservation(name=name, start_time=0.0, end_time=inf, nodes=known, any_node=nodes is None, doubt=why)


def _number(value: str) -> int | None:
    return int(value) if value.isdecimal() else None


def job_default(value: str, name: str) -> int:
    """Value that `JobDefaults=DefCpuPerGPU=2,DefMemPerGPU=500` has for this name; 0 for nothing.

    Raises ValueError for what is out of bounds.
    """
    found = re.search(rf"(?:^|,){name}=(\d+)", value)
    return setting(f"{name} of JobDefaults", found[1], MOST_OF_EACH) if found else 0


def has_topology(answer: str) -> bool:
    """Check whether `scontrol show config` names a plugin of which `scontrol show topology` shows anything."""
    found = dict(_SETTING.findall(answer)).get("TopologyPlugin", "")
    return found.strip().removeprefix("topology/") in {"tree", "block"}


def read_topology(answer: str) -> tuple[Switch, ...]:
    """Return the leaves of `scontrol show topology`: switches of level 0, or base blocks.

    Raises KeyError for an answer of another form.
    """
    found = []
    for line in answer.split("\n"):
        pairs = dict(_PAIR.findall(line))
        if "BlockName" in pairs or pairs.get("Level") == "0":
            name = pairs["BlockName"] if "BlockName" in pairs else pairs["SwitchName"]
            found.append(Switch(name=name, nodes=words.hosts(pairs["Nodes"])))
    return tuple(found)


#: the largest exit status of a job, and the largest number that may stand for one: Slurm passes over those between
_MOST_EXIT, _MOST_CODE = 255, 65_535
#: Words of AccountingStorageEnforce with which no limit keeps a job from starting (slurm.conf(5)).
_ENFORCES_NO_LIMITS = frozenset({"none", "(null)", "associations", "wckeys", "nosteps", "nojobs"})


def read_settings(answer: str) -> SlurmSettings:
    """Read what this process must know of slurm.conf. Raises KeyError or ValueError for an answer of another form."""
    values = {key: value.strip() for key, value in _SETTING.findall(answer)}

    def number(key: str) -> int:
        # "30 sec"
        return setting(key, values[key].partition(" ")[0])

    def memory(key: str, most: int) -> int:
        # UNLIMITED stands for none.
        return setting(key, values[key], most) if values.get(key, "")[:1].isdecimal() else 0

    def codes(key: str) -> frozenset[int]:
        found: set[int] = set()
        for part in words.names(values.get(key, "(null)")):
            low, dash, high = part.partition("-")
            first, last = setting(key, low, _MOST_CODE), setting(key, high if dash else low, _MOST_CODE)
            found |= set(range(first, min(last, _MOST_EXIT) + 1))
        return frozenset(found)

    enforced = frozenset(values.get("AccountingStorageEnforce", "limits").lower().split(","))
    expire = re.search(r"cred_expire=(\d+)", values.get("AuthInfo", ""))
    delay = re.search(r"requeue_delay=(\d+)", values.get("SchedulerParameters", ""))
    select = values.get("SelectTypeParameters", "")
    return SlurmSettings(
        release=values["SLURM_VERSION"],
        cluster_name=values["ClusterName"],
        kill_wait_s=number("KillWait"),
        nodes_report=not re.match(r"0\b", values.get("SlurmdTimeout", "")),
        requeue_exit=codes("RequeueExit"),
        requeue_exit_hold=codes("RequeueExitHold"),
        holds_expedited="enable_expedited_requeue" in values.get("SlurmctldParameters", "").lower().split(","),
        requeue_delay_s=(
            setting("requeue_delay of SchedulerParameters", delay[1])
            if delay
            else setting("cred_expire of AuthInfo", expire[1] if expire else "120") + 1
        ),
        conf=values.get("SLURM_CONF", ""),
        controllers=tuple(value.partition("(")[0] for key, value in values.items() if key.startswith("SlurmctldHost")),
        state_folder=values.get("StateSaveLocation", ""),
        job_submit=frozenset(
            name.strip().removeprefix("job_submit/") for name in words.names(values.get("JobSubmitPlugins", "(null)"))
        ),
        priority_type=values["PriorityType"],
        # 26.05 writes (null) where older releases have the plugin that does nothing.
        preempt_type=words.text(values["PreemptType"]) or "preempt/none",
        plugin=_plugin(values),
        limits_enforced=not _ENFORCES_NO_LIMITS.issuperset(enforced),
        enforced=enforced,
        has_burst_buffers=bool(words.text(values.get("BurstBufferType", ""))),
        private=frozenset(values.get("PrivateData", "none").lower().split(",")) - {"none"},
        gres_types=words.names(values.get("GresTypes", "(null)")),
        has_slurmdbd=values.get("AccountingStorageType") == "accounting_storage/slurmdbd"
        and "nojobs" not in values.get("AccountingStorageEnforce", "").split(","),
        min_job_age_s=number("MinJobAge"),
        job_requeue=values["JobRequeue"] == "1",
        memory_is_shared_out="MEMORY" in select.upper() or not select,
        select_type=values.get("SelectType", ""),
        whole_sockets="CR_SOCKET" in select.upper(),
        single_cpus="CR_CPU" in select.upper(),
        def_cpus_per_gpu=job_default(values.get("JobDefaults", ""), "DefCpuPerGPU"),
        def_mem_per_gpu_mib=job_default(values.get("JobDefaults", ""), "DefMemPerGPU"),
        def_mem_per_cpu_mib=memory("DefMemPerCPU", MOST_OF_EACH),
        def_mem_per_node_mib=memory("DefMemPerNode", MOST),
        rate_limit=limit_of(values, os.geteuid()),
    )


def _plugin(values: Mapping[str, str]) -> PluginSettings | None:
    """Settings of the plugin preempt/tesched in slurm.conf, as the plugin reads them; None where it is not there."""
    if values["PreemptType"] != "preempt/tesched":
        return None
    said: dict[str, str] = {}
    for word in values.get("SlurmctldParameters", "").split(","):
        key, _, value = word.partition("=")
        said.setdefault(key.lower(), value)
    # "slurm(64030)"
    slurm_user = values.get("SlurmUser", "").partition("(")[0]
    order = f"{values.get('SchedulerParameters', '')},{values.get('PreemptParameters', '')}"
    return PluginSettings(
        marks=said.get("tesched_marks") or "/run/tesched/marks",
        owners=frozenset({"root", slurm_user, said.get("tesched_marks_user", "")} - {""}),
        mode=values.get("PreemptMode", ""),
        te_qos=frozenset(said.get("tesched_te_qos", "").split(":")) - {""},
        te_partitions=frozenset(said.get("tesched_te_partition", "").split(":")) - {""},
        youngest_first="youngest_first" in order,
        folders=tuple(folder for folder in values.get("PluginDir", "").split(":") if folder),
    )
