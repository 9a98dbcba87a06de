"""Definition of a test cluster (nodes, partitions, timings) and the hosts of its daemons.

A `ClusterDefinition` is one cluster; a `Placement` says on which hosts, ports and paths it runs: all on this host, or
each node a container. `render.py` makes Slurm's configuration files of the two, `local.py` and `docker.py` start them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

#: a batch script that exits with this status asks to be put back in the queue (RequeueExit)
REQUEUE_EXIT = 99

#: Slurm's own timings: `fast` starts a job within about a second of sbatch, `stock` is what an untouched slurm.conf
#: has, `large_site` what a large site has that has published its settings
Scheduling = Literal["fast", "stock", "large_site"]

#: the least that Slurm accepts; a requeued job is eligible again this many seconds and one later
_LEAST_CRED_EXPIRE_S = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes of one kind, with consecutive numbers: prefix `n`, first 1 and count 8 are n1 to n8."""

    count: int
    prefix: str = "n"
    first: int = 1
    #: CPUs of each node, over all sockets and hardware threads
    cpus: int = 32
    sockets: int = 2
    threads_per_core: int = 1
    #: slurm.conf counts each core as one CPU, whatever its hardware threads (CPUs=8 CoresPerSocket=8 ThreadsPerCore=2)
    cores_are_cpus: bool = False
    mem_mib: int = 256_000
    #: devices of each node: {"gpu": 8} or, by type, {"gpu:a100": 4, "gpu:v100": 4}; with "shard": 16 each of eight
    #: GPUs may be shared by two jobs that ask for a shard instead of a GPU
    gres: Mapping[str, int] = field(default_factory=lambda: {"gpu": 8})
    #: GRES of each node that are mere counts, without devices, as slurm.conf writes them: {"tmp": "400G"}
    counted: Mapping[str, str] = field(default_factory=dict)
    features: tuple[str, ...] = ()
    #: cores of each node that are set aside for the system (CoreSpecCount)
    set_aside: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for a group that Slurm could not have."""
        if self.count < 1:
            raise ValueError(f"a node group needs at least one node, not {self.count}")
        if not re.fullmatch(r"[a-z][a-z0-9-]*", self.prefix) or self.prefix[-1].isdigit():
            raise ValueError(f"a node prefix is lower-case letters and does not end in a digit, unlike {self.prefix!r}")
        if self.cpus < 1 or self.cpus % (self.sockets * self.cpus_per_core):
            raise ValueError(f"{self.cpus} CPUs do not spread over {self.sockets} sockets evenly")

    @property
    def cpus_per_core(self) -> int:
        """Return Slurm's CPUs of a core."""
        return 1 if self.cores_are_cpus else self.threads_per_core

    @property
    def names(self) -> tuple[str, ...]:
        """Return the node names in order."""
        return tuple(f"{self.prefix}{number}" for number in range(self.first, self.first + self.count))

    @property
    def hostlist(self) -> str:
        """Return the names as Slurm folds them: `n[1-8]`."""
        return f"{self.prefix}{fold_numbers(self.first, self.count)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionDefinition:
    """One partition. `None` leaves the setting out of slurm.conf."""

    name: str
    #: a host list, or ALL
    nodes: str = "ALL"
    default: bool = False
    priority_tier: int | None = None
    #: OFF, REQUEUE, CANCEL, …: Slurm's own preemption of this partition's jobs
    preempt_mode: str | None = None
    #: seconds between a native preemption and the end of its victim
    grace_time_s: int | None = None
    #: as slurm.conf writes it: minutes, HH:MM:SS or INFINITE
    max_time: str = "INFINITE"
    #: any other setting of the partition, by slurm.conf's name of it
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativePreemption:
    """Slurm's own preemption, for comparisons with it."""

    #: `tesched` is the plugin of slurm_plugin/, built by `make plugin`; a local cluster's `marks` is its marks file
    kind: Literal["partition_prio", "qos", "tesched"] = "partition_prio"
    mode: str = "REQUEUE"
    #: further SlurmctldParameters, such as tesched_te_partition=debug
    parameters: tuple[str, ...] = ()
    youngest_first: bool = False
    strict_order: bool = False
    reorder_count: int | None = None
    #: give the victim the signal that it declared with --signal
    send_user_signal: bool = False
    #: least run time in seconds before a job may be preempted
    exempt_time_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Qos:
    """One QOS, as sacctmgr shall create it."""

    name: str
    priority: int = 0
    #: names of the QOS that this one may preempt jobs of
    preempts: tuple[str, ...] = ()
    preempt_mode: str | None = None
    grace_time_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One account with its users, and the QOS that they may use (the first is their default)."""

    name: str
    users: tuple[str, ...] = ("root",)
    qos: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounting:
    """A slurmdbd beside the cluster, with what its database holds at the start."""

    qos: tuple[Qos, ...] = ()
    accounts: tuple[Account, ...] = ()
    #: users of the accounts who may act on all users' jobs (AdminLevel=Operator)
    operators: tuple[str, ...] = ()
    #: AccountingStorageEnforce; empty leaves it out
    enforce: str = "associations,limits,qos"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDefinition:
    """Definition of a test cluster.

    The default is eight nodes of 32 CPUs, 250 GiB and 8 GPUs, all of them in both `main` (the default) and `debug`.
    """

    #: ClusterName
    name: str = "tesched"
    groups: tuple[NodeGroup, ...] = (NodeGroup(count=8),)
    partitions: tuple[PartitionDefinition, ...] = (
        PartitionDefinition(name="main", default=True),
        PartitionDefinition(name="debug"),
    )
    scheduling: Scheduling = "fast"
    #: seconds between SIGTERM and SIGKILL
    kill_wait_s: int = 2
    #: seconds that a credential lives; a requeued job is not eligible for this long (and one more); at least 5
    cred_expire_s: int = _LEAST_CRED_EXPIRE_S
    #: the same wait where the release can set it apart (26.05); older ones have `cred_expire_s` only
    requeue_delay_s: int = 1
    requeue_exit: int = REQUEUE_EXIT
    #: memory of a job that asks for none; without it (None) such a job takes all memory of its node
    def_mem_per_cpu_mib: int | None = 1000
    #: seconds for which slurmctld remembers a finished job
    min_job_age_s: int = 300
    #: seconds of silence after which a node is down
    slurmd_timeout_s: int = 300
    preemption: NativePreemption | None = None
    accounting: Accounting | None = None
    #: racks: the nodes of each leaf of the network's tree, as host lists by switch name; empty: no topology.conf
    racks: Mapping[str, str] = field(default_factory=dict)
    #: slurm.conf settings that add to ours or, with the same name, replace them
    settings: Mapping[str, str] = field(default_factory=dict)
    #: whole lines for the end of slurm.conf
    extra_lines: tuple[str, ...] = ()
    #: further files beside slurm.conf, by name: job_submit.lua and the like
    files: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise ValueError for a definition that no Slurm could start."""
        if not re.fullmatch(r"[a-z][a-z0-9_-]*", self.name):
            raise ValueError(f"a cluster name is lower-case letters, digits, - and _, unlike {self.name!r}")
        for name in self.files:
            if "/" in name or name in {"slurm.conf", "gres.conf", "cgroup.conf", "topology.conf"}:
                raise ValueError(f"no further file of a cluster can have the name {name!r}")
        if not self.groups:
            raise ValueError("a cluster needs at least one node group")
        for what, names in (("node", self.node_names), ("partition", tuple(p.name for p in self.partitions))):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{what} defined twice: {', '.join(twice)}")
        if self.cred_expire_s < _LEAST_CRED_EXPIRE_S:
            raise ValueError(
                f"Slurm refuses a cred_expire of {self.cred_expire_s} s; {_LEAST_CRED_EXPIRE_S} is the least"
            )

    @property
    def node_names(self) -> tuple[str, ...]:
        """Return all node names, group by group."""
        return tuple(name for group in self.groups for name in group.names)


