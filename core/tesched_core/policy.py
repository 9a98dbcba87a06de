"""Policy contract: what a policy is shown, what it may propose, and what it never does.

    propose(view, state) -> Proposal(intents, refusals, state, next_at)

A policy plans once a poll, after the policies before it. It proposes intents; the guard admits or refuses each, and
the levers carry out what is left. A policy changes nothing itself, reads no clock and no file: the same view and state
give the same proposal. What it wants to remember is its state, which core and the store carry without reading it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

from tesched_core.model.arrays import NDArray, np
from tesched_core.model.change import Mark, TeRules
from tesched_core.model.cluster import HELD_BY_US, Job
from tesched_core.model.decision import Refusal, Refusals
from tesched_core.model.extra import Extra
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits, TurnLimits, YieldBy
from tesched_core.model.order import Order
from tesched_core.model.resources import JobId, UnixSeconds

if TYPE_CHECKING:
    from tesched_core.model.capacity import Capacity
    from tesched_core.model.columns import ClusterColumns, Running
    from tesched_core.model.memory import Memory
    from tesched_core.model.snapshot import Snapshot
    from tesched_core.placement.deadlines import Deadlines
    from tesched_core.placement.eligibility import Eligibility

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The best-effort jobs that a policy may manage: by partition and QOS, and none of a policy before it."""

    #: empty: any
    partitions: frozenset[str] = frozenset()
    qos: frozenset[str] = frozenset()
    before: tuple[Scope, ...] = ()

    def covers(self, job: Job) -> bool:
        """Check whether the policy may manage this job."""
        mine = not self.partitions or not self.partitions.isdisjoint(job.partitions)
        mine = mine and (not self.qos or not self.qos.isdisjoint(job.each_qos))
        return mine and not any(scope.covers(job) for scope in self.before)


class PlanAdmission(Protocol):
    """Interface of the guard's word on plan after plan of a policy for TE jobs (`guard/admission.py`)."""

    def waits(self, preemptor: JobId) -> bool:
        """Check whether the job waits by an order that is open: it may go on, however many there are."""
        ...

    def full(self, preemptor: JobId, victims: int = 0) -> Refusal | None:
        """Return a refusal if no plan of this job can be admitted, or none with so many victims or more."""
        ...

    def admit(self, plan: Plan) -> Refusal | None:
        """Return a refusal if the plan may not be carried out, or would pass a limit; else count it."""
        ...

    def late_nodes(self, plan: MakeRoom) -> frozenset[str]:
        """Nodes that the plan's victims leave too late for its job: without these another plan may be admitted."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """View of a policy: one instant, after what the policies before it have reserved."""

    snapshot: Snapshot
    memory: Memory
    columns: ClusterColumns
    limits: Limits
    #: TE jobs that would start if resources were free, in the order in which they are served
    waiting: tuple[Job, ...] = ()
    #: those of them that no policy before this one serves in this cycle: they come before every BE job
    ahead: tuple[Job, ...] = ()
    scope: Scope = field(default_factory=Scope)
    #: by how much a job's quality is expected to rise, as another policy foretells it; no unit, missing: not known
    gains: Mapping[JobId, float] = field(default_factory=dict)
    #: orders that have reserved resources
    reserving: tuple[Order, ...] = ()
    #: until when TE jobs may delay each BE job; None: nothing is bounded
    deadlines: Deadlines | None = None
    find_eligible: Callable[[], Eligibility]
    #: gives the guard's word on plan after plan, from the first one on, for this view: a policy that plans by it
    #: proposes none that is refused, and is not called anew (`orders/serve.py`); None: it proposes what it would
    admission: Callable[[View], PlanAdmission] | None = None
    #: what a policy has worked out and may need again where it proposes anew without some TE jobs (`orders/serve.py`)
    kept: dict[Hashable, Any] = field(default_factory=dict)

    @property
    def now(self) -> UnixSeconds:
        """Return the snapshot's time."""
        return self.snapshot.taken_at

    @property
    def running(self) -> Running:
        """Return the BE jobs that hold nodes: all of them, whether they may be victims or not."""
        return self.columns.running

    @cached_property
    def eligibility(self) -> Eligibility:
        """Eligible victims among `running`."""
        return self.find_eligible()

    @cached_property
    def capacity(self) -> Capacity:
        """Return the resources that are free now, less what open orders have reserved; may be below zero."""
        from tesched_core.placement.reserved import unreserved_capacity  # noqa: PLC0415 - a configuration needs none

        return unreserved_capacity(self.reserving, self.snapshot, self.columns.capacity)

    @cached_property
    def capacity_after_orders(self) -> Capacity:
        """Return the resources that are free when the open orders are done; their preemptors have taken theirs."""
        from tesched_core.placement.reserved import capacity_after_orders  # noqa: PLC0415 - as above

        return capacity_after_orders(self.reserving, self.snapshot, self.columns.capacity)

    @property
    def rivals(self) -> ClusterColumns | None:
        """Waiting jobs that may take resources that are lent; None: victims are requeued."""
        return self.columns if self.limits.lever is YieldBy.AUTO else None

    def held_by_us(self, job: Job) -> bool:
        """Check whether the job is held, and by tesched."""
        one = self.memory.changes_of(Field.HOLD).get(job.job_id)
        # What a requeue has left held is released by itself.
        return job.held and job.reason == HELD_BY_US and one is not None and one.by is None

    def own_throttle(self, array: JobId, job: Job) -> int:
        """Return the throttle that the array has of its user, 0 for none; `job` is any record of it."""
        one = self.memory.changes_of(Field.THROTTLE).get(array)
        return job.array_throttle if one is None else one.previous


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenVictim:
    """A victim, and why it was chosen."""

    job_id: JobId
    #: lower is chosen first; 0 where the policy has no score
    score: float = 0.0
    #: one clause, after "chosen because": "its score of 2.33 was the lowest that freed enough"
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeRoom:
    """The preemptor starts on these nodes once the victims have left them.

    Without a victim it starts on free resources. A BE job among its own victims moves.
    """

    preemptor: JobId
    nodes: tuple[str, ...]
    victims: tuple[ChosenVictim, ...] = ()
    #: the victims' CPUs are enough: they are suspended, not requeued
    by_suspending: bool = False

    @property
    def victim_ids(self) -> tuple[JobId, ...]:
        """Return the victims' ids."""
        return tuple(victim.job_id for victim in self.victims)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitRoom:
    """The TE job is put first in the queue, and no victim is notified before `until`; the policy plans again anyway."""

    preemptor: JobId
    until: UnixSeconds
    #: it has victims, which are notified once Slurm has considered it at the head of its queue (`orders/first_look.py`)
    awaits_look: bool = False


