"""Bystanders: BE jobs that were never preempted, or are back in the queue for another reason, and wait for TE jobs.

Definitions
    bystander    a BE job that is eligible and pending for resources, does not fit into what is free, and would fit if
                 the TE jobs that started since it became eligible had not (`placement/in_the_way.py`).
    its delay    the time for which it is one. However many TE jobs are in its way, a second is counted once, in equal
                 parts for each of them.

Principle
    A job that waits after its own preemption is delayed by that already (`intake/delays.py`), and is no bystander
    until it runs again. Several jobs may wait for one TE job: each is delayed.

    Polls see the queue at moments. A delay begins when the newest TE job in the way started, and ends when one of them
    ended or the job itself started, by Slurm's own times where these lie between two polls; otherwise at the poll that
    first shows it, and at the last that did. While no daemon runs a delay goes on if the same TE jobs are in the way
    afterwards.

    Only the first `MOST_WAITING` BE jobs of the queue are examined, and of them as many kinds as `MOST_KINDS` and
    `MOST_NODES` allow: Slurm's own backfill goes no further (bf_max_job_test, 500). Jobs that are alike in what they
    ask for are examined once. All are examined when TE jobs have started or ended, and each `EXAMINED_EACH_S`; in
    between, a delay goes on while the job waits and the TE jobs in its way are on their nodes. A cycle that acts
    leaves it to a later one, so that no TE job waits for it; until then a delay goes on while the job waits.

Worked example
    A job of one node is eligible at 100, all nodes are full. A TE job starts at 160 on a node that was freed for it,
    and ends at 400. The job starts at 401. It was delayed for 240 s.

Source
    tesched's own.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf

from tesched_core.context import CycleContext
from tesched_core.intake.pending_reason import WAITS_FOR_RESOURCES, has_reason, resources_would_not_help
from tesched_core.model.bystander import Bystander, Examined, TeRunInTheWay, ended
from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.columns import MOST_WAITING
from tesched_core.model.memory import Memory
from tesched_core.model.order import Purpose
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.placement.alike import WithoutSome, kind_of
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import Demand, demands_of
from tesched_core.placement.in_the_way import InTheWay, fits_now, in_the_way, te_held, te_jobs
from tesched_core.placement.te_runs import covered_s, free_without, in_their_places, left_since
from tesched_core.placement.whole_nodes import may_want_whole_nodes, with_whole_nodes

#: most kinds of jobs that are examined at once, and most nodes that they are held against, each kind counting all of
#: them: a tenth of a second's work. One whose tasks may be spread unevenly, or whose demands are to be worked out anew
#: without others (`placement/alike.py`), costs as much as `UNEVEN_COSTS` others
MOST_KINDS, MOST_NODES, UNEVEN_COSTS = 64, 200_000, 10
#: seconds after which all is examined anew, and for which cycles that act put it off
EXAMINED_EACH_S, MOST_DEFERRED_S = 10.0, 30.0
#: Polls so far apart, in seconds, say nothing of the time between them, unless the same TE jobs are there after it.
MOST_BETWEEN_S = 60.0
#: Slurm's times are whole seconds: what started after a poll may have been started as much before it.
SLURM_SECOND_S = 1.0


def with_tasks(memory: Memory, context: CycleContext) -> Memory:
    """Return the memory in which each task that has left its array's record has waited as its array had.

    Slurm gives a task a record of its own when it starts, or when it is changed alone.
    """
    last, jobs = _last_poll(memory, context), context.snapshot.jobs
    found = {
        task.job_id: replace(one, submitted_at=task.submit_time)
        for array, one in memory.bystanders.items()
        if array in jobs and jobs[array].array_job_id is not None
        for task in context.tasks_of(array)
        if task.job_id not in memory.bystanders and _was_in_array(task, jobs[array], last)
    }
    return replace(memory, bystanders={**memory.bystanders, **found}) if found else memory


def _was_in_array(task: Job, array: Job, last: UnixSeconds) -> bool:
    """Check whether a task may have left its array's record since the last poll; one that ran before has not."""
    if task.restarts:
        return False
    if task.pending:
        # One that left it before, and waited as well, is known by now.
        return task.eligible_time == array.eligible_time and resources_would_not_help(task) is None
    return (task.start_time or 0.0) > last - SLURM_SECOND_S


