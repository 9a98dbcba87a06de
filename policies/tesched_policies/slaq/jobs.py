"""The trainings that SLAQ manages on a real cluster: elastic job arrays, and other jobs that have reported losses.

An array is elastic if its user says so (`--comment=elastic`), it is best effort and it is not protected. Its tasks are
workers of one training, of which any number may run. Its throttle has an effect only while one of them waits.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from tesched_core.guard.eligibility import protected
from tesched_core.intake.pending_reason import WAITS_FOR_RESOURCES
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.job_report import Curve, no_curve
from tesched_core.model.limits import Limits
from tesched_core.model.request import demand_per_node, requested_gpus, tasks_in
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.policy import View

#: Reason words of an array of which Slurm would start a task, if it fitted and its throttle were higher.
_STARTS = WAITS_FOR_RESOURCES | {"", "None", "JobArrayTaskLimit"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SlaqJob:
    """One training."""

    #: the array's waiting record, else the job; of an array without waiting tasks, one of its tasks
    job: Job
    #: the array's id, else the job's
    job_id: JobId
    #: its throttle decides how many of its tasks run
    elastic: bool
    #: Slurm would start another of them, if it fitted and its throttle were higher
    starts: bool
    curve: Curve
    target: float | None
    #: what it is measured in: "gpu" if it wants any, else "cpu"
    unit: str
    #: units that it holds now, and tasks that hold them
    held: int
    running: int
    #: units of one worker; of a job that is none, of all of it
    each: int
    #: workers that it could use: those that run and those that wait
    left: int


def managed_jobs(view: View) -> tuple[SlaqJob, ...]:
    """Return all trainings, in order of submission."""
    snapshot, limits = view.snapshot, view.limits
    tasks: dict[JobId, list[Job]] = defaultdict(list)
    alone: list[Job] = []
    reported = snapshot.reported
    for job_id, traits in snapshot.traits.items():
        # What most jobs are comes first: there may be 100,000 of them.
        if (not traits.elastic and job_id not in reported) or traits.job_class is not JobClass.BE:
            continue
        job = snapshot.jobs[job_id]
        if job.finished or job.completing or job.left_to_slurm or not view.scope.covers(job):
            continue
        if traits.elastic and job.array_job_id is not None:
            tasks[job.array_job_id].append(job)
        elif job_id in reported and len(reported[job_id].curve):
            alone.append(job)
    found = [_array(array, jobs, snapshot, limits) for array, jobs in tasks.items()]
    found += [_single(job, snapshot) for job in alone]
    return tuple(sorted(found, key=lambda one: (one.job.submit_time, one.job_id)))


def _array(array: JobId, jobs: list[Job], snapshot: Snapshot, limits: Limits) -> SlaqJob:
    running = [job for job in jobs if job.on_nodes and job.state is not JobState.SUSPENDED]
    # The one that stands for many, if there is one; else one that was put back in the queue.
    waiting = min((job for job in jobs if job.pending), key=lambda job: job.job_id != array, default=None)
    job = waiting or jobs[0]
    unit = "gpu" if requested_gpus(job.request) else "cpu"
    one_node = max(job.request.min_nodes, 1) == 1
    told = snapshot.reported_by_array.get(array)
    return SlaqJob(
        job=job,
        job_id=array,
        elastic=waiting is not None and one_node and not protected(job, limits),
        starts=waiting is not None and not waiting.held and waiting.reason in _STARTS,
        curve=told.curve if told else no_curve(),
        target=told.target_loss if told else None,
        unit=unit,
        held=sum(_units(share.tres.cpus, share.tres.gpus, unit) for one in running for share in one.allocation),
        running=len(running),
        each=_asked(job, unit),
        left=len(running) + sum(tasks_in(each) for each in jobs if each.pending),
    )


def _single(job: Job, snapshot: Snapshot) -> SlaqJob:
    told = snapshot.reported[job.job_id]
    unit = "gpu" if requested_gpus(job.request) else "cpu"
    shares = () if job.state is JobState.SUSPENDED else job.allocation
    return SlaqJob(
        job=job,
        job_id=job.job_id,
        elastic=False,
        starts=job.pending,
        curve=told.curve,
        target=told.target_loss,
        unit=unit,
        held=sum(_units(share.tres.cpus, share.tres.gpus, unit) for share in shares),
        running=int(bool(shares)),
        each=_asked(job, unit),
        left=1,
    )


def _units(cpus: int, gpus: int, unit: str) -> int:
    return gpus if unit == "gpu" else cpus


def _asked(job: Job, unit: str) -> int:
    nodes = max(job.request.min_nodes, 1)
    wanted = demand_per_node(job.request)
    return max(_units(wanted.cpus, wanted.gpus, unit) * nodes, 1)
