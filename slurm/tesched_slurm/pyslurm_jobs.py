"""From pyslurm's records to the heart's jobs, nodes and partitions: the same values as the commands client gives.

What pyslurm has not, or has wrong, comes beside the record: squeue's columns for a pending job, a whole job as the
commands client reads it for one that has started.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

from tesched_core.model.access import PartitionAccess
from tesched_core.model.cluster import FINISHED, Job, JobState, Node, NodeShare, Partition, Request, SlurmSettings
from tesched_core.model.resources import JobId, Tres, with_bare_names

from tesched_slurm import slurm_formats as words
from tesched_slurm.cluster_bounds import each_once, node_within_bounds, partition_within_bounds
from tesched_slurm.columns import QueueRow
from tesched_slurm.federated import is_federated
from tesched_slurm.job_bounds import within_bounds
from tesched_slurm.job_records import (
    RequestWords,
    asked_of_each,
    asks_for_gres,
    hides_memory,
    read_request,
    states,
)
from tesched_slurm.pyslurm_wire import JobRecord, NodeRecord, PartitionRecord
from tesched_slurm.scontrol_cluster import RUNS_JOBS, ids_of_a_cpu, node_states
from tesched_slurm.user_names import in_doubt_if_nameless


def job_of(record: JobRecord, request: Request, allocation: tuple[NodeShare, ...] = (), dependency: str = "") -> Job:
    """Return the job; `request`, `allocation` and `dependency` are what the record does not say."""
    state, flags = states(record.state)
    array_task, array_tasks = _array_place(record)
    finished = state in FINISHED
    return Job(
        job_id=JobId(record.id),
        array_job_id=None if record.array_id is None else JobId(record.array_id),
        array_task_id=array_task,
        array_tasks=array_tasks,
        array_throttle=record.array_tasks_parallel or 0,
        het_job_id=None if record.heterogeneous_id is None else JobId(record.heterogeneous_id),
        het_offset=None if record.heterogeneous_id is None else record.heterogeneous_offset or 0,
        name=record.name or "",
        user=record.user,
        account=record.account or "",
        partitions=words.in_order(record.partition or ""),
        qos=record.qos or "",
        state=state,
        flags=flags,
        # scontrol writes Slurm's sentences as one word.
        reason="" if record.state_reason in {None, "None"} else str(record.state_reason).replace(" ", "_"),
        priority=record.priority or 0,
        nice=record.nice or 0,
        batch=record.is_batch_job,
        requeueable=record.is_requeueable,
        of_crontab=record.is_cronjob,
        federated=is_federated(
            record.federation_origin or "",
            ",".join(record.federation_siblings_viable),
            of_array=record.array_id is not None,
        ),
        restarts=record.requeue_count,
        submit_time=float(record.submit_time or 0),
        eligible_time=_moment(record.eligible_time),
        start_time=_moment(record.start_time) if state is not JobState.PENDING else None,
        end_time=_moment(record.end_time) if finished else None,
        time_limit_s=None if record.time_limit is None else record.time_limit * 60,
        request=request,
        allocation=allocation,
        reservation=",".join(words.in_order(record.reservation or "")),
        dependency=dependency,
        licenses=",".join(record.licenses),
        comment=(record.comment or "").strip(),
        admin_comment=(record.admin_comment or "").strip(),
        exit_status=(record.exit_code or 0) if finished or "COMPLETING" in flags else 0,
        exit_signal=(record.exit_code_signal or 0) if finished or "COMPLETING" in flags else 0,
    )


def _moment(value: int | None) -> float | None:
    return None if value is None else float(value)


def _array_place(record: JobRecord) -> tuple[int | None, str]:
    """Return the index of an array's task, or the indices that wait."""
    if record.array_id is None:
        return None, ""
    if record.array_tasks_waiting is not None:
        limit = f"%{record.array_tasks_parallel}" if record.array_tasks_parallel else ""
        tasks = record.array_tasks_waiting + limit
        # A single task that waits is that task.
        return (int(tasks), "") if tasks.isdecimal() else (None, tasks)
    return record.array_task_id or 0, ""


def pending_job(record: JobRecord, row: QueueRow) -> Job:
    """Return a pending job; `row` is what squeue says of it. Raises one of `UNREADABLE`."""
    said = RequestWords.of(row, None)
    by_cpu, by_node = record.memory_per_cpu, record.memory_per_node
    if asked_of_each(row.mem_per_tres):
        by_cpu = by_node = None
    elif hides_memory(said):
        by_cpu, by_node = None, 0
    elif by_cpu is None:
        # pyslurm has no word for --mem=0, all of a node's memory.
        by_node = by_node or 0
    # Slurm's word for nothing more is none, or an empty one.
    bound = [f"--gres-flags={record.gres_binding}"] if record.gres_binding and asks_for_gres(row) else []
    per_gpu = [f"--ntasks-per-gpu={record.ntasks_per_gpu}"] if record.ntasks_per_gpu else []
    request = read_request(said)
    request = replace(
        request,
        cpus=record.cpus,
        min_cpus_per_node=record.min_cpus_per_node or 0,
        # pyslurm has none where each GPU brings CPUs (--cpus-per-gpu); with --gpus-per-task they are those of a task.
        cpus_per_task=record.cpus_per_task or request.cpus_per_task,
        mem_per_node_mib=by_node,
        mem_per_cpu_mib=by_cpu,
        not_modelled=(*bound, *per_gpu),
        features=",".join(record.constraints),
        required_nodes=words.hosts(record.required_nodes or ""),
        excluded_nodes=words.hosts(record.excluded_nodes or ""),
    )
    job = job_of(record, request, dependency=words.text(row.dependency))
    return in_doubt_if_nameless(within_bounds(replace(job, deadline=words.moment(row.deadline))), record.user_id)


