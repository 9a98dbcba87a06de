"""Files of at most 400 lines, or with the reason in their heads."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[3]
MOST_LINES = 400
#: how the line of a head begins that says why its file is longer
PHRASE = "Over 400 lines: "
#: build/ has the source of Slurm, where the plugin was built
PACKAGES = [path for path in ROOT.iterdir() if path.is_dir() and path.name != "build" and not path.name.startswith(".")]
LONG = {
    path: text
    for package in PACKAGES
    for path in sorted(package.rglob("*.py"))
    if len((text := path.read_text(encoding="utf-8")).splitlines()) > MOST_LINES
}


def test_a_file_is_short_or_says_why_it_is_not() -> None:
    without = {
        str(path.relative_to(ROOT))
        for path, text in LONG.items()
        if not any(line.startswith(PHRASE) for line in (ast.get_docstring(ast.parse(text)) or "").splitlines())
    }
    assert not without, f"split by meaning, or say in the head {PHRASE!r} and why"


def test_the_check_finds_a_long_file() -> None:
    assert ROOT / "benchmarks" / "broken_rules.py" in LONG
