"""Node binding rule: a job is bound to nodes (ReqNodeList) while it waits, and set free again.

A TE job with victims waits for their resources: it is bound to their nodes before the notice goes out. Else it may
start elsewhere a moment later, on resources that came free by themselves, and the preemption is futile, since a notice
cannot be taken back. Slurm's scheduler then starts any job that fits on the other nodes.

A best-effort job for which a round frees resources is bound however long it takes.

Of a job that leaves its number of nodes open (-n alone, --nodes=2-4) the number is set at the same time: Slurm may do
with fewer than those that it is bound to, or add others (`placement/node_count.py`). Another number that its user sets
meanwhile is its user's.

A job is set free when its order frees no more resources, and in any case `guard.bind_for_s` after it was bound for the
first time: a TE job whose victim has a long grace period does not wait beside an empty node. Only a victim that is
ending then, in an Epilog that takes its time, is awaited: it can't take back what it has paid. While one of its nodes
is out of service a TE job is bound to none (`placement/lost_nodes.py`). Slurm changes this of a job that waits alone.
So the binding is remembered for as long as Slurm shows the job: one that is put back in the queue is set free there,
also one that has ended, and that its user requeues. As with priorities: it is believed to be free only when that is
seen, and what others have set is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tesched_core.context import CycleContext
from tesched_core.fields.contract import MAY_HAVE_ARRIVED, Orders, open_now
from tesched_core.fields.reconcile import FieldRule, FieldState, Want
from tesched_core.model.actions import OrderId, Outcome, Reason, ReasonCode, SetField, Status
from tesched_core.model.change import Change, first_change, is_as_set
from tesched_core.model.cluster import Job
from tesched_core.model.field import Field, NodeCount, Nodes
from tesched_core.model.order import Order
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.placement.allowed import is_bindable
from tesched_core.placement.lost_nodes import gone_nodes
from tesched_core.placement.node_count import is_open


class NodeBindingRule(FieldRule[Nodes]):
    """Nodes that pending jobs must have."""

    name = Field.NODES
    field = Field.NODES

    def read(self, job: Job) -> Nodes:
        """Return the nodes that Slurm shows as required."""
        return Nodes(names=_now(job))

    def state_of(self, one: Change[Nodes], job: Job) -> FieldState:
        """State of a job's nodes; where it shows its own list, by their number."""
        names = _now(job)
        if names == one.previous.names and not is_as_set(job, one):
            return FieldState.OWN
        if names == one.value.names:
            return FieldState.IN_PLACE if _has_arrived(job, one) else FieldState.EARLIER
        if names in {one.previous.names, _before(one)}:
            return FieldState.EARLIER
        return FieldState.PARTLY if is_as_set(job, one) else FieldState.OTHERS

    def wants_of(self, order: Order, context: CycleContext) -> Iterable[Want[Nodes]]:
        """Yield that the preemptor is bound to the nodes of its order, which it waits for."""
        job = context.snapshot.jobs.get(order.preemptor)
        in_round = context.snapshot.job_class(order.preemptor) is JobClass.BE
        if job is None or not (order.victims or in_round) or not is_bindable(job):
            return
        if _needs_none(job.job_id, order, context):
            return
        nodes = tuple(sorted(order.nodes))
        why = Reason(
            code=ReasonCode.BOUND,
            text=(
                f"its turn in this round is on {','.join(nodes)}"
                if in_round
                else f"a victim is to leave {','.join(nodes)} for it, so it waits for those nodes"
            ),
            preemptor=job.job_id,
            order_id=order.order_id,
        )
        # Of a round's order the turn is on its own nodes or not at all (`orders/refused_changes.py`).
        yield Want(job_id=job.job_id, value=Nodes(names=nodes), why=why, insists=in_round)

    def changed(
        self, want: Want[Nodes], one: Change[Nodes] | None, job: Job, context: CycleContext
    ) -> Change[Nodes] | None:
        """Change by which a job is bound; it is sent again if that was lost."""
        is_new = one is None or one.restored or one.order_id != want.why.order_id
        if one is None or is_new or one.value.names != want.value.names:
            return self._bound(job, want, one, context)
        where = self.state_of(one, job)
        if where not in {FieldState.OWN, FieldState.EARLIER}:
            return None
        # What is shown stays one of tesched's for as long as it is shown. Else the command before this one may yet
        # arrive, also where this one is certainly not sent.
        is_before = where is FieldState.EARLIER and _now(job) == _before(one)
        return replace(one, at=context.now, taken_at=None, before=one.before if is_before else one.value)

    def setting(self, after: Change[Nodes], why: Reason, job: Job) -> SetField:
        """Action that binds a job; its `previous` is what the job wants by itself."""
        return self.action(job.job_id, why, after.value, after.previous)

    def _bound(
        self, job: Job, want: Want[Nodes], earlier: Change[Nodes] | None, context: CycleContext
    ) -> Change[Nodes] | None:
        """Return the change by which a job is bound to these nodes; None: it must have others by itself."""
        in_round, nodes = context.snapshot.job_class(job.job_id) is JobClass.BE, want.value.names
        one = None if earlier is None or earlier.restored else earlier
        previous = Nodes(names=_now(job))
        if one is not None and (where := self.state_of(one, job)) in {FieldState.OTHERS, FieldState.PARTLY}:
            # What its user has set meanwhile is its own; a number that is still as tesched has set it is put back.
            previous = replace(previous, count=one.previous.count if where is FieldState.PARTLY else None)
            one = None
        elif one is not None:
            previous = one.previous
        # It may get more than it allows, by MinNodes of its partition: Slurm takes no such number, and needs none.
        release = context.snapshot.settings.release
        settable = is_open(job, release, len(nodes)) and len(nodes) <= job.request.max_nodes
        # It would be its number of tasks ever after (`placement/reckoned.py`).
        settable = settable and job.request.reckoned_nodes < 2
        keeps = not in_round and _keeps_its_own(previous, nodes, settable=settable)
        if one is None and previous.names and not keeps:
            return None
        if previous.count is None and (in_round or settable):
            previous = replace(previous, count=_own_count(job, len(nodes), with_tasks=in_round))
        count = NodeCount(least=len(nodes), most=len(nodes)) if previous.count is not None else None
        since = earlier.since if earlier is not None else None
        value = Nodes(names=nodes, count=count)
        return replace(
            first_change(job.job_id, Field.NODES, previous, value, context.now, order_id=want.why.order_id),
            # What an order before this one has set is ours, too, until the new list is seen.
            before=Nodes(names=_now(job)) if one is not None and self.state_of(one, job).is_ours else None,
            since=context.now if since is None else since,
        )

    def carry_out(self, intents: Sequence[Any], orders: Orders, context: CycleContext) -> None:
        """Set free the jobs that wait bound for an order that frees nothing for them any more."""
        holding = {order.order_id: order for order in open_now(orders)}
        bound = context.changes_of(self.name).items()
        self.put_back_others({job_id for job_id, one in bound if not _is_over(job_id, one, holding, context)}, context)

    def restore(self, orders: Orders, context: CycleContext) -> None:
        """Set all jobs free that wait."""
        super().restore(orders, context)
        bound = context.changes_of(self.name)
        for job_id in [job_id for job_id, one in bound.items() if one.restored]:
            del bound[job_id]

    def taken_over(self, one: Change[Nodes]) -> Change[Nodes]:
        """Leave the nodes to others; its number is put back with the order's end."""
        return one

    def over(self, one: Change[Nodes]) -> Change[Nodes]:
        """Remember for how long a job was bound: that counts on for its next order."""
        return replace(one, restored=True)

    def unset(self, one: Change[Nodes], job: Job | None) -> Change[Nodes] | None:
        """Remember the binding of a job that runs, or has ended: it may be requeued, and is set free there."""
        return None if job is None or one.restored else replace(one, since=None)

    def unsent(self, one: Change[Nodes], outcome: Outcome) -> Change[Nodes] | None:
        """Take back a first binding that certainly did not reach Slurm; in shadow mode, none did."""
        kind = outcome.failure.kind if outcome.failure else None
        if outcome.status is Status.FAILED and kind in MAY_HAVE_ARRIVED:
            return one
        if one.before is not None:
            return one  # it is set again; `before` is what is shown, and an earlier command may yet arrive
        # Of the first one nothing is left; else for how long it was bound counts on.
        return None if one.since == one.at else replace(one, restored=True)

    def back(self, one: Change[Nodes], job: Job, context: CycleContext) -> SetField:
        """Set a job free: its own nodes and their number; what others have set in the meantime stays."""
        text = "it may start wherever it was allowed to"
        why = Reason(code=ReasonCode.SET_FREE, text=text, preemptor=one.job_id, order_id=one.order_id)
        names = one.previous.names if self.state_of(one, job).is_ours else _now(job)
        count = one.previous.count if is_as_set(job, one) else None
        return self.action(one.job_id, why, Nodes(names=names, count=count), one.value)


