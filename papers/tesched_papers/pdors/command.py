"""`python -m tesched_papers pdors`: where workers and parameter servers go, PD-ORS beside others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import click
from tesched_cli.common import console, json_option, names_in, progress, table
from tesched_cli.json_output import document, print_json
from tesched_cli.simulating import collected, seeds_option, values_of

from tesched_papers.pdors.methods import NAMES
from tesched_papers.pdors.study import Line, best_of, lines, perform, trials, variants


@document("tesched_papers pdors")
@dataclass(frozen=True, slots=True, kw_only=True)
class PdorsJson:
    """Schedulers beside each other, by variant."""

    lines: tuple[Line, ...]


@click.command()
@click.option(
    "--method",
    "methods",
    default="pd-ors,oasis,dorm,drf,fifo",
    show_default=True,
    help=f"Schedulers to compare, of {', '.join(NAMES)}. `blind` does not know that one machine is faster than two; "
    "those that are packed prefer one machine. The column FIRST is the part of the first one's utility.",
)
@seeds_option
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE[,VALUE...]",
    help="Set anything (workload.machines=20, workload.jobs=50, workload.slots=80, plan.gain=1.2, plan.repair=false); "
    "of several values each is tried.",
)
@click.option("--optimum", is_flag=True, help="Also find the offline optimum: a few machines, jobs and slots only.")
@click.option(
    "--optimum-seconds",
    type=click.IntRange(1),
    default=60,
    show_default=True,
    help="How long the optimum of one seed may be searched for.",
)
@json_option
def pdors(
    *, methods: str, seeds: int, sets: tuple[str, ...], optimum: bool, optimum_seconds: int, as_json: bool
) -> None:
    """Place workers and parameter servers, slot by slot. What the ends of their training jobs are worth is compared."""
    named = names_in(methods)
    if not named:
        raise click.UsageError(f"--method needs at least one of {', '.join(NAMES)}")
    some = trials(named, variants([values_of(word) for word in sets]), seeds)
    done = collected(perform(some), len(some))
    made = [one.trial for one in done]
    instances = len({(trial.variant.name, trial.seed) for trial in made})
    best = dict(progress(best_of(made, limit_s=optimum_seconds), "optima", total=instances)) if optimum else {}
    found = lines(done, best)
    if as_json:
        print_json(PdorsJson(lines=tuple(found)))
    else:
        _print(found)


def _print(found: Sequence[Line]) -> None:
    with_optimum = any(line.utility_to_optimum is not None for line in found)
    columns = ["METHOD", "UTILITY>", "±>", "FIRST>", "STARTED>", "FINISHED>", "MEAN>", "MEDIAN>", "INTERNAL>", "USED>"]
    if with_optimum:
        columns.append("OPTIMUM>")
    out = console()
    for variant in dict.fromkeys(line.variant for line in found):
        shown = table(*columns, title=variant)
        for line in found:
            if line.variant != variant:
                continue
            cells = [
                line.method,
                f"{line.utility:.1f}",
                f"{line.utility_error:.1f}",
                *(f"{part:.2f}" for part in (line.utility_to_first, line.started, line.finished)),
                f"{line.training_mean:.1f}",
                f"{line.training_median:.1f}",
                f"{line.internal:.2f}",
                f"{line.used:.2f}",
            ]
            if with_optimum:
                cells.append("-" if line.utility_to_optimum is None else f"{line.utility_to_optimum:.3f}")
            shown.add_row(*cells)
        out.print(shown)
        out.print()
    seeds = max(line.seeds for line in found)
    out.print(f"Means of {seeds} seed(s), ± their standard error. MEAN and MEDIAN: slots of training.", style="dim")
