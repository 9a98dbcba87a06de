"""Reads `scontrol -d -o show job`.

The record begins and ends with text that users choose (name, working directory, comment, paths). In between stands what
Slurm alone writes; it is found by its fixed sequence of keys, so a job name such as `x Priority=5` forges nothing. A
record in which that sequence stands twice is ambiguous: the caller is asked for the job's real name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import pairwise

from tesched_core.cluster import FINISHED, Job, JobState, NodeShare, Request
from tesched_core.resources import JobId, Tres, with_bare_names

from tesched_slurm import words

#: Where the part begins that Slurm alone writes, and where it ends. SLUID is 26.05's.
_BEGIN = re.compile(r"(?: SLUID=s[0-9A-Z]{13})?(?: HetJobIdSet=\S+)? UserId=(\S+)\(\d+\) GroupId=\S+ MCS_label=")
_END = re.compile(r" Command=")
_RECORD = re.compile(r"^JobId=(\d+) ", re.MULTILINE)
_HEAD = re.compile(r"(\w+)=(\S+) ")
_PAIR = re.compile(r"(\S+?)=(\S*)")
_SHARE = re.compile(r" Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+) GRES=(\S*)")
#: Keys that may follow the last path of a record; what stands before them is a user's text.
_TAIL_KEY = re.compile(
    r"(TresPer\w+|NtasksPerTRES|CpusPerTres|MemPerTres|TresBind|TresFreq|Power|Mail\w+)(?::\S*)?=(\S*)"
)
_COMMENT = re.compile(r" Comment=(.*?) (?=SystemComment=|StdErr=|StdIn=|StdOut=)", re.DOTALL)
_ADMIN_COMMENT = re.compile(r" AdminComment=(.*?) (?=SystemComment=|Comment=|StdErr=|StdIn=|StdOut=)", re.DOTALL)

#: From a job id to the job's name, as another command says it.
RealName = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """The jobs of one answer."""

    jobs: tuple[Job, ...]
    #: records that could not be read
    dropped: int
    #: jobs to be asked for one by one: somebody's text has a line that looks like the beginning of a job's record
    doubtful: frozenset[int] = frozenset()


def read_jobs(
    answer: str, real_name: RealName, ids: Collection[int] | None = None, wanted: Collection[int] | None = None
) -> Read:
    """Return the jobs in the answer; a record that cannot be read is dropped alone.

    `real_name` is asked for the name of the job with this id if its record is ambiguous. `ids` are the jobs that there
    are: a line that a user's text begins with `JobId=99 ` begins no record unless there is a job 99. Where it does,
    that job and the one whose text it may be are not read but `doubtful`. Only the `wanted` are read, or all.
    """
    found = [
        (match.start(), int(match[1])) for match in _RECORD.finditer(answer) if ids is None or int(match[1]) in ids
    ]
    often = {job_id for job_id, times in Counter(job_id for _, job_id in found).items() if times > 1}
    before = {job_id for (_, job_id), (_, following) in pairwise(found) if following in often} if often else set()
    doubtful = often | before
    jobs: list[Job] = []
    dropped = 0
    for (start, job_id), (end, _) in zip(found, [*found[1:], (len(answer), 0)], strict=False):
        if job_id in doubtful or (wanted is not None and job_id not in wanted):
            continue
        job = _read_job(answer[start:end].rstrip("\n"), real_name)
        if job is None:
            dropped += 1
        else:
            jobs.append(job)
    if wanted is not None:
        doubtful &= set(wanted)
    return Read(jobs=tuple(jobs), dropped=dropped, doubtful=frozenset(doubtful))


def own_record(answer: str, job_id: int) -> str:
    """Return this job's part of what `scontrol -o show job ID` said.

    With a job come the others of its array, or of its heterogeneous job. A line of its own text that looks like one of
    those cuts it short: with such a name its user deceives us about this job, and about no other.
    """
    start = re.search(rf"^JobId={job_id} ", answer, re.MULTILINE)
    if start is None:
        return ""
    family = re.compile(r"^JobId=\d+ (?:ArrayJobId|HetJobId)=\d+ ", re.MULTILINE)
    first = family.match(answer, start.start())
    after = family.search(answer, start.end()) if first else None
    return answer[start.start() : after.start() if after else len(answer)]


def _read_job(record: str, real_name: RealName) -> Job | None:
    at = record.find(" JobName=")
    if at < 0:
        return None
    head = dict(_HEAD.findall(record[:at] + " "))
    begins = list(_BEGIN.finditer(record, at))
    if not begins:
        return None
    begin = begins[0]
    if len(begins) > 1:
        start, said = at + len(" JobName="), real_name(head["JobId"]) + "\n"
        # An array's name is said once for each of its tasks.
        found = next((each for each in begins if not said.replace(record[start : each.start()] + "\n", "")), None)
        if found is None:
            return None
        begin = found
    end = _END.search(record, begin.end())
    if end is None:
        return None
    middle = record[begin.start() : end.start()]
    try:
        return _job(head, record[at + len(" JobName=") : begin.start()], begin[1], middle, record[end.start() :])
    except (KeyError, ValueError):
        return None


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


def _job(head: dict[str, str], name: str, user: str, middle: str, tail: str) -> Job:
    pairs = dict(_PAIR.findall(middle))
    state, flags = states(pairs["JobState"])
    nodes = words.hosts(pairs["NodeList"])
    shares = _allocation(middle, nodes, pairs) if state in _ON_NODES or "COMPLETING" in flags else ()
    array_task = head.get("ArrayTaskId", "")
    status, _, by_signal = pairs["ExitCode"].partition(":")
    started = words.moment(pairs["StartTime"])
    comment, admin_comment = _COMMENT.search(tail), _ADMIN_COMMENT.search(tail)
    return Job(
        job_id=JobId(int(head["JobId"])),
        array_job_id=JobId(int(head["ArrayJobId"])) if "ArrayJobId" in head else None,
        array_task_id=int(array_task) if array_task.isdecimal() else None,
        array_tasks="" if array_task.isdecimal() else array_task,
        array_throttle=int(head.get("ArrayTaskThrottle", "0")),
        het_job_id=JobId(int(head["HetJobId"])) if "HetJobId" in head else None,
        het_offset=int(head["HetJobOffset"]) if "HetJobOffset" in head else None,
        name=name,
        user=user,
        account=words.text(pairs["Account"]),
        partitions=tuple(pairs["Partition"].split(",")),
        qos=words.text(pairs["QOS"]),
        state=state,
        flags=flags,
        reason="" if pairs["Reason"] == "None" else pairs["Reason"],
        priority=int(pairs["Priority"]),
        nice=int(pairs["Nice"]),
        batch=pairs["BatchFlag"] != "0",
        requeueable=pairs["Requeue"] != "0",
        restarts=int(pairs["Restarts"]),
        submit_time=words.moment(pairs["SubmitTime"]) or 0.0,
        eligible_time=words.moment(pairs["EligibleTime"]),
        start_time=started if state is not JobState.PENDING else None,
        end_time=words.moment(pairs["EndTime"]) if state in FINISHED else None,
        time_limit_s=words.seconds(pairs["TimeLimit"]),
        request=_request(pairs, tail),
        allocation=shares,
        reservation=words.text(pairs.get("Reservation", "")),
        dependency=words.text(pairs["Dependency"]),
        licenses=words.text(pairs["Licenses"]),
        comment=comment[1].strip() if comment else "",
        admin_comment=admin_comment[1].strip() if admin_comment else "",
        exit_status=int(status) if state in FINISHED else 0,
        exit_signal=int(by_signal) if state in FINISHED else 0,
    )


_ON_NODES = frozenset({JobState.RUNNING, JobState.SUSPENDED})


def _request(pairs: dict[str, str], tail: str) -> Request:
    low, _, high = pairs["NumNodes"].partition("-")
    asked = {key: words.gres(value) for key, value in _tail_pairs(tail).items() if key.startswith("TresPer")}
    per_task = pairs["CPUs/Task"]
    by_cpu, by_node = pairs.get("MinMemoryCPU"), pairs.get("MinMemoryNode")
    return Request(
        min_nodes=int(low),
        max_nodes=int(high or low),
        cpus=int(pairs["NumCPUs"].partition("-")[0]),
        # Slurm leaves the word out, or writes N/A, of a job that has none yet.
        tasks=int(tasks) if (tasks := pairs.get("NumTasks", "")).isdecimal() else 1,
        min_cpus_per_node=int(pairs["MinCPUsNode"]),
        cpus_per_task=int(per_task) if per_task.isdecimal() else 1,
        mem_per_node_mib=words.mebibytes(by_node) if by_node else None,
        mem_per_cpu_mib=words.mebibytes(by_cpu) if by_cpu else None,
        gres_per_node=asked.get("TresPerNode", ()),
        gres_per_job=asked.get("TresPerJob", ()),
        gres_per_task=asked.get("TresPerTask", ()),
        gres_per_socket=asked.get("TresPerSocket", ()),
        # Slurm 26.05 says OverSubscribe=NO of every job, and has a word of its own for whole nodes.
        exclusive=pairs.get("Exclusive") == "NODE" if "Exclusive" in pairs else pairs["OverSubscribe"] == "NO",
        features=words.text(pairs["Features"]),
        required_nodes=words.hosts(pairs["ReqNodeList"]),
        excluded_nodes=words.hosts(pairs["ExcNodeList"]),
    )


def _tail_pairs(tail: str) -> dict[str, str]:
    """Return the pairs at the very end of a record, read backwards up to the first word that is none of ours."""
    found: dict[str, str] = {}
    for word in reversed(tail.split(" ")):
        match = _TAIL_KEY.fullmatch(word)
        if match and match[1] == "Power":
            break
        if match:
            found.setdefault(match[1], match[2])
        elif word:
            break
    return found


def _allocation(middle: str, nodes: tuple[str, ...], pairs: dict[str, str]) -> tuple[NodeShare, ...]:
    """Return what the job holds on each node, from the detail lines; evenly spread where Slurm gives none."""
    held: dict[str, tuple[Tres, str]] = {}
    for group, cpu_ids, mem_mib, gres in _SHARE.findall(middle):
        tres = Tres(cpus=_count_ids(cpu_ids), mem_mib=int(mem_mib), gres=with_bare_names(words.gres(_indexed(gres))))
        held |= dict.fromkeys(words.hosts(group), (tres, cpu_ids))
    if not held and nodes:
        amounts = dict(part.split("=", 1) for part in pairs["TRES"].split(",") if "=" in part)
        spread = Tres(
            cpus=int(amounts.get("cpu", 0)) // len(nodes),
            mem_mib=(words.mebibytes(amounts.get("mem", "0")) or 0) // len(nodes),
        )
        held = dict.fromkeys(nodes, (spread, ""))
    return tuple(NodeShare(node=node, tres=held[node][0], cpu_ids=held[node][1]) for node in nodes if node in held)


def _indexed(value: str) -> str:
    # `gpu:a100:2(IDX:0,3)` has a comma inside its brackets.
    return re.sub(r"\([^)]*\)", "", value)


def _count_ids(value: str) -> int:
    """Return how many ids `0-7,16-17` names."""
    total = 0
    for part in value.split(","):
        low, dash, high = part.partition("-")
        total += int(high) - int(low) + 1 if dash else 1
    return total
