"""Memory of orders that came to nothing, and when their TE job is tried again.

A futile order is the worst that tesched can do: victims paid, and the TE job did not start on what they freed.
The same plan, tried again, will most likely end the same way. So

- after each order that notified victims and came to nothing the wait doubles, from guard.retry_after_s up to a day;
- after `guard.max_futile_orders_per_job` of them the TE job is left alone until a fact that mattered has changed:
  what the job asks for, its partition or priority class, the nodes of its partitions (which there are, their states,
  what they have), or what Slurm says of it; after one that ended at a limit also when a job of its user, account or
  QOS has ended; after one whose TE job came back from its start only what the job asks for;
- it is forgotten when the job has had a useful run (`orders/useful_run.py`), or leaves.

Of a job array the array counts, not each task, and it is forgotten when a task starts. But a task that came back from
its start counts for itself, by the id of its own record: that is no word on the tasks that have not started.

An order that notified no victim costs no job anything: its TE job is tried again after guard.retry_after_s. So is a BE
job that Slurm kept at a limit in its turn: put back, it has no reason until Slurm's next pass, and would have another
order at once, and again, on nodes that are kept for it from others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import astuple, replace
from hashlib import blake2b
from math import inf
from typing import TYPE_CHECKING

from tesched_core.intake.pending_reason import seen_at_the_head
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.decision import RefusalCode, Why
from tesched_core.model.job_memory import Futility
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.memory import Memory
from tesched_core.model.order import Ending, Order, Victim, VictimState
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import JobClass, Snapshot

if TYPE_CHECKING:
    from tesched_core.context import CycleContext

#: The longest wait between two tries, seconds.
LONGEST_S = 86_400.0
#: Endings after which the TE job still waits, and for which its victims were notified.
_CAME_TO_NOTHING = frozenset(
    {
        Ending.NO_RUN,
        Ending.EXPIRED,
        Ending.BLOCKED,
        Ending.GROWN,
        Ending.CHANGED,
        Ending.NODE_GONE,
        Ending.REFUSED,
        Ending.OVERRULED,
        Ending.PREEMPTOR_GONE,
    }
)
#: Endings of orders without victims after which an order made at once would end the same way.
_TRIED_LATER = frozenset({Ending.EXPIRED, Ending.REFUSED, Ending.OVERRULED, Ending.NOT_LOOKED_AT})
#: The part of a job's time limit for which it must run, if that is shorter, and the shortest time, seconds.
PART, LEAST_S = 0.1, 10.0
_CHANGES = "what it asks for, the nodes of its partitions or its limits change"
#: What Slurm says of a job that waits for resources, or that it has not considered: no change that mattered.
_SAYS_NOTHING = frozenset({"", "None", "Priority", "Resources"})


def family_of(job_id: JobId, snapshot: Snapshot) -> JobId:
    """Return the id under which a TE job's tries are remembered: the array's for a task, else its own."""
    job = snapshot.jobs.get(job_id)
    return job.array_job_id if job is not None and job.array_job_id is not None else job_id


def tries_of(job_id: JobId, context: CycleContext) -> JobId:
    """Return the id under which what is remembered by this one is to be found now."""
    one = context.draft.job(job_id).futile
    return job_id if one is not None and one.by_itself else family_of(job_id, context.snapshot)


def drop_ended_waits(context: CycleContext) -> None:
    """Drop times that have come, also of shadow mode; another stands under the id that its tries have now."""
    draft, waits = context.draft, dict[JobId, UnixSeconds]()
    for job_id, one in draft.tried_or_missing():
        if one.shadowed_until is not None and one.shadowed_until <= context.now:
            draft.update(job_id, shadowed_until=None)
        if one.retry_at is None:
            continue
        if one.retry_at > context.now:
            now_under = tries_of(job_id, context)
            waits[now_under] = max(one.retry_at, waits.get(now_under, 0.0))
        draft.update(job_id, retry_at=None)
    for job_id, at in waits.items():
        draft.update(job_id, retry_at=at)


def came_to_nothing(order: Order, context: CycleContext) -> None:
    """Remember what came of an order when its preemptor has stopped waiting, in `context`."""
    family = order.run_id if order.ending is Ending.NO_RUN else family_of(order.preemptor, context.snapshot)
    if _was_declined(order, context):
        context.draft.declined.add(family)
    asked = any(was_asked(victim) for victim in order.victims)
    left = any(victim.left_at is not None or victim.state is VictimState.REQUEUING for victim in order.victims)
    if order.ending is Ending.STARTED_HERE:
        one = context.draft.job(family).futile
        # A start is enough, or a task of the array has made it; that its last task has come back is another matter.
        if one is not None and (order.run_seen_at is None or (order.newest_task is not None and not one.by_itself)):
            context.draft.update(family, futile=None)
        return
    job = context.snapshot.jobs.get(order.preemptor)
    # Of an array, other tasks still wait.
    again = order.ending is Ending.STARTED_ELSEWHERE and left and job is not None and job.pending
    if asked and order.ending is not None and (order.ending in _CAME_TO_NOTHING or again or _overtaken_dearly(order)):
        before = context.draft.job(family).futile
        # Of what Slurm's plugin has done for it nothing is known here.
        count = before.count + 1 if before and before.ending is not Ending.CAME_BACK else 1
        futile = Futility(count=count, ending=order.ending, said=job.reason if job else "")
        context.draft.update(family, futile=futile)
        # A node that went, or a request that changed, while its victims were still running has cost no job its run: the
        # first time, other nodes are tried at once.
        if left or count > 1 or order.ending not in {Ending.NODE_GONE, Ending.CHANGED}:
            context.draft.update(family, retry_at=context.now + wait_s(count, context.limits))
    elif order.ending in _TRIED_LATER or _is_blocked_turn(order, context):
        context.draft.update(family, retry_at=context.now + context.limits.retry_after_s)


def wait_s(count: int, limits: Limits) -> float:
    """Seconds in which a TE job has no further victims after so many times for nothing."""
    return min(limits.retry_after_s * 2.0 ** min(count - 1, 30), LONGEST_S)


def _overtaken_dearly(order: Order) -> bool:
    """Check whether others have taken what further jobs had left for. One that alone was to move gets other nodes."""
    others = (victim for victim in order.victims if victim.job_id != order.preemptor)
    return order.ending is Ending.OVERTAKEN and any(was_asked(victim) for victim in others)


def _is_blocked_turn(order: Order, context: CycleContext) -> bool:
    """Check whether a BE job did not start in its turn for a limit or the like. Of a TE job Slurm's word is awaited."""
    return order.ending is Ending.BLOCKED and context.snapshot.job_class(order.preemptor) is JobClass.BE


