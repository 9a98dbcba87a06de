"""`tesched check` beside a real Slurm: what it says of output files is so, and it knows how the site is set."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tesched_testcluster.harness.daemon_process import run_tesched
from tesched_testcluster.local import LocalCluster

pytestmark = [pytest.mark.slurm, pytest.mark.gate]

SCRIPT = """#!/bin/bash
#SBATCH --signal=B:USR1@60
trap 'exit 99' USR1
echo run $SLURM_RESTART_COUNT
sleep 1000 &
wait
"""


def test_the_next_run_empties_its_output_unless_it_is_appended(cluster: LocalCluster, tmp_path: Path) -> None:
    (tmp_path / "job.sh").write_text(SCRIPT)
    outputs = {words: tmp_path / f"out{len(words)}" for words in ((), ("--open-mode=append",))}
    jobs = [
        int(cluster.run("sbatch", "--parsable", f"--output={path}", *words, str(tmp_path / "job.sh")).stdout)
        for words, path in outputs.items()
    ]
    cluster.wait_for(lambda: all(path.exists() and path.read_text() for path in outputs.values()), "their first runs")
    for job in jobs:
        cluster.run("scontrol", "requeue", str(job))
    cluster.wait_for(lambda: all("run 1" in path.read_text() for path in outputs.values()), "their second runs")
    assert outputs[()].read_text() == "run 1\n"
    appended = outputs["--open-mode=append",].read_text()
    assert appended.startswith("run\n")
    assert appended.endswith("run 1\n")
    for words, said in (((), True), (("--open-mode=append",), False)):
        ran = run_tesched("check", "--json", *words, str(tmp_path / "job.sh"), SLURM_CONF=str(cluster.slurm_conf))
        assert bool(json.loads(ran.stdout)["diff"]) is said


def test_it_knows_the_sites_exit_codes_and_times(cluster: LocalCluster, tmp_path: Path) -> None:
    shown = cluster.run("scontrol", "show", "config").stdout
    wait_s = int(re.findall(r"^KillWait\s*= (\d+)", shown, re.MULTILINE)[0])
    codes = re.findall(r"^RequeueExit\s*= (\S+)", shown, re.MULTILINE)[0]
    (tmp_path / "job.sh").write_text(SCRIPT)
    ran = run_tesched("check", str(tmp_path / "job.sh"), SLURM_CONF=str(cluster.slurm_conf))
    assert ran.returncode == 0, ran.stderr
    assert ("exit 99 is of RequeueExit:" in ran.stdout) is (codes == "99")
    assert "Slurm does not say" not in ran.stdout
    plain = run_tesched("check", "--wrap=true", SLURM_CONF=str(cluster.slurm_conf))
    assert plain.returncode == 1
    assert f"SIGKILL after {wait_s} s" in plain.stdout


def test_a_partition_that_slurm_does_not_have_is_named_as_sbatch_refuses_it(cluster: LocalCluster) -> None:
    refused = cluster.run("sbatch", "--partition=main,nope", "--wrap=true", check=False)
    assert "invalid partition specified: nope" in refused.stderr
    ran = run_tesched("check", "--partition=main,nope", "--wrap=true", SLURM_CONF=str(cluster.slurm_conf))
    assert "its partition: invalid partition nope; Slurm has " in " ".join(ran.stdout.split())
    ran = run_tesched("check", "--partition=main", "--wrap=true", SLURM_CONF=str(cluster.slurm_conf))
    assert "invalid partition" not in ran.stdout
