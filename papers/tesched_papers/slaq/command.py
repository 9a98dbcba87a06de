"""`python -m tesched_papers slaq`: training jobs that share cores by what their losses gain, beside equal shares."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import click
from rich.table import Table
from tesched_cli.common import console, json_option, names_in, progress, table
from tesched_cli.json_output import document, print_json
from tesched_sim.reports.compare import Estimate

from tesched_papers.slaq.figures import TITLES, Row, figures, row
from tesched_papers.slaq.run import POLICIES, simulate
from tesched_papers.slaq.workload import MIXES, Gaps, Plan, make

#: what differences are taken to, if it is among the policies
_BASELINE = "fair"


class Seeds(click.ParamType[tuple[int, ...]]):
    """Seeds, from `6` (0 to 5), or `0..5`."""

    name = "seeds"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the seeds."""
        found = re.fullmatch(r"(?:(\d{1,6})\.\.)?(\d{1,6})", str(value), re.ASCII)
        first, last = (int(found[1]), int(found[2]) + 1) if found and found[1] else (0, int(found[2]) if found else 0)
        if not 0 < last - first <= 1000:
            self.fail(f"{value!r} is neither a number of seeds such as 6 nor a range such as 0..5", param, ctx)
        return tuple(range(first, last))


class Loads(click.ParamType[tuple[float, ...]]):
    """Offered loads, from `0.9` or `0.4,0.6,0.8`."""

    name = "load[,load...]"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        """Return the loads."""
        words = str(value).split(",")
        if not all(re.fullmatch(r"\d{1,3}(\.\d{1,9})?", word.strip(), re.ASCII) and float(word) > 0 for word in words):
            self.fail(f"{value!r} is no load such as 0.9, or several such as 0.4,0.6", param, ctx)
        return tuple(dict.fromkeys(float(word) for word in words))


@document("tesched_papers slaq")
@dataclass(frozen=True, slots=True, kw_only=True)
class SlaqJson:
    """Policies beside each other, by load."""

    jobs: int
    cores: int
    epoch_s: float
    mean_gap_s: float
    gaps: Gaps
    mix: str
    seeds: tuple[int, ...]
    #: the policy that differences are taken to
    baseline: str
    rows: tuple[Row, ...]


@click.command()
@click.option(
    "--policy",
    "policies",
    default="slaq,fair",
    show_default=True,
    help=f"Policies to compare, of {', '.join(POLICIES)}. Differences are to fair, else to the first one.",
)
@click.option("--jobs", type=click.IntRange(1, 100_000), default=160, show_default=True, help="How many come.")
@click.option("--cores", type=click.IntRange(1, 1_000_000), default=640, show_default=True, help="How many they share.")
@click.option(
    "--epoch",
    "epoch_s",
    type=click.FloatRange(0.1, 86_400),
    default=3.0,
    show_default=True,
    help="Seconds from one allocation to the next.",
)
@click.option(
    "--gap",
    "gap_s",
    type=click.FloatRange(0.1, 86_400),
    default=15.0,
    show_default=True,
    help="Mean seconds between two.",
)
@click.option(
    "--gaps",
    type=click.Choice([one.value for one in Gaps]),
    default=Gaps.RANDOM.value,
    show_default=True,
    help="random: exponential gaps; regular: Poisson-distributed whole seconds, as SLAQ's authors drew them.",
)
@click.option(
    "--load",
    "loads",
    type=Loads(),
    default="0.9",
    show_default=True,
    help="What the jobs' work takes of the cores over the time in which they come; of several each is run.",
)
@click.option(
    "--mix",
    type=click.Choice(tuple(MIXES)),
    default="four",
    show_default=True,
    help="four: SVM, logistic and linear regression, MLPC; eight: LDA, GBT twice and polynomial SVM besides.",
)
@click.option("--seeds", type=Seeds(), default="0..5", show_default=True, help="How many, or from..to.")
@json_option
def slaq(
    *,
    policies: str,
    jobs: int,
    cores: int,
    epoch_s: float,
    gap_s: float,
    gaps: str,
    loads: tuple[float, ...],
    mix: str,
    seeds: tuple[int, ...],
    as_json: bool,
) -> None:
    """Share cores by what trainings' losses would gain (SLAQ). It is compared with equal shares."""
    names = names_in(policies)
    unknown = [name for name in names if name not in POLICIES]
    if unknown or not names:
        raise click.UsageError(f"--policy {policies}: policies are {', '.join(POLICIES)}")
    plan = Plan(jobs=jobs, cores=cores, mean_gap_s=gap_s, gaps=Gaps(gaps), mix=mix)
    plans = [replace(plan, load=load) for load in loads]
    runs = [(one, name, seed) for one in plans for name in names for seed in seeds]
    done = (figures(simulate(make(one, seed), name, cores=cores, epoch_s=epoch_s)) for one, name, seed in runs)
    found = dict(zip(runs, progress(done, "runs", total=len(runs)), strict=True))
    baseline = _BASELINE if _BASELINE in names else names[0]
    rows = []
    for one in plans:
        base = [found[one, baseline, seed] for seed in seeds]
        for name in names:
            mine = [found[one, name, seed] for seed in seeds]
            rows.append(row(name, one.load, mine, [] if name == baseline else base))
    if as_json:
        print_json(
            SlaqJson(
                jobs=jobs,
                cores=cores,
                epoch_s=epoch_s,
                mean_gap_s=gap_s,
                gaps=Gaps(gaps),
                mix=mix,
                seeds=seeds,
                baseline=baseline,
                rows=tuple(rows),
            )
        )
        return
    out = console()
    for shown in _tables(rows, seeds, baseline):
        out.print(shown)


def _tables(rows: Sequence[Row], seeds: Sequence[int], baseline: str) -> Iterator[Table]:
    """Yield a table a load: a line a figure, each policy's mean, then by how much it differs from the baseline's."""
    for load in dict.fromkeys(one.load for one in rows):
        mine = [one for one in rows if one.load == load]
        columns = [f"{one.policy.upper()}>" for one in mine]
        columns += [f"{one.policy.upper()} TO {baseline.upper()}>" for one in mine if one.policy != baseline]
        count = f"{len(seeds)} seeds, ±95 % confidence" if len(seeds) > 1 else "one seed"
        made = table("FIGURE", *columns, title=f"load {load:g}, {count}")
        for key, title in TITLES.items():
            cells = [_cell(one.figures.get(key)) for one in mine]
            cells += [_cell(one.difference_percent.get(key), percent=True) for one in mine if one.policy != baseline]
            made.add_row(title, *cells)
        yield made


def _cell(found: Estimate | None, *, percent: bool = False) -> str:
    if found is None:
        return "-"
    half = found.half_width
    if percent:
        return f"{found.mean:+.1f} %" + ("" if half is None else f" ±{half:.1f}")
    digits = 3 if abs(found.mean) < 1 else 1
    return f"{found.mean:,.{digits}f}" + ("" if half is None else f" ±{half:,.{digits}f}")
