"""What was decided in one cycle, and why not otherwise. Recorded when decided, never reconstructed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from tesched_core.actions import Action, NodeCount, OrderId
from tesched_core.budget import Paid
from tesched_core.orders import Ending, Order, Raise, Transition
from tesched_core.resources import JobId, UnixSeconds
from tesched_core.round_state import RoundState
from tesched_core.share_state import ShareState
from tesched_core.snapshot import LeaveTimes


class RefusalCode(StrEnum):
    """Why somebody was looked at and nothing was asked of him."""

    # why a waiting TE job gets no room made
    HELD = "held"
    DEPENDENCY = "dependency"
    BEGIN_TIME = "begin_time"
    LICENSES = "licenses"
    LIMIT = "limit"
    RESERVATION = "reservation"
    PARTITION_DOWN = "partition_down"
    NODE_DOWN = "node_down"
    OTHER_REASON = "other_reason"
    NOT_CONSIDERED_YET = "not_considered_yet"
    UNSUPPORTED = "unsupported"
    UNREAD = "unread"
    IMPOSSIBLE = "impossible"
    NO_VICTIM = "no_victim"
    ORDER_OPEN = "order_open"
    RETRY_LATER = "retry_later"
    #: a job that waits in a partition of a higher PriorityTier over the same nodes would take the room
    OUTRANKED = "outranked"
    #: it is at the head of its queue, and awaits resources that come free by themselves before a victim is asked
    AWAITS_FREE = "awaits_free"
    FUTILE = "futile"
    CYCLE_LIMIT = "cycle_limit"
    POLICY_NONE = "policy_none"
    PAUSED = "paused"
    # what a training gets of what trainings share, and why
    SHARE = "share"
    # why a BE job that takes turns with others is where it is
    ROUND = "round"
    # how a BE job is planned that PD-ORS looks after
    PLAN = "plan"
    # why a waiting BE job that fits is not brought forward
    WOULD_DELAY = "would_delay"
    # why a running BE job is not asked to step aside
    NOT_ALLOWED_NODE = "not_allowed_node"
    FREES_TOO_LITTLE = "frees_too_little"
    OUTSCORED = "outscored"
    GIVEN_BACK = "given_back"
    MAX_PREEMPTIONS = "max_preemptions"
    MIN_RUN_TIME = "min_run_time"
    COOL_DOWN = "cool_down"
    NOT_REQUEUEABLE = "not_requeueable"
    INTERACTIVE = "interactive"
    PROTECTED_USER = "protected_user"
    PROTECTED_ACCOUNT = "protected_account"
    PROTECTED_QOS = "protected_qos"
    PROTECTED_PARTITION = "protected_partition"
    PROTECTED_RESERVATION = "protected_reservation"
    PROTECTED_NAME = "protected_name"
    HOUR_LIMIT = "hour_limit"
    USER_LIMIT = "user_limit"
    ACCOUNT_LIMIT = "account_limit"
    NODE_LIMIT = "node_limit"
    BUDGET = "budget"
    # what one TE job, its user or its account causes
    CAUSED_LIMIT = "caused_limit"
    # what rounds (gavel, pdors) may cost
    ROUND_LIMIT = "round_limit"
    SLOWDOWN = "slowdown"
    ALREADY_LEAVING = "already_leaving"
    SUSPENDED = "suspended"
    HETEROGENEOUS = "heterogeneous"
    SCRIPT_UNREAD = "script_unread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Somebody who was looked at and of whom nothing was asked."""

    #: the candidate that was spared; or, where it is the preemptor itself, the TE job that gets no room
    job_id: JobId
    preemptor: JobId
    code: RefusalCode
    #: one sentence, in words that an admin would use
    text: str
    #: the policy's score, where it got that far; lower goes first
    score: float | None = None


#: A code, and one sentence; "{score}" in it stands for the score of whom it is said.
Why: TypeAlias = tuple[RefusalCode, str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Block:
    """Refusals of many candidates for one preemptor, as columns: there may be tens of thousands in a cycle."""

    preemptor: JobId
    job_id: NDArray[np.int64]
    #: row of `whys`
    why: NDArray[np.intp]
    whys: Sequence[Why]
    #: nan where it did not get that far
    score: NDArray[np.float64]

    def __iter__(self) -> Iterator[Refusal]:
        """Return them one by one."""
        for job_id, why, score in zip(self.job_id.tolist(), self.why.tolist(), self.score.tolist(), strict=True):
            code, text = self.whys[why]
            known = score == score  # noqa: PLR0124 - not nan
            yield Refusal(
                job_id=JobId(job_id),
                preemptor=self.preemptor,
                code=code,
                text=text.replace("{score}", f"{score:.3f}") if known else text,
                score=round(score, 4) if known else None,
            )

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.job_id)


