"""Waiting TE jobs that would start on free resources, and what the others wait for.

Resources are freed only for a job that Slurm would start on them. Its reason word says so: Resources or Priority. A job
that waits for a limit, a dependency, a licence, a begin time or a hold gains nothing from a preemption.
Source: squeue(1), JOB REASON CODES.
"""

from __future__ import annotations

import re

from tesched_core.model.change import By
from tesched_core.model.cluster import HELD_BY_US, OF_A_HOLD, Job, JobState
from tesched_core.model.decision import RefusalCode
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import JobClass, Snapshot

#: Reason words that mean: it would start if it fitted and were first. The long one is what Slurm says on a
#: full partition of which a node is down or drained; which nodes are left is then our own question (`fit`).
WAITS_FOR_RESOURCES = frozenset(
    {
        "Resources",
        "Priority",
        "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions",
    }
)


_REASONS: tuple[tuple[re.Pattern[str], RefusalCode, str], ...] = tuple(
    (re.compile(pattern), code, text)
    for pattern, code, text in (
        (OF_A_HOLD.pattern, RefusalCode.HELD, "it is held"),
        (r"Dependency", RefusalCode.DEPENDENCY, "it waits for another job (dependency)"),
        (r"BeginTime", RefusalCode.BEGIN_TIME, "its begin time has not come"),
        (r"Licenses", RefusalCode.LICENSES, "it waits for a licence"),
        (r"Reservation", RefusalCode.RESERVATION, "it waits for its reservation"),
        (r"PartitionDown|PartitionInactive", RefusalCode.PARTITION_DOWN, "its partition starts no jobs"),
        (
            r"ReqNodeNotAvail|NodeDown|DOWN|DRAINED|BadConstraints",
            RefusalCode.NODE_DOWN,
            "nodes that it needs are down, drained or reserved",
        ),
        (r"Limit|^(Assoc|QOS)|Max\w+Per", RefusalCode.LIMIT, "it has reached a limit"),
        (r"^(None)?$", RefusalCode.NOT_CONSIDERED_YET, "Slurm has not considered it yet"),
    )
)


#: What Slurm says of a job that does not start whatever else ends, unless an admin or its user changes it. Not a
#: limit of several jobs together: that such a one is 0 is not said (tried on 22.05).
_NEVER = re.compile(
    r"InvalidQOS|InvalidAccount|BadConstraints|AccountNotAllowed|QOSNotAllowed|Job's[ _](account|QOS)"
    r"|Partition(Config|TimeLimit|NodeLimit)|(Assoc|QOS)Max\w+Per(Job|Node)|QOSMin\w+|Job(Hold|Held)Max"
    # 26.05 has a sentence where 22.05 says PartitionConfig.
    r"|MaxMemPerLimit|uid[ _]\d+[ _]not[ _]in[ _]group"
)
#: Beginnings of what Slurm says of a run that has failed: by an exit code, or by a signal (on 22.05, and since then).
_FAILURES = ("NonZeroExitCode", "JobLaunchFailure", "RaisedSignal")

_FIRM = frozenset(
    {
        RefusalCode.DEPENDENCY,
        RefusalCode.BEGIN_TIME,
        RefusalCode.LICENSES,
        RefusalCode.LIMIT,
        RefusalCode.PARTITION_DOWN,
    }
)


#: It may start, for all that is known.
_UNKNOWN = frozenset({RefusalCode.NOT_CONSIDERED_YET, RefusalCode.UNREAD, RefusalCode.UNSUPPORTED})


#: What Slurm says of a job only when it comes to it: of one behind another it says Priority.
_SHOWS_AT_THE_HEAD = frozenset({RefusalCode.LIMIT, RefusalCode.LICENSES})


#: Why no resources are freed for a job of a crontab, and it is not held.
OF_CRONTAB = (
    "it is of its user's crontab (scrontab), and Slurm refuses each change of such a job; Slurm alone places it"
)


#: The same of a federated job.
FEDERATED = (
    "other clusters of the federation may run it, too (--clusters with this one alone would keep it here), and Slurm"
    " sends each change of it to them; Slurm alone places it"
)


#: The same of an array: `--clusters` may keep it here, but Slurm does not show that.
FEDERATED_ARRAY = (
    "it is of an array that was submitted in a federation: Slurm does not show whether other clusters may run it, too,"
    " once it is requeued (--clusters is seen of a job that is no array); Slurm alone places it"
)


def why_left_to_slurm(job: Job) -> str:
    """Sentence on why no resources are freed for it, and it is not held; empty: it is none of these."""
    if job.of_crontab:
        return OF_CRONTAB
    if job.federated:
        return FEDERATED if job.array_job_id is None else FEDERATED_ARRAY
    return ""


def has_failed(job: Job) -> bool:
    """Check whether a job's run has failed. While it is completing its state is hidden, and its reason shows it."""
    return job.state is JobState.FAILED or (job.completing and job.reason.startswith(_FAILURES))


def starts_no_more(reason: str) -> bool:
    """Check whether a pending job with this reason word does not start again as things are, whatever else ends."""
    return _NEVER.match(reason) is not None


