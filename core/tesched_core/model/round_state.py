"""What a policy that goes in rounds remembers from look to look. Data only; the store keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tesched_core.model.resources import JobId, UnixSeconds


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRounds:
    """One job's part. The tuples are by type, in the order of `RoundState.types`; empty: nothing was allocated yet."""

    #: fraction of the time that it should spend on each type
    share: tuple[float, ...] = ()
    #: seconds that it has spent on each type since the allocation, and what it was behind by before it
    received_s: tuple[float, ...] = ()
    deficit_s: tuple[float, ...] = ()
    #: its type in this round; -1: it waits
    kind: int = -1
    #: who shares its GPU in this round, or should
    partner: JobId | None = None
    #: seconds that its work until the last allocation would have taken with an equal part of the cluster
    isolated_s: float = 0.0
    #: steps a second with an equal part of the cluster, by the last allocation
    isolated_speed: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One way to run a job, as PD-ORS weighs it."""

    #: how many nodes; in one rack, or in several (empty) where the exchange is slower
    nodes: int
    rack: str
    #: slots from the plan until it starts, and how many it takes
    wait_slots: int
    slots: int
    #: what its end is worth, and what it costs at the prices of the plan, utility
    worth: float
    price: float

    @property
    def payoff(self) -> float:
        """Return worth - price."""
        return self.worth - self.price


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """What PD-ORS has decided of one job."""

    planned_at: UnixSeconds
    #: when it starts, or has; without a promise, when it may at the earliest
    start_at: UnixSeconds
    #: how long it is to run there
    run_s: float
    #: where; others of the same rack, or with the same speed, may take their place when it starts
    nodes: tuple[str, ...]
    #: what was chosen, and the best of another number of nodes or another rack; None: there was nothing to choose
    option: Option | None = None
    next_best: Option | None = None
    #: its slots are kept for it; else it starts when room is left over
    promised: bool = True
    #: why it is not as planned: empty, or a sentence
    note: str = ""
    #: part of its work that is still to do when it starts
    rest: float = 1.0
    #: the run that is meant, and how long the job had run before it
    restarts: int = 0
    ran_before_s: float = 0.0
    #: that run has begun
    started: bool = False
    #: orders for it that came to nothing, and the last of them
    failures: int = 0
    failed_order: int = 0
    #: it is left to Slurm, which did not start it as planned
    dropped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRounds:
    """The part of two jobs on one GPU, as a job's."""

    share: tuple[float, ...]
    received_s: tuple[float, ...]
    deficit_s: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundState:
    """All of it."""

    #: accelerator types; state of other types is of no use
    types: tuple[str, ...]
    began_at: UnixSeconds
    ends_at: UnixSeconds
    #: up to when `received_s` is counted
    counted_at: UnixSeconds
    #: when time was last allocated, among how many jobs
    solved_at: UnixSeconds
    solved_jobs: int = 0
    #: GPUs of each type that there were to be divided then
    solved_gpus: tuple[int, ...] = ()
    #: jobs have come or gone since
    changed: bool = True
    #: seconds that each type has given since
    given_s: tuple[float, ...] = ()
    jobs: Mapping[JobId, JobRounds] = field(default_factory=dict)
    #: those to which time is allocated, the lower id first
    pairs: Mapping[tuple[JobId, JobId], PairRounds] = field(default_factory=dict)
    #: PD-ORS: what it has decided of each job that it looks after
    plans: Mapping[JobId, JobPlan] = field(default_factory=dict)
    #: jobs that tesched holds until it is their turn, since when
    held: Mapping[JobId, UnixSeconds] = field(default_factory=dict)
    #: why the allocation is not the policy's own optimum; empty: it is
    fallback: str = ""
