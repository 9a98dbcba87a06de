"""Figures of a report, their names, and how they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from tesched_sim.reports.compare import ComparedRun, Comparison, Estimate


class Unit(Enum):
    """Kind of a figure, and so how it is written."""

    #: 1.234
    RATIO = "ratio"
    #: seconds, written as Slurm writes a duration
    SECONDS = "seconds"
    #: a part from 0 to 1, written in per cent
    SHARE = "share"
    COUNT = "count"
    #: node-seconds, written as node-hours
    NODE_SECONDS = "node_seconds"


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One figure of a summary."""

    #: its key in the comparison
    key: str
    title: str
    unit: Unit


def _of_class(key: str, name: str) -> tuple[FigureRow, ...]:
    return (
        FigureRow(f"{key}.slowdown.p50", f"{name} slowdown p50", Unit.RATIO),
        FigureRow(f"{key}.slowdown.p95", f"{name} slowdown p95", Unit.RATIO),
        FigureRow(f"{key}.slowdown.p99", f"{name} slowdown p99", Unit.RATIO),
        FigureRow(f"{key}.bounded_slowdown.p95", f"{name} bounded slowdown p95", Unit.RATIO),
        FigureRow(f"{key}.wait_s.mean", f"{name} wait mean", Unit.SECONDS),
        FigureRow(f"{key}.wait_s.p50", f"{name} wait p50", Unit.SECONDS),
        FigureRow(f"{key}.wait_s.p95", f"{name} wait p95", Unit.SECONDS),
        FigureRow(f"{key}.jct_s.mean", f"{name} JCT mean", Unit.SECONDS),
    )


ROWS = (
    *_of_class("te", "TE"),
    *_of_class("be", "BE"),
    FigureRow("be.preempted_once_share", "BE jobs preempted once", Unit.SHARE),
    FigureRow("be.preempted_twice_share", "BE jobs preempted twice", Unit.SHARE),
    FigureRow("be.preempted_more_share", "BE jobs preempted three times or more", Unit.SHARE),
    FigureRow("be.delay_s.mean", "delay of a preempted BE job, mean", Unit.SECONDS),
    FigureRow("be.delay_s.p95", "delay of a preempted BE job, p95", Unit.SECONDS),
    FigureRow("bound.bystander_delay_s.count", "BE jobs delayed as bystanders", Unit.COUNT),
    FigureRow("bound.bystander_delay_s.mean", "delay of a bystander, mean", Unit.SECONDS),
    FigureRow("bound.bystander_delay_s.p95", "delay of a bystander, p95", Unit.SECONDS),
    FigureRow("bound.largest_part", "largest part of a bound used", Unit.SHARE),
    FigureRow("bound.te_held", "TE jobs held for the bound", Unit.COUNT),
    FigureRow("preemptions", "preemptions", Unit.COUNT),
    FigureRow("futile", "futile preemptions", Unit.COUNT),
    FigureRow("restart_interval_s.p50", "preemption to restart p50", Unit.SECONDS),
    FigureRow("restart_interval_s.p95", "preemption to restart p95", Unit.SECONDS),
    FigureRow("lost_node_s", "lost node-hours", Unit.NODE_SECONDS),
    FigureRow("lost_node_s_per_preemption", "lost node-seconds per preemption", Unit.COUNT),
    FigureRow("lost_share", "lost of node-hours used", Unit.SHARE),
    FigureRow("makespan_s", "makespan", Unit.SECONDS),
    FigureRow("all_jobs.not_finished", "jobs not finished", Unit.COUNT),
)


def rows(comparison: Comparison) -> tuple[FigureRow, ...]:
    """Return the figures that at least one column has; utilisation by resource comes last."""
    keys = dict.fromkeys(key for column in comparison.columns for key in column.figures)
    used = "utilisation_share."
    resources = [key.removeprefix(used) for key in keys if key.startswith(used)]
    every = (*ROWS, *(FigureRow(f"{used}{name}", f"utilisation: {name}", Unit.SHARE) for name in resources))
    return tuple(row for row in every if row.key in keys)


def duration(seconds: float) -> str:
    """Return a duration as Slurm writes it: `D-HH:MM:SS`, `HH:MM:SS`, `MM:SS`."""
    total = round(abs(seconds))
    sign = "-" if seconds < 0 and total else ""
    days, rest = divmod(total, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, last = divmod(rest, 60)
    if days:
        return f"{sign}{days}-{hours:02}:{minutes:02}:{last:02}"
    return f"{sign}{hours:02}:{minutes:02}:{last:02}" if hours else f"{sign}{minutes:02}:{last:02}"


def number(value: float, unit: Unit) -> str:
    """Return a figure in its unit."""
    match unit:
        case Unit.SECONDS:
            return duration(value)
        case Unit.SHARE:
            return f"{100 * value:.2f} %"
        case Unit.NODE_SECONDS:
            return f"{value / 3600:,.2f}"
        case Unit.COUNT:
            return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"
        case Unit.RATIO:
            return f"{value:,.2f}"


def mean(column: ComparedRun, row: FigureRow) -> str:
    """Return a column's figure with its interval; "-" where there is none."""
    found = column.figures.get(row.key)
    if found is None:
        return "-"
    few = "" if found.seeds == len(column.seeds) else f" ({found.seeds} of {len(column.seeds)} seeds)"
    return f"{number(found.mean, row.unit)}{_half(found, row.unit)}{few}"


def difference(column: ComparedRun, row: FigureRow) -> str:
    """Return by how much, in per cent, the figure is above the baseline's, with the interval; "-" if unknown."""
    found = column.difference_percent.get(row.key)
    if found is None:
        return "-"
    half = "" if found.half_width is None else f" ±{found.half_width:,.1f}"
    return f"{found.mean:+,.1f}{half} %"


def compared(columns: Sequence[ComparedRun]) -> tuple[ComparedRun, ...]:
    """Return the columns that have differences to show."""
    return tuple(column for column in columns if column.difference_percent)


def _half(found: Estimate, unit: Unit) -> str:
    return "" if found.half_width is None else f" ±{number(found.half_width, unit).removesuffix(' %')}"