Plan: TypeAlias = MakeRoom | AwaitRoom


@dataclass(frozen=True, slots=True, kw_only=True)
class LeverIntent:
    """Intent for one job that a lever carries out (`fields/contract.py`); proposed anew at each poll, or put back."""

    #: it is for an array as a whole
    of_array: ClassVar[bool] = False
    #: it keeps jobs, or tasks, from starting: none that is protected
    keeps_waiting: ClassVar[bool] = False

    #: of an array, the array's
    job_id: JobId
    #: one sentence
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BoostJob(LeverIntent):
    """The BE job is to be next in the queue.

    A boost ends when the job starts, or after a while; `stays` keeps it for as long as it is proposed anew.
    """

    stays: bool = False
    #: TE jobs wait for it
    is_due: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldJob(LeverIntent):
    """The job is held: it would start where or when it should not."""

    keeps_waiting: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseJob(LeverIntent):
    """A job that tesched holds is left to Slurm, without a place of its own. An order releases its job by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThrottleArray(LeverIntent):
    """The array may run this many tasks; its own throttle comes back as soon as this is not proposed any more."""

    of_array: ClassVar[bool] = True
    keeps_waiting: ClassVar[bool] = True

    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkJobs:
    """These running BE jobs may be preempted by Slurm's plugin, in the order of their marks, and no other."""

    marks: Mapping[JobId, Mark]
    te_rules: TeRules = field(default_factory=TeRules)


Intent: TypeAlias = MakeRoom | AwaitRoom | LeverIntent | MarkJobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal(Generic[S]):
    """A policy's answer."""

    #: at most one MakeRoom or AwaitRoom for a job
    intents: tuple[Intent, ...] = ()
    #: what was weighed and not taken, and why
    refusals: Refusals = field(default_factory=Refusals)
    #: for each job that the policy manages: why it is where it is, for `tesched explain`
    notes: Mapping[JobId, str] = field(default_factory=dict)
    #: what the policy remembers
    state: S | None = None
    #: when it wants to plan again at the latest, Unix seconds; None: at the next poll
    next_at: UnixSeconds | None = None

    @property
    def plans(self) -> tuple[Plan, ...]:
        """Return the intents that become orders."""
        return tuple(one for one in self.intents if isinstance(one, MakeRoom | AwaitRoom))


