"""One cluster and one daemon for an attack: honest and hostile users, and what the daemon's store and process say."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from tesched_core.model.actions import Failure
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.clients import Client

from tesched_testcluster.cluster import ClusterError
from tesched_testcluster.harness.daemon_process import Daemon, daemon_of, write_config
from tesched_testcluster.harness.slurm_clients import connecting
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_users

#: sbatch's options of a BE job that holds a node's GPUs
BE_OF_A_NODE = ("-J", "be", "-N1", "--gpus=8", "--mem=100", "--requeue", "-o", "/dev/null")
#: seconds: what one user does delays no poll by more, and no TE job of another user
LONGEST_POLL_S, LONGEST_WAIT_S = 2.0, 5.0
#: what slurmctld logs when a job is submitted, when a request was served, and when a job gets its nodes
_SUBMITTED = re.compile(r"^\[(\S+)\] _slurm_rpc_submit_batch_job: JobId=(\d+) ")
_TOOK = re.compile(r"^\[(\S+)\] (_slurm_rpc_\w+): .* usec=(\d+)$")
_GIVEN = re.compile(r"^\[(\S+)\] .*(?:Allocate|Started) JobId=(\d+)\b")
#: of a job that starts with its submission it logs the end alone
_ENDED = re.compile(r"^\[(\S+)\] _job_complete: JobId=(\d+) ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Polls:
    """The polls of a daemon, as it counts them: how many, and seconds of the longest."""

    count: int
    longest_s: float


@dataclass(kw_only=True)
class Bench:
    """A cluster, a folder for a daemon, and users."""

    cluster: LocalCluster
    client: ClientChoice
    folder: Path
    fill: list[int] = field(default_factory=list)

    @cached_property
    def users(self) -> tuple[str, str]:
        """Name a hostile and an honest user."""
        hostile, honest = ordinary_users(2)
        return hostile, honest

    @property
    def store(self) -> Path:
        """Return the daemon's store."""
        return self.folder / "tesched.sqlite"

    @contextmanager
    def daemon(self, mode: str = "enforce", *, toml: str = "", **variables: str) -> Iterator[Daemon]:
        """Run a daemon with further lines of configuration and environment; SIGTERM must end it with the block."""
        conf_d = self.folder / "conf.d"
        conf_d.mkdir(exist_ok=True)
        (conf_d / "attack.toml").write_text(toml)
        config = write_config(self.cluster, self.folder, self.client, mode)
        with daemon_of(self.cluster, config, variables) as running:
            yield running
            assert running.process.poll() is None, "the daemon has ended"

    def fill_up(self) -> None:
        """Let BE jobs hold all GPUs, one job a node. Those that are there already must all run again.

        They are a third user's: by an own TE job no job of the honest user's would be a victim like others.
        """
        if not self.fill:
            nodes = self.cluster.definition.node_names
            self.fill = [self.cluster.sbatch(*BE_OF_A_NODE, wrap="exec sleep 3000") for _ in nodes]
        for job_id in self.fill:
            self.cluster.wait_state(job_id, "RUNNING")

    def empty(self) -> None:
        """Cancel the jobs that hold the GPUs."""
        if self.fill:
            self.cluster.run("scancel", *map(str, self.fill))
            for job_id in self.fill:
                self.cluster.wait_state(job_id, "CANCELLED")
        self.fill = []

    def serve(self, *options: str) -> float:
        """Submit an honest TE job, which needs a victim, and wait until it has run; return the seconds it waited."""
        every = ("-J", "te", "-N1", "--gpus=8", "--mem=100", "-t", "5", "-o", "/dev/null", *options)
        job_id = self.cluster.sbatch(*every, wrap="exec sleep 0.2", user=self.users[1])
        self.cluster.wait_state(job_id, "RUNNING", "COMPLETED")
        # slurmctld logs a start a moment after it.
        return self.cluster.wait_for(lambda: self.waits([job_id]), "the start in slurmctld's log")[job_id]

    def waits(self, jobs: Collection[int]) -> dict[int, float]:
        """Return the seconds from submission to start of those of the jobs that have started, by slurmctld's log."""
        return waits(self.cluster.slurmctld_log, jobs)

    def polls(self, since: float = 0.0) -> Polls:
        """Return what the store says of the polls since then."""
        # A row may stand for several polls that did nothing: the slowest of each is in it.
        (row,) = self.query("select sum(count), max(observe_max_s + step_max_s) from cycles where last_at >= ?", since)
        return Polls(count=row[0] or 0, longest_s=row[1] or 0.0)

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Return rows of the store, without taking part in it."""
        with closing(sqlite3.connect(f"file:{self.store}?mode=ro", uri=True, timeout=10)) as connection:
            return connection.execute(sql, values).fetchall()

    def unread(self) -> list[tuple[str, str]]:
        """Return label and user of the jobs that could not be read in the daemon's last poll.

        The store has the first of them; where there are more, its client is called anew.
        """
        ((said,),) = self.query("select doubts from daemon")
        doubts: dict[str, Any] = json.loads(said) if said else {"first": [], "count": 0}
        if doubts["count"] == len(doubts["first"]):
            return [(label, user) for label, user, _ in doubts["first"]]
        return [(job.label, job.user) for job in self._poll().jobs.values() if job.doubt]

    def calls_of_a_poll(self) -> int:
        """Return how many calls to Slurm a poll makes that finds the queue as it was."""
        calls = self._own_client.calls
        self._poll()
        before = sum(calls.values())
        self._poll()
        return sum(calls.values()) - before

    def _poll(self) -> Snapshot:
        seen = self._own_client.observer.observe()
        if isinstance(seen, Failure):
            raise ClusterError(f"a poll of the benchmark's own failed: {seen.message}")
        return seen

    @cached_property
    def _own_client(self) -> Client:
        return connecting(self.client)(self.cluster)


def waits(slurmctld_log: Path, jobs: Collection[int]) -> dict[int, float]:
    """Return the seconds from submission to start of those of the jobs that have started."""
    submitted: dict[int, float] = {}
    waited: dict[int, float] = {}
    with slurmctld_log.open(errors="replace") as log:
        for line in log:
            if (found := _SUBMITTED.match(line)) and int(found[2]) in jobs:
                submitted[int(found[2])] = datetime.fromisoformat(found[1]).timestamp()
            elif (found := _GIVEN.match(line)) and (job_id := int(found[2])) in submitted:
                waited.setdefault(job_id, datetime.fromisoformat(found[1]).timestamp() - submitted[job_id])
            elif (found := _ENDED.match(line)) and (job_id := int(found[2])) in submitted:
                waited.setdefault(job_id, 0.0)
    return waited


def longest_request_s(slurmctld_log: Path, since: float = 0.0) -> tuple[float, str]:
    """Return the seconds that slurmctld took for its slowest request since then, and which it was."""
    slowest = (0.0, "none")
    with slurmctld_log.open(errors="replace") as log:
        for line in log:
            found = _TOOK.match(line)
            if found and datetime.fromisoformat(found[1]).timestamp() >= since:
                slowest = max(slowest, (int(found[3]) / 1e6, found[2]))
    return slowest
