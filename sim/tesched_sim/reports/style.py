"""Style of a report's page: colours, dashes and marks by which policies differ, and its style sheet.

The colours are near Okabe and Ito's, which people with any colour vision can distinguish; darker for a light page and
lighter for a dark one, so that each has a contrast of at least 3 to 1 (WCAG 2.2, 1.4.11). Dashes and marks differ, too:
nothing is said by colour alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi, sin

LIGHT_PAGE, DARK_PAGE = "#ffffff", "#14171a"
LIGHT = ("#0072b2", "#c65400", "#00805d", "#a84f88", "#946600", "#2580b3", "#555b61")
DARK = ("#4da3e0", "#ff8a3d", "#2fc79a", "#e29ac6", "#f0b93a", "#7cc8f5", "#c5cad0")
#: lengths of dash and gap, in points
DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (6, 2),
    (2, 1.5),
    (8, 2, 2, 2),
    (1, 1),
    (4, 1.5, 1, 1.5, 1, 1.5),
    (12, 3),
)
_T = 0.35
#: corners of marks, in a square from -1 to 1
MARKS: tuple[tuple[tuple[float, float], ...], ...] = (
    tuple((round(0.8 * cos(turn * pi / 8), 3), round(0.8 * sin(turn * pi / 8), 3)) for turn in range(16)),
    ((-0.7, -0.7), (0.7, -0.7), (0.7, 0.7), (-0.7, 0.7)),
    ((-0.9, -0.7), (0.9, -0.7), (0.0, 0.9)),
    ((0.0, -1.0), (0.8, 0.0), (0.0, 1.0), (-0.8, 0.0)),
    ((-0.9, 0.7), (0.9, 0.7), (0.0, -0.9)),
    (
        *((-_T, -0.9), (_T, -0.9), (_T, -_T), (0.9, -_T), (0.9, _T), (_T, _T)),
        *((_T, 0.9), (-_T, 0.9), (-_T, _T), (-0.9, _T), (-0.9, -_T), (-_T, -_T)),
    ),
    ((-0.9, -0.4), (0.9, -0.4), (0.9, 0.4), (-0.9, 0.4)),
)


@dataclass(frozen=True, slots=True)
class ColumnStyle:
    """Style of one column of the comparison."""

    colour: int
    dashes: tuple[float, ...]
    mark: tuple[tuple[float, float], ...]

    @staticmethod
    def of(index: int) -> ColumnStyle:
        """Style of the column with this index; the first 49 differ."""
        colour = index % len(LIGHT)
        other = (index + index // len(LIGHT)) % len(DASHES)
        return ColumnStyle(colour, DASHES[other], MARKS[other])

    @property
    def dash_array(self) -> str:
        """Return the dashes as SVG's stroke-dasharray."""
        return " ".join(f"{length:g}" for length in self.dashes)

    @property
    def corners(self) -> str:
        """Return the corners of the mark as SVG's points, in the middle of a legend's sample of 36 by 12."""
        return " ".join(f"{18 + 4 * x:g},{6 - 4 * y:g}" for x, y in self.mark)


def colours() -> str:
    """Return the part of the style sheet that gives the colours."""
    light = f"--page: {LIGHT_PAGE}; --ink: #1a1d21; --soft: #5a6068; --line: #d5d9de; --stripe: #f4f6f8;"
    dark = f"--page: {DARK_PAGE}; --ink: #e6e9ec; --soft: #a3abb4; --line: #3a4047; --stripe: #1c2024;"
    lights = " ".join(f"--c{index}: {colour};" for index, colour in enumerate(LIGHT))
    darks = " ".join(f"--c{index}: {colour};" for index, colour in enumerate(DARK))
    # Paper is light, whatever the screen is.
    return f""":root {{ color-scheme: light; {light} {lights} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ color-scheme: dark; {dark} {darks} }} }}"""


def style_sheet() -> str:
    """Return the page's style sheet."""
    return f"{colours()}\n{_RULES}"


_RULES = """\
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem; max-width: 75rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line); }
p, li, figcaption { max-width: 60rem; overflow-wrap: anywhere; }
.soft, figcaption { color: var(--soft); }
figcaption { font-size: .9em; }
.warn { border-left: 4px solid var(--c1); padding: .3rem .8rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9em; }
caption { text-align: left; color: var(--soft); padding-bottom: .3rem; }
th, td { padding: .2rem .7rem; text-align: right; vertical-align: top; }
td { white-space: nowrap; }
th { overflow-wrap: anywhere; }
th:first-child, .words th, .words td { text-align: left; }
.words td { white-space: normal; overflow-wrap: anywhere; }
thead th { border-bottom: 1px solid var(--ink); vertical-align: bottom; }
tbody th { font-weight: normal; }
tbody tr:nth-child(even) { background: var(--stripe); }
td small { display: block; color: var(--soft); }
.bar { display: block; height: 5px; min-width: 1px; margin-left: auto; print-color-adjust: exact;
  -webkit-print-color-adjust: exact; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(28rem, 100%), 1fr)); gap: 1rem; }
figure { margin: .5rem 0; max-width: 38rem; break-inside: avoid; }
figure > svg { display: block; width: 100%; height: auto; }
figure > svg * { stroke-linejoin: round; stroke-linecap: butt; }
figure > svg text { font-family: system-ui, sans-serif !important; }
figure.large { max-width: none; overflow-x: auto; }
figure.large > svg { min-width: 40rem; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; list-style: none; padding: 0; margin: .3rem 0; }
.sample { width: 36px; height: 12px; margin-right: .4rem; fill: none; }
@page { size: A4; margin: 12mm; }
@media print {
  body { padding: 0; max-width: none; font-size: 10px; }
  .wide, figure.large { overflow: visible; }
  figure.large > svg { min-width: 0; }
  figure:not(.large) { max-width: 90mm; }
  .plots { grid-template-columns: 1fr 1fr; }
  h2 { break-after: avoid; }
  tr { break-inside: avoid; }
  th, td { padding: .1rem .5rem; }
  thead { display: table-header-group; }
}"""
