"""One training's losses as an SVG: what was told, the curve that was fitted to it, and what is expected next.

The drawing takes its colours from the page, and holds numbers and words of ours only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tesched_core.model.job_report import Curve

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


def loss_svg(curve: Curve, outlook: Outlook, title: str) -> str:
    """Return the drawing; the curve has at least one loss. `title` is escaped already."""
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

    def line(at: NDArray[np.float64], loss: NDArray[np.float64], looks: str) -> str:
        points = " ".join(f"{one:.1f},{other:.1f}" for one, other in zip(x(at), y(loss), strict=True))
        return f'<polyline points="{points}" fill="none" {looks}/>'

    parts = [line(fit_at, fit, 'style="stroke: var(--c1)" stroke-width="4" opacity="0.45"')] if outlook.family else []
    parts.append(line(iteration[kept], curve.loss[kept], 'style="stroke: var(--c0)" stroke-width="1.5"'))
    if len(curve) == 1:
        parts.append(_dot(x(iteration), y(curve.loss), 0))
    parts.append(line(then_at, then, 'style="stroke: var(--c1)" stroke-width="2" stroke-dasharray="4 3"'))
    parts.append(_dot(x(then_at[-1:]), y(then[-1:]), 1))
    middle = np.sqrt(low * high) if logarithmic else low / 2 + high / 2
    parts += [
        _text(_LEFT - 6, at + 4, f"{value:.3g}", "end") + _rule(at)
        for value, at in {float(one): float(y(np.array([one]))[0]) for one in (low, middle, high)}.items()
    ]
    bottom = _HEIGHT - _BOTTOM + 16
    parts.append(_text(_LEFT, bottom, f"{iteration[0]:.0f}", "start"))
    parts.append(_text(_WIDTH - _RIGHT, bottom, str(outlook.ahead), "end"))
    parts.append(_text(_WIDTH / 2, bottom + 18, f"iteration{', loss on a logarithmic axis' if logarithmic else ''}"))
    words = (
        f"The loss was {curve.loss[0]:.4g} at iteration {curve.iteration[0]} and is {outlook.loss:.4g} at "
        f"{outlook.iteration}; {outlook.predicted:.4g} is expected at {outlook.ahead}."
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"><title>{title}</title><desc>{words}</desc>'
        f"{''.join(parts)}</svg>"
    )


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    looks = 'style="fill: var(--soft)" font-size="12"'
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {looks}>{text}</text>'


def _rule(y: float) -> str:
    return f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" style="stroke: var(--line)" stroke-width="0.6"/>'


def _dot(x: NDArray[np.float64], y: NDArray[np.float64], colour: int) -> str:
    return f'<circle cx="{x[0]:.1f}" cy="{y[0]:.1f}" r="3.5" style="fill: var(--c{colour})"/>'
