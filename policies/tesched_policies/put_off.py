"""Jobs that their users have put off: in a round they have no turn, and no nodes are kept for them."""

from __future__ import annotations

from tesched_core.model.cluster import Job
from tesched_core.model.field import Field
from tesched_core.policy import View

#: Slurm's clock may be so far ahead: a job that was just submitted, or put back in the queue, keeps its turn.
_CLOCKS_DIFFER_S = 10.0


def is_put_off(job: Job, view: View) -> bool:
    """Check whether its user has put a pending job off, by a hold or a begin time: it would not start in its turn.

    Slurm may give either as its reason, and of a job that tesched holds it gives the hold alone.
    """
    if not job.pending:
        return False
    memory = view.memory
    hold, begin = memory.changes_of(Field.HOLD).get(job.job_id), memory.changes_of(Field.BEGIN).get(job.job_id)
    ours = hold is not None and hold.by is None and not hold.restored
    if job.held and not ours:
        return True
    # One that is back in the queue has a begin time for that.
    within_s = _CLOCKS_DIFFER_S + (view.snapshot.settings.requeue_delay_s if job.restarts else 0.0)
    later = job.eligible_time is not None and job.eligible_time - view.now > within_s
    return later and (begin is None or begin.restored)
