"""PD-ORS's plans on a real Slurm: a job waits for nodes of one rack, gives way to a trial, and nothing stays held."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import Daemon, run_tesched, running_daemon
from tesched_testcluster.load import LoadJob, submit
from tesched_testcluster.local import LocalCluster

pytestmark = pytest.mark.slurm

#: ten times slower across racks than in one
WORKLOAD = """
[policy]
be = "pdors"
[policy.pdors]
slot_s = 2.0
slots = 60
[[policy.pdors.workloads]]
name = "net"
samples = 1000
sample_s = 0.02
batch = 10
gradient_mb = 10
rack_mb_per_s = 1000
far_mb_per_s = 10
"""


def two_racks() -> ClusterDefinition:
    """Return racks r1, of n1 and n2, and r2, of n3 and n4; each node has one GPU."""
    return ClusterDefinition(groups=(NodeGroup(count=4, gres={"gpu": 1}),), racks={"r1": "n[1-2]", "r2": "n[3-4]"})


def training(cluster: LocalCluster, name: str, *options: str, comment: str = "workload=net") -> int:
    job = LoadJob(name=name, kind="be", gpus=1, ticks=36_000, options=(f"--comment={comment}", *options))
    return submit(cluster, job, cluster.shared)


@contextmanager
def pdors(cluster: LocalCluster, folder: Path, client: ClientChoice) -> Iterator[Daemon]:
    """Run a daemon that plans in slots of 2 s."""
    drop_in = folder / "conf.d" / "pdors.toml"
    drop_in.parent.mkdir()
    drop_in.write_text(WORKLOAD)
    with running_daemon(cluster, folder, client) as daemon:
        yield daemon


@pytest.mark.gate
def test_a_job_waits_for_a_rack_and_gets_its_number_of_nodes_there(tmp_path: Path, one_client: ClientChoice) -> None:
    with LocalCluster(two_racks()) as cluster:
        fillers = {
            node: training(cluster, f"be-{node}", f"--nodelist={node}", comment=f"run={3600 if node == 'n1' else 10}")
            for node in ("n1", "n2", "n3", "n4")
        }
        for job_id in fillers.values():
            cluster.wait_state(job_id, "RUNNING")
        job_id = training(cluster, "be-wide", "--nodes=1-2")
        # It wants all nodes, and n1 is taken: it stays held.
        late = training(cluster, "be-late", "--nodes=4")
        with pdors(cluster, tmp_path, one_client) as daemon:
            cluster.wait_for(lambda: f"hold job {job_id}: sent" in daemon.log.read_text(), "it to be held")
            for node in ("n2", "n3"):
                cluster.run("scancel", str(fillers[node]))
            cluster.wait_state(fillers["n3"], "CANCELLED")
            # Two nodes are free, and each is in another rack. Two whole polls have seen that.
            daemon.await_polls(cluster, 3)
            assert cluster.state(job_id) == "PENDING"
            said = daemon.ask("explain", str(job_id)).stdout
            assert "2 nodes in rack r2" in said
            assert "next best" in said
            cluster.run("scancel", str(fillers["n4"]))
            cluster.wait_state(job_id, "RUNNING")
            assert (cluster.job(job_id)["NodeList"], cluster.job(job_id)["NumNodes"]) == ("n[3-4]", "2")
            config = daemon.config
        undo = run_tesched("undo", TESCHED_CONFIG=str(config))
        assert undo.returncode == 0, undo.stdout + undo.stderr
        fields = cluster.job(late)
        assert (fields["JobState"], fields["Priority"] == "0") == ("PENDING", False)
        assert cluster.job(job_id)["Nice"] == "0"


def test_a_trial_comes_first_and_its_victim_is_planned_anew(tmp_path: Path, one_client: ClientChoice) -> None:
    with LocalCluster(two_racks()) as cluster, pdors(cluster, tmp_path, one_client) as daemon:
        trainings = [training(cluster, f"be-{number}", "--nodes=2") for number in range(2)]
        for job_id in trainings:
            cluster.wait_state(job_id, "RUNNING")
        assert {cluster.job(job_id)["NodeList"] for job_id in trainings} == {"n[1-2]", "n[3-4]"}
        trial = submit(cluster, LoadJob(name="te-1", kind="te", gpus=1, ticks=20), cluster.shared)
        cluster.wait_state(trial, "COMPLETED")
        victim = next(job_id for job_id in trainings if cluster.job(job_id)["Restarts"] == "1")
        cluster.wait_for(lambda: "preempted" in daemon.ask("explain", str(victim)).stdout, "it to be planned anew")
        cluster.wait_for(lambda: all(cluster.state(job_id) == "RUNNING" for job_id in trainings), "both to run")
