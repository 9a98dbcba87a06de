"""A Slurm that does exactly what it should, on a virtual clock; its jobs do what was said when they came.

Nodes of four CPUs, one partition, every job on one node. Nothing happens by chance: faults are set by the test that
drives it. What people did (a nice value, a hold, a suspension) is kept beside what is, so that at the end tesched's
changes can be distinguished from theirs. A second is the smallest step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from time import localtime, strftime

from tesched_core.model.cluster import (
    HELD_BY_ITS_USER,
    HELD_BY_US,
    Job,
    JobState,
    Node,
    NodeShare,
    Partition,
    Request,
    SlurmSettings,
)
from tesched_core.model.resources import JobId, Tres
from tesched_core.model.snapshot import Snapshot

CPUS = 4
KILL_WAIT_S = 4
REQUEUE_DELAY_S = 6
MIN_JOB_AGE_S = 60
BEGAN_AT = 1_700_000_000.0


class Clock:
    """The host's clock, and one that only runs. It stands in for the module `time` in the store's code, too."""

    def __init__(self) -> None:
        """Begin in 2023."""
        self.steady_s = 1000.0
        self._set_s = BEGAN_AT - self.steady_s

    def time(self) -> float:
        """Return Unix seconds."""
        return self.steady_s + self._set_s

    def monotonic(self) -> float:
        """Return seconds of a clock that is never set."""
        return self.steady_s

    def jump(self, by_s: float) -> None:
        """Set the clock."""
        self._set_s += by_s

    localtime = staticmethod(localtime)
    strftime = staticmethod(strftime)


class Answer(Enum):
    """Answers of a job to its notice."""

    IGNORES = auto()
    REQUEUES_ITSELF = auto()
    FINISHES = auto()
    FAILS = auto()


@dataclass(kw_only=True)
class Work:
    """One job: what it was submitted as, what it does, and what has become of it."""

    job_id: JobId
    name: str
    user: str
    cpus: int
    #: seconds that one run lasts, from its start
    run_s: int
    priority: int
    grace_s: int = 6
    answer: Answer = Answer.IGNORES
    #: seconds from its notice to what it does then; less than its grace period
    answers_after_s: int = 2
    #: seconds for which it is completing
    dies_in_s: int = 0
    batch: bool = True
    requeueable: bool = True
    #: its comment says preempted=end
    ends: bool = False
    #: what people want of it
    nice_wanted: int = 0
    held_by_user: bool = False
    suspended_by_user: bool = False
    #: what is
    nice: int = 0
    explicit: int | None = None
    explicit_wanted: int | None = None
    held: bool = False
    #: nodes that it must have; people want none
    bound_to: tuple[str, ...] = ()
    limited: bool = False
    state: JobState = JobState.PENDING
    restarts: int = 0
    node: str = ""
    submit_at: float = 0.0
    start_at: float | None = None
    end_at: float | None = None
    #: by the clock that only runs
    ran_s: int = 0
    eligible_s: float = 0.0
    ended_s: float = 0.0
    answers_s: float | None = None
    #: when its processes are gone
    leaves_s: float | None = None
    #: how often it ran to its end
    completed: int = 0

    @property
    def present_priority(self) -> int:
        """Return what Slurm would show: 0 is held."""
        if self.held:
            return 0
        return max(self.priority - self.nice, 1) if self.explicit is None else self.explicit

    @property
    def finished(self) -> bool:
        """Return whether it has ended, and its nodes are free."""
        return self.state not in {JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED}

    @property
    def runs(self) -> bool:
        """Return whether it runs, and is not on its way out."""
        return self.state is JobState.RUNNING and self.leaves_s is None

    @property
    def waits(self) -> bool:
        """Return whether it is in the queue, its nodes given back."""
        return self.state is JobState.PENDING and self.leaves_s is None


@dataclass
class FaultySlurm:
    """The cluster."""

    clock: Clock
    nodes: int
    jobs: dict[JobId, Work] = field(default_factory=dict)
    #: jobs that it has forgotten
    forgotten: list[Work] = field(default_factory=list)
    down: set[str] = field(default_factory=set)
    reachable: bool = True
    partition_up: bool = True
    #: runs that put themselves back in the queue, or failed, because of their notice: by job and restarts, and when
    answered: dict[tuple[JobId, int], float] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the nodes' names."""
        return tuple(f"n{place}" for place in range(self.nodes))

    def submit(self, work: Work) -> None:
        """Put a job in the queue."""
        work.submit_at, work.nice = self.clock.time(), work.nice_wanted
        self.jobs[work.job_id] = work
        self._schedule()

    # What is seen.

    def snapshot(self) -> Snapshot:
        """Return what an observer sees."""
        nodes = [
            Node(
                name=name,
                state="DOWN" if name in self.down else "MIXED",
                total=Tres(cpus=CPUS, mem_mib=1000),
                held=self._held(name),
                partitions=frozenset({"p"}),
            )
            for name in self.names
        ]
        return Snapshot.of(
            self.clock.time(),
            jobs=[self._record(work) for work in self.jobs.values()],
            nodes=nodes,
            partitions=[Partition(name="p", state="UP" if self.partition_up else "DOWN", nodes=frozenset(self.names))],
            settings=SlurmSettings(kill_wait_s=KILL_WAIT_S, min_job_age_s=MIN_JOB_AGE_S),
        )

    def _held(self, name: str) -> Tres:
        there = [work for work in self.jobs.values() if work.node == name]
        # A suspended job keeps its memory alone.
        cpus = sum(work.cpus for work in there if work.state is not JobState.SUSPENDED)
        return Tres(cpus=cpus, mem_mib=len(there))

    def record(self, job_id: JobId) -> Job | None:
        """Return one job as an observer sees it; None if there is none."""
        work = self.jobs.get(job_id)
        return None if work is None else self._record(work)

    def _record(self, work: Work) -> Job:
        held = NodeShare(node=work.node, tres=Tres(cpus=work.cpus, mem_mib=1))
        return Job(
            job_id=work.job_id,
            name=work.name,
            user=work.user,
            account=f"of-{work.user}",
            partitions=("p",),
            state=work.state,
            flags=frozenset({"COMPLETING"} if work.leaves_s is not None else ()),
            reason=self._reason(work),
            priority=work.present_priority,
            nice=work.nice,
            batch=work.batch,
            requeueable=work.requeueable,
            restarts=work.restarts,
            submit_time=work.submit_at,
            start_time=work.start_at,
            end_time=work.end_at,
            time_limit_s=600,
            request=Request(cpus=work.cpus, mem_per_node_mib=1, required_nodes=work.bound_to),
            allocation=(held,) if work.node else (),
            comment=f"grace={work.grace_s} run={work.run_s}{' preempted=end' if work.ends else ''}",
        )

    def _reason(self, work: Work) -> str:
        if not work.waits:
            return ""
        if work.held:
            return HELD_BY_ITS_USER if work.held_by_user else HELD_BY_US
        if not self.partition_up:
            return "PartitionDown"
        if self.clock.steady_s < work.eligible_s:
            return "BeginTime"
        return "QOSMaxCpuPerUserLimit" if work.limited else "Resources"

    # What jobs, nodes and people do.

    def leave(self, work: Work, state: JobState) -> None:
        """End a job's run; its processes take their time."""
        work.state, work.answers_s = state, None
        work.end_at = self.clock.time()
        work.leaves_s = self.clock.steady_s + work.dies_in_s
        if not work.dies_in_s:
            self._gone(work)

    def _gone(self, work: Work) -> None:
        """Give the resources back."""
        work.node, work.leaves_s = "", None
        if work.state is JobState.PENDING:
            work.restarts += 1
            work.start_at, work.end_at, work.ran_s = None, None, 0
            work.submit_at = self.clock.time()
            work.eligible_s = self.clock.steady_s + REQUEUE_DELAY_S
        else:
            work.ended_s = self.clock.steady_s

    def cancel(self, work: Work) -> None:
        """Cancel a job."""
        if work.node:
            self.leave(work, JobState.CANCELLED)
        else:
            # Slurm shows a job that never ran with its end as its start.
            work.state = JobState.CANCELLED
            work.start_at = work.end_at = self.clock.time()
            work.ended_s = self.clock.steady_s

    def interrupt(self, job_id: JobId, *, ends: bool) -> None:
        """Let a job that runs end by itself, or its user suspend it."""
        work = self.jobs.get(job_id)
        if work is None or not work.runs:
            return
        if ends:
            self._completes(work)
        else:
            work.state, work.suspended_by_user = JobState.SUSPENDED, True

    def notify(self, work: Work) -> None:
        """Give the job its signal."""
        if work.answer is not Answer.IGNORES:
            work.answers_s = self.clock.steady_s + min(work.answers_after_s, max(work.grace_s - 1, 0))

    def requeue(self, work: Work) -> None:
        """Put a job that holds a node back in the queue; a suspended one is held there."""
        work.held = work.held or work.state is JobState.SUSPENDED
        work.suspended_by_user = False
        self.leave(work, JobState.PENDING)

    def rerun(self, work: Work) -> None:
        """Put a job back in the queue that has ended."""
        work.state = JobState.PENDING
        self._gone(work)

    def set_down(self, name: str) -> None:
        """Lose a node: its jobs go back to the queue, or fail if they may not."""
        self.down.add(name)
        for work in self.jobs.values():
            if work.node == name and work.leaves_s is None:
                work.suspended_by_user = False
                self.leave(work, JobState.PENDING if work.requeueable and work.batch else JobState.NODE_FAIL)

    # Time.

    def pass_time(self, seconds: int) -> None:
        """Let time pass."""
        for _ in range(seconds):
            self.clock.steady_s += 1
            for work in list(self.jobs.values()):
                self._tick(work)
            self._schedule()

    def _tick(self, work: Work) -> None:
        now = self.clock.steady_s
        if work.leaves_s is not None:
            if now >= work.leaves_s:
                self._gone(work)
        elif work.finished:
            if now - work.ended_s > MIN_JOB_AGE_S:
                self.forgotten.append(self.jobs.pop(work.job_id))
        elif work.state is JobState.RUNNING:
            work.ran_s += 1
            if work.answers_s is not None and now >= work.answers_s:
                self._answers(work)
            elif work.ran_s >= work.run_s:
                self._completes(work)

    def _answers(self, work: Work) -> None:
        if work.answer is Answer.REQUEUES_ITSELF:
            self.answered[work.job_id, work.restarts] = self.clock.steady_s
            self.leave(work, JobState.PENDING)
        elif work.answer is Answer.FAILS:
            self.answered[work.job_id, work.restarts] = self.clock.steady_s
            self.leave(work, JobState.FAILED)
        else:
            self._completes(work)

    def _completes(self, work: Work) -> None:
        work.completed += 1
        self.leave(work, JobState.COMPLETED)

    def _schedule(self) -> None:
        """Start jobs that fit, in the order of the queue."""
        free = {name: CPUS for name in self.names if name not in self.down}
        for work in self.jobs.values():
            if work.node in free and work.state is not JobState.SUSPENDED:
                free[work.node] -= work.cpus
        for work in sorted(self.jobs.values(), key=lambda one: (-one.present_priority, one.job_id)):
            if not work.waits or self._reason(work) != "Resources":
                continue
            may = work.bound_to or tuple(free)
            name = next((name for name in may if free.get(name, 0) >= work.cpus), None)
            if name is None:
                continue
            free[name] -= work.cpus
            work.node, work.state, work.start_at = name, JobState.RUNNING, self.clock.time()
