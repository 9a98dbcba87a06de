"""The report as one HTML page, whole in itself: no network, no other files, no scripts.

Whatever comes from outside (names of policies, users and workloads, notes, settings) is escaped. The page says nothing
of when it was made: the same cases make the same bytes, on the same versions.
"""

from __future__ import annotations

import json
import platform
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version

from tesched_core.model.visible import html_text

from tesched_sim.reports import plots
from tesched_sim.reports.compare import CONFIDENCE, Column, Comparison, compare, grouped
from tesched_sim.reports.curves import MOST_VICTIMS, Distribution
from tesched_sim.reports.figures import ROWS, Row, difference, mean, rows
from tesched_sim.reports.run_summary import Case, ReportError
from tesched_sim.reports.style import Look, style_sheet

#: Users who paid most are named; the others are summed.
NAMED_USERS = 20
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(cases: Sequence[Case], *, baseline: str | None = None) -> str:
    """Return the page. Raises ReportError as `compare` does, and without Matplotlib."""
    comparison = compare(cases, baseline=baseline)
    if why := plots.MATPLOTLIB.lacking():
        raise ReportError(f"a page with plots needs {why}")
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
        title = html_text(f"{names} on {workloads}")
        parts = [
            f"<h1>{title}</h1>",
            f"<p>{self._facts()}</p>",
            *(f'<p class="warn">{html_text(line)}</p>' for line in self.comparison.warnings),
            self._section("Figures", [self._table()]),
            self._section("Slowdown", self._slowdown()),
            self._section("Wait", self._wait()),
            self._section("Queue and use over time", self._over_time()),
            self._section("Who paid", self._who_paid()),
            self._section("How it was made", self._how()),
        ]
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{title}</title>\n<style>\n{style_sheet()}\n</style></head>\n<body>\n"
            + "\n".join(parts)
            + "\n</body></html>\n"
        )

    def _facts(self) -> str:
        jobs = sorted({case.summary.all_jobs.jobs for case in self.cases})
        te = sorted({case.summary.te.jobs for case in self.cases})
        nodes = sorted({case.nodes for case in self.cases})
        seeds = sorted({case.seed for case in self.cases})
        said = f"{_range(jobs)} jobs ({_range(te)} of them trial and error) on {_range(nodes)} nodes; "
        said += f"{len(seeds)} seeds ({', '.join(map(str, seeds))})." if len(seeds) > 1 else f"seed {seeds[0]}."
        return html_text(said)

    @staticmethod
    def _section(title: str, parts: Iterable[str]) -> str:
        return f"<section><h2>{title}</h2>\n" + "\n".join(parts) + "\n</section>"

    def _table(self) -> str:
        baseline = self.comparison.baseline
        several = max(len(column.seeds) for column in self.columns) > 1
        said = f"Means over seeds, ± {CONFIDENCE * 100:.0f} % confidence interval. " if several else ""
        said += "Times as D-HH:MM:SS; p50, p95, p99: percentiles."
        if baseline is not None:
            said += f" Below each figure: difference to {baseline}, seed by seed."
        head = "".join(f'<th scope="col">{html_text(column.title)}</th>' for column in self.columns)
        body = "".join(
            f'<tr><th scope="row">{html_text(row.title)}</th>'
            + "".join(f"<td>{self._cell(column, row)}</td>" for column in self.columns)
            + "</tr>\n"
            for row in rows(self.comparison)
        )
        return (
            f'<div class="wide"><table><caption>{html_text(said)}</caption>'
            f'<thead><tr><th scope="col">figure</th>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>'
        )

    @staticmethod
    def _cell(column: Column, row: Row) -> str:
        below = difference(column, row)
        return html_text(mean(column, row)) + ("" if below == "-" else f"<small>{html_text(below)}</small>")

    # The plots.

    def _figure(self, plot: _Plot, shown: Sequence[int], sample: Callable[[Look], str] = Look.sample) -> str:
        """Return a plot with its legend; ids are made its own, since all plots are in one document."""
        self._plots += 1
        prefix = f"p{self._plots}-"
        svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}", plot.svg)
        opening, _, rest = svg.partition(">")
        words = f'<title id="{prefix}title">{html_text(plot.title)}</title>'
        words += f'<desc id="{prefix}desc">{html_text(plot.description)}</desc>'
        opening += f' role="img" aria-labelledby="{prefix}title {prefix}desc"'
        legend = "".join(f"<li>{sample(Look.of(one))}{html_text(self.columns[one].title)}</li>" for one in shown)
        return (
            f"<figure{' class=large' if plot.large else ''}><figcaption><strong>{html_text(plot.title)}.</strong> "
            f'{html_text(plot.caption)}</figcaption><ul class="legend">{legend}</ul>{opening}>{words}{rest}</figure>'
        )

    def _distribution(
        self,
        title: str,
        of: Callable[[Case], Distribution],
        scale: plots.Scale,
        label: str,
        key: str,
        *,
        who: str = "jobs",
    ) -> str:
        lines = [Distribution.pooled([of(case) for case in mine]) for mine in self.runs]
        shown = [index for index, line in enumerate(lines) if len(line.at)]
        if not shown:
            return f'<p class="soft">{html_text(title)}: there is nothing to show.</p>'
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

    def _slowdown(self) -> Iterator[str]:
        yield '<p class="soft">1 + waiting / run time; waiting includes what passes between preemption and restart, '
        yield "and lost work. A line that ends below 100 % has jobs that did not finish.</p>"
        label, scale = "slowdown", plots.Scale.SLOWDOWN
        yield '<div class="plots">'
        yield self._distribution("Slowdown of TE jobs", lambda case: case.te_slowdown, scale, label, "te.slowdown")
        yield self._distribution("Slowdown of BE jobs", lambda case: case.be_slowdown, scale, label, "be.slowdown")
        yield "</div>"

    def _wait(self) -> Iterator[str]:
        label, scale = "wait (logarithmic above 1 s)", plots.Scale.SECONDS
        yield '<div class="plots">'
        yield self._distribution("Wait of TE jobs", lambda case: case.te_wait_s, scale, label, "te.wait_s")
        yield self._distribution("Wait of BE jobs", lambda case: case.be_wait_s, scale, label, "be.wait_s")
        yield "</div>"

    def _over_time(self) -> Iterator[str]:
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
        yield self._figure(plot, range(len(self.columns)))

    def _who_paid(self) -> Iterator[str]:
        paid = [index for index, case in enumerate(self.firsts) if case.payers.count]
        if not paid:
            yield '<p class="soft">No job was preempted.</p>'
            return
        yield self._distribution(
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
        yield self._figure(plot, paid)
        yield self._users(paid)

    def _users(self, paid: Sequence[int]) -> str:
        """Return a table of users by preemptions, each with a bar."""
        by_user = [{user.name: user for user in self.firsts[one].payers.users} for one in paid]
        totals = Counter[str]()
        for users in by_user:
            totals.update({name: user.preemptions for name, user in users.items()})
        ranked = sorted(totals, key=lambda name: (-totals[name], name))
        most = max(user.preemptions for users in by_user for user in users.values())

        def line(label: str, names: Sequence[str], *, bars: bool) -> str:
            cells: list[str] = []
            for one, users in zip(paid, by_user, strict=True):
                found = [users[name] for name in names if name in users]
                count = sum(user.preemptions for user in found)
                lost_h = sum(user.lost_node_s for user in found) / 3600
                # Not in per cent of the cell, which is not as wide in every column.
                looks = f"width: {5 * count / most:.2f}rem; background: var(--c{Look.of(one).colour})"
                bar = f'<span class="bar" style="{looks}"></span>' if bars and count else ""
                cells.append(f"<td>{count:,}<small>{lost_h:,.2f} h</small>{bar}</td>")
            return f'<tr><th scope="row">{html_text(label)}</th>{"".join(cells)}</tr>\n'

        named, others = ranked[:NAMED_USERS], ranked[NAMED_USERS:]
        lines = [line(name, [name], bars=True) for name in named]
        if others:
            lines.append(line(f"{len(others)} others", others, bars=False))
        head = "".join(f'<th scope="col">{html_text(self.columns[one].title)}</th>' for one in paid)
        said = f"Preemptions by user, and node-hours lost. {self._one_seed()}"
        return (
            f'<div class="wide"><table><caption>{said}</caption><thead><tr><th scope="col">user</th>{head}</tr>'
            f"</thead>\n<tbody>{''.join(lines)}</tbody></table></div>"
        )

    def _one_seed(self) -> str:
        seeds = sorted({case.seed for case in self.firsts})
        return f"Seed {' and '.join(map(str, seeds))} alone. " if max(map(len, self.runs)) > 1 else ""

    # What was set.

    def _how(self) -> Iterator[str]:
        notes = dict.fromkeys(note for case in self.cases for note in case.notes)
        if notes:
            yield f"<p>Of the workload:</p><ul>{''.join(f'<li>{html_text(note)}</li>' for note in notes)}</ul>"
        yield self._settings()
        versions = ", ".join(f"{name} {_version(name)}" for name in ("tesched", "numpy", "matplotlib"))
        yield f'<p class="soft">{html_text(versions)}, Python {platform.python_version()}</p>'

    def _settings(self) -> str:
        settings = [{key: _plain(value) for key, value in case.settings.items()} for case in self.firsts]
        keys = dict.fromkeys(key for one in settings for key in one)
        head = "".join(f'<th scope="col">{html_text(column.title)}</th>' for column in self.columns)
        body: list[str] = []
        for key in keys:
            values = [one.get(key, "-") for one in settings]
            if len(set(values)) == 1:
                cells = f'<td colspan="{len(values)}">{html_text(values[0])}</td>'
            else:
                cells = "".join(f"<td>{html_text(value)}</td>" for value in values)
            body.append(f'<tr><th scope="row">{html_text(key)}</th>{cells}</tr>\n')
        return (
            '<div class="wide"><table class="words"><caption>What was set; one value for all stands once.</caption>'
            f'<thead><tr><th scope="col">setting</th>{head}</tr></thead>\n<tbody>{"".join(body)}</tbody></table></div>'
        )


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
