"""The main job with the scheduler of a large site: defer, bf_continue, passes 5 s apart, preempt/partition_prio.

A requeued job is not eligible for two minutes here, so this takes some four.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import large_site_definition
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.load import HOLD, EventName, LoadJob, read_events, submit
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

NODES = 3
LAB = ("--account=lab",)


def done(cluster: LocalCluster) -> Counter[int]:
    """Return how often each job has run to its end. slurmctld forgets a job in 50 s."""
    return Counter(event.job_id for event in read_events(cluster.shared) if event.name is EventName.DONE)


def test_a_full_cluster_frees_resources_and_each_job_ends_once(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(large_site_definition(NODES))
    config = cluster.run("scontrol", "show", "config").stdout
    for word in ("bf_continue", "defer", "preempt/partition_prio", "preempt_send_user_signal", "priority/multifactor"):
        assert word in config, word
    # No job's end frees resources before the test lets it.
    holds = [cluster.shared / HOLD.format(kind=kind) for kind in ("be", "te")]
    for hold in holds:
        hold.touch()
    ordinary = [
        submit(cluster, LoadJob(name=f"be-{number}", kind="be", cpus=8, gpus=8, ticks=20, options=LAB), cluster.shared)
        for number in range(NODES + 1)
    ]
    for job_id in ordinary[:NODES]:
        cluster.wait_state(job_id, "RUNNING")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        trials = [
            submit(cluster, LoadJob(name=f"te-{number}", kind="te", gpus=8, ticks=10, options=LAB), cluster.shared)
            for number in range(2)
        ]
        for job_id in trials:
            cluster.wait_state(job_id, "RUNNING")
        daemon.await_polls(cluster)
        cluster.wait_for(lambda: {cluster.job(one)["Nice"] for one in trials} == {"0"}, "their nice to be put back")
        for hold in holds:
            hold.unlink()
        cluster.wait_for(lambda: len(done(cluster)) == len((*trials, *ordinary)), "each job's end")
        cluster.wait_for(lambda: not daemon.json("status")["orders"], "the orders to end")
        tally = daemon.json("status")["tally"]
        assert (tally["lost"], tally["futile"]) == (0, 0)
    put_back = cluster.put_back()
    assert len(put_back) == len(set(put_back)) == len(trials), "one victim for each, and none twice"
    assert set(put_back) <= set(ordinary)
    assert done(cluster) == Counter((*trials, *ordinary)), "each ran to its end once"
