"""`tesched whatif`: the site's own last days again, under other policies or another configuration.

The days are the state store's or, for a site that has not run tesched yet, sacct's or those of a file that it printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from tesched_policies.registry import NO_POLICY
from tesched_sim.experiment import CONTENDERS, ExperimentSetting, check_needs, run_one
from tesched_sim.reports.summary import BoundSummary, Summary, summarise
from tesched_sim.workload import Workload, WorkloadError

from tesched_cli.common import config_option, configuration, console, duration, json_option, progress, table
from tesched_cli.json_output import document, print_json
from tesched_cli.left_out import LeftOut, NotRunJobs
from tesched_cli.recorded_past import (
    DAYS,
    ClassOutcome,
    RecordedPast,
    Source,
    parted,
    past_of,
    source_options,
)
from tesched_cli.simulating import contenders_in
from tesched_cli.this_site import on_this_site, setting_of


@document("whatif")
@dataclass(frozen=True, slots=True, kw_only=True)
class WhatifJson:
    """What was, and what would have been."""

    lines: tuple[ClassOutcome, ...]
    #: jobs that were run again, and those that were not, since they do not fit on the nodes
    jobs: int
    left_out: int
    #: those that were not for another reason, and those that have not run
    left_out_besides: tuple[LeftOut, ...]
    not_run: tuple[NotRunJobs, ...]
    #: what a reader must know of the workload
    notes: tuple[str, ...]
    #: with guard.bound, by policy: how much of it was used
    bounds: Mapping[str, BoundSummary]
    #: which policy's bound cannot be kept, and why
    warnings: tuple[str, ...]


@click.command()
@config_option
@click.option("--days", type=DAYS, default=7.0, show_default=True, help="How far back.")
@click.option(
    "--policy",
    "policies",
    help=f"Policies to try, of {', '.join(CONTENDERS)}. Default: fifo (Slurm alone) and the configured one.",
)
@source_options
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY=VALUE",
    help="Another setting, such as guard.cool_down_s=0; none switches off what can be off (guard.bound=none).",
)
@json_option
def whatif(
    *,
    config_path: Path,
    days: float,
    policies: str | None,
    source: Source,
    sets: tuple[str, ...],
    as_json: bool,
) -> None:
    """Run the jobs of the last days again on a simulated Slurm.

    It shows what would have happened beside what did. The jobs and their run times are the state store's, the nodes are
    Slurm's now, policy and guard the configuration's. With --trace, a job's class follows from its size and run time;
    `--set workload.te_run_max=30` (minutes), `workload.te_gpus_max=2` and others say how.
    """
    config = configuration(config_path)
    if policies is None:
        # A site that has none has Slurm alone already.
        policies = "fifo" if config.policy.te == NO_POLICY else f"fifo,{config.policy.te}"
    contenders = contenders_in(policies)
    of_setting, of_workload = parted(sets)
    setting = setting_of(config).with_values(of_setting)
    past = past_of(config_path, config, source, days=days, settings=of_workload)
    # What is set besides also holds against this site's slurm.conf.
    setting = on_this_site(setting, past.slurm).with_values(of_setting)
    for contender in contenders:
        _check_needs(contender, setting, past.workload, of_store=source.is_store)
    lines, bounds = [*past.lines], dict[str, BoundSummary]()
    for contender in progress(contenders, "policies"):
        summary, simulated = _simulated(contender, setting, past.workload)
        lines += simulated
        if summary.bound is not None:
            bounds[contender] = summary.bound
    warnings = [f"{contender}: {why}" for contender, one in bounds.items() if (why := one.why_not_kept)]
    if as_json:
        print_json(
            WhatifJson(
                lines=tuple(lines),
                jobs=past.jobs,
                left_out=past.left_out,
                left_out_besides=past.besides,
                not_run=past.not_run,
                notes=tuple(past.workload.notes),
                bounds=bounds,
                warnings=tuple(warnings),
            )
        )
        return
    _show(lines, past)
    for contender, one in bounds.items():
        console().print(f"{contender}: {_of_bound(one)}")
    for warning in warnings:
        console().print(f"warning: {warning}", style="yellow")


def _check_needs(contender: str, setting: ExperimentSetting, workload: Workload, *, of_store: bool) -> None:
    """Raise WorkloadError for what the recorded jobs lack for a policy, and say what can be done here."""
    try:
        check_needs(contender, setting, workload)
    except WorkloadError as error:
        if not of_store:
            raise
        te = contender.partition("+")[0]
        raise WorkloadError(
            f"{error}; that takes --trace or --sacct: of the state store's jobs try --policy {te}+none"
        ) from None


def _of_bound(one: BoundSummary) -> str:
    """Effect of the bound, in words."""
    waited = one.bystander_delay_s
    delays = f"{waited.count} BE job(s) waited for what TE jobs held"
    if waited.count:
        delays += f", {duration(waited.mean)} on average"
    part = "" if one.largest_part is None else f"; {100 * one.largest_part:.0f} % of a bound used at most"
    return f"guard.bound: {delays}{part}; {one.te_held} TE job(s) held for it"


def _simulated(contender: str, setting: ExperimentSetting, workload: Workload) -> tuple[Summary, list[ClassOutcome]]:
    result = run_one(contender, setting, workload)
    summary = summarise(result)
    lines = [
        ClassOutcome(
            case=contender,
            job_class=name,
            jobs=found.jobs,
            wait_p50_s=found.wait_s.p50,
            wait_p95_s=found.wait_s.p95,
            slowdown_p50=found.slowdown.p50,
            slowdown_p95=found.slowdown.p95,
            preempted=int((result.preempted[mine] > 0).sum()),
            lost_node_h=summary.lost_node_s / 3600 if name == "be" else None,
            delay_mean_s=found.delay_s.mean,
        )
        for name, found, mine in (
            ("te", summary.te, result.workload.te),
            ("be", summary.be, result.workload.be),
        )
    ]
    return summary, lines


def _show(lines: Sequence[ClassOutcome], past: RecordedPast) -> None:
    shown = table(
        *(
            "CASE",
            "CLASS",
            "JOBS>",
            "WAIT 50%>",
            "WAIT 95%>",
            "SLOWDOWN 50%>",
            "95%>",
            "PREEMPTED>",
            "DELAY>",
            "LOST NODE-H>",
        ),
        title=past.title,
    )
    for line in lines:
        shown.add_row(
            line.case,
            line.job_class.upper(),
            str(line.jobs),
            duration(line.wait_p50_s),
            duration(line.wait_p95_s),
            _number(line.slowdown_p50),
            _number(line.slowdown_p95),
            "-" if line.preempted is None else str(line.preempted),
            duration(line.delay_mean_s),
            _number(line.lost_node_h),
        )
    out = console()
    out.print(shown)
    for note in past.workload.notes:
        out.print(note, style="dim")
    for remark in past.remarks():
        out.print(remark)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
