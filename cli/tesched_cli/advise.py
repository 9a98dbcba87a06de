"""`tesched advise`: the configuration under which the site's own last days would have gone best.

The days are the state store's or, for a site that has not run tesched yet, sacct's or those of a file that it printed.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click
from tesched_policies.registry import NO_POLICY
from tesched_sim import advice
from tesched_sim.advice import Candidate, Figures, LeastAndMost, Trial, Tried
from tesched_sim.experiment import ADDED, OFF, ExperimentSetting, check_needs
from tesched_sim.pool import each_done
from tesched_sim.reports.page import page
from tesched_sim.reports.plots import MATPLOTLIB
from tesched_sim.workload import Workload, WorkloadError

from tesched_cli.common import (
    config_option,
    configuration,
    console,
    duration,
    json_option,
    progress,
    refuse_without,
    say,
    table,
)
from tesched_cli.json_output import document, print_json
from tesched_cli.left_out import LeftOut, NotRunJobs, hides_waits
from tesched_cli.page_file import check_folder, check_page, write_file
from tesched_cli.recorded_past import (
    DAYS,
    RecordedPast,
    Source,
    parted,
    past_of,
    source_options,
)
from tesched_cli.simulating import processes_option
from tesched_cli.this_site import on_this_site, setting_of

#: part by which a figure has to differ for a line of slurm.conf to matter
_MATTERS = 0.05
#: figures from which on they are shown without a decimal
_IN_FULL = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFigures:
    """The chosen configuration with one line of slurm.conf changed."""

    line: str
    figures: Figures


@document("advise")
@dataclass(frozen=True, slots=True, kw_only=True)
class AdviseJson:
    """What was tried on the recorded jobs, and what came out best."""

    #: jobs that were run again, and those that were not, since they do not fit on the nodes
    jobs: int
    left_out: int
    #: those that were not for another reason, and those that have not run
    left_out_besides: tuple[LeftOut, ...]
    not_run: tuple[NotRunJobs, ...]
    tried: tuple[Figures, ...]
    #: name of the one that is advised; empty: Slurm alone will do
    chosen: str
    #: what it misses of the goal
    missed: tuple[str, ...]
    #: keys of the configuration to be set for it
    settings: Mapping[str, str]
    #: the chosen one with other lines of slurm.conf
    lines: tuple[LineFigures, ...]
    #: the line that matters most; empty: none matters
    line: str
    #: what a reader must know of the workload
    notes: tuple[str, ...]


@click.command()
@config_option
@click.option("--days", type=DAYS, default=30.0, show_default=True, help="How far back.")
@source_options
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="Another setting, as for `tesched whatif`.")
@click.option(
    "--write",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the advised keys to this new file, such as conf.d/advised.toml.",
)
@click.option(
    "--html", type=click.Path(path_type=Path, dir_okay=False), help="Write a page with plots (needs the extra plots)."
)
@processes_option
@json_option
def advise(
    *,
    config_path: Path,
    days: float,
    source: Source,
    sets: tuple[str, ...],
    write: Path | None,
    html: Path | None,
    processes: int | None,
    as_json: bool,
) -> None:
    """Find the configuration that had served the last days best.

    The site's own jobs run again on a simulated Slurm: with Slurm alone, with its own preemption, and with tesched as
    it is configured and otherwise. What is advised has to serve TE jobs about as fast as Slurm's own preemption, at a
    fifth of the node-hours that it loses.
    """
    if html is not None:
        refuse_without((MATPLOTLIB,), "--html")
    if write is not None and write.exists():
        raise WorkloadError(f"--write {write}: there is such a file; name a new one")
    if write is not None and html is not None and write.resolve() == html.resolve():
        raise WorkloadError(f"--write and --html both name {write}: the page would replace the keys; name two files")
    if write is not None:
        check_folder(write)
    if html is not None:
        check_page(html)
    config = configuration(config_path)
    of_setting, of_workload = parted(sets)
    setting = setting_of(config).with_values(of_setting)
    past = past_of(config_path, config, source, days=days, settings=of_workload)
    # Polls of every second over a month would take a day to simulate: the daemon is poked at each event.
    poked = replace(setting, site=replace(setting.site, poll_s=0.0))
    # What is set besides also holds against this site's slurm.conf.
    setting = on_this_site(poked, past.slurm).with_values(of_setting)
    every, lacking = _can_run(setting, past.workload, of_store=source.is_store)
    trials = [Trial(candidate=one, setting=setting, workload=past.workload) for one in every]
    tried = _performed(trials, processes, "configurations")
    found = advice.advise(tried)
    chosen = next((one for one in tried if one.figures.name == found.chosen), None)
    lines = () if chosen is None else _with_other_lines(chosen.candidate, setting, past.workload, processes)
    said = AdviseJson(
        jobs=past.jobs,
        left_out=past.left_out,
        left_out_besides=past.besides,
        not_run=past.not_run,
        tried=tuple(one.figures for one in tried),
        chosen=found.chosen,
        missed=found.missed,
        settings={} if chosen is None else _of_sets(of_setting) | _keys(chosen.candidate),
        lines=lines,
        line="" if chosen is None else _matters_most(chosen.figures, lines),
        notes=(*lacking, *past.workload.notes),
    )
    if as_json:
        print_json(said)
    else:
        _show(said, past)
    if write is not None and said.settings:
        off = [key for key, value in of_setting.items() if _is_off(key, value)]
        write_file(write, _toml(said, off))
    elif write is not None:
        say(f"{write} is not written: no key is to be changed", err=True)
    if html is not None:
        write_file(html, page([one.case for one in tried], baseline=tried[0].case.policy))


def _can_run(
    setting: ExperimentSetting, workload: Workload, *, of_store: bool
) -> tuple[list[Candidate], tuple[str, ...]]:
    """Find the candidates that can run on these jobs, and say of each other one what the jobs lack for it."""
    found, lacking = [], []
    for one in advice.candidates(setting):
        try:
            check_needs(one.contender, setting, workload)
        except WorkloadError as error:
            why = str(error).removeprefix(f"{one.contender}: ")
            if of_store and ADDED in why:
                why += "; that takes --trace or --sacct"
            lacking.append(f'Left out is "{one.name}", which cannot run on these jobs: {why}.')
        else:
            found.append(one)
    return found, tuple(lacking)


def _with_other_lines(
    candidate: Candidate, setting: ExperimentSetting, workload: Workload, processes: int | None
) -> tuple[LineFigures, ...]:
    """The candidate's figures with each other line of slurm.conf."""
    trials = [
        Trial(candidate=candidate, setting=replace(setting, site=site), workload=workload, line=line)
        for line, site in advice.other_lines(setting.site).items()
    ]
    return tuple(
        LineFigures(line=one.line, figures=one.figures) for one in _performed(trials, processes, "lines of slurm.conf")
    )


