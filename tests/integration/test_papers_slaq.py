"""`python -m tesched_papers slaq`: what it prints and refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tesched_papers.__main__ import main


def run(*argv: str) -> Result:
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(main, ["slaq", "--jobs", "6", *argv])


def rows(*argv: str) -> Any:
    done = run(*argv, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["rows"]


def test_each_policy_stands_under_each_load_beside_equal_shares() -> None:
    found = rows("--seeds", "2", "--load", "0.5,0.9", "--policy", "slaq,slaq-ratio,fair")
    assert [(row["policy"], row["load"]) for row in found] == [
        (policy, load) for load in (0.5, 0.9) for policy in ("slaq", "slaq-ratio", "fair")
    ]
    for row in found:
        assert row["figures"]["to_90_s"]["seeds"] == 2
        assert bool(row["difference_percent"]) == (row["policy"] != "fair")


def test_the_same_command_gives_the_same_figures() -> None:
    assert rows("--seeds", "1..2") == rows("--seeds", "1..2")


def test_a_table_a_load_for_a_person() -> None:
    done = run("--seeds", "1", "--load", "0.5,0.9")
    assert done.exit_code == 0, done.output
    assert "load 0.5, one seed" in done.output
    assert "load 0.9, one seed" in done.output
    assert "SLAQ TO FAIR" in done.output
    assert "s to 90 % of the loss reduction" in done.output


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--policy", "best"), "--policy best: policies are slaq"),
        (("--policy", ","), "policies are"),
        (("--seeds", "5..3"), "'5..3' is neither a number of seeds"),
        (("--seeds", "0"), "'0' is neither"),
        (("--seeds", "x"), "'x' is neither"),
        (("--load", "0.9,x"), "'0.9,x' is no load"),
        (("--load", "0"), "'0' is no load"),
        (("--epoch", "0"), "--epoch"),
        (("--cores", "0"), "--cores"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(argv: tuple[str, ...], says: str) -> None:
    done = run(*argv)
    assert done.exit_code == 2
    assert says in " ".join(done.output.split())
    assert "Traceback" not in done.output
