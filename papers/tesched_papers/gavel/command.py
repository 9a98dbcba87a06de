"""`python -m tesched_papers gavel`: policies that divide accelerators of several types, in Gavel's own rounds."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import click
from rich.table import Table
from tesched_cli.common import console, json_option, names_in, progress, table
from tesched_cli.json_output import document, print_json
from tesched_cli.simulating import processes_option
from tesched_sim.pool import each_done
from tesched_sim.reports.compare import Estimate, estimate

from tesched_papers.gavel.policies import NAMES, Contender, Optimum
from tesched_papers.gavel.rounds import Cluster
from tesched_papers.gavel.run import Figures, Plan, perform
from tesched_papers.gavel.throughputs import TYPES
from tesched_papers.gavel.workload import GavelWorkload

#: titles of the figures that are shown, with their digits
_COLUMNS: Mapping[str, tuple[str, int]] = {
    "mean_jct_h": ("MEAN H", 2),
    "p50_jct_h": ("P50", 2),
    "p90_jct_h": ("P90", 2),
    "p99_jct_h": ("P99", 1),
    "makespan_h": ("LAST END H", 1),
    "use": ("USE", 3),
    "renewed": ("RENEWED", 3),
    "starts_per_job": ("STARTS/JOB", 1),
    "restarting": ("RESTARTING", 3),
}


class Numbers(click.ParamType[tuple[int, ...]]):
    """Whole numbers with a separator between them: `36:36:36`, `4000:5000`, `0,1,2`."""

    def __init__(self, name: str, between: str, count: int | None = None) -> None:
        """Take numbers that stand `between` each other, so many if `count` is given."""
        self.name, self.between, self.count = name, between, count

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the numbers."""
        words = str(value).split(self.between)
        right = all(re.fullmatch(r"\d{1,7}", word.strip(), re.ASCII) for word in words)
        if not right or len(words) != (self.count or len(words)):
            many = f"{self.count} " if self.count else ""
            self.fail(f"{value!r} is not {many}whole numbers with {self.between!r} between them", param, ctx)
        return tuple(int(word) for word in words)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A policy's figures, means over seeds."""

    policy: str
    figures: Mapping[str, Estimate]
    #: how many times as long jobs take as under the first policy, seed by seed
    ratio: Estimate


@document("tesched_papers gavel")
@dataclass(frozen=True, slots=True, kw_only=True)
class GavelJson:
    """Policies beside each other."""

    #: of the first run
    plan: Plan
    #: which of many optima is taken: "middle" or "corner"
    optimum: str
    seeds: tuple[int, ...]
    #: means over the seeds
    lines: tuple[Line, ...]
    #: by policy, in the order of the seeds
    runs: Mapping[str, Sequence[Figures]]


