"""A cluster of a few jobs that a scenario moves by hand, and tesched beside it.

Nothing happens by itself: what Slurm does is said line by line, so that each scenario can be read as a sequence. Times
are seconds after `NOW`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from tesched_core.fields.contract import Lever
from tesched_core.model.actions import (
    Action,
    Failure,
    FailureKind,
    Notify,
    OrderId,
    Outcome,
    Reason,
    ReasonCode,
    Requeue,
    Resume,
    SetField,
    SetMarks,
    Status,
    Suspend,
)
from tesched_core.model.cluster import (
    Job,
    JobState,
    Node,
    NodeShare,
    PluginSettings,
    Request,
    Reservation,
    SlurmSettings,
)
from tesched_core.model.decision import Decision, RefusalCode
from tesched_core.model.field import Field, HoldState, Nodes
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.notice import Target
from tesched_core.model.order import Order, OrderState, Purpose, Transition, Victim
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.orders.levers import LEVERS
from tesched_core.orders.outcomes import learned
from tesched_core.policy import Policy, PolicyEntry, in_turn
from tesched_core.step import step
from tesched_policies.fitgpp import FitGpp

from tests.builders import NOW, Extra, cluster, node, running, share, waiting

#: a job or, with None, the order itself, and its state before and after
Move = tuple[int | None, str, str]


class Changed(Extra, total=False):
    """Changes that a job may have."""

    request: Request
    array_throttle: int
    exit_status: int


class Driver:
    """The cluster and the memory."""

    def __init__(
        self,
        nodes: Iterable[Node],
        jobs: Iterable[Job],
        *,
        graces: Mapping[int, float] | None = None,
        limits: Limits | None = None,
        policy: Policy[Any] | None = None,
        best_effort: Policy[Any] | None = None,
        run_times: Mapping[int, float] | None = None,
        reservations: Iterable[Reservation] = (),
        binds: bool = False,
        on_trial: bool = False,
        levers: Sequence[Lever] = LEVERS,
    ) -> None:
        """Begin with these; what holds nodes is best effort, what waits is trial and error, for good.

        Trials are bound to the nodes that are freed for them only where a test is about that (`binds`), and only there
        more than their start is wanted of them (`on_trial`).

        `run_times` are expected run times, in seconds, by job; the jobs named there are best effort.
        """
        self.start = cluster(nodes, jobs, graces=graces, reservations=reservations)
        known = {JobId(job_id): run_s for job_id, run_s in (run_times or {}).items()}
        self.start = self.start.with_traits(
            {
                job_id: replace(one, job_class=JobClass.BE, run_time_s=known[job_id]) if job_id in known else one
                for job_id, one in self.start.traits.items()
            }
        )
        self.jobs = dict(self.start.jobs)
        self.nodes = dict(self.start.nodes)
        self.limits = limits or Limits()
        if not binds:
            self.limits = replace(self.limits, bind_for_s=0)
        if not on_trial:
            self.limits = replace(self.limits, useful_run_s=0)
        self.policy = policy or FitGpp()
        self.plugin: PluginSettings | None = None
        self.best_effort = best_effort
        self.levers = levers
        self.memory = Memory()
        self.decision = Decision(cycle=0, at=NOW, policy="", actions=(), refusals=(), transitions=(), summary="")
        self.at_s = 0.0
        self.enforces_limits = True
        #: of Slurm; empty stands for an old one
        self.release = ""
        self.requeue_delay_s = 121
        #: the longest time between two polls, in seconds
        self.longest_wait_s = 0.0
        #: exit codes after which Slurm itself puts a job back in the queue, and holds it
        self.requeue_exit: frozenset[int] = frozenset()
        self.requeue_exit_hold: frozenset[int] = frozenset()
        #: Slurm holds an expedited job that fails
        self.holds_expedited = False
        #: of Slurm; empty stands for one that works priorities out by itself
        self.priority_type = ""
        #: transitions since they were last read
        self._transitions: list[Transition] = []

    # What tesched does.

    def entries(self) -> tuple[PolicyEntry, ...]:
        """Return the policies that plan."""
        return in_turn(self.policy, *([] if self.best_effort is None else [self.best_effort]))

    def state(self, name: str) -> Any:
        """Return what a policy remembers; None: nothing."""
        return self.memory.policy_states.get(name)

    def snapshot(self, at_s: float) -> Snapshot:
        """Return what an observer would see."""
        self.at_s = at_s
        return replace(
            self.start,
            taken_at=NOW + at_s,
            jobs=dict(self.jobs),
            nodes=dict(self.nodes),
            settings=SlurmSettings(
                requeue_exit=self.requeue_exit,
                requeue_exit_hold=self.requeue_exit_hold,
                holds_expedited=self.holds_expedited,
                kill_wait_s=30,
                requeue_delay_s=self.requeue_delay_s,
                limits_enforced=self.enforces_limits,
                release=self.release,
                priority_type=self.priority_type,
                plugin=self.plugin,
            ),
        )

    def cycle(self, at_s: float) -> tuple[Action, ...]:
        """Poll at this time and return what is to be done."""
        self.memory, self.decision = step(
            self.memory,
            self.snapshot(at_s),
            self.entries(),
            self.limits,
            longest_wait_s=self.longest_wait_s,
            levers=self.levers,
        )
        self._transitions += self.decision.transitions
        return self.decision.actions

    def moves(self) -> list[Move]:
        """Return what moved since the last call."""
        moved: list[Move] = [(one.job_id, one.before, str(one.after)) for one in self._transitions]
        self._transitions.clear()
        return moved

    def order(self, order_id: int = 1) -> Order:
        """Return an order."""
        return self.memory.orders[OrderId(order_id)]

    def victim(self, order_id: int = 1) -> Victim:
        """Return an order's only victim."""
        (victim,) = self.order(order_id).victims
        return victim

    def open_orders(self) -> list[int]:
        """Return the ids of the orders for which a job still waits."""
        return [order.order_id for order in self.memory.open_orders() if order.state is OrderState.OPEN]

    def why_not(self, job_id: int) -> RefusalCode | None:
        """Return why the last cycle freed no resources for this job."""
        codes = [one.code for one in self.decision.refusals if one.job_id == one.preemptor == job_id]
        return codes[0] if codes else None

    # What Slurm does.

    def obeys(self, *actions: Action) -> None:
        """Carry out: what changes at once changes, a requeued job is back in the queue."""
        for action in actions:
            if isinstance(action, SetMarks):
                continue  # a file of the plugin's
            job = self.jobs[action.job_id]
            if isinstance(action, SetField):
                self._set(job, action)
            elif isinstance(action, Requeue):
                self.requeued(job.job_id)
            elif isinstance(action, Suspend):
                self.change(job.job_id, state=JobState.SUSPENDED, priority=0)
            elif isinstance(action, Resume):
                self.change(job.job_id, state=JobState.RUNNING, priority=90)

    def _set(self, job: Job, action: SetField) -> None:
        match action.field, action.value:
            case Field.NICE, int(nice):
                self.change(job.job_id, nice=nice, priority=max(job.priority + job.nice - nice, 2))
            case Field.PRIORITY, int(priority):
                self.change(job.job_id, nice=0, priority=priority)
            case _, HoldState.HELD:
                for one in self._parts(job):
                    if one.pending:
                        self.change(one.job_id, priority=0, reason="JobHeldAdmin")
            case _, HoldState():
                for one in self._parts(job):
                    if one.held or one is job:
                        self.change(one.job_id, priority=100, reason="Resources")
            case _, Nodes(names=names, count=count):
                request = replace(job.request, required_nodes=names)
                if count is not None:
                    # A task for each node at least; those that there are stay.
                    tasks = count.tasks or max(job.request.tasks, count.least)
                    request = replace(
                        request,
                        min_nodes=count.least,
                        max_nodes=count.most,
                        tasks=tasks,
                        cpus=count.cpus or job.request.cpus * tasks // max(job.request.tasks, 1),
                    )
                self.change(job.job_id, request=request)
            case Field.BEGIN, int(begin):
                self.change(job.job_id, eligible_time=float(max(begin, int(NOW + self.at_s))))
            case Field.THROTTLE, int(throttle):
                self.throttled(action.job_id, throttle)

    def says(self, status: Status, *actions: Action, kind: FailureKind | None = None, words: str = "no") -> None:
        """Let tesched learn what became of these actions."""
        failure = Failure(kind=kind, message=words) if kind else None
        outcomes = [Outcome(action=action, status=status, at=NOW + self.at_s, failure=failure) for action in actions]
        self.memory, transitions = learned(
            self.memory, outcomes, NOW + self.at_s, self.limits, self.levers, seen=self.snapshot(self.at_s)
        )
        self._transitions += transitions

    def submits(self, job: Job, *, like: int) -> None:
        """Let a job come, of the class of another one, and with all else that is known of that."""
        self.jobs[job.job_id] = job
        self.start = self.start.with_traits({**self.start.traits, job.job_id: self.start.traits[JobId(like)]})

    def turns(self, job_id: int) -> None:
        """Make this waiting job, whose order is under way, a BE job that has its turn in a round."""
        traits, orders = self.start.traits, self.memory.orders
        self.start = self.start.with_traits(
            {**traits, JobId(job_id): replace(traits[JobId(job_id)], job_class=JobClass.BE)}
        )
        of_round = {
            key: replace(
                order, made_for_te=False, victims=tuple(replace(one, purpose=Purpose.ROUND) for one in order.victims)
            )
            for key, order in orders.items()
            if order.preemptor == job_id
        }
        self.memory = replace(self.memory, orders={**orders, **of_round})

    def change(self, job_id: int, **fields: Unpack[Changed]) -> None:
        """Change what Slurm says of a job."""
        job = self.jobs[JobId(job_id)]
        self.jobs[job.job_id] = replace(job, **fields)

    def throttled(self, array: int, throttle: int) -> None:
        """Set an array's throttle, which all its records show."""
        for job in list(self.jobs.values()):
            if job.array_job_id == array:
                self.change(job.job_id, array_throttle=throttle)

    def starts(self, job_id: int, *held: NodeShare, at_s: float | None = None) -> None:
        """Start a waiting job, now or at this time."""
        start_time = NOW + (self.at_s if at_s is None else at_s)
        self.change(job_id, state=JobState.RUNNING, start_time=start_time, reason="")
        self._holds(job_id, *held)

    def requeued(self, job_id: int) -> None:
        """Put a job back in the queue."""
        job = self.jobs[JobId(job_id)]
        self._holds(job_id)
        self.change(
            job_id,
            state=JobState.PENDING,
            flags=frozenset(),
            restarts=job.restarts + 1,
            start_time=None,
            reason="BeginTime",
        )

    def completing(self, job_id: int, state: JobState) -> None:
        """Let a job's processes be ended; it keeps its nodes until then."""
        self.change(job_id, state=state, flags=frozenset({"COMPLETING"}))

    def ends(self, job_id: int, state: JobState = JobState.COMPLETED) -> None:
        """End a job."""
        job = self.jobs[JobId(job_id)]
        self.jobs[job.job_id] = replace(job, allocation=(), ran_on=job.nodes)
        self.change(job_id, state=state, flags=frozenset(), end_time=NOW + self.at_s)

    def forgets(self, job_id: int) -> None:
        """Forget a job."""
        del self.jobs[JobId(job_id)]

    def _parts(self, job: Job) -> list[Job]:
        """Return the job, and what is held and released with it: a heterogeneous job's components."""
        return [job, *(one for one in self.jobs.values() if one.het_job_id == job.job_id and one is not job)]

    def _holds(self, job_id: int, *held: NodeShare) -> None:
        self.jobs[JobId(job_id)] = replace(self.jobs[JobId(job_id)], allocation=held)