class Refusals(Sequence[Refusal]):
    """Refusals in their order, kept as they were made, and written out when somebody reads them."""

    def __init__(self, parts: Iterable[Refusal | Block] = ()) -> None:
        """Take refusals and blocks of them."""
        self._parts = tuple(parts)
        self._all: tuple[Refusal, ...] | None = None

    @property
    def parts(self) -> tuple[Refusal | Block, ...]:
        """Return what it was made of."""
        return self._parts

    def _written(self) -> tuple[Refusal, ...]:
        if self._all is None:
            self._all = tuple(one for part in self._parts for one in ([part] if isinstance(part, Refusal) else part))
        return self._all

    def __len__(self) -> int:
        """Return how many refusals there are."""
        return sum(1 if isinstance(part, Refusal) else len(part) for part in self._parts)

    def __iter__(self) -> Iterator[Refusal]:
        """Return them one by one."""
        return iter(self._written())

    @overload
    def __getitem__(self, index: int) -> Refusal: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Refusal, ...]: ...
    def __getitem__(self, index: int | slice) -> Refusal | tuple[Refusal, ...]:
        """Return one, or some, by place."""
        return self._written()[index]

    def __add__(self, other: Refusals) -> Refusals:
        """Return these and the others."""
        return Refusals((*self._parts, *other._parts))

    def __eq__(self, other: object) -> bool:
        """Return whether the other sequence holds the same refusals in the same order."""
        return isinstance(other, Refusals | tuple) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        """Return the same for equal ones."""
        return hash(self._written())

    def __repr__(self) -> str:
        """Return them written out."""
        return f"Refusals({self._written()!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One cycle's decision. There is one for an empty cycle too."""

    cycle: int
    at: UnixSeconds
    policy: str
    #: what to do now, in this order
    actions: tuple[Action, ...]
    refusals: Sequence[Refusal]
    transitions: tuple[Transition, ...]
    #: one line: what was done and why, or "did nothing, because …"
    summary: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Forwarded:
    """A BE job that was brought to the head of the queue, so that it fills room that is left over."""

    job_id: JobId
    at: UnixSeconds
    raised: Raise


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A job that was bound to nodes while it waits: for room that its victims make there, or for its turn."""

    job_id: JobId
    order_id: OrderId
    at: UnixSeconds
    #: the nodes, sorted, and which it asked for itself
    nodes: tuple[str, ...]
    previous: tuple[str, ...]
    #: to which it was bound by an order before this one when it was bound anew; empty if it was not
    before: tuple[str, ...] = ()
    #: how many it asked for itself, where that was changed to the number of `nodes`
    previous_count: NodeCount | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Futility:
    """What came of the orders for one TE job that asked victims and came to nothing; of an array, for all its tasks."""

    #: how many there were
    count: int
    #: how the last one ended
    ending: Ending
    #: what Slurm said of the job then (its reason word)
    said: str = ""
    #: a digest of what decides whether another order can do better (`futility.basis_of`); empty until it was taken
    basis: str = ""
    #: after one that ended at a limit: the most jobs of its user, account and QOS that were seen running since
    fellows: int = 0
    #: something that mattered has changed since
    changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What a job has behind it that Slurm does not say: it resets the submission at each requeue."""

    #: its first submission
    submitted_at: UnixSeconds
    #: how long it ran before, all runs together, seconds
    ran_s: float
    #: and for how long of that, and of its present run, tesched had it suspended
    suspended_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What must be remembered from cycle to cycle, and over a restart."""

    #: the last cycle
    cycle: int = 0
    #: the order that comes next
    next_order: OrderId = OrderId(1)
    #: orders that have not ended, and those that ended in this very cycle
    orders: Mapping[OrderId, Order] = field(default_factory=dict)
    #: how often a job was preempted, all its runs together (never more than the guard allows)
    preemptions: Mapping[JobId, int] = field(default_factory=dict)
    #: when a job last left its room for somebody, or was let go after its notice
    last_preempted: Mapping[JobId, UnixSeconds] = field(default_factory=dict)
    #: TE jobs whose order came to nothing, and when they may be tried again; of an array, by the array's id
    retry_at: Mapping[JobId, UnixSeconds] = field(default_factory=dict)
    #: what came of their futile orders, by the same id
    futile: Mapping[JobId, Futility] = field(default_factory=dict)
    #: TE jobs for which shadow mode has recorded an order, and when it may record the next. Not persisted
    shadowed: Mapping[JobId, UnixSeconds] = field(default_factory=dict)
    #: victims that Slurm has just refused to put back in the queue, whose users are yet to be told. Not persisted
    newly_lost: frozenset[JobId] = frozenset()
    #: remembered jobs that the last answers did not show, and since when. Not persisted
    missing: Mapping[JobId, UnixSeconds] = field(default_factory=dict)
    #: victims' payments of the last day
    paid: tuple[Paid, ...] = ()
    #: how long jobs took to leave without a notice; read back from the orders of the past, so it is no part of the rest
    leave_times: LeaveTimes = field(default_factory=dict, compare=False)
    #: what became of a preempted job before its present turn in the queue
    past: Mapping[JobId, Past] = field(default_factory=dict)
    #: BE jobs that a best-effort policy has brought to the head of the queue
    forwarded: Mapping[JobId, Forwarded] = field(default_factory=dict)
    #: TE jobs that were bound to nodes, until they have ended or are seen to be free again
    bound: Mapping[JobId, Bound] = field(default_factory=dict)
    #: when such a job was bound for the first time since it last ran: `guard.bind_for_s` counts from there
    bound_since: Mapping[JobId, UnixSeconds] = field(default_factory=dict)
    #: of a policy that goes in rounds
    rounds: RoundState | None = None
    #: of a policy that shares workers among trainings
    shares: ShareState | None = None

    def open_orders(self) -> tuple[Order, ...]:
        """Return the orders that have not ended, oldest first."""
        return tuple(order for _, order in sorted(self.orders.items()) if order.ended_at is None)
