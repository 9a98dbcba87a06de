"""Reports on a real Slurm: what a training reports reaches the store and `tesched explain`; a foreign file does not."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import TESCHED, Daemon, running_daemon
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

#: gradient descent on (x - 3)**2 with a rate of 0.1: the distance shrinks to 0.8 of it with each step
TRAINING = """
import time
import tesched_report

x = 0.0
for iteration in range({iterations}):
    loss = (x - 3) ** 2
    tesched_report.report(iteration=iteration, loss=loss, target_loss=0.01, workload="parabola")
    x -= 0.1 * 2 * (x - 3)
    time.sleep(0.05)
tesched_report.throughput(steps_per_s=20)
"""
LOSSES = [9 * 0.64**iteration for iteration in range(40)]


@pytest.fixture
def typed(make_cluster: MakeCluster) -> LocalCluster:
    """Give a cluster of two nodes with typed GPUs."""
    return make_cluster(ClusterDefinition(groups=(NodeGroup(count=2, gres={"gpu:v100": 4}),)))


@pytest.fixture
def spool(typed: LocalCluster, tmp_path: Path) -> Path:
    """Give a spool on the shared file system, and a configuration that names it."""
    folder = typed.shared / "spool"
    folder.mkdir()
    folder.chmod(0o1777)
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "reports.toml").write_text(f'[reports]\nspool = "{folder}"\n')
    return folder


@pytest.fixture
def daemon(typed: LocalCluster, spool: Path, tmp_path: Path, one_client: ClientChoice) -> Iterator[Daemon]:
    """Give a daemon that reads the spool."""
    with running_daemon(typed, tmp_path, one_client) as started:
        yield started


def submit(cluster: LocalCluster, spool: Path, command: str, *options: str) -> int:
    """Submit a job that runs this with the spool in its environment, as a site's TaskProlog sets it."""
    where = f"export TESCHED_SPOOL={spool}\n"
    output = f"--output={cluster.shared}/%j.out"
    return cluster.sbatch("--gres=gpu:1", "--mem=1000M", output, *options, wrap=where + command)


def report_of(daemon: Daemon, job: str) -> dict[str, Any]:
    """Return what explain says of a job's report; an empty one if it has none."""
    answer = daemon.ask("explain", job, "--json")
    found: dict[str, Any] = (json.loads(answer.stdout)["report"] or {}) if answer.returncode == 0 else {}
    return found


@pytest.mark.gate
def test_the_losses_of_a_training_reach_the_store_and_explain(typed: LocalCluster, spool: Path, daemon: Daemon) -> None:
    script = typed.shared / "train.py"
    script.write_text(TRAINING.format(iterations=len(LOSSES)))
    job_id = submit(typed, spool, f"{sys.executable} {script}", "--job-name=be-training")
    # While it still trains ...
    typed.wait_for(lambda: report_of(daemon, str(job_id)).get("points"), "its first losses")
    typed.wait_state(job_id, "COMPLETED")
    # ... and its last words.
    typed.wait_for(lambda: len(report_of(daemon, str(job_id))["points"]) == len(LOSSES), "all of its losses")
    found = report_of(daemon, str(job_id))
    assert [point["iteration"] for point in found["points"]] == list(range(len(LOSSES)))
    assert [point["loss"] for point in found["points"]] == pytest.approx(LOSSES, rel=1e-6)
    assert (found["workload"], found["target_loss"], found["refused"]) == ("parabola", 0.01, "")
    shown = daemon.ask("explain", str(job_id)).stdout
    assert f"learns  iteration 39, loss {LOSSES[-1]:.4g} (at first 9, target 0.01), 00:" in shown
    assert "█" in shown
    # It did not say on what it ran; Slurm did.
    (speed,) = daemon.json("throughputs", "list")["throughputs"]
    assert (speed["workload"], speed["scale"], speed["accelerator"]) == ("parabola", 1, "v100")
    assert speed["steps_per_s"] == 20.0
    assert (typed.shared / f"{job_id}.out").read_text() == ""


def test_each_task_of_an_array_reports_by_the_command_and_by_a_file_that_is_followed(
    typed: LocalCluster, spool: Path, daemon: Daemon
) -> None:
    script = f"""
    log={typed.shared}/log.$SLURM_ARRAY_TASK_ID.csv
    told=$TESCHED_SPOOL/$(id -u)/${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID.json
    echo step,loss > $log
    {TESCHED} report --follow $log --format csv &
    echo 1,0.$SLURM_ARRAY_TASK_ID >> $log
    until grep -q '"points":..1,' $told; do sleep 0.1; done
    # What is written right before the end is told, too.
    echo 2,0.05 >> $log
    kill $!
    wait $!
    {TESCHED} report --iteration 3 --loss 0.01 --throughput 7 --type k80
    """
    array = submit(typed, spool, script, "--array=4-5")
    for task in (4, 5):
        name = f"{array}_{task}"
        typed.wait_for(lambda name=name: len(report_of(daemon, name).get("points", [])) == 3, name)  # type: ignore[misc]
        points = report_of(daemon, name)["points"]
        assert [(point["iteration"], point["loss"]) for point in points] == [(1, task / 10), (2, 0.05), (3, 0.01)]
    (speed,) = daemon.json("throughputs", "list")["throughputs"]
    assert (speed["accelerator"], speed["steps_per_s"], speed["samples"]) == ("k80", 7.0, 2)


def test_a_file_of_another_user_is_refused_and_reported_and_the_daemon_goes_on(
    typed: LocalCluster, spool: Path, daemon: Daemon
) -> None:
    if os.geteuid() != 0:
        pytest.fail("only root can put another user's file there: run the tests of the cluster as root")
    forged, honest = (submit(typed, spool, "sleep 60") for _ in range(2))
    for job_id in (forged, honest):
        typed.wait_state(job_id, "RUNNING")
    mine = spool / str(os.geteuid())
    mine.mkdir()
    for job_id in (forged, honest):
        made = mine / f"new-{job_id}"
        made.write_text('{"version": 1, "points": [[5, 0.5, 1.0, null]]}')
        if job_id == forged:
            os.chown(made, 65534, 65534)
        made.rename(mine / f"{job_id}.json")
    said = f"the report of job {forged} is not used: the file belongs to user 65534, the job to user 0"
    typed.wait_for(lambda: said in daemon.log.read_text(), "the refusal in the log")
    typed.wait_for(lambda: report_of(daemon, str(honest)).get("points"), "the honest job's loss")
    assert report_of(daemon, str(forged))["points"] == []
    assert "report  not used: the file belongs to user 65534" in daemon.ask("explain", str(forged)).stdout
    assert daemon.log.read_text().count(said) == 1
