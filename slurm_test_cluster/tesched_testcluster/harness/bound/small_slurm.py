"""Small Slurm for the attack on guard.bound (`attack.py`): nodes of CPUs, one queue, holds, late ends.

Definitions
    time        seconds since the beginning, on a clock that is never set. Slurm's records and the daemon go by another
                one, which is `clock_s` ahead and may be set.
    ending      from the end of a run until its nodes are free: KillWait, an Epilog.
    late        by how much a job outruns its time limit: slurmctld checks limits at intervals.

Principle
    It knows nothing of tesched. Between two events nothing changes, and each such time is reported to the ledger
    (`ledger.py`), which sees the cluster as it is and not as tesched saw it.

Over 400 lines: one class, the state of the cluster and each change of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import inf
from random import Random

from tesched_core.model.actions import (
    Action,
    Cancel,
    Failure,
    FailureKind,
    Notify,
    Outcome,
    Requeue,
    Rerun,
    SetField,
    Status,
)
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
from tesched_core.model.field import Field, HoldState, Nodes
from tesched_core.model.hook import HOOK_MARK
from tesched_core.model.job_report import Reported
from tesched_core.model.notice import ExitZero, Target
from tesched_core.model.resources import JobId, Tres
from tesched_core.model.snapshot import JobClass, Snapshot, Traits

from tesched_testcluster.harness.bound.jobs import Heeds, ModelJob, Order, Phase, Site, Watcher

#: Unix seconds at which the simulated time begins
EPOCH = 1_000_000.0
_MEM_MIB = 64_000


@dataclass(slots=True, eq=False)
class SmallSlurm:
    """The cluster."""

    site: Site
    chance: Random
    watcher: Watcher
    now: float = 0.0
    #: the clock of Slurm and of the daemon is so far ahead
    clock_s: float = EPOCH
    jobs: dict[JobId, ModelJob] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)
    _heap: list[tuple[float, int, str, JobId, int]] = field(default_factory=list)
    _count: int = 0
    _nodes: tuple[Node, ...] = ()
    _traits: dict[JobId, Traits] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with an empty cluster."""
        self.free = [self.site.cpus] * self.site.nodes
        self._nodes = tuple(
            Node(
                name=f"n{row}",
                state="IDLE",
                total=Tres(cpus=self.site.cpus, mem_mib=_MEM_MIB),
                partitions=frozenset({"p"}),
            )
            for row in range(self.site.nodes)
        )

    @property
    def clock(self) -> float:
        """Return what the clock says, Unix seconds."""
        return self.now + self.clock_s

    # Time.

    def pass_until(self, until: float) -> None:
        """Let time pass."""
        while self._heap and self._heap[0][0] <= until:
            at, _, event, job_id, epoch = heappop(self._heap)
            self._moves_to(at)
            job = self.jobs.get(job_id)
            if job is not None and (epoch < 0 or job.epoch == epoch):
                self._happens(event, job)
        self._moves_to(until)

    def next_at(self) -> float:
        """Return when the next event is."""
        return self._heap[0][0] if self._heap else inf

    def _moves_to(self, at: float) -> None:
        if at > self.now:
            self.watcher.passes(self, self.now, at)
            self.now = at

    def _later(self, at: float, event: str, job: ModelJob, *, any_run: bool = False) -> None:
        self._count += 1
        heappush(self._heap, (at, self._count, event, job.job_id, -1 if any_run else job.epoch))

    def _happens(self, event: str, job: ModelJob) -> None:
        match event:
            case "end":
                self._ends(job, JobState.COMPLETED)
            case "limit":
                self._ends(job, JobState.TIMEOUT)
            case "fail":
                self._ends(job, JobState.FAILED)
            case "requeue":
                self._ends(job, JobState.PENDING)
            case "free":
                self._is_free(job)
            case "forget" if job.phase is Phase.OVER:
                del self.jobs[job.job_id]
                del self._traits[job.job_id]
                return
            case "cancel" if job.phase is Phase.QUEUE:
                self._is_over(job, JobState.CANCELLED)
            case "cancel" if job.phase is Phase.RUNS:
                self._ends(job, JobState.CANCELLED)
            case _:
                pass  # a job becomes eligible
        self.schedule()

    # Jobs.

    def submit(self, job: ModelJob, *, held: bool) -> None:
        """Submit a job; the hook may hold it."""
        self.jobs[job.job_id] = job
        job.submitted_at = job.eligible_at = self.now
        job.submit_stamp = job.eligible_stamp = float(int(self.clock))
        base = 2_000_000 if job.te and self.site.te_first else 1_000_000
        job.own_priority = job.priority = base - job.job_id
        if held:
            job.held, job.priority, job.reason, job.note = True, 0, HELD_BY_ITS_USER, HOOK_MARK
        self._traits[job.job_id] = Traits(
            job_class=JobClass.TE if job.te else JobClass.BE,
            rule="attack",
            grace_period_s=job.grace_s,
            grace_source="attack",
            notice_signal="USR1" if job.grace_s else "",
            notice_target=Target.BATCH,
            notice_source="attack",
            exit0=ExitZero.FINISHED,
            run_time_s=job.said_s,
        )
        if job.cancel_s < inf:
            self._later(self.now + job.cancel_s, "cancel", job, any_run=True)
        self.schedule()

    def _starts(self, job: ModelJob, where: tuple[int, ...]) -> None:
        for row in where:
            self.free[row] -= job.cpus
        job.phase, job.state, job.where, job.reason = Phase.RUNS, JobState.RUNNING, where, ""
        job.started_at, job.start_stamp, job.record = self.now, float(int(self.clock)), None
        job.epoch += 1
        if job.limit_s is not None and job.run_s - job.done_s > job.limit_s:
            self._later(self.now + job.limit_s + self.chance.uniform(0, self.site.late_s), "limit", job)
        else:
            self._later(self.now + job.run_s - job.done_s, "end", job)
        self.watcher.started(job, self.now)

    def _ends(self, job: ModelJob, state: JobState) -> None:
        """End a run; its nodes are free when its processes are gone."""
        if job.phase is not Phase.RUNS:
            return
        job.phase, job.state, job.record = Phase.ENDING, state, None
        job.end_stamp = float(int(self.clock))
        job.longest_s = max(job.longest_s, self.now - job.started_at)
        job.worked_s = max(job.worked_s, job.done_s + self.now - job.started_at)
        saved_at = self.saved_at(job)
        job.done_s += saved_at - job.started_at
        job.epoch += 1
        if state is JobState.FAILED:
            job.reason = "NonZeroExitCode"
        if state in {JobState.PENDING, JobState.FAILED}:
            job.last_saved_at = saved_at
        if state is JobState.PENDING:
            self.watcher.left(job, saved_at)
        forced = state not in {JobState.COMPLETED, JobState.FAILED}
        ending_s = self.chance.uniform(0, self.site.kill_wait_s) if forced else self.chance.choice([0.0, 0.0, 1.0])
        if ending_s:
            self._later(self.now + ending_s, "free", job)
        else:
            self._is_free(job)

    def saved_at(self, job: ModelJob) -> float:
        """Return when a job that runs has last saved its work."""
        if job.saves_each_s is None:
            return job.started_at
        return job.started_at + (self.now - job.started_at) // job.saves_each_s * job.saves_each_s

    def _is_free(self, job: ModelJob) -> None:
        for row in job.where:
            self.free[row] += job.cpus
        job.ran_on, job.where, job.record = job.where, (), None
        if job.state is JobState.PENDING:
            self._is_back(job)
        else:
            self._is_over(job, job.state)

    def _is_back(self, job: ModelJob) -> None:
        job.phase, job.state, job.reason, job.record = Phase.QUEUE, JobState.PENDING, "BeginTime", None
        job.restarts += 1
        job.start_stamp = job.end_stamp = None
        job.submit_stamp = float(int(self.clock))
        job.eligible_at = self.now + self.site.requeue_delay_s
        job.eligible_stamp = job.submit_stamp + self.site.requeue_delay_s
        self._later(job.eligible_at, "eligible", job, any_run=True)

    def _is_over(self, job: ModelJob, state: JobState) -> None:
        if job.phase is Phase.QUEUE:
            job.start_stamp = job.end_stamp = float(int(self.clock))
        job.phase, job.state, job.record = Phase.OVER, state, None
        job.epoch += 1
        self.watcher.over(job, self.now)
        self._later(self.now + self.site.min_job_age_s, "forget", job)

    # The queue.

    def fits(self, job: ModelJob, free: Sequence[int]) -> tuple[int, ...] | None:
        """Return where a job would start; None: nowhere."""
        rows = [row for row, cpus in enumerate(free) if cpus >= job.cpus]
        if not set(job.bound_to) <= set(rows) or len(rows) < job.nodes:
            return None
        rows.sort(key=lambda row: (row not in job.bound_to, free[row], row))
        return tuple(sorted(rows[: job.nodes]))

    def waiting(self) -> list[ModelJob]:
        """Return the jobs that may start, the first in the queue first."""
        found = [
            job
            for job in self.jobs.values()
            if job.phase is Phase.QUEUE and not job.held and job.eligible_at <= self.now
        ]
        return sorted(found, key=lambda job: (-job.priority, job.job_id))

    def schedule(self) -> None:
        """Go over the queue."""
        first: ModelJob | None = None
        shadow, planned = inf, frozenset[int]()
        for job in self.waiting():
            free = self.free
            if first is not None and self.site.order is Order.FIFO:
                where = None
            else:
                if first is not None and self.site.order is Order.EASY:
                    ends = self.now + (inf if job.limit_s is None else job.limit_s)
                    if ends > shadow:
                        free = [0 if row in planned else cpus for row, cpus in enumerate(free)]
                where = self.fits(job, free)
            if where is not None:
                self._starts(job, where)
                continue
            reason = "Resources" if first is None else "Priority"
            if first is None:
                first = job
                shadow, planned = self._plan(job)
            if job.reason != reason:
                job.reason, job.record = reason, None

    def _plan(self, job: ModelJob) -> tuple[float, frozenset[int]]:
        """Return when a job fits by the time limits of those that run, and where; where it does not, nowhere."""
        free = list(self.free)
        ends = sorted(
            (one.started_at + (inf if one.limit_s is None else one.limit_s), one.job_id)
            for one in self.jobs.values()
            if one.where
        )
        for at, job_id in ends:
            one = self.jobs[job_id]
            for row in one.where:
                free[row] += one.cpus
            where = self.fits(job, free)
            if where is not None:
                return max(at, self.now), frozenset(where)
        return inf, frozenset()

    # What tesched sees and does.

    def snapshot(self) -> Snapshot:
        """Return what an observer sees."""
        settings = SlurmSettings(
            release="26.05.1",
            kill_wait_s=self.site.kill_wait_s,
            requeue_delay_s=self.site.requeue_delay_s,
            min_job_age_s=self.site.min_job_age_s,
            priority_type="priority/multifactor",
        )
        seen = Snapshot.of(
            self.clock,
            jobs=[self._record(job) for job in self.jobs.values()],
            nodes=self._nodes,
            partitions=(Partition(name="p", nodes=frozenset(one.name for one in self._nodes)),),
            settings=settings,
            traits=dict(self._traits),
        )
        saved = {
            job_id: Reported(saved_at=self.saved_at(job) + self.clock_s)
            for job_id, job in self.jobs.items()
            if job.saves_each_s is not None and job.phase is Phase.RUNS and self.now - job.started_at > job.saves_each_s
        }
        return replace(seen, reported=saved)

    def _record(self, job: ModelJob) -> Job:
        if job.record is None:
            on_nodes = bool(job.where)
            share = Tres(cpus=job.cpus, mem_mib=1)
            job.record = Job(
                job_id=job.job_id,
                user=job.user,
                account=job.user,
                partitions=("p",),
                state=job.state,
                flags=frozenset({"COMPLETING"}) if job.phase is Phase.ENDING else frozenset(),
                reason=job.reason,
                priority=job.priority,
                nice=job.nice,
                restarts=job.restarts,
                submit_time=job.submit_stamp,
                eligible_time=job.eligible_stamp,
                start_time=job.start_stamp,
                end_time=job.end_stamp if job.phase is Phase.OVER else None,
                time_limit_s=job.limit_s,
                request=Request(
                    min_nodes=job.nodes,
                    max_nodes=job.nodes,
                    cpus=job.nodes * job.cpus,
                    tasks=job.nodes,
                    min_cpus_per_node=job.cpus,
                    cpus_per_task=job.cpus,
                    tasks_per_node=1,
                    mem_per_node_mib=1,
                    required_nodes=tuple(f"n{row}" for row in job.bound_to),
                ),
                allocation=tuple(NodeShare(node=f"n{row}", tres=share) for row in job.where) if on_nodes else (),
                ran_on=tuple(f"n{row}" for row in job.ran_on) if job.phase is Phase.OVER else (),
                admin_comment=job.note,
                comment="preempted=end" if job.ends else "",
                exit_status=1 if job.state is JobState.FAILED else 0,
            )
        return job.record

    def act(self, action: Action) -> Outcome:
        """Carry out an action."""
        kind = self._perform(action)
        if kind is None:
            return Outcome(action=action, status=Status.SENT, at=self.clock)
        return Outcome(
            action=action, status=Status.FAILED, at=self.clock, failure=Failure(kind=kind, message="no such run")
        )

    def _perform(self, action: Action) -> FailureKind | None:
        job = self.jobs.get(action.job_id)
        if job is None:
            return FailureKind.NOT_FOUND
        job.record = None
        match action:
            case Notify() | Requeue() | Cancel() if job.phase is not Phase.RUNS or job.restarts != action.restarts:
                return FailureKind.ALREADY_DONE
            case Notify():
                self.watcher.notified(job, self._user_of(action), self.now, anew=True)
                self._heed(job)
            case Requeue():
                self.watcher.notified(job, self._user_of(action), self.now, anew=False)
                self._ends(job, JobState.PENDING)
            case Cancel():
                self.watcher.notified(job, self._user_of(action), self.now, anew=False)
                self._ends(job, JobState.CANCELLED)
            case Rerun() if job.phase is not Phase.OVER or job.state is not JobState.FAILED:
                return FailureKind.ALREADY_DONE
            case Rerun():
                self.watcher.left(job, job.last_saved_at)
                self._is_back(job)
            case SetField() if job.phase is Phase.OVER:
                return FailureKind.ALREADY_DONE
            case SetField(field=Field.NICE, value=int(nice)):
                job.held = False  # as Slurm has it
                if not job.explicit:
                    job.own_priority += job.nice - nice
                    job.priority = job.own_priority
                    job.nice, job.reason = nice, self._no_reason(job)
            case SetField(field=Field.PRIORITY, value=int(priority)):
                job.held = False
                job.explicit, job.nice, job.reason = True, 0, self._no_reason(job)
                job.own_priority = job.priority = priority
            case SetField(value=Nodes() as nodes):
                if job.phase is not Phase.QUEUE:
                    return FailureKind.ALREADY_DONE
                job.bound_to = tuple(int(name[1:]) for name in nodes.names)
                job.reason = self._no_reason(job)
            case SetField(field=Field.BEGIN, value=int(begin)):
                if job.phase is not Phase.QUEUE:
                    return FailureKind.ALREADY_DONE
                job.eligible_stamp = max(float(begin), float(int(self.clock)))
                job.eligible_at = max(job.eligible_stamp - self.clock_s, self.now)
                job.reason = "BeginTime" if job.eligible_at > self.now else "None"
                self._later(job.eligible_at, "eligible", job, any_run=True)
            case SetField(value=HoldState.HELD):
                if job.phase is not Phase.QUEUE:
                    return FailureKind.ALREADY_DONE
                job.held, job.priority, job.reason = True, 0, HELD_BY_US
            case SetField(value=HoldState.UNMARKED):
                job.note = ""
            case SetField(value=HoldState.RELEASED):
                # Slurm works its priority out anew.
                job.held, job.priority, job.reason, job.note = False, job.own_priority, "None", ""
            case _:
                return FailureKind.REFUSED
        return None

    @staticmethod
    def _no_reason(job: ModelJob) -> str:
        return job.reason if job.held or job.reason == "BeginTime" or job.phase is not Phase.QUEUE else "None"

    def _user_of(self, action: Notify | Requeue | Cancel) -> str:
        te = self.jobs.get(action.reason.preemptor) if action.reason.preemptor is not None else None
        return te.user if te is not None else ""

    def _heed(self, job: ModelJob) -> None:
        in_s = self.chance.uniform(0, job.grace_s)
        match job.heeds:
            case Heeds.REQUEUES:
                self._later(self.now + in_s, "requeue", job)
            case Heeds.FINISHES:
                self._later(self.now + in_s, "end", job)
            case Heeds.FAILS:
                self._later(self.now + in_s, "fail", job)
            case Heeds.IGNORES:
                pass
