"""The comparison as tables for a terminal: one line a figure, one column a policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tesched_sim.reports.compare import CONFIDENCE, ComparedRun, Comparison
from tesched_sim.reports.figures import FigureRow, compared, difference, mean, rows

#: Characters that a figure's name and a policy's column take; more policies than fit get a table of their own.
TITLE_WIDTH, COLUMN_WIDTH = 40, 24


def tables(comparison: Comparison, *, width: int) -> RenderableType:
    """Return the tables for a terminal of this many characters."""
    seeds = max(len(column.seeds) for column in comparison.columns)
    interval = f" ±{CONFIDENCE:.0%} confidence interval".replace("%", " %") if seeds > 1 else ""
    parts: list[RenderableType] = []
    head = f"Mean over {seeds} seeds{interval}" if seeds > 1 else "One seed"
    parts += _tables(head, comparison.columns, rows(comparison), mean, width)
    others = compared(comparison.columns)
    if others:
        head = f"Difference to {comparison.baseline}, seed by seed"
        parts += _tables(head, others, rows(comparison), difference, width)
    parts += [Text(f"note: {line}", style="yellow") for line in comparison.warnings]
    parts += [Text(f"workload: {line}", style="dim") for line in comparison.notes]
    return Group(*parts)


def _tables(
    head: str,
    columns: Sequence[ComparedRun],
    shown: Sequence[FigureRow],
    cell: Callable[[ComparedRun, FigureRow], str],
    width: int,
) -> Iterator[RenderableType]:
    at_once = max((width - TITLE_WIDTH) // COLUMN_WIDTH, 1)
    for first in range(0, len(columns), at_once):
        some = columns[first : first + at_once]
        table = Table(box=None, pad_edge=False, title=Text(head), title_justify="left", title_style="bold")
        table.add_column("FIGURE", overflow="fold")
        for column in some:
            # Text, not markup: names may hold brackets.
            table.add_column(Text(column.title), justify="right", overflow="fold")
        for row in shown:
            cells = [cell(column, row) for column in some]
            if any(text != "-" for text in cells):
                table.add_row(row.title, *cells)
        yield table
        yield Text()