# The smallest case, which most scenarios are about: job 1 holds the only node, job 9 wants half of it.
BE, TE = 1, 9
HALF = share("n1", 16, 1)


def one_node(*jobs: Job, grace_s: float = 30.0, limits: Limits | None = None) -> Driver:
    """Return the smallest case: all jobs have priority 100; job 1 has a grace period of `grace_s`."""
    nodes = [node("n1")]
    return Driver(
        nodes, [running(BE, share("n1", 32)), waiting(TE, cpus=16), *jobs], graces={BE: grace_s}, limits=limits
    )


def _reason(code: ReasonCode, text: str, preemptor: int, order: int) -> Reason:
    return Reason(code=code, text=text, preemptor=JobId(preemptor), order_id=OrderId(order))


def first_in_queue(nice: int, *, job: int = TE, previous: int = 0, order: int = 1, free: bool = False) -> SetField:
    """Return the raise of a TE job by its nice value."""
    code = ReasonCode.ROOM_IS_FREE if free else ReasonCode.MAKE_ROOM_FIRST
    text = "it must be first in the queue, or another job takes the resources"
    return SetField(
        job_id=JobId(job), reason=_reason(code, text, job, order), field=Field.NICE, value=nice, previous=previous
    )


def explicitly_first(priority: int, *, job: int = TE, previous: int, order: int = 1) -> SetField:
    """Return the raise of a TE job for which Slurm ignores nice."""
    reason = first_in_queue(0, job=job, order=order).reason
    return SetField(job_id=JobId(job), reason=reason, field=Field.PRIORITY, value=priority, previous=previous)


