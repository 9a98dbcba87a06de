"""`tesched jobs` and `tesched orders`: the queue with its classes, and the preemptions with their steps."""

from __future__ import annotations

import time
from pathlib import Path

import click
from tesched_core.model.cluster import JobState
from tesched_core.model.order import Ending
from tesched_core.model.snapshot import JobClass
from tesched_core.model.visible import shortened
from tesched_db import queries as read
from tesched_db.views import JobFilter, JobView, OrderFilter

from tesched_cli.common import (
    LONGEST_TEXT,
    clock,
    config_option,
    console,
    duration,
    hostlist,
    json_option,
    print_json,
    store,
    table,
)
from tesched_cli.mine import my_jobs, show, who_asks

#: squeue's compact state codes
SHORT_STATES = {
    JobState.PENDING: "PD",
    JobState.RUNNING: "R",
    JobState.SUSPENDED: "S",
    JobState.COMPLETED: "CD",
    JobState.CANCELLED: "CA",
    JobState.FAILED: "F",
    JobState.TIMEOUT: "TO",
    JobState.NODE_FAIL: "NF",
    JobState.PREEMPTED: "PR",
    JobState.OUT_OF_MEMORY: "OOM",
    JobState.BOOT_FAIL: "BF",
    JobState.DEADLINE: "DL",
}
_CODES = {code: state for state, code in SHORT_STATES.items()} | {state.value: state for state in JobState}


def _states(_context: click.Context, _parameter: click.Parameter, value: str | None) -> frozenset[JobState]:
    words = [word.strip().upper() for word in (value or "").split(",") if word.strip()]
    unknown = [word for word in words if word not in _CODES]
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is no job state; known: {', '.join(sorted(_CODES))}")
    return frozenset(_CODES[word] for word in words)


@click.command()
@config_option
@json_option
@click.option("--class", "job_class", type=click.Choice([kind.value for kind in JobClass]), help="Only this class.")
@click.option("-u", "--user", help="Only this user's jobs.")
@click.option("-p", "--partition", help="Only jobs of this partition.")
@click.option("-t", "--states", callback=_states, help="Only these states, such as PD,R.")
@click.option("--mine", is_flag=True, help="Only your own, and what became of those that were preempted.")
@click.option("--all", "with_gone", is_flag=True, help="Also those that Slurm no longer knows.")
def jobs(
    *,
    config_path: Path,
    as_json: bool,
    job_class: str | None,
    user: str | None,
    partition: str | None,
    states: frozenset[JobState],
    mine: bool,
    with_gone: bool,
) -> None:
    """List the jobs with their class and the rule that gave it.

    With --mine: your own jobs, how often each was preempted of how many times, for what kind of job, what is known of
    its saved state, and what comes next (docs/howto/preempted.md). Exit status 2 and one line that names the group
    where you may not read the state store.
    """
    if mine:
        if user is not None:
            raise click.UsageError("--mine is your own jobs: it cannot be together with --user")
        user = who_asks()
    which = JobFilter(
        user=user,
        partition=partition,
        job_class=JobClass(job_class) if job_class else None,
        states=states,
        with_gone=with_gone,
    )
    if mine and user is not None:
        show(my_jobs(config_path, user, which), as_json=as_json)
        return
    with store(config_path) as engine:
        found = read.jobs(engine, which)
    if as_json:
        print_json("jobs", {"jobs": found})
        return
    shown = table(
        *("JOBID", "CLASS", "PARTITION~", "NAME~", "USER~", "ST", "TIME>", "GPUS>", "NICE>", "PREEMPTED>"),
        *("RULE~", "WHERE"),
    )
    for job in found:
        where = hostlist(job.nodes) or (f"({shortened(job.reason, LONGEST_TEXT)})" if job.reason else "")
        shown.add_row(
            job.label,
            job.job_class.upper(),
            job.partition,
            job.name,
            job.user,
            SHORT_STATES.get(job.state, job.state),
            duration(_run_time(job)),
            str(job.gpus),
            str(job.nice),
            str(job.preemptions),
            job.rule,
            where,
        )
    console().print(shown)


def _run_time(job: JobView) -> float | None:
    if job.start_time is None or job.state is JobState.PENDING:
        return 0.0
    return (job.end_time or time.time()) - job.start_time


@click.command()
@config_option
@json_option
@click.option("--open", "open_only", is_flag=True, help="Only those under way.")
@click.option("--futile", "futile_only", is_flag=True, help="Only those for which somebody left in vain.")
@click.option("-n", "--limit", type=click.IntRange(1), default=20, show_default=True, help="The newest so many.")
def orders(*, config_path: Path, as_json: bool, open_only: bool, futile_only: bool, limit: int) -> None:
    """List the preemptions, each with its steps."""
    with store(config_path) as engine:
        found = read.orders(engine, OrderFilter(open_only=open_only, futile_only=futile_only, limit=limit))
    if as_json:
        print_json("orders", {"orders": found})
        return
    out = console()
    if not found:
        out.print("no orders")
    for view in found:
        order = view.order
        ending = (order.ending or order.state).replace("_", " ")
        if order.ending is Ending.SHADOW:
            ending = "would have been given (mode shadow: recorded, nothing was done)"
        out.print(
            f"order {order.order_id} for job {view.preemptor_label} ({view.preemptor_user}): {ending}", style="bold"
        )
        for step in view.transitions:
            who = f"job {step.job_id}: " if step.job_id else ""
            would = "would have: " if order.ending is Ending.SHADOW and step.after != order.state else ""
            out.print(f"  {clock(step.at)}  {would}{who}{step.text}")
