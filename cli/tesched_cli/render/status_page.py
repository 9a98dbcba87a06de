"""`tesched status --html`: the daemon's state as one page, whole in itself: no network, no other files, no scripts.

It looks like the page of `tesched simulate --html`. Whatever comes from outside (names of users and workloads) is
escaped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tesched_core.model.cluster import JobState
from tesched_core.model.visible import html_text
from tesched_db.trainings import TrainingsView, TrainingView
from tesched_db.views import StatusView
from tesched_sim.reports.style import style_sheet

from tesched_cli.common import clock, duration, hostlist, say, unread
from tesched_cli.render.delays import bound_lines
from tesched_cli.render.enforced import enforced_lines
from tesched_cli.render.loss_svg import loss_svg
from tesched_cli.render.refused import refusals
from tesched_cli.render.unread_limits import unread_limits

if TYPE_CHECKING:
    from tesched_policies.slaq.outlook import Outlook

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_LEGEND = (
    '<ul class="legend"><li><svg class="sample" viewBox="0 0 36 12" aria-hidden="true">'
    '<path d="M0 6H36" style="stroke: var(--c0)" stroke-width="2"/></svg>reported</li>'
    '<li><svg class="sample" viewBox="0 0 36 12" aria-hidden="true">'
    '<path d="M0 6H36" style="stroke: var(--c1)" stroke-width="4" opacity="0.45"/></svg>fitted</li>'
    '<li><svg class="sample" viewBox="0 0 36 12" aria-hidden="true">'
    '<path d="M0 6H36" style="stroke: var(--c1)" stroke-width="2" stroke-dasharray="4 3"/></svg>expected</li></ul>'
)


class PageError(click.ClickException):
    """The page cannot be written. The text names it."""

    exit_code = 2


def write(path: Path, health: str, view: StatusView, trained: TrainingsView, expected: Mapping[str, Outlook]) -> None:
    """Write the page. Raises PageError."""
    try:
        path.write_text(page(health, view, trained, expected, at=time.time()), encoding="utf-8")
    except OSError as error:
        raise PageError(f"--html {path}: cannot be written: {error.strerror}") from error
    say(f"{path} is written", err=True)


def page(health: str, view: StatusView, trained: TrainingsView, expected: Mapping[str, Outlook], *, at: float) -> str:
    """Return the page as of `at` (Unix seconds)."""
    title = f"tesched, {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))}"
    body = "\n".join((*_daemon(health, view, at), *_queues(view, at), *_orders(view), *_trainings(trained, expected)))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title>\n<style>\n{style_sheet()}\n</style></head>\n<body>\n<h1>{title}</h1>\n{body}\n"
        "</body></html>\n"
    )


def _daemon(health: str, view: StatusView, at: float) -> Iterator[str]:
    yield f"<p>{html_text(health)}</p>"
    if view.daemon:
        said = f"mode {view.daemon.mode}, cycle {view.daemon.cycle}, {view.daemon.client}; last: {view.daemon.summary}"
        yield f"<p>{html_text(said)}</p>"
    if view.daemon and view.daemon.doubtful:
        jobs = "; ".join(f"{unread(label, user)}: {why}" for label, user, why in view.daemon.doubts)
        said = f"{view.daemon.doubtful} record(s) could not be read whole; left alone: {jobs}"
        yield f'<p class="warn">{html_text(said)}</p>'
    if view.daemon and view.daemon.marks_trouble:
        yield f'<p class="warn">{html_text(f"marks: {view.daemon.marks_trouble}")}</p>'
    if view.daemon and view.daemon.admission_trouble:
        yield f'<p class="warn">{html_text(f"hook: {view.daemon.admission_trouble}")}</p>'
    if view.daemon and view.daemon.metrics_trouble:
        yield f'<p class="warn">{html_text(f"metrics: {view.daemon.metrics_trouble}")}</p>'
    if view.daemon and view.daemon.idle_trouble:
        yield f'<p class="warn">{html_text(f"idle: {view.daemon.idle_trouble}")}</p>'
    for said in unread_limits(view.daemon.limits_unread if view.daemon else ()):
        yield f'<p class="warn">{html_text(said)}</p>'
    for said in refusals(view.daemon.refused if view.daemon else {}, at):
        yield f'<p class="warn">{html_text(said)}</p>'
    if view.paused:
        yield f'<p class="warn">{html_text(f"paused: {view.paused}")}</p>'


def _table(caption: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a table; its cells are escaped here."""
    heads = "".join(f'<th scope="col">{html_text(word)}</th>' for word in head)
    body = "".join(
        f'<tr><th scope="row">{html_text(first)}</th>{"".join(f"<td>{html_text(word)}</td>" for word in more)}</tr>\n'
        for first, *more in rows
    )
    return (
        f'<div class="wide"><table><caption>{html_text(caption)}</caption><thead><tr>{heads}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


def _queues(view: StatusView, at: float) -> Iterator[str]:
    yield "<h2>Queues</h2>"
    rows = [
        (
            queue.job_class.upper(),
            str(queue.states.get(JobState.RUNNING, 0)),
            str(queue.states.get(JobState.PENDING, 0)),
            duration(queue.longest_wait_s),
            "-" if queue.slowdown.p50 is None else f"{queue.slowdown.p50:.2f}",
            "-" if queue.slowdown.p95 is None else f"{queue.slowdown.p95:.2f}",
        )
        for queue in view.queues
    ]
    head = ("queue", "running", "pending", "longest wait", "slowdown, median", "95 %")
    hours = view.window_s / 3600
    yield _table(f"Slowdowns are those of jobs that ended in the last {hours:.0f} hours.", head, rows)
    yield f"<p>Futile preemptions in that time: {view.tally.futile}.</p>"
    if view.daemon is not None:
        for said in bound_lines(view.daemon.bound, view.te_refused, hours):
            yield f"<p>{html_text(said)}</p>"
        for line in enforced_lines(view.daemon, at):
            opening = '<p class="warn">' if line.style == "yellow" else "<p>"
            yield f"{opening}{html_text(line.plain)}</p>"


def _orders(view: StatusView) -> Iterator[str]:
    if not view.open_orders:
        return
    yield "<h2>Orders under way</h2>"
    rows = [
        (
            str(each.order.order_id),
            each.preemptor_label,
            each.order.state.value,
            hostlist(each.order.nodes) or "anywhere",
            ", ".join(each.victim_labels) or "no victim",
        )
        for each in view.open_orders
    ]
    yield _table("TE jobs and their victims.", ("order", "for job", "state", "where", "victims"), rows)


def _trainings(trained: TrainingsView, expected: Mapping[str, Outlook]) -> Iterator[str]:
    yield "<h2>Trainings</h2>"
    if not trained.shown:
        yield '<p class="soft">No job that is not over has reported a loss.</p>'
        return
    caption = (
        "Normalised loss: what is left above the asymptote of the first loss, 1 at first. Share: of the cores that all "
        "trainings hold together."
    )
    head = (
        *("job", "user", "trains", "iteration", "loss", "normalised loss", "expected loss", "CPUs", "share"),
        "told",
    )
    yield _table(caption, head, [_row(one, expected.get(one.label)) for one in trained.shown])
    if trained.more:
        yield f"<p>And {trained.more} more, which hold no more cores than these.</p>"
    yield _LEGEND
    yield '<div class="plots">'
    for one in trained.shown:
        if one.label in expected:
            yield _figure(one, expected[one.label])
    yield "</div>"


def _row(one: TrainingView, ahead: Outlook | None) -> tuple[str, ...]:
    losses = ("-", "-", "-", "-")
    if ahead is not None:
        then = f"{ahead.predicted:.4g} at {ahead.ahead}"
        losses = (str(ahead.iteration), f"{ahead.loss:.4g}", f"{ahead.normalised:.2f}", then)
    share = "-" if one.share.part is None else f"{100 * one.share.part:.0f} %"
    return (one.label, one.user, one.workload or one.name, *losses, str(one.share.cpus), share, clock(one.at))


def _figure(one: TrainingView, ahead: Outlook) -> str:
    name = html_text(f"job {one.label}, {one.workload or one.name} of {one.user}")
    how = f"a {ahead.family} curve" if ahead.family else "the mean ratio so far"
    words = (
        f"Loss {ahead.loss:.4g} at iteration {ahead.iteration}; {ahead.predicted:.4g} is expected at {ahead.ahead}, by "
        f"{how} towards {ahead.asymptote:.4g}."
    )
    if one.target_loss is not None:
        words += f" Its target is {one.target_loss:.4g}."
    if one.refused:
        words += f" Its newest report is not used: {html_text(one.refused)}."
    return (
        f"<figure><figcaption><strong>{name}.</strong> {words}</figcaption>{loss_svg(one.curve, ahead, name)}</figure>"
    )
