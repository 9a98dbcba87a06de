"""Real Slurm with tesched beside it, for the benchmarks of policies that manage best-effort jobs.

A benchmark says its nodes and its policy's own tables; what all have is here: one partition, jobs that Slurm remembers
for two hours, a daemon of its own process, its log if it fails, and the wait for the last job's end.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.local import LocalCluster

T = TypeVar("T")

TESCHED = Path(sys.executable).with_name("tesched")
_CONFIG = """
mode = "enforce"
[store]
url = "sqlite:///{folder}/tesched.sqlite"
[slurm]
conf = "{slurm_conf}"
[loop]
poll_interval_s = {poll_s}
socket = ""
[policy]
te = "none"
be = "{policy}"
"""


@dataclass(kw_only=True)
class BesideSlurm:
    """A cluster, and the daemon beside it once it was started."""

    cluster: LocalCluster
    #: of the daemon's files, and its configuration
    folder: Path
    stack: ExitStack
    daemon: subprocess.Popen[bytes] | None = None

    @property
    def config(self) -> Path:
        """Return the configuration's path."""
        return self.folder / "tesched.toml"

    def configure(self, policy: str, *, poll_s: float, tables: str) -> None:
        """Write the configuration: this BE policy, and these tables besides."""
        head = _CONFIG.format(folder=self.folder, slurm_conf=self.cluster.slurm_conf, poll_s=poll_s, policy=policy)
        self.config.write_text(head + tables)

    def start(self) -> None:
        """Start the daemon, which ends with the cluster; return after its first poll."""
        log = self.folder / "daemon.log"
        with log.open("wb") as out:
            daemon = subprocess.Popen([str(TESCHED), "daemon", "--config", str(self.config)], stdout=out, stderr=out)
        self.daemon = daemon

        def end(kind: type[BaseException] | None, *_: object) -> None:
            if kind is not None:
                sys.stderr.write(log.read_text()[-5000:])
            daemon.terminate()
            daemon.wait(timeout=30)

        self.stack.push(end)
        self.cluster.wait_for(lambda: "did nothing" in log.read_text(), "the daemon's first look")

    def wait_for_end(self) -> None:
        """Return when no job is left, or the daemon has ended; raise after an hour."""

        def over() -> bool:
            gone = self.daemon is not None and self.daemon.poll() is not None
            return gone or not self.cluster.run("squeue", "-h", "-t", "PD,R,CG").stdout.strip()

        self.cluster.wait_for(over, "all jobs to end", timeout_s=3600)


@contextmanager
def beside_slurm(*groups: NodeGroup, min_job_age_s: int = 7200, **definition: Any) -> Iterator[BesideSlurm]:
    """Give a cluster of these nodes with one partition; `definition` is what else it has."""
    partitions = (PartitionDefinition(name="main", default=True),)
    wanted = ClusterDefinition(groups=groups, partitions=partitions, min_job_age_s=min_job_age_s, **definition)
    with LocalCluster(wanted) as cluster, tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        yield BesideSlurm(cluster=cluster, folder=Path(name), stack=stack)


def submitted(jobs: Sequence[T], at_s: Callable[[T], float], submit: Callable[[T], int]) -> dict[int, float]:
    """Submit each job in its time, seconds from now on; return when that was (Unix seconds), by job id."""
    began = time.time()
    ids: dict[int, float] = {}
    for number, job in enumerate(jobs, start=1):
        time.sleep(max(began + at_s(job) - time.time(), 0))
        at = time.time()
        ids[submit(job)] = at
        if sys.stderr.isatty():
            print(f"\r{number}/{len(jobs)} submitted", end="" if number < len(jobs) else "\n", file=sys.stderr)
    return ids
