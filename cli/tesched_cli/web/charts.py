"""Charts of ended jobs: how long TE jobs waited and by how much BE jobs were slowed down, over the last day.

Each job is a dot at its end; medians of equal parts of the day are lines. The vertical axis is logarithmic: waits are
from seconds to hours.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from tesched_core.model.snapshot import JobClass
from tesched_db.timeline import EndedJob

from tesched_cli.common import duration

#: pixels; the width is the page's
HEIGHT, _TOP, _BOTTOM = 170.0, 10.0, 24.0
#: parts of the time that have a median each
_PARTS = 12
#: Dots, at most: of more jobs each n-th is drawn.
MOST_DOTS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """One chart, for its template."""

    key: str
    title: str
    description: str
    colour: int
    height: float
    bottom: float
    #: x and y of each job
    dots: tuple[tuple[str, float], ...]
    #: of each part with jobs: from x, to x, y
    medians: tuple[tuple[str, str, float], ...]
    #: y and text
    levels: tuple[tuple[float, str], ...]
    #: x and text
    ticks: tuple[tuple[str, str], ...]


def charts(ended: Sequence[EndedJob], since: float, now: float) -> Iterator[Chart]:
    """Yield the wait of TE jobs, and the slowdown of BE jobs, where jobs have ended since then."""
    te = [(one.ended_at, one.waited_s) for one in ended if one.job_class is JobClass.TE]
    be = [(one.ended_at, one.slowdown) for one in ended if one.job_class is JobClass.BE and one.slowdown is not None]
    if te:
        yield _chart("te-wait", "Wait of TE jobs", te, since, now, colour=1, least=1.0, form=duration)
    if be:
        yield _chart(
            "be-slowdown", "Slowdown of BE jobs", be, since, now, colour=0, least=1.0, form=lambda one: f"{one:.2f}"
        )


def _chart(
    key: str,
    title: str,
    points: Sequence[tuple[float, float]],
    since: float,
    now: float,
    *,
    colour: int,
    least: float,
    form: Callable[[float], str],
) -> Chart:
    begin = min(max(since, min(at for at, _ in points) - 60), now - 600)
    longest = max(value for _, value in points)
    highest = max(longest, 2 * least)

    def x(at: float) -> float:
        return 100 * min(max((at - begin) / (now - begin), 0.0), 1.0)

    def y(value: float) -> float:
        share = math.log(max(value, least) / least) / math.log(highest / least)
        return round(HEIGHT - _BOTTOM - share * (HEIGHT - _BOTTOM - _TOP), 1)

    parts: list[list[float]] = [[] for _ in range(_PARTS)]
    for at, value in points:
        parts[min(int(x(at) / 100 * _PARTS), _PARTS - 1)].append(value)
    step = max(math.ceil(len(points) / MOST_DOTS), 1)
    middle = median(value for _, value in points)
    return Chart(
        key=key,
        title=title,
        description=f"{len(points)} job(s) that ended: median {form(middle)}, at most {form(longest)}.",
        colour=colour,
        height=HEIGHT,
        bottom=HEIGHT - _BOTTOM,
        dots=tuple((f"{x(at):.2f}%", y(value)) for at, value in points[::step]),
        medians=tuple(
            (f"{100 * index / _PARTS:.2f}%", f"{100 * (index + 1) / _PARTS:.2f}%", y(median(values)))
            for index, values in enumerate(parts)
            if values
        ),
        levels=tuple((y(value), form(value)) for value in (least, math.sqrt(least * highest), highest)),
        ticks=tuple(
            (f"{share:.0f}%", time.strftime("%H:%M", time.localtime(begin + share / 100 * (now - begin))))
            for share in (20, 40, 60, 80)
        ),
    )
