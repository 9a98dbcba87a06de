"""`tesched status`: the daemon's health, waiting jobs, victims, and the last decisions."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
from rich.console import Group, RenderableType
from rich.text import Text
from sqlalchemy import Engine
from tesched_core.model.cluster import JobState
from tesched_core.model.limits import Limits
from tesched_core.model.order import Victim, VictimState
from tesched_core.model.resources import JobId
from tesched_daemon.settings import Mode
from tesched_daemon.wakeup_shares import NO_RPCS
from tesched_db import queries as read
from tesched_db.lease import Standby
from tesched_db.let_through import let_through
from tesched_db.outlived_rows import barred
from tesched_db.trainings import trainings
from tesched_db.use import use
from tesched_db.views import DAEMON, DaemonView, Percentiles, StatusView

from tesched_cli.common import (
    clock,
    config_option,
    console,
    duration,
    hostlist,
    iterate_option,
    json_option,
    shown_configuration,
    store_of,
    table,
)
from tesched_cli.health import health
from tesched_cli.render.delays import bound_lines, delays_json, delays_lines, share_line
from tesched_cli.render.enforced import as_of_now, enforced_lines
from tesched_cli.render.te_users import barred_lines, free_lines
from tesched_cli.render.training import IN_ALL, IN_TABLE, outlooks_of, trainings_table
from tesched_cli.render.troubles import overdue, trouble_lines


@click.command()
@config_option
@json_option
@click.option("--watch", is_flag=True, help="Go on showing it, until Ctrl-C.")
@iterate_option
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write a page with the loss curves.")
def status(*, config_path: Path, as_json: bool, watch: bool, every_s: float, html: Path | None) -> None:
    """Show how the daemon and its queues are.

    It also shows how far trainings are that report (docs/howto/reports.md).

    Exit status 0 if the daemon is well, 1 if it has trouble (it cannot see Slurm, or does not answer), 3 if no daemon
    runs; with --watch 0, however it is. 2 if the state store cannot be read.
    """
    if html is not None and (watch or as_json):
        raise click.UsageError(f"--html writes one page: it cannot be together with {'--watch' if watch else '--json'}")
    if watch and as_json:
        raise click.UsageError("--watch shows it on a terminal: it cannot be together with --json")
    config = shown_configuration(config_path)
    limits = config.guard
    with store_of(config) as engine:
        if not watch:
            view, running = read.status(engine), use(engine)
            changed = read.changed_jobs(engine)
            found = trainings(engine, limit=IN_ALL if as_json or html else IN_TABLE)
            expected = outlooks_of(found)
            how = health(view.daemon, time.time(), view.standbys)
            if html is not None:
                from tesched_cli.render.status_page import write  # noqa: PLC0415 - needed only on request

                write(html, how.line, view, found, expected)
            elif as_json:
                from tesched_cli.json_output import print_json  # noqa: PLC0415 - needed on request
                from tesched_cli.status_json import StatusJson, TrainingsJson  # noqa: PLC0415 - as above
                from tesched_cli.training_json import training_json  # noqa: PLC0415 - as above

                late = overdue(view, time.time(), limits)
                no_te = tuple(barred(engine, limits.te, time.time()).values())
                trained = tuple(training_json(one, expected.get(one.label)) for one in found.shown)
                print_json(
                    StatusJson(
                        health=how.line,
                        state=how.state,
                        daemon=as_of_now(view.daemon, time.time()),
                        standbys=view.standbys,
                        paused=view.paused,
                        deeds=view.deeds,
                        changed={field: tuple(sorted(jobs)) for field, jobs in changed.items()},
                        let_through=let_through(engine),
                        barred=no_te,
                        queues=view.queues,
                        orders=view.open_orders,
                        retries=view.retries,
                        tally=view.tally,
                        decisions=view.decisions,
                        use=running,
                        overdue=tuple(late),
                        delays=delays_json(view.delays),
                        te_refused=view.te_refused,
                        trainings=TrainingsJson(shown=trained, more=found.more),
                    )
                )
            else:
                out = console()
                said = [*_te_lines(engine, limits), *trainings_table(found, expected, out)]
                out.print(_page(view, running, changed, limits, said))
            if how.exit_status:
                raise SystemExit(how.exit_status)
            return
        from rich.live import Live  # noqa: PLC0415 - needed only on request

        try:
            out = console()
            with Live(console=out, screen=True, auto_refresh=False) as live:
                while True:
                    found = trainings(engine, limit=IN_TABLE)
                    trained_now = [*_te_lines(engine, limits), *trainings_table(found, outlooks_of(found), out)]
                    running = use(engine)
                    changed = read.changed_jobs(engine)
                    live.update(_page(read.status(engine), running, changed, limits, trained_now), refresh=True)
                    time.sleep(every_s)
        except KeyboardInterrupt:
            return


def _page(
    view: StatusView,
    running: Mapping[str, Mapping[str, int]],
    changed: Mapping[str, frozenset[JobId]],
    limits: Limits,
    trained: list[RenderableType],
) -> RenderableType:
    now = time.time()
    parts: list[RenderableType] = []
    how = health(view.daemon, now, view.standbys)
    parts.append(Text.assemble("daemon   ", (how.line, "green" if how.well else "bold red")))
    if view.daemon:
        mode = f"{view.daemon.mode}, cycle {view.daemon.cycle}, {view.daemon.client}, tesched {view.daemon.version}"
        parts += [Text(f"mode     {mode}")] if view.daemon.role == DAEMON else []
        parts += [
            Text(f"last     {would_have(view.daemon.mode, view.daemon.summary)}"),
            Text(f"slurm    {_calls(view.daemon) if how.state.running else 'no calls: no daemon runs'}"),
            *([Text(f"new jobs {view.daemon.new_jobs}")] if view.daemon.new_jobs and how.state.running else ()),
        ]
    parts += [Text(f"standby  {_standby(each, view.daemon)}") for each in view.standbys]
    parts += trouble_lines(view, limits, now)
    if changed:
        fields = ", ".join(f"{field} {len(jobs)}" for field, jobs in sorted(changed.items()))
        by = "the daemon" if view.daemon and view.daemon.leaving and how.state.running else "`tesched undo`"
        parts.append(Text(f"changed  {fields} (jobs by field; {by} puts them back)"))
    parts += [Text(f"admin    {clock(deed.at)} {deed.by}: {deed.what}") for deed in view.deeds]
    parts += [
        Text(),
        _queues(view, running),
        Text(),
        *trained,
        *_orders(view, now),
        *_retries(view, now),
        *_tally(view),
        *_decisions(view),
    ]
    return Group(*parts)


def _te_lines(engine: Engine, limits: Limits) -> Iterator[Text]:
    """Yield which users have no TE jobs, and which TE jobs an operator has let through."""
    yield from barred_lines(barred(engine, limits.te, time.time()).values())
    yield from free_lines(let_through(engine))


def _calls(daemon: DaemonView) -> str:
    """Rates at which slurmctld is called, the most frequent kinds first."""
    kinds = sorted(
        ((kind, rate) for kind, rate in daemon.calls.items() if kind not in NO_RPCS),
        key=lambda kind: (-kind[1], kind[0]),
    )
    shown = ", ".join(f"{kind} {rate:.0f}" for kind, rate in kinds)
    return f"{sum(rate for _, rate in kinds):.0f} RPCs/min" + (f" ({shown})" if shown else "")


def _standby(standby: Standby, daemon: DaemonView | None) -> str:
    leader = f"; leader is {daemon.host} since {clock(daemon.leads_since)}" if daemon else ""
    return f"pid {standby.pid} on {standby.host}, heard of {standby.silent_s:.0f} s ago{leader}"


def _queues(view: StatusView, running: Mapping[str, Mapping[str, int]]) -> RenderableType:
    shown = table(
        "QUEUE", "RUN>", "GPUS>", "CPUS>", "PEND>", "LONGEST WAIT>", "WAIT 50/95/99%>", "SLOWDOWN 50/95/99%>", "ENDED>"
    )
    for queue in view.queues:
        held = running[queue.job_class.value]
        shown.add_row(
            queue.job_class.upper(),
            str(held["jobs"]),
            str(held["gpus"]),
            str(held["cpus"]),
            str(queue.states.get(JobState.PENDING, 0)),
            duration(queue.longest_wait_s),
            _three(queue.waited_s, duration),
            _three(queue.slowdown, lambda value: "-" if value is None else f"{value:.2f}"),
            str(queue.slowdown.count),
        )
    return shown


def _three(values: Percentiles, form: object) -> str:
    if not callable(form) or not values.count:
        return "-"
    return " / ".join(form(value) for value in (values.p50, values.p95, values.p99))


def _orders(view: StatusView, now: float) -> list[RenderableType]:
    if not view.open_orders:
        return [Text("no order is under way")]
    shown = table("ORDER", "FOR JOB", "STATE", "WHERE", "VICTIM", "", title="Orders under way")
    for each in view.open_orders:
        victims = zip(each.order.victims, each.victim_labels, strict=True)
        instead = "waits for resources to be released" if each.order.waits else "the resources are free"
        rows = [(label, grace_left(victim, now)) for victim, label in victims] or [("no victim", instead)]
        for label, state in rows:
            shown.add_row(
                str(each.order.order_id),
                each.preemptor_label,
                each.order.state.value,
                hostlist(each.order.nodes) or "anywhere",
                label,
                state,
            )
    return [shown]


def grace_left(victim: Victim, now: float) -> str:
    """Rest of a victim's grace period, in words, or for how long it is suspended."""
    if victim.state is VictimState.SUSPENDED and victim.suspended_at is not None:
        return f"{victim.state}, for {duration(now - victim.suspended_at)}"
    if victim.deadline is None or victim.left_at is not None or victim.by_suspending:
        return victim.state.value
    return f"{victim.state}, {duration(victim.deadline - now)} of grace left"


