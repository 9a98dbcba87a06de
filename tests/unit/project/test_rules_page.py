"""docs/reference/rules.md: each rule names a module and a test that exist, and that `make test` runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tests import collected

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
def functions(path: Path) -> Mapping[str, ast.FunctionDef]:
    """Return a test file's functions by name, those in classes included."""
    return functions_of(path.read_text())


def functions_of(source: str) -> Mapping[str, ast.FunctionDef]:
    return {node.name: node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)}


def is_in_the_gate(function: ast.FunctionDef) -> bool:
    """Return whether a test of tests/cluster has the marker `gate`, or a case of `gated` that has it."""
    parts = [part for decorator in function.decorator_list for part in ast.walk(decorator)]
    marked = any(isinstance(part, ast.Attribute) and ast.unparse(part) == "pytest.mark.gate" for part in parts)
    # Of the values, those that are named after the first argument have it.
    return marked or any(
        isinstance(part, ast.Call) and ast.unparse(part.func) == "gated" and len(part.args) > 1 for part in parts
    )


def test_the_page_has_its_rules() -> None:
    assert len(rows()) > 50


def test_each_rules_module_and_tests_exist_and_those_on_a_real_slurm_are_in_the_gate() -> None:
    def check(row: tuple[str, str, list[str]]) -> None:
        rule, module, tests = row
        assert any((folder / module).exists() for folder in (ROOT / "core" / "tesched_core", ROOT)), module
        assert tests, rule
        for test in tests:
            file, name = test.split("::")
            assert (ROOT / "tests" / file).is_file(), file
            assert name in functions(ROOT / "tests" / file), test
            assert not file.startswith("cluster/") or is_in_the_gate(functions(ROOT / "tests" / file)[name]), (
                f"{test} is not in the gate"
            )

    collected.each(rows(), check, lambda row: row[0])


def test_a_test_is_in_the_gate_by_its_marker_or_by_a_case() -> None:
    found = functions_of(
        "@pytest.mark.gate\ndef test_a(): ...\n"
        "@pytest.mark.parametrize('n', gated([1, 2], 2))\ndef test_b(): ...\n"
        "@pytest.mark.parametrize('n', gated([1, 2]))\ndef test_c(): ...\n"
        "@pytest.mark.parametrize('n', [pytest.param(1, marks=pytest.mark.gate), 2])\ndef test_d(): ...\n"
        "@pytest.mark.slurm\ndef test_e(): ...\n"
    )
    assert [name for name, function in found.items() if is_in_the_gate(function)] == ["test_a", "test_b", "test_d"]
