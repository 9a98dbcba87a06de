"""What guard.bound costs TE jobs: `python -m benchmarks.bound_cost [--plot FILE] fitgpp [TRACE...]`.

Simulated sites, `fitgpp` (FitGpp's synthetic workload) or a trace's, each under several TE loads, without a bound and
with several B (`tesched_testcluster/harness/bound_cost.py` says how they are made). The daemon's own step decides, and
the submission hook holds what it must. A site is small and its time short, since each poll of a full queue takes a
tenth of a second; `--nodes`, `--hours` and `--seeds` make others.

    TE LOAD    what TE jobs ask for over the time in which they come, as a part of the cluster, beside the BE jobs
    HELD       TE jobs that a poll has held for the bound; AND LATE: of those, the ones that had not started when the
               last job came; ALL LATE: TE jobs that had not, for any reason
    D          by how much TE jobs have delayed BE jobs, by tesched's own account
    OF BOUND   largest part of a bound that was used, less what BE jobs kept a victim waiting (docs/the-bound.md)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from math import inf
from pathlib import Path

import click
from tesched_sim.pool import each_done
from tesched_sim.reports.plots import Panel, PanelLine, panels
from tesched_sim.workload import WorkloadError
from tesched_testcluster.harness.bound_cost import POLL_S, TE_LIMIT_S, Base, Case, Line, cases, measured, together

_HEAD = (
    f"{'WORKLOAD':<24} {'TE LOAD':>7} {'B':>4}  {'TE WAIT P50':>11} {'P95, MIN':>9}  "
    f"{'HELD':>5} {'AND LATE':>8} {'ALL LATE':>8}  "
    f"{'BE SLOWDOWN P50':>15} {'P95':>6} {'MEAN':>6}  {'D P95, MIN':>10} {'OF BOUND':>8}  {'PREEMPTED':>9}"
)


@click.command()
@click.argument("sources", metavar="fitgpp|TRACE...", nargs=-1)
@click.option("--bounds", default="1.2,1.5,2,3,10,off", show_default=True, help="Values of B.")
@click.option("--loads", default="0.3,0.9,1.5", show_default=True, help="TE loads, as parts of the cluster.")
@click.option("--nodes", type=click.IntRange(1), default=2, show_default=True)
@click.option("--hours", type=click.FloatRange(0.1), default=3.0, show_default=True, help="In which jobs come.")
@click.option("--after", type=click.FloatRange(0, 1), default=0.5, show_default=True, help="Part of a trace left out.")
@click.option("--seeds", default="1,2,3", show_default=True, help="Medians are taken over them.")
@click.option("--policy", default="fitgpp", show_default=True)
@click.option("--unsaid", is_flag=True, help="BE jobs do not say how long they run.")
@click.option("--processes", type=click.IntRange(1), help="Runs at once; default: one a core.")
@click.option("--earlier", multiple=True, type=click.Path(path_type=Path), help="What an earlier --json has printed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--markdown", is_flag=True, help="Print the tables of docs/the-bound.md.")
@click.option("--plot", type=click.Path(path_type=Path), help="Write a plot there, as SVG.")
def main(
    *,
    sources: tuple[str, ...],
    bounds: str,
    loads: str,
    nodes: int,
    hours: float,
    after: float,
    seeds: str,
    policy: str,
    unsaid: bool,
    processes: int | None,
    earlier: tuple[Path, ...],
    as_json: bool,
    markdown: bool,
    plot: Path | None,
) -> None:
    """Print what guard.bound costs TE jobs."""
    bases = [
        Base(source=one, nodes=nodes, hours=hours, after=after, seed=int(seed))
        for one in sources
        for seed in _numbers(seeds, "--seeds")
    ]
    runs = cases(bases, _slowdowns(bounds), _numbers(loads, "--loads"), said=not unsaid, policy=policy)
    lines = [Line(**line) for path in earlier for line in json.loads(path.read_text())]
    try:
        # The longest first.
        for case, line in each_done(measured, sorted(runs, key=_weight), processes=processes):
            lines.append(line)
            said = f"{case.base.name}, seed {case.base.seed}, TE load {case.te_load:g}, B {_b(case.slowdown)}: done"
            print(said, file=sys.stderr)
    except WorkloadError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        print(json.dumps([asdict(line) for line in lines], indent=2))
    elif markdown:
        print(in_markdown(together(lines)))
    else:
        print(f"te_time_limit_s = {TE_LIMIT_S:.0f}, polls {POLL_S:.0f} s apart")
        print("\n".join([_HEAD, *(_shown(line) for line in together(lines))]))
    if plot is not None:
        plot.write_text(drawn(together(lines)))


def in_markdown(lines: Sequence[Line]) -> str:
    """Return two tables, TE jobs' and BE jobs', with a row for each workload and load and a column for each B."""
    bounds = sorted({line.slowdown or inf for line in lines})
    cells = {(_name(line), line.te_load, line.slowdown or inf): line for line in lines}
    rows = list(dict.fromkeys((_name(line), line.te_load) for line in lines))
    head = ["workload", "TE load", *("off" if bound == inf else f"B = {bound:g}" for bound in bounds)]
    tables = []
    for said in (_te_cell, _be_cell):
        table = [head, ["---"] * len(head)]
        for name, load in rows:
            found = (cells.get((name, load, bound)) for bound in bounds)
            table.append([name, f"{load:.0%}", *("" if line is None else said(line) for line in found)])
        tables.append("\n".join(f"| {' | '.join(row)} |" for row in table))
    return "\n\n".join(tables)


def _te_cell(line: Line) -> str:
    waits = f"{_of(line.te_wait_p50_s, '.0f', 60)} / {_of(line.te_wait_p95_s, '.0f', 60)}"
    return waits if line.slowdown is None else f"{waits}, {line.te_held_not_started:.0%}"


def _be_cell(line: Line) -> str:
    return f"{_of(line.be_delay_p95_s, '.0f', 60)}, {_of(line.be_slowdown_mean, '.1f')}"


def drawn(lines: Sequence[Line]) -> str:
    """Return the plot: TE waits against B, a panel for each workload, a line for each load and percentile."""
    found = []
    loads = sorted({line.te_load for line in lines if line.said})
    for workload in dict.fromkeys(line.workload for line in lines if line.said):
        curves = []
        for place, load in enumerate(loads):
            mine = [line for line in lines if (line.workload, line.te_load, line.said) == (workload, load, True)]
            for solid, percentile in ((True, "p50"), (False, "p95")):
                waits = [line.te_wait_p50_s if solid else line.te_wait_p95_s for line in mine]
                points = tuple(
                    (_b(line.slowdown), wait / 60) for line, wait in zip(mine, waits, strict=True) if wait is not None
                )
                curves.append(
                    PanelLine(label=f"TE load {load:.0%}, {percentile}", colour=place, solid=solid, points=points)
                )
        found.append(Panel(title=workload, curves=tuple(curves)))
    return panels(found, across="B (guard.bound.slowdown)", up="TE jobs' wait, minutes")


def _slowdowns(words: str) -> list[float | None]:
    numbers = _numbers(",".join(word for word in words.split(",") if word != "off"), "--bounds")
    if any(number <= 1 for number in numbers):
        raise click.BadParameter("a B is more than 1", param_hint="--bounds")
    return [*numbers, *([None] if "off" in words.split(",") else [])]


def _numbers(words: str, option: str) -> list[float]:
    try:
        return [float(word) for word in words.split(",") if word]
    except ValueError:
        raise click.BadParameter(f"{words!r} is no list of numbers, as 1,2,3", param_hint=option) from None


def _weight(case: Case) -> float:
    return -case.te_load


def _b(slowdown: float | None) -> str:
    return "off" if slowdown is None else f"{slowdown:g}"


def _name(line: Line) -> str:
    return line.workload if line.said else f"{line.workload}, not said"


def _of(value: float | None, form: str, unit: float = 1.0) -> str:
    return "-" if value is None else format(value / unit, form)


def _shown(line: Line) -> str:
    of = _of
    return (
        f"{_name(line):<24.24} {line.te_load:>7.0%} {_b(line.slowdown):>4}  {of(line.te_wait_p50_s, '.1f', 60):>11} "
        f"{of(line.te_wait_p95_s, '.1f', 60):>9}  {line.te_held:>5.0%} {line.te_held_not_started:>8.0%} "
        f"{line.te_not_started:>8.0%}  "
        f"{of(line.be_slowdown_p50, '.2f'):>15} {of(line.be_slowdown_p95, '.2f'):>6} "
        f"{of(line.be_slowdown_mean, '.2f'):>6}  {of(line.be_delay_p95_s, '.1f', 60):>10} "
        f"{of(line.most_of_bound, '.2f'):>8}  {line.preemptions:>9}"
    )


if __name__ == "__main__":
    main()
