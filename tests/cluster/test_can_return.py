"""Jobs that Slurm would not start again are no victims: one with a deadline, and those whose partition has changed."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import Account, Accounting, ClusterDefinition, NodeGroup, PartitionDefinition, Qos
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import LocalCluster, installed_release
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

WHOLE = ("-c32", "--mem=100", "--output=/dev/null", "--time=60")


@pytest.mark.gate
def test_a_job_that_slurm_would_not_start_again_is_no_victim(
    make_cluster: MakeCluster, tmp_path: Path, client_choice: ClientChoice
) -> None:
    partitions = (
        PartitionDefinition(name="main", default=True),
        PartitionDefinition(name="shorter"),
        PartitionDefinition(name="closed"),
        PartitionDefinition(name="moved"),
    )
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=6, features=("fast",)),), partitions=partitions))

    def best_effort(*options: str) -> int:
        job_id = cluster.sbatch("--job-name=be", *WHOLE, *options, wrap="sleep 1000")
        cluster.wait_state(job_id, "RUNNING")
        return job_id

    stays = {
        best_effort("--deadline=now+2hours"): "--deadline",
        best_effort("--partition=shorter"): "its partition",
        best_effort("--partition=closed"): "its partition",
        best_effort("--partition=moved", "--nodelist=n6"): "its nodes",
        best_effort("--constraint=fast", "--nodelist=n5"): "its nodes",
    }
    ordinary = best_effort()
    cluster.run("scontrol", "update", "partitionname=shorter", "maxtime=30")
    cluster.run("scontrol", "update", "partitionname=closed", "state=down")
    cluster.run("scontrol", "update", "partitionname=moved", "nodes=n1")
    cluster.run("scontrol", "update", "nodename=n[1-6]", "availablefeatures=slow", "activefeatures=slow")
    with running_daemon(cluster, tmp_path, client_choice) as daemon:
        trials = [cluster.sbatch("--job-name=te", *WHOLE, wrap="sleep 1000", user=ordinary_user()) for _ in range(2)]
        started = cluster.wait_for(lambda: [job for job in trials if cluster.state(job) == "RUNNING"], "one to start")
        (waits,) = set(trials) - set(started)
        cluster.wait_for(lambda: "cannot_return" in daemon.ask("explain", str(waits), "--json").stdout, "its answer")
        daemon.await_polls(cluster)
        assert cluster.put_back([*stays, ordinary]) == [ordinary]
        for job_id, why in stays.items():
            assert why in daemon.ask("explain", str(job_id)).stdout, why
    # So it would have been: back in the queue, they would wait for ever.
    for job_id in list(stays)[1:]:
        cluster.run("scontrol", "requeue", str(job_id))
        cluster.wait_for(partial(_is_stuck, cluster, job_id), "it to be stuck")


def test_one_whose_account_or_qos_its_partition_does_not_allow_by_now_is_no_victim(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    user = ordinary_user()
    names = ("main", "any-case", "by-account", "by-qos")
    definition = ClusterDefinition(
        groups=(NodeGroup(count=4),),
        partitions=tuple(PartitionDefinition(name=name, default=name == "main") for name in names),
        accounting=Accounting(
            qos=(Qos(name="high"),),
            accounts=(Account(name="lab", users=("root", user)), Account(name="others")),
        ),
    )
    cluster = make_cluster(definition)
    ids = [
        cluster.sbatch("--job-name=be", *WHOLE, f"--partition={name}", wrap="sleep 1000", user=user) for name in names
    ]
    for job_id in ids:
        cluster.wait_state(job_id, "RUNNING")
    cluster.run("scontrol", "update", "partitionname=any-case", "allowqos=Normal")
    cluster.run("scontrol", "update", "partitionname=by-account", "allowaccounts=others")
    cluster.run("scontrol", "update", "partitionname=by-qos", "allowqos=high")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        for _ in names:
            cluster.sbatch("--job-name=te", *WHOLE, wrap="sleep 1000", user=user)
        # Where `lab` might be a child of `others`, that its partition does not name it says nothing.
        victims = ids[:2] if installed_release() == (22, 5) else ids[:3]
        cluster.wait_for(lambda: sorted(cluster.put_back(ids)) == victims, "the victims")
        daemon.await_polls(cluster)
        assert sorted(cluster.put_back(ids)) == victims
    # Back in the queue these would wait for ever, whatever is free.
    cluster.run("scancel", "--name=te")
    cluster.run("scancel", *map(str, victims))
    for job_id in set(ids) - set(victims):
        cluster.run("scontrol", "requeue", str(job_id))
        cluster.wait_for(partial(_is_stuck, cluster, job_id), "it to be stuck")


def test_a_victim_that_would_not_start_again_by_now_is_shown(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    partitions = (PartitionDefinition(name="main", default=True), PartitionDefinition(name="shorter"))
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),), partitions=partitions))
    victim = cluster.sbatch("--job-name=be", *WHOLE, "--partition=shorter", wrap="sleep 1000")
    cluster.wait_state(victim, "RUNNING")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        trial = cluster.sbatch("--job-name=te", *WHOLE, wrap="sleep 1000", user=ordinary_user())
        cluster.wait_state(trial, "RUNNING")
        assert daemon.json("status")["tally"]["stuck"] == []
        cluster.run("scontrol", "update", "partitionname=shorter", "maxtime=30")
        shown = f"job {victim}: PartitionTimeLimit"
        cluster.wait_for(lambda: daemon.json("status")["tally"]["stuck"] == [shown], "it to be shown")
        assert f"would not start again as things are: {shown}" in daemon.ask("status").stdout
        cluster.run("scontrol", "update", "partitionname=shorter", "maxtime=infinite")
        cluster.wait_for(lambda: daemon.json("status")["tally"]["stuck"] == [], "it to be shown no more")


def _is_stuck(cluster: LocalCluster, job_id: int) -> bool:
    return cluster.job(job_id)["Reason"].startswith(("Partition", "Job's_", "BadConstraints"))
