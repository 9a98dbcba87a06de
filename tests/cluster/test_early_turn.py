"""An early turn on a real Slurm: a TE job has its victim before the next poll, and the poll finds nothing to add.

slurmctld considers no job at its submission (defer), and makes no pass for a minute: it has not considered it by then.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import connect

import pytest
from tesched_core.model.actions import Failure, Requeue, Status
from tesched_core.model.snapshot import Snapshot
from tesched_core.ports import Observer
from tesched_daemon.config import load
from tesched_daemon.loop import Loop
from tesched_daemon.wiring import opened_loop
from tesched_db import migrate
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import write_config
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

PASSES, NO_PASS = "batch_sched_delay=1", "defer,batch_sched_delay=3600,sched_interval=3600,bf_interval=3600"
#: seconds by which a poll seems to take longer: more than an early turn takes, however busy the machine
LONGER_S = 60.0


@dataclass
class Slowly:
    """An observer whose polls take longer, by its own clocks."""

    observer: Observer
    ahead_s: float = 0.0

    def observe(self, *, whole: bool = True, ends: bool = False) -> Snapshot | Failure:
        seen = self.observer.observe(whole=whole, ends=ends)
        self.ahead_s += LONGER_S
        return seen

    def clock(self) -> float:
        return time.time() + self.ahead_s

    def stopwatch(self) -> float:
        return time.perf_counter() + self.ahead_s


@contextmanager
def large_site(cluster: LocalCluster, folder: Path) -> Iterator[Loop]:
    """Give a loop on the cluster, of which polls seem to take as long as with 100,000 jobs."""
    file = write_config(cluster, folder, ClientChoice.COMMANDS)
    text = file.read_text().replace("[loop]\n", "[loop]\nearly_turn = true\n")
    file.write_text(text.replace("[guard]\n", "[guard]\nwait_for_free_s = 0\n"))
    config = load(file)
    assert config.loop.early_turn
    assert not config.guard.wait_for_free_s
    migrate.upgrade(config.store.url)
    with opened_loop(config) as loop:
        slowly = Slowly(loop.observer)
        loop.observer, loop.clock, loop.stopwatch = slowly, slowly.clock, slowly.stopwatch
        yield loop


def schedule(cluster: LocalCluster, before: str, now: str) -> None:
    """Give slurmctld other parameters."""
    cluster.slurm_conf.write_text(cluster.slurm_conf.read_text().replace(before, now))
    cluster.run("scontrol", "reconfigure")


@pytest.fixture
def full(make_cluster: MakeCluster) -> LocalCluster:
    """Give two nodes with a best-effort job on each, the second of which has just a part of its node."""
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=2),), settings={"SchedulerParameters": PASSES}))
    for number, options in enumerate((("--exclusive", "-wn1"), ("-n8", "--mem=1000", "--gpus=8", "-wn2"))):
        job = cluster.sbatch(f"--job-name=be-{number}", "-N1", *options, wrap="exec sleep 1000")
        cluster.wait_state(job, "RUNNING")
    schedule(cluster, PASSES, NO_PASS)
    return cluster


@pytest.mark.gate
def test_a_trial_has_its_victim_before_slurms_pass_and_before_the_poll(full: LocalCluster, tmp_path: Path) -> None:
    with large_site(full, tmp_path) as loop:
        assert loop.turn().early
        polls = dict(loop.calls())["scontrol show job"]
        trial = full.sbatch("--job-name=te-1", "-N1", "--gpus=8", "-n1", wrap="sleep 1000")
        assert full.job(trial)["Reason"] == "None", "Slurm has not considered it"
        turn = loop.early_turn()
        assert turn is not None
        assert {outcome.status for outcome in turn.outcomes} == {Status.SENT}
        (victim,) = (outcome.action.job_id for outcome in turn.outcomes if isinstance(outcome.action, Requeue))
        assert dict(loop.calls())["scontrol show job"] > polls, "its reads are counted"
        schedule(full, NO_PASS, PASSES)
        full.wait_for(lambda: not loop.turn(asked=True).trouble and full.state(trial) == "RUNNING", "the trial to run")
        assert full.put_back() == [victim]
    with closing(connect(tmp_path / "tesched.sqlite")) as store:
        assert store.execute("SELECT count(*) FROM orders").fetchone() == (1,)
        assert store.execute("SELECT count(*) FROM actions WHERE kind = 'requeue'").fetchone() == (1,)


def test_no_victim_leaves_where_nodes_have_come_free_since_the_poll(full: LocalCluster, tmp_path: Path) -> None:
    with large_site(full, tmp_path) as loop:
        assert loop.turn().early
        # The job on node n2, the smaller one, would be the victim.
        full.run("scancel", "--jobname=be-0")
        full.wait_for(lambda: full.node("n1")["State"] == "IDLE", "node n1 to be free")
        full.sbatch("--job-name=te-1", "-N1", "--gpus=8", "-n1", wrap="sleep 1000")
        queries = dict(loop.calls())["squeue"]
        turn = loop.early_turn()
        assert dict(loop.calls())["squeue"] > queries, "it has read the trial"
        assert turn is None or not any(isinstance(outcome.action, Requeue) for outcome in turn.outcomes)
