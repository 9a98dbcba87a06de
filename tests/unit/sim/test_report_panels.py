"""Plots beside each other, as an SVG file of its own: what of them could be missing or wrong."""

from __future__ import annotations

import re
from xml.etree.ElementTree import fromstring

from tesched_sim.reports.plots import Panel, PanelLine, panels

SVG = "{http://www.w3.org/2000/svg}"
LOW = PanelLine(label="low", colour=0, solid=True, points=(("2", 1.0), ("off", 4.0)))
HIGH = PanelLine(label="high", colour=1, solid=False, points=(("2", 3.0), ("3", 5.0), ("off", 9.0)))
TWO = panels([Panel(title="one", curves=(LOW, HIGH)), Panel(title="two", curves=(LOW, HIGH))], across="B", up="wait")


def test_panels_have_their_titles_steps_and_one_legend() -> None:
    words = [element.text for element in fromstring(TWO).iter(f"{SVG}text")]  # noqa: S314 - our own text
    assert [words.count(word) for word in ("one", "two", "low", "high", "off")] == [1, 1, 1, 1, 2]


def test_panels_are_a_file_with_colours_for_light_and_dark() -> None:
    (style,) = fromstring(TWO).iter(f"{SVG}style")  # noqa: S314 - our own text
    light, dark = (style.text or "").split("@media screen and (prefers-color-scheme: dark)")
    for name in set(re.findall(r"var\(--(\w+)\)", TWO)):
        assert f"--{name}: #" in light
        assert f"--{name}: #" in dark
    assert "#f0000" not in TWO


def test_panels_of_the_same_values_are_the_same_bytes() -> None:
    several = [Panel(title="one", curves=(LOW, HIGH)), Panel(title="two", curves=(LOW, HIGH))]
    assert panels(several, across="B", up="wait") == TWO
