"""Limits on what TE jobs hold at once (`guard.te`): a TE job above them waits, as BE jobs do.

Principle
    Pending TE jobs come in the order of their submission. One that may start counts as running at once, since Slurm may
    start it at any time. So does one that awaits what its user may end at any moment, by a `scancel` say: a dependency,
    a licence, a limit of Slurm's; else any number would be let go one after the other, and start together. Those behind
    a dependency come last, held or not: no job waits for one that waits for it. One that waits for a licence or a limit
    counts for its user alone, since others would wait for it. One that awaits what comes by itself or never (a hold, a
    begin time, a reservation) neither counts nor is held back. A share of the cluster that is kept at each moment is
    kept in each hour.

    One that must end by a time (--deadline) is held as any other, though Slurm may end it in the queue: else each user
    could lift the limits with it.

    The number of a user's TE jobs in the queue is the submission hook's to keep, which refuses what is above it. One
    that has come all the same (no hook, a class that was not certain at its submission, a change) waits until there are
    fewer.

Worked example
    max_running_per_user = 1: of three pending TE jobs of one user the first may start. When it ends the second may.

Source
    tesched's own; the debug partitions of many sites have such limits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from tesched_core.intake.job_times import most_run_s
from tesched_core.intake.pending_reason import resources_would_not_help, starts_by_itself, starts_no_more
from tesched_core.model.cluster import Job
from tesched_core.model.decision import Refusal, RefusalCode
from tesched_core.model.limits import TeLimits
from tesched_core.model.outlived import Barred
from tesched_core.model.request import requested_gpus, takes_whole_nodes, tasks_in
from tesched_core.model.resources import JobId, Tres, UnixSeconds
from tesched_core.model.snapshot import JobClass, Snapshot

#: what a job waits for, and its user may end: another job of its user's holds the licence, or is at the limit
_ENDED_BY_ITS_USER = frozenset({RefusalCode.DEPENDENCY, RefusalCode.LICENSES, RefusalCode.LIMIT})
_MOST = "guard.te.max_outlived_per_user_day"


class _Wanted(NamedTuple):
    """What a job holds, or would hold; of a pending array all tasks that may run at once."""

    user: str
    jobs: int
    node_minutes: float
    cpus: int
    gpus: int
    #: how many it is in the queue
    submitted: int


@dataclass
class _Held:
    """What TE jobs hold, and those that may start."""

    running: Counter[str] = field(default_factory=Counter)
    node_minutes: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    cpus: int = 0
    gpus: int = 0
    #: TE jobs that wait or run, those above this limit apart
    submitted: Counter[str] = field(default_factory=Counter)
    #: tasks that run, by array
    tasks: Counter[JobId | None] = field(default_factory=Counter)

    def add(self, one: _Wanted) -> None:
        self.running[one.user] += one.jobs
        self.node_minutes[one.user] += one.node_minutes
        self.cpus += one.cpus
        self.gpus += one.gpus


def above_te_limits(
    trials: Collection[Job],
    snapshot: Snapshot,
    limits: TeLimits,
    held_by_us: Iterable[JobId],
    *,
    let_through: Collection[JobId] = (),
    barred: Mapping[str, Barred] = MappingProxyType({}),
    poll_s: float = 0.0,
) -> Mapping[JobId, Refusal]:
    """Reasons for which pending TE jobs must not start yet, by job.

    One whose begin time comes within two polls, of at most `poll_s` seconds, may start before a hold arrives.
    None of a user who is `barred` starts. Jobs that are `held_by_us` would start if tesched let them. Those that an
    operator has `let_through` count first, as they may start at any time: one above the limits for its user alone until
    it runs, since others would wait for all tasks of an array.
    """
    if not limits.is_set:
        return {}
    held = _Held()
    for job_id, job in snapshot.jobs.items():
        if job.on_nodes and snapshot.job_class(job_id) is JobClass.TE:
            cpus, gpus = _amounts(share.tres for share in job.allocation)
            held.add(_Wanted(job.user, 1, len(job.nodes) * most_run_s(job) / 60, cpus, gpus, 1))
            held.submitted[job.user] += 1
            held.tasks[job.array_job_id] += job.array_job_id is not None
    whole = _amounts(node.total for node in snapshot.nodes.values())
    ours, found = set(held_by_us), dict[JobId, Refusal]()

    @cache
    def largest(partition: str) -> int:
        """Return the CPUs of the largest node of a partition."""
        nodes = (snapshot.nodes.get(name) for name in snapshot.partitions[partition].nodes)
        return max((node.total.cpus for node in nodes if node is not None), default=0)

    def in_turn(job: Job) -> tuple[bool, UnixSeconds, JobId]:
        return job.job_id not in let_through, job.submit_time, job.job_id

    starts = {one.job_id: one.job_id in ours or starts_by_itself(one, snapshot.taken_at, 2 * poll_s) for one in trials}
    waits = sorted((job for job in trials if starts[job.job_id] or _may_be_freed(job)), key=in_turn)
    ahead = _submitted_ahead(sorted(trials, key=in_turn), waits, held.submitted, limits)
    for job in sorted(waits, key=_is_behind_another):
        cpus = _cpus(job, snapshot, largest)
        wanted = _wanted(job, cpus, held.tasks[job.array_job_id])
        held.submitted[job.user] = ahead[job.job_id]
        if job.user in barred:
            over = f"{barred[job.user].said}; {_MOST} is {barred[job.user].most}"
        elif over := _over(wanted, held, whole, limits):
            over += _if_alone(job, _wanted(job, cpus, 0), whole, limits)
        if over:
            found[job.job_id] = Refusal(job_id=job.job_id, preemptor=job.job_id, code=RefusalCode.TE_LIMIT, text=over)
        if not over and (starts[job.job_id] or _is_behind_another(job)):
            held.add(wanted)
        elif not over or job.job_id in let_through:
            held.add(wanted._replace(cpus=0, gpus=0))
    return found


def _submitted_ahead(
    trials: Iterable[Job], waits: Iterable[Job], running: Mapping[str, int], limits: TeLimits
) -> Mapping[JobId, int]:
    """Count the TE jobs of each one's user that are in the queue before it; one that is one too many is left out."""
    count, may_wait = Counter(running), {job.job_id for job in waits}
    ahead = dict[JobId, int]()
    for job in trials:
        ahead[job.job_id], tasks = count[job.user], tasks_in(job)
        if job.job_id not in may_wait or not 0 < limits.max_submitted_per_user < count[job.user] + tasks:
            count[job.user] += tasks
    return ahead