def _was_declined(order: Order, context: CycleContext) -> bool:
    """Check whether the preemptor waited on, first in its queue, though its nodes had all that it needs."""
    job = context.snapshot.jobs.get(order.preemptor)
    if order.ending is not Ending.EXPIRED or not order.nodes or job is None or not seen_at_the_head(job):
        return False
    # It lasts for a while after its last victim has left (`advance.py`): Slurm has tried to start it since.
    return context.fits(order)


def forget(run: JobId, context: CycleContext) -> None:
    """Forget what came of orders for a TE job, or a task, that had a useful run."""
    context.draft.update(run, futile=None)


def useful_run_s(job: Job, limits: Limits) -> float:
    """Seconds for which this TE job must run."""
    part_s = inf if job.time_limit_s is None else job.time_limit_s * PART
    return min(limits.useful_run_s, max(part_s, LEAST_S))


def was_asked(victim: Victim) -> bool:
    """Check whether a victim was requeued, or had its notice."""
    told = victim.noticed_at is not None and (victim.grace_period_s > 0 or victim.by_suspending)
    return told or victim.requeue_sent_at is not None


def follow(context: CycleContext, on_trial: Collection[JobId] = ()) -> None:
    """Forget futile orders of jobs that have had a useful run or left, and note what has changed of the others.

    Of jobs that are `on_trial` their order says when they had one. A job that came back while Slurm preempts by itself,
    and has had a useful run, waits no more.
    """
    draft = context.draft
    known = {job_id: one.futile for job_id, one in draft.tried_or_missing() if one.futile is not None}
    kept = _kept(known, context, on_trial)
    for job_id, one in known.items():
        if job_id not in kept:
            draft.update(job_id, futile=None)
            if one.ending is Ending.CAME_BACK and context.limits.lever is YieldBy.PLUGIN:
                draft.update(job_id, retry_at=None)
    for job_id, one in kept.items():
        draft.update(job_id, futile=one)


def _kept(known: Mapping[JobId, Futility], context: CycleContext, on_trial: Collection[JobId]) -> dict[JobId, Futility]:
    kept: dict[JobId, Futility] = {}
    nodes: dict[tuple[str, ...], str] = {}
    for family, one in known.items():
        job = context.snapshot.jobs.get(family)
        if not one.by_itself and (job is None or not job.pending):
            job = next((task for task in context.tasks_of(family) if task.pending), job)
        if (job is None and family in context.absent) or (job is not None and job.job_id in context.absent):
            kept[family] = one
            continue
        if job is not None and (job.job_id in on_trial or _is_starting(job, one, context)):
            kept[family] = one
        if job is not None and job.finished and one.by_itself and not was_useful(job, context.limits):
            kept[family] = one  # its user may put it back yet
        if job is None or not job.pending:
            continue
        if job.partitions not in nodes:
            nodes[job.partitions] = _digest(_of_nodes(job.partitions, context.snapshot))
        # A job that comes back from its start does so by itself: no node that is drained for it is a change.
        basis = basis_of(job, "" if one.by_itself else nodes[job.partitions], context)
        fellows = _fellows(job, context.snapshot) if one.ending is Ending.BLOCKED else 0
        said = job.reason not in _SAYS_NOTHING and job.reason != one.said and not one.by_itself
        changed = one.changed or said or fellows < one.fellows or one.basis not in {"", basis}
        # Where Slurm refused a command, nothing was known of the job but its id.
        kept[family if one.by_itself else family_of(job.job_id, context.snapshot)] = replace(
            one, basis=basis, fellows=max(fellows, one.fellows), changed=changed
        )
    return kept


