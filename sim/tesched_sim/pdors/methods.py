"""The schedulers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tesched_core.pdors.prices import FLOOR
from tesched_core.pdors.schedule import Settings

from tesched_sim.pdors.engine import Result, Scheduler, simulate
from tesched_sim.pdors.planned import Planned, with_roles
from tesched_sim.pdors.rooms import Manner
from tesched_sim.pdors.shared import Dorm, Drf, Fifo
from tesched_sim.pdors.workload import Instance
from tesched_sim.workload import WorkloadError


@dataclass(frozen=True, slots=True, kw_only=True)
class Planning:
    """How those that plan do it."""

    settings: Settings = field(default_factory=Settings)
    floor: float = FLOOR


_SHARED: Mapping[str, Callable[[Instance, Manner], Scheduler]] = {"fifo": Fifo, "drf": Drf, "dorm": Dorm}
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
    manner = Manner.PACKED if name.endswith(_PACKED) else Manner.SPREAD
    return simulate(instance, _SHARED[name.removesuffix(_PACKED)](instance, manner))
