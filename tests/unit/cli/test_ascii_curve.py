"""Loss curves in characters and as SVG. Expected values are worked out by hand."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tesched_cli.render.ascii_curve import chart, sparkline
from tesched_cli.render.loss_svg import loss_svg
from tesched_core.model.job_report import Curve
from tesched_policies.slaq.outlook import Outlook, outlooks


def told(*losses: float, step: int = 1) -> Curve:
    return Curve.of([(step * place, loss, 0.0, math.nan) for place, loss in enumerate(losses)])


def ahead_of(curve: Curve) -> Outlook:
    return outlooks({0: (curve, None)})[0]


def test_a_chart_has_a_bar_for_each_report_and_a_point_for_each_eighth_of_the_way_ahead() -> None:
    curve = told(4.0, 2.0)
    # The ratio of a half goes on: 2 / 1024 at iteration 11. 2 is (2 - 0.002) / (4 - 0.002) of the 15 steps above the
    # lowest, less than 7.5, so that with the lowest its bar has 8 eighths: one line.
    lines = list(chart(curve, ahead_of(curve), width=40, height=2))
    assert lines[0] == "       4 │█"
    assert re.fullmatch(r"0\.001953 │██•{8}", lines[1])
    assert lines[2] == "          0 1       11"


def test_without_utf_8_a_chart_is_ascii() -> None:
    curve = told(*(1 / (k + 1) for k in range(50)))
    text = "\n".join(chart(curve, ahead_of(curve), width=60, plain=True)) + sparkline(curve, plain=True)
    assert text.isascii()
    assert "#" in text
    assert "oooooooo" in text


def test_a_line_in_ascii_has_a_sign_for_each_height() -> None:
    assert sparkline(told(*range(8)), plain=True) == "_.-:=+*#"


LOSSES = st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=40)


@given(LOSSES, st.integers(1, 10**9), st.integers(20, 200), st.integers(2, 10))
def test_a_chart_keeps_its_width_and_an_svg_its_frame_for_all_losses(
    losses: list[float], step: int, width: int, height: int
) -> None:
    curve = told(*losses, step=step)
    ahead = ahead_of(curve)
    lines = list(chart(curve, ahead, width=max(width, 40), height=height))
    assert len(lines) == height + 1
    assert max(map(len, lines[:-1])) <= max(width, 40)
    svg = loss_svg(curve, ahead, "job 7")
    for points in re.findall(r'points="([^"]*)"', svg):
        for pair in points.split():
            x, y = map(float, pair.split(","))
            assert 0 <= x <= 520
            assert 0 <= y <= 220
    assert ET.fromstring(svg) is not None  # noqa: S314 - our own text


@pytest.mark.parametrize(("first", "axis"), [(1.0, "iteration"), (1000.0, "iteration, loss on a logarithmic axis")])
def test_losses_over_orders_of_magnitude_are_drawn_on_a_logarithmic_axis(first: float, axis: str) -> None:
    curve = told(first, *(1.0 - k / 100 for k in range(20)))
    assert f">{axis}</text>" in loss_svg(curve, ahead_of(curve), "job 7")
