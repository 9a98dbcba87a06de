"""`python -m tesched_papers gavel`: what it prints and refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tesched_papers.__main__ import main


def run(*argv: str) -> Result:
    return CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(
        main, ["gavel", "--processes", "1", "--window", "0:6", *argv]
    )


def as_json(*argv: str) -> Any:
    done = run(*argv, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_policies_stand_beside_each_other_with_their_ratio_to_the_first() -> None:
    found = as_json("--seeds", "0,1", "--policy", "las,las-agnostic")
    assert [line["policy"] for line in found["lines"]] == ["las", "las-agnostic"]
    assert found["lines"][0]["ratio"]["mean"] == 1.0
    runs = found["runs"]
    ratios = [
        agnostic["mean_jct_h"] / aware["mean_jct_h"]
        for agnostic, aware in zip(runs["las-agnostic"], runs["las"], strict=True)
    ]
    assert found["lines"][1]["ratio"]["mean"] == pytest.approx(sum(ratios) / 2)
    assert found["lines"][1]["figures"]["mean_jct_h"]["seeds"] == 2


def test_a_restart_that_costs_time_makes_jobs_longer() -> None:
    free = as_json("--policy", "las-agnostic")["runs"]["las-agnostic"][0]
    dear = as_json("--policy", "las-agnostic", "--restart-cost", "60")["runs"]["las-agnostic"][0]
    assert free["restarting"] == 0
    assert dear["restarting"] > 0
    assert dear["mean_jct_h"] > free["mean_jct_h"]


def test_resources_that_are_filled_in_mid_round_make_jobs_shorter() -> None:
    waits = as_json("--policy", "las")["runs"]["las"][0]
    filled = as_json("--policy", "las", "--fill", "--recompute", "0")
    assert filled["plan"]["cluster"]["fill"] is True
    assert filled["runs"]["las"][0]["mean_jct_h"] < waits["mean_jct_h"]


def test_without_rounds_there_are_none_and_no_job_starts() -> None:
    ideal = as_json("--policy", "las", "--ideal")["runs"]["las"][0]
    assert (ideal["rounds"], ideal["starts_per_job"]) == (0, 0)
    assert ideal["ended"] >= 6


def test_jobs_that_are_all_there_from_the_beginning() -> None:
    found = as_json("--policy", "makespan", "--static", "5", "--multi")
    assert found["plan"]["workload"]["count"] == 5
    assert found["runs"]["makespan"][0]["ended"] == 5


def test_a_table_for_a_person() -> None:
    done = run("--policy", "las,las-agnostic")
    assert done.exit_code == 0, done.output
    head, las, agnostic = done.stdout.splitlines()[1:4]
    assert head.split()[:3] == ["POLICY", "MEAN", "H"]
    assert las.split()[2] == "1.000"
    assert agnostic.startswith("las-agnostic")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--policy", "lis"], "there is no policy lis to simulate; there are las, "),
        (["--policy", ","], "there is no policy in it"),
        (["--cluster", "12:12"], "'12:12' is not 3 whole numbers with ':' between them"),
        (["--cluster", "0:0:0"], "some of them at least 1"),
        (["--window", "9:9"], "no job is in it"),
        (["--window", "a:b"], "'a:b' is not 2 whole numbers"),
        (["--seeds", "0,x"], "'0,x' is not whole numbers with ',' between them"),
        (["--restart-cost", "360"], "leaves nothing of a round of 360 s"),
        (["--multi", "--cluster", "4:4:4"], "can never run on 4:4:4"),
        (["--rate", "0"], "0.0 is not in the range"),
        (["--policy", "las-sharing", "--fill"], "authors' rounds alone"),
        (["--ideal", "--restart-cost", "60"], "without rounds"),
        (["--policy", "allox", "--multi", "--window", "0:20"], "leave --multi out"),
    ],
)
def test_impossible_settings_are_reported_in_one_line(argv: list[str], said: str) -> None:
    done = run(*argv)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
