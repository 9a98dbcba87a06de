"""kill -9 between any two steps of an early turn, and a standby beside it, on a real Slurm.

The steps: (1) the intent, (2) the TE job's raise, (3) its nodes, (4) the notice, (5) the conclusion. The victim works
on through its grace period, so that its requeue is left to a poll. `tests/integration/test_early_standby.py` has two
daemons on each kind of store.
"""

from __future__ import annotations

import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import connect

import pytest
from tesched_core.model.actions import Status
from tesched_testcluster.harness.daemon_process import TESCHED, Daemon, crashing_daemon, daemon_of, until_killed
from tesched_testcluster.load import HOLD, EventName, LoadJob, await_begun, hold, read_events, submit
from tesched_testcluster.local import LocalCluster

from tests.cluster.early_site import early_config
from tests.cluster.gate import gated

pytestmark = pytest.mark.slurm

#: of 0.1 s; the jobs are held by files, so more would only take longer
TICKS = 5


@pytest.fixture
def full(cluster: LocalCluster) -> tuple[LocalCluster, list[int]]:
    """Fill the cluster with best-effort jobs that no notice ends, and give them."""
    # Of a job that has ended Slurm lets nothing be changed, and no job's end frees resources before the test lets it.
    for kind in ("be", "te"):
        hold(cluster.shared, kind)
    jobs = []
    for number in range(8):
        options = ("--comment=grace=3",)
        job = LoadJob(name=f"be-{number}", kind="be", cpus=8, gpus=8, ticks=TICKS, on_notice="stay", options=options)
        jobs.append(submit(cluster, job, cluster.shared))
    await_begun(cluster, jobs, cluster.shared)
    return cluster, jobs


def trial_beside(cluster: LocalCluster, daemon: Daemon) -> int:
    """Submit a trial once the daemon has polled, so that an early turn finds it."""
    cluster.wait_for(lambda: "did nothing" in daemon.log.read_text(), "the first daemon's poll")
    return submit(cluster, LoadJob(name="te-1", kind="te", cpus=2, gpus=2, ticks=TICKS), cluster.shared)


def let_end(cluster: LocalCluster) -> None:
    for kind in ("te", "be"):
        (cluster.shared / HOLD.format(kind=kind)).unlink()


def assert_one_victim(cluster: LocalCluster, jobs: list[int], trial: int) -> None:
    """Assert that all jobs ran to their end, once, and that one had one notice at most and was requeued, once."""
    for job_id in (trial, *jobs):
        cluster.wait_state(job_id, "COMPLETED")
        fields = cluster.job(job_id)
        assert (fields["Nice"], fields["Priority"] == "0") == ("0", False)
    events = read_events(cluster.shared)
    counts = Counter((event.job_id, event.name) for event in events)
    assert [counts[job_id, EventName.DONE] for job_id in jobs] == [1] * len(jobs)
    assert sum(event.name is EventName.RESTART for event in events) == 1
    assert sum(event.name is EventName.NOTICE for event in events) <= 1


@pytest.mark.parametrize("step", gated(range(1, 6), 4))
def test_a_new_daemon_goes_on(full: tuple[LocalCluster, list[int]], tmp_path: Path, step: int) -> None:
    cluster, jobs = full
    config = early_config(cluster, tmp_path)
    with crashing_daemon(config, step, early=True) as crashing:
        trial = trial_beside(cluster, crashing)
        until_killed(cluster, crashing)
    with daemon_of(cluster, config) as daemon:
        cluster.wait_state(trial, "RUNNING")
        cluster.wait_for(lambda: cluster.job(trial)["Nice"] == "0", "its nice value to be put back")
        let_end(cluster)
        cluster.wait_for(lambda: not daemon.json("status")["orders"], "the order to end")
        assert_one_victim(cluster, jobs, trial)
        (order,) = daemon.json("orders")["orders"]
        assert order["order"]["ending"] == "started_here"


@contextmanager
def standby_of(config: Path, log: Path) -> Iterator[None]:
    """Run a daemon until the block ends."""
    with log.open("wb") as out:
        process = subprocess.Popen([str(TESCHED), "daemon", "--config", str(config)], stdout=out, stderr=out)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def stored(folder: Path, kind: str) -> list[tuple[int, str | None]]:
    """Return the jobs that the store has actions of this kind of, with what became of each."""
    with closing(connect(folder / "tesched.sqlite")) as store:
        return store.execute("SELECT job_id, status FROM actions WHERE kind = ?", (kind,)).fetchall()


@pytest.mark.parametrize("blow", gated([signal.SIGKILL, signal.SIGSTOP], signal.SIGSTOP))
def test_a_standby_takes_over_in_the_middle_of_an_early_turn(
    full: tuple[LocalCluster, list[int]], tmp_path: Path, blow: signal.Signals
) -> None:
    """Before the notice: the new leader never sends it, and requeues the victim; the old one does nothing more."""
    cluster, jobs = full
    # The first leader's early turns renew no lease: it must last until the trial is there.
    config, log = early_config(cluster, tmp_path, poll_interval_s=10.0), tmp_path / "second.log"
    with crashing_daemon(config, 4, blow, early=True) as first:
        cluster.wait_for(lambda: "did nothing" in first.log.read_text(), "the first daemon's poll")
        with standby_of(config, log):
            cluster.wait_for(lambda: "standby: process" in log.read_text(), "the second to stand by")
            trial = trial_beside(cluster, first)
            cluster.wait_for(lambda: f"{blow.name} before step" in first.log.read_text(), "the first daemon to stop")
            assert "requeue job" not in log.read_text()
            cluster.wait_state(trial, "RUNNING")
            cluster.wait_for(lambda: "requeue job" in log.read_text(), "the second daemon to say that it has")
            if blow is signal.SIGSTOP:
                first.process.send_signal(signal.SIGCONT)
                said = first.log
                cluster.wait_for(lambda: "standby: process" in said.read_text(), "the old leader to stand by")
            # Of a job that has ended Slurm lets nothing be changed.
            cluster.wait_for(lambda: cluster.job(trial)["Nice"] == "0", "its nice value to be put back")
            let_end(cluster)
            assert_one_victim(cluster, jobs, trial)
    assert EventName.NOTICE not in {event.name for event in read_events(cluster.shared)}
    (notice,), (requeue,) = stored(tmp_path, "notify"), stored(tmp_path, "requeue")
    assert notice == (requeue[0], None), "an intent of which nothing came, of the job that was requeued"
    assert requeue[1] == Status.SENT
