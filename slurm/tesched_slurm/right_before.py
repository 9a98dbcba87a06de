"""Reasons that a command is not sent, by the job as it is right before it: it is not what it was at the poll.

Another run than the one that is meant has begun, the job waits no more, or others hold it by now. A hold of its user's
would be broken, or made an operator's, which that user can't end (22.05).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tesched_core.intake.pending_reason import has_failed
from tesched_core.model.actions import Failure, FailureKind, SetField
from tesched_core.model.cluster import HELD_BY_ITS_USER, Job, JobState
from tesched_core.model.field import Field, HoldState
from tesched_core.model.hook import is_held_by_hook

from tesched_slurm.run_command import Commands
from tesched_slurm.uptime import uptime_s

_NOT_BASIC = re.compile(r"^PriorityType\s*=\s*(?!priority/basic\s*$)\S", re.MULTILINE)
#: Seconds for which Slurm's PriorityType is believed, or that it did not say it: about a turn. Only a slurmctld that is
#: started anew has another one.
PRIORITY_TYPE_AGE_S = 10.0


@dataclass(kw_only=True)
class NiceReleases:
    """Whether Slurm gives a held job a priority with its nice value; read once for all the held jobs of a turn."""

    commands: Commands
    stopwatch: Callable[[], float] = uptime_s
    _known: tuple[float, bool] | None = None

    def now(self) -> bool:
        """Check that: it does with priority/basic, as far as is known."""
        if self._known is None or self.stopwatch() - self._known[0] > PRIORITY_TYPE_AGE_S:
            config = self.commands.run(("scontrol", "show", "config"))
            releases = isinstance(config, Failure) or _NOT_BASIC.search(config) is None
            # Slurm may have taken as long for it.
            self._known = self.stopwatch(), releases
        return self._known[1]


def not_to_be_set(action: SetField, job: Job, nice_releases: NiceReleases) -> Failure | None:
    """Reason that a field of the job is not to be set: it waits no more, or others hold it by now."""
    # Slurm would take a running job's priority, and hold it at its next requeue.
    if (action.field is Field.NODES or action.value is HoldState.HELD) and not job.pending:
        return _by_now(job, str(job.state))
    return _by_now(job, "held") if _is_held_by_others(action, job, nice_releases) else None


def _is_held_by_others(action: SetField, job: Job, nice_releases: NiceReleases) -> bool:
    """Check whether others hold the job since the poll, and the action would change that."""
    if not job.held:
        return False
    if action.value is HoldState.HELD:
        # The hook's is as a user's: one of an operator's came after it.
        return not (is_held_by_hook(job) and job.reason == HELD_BY_ITS_USER)
    if action.value is HoldState.RELEASED:
        return job.reason == HELD_BY_ITS_USER and not is_held_by_hook(job)
    return action.field is Field.NICE and nice_releases.now()


def not_that_run(job: Job, restarts: int) -> Failure | None:
    """Reason that the job is not the run that was meant.

    Slurm would requeue a job that has finished, too, and so run it a second time.
    """
    if job.state not in {JobState.RUNNING, JobState.SUSPENDED} or job.completing:
        return _by_now(job, str(job.state))
    return _unless_restarted(job, restarts)


def not_ended_as(job: Job, restarts: int) -> Failure | None:
    """Reason that the meant run of the job has not ended by itself; None if it has.

    One that has failed, and whose nodes are still completing, has ended.
    """
    ended = job.finished and job.state is not JobState.CANCELLED and not job.completing
    if not ended and not has_failed(job):
        return _by_now(job, str(job.state))
    return _unless_restarted(job, restarts)


def _unless_restarted(job: Job, restarts: int) -> Failure | None:
    if job.restarts != restarts:
        return Failure(kind=FailureKind.ALREADY_DONE, message=f"job {job.job_id} has restarted since")
    return None


def _by_now(job: Job, what: str) -> Failure:
    return Failure(kind=FailureKind.ALREADY_DONE, message=f"job {job.job_id} is {what} by now")