def _retries(view: StatusView, now: float) -> list[RenderableType]:
    return [
        Text(
            f"job {each.label} of {each.user} waits: it is tried again in {duration(each.at - now)}, "
            f"at {clock(each.at)}, or later"
        )
        for each in view.retries
    ]


def would_have(mode: str, summary: str) -> str:
    """Return a cycle's summary; of a cycle in mode shadow, as what would have been done."""
    # What mode enforce has changed is really put back.
    if mode != Mode.SHADOW or summary.startswith(("did nothing", "undo: ")):
        return summary
    return f"would have (mode shadow, nothing was done): {summary}"


def _tally(view: StatusView) -> list[RenderableType]:
    tally = view.tally
    hours = view.window_s / 3600
    shadow = [
        Text(f"last {hours:.0f} h in mode shadow: {tally.shadow} order(s) would have been given; nothing was done")
    ]
    turns = [
        Text(
            f"rounds in that time: {tally.turns} job(s) started in their turn, {tally.gave_way} gave way; "
            f"{tally.turns_lost_node_s / 3600:.2f} node-hours of runs ended"
        )
    ]
    return [
        *(shadow if tally.shadow else ()),
        Text(
            f"last {hours:.0f} h: {tally.orders} order(s) ended, {tally.started_here} TE job(s) started where "
            f"resources were freed; {tally.victims_left} victim(s) left, {tally.victims_saved} of them by themselves "
            f"in their grace period; {tally.lost_node_s / 3600:.2f} node-hours of runs ended"
        ),
        *(turns if tally.turns or tally.gave_way else ()),
        Text(f"futile preemptions: {tally.futile}", style="bold red" if tally.futile else "green"),
        Text(
            f"jobs lost by a preemption: {tally.lost} (died of their notice, and back in the queue: "
            f"{tally.died_of_notice}{_ended(tally.ended)})",
            style="bold red" if tally.lost else "green",
        ),
        *(Text(share) for share in (share_line(view.daemon.held) if view.daemon else "",) if share),
        *(Text(line) for line in bound_lines(view.daemon.bound if view.daemon else None, view.te_refused, hours)),
        *enforced_lines(view.daemon, time.time()),
        *(Text(line) for line in delays_lines(view.delays, hours)),
        *(Text(f"preempted, and would not start again now: {one}", style="bold red") for one in tally.stuck),
        *_told(view),
    ]


