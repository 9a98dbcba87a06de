"""What an Operator writes into nodes and partitions ends no poll, and costs no other node or partition anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, PartitionDefinition
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.harness.slurm_clients import Connect
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

GIANT = 2**62


def seen_by(connect: Connect, cluster: LocalCluster) -> Snapshot:
    seen = connect(cluster).observer.observe()
    assert isinstance(seen, Snapshot), seen
    return seen


@pytest.mark.gate
def test_a_partition_out_of_bounds_is_named_and_the_others_are_served(
    make_cluster: MakeCluster, tmp_path: Path, client_choice: ClientChoice, connect: Connect
) -> None:
    giant = PartitionDefinition(name="debug", settings={"DefMemPerGPU": str(GIANT)})
    cluster = make_cluster(ClusterDefinition(partitions=(PartitionDefinition(name="main", default=True), giant)))
    partitions = seen_by(connect, cluster).partitions
    assert {name: bool(one.doubt) for name, one in partitions.items()} == {"main": False, "debug": True}
    with running_daemon(cluster, tmp_path, client_choice, "enforce", poll_interval_s=0.2) as daemon:
        victim = cluster.sbatch("-J", "be", "-N8", "--gpus-per-node=8", wrap="exec sleep 1000")
        cluster.wait_state(victim, "RUNNING")
        te = cluster.sbatch("-J", "te", "--gpus=8", "-t", "5", wrap="exec sleep 1")
        cluster.wait_state(te, "RUNNING", "COMPLETED")
        shown = daemon.ask("status").stdout
        assert "partition debug: its record could not be read" in " ".join(shown.split())
        doubts = json.loads(daemon.ask("status", "--json").stdout)["daemon"]["doubts"]
        assert [(label, user) for label, user, _ in doubts] == [("partition debug", "")]


@pytest.mark.gate
def test_no_text_of_an_operators_is_taken_for_slurms_words(cluster: LocalCluster, connect: Connect) -> None:
    before = seen_by(connect, cluster).nodes
    forged = "x State=IDLE+DRAIN CPUTot=1 CPUEfctv=1 RealMemory=1 Gres=gpu:99 Partitions=none"
    words = ("comment", "extra") if cluster.release >= (23, 2) else ("comment",)
    try:
        for word in words:
            cluster.run("scontrol", "update", "nodename=n1", f"{word}={forged}")
            cluster.run("scontrol", "update", "nodename=n2", f"{word}=x\nNodeName=n3 {forged}")
        after = seen_by(connect, cluster).nodes
        assert {name: one for name, one in after.items() if name != "n3"} == {
            name: one for name, one in before.items() if name != "n3"
        }
        # It may seem that there are two of n3: then it is in doubt. It is never what the text says.
        assert after["n3"] == before["n3"] or after["n3"].doubt == "it has two records"
    finally:
        for word in words:
            cluster.run("scontrol", "update", "nodename=n[1-2]", f"{word}=")


@pytest.mark.gate
def test_a_nodes_reason_is_bounded(cluster: LocalCluster, connect: Connect) -> None:
    try:
        cluster.run("scontrol", "update", "nodename=n1", "state=drain", f"reason={'r' * 100_000} State=IDLE")
        node = seen_by(connect, cluster).nodes["n1"]
        assert (len(node.reason), node.doubt, node.available) == (1024, "", False)
    finally:
        cluster.run("scontrol", "update", "nodename=n1", "state=resume")
