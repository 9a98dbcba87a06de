"""Values that are written of a job, by column, and which of them a new record of it changes.

They stand in groups, each with what of the job and its traits it is made from: where none of that has changed the group
has not, and is not made. Most changes of a job are of its state alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache
from operator import attrgetter
from typing import Any

from tesched_core.intake.ends_for_good import ends_when_preempted
from tesched_core.intake.patience import patience_ends
from tesched_core.model.cluster import Job, Request
from tesched_core.model.request import demand_per_node, requested_gpus
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import JobClass, Traits

from tesched_db.rows import Values
from tesched_db.user_text import storable


def another_job(values: Values, job: Job) -> bool:
    """Check whether `job` merely has the id of the job that was last written as `values`.

    Slurm's counter wraps, and starts anew when slurmctld loses its state. A requeue resets the submit time too, but
    then the count of restarts has gone up, and the user is the same.
    """
    if job.submit_time == values["submit_time"]:
        return False
    return job.restarts == 0 or job.restarts < values["restarts"] or storable(job.user) != values["user"]


def job_values(job: Job, traits: Traits, idle_since: UnixSeconds | None = None) -> Values:
    """Values that are written of a job, by column."""
    return {
        **_submitted(job),
        **_classified(job, traits),
        **_requested(job.request),
        **_state(job, traits, idle_since),
    }


def changed_values(then: tuple[Job, Traits, UnixSeconds | None], now: tuple[Job, Traits, UnixSeconds | None]) -> Values:
    """Return the values of a job as it is that are others than those of the job as it was, by column."""
    (job, traits, _), (job_now, traits_now, _) = then, now
    made = [_different(_state, then, now)]
    if _SUBMITTED(job) != _SUBMITTED(job_now):
        made.append(_different(_submitted, (job,), (job_now,)))
    if (traits is not traits_now and traits != traits_now) or job.comment != job_now.comment:
        made.append(_different(_classified, (job, traits), (job_now, traits_now)))
    if job.request is not job_now.request and job.request != job_now.request:
        made.append(_different(_requested, (job.request,), (job_now.request,)))
    return made[0] if len(made) == 1 else {name: value for values in made for name, value in values.items()}


def _different(values_of: Callable[..., Values], then: tuple[Any, ...], now: tuple[Any, ...]) -> Values:
    before = values_of(*then)
    return {name: value for name, value in values_of(*now).items() if value != before[name]}


#: what `_submitted` is made from
_SUBMITTED: Callable[[Job], tuple[Any, ...]] = attrgetter(
    *("job_id", "submit_time", "array_job_id", "array_task_id", "array_tasks", "het_job_id", "het_offset"),
    *("name", "user", "account", "partitions", "qos"),
)


def _submitted(job: Job) -> Values:
    return {
        "job_id": job.job_id,
        "submit_time": job.submit_time,
        "array_job_id": job.array_job_id,
        "array_task_id": job.array_task_id,
        "het_job_id": job.het_job_id,
        "het_offset": job.het_offset,
        "label": storable(job.label),
        "name": storable(job.name),
        "user": storable(job.user),
        "account": storable(job.account),
        "partition": storable(",".join(job.partitions)),
        "qos": storable(job.qos),
    }


def _classified(job: Job, traits: Traits) -> Values:
    """Values of a job's traits and its comment."""
    return {
        "job_class": traits.job_class.value,
        "rule": storable(traits.rule),
        "grace_period_s": traits.grace_period_s,
        "grace_source": storable(traits.grace_source),
        "notice_signal": traits.notice_signal,
        "notice_target": traits.notice_target.value,
        "notice_source": storable(traits.notice_source),
        "exit0": traits.exit0.value,
        "elastic": traits.elastic,
        "ends": traits.job_class is JobClass.BE and ends_when_preempted(job.comment),
        "most_preemptions": traits.most_preemptions,
        "not_followed": [{key: storable(value) for key, value in asdict(one).items()} for one in traits.not_followed],
        "run_time_s": traits.run_time_s,
    }


def _state(job: Job, traits: Traits, idle_since: UnixSeconds | None) -> Values:
    patience_s = until = None
    if traits.patience_s:
        # A hold ends that it is eligible, and Slurm's first pass after its release begins that anew.
        is_eligible = job.pending and not job.held and job.eligible_time is not None
        patience_s = traits.patience_s if job.pending else None
        until = patience_ends(job, traits) if is_eligible else None
    return {
        "state": str(job.state),  # `value` takes longer than all else here
        "flags": ",".join(sorted(job.flags)) if job.flags else "",
        "reason": storable(job.reason),
        "priority": job.priority,
        "nice": job.nice,
        "restarts": job.restarts,
        "start_time": job.start_time,
        "end_time": job.end_time,
        "time_limit_s": job.time_limit_s,
        "patience_s": patience_s,
        "patience_until": until,
        "idle_since": idle_since,
        "nodes": list(job.nodes),
    }


@lru_cache(maxsize=4096)
def _requested(request: Request) -> Values:
    nodes = max(request.min_nodes, 1)
    return {
        "cpus": request.cpus,
        "mem_mib": demand_per_node(request).mem_mib * nodes,
        "gpus": requested_gpus(request),
        "min_nodes": nodes,
    }