@click.command()
@click.option(
    "--policy",
    "policies",
    default="las,las-agnostic",
    show_default=True,
    help=f"Policies to compare, of {', '.join(NAMES)}. Ratios are to the first one.",
)
@click.option(
    "--cluster",
    type=Numbers(":".join(TYPES), ":", len(TYPES)),
    default="12:12:12",
    show_default=True,
    help=f"Accelerators of the types {', '.join(TYPES)}.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0.001, 10_000),
    default=1.2,
    show_default=True,
    help="Jobs that come in an hour, on average.",
)
@click.option(
    "--window",
    type=Numbers("first:end", ":", 2),
    default="300:500",
    show_default=True,
    help="Jobs whose times count; others come before, and after until these have ended.",
)
@click.option(
    "--static",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="So many jobs, all there from the beginning, instead.",
)
@click.option("--multi", is_flag=True, help="Some jobs need 2, 4 or 8 accelerators at once.")
@click.option("--seeds", type=Numbers("seed[,seed...]", ","), default="0", show_default=True)
@click.option(
    "--round",
    "round_s",
    type=click.FloatRange(1, 86_400),
    default=360.0,
    show_default=True,
    help="Seconds for which nothing moves.",
)
@click.option(
    "--recompute",
    "recompute_s",
    type=click.FloatRange(0, 86_400),
    default=1920.0,
    show_default=True,
    help="Seconds between two allocations at least.",
)
@click.option(
    "--restart-cost",
    "restart_cost_s",
    type=click.FloatRange(0, 86_400),
    default=0.0,
    show_default=True,
    help="Seconds without progress whenever a job starts on a type on which it was not in the round before.",
)
@click.option(
    "--fill",
    is_flag=True,
    help="Start waiting jobs in mid-round on free resources, as the daemon does; else they wait for the next round.",
)
@click.option("--ideal", is_flag=True, help="No rounds: each job has its fractions of the time at any moment.")
@click.option(
    "--optimum",
    type=click.Choice([one.value for one in Optimum]),
    default=Optimum.MIDDLE.value,
    show_default=True,
    help="Of many optima of las and makespan: middle, as Gavel's authors' solver finds; corner, as the daemon's does.",
)
@processes_option
@json_option
def gavel(
    *,
    policies: str,
    cluster: tuple[int, ...],
    rate: float,
    window: tuple[int, ...],
    static: int | None,
    multi: bool,
    seeds: tuple[int, ...],
    round_s: float,
    recompute_s: float,
    restart_cost_s: float,
    fill: bool,
    ideal: bool,
    optimum: str,
    processes: int | None,
    as_json: bool,
) -> None:
    """Divide accelerators of several types by Gavel's policies. The workload is its authors', in its rounds."""
    names = names_in(policies)
    if not names:
        raise click.UsageError(f"--policy {policies!r}: there is no policy in it")
    contenders = [Contender(name=name, optimum=Optimum(optimum)) for name in names]
    first, end = (0, static) if static is not None else (window[0], window[1])
    if first >= end:
        raise click.UsageError(f"--window {first}:{end}: no job is in it")
    plan = Plan(
        contender=contenders[0],
        cluster=Cluster(
            capacity=cluster,
            round_s=round_s,
            recompute_s=recompute_s,
            restart_cost_s=restart_cost_s,
            fill=fill,
            ideal=ideal,
        ),
        workload=GavelWorkload(mean_gap_s=0.0 if static else 3600.0 / rate, multi=multi, count=static),
        window=(first, end),
        seed=0,
    )
    seeds = tuple(dict.fromkeys(seeds))
    plans = [replace(plan, contender=contender, seed=seed) for contender in contenders for seed in seeds]
    done = each_done(perform, plans, processes=processes)
    found = dict(progress(done, "runs", total=len(plans)))
    runs = {
        contender.name: [found[replace(plan, contender=contender, seed=seed)] for seed in seeds]
        for contender in contenders
    }
    lines = [line(name, mine, runs[names[0]]) for name, mine in runs.items()]
    if as_json:
        print_json(GavelJson(plan=plan, optimum=optimum, seeds=seeds, lines=tuple(lines), runs=runs))
        return
    console().print(_table(lines, seeds))


def line(name: str, mine: Sequence[Figures], base: Sequence[Figures]) -> Line:
    """Return a policy's means, and its ratio to the first policy's runs with the same seeds."""
    values = [asdict(one) for one in mine]
    return Line(
        policy=name,
        figures={key: estimate([float(one[key]) for one in values]) for key in _COLUMNS},
        ratio=estimate([one.mean_jct_h / other.mean_jct_h for one, other in zip(mine, base, strict=True)]),
    )


def _table(lines: Sequence[Line], seeds: Sequence[int]) -> Table:
    count = f"{len(seeds)} seeds, ±95 % confidence" if len(seeds) > 1 else f"seed {seeds[0]}"
    heads = [f"{title}>" for title, _ in _COLUMNS.values()]
    made = table(
        "POLICY", heads[0], f"TO {lines[0].policy.upper()}>", *heads[1:], title=f"from arrival to end; {count}"
    )
    for one in lines:
        cells = list(_cells(one))
        made.add_row(one.policy, cells[0], _cell(one.ratio, 3), *cells[1:])
    return made


def _cells(one: Line) -> Iterator[str]:
    for key, (_, digits) in _COLUMNS.items():
        yield _cell(one.figures[key], digits)


def _cell(found: Estimate, digits: int) -> str:
    return f"{found.mean:.{digits}f}" + ("" if found.half_width is None else f" ±{found.half_width:.{digits}f}")
