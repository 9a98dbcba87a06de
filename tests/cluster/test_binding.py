"""A trial waits for the resources that it asked for, on a real Slurm: no futile preemption, no other job held up."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.load import LoadJob, submit
from tesched_testcluster.local import LocalCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]


def best_effort(cluster: LocalCluster, name: str, *options: str) -> int:
    """Submit a job that takes a node until it is ended; it saves for 6 s on its notice, and then leaves."""
    job = LoadJob(name=name, kind="be", cpus=8, gpus=8, ticks=1200, on_notice="exit", checkpoint_s=6.0, options=options)
    return submit(cluster, job, cluster.shared)


def trial(cluster: LocalCluster) -> int:
    return submit(cluster, LoadJob(name="te-1", kind="te", cpus=4, gpus=4, ticks=600), cluster.shared)


def bound_to(cluster: LocalCluster, te: int) -> str:
    """Wait until the trial waits bound; return to which node."""
    cluster.wait_for(lambda: cluster.job(te)["ReqNodeList"] != "(null)", "the trial to be bound")
    assert cluster.state(te) == "PENDING"
    return cluster.job(te)["ReqNodeList"]


def test_room_that_comes_free_elsewhere_goes_to_others_and_the_victim_does_not_leave_in_vain(
    tmp_path: Path, client_choice: ClientChoice
) -> None:
    with LocalCluster(ClusterDefinition(groups=(NodeGroup(count=2),))) as cluster:
        victim, other = best_effort(cluster, "be-victim"), best_effort(cluster, "be-other", "--no-requeue")
        for job_id in (victim, other):
            cluster.wait_state(job_id, "RUNNING")
        rival = best_effort(cluster, "be-rival")
        with running_daemon(cluster, tmp_path, client_choice) as daemon:
            te = trial(cluster)
            node = bound_to(cluster, te)
            assert node == cluster.job(victim)["NodeList"]
            cluster.run("scancel", str(other))
            # The node that came free by itself is the next best-effort job's; the trial, which is ahead, lets it go by.
            cluster.wait_state(rival, "RUNNING")
            cluster.wait_state(te, "RUNNING")
            assert cluster.job(te)["NodeList"] == node
            cluster.wait_for(lambda: not _raised(cluster, te), "its nice value to be put back")
            assert daemon.json("status")["tally"]["futile"] == 0

            # Put back in the queue later (its node failed, say), it may start anywhere.
            cluster.run("scontrol", "requeuehold", str(te))
            cluster.wait_for(lambda: cluster.job(te)["ReqNodeList"] == "(null)", "it to be set free")
            cluster.run("scancel", str(te))


def test_a_node_that_is_drained_sets_the_trial_free(tmp_path: Path, client_choice: ClientChoice) -> None:
    with LocalCluster(ClusterDefinition(groups=(NodeGroup(count=2),))) as cluster:
        victims = [best_effort(cluster, f"be-{number}") for number in range(2)]
        for job_id in victims:
            cluster.wait_state(job_id, "RUNNING")
        with running_daemon(cluster, tmp_path, client_choice):
            te = trial(cluster)
            first = bound_to(cluster, te)
            cluster.run("scontrol", "update", f"nodename={first}", "state=drain", "reason=test")
            cluster.wait_state(te, "RUNNING")
            assert cluster.job(te)["NodeList"] != first


def test_who_is_backfilled_into_the_room_is_asked_too(tmp_path: Path, client_choice: ClientChoice) -> None:
    """Nothing in Slurm keeps the free half of a node for a trial that waits for the other half (docs/adr/0011)."""

    def half(name: str) -> int:
        job = LoadJob(name=name, kind="be", cpus=4, gpus=4, ticks=1200, on_notice="exit", checkpoint_s=6.0)
        return submit(cluster, job, cluster.shared)

    # A victim that is back after a second could take its half again before the other one leaves (decision 11).
    with LocalCluster(ClusterDefinition(groups=(NodeGroup(count=1),), requeue_delay_s=20)) as cluster:
        victim = half("be-victim")
        cluster.wait_state(victim, "RUNNING")
        with running_daemon(cluster, tmp_path, client_choice) as daemon:
            te = submit(cluster, LoadJob(name="te-1", kind="te", cpus=8, gpus=8, ticks=600), cluster.shared)
            bound_to(cluster, te)
            thief = half("be-thief")
            cluster.wait_state(te, "RUNNING")
            (story,) = daemon.json("orders")["orders"]
            assert {one["job_id"] for one in story["order"]["victims"]} == {victim, thief}
            cluster.wait_for(lambda: not _raised(cluster, te), "its nice value to be put back")
            cluster.run("scancel", str(te))
            # The order ends when both run again.
            tally = cluster.wait_for(lambda: _ended(daemon.json("status")["tally"]), "the order to end")
            assert tally is not None
            assert (tally["victims_left"], tally["futile"]) == (2, 0)


def _ended(tally: dict[str, int]) -> dict[str, int] | None:
    return tally if tally["orders"] else None


def _raised(cluster: LocalCluster, job_id: int) -> bool:
    return cluster.job(job_id)["Nice"] != "0"
