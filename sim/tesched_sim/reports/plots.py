"""The page's plots, as SVG that takes its colours from the page.

The plots hold numbers and words of ours only: names from outside stand in the page's own text, where they are escaped.
matplotlib is drawn with colours that stand for the page's, and these are put in their place in the SVG. The same data
make the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from io import StringIO
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.extra import Extra

from tesched_sim.reports.curves import Distribution, Payers, Series
from tesched_sim.reports.style import LIGHT, ColumnStyle, colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Stand for the page's colours; `_COLOUR` finds them again.
_INK, _SOFT, _LINE = "#f0000d", "#f0000e", "#f0000f"
_NAMES = {_INK: "ink", _SOFT: "soft", _LINE: "line"} | {f"#f0000{index}": f"c{index}" for index in range(len(LIGHT))}
_COLOUR = re.compile("|".join(_NAMES))
#: What a tick of a time axis is called, in seconds.
_TIMES = {
    0.0: "0",
    1.0: "1 s",
    10.0: "10 s",
    60.0: "1 min",
    600.0: "10 min",
    3600.0: "1 h",
    36_000.0: "10 h",
    86_400.0: "1 d",
    864_000.0: "10 d",
    8_640_000.0: "100 d",
}
#: draws them
MATPLOTLIB = Extra(package="Matplotlib", module="matplotlib.figure", install=".[plots]")
_PERCENT = (0, 25, 50, 75, 95, 100)


class Scale(Enum):
    """The horizontal axis of a distribution."""

    #: logarithmic, from 1
    SLOWDOWN = "slowdown"
    #: logarithmic from a second on, linear below, so that 0 has a place
    SECONDS = "seconds"


def distributions(lines: Sequence[Distribution], scale: Scale, label: str, of: str = "jobs") -> str:
    """Return the share of jobs (or others) up to each value, one line each, in the columns' order."""
    with _style():
        figure = _figure(5.2, 3.3)
        axes = figure.subplots()
        last = max([1.0, *(float(line.at[-1]) for line in lines if len(line.at))])
        if scale is Scale.SLOWDOWN:
            axes.set_xscale("log")
            last = max(10.0, last * 1.1)
            axes.set_xlim(0.93, last)
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            axes.xaxis.set_minor_formatter(lambda _value, _: "")
        else:
            last = max(60.0, last * 1.1)
            _time_axis(axes, last)
        for index, line in enumerate(lines):
            if len(line.at):
                at = np.concatenate([line.at[:1], line.at, [last]])
                share = np.concatenate([[0.0], line.share, line.share[-1:]])
                _step(axes, index, at, 100 * share)
        axes.set_ylim(0, 101)
        axes.set_yticks(_PERCENT)
        axes.set_ylabel(f"{of}, %")
        axes.set_xlabel(label)
        return _svg(figure)


def over_time(lines: Sequence[Series]) -> str:
    """Return queues and use over time: TE jobs waiting, BE jobs waiting, and each resource, one above the other."""
    resources = list(dict.fromkeys(name for line in lines for name in line.held_share))
    end_s = max(float(line.at_s[-1]) for line in lines)
    unit_s, unit = (86_400.0, "days") if end_s > 3 * 86_400 else (3600.0, "hours")
    with _style():
        figure = _figure(10.4, 1.6 * (2 + len(resources)))
        panels: list[Axes] = list(figure.subplots(2 + len(resources), 1, sharex=True).flat)
        te, be, *used = panels
        for index, line in enumerate(lines):
            at = line.at_s / unit_s
            _step(te, index, at, line.te_waiting)
            _step(be, index, at, line.be_waiting)
            for panel, name in zip(used, resources, strict=True):
                if name in line.held_share:
                    _step(panel, index, at, 100 * line.held_share[name])
        for panel, word in ((te, "TE"), (be, "BE")):
            panel.set_yscale("symlog", linthresh=1)
            panel.set_ylim(bottom=0)
            panel.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
            panel.set_ylabel(f"{word} jobs\nwaiting")
        for panel, name in zip(used, resources, strict=True):
            panel.set_ylim(0, 103)
            panel.set_yticks((0, 50, 100))
            panel.set_ylabel(f"{name}\nheld, %")
        panels[-1].set_xlim(0, end_s / unit_s or 1)
        panels[-1].set_xlabel(f"{unit} after the first submission")
        return _svg(figure)


