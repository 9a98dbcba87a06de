"""One training's losses as an SVG: what was reported, the curve that was fitted to it, and what is expected next.

The drawing takes its colours from the page, and holds numbers and words of ours only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.job_report import Curve
from tesched_sim.reports.templating import rendered

if TYPE_CHECKING:
    from tesched_policies.slaq.outlook import Outlook

_WIDTH, _HEIGHT = 520, 220
#: Around the plot: left, right, top, bottom.
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 10, 40
#: Points of a line.
_POINTS = 300
#: The newest reports over which the fit is drawn: those before weigh less than a thousandth (`slaq/forecast.py`).
_FITTED = 15
#: Positive losses are drawn on a logarithmic axis if the largest is so many times the smallest.
_WIDE = 30.0


@dataclass(frozen=True, slots=True)
class _Line:
    points: str
    colour: int
    width: str
    opacity: str = ""
    dashes: str = ""


@dataclass(frozen=True, slots=True)
class _Text:
    x: str
    y: str
    text: str
    anchor: str = "middle"


def loss_svg(curve: Curve, outlook: Outlook, title: str) -> str:
    """Return the drawing; the curve has at least one loss. `title` may have users' text."""
    iteration = curve.iteration.astype(np.float64)
    newest = float(iteration[-1])
    fit_at = np.linspace(iteration[-min(_FITTED, len(curve))], newest, _POINTS // 2)
    then_at = np.linspace(newest, outlook.ahead, _POINTS // 4)
    kept = np.unique(np.linspace(0, len(curve) - 1, min(_POINTS, len(curve))).astype(np.int64))
    fit, then = outlook.at(fit_at), outlook.at(then_at)
    # Going back, a steep curve leaves the plot, or all numbers.
    inside = (fit >= curve.loss.min()) & (fit <= curve.loss.max())
    fit_at, fit = fit_at[inside], fit[inside]
    high, low = float(curve.loss.max()), min(float(curve.loss.min()), float(then.min()))
    logarithmic = low > 0 and high / low > _WIDE

    def x(at: NDArray[np.float64]) -> NDArray[np.float64]:
        span = max(outlook.ahead - float(iteration[0]), 1.0)
        part: NDArray[np.float64] = (at - iteration[0]) / span
        return _LEFT + part * (_WIDTH - _LEFT - _RIGHT)

    def y(loss: NDArray[np.float64]) -> NDArray[np.float64]:
        if not high > low:
            return np.full(len(loss), (_TOP + _HEIGHT - _BOTTOM) / 2)
        # Halves first: the span of two large losses is no number.
        part: NDArray[np.float64] = (loss / 2 - low / 2) / (high / 2 - low / 2)
        if logarithmic:
            part = (np.log(loss) - np.log(low)) / (np.log(high) - np.log(low))
        return _HEIGHT - _BOTTOM - part * (_HEIGHT - _BOTTOM - _TOP)

    def line(at: NDArray[np.float64], loss: NDArray[np.float64], colour: int, width: str, **style: str) -> _Line:
        points = " ".join(f"{one:.1f},{other:.1f}" for one, other in zip(x(at), y(loss), strict=True))
        return _Line(points, colour, width, **style)

    def dot(at: NDArray[np.float64], loss: NDArray[np.float64], colour: int) -> tuple[str, str, int]:
        return f"{x(at)[0]:.1f}", f"{y(loss)[0]:.1f}", colour

    lines = [line(fit_at, fit, 1, "4", opacity="0.45")] if outlook.family else []
    lines.append(line(iteration[kept], curve.loss[kept], 0, "1.5"))
    lines.append(line(then_at, then, 1, "2", dashes="4 3"))
    dots = [dot(iteration, curve.loss, 0)] if len(curve) == 1 else []
    dots.append(dot(then_at[-1:], then[-1:], 1))
    middle = np.sqrt(low * high) if logarithmic else low / 2 + high / 2
    rules = {float(one): float(y(np.array([one]))[0]) for one in (low, middle, high)}
    bottom = _HEIGHT - _BOTTOM + 16
    axis = f"iteration{', loss on a logarithmic axis' if logarithmic else ''}"
    return rendered(
        "loss.svg",
        title=title,
        words=(
            f"The loss was {curve.loss[0]:.4g} at iteration {curve.iteration[0]} and is {outlook.loss:.4g} at "
            f"{outlook.iteration}; {outlook.predicted:.4g} is expected at {outlook.ahead}."
        ),
        width=_WIDTH,
        height=_HEIGHT,
        left=_LEFT,
        right=_WIDTH - _RIGHT,
        lines=lines,
        dots=dots,
        rules=[f"{at:.1f}" for at in rules.values()],
        texts=[
            *(_Text(f"{_LEFT - 6:.1f}", f"{at + 4:.1f}", f"{value:.3g}", "end") for value, at in rules.items()),
            _Text(f"{_LEFT:.1f}", f"{bottom:.1f}", f"{iteration[0]:.0f}", "start"),
            _Text(f"{_WIDTH - _RIGHT:.1f}", f"{bottom:.1f}", str(outlook.ahead), "end"),
            _Text(f"{_WIDTH / 2:.1f}", f"{bottom + 18:.1f}", axis),
        ],
    )