def _keeps_its_own(own: Nodes, nodes: tuple[str, ...], *, settable: bool) -> bool:
    """Check whether a job that has nodes of its own keeps them if it is bound to these, and that changes anything."""
    return set(own.names) <= set(nodes) and (settable or own.names != nodes)


def _is_over(job_id: JobId, one: Change[Nodes], holding: Mapping[OrderId, Order], context: CycleContext) -> bool:
    """Check whether a bound job's order no longer frees resources, or it needs no nodes of its own any more."""
    order = None if one.order_id is None else holding.get(one.order_id)
    return order is None or _needs_none(job_id, order, context)


def _needs_none(job_id: JobId, order: Order, context: CycleContext) -> bool:
    """Check whether a TE job takes what comes first: it was bound for long enough, or a node is out of service."""
    if context.snapshot.job_class(job_id) is JobClass.BE:
        return False  # in a round it is bound however long it takes
    gone = gone_nodes(order, context.snapshot, context.columns.capacity)
    return bool(gone) or _long_enough(job_id, order, context)


def _long_enough(job_id: JobId, order: Order, context: CycleContext) -> bool:
    """Check whether a TE job has been bound for `guard.bind_for_s`, counted from its first binding in this wait.

    An order after the first one does not count anew: the TE job would sit beside free nodes for as long as it waits.
    A victim that is ending when that time is over is awaited, and its nodes are the TE job's for as long after that.
    """
    one, most_s = context.changes_of(Field.NODES).get(job_id), context.limits.bind_for_s
    since = context.now if one is None or one.since is None else one.since
    if most_s <= 0:
        return True
    if one is not None and not one.restored:
        if context.is_awaited(order):
            return False
        left_at = max((victim.left_at for victim in order.victims if victim.left_at is not None), default=since)
        since = left_at if left_at - since > most_s else since
    return context.now - since > most_s


