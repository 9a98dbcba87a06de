"""SIGHUP to a real daemon beside a real Slurm: it goes on, by what the files say now."""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.patience import HANG_S

pytestmark = pytest.mark.slurm


def until(told: socket.socket, wanted: Callable[[dict[str, str]], bool]) -> dict[str, str]:
    """Return the next message to systemd that is wanted; that none comes fails the test, by the socket's time-out."""
    while True:
        said = dict(line.split("=", 1) for line in told.recv(65536).decode().splitlines())
        if wanted(said):
            return said


def ends_a_turn(said: dict[str, str]) -> bool:
    """Check whether the message is of the end of a turn, and of no wait alone."""
    return {"WATCHDOG", "STATUS"} <= said.keys()


def turn_of_observe(told: socket.socket, remark: str) -> None:
    """Wait for a good turn with this remark. On a busy machine one may say more besides; each is of mode observe."""

    def good(said: dict[str, str]) -> bool:
        if not ends_a_turn(said):
            return False
        assert said["STATUS"].startswith("mode observe: "), said
        return said["STATUS"] == f"mode observe: watched, decided nothing; {remark}"

    until(told, good)


@pytest.mark.gate
def test_sighup_has_conf_d_read_a_bad_file_refused_and_systemd_notified(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
        told.bind(str(tmp_path / "notify"))
        told.settimeout(HANG_S)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS, mode="shadow") as daemon:
            until(told, lambda said: "READY" in said)
            drop_in = tmp_path / "conf.d" / "50-site.toml"
            drop_in.parent.mkdir()

            drop_in.write_text("mode = 'observe'\n[slurm]\ntimeout_s = 9\n")
            daemon.process.send_signal(signal.SIGHUP)
            begun = until(told, lambda said: "RELOADING" in said)
            assert begun["RELOADING"] == "1"
            assert int(begun["MONOTONIC_USEC"]) > 0
            said = "changed in the configuration, and holds after a restart: slurm.timeout_s"
            assert until(told, lambda said: "READY" in said)["STATUS"] == said
            turn_of_observe(told, said)
            assert daemon.json("status")["daemon"]["mode"] == "observe"
            assert 'mode "shadow" -> "observe"' in daemon.log.read_text()

            drop_in.write_text("mode = 'enforced'\n")
            daemon.process.send_signal(signal.SIGHUP)
            status = until(told, lambda said: "READY" in said)["STATUS"]
            assert status.startswith(f"the configuration is not reloaded: {drop_in}: mode: must be one of")
            # The one of before holds, and what is wrong stays to be seen.
            turn_of_observe(told, status)
            assert f"WARNING the configuration is not reloaded, the one of before stays: {drop_in}: mode" in (
                daemon.log.read_text()
            )

            drop_in.unlink()
            daemon.process.send_signal(signal.SIGHUP)
            assert until(told, lambda said: "READY" in said)["STATUS"] == "configuration reloaded"
            until(told, ends_a_turn)
            assert daemon.json("status")["daemon"]["mode"] == "shadow"
            assert daemon.process.poll() is None
