"""Early rerun: a victim that has failed of its notice is put back in the queue while its nodes are still completing.

Definitions
    early rerun   `scontrol requeue` of a job that Slurm shows as COMPLETING, whose run has failed: its processes are
                  gone, and its Epilog, or slurmd's own work, is not over. Slurm then takes it for a job that waits, and
                  it is never shown as FAILED; it stays on its nodes until these have ended their part.

Principle
    Who waits for a job goes by its state. `sbatch --wait` ends with the first state that is an end, also while the
    nodes are completing, and Slurm gives up, or cancels, what depends on a job (afterok) that has failed, in its next
    scheduling pass after that. A rerun after the last Epilog comes too late for both.

    It is for failures alone, which Slurm's reason distinguishes while the state is hidden. A run that a user has
    cancelled shows none of these reasons; one with an exit code that the site has named (RequeueExit, RequeueExitHold)
    is left to Slurm. scancel of a run that has failed does nothing, early or late.

Source
    tesched's own; tried on 22.05.8 and 26.05.5, with one node and several, of which one had ended its Epilog before.
"""

from __future__ import annotations

from tesched_core.context import RESEND_AFTER_S, CycleContext
from tesched_core.intake.pending_reason import has_failed
from tesched_core.model.cluster import Job, SlurmSettings
from tesched_core.model.order import Order, Victim, VictimState
from tesched_core.orders.departures import had_its_notice
from tesched_core.orders.requeue import REQUEUE_LEVER


def failed_of_its_notice(victim: Victim, job: Job, settings: SlurmSettings) -> bool:
    """Check whether the run that pays has failed of its notice, and holds its nodes still."""
    meant = victim.state is VictimState.NOTICED and had_its_notice(victim) and job.restarts == victim.restarts
    by_site = settings.requeue_exit | settings.requeue_exit_hold
    may_return = job.requeueable and not victim.ends and job.exit_status not in by_site
    return meant and may_return and job.completing and has_failed(job)


def rerun_early(victim: Victim, order: Order, context: CycleContext) -> Victim:
    """Return the victim after its rerun was sent, unless that was done a moment ago."""
    sent_at = victim.requeue_sent_at
    if sent_at is not None and context.now - sent_at <= RESEND_AFTER_S:
        return victim
    return REQUEUE_LEVER.rerun(victim, order, context)
