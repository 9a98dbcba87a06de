"""Came back: TE jobs without a useful run while Slurm preempts by itself, and how long they have no further victims.

Definitions
    came back    a TE job was in the queue again before its run was a useful one (`orders/useful_run.py`): it has
                 requeued itself, or a Prolog or a node of its has failed.

Principle
    With `guard.lever = "plugin"` no order says for which TE job a victim left, and one that comes back from free nodes
    has cost no job anything. That it came back its record says: Slurm's count of its restarts has risen. Which jobs had
    victims the plugin knows. So the marks file names the TE jobs that came back, and until when they wait; the plugin
    preempts none for a job that is named there and had victims in one of the runs that count.

    The wait doubles with each return, and after `guard.max_futile_orders_per_job` it lasts until what the job asks for
    changes, as with the other levers (`orders/futility.py`). A useful run ends both.

    A slurmctld that was restarted has forgotten which jobs had victims. So the file says, too, when the last victim
    left in whose place the job has started, by Slurm's clock: that counts where the plugin was loaded later. It is
    kept for a day.

    A run that no poll saw was a short one, as far as polls were no further apart than a useful run is long. What came
    back while no daemon ran does not count.

Parameters
    guard.useful_run_s, guard.retry_after_s, guard.max_futile_orders_per_job

Source
    tesched's own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from math import ceil

from tesched_core.context import CycleContext
from tesched_core.model.actions import CameBack
from tesched_core.model.cluster import Job
from tesched_core.model.decision import RefusalCode, Why
from tesched_core.model.job_memory import Futility
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.memory import Memory, TeRun
from tesched_core.model.order import Ending
from tesched_core.model.payment import Paid
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import JobClass
from tesched_core.orders.futility import useful_run_s, wait_s, was_useful


def see_returns(memory: Memory, context: CycleContext) -> Memory:
    """Return the memory after the TE jobs' runs; those that came back since the last poll are noted in the draft."""
    if context.limits.lever is not YieldBy.PLUGIN:
        return memory if memory.te_poll is None else replace(memory, te_runs={}, te_poll=None)
    draft = context.draft
    runs = {job_id: run for job_id, run in memory.te_runs.items() if job_id in context.absent}
    for job in context.snapshot.jobs.values():
        if job.job_id in context.absent or context.snapshot.job_class(job.job_id) is not JobClass.TE:
            continue
        before = memory.te_runs.get(job.job_id)
        if job.finished and before is None:
            continue
        if before is None and job.array_job_id is not None:
            # Slurm gives a task a record of its own when it starts; until then that of its array was its own.
            before = memory.te_runs.get(job.array_job_id)
        if before is None and memory.te_poll is not None and job.job_id > memory.te_poll[1] and job.restarts:
            # It was submitted, started and came back since the last poll.
            before = TeRun(restarts=job.restarts - 1, at=memory.te_poll[0])
        runs[job.job_id] = _seen(job, before, context)
        known = draft.job(job.job_id).futile
        if known is not None and known.ending is Ending.CAME_BACK and known.count > job.restarts:
            draft.update(job.job_id, futile=None)  # another job has its id now
            known = None
        times, last_was_useful = _short_runs(job, before, context)
        if last_was_useful and known is not None and known.ending is Ending.CAME_BACK:
            draft.update(job.job_id, futile=None, retry_at=None)
            known = None
        if times:
            count = times + (known.count if known is not None and known.by_itself else 0)
            first = max(job.restarts - times, 0)
            if known is not None and known.first_restart is not None:
                first = min(first, known.first_restart)  # also where returns in between were not seen
            futile = Futility(count=count, ending=Ending.CAME_BACK, said=job.reason, first_restart=first)
            draft.update(job.job_id, futile=futile, retry_at=context.now + wait_s(count, context.limits))
    newest = max(context.snapshot.jobs, default=JobId(0))
    return replace(memory, te_runs=runs, te_poll=(context.now, newest))


