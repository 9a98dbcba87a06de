"""From a record of squeue's (`columns.py`), and what scontrol adds to it (`details.py`), to one of the heart's jobs."""

from __future__ import annotations

import re

from tesched_core.model.cluster import FINISHED, Job, JobState, NodeShare, Request
from tesched_core.model.resources import JobId, Tres, with_bare_names

from tesched_slurm import slurm_formats as words
from tesched_slurm.columns import QueueRow
from tesched_slurm.details import Details
from tesched_slurm.job_bounds import within_bounds

_ON_NODES = frozenset({JobState.RUNNING, JobState.SUSPENDED})
#: raised for a record that can't be read: it is its job's alone, whatever it is, and never ends the others' reading
UNREADABLE = Exception
#: 22.05 has this for "not said" among numbers, and the one below it for "no limit"
_NO_VALUE = "4294967294"


def states(value: str) -> tuple[JobState, frozenset[str]]:
    """Return the base state and the flags of a word such as `RUNNING` or `COMPLETING`."""
    base, *flags = value.split("+")
    if base == "COMPLETING":
        # Some releases show the flag in the place of the state; which one it was is then not to be had.
        return JobState.UNKNOWN, frozenset({base, *flags})
    if base in {"CONFIGURING", "STAGE_OUT", "STOPPED", "SIGNALING", "RESIZING"}:
        return JobState.RUNNING, frozenset({base, *flags})
    if base in {"REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "REQUEUE_FED", "RESV_DEL_HOLD"}:
        return JobState.PENDING, frozenset({base, *flags})
    return (JobState(base) if base in JobState.__members__ else JobState.UNKNOWN), frozenset(flags)


def read_job(row: QueueRow, details: Details | None) -> Job:
    """Return the job. Raises one of `UNREADABLE` for a value that can't be read, or is out of all bounds.

    Without details, or with those of another run, it is not known what the job holds on each of several nodes, nor
    what its memory is for: `Job.partly_read` says so.
    """
    if details is not None and not _same(row, details):
        details = None
    state, flags = states(row.state)
    partly_read = ""
    shares: tuple[NodeShare, ...] = ()
    if state in _ON_NODES or "COMPLETING" in flags:
        nodes = words.hosts(row.node_list)
        if details is not None and details.shares:
            shares = _shares(details, nodes)
        else:
            shares = _spread(row, nodes)
            if len(nodes) > 1 or asks_for_gres(row):
                partly_read = "what it holds on each of its nodes could not be read"
    elif details is None and state is JobState.PENDING:
        partly_read = "what its memory is for could not be read"
    throttle = details.throttle if details is not None else _number(row.array_task_id.partition("%")[2])
    finished = state in FINISHED
    status, by_signal = _exit(row.exit_code)
    job = Job(
        job_id=JobId(int(row.job_id)),
        array_job_id=JobId(int(row.array_job_id)) if row.array_task_id != "N/A" else None,
        array_task_id=int(row.array_task_id) if row.array_task_id.isdecimal() else None,
        array_tasks=_waiting_tasks(row, details, throttle),
        array_throttle=throttle,
        het_job_id=_het(row.het_job_id),
        het_offset=int(row.het_job_offset) if _het(row.het_job_id) is not None else None,
        name=row.name,
        user=row.user_name,
        account=_typed(row.account),
        partitions=tuple(row.partition.split(",")),
        qos=_typed(row.qos),
        state=state,
        flags=flags,
        # scontrol writes Slurm's sentences as one word.
        reason="" if row.reason == "None" else row.reason.replace(" ", "_"),
        priority=int(row.priority_long),
        nice=int(row.nice),
        batch=row.batch_flag != "0",
        requeueable=row.requeue != "0",
        restarts=int(row.restart_cnt),
        submit_time=words.moment(row.submit_time) or 0.0,
        eligible_time=words.moment(row.eligible_time),
        start_time=words.moment(row.start_time) if state is not JobState.PENDING else None,
        end_time=words.moment(row.end_time) if finished else None,
        time_limit_s=words.seconds(row.time_limit),
        deadline=words.moment(details.deadline) if details is not None and state in _ON_NODES else None,
        request=read_request(row, details),
        allocation=shares,
        ran_on=words.hosts(row.node_list) if finished and not shares else (),
        reservation=words.text(row.reservation),
        dependency=words.text(row.dependency),
        licenses=words.text(row.licenses),
        comment=_typed(row.comment).strip(),
        admin_comment=_typed(row.admin_comment).strip(),
        exit_status=status if finished or "COMPLETING" in flags else 0,
        exit_signal=by_signal if finished or "COMPLETING" in flags else 0,
        partly_read=partly_read,
    )
    return within_bounds(job)


def unread_job(row: QueueRow, why: str) -> Job:
    """Job with an unreadable record, with what is certain of it: it is there, and tesched leaves it alone."""
    return Job(
        job_id=JobId(int(row.job_id)),
        user=row.user_name,
        account=_typed(row.account),
        partitions=tuple(row.partition.split(",")),
        qos=_typed(row.qos),
        state=JobState.UNKNOWN,
        doubt=why,
    )


def _typed(value: str) -> str:
    """Return a text of free choice; what squeue prints where there is none could be the same text."""
    return "" if value == "(null)" else value


def _same(row: QueueRow, details: Details) -> bool:
    """Check whether scontrol saw the same run, with the same size, as squeue did a moment before or after."""
    return (
        details.restarts == row.restart_cnt
        and details.node_list == row.node_list
        and details.num_cpus.partition("-")[0] == row.num_cpus
    )


def asks_for_gres(row: QueueRow) -> bool:
    """Check whether the job wants any device."""
    asked = row.tres_per_node, row.tres_per_job, row.tres_per_task, row.tres_per_socket
    return any(map(words.gres, asked))


def _waiting_tasks(row: QueueRow, details: Details | None, throttle: int) -> str:
    """Return `0-9%2` of the tasks of an array that wait as one; empty for a task, and for what is no array."""
    if row.array_task_id == "N/A" or row.array_task_id.isdecimal():
        return ""
    # Without the limit that 22.05 writes behind them, and 26.05 does not; there squeue lists the tasks with records of
    # their own, too.
    tasks = (details.array_tasks if details is not None else "") or row.array_task_id.partition("%")[0]
    return f"{tasks}%{throttle}" if throttle else tasks


def _het(value: str) -> JobId | None:
    return JobId(int(value)) if value.isdecimal() and value != "0" else None


def _exit(value: str) -> tuple[int, int]:
    """Return exit status and signal of `3:0` (26.05), or of what wait(2) gives (22.05: 768, 10)."""
    status, colon, by_signal = value.partition(":")
    if colon:
        return int(status), int(by_signal)
    return int(status) >> 8 & 0xFF, int(status) & 0x7F


def _number(value: str) -> int:
    """Return a number of a request; 0 where nothing is said."""
    return int(value) if value.isdecimal() and value not in {_NO_VALUE, "65534", "65535", "4294967295"} else 0


def read_request(row: QueueRow, details: Details | None) -> Request:
    """Read what the job requests. Raises ValueError for a value that can't be read.

    Without details it is not known whether its memory is for a node or for a CPU: it is taken for a CPU's, which is
    never too little.
    """
    low, high = _node_count(row, details)
    per_gres = asked_of_each(row.mem_per_tres)
    memory_for = "TRES" if per_gres else details.memory_for if details is not None else "CPU"
    memory = words.mebibytes(row.min_memory) if memory_for in {"CPU", "Node"} else None
    if hides_memory(row, details):
        memory_for, memory = "Node", 0
    sockets, cores, threads = shape(row.sct)
    return Request(
        min_nodes=low,
        max_nodes=high,
        cpus=int(row.num_cpus),
        # Slurm leaves the number out, or writes another word, of a job that has none yet.
        tasks=_number(row.num_tasks) or 1,
        min_cpus_per_node=int(row.min_cpus),
        cpus_per_task=_number(row.cpus_per_task) or 1,
        mem_per_node_mib=memory if memory_for == "Node" else None,
        mem_per_cpu_mib=memory if memory_for == "CPU" else None,
        mem_counted_mib=None if memory else _counted_memory(row),
        gres_per_node=words.gres(row.tres_per_node),
        gres_per_job=words.gres(row.tres_per_job),
        gres_per_task=words.gres(row.tres_per_task),
        gres_per_socket=words.gres(row.tres_per_socket),
        cpus_per_gres=asked_of_each(row.cpus_per_tres),
        mem_per_gres=per_gres,
        tasks_per_node=_number(row.nt_per_node),
        tasks_per_socket=_number(row.nt_per_socket),
        tasks_per_core=_number(row.nt_per_core),
        sockets_per_node=sockets,
        cores_per_socket=cores,
        threads_per_core=threads,
        tmp_mib=words.mebibytes(row.min_tmp_disk) or 0,
        contiguous=row.contiguous not in {"0", "N/A", ""},
        switches=_number(row.req_switch),
        core_spec="" if row.core_spec in {"N/A", "*", "0", "(null)"} else row.core_spec,
        # 26.05 says OverSubscribe=NO of every job, and has a word of its own for whole nodes.
        exclusive=row.exclusive == "NODE" if row.exclusive else row.over_subscribe == "NO",
        sharing=_sharing(row),
        not_modelled=_not_modelled(row, details) if details is not None else (),
        features=words.text(row.feature),
        required_nodes=words.hosts(row.req_nodes),
        excluded_nodes=words.hosts(row.exc_nodes or (details.excluded if details is not None else "")),
    )


def _node_count(row: QueueRow, details: Details | None) -> tuple[int, int]:
    """Return fewest and most nodes. Of a waiting job NumNodes is a guess of squeue's; its TRES say what it asks for.

    Of a job that names no most, 22.05 has the same guess for MaxNodes, where Slurm gives it up to a node a task.
    """
    if row.state != JobState.PENDING:
        return int(row.num_nodes), int(row.num_nodes)
    asked = re.search(r"(?:^|,)node=(\d+)", row.tres_alloc)
    low = int(asked[1]) if asked else int(row.num_nodes)
    by_tasks = max(low, _number(row.num_tasks))
    if details is not None and details.num_nodes.isdecimal():
        return low, by_tasks
    return low, _number(row.max_nodes) or by_tasks


def _counted_memory(row: QueueRow) -> int | None:
    """Return the memory over all nodes that Slurm counts for a waiting job."""
    if row.state != JobState.PENDING:
        return None
    counted = re.search(r"(?:^|,)mem=([^,]+)", row.tres_alloc)
    return words.mebibytes(counted[1]) if counted else None


def asked_of_each(value: str) -> tuple[tuple[str, int], ...]:
    """Amounts that the job itself requests with each device (MemPerTres, CpusPerTres).

    Once Slurm has seen a job, the site's defaults stand there for one that asks for nothing, also where its memory
    is by node or CPU: as `gpu:700`, where the job's own are `gres:gpu:700` or `gres/gpu:700`.
    """
    # With 0 (--mem-per-gpu=0) Slurm takes it for one that says nothing.
    return tuple(pair for pair in words.gres(value) if pair[1]) if value.startswith("gres") else ()


def hides_memory(row: QueueRow, details: Details | None) -> bool:
    """Check whether the default for each GPU stands where the job's own memory would (26.05), or may do so."""
    default = not row.mem_per_tres.startswith("gres") and words.gres(row.mem_per_tres)
    return bool(default) and (details is None or details.memory_for not in {"CPU", "Node"})


def _not_modelled(row: QueueRow, details: Details) -> tuple[str, ...]:
    found = ["--gres-flags=enforce-binding"] if details.enforces_binding and asks_for_gres(row) else []
    if details.tasks_per_gres:
        found.append(f"--ntasks-per-gpu={details.tasks_per_gres}")
    return tuple(found)


def _sharing(row: QueueRow) -> str:
    """Sharing of the job's nodes, in one form for all releases: NO, YES, OK, USER, MCS, TOPO, NODE."""
    if row.exclusive and row.exclusive != "NO":
        return row.exclusive
    if row.exclusive:
        return "YES" if row.over_subscribe == "YES" else "OK"
    return "NODE" if row.over_subscribe == "NO" else row.over_subscribe


def shape(value: str) -> tuple[int, int, int]:
    """Return sockets, cores and threads of `1:2:*`, 0 for what is not said."""
    parts = [_number(part) for part in value.split(":")]
    sockets, cores, threads = (*parts, 0, 0, 0)[:3]
    return sockets, cores, threads


def _shares(details: Details, nodes: tuple[str, ...]) -> tuple[NodeShare, ...]:
    """Read what the job holds on each node, from scontrol's detail lines."""
    held: dict[str, NodeShare] = {}
    for group, cpu_ids, mem_mib, gres in details.shares:
        tres = Tres(cpus=_count_ids(cpu_ids), mem_mib=int(mem_mib), gres=with_bare_names(words.gres(gres)))
        held |= {node: NodeShare(node=node, tres=tres, cpu_ids=cpu_ids) for node in words.hosts(group)}
    return tuple(held[node] for node in nodes if node in held)


def _spread(row: QueueRow, nodes: tuple[str, ...]) -> tuple[NodeShare, ...]:
    """Share that the job holds on each node if it is spread evenly."""
    if not nodes:
        return ()
    amounts = dict(part.split("=", 1) for part in row.tres_alloc.split(",") if "=" in part)
    gres = [(name, -(-count // len(nodes))) for name, count in words.gres(_gres_of(amounts))]
    tres = Tres(
        cpus=-(-int(amounts.get("cpu", 0)) // len(nodes)),
        mem_mib=-(-(words.mebibytes(amounts.get("mem", "0")) or 0) // len(nodes)),
        gres=with_bare_names(gres),
    )
    return tuple(NodeShare(node=node, tres=tres) for node in nodes)


def _gres_of(amounts: dict[str, str]) -> str:
    """Return the GRES among TRES, each once: `gres/gpu=2,gres/gpu:a100=2` names the same two twice."""
    found = {key: value for key, value in amounts.items() if key.startswith("gres/")}
    typed = {key.partition(":")[0] for key in found if ":" in key}
    return ",".join(f"{key}={value}" for key, value in found.items() if key not in typed)


def _count_ids(value: str) -> int:
    """Count the ids that `0-7,16-17` names."""
    total = 0
    for part in value.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if match is None:
            raise ValueError(f"ids of CPUs have another form than known: {value[:80]!r}")
        total += int(match[2] or match[1]) - int(match[1]) + 1
    return total
