"""`python -m tesched_papers pdors`: what it prints and refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tesched_papers.__main__ import main

SMALL = (
    "workload.jobs=4",
    "workload.machines=2",
    "workload.slots=3",
    "workload.batch_max=5",
    "workload.machine_size=3",
    "workload.work=0.002",
)


def run(*argv: str) -> Result:
    sets = [word for one in SMALL for word in ("--set", one)]
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(main, ["pdors", *sets, *argv])


def lines(*argv: str) -> list[dict[str, Any]]:
    """Return the lines but for the seconds of real time that they took."""
    done = run(*argv, "--json")
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)["lines"]
    for line in found:
        del line["took_s"]
    return found


def test_schedulers_stand_side_by_side_and_the_first_is_what_others_are_compared_with() -> None:
    found = lines("--method", "drf,pd-ors", "--seeds", "2")
    assert [line["method"] for line in found] == ["drf", "pd-ors"]
    assert [line["seeds"] for line in found] == [2, 2]
    assert found[0]["utility_to_first"] == 1.0
    assert found[1]["utility_to_first"] == pytest.approx(found[1]["utility"] / found[0]["utility"])


def test_each_value_of_a_key_is_a_table_and_keys_with_one_value_are_not_named() -> None:
    found = lines("--method", "pd-ors", "--set", "plan.gain=1,1.2")
    assert [line["variant"] for line in found] == ["plan.gain=1", "plan.gain=1.2"]


def test_the_same_command_gives_the_same_figures() -> None:
    assert lines("--seeds", "2") == lines("--seeds", "2")


def test_with_the_optimum_each_scheduler_says_which_part_of_it_it_has() -> None:
    parts = [line["utility_to_optimum"] for line in lines("--method", "pd-ors,fifo", "--optimum")]
    assert all(0 <= part <= 1 + 1e-6 for part in parts)
    assert "OPTIMUM" in run("--method", "pd-ors", "--optimum").stdout
    assert "OPTIMUM" not in run("--method", "pd-ors").stdout


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--method", "best"), "there is no scheduler best; there are pd-ors, oasis"),
        (("--method", ","), "--method needs at least one of pd-ors"),
        (("--set", "gain=1"), "gain: keys begin with workload. or plan."),
        (("--set", "plan.gain"), "--set plan.gain: it takes the form key=value"),
        (("--set", "plan.gain=0"), "plan.gain must be above 0"),
        (("--set", "plan.trials=0"), "plan.trials must be at least 1"),
        (("--set", "plan.floor=1"), "plan.floor must be at least 0, and below 1"),
        (("--set", "plan.twist=1"), "plan.twist: there is no such key; there are gain"),
        (("--set", "plan.external=guessed"), "plan.external: Invalid enum value 'guessed'"),
        (("--set", "workload.machines=none"), "workload.machines: must be a whole number"),
        (
            ("--set", "workload.batch_max=200", "--set", "workload.machine_size=18", "--optimum"),
            "more than 5000 ways in a slot",
        ),
    ],
)
def test_impossible_settings_are_reported_in_one_line_with_status_2(argv: tuple[str, ...], says: str) -> None:
    done = run(*argv)
    assert done.exit_code == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr
