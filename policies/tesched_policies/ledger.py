"""Ledger of one cycle's plans: what is free, and which victims are taken, after each number of plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.capacity import Capacity
from tesched_core.model.columns import Running


@dataclass(kw_only=True, eq=False)
class Ledger:
    """What is free, and which victims are taken, after each number of plans."""

    running: Running
    capacity: Capacity
    #: of each plan: rows of nodes, by how much what is free there changes, and how many victims were taken before
    _changes: list[tuple[NDArray[np.intp], NDArray[np.int64], int]] = field(default_factory=list)
    #: of each plan: rows of nodes that it changes, each once
    _touched: list[frozenset[int]] = field(default_factory=list)
    #: rows of the victims that were taken
    taken: list[int] = field(default_factory=list)
    #: the number of plans of the last answer, and what was free then
    _last: tuple[int, Capacity] | None = None

    @property
    def plans(self) -> int:
        """Return the number of plans so far."""
        return len(self._changes)

    def add(self, nodes: NDArray[np.intp], by: NDArray[np.int64], victims: Sequence[int]) -> frozenset[int]:
        """Add a plan; return the rows of the nodes that it changes."""
        self._changes.append((nodes, by, len(self.taken)))
        self._touched.append(frozenset(nodes.tolist()))
        self.taken += victims
        return self._touched[-1]

    def nodes_since(self, other: Ledger, plans: int) -> NDArray[np.intp]:
        """Return the nodes that may differ from what `other`, of the same ground, had after so many plans."""
        both = self._touched[plans:] if other is self else [*other._touched[:plans], *self._touched]
        return np.array(sorted(frozenset[int]().union(*both)), dtype=np.intp)

    def capacity_at(self, plans: int) -> Capacity:
        """Free resources after so many plans."""
        count, capacity = (0, self.capacity) if self._last is None or self._last[0] > plans else self._last
        later = self._changes[count:plans]
        if later:
            capacity = capacity.changed(*(np.concatenate([change[part] for change in later]) for part in (0, 1)))
        self._last = plans, capacity
        return capacity

    def taken_at(self, plans: int) -> Sequence[int]:
        """Return the victims that were taken after so many plans."""
        return self.taken[: self._changes[plans][2]] if plans < len(self._changes) else self.taken
