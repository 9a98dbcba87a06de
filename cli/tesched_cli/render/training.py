"""Trainings in `tesched status` and `tesched explain`: their losses, what is expected of them, their cores."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.text import Text
from tesched_core.model.visible import shortened

from tesched_cli.common import duration, table
from tesched_cli.render.ascii_curve import WIDTH, chart, sparkline

if TYPE_CHECKING:
    from tesched_core.model.job_report import Curve
    from tesched_db.reports import ReportView
    from tesched_db.trainings import HeldShare, TrainingsView, TrainingView
    from tesched_policies.slaq.outlook import Outlook

#: Trainings in the table of `tesched status`, and in its JSON and its page.
IN_TABLE, IN_ALL = 10, 100
#: A chart is no wider.
_WIDEST = 76
#: What the other columns of the table take.
_TAKEN = 72


def outlooks_of(view: TrainingsView) -> Mapping[str, Outlook]:
    """Outlooks of these trainings, by label."""
    if not view.shown:
        return {}
    # The fits are imported only if there are trainings.
    from tesched_policies.slaq.outlook import outlooks  # noqa: PLC0415

    return outlooks({one.label: (one.curve, one.target_loss) for one in view.shown})


def outlook_of(curve: Curve, target_loss: float | None) -> Outlook | None:
    """Outlook of one training; None if it reported no loss."""
    from tesched_policies.slaq.outlook import outlooks  # noqa: PLC0415

    return outlooks({0: (curve, target_loss)}).get(0)


def trainings_table(view: TrainingsView, expected: Mapping[str, Outlook], out: Console) -> list[RenderableType]:
    """Return the table of `tesched status`, as wide as the terminal; nothing without trainings."""
    if not view.shown:
        return []
    width = min(max(out.width - _TAKEN, 8), WIDTH)
    shown = table(
        *("JOB", "TRAINS", "ITER>", "LOSS>", "NORM>", "CURVE", "EXPECTED", "CPUS>", "SHARE>"),
        title="Trainings (norm: loss left to gain, of 1 at first; share: of the cores that trainings hold)",
    )
    for one in view.shown:
        ahead = expected.get(one.label)
        part = "-" if one.share.part is None else f"{100 * one.share.part:.0f} %"
        what = shortened(one.workload or one.name, 16)
        if ahead is None:
            shown.add_row(one.label, what, "-", "-", "-", "", "", str(one.share.cpus), part)
            continue
        shown.add_row(
            *(one.label, what, str(ahead.iteration), f"{ahead.loss:.4g}", f"{ahead.normalised:.2f}"),
            sparkline(one.curve, width, plain=out.options.ascii_only),
            f"{ahead.predicted:.4g} at {ahead.ahead}",
            *(str(one.share.cpus), part),
        )
    more = [Text(f"and {view.more} more")] if view.more else []
    return [shown, *more, Text()]


def lines(view: ReportView | TrainingView, ahead: Outlook | None, out: Console) -> Iterator[str]:
    """Describe what a job, or an array's tasks together, reported of itself, for `tesched explain`."""
    if ahead is not None:
        yield from _losses(view, ahead, out)
    if view.refused:
        yield f"  report  not used: {view.refused}"


def training_lines(view: TrainingView, ahead: Outlook | None, out: Console) -> Iterator[str]:
    """Describe what the tasks of an array reported together, for `tesched explain`."""
    tasks = f"{view.tasks} task{'s' * (view.tasks != 1)}"
    yield f"  array   {view.label}: what its tasks reported, gathered; of those that report, {tasks} are there"
    yield from lines(view, ahead, out)
    if view.share.cpus:
        yield share_line(view.share)


def share_line(share: HeldShare) -> str:
    """Share that a training holds, for `tesched explain`."""
    part = "" if share.part is None else f", {100 * share.part:.0f} % of what all trainings hold"
    return f"  holds   {share.cpus} CPU{'s' * (share.cpus != 1)}{part}"


def _losses(view: ReportView | TrainingView, ahead: Outlook, out: Console) -> Iterator[str]:
    target = f", target {view.target_loss:.4g}" if view.target_loss is not None else ""
    ago = f", {duration(time.time() - view.at)} ago" if view.at is not None else ""
    first = view.curve.loss[0]
    yield f"  learns  iteration {ahead.iteration}, loss {ahead.loss:.4g} (at first {first:.4g}{target}){ago}"
    how = f"a {ahead.family} curve" if ahead.family else "the mean ratio so far"
    yield (
        f"  expects loss {ahead.predicted:.4g} at iteration {ahead.ahead}, by {how} towards {ahead.asymptote:.4g}; "
        f"{100 * ahead.normalised:.0f} % of the first loss above that are left"
    )
    for line in chart(view.curve, ahead, width=min(out.width, _WIDEST) - 10, plain=out.options.ascii_only):
        yield f"          {line}"
