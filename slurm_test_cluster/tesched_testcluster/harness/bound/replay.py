"""Replay of what a real cluster did, for the ledger of the attacks on guard.bound.

`Change`s are what was seen of the jobs from outside of tesched, by what wrote it down: the submission, slurmctld's own
prolog when a job gets its nodes, each node's Epilog when a run has left it. A best-effort (BE) job's run that leaves
its nodes before the job has said that it is done was ended for a TE job of another user, as no user ends any here.

A job that is cancelled while slurmctld's prolog runs for it is never launched, and no node runs an Epilog for it.
It has left when its cancel has returned, or when another job has its place (`never_launched`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from tesched_core.model.cluster import JobState
from tesched_core.model.resources import JobId

from tesched_testcluster.harness.bound.jobs import ModelJob, Phase
from tesched_testcluster.harness.bound.ledger import Ledger

#: the ledger asks who a victim's TE job belongs to; here it is always another user
_ANOTHER_USER = "another user"


class What(IntEnum):
    """Kind of a change; of two at one moment that of the lesser number comes first."""

    LEFT = 0
    DONE = 1
    CANCELLED = 2
    SUBMITTED = 3
    STARTED = 4


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """One change. Seconds; `rows` are nodes."""

    at: float
    what: What
    job_id: JobId
    rows: tuple[int, ...] = ()


def never_launched(changes: Iterable[Change], cancelled: Mapping[JobId, float]) -> list[Change]:
    """Return the ends of the jobs that were cancelled in slurmctld's prolog: they got nodes, and none ran an Epilog.

    `cancelled` has when each cancel had returned, seconds.
    """
    changes = list(changes)
    left = {change.job_id for change in changes if change.what is What.LEFT}
    return [
        Change(max(change.at, cancelled[change.job_id]), What.LEFT, change.job_id, (row,))
        for change in changes
        if change.what is What.STARTED and change.job_id in cancelled and change.job_id not in left
        for row in change.rows
    ]


@dataclass(slots=True, kw_only=True, eq=False)
class Replay:
    """The cluster between two changes."""

    ledger: Ledger
    nodes: int
    cpus: int
    #: every job that was submitted
    all_jobs: dict[JobId, ModelJob]
    #: seconds after its run for which a requeued job is not eligible
    requeue_delay_s: float
    #: jobs that `never_launched` has found
    unlaunched: frozenset[JobId] = frozenset()
    now: float = 0.0
    jobs: dict[JobId, ModelJob] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    #: what can't be, in words
    doubts: list[str] = field(default_factory=list)
    _done: set[JobId] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Begin with an empty cluster."""
        self.free = [self.cpus] * self.nodes

    def waiting(self) -> Iterable[ModelJob]:
        """Return the jobs that may start. Held TE jobs are among them: what they delay is rather over-counted."""
        return (job for job in self.jobs.values() if job.phase is Phase.QUEUE and job.eligible_at <= self.now)

    def run(self, changes: Sequence[Change]) -> None:
        """Go through the changes, and enter them in the ledger."""
        changes = sorted(changes)
        self.now = changes[0].at
        for change in changes:
            self._moves_to(change.at)
            self._apply(change, self.all_jobs[change.job_id])

    def _moves_to(self, at: float) -> None:
        """Let time pass; in between, jobs become eligible."""
        moments = {job.eligible_at for job in self.jobs.values() if self.now < job.eligible_at < at}
        for moment in (*sorted(moments), at):
            if moment > self.now:
                self.ledger.passes(self, self.now, moment)
                self.now = moment

    def _apply(self, change: Change, job: ModelJob) -> None:
        match change.what:
            case What.SUBMITTED:
                job.submitted_at = job.eligible_at = change.at
                job.priority = int(job.te)
                self.jobs[job.job_id] = job
            case What.STARTED:
                if job.phase is not Phase.QUEUE:
                    self.doubts.append(f"job {job.job_id} started at {change.at:.3f} and had not left")
                self._starts(job, change)
            case What.DONE:
                self._done.add(job.job_id)
            case What.LEFT:
                self._leaves(job, change)
            case What.CANCELLED:
                if job.phase is Phase.QUEUE:
                    self._is_over(job, JobState.CANCELLED)

    def _starts(self, job: ModelJob, change: Change) -> None:
        job.phase, job.where, job.started_at = Phase.RUNS, change.rows, change.at
        for row in change.rows:
            if self.free[row] < job.cpus:
                self._unlaunched_leave(row, change.at)
            self.free[row] -= job.cpus
            if self.free[row] < 0:
                self.doubts.append(f"node {row} has more jobs at {change.at:.3f} than fit on it")
        self.ledger.started(job, change.at)

    def _unlaunched_leave(self, row: int, at: float) -> None:
        """Let what was never launched leave: Slurm has given its place to another job."""
        for job_id in self.unlaunched:
            job = self.all_jobs[job_id]
            for each in job.where if row in job.where else ():
                self._leaves(job, Change(at, What.LEFT, job_id, (each,)))

    def _leaves(self, job: ModelJob, change: Change) -> None:
        """Free one node; with the first the run is over."""
        (row,) = change.rows
        if row not in job.where:
            return  # slurmd runs the Epilog again where slurmctld was slow to answer
        if job.phase is Phase.RUNS:
            job.phase = Phase.ENDING
            ran_s = change.at - job.started_at
            # It is begun anew each time.
            job.worked_s = job.longest_s = max(job.longest_s, ran_s)
            if not job.te and job.job_id not in self._done:
                self.ledger.notified(job, _ANOTHER_USER, change.at, anew=True)
                self.ledger.left(job, job.started_at)
                job.restarts += 1
        self.free[row] += job.cpus
        job.where = tuple(one for one in job.where if one != row)
        if job.where:
            return
        if job.te or job.job_id in self._done:
            self._is_over(job, JobState.COMPLETED)
        else:
            job.phase, job.eligible_at = Phase.QUEUE, change.at + self.requeue_delay_s

    def _is_over(self, job: ModelJob, state: JobState) -> None:
        job.phase, job.state = Phase.OVER, state
        self.jobs.pop(job.job_id, None)
        self.ledger.over(job, self.now)
