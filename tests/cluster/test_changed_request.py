"""A user changes the request of a trial-and-error job while its victim has its notice."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster
from tests.cluster.gate import gated

pytestmark = [pytest.mark.slurm, pytest.mark.release]

#: each fills a node, holds it for its grace period, and ignores its notice
STAYS = ("-c32", "--mem=100", "--output=/dev/null", "--comment=signal=B:USR1 grace=86400")


def fill(cluster: LocalCluster, node: str) -> int:
    job_id = cluster.sbatch(f"--job-name=be-{node}", f"--nodelist={node}", *STAYS, wrap="trap '' USR1; sleep 1000")
    cluster.wait_state(job_id, "RUNNING")
    return job_id


@pytest.mark.parametrize("change", gated(["ExcNodeList", "ReqNodeList"], "ExcNodeList"))
def test_order_ends_when_its_job_may_not_start_on_its_node_any_more(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, change: str
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=2),)))
    victims = {name: fill(cluster, name) for name in cluster.definition.node_names}
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        te = cluster.sbatch(
            "--job-name=te-1", "-c16", "--mem=100", "--output=/dev/null", wrap="sleep 1000", user=ordinary_user()
        )
        cluster.wait_for(lambda: cluster.job(te)["ReqNodeList"] != "(null)", "the trial to be bound")
        node = cluster.job(te)["ReqNodeList"]
        (other,) = set(victims) - {node}
        chosen = node if change == "ExcNodeList" else other
        cluster.run("scontrol", "update", f"JobId={te}", f"{change}={chosen}", user=ordinary_user())
        cluster.wait_for(
            lambda: "asks for other nodes than when the order was made" in daemon.ask("explain", str(te)).stdout,
            "the reason",
        )
        daemon.await_polls(cluster)
        assert {cluster.state(one) for one in victims.values()} == {"RUNNING"}
        # The next order is for the other node, and for its victim.
        cluster.wait_for(
            lambda: f"{other}: {victims[other]}" in daemon.ask("explain", str(te)).stdout, "the next order"
        )
