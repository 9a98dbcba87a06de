"""Answers that hold until a plan changes one of the nodes on which they rest."""

from __future__ import annotations

from collections.abc import Collection
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

K = TypeVar("K")
V = TypeVar("V")


class UntilTouched(Generic[K, V]):
    """Answers in groups; all answers of a group rest on the same nodes."""

    def __init__(self) -> None:
        """Begin without an answer."""
        self._groups: dict[int, tuple[NDArray[np.bool_], dict[K, V]]] = {}

    def group(self, number: int, where: NDArray[np.bool_]) -> dict[K, V]:
        """Return the answers of a group, to be added to; it rests on the nodes of `where`, [nodes]."""
        known = self._groups.get(number)
        if known is None:
            known = self._groups[number] = where, {}
        return known[1]

    def touch(self, nodes: Collection[int]) -> None:
        """Forget what rests on any of these nodes, rows."""
        for where, answers in self._groups.values():
            if answers and any(where[node] for node in nodes):
                answers.clear()

    def clear(self) -> None:
        """Forget all."""
        self._groups.clear()
