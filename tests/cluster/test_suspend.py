"""Victims that are suspended, on a real Slurm: they lose nothing, and none stays suspended for ever.

Everywhere: one node of 32 CPUs and 8 GPUs, all CPUs held by one best-effort job that uses no GPU; a trial wants half of
them; the site has `guard.lever = "auto"`. No job ends before its test lets it: jobs are held by files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import (
    Daemon,
    crashing_daemon,
    run_tesched,
    running_daemon,
    until_killed,
    write_config,
)
from tesched_testcluster.load import HOLD, EventName, LoadJob, hold, read_events, submit
from tesched_testcluster.local import LocalCluster

from tests.cluster.gate import gated

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def one_node() -> Iterator[LocalCluster]:
    """Give the node that these tests share."""
    with LocalCluster(ClusterDefinition(groups=(NodeGroup(count=1),))) as cluster:
        yield cluster


@pytest.fixture
def node(one_node: LocalCluster, tmp_path: Path) -> LocalCluster:
    """Give it idle, have the site say that victims may be suspended, and hold the jobs of both kinds."""
    one_node.reset()
    for kind in ("be", "te"):
        hold(one_node.shared, kind)
    folder = tmp_path / "conf.d"
    folder.mkdir()
    (folder / "lever.toml").write_text('[guard]\nlever = "auto"\n')
    return one_node


def best_effort(cluster: LocalCluster, *, gpus: int = 0) -> int:
    """Submit a job that takes the node's CPUs, an ordinary script; wait until it works."""
    job = LoadJob(name="be-1", kind="be", cpus=32, gpus=gpus, ticks=5, mem_mib=1000)
    job_id = submit(cluster, job, cluster.shared)
    cluster.wait_state(job_id, "RUNNING")
    cluster.wait_for(lambda: events(cluster, job_id)[EventName.START] == 1, "its first line")
    return job_id


def trial(cluster: LocalCluster, *, gpus: int = 0) -> int:
    """Submit a trial that wants half of the CPUs."""
    return submit(cluster, LoadJob(name="te-1", kind="te", cpus=16, gpus=gpus, ticks=5), cluster.shared)


def let_end(cluster: LocalCluster, kind: str) -> None:
    """Hold the jobs of a kind no longer."""
    (cluster.shared / HOLD.format(kind=kind)).unlink()


def events(cluster: LocalCluster, job_id: int) -> Counter[EventName]:
    return Counter(event.name for event in read_events(cluster.shared) if event.job_id == job_id)


def known(daemon: Daemon) -> set[tuple[int, str]]:
    return {(job["job_id"], job["state"]) for job in daemon.json("jobs")["jobs"]}


def cycle(daemon: Daemon) -> int:
    """Return the number of the daemon's last cycle."""
    number: int = daemon.json("status")["daemon"]["cycle"]
    return number


def lost_nothing(cluster: LocalCluster, victim: int) -> None:
    """Let the victim go on; assert that it runs to its end in its first run, without a word to it at any time."""
    cluster.wait_state(victim, "RUNNING")
    let_end(cluster, "be")
    cluster.wait_state(victim, "COMPLETED")
    assert events(cluster, victim) == {EventName.START: 1, EventName.DONE: 1}
    assert (cluster.job(victim)["Restarts"], cluster.job(victim)["Nice"]) == ("0", "0")


def settled(cluster: LocalCluster, daemon: Daemon) -> None:
    cluster.wait_for(lambda: not daemon.json("status")["orders"], "the order to end")


@pytest.mark.release
@pytest.mark.gate
def test_a_job_that_holds_cpus_alone_is_suspended_and_goes_on(
    node: LocalCluster, tmp_path: Path, client_choice: ClientChoice
) -> None:
    # If a grace period were waited for, the trial would not run before the wait for it is over.
    (tmp_path / "conf.d" / "grace.toml").write_text("[classes]\ndefault_grace_period_s = 86400\n")
    with running_daemon(node, tmp_path, client_choice) as daemon:
        victim = best_effort(node)
        node.wait_for(lambda: (victim, "RUNNING") in known(daemon), "the daemon's look")
        te = trial(node)
        node.wait_state(te, "RUNNING")
        assert node.state(victim) == "SUSPENDED"
        explained = daemon.ask("explain", str(victim)).stdout
        assert "suspended" in explained
        let_end(node, "te")
        node.wait_state(te, "COMPLETED")
        node.wait_state(victim, "RUNNING")
        settled(node, daemon)
        (order,) = daemon.json("orders")["orders"]
        assert [one["state"] for one in order["order"]["victims"]] == ["back"]
        assert daemon.json("status")["tally"]["lost_node_s"] == 0
        lost_nothing(node, victim)


