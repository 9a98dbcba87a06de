"""The report as one HTML page, whole in itself: no network, no other files, no scripts.

Whatever comes from outside (names of policies, users and workloads, notes, settings) is escaped (`templating`). The
page says nothing of when it was made: the same cases make the same bytes, on the same versions.
"""

from __future__ import annotations

import json
import platform
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, TypeAlias

from tesched_sim.reports import plots
from tesched_sim.reports.compare import CONFIDENCE, Comparison, compare, grouped
from tesched_sim.reports.curves import MOST_VICTIMS, Distribution
from tesched_sim.reports.figures import ROWS, difference, mean, rows
from tesched_sim.reports.run_summary import Case, RunReportError
from tesched_sim.reports.style import ColumnStyle
from tesched_sim.reports.templating import rendered

if TYPE_CHECKING:
    from markupsafe import Markup

#: Users who paid most are named; the others are summed.
NAMED_USERS = 20


def page(cases: Sequence[Case], *, baseline: str | None = None) -> str:
    """Return the page. Raises ReportError as `compare` does, and without Matplotlib."""
    comparison = compare(cases, baseline=baseline)
    if why := plots.MATPLOTLIB.lacking():
        raise RunReportError(f"a page with plots needs {why}")
    return _Page(cases, comparison).text()


@dataclass(frozen=True, slots=True)
class _Plot:
    """A plot with its words."""

    title: str
    svg: str
    caption: str
    #: what it shows, for readers who cannot see it
    description: str
    large: bool = False


@dataclass(frozen=True, slots=True)
class _PlotFigure:
    """A plot as the template takes it."""

    plot: _Plot
    #: before its ids
    prefix: str
    legend: tuple[tuple[str, ColumnStyle], ...]
    #: the drawing's first tag, still open, and all after that tag
    opening: Markup
    rest: Markup


#: A figure, or why there is none.
_Shown: TypeAlias = _PlotFigure | str


@dataclass(frozen=True, slots=True)
class _Paid:
    """What a user's jobs paid under one policy."""

    count: str
    lost: str
    #: of the bar; empty: none. Not in per cent of the cell, which is not as wide in every column
    width: str
    colour: int


@dataclass(frozen=True, slots=True)
class _User:
    """A row of the table of users."""

    name: str
    cells: tuple[_Paid, ...]


