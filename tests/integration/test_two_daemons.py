"""Two daemons in processes of their own on one store, SQLite and PostgreSQL: one goes on, the old leader does not.

Each has a host name of its own, so that neither can see whether the other's process is alive: the lease decides.
`tests/cluster/test_standby.py` has the same beside a real Slurm.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import Engine, update
from tesched_db import queries as read
from tesched_db.clock_skew import now_of
from tesched_db.engine import writing
from tesched_db.lease import LEASE
from tesched_db.tables import DaemonRow
from tesched_testcluster.patience import wait_for

from tests.integration import beside_a_list, cut_off


@dataclass
class Daemon:
    """One of the two."""

    host: str
    process: subprocess.Popen[bytes]
    log: Path

    def says(self, words: str) -> bool:
        return words in self.log.read_text()

    @property
    def stopped(self) -> bool:
        return Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


@dataclass
class Pair:
    """Both, and what was done to their Slurm."""

    url: str
    folder: Path
    began: float

    @property
    def path(self) -> Path:
        return self.folder / "list"

    def done(self, kind: str) -> list[str]:
        """Return which hosts have done this, in the order in which it was done."""
        return [line.split()[0] for line in self.path.read_text().splitlines() if line.split()[1] == kind]

    @contextmanager
    def daemon(self, host: str) -> Iterator[Daemon]:
        argv = [sys.executable, "-m", beside_a_list.__name__, self.url, host, str(self.path), str(self.began)]
        with self._running(host, argv) as daemon:
            yield daemon

    @contextmanager
    def cut_off_daemon(self, host: str, socket: Path, database: str) -> Iterator[Daemon]:
        """Run one in a network of its own, which loses all packets while LIST.cut is there."""
        argv = ["unshare", "--net", "--", sys.executable, "-m", cut_off.__name__, str(socket), database]
        with self._running(host, [*argv, host, str(self.path), str(self.began)]) as daemon:
            yield daemon

    @contextmanager
    def _running(self, host: str, argv: list[str]) -> Iterator[Daemon]:
        log = self.folder / f"{host}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(argv, stdout=out, stderr=out, cwd=Path(__file__).parents[2])
        try:
            yield Daemon(host, process, log)
        finally:
            process.kill()
            process.wait()
            print(f"{host}:\n{log.read_text()}")  # noqa: T201 - pytest shows it with a failure


@pytest.fixture
def pair(url: str, tmp_path: Path) -> Pair:
    made = Pair(url, tmp_path, time.time() - 100)
    made.path.touch()
    return made


def run_out(store: Engine) -> None:
    """Let time pass until the lease of a daemon that writes no more has run out."""
    with writing(store).begin() as connection:
        connection.execute(update(DaemonRow).values(lease_until=now_of(connection) - 0.001))


def leader(store: Engine) -> tuple[str, int]:
    """Return the leader's host, and how often the lead has changed hands."""
    with store.connect() as connection:
        row = connection.execute(LEASE).one()
        return row.host, row.lease_token


def test_the_standby_takes_over_from_a_killed_leader_and_finishes_its_order(pair: Pair, store: Engine) -> None:
    with pair.daemon("login1") as first:
        wait_for(lambda: first.says("did nothing"), "the first to lead")
        with pair.daemon("login2") as second:
            wait_for(lambda: second.says("standby: process"), "the second to stand by")
            assert [standby.host for standby in read.status(store).standbys] == ["login2"]
            pair.path.with_suffix(".die").touch()
            pair.path.with_suffix(".trial").touch()
            wait_for(lambda: first.process.poll() == -signal.SIGKILL, "the first to give notice, and to be killed")
            assert leader(store) == ("login1", 1), "the lease lasts"
            run_out(store)
            wait_for(lambda: leader(store) == ("login2", 2), "the standby to lead")
            wait_for(lambda: pair.done("requeue"), "the end of the grace period")
            wait_for(lambda: pair.done("setnice")[-1] == "login2", "the trial's nice value to be put back")
    assert pair.done("notify") == ["login1"], "one notice"
    assert len(pair.done("requeue")) == 1


def test_a_leader_that_was_frozen_before_it_acted_acts_no_more(pair: Pair, store: Engine) -> None:
    pair.path.with_suffix(".freeze").touch()
    with pair.daemon("login1") as first:
        wait_for(lambda: first.says("did nothing"), "the first to lead")
        with pair.daemon("login2") as second:
            wait_for(lambda: second.says("standby: process"), "the second to stand by")
            pair.path.with_suffix(".trial").touch()
            wait_for(lambda: first.stopped, "the first to freeze between intent and requeue")
            assert pair.done("requeue") == []
            run_out(store)
            wait_for(lambda: leader(store) == ("login2", 2), "the standby to lead")
            first.process.send_signal(signal.SIGCONT)
            wait_for(lambda: first.says("the lead was lost"), "the first to find that it leads no more")
            wait_for(lambda: first.says("standby: process"), "the first to stand by")
            wait_for(lambda: pair.done("requeue"), "the second to send what was never sent")
    assert pair.done("requeue") == ["login2"], "the first had meant to, and has not done it"
    assert pair.done("notify") == ["login1"], "one notice"
