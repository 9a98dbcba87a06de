"""The schedulers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tesched_policies.pdors.prices import FLOOR
from tesched_sim.workload import WorkloadError

from tesched_papers.pdors.algorithm.schedule import Settings
from tesched_papers.pdors.algorithm.slot import External, SlotSettings
from tesched_papers.pdors.baseline_placement import BaselinePlacement
from tesched_papers.pdors.engine import Result, Scheduler, simulate
from tesched_papers.pdors.planned import Planned, with_roles
from tesched_papers.pdors.shared import Dorm, Drf, Fifo
from tesched_papers.pdors.workload import Instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """How those that plan do it; each key is explained in tesched_core.pdors."""

    gain: float = 1.0
    trials: int = 40
    repair: bool = True
    bound: bool = True
    external: External = External.ROUNDED
    units: int = 60
    floor: float = FLOOR

    def __post_init__(self) -> None:
        """Raise WorkloadError for what cannot be planned with."""
        if not self.gain > 0:
            raise WorkloadError("plan.gain must be above 0")
        for name in ("trials", "units"):
            if getattr(self, name) < 1:
                raise WorkloadError(f"plan.{name} must be at least 1")
        if not 0 <= self.floor < 1:
            raise WorkloadError("plan.floor must be at least 0, and below 1")

    @property
    def settings(self) -> Settings:
        """Return them as core has them."""
        slot = SlotSettings(
            external=self.external, gain=self.gain, trials=self.trials, repair=self.repair, bound=self.bound
        )
        return Settings(slot=slot, units=self.units)


_SHARED: Mapping[str, Callable[[Instance, BaselinePlacement], Scheduler]] = {"fifo": Fifo, "drf": Drf, "dorm": Dorm}
_PACKED = "-packed"
#: `blind` is PD-ORS that does not know that one machine is faster; `-packed` are those that prefer one machine
NAMES = ("pd-ors", "oasis", "blind", *_SHARED, *(f"{name}{_PACKED}" for name in _SHARED))


def check(name: str) -> None:
    """Raise WorkloadError if there is no such scheduler."""
    if name not in NAMES:
        raise WorkloadError(f"there is no scheduler {name}; there are {', '.join(NAMES)}")


def run(name: str, instance: Instance, planning: Planning) -> Result:
    """Return what becomes of an instance under a scheduler. Raises WorkloadError if there is no such."""
    check(name)
    if name in {"pd-ors", "blind"}:
        return simulate(
            instance, Planned(instance, settings=planning.settings, floor=planning.floor, blind=name == "blind")
        )
    if name == "oasis":
        divided = with_roles(instance)
        return simulate(divided, Planned(divided, settings=planning.settings, floor=planning.floor))
    manner = BaselinePlacement.PACKED if name.endswith(_PACKED) else BaselinePlacement.SPREAD
    return simulate(instance, _SHARED[name.removesuffix(_PACKED)](instance, manner))