def _seen(job: Job, before: TeRun | None, context: CycleContext) -> TeRun:
    run = TeRun(restarts=job.restarts, at=context.now)
    same = before if before is not None and before.restarts == job.restarts else None
    if same is not None and (same.running_since is not None or same.over or same.useful):
        run = replace(same, at=context.now)
    elif job.pending:
        return run  # as most are, in each poll
    if job.on_nodes and not job.completing and "CONFIGURING" not in job.flags:
        since = context.now if run.running_since is None else run.running_since
        run = replace(run, running_since=since, began=job.start_time)
    if job.finished:  # its user may put it back yet
        served = was_useful(job, context.limits)
    else:
        enough_s = useful_run_s(job, context.limits)
        served = run.running_since is not None and context.now - run.running_since >= enough_s
    run = replace(run, useful=run.useful or served, over=job.completing or job.finished)
    # Neither an Epilog nor what comes after it is a part of its run.
    return replace(run, running_since=None, began=None) if run.over else run


def _short_runs(job: Job, before: TeRun | None, context: CycleContext) -> tuple[int, bool]:
    """Count the runs without use that have ended in the queue since the last poll, and whether one was useful."""
    if before is None or job.restarts <= before.restarts:
        return 0, False
    times, enough_s = job.restarts - before.restarts, useful_run_s(job, context.limits)
    unseen_are_short = context.now - before.at < max(enough_s, context.limits.useful_run_s)
    if before.useful or (before.running_since is not None and _ran_s(job, before, context.now) >= enough_s):
        return (times - 1 if unseen_are_short else 0), True
    if before.over or before.running_since is not None:
        return (times if unseen_are_short else 1), False
    return (times if unseen_are_short else 0), False


def _ran_s(job: Job, before: TeRun, now: UnixSeconds) -> float:
    """Seconds that the run before lasted, at most: Slurm counts a wait from the requeue on.

    That is by Slurm's clock, and of one that is still completing, or came back once more, not known: then until now.
    """
    seen_s = now - before.running_since if before.running_since is not None else 0.0
    once = job.restarts == before.restarts + 1 and job.pending
    if once and before.began is not None and job.submit_time > before.began:
        return job.submit_time - before.began
    return seen_s


def waiting_after_return(memory: Memory, limits: Limits, now: UnixSeconds) -> dict[JobId, CameBack]:
    """Return the TE jobs for which the plugin preempts none yet, if it has before they came back."""
    found: dict[JobId, CameBack] = {}
    victims: dict[JobId | None, list[Paid]] = defaultdict(list)
    for paid in memory.paid:
        victims[paid.preemptor].append(paid)
    for job_id in sorted(memory.te_runs):
        one, until = memory.job(job_id).futile, memory.job(job_id).retry_at or 0.0
        if one is None or one.ending is not Ending.CAME_BACK:
            continue
        since, alone = one.first_restart or 0, _left_alone(one, limits)
        if alone or until > now:
            found[job_id] = CameBack(
                job_id=job_id,
                restarts=since,
                until=None if alone else ceil(until),
                victim_left_at=ceil(_last_victim(victims.get(job_id, ()), since)),
            )
    return found


def _last_victim(victims: Iterable[Paid], since: int) -> UnixSeconds:
    """Time at which the last of a job's victims in one of the runs that count has left, as far as is known; 0: none is.

    By Slurm's clock, where it is known: a poll may see it only after slurmctld was restarted.
    """
    return max(
        (
            paid.at if paid.put_back_at is None else paid.put_back_at
            for paid in victims
            if paid.preemptor_restarts is not None and paid.preemptor_restarts >= since
        ),
        default=0.0,
    )


def _left_alone(one: Futility, limits: Limits) -> bool:
    return one.count >= limits.max_futile_orders_per_job and not one.changed


def why_it_waits(one: Futility, limits: Limits) -> Why:
    """Reason that a TE job that came back has no further victims yet."""
    text = f"it came back from {one.count} start(s) without a useful run; if Slurm preempted a job for one of them, it "
    if _left_alone(one, limits):
        return RefusalCode.FUTILE, text + "does not again until what it asks for changes: it is left alone"
    return RefusalCode.RETRY_LATER, text + "does so again after guard.retry_after_s, doubled after each"
