"""Answers that rest on the site and the kind of a job alone: a cycle takes over those of the cycle before it.

Which nodes are up, partitions, reservations and settings seldom change from one poll to the next, and where a job may
run, and what it takes there, is dear to work out. A memo of pure functions: with it and without, the answers are the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar

from tesched_core.model.arrays import np
from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Node, Partition, Reservation, SlurmSettings

T = TypeVar("T")

#: Bytes of answers that are kept, about: each may have a number for every resource of every node, three times.
MOST_BYTES, _EACH = 100_000_000, 3 * 8
#: what changes of a node as jobs come and go; whether it starts jobs is a column of the resources (`available`)
_PASSING = frozenset({"state", "flags", "held", "reason", "unreported"})
#: all else of a node
lasting_of = attrgetter(*(one.name for one in fields(Node) if one.name not in _PASSING))


@dataclass(kw_only=True, eq=False, slots=True)
class SiteAnswers:
    """Answers of one cycle."""

    nodes: Mapping[str, Node]
    partitions: Mapping[str, Partition]
    reservations: Mapping[str, Reservation]
    settings: SlurmSettings
    #: those of the cycle before; None: there are none, or they were found to be of another site
    before: SiteAnswers | None = None
    #: resources of this cycle, whatever is free; None: not known yet
    capacity: Capacity | None = None
    answers: dict[Hashable, Any] = field(default_factory=dict)
    _is_checked: bool = False

    def is_of(self, capacity: Capacity) -> bool:
        """Check whether these resources are those of the cycle, but for what is free of them."""
        mine = self.capacity
        return (
            mine is not None
            and mine.total is capacity.total
            and mine.available is capacity.available
            and mine.partitions is capacity.partitions
        )

    def find(self, key: Hashable, work_out: Callable[[], T]) -> T:
        """Answer under this key, worked out only if neither this cycle has it nor the one before. It is never None."""
        found: T | None = self.answers.get(key)
        if found is None:
            if not self._is_checked:
                self._check()
            found = None if self.before is None else self.before.answers.get(key)
            if found is None:
                found = work_out()
            # Any user can vary what a job asks for, so not all are kept.
            if len(self.answers) < self._most:
                self.answers[key] = found
        return found

    @property
    def _most(self) -> int:
        resources = 1 if self.capacity is None else len(self.capacity.resources)
        return max(MOST_BYTES // (_EACH * resources * max(len(self.nodes), 1)), 1)

    def close(self) -> None:
        """End the cycle: those of the cycle before are not needed any more."""
        self.before = None

    def _check(self) -> None:
        self._is_checked = True
        if self.before is not None and not self._is_same_site(self.before):
            self.before = None

    def _is_same_site(self, other: SiteAnswers) -> bool:
        mine, its = self.capacity, other.capacity
        if mine is None or its is None:
            return False
        return (
            self.settings == other.settings
            and self.partitions == other.partitions
            and self.reservations == other.reservations
            and mine.names == its.names
            and mine.resources == its.resources
            and mine.partitions.keys() == its.partitions.keys()
            and (mine.layout is None) == (its.layout is None)
            and np.array_equal(mine.available, its.available)
            and np.array_equal(mine.total, its.total)
            and all(
                one is was or lasting_of(one) == lasting_of(was)
                for one, was in zip(self.nodes.values(), other.nodes.values(), strict=True)
            )
        )
