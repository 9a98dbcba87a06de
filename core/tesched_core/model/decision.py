"""Decisions of one cycle, and why not otherwise. Recorded when decided, never reconstructed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import TypeAlias, overload

from tesched_core.model.actions import Action
from tesched_core.model.arrays import NDArray, np
from tesched_core.model.order import Transition
from tesched_core.model.resources import JobId, UnixSeconds


class RefusalCode(StrEnum):
    """Code of a refusal: why a job was weighed and not chosen."""

    # why no resources are freed for a waiting TE job
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
    #: a job that waits in a partition of a higher PriorityTier over the same nodes would take the resources
    OUTRANKED = "outranked"
    #: this site's Slurm refuses the change of the job without which its victims would leave for another one
    SLURM_REFUSES = "slurm_refuses"
    #: it is at the head of its queue, and awaits resources that come free by themselves before a victim is notified
    AWAITS_FREE = "awaits_free"
    #: its owner has said for how long no other job is to leave for it
    PATIENCE = "patience"
    FUTILE = "futile"
    CYCLE_LIMIT = "cycle_limit"
    #: with the lever `plugin`: Slurm decides by itself whether it preempts for the job
    SLURM_DECIDES = "slurm_decides"
    #: with the lever `plugin`: by slurm.conf it is no TE job, so Slurm preempts none for it
    NO_TE_TO_SLURM = "no_te_to_slurm"
    POLICY_NONE = "policy_none"
    PAUSED = "paused"
    # a policy raised an error
    POLICY_FAILED = "policy_failed"
    # why a BE job is where its policy has it
    NOTE = "note"
    # a policy proposed a change for a job that it may not manage
    NOT_MANAGED = "not_managed"
    # why a waiting BE job that fits is not brought forward
    WOULD_DELAY = "would_delay"
    # why a running BE job is not selected
    NOT_ALLOWED_NODE = "not_allowed_node"
    FREES_TOO_LITTLE = "frees_too_little"
    OUTSCORED = "outscored"
    GIVEN_BACK = "given_back"
    MAX_PREEMPTIONS = "max_preemptions"
    MIN_RUN_TIME = "min_run_time"
    COOL_DOWN = "cool_down"
    NOT_REQUEUEABLE = "not_requeueable"
    CANNOT_RETURN = "cannot_return"
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
    # what TE jobs of one user, or all of them, may hold at once
    TE_LIMIT = "te_limit"
    # it was to wait for one of those or for guard.bound, and an operator has let it through
    LET_THROUGH = "let_through"
    # what rounds (gavel, pdors) may cost
    ROUND_LIMIT = "round_limit"
    SLOWDOWN = "slowdown"
    #: of a victim: it may not be delayed so long (guard.bound); of a TE job: a BE job may not, so it has to wait
    BOUND = "bound"
    ALREADY_LEAVING = "already_leaving"
    SUSPENDED = "suspended"
    HETEROGENEOUS = "heterogeneous"
    CRON_JOB = "cron_job"
    FEDERATED = "federated"
    SCRIPT_UNREAD = "script_unread"
    # with the lever `plugin`: Slurm may not put it back once it has had its signal
    DECLARES_SIGNAL = "declares_signal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Refusal: a job that was weighed and not chosen."""

    #: the candidate that was not selected; or, where it is the preemptor itself, the TE job without a plan
    job_id: JobId
    preemptor: JobId
    code: RefusalCode
    #: one sentence, in words that an admin would use
    text: str
    #: the policy's score, where it got that far; lower goes first
    score: float | None = None
    #: the BE job for which this TE job has to wait, as squeue writes it (`BOUND`); empty: none
    behind: str = ""
    #: how many more candidates of the same preemptor are refused by the same code, and left out
    more: int = 0