@pytest.mark.release
def test_a_job_that_holds_a_gpu_is_requeued(node: LocalCluster, tmp_path: Path, client_choice: ClientChoice) -> None:
    with running_daemon(node, tmp_path, client_choice) as daemon:
        victim = best_effort(node, gpus=8)
        te = trial(node, gpus=4)
        node.wait_state(te, "RUNNING")
        assert node.state(victim) == "PENDING"
        assert node.job(victim)["Restarts"] == "1"
        for kind in ("te", "be"):
            let_end(node, kind)
        node.wait_state(victim, "COMPLETED")
        settled(node, daemon)


@pytest.mark.release
@pytest.mark.gate
def test_it_does_not_go_on_while_others_have_its_cpus(
    node: LocalCluster, tmp_path: Path, client_choice: ClientChoice
) -> None:
    with running_daemon(node, tmp_path, client_choice) as daemon:
        victim = best_effort(node)
        te = trial(node)
        node.wait_state(te, "RUNNING")
        # It has come later, and Slurm starts it on what the victim left over.
        other = submit(node, LoadJob(name="be-2", kind="be", cpus=8, ticks=5), node.shared)
        node.wait_state(other, "RUNNING")
        node.run("scancel", str(te))
        node.wait_state(te, "CANCELLED")
        before = cycle(daemon)
        node.wait_for(lambda: cycle(daemon) >= before + 4, "some cycles without the trial")
        assert node.state(victim) == "SUSPENDED"
        node.run("scancel", str(other))
        node.wait_state(victim, "RUNNING")
        lost_nothing(node, victim)
        # What Slurm says of a job that goes on where others are: it counts it as holding nothing from then on.
        assert "job overflow" not in (node.folder / "log" / "slurmctld.log").read_text()
        settled(node, daemon)


def crash(cluster: LocalCluster, config: Path, before_step: int) -> tuple[int, int]:
    """Run a daemon that dies before this step; return victim and trial.

    The order: (1) the intent, (2) the trial's raise, (3) its nodes, (4) the suspension, (5) the conclusion; (6 to 8)
    the same of its nice value that is put back when it runs; (9 to 11) the same of the resumption when it has ended,
    which it does not before step 9.
    """
    victim, te = best_effort(cluster), trial(cluster)
    with crashing_daemon(config, before_step) as daemon:
        if before_step >= 9:
            cluster.wait_state(te, "RUNNING")
            # Of a job that has ended Slurm lets nothing be changed.
            cluster.wait_for(lambda: cluster.job(te)["Nice"] == "0", "the trial's nice value to be put back")
            let_end(cluster, "te")
        until_killed(cluster, daemon)
    return victim, te


def end_trial(cluster: LocalCluster, te: int, step: int) -> None:
    """Wait until the trial runs, unless it ended before the crash, and let it end."""
    if step < 9:
        cluster.wait_state(te, "RUNNING")
        let_end(cluster, "te")
    cluster.wait_state(te, "COMPLETED")


@pytest.mark.parametrize("step", [2, 4, 5, 6, 7, 9, 10, 11])
def test_after_a_kill_a_new_daemon_resumes(node: LocalCluster, tmp_path: Path, step: int) -> None:
    config = write_config(node, tmp_path, ClientChoice.COMMANDS)
    victim, te = crash(node, config, step)
    if step in {5, 6, 7, 9, 10}:
        assert node.state(victim) == "SUSPENDED", "else this tests nothing"
    with running_daemon(node, tmp_path, ClientChoice.COMMANDS) as daemon:
        end_trial(node, te, step)
        lost_nothing(node, victim)
        settled(node, daemon)


@pytest.mark.parametrize("step", gated([4, 5, 6, 9, 10], 6))
def test_after_a_kill_undo_resumes(node: LocalCluster, tmp_path: Path, step: int) -> None:
    config = write_config(node, tmp_path, ClientChoice.COMMANDS)
    victim, te = crash(node, config, step)
    if step > 4:
        end_trial(node, te, step)
    said = run_tesched("undo", TESCHED_CONFIG=str(config))
    assert (said.returncode, said.stderr) == (0, ""), said.stdout
    assert said.stdout.rstrip().endswith("nothing is left that tesched has changed")
    assert node.state(victim) == "RUNNING"
    lost_nothing(node, victim)


def test_undo_leaves_it_suspended_while_the_trial_has_its_cpus_and_says_so(node: LocalCluster, tmp_path: Path) -> None:
    config = write_config(node, tmp_path, ClientChoice.COMMANDS)
    with running_daemon(node, tmp_path, ClientChoice.COMMANDS):
        victim = best_effort(node)
        te = trial(node)
        node.wait_state(te, "RUNNING")
    said = run_tesched("undo", TESCHED_CONFIG=str(config))
    assert said.returncode == 1
    assert f"job {victim} is suspended, and others have its CPUs" in said.stdout
    assert node.state(victim) == "SUSPENDED"
    node.run("scancel", str(te))
    node.wait_state(te, "CANCELLED")
    said = run_tesched("undo", TESCHED_CONFIG=str(config))
    assert (said.returncode, said.stderr) == (0, ""), said.stdout
    lost_nothing(node, victim)