def see_bystanders(memory: Memory, context: CycleContext) -> Memory:
    """Return the memory with the delay of each bystander until now."""
    jobs = context.snapshot.jobs
    known = {
        job_id: one
        for job_id, one in memory.bystanders.items()
        if (job_id in jobs and not _is_another(one, jobs[job_id])) or memory.job(job_id).missing_since is not None
    }
    te = te_jobs(context.snapshot)
    there = frozenset((job.job_id, job.start_time or 0.0) for job in te)
    examined = memory.examined
    if examined is None or not 0 <= context.now - examined.at < _valid_for_s(examined.te == there, context):
        examined = Examined(at=context.now, te=there)
        blocked = _blocked(te, memory, context)
        goes_on: set[JobId] = set()
    else:
        blocked = {}
        goes_on = _going_on(known, memory, context)
    found: dict[JobId, Bystander] = {}
    for job_id in sorted(known.keys() | blocked.keys()):
        job, one, way = jobs.get(job_id), known.get(job_id), blocked.get(job_id)
        if job is not None and way is not None:
            one = one or Bystander(submitted_at=job.submit_time, user=job.user)
            found[job_id] = _delayed(one, way, job, memory, context)
        elif one is not None:
            goes = one.since is None or job_id in goes_on
            found[job_id] = one if goes else ended(one, _end(one, job, memory, context))
    if context.deadlines is not None:
        found |= _unseen(found, known, te, memory, context)
    return replace(memory, bystanders=found, examined=examined, seen_at=context.now)


def _unseen(
    found: Mapping[JobId, Bystander],
    known: Mapping[JobId, Bystander],
    te: Sequence[Job],
    memory: Memory,
    context: CycleContext,
) -> Mapping[JobId, Bystander]:
    """Return the bystanders that TE runs have delayed since the last poll for longer than the two polls show.

    At both polls a run that began and ended between them is in no job's way; of several runs the newest alone counts
    until now; TE jobs of its own user and of others each have a part; and a victim of its own user's TE job waits for
    that one alone. No bound may be passed by what no poll has seen, so all of that time counts for a job that would fit
    if no other user's run held, or had held, anything.
    """
    last, snapshot, capacity = _last_poll(memory, context), context.snapshot, context.columns.capacity
    held = memory.examined.te if memory.examined is not None else frozenset[tuple[JobId, UnixSeconds]]()
    over = left_since(last, held, snapshot)
    # Their ends were before the last poll, which still saw them on their nodes.
    leaving = {
        one.job_id
        for one in over
        if (one.job_id, one.start_time) in held and one.end_time is not None and one.end_time <= last
    }
    runs = (*te, *over)
    changed = bool(over) or any((job.start_time or 0.0) > last - SLURM_SECOND_S for job in te)
    anew = WithoutSome(snapshot=snapshot, capacity=capacity)
    without: dict[str, tuple[frozenset[JobId], Capacity]] = {}
    charged: dict[JobId, Bystander] = {}
    away = _away(memory, of_own_user=False)
    for alike, demands in waiting_kinds(anew, away, memory, context, eligible_before=context.now) if runs else ():
        if not changed and fits_now(demands, capacity):
            continue
        fits: dict[str, bool] = {}
        for job in alike:
            since = max(last, _eligible_at(job))
            seconds = covered_s(
                runs, job, since=since, until=context.now, kill_wait_s=snapshot.settings.kill_wait_s, leaving=leaving
            )
            before, after = known.get(job.job_id), found.get(job.job_id)
            seen_s = _delayed_s(after, context.now) - _delayed_s(before, last)
            if seconds <= seen_s:
                continue
            own = job.user if any(run.user == job.user for run in runs) else ""
            if own not in without:
                gone = in_their_places([run for run in te if run.user != job.user], last, snapshot)
                without[own] = frozenset(gone), free_without(gone, snapshot, capacity)
            if own not in fits:
                gone_ids, free = without[own]
                fits[own] = fits_now(anew.demands(alike[0], demands, gone_ids), free)
            if fits[own]:
                one = after or Bystander(submitted_at=job.submit_time, user=job.user)
                charged[job.job_id] = replace(one, delayed_s=one.delayed_s + seconds - seen_s)
    return charged


