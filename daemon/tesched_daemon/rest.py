"""Rest: when a poll need not read everything, and when the next poll is due.

slurmctld is shared, so the daemon's RPCs have a budget: 60 a minute at rest, and 30 where nothing changes, but for a
whole poll now and then. At rest no decision is due, whatever nodes and running jobs are like: no TE job waits for
resources, no order is under way, nothing that tesched has changed can be put back, and no policy moves BE jobs on
its own. A poll may then be the question whether any job has changed (`Observer.observe`). No decision rests on less
than a whole poll, but for those of early turns, for which what they rest on is read alone (`early.py`).

While nothing changes, polls come less and less often, down to one every `REST_S`, which is the default interval: a TE
job is never found later than that. A change brings the configured interval back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tesched_core.fields.nice import awaits_release, outlasts_its_job
from tesched_core.intake.pending_reason import resources_would_not_help
from tesched_core.model.change import Change
from tesched_core.model.cluster import Job
from tesched_core.model.decision import Decision, RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.memory import Memory
from tesched_core.model.order import VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.placement.jobs_there import TasksThere
from tesched_core.policy import PolicyEntry

from tesched_daemon.settings import Mode, Pace

#: Seconds between polls at rest, where the configured interval is shorter; and the part of the time since the last
#: change that is waited at most.
REST_S = 2.0
PART = 0.1

#: Of a job that resources would not help its record says when they would: that is a change. Of these it is not known.
_UNKNOWN = frozenset({RefusalCode.UNREAD, RefusalCode.NOT_CONSIDERED_YET})


@dataclass(slots=True, kw_only=True)
class Rest:
    """Whether the cluster is at rest, and since when."""

    #: the jobs of the poll before
    _jobs: Mapping[JobId, Job] | None = None
    #: by the stopwatch, when they were last found changed
    _since: float = 0.0

    def saw(self, seen: Snapshot, at: float, *, whole: bool) -> None:
        """Take in a poll, made at this time by the stopwatch, and whether all of it had to be read."""
        # The same object comes back where no job has changed, but for a whole poll now and then.
        if whole or (seen.jobs is not self._jobs and seen.jobs != self._jobs):
            self._since = at
        self._jobs = seen.jobs

    def interval_s(self, pace: Pace, at: float) -> float:
        """Return the seconds from one poll to the next."""
        return max(pace.poll_interval_s, min((at - self._since) * PART, REST_S))


def all_is_due(
    memory: Memory, last: Snapshot | None, policies: Sequence[PolicyEntry], limits: Limits, mode: Mode
) -> bool:
    """Check whether the next poll must read everything; `last` is the last good one, classified."""
    if last is None:
        return True
    if mode is Mode.OBSERVE:
        return False
    there = TasksThere(last.jobs)
    return (
        # Of what was put back lately the nodes say whether slurmctld goes on with an older state.
        bool(memory.orders or memory.newly_lost or memory.put_back)
        or any(one.missing_since is not None for one in memory.jobs.values())
        or any(is_open(change, last, there) for changes in memory.changes.values() for change in changes.values())
        # A policy that remembers may act at a time of its own.
        or any(state is not None for state in memory.policy_states.values())
        or not all(entry.policy.serves_te for entry in policies)
        # Marks follow the running jobs.
        or limits.lever is YieldBy.PLUGIN
        or any(map(_may_want_resources, waiting_te(last)))
    )


def is_open(change: Change[Any], last: Snapshot | None, there: TasksThere | None) -> bool:
    """Check whether a change was really made and may be put back, by the last good poll and its jobs."""
    if last is None or there is None or (job := last.jobs.get(change.job_id)) is None:
        return not (change.restored or change.dry)
    # Its release, or its requeue, changes its record.
    waits = not (job.doubt or job.partly_read) and (
        awaits_release(job, change, last) or _awaits_requeue(job, change, there)
    )
    return not (change.restored or change.dry or waits)


def _awaits_requeue(job: Job, change: Change[Any], there: TasksThere) -> bool:
    """Check whether a change stays unless its job, which has ended, is requeued: Slurm takes nothing of that now."""
    return outlasts_its_job(change, there) or (job.finished and change.field in {Field.NODES, Field.HOLD})


def waiting_te(last: Snapshot) -> Iterable[Job]:
    """Return the TE jobs that wait, as the last good poll has them."""
    # Of 100,000 jobs few are TE: the classes come first, in the quickest loop that there is.
    wanted = JobClass.TE
    of_te = [job_id for job_id, traits in last.traits.items() if traits.job_class is wanted]
    return [job for job in map(last.jobs.get, of_te) if job is not None and job.pending]


def _may_want_resources(job: Job) -> bool:
    why = resources_would_not_help(job)
    return why is None or why[0] in _UNKNOWN


def next_poll_in_s(memory: Memory, decision: Decision, snapshot: Snapshot, now: float, interval_s: float) -> float:
    """Return the seconds until the next poll, which comes after `interval_s` at the latest.

    It comes when the next grace period is over: a site that is poked may poll seldom, and the TE job waits for that.
    One that was over before this poll does not count: what could be done about it has been done.
    """
    due = [max(deadline - now, 0.0) for deadline in _grace_ends(memory) if deadline > snapshot.taken_at]
    if decision.next_at is not None and decision.next_at > snapshot.taken_at:
        due.append(max(decision.next_at - now, 0.0))
    return min([*due, interval_s])


def _grace_ends(memory: Memory) -> list[float]:
    """Times at which the grace periods are over of all victims that have had their notice and still hold resources."""
    return [
        victim.deadline
        for order in memory.open_orders()
        for victim in order.victims
        if victim.state is VictimState.NOTICED and victim.deadline is not None
    ]
