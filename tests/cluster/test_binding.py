"""A trial waits for the resources that it requested, on a real Slurm: no futile preemption, no other job held up.

A victim saves its work until the test lets it be done (a file), and its grace period is longer than any test.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.load import EventName, LoadJob, await_begun, hold, keep_saving, read_events, submit
from tesched_testcluster.local import LocalCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]


def best_effort(cluster: LocalCluster, name: str, *options: str, gpus: int = 8) -> int:
    """Submit a job that works until it is ended; on its notice it saves its work, and then leaves."""
    comment = "--comment=grace=86400"
    job = LoadJob(name=name, kind="be", cpus=gpus, gpus=gpus, ticks=2, on_notice="exit", options=(comment, *options))
    return submit(cluster, job, cluster.shared)


def trial(cluster: LocalCluster, *, gpus: int = 4) -> int:
    return submit(cluster, LoadJob(name="te-1", kind="te", cpus=gpus, gpus=gpus, ticks=2), cluster.shared)


def hold_all(cluster: LocalCluster) -> Path:
    """Keep all jobs from ending by themselves, and from being done with saving until the returned file is removed."""
    for kind in ("be", "te"):
        hold(cluster.shared, kind)
    return keep_saving(cluster.shared, "be")


def asked(cluster: LocalCluster) -> set[int]:
    """Return the jobs that have had their notice."""
    return {event.job_id for event in read_events(cluster.shared) if event.name is EventName.NOTICE}


def bound_to(cluster: LocalCluster, te: int) -> str:
    """Wait until the trial waits bound; return to which node."""
    cluster.wait_for(lambda: cluster.job(te)["ReqNodeList"] != "(null)", "the trial to be bound")
    assert cluster.state(te) == "PENDING"
    return cluster.job(te)["ReqNodeList"]


def test_nodes_released_elsewhere_go_to_others_and_the_victim_does_not_leave_in_vain(
    tmp_path: Path, client_choice: ClientChoice
) -> None:
    with LocalCluster(ClusterDefinition(groups=(NodeGroup(count=2),))) as cluster:
        saving = hold_all(cluster)
        victim, other = best_effort(cluster, "be-victim"), best_effort(cluster, "be-other", "--no-requeue")
        await_begun(cluster, (victim, other), cluster.shared)
        rival = best_effort(cluster, "be-rival")
        with running_daemon(cluster, tmp_path, client_choice) as daemon:
            te = trial(cluster)
            node = bound_to(cluster, te)
            assert node == cluster.job(victim)["NodeList"]
            cluster.run("scancel", str(other))
            # The node that came free by itself is the next best-effort job's; the trial, which is ahead, lets it go by.
            cluster.wait_state(rival, "RUNNING")
            assert cluster.state(te) == "PENDING"
            saving.unlink()
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
        saving = hold_all(cluster)
        victims = [best_effort(cluster, f"be-{number}") for number in range(2)]
        await_begun(cluster, victims, cluster.shared)
        with running_daemon(cluster, tmp_path, client_choice):
            te = trial(cluster)
            first = bound_to(cluster, te)
            cluster.run("scontrol", "update", f"nodename={first}", "state=drain", "reason=test")
            cluster.wait_for(lambda: cluster.job(te)["ReqNodeList"] != first, "it to be set free")
            saving.unlink()
            cluster.wait_state(te, "RUNNING")
            assert cluster.job(te)["NodeList"] != first


def test_a_job_backfilled_into_the_freed_resources_is_preempted_too(
    tmp_path: Path, client_choice: ClientChoice
) -> None:
    """Nothing in Slurm keeps the free half of a node for a trial that waits for the other half (docs/adr/0011)."""
    # A victim that is back soon could take its half again before the other one leaves (decision 11).
    definition = ClusterDefinition(groups=(NodeGroup(count=1),), cred_expire_s=20, requeue_delay_s=20)
    with LocalCluster(definition) as cluster:
        saving = hold_all(cluster)
        victim = best_effort(cluster, "be-victim", gpus=4)
        await_begun(cluster, [victim], cluster.shared)
        with running_daemon(cluster, tmp_path, client_choice) as daemon:
            te = trial(cluster, gpus=8)
            bound_to(cluster, te)
            # Not before it traps the signal is the thief seen, and given notice.
            daemon.process.send_signal(signal.SIGSTOP)
            thief = best_effort(cluster, "be-thief", gpus=4)
            await_begun(cluster, [thief], cluster.shared)
            daemon.process.send_signal(signal.SIGCONT)
            cluster.wait_for(lambda: asked(cluster) == {victim, thief}, "both to be asked")
            saving.unlink()
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