def basis_of(job: Job, nodes: str, context: CycleContext) -> str:
    """Return a digest of what decides whether another order can do better; `nodes` is that of its partitions' nodes."""
    wanted = (
        # The nodes to which tesched itself has bound it are no word of its own.
        astuple(context.own_request(job)),
        job.partitions,
        job.qos,
        job.account,
        job.time_limit_s,
        job.reservation,
        job.dependency,
        job.licenses,
        nodes,
    )
    return _digest(iter([repr(wanted)]))


def _of_nodes(partitions: tuple[str, ...], snapshot: Snapshot) -> Iterator[str]:
    """Yield what the partitions and their nodes are, in a fixed order."""
    for name in partitions:
        partition = snapshot.partitions.get(name)
        if partition is None:
            continue
        limits = (partition.state, partition.priority_tier, partition.max_time_s, partition.min_nodes)
        more = (partition.max_nodes, partition.max_cpus_per_node, partition.oversubscribe)
        yield repr((name, limits, more))
        for node_name in sorted(partition.nodes):
            node = snapshot.nodes.get(node_name)
            if node is not None:
                has = (node.total.cpus, node.total.mem_mib, node.total.gres, sorted(node.features))
                yield repr((node_name, node.available, has))


def _fellows(job: Job, snapshot: Snapshot) -> int:
    """Count the running jobs that may count against the same limit."""
    mine = {pair for pair in _limited_by(job) if pair[1]}
    return sum(other.on_nodes and not mine.isdisjoint(_limited_by(other)) for other in snapshot.jobs.values())


def _limited_by(job: Job) -> tuple[tuple[str, str], ...]:
    return ("user", job.user), ("account", job.account), *(("qos", one) for one in job.each_qos)


def _digest(parts: Iterator[str]) -> str:
    digest = blake2b(digest_size=8)
    for part in parts:
        digest.update(part.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _is_starting(job: Job, one: Futility, context: CycleContext) -> bool:
    """Check whether a job runs, and its start does not count as one yet; of an array each start does."""
    if (job.array_job_id is not None and not one.by_itself) or not job.on_nodes or job.finished:
        return False
    if job.completing:  # its run is over, and it may go back to the queue: that shows after its Epilog
        return True
    began = job.start_time
    return began is None or "CONFIGURING" in job.flags or context.now - began < useful_run_s(job, context.limits)


def was_useful(job: Job, limits: Limits) -> bool:
    """Check whether a run that is over was a useful one."""
    lasted_s = (job.end_time or 0.0) - (job.start_time or 0.0)
    return job.state is JobState.COMPLETED or lasted_s >= useful_run_s(job, limits)


def not_yet(job: Job, memory: Memory, limits: Limits) -> Why | None:
    """Reason that a waiting TE job is not tried again yet; None if it may be."""
    family = job.array_job_id if job.array_job_id is not None else job.job_id
    its_own = memory.job(job.job_id).futile
    if its_own is not None and its_own.ending is Ending.CAME_BACK:
        return None  # that is for Slurm's plugin (`orders/came_back.py`)
    if its_own is not None and its_own.by_itself:
        family = job.job_id
    known = memory.job(family)
    one = known.futile
    if one is not None and one.by_itself and family != job.job_id:
        return None  # the last task, which bears the array's id, has come back
    if one is not None and one.count >= limits.max_futile_orders_per_job and not one.changed:
        changes = "what it asks for changes" if one.by_itself else _CHANGES
        return RefusalCode.FUTILE, (
            f"{one.count} orders for it came to nothing (the last: {one.ending.value}{_said(one)}); it is left alone "
            f"until {changes}"
        )
    if known.retry_at is not None:
        if one is not None:
            times = "one order" if one.count == 1 else f"{one.count} orders"
            return RefusalCode.RETRY_LATER, (
                f"{times} for it came to nothing (the last: {one.ending.value}{_said(one)}); tried again after "
                "guard.retry_after_s, doubled after each"
            )
        text = "no resources could be freed for it, or Slurm refused; tried again after guard.retry_after_s"
        return RefusalCode.RETRY_LATER, text
    if known.shadowed_until is not None:
        text = "shadow mode has recorded an order for it; the next comes after guard.retry_after_s"
        return RefusalCode.RETRY_LATER, text
    return None


def _said(one: Futility) -> str:
    return f", Slurm said {one.said}" if one.said not in _SAYS_NOTHING else ""
