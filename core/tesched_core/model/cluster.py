"""State of the cluster at one instant: jobs, nodes, partitions, reservations. Every client gives the same values.

Times are Unix seconds (UTC), durations end in `_s`, memory in `_mib`. `None` stands for "Slurm does not say"; a limit
that Slurm calls UNLIMITED is `None` too.

Over 400 lines: all that one poll sees, as data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from tesched_core.model.access import OPEN, PartitionAccess
from tesched_core.model.rate_limit import RateLimit
from tesched_core.model.resources import JobId, Tres, UnixSeconds

#: What Slurm says of a job that an operator holds, as tesched does, and of one that its own user holds.
HELD_BY_US = "JobHeldAdmin"
HELD_BY_ITS_USER = "JobHeldUser"
#: Reason words of any hold, also job_requeued_in_held_state, launch_failed_requeued_held and JobHoldMaxRequeue.
OF_A_HOLD = re.compile("JobHeld|JobHold|_held")


class JobState(StrEnum):
    """A job's base state. Slurm's flags on top of it (COMPLETING, …) are `Job.flags`."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    #: a state word that this release of tesched does not know; the job is left alone
    UNKNOWN = "UNKNOWN"


#: States that a job never leaves by itself.
FINISHED = frozenset(
    {
        JobState.COMPLETED,
        JobState.CANCELLED,
        JobState.FAILED,
        JobState.TIMEOUT,
        JobState.NODE_FAIL,
        JobState.PREEMPTED,
        JobState.BOOT_FAIL,
        JobState.DEADLINE,
        JobState.OUT_OF_MEMORY,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Request of a job, in Slurm's own terms; `request.demand_per_node` makes one node's share of it."""

    #: fewest and most nodes that the job takes (sbatch --nodes=MIN-MAX)
    min_nodes: int = 1
    max_nodes: int = 1
    #: over how many nodes Slurm reckons to spread a waiting job with devices in all, of one task and one node by its
    #: record; 0: it does not say. On its preferred nodes: others may do with fewer
    reckoned_nodes: int = 0
    #: CPUs and tasks over all nodes, as Slurm computed them
    cpus: int = 1
    tasks: int = 1
    #: fewest CPUs on each node (tasks on the node times CPUs a task, --mincpus)
    min_cpus_per_node: int = 1
    cpus_per_task: int = 1
    #: exactly one of these two is set where the job requested memory; 0 a node is "all of it"
    mem_per_node_mib: int | None = None
    mem_per_cpu_mib: int | None = None
    #: what Slurm counts over all nodes for a pending job of which the two above say nothing or "all of it"
    mem_counted_mib: int | None = None
    #: (name, count) as requested, each device once: `gpu`, `gpu:a100`; by node, job, task and socket
    gres_per_node: tuple[tuple[str, int], ...] = ()
    gres_per_job: tuple[tuple[str, int], ...] = ()
    gres_per_task: tuple[tuple[str, int], ...] = ()
    gres_per_socket: tuple[tuple[str, int], ...] = ()
    #: CPUs, and MiB of memory, for each device of a GRES (--cpus-per-gpu, --mem-per-gpu, or the site's defaults)
    cpus_per_gres: tuple[tuple[str, int], ...] = ()
    mem_per_gres: tuple[tuple[str, int], ...] = ()
    #: how many tasks on one node, socket and core; 0: not said
    tasks_per_node: int = 0
    tasks_per_socket: int = 0
    tasks_per_core: int = 0
    #: shape of the nodes (--sockets-per-node, --cores-per-socket, --threads-per-core); 0: not said
    sockets_per_node: int = 0
    cores_per_socket: int = 0
    threads_per_core: int = 0
    #: MiB of local disk that each node must have (--tmp)
    tmp_mib: int = 0
    #: neighbouring nodes only (--contiguous)
    contiguous: bool = False
    #: at most so many leaf switches (--switches); 0: not said
    switches: int = 0
    #: cores, or threads, kept free for the system on each node (--core-spec, --thread-spec), as Slurm writes it
    core_spec: str = ""
    #: whole nodes only (--exclusive)
    exclusive: bool = False
    #: Slurm's word for how it shares its cores and nodes: NO, YES, OK, USER, MCS, TOPO; empty where it does not say
    sharing: str = ""
    #: what the job asks for and tesched does not model, each as "--option=value"; such a TE job is refused
    not_modelled: tuple[str, ...] = ()
    #: node feature expression (--constraint), empty without one
    features: str = ""
    #: nodes that must be part of the allocation, and those that must not, unfolded and in Slurm's order
    required_nodes: tuple[str, ...] = ()
    excluded_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShare:
    """Resources that a job holds on one node."""

    node: str
    tres: Tres
    #: which of the node's CPUs, as Slurm writes them ("0-7,16"); empty where it does not say
    cpu_ids: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job that slurmctld knows: pending, on nodes, or finished less than MinJobAge ago."""

    job_id: JobId
    #: the array's id, and this task's index; a pending array is one record with `array_tasks` ("0-9%2") and no index
    array_job_id: JobId | None = None
    array_task_id: int | None = None
    array_tasks: str = ""
    #: most of the array's tasks that may run at once (ArrayTaskThrottle), the same on all its records; 0: no limit
    array_throttle: int = 0
    #: the heterogeneous job's id (its first component's) and this component's offset
    het_job_id: JobId | None = None
    het_offset: int | None = None
    name: str = ""
    user: str = ""
    account: str = ""
    #: where it may run (pending) or runs; several only while pending
    partitions: tuple[str, ...] = ()
    #: several while pending, with commas between them (24.11 and later: sbatch --qos=te,normal)
    qos: str = ""
    state: JobState
    #: Slurm's flags on the state, such as COMPLETING, CONFIGURING, STOPPED, REQUEUED, REQUEUE_HOLD, SPECIAL_EXIT
    flags: frozenset[str] = frozenset()
    #: Slurm's reason word, such as Resources, Priority, Dependency, JobHeldUser, BeginTime; empty for none
    reason: str = ""
    #: 0 is held
    priority: int = 0
    nice: int = 0
    #: submitted by sbatch; else salloc or srun, which cannot be requeued
    batch: bool = True
    requeueable: bool = True
    #: it is of its user's crontab (scrontab): Slurm puts it back in the queue for its next date, and refuses to change
    #: it; None: that is not known
    of_crontab: bool | None = False
    #: other clusters of a federation may run it, too: Slurm sends each change of it to all of them, or to the one that
    #: it was submitted to; or it is of an array in a federation, which they may run once it is requeued
    federated: bool = False
    #: how often it was requeued
    restarts: int = 0
    #: reset by each requeue; the store keeps the first
    submit_time: UnixSeconds = 0
    eligible_time: UnixSeconds | None = None
    #: start of the present run (or the last); None for a job that never ran. Not Slurm's estimate for a pending one.
    start_time: UnixSeconds | None = None
    #: end of a finished job; None otherwise
    end_time: UnixSeconds | None = None
    time_limit_s: int | None = None
    #: by when it must have ended (--deadline); None: no such time
    deadline: UnixSeconds | None = None
    request: Request = Request()
    #: what it holds, by node, in Slurm's node order; empty unless on nodes (running, suspended, completing)
    allocation: tuple[NodeShare, ...] = ()
    #: where a finished job ran last, in Slurm's node order; empty of any other, and of one that ended in the queue
    ran_on: tuple[str, ...] = ()
    reservation: str = ""
    dependency: str = ""
    licenses: str = ""
    comment: str = ""
    admin_comment: str = ""
    #: exit status of the batch script and the signal that ended it, for a finished or completing job (0, 0 otherwise)
    exit_status: int = 0
    exit_signal: int = 0
    #: why what stands here may be wrong, in words: its record, or part of it, could not be read, and this is what was
    #: last known. Such a job is no victim, and nothing is done for it. Empty as a rule
    doubt: str = ""
    #: why it is not known what it asks for, or holds on each node, in words; all else is as Slurm says. It is no victim
    #: then, and no resources are freed for it. Empty as a rule; of a job that has just changed it may be for one poll
    partly_read: str = ""

    @property
    def left_to_slurm(self) -> bool:
        """Check whether it is known to be none that tesched changes: of a crontab, or federated."""
        return bool(self.of_crontab) or self.federated

    @property
    def nodes(self) -> tuple[str, ...]:
        """Return the names of the nodes that it holds."""
        return tuple(share.node for share in self.allocation)

    @property
    def last_nodes(self) -> tuple[str, ...]:
        """Return the names of the nodes that it holds, or of those on which it ended."""
        return self.nodes or self.ran_on

    @property
    def each_qos(self) -> tuple[str, ...]:
        """Return the QOS in one of which it is to start, or runs; one that is empty where it has none."""
        return tuple(self.qos.split(","))

    @property
    def on_nodes(self) -> bool:
        """Check whether it holds any nodes: running, suspended or completing."""
        return bool(self.allocation)

    @property
    def completing(self) -> bool:
        """Check whether its processes are being ended."""
        return "COMPLETING" in self.flags

    @property
    def pending(self) -> bool:
        """Check whether it waits in the queue, its nodes given back."""
        return self.state is JobState.PENDING and not self.completing

    @property
    def finished(self) -> bool:
        """Check whether it has ended for good (still completing counts)."""
        return self.state in FINISHED

    @property
    def held(self) -> bool:
        """Check whether it waits for a release."""
        return self.pending and self.priority == 0

    @property
    def label(self) -> str:
        """Return the id as squeue writes it: `123`, `120_4`, `120_[0-9%2]`, `130+1`."""
        if self.array_job_id is not None and self.array_task_id is not None:
            return f"{self.array_job_id}_{self.array_task_id}"
        if self.array_job_id is not None and self.array_tasks:
            return f"{self.array_job_id}_[{self.array_tasks}]"
        if self.het_job_id is not None and self.het_offset is not None:
            return f"{self.het_job_id}+{self.het_offset}"
        return str(self.job_id)


#: Flags with which Slurm starts jobs on a node. Any other one, also one that tesched does not know, keeps jobs off it;
#: of a maintenance or another reservation's nodes the reservation says more.
_HARMLESS = frozenset({"COMPLETING", "PLANNED", "RESERVED", "MAINTENANCE", "CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE"})
#: Flags of a node that reports soon to a new slurmctld: none that is off, on its way, or silent for longer.
_PRESENT = _HARMLESS | {"DRAIN"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One compute node."""

    name: str
    #: base state word: IDLE, MIXED, ALLOCATED, DOWN, FUTURE, UNKNOWN, … It says nothing of GPUs.
    state: str
    #: flags on it: DRAIN, COMPLETING, NOT_RESPONDING, MAINTENANCE, RESERVED, PLANNED, POWERED_DOWN, …
    flags: frozenset[str] = frozenset()
    #: what jobs may use: CPUs and memory less what is set aside for the system
    total: Tres = Tres()
    #: what its own record says is allocated there, whatever jobs say; None where it does not say
    held: Tres | None = None
    #: its shape; 0 where Slurm does not say
    sockets: int = 0
    cores_per_socket: int = 0
    threads_per_core: int = 0
    #: numbers in CPU_IDs of each CPU: the threads of a core where slurm.conf counts each core as one CPU
    ids_of_a_cpu: int = 1
    #: MiB of local disk (TmpDisk)
    tmp_mib: int = 0
    #: features now active
    features: frozenset[str] = frozenset()
    partitions: frozenset[str] = frozenset()
    #: why it is down or drained
    reason: str = ""
    #: why its record could not be read, in words: then it has nothing, and starts no job; empty if it was read
    doubt: str = ""
    #: its record has no start of its slurmd: a backup slurmctld shows the states that it found, and not UNKNOWN, until
    #: it has had a node's report (22.05.8)
    unreported: bool = False

    @property
    def cpus_per_core(self) -> int:
        """Return the CPUs that each core is: its threads, or one."""
        return max(self.threads_per_core // self.ids_of_a_cpu, 1)

    @property
    def available(self) -> bool:
        """Check whether Slurm would start a job on it if it fitted, and what it shows of its jobs is of now."""
        return self.state in {"IDLE", "MIXED", "ALLOCATED"} and self.flags <= _HARMLESS and not self.unreported

    @property
    def has_not_reported(self) -> bool:
        """Check whether it has not reported to this slurmctld yet, though it is not known to be away.

        What Slurm shows of its jobs is then of the state with which slurmctld was started, or took over.
        """
        return not self.doubt and (self.state == "UNKNOWN" or (self.unreported and self.flags <= _PRESENT))

    @property
    def if_it_responds(self) -> Node:
        """Return it as it is but for the pings that it has missed."""
        return replace(self, flags=self.flags - {"NOT_RESPONDING"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """One partition."""

    name: str
    #: UP, DOWN, DRAIN or INACTIVE; only UP starts jobs
    state: str = "UP"
    nodes: frozenset[str] = frozenset()
    priority_tier: int = 1
    #: Slurm's own preemption of this partition's jobs, in upper case (OFF, REQUEUE, …); empty if unset
    preempt_mode: str = ""
    grace_time_s: int = 0
    max_time_s: int | None = None
    #: time limit of a job that names none; None: max_time_s
    default_time_s: int | None = None
    min_nodes: int = 0
    max_nodes: int | None = None
    max_cpus_per_node: int | None = None
    max_cpus_per_socket: int | None = None
    #: most memory of one job on a node, or for each of its CPUs there, MiB
    max_mem_per_node_mib: int | None = None
    max_mem_per_cpu_mib: int | None = None
    #: OverSubscribe, in Slurm's words: NO, YES:4, FORCE:2, EXCLUSIVE
    oversubscribe: str = "NO"
    #: nodes are given to one user at a time (ExclusiveUser)
    exclusive_user: bool = False
    #: CPUs and MiB that each GPU brings along where the job does not say (DefCpuPerGPU, DefMemPerGPU); 0: the site's
    def_cpus_per_gpu: int = 0
    def_mem_per_gpu_mib: int = 0
    #: memory of a job that names none, for each CPU or on each node (DefMemPerCPU, DefMemPerNode), MiB; 0: the site's
    def_mem_per_cpu_mib: int = 0
    def_mem_per_node_mib: int = 0
    default: bool = False
    #: empty means every user
    allow_accounts: frozenset[str] = frozenset()
    allow_qos: frozenset[str] = frozenset()
    access: PartitionAccess = OPEN
    #: why its record could not be read, in words: then it starts no job; empty if it was read
    doubt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """One reservation, present or future."""

    name: str
    start_time: UnixSeconds
    end_time: UnixSeconds
    nodes: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    #: it holds some cores of its nodes, not all
    cores: bool = False
    #: its list of nodes could not be read: any node may be its
    any_node: bool = False
    #: why its record could not be read, in words: then it has no end, and starts no TE job; empty if it was read
    doubt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A leaf of the network's tree, or a block: the nodes of a rack, as a rule."""

    name: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSettings:
    """slurm.conf's settings of the plugin preempt/tesched (slurm_plugin/README.md)."""

    #: the marks file that slurmctld reads
    marks: str = "/run/tesched/marks"
    #: names of the users that may own it: root, SlurmUser, and tesched_marks_user
    owners: frozenset[str] = frozenset({"root"})
    #: PreemptMode, such as REQUEUE
    mode: str = "REQUEUE"
    #: jobs of these QOS and of these partitions are TE jobs to it
    te_qos: frozenset[str] = frozenset()
    te_partitions: frozenset[str] = frozenset()
    #: Slurm ignores the order of the marks (youngest_first)
    youngest_first: bool = False
    #: PluginDir: where slurmctld has the plugin's file
    folders: tuple[str, ...] = ()

    def takes_for_te(self, job: Job) -> bool:
        """Check whether the plugin preempts for a waiting job, as it goes by slurm.conf and not by our rules."""
        words = re.split(r"[\s,;]+", job.admin_comment)
        by_qos = not self.te_qos.isdisjoint(job.each_qos)
        return by_qos or not self.te_partitions.isdisjoint(job.partitions) or "tesched:te" in words


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmSettings:
    """Settings of the site's slurm.conf that tesched must know. Read at start and after each reconfigure."""

    #: "22.05.8"
    release: str = ""
    cluster_name: str = ""
    #: seconds between SIGTERM and SIGKILL
    kill_wait_s: int = 30
    #: slurmctld has every node report that has not (SlurmdTimeout is not 0)
    nodes_report: bool = True
    #: exit codes with which a batch job puts itself back in the queue (RequeueExit, RequeueExitHold)
    requeue_exit: frozenset[int] = frozenset()
    requeue_exit_hold: frozenset[int] = frozenset()
    #: a job of sbatch --requeue=expedite that fails is held in the queue (enable_expedited_requeue)
    holds_expedited: bool = False
    #: seconds that a requeued job stays ineligible (requeue_delay, or AuthInfo's cred_expire and one)
    requeue_delay_s: int = 121
    #: slurm.conf's path on slurmctld's host; empty: not known
    conf: str = ""
    #: hosts of slurmctld, the primary one first (SlurmctldHost)
    controllers: tuple[str, ...] = ()
    #: folder in which slurmctld keeps its state, on these (StateSaveLocation); empty: not known
    state_folder: str = ""
    #: submission plugins, without their prefix (JobSubmitPlugins)
    job_submit: frozenset[str] = frozenset()
    #: PriorityType, such as priority/basic
    priority_type: str = ""
    #: PreemptType, such as preempt/none
    preempt_type: str = ""
    #: None unless PreemptType is preempt/tesched
    plugin: PluginSettings | None = None
    #: slurm.conf has limits of users, accounts or QOS enforced (AccountingStorageEnforce), or does not say
    limits_enforced: bool = True
    #: words of AccountingStorageEnforce, in small letters
    enforced: frozenset[str] = frozenset()
    #: words of PrivateData, in small letters: what is hidden from ordinary users
    private: frozenset[str] = frozenset()
    #: jobs may wait for a burst buffer, which no record of theirs shows (BurstBufferType)
    has_burst_buffers: bool = False
    #: AccountingStorageType is slurmdbd, and jobs are stored there (AccountingStorageEnforce has no nojobs)
    has_slurmdbd: bool = False
    #: kinds of GRES that the site has (GresTypes)
    gres_types: frozenset[str] = frozenset()
    #: seconds for which slurmctld remembers a finished job
    min_job_age_s: int = 300
    job_requeue: bool = True
    #: SelectTypeParameters has …_Memory: memory is shared out, and a job that asks for none gets all of a node's
    memory_is_shared_out: bool = True
    #: SelectType, such as select/cons_tres; empty where it is not known
    select_type: str = ""
    #: SelectTypeParameters has CR_Socket: CPUs are given out by the socket
    whole_sockets: bool = False
    #: SelectTypeParameters has CR_CPU: a job holds, and has memory for, just its CPUs of the cores that it gets
    single_cpus: bool = False
    #: CPUs and MiB that each GPU brings along where neither the job nor its partition says; 0: none
    def_cpus_per_gpu: int = 0
    def_mem_per_gpu_mib: int = 0
    #: memory of a job where neither it nor its partition says, for each CPU or on each node, MiB; 0: none
    def_mem_per_cpu_mib: int = 0
    def_mem_per_node_mib: int = 0
    #: on the RPCs of this process's user; None: there is none
    rate_limit: RateLimit | None = None
    #: leaves of the topology, where the site has configured one
    switches: tuple[Switch, ...] = ()
