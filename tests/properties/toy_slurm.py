"""A toy Slurm that does what it should, or does not; that says so, or otherwise; its jobs do as they like.

One partition, nodes of four CPUs, each job on one node. A job keeps its nodes while it is completing, a requeued one is
not eligible at once, a finished one is forgotten after a while. All chance comes from the generator that is given.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

from tesched_core.fields.nice import BASIC, MIN_PRIORITY, MOST_AGAIN
from tesched_core.model.actions import (
    Action,
    Failure,
    FailureKind,
    Notify,
    Outcome,
    ReasonCode,
    Requeue,
    Rerun,
    Resume,
    SetField,
    Status,
    Suspend,
    TellUser,
)
from tesched_core.model.cluster import Job, JobState, NodeShare, Request, SlurmSettings
from tesched_core.model.field import Field, HoldState, Nodes
from tesched_core.model.resources import JobId, Tres
from tesched_core.model.snapshot import JobClass, Snapshot

from tests.builders import NOW, cluster, node, traits

CPUS = 4
REQUEUE_DELAY_S = 6
FORGOTTEN_AFTER_S = 20
#: what a failed command says of itself, and whether it was done all the same
TROUBLE: tuple[tuple[FailureKind, bool], ...] = (
    (FailureKind.BUSY, False),
    (FailureKind.DENIED, False),
    (FailureKind.REFUSED, False),
    (FailureKind.UNREACHABLE, False),
    (FailureKind.UNREACHABLE, True),
    (FailureKind.UNKNOWN, False),
    (FailureKind.UNKNOWN, True),
)


class ToySlurm:
    """The cluster; `calm` makes it obey and its jobs end after a while."""

    def __init__(self, chance: Random, *, nodes: int, be_jobs: int, te_jobs: int) -> None:
        """Begin with a queue of best-effort jobs, and trial-and-error jobs that come later."""
        self.chance = chance
        self.calm = False
        self.now = NOW
        self.nodes = [node(f"n{place}", cpus=CPUS) for place in range(nodes)]
        self.jobs: dict[JobId, Job] = {}
        self.classes: dict[JobId, JobClass] = {}
        self.graces: dict[JobId, float] = {}
        #: jobs with an explicitly set priority: Slurm ignores their nice value
        self.explicit: set[JobId] = set()
        #: nice value and priority as submitted
        self.submitted: dict[JobId, tuple[int, int]] = {}
        #: priority that backfill has read of a job before it was changed, and the restarts then
        self.read: dict[JobId, tuple[int, int]] = {}
        #: jobs of which a change was undone so; they keep their priority in a requeue
        self.undone: Counter[JobId] = Counter()
        #: jobs that are suspended by a command of tesched
        self.suspended_by_tesched: set[JobId] = set()
        #: runs that tesched has requeued
        self.requeued: list[tuple[JobId, int]] = []
        #: preemptions that users were notified of: the job, and which one of its it was
        self.told: list[tuple[JobId, int]] = []
        #: jobs that wait with a begin time that tesched has put later
        self.deferred: set[JobId] = set()
        self._eligible: dict[JobId, float] = {}
        for job_id in range(1, be_jobs + 1):
            self._submit(job_id, JobClass.BE)
        self._schedule()
        for job_id in range(101, 101 + te_jobs):
            self._submit(job_id, JobClass.TE)

    def _submit(self, job_id: int, job_class: JobClass) -> None:
        chance = self.chance
        job = Job(
            job_id=JobId(job_id),
            state=JobState.PENDING,
            partitions=("p",),
            priority=chance.choice([50, 100, 100, 5000]),
            nice=chance.choice([0, 0, 10]),
            reason="Resources",
            submit_time=self.now,
            request=Request(cpus=chance.choice([1, 2, 2, 4]), mem_per_node_mib=1),
        )
        self.jobs[job.job_id] = job
        self.classes[job.job_id] = job_class
        self.graces[job.job_id] = chance.choice([0.0, 4.0, 10.0])
        self.submitted[job.job_id] = (job.nice, job.priority)
        if chance.random() < 0.2:
            self.explicit.add(job.job_id)

    def snapshot(self) -> Snapshot:
        """Return what an observer sees; now and then one job's record is missing.

        Not that of a job on nodes while another one is suspended: its CPUs would seem free, and that one be resumed.
        """
        settings = SlurmSettings(kill_wait_s=4, min_job_age_s=FORGOTTEN_AFTER_S, priority_type=BASIC)
        suspended = any(job.state is JobState.SUSPENDED for job in self.jobs.values())
        hidden = [job_id for job_id, job in self.jobs.items() if not (suspended and job.on_nodes)]
        unread = self.chance.choice(hidden) if hidden and self._happens(0.1) else None
        jobs = [job for job_id, job in self.jobs.items() if job_id != unread]
        seen = cluster(self.nodes, jobs, at=self.now, settings=settings)
        found = {job.job_id: traits(self.classes[job.job_id], self.graces[job.job_id]) for job in jobs}
        return seen.with_traits(found)

    # Commands.

    def act(self, action: Action) -> Outcome:
        """Perform an action, or not, and say what became of it, or otherwise."""
        trouble = not self.calm and self.chance.random() < 0.25
        if trouble:
            kind, done = self.chance.choice(TROUBLE)
            if done:
                self._perform(action)
        else:
            kind_or_none = self._perform(action)
            if kind_or_none is None:
                return Outcome(action=action, status=Status.SENT, at=self.now)
            kind = kind_or_none
        return Outcome(action=action, status=Status.FAILED, at=self.now, failure=Failure(kind=kind, message="no"))

    def _perform(self, action: Action) -> FailureKind | None:
        job = self.jobs.get(action.job_id)
        if job is None:
            return FailureKind.NOT_FOUND
        match action:
            case Notify() | Requeue() if job.restarts != action.restarts or not job.on_nodes or job.finished:
                return FailureKind.ALREADY_DONE
            case Rerun() if job.restarts != action.restarts or not job.finished or job.completing:
                return FailureKind.ALREADY_DONE
            case Rerun():
                self.jobs[job.job_id] = job = replace(job, state=JobState.PENDING)
                self._gone(job)
            case Notify():
                self._heed(job)
            case Requeue():
                self.requeued.append((job.job_id, job.restarts))
                self._leave(job, JobState.PENDING)
            case SetField(field=Field.NICE, value=int(nice)):
                assert not job.held, "it would be released"
                if job.job_id not in self.explicit:
                    self.read[job.job_id] = (job.priority, job.restarts)
                    priority = max(job.priority + job.nice - nice, MIN_PRIORITY)
                    self.jobs[job.job_id] = replace(job, nice=nice, priority=priority)
            case SetField(field=Field.PRIORITY, value=int(explicit)):
                self.explicit.add(job.job_id)
                self.read[job.job_id] = (job.priority, job.restarts)
                # Slurm makes nice 0 then.
                self.submitted[job.job_id] = (0, self.submitted[job.job_id][1])
                self.jobs[job.job_id] = replace(job, nice=0, priority=explicit)
            case SetField(field=Field.NODES) if not job.pending:
                return FailureKind.ALREADY_DONE
            case SetField(value=Nodes(names=names)):
                self.jobs[job.job_id] = replace(job, request=replace(job.request, required_nodes=names))
            case SetField(field=Field.BEGIN, value=int(begin)):
                assert job.pending
                self._begins(job, max(begin, self.now))
                if action.reason.code is ReasonCode.STAYS_AWAY:
                    self.deferred.add(job.job_id)
                else:
                    self.deferred.discard(job.job_id)
            case Suspend() if job.state is not JobState.RUNNING or job.completing or job.restarts != action.restarts:
                return FailureKind.ALREADY_DONE
            case Suspend():
                self.suspended_by_tesched.add(job.job_id)
                self.jobs[job.job_id] = replace(job, state=JobState.SUSPENDED, priority=0)
            case Resume() if job.state is not JobState.SUSPENDED or job.completing:
                return FailureKind.ALREADY_DONE
            case Resume():
                # Slurm does it all the same, and counts the job as holding nothing from then on.
                assert all(self.free()[share.node] >= share.tres.cpus for share in job.allocation)
                self._go_on(job)
            case TellUser():
                self.told.append((job.job_id, action.times))
            case SetField(value=HoldState.RELEASED):
                assert job.held
                self.jobs[job.job_id] = replace(job, priority=self._own_priority(job))
            case SetField():
                raise AssertionError(action)
        return None

    def _go_on(self, job: Job) -> None:
        self.suspended_by_tesched.discard(job.job_id)
        self.jobs[job.job_id] = replace(job, state=JobState.RUNNING, priority=self._own_priority(job))

    def _own_priority(self, job: Job) -> int:
        nice, priority = self.submitted[job.job_id]
        return priority + nice - job.nice

    def _heed(self, job: Job) -> None:
        """Let the victim do what it does on its notice: go on, put itself back, finish, or fail."""
        self._leave(
            job,
            self.chance.choice(
                [JobState.RUNNING, JobState.RUNNING, JobState.PENDING, JobState.COMPLETED, JobState.FAILED]
            ),
        )

    def _leave(self, job: Job, state: JobState) -> None:
        if state is JobState.RUNNING:
            return
        if job.state is JobState.SUSPENDED:
            self.suspended_by_tesched.discard(job.job_id)
            # Slurm leaves it held if it is put back in the queue.
            priority = 0 if state is JobState.PENDING else self._own_priority(job)
            job = replace(job, priority=priority)
        job = replace(job, state=state, flags=frozenset({"COMPLETING"}), end_time=self.now)
        self.jobs[job.job_id] = job
        if self.chance.random() < 0.5:
            self._gone(job)

    def _gone(self, job: Job) -> None:
        """Give the resources back."""
        if job.state is JobState.PENDING:
            job = replace(job, restarts=job.restarts + 1, start_time=None, end_time=None, submit_time=self.now)
            if self.chance.random() < 0.5 and job.job_id not in self.explicit | self.undone.keys() and job.priority:
                # Newer releases give a requeued job a new, lower priority.
                nice, _ = self.submitted[job.job_id]
                fresh = max(min(other.priority for other in self.jobs.values()) - 1, MIN_PRIORITY)
                self.submitted[job.job_id] = (nice, fresh - nice)
                job = replace(job, priority=fresh - job.nice)
        self.jobs[job.job_id] = replace(job, allocation=(), flags=frozenset())
        if job.state is JobState.PENDING:
            self._begins(self.jobs[job.job_id], self.now + REQUEUE_DELAY_S)

    def _begins(self, job: Job, at: float) -> None:
        self._eligible[job.job_id] = at
        self.jobs[job.job_id] = replace(job, eligible_time=at)

    # Time.

    def pass_time(self, seconds: float) -> None:
        """Let time pass: jobs end, are cancelled, are forgotten; others start."""
        self.now += seconds
        for job_id, (priority, restarts) in self.read.items():
            job = self.jobs.get(job_id)
            waits = job is not None and job.pending and not job.held and job.restarts == restarts
            # More often, and tesched leaves it.
            if job is not None and waits and self.undone[job_id] < MOST_AGAIN - 1 and self._happens(0.2):
                self.jobs[job_id] = replace(job, priority=priority)  # as Slurm's does with bf_continue
                self.undone[job_id] += 1
        self.read.clear()
        for job in list(self.jobs.values()):
            if job.completing:
                self._gone(job)
            elif job.finished:
                if self.now - (job.end_time or self.now) > FORGOTTEN_AFTER_S or self._happens(0.05):
                    del self.jobs[job.job_id]
            elif job.state is JobState.RUNNING and (self._ran_long(job) if self.calm else self._happens(0.03)):
                self._leave(job, JobState.COMPLETED)
            elif job.state is JobState.SUSPENDED and self._happens(0.02):
                self._leave(job, JobState.CANCELLED)
            elif job.state is JobState.SUSPENDED and self._happens(0.02):
                self._go_on(job)  # another user resumes it, whichever job has its CPUs
            elif job.pending and self._happens(0.02):
                self.jobs[job.job_id] = replace(
                    job, state=JobState.CANCELLED, start_time=self.now, end_time=self.now, reason=""
                )
            elif job.on_nodes and self._happens(0.02):
                self._leave(job, JobState.PENDING)  # a requeue by another user
        if self.calm or self._happens(0.8):
            self._schedule()

    def _happens(self, probability: float) -> bool:
        return not self.calm and self.chance.random() < probability

    def _ran_long(self, job: Job) -> bool:
        return job.start_time is not None and self.now - job.start_time > 30

    def free(self) -> dict[str, int]:
        """Return the CPUs that are free on each node; a suspended job's are."""
        free = {one.name: CPUS for one in self.nodes}
        for job in self.jobs.values():
            for share in job.allocation if job.state is not JobState.SUSPENDED else ():
                free[share.node] -= share.tres.cpus
        return free

    def _schedule(self) -> None:
        """Start jobs that fit, in the order of the queue."""
        free = self.free()
        for job in sorted(self.jobs.values(), key=lambda job: (-job.priority, job.job_id)):
            if not job.pending or job.held or self._eligible.get(job.job_id, 0) > self.now:
                continue
            where = job.request.required_nodes or tuple(free)
            name = next((name for name in where if free[name] >= job.request.cpus), None)
            if name is None:
                continue
            free[name] -= job.request.cpus
            self.deferred.discard(job.job_id)
            held = NodeShare(node=name, tres=Tres(cpus=job.request.cpus))
            self.jobs[job.job_id] = replace(
                job, state=JobState.RUNNING, start_time=self.now, allocation=(held,), reason=""
            )
