"""Tables on a narrow terminal: no head is broken within a word, and what does not fit stands one cell a line."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

#: a longer word of a cell, such as a path, may be broken; a job's number, or a time with its date, is not
LONGEST_WHOLE = 20
#: between a head and its cell
_GAP = 2


class NarrowTable(Table):
    """A table whose columns are as wide as their heads' words at least; where they are not, its rows are lists."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render it."""
        _, right, _, left = self.padding
        free = options.max_width - (left + right) * (len(self.columns) - 1)
        bounds = [_bounds(console, options, column) for column in self.columns]
        widths = [most for _, most in bounds]
        if sum(widths) <= free:
            yield from super().__rich_console__(console, options)
            return
        least = [min(bound) for bound in bounds]
        if sum(least) > free:
            yield from self._as_lists(options)
            return
        while sum(widths) > free:  # the widest of those that may be narrower
            widths[
                max((place for place, wide in enumerate(widths) if wide > least[place]), key=widths.__getitem__)
            ] -= 1
        for column, width in zip(self.columns, widths, strict=True):
            column.width = width
        try:
            yield from super().__rich_console__(console, options)
        finally:
            for column in self.columns:
                column.width = None

    def _as_lists(self, options: ConsoleOptions) -> Iterator[Table | Text]:
        """Yield each row as a list of its cells, each behind its head."""
        if self.title:
            yield Text(str(self.title), style="bold")
        for place, row in enumerate(zip(*(column.cells for column in self.columns), strict=True)):
            shown = Table.grid(padding=(0, _GAP, 0, 0))
            shown.add_column(style="bold", max_width=options.max_width // 2)
            shown.add_column(overflow="fold")
            for column, cell in zip(self.columns, row, strict=True):
                if cell != "":
                    shown.add_row(column.header, cell)
            yield from chain([Text()] if place else [], [shown])


def _bounds(console: Console, options: ConsoleOptions, column: Column) -> tuple[int, int]:
    """Least and greatest width of a column."""
    head = Measurement.get(console, options, column.header)
    cells = [Measurement.get(console, options, cell) for cell in column.cells]
    least = max((min(one.minimum, LONGEST_WHOLE) for one in cells), default=0)
    most = max(one.maximum for one in (head, *cells))
    return most if column.no_wrap else max(head.minimum, least), most
