"""State of pdors from poll to poll: what was decided of each job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tesched_core.model.resources import JobId, UnixSeconds


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
    """The plan of PD-ORS for one job."""

    planned_at: UnixSeconds
    #: when it starts, or has; without reserved slots, when it may at the earliest
    start_at: UnixSeconds
    #: how long it is to run there
    run_s: float
    #: where; others of the same rack, or with the same speed, may take their place when it starts
    nodes: tuple[str, ...]
    #: what was chosen, and the best of another number of nodes or another rack; None: there was nothing to choose
    option: Option | None = None
    next_best: Option | None = None
    #: its slots are kept for it; else it starts when resources are left over
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
class PdorsState:
    """State of pdors: the plan of each job, and when the next one is due."""

    #: what was decided of each job that it manages
    plans: Mapping[JobId, JobPlan] = field(default_factory=dict)
    #: until when the plans stand if nothing changes
    until: UnixSeconds = 0.0

    def shifted(self, by_s: float) -> PdorsState:
        """Return the state as it is to be read after the clock was set."""
        plans = {
            job_id: replace(plan, planned_at=plan.planned_at + by_s, start_at=plan.start_at + by_s)
            for job_id, plan in self.plans.items()
        }
        return replace(self, plans=plans, until=self.until + by_s)