def _ended(jobs: int) -> str:
    """Count the jobs not put back since their owners had said so (`preempted=end`), in words; empty for none."""
    return f"; ended for good, as their owners had said: {jobs}" if jobs else ""


def _told(view: StatusView) -> Iterator[Text]:
    """Yield whether the users of preempted jobs were notified: in the jobs' records, and by the site's command."""
    tally, by_command = view.tally, view.daemon.told if view.daemon else {}
    if tally.noted or tally.not_noted:
        why = f"; {tally.not_noted} not ({tally.not_noted_why})" if tally.not_noted else ""
        style = "yellow" if tally.not_noted else ""
        yield Text(f"users notified: {tally.noted} preemption(s) noted in the jobs' Slurm records{why}", style=style)
    told, failed, held_off = (by_command.get(word, 0) for word in ("told", "failed", "held_off"))
    if told or failed or held_off:
        why = f" (the last: {by_command.get('last_failure', '')})" if failed else ""
        text = f"users notified by the site's command since the daemon's start: {told}; failed: {failed}{why}"
        yield Text(f"{text}; held off: {held_off}", style="yellow" if failed or held_off else "")


def _decisions(view: StatusView) -> list[RenderableType]:
    if not view.decisions:
        return []
    shown = table("WHEN", "DECISION", title="Last decisions")
    for cycle in view.decisions[:5]:
        shown.add_row(clock(cycle.last_at), would_have(cycle.mode, cycle.summary))
    return [Text(), shown]
