"""Leaving together: which victim of an order is notified at once, and which one when the others are about to leave.

Definitions
    quick     a victim that has declared no signal: it is requeued without a notice, and leaves within seconds
    saving    a victim that has had its notice, or is to have it, and still runs: its grace period may take minutes
    lead      seconds before the end of the grace periods at which a quick victim is requeued: what jobs like it take to
              leave, but no longer than Slurm keeps a requeued job from starting (`requeue_delay_s`)

Principle
    All resources are needed at once, so nothing is gained by a victim that leaves early: it loses what it would have
    done meanwhile, and it is eligible again before the last one has left. Slurm's backfill then puts it back on its
    old node (seen on 22.05 and 26.05), its limits protect it there, and all have left for nothing.

    So the saving ones have their notice at once, all of them: each may leave long before its grace period is over. A
    quick one is requeued when the last of them has left, or when its lead is all that is left of the longest grace
    period or, of one that is ending, of what the last Epilog there took. An order that is withdrawn before that has
    cost it nothing.

Worked example
    Job 1 has declared a signal and a grace period of 60 s, job 2 none; jobs like job 2 take 2 s to leave, and a
    requeued one may start after 121 s. Job 1 has its notice at 0 s. If it leaves at 4 s, job 2 is requeued at the next
    poll; if it sits its grace period out, at 58 s, and both leave at 60 s.

Source
    tesched's own.
"""

from __future__ import annotations

from math import inf

from tesched_core.context import CycleContext
from tesched_core.intake.leave_times import expected_leave_s
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.order import Order, Victim, VictimState

#: States of a victim that has not been requeued yet, beyond its notice.
_UNDER_NOTICE = frozenset({VictimState.PLANNED, VictimState.NOTICED})


def is_quick(victim: Victim) -> bool:
    """Check whether a victim is requeued without a notice."""
    return not victim.by_suspending and not victim.gets_notice


def is_early(victim: Victim, job: Job, order: Order, context: CycleContext) -> bool:
    """Check whether it is too early to ask a victim, since another one of the order is still saving its work."""
    if not is_quick(victim):
        return False
    known = expected_leave_s(
        context.snapshot.leave_times, (job.user, job.name), float(context.snapshot.settings.kill_wait_s)
    )
    lead_s = min(known, float(context.snapshot.settings.requeue_delay_s))
    return any(_saves_for_s(other, context) > lead_s for other in order.victims if other.job_id != victim.job_id)


def _saves_for_s(victim: Victim, context: CycleContext) -> float:
    """Seconds for which a victim may go on holding its nodes; 0: it has left, or that is not known."""
    if is_quick(victim) or victim.by_suspending or victim.state not in _UNDER_NOTICE:
        return 0.0
    left_s = victim.grace_period_s if victim.deadline is None else max(victim.deadline - context.now, 0.0)
    job = context.snapshot.jobs.get(victim.job_id)
    if job is None:
        return left_s if victim.job_id in context.absent else 0.0
    if not job.on_nodes:
        return 0.0
    if job.completing:
        # It may be back in the queue, as far as Slurm shows: it has its nodes until then.
        return _ends_for_s(victim, context)
    if job.restarts > victim.restarts:
        return 0.0
    # One that an admin has suspended saves nothing meanwhile, and gets no command.
    return inf if job.state is JobState.SUSPENDED else left_s


def _ends_for_s(victim: Victim, context: CycleContext) -> float:
    """Seconds for which a victim may go on ending, going by the last one on its nodes; 0: not known."""
    times = context.known_ending_times
    longest_s = max((times[name][-1] for name in victim.nodes if name in times), default=0.0)
    since = context.now if victim.ending_since is None else victim.ending_since
    return max(since + longest_s - context.now, 0.0)
