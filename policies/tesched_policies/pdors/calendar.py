"""Calendar of PD-ORS on a real cluster: what of each node is held, or reserved, in the coming slots.

It is made again at each poll, from what runs and from the plans that are kept, so that a job that ends early gives back
what was reserved for it. Slots count from the poll on. What runs longer than expected holds its nodes in the slot
that has begun, at each poll.

Prices go by rack, the paper's machine: the more of it is reserved in a slot, the dearer each of its nodes. A node
alone is often free or taken as a whole, and would cost next to nothing until it cannot be had.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import floor, inf

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.capacity import Capacity
from tesched_core.model.resources import UnixSeconds
from tesched_core.placement.demand import Demand, share_of

from tesched_policies.pdors.best_run import Slots
from tesched_policies.pdors.model import SLACK
from tesched_policies.pdors.prices import PriceBounds

_Floats = NDArray[np.float64]


@dataclass(kw_only=True, eq=False)
class Calendar:
    """The coming slots."""

    capacity: Capacity
    now: UnixSeconds
    slot_s: float
    #: number of slots that are planned
    horizon: int
    #: [nodes] each node's rack, by row of `names`
    rack: NDArray[np.intp]
    names: tuple[str, ...]
    #: [slots, nodes, resources]
    used: _Floats = field(init=False)

    def __post_init__(self) -> None:
        """Begin with nothing reserved."""
        self.used = np.zeros((self.horizon, *self.capacity.total.shape))

    def take(self, nodes: Iterable[str], amounts: _Floats, begin: UnixSeconds, end: UnixSeconds, sign: int = 1) -> None:
        """Enter what is taken of these nodes, [nodes, resources]; -1 strikes it out again.

        To the nearest slot, so that plans that follow one another do not meet in one. A run that begins before now has
        at least the slot that has begun.
        """
        # As `slots_of` rounds, and not to the even number, or a plan is in the way of the one before it.
        first = max(floor((begin - self.now) / self.slot_s + 0.5), 0)
        last = self.horizon if end == inf else floor((end - self.now) / self.slot_s + 0.5)
        last = min(max(last, first + 1), self.horizon)
        for name, amount in zip(nodes, amounts, strict=True):
            if name in self.capacity.index and first < self.horizon:
                self.used[first:last, self.capacity.index[name]] += sign * amount

    def slots(self, demand: Demand, bounds: PriceBounds) -> Slots:
        """Slots as a job sees them: where its share fits, and what it pays there."""
        total = self.capacity.total.astype(np.float64)
        take = share_of(demand, range(len(self.capacity.names))).astype(np.float64)
        free = total - self.used
        fits = np.all(free >= take * (1 - SLACK), axis=2) & demand.allowed
        # Now is what Slurm says: what is reserved for an order is not free either.
        fits[0] &= demand.fits(self.capacity)
        racks = self.rack_capacity()
        used = np.stack([self.used[:, self.rack == rack].sum(axis=1) for rack in range(len(racks))], axis=1)
        prices = bounds.price(np.clip(used, 0, racks), racks)[:, self.rack]
        idle = bounds.price(np.zeros_like(racks), racks)[self.rack]
        return Slots(
            fits=fits,
            price=np.asarray((prices * take).sum(axis=2), dtype=np.float64),
            idle=np.asarray((idle * take).sum(axis=1), dtype=np.float64),
            rack=self.rack,
            names=self.names,
        )

    def rack_capacity(self) -> _Floats:
        """Capacity of each rack, [racks, resources]."""
        total = self.capacity.total.astype(np.float64)
        return np.stack([total[self.rack == rack].sum(axis=0) for rack in range(len(self.names))])
