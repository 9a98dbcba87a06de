"""Learned run times beside a trace: what is learned, and what is said of a bad trace."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tesched_predict.quantiles import PARENT_RUNS
from tesched_sim.workload import WorkloadError
from tesched_testcluster.harness.run_times import measure
from tesched_testcluster.patience import HANG_S

ROOT = Path(__file__).parents[3]
HEAD = "timestamp,duration,num_gpus,gpu_time,cluster"


def philly(path: Path, durations_s: list[int]) -> Path:
    """Write a trace with a job each minute."""
    lines = [f"2017-10-03 00:{minute:02}:00,{duration_s},1,1,vc" for minute, duration_s in enumerate(durations_s)]
    path.write_text("\n".join([HEAD, *lines]) + "\n")
    return path


def rows(path: Path, *, online: bool = False) -> dict[str, tuple[int, tuple[float, ...]]]:
    figures = measure(path, online=online, parent_runs=PARENT_RUNS)
    return {row.predictor: (row.predicted, row.coverage) for row in figures.rows}


def test_runs_that_have_not_ended_are_not_learned(tmp_path: Path) -> None:
    # The first half: one run of 10 s, and nine that outlast the trace. All that is known: 10 s.
    path = philly(tmp_path / "trace.csv", [10] + [9000] * 9 + [11] * 10)
    assert rows(path) == {"learned": (10, (0.0,) * 4), "all runs": (10, (0.0,) * 4)}


def test_runs_of_the_second_half_are_learned_only_online(tmp_path: Path) -> None:
    path = philly(tmp_path / "trace.csv", [10] * 10 + [100] * 10)
    assert rows(path)["all runs"][1] == (0.0,) * 4
    assert rows(path, online=True)["all runs"][1][3] > 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD + "\nyesterday,1,1,1,vc\n", "trace.csv:2: timestamp is 'yesterday'; it must be a time such as"),
        ("duration_s,num_gpus\n10,1\n", "trace.csv:1: this format has no time of submission"),
        (HEAD + "\n2017-10-03 00:00:00,1,1,1,vc\n", "trace.csv: it has 1 jobs that ran; 10 are needed at least"),
        ("what,ever\n", "trace.csv:1: this is the beginning of none of the formats"),
    ],
)
def test_bad_input_is_named_with_what_would_be_right(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(WorkloadError, match=re.escape(says)):
        measure(path, online=False, parent_runs=PARENT_RUNS)


@pytest.mark.parametrize(
    ("argv", "says"), [((), "no trace is named"), (("{trace}",), "trace.csv: it has 0 jobs that ran")]
)
def test_the_command_ends_with_status_2_and_says_why(tmp_path: Path, argv: tuple[str, ...], says: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(HEAD + "\n")
    command = [sys.executable, "-m", "benchmarks.run_times", *(word.format(trace=path) for word in argv)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert ended.returncode == 2
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr
