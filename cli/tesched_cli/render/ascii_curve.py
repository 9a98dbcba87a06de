"""Loss curves in characters: one line, or a small chart with what is expected next.

Where the terminal's encoding is not UTF-8 (`plain`), ASCII stands for the blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tesched_core.model.arrays import NDArray, np

if TYPE_CHECKING:
    from tesched_core.model.job_report import Curve
    from tesched_policies.slaq.outlook import Outlook

_BARS = "▁▂▃▄▅▆▇█"
_PLAIN_BARS = "_.-:=+*#"
#: Characters of a line.
WIDTH = 24
#: Columns of a chart for what is expected.
_AHEAD = 8


def sparkline(curve: Curve, width: int = WIDTH, *, plain: bool = False) -> str:
    """Return the curve in one line: the loss at evenly spaced iterations, from its lowest value to its highest."""
    bars = _PLAIN_BARS if plain else _BARS
    if not len(curve):
        return ""
    at = np.linspace(curve.iteration[0], curve.iteration[-1], min(width, len(curve)))
    loss = np.interp(at, curve.iteration, curve.loss)
    low, high = float(curve.loss.min()), float(curve.loss.max())
    if not high > low:
        return bars[0] * len(loss)
    return "".join(bars[min(int(height * len(bars)), len(bars) - 1)] for height in _part(loss, low, high))


def chart(curve: Curve, outlook: Outlook, *, width: int, height: int = 6, plain: bool = False) -> Iterator[str]:
    """Yield the lines of a chart: bars for what was reported, points for what is expected; `width` is that of a line.

    What is expected has columns of its own, however far it is away. The curve has at least one loss.
    """
    bars, full, point, edge = (_PLAIN_BARS, "#", "o", "|") if plain else (_BARS, "█", "•", "│")
    newest, first = int(curve.iteration[-1]), int(curve.iteration[0])
    labels = [f"{value:.4g}" for value in _ends(curve, outlook)]
    margin = max(map(len, labels))
    capacity = max(width - margin - 2 - _AHEAD, 8)
    told_at = np.linspace(first, newest, min(capacity, len(curve)))
    then_at = np.linspace(newest, outlook.ahead, _AHEAD + 1)[1:]
    told, then = np.interp(told_at, curve.iteration, curve.loss), outlook.at(then_at)
    low, high = _ends(curve, outlook)[::-1]
    # In eighths of a line, from the bottom; the lowest loss is one eighth high.
    steps = height * len(bars) - 1
    heights = [1 + round(part * steps) for part in _part(told, low, high)]
    points = [min(int(part * height), height - 1) for part in _part(then, low, high)]
    for line in range(height - 1, -1, -1):
        below = line * len(bars)
        cells = [full if it >= below + len(bars) else bars[it - below - 1] if it > below else " " for it in heights]
        ahead = [point if it == line else " " for it in points]
        label = labels[0] if line == height - 1 else labels[1] if line == 0 else ""
        yield f"{label:>{margin}} {edge}{''.join(cells)}{''.join(ahead)}".rstrip()
    begin, now = str(first), str(newest)
    gap = max(len(told_at) - len(begin) - len(now), 1)
    yield f"{'':{margin}}  {begin}{'':{gap}}{now}{outlook.ahead:>{_AHEAD + 1}}"


def _ends(curve: Curve, outlook: Outlook) -> tuple[float, float]:
    """Return the highest and the lowest loss of a chart."""
    return float(curve.loss.max()), min(float(curve.loss.min()), outlook.predicted)


def _part(loss: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    """Positions of the losses between the lowest, 0, and the highest, 1."""
    if not high > low:
        return np.zeros(len(loss))
    # Halves first: the span of two large losses is no number.
    return np.clip((loss / 2 - low / 2) / (high / 2 - low / 2), 0.0, 1.0)
