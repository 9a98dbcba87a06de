"""Two TE jobs, one node, on a real Slurm: the first starts in what the second one's victim has freed.

Its own victim sits its grace period out meanwhile. That gives its half to the second TE job, and no job left in vain.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

HALF = ("-c4", "--mem=1000", "--gres=gpu:4", "--output=/dev/null")
#: the order's time is over long before the grace period is
GUARD = "[guard]\norder_timeout_s = 5\n"
SITS_IT_OUT = "trap : USR1; while :; do sleep 0.2; done"


def trial(cluster: LocalCluster) -> int:
    return cluster.sbatch(*HALF, "--job-name=te", "--time=10", wrap="sleep 1000")


@pytest.mark.gate
def test_the_second_trial_has_what_the_first_ones_victim_gives_up_later(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "guard.toml").write_text(GUARD)
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),)))
    # The trials' own user's goes first.
    saves = cluster.sbatch(*HALF, "--comment=signal=B:USR1 grace=25", wrap=SITS_IT_OUT)
    quick = cluster.sbatch(*HALF, wrap="exec sleep 1000", user=ordinary_user())
    for job in (saves, quick):
        cluster.wait_state(job, "RUNNING")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        first = trial(cluster)
        cluster.wait_for(lambda: daemon.json("orders")["orders"], "the order of the first trial")
        second = trial(cluster)
        cluster.wait_state(first, "RUNNING")
        assert (cluster.put_back([saves, quick]), cluster.state(second)) == ([quick], "PENDING")
        cluster.wait_state(second, "RUNNING")
        assert sorted(cluster.put_back([saves, quick])) == [saves, quick]
        daemon.await_polls(cluster)
        assert daemon.json("status")["tally"]["futile"] == 0
