"""A site of which whole polls take long, by its clocks, for tests of early turns on a real Slurm.

With `NO_PASS` slurmctld considers no job at its submission (defer), and makes no pass for a minute.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tesched_core.model.actions import Failure
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

PASSES, NO_PASS = "batch_sched_delay=1", "defer,batch_sched_delay=3600,sched_interval=3600,bf_interval=3600"
#: two nodes on which `filled` has a job each, and Slurm makes passes
TWO_NODES = ClusterDefinition(groups=(NodeGroup(count=2),), settings={"SchedulerParameters": PASSES})
#: seconds by which a poll seems to take longer: more than an early turn takes, however busy the machine
LONGER_S = 60.0


@dataclass
class Slowly:
    """An observer whose polls take longer, by its own clocks."""

    observer: Observer
    longer_s: float = LONGER_S
    ahead_s: float = 0.0

    def observe(self, *, whole: bool = True, ends: bool = False) -> Snapshot | Failure:
        seen = self.observer.observe(whole=whole, ends=ends)
        self.ahead_s += self.longer_s
        return seen

    def clock(self) -> float:
        return time.time() + self.ahead_s

    def stopwatch(self) -> float:
        return time.perf_counter() + self.ahead_s


def early_config(cluster: LocalCluster, folder: Path, mode: str = "enforce", *, poll_interval_s: float = 0.5) -> Path:
    """Write a daemon's configuration with early turns, however old the last poll is."""
    file = write_config(cluster, folder, ClientChoice.COMMANDS, mode, poll_interval_s=poll_interval_s)
    file.write_text(file.read_text().replace("[guard]\n", "[guard]\nwait_for_free_s = 0\n"))
    return file


@contextmanager
def large_site(cluster: LocalCluster, folder: Path, mode: str = "enforce") -> Iterator[Loop]:
    """Give a loop on the cluster, of which polls seem to take as long as with 100,000 jobs."""
    folder.mkdir(parents=True, exist_ok=True)
    config = load(early_config(cluster, folder, mode))
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


def filled(cluster: LocalCluster) -> list[int]:
    """Put a best-effort job on each of two nodes, the second of which has just a part of its node."""
    jobs = []
    for number, options in enumerate((("--exclusive", "-wn1"), ("-n8", "--mem=1000", "--gpus=8", "-wn2"))):
        jobs.append(cluster.sbatch(f"--job-name=be-{number}", "-N1", *options, wrap="exec sleep 1000"))
        cluster.wait_state(jobs[-1], "RUNNING")
    return jobs


def unconsidered(cluster: LocalCluster, *options: str) -> int:
    """Submit a trial that slurmctld has not considered: it may make one more pass after it has read slurm.conf."""
    jobs: list[int] = []

    def comes() -> bool:
        for job in jobs:
            cluster.run("scancel", str(job))
        jobs[:] = [cluster.sbatch("--job-name=te-1", *options, wrap="sleep 1000")]
        return cluster.job(jobs[0])["Reason"] == "None"

    cluster.wait_for(comes, "a trial that Slurm has not considered")
    return jobs[0]
