"""Answers of slurmctld that are not believed: "unknown" is never "gone".

Right after a restart, or with its state lost (StateSaveLocation), slurmctld may answer without an error and without
what there was. Believed, such an answer would end every order, forget the payments, and leave what was raised as it is,
for good. Slurm keeps a job that has ended for MinJobAge. So jobs that had not ended at the last good poll and are
missing sooner than that have not simply ended; for so long the answer counts as none, and after that it is believed.
"""

from __future__ import annotations

from collections.abc import Iterator

from tesched_core.model.cluster import Job
from tesched_core.model.draft import MemoryDraft
from tesched_core.model.memory import Memory
from tesched_core.model.snapshot import Snapshot
from tesched_core.orders.missing import MOST_S, believed_gone_after_s


def doubt(snapshot: Snapshot, last: Snapshot | None, memory: Memory, since_s: float) -> str:
    """Reason that this answer cannot be the whole of what there is, in words; empty if it may be.

    `last` is the last good poll, `since_s` seconds ago; None after a start, which then was `since_s` seconds ago.
    """
    if not snapshot.nodes or not snapshot.partitions:
        return f"slurmctld shows {len(snapshot.nodes)} nodes and {len(snapshot.partitions)} partitions"
    forgets_s = believed_gone_after_s(snapshot.settings)
    wait = f"; nothing is decided until they are back, or {{:.0f}} s have passed ({since_s:.0f} have)"
    if since_s < forgets_s:
        if last is not None:
            lost, of = _lost(snapshot, last)
            if lost and 2 * lost >= of:
                text = f"slurmctld no longer knows {lost} of the {of} jobs that had not ended at the last poll"
                return text + " (has it lost its state?)" + wait.format(forgets_s)
        elif not snapshot.jobs and _jobs_of(memory):
            return "slurmctld shows no job, and some are remembered" + wait.format(forgets_s)
    if since_s < MOST_S:
        held = {share.node for job in snapshot.jobs.values() for share in job.allocation}
        missing = len(held - snapshot.nodes.keys())
        if 2 * missing > len(held):
            text = f"slurmctld shows jobs on {len(held)} nodes, and does not show {missing} of these nodes"
            return text + wait.format(MOST_S)
    return ""


def _jobs_of(memory: Memory) -> bool:
    """Check whether anything is remembered that would be forgotten if there were no jobs."""
    # An order that came to nothing without a victim is left out: no harm is done if it is forgotten.
    of_jobs = (
        one.preemptions or one.last_preempted is not None or one.past is not None or one.futile is not None
        for one in memory.jobs.values()
    )
    return bool(memory.open_orders()) or any(of_jobs) or any(memory.changes.values())


def _lost(snapshot: Snapshot, last: Snapshot) -> tuple[int, int]:
    """Count the jobs that had not ended and are unknown now, and all that had not ended."""
    if last.jobs.keys() <= snapshot.jobs.keys():
        return 0, 0
    lost = sum(not last.jobs[job_id].finished for job_id in last.jobs.keys() - snapshot.jobs.keys())
    # Only where some are missing is it worth counting them all.
    return lost, sum(not job.finished for job in last.jobs.values()) if lost else 0


def unread(seen: Snapshot) -> Iterator[tuple[str, str, str]]:
    """Yield what could not be read: a job's label, its user, and why; of a site's object, its name and no user.

    Jobs come last, as users may have many.
    """
    for kind, found in (("node", seen.nodes), ("partition", seen.partitions), ("reservation", seen.reservations)):
        yield from ((f"{kind} {one.name}", "", one.doubt) for one in found.values() if one.doubt)
    yield from ((job.label, job.user, job.doubt) for job in seen.jobs.values() if job.doubt)


def without_namesakes(memory: Memory, snapshot: Snapshot) -> Memory:
    """Return the memory without what it holds of jobs with an id that is another job's now.

    Slurm's ids are used again when its counter wraps, or starts anew with its state lost. Each preemption is a requeue
    that Slurm counts (Restarts), so a job with fewer restarts than preemptions is not the one that was preempted. One
    that is still a victim of an order is left: it may be on its way out, and not be counted yet.
    """
    busy = {victim.job_id for order in memory.open_orders() for victim in order.victims}
    others = {
        job_id
        for job_id, one in memory.jobs.items()
        if job_id not in busy and _another(snapshot.jobs.get(job_id), one.preemptions)
    }
    if not others:
        return memory

    draft = MemoryDraft.of(memory)
    for job_id in others:
        draft.update(job_id, preemptions=0, lost_runs=0, last_preempted=None, past=None)
    return draft.written(memory)


def _another(job: Job | None, times: int) -> bool:
    # Of a job that could not be read, the count of restarts is not known.
    return job is not None and not job.doubt and not job.completing and job.restarts < times
