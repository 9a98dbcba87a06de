"""Parameters of pdors: the keys of [policy.pdors] (policy.py has the definitions)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tesched_core.model.ranges import Period, between

from tesched_policies.pdors.workload import TrainingKind
from tesched_policies.turns import Turns


@dataclass(frozen=True, kw_only=True)
class PdOrsParameters(Turns):
    """Slots, prices, and what is known of the cluster and its trainings."""

    #: length of a slot, seconds, and how many are planned
    slot_s: Period = 300.0
    slots: Annotated[int, between(2, 1000)] = 48
    #: least price of a resource, in parts of the highest
    floor: Annotated[float, between(1e-12, 0.1)] = 1e-5
    #: what features of nodes that name their rack begin with; empty: Slurm's topology
    rack_feature: str = ""
    #: what is known of the trainings
    workloads: tuple[TrainingKind, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for what makes no slot, no price or no table of workloads."""
        names = [workload.name for workload in self.workloads]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"workloads: two workloads are named {twice[0]!r}; each needs a name of its own")
        self.check_turns()
