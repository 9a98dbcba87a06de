"""Messages between the daemon and its pyslurm process: MessagePack frames, each after its length.

A record's fields are those of pyslurm, in its units, with None where it gives None.
"""

from __future__ import annotations

import struct
from typing import Any, TypeAlias

import msgspec

#: a frame begins with its length in bytes
LENGTH = struct.Struct("!I")


class JobRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One job, as pyslurm shows it."""

    id: int
    name: str | None
    user: str
    account: str | None
    partition: str | None
    qos: str | None
    #: one word: a flag such as COMPLETING stands in the place of the state
    state: str
    state_reason: str | None
    priority: int | None
    nice: int | None
    is_batch_job: bool
    is_requeueable: bool
    is_cronjob: bool
    requeue_count: int
    submit_time: int | None
    eligible_time: int | None
    start_time: int | None
    end_time: int | None
    #: minutes
    time_limit: int | None
    num_nodes: int | None
    max_nodes: int | None
    cpus: int
    min_cpus_per_node: int | None
    cpus_per_task: int | None
    #: MiB; what --mem-per-gpu asks for is here, too, as if it were a node's
    memory_per_cpu: int | None
    memory_per_node: int | None
    resource_sharing: str | None
    #: "enforce-binding" and the like
    gres_binding: str | None
    ntasks_per_gpu: int | None
    constraints: tuple[str, ...]
    allocated_nodes: str | None
    required_nodes: str | None
    excluded_nodes: str | None
    array_id: int | None
    #: None for task 0
    array_task_id: int | None
    #: without the limit that follows a `%`
    array_tasks_waiting: str | None
    array_tasks_parallel: int | None
    heterogeneous_id: int | None
    #: None for component 0
    heterogeneous_offset: int | None
    #: None without a federation
    federation_origin: str | None
    federation_siblings_viable: tuple[str, ...]
    reservation: str | None
    licenses: tuple[str, ...]
    comment: str | None
    admin_comment: str | None
    exit_code: int | None
    exit_code_signal: int | None
    #: the number of `user`
    user_id: int


class NodeRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One node, as pyslurm shows it."""

    name: str
    state: str
    total_cpus: int
    #: without what is set aside for the system
    effective_cpus: int
    #: MiB
    real_memory: int | None
    memory_reserved_for_system: int | None
    #: MiB; of the devices that are held pyslurm does not say anything
    allocated_cpus: int | None
    allocated_memory: int | None
    configured_gres: dict[str, int]
    sockets: int | None
    cores_per_socket: int | None
    threads_per_core: int | None
    #: MiB
    temporary_disk: int | None
    active_features: tuple[str, ...]
    partitions: tuple[str, ...]
    reason: str | None
    #: Unix seconds; None until the node has reported to this slurmctld
    slurmd_start_time: int | None


class PartitionRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One partition, as pyslurm shows it."""

    name: str
    state: str
    nodes: str | None
    priority_tier: int | None
    preempt_mode: str | None
    #: seconds
    preemption_grace_time: int | None
    #: minutes, or a word for no limit
    max_time: int | str | None
    default_time: int | str | None
    min_nodes: int | str | None
    max_nodes: int | str | None
    max_cpus_per_node: int | str | None
    max_cpus_per_socket: int | str | None
    #: MiB
    max_memory_per_node: int | str | None
    max_memory_per_cpu: int | str | None
    oversubscribe: str | None
    is_user_exclusive: bool
    default_cpus_per_gpu: int | str | None
    default_memory_per_gpu: int | str | None
    default_memory_per_cpu: int | str | None
    default_memory_per_node: int | str | None
    is_default: bool
    allowed_accounts: tuple[str, ...]
    allowed_qos: tuple[str, ...]
    denied_accounts: tuple[str, ...]
    denied_qos: tuple[str, ...]
    allowed_groups: tuple[str, ...]
    is_root_only: bool
    requires_reservation: bool
    qos: str | None


class PollAll(msgspec.Struct, frozen=True, tag="look"):
    """Ask for everything. Answered by Seen."""


class LookAtJob(msgspec.Struct, frozen=True, tag="look_at_job"):
    """Ask for one job. Answered by Seen with that job, or none."""

    job_id: int


class Do(msgspec.Struct, frozen=True, tag="do"):
    """Act on a job. Answered by Done."""

    job_id: int
    #: requeue, suspend, resume, nice, priority, hold or release
    what: str
    #: of nice and priority
    value: int = 0


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """Ask for pyslurm's version. Answered by Version."""


class Version(msgspec.Struct, frozen=True, tag="version"):
    """pyslurm is there."""

    #: "26.5.0" was built for Slurm 26.05
    version: str


class PolledObjects(msgspec.Struct, frozen=True, tag="seen"):
    """Objects that the poll saw."""

    jobs: tuple[JobRecord, ...] = ()
    #: jobs that pyslurm could not read
    unread: tuple[int, ...] = ()
    #: None where pyslurm could not read them
    nodes: tuple[NodeRecord, ...] | None = None
    #: the same
    partitions: tuple[PartitionRecord, ...] | None = None
    #: how many there are
    reservations: int = 0


class Done(msgspec.Struct, frozen=True, tag="done"):
    """It was done."""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """Slurm said no, or did not answer."""

    #: slurm_strerror's words
    message: str


Question: TypeAlias = Hello | PollAll | LookAtJob | Do
Answer: TypeAlias = Version | PolledObjects | Done | Refused

questions: msgspec.msgpack.Decoder[Question] = msgspec.msgpack.Decoder(Question)
_answers: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def read_answer(body: bytes | memoryview) -> Answer:
    """Return the answer. Raises msgspec.DecodeError for one of another form."""
    return _answers.decode(body)


def frame(message: Any) -> bytes:
    """Return the message as it is sent."""
    body = msgspec.msgpack.encode(message)
    return LENGTH.pack(len(body)) + body
