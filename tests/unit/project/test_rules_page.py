"""docs/reference/rules.md: each rule names a module and a test that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference" / "rules.md"
ROW = re.compile(r"^\| (?P<rule>[^|]+) \| `(?P<module>[^`|]+)` \| (?P<tests>[^|]+) \|$")


def rows() -> list[tuple[str, str, list[str]]]:
    """Return rule, module and tests of each row of the page's tables."""
    heads = ("| rule |", "| --- |")
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|") and not line.startswith(heads)]
    found = [ROW.match(line) for line in lines]
    assert all(found), [line for line, match in zip(lines, found, strict=True) if not match]
    return [(match["rule"], match["module"], re.findall(r"`([^`]+)`", match["tests"])) for match in found if match]


@cache
def functions(path: Path) -> frozenset[str]:
    """Return the names of a test file's functions, those in classes included."""
    return frozenset(node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef))


def test_the_page_has_its_rules() -> None:
    assert len(rows()) > 50


@pytest.mark.parametrize(("rule", "module", "tests"), rows(), ids=[rule for rule, _, _ in rows()])
def test_its_module_and_its_tests_exist(rule: str, module: str, tests: list[str]) -> None:
    assert any((folder / module).exists() for folder in (ROOT / "core" / "tesched_core", ROOT)), module
    assert tests, rule
    for test in tests:
        file, name = test.split("::")
        assert (ROOT / "tests" / file).is_file(), file
        assert name in functions(ROOT / "tests" / file), test
