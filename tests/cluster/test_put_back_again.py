"""A slurmctld that is killed right after the daemon put a raise back: its successor has the raise again."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

ONE_NODE = ClusterDefinition(groups=(NodeGroup(count=1),))
WHOLE = ("--exclusive", "-N1")
#: of the daemon's log
PUT_BACK, IS_BACK = "put its nice back", "its nice is put back"


def test_a_raise_that_comes_back_with_slurmctlds_older_state_is_put_back_again(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(ONE_NODE)
    victim = cluster.sbatch(*WHOLE, "--time=1-0", "--comment=grace=86400", wrap="trap '' TERM; sleep 1000 & wait; wait")
    cluster.wait_state(victim, "RUNNING")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        trial = cluster.sbatch(*WHOLE, "--job-name=te", "--time=10", wrap="sleep 1000")
        cluster.wait_for(lambda: nice(cluster, trial) < 0, "the raise")
        with_raise = cluster.written_state(victim)
        cluster.run("scancel", "-f", "-s", "KILL", str(victim))
        cluster.wait_for(lambda: IS_BACK in daemon.log.read_text(), "the daemon to have seen the nice value put back")
        before = daemon.log.read_text().count(PUT_BACK)
        cluster.kill_slurmctld(with_raise)
        cluster.start_slurmctld()
        cluster.wait_for(lambda: daemon.log.read_text().count(PUT_BACK) > before, "the raise to be put back again")
        cluster.wait_for(lambda: nice(cluster, trial) == 0, "its own nice value again")
        daemon.await_polls(cluster)
        assert nice(cluster, trial) == 0


def nice(cluster: LocalCluster, job: int) -> int:
    """Return the nice value that Slurm shows."""
    return int(cluster.job(job)["Nice"])
