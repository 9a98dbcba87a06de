"""`tesched status --html`: the daemon's state as one page, whole in itself: no network, no other files, no scripts.

It has the style of the page of `tesched simulate --html`, and says what the page of `tesched web` says. What users and
sites choose (names of users and workloads) is escaped (`tesched_sim.reports.templating`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup
from tesched_core.model.cluster import JobState
from tesched_db.liveness import state_of
from tesched_db.trainings import TrainingsView, TrainingView
from tesched_db.views import StatusView
from tesched_sim.reports.templating import rendered

from tesched_cli.common import clock, duration, hostlist, unread
from tesched_cli.page_file import check_page, write_file
from tesched_cli.render.delays import bound_lines
from tesched_cli.render.enforced import enforced_lines
from tesched_cli.render.loss_svg import loss_svg
from tesched_cli.render.refused import refusals
from tesched_cli.render.unread_limits import unread_limits

if TYPE_CHECKING:
    from tesched_policies.slaq.outlook import Outlook

_TRAININGS = (
    "Normalised loss: what is left above the asymptote of the first loss, 1 at first. Share: of the cores that all "
    "trainings hold together."
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence; a warning if `warn`."""

    text: str
    warn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Sentences and tables of the daemon and its queues."""

    #: how the daemon is, in a sentence
    health: str
    daemon: tuple[Sentence, ...]
    #: of the slowdowns
    hours: float
    #: a row for each class: name, running, pending, longest wait, median and 95th percentile of the slowdown
    queues: tuple[tuple[str, ...], ...]
    futile: int
    #: the bound, and limits on TE jobs
    limits: tuple[Sentence, ...]


def write(path: Path, health: str, view: StatusView, trained: TrainingsView, expected: Mapping[str, Outlook]) -> None:
    """Write the page. Raises PageFileError."""
    check_page(path)
    write_file(path, page(health, view, trained, expected, at=time.time()))


def page(health: str, view: StatusView, trained: TrainingsView, expected: Mapping[str, Outlook], *, at: float) -> str:
    """Return the page as of `at` (Unix seconds)."""
    return rendered(
        "status.html",
        title=f"tesched, {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(at))}",
        content=content_of(health, view, at),
        orders=list(_orders(view)),
        trainings=[_row(one, expected.get(one.label)) for one in trained.shown],
        trainings_caption=_TRAININGS,
        more=trained.more,
        figures=[_figure(one, expected[one.label]) for one in trained.shown if one.label in expected],
    )


def content_of(health: str, view: StatusView, at: float) -> Content:
    """Content of pages on the daemon and its queues as of `at` (Unix seconds)."""
    limits = tuple(_limits(view, at))
    return Content(
        health=health,
        daemon=tuple(_daemon(view, at)),
        hours=view.window_s / 3600,
        queues=tuple(_queues(view)),
        futile=view.tally.futile,
        limits=limits,
    )


def _daemon(view: StatusView, at: float) -> Iterator[Sentence]:
    daemon = view.daemon
    if daemon is not None:
        yield Sentence(f"mode {daemon.mode}, cycle {daemon.cycle}, {daemon.client}; last: {daemon.summary}")
        if daemon.leaving and state_of(daemon, at).running:
            yield Sentence(daemon.leaving, warn=True)
        if daemon.doubtful:
            jobs = "; ".join(f"{unread(label, user)}: {why}" for label, user, why in daemon.doubts)
            yield Sentence(f"{daemon.doubtful} record(s) could not be read whole; left alone: {jobs}", warn=True)
        troubles = {
            "marks": daemon.marks_trouble,
            "hook": daemon.admission_trouble,
            "metrics": daemon.metrics_trouble,
            "idle": daemon.idle_trouble,
        }
        yield from (Sentence(f"{what}: {trouble}", warn=True) for what, trouble in troubles.items() if trouble)
        yield from (Sentence(said, warn=True) for said in unread_limits(daemon.limits_unread))
        yield from (Sentence(said, warn=True) for said in refusals(daemon.refused, at))
    if view.paused:
        yield Sentence(f"paused: {view.paused}", warn=True)


def _queues(view: StatusView) -> Iterator[tuple[str, ...]]:
    for queue in view.queues:
        yield (
            queue.job_class.upper(),
            str(queue.states.get(JobState.RUNNING, 0)),
            str(queue.states.get(JobState.PENDING, 0)),
            duration(queue.longest_wait_s),
            "-" if queue.slowdown.p50 is None else f"{queue.slowdown.p50:.2f}",
            "-" if queue.slowdown.p95 is None else f"{queue.slowdown.p95:.2f}",
        )


def _limits(view: StatusView, at: float) -> Iterator[Sentence]:
    if view.daemon is None:
        return
    yield from map(Sentence, bound_lines(view.daemon.bound, view.te_refused, view.window_s / 3600))
    for line in enforced_lines(view.daemon, at):
        yield Sentence(line.plain, warn=line.style == "yellow")


def _orders(view: StatusView) -> Iterator[tuple[str, ...]]:
    for each in view.open_orders:
        yield (
            str(each.order.order_id),
            each.preemptor_label,
            each.order.state.value,
            hostlist(each.order.nodes) or "anywhere",
            ", ".join(each.victim_labels) or "no victim",
        )


def _row(one: TrainingView, ahead: Outlook | None) -> tuple[str, ...]:
    losses = ("-", "-", "-", "-")
    if ahead is not None:
        then = f"{ahead.predicted:.4g} at {ahead.ahead}"
        losses = (str(ahead.iteration), f"{ahead.loss:.4g}", f"{ahead.normalised:.2f}", then)
    share = "-" if one.share.part is None else f"{100 * one.share.part:.0f} %"
    return (one.label, one.user, one.workload or one.name, *losses, str(one.share.cpus), share, clock(one.at))


@dataclass(frozen=True, slots=True)
class _Figure:
    name: str
    words: str
    drawing: Markup


def _figure(one: TrainingView, ahead: Outlook) -> _Figure:
    name = f"job {one.label}, {one.workload or one.name} of {one.user}"
    how = f"a {ahead.family} curve" if ahead.family else "the mean ratio so far"
    words = (
        f"Loss {ahead.loss:.4g} at iteration {ahead.iteration}; {ahead.predicted:.4g} is expected at {ahead.ahead}, by "
        f"{how} towards {ahead.asymptote:.4g}."
    )
    if one.target_loss is not None:
        words += f" Its target is {one.target_loss:.4g}."
    if one.refused:
        words += f" Its newest report is not used: {one.refused}."
    return _Figure(name, words, Markup(loss_svg(one.curve, ahead, name)))  # noqa: S704 - a template's
