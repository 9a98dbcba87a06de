"""From a record of squeue's (`columns.py`), and what scontrol adds to it (`details.py`), to one of the heart's jobs."""

from __future__ import annotations

import re
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from tesched_core.model.cluster import FINISHED, Job, JobState, NodeShare, Request
from tesched_core.model.resources import JobId, Tres, with_bare_names

from tesched_slurm import slurm_formats as words
from tesched_slurm.columns import QueueRow
from tesched_slurm.federated import is_federated
from tesched_slurm.job_bounds import within_bounds
from tesched_slurm.record_details import Details

#: Requests that are kept as they were read, and the most characters of one: many jobs ask for the same.
_KEPT_REQUESTS, _MOST_KEPT = 4096, 2000
_ON_NODES = frozenset({JobState.RUNNING, JobState.SUSPENDED})
#: raised for a record that can't be read: it is its job's alone, whatever it is, and never ends the others' reading
UNREADABLE = Exception
#: 22.05 has this for "not said" among numbers, and the one below it for "no limit"
_NO_VALUE = "4294967294"


@lru_cache(maxsize=256)
def states(value: str) -> tuple[JobState, frozenset[str]]:
    """Return the base state and the flags of a word such as `RUNNING` or `COMPLETING`."""
    base, *flags = value.split("+")
    if base in {"COMPLETING", "STAGE_OUT"}:
        # The flag stands in the place of the state; which one it was is then not to be had. A job that stages out has
        # ended, and given its nodes back: while they are not, COMPLETING is shown in its place.
        return JobState.UNKNOWN, frozenset({base, *flags})
    if base in {"CONFIGURING", "STOPPED", "SIGNALING", "RESIZING"}:
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
        partitions=words.in_order(row.partition),
        qos=_typed(row.qos),
        state=state,
        flags=flags,
        # scontrol writes Slurm's sentences as one word.
        reason="" if row.reason == "None" else row.reason.replace(" ", "_"),
        priority=int(row.priority_long),
        nice=int(row.nice),
        batch=row.batch_flag != "0",
        requeueable=row.requeue != "0",
        of_crontab=details.of_crontab if details is not None else None,
        federated=is_federated(row.origin, row.siblings_viable, of_array=row.array_task_id != "N/A"),
        restarts=int(row.restart_cnt),
        submit_time=words.moment(row.submit_time) or 0.0,
        eligible_time=words.moment(row.eligible_time),
        start_time=words.moment(row.start_time) if state is not JobState.PENDING else None,
        end_time=words.moment(row.end_time) if finished else None,
        time_limit_s=words.seconds(row.time_limit),
        deadline=words.moment(row.deadline),
        request=read_request(RequestWords.of(row, details)),
        allocation=shares,
        ran_on=words.hosts(row.node_list) if finished and not shares else (),
        reservation=",".join(words.in_order(words.text(row.reservation))),
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
        partitions=words.in_order(row.partition),
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


def asks_for_gres(said: QueueRow | RequestWords) -> bool:
    """Check whether the job wants any device."""
    asked = said.tres_per_node, said.tres_per_job, said.tres_per_task, said.tres_per_socket
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


class RequestWords(NamedTuple):
    """Words of squeue's columns and scontrol's details that say what a job requests; nothing else does."""

    num_nodes: str
    max_nodes: str
    num_cpus: str
    num_tasks: str
    min_cpus: str
    cpus_per_task: str
    min_memory: str
    over_subscribe: str
    exclusive: str
    feature: str
    req_nodes: str
    exc_nodes: str
    tres_alloc: str
    tres_per_node: str
    tres_per_job: str
    tres_per_task: str
    tres_per_socket: str
    cpus_per_tres: str
    mem_per_tres: str
    min_tmp_disk: str
    contiguous: str
    req_switch: str
    core_spec: str
    nt_per_node: str
    nt_per_socket: str
    nt_per_core: str
    sct: str
    waits: bool
    #: of scontrol's details; None, "" and 0 without them
    memory_for: str | None
    most_nodes_unsaid: bool
    excluded: str
    enforces_binding: bool
    tasks_per_gres: int

    @classmethod
    def of(cls, row: QueueRow, details: Details | None) -> RequestWords:
        """Take them from the job's row, and from what is known besides."""
        waits = row.state == JobState.PENDING
        if details is None:
            return cls._make((*_REQUEST_COLUMNS(row), waits, None, False, "", False, 0))
        more = details.memory_for, details.num_nodes.isdecimal(), details.excluded, details.enforces_binding
        return cls._make((*_REQUEST_COLUMNS(row), waits, *more, details.tasks_per_gres))


_REQUEST_COLUMNS = attrgetter(*(name for name in RequestWords._fields if name in QueueRow._fields))


def read_request(said: RequestWords) -> Request:
    """Read what a job requests. Raises ValueError for a value that can't be read.

    Without details it is not known whether its memory is for a node or for a CPU: it is taken for a CPU's, which is
    never too little.
    """
    if sum(len(word) for word in said if isinstance(word, str)) > _MOST_KEPT:
        return _request_of(said)
    return _kept_request_of(said)


