"""Profiles of Hypothesis: which examples the gate has, which the night, and that no property passes them by."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from tesched_testcluster.patience import HANG_S

from tests.examples import VARIABLE, examples, profile

TESTS = Path(__file__).parents[2]


def test_the_gate_has_the_same_examples_in_each_run() -> None:
    gate = settings.get_profile("gate")
    assert gate.derandomize
    assert gate.database is None
    assert gate.max_examples == 100


def test_the_night_has_ten_times_as_many_others_and_says_how_to_reproduce_one() -> None:
    nightly = settings.get_profile("nightly")
    assert not nightly.derandomize
    assert nightly.print_blob
    assert nightly.max_examples == 1000


@pytest.mark.parametrize("name", ["gate", "nightly"])
def test_no_profile_has_a_deadline(name: str) -> None:
    assert settings.get_profile(name).deadline is None


def test_a_number_of_examples_is_that_of_the_gate_and_ten_times_as_many_by_night() -> None:
    assert examples(30, {}) == examples(30, {VARIABLE: ""}) == examples(30, {VARIABLE: "gate"}) == 30
    assert examples(30, {VARIABLE: "nightly"}) == 300


def test_settings_of_a_property_keep_what_the_profile_says() -> None:
    expected = settings.get_profile(profile())
    changed = settings(max_examples=examples(7))
    assert (changed.derandomize, changed.database, changed.deadline) == (expected.derandomize, expected.database, None)
    assert changed.print_blob == expected.print_blob


def test_an_unknown_profile_is_a_usage_error_that_names_the_known_ones() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-p", "no:cacheprovider", __file__],
        env={**os.environ, VARIABLE: "nigthly"},
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR, ended.stdout
    assert "HYPOTHESIS_PROFILE is one of gate, nightly, not 'nigthly'" in ended.stderr
    assert "Traceback" not in ended.stderr


def passed_by(source: str) -> Iterator[int]:
    """Yield the lines where settings have a number of examples that no profile changes, or seeds of their own."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        for keyword in node.keywords:
            value = keyword.value
            by_profile = (
                isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "examples"
            )
            if (keyword.arg == "max_examples" and not by_profile) or keyword.arg == "derandomize":
                yield keyword.lineno


def test_every_number_of_examples_is_by_the_profile() -> None:
    files = [file for file in TESTS.rglob("*.py") if file != TESTS / "examples.py"]
    assert [f"{file}:{line}" for file in files for line in passed_by(file.read_text())] == []
    assert list(passed_by("settings(max_examples=examples(3))\nsettings(max_examples=3)")) == [2]