#: A code, and one sentence; "{score}" in it stands for the score of its job.
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
        """Count them."""
        return len(self.job_id)

    def abbreviated(self, most: int) -> Iterator[Refusal]:
        """Return the first `most` of each code; the last one of a code says how many more there are."""
        codes = list(dict.fromkeys(code for code, _ in self.whys))
        of_why = np.array([codes.index(code) for code, _ in self.whys], dtype=np.intp)
        for place in range(len(codes)):
            rows = np.flatnonzero(of_why[self.why] == place)
            few = rows[:most]
            named = list(replace(self, job_id=self.job_id[few], why=self.why[few], score=self.score[few]))
            if named:
                named[-1] = replace(named[-1], more=len(rows) - len(named))
            yield from named


class BlockOnRead:
    """Block that is worked out when it is first read, from what does not change after the decision.

    With many TE jobs there are as many blocks of all candidates, and none of them decides anything.
    """

    def __init__(self, preemptor: JobId, work_out: Callable[[], Block]) -> None:
        """Keep how to work the block out, which must give the same at any time."""
        self.preemptor = preemptor
        self._work_out = work_out

    @cached_property
    def block(self) -> Block:
        """The block, worked out."""
        return self._work_out()

    def __iter__(self) -> Iterator[Refusal]:
        """Return its refusals one by one."""
        return iter(self.block)

    def __len__(self) -> int:
        """Count them."""
        return len(self.block)


#: what refusals are kept as
Part: TypeAlias = Refusal | Block | BlockOnRead


class Refusals(Sequence[Refusal]):
    """Refusals in their order, kept as they were made, and written out when they are read."""

    def __init__(self, parts: Iterable[Part] = ()) -> None:
        """Take refusals and blocks of them."""
        self._parts = tuple(parts)
        self._all: tuple[Refusal, ...] | None = None

    @property
    def parts(self) -> tuple[Part, ...]:
        """Refusals and blocks that it was made of."""
        return self._parts

    def _written(self) -> tuple[Refusal, ...]:
        if self._all is None:
            self._all = tuple(one for part in self._parts for one in ([part] if isinstance(part, Refusal) else part))
        return self._all

    def __len__(self) -> int:
        """Count the refusals."""
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
        """Check whether the other sequence holds the same refusals in the same order."""
        return isinstance(other, Refusals | tuple) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        """Return the same for equal ones."""
        return hash(self._written())

    def __repr__(self) -> str:
        """Return them written out."""
        return f"Refusals({self._written()!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedTe:
    """TE jobs that wait or run, for `guard.te.max_submitted_per_user`."""

    #: how many of them a user may have
    most: int
    by_user: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Time until which TE jobs may start by themselves: none of them delays a BE job by more than the bound."""

    #: Unix seconds; in the past: each is held until the daemon has admitted it; infinite: none is
    until: UnixSeconds
    #: seconds; the longest time limit that such a job may have
    most_s: float
    #: of a user with so many no more are taken; None: any number is
    submitted: SubmittedTe | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOfBound:
    """What is left of one BE job's bound."""

    #: the job as squeue writes it, and its user
    job: str
    user: str
    #: by how much other users' TE jobs have delayed it, and by how much they may in all, seconds
    delayed_s: float
    bound_s: float
    #: it may not be delayed by one more TE job of the longest time limit; None: not worked out
    near: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundNow:
    """What `guard.bound` means now."""

    #: of the configuration
    slowdown: float
    te_time_limit_s: float
    #: what one preemption of a job costs by itself, beside its grace period, seconds
    costs_s: float
    #: TE jobs that have to wait for it
    te_waiting: int
    #: BE jobs that are near their bounds
    near: int
    #: BE jobs that were delayed and are in the queue or run, the nearest to their bounds first, `MOST_LEFT` of them
    jobs: tuple[LeftOfBound, ...]


#: most jobs of which a cycle records what is left of their bounds
MOST_LEFT = 100


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
    #: when a policy wants to plan again, Unix seconds; None: at the next poll
    next_at: UnixSeconds | None = None
    #: which TE jobs may start by themselves; None: nothing is bounded
    admission: Admission | None = None
    #: what is left of the bounds of BE jobs; None: nothing is bounded
    bound: BoundNow | None = None