def _is_behind_another(job: Job) -> bool:
    """Check whether a job depends on another one; of a held job its reason does not say so."""
    return bool(job.dependency) or job.reason.startswith("Dependency")


def _may_be_freed(job: Job) -> bool:
    """Check whether a pending job waits for what its user may end at any moment."""
    why = resources_would_not_help(job)
    return why is not None and why[0] in _ENDED_BY_ITS_USER and not starts_no_more(job.reason)


def _if_alone(job: Job, alone: _Wanted, whole: tuple[int, int], limits: TeLimits) -> str:
    """Advice for a job that is above the limits by itself, in words; empty for any other."""
    if not _over(alone, _Held(), whole, limits):
        return ""
    most = limits.max_running_per_user
    helps = 0 < most < alone.jobs and not _is_one_too_many(alone, _Held(), limits)
    throttle = f": as --array={job.array_tasks.partition('%')[0]}%{most} it would" if helps else ""
    return f"; alone it is above that, and never starts as it is{throttle}"


def _cpus(job: Job, snapshot: Snapshot, largest: Callable[[str], int]) -> int:
    """Return the CPUs that a job, or a task of an array, gets; of one that gets whole nodes, at most."""
    whole = [name for name in job.partitions if takes_whole_nodes(job.request, snapshot.partitions.get(name))]
    known = [largest(name) for name in whole if name in snapshot.partitions]
    return _nodes(job) * max(known) if known else job.request.cpus


def _nodes(job: Job) -> int:
    """Return the nodes that it gets, or may get where Slurm spreads its GPUs."""
    return max(job.request.min_nodes, job.request.reckoned_nodes)


def _wanted(job: Job, cpus: int, running_tasks: int) -> _Wanted:
    """Request of all that starts with a job: of an array of which so many tasks run, what its throttle lets start."""
    tasks = tasks_in(job)
    if job.array_tasks and job.array_throttle:
        tasks = min(tasks, max(job.array_throttle - running_tasks, 0))
    node_minutes = _nodes(job) * most_run_s(job) / 60
    gpus = tasks * requested_gpus(job.request)
    return _Wanted(job.user, tasks, tasks * node_minutes, tasks * cpus, gpus, tasks_in(job))


def submitted_by_user(snapshot: Snapshot) -> Mapping[str, int]:
    """Count the TE jobs of each user that wait or run."""
    found = Counter[str]()
    for job_id, job in snapshot.jobs.items():
        if not job.finished and snapshot.job_class(job_id) is JobClass.TE:
            found[job.user] += tasks_in(job) if job.pending else 1
    return found


def _is_one_too_many(wanted: _Wanted, held: _Held, limits: TeLimits) -> bool:
    most = limits.max_submitted_per_user
    return most > 0 and held.submitted[wanted.user] + wanted.submitted > most


def _over(wanted: _Wanted, held: _Held, whole: tuple[int, int], limits: TeLimits) -> str:
    """Limit that the job would pass, in words; empty if none."""
    user, running = wanted.user, held.running[wanted.user] + wanted.jobs
    if _is_one_too_many(wanted, held, limits):
        return (
            f"it is one of {held.submitted[user] + wanted.submitted} TE jobs of {user} in the queue; "
            f"guard.te.max_submitted_per_user is {limits.max_submitted_per_user}"
        )
    if limits.max_running_per_user and running > limits.max_running_per_user:
        return (
            f"with it {running} TE jobs of {user} would run at once; guard.te.max_running_per_user is "
            f"{limits.max_running_per_user}"
        )
    minutes, most_minutes = held.node_minutes[user] + wanted.node_minutes, limits.max_node_minutes_per_user
    if most_minutes and minutes > most_minutes:
        return (
            f"with it TE jobs of {user} would have {minutes:g} node-minutes; guard.te.max_node_minutes_per_user is "
            f"{most_minutes:g}"
        )
    for name, amount, total in (
        ("CPUs", held.cpus + wanted.cpus, whole[0]),
        ("GPUs", held.gpus + wanted.gpus, whole[1]),
    ):
        if limits.max_cluster_share < 1 and amount > limits.max_cluster_share * total:
            return (
                f"with it TE jobs would hold {amount} of {total} {name}; guard.te.max_cluster_share is "
                f"{limits.max_cluster_share:g}"
            )
    return ""


def _amounts(amounts: Iterable[Tres]) -> tuple[int, int]:
    """Return CPUs and GPUs."""
    both = list(amounts)
    return sum(tres.cpus for tres in both), sum(tres.gpus for tres in both)