def victims(several: Sequence[Payers]) -> str:
    """Plot what each victim lost, against its run time and against its size; SVG."""
    with _style():
        figure = _figure(10.4, 3.4)
        by_run, by_size = figure.subplots(1, 2, sharey=True)
        for index, payers in enumerate(several):
            look = ColumnStyle.of(index)
            for axes, values in ((by_run, payers.run_s), (by_size, payers.size_nodes)):
                axes.plot(
                    values,
                    payers.lost_node_s,
                    linestyle="",
                    marker=look.mark,
                    markersize=4,
                    markeredgewidth=0,
                    color=_colour(look),
                    alpha=0.6,
                )
        first_s = min(float(one.run_s.min(initial=60.0)) for one in several)
        _time_axis(by_run, 1.2 * max(float(one.run_s.max(initial=60.0)) for one in several), first_s / 1.2)
        by_run.set_xlabel("run time of the victim")
        by_size.set_xscale("log")
        by_size.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        by_size.xaxis.set_minor_formatter(lambda _value, _: "")
        by_size.set_xlabel("size of the victim, in nodes")
        by_run.set_yscale("symlog", linthresh=1)
        by_run.set_ylim(bottom=0)
        by_run.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        by_run.set_ylabel("node-seconds lost")
        return _svg(figure)


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelLine:
    """One line of a panel."""

    label: str
    #: index of its colour; solid or dashed
    colour: int
    solid: bool
    #: what it is called on the horizontal axis, and the value
    points: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One plot of several beside each other."""

    title: str
    curves: tuple[PanelLine, ...]


def panels(several: Sequence[Panel], *, across: str, up: str) -> str:
    """Return plots beside each other as a file of its own; all have the same lines, and steps instead of a scale."""
    steps = list(dict.fromkeys(step for panel in several for curve in panel.curves for step, _ in curve.points))
    with _style():
        figure = _figure(1 + 3.1 * len(several), 3.6)
        plots: list[Axes] = list(figure.subplots(1, len(several), sharey=True, squeeze=False).flat)
        for axes, panel in zip(plots, several, strict=True):
            for curve in panel.curves:
                axes.plot(
                    [steps.index(step) for step, _ in curve.points],
                    [value for _, value in curve.points],
                    color=f"#f0000{curve.colour}",
                    linestyle="solid" if curve.solid else (0, (4, 2)),
                    marker="o",
                    markersize=3,
                    label=curve.label,
                )
            axes.set_title(panel.title, fontsize=9)
            axes.set_xticks(range(len(steps)), steps)
            axes.set_ylim(bottom=0)
            axes.set_xlabel(across)
        plots[0].set_ylabel(up)
        handles, labels = plots[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        width, height = (f"{72 * inches:.0f}" for inches in figure.get_size_inches())
        opening, rest = _svg(figure).split(">", 1)
        opening = opening.replace("<svg", f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"')
        if "xlink:" in rest:
            opening = opening.replace("<svg", '<svg xmlns:xlink="http://www.w3.org/1999/xlink"', 1)
        return f"{opening}><style>{colours()} svg {{ background: var(--page); }}</style>{rest}\n"


@contextmanager
def _style() -> Iterator[None]:
    """Draw as the page wants it, whatever is set on this machine."""
    from matplotlib import style  # noqa: PLC0415

    ours: dict[str, object] = {
        "svg.fonttype": "none",  # text stays text: small, and readable for screen readers
        "svg.hashsalt": "tesched",
        "text.parse_math": False,
        "font.sans-serif": ["DejaVu Sans"],  # matplotlib brings it: the layout is the same everywhere
        "font.size": 9,
        "text.color": _INK,
        "axes.labelcolor": _INK,
        "axes.edgecolor": _SOFT,
        "xtick.color": _SOFT,
        "ytick.color": _SOFT,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": _LINE,
        "grid.linewidth": 0.6,
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "lines.linewidth": 1.5,
    }
    with style.context(["default", ours], after_reset=True):
        yield


def _figure(width_in: float, height_in: float) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415

    return Figure(figsize=(width_in, height_in), layout="constrained")


def _colour(look: ColumnStyle) -> str:
    return f"#f0000{look.colour}"


def _step(axes: Axes, index: int, at: NDArray[np.float64], values: NDArray[np.float64]) -> None:
    """Draw a step function in the column's colour and dashes."""
    look = ColumnStyle.of(index)
    # Dashes count in line widths there.
    width = 1.5
    dashes = (0, tuple(length / width for length in look.dashes)) if look.dashes else "solid"
    axes.step(at, values, where="post", color=_colour(look), linestyle=dashes, linewidth=width)


def _time_axis(axes: Axes, last_s: float, first_s: float = 0.0) -> None:
    """Make a logarithmic axis of durations; one from 0 is linear up to a second."""
    if first_s > 0:
        axes.set_xscale("log")
    else:
        axes.set_xscale("symlog", linthresh=1, linscale=0.4)
    axes.set_xlim(first_s, last_s)
    ticks = [at for at in _TIMES if first_s <= at <= last_s]
    axes.set_xticks(ticks, [_TIMES[at] for at in ticks])
    axes.set_xticks([], minor=True)


def _svg(figure: Figure) -> str:
    """Return the figure as an SVG element without a size of its own."""
    out = StringIO()
    figure.savefig(out, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    text = out.getvalue()
    text = text[text.index("<svg") :].rstrip()
    text = _COLOUR.sub(lambda found: f"var(--{_NAMES[found.group()]})", text)
    text = re.sub(r"<style.*?</style>", "", text, flags=re.DOTALL)
    return re.sub(r'^<svg[^>]*?(viewBox="[^"]*")[^>]*>', r"<svg \1>", text, flags=re.DOTALL)
