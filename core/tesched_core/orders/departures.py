"""Departure: how a victim left its nodes, as a snapshot shows it, or may yet, and whether it is to run again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from tesched_core.context import RESEND_AFTER_S
from tesched_core.intake.ends_for_good import ends_when_preempted
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.notice import ExitZero
from tesched_core.model.order import Departure, Purpose, Victim, VictimState
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.lost_nodes import has_not_reported

#: What Slurm says of a job that it holds since it was put back in the queue too often.
_MOST_REQUEUES = re.compile(r"^Job(Held|Hold)Max(Preempt)?Requeue")


def departure_of(victim: Victim, job: Job | None, now: UnixSeconds, release: str = "") -> Departure | None:
    """Way in which a victim left its nodes; None while the run that was meant still holds them.

    `release` is Slurm's: what exit status 0 means may depend on it. `now` is when this is seen.
    """
    if job is None:
        return Departure.VANISHED
    if job.restarts > victim.restarts and not (job.completing and job.on_nodes):
        return _put_back(victim)
    if job.on_nodes:
        return None
    if job.pending:
        return _put_back(victim)
    if job.finished and not job.completing:
        return _own_end(victim, job, now, release)
    return None


def may_go(victim: Victim, snapshot: Snapshot) -> bool:
    """Check whether a victim on its nodes is on its way out, or may be, though nothing more is done for that.

    One that is ending does leave, however long its Epilog takes, and one whose node has not reported may have left. One
    under notice may be about to leave, and then has paid; when its grace period is over, it stays. A requeue that
    arrives is seen at once: its job is ending.
    """
    job = snapshot.jobs.get(victim.job_id)
    if job is not None and job.completing:
        return True
    if victim.noticed_at is None:
        return False
    if any(has_not_reported(name, snapshot) for name in victim.nodes):
        return True
    # What is of a time that has not come is not awaited until then: a clock was set back while no daemon ran.
    if victim.state is VictimState.REQUEUING and victim.requeue_sent_at is not None:
        return abs(snapshot.taken_at - victim.requeue_sent_at) <= RESEND_AFTER_S
    return abs(snapshot.taken_at - victim.noticed_at) < victim.grace_period_s


def held_for_good(job: Job) -> str:
    """Reason that Slurm itself holds a job that waits to run again, until an admin releases it; empty if it does not.

    Slurm does so where a site bounds how often a job may be put back. (MaxPreemptRequeue is of a release to come: its
    reason word is read in the proposal, and was never seen.)
    """
    if not job.pending or not job.held or not _MOST_REQUEUES.search(job.reason):
        return ""
    return f"Slurm holds it, since it was put back as often as the site allows ({job.reason})"


def had_its_notice(victim: Victim) -> bool:
    """Check whether it was sent the signal that was declared for it: without a grace period none is sent."""
    return victim.gets_notice and victim.noticed_at is not None and not victim.by_suspending


def to_end(victim: Victim, job: Job) -> Victim:
    """Return the victim, which ends for good if its owner says so now, and if it leaves for a TE job."""
    ends = victim.purpose is Purpose.TE and ends_when_preempted(job.comment)
    return victim if ends == victim.ends else replace(victim, ends=ends)


def _put_back(victim: Victim) -> Departure:
    """Departure of a victim whose run is over and whose job waits."""
    if victim.state is VictimState.REQUEUING:
        return Departure.REQUEUED
    # Its rerun was sent while it had its grace period: it had failed (`orders/early_rerun.py`).
    early = victim.state is VictimState.NOTICED and victim.requeue_sent_at is not None
    return Departure.DIED_OF_NOTICE if early else Departure.REQUEUED_ITSELF


def _own_end(victim: Victim, job: Job, now: UnixSeconds, release: str) -> Departure:
    """Departure of a victim whose run has ended by itself."""
    asked = had_its_notice(victim)
    # A cancel that did not arrive ends nothing, and its owner may have taken the word back since.
    ends = victim.ends and ends_when_preempted(job.comment)
    if victim.state is VictimState.REQUEUING and victim.ends and job.state is JobState.CANCELLED:
        return Departure.ENDED
    if job.state is JobState.COMPLETED:
        # What Slurm does it does to jobs that end in their grace period; a job's or a site's own word holds for good.
        in_time = victim.exit0 is not ExitZero.SLURM or _in_its_grace_period(victim, job, now)
        again = asked and in_time and victim.exit0.runs_again(release)
        if again and ends:
            return Departure.ENDED
        return Departure.SAVED if again else Departure.FINISHED
    # Its own failure and the signal's can't be distinguished (a trap may exit with any code); to run once more is the
    # lesser harm, and counts towards guard.max_preemptions_per_job.
    if not asked or job.state is not JobState.FAILED:
        return Departure.DIED
    return Departure.ENDED if ends else Departure.DIED_OF_NOTICE


def _in_its_grace_period(victim: Victim, job: Job, now: UnixSeconds) -> bool:
    """Check whether a victim that had its notice ended before its grace period was over.

    One that sat it out and ended later, while the daemon was away, has finished. Slurm's times are whole seconds.
    """
    deadline = victim.deadline
    return deadline is None or now <= deadline or (job.end_time is not None and job.end_time <= deadline + 1)


DEPARTURE_TEXT: Mapping[Departure, str] = {
    Departure.REQUEUED: "released its resources and is back in the queue",
    Departure.REQUEUED_ITSELF: "put itself back in the queue",
    Departure.FINISHED: "finished; it will not run again",
    Departure.DIED_OF_NOTICE: "died of its notice, and is put back in the queue",
    Departure.SAVED: "has saved its work and ended, and is put back in the queue",
    Departure.ENDED: "ended, and does not run again, as its owner has said (preempted=end)",
    Departure.DIED: "failed or was cancelled",
    Departure.LOST: "is lost",
    Departure.VANISHED: "is unknown to Slurm now",
}
