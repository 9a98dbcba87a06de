"""A daemon that is restarted in mode shadow puts back what was changed: slurmctld was away, or a victim was there."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import TESCHED, run_tesched, running_daemon, write_config
from tesched_testcluster.patience import HANG_S

from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm


@pytest.mark.gate
def test_changes_are_put_back_though_slurmctld_was_down_at_the_restart_in_shadow(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),)))
    whole = ("--exclusive", "-N1")
    stays = "trap '' USR1; sleep 1000"
    victim = cluster.sbatch("--requeue", "-Jbe", "--comment=grace=3000;signal=B:USR1", *whole, wrap=stays)
    cluster.wait_state(victim, "RUNNING")
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS) as first:
        trial = cluster.sbatch("-Jte", *whole, wrap="sleep 1000")
        cluster.wait_for(lambda: f"notify job {victim}: sent" in first.log.read_text(), "the notice")
    nice = cluster.job(trial)["Nice"]
    assert nice != "0", "it was not to be put back at the end of the daemon"
    cluster.stop_slurmctld()
    config = write_config(cluster, tmp_path, ClientChoice.COMMANDS, mode="shadow")
    log = tmp_path / "second.log"
    with log.open("wb") as out:
        second = subprocess.Popen([str(TESCHED), "daemon", "--config", str(config)], stdout=out, stderr=out)
    try:

        def status() -> dict[str, str]:
            shown = run_tesched("status", "--json", TESCHED_CONFIG=str(config)).stdout
            return dict(json.loads(shown)["daemon"])

        cluster.wait_for(lambda: status()["mode"] == "shadow" and status()["failure"], "a poll without an answer")
        said = "what mode enforce has changed is put back first: "
        assert status()["leaving"].startswith(said)
        cluster.start_slurmctld()
        cluster.wait_for(lambda: cluster.job(trial)["Nice"] == "0", "the nice value to be put back")
        cluster.wait_for(lambda: cluster.job(trial)["ReqNodeList"] == "(null)", "the nodes to be put back")
        cluster.wait_for(lambda: status()["leaving"] == "", "mode shadow to begin")
        shown = run_tesched("explain", str(trial), TESCHED_CONFIG=str(config)).stdout
        assert "withdrawn: its changes are put back" in shown
        assert cluster.job(victim)["Restarts"] == "0"
        assert log.read_text().count(said) == 1
        second.send_signal(signal.SIGTERM)
        assert second.wait(timeout=HANG_S) == 0
    finally:
        second.kill()
        second.wait()
        print(log.read_text())  # noqa: T201 - pytest shows it with a failure


@pytest.mark.gate
def test_a_victim_that_obeys_its_notice_after_undo_is_put_back_in_the_queue_in_mode_shadow(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),)))
    whole, obeys = ("--exclusive", "-N1"), cluster.shared / "obeys"
    saves = f"trap 'while [ ! -e {obeys} ]; do sleep 0.1; done; exit 1' USR1; while :; do sleep 0.1; done"
    victim = cluster.sbatch("--requeue", "-Jbe", "--comment=grace=3000;signal=B:USR1", *whole, wrap=saves)
    cluster.wait_state(victim, "RUNNING")
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS) as first:
        trial = cluster.sbatch("-Jte", *whole, wrap="sleep 1000")
        cluster.wait_for(lambda: f"notify job {victim}: sent" in first.log.read_text(), "the notice")
    said = first.ask("undo", "--json")
    assert said.returncode == 1, said.stdout + said.stderr
    assert (json.loads(said.stdout)["leaving"], json.loads(said.stdout)["left"]) == ([victim], 1)
    assert cluster.job(trial)["Nice"] == "0"
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS, mode="shadow") as second:
        second.await_polls(cluster)
        assert second.json("status")["daemon"]["leaving"] == "", "mode shadow has begun"
        obeys.touch()
        cluster.wait_for(lambda: cluster.job(victim)["Restarts"] == "1", "the victim to be put back in the queue")
    said = second.ask("undo")
    assert (said.returncode, said.stdout.splitlines()[-1]) == (0, "nothing is left that tesched has changed")
