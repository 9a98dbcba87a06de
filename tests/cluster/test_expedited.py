"""Slurm's expedited requeue (sbatch --requeue=expedite, since 25.11), which holds a job that fails."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]


def test_a_victim_that_fails_of_its_notice_runs_again_on_a_site_that_holds_such_jobs(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    settings = {"SlurmctldParameters": "enable_expedited_requeue"}
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),), settings=settings))
    # Before 25.11 there is no such requeue, and the same must come of a plain one.
    whole = ("--exclusive", "--mem=100", "--output=/dev/null")
    expedite = "--requeue=expedite" if cluster.release >= (25, 11) else "--requeue"
    saves = "[ -n \"$SLURM_RESTART_COUNT\" ] && exit 0; trap 'exit 1' USR1; sleep 1000 & wait"
    victim = cluster.sbatch("-J", "be", expedite, "--comment=signal=B:USR1", *whole, wrap=saves)
    cluster.wait_state(victim, "RUNNING")
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.5) as daemon:
        te = cluster.sbatch("-J", "te", *whole, wrap="exec sleep 1", user=ordinary_user())
        cluster.wait_state(te, "COMPLETED")
        cluster.wait_state(victim, "COMPLETED")
        assert int(cluster.job(victim)["Restarts"]) == 1
        assert daemon.json("status")["tally"]["lost"] == 0