def _delayed_s(one: Bystander | None, until: UnixSeconds) -> float:
    return 0.0 if one is None else ended(one, until).delayed_s


def unwatched(memory: Memory, snapshot: Snapshot) -> Memory:
    """Return the memory after a poll of a daemon that decides nothing: it is not known what is in whose way."""
    last = snapshot.taken_at if memory.seen_at is None else memory.seen_at
    kept = {job_id: ended(one, last) for job_id, one in memory.bystanders.items()}
    return replace(memory, bystanders=kept, examined=None, seen_at=snapshot.taken_at)


def _valid_for_s(is_same: bool, context: CycleContext) -> float:
    """Time for which the last examination is good enough; where a bound rests on it, for no time."""
    if context.deadlines is not None:
        return 0.0
    if context.actions:
        return MOST_DEFERRED_S
    return EXAMINED_EACH_S if is_same else 0.0


def _going_on(known: Mapping[JobId, Bystander], memory: Memory, context: CycleContext) -> set[JobId]:
    """Return the bystanders that still wait, of those that were found when the queue was last examined.

    The same TE jobs are there as then, or it is a cycle that acts: whether others are in the way by now is for the next
    time.
    """
    jobs, away = context.snapshot.jobs, _away(memory)
    return {
        job_id
        for job_id, one in known.items()
        if one.since is not None
        and (job := jobs.get(job_id)) is not None
        and _waits(job, memory, context)
        and job_id not in away
    }


def _is_another(one: Bystander, job: Job) -> bool:
    """Check whether a job merely has the id of the one that was delayed."""
    return job.restarts == 0 and job.submit_time != one.submitted_at


def _blocked(te: Sequence[Job], memory: Memory, context: CycleContext) -> dict[JobId, InTheWay]:
    """Return the bystanders of this poll, with what is in the way of each."""
    if not te:
        return {}
    snapshot, capacity = context.snapshot, context.columns.capacity
    held = te_held(te, snapshot, capacity)
    newest = min(float(held.started[0]), context.now)
    anew = WithoutSome(snapshot=snapshot, capacity=capacity)
    found: dict[JobId, InTheWay] = {}
    for alike, demands in waiting_kinds(anew, _away(memory), memory, context, eligible_before=newest):
        without = partial(anew.demands, alike[0], demands) if anew.matters(alike[0]) else None
        way = in_the_way(demands, held, capacity, demands_without=without)
        if way is not None:
            found |= {job.job_id: way for job in alike if _eligible_at(job) < way.eligible_before}
    return found


def waiting_kinds(
    anew: WithoutSome,
    away: Collection[JobId],
    memory: Memory,
    context: CycleContext,
    *,
    eligible_before: UnixSeconds,
) -> Iterator[tuple[list[Job], Sequence[Demand]]]:
    """Yield the BE jobs that wait for resources since before then, each kind of them with what it asks for.

    Without those that are `away`. A kind of which it is not known whether Slurm wants whole nodes for it comes twice.
    """
    snapshot, capacity = context.snapshot, context.columns.capacity
    # Cheap conditions first: there may be a hundred thousand.
    queue = [
        job
        for job_id, job in snapshot.jobs.items()
        if job.state is JobState.PENDING
        and (job.reason in WAITS_FOR_RESOURCES or job_id in memory.bystanders)
        and _eligible_at(job) < eligible_before
        and snapshot.job_class(job_id) is JobClass.BE
        and job_id not in away
    ]
    queue = heapq.nlargest(MOST_WAITING, queue, key=lambda job: (job.priority, -job.job_id))
    kinds: dict[Hashable, list[Job]] = {}
    for job in queue:
        if _waits(job, memory, context):
            kinds.setdefault(kind_of(job, snapshot, capacity), []).append(job)
    count = nodes = 0
    readings = (reading for alike in kinds.values() for reading in _readings(alike, snapshot))
    for alike in readings:
        try:
            demands = demands_of(alike[0], snapshot, capacity, binds=False)
        except UnsupportedRequestError:
            continue
        count += 1
        costs = any(one.uneven is not None for one in demands) or anew.costs(alike[0], demands)
        nodes += len(capacity.names) * (UNEVEN_COSTS if costs else 1)
        if count > MOST_KINDS or (count > 1 and nodes > MOST_NODES):
            break
        yield alike, demands


