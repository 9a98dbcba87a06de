"""A sweep of simulations as an array of jobs on Slurm gives what it gives here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tesched_testcluster.harness.daemon_process import run_tesched
from tesched_testcluster.local import LocalCluster

pytestmark = pytest.mark.slurm

SWEEP = ("simulate", "--set", "workload.jobs=200", "--set", "policy.fitgpp.s=0,4", "--policy", "fitgpp", "--json")


def comparison(*argv: str, **variables: str) -> Any:
    done = run_tesched(*SWEEP, "--seeds", "2", *argv, **variables)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["comparison"]
    for column in found["columns"]:
        del column["figures"]["took_s"]  # real time
    return found


def test_a_sweep_runs_as_one_job_array_and_gives_what_it_gives_here(cluster: LocalCluster, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    there = comparison("--on", "slurm", "--folder", str(folder), SLURM_CONF=str(cluster.slurm_conf))
    assert there == comparison()
    assert len({path.name.partition("_")[0] for path in folder.glob("*_result.pkl")}) == 1
    assert len(list(folder.glob("*_result.pkl"))) == 4


def test_a_refusal_of_sbatch_is_reported_in_one_line(cluster: LocalCluster, tmp_path: Path) -> None:
    done = run_tesched(
        *SWEEP,
        "--on",
        "slurm",
        "--folder",
        str(tmp_path),
        "--sbatch",
        "partition=none-such",
        SLURM_CONF=str(cluster.slurm_conf),
    )
    assert done.returncode == 2, done.stderr
    assert "Invalid partition name specified" in done.stderr
    assert "Traceback" not in done.stderr
