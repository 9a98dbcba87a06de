"""Text of a Textual application's screen, by lines."""

from __future__ import annotations

from collections import defaultdict
from typing import Any
from xml.etree import ElementTree as ET

from textual.app import App

#: width of a character in Rich's drawing of a terminal
_CHARACTER = 12.2


def screen_text(app: App[Any]) -> str:
    """Return the screen as it is now, without blanks at the ends of lines."""
    drawing = ET.fromstring(app.export_screenshot())  # noqa: S314 - made right here
    lines: dict[float, list[tuple[int, str]]] = defaultdict(list)
    for part in drawing.iter("{http://www.w3.org/2000/svg}text"):
        # The title of its window has no line.
        if part.get("clip-path"):
            text = "".join(part.itertext()).replace("\u00a0", " ")
            lines[float(part.get("y", "0"))].append((round(float(part.get("x", "0")) / _CHARACTER), text))
    shown = []
    for _, parts in sorted(lines.items()):
        line = ""
        for column, text in sorted(parts):
            line = line.ljust(column) + text
        shown.append(line.rstrip())
    return "\n".join(shown) + "\n"