def _performed(trials: Sequence[Trial], processes: int | None, what: str) -> list[Tried]:
    place = {(one.candidate.name, one.line): index for index, one in enumerate(trials)}
    done = (result for _, result in each_done(advice.perform, trials, processes=processes))
    tried = list(progress(done, what, total=len(trials)))
    return sorted(tried, key=lambda one: place[one.candidate.name, one.line])


def _matters_most(chosen: Figures, lines: Sequence[LineFigures]) -> str:
    """The line with which TE jobs, or else BE jobs, would have waited least, and clearly less; empty: none.

    Not one with which TE jobs would have waited clearly longer.
    """
    waits: tuple[Callable[[Figures], float], ...] = (
        lambda one: one.te_wait_p95_s or 0.0,
        lambda one: one.be_wait_mean_s or 0.0,
    )
    te_wait = waits[0]
    spares_te = [one for one in lines if te_wait(one.figures) <= (1 + _MATTERS) * te_wait(chosen)]
    for wait in waits:
        best = min(spares_te, key=lambda one: wait(one.figures), default=None)
        if best is not None and wait(best.figures) < (1 - _MATTERS) * wait(chosen):
            return best.line
    return ""


def _keys(candidate: Candidate) -> dict[str, str]:
    """Keys of the configuration that a candidate sets, as TOML has their values; of the site's own none."""
    if candidate.name == advice.CONFIGURED:
        return {}
    te, _, be = candidate.contender.partition("+")
    keys = {"policy.te": f'"{te}"', "policy.be": "[]" if be == NO_POLICY else f'"{be}"'}
    return keys | dict(candidate.values)


def _is_off(key: str, value: str) -> bool:
    """Check whether a key is switched off, which a file of the configuration says by lacking it."""
    return value.strip() == OFF and key != "policy.te"


def _of_sets(of_setting: Mapping[str, str]) -> dict[str, str]:
    """Keys of the configuration that were set with --set, as TOML has their values."""
    ours = {key: value for key, value in of_setting.items() if key.startswith(("policy.", "guard."))}
    return {key: _as_toml(value.strip()) for key, value in ours.items() if not _is_off(key, value)}


def _as_toml(value: str) -> str:
    try:
        tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        return json.dumps(value)
    return value


