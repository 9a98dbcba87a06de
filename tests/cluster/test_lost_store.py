"""A daemon in mode enforce on a real cluster loses its store: no job is notified, until the store is back."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import LocalCluster

pytestmark = pytest.mark.slurm


@pytest.mark.gate
def test_a_daemon_without_its_store_asks_no_job_to_yield(cluster: LocalCluster, tmp_path: Path) -> None:
    store, away = tmp_path / "tesched.sqlite", tmp_path / "away.sqlite"
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS) as daemon:
        victim = cluster.sbatch("-J", "be", "-N", "8", "--exclusive", "--requeue", wrap="sleep 300")
        cluster.wait_state(victim, "RUNNING")
        cluster.wait_for(lambda: daemon.json("jobs")["jobs"], "the daemon to see the job")
        store.rename(away)
        trial = cluster.sbatch("-J", "te", "-N", "8", "--exclusive", "-t", "1", wrap="true")
        cluster.wait_for(lambda: "No such file or directory" in daemon.log.read_text(), "the daemon to notice")
        reasons = {"Resources", "Priority"}
        cluster.wait_for(lambda: cluster.job(trial)["Reason"] in reasons, "Slurm to look at the trial")
        # Missing, for every command, and none of them makes one.
        assert daemon.ask("status").returncode == 2
        assert daemon.ask("pause").returncode == 2
        assert not store.exists()
        assert cluster.job(victim)["Restarts"] == "0"
        assert cluster.job(trial)["Nice"] == "0"
        assert "requeue job" not in daemon.log.read_text()
        away.rename(store)
        cluster.wait_state(trial, "RUNNING", "COMPLETED")
    assert daemon.ask("status").returncode == 3
    assert "stopped at" in daemon.ask("status").stdout
