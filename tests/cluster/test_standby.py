"""Two daemons beside one real Slurm: the standby takes over, and the old leader that wakes up changes nothing.

The first daemon stops itself (`crashing_daemon.py`) before it writes down that it means to requeue its victim: then the
victim has had its notice, and its grace period is over.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.harness.daemon_process import (
    TESCHED,
    crashing_daemon,
    run_tesched,
    until_killed,
    write_config,
)
from tesched_testcluster.load import EventName, LoadJob, await_begun, hold, read_events, submit
from tesched_testcluster.local import LocalCluster

from tests.cluster.gate import gated

pytestmark = pytest.mark.slurm

#: (1) the intent, (2) the TE job's raise, (3) its nodes, (4) the notice, (5) the conclusion, (6) the requeue's intent
REQUEUE_STEP = 6


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


@pytest.mark.parametrize("blow", gated([signal.SIGKILL, signal.SIGSTOP], signal.SIGKILL))
def test_the_standby_takes_over_in_the_middle_of_an_order(
    cluster: LocalCluster, tmp_path: Path, blow: signal.Signals
) -> None:
    # No other job's end frees resources: only the victim's.
    for kind in ("be", "te"):
        hold(cluster.shared, kind)
    ids = []
    for number in range(8):
        job = LoadJob(
            name=f"be-{number}",
            kind="be",
            cpus=8,
            gpus=8,
            ticks=5,
            on_notice="stay",
            options=("--comment=grace=3",),
        )
        ids.append(submit(cluster, job, cluster.shared))
    await_begun(cluster, ids, cluster.shared)
    config = write_config(cluster, tmp_path, ClientChoice.COMMANDS)
    log = tmp_path / "second.log"

    def notices() -> int:
        return sum(event.name is EventName.NOTICE for event in read_events(cluster.shared))

    with crashing_daemon(config, REQUEUE_STEP, blow) as first:
        cluster.wait_for(lambda: "did nothing" in first.log.read_text(), "the first daemon's first look")
        with daemon(config, log):
            cluster.wait_for(lambda: "standby: process" in log.read_text(), "the second to stand by")
            te = submit(cluster, LoadJob(name="te-1", kind="te", cpus=2, gpus=2, ticks=5), cluster.shared)
            if blow is signal.SIGKILL:
                until_killed(cluster, first)
            cluster.wait_for(lambda: f"{blow.name} before step" in first.log.read_text(), "the first daemon to stop")
            assert notices() == 1
            assert "requeue job" not in log.read_text()
            # The grace period is over; only the second daemon can requeue the victim.
            cluster.wait_state(te, "RUNNING")
            # It may run before the daemon has read the answer to its requeue.
            cluster.wait_for(lambda: "requeue job" in log.read_text(), "the second daemon to say that it has")
            looks = log.read_text().splitlines()
            assert any("standby" not in line for line in looks[looks.index(_last_standby(looks)) + 1 :])
            if blow is signal.SIGSTOP:
                first.process.send_signal(signal.SIGCONT)
                cluster.wait_for(
                    lambda: "the lead was lost" in first.log.read_text(),
                    "the old leader to find that it leads no more",
                )
                cluster.wait_for(
                    lambda: "standby: process" in first.log.read_text(),
                    "the old leader to stand by",
                )
            cluster.wait_for(lambda: cluster.job(te)["Nice"] == "0", "the nice value to be put back")
            assert "requeue job" not in first.log.read_text()
            (victim,) = [job_id for job_id in ids if cluster.job(job_id)["Restarts"] == "1"]
            assert notices() == 1
            # The grace period that began beside the first daemon is part of the victim's delay.
            shown = json.loads(run_tesched("explain", str(victim), "--json", TESCHED_CONFIG=str(config)).stdout)
            assert shown["delay"]["by_own_user"]["total_s"] >= 3


def _last_standby(lines: list[str]) -> str:
    return [line for line in lines if "standby" in line][-1]
