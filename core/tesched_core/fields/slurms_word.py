"""Whether Slurm has considered a waiting job at the head of its queue, or says so since its submission.

A job that takes whole nodes, of which Slurm finds none idle, has the reason Resources from its submission on (22.05 and
26.05): no limit, licence or place in the queue has been checked. A change of its nice value makes Slurm say None
until its next pass, so what it says after a raise counts; and so does what it says once a pass must have come.
"""

from __future__ import annotations

from tesched_core.fields.nice import is_ours
from tesched_core.intake.pending_reason import seen_at_the_head
from tesched_core.model.change import Change
from tesched_core.model.cluster import Job
from tesched_core.model.request import takes_whole_nodes
from tesched_core.model.snapshot import Snapshot

#: Longer than the time between two passes of Slurm's main scheduler (sched_interval is 60 s), which a change of a job's
#: priority brings forward anyway.
LOOK_WITHIN_S = 90.0


def considered_at_the_head(job: Job, snapshot: Snapshot, raised: Change[int] | None) -> bool:
    """Check whether Slurm has considered this waiting job as the first of its queue, and it lacks resources alone.

    `raised` is what was made of its nice value, or of the priority that stands for it.
    """
    if not seen_at_the_head(job):
        return False
    return not _said_at_its_submission(job, snapshot) or (raised is not None and is_ours(job, raised))


def _said_at_its_submission(job: Job, snapshot: Snapshot) -> bool:
    """Check whether that may be what a job that takes whole nodes was given at its submission."""
    if snapshot.taken_at - job.submit_time > LOOK_WITHIN_S:
        return False
    return any(takes_whole_nodes(job.request, snapshot.partitions.get(name)) for name in job.partitions)