class Show(Protocol):
    """Format of times and nodes for people."""

    def time(self, at: UnixSeconds) -> str:
        """Return a time of day, with the date if that is not today's."""
        ...

    def nodes(self, names: Iterable[str]) -> str:
        """Return a host list."""
        ...


class PolicyState(Protocol):
    """Interface of every policy's state."""

    def shifted(self, by_s: float) -> PolicyState:
        """Return the state as it is to be read after the clock was set forward by so many seconds."""
        ...


class Policy(ABC, Generic[S]):
    """A scheduling policy: a frozen dataclass that inherits from this.

    Its fields are the keys of its table in the configuration, [policy.NAME], with their defaults; `__post_init__`
    raises ValueError, beginning with the key, for a value that makes no sense. `State` is a frozen dataclass of what
    JSON can hold, with a `shifted` (`PolicyState`); None for a policy that remembers nothing.
    """

    name: ClassVar[str]
    State: ClassVar[type[Any] | None] = None
    #: it serves TE jobs (`policy.te`), or manages BE jobs (`policy.be`)
    serves_te: ClassVar[bool] = False
    #: it reads `snapshot.speeds`, the throughput of jobs on accelerator types
    reads_speeds: ClassVar[bool] = False
    #: it reads the run times that are expected of waiting jobs (`Snapshot.expected_run`); of running ones anybody may
    reads_run_times: ClassVar[bool] = False
    #: of one that serves TE jobs: it has no victim for a job (`NO_VICTIM`) only where not even all that may be victims
    #: are enough, and such a job changes nothing of what it proposes for others: a simulation may leave it out
    refuses_alone: ClassVar[bool] = False
    #: packages that `propose` imports and that may be missing: without them no daemon starts with the policy
    needs: ClassVar[Sequence[Extra]] = ()

    @property
    def label(self) -> str:
        """Return the policy's name for people, with its variant: "gavel:las"."""
        return self.name

    @property
    def turn_limits(self) -> TurnLimits | None:
        """Limits of what MakeRoom for BE jobs may cost; None: the policy moves none."""
        return None

    @abstractmethod
    def propose(self, view: View, state: S | None) -> Proposal[S]:
        """Propose what is to be done now. Pure."""

    def describe(self, state: S | None, job_id: JobId, show: Show) -> Iterable[str]:  # noqa: ARG002 - for those that do
        """Return lines on one job for `tesched explain`, beside the policy's notes."""
        return ()

    def rank(self, view: View, state: S | None) -> NDArray[np.float64] | None:  # noqa: ARG002 - for those that do
        """Return a score for each running BE job, whatever TE job comes; lower is preempted first; None: it has none.

        For Slurm's plugin, which preempts without asking (`guard.lever = "plugin"`).
        """
        return None

    def gains(self, state: S | None) -> Mapping[JobId, float]:  # noqa: ARG002 - for those that do
        """Return by how much each job's quality is expected to rise, for other policies (`View.gains`)."""
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEntry:
    """A policy that plans, and which BE jobs it may manage."""

    policy: Policy[Any]
    scope: Scope = field(default_factory=Scope)


def with_scopes(policies: Iterable[tuple[Policy[Any], Iterable[str], Iterable[str]]]) -> tuple[PolicyEntry, ...]:
    """Return entries in which no job has two policies: (policy, partitions, QOS) each, the first one comes first."""
    entries: list[PolicyEntry] = []
    for policy, partitions, qos in policies:
        before = tuple(entry.scope for entry in entries if not entry.policy.serves_te)
        scope = Scope(partitions=frozenset(partitions), qos=frozenset(qos), before=before)
        entries.append(PolicyEntry(policy=policy, scope=scope))
    return tuple(entries)


def in_turn(*policies: Policy[Any]) -> tuple[PolicyEntry, ...]:
    """Return entries for these policies, in this order; the first that manages BE jobs manages all of them."""
    return with_scopes((policy, (), ()) for policy in policies)