def _request_of(said: RequestWords) -> Request:
    low, high = _node_count(said)
    per_gres = asked_of_each(said.mem_per_tres)
    memory_for = "TRES" if per_gres else "CPU" if said.memory_for is None else said.memory_for
    memory = words.mebibytes(said.min_memory) if memory_for in {"CPU", "Node"} else None
    if hides_memory(said):
        memory_for, memory = "Node", 0
    sockets, cores, threads = shape(said.sct)
    return Request(
        min_nodes=low,
        max_nodes=high,
        reckoned_nodes=_reckoned_nodes(said, low),
        cpus=int(said.num_cpus),
        # Slurm leaves the number out, or writes another word, of a job that has none yet.
        tasks=_number(said.num_tasks) or 1,
        min_cpus_per_node=int(said.min_cpus),
        cpus_per_task=_number(said.cpus_per_task) or 1,
        mem_per_node_mib=memory if memory_for == "Node" else None,
        mem_per_cpu_mib=memory if memory_for == "CPU" else None,
        mem_counted_mib=None if memory else _counted_memory(said),
        gres_per_node=words.gres_in_order(said.tres_per_node),
        gres_per_job=words.asked_gres(said.tres_per_job),
        gres_per_task=words.asked_gres(said.tres_per_task),
        gres_per_socket=words.asked_gres(said.tres_per_socket),
        cpus_per_gres=asked_of_each(said.cpus_per_tres),
        mem_per_gres=per_gres,
        tasks_per_node=_number(said.nt_per_node),
        tasks_per_socket=_number(said.nt_per_socket),
        tasks_per_core=_number(said.nt_per_core),
        sockets_per_node=sockets,
        cores_per_socket=cores,
        threads_per_core=threads,
        tmp_mib=words.mebibytes(said.min_tmp_disk) or 0,
        contiguous=said.contiguous not in {"0", "N/A", ""},
        switches=_number(said.req_switch),
        core_spec="" if said.core_spec in {"N/A", "*", "0", "(null)"} else said.core_spec,
        # 26.05 says OverSubscribe=NO of every job, and has a word of its own for whole nodes.
        exclusive=said.exclusive == "NODE" if said.exclusive else said.over_subscribe == "NO",
        sharing=_sharing(said),
        not_modelled=_not_modelled(said),
        features=words.text(said.feature),
        required_nodes=words.hosts(said.req_nodes),
        excluded_nodes=words.hosts(said.exc_nodes or said.excluded),
    )


_kept_request_of = lru_cache(maxsize=_KEPT_REQUESTS)(_request_of)


def _node_count(said: RequestWords) -> tuple[int, int]:
    """Return fewest and most nodes. Of a waiting job NumNodes is a guess of squeue's; its TRES say what it asks for.

    Of a job that names no most, 22.05 has the same guess for MaxNodes, where Slurm gives it up to a node a task.
    """
    if not said.waits:
        return int(said.num_nodes), int(said.num_nodes)
    asked = re.search(r"(?:^|,)node=(\d+)", said.tres_alloc)
    low = int(asked[1]) if asked else int(said.num_nodes)
    by_tasks = max(low, _number(said.num_tasks))
    if said.most_nodes_unsaid:
        return low, by_tasks
    return low, _number(said.max_nodes) or by_tasks


def _reckoned_nodes(said: RequestWords, low: int) -> int:
    """Return over how many nodes Slurm reckons to spread a waiting job of one task on one node; 0: it does not say.

    `sbatch --gpus=4` has such a record, and may have NumNodes=2 once Slurm has considered it; with -n1 or -N1 it has 1.
    """
    if not said.waits or not words.asked_gres(said.tres_per_job) or not said.num_nodes.isdecimal():
        return 0
    nodes = int(said.num_nodes)
    return nodes if nodes > low == (_number(said.num_tasks) or 1) == 1 else 0


def _counted_memory(said: RequestWords) -> int | None:
    """Return the memory over all nodes that Slurm counts for a waiting job."""
    if not said.waits:
        return None
    counted = re.search(r"(?:^|,)mem=([^,]+)", said.tres_alloc)
    return words.mebibytes(counted[1]) if counted else None


def asked_of_each(value: str) -> tuple[tuple[str, int], ...]:
    """Amounts that the job itself requests with each device (MemPerTres, CpusPerTres).

    Once Slurm has seen a job, the site's defaults stand there for one that asks for nothing, also where its memory
    is by node or CPU: as `gpu:700`, where the job's own are `gres:gpu:700` or `gres/gpu:700`.
    """
    # With 0 (--mem-per-gpu=0) Slurm takes it for one that says nothing.
    return tuple(pair for pair in words.asked_gres(value) if pair[1]) if value.startswith("gres") else ()


def hides_memory(said: RequestWords) -> bool:
    """Check whether the default for each GPU stands where the job's own memory would (26.05), or may do so."""
    default = not said.mem_per_tres.startswith("gres") and words.gres(said.mem_per_tres)
    return bool(default) and said.memory_for not in {"CPU", "Node"}


def _not_modelled(said: RequestWords) -> tuple[str, ...]:
    found = ["--gres-flags=enforce-binding"] if said.enforces_binding and asks_for_gres(said) else []
    if said.tasks_per_gres:
        found.append(f"--ntasks-per-gpu={said.tasks_per_gres}")
    return tuple(found)


def _sharing(said: RequestWords) -> str:
    """Sharing of the job's nodes, in one form for all releases: NO, YES, OK, USER, MCS, TOPO, NODE."""
    if said.exclusive and said.exclusive != "NO":
        return said.exclusive
    if said.exclusive:
        return "YES" if said.over_subscribe == "YES" else "OK"
    return "NODE" if said.over_subscribe == "NO" else said.over_subscribe


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