def _own_count(job: Job, nodes: int, *, with_tasks: bool) -> NodeCount | None:
    """Number of nodes that the job asks for, if Slurm has to get it with the nodes: Slurm gives as many as it may.

    With a list of required nodes alone Slurm 22.05 adds others to it, or says BadConstraints where the tasks are fewer.
    Of a turn in a round the nodes may be more than the tasks, which Slurm then adds to. Of a TE job it leaves tasks and
    CPUs alone, and so does tesched: what its user makes of them is its user's.
    """
    request = job.request
    if request.min_nodes == request.max_nodes == nodes:
        return None
    if not with_tasks:
        return NodeCount(least=request.min_nodes, most=request.max_nodes)
    return NodeCount(least=request.min_nodes, most=request.max_nodes, tasks=request.tasks, cpus=request.cpus)


def _has_arrived(job: Job, one: Change[Nodes]) -> bool:
    """Check whether the number of nodes is no longer the job's own: the one that was set, or its user's since then."""
    own, asked = one.previous.count, (job.request.min_nodes, job.request.max_nodes)
    return own is None or asked != (own.least, own.most) or asked == (len(one.value.names),) * 2


def _before(one: Change[Nodes]) -> tuple[str, ...]:
    return one.before.names if one.before is not None else ()


def _now(job: Job) -> tuple[str, ...]:
    return tuple(sorted(job.request.required_nodes))


NODE_BINDING_RULE = NodeBindingRule()
