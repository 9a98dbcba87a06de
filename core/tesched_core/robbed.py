"""Orders whose room others have taken while it was being made, and who is asked to leave for it besides.

Room that is free on a node counts towards a plan, and until the victims have left, Slurm's backfill may give it to a
job that it expects to be gone before the trial can start there: the trial is bound to that node and first in the queue,
but backfill goes by time limits, and knows nothing of an order. Then those who were asked would leave for nothing.

So while the trial is bound to its room, the policy is asked once more, for that trial and those nodes alone. Who came
after the order was made may be asked, though it has not run for guard.min_run_time_s yet: it has lost next to nothing,
and it sits on room that was promised. All other limits hold.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

from tesched_core.advance import give_notice, victim_of
from tesched_core.cluster import Job
from tesched_core.decision import Memory, Refusal, Refusals
from tesched_core.guard import Limits, admitted, excuses
from tesched_core.orders import HOLDS_ROOM, Order, OrderState
from tesched_core.overview import Overview
from tesched_core.policy import TePolicy, View
from tesched_core.promised import room_after_orders
from tesched_core.resources import JobId, UnixSeconds
from tesched_core.snapshot import JobClass
from tesched_core.work import Advance

#: stands for nobody
_NOBODY = JobId(-1)


def ask_more(memory: Memory, work: Advance, policy: TePolicy, limits: Limits) -> tuple[Memory, Refusals, int]:
    """Return the memory in which robbed orders have asked others, why not where nobody may be asked, and how many were.

    Their notices go to `work`. An order that cannot be mended stays as it is: who has taken the room may leave again.
    """
    refusals = Refusals()
    asked = 0
    for order in memory.open_orders():
        trial = work.snapshot.jobs.get(order.preemptor)
        if trial is None or not _robbed(order, trial, memory, work):
            continue
        others = [one if one is not order else replace(one, preemptor=_NOBODY) for one in memory.open_orders()]
        room = room_after_orders(others, work.snapshot, work.overview.room)
        newcomers = _newcomers(order, work.overview)
        view = View(
            snapshot=work.snapshot,
            memory=memory,
            waiting=(trial,),
            running=work.overview.running,
            excuses=excuses(
                work.overview.running, memory, limits, work.now, work.overview.room.index, newcomers=newcomers
            ),
            room=room,
        )
        proposal = policy.propose(view)
        dropped: list[Refusal] = []
        # The order is open already, and takes no place of another one.
        more = replace(limits, max_open_orders=limits.max_open_orders + 1)
        plans = admitted(proposal.plans, view, more, dropped.append, asked=asked)
        plan = next((one for one in plans if one.victims and set(one.nodes) == set(order.nodes)), None)
        if plan is None:
            refusals += proposal.refusals + Refusals(dropped)
            continue
        asked += len(plan.victims)
        memory = _with_more(order, plan.victims, memory, work)
    return memory, refusals, asked


def _robbed(order: Order, trial: Job, memory: Memory, work: Advance) -> bool:
    """Return whether the trial waits bound to this room, and will not fit there when its victims have left."""
    bound = memory.bound.get(order.preemptor)
    waits_here = (
        order.state is OrderState.OPEN
        and bool(order.victims)
        and not any(victim.by_suspending for victim in order.victims)
        and trial.pending
        and work.snapshot.job_class(order.preemptor) is JobClass.TE
        and bound is not None
        and bound.order_id == order.order_id
        and tuple(sorted(trial.request.required_nodes)) == bound.nodes
        and work.now - _first_asked(order, work.now) <= work.limits.bind_for_s
    )
    room = work.overview.room
    rows = [room.index[name] for name in order.nodes if name in room.index]
    if not waits_here or len(rows) < len(order.nodes):
        return False
    if not (room_after_orders(memory.open_orders(), work.snapshot, room).free[rows] < 0).any():
        return False
    # Who is just leaving gives his room back by himself.
    ours = {victim.job_id for victim in order.victims if victim.state in HOLDS_ROOM}
    here = set(order.nodes)
    return not any(
        job.completing and job.job_id not in ours and not here.isdisjoint(job.nodes)
        for job in work.snapshot.jobs.values()
    )


def _first_asked(order: Order, now: UnixSeconds) -> UnixSeconds:
    return min((victim.noticed_at for victim in order.victims if victim.noticed_at is not None), default=now)


def _newcomers(order: Order, overview: Overview) -> frozenset[JobId]:
    """Return who has started on the order's nodes since it first asked somebody; Slurm's times are whole seconds."""
    since = _first_asked(order, inf) - 1
    room, running = overview.room, overview.running
    rows = {room.index[name] for name in order.nodes if name in room.index}
    here = {int(job) for job, node in zip(running.share_job, running.share_node, strict=True) if int(node) in rows}
    return frozenset(JobId(int(running.job_id[row])) for row in here if float(running.started[row]) > since)


def _with_more(order: Order, victims: tuple[tuple[JobId, float], ...], memory: Memory, work: Advance) -> Memory:
    """Return the memory in which the order has asked these, too; their notices go to `work`."""
    snapshot = work.snapshot
    more = tuple(victim_of(snapshot.jobs[job_id], score, snapshot) for job_id, score in victims)
    longest = max(victim.grace_period_s for victim in more)
    text = f"others have taken room that was free on {','.join(order.nodes)}; asked to leave besides: " + ", ".join(
        str(job_id) for job_id, _ in victims
    )
    work.moved(order.order_id, None, order.state, order.state, text)
    order = replace(
        order,
        expires_at=max(
            order.expires_at, work.now + longest + snapshot.settings.kill_wait_s + work.limits.order_timeout_s
        ),
        victims=(
            *order.victims,
            *(give_notice(victim, snapshot.jobs[victim.job_id], order, work) for victim in more),
        ),
    )
    # It waits for this room anew.
    work.bound[order.preemptor] = replace(work.bound[order.preemptor], at=work.now)
    return replace(memory, orders={**memory.orders, order.order_id: order})