def _toml(said: AdviseJson, off: Sequence[str]) -> str:
    """The advised keys as a file of the configuration, with what they rest on."""
    chosen = next(one for one in said.tried if one.name == said.chosen)
    paid = f"{chosen.preempted} preemptions, {chosen.lost_node_h:.1f} node-hours lost"
    lines = [
        f"# tesched advise: {said.chosen}, by {said.jobs} jobs of this site.",
        f"# TE jobs had waited {duration(chosen.te_wait_p95_s)} (95 %); {paid}.",
        *(f"# It misses: {one}." for one in said.missed),
        *(f"# {key} was off: take it out of the other files." for key in off),
    ]
    tables: dict[str, list[str]] = {}
    for key, value in said.settings.items():
        table_name, _, name = key.rpartition(".")
        tables.setdefault(table_name, []).append(f"{name} = {value}")
    for name, keys in tables.items():
        lines += ["", f"[{name}]", *keys]
    return "\n".join(lines) + "\n"


def _show(said: AdviseJson, past: RecordedPast) -> None:
    shown = table(
        "CONFIGURATION",
        "TE WAIT 50%>",
        "95%>",
        "BY PART>",
        "BE WAIT MEAN>",
        "SLOWDOWN 95%>",
        "PREEMPTED>",
        "FUTILE>",
        "LOST NODE-H>",
        "BY PART>",
        title=f"{past.title}, on the nodes that are up now",
    )
    # A configuration is one line of 100 columns.
    shown.padding = (0, 1, 0, 0)
    for column in shown.columns:
        column.no_wrap = str(column.header) in {"CONFIGURATION", "95%", "BY PART", "PREEMPTED", "FUTILE"}
    for one in said.tried:
        shown.add_row(f"{'* ' if one.name == said.chosen else '  '}{one.name}", *_cells(one))
    out = console()
    out.print(shown)
    for line in _words(said, past):
        out.print(line)


def _cells(one: Figures) -> tuple[str, ...]:
    slowdown = "-" if one.be_slowdown_p95 is None else f"{one.be_slowdown_p95:.2f}"
    return (
        _short(one.te_wait_p50_s),
        _short(one.te_wait_p95_s),
        _range(one.te_wait_p95_parts_s, _short),
        _short(one.be_wait_mean_s),
        slowdown,
        str(one.preempted),
        str(one.futile),
        _decimal(one.lost_node_h),
        _range(one.lost_node_h_parts, _decimal),
    )


def _short(seconds: float | None) -> str:
    """Return a duration in so few characters that ten columns fit on a screen: `90s`, `5.2h`; `-` for none."""
    if seconds is None:
        return "-"
    for letter, unit_s in (("d", 86_400.0), ("h", 3600.0), ("m", 60.0)):
        if seconds >= 2 * unit_s:
            return f"{_decimal(seconds / unit_s)}{letter}"
    return f"{seconds:.0f}s"


def _decimal(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.1f}" if value < _IN_FULL else f"{value:.0f}"


def _range(found: LeastAndMost, shown: Callable[[float | None], str]) -> str:
    return "-" if found.low is None else f"{shown(found.low)}-{shown(found.high)}"


def _words(said: AdviseJson, past: RecordedPast) -> Iterator[str]:
    """What follows from the figures, in words."""
    alone = said.tried[0]
    if not said.chosen and alone.te_wait_p95_s is None:
        yield (
            "None of these jobs is a TE job that ended, so nothing is advised: which are TE jobs is said by [classes], "
            "and of a trace by --set workload.te_run_max and others."
        )
    elif not said.chosen:
        waits = f"with Slurm alone TE jobs wait {duration(alone.te_wait_p95_s)} (95 %)"
        if hides_waits(past.not_run, int(past.workload.te.sum())):
            yield (
                f"Nothing is advised: {waits}, but that is of those that ran. Many others waited longer and have not "
                "run (below), so that preemption may be needed."
            )
        else:
            yield f'No preemption is needed: {waits}. Leave mode = "observe".'
    elif said.settings:
        keys = ", ".join(f"{key} = {value}" for key, value in said.settings.items())
        yield f"Advised: {said.chosen} ({keys}). --write FILE writes these keys; put the file into conf.d."
    else:
        yield "Advised: the configuration as it is."
    for one in said.missed:
        yield f"It misses a goal: {one}."
    if said.line:
        found = next(one.figures for one in said.lines if one.line == said.line)
        waits = f"TE jobs wait {duration(found.te_wait_p95_s)} (95 %), BE jobs {duration(found.be_wait_mean_s)} (mean)"
        yield f"Of slurm.conf this matters most: {said.line}. With it {waits}."
    elif said.chosen:
        yield "None of the lines of slurm.conf that were tried changes the waits by 5 %."
    yield from past.remarks()
    if late := max((one.not_finished for one in said.tried), default=0):
        yield f"{late} job(s) had not ended with one of these: the percentiles leave them out."
    yield "The daemon is taken to see each new job at once, as with the submission hook."
    yield from said.notes
