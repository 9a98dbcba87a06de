"""Reason word that Slurm would give a job that is not submitted: what keeps it, whatever resources are free.

`sbatch --test-only` counts of this the begin time alone: no hold, no dependency, no time limit of a partition and not
its State DOWN. Where a partition gives a job fewer or more nodes it says that no nodes are available.

Source
    sbatch(1), --begin and --dependency; squeue(1), JOB REASON CODES; tried on 22.05.8.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from tesched_core.model.cluster import HELD_BY_ITS_USER, Job, JobState, Partition
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.sbatch_options import SbatchOption

from tesched_daemon.submission.begin_time import begin_time
from tesched_daemon.submission.read import time_limit_s

#: of a job that Slurm starts as soon as resources are free
RESOURCES = "Resources"
#: of a job with a time limit above its partition's
PARTITION_TIME = "PartitionTimeLimit"
_MINUTE_S = 60
#: `afterok:12:14`, `after:12+5`; `12` alone is afterany
_DEPENDS = re.compile(r"(after|afterany|afterok|afternotok|)((?::\d{1,10}(?:\+\d{1,6})?)+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonWord:
    """The word, and what is not certain of it."""

    word: str
    #: when the job is eligible; None: not known
    eligible_time: UnixSeconds | None
    #: options of which it is not known whether they keep the job
    unread: tuple[str, ...] = ()


def reason_word(
    options: Mapping[str, SbatchOption], job: Job, seen: Snapshot, notes: list[str], *, request_known: bool = True
) -> ReasonWord:
    """Return the reason word of a job that has its partitions, QOS, request and time limit; `notes` gets assumptions.

    Without `request_known` its request is not read, and counts of nodes forbid nothing.
    In the order in which Slurm goes through them: a hold, the begin time, dependencies, then its partitions.
    """
    now = seen.taken_at
    if "hold" in options:
        return ReasonWord(word=HELD_BY_ITS_USER, eligible_time=now)
    unread: list[str] = []
    begin = options.get("begin")
    if begin is not None and begin.value:
        at = begin_time(begin.value, now)
        if at is None:
            unread.append(f"--begin={begin.value}")
            notes.append(f"--begin={begin.value}: the time is not understood here; Slurm's own word counts it")
        elif at > now + 1:
            return ReasonWord(word="BeginTime", eligible_time=at)
    if job.dependency:
        depends = _depends(job, seen, notes)
        if depends:
            return ReasonWord(word="Dependency", eligible_time=None)
        unread += [f"--dependency={job.dependency}"] if depends is None else []
    word = _of_partitions(options, job, seen, request_known=request_known)
    return ReasonWord(word=word or RESOURCES, eligible_time=now, unread=tuple(unread))


def _of_partitions(options: Mapping[str, SbatchOption], job: Job, seen: Snapshot, *, request_known: bool) -> str:
    """Return the word where none of its partitions would start the job, that of the first one; empty: one would."""
    words = [
        _of_partition(seen.partitions[name], options, job, seen, request_known=request_known) for name in job.partitions
    ]
    return "" if "" in words else words[0]


def _of_partition(
    partition: Partition, options: Mapping[str, SbatchOption], job: Job, seen: Snapshot, *, request_known: bool
) -> str:
    if partition.doubt:
        return ""
    if partition.state != "UP":
        return "PartitionInactive" if partition.state == "INACTIVE" else "PartitionDown"
    lifted = seen.limits.rules_of(job.qos).flags
    shortest = options.get("time-min")
    time_s = time_limit_s(shortest.value) if shortest is not None else job.time_limit_s
    longest = None if "partitiontimelimit" in lifted else partition.max_time_s
    if "time" in options and longest is not None and (time_s is None or time_s > longest):
        return PARTITION_TIME
    fewest, most = job.request.min_nodes, max(job.request.min_nodes, job.request.max_nodes)
    too_many = "partitionmaxnodes" not in lifted and fewest > (partition.max_nodes or fewest)
    # A job that names no nodes gets as many as the partition's MinNodes.
    too_few = "partitionminnodes" not in lifted and "nodes" in options and most < partition.min_nodes
    return "PartitionNodeLimit" if request_known and (too_many or too_few) else ""


def _depends(job: Job, seen: Snapshot, notes: list[str]) -> bool | None:
    """Check whether a dependency keeps the job; None: its form, or what comes of it, is not known."""
    text = job.dependency.lower()
    if "?" in text and "," in text:
        return None
    # With a question mark one of them is enough, with a comma all of them count.
    parts = [_keeps(part, job, seen, notes) for part in re.split("[?,]", text)]
    decides = "?" not in text
    if decides in parts:
        return decides
    return None if None in parts else not decides


def _keeps(part: str, job: Job, seen: Snapshot, notes: list[str]) -> bool | None:
    """Check whether one part of a dependency keeps the job; None: not known."""
    if part == "singleton":
        return any(one.user == job.user and one.name == job.name and not one.finished for one in seen.jobs.values())
    found = _DEPENDS.fullmatch(f":{part}" if part[:1].isdecimal() else part)
    if found is None or (found[1] != "after" and "+" in part):
        return None
    verdicts = [_keeps_for(found[1], one, job, seen, notes) for one in found[2][1:].split(":")]
    return True if True in verdicts else None if None in verdicts else False


def _keeps_for(kind: str, text: str, job: Job, seen: Snapshot, notes: list[str]) -> bool | None:
    """Check whether `12`, or `12+5`, keeps the job: all tasks of an array count."""
    number, _, minutes = text.partition("+")
    job_id = int(number)
    known = [one for one in seen.jobs.values() if job_id in {one.job_id, one.array_job_id}]
    if not known:
        notes.append(f"--dependency={job.dependency}: Slurm knows no job {job_id} (any more); that counts as fulfilled")
        return False
    if kind == "after":
        return any(_not_begun(one, int(minutes or 0) * _MINUTE_S, seen.taken_at) for one in known)
    if any(not one.finished for one in known):
        return True
    if kind in {"", "afterany"}:
        return False
    well = all(one.state is JobState.COMPLETED for one in known)
    return well if kind == "afternotok" else not well


def _not_begun(job: Job, later_s: int, now: UnixSeconds) -> bool:
    """Check whether a job has yet to start, or has not started so long ago."""
    if job.state is JobState.PENDING:
        return True
    return bool(later_s) and job.start_time is not None and now < job.start_time + later_s
