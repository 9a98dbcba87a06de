"""Changes that were seen to be put back, and are there again: slurmctld has gone on with an older state.

slurmctld writes its state some seconds after a change. If it is killed before, its successor, or a backup, has what
tesched had set, and not that it was put back (22.05.8). So a change that is over is known for as long
(`WRITTEN_WITHIN_S`), and until an answer has come after that: a job that shows the very value again has it put back
again. An admin's hold is shown as one of tesched's: it counts as that only in an answer that shows that slurmctld was
started, or a backup took over, lately, and not if it was there before, or came after an answer of that slurmctld
without it. Of begin times and throttles nothing is known: the next poll says enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tesched_core.model.change import HELD, WRITTEN_WITHIN_S, Change
from tesched_core.model.cluster import HELD_BY_US, Job
from tesched_core.model.field import Field, Nodes
from tesched_core.model.memory import Memory
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import Snapshot


def with_those_back_again(memory: Memory, snapshot: Snapshot) -> Memory:
    """Return the memory with the changes that were put back lately, and that jobs show again."""
    if not memory.put_back:
        return memory
    changes = {name: dict(by_job) for name, by_job in memory.changes.items()}
    known = tuple(each for each in memory.put_back if not _is_settled(each[0], snapshot))
    for one, _ in known:
        job, mine = snapshot.jobs.get(one.job_id), changes.setdefault(_kept_by(one), {})
        if job is None or job.finished or one.job_id in mine:
            continue
        if one.field is Field.HOLD and _is_held_again(job):
            mine[one.job_id] = replace(one, value=HELD, taken_at=None)
        elif _shows(one, job):
            mine[one.job_id] = one
    return replace(memory, changes={name: by_job for name, by_job in changes.items() if by_job}, put_back=known)


def with_put_back(before: Memory, after: Memory, now: UnixSeconds) -> Memory:
    """Return the memory after a cycle with the changes that are over since, and those that were shortly before."""
    known = tuple(each for each in before.put_back if 0 <= now - each[1] <= WRITTEN_WITHIN_S)
    new = tuple((one, now) for one in _over(before, after))
    return replace(after, put_back=known + new) if known or new or after.put_back else after


def _over(before: Memory, after: Memory) -> Iterator[Change[Any]]:
    for name in (Field.NICE, Field.NODES):
        left = after.changes_of(name)
        for job_id, one in before.changes_of(name).items():
            if job_id not in left and not (one.dry or one.restored or one.value == one.previous):
                yield one
    held = after.changes_of(Field.HOLD)
    for job_id, one in before.changes_of(Field.HOLD).items():
        if job_id not in held and one.by is None and not (one.dry or one.restored):
            yield one


def _kept_by(one: Change[Any]) -> Field:
    """Return the field under which a change is kept: an explicit priority stands for a nice value."""
    return Field.NICE if one.field is Field.PRIORITY else one.field


def _is_settled(one: Change[Any], snapshot: Snapshot) -> bool:
    """Check whether a later hold of a job that was released is others': it was there before slurmctld was started.

    Or slurmctld, as it was started, had the release.
    """
    job = snapshot.jobs.get(one.job_id)
    return one.field is Field.HOLD and job is not None and job.held != snapshot.controller_is_new


def _is_held_again(job: Job) -> bool:
    return job.pending and job.held and job.reason == HELD_BY_US


def _shows(one: Change[Any], job: Job) -> bool:
    if one.field is Field.NICE:
        return bool(job.nice == one.value)
    if one.field is Field.PRIORITY:
        return bool(job.priority == one.value)
    return isinstance(one.value, Nodes) and job.pending and job.request.required_nodes == one.value.names