def started_job(record: JobRecord, known: Job) -> Job:
    """Return a job that has started; `known` is what the commands said of this very run. Raises as `pending_job`."""
    job = job_of(record, known.request)
    if job.state in {JobState.RUNNING, JobState.SUSPENDED}:
        job = replace(job, allocation=known.allocation, deadline=known.deadline)
    elif job.finished:
        job = replace(job, ran_on=words.hosts(record.allocated_nodes or ""))
    return in_doubt_if_nameless(within_bounds(job), record.user_id)


def same_run(record: JobRecord, known: Job) -> bool:
    """Check whether `known`, as the commands showed it, is this run with its present size."""
    nodes = words.hosts(record.allocated_nodes or "")
    return (
        known.state is not JobState.PENDING
        and (known.restarts, known.request.cpus) == (record.requeue_count, record.cpus)
        and known.start_time == _moment(record.start_time)
        and (nodes == known.nodes or record.state not in {"RUNNING", "SUSPENDED"})
    )


def nodes_of(records: Iterable[NodeRecord]) -> tuple[Node, ...]:
    """Return the nodes, unreadable ones in doubt. Raises ValueError where none can be read."""
    found = tuple(records)
    return each_once(Node, ((record.name, partial(_node, record, len(found))) for record in found))


def partitions_of(records: Iterable[PartitionRecord]) -> tuple[Partition, ...]:
    """Return the partitions, unreadable ones in doubt. Raises ValueError where none can be read."""
    return each_once(Partition, ((record.name, partial(_partition, record)) for record in records))


def _node(record: NodeRecord, nodes: int) -> Node:
    base, flags = node_states(record.state)
    sockets, cores, threads = record.sockets or 0, record.cores_per_socket or 0, record.threads_per_core or 0
    node = Node(
        name=record.name,
        state=base,
        flags=flags,
        total=Tres(
            cpus=record.effective_cpus,
            mem_mib=max((record.real_memory or 0) - (record.memory_reserved_for_system or 0), 0),
            gres=with_bare_names(sorted(record.configured_gres.items())),
        ),
        held=Tres(cpus=record.allocated_cpus or 0, mem_mib=record.allocated_memory or 0),
        sockets=sockets,
        cores_per_socket=cores,
        threads_per_core=threads,
        ids_of_a_cpu=ids_of_a_cpu(record.total_cpus, sockets * cores, threads),
        tmp_mib=record.temporary_disk or 0,
        features=frozenset(record.active_features),
        partitions=frozenset(record.partitions),
        reason=record.reason or "",
        unreported=base in RUNS_JOBS and not record.slurmd_start_time,
    )
    return node_within_bounds(node, nodes)


def lacking(records: Iterable[NodeRecord], settings: SlurmSettings) -> frozenset[str]:
    """Return the kinds of GRES that the site has, and pyslurm shows on no node.

    It leaves out what is counted in units, as in `tmp:400G` (26.05; by its source an older one may raise for that).
    """
    shown = {name.partition(":")[0] for record in records for name in record.configured_gres}
    return settings.gres_types - shown


def may_be_wrong(record: NodeRecord) -> bool:
    """Check whether pyslurm's state may hide another one.

    It writes MIXED over the state of every node that is partly allocated, whatever that state was. Slurm 26.05 takes a
    down node's jobs away at once, so that none was seen to be hidden; a node that is down or failing says why.
    """
    return record.state.startswith("MIXED") and bool(record.reason)


def _partition(record: PartitionRecord) -> Partition:
    partition = Partition(
        name=record.name,
        state=record.state,
        nodes=frozenset(words.hosts(record.nodes or "")),
        priority_tier=record.priority_tier or 0,
        preempt_mode=(record.preempt_mode or "").upper(),
        grace_time_s=record.preemption_grace_time or 0,
        max_time_s=_seconds(record.max_time),
        default_time_s=_seconds(record.default_time),
        min_nodes=_bound(record.min_nodes) or 0,
        max_nodes=_bound(record.max_nodes),
        max_cpus_per_node=_bound(record.max_cpus_per_node),
        max_cpus_per_socket=_bound(record.max_cpus_per_socket),
        max_mem_per_node_mib=_bound(record.max_memory_per_node),
        max_mem_per_cpu_mib=_bound(record.max_memory_per_cpu),
        oversubscribe=record.oversubscribe or "NO",
        exclusive_user=record.is_user_exclusive,
        def_cpus_per_gpu=_bound(record.default_cpus_per_gpu) or 0,
        def_mem_per_gpu_mib=_bound(record.default_memory_per_gpu) or 0,
        def_mem_per_cpu_mib=_bound(record.default_memory_per_cpu) or 0,
        def_mem_per_node_mib=_bound(record.default_memory_per_node) or 0,
        default=record.is_default,
        allow_accounts=words.names(",".join(record.allowed_accounts)),
        allow_qos=words.names(",".join(record.allowed_qos)),
        access=PartitionAccess(
            deny_accounts=words.names(",".join(record.denied_accounts)),
            deny_qos=words.names(",".join(record.denied_qos)),
            allow_groups=words.names(",".join(record.allowed_groups)),
            root_only=record.is_root_only,
            needs_reservation=record.requires_reservation,
            qos=record.qos or "",
        ),
    )
    return partition_within_bounds(partition)


def _seconds(minutes: int | str | None) -> int | None:
    """Return minutes in seconds; None for pyslurm's word for no limit."""
    return minutes * 60 if isinstance(minutes, int) else None


def _bound(value: int | str | None) -> int | None:
    """Return a number; None for pyslurm's word for no limit."""
    return value if isinstance(value, int) else None
