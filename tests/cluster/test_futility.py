"""No victim leaves for nothing on a real Slurm, and none of what tesched finds is changed for good."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.load import LoadJob, submit
from tesched_testcluster.local import LocalCluster

pytestmark = pytest.mark.slurm


def best_effort(cluster: LocalCluster, name: str, *options: str) -> int:
    """Submit a job that takes a node until it is ended."""
    job = LoadJob(name=name, kind="be", cpus=8, gpus=8, ticks=3000, options=options)
    return submit(cluster, job, cluster.shared)


def trial(cluster: LocalCluster, *options: str, gpus: int = 4) -> int:
    job = LoadJob(name="te-1", kind="te", cpus=2, gpus=gpus, ticks=3000, options=options)
    return submit(cluster, job, cluster.shared)


def test_what_slurm_says_only_at_the_head_of_the_queue_costs_no_victim(
    tmp_path: Path, one_client: ClientChoice
) -> None:
    """A licence is such a reason: behind another job Slurm says Priority. Limits of users and QOS are others."""
    definition = ClusterDefinition(groups=(NodeGroup(count=2),), settings={"Licenses": "soft:1"})
    with LocalCluster(definition) as cluster:
        with_licence = best_effort(cluster, "be-1", "--licenses=soft:1", "--no-requeue")
        victim = best_effort(cluster, "be-2")
        for job_id in (with_licence, victim):
            cluster.wait_state(job_id, "RUNNING")
        best_effort(cluster, "be-3")
        te = trial(cluster, "--licenses=soft:1")
        cluster.wait_for(lambda: cluster.job(te)["Reason"] == "Priority", "Slurm to see it behind the other one")
        with running_daemon(cluster, tmp_path, one_client) as daemon:
            cluster.wait_for(lambda: cluster.job(te)["Reason"] == "Licenses", "Slurm to look at it")
            nice = cluster.job(te)["Nice"]
            daemon.await_polls(cluster, 20)
            assert cluster.put_back() == []
            assert cluster.state(victim) == "RUNNING"
            assert cluster.job(te)["Nice"] == nice != "0", "it stays at the head, and is raised once"
            cluster.run("scancel", str(with_licence))
            cluster.wait_state(te, "RUNNING")
            cluster.wait_for(lambda: cluster.job(te)["Nice"] == "0", "its nice value to be put back")


@pytest.mark.gate
def test_a_running_job_that_was_held_stays_held_after_its_requeue(tmp_path: Path, one_client: ClientChoice) -> None:
    with LocalCluster(ClusterDefinition(groups=(NodeGroup(count=1),))) as cluster:
        victim = best_effort(cluster, "be-1")
        cluster.wait_state(victim, "RUNNING")
        cluster.run("scontrol", "hold", str(victim))
        with running_daemon(cluster, tmp_path, one_client) as daemon:
            te = trial(cluster)
            cluster.wait_state(te, "RUNNING")
            cluster.run("scancel", str(te))
            daemon.await_polls(cluster, 16)
            held = cluster.job(victim)
            assert (held["JobState"], held["Priority"]) == ("PENDING", "0")
            # Its order is followed until the job runs again; a person's release is all that it waits for.
            cluster.run("scontrol", "release", str(victim))
            cluster.wait_state(victim, "RUNNING")


def test_all_tasks_of_an_array_that_start_together_get_their_nice_value_back(
    tmp_path: Path, one_client: ClientChoice
) -> None:
    with LocalCluster(ClusterDefinition(groups=(NodeGroup(count=1),))) as cluster:
        victim = best_effort(cluster, "be-1")
        cluster.wait_state(victim, "RUNNING")
        rival = best_effort(cluster, "be-2")
        with running_daemon(cluster, tmp_path, one_client):
            te = trial(cluster, "--array=0-3", gpus=2)

            def running() -> list[str]:
                names = [f"{te}_{task}" for task in range(4)]
                return [name for name in names if cluster.job(name)["JobState"] == "RUNNING"]

            cluster.wait_for(lambda: len(running()) == 4, "all tasks to run")
            cluster.wait_for(lambda: {cluster.job(name)["Nice"] for name in running()} == {"0"}, "their nice values")
            cluster.run("scancel", str(te), str(rival))


@pytest.mark.gate
def test_a_job_of_another_partition_over_the_same_nodes_does_not_take_the_freed_resources(
    tmp_path: Path, one_client: ClientChoice
) -> None:
    definition = ClusterDefinition(
        groups=(NodeGroup(count=2),),
        partitions=(PartitionDefinition(name="be", default=True), PartitionDefinition(name="te")),
    )
    with LocalCluster(definition) as cluster:
        for name in ("be-1", "be-2"):
            cluster.wait_state(best_effort(cluster, name), "RUNNING")
        best_effort(cluster, "be-3")
        with running_daemon(cluster, tmp_path, one_client) as daemon:
            te = trial(cluster, "--partition=te", gpus=8)
            cluster.wait_state(te, "RUNNING")
            daemon.await_polls(cluster, 4)
            assert len(cluster.put_back()) == 1
            assert daemon.json("status")["tally"]["futile"] == 0
