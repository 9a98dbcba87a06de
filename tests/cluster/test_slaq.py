"""SLAQ on a real Slurm: real trainings as elastic arrays; their throttles follow their losses and are put back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import Daemon, run_tesched, running_daemon
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.patience import Patience

pytestmark = pytest.mark.slurm

#: a training of one job; its loss falls to this part with each of its iterations
ALONE = """
import time, tesched_report
for iteration in range(10_000):
    tesched_report.report(iteration=iteration, loss={factor} ** iteration)
    time.sleep(0.2)
"""
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
CPUS = 6


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """Give one node of six CPUs."""
    with LocalCluster(ClusterDefinition(groups=(NodeGroup(count=1, cpus=CPUS, sockets=1, gres={}),))) as started:
        yield started


@pytest.fixture
def daemon(cluster: LocalCluster, tmp_path: Path, one_client: ClientChoice) -> Iterator[Daemon]:
    """Give a daemon that shares anew every two seconds, and hears losses."""
    spool = cluster.shared / "spool"
    spool.mkdir()
    spool.chmod(0o1777)
    drop_in = tmp_path / "conf.d" / "slaq.toml"
    drop_in.parent.mkdir()
    drop_in.write_text(
        "[policy.slaq]\nepoch_s = 2.0\nthrottle_cool_down_s = 2.0\n[policy.fitgpp]\nquality = 1.0\n"
        f'[reports]\nspool = "{spool}"\n'
    )
    with running_daemon(cluster, tmp_path, one_client, policy="fitgpp+slaq") as started:
        yield started


def training(cluster: LocalCluster, name: str, array: str) -> int:
    """Submit the example as an elastic array; its tasks work for three seconds each."""
    command = (
        f"export TESCHED_SPOOL={cluster.shared / 'spool'} TASK_SECONDS=3 OPENBLAS_NUM_THREADS=1\n"
        f"exec {sys.executable} {EXAMPLES / 'logistic_regression.py'} {cluster.shared / name}"
    )
    options = (f"--job-name=be-{name}", "--comment=elastic", "--mem=100M", f"--output={cluster.shared}/{name}.out")
    return cluster.sbatch(f"--array={array}", *options, wrap=command)


def throttle(cluster: LocalCluster, array: int) -> int:
    """Return the array's throttle, 0 for none."""
    heads = [one for one in cluster.jobs(array) if one["JobId"] == str(array)]
    return int(heads[0].get("ArrayTaskThrottle", "0"))


def is_done(cluster: LocalCluster, name: str) -> bool:
    """Return whether a training has all its iterations behind it."""
    try:
        with np.load(cluster.shared / name / "state.npz") as state:
            return len(state["losses"]) == 150
    except FileNotFoundError:
        return False


def test_a_training_has_all_workers_until_another_comes_and_both_come_to_their_ends(
    cluster: LocalCluster, daemon: Daemon
) -> None:
    first = training(cluster, "first", "0-99")
    cluster.wait_for(lambda: throttle(cluster, first) == CPUS, "the first one to have all workers")
    second = training(cluster, "second", "0-99%3")
    cluster.wait_for(lambda: 0 < throttle(cluster, second) <= 3, "the second one to have a share")
    cluster.wait_for(lambda: throttle(cluster, first) < CPUS, "the first one to have less")

    def both_are_told() -> bool:
        # In one answer: on a busy machine the training may be done before the next.
        said = " ".join(daemon.ask("explain", str(first)).stdout.split())
        return "it is foretold to fall by" in said and f"of the workers that {CPUS} CPUs hold" in said

    cluster.wait_for(both_are_told, "a forecast, and its workers")
    for name in ("first", "second"):
        cluster.wait_for(partial(is_done, cluster, name), f"the {name} one to be done")


@pytest.mark.gate
def test_throttles_are_put_back_by_undo(cluster: LocalCluster, daemon: Daemon) -> None:
    free = cluster.sbatch("--array=0-99", "--comment=elastic", "--mem=100M", "--job-name=be-a", wrap="sleep 300")
    limited = cluster.sbatch("--array=0-99%5", "--comment=elastic", "--mem=100M", "--job-name=be-b", wrap="sleep 300")
    cluster.wait_for(
        lambda: (throttle(cluster, free), throttle(cluster, limited)) == (CPUS // 2, CPUS // 2), "equal shares"
    )
    daemon.process.terminate()
    daemon.process.wait(timeout=Patience().limit_s)
    undone = run_tesched("undo", TESCHED_CONFIG=str(daemon.config))
    assert undone.returncode == 0, undone.stdout + undone.stderr
    assert (throttle(cluster, free), throttle(cluster, limited)) == (0, 5)


def test_a_trial_preempts_the_training_that_gains_least(cluster: LocalCluster, daemon: Daemon) -> None:
    def alone(name: str, factor: float) -> int:
        script = cluster.shared / f"{name}.py"
        script.write_text(ALONE.format(factor=factor))
        command = f"export TESCHED_SPOOL={cluster.shared / 'spool'}\nexec {sys.executable} {script}"
        options = (f"--job-name=be-{name}", f"--cpus-per-task={CPUS // 2}", "--mem=100M", "--comment=grace=0")
        return cluster.sbatch(*options, "--output=/dev/null", wrap=command)

    def foretold(job_id: int) -> bool:
        return "it is foretold to fall by" in " ".join(daemon.ask("explain", str(job_id)).stdout.split())

    # Of two that are alike FitGpp asks the one with the lower id.
    learning, learned = alone("learning", 0.99), alone("learned", 0.1)
    for job_id in (learning, learned):
        cluster.wait_for(partial(foretold, job_id), "a forecast")
    trial = cluster.sbatch("--job-name=te-1", f"--cpus-per-task={CPUS // 2}", "--mem=100M", wrap="sleep 1")
    cluster.wait_state(trial, "RUNNING", "COMPLETED")
    assert [cluster.job(job_id)["Restarts"] for job_id in (learning, learned)] == ["0", "1"]