def resources_would_not_help(job: Job) -> tuple[RefusalCode, str] | None:
    """Reason that free resources would not help this pending job; None if they would."""
    if job.doubt or job.partly_read:
        return RefusalCode.UNREAD, job.doubt or job.partly_read
    if job.held:
        return RefusalCode.HELD, f"it is held (Slurm says: {job.reason or 'priority 0'})"
    if job.reason in WAITS_FOR_RESOURCES:
        if job.het_job_id is not None:
            return RefusalCode.UNSUPPORTED, "it is a heterogeneous job, which tesched does not serve"
        return None
    for pattern, code, text in _REASONS:
        if pattern.search(job.reason):
            return code, f"{text}, and free resources would not help (Slurm says: {job.reason or 'nothing yet'})"
    return RefusalCode.OTHER_REASON, f"free resources would not help (Slurm says: {job.reason})"


def starts_by_itself(job: Job, now: UnixSeconds, within_s: float) -> bool:
    """Check whether a pending job starts once it fits, as far as is known: it awaits nothing else.

    A begin time less than `within_s` seconds from now does not count: Slurm gives one to each job that is requeued.
    """
    why = resources_would_not_help(job)
    if why is not None and why[0] is RefusalCode.BEGIN_TIME:
        return begins_within(job, now, within_s)
    return why is None or why[0] in _UNKNOWN


def begins_within(job: Job, now: UnixSeconds, within_s: float) -> bool:
    """Check whether a pending job has no begin time more than `within_s` seconds from now."""
    return job.eligible_time is None or job.eligible_time - now <= within_s


def shows_no_other_hold(job: Job) -> bool:
    """Check whether a held job may be held as tesched holds one, and not in another way.

    A hold may reach Slurm as the job starts: it lasts over its requeue. At first Slurm gives the end of its last run as
    the reason, such as NonZeroExitCode, or none; any other hold has a reason of its own, as has a job that Slurm holds
    because it never starts (BadConstraints).
    """
    another = OF_A_HOLD.search(job.reason) is not None or starts_no_more(job.reason)
    return job.held and (job.reason == HELD_BY_US or not another)


def waits_at_the_head(job: Job) -> bool:
    """Check whether a job waits for what Slurm says of it at the head of its queue alone: a limit, or a licence."""
    why = resources_would_not_help(job)
    return why is not None and why[0] in _SHOWS_AT_THE_HEAD


def blocked(job: Job, *, at_the_head: bool = False) -> str:
    """Reason that a pending job with an order would not start on free resources any more; empty if it would.

    Only what Slurm says for certain counts: while a node is emptied its word may be a passing one. A job with
    no victim and is only kept `at_the_head` of the queue stays there while it is at a limit or lacks a licence:
    elsewhere in the queue Slurm would not say whether it still does.
    """
    why = resources_would_not_help(job)
    if why is None or (at_the_head and waits_at_the_head(job)):
        return ""
    return why[1] if why[0] in _FIRM else ""


def seen_at_the_head(job: Job) -> bool:
    """Check whether Slurm has considered this waiting job as the first of its queue, and it lacks resources alone.

    Of a job behind another one Slurm says Priority, whatever else it may wait for; limits show only at the head. Each
    change of its nice value, priority or nodes makes it say None until the next pass (22.05 and 26.05).
    """
    return job.reason in WAITS_FOR_RESOURCES and job.reason != "Priority"


def may_lack_a_licence(job: Job) -> bool:
    """Check whether a job with licences may lack them, though Slurm has considered it at the head of its queue.

    That nodes are down or reserved is said once limits are checked, and before licences are (job_scheduler.c of 22.05).
    It is said for as long as a node is away.
    """
    return bool(job.licenses) and job.reason != "Resources"


def awaits_first_look(snapshot: Snapshot, within_s: float, memory: Memory | None = None) -> JobId | None:
    """First TE job that Slurm has yet to consider, of those submitted less than `within_s` seconds ago.

    One that was put at the head of the queue so long ago, by the orders in `memory`, awaits a pass there. Until then
    it is not known whether free resources would help it. A job whose reason stays away for longer (a scheduler
    that is far behind) is polled at the ordinary pace.
    """
    for order in memory.open_orders() if memory else ():
        job = snapshot.jobs.get(order.preemptor)
        raised = memory.raised(By.PREEMPTOR).get(order.preemptor) if memory else None
        if not order.waits or raised is None or raised.taken_at is None or job is None or not job.pending:
            continue
        if not seen_at_the_head(job) and 0 <= snapshot.taken_at - raised.taken_at < within_s:
            return job.job_id
    waiting = (
        (job.submit_time, job.job_id)
        for job in snapshot.jobs.values()
        # On a clock that differs from slurmctld's, no job may be new for ever. First, as it is so of the fewest.
        if abs(snapshot.taken_at - job.submit_time) < within_s
        and job.state is JobState.PENDING
        and not job.held
        and not has_reason(job.reason)
        and snapshot.traits[job.job_id].job_class is JobClass.TE
    )
    first = min(waiting, default=None)
    return first[1] if first else None


def has_reason(word: str) -> bool:
    """Check whether this reason word of a pending job says anything: before Slurm has considered a job it does not."""
    return word not in {"", "None"}


def asks_for_nodes_alone(job: Job, now: UnixSeconds) -> bool:
    """Check whether a job that does not say what it waits for can wait for nothing but resources, limits apart."""
    return (
        not job.held
        and not (job.doubt or job.partly_read)
        and not (job.dependency or job.licenses or job.reservation or job.array_tasks)
        and job.array_job_id is None
        and job.het_job_id is None
        and job.eligible_time is not None
        and job.eligible_time <= now
    )