def stock_definition(nodes: int, *, name: str = "stock") -> ClusterDefinition:
    """Return a cluster with the intervals of an untouched slurm.conf, and a slurmdbd that enforces limits.

    A requeued job waits two minutes until it is eligible; a job that ignores SIGTERM lives 30 s longer; Slurm's passes
    come when a job changes, and each minute. Its one account is `lab`, with root in it.
    """
    return ClusterDefinition(
        name=name,
        groups=(NodeGroup(count=nodes),),
        partitions=(PartitionDefinition(name="main", default=True),),
        scheduling="stock",
        kill_wait_s=30,
        cred_expire_s=120,
        min_job_age_s=300,
        accounting=Accounting(accounts=(Account(name="lab"),), enforce="associations,limits,qos"),
    )


def large_site_definition(nodes: int, *, name: str = "large") -> ClusterDefinition:
    """Return a cluster with the scheduler of a large site, and a slurmdbd that enforces limits; its account is `lab`.

    Nothing is scheduled at a submission (`defer`), the main scheduler rests for 5 s, backfill goes over a long queue
    for up to ten minutes (`bf_continue`), and slurmctld forgets a finished job after 50 s. Slurm's own preemption is
    on; with one partition it preempts nothing. The PriorityType and its weight are ours: the site's are not known.
    """
    return ClusterDefinition(
        name=name,
        groups=(NodeGroup(count=nodes),),
        partitions=(PartitionDefinition(name="main", default=True),),
        scheduling="large_site",
        kill_wait_s=30,
        cred_expire_s=120,
        min_job_age_s=50,
        preemption=NativePreemption(send_user_signal=True),
        accounting=Accounting(accounts=(Account(name="lab"),), enforce="associations,limits,qos"),
        settings={"PriorityType": "priority/multifactor", "PriorityWeightAge": "1000"},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Places of a cluster's daemons. Hosts, ports and paths are as the daemons see them.

    `local_placement` and `docker_placement` make the two usual ones.
    """

    #: SlurmctldHost: the short host name of the controller
    controller_host: str
    #: its address where the name does not resolve to the right one
    controller_address: str | None = None
    slurmctld_port: int = 6817
    #: host and port of slurmdbd, where the definition has accounting
    slurmdbd_host: str = "localhost"
    slurmdbd_port: int = 6819
    #: nodes take consecutive ports from here on if they share a host; otherwise all take this one
    slurmd_port: int = 6818
    #: all nodes run on the controller's host
    shared_host: bool = False
    slurm_user: str = "root"
    #: folder of slurm.conf, gres.conf and cgroup.conf
    etc: str
    #: folder of sockets and pid files
    run: str
    log: str
    #: slurmctld's StateSaveLocation
    state: str
    #: slurmd's folder; every node gets its own in it
    spool: str
    #: folder of the devices that stand for GPUs
    dev: str
    munge_socket: str
    #: folders of plugins, in which preempt/tesched is; empty: Slurm's own folder
    plugin_folders: tuple[str, ...] = ()
    #: where slurmdbd finds its database
    storage_host: str = "127.0.0.1"
    storage_port: int = 3306
    storage_user: str = "slurm"
    storage_password: str | None = None


def local_placement(
    *,
    folder: str,
    host: str,
    first_port: int,
    user: str,
    address: str = "127.0.0.1",
    plugin_folders: tuple[str, ...] = (),
) -> Placement:
    """Put a whole cluster on this host, below `folder`, on ports from `first_port` on (see `local_port_count`).

    `address` is what `host` resolves to: the daemons listen there, and nowhere else.
    """
    return Placement(
        controller_host=host,
        controller_address=address,
        slurmctld_port=first_port,
        slurmdbd_port=first_port + 1,
        storage_port=first_port + 2,
        slurmd_port=first_port + 3,
        shared_host=True,
        slurm_user=user,
        etc=f"{folder}/etc",
        run=f"{folder}/run",
        log=f"{folder}/log",
        state=f"{folder}/state",
        spool=f"{folder}/spool",
        dev=f"{folder}/dev",
        munge_socket=f"{folder}/run/munge.sock",
        plugin_folders=plugin_folders,
    )


def local_port_count(definition: ClusterDefinition) -> int:
    """Return how many consecutive ports a local cluster takes: slurmctld, slurmdbd, its database, and each node's."""
    return 3 + len(definition.node_names)


def docker_placement(
    *,
    controller_host: str = "slurmctld",
    slurmdbd_host: str = "slurmdbd",
    storage_host: str = "mariadb",
    storage_password: str | None = None,
) -> Placement:
    """Put slurmctld in the container `controller_host` and each node in a container of its own name."""
    return Placement(
        controller_host=controller_host,
        slurmdbd_host=slurmdbd_host,
        storage_host=storage_host,
        storage_password=storage_password,
        etc="/etc/slurm",
        run="/run/slurm",
        log="/var/log/slurm",
        state="/var/spool/slurmctld",
        spool="/var/spool/slurmd",
        dev="/run/slurm/dev",
        munge_socket="/run/munge/munge.socket.2",
    )


def parse_release(version: str) -> tuple[int, int]:
    """Return (22, 5) for what `slurmctld -V` prints, such as `slurm-wlm 22.05.8`. ValueError if it says no release."""
    found = re.search(r"\b(\d+)\.(\d+)(?:\.\d+)?", version)
    if found is None:
        raise ValueError(f"no Slurm release in {version!r}")
    return int(found[1]), int(found[2])


def fold_numbers(first: int, count: int) -> str:
    """Return `[1-8]`, or `1` for a single one."""
    return str(first) if count == 1 else f"[{first}-{first + count - 1}]"