class _Page:
    def __init__(self, cases: Sequence[Case], comparison: Comparison) -> None:
        self.cases = cases
        self.comparison = comparison
        self.columns = comparison.columns
        #: of each column, its cases by seed
        self.runs = [list(mine.values()) for mine in grouped(cases).values()]
        #: of each column, the case that stands for it where seeds cannot be taken together
        self.firsts = [mine[0] for mine in self.runs]
        self._plots = 0

    def text(self) -> str:
        names = ", ".join(dict.fromkeys(column.policy for column in self.columns))
        workloads = ", ".join(dict.fromkeys(case.workload for case in self.cases))
        versions = ", ".join(f"{name} {_version(name)}" for name in ("tesched", "numpy", "matplotlib"))
        return rendered(
            "simulation.html",
            title=f"{names} on {workloads}",
            facts=self._facts(),
            warnings=self.comparison.warnings,
            columns=[column.title for column in self.columns],
            figures_caption=self._figures_caption(),
            figures=list(self._figures()),
            slowdown=self._slowdown(),
            wait=self._wait(),
            over_time=self._over_time(),
            paid=self._who_paid(),
            notes=list(dict.fromkeys(note for case in self.cases for note in case.notes)),
            settings=list(self._settings()),
            versions=f"{versions}, Python {platform.python_version()}",
        )

    def _facts(self) -> str:
        jobs = sorted({case.summary.all_jobs.jobs for case in self.cases})
        te = sorted({case.summary.te.jobs for case in self.cases})
        nodes = sorted({case.nodes for case in self.cases})
        seeds = sorted({case.seed for case in self.cases})
        said = f"{_range(jobs)} jobs ({_range(te)} of them trial and error) on {_range(nodes)} nodes; "
        said += f"{len(seeds)} seeds ({', '.join(map(str, seeds))})." if len(seeds) > 1 else f"seed {seeds[0]}."
        return said

    def _figures_caption(self) -> str:
        several = max(len(column.seeds) for column in self.columns) > 1
        said = f"Means over seeds, ± {CONFIDENCE * 100:.0f} % confidence interval. " if several else ""
        said += "Times as D-HH:MM:SS; p50, p95, p99: percentiles."
        if self.comparison.baseline is not None:
            said += f" Below each figure: difference to {self.comparison.baseline}, seed by seed."
        return said

    def _figures(self) -> Iterator[dict[str, object]]:
        for row in rows(self.comparison):
            cells = [(mean(column, row), difference(column, row)) for column in self.columns]
            yield {"title": row.title, "cells": [(said, "" if below == "-" else below) for said, below in cells]}

    # The plots.

    def _figure(self, plot: _Plot, shown: Sequence[int]) -> _PlotFigure:
        """Return a plot with its legend; ids are made its own, since all plots are in one document."""
        from markupsafe import Markup  # noqa: PLC0415 - needed with Jinja2

        self._plots += 1
        prefix = f"p{self._plots}-"
        svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}", plot.svg)
        opening, _, rest = svg.partition(">")
        legend = tuple((self.columns[one].title, ColumnStyle.of(one)) for one in shown)
        return _PlotFigure(plot, prefix, legend, Markup(opening), Markup(rest))  # noqa: S704 - drawn by Matplotlib

    def _distribution(
        self,
        title: str,
        of: Callable[[Case], Distribution],
        scale: plots.Scale,
        label: str,
        key: str,
        *,
        who: str = "jobs",
    ) -> _Shown:
        lines = [Distribution.pooled([of(case) for case in mine]) for mine in self.runs]
        shown = [index for index, line in enumerate(lines) if len(line.at)]
        if not shown:
            return f"{title}: there is nothing to show."
        found = {row.key: row for row in ROWS}
        description = "; ".join(
            f"{self.columns[one].title}: median {mean(self.columns[one], found[f'{key}.p50'])}, "
            f"95th percentile {mean(self.columns[one], found[f'{key}.p95'])}"
            for one in shown
        )
        caption = f"The share of {who} up to each value"
        caption += ", all seeds together." if max(map(len, self.runs)) > 1 else "."
        plot = _Plot(title, plots.distributions(lines, scale, label, who), caption, description)
        return self._figure(plot, shown)

    def _slowdown(self) -> list[_Shown]:
        label, scale = "slowdown", plots.Scale.SLOWDOWN
        return [
            self._distribution("Slowdown of TE jobs", lambda case: case.te_slowdown, scale, label, "te.slowdown"),
            self._distribution("Slowdown of BE jobs", lambda case: case.be_slowdown, scale, label, "be.slowdown"),
        ]

    def _wait(self) -> list[_Shown]:
        label, scale = "wait (logarithmic above 1 s)", plots.Scale.SECONDS
        return [
            self._distribution("Wait of TE jobs", lambda case: case.te_wait_s, scale, label, "te.wait_s"),
            self._distribution("Wait of BE jobs", lambda case: case.be_wait_s, scale, label, "be.wait_s"),
        ]

    def _over_time(self) -> _PlotFigure:
        longest_s = max((case.series.stretch_s or 0.0 for case in self.firsts), default=0.0)
        caption = f"{self._one_seed()}Queues are on a logarithmic scale above 1."
        if longest_s:
            caption += f" Means over stretches of up to {longest_s:,.0f} s."
        description = "; ".join(
            f"{column.title}: at most {case.series.te_waiting.max(initial=0):,.0f} TE and "
            f"{case.series.be_waiting.max(initial=0):,.0f} BE jobs waiting"
            for column, case in zip(self.columns, self.firsts, strict=True)
        )
        svg = plots.over_time([case.series for case in self.firsts])
        plot = _Plot("Jobs that wait, and what is held", svg, caption, description, large=True)
        return self._figure(plot, range(len(self.columns)))

    def _who_paid(self) -> dict[str, object] | None:
        """Figures of what victims lost and how long they waited to restart; None if no job was preempted."""
        paid = [index for index, case in enumerate(self.firsts) if case.payers.count]
        if not paid:
            return None
        interval = self._distribution(
            "From preemption to restart",
            lambda case: case.restart_interval_s,
            plots.Scale.SECONDS,
            "from leaving its nodes to running again (logarithmic above 1 s)",
            "restart_interval_s",
            who="victims",
        )
        counts = [f"{self.columns[one].title}: {self.firsts[one].payers.count:,} victims" for one in paid]
        caption = f"{self._one_seed()}{'; '.join(counts)}."
        if any(self.firsts[one].payers.count > MOST_VICTIMS for one in paid):
            caption += f" Of more than {MOST_VICTIMS}, every n-th is shown."
        lost = [f"{column.title}: {mean(column, _LOST)} node-hours lost" for column in self.columns]
        svg = plots.victims([case.payers for case in self.firsts])
        plot = _Plot("What victims lost", svg, caption, "; ".join(lost), large=True)
        return {
            "interval": interval,
            "victims": self._figure(plot, paid),
            "caption": f"Preemptions by user, and node-hours lost. {self._one_seed()}",
            "columns": [self.columns[one].title for one in paid],
            "users": self._users(paid),
        }

    def _users(self, paid: Sequence[int]) -> list[_User]:
        """Return the users by preemptions; those that paid most have a bar each, the others are one row."""
        by_user = [{user.name: user for user in self.firsts[one].payers.users} for one in paid]
        totals = Counter[str]()
        for users in by_user:
            totals.update({name: user.preemptions for name, user in users.items()})
        ranked = sorted(totals, key=lambda name: (-totals[name], name))
        most = max(user.preemptions for users in by_user for user in users.values())

        def row(label: str, names: Sequence[str], *, bars: bool) -> _User:
            cells: list[_Paid] = []
            for one, users in zip(paid, by_user, strict=True):
                found = [users[name] for name in names if name in users]
                count = sum(user.preemptions for user in found)
                lost_h = sum(user.lost_node_s for user in found) / 3600
                width = f"{5 * count / most:.2f}rem" if bars and count else ""
                cells.append(_Paid(f"{count:,}", f"{lost_h:,.2f} h", width, ColumnStyle.of(one).colour))
            return _User(label, tuple(cells))

        named, others = ranked[:NAMED_USERS], ranked[NAMED_USERS:]
        found = [row(name, [name], bars=True) for name in named]
        return [*found, row(f"{len(others)} others", others, bars=False)] if others else found

    def _one_seed(self) -> str:
        seeds = sorted({case.seed for case in self.firsts})
        return f"Seed {' and '.join(map(str, seeds))} alone. " if max(map(len, self.runs)) > 1 else ""

    def _settings(self) -> Iterator[dict[str, object]]:
        settings = [{key: _plain(value) for key, value in case.settings.items()} for case in self.firsts]
        for key in dict.fromkeys(key for one in settings for key in one):
            values = [one.get(key, "-") for one in settings]
            # "values" would be the dict's own method in a template.
            yield {"key": key, "shared": len(set(values)) == 1, "cells": values}


_LOST = next(row for row in ROWS if row.key == "lost_node_s")


def _range(values: Sequence[int]) -> str:
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"


def _plain(value: object) -> str:
    if isinstance(value, Mapping):
        return json.dumps({str(key): _plain(inner) for key, inner in value.items()}, ensure_ascii=False)
    return str(value.value if isinstance(value, Enum) else value)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(not installed)"
