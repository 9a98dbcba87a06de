"""Jobs that are bound to nodes while they wait, and set free again.

A TE job with victims waits for their resources: it is bound to their nodes (ReqNodeList) before the notice goes out.
Else it may start elsewhere a moment later, on resources that came free by themselves, and the victim leaves for
nothing, since a notice cannot be taken back. Slurm's scheduler then starts any job that fits on the other nodes.

A best-effort job for which room is made belongs to a round (rounds.py), and is bound however long it takes. If it has
asked for a range of nodes (--nodes=2-4) it is told at the same time how many of them it gets.

It is set free when its order no longer makes room, and in any case `guard.bind_for_s` after it was bound for the first
time: a TE job whose victim has a long grace period does not wait beside an empty node. Slurm does not change this of a
job that runs. So it is remembered until the job has ended, and a job that is put back in the queue is set free there.
As with priorities: it is believed to be free only when that is seen, and what others have set is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tesched_core.levers.context import RESEND_AFTER_S, CycleContext
from tesched_core.model.actions import FailureKind, NodeCount, Outcome, Reason, ReasonCode, SetNodes, Status
from tesched_core.model.cluster import Job
from tesched_core.model.memory import Memory, NodeBinding
from tesched_core.model.order import Order, OrderState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot


def keep_bound(order: Order, context: CycleContext) -> None:
    """Bind the preemptor to the nodes where its victims make room, before they are told; again if it did not arrive."""
    job = context.snapshot.jobs.get(order.preemptor)
    one = context.bound.get(order.preemptor)
    in_round = context.snapshot.job_class(order.preemptor) is JobClass.BE
    if job is None or not job.pending or not (order.victims or in_round) or not _may_be_bound(job):
        return
    nodes = tuple(sorted(order.nodes))
    if one is not None and one.order_id == order.order_id and one.nodes == nodes:
        moved = _now(job) == nodes or _now(job) not in {one.previous, one.before}
        arrived = moved and (one.previous_count is None or _counted(job, one))
        if arrived or _long_enough(one.job_id, context):
            return
    elif _long_enough(job.job_id, context) or (one is None and job.request.required_nodes):
        return  # or it has nodes of its own
    else:
        previous = one.previous if one is not None else _now(job)
        own = one.previous_count if one is not None else None
        if own is None and in_round:
            own = _own_count(job, len(nodes))
        one = NodeBinding(
            job_id=job.job_id,
            order_id=order.order_id,
            at=context.now,
            nodes=nodes,
            previous=previous,
            # What an order before this one has set is ours, too, until the new list is seen.
            before=_now(job) if one is not None and _ours(job, one) else (),
            previous_count=own,
        )
        context.bound[job.job_id] = one
        context.bound_since.setdefault(job.job_id, context.now)
    reason = Reason(
        code=ReasonCode.BOUND,
        text=(
            f"its turn in this round is on {','.join(nodes)}"
            if in_round
            else f"somebody is asked to leave {','.join(nodes)} for it, so it waits for that room"
        ),
        preemptor=job.job_id,
        order_id=order.order_id,
    )
    count = NodeCount(least=len(nodes), most=len(nodes)) if one.previous_count is not None else None
    context.actions.append(SetNodes(job_id=job.job_id, reason=reason, nodes=nodes, previous=one.previous, count=count))


def unbind(memory: Memory, context: CycleContext, *, all_of_them: bool = False) -> Memory:
    """Set free the jobs that wait bound for an order that makes no room for them any more; return the memory."""
    holding = {order.order_id for order in memory.open_orders() if order.state is OrderState.OPEN}
    kept = dict(context.bound)
    for job_id, one in context.bound.items():
        job = context.snapshot.jobs.get(job_id)
        if job_id in context.absent:
            continue
        if job is None or job.finished:
            del kept[job_id]
        elif job.pending and (all_of_them or one.order_id not in holding or _long_enough(job_id, context)):
            # A command may be on its way: what is as it was is believed only after a while.
            may_arrive = context.now - one.at <= RESEND_AFTER_S and one.order_id in holding
            if _ours(job, one) or _counted(job, one):
                context.actions.append(_free(one, job))
            elif not may_arrive:
                del kept[job_id]
    return replace(memory, bound=kept, bound_since=context.bound_since)


def _long_enough(job_id: JobId, context: CycleContext) -> bool:
    """Return whether a TE job has been bound for `guard.bind_for_s`, counted from its first binding in this wait.

    An order after the first one does not count anew: the TE job would sit beside free nodes for as long as it waits.
    """
    if context.snapshot.job_class(job_id) is JobClass.BE:
        return False  # in a round it is bound however long it takes
    since = context.bound_since.get(job_id, context.now)
    return context.limits.bind_for_s <= 0 or context.now - since > context.limits.bind_for_s


def still_bound(memory: Memory, snapshot: Snapshot) -> tuple[JobId, ...]:
    """Return the jobs that wait bound; nothing can be changed of those that run."""
    jobs = snapshot.jobs
    return tuple(job_id for job_id in memory.bound if job_id in jobs and jobs[job_id].pending)


def _own_count(job: Job, nodes: int) -> NodeCount | None:
    """Return how many nodes the job asks for, if it has to be told that it gets so many: Slurm gives as many as it may.

    With a list of required nodes alone Slurm 22.05 adds others to it, or says BadConstraints where the tasks are fewer.
    """
    request = job.request
    if request.min_nodes == request.max_nodes == nodes:
        return None
    return NodeCount(least=request.min_nodes, most=request.max_nodes, tasks=request.tasks, cpus=request.cpus)


def _counted(job: Job, one: NodeBinding) -> bool:
    """Return whether the job asks for the number of nodes that it was told, and for another one by itself."""
    own, asked = one.previous_count, (job.request.min_nodes, job.request.max_nodes)
    return own is not None and asked == (len(one.nodes),) * 2 != (own.least, own.most)


def _free(one: NodeBinding, job: Job) -> SetNodes:
    reason = Reason(
        code=ReasonCode.SET_FREE,
        text="it may start wherever it was allowed to",
        preemptor=one.job_id,
        order_id=one.order_id,
    )
    # What others have set in the meantime stays.
    nodes = one.previous if _ours(job, one) else _now(job)
    count = one.previous_count if _counted(job, one) else None
    return SetNodes(job_id=one.job_id, reason=reason, nodes=nodes, previous=one.nodes, count=count)


def _may_be_bound(job: Job) -> bool:
    # Of an array, the record that waits stands for all its tasks; a heterogeneous job is left to Slurm.
    return not job.array_tasks and job.array_job_id is None and job.het_job_id is None


def _ours(job: Job, one: NodeBinding) -> bool:
    """Return whether the job is bound by us, to these nodes or to those of before."""
    return _now(job) == one.nodes or (bool(one.before) and _now(job) == one.before)


def _now(job: Job) -> tuple[str, ...]:
    return tuple(sorted(job.request.required_nodes))


def not_bound(memory: Memory, outcomes: Sequence[Outcome]) -> Memory:
    """Return the memory without those that certainly were not bound; in shadow mode, none was."""
    bound, since = dict(memory.bound), dict(memory.bound_since)
    for outcome in outcomes:
        action = outcome.action
        if not isinstance(action, SetNodes) or action.reason.code is not ReasonCode.BOUND:
            continue
        kind = outcome.failure.kind if outcome.failure else None
        unknown = outcome.status is Status.FAILED and kind in {FailureKind.UNREACHABLE, FailureKind.UNKNOWN}
        if outcome.status is not Status.SENT and not unknown:
            one = bound.pop(action.job_id, None)
            if one is not None and one.before:
                bound[action.job_id] = replace(one, nodes=one.before, before=())  # as it was
            elif one is not None and since.get(action.job_id) == one.at:
                del since[action.job_id]  # that would have been the first time
    return replace(memory, bound=bound, bound_since=since)