def nice_back(nice: int, *, job: int = TE, preemptor: int | None = None, now: int, order: int = 1) -> SetField:
    """Return what puts a nice value back; of the preemptor itself if no other job is named."""
    reason = _reason(ReasonCode.ORDER_ENDED, f"put its nice back to {nice}", preemptor or job, order)
    return SetField(job_id=JobId(job), reason=reason, field=Field.NICE, value=nice, previous=now)


def brought_forward(nice: int, *, job: int = BE, preemptor: int = TE, previous: int = 0, order: int = 1) -> SetField:
    """Return what puts a victim that is back in the queue ahead of the other best-effort jobs."""
    text = f"it freed resources for job {preemptor} and is next among the best-effort jobs"
    reason = _reason(ReasonCode.BACK_TO_THE_HEAD, text, preemptor, order)
    return SetField(job_id=JobId(job), reason=reason, field=Field.NICE, value=nice, previous=previous)


def priority_back(priority: int, *, job: int = TE, now: int, order: int = 1) -> SetField:
    """Return what puts a priority back."""
    reason = _reason(ReasonCode.ORDER_ENDED, f"put its priority back to {priority}", job, order)
    return SetField(job_id=JobId(job), reason=reason, field=Field.PRIORITY, value=priority, previous=now)


def notice(grace_s: int = 30, *, job: int = BE, preemptor: int = TE, order: int = 1, restarts: int = 0) -> Notify:
    """Return a victim's notice."""
    text = f"job {preemptor} needs its resources; it has {grace_s} s to save its work"
    reason = _reason(ReasonCode.NOTICE, text, preemptor, order)
    return Notify(job_id=JobId(job), reason=reason, signal="USR1", target=Target.BATCH, restarts=restarts)


def requeue(grace_s: int = 30, *, job: int = BE, preemptor: int = TE, order: int = 1) -> Requeue:
    """Return the requeue of a victim after its grace period."""
    text = f"its grace period of {grace_s} s is over and it still runs"
    return Requeue(job_id=JobId(job), reason=_reason(ReasonCode.GRACE_OVER, text, preemptor, order), restarts=0)


def requeue_at_once(*, job: int = BE, preemptor: int = TE, order: int = 1) -> Requeue:
    """Return the requeue of a victim that has no grace period."""
    text = f"it has no grace period, and job {preemptor} needs its resources"
    return Requeue(job_id=JobId(job), reason=_reason(ReasonCode.NO_GRACE, text, preemptor, order), restarts=0)
