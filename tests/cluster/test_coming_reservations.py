"""A maintenance that comes on a real Slurm: who is a victim before it, and which nodes a TE job is given."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.load import LoadJob, await_begun, hold, submit
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

WHOLE = ("-c32", "--mem=100", "--output=/dev/null")


def best_effort(cluster: LocalCluster, name: str, *options: str) -> int:
    """Submit a job that fills this node, and wait until it runs."""
    job_id = cluster.sbatch("--job-name=be", *WHOLE, f"--nodelist={name}", *options, wrap="sleep 1000")
    cluster.wait_state(job_id, "RUNNING")
    return job_id


def trial(cluster: LocalCluster, *options: str) -> int:
    return cluster.sbatch("--job-name=te", *WHOLE, "--time=5", *options, wrap="sleep 1000", user=ordinary_user())


def test_of_two_jobs_the_one_that_starts_again_before_the_maintenance_leaves(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=2),)))
    # both are as good as victims but for their time limits
    endless, short = best_effort(cluster, "n1"), best_effort(cluster, "n2", "--time=60")
    cluster.create_reservation("works", nodes="ALL", start="now+2days", flags="maint,ignore_jobs")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        te = trial(cluster)
        cluster.wait_state(te, "RUNNING")
        assert cluster.put_back([endless, short]) == [short]
        assert "end of reservation works" in daemon.ask("explain", str(te), "--json").stdout
        assert "has all nodes of the partition main" in daemon.ask("doctor").stdout
        cluster.run("scancel", str(te))
        cluster.wait_state(short, "RUNNING")
    # So it would have been: on an idle node it waits for the end of the maintenance.
    cluster.run("scontrol", "requeue", str(endless))
    cluster.wait_for(lambda: "Reserved_for_maintenance" in cluster.job(endless)["Reason"], "it to wait for that")


def test_a_node_that_the_slowest_victim_would_not_meet_is_left_for_another(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=3),)))
    hold(cluster.shared, "be")

    def saves_for(grace_s: int, name: str) -> int:
        options = f"--comment=grace={grace_s}", f"--nodelist={name}", "--time=20"  # it could start again before
        return submit(
            cluster,
            LoadJob(name="be", kind="be", cpus=8, gpus=8, ticks=2, on_notice="exit", options=options),
            cluster.shared,
        )

    quick, *slow = jobs = [saves_for(1, "n1"), saves_for(600, "n2"), saves_for(600, "n3")]
    await_begun(cluster, jobs, cluster.shared)
    # n1 has to be free within 5 minutes: with its job alone it would be, and not with either of the others
    cluster.create_reservation("works", nodes="n1", start="now+65minutes", flags="maint,ignore_jobs")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        te = cluster.sbatch("--job-name=te", "-N2", "--gpus-per-node=8", "--time=60", wrap="sleep 1000")
        cluster.wait_state(te, "RUNNING")
        assert cluster.job(te)["NodeList"] == "n[2-3]"
        assert cluster.put_back(jobs) == slow
        assert daemon.json("status")["tally"]["futile"] == 0
    assert cluster.state(quick) == "RUNNING"
