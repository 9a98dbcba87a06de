"""`tesched simulate`: policies side by side on a simulated Slurm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import click
from tesched_sim import workloads
from tesched_sim.experiment import CONTENDERS, ExperimentSetting, Site, check_needs
from tesched_sim.pool import each_done
from tesched_sim.reports.compare import Comparison, compare
from tesched_sim.reports.page import page
from tesched_sim.reports.plots import MATPLOTLIB
from tesched_sim.reports.terminal import tables
from tesched_sim.sweep import SUBMITIT, Variant, made, perform, perform_on_slurm, runs_of
from tesched_sim.workload import Workload, WorkloadError

from tesched_cli.common import console, json_option, refuse_without
from tesched_cli.json_output import document, print_json
from tesched_cli.page_file import check_page, write_file
from tesched_cli.simulating import (
    collected,
    contenders_in,
    pair,
    processes_option,
    refuse_twice,
    seeds_option,
    values_of,
)

#: keys of `--set` that begin so belong to the workload, all others to the site, the guard and the policies
_WORKLOAD = "workload."
_DEFAULT = "fitgpp"
#: what each run sets by its own seed (`tesched_sim.sweep.perform`)
_SEEDS = frozenset({"site.seed", "policy.rand.seed"})


@document("simulate")
@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateJson:
    """Policies beside each other."""

    comparison: Comparison


@click.command()
@click.option("--workload", "name", help=f"One of {', '.join(workloads.NAMES)}; without it and --trace {_DEFAULT}.")
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    help="A recorded workload instead, such as what sacct prints (docs/reference/workloads.md).",
)
@click.option("--format", "form", help=f"The trace's format, if not by its first line: {', '.join(workloads.FORMATS)}.")
@click.option(
    "--policy",
    "policies",
    default="fifo,fitgpp",
    show_default=True,
    help=f"Policies to compare, of {', '.join(CONTENDERS)}; one of tesched's with a best-effort policy besides is "
    "patient+fill. Differences are to the first one.",
)
@seeds_option
@click.option(
    "--site",
    type=click.Choice([site.value for site in Site]),
    default=Site.PAPER.value,
    show_default=True,
    help="paper: strict FIFO, as in FitGpp's paper; backfill: the same with backfill; slurm: as Slurm comes.",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE[,VALUE...]",
    help="Set anything (workload.jobs=10000, policy.fitgpp.s=2, site.poll_s=5, guard.cool_down_s=600); of several "
    "values each is tried, and none switches off what can be off (guard.bound.slowdown=3,none).",
)
@processes_option
@click.option(
    "--on",
    "where",
    type=click.Choice(("here", "slurm")),
    default="here",
    show_default=True,
    help="slurm: as an array of jobs (needs the extra submitit).",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="With --on slurm: where the runs and their logs are kept; compute nodes must share it.",
)
@click.option("--sbatch", "sbatch", multiple=True, metavar="KEY=VALUE", help="With --on slurm: an option of sbatch.")
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), help="Write a page with plots (needs the extra plots)."
)
@json_option
def simulate(
    *,
    name: str | None,
    trace: Path | None,
    form: str | None,
    policies: str,
    seeds: int,
    site: str,
    sets: tuple[str, ...],
    processes: int | None,
    where: str,
    folder: Path | None,
    sbatch: tuple[str, ...],
    html: Path | None,
    as_json: bool,
) -> None:
    """Run policies on a simulated Slurm and compare them. It shows what TE jobs gain and what BE jobs pay."""
    _refuse_conflicts(name=name, trace=trace, form=form, where=where, folder=folder, sbatch=sbatch)
    contenders = contenders_in(policies)
    if where == "slurm":
        refuse_without((SUBMITIT,), "--on slurm")
    if html is not None:
        refuse_without((MATPLOTLIB,), "--html")
        check_page(html)
    source = WorkloadSource(name=name or _DEFAULT, trace=trace.absolute() if trace else None, form=form)
    variants = tuple(_variants(source, Site(site), sets))
    _try(variants, contenders)
    runs = runs_of(contenders, range(seeds), variants)
    if where == "slurm" and folder is not None:
        options = dict(pair(one, "--sbatch") for one in sbatch)
        done = perform_on_slurm(runs, folder.absolute(), options=options, at_once=processes or len(runs))
    else:
        done = (case for _, case in each_done(perform, runs, processes=processes))
    place = {(run.contender, run.seed, run.variant.name): index for index, run in enumerate(runs)}
    cases = sorted(collected(done, len(runs)), key=lambda case: place[case.policy, case.seed, case.variant])
    baseline = contenders[0] if len(contenders) > 1 and any(case.policy == contenders[0] for case in cases) else None
    comparison = compare(cases, baseline=baseline)
    if as_json:
        print_json(SimulateJson(comparison=comparison))
    else:
        out = console()
        out.print(tables(comparison, width=out.width))
    if html is not None:  # last: if it cannot be written, the figures are not lost
        write_file(html, page(cases, baseline=baseline))


def _refuse_conflicts(
    *, name: str | None, trace: Path | None, form: str | None, where: str, folder: Path | None, sbatch: Sequence[str]
) -> None:
    """Raise UsageError for options of which one would count for nothing beside the others."""
    if name is not None and trace is not None:
        raise click.UsageError("--workload and --trace: only one of them")
    if form is not None and trace is None:
        raise click.UsageError("--format says what a trace is: it needs --trace")
    if where == "slurm" and folder is None:
        raise click.UsageError("--on slurm needs --folder, which the compute nodes share")
    if where != "slurm" and (folder is not None or sbatch):
        raise click.UsageError(f"{'--folder' if folder is not None else '--sbatch'} needs --on slurm")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSource:
    """Source of workloads: a name, or a trace, and what is set of it. Equal ones make equal workloads."""

    name: str
    trace: Path | None
    form: str | None
    settings: tuple[tuple[str, str], ...] = ()

    def __call__(self, seed: int) -> Workload:
        """Return the workload of a seed. Raises WorkloadError."""
        if self.trace is not None:
            return workloads.read(self.trace, form=self.form, seed=seed, **dict(self.settings))
        return workloads.make(self.name, seed=seed, **dict(self.settings))


def _variants(source: WorkloadSource, site: Site, sets: Sequence[str]) -> Iterator[Variant]:
    """Yield one variant for each combination of the values that were given."""
    refuse_twice(sets)
    choices = [[(key, value) for value in values] for key, values in map(values_of, sets)]
    if seeds := _SEEDS & {pairs[0][0] for pairs in choices}:
        raise WorkloadError(f"--set {min(seeds)}: each run has its own seed, of which --seeds says how many there are")
    swept = {pairs[0][0] for pairs in choices if len(pairs) > 1}
    for pairs in product(*choices):
        setting = ExperimentSetting.of(site).with_values(
            {key: value for key, value in pairs if not key.startswith(_WORKLOAD)}
        )
        own = tuple((key.removeprefix(_WORKLOAD), value) for key, value in pairs if key.startswith(_WORKLOAD))
        shown = ", ".join(f"{key}={value}" for key, value in pairs if key in swept)
        yield Variant(name=shown, setting=setting, make_workload=replace(source, settings=own))


def _try(variants: Sequence[Variant], contenders: Sequence[str]) -> None:
    """Make each first workload, so that what is wrong with one, or lacks for a policy, is said before any is run."""
    for variant in variants:
        workload = made(variant.make_workload, 0)
        for contender in contenders:
            check_needs(contender, variant.setting, workload)
