"""Reads `scontrol -o show node`, `… partition`, `… reservation`, `… topology` and `scontrol show config`."""

from __future__ import annotations

import re

from tesched_core.cluster import Node, Partition, Reservation, SlurmSettings, Switch
from tesched_core.resources import Tres, with_bare_names

from tesched_slurm import words

_PAIR = re.compile(r"(?:^| )(\S+?)=(\S*)")
_REASON = re.compile(r" Reason=(.*?)(?: \[\S+@\S+\])?\s*$")
_SETTING = re.compile(r"^(\S+)\s+= (.*)$", re.MULTILINE)


def _records(answer: str, key: str) -> list[dict[str, str]]:
    lines = [line for line in answer.splitlines() if line.startswith(f"{key}=")]
    return [{**dict(_PAIR.findall(line.partition(" Reason=")[0])), "": line} for line in lines]


def node_states(value: str) -> tuple[str, frozenset[str]]:
    """Return the base state and the flags of a word such as `IDLE+DRAIN`, `DOWN*`."""
    base, *flags = value.rstrip("*~#!%$@^-").split("+")
    if "*" in value:
        flags.append("NOT_RESPONDING")
    return base, frozenset(flag.rstrip("*") for flag in flags)


def read_nodes(answer: str) -> tuple[Node, ...]:
    """Return the nodes. Raises KeyError or ValueError for an answer of another form."""
    nodes = []
    for pairs in _records(answer, "NodeName"):
        base, flags = node_states(pairs["State"])
        cpus = int(pairs.get("CPUEfctv") or pairs["CPUTot"])
        spec_mib = int(pairs.get("MemSpecLimit", "0"))
        reason = _REASON.search(pairs[""])
        nodes.append(
            Node(
                name=pairs["NodeName"],
                state=base,
                flags=flags,
                total=Tres(
                    cpus=cpus,
                    mem_mib=int(pairs["RealMemory"]) - spec_mib,
                    gres=with_bare_names(words.gres(pairs.get("Gres", ""))),
                ),
                features=words.names(pairs.get("ActiveFeatures", "")),
                partitions=words.names(pairs.get("Partitions", "")),
                reason=reason[1] if reason else "",
            )
        )
    return tuple(nodes)


def read_partitions(answer: str) -> tuple[Partition, ...]:
    """Return the partitions. Raises KeyError or ValueError for an answer of another form."""
    return tuple(
        Partition(
            name=pairs["PartitionName"],
            state=pairs["State"],
            nodes=frozenset(words.hosts(pairs["Nodes"])),
            priority_tier=int(pairs["PriorityTier"]),
            preempt_mode=pairs["PreemptMode"],
            grace_time_s=int(pairs["GraceTime"]),
            max_time_s=words.seconds(pairs["MaxTime"]),
            max_nodes=int(pairs["MaxNodes"]) if pairs["MaxNodes"].isdecimal() else None,
            default=pairs["Default"] == "YES",
            allow_accounts=words.names(pairs.get("AllowAccounts", "")),
            allow_qos=words.names(pairs.get("AllowQos", "")),
        )
        for pairs in _records(answer, "PartitionName")
    )


def read_reservations(answer: str) -> tuple[Reservation, ...]:
    """Return the reservations, present and future."""
    return tuple(
        Reservation(
            name=pairs["ReservationName"],
            start_time=words.moment(pairs["StartTime"]) or 0.0,
            end_time=words.moment(pairs["EndTime"]) or 0.0,
            nodes=frozenset(words.hosts(pairs["Nodes"])),
            users=words.names(pairs.get("Users", "")),
            accounts=words.names(pairs.get("Accounts", "")),
            flags=words.names(pairs.get("Flags", "")),
        )
        for pairs in _records(answer, "ReservationName")
    )


def has_topology(answer: str) -> bool:
    """Return whether `scontrol show config` names a plugin of which `scontrol show topology` has something to say."""
    found = dict(_SETTING.findall(answer)).get("TopologyPlugin", "")
    return found.strip().removeprefix("topology/") in {"tree", "block"}


def read_topology(answer: str) -> tuple[Switch, ...]:
    """Return the leaves of `scontrol show topology`: switches of level 0, or base blocks.

    Raises KeyError for an answer of another form.
    """
    found = []
    for line in answer.splitlines():
        pairs = dict(_PAIR.findall(line))
        if "BlockName" in pairs or pairs.get("Level") == "0":
            name = pairs["BlockName"] if "BlockName" in pairs else pairs["SwitchName"]
            found.append(Switch(name=name, nodes=words.hosts(pairs["Nodes"])))
    return tuple(found)


def read_settings(answer: str) -> SlurmSettings:
    """Return what tesched must know of slurm.conf. Raises KeyError or ValueError for an answer of another form."""
    values = {key: value.strip() for key, value in _SETTING.findall(answer)}

    def number(key: str) -> int:
        return int(values[key].split()[0])

    def codes(key: str) -> frozenset[int]:
        found: set[int] = set()
        for part in words.names(values.get(key, "(null)")):
            low, dash, high = part.partition("-")
            found |= set(range(int(low), int(high if dash else low) + 1))
        return frozenset(found)

    expire = re.search(r"cred_expire=(\d+)", values.get("AuthInfo", ""))
    delay = re.search(r"requeue_delay=(\d+)", values.get("SchedulerParameters", ""))
    select = values.get("SelectTypeParameters", "")
    return SlurmSettings(
        release=values["SLURM_VERSION"],
        cluster_name=values["ClusterName"],
        kill_wait_s=number("KillWait"),
        requeue_exit=codes("RequeueExit"),
        requeue_exit_hold=codes("RequeueExitHold"),
        requeue_delay_s=int(delay[1]) if delay else int(expire[1] if expire else 120) + 1,
        priority_type=values["PriorityType"],
        # 26.05 writes (null) where older releases have the plugin that does nothing.
        preempt_type=words.text(values["PreemptType"]) or "preempt/none",
        min_job_age_s=number("MinJobAge"),
        job_requeue=values["JobRequeue"] == "1",
        memory_is_shared_out="MEMORY" in select.upper() or not select,
    )