def _readings(alike: list[Job], snapshot: Snapshot) -> Iterator[list[Job]]:
    """Yield jobs that are alike in each way in which Slurm may count them: a TE job is in their way by either."""
    yield alike
    if may_want_whole_nodes(alike[0], snapshot) and not alike[0].request.exclusive:
        yield [with_whole_nodes(job) for job in alike]


def _away(memory: Memory, *, of_own_user: bool = True) -> set[JobId]:
    """Return the victims that are yet to run again; also those that left for TE jobs of their own users, or not."""
    return {
        victim.job_id
        for order in memory.open_orders()
        for victim in order.victims
        if victim.purpose is Purpose.TE and victim.awaited and (of_own_user or not victim.of_own_user)
    }


def _left_without_order(job: Job, memory: Memory) -> bool:
    """Check whether a job is in the queue since its preemption, though its order is withdrawn (`tesched undo`)."""
    at = memory.job(job.job_id).last_preempted
    return at is not None and job.restarts > 0 and job.submit_time <= at


def _waits(job: Job, memory: Memory, context: CycleContext) -> bool:
    """Check whether a job waits for free resources, and for nothing else."""
    if not job.pending or job.job_id in context.absent:
        return False
    # Where a bound rests on it, such a job is delayed on as a bystander: what it was delayed by before is settled.
    if context.deadlines is None and _left_without_order(job, memory):
        return False
    return not resources_would_not_help(job) or _is_reconsidered(job, memory)


def _is_reconsidered(job: Job, memory: Memory) -> bool:
    """Check whether a bystander has no reason for the moment: each change of a job takes it away."""
    one = memory.bystanders.get(job.job_id)
    return one is not None and one.since is not None and not has_reason(job.reason) and not job.held


def _eligible_at(job: Job) -> UnixSeconds:
    """Return since when the job may start; of one for which Slurm says nothing, never."""
    return inf if job.eligible_time is None else job.eligible_time


def _delayed(before: Bystander, way: InTheWay, job: Job, memory: Memory, context: CycleContext) -> Bystander:
    """Return the delay of a job that is a bystander now."""
    by = tuple(TeRunInTheWay(one.job_id, one.user, one.start_time or 0.0) for one in way.jobs)
    began = _begin(way, job, memory, context)
    if before.since is None:
        return replace(before, since=began, by=by)
    if before.by == by:
        return before
    if context.now - _last_poll(memory, context) <= MOST_BETWEEN_S:
        return replace(ended(before, context.now), since=context.now, by=by)
    return replace(ended(before, _end(before, job, memory, context)), since=began, by=by)


def _last_poll(memory: Memory, context: CycleContext) -> UnixSeconds:
    return context.now if memory.seen_at is None else min(memory.seen_at, context.now)


def _begin(way: InTheWay, job: Job, memory: Memory, context: CycleContext) -> UnixSeconds:
    """Return since when these TE jobs are in its way: since the newest started, if that was after the last poll."""
    started, last = max(one.start_time or 0.0 for one in way.jobs), _last_examined(memory, context)
    if started <= last - SLURM_SECOND_S:
        return context.now
    return min(max(started, last, _eligible_at(job)), context.now)


def _last_examined(memory: Memory, context: CycleContext) -> UnixSeconds:
    last = _last_poll(memory, context)
    return last if memory.examined is None else min(memory.examined.at, last)


def _end(before: Bystander, job: Job | None, memory: Memory, context: CycleContext) -> UnixSeconds:
    """End of a delay: with the job's start, or when the first TE job in its way left its nodes."""
    jobs, since = context.snapshot.jobs, context.now if before.since is None else before.since
    last = _last_examined(memory, context)
    known = [
        # Its end was before the last poll, which still saw it leaving: it has left since, and nothing says when.
        context.now if one.end_time is not None and one.end_time <= last else one.end_time
        for te in before.by
        if (one := jobs.get(te.job_id)) is not None and not one.on_nodes
    ]
    if job is not None and not job.pending:
        known.append(job.start_time)
    end = min((at for at in known if at is not None and at >= since), default=_last_poll(memory, context))
    return min(max(end, since), context.now)
