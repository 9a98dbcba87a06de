"""A line of waiting jobs, highest priority first."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

#: Places that a line may have given up at its front before they are cleared away.
SLACK = 4096


class PriorityQueue:
    """Jobs by priority, then by row; taking the first one is cheap, and so is adding behind the last."""

    def __init__(self) -> None:
        """Begin empty."""
        self._items: list[tuple[int, int]] = []
        self._front = 0

    def __len__(self) -> int:
        """Count the jobs that wait."""
        return len(self._items) - self._front

    def __iter__(self) -> Iterator[int]:
        """Return the rows, first in line first. The line must not change meanwhile."""
        items = self._items
        return (items[place][1] for place in range(self._front, len(items)))

    def first(self) -> int:
        """Return the first job's row. Raises IndexError if no job waits."""
        return self._items[self._front][1]

    def add(self, row: int, priority: int) -> None:
        """Put a job into the line."""
        insort(self._items, (-priority, row), lo=self._front)

    def remove(self, row: int, priority: int) -> None:
        """Take a job out of the line. Raises KeyError if it is not in it with this priority."""
        place = bisect_left(self._items, (-priority, row), lo=self._front)
        if place == len(self._items) or self._items[place] != (-priority, row):
            raise KeyError(row)
        if place != self._front:
            del self._items[place]
            return
        self._front += 1
        if self._front > SLACK and self._front * 2 > len(self._items):
            del self._items[: self._front]
            self._front = 0
