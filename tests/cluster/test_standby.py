"""Two daemons beside one real Slurm: the standby takes over, and the old leader that wakes up changes nothing."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.harness.daemon_process import TESCHED, write_config
from tesched_testcluster.load import HOLD, EventName, LoadJob, read_events, submit
from tesched_testcluster.local import LocalCluster

from tests.cluster.gate import gated

pytestmark = pytest.mark.slurm

#: seconds within which a standby must lead, on an idle machine
TAKE_OVER_S = 15


@contextmanager
def daemon(config: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a daemon until the block ends."""
    with log.open("wb") as out:
        process = subprocess.Popen([str(TESCHED), "daemon", "--config", str(config)], stdout=out, stderr=out)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def strike(process: subprocess.Popen[bytes], blow: signal.Signals, store: Path) -> None:
    """Send the signal; a process is not stopped while it writes to SQLite, or it would keep all others from it."""
    process.send_signal(blow)
    while blow is signal.SIGSTOP:
        try:
            with closing(sqlite3.connect(store, timeout=0.5, isolation_level=None)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            process.send_signal(signal.SIGCONT)
            process.send_signal(blow)
        else:
            return


@pytest.mark.parametrize("blow", gated([signal.SIGKILL, signal.SIGSTOP], signal.SIGKILL))
def test_the_standby_takes_over_in_the_middle_of_an_order(
    cluster: LocalCluster, tmp_path: Path, blow: signal.Signals
) -> None:
    # No other job's end makes room: only the victim's.
    (cluster.shared / HOLD.format(kind="be")).touch()
    ids = []
    for number in range(8):
        job = LoadJob(name=f"be-{number}", kind="be", cpus=8, gpus=8, ticks=100, on_notice="stay")
        ids.append(submit(cluster, job, cluster.shared))
    for job_id in ids:
        cluster.wait_state(job_id, "RUNNING")
    config = write_config(cluster, tmp_path, ClientChoice.COMMANDS)
    logs = tmp_path / "first.log", tmp_path / "second.log"

    def notices() -> int:
        return sum(event.name is EventName.NOTICE for event in read_events(cluster.shared))

    with daemon(config, logs[0]) as first:
        cluster.wait_for(lambda: "did nothing" in logs[0].read_text(), "the first daemon's first look")
        with daemon(config, logs[1]):
            cluster.wait_for(lambda: "standby: process" in logs[1].read_text(), "the second to stand by")
            te = submit(cluster, LoadJob(name="te-1", kind="te", cpus=2, gpus=2, ticks=20), cluster.shared)
            cluster.wait_for(lambda: notices() == 1, "the first daemon's notice")
            strike(first, blow, tmp_path / "tesched.sqlite")
            # The grace period of 10 s runs; only the second daemon can end it.
            cluster.wait_state(te, "RUNNING", "COMPLETED", timeout_s=TAKE_OVER_S + 25)
            assert "requeue job" in logs[1].read_text()
            assert "requeue job" not in logs[0].read_text()
            looks = logs[1].read_text().splitlines()
            assert any("standby" not in line for line in looks[looks.index(_last_standby(looks)) + 1 :])
            if blow is signal.SIGSTOP:
                first.send_signal(signal.SIGCONT)
                cluster.wait_for(
                    lambda: "standby: process" in logs[0].read_text() or "the lead was lost" in logs[0].read_text(),
                    "the old leader to find that it leads no more",
                )
            cluster.wait_for(lambda: cluster.job(te)["Nice"] == "0", "the nice value to be put back")
            assert notices() == 1


def _last_standby(lines: list[str]) -> str:
    return [line for line in lines if "standby" in line][-1]
