"""A daemon of its own process beside a test cluster, as a site runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from tesched_cli.main import main
from tesched_slurm.client_choice import ClientChoice

from tesched_testcluster.harness import json_check
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.patience import Patience

TESCHED = Path(sys.executable).with_name("tesched")
#: what a turn without an action says
FIRST_TURN = ("did nothing", "decided nothing")
#: What only reads the store runs in this process: tests ask again and again until an answer has come, and a process of
#: its own keeps a core busy for half a second, with imports.
READING = frozenset({"explain", "jobs", "orders", "status"})
#: With another path a test has other packages, which this process does not have.
_PYTHONPATH = os.environ.get("PYTHONPATH")
CRASHING = Path(__file__).with_name("crashing_daemon.py")

#: te-… is trial and error, be-… is best effort; a grace period of 10 s; polls every half second, and takes no pokes.
#: What gives an order up after a time is set so that no busy machine comes to it: a test of that sets its own
CONFIG = """
mode = "{mode}"
[store]
url = "sqlite:///{folder}/tesched.sqlite"
[slurm]
client = "{client}"
conf = "{slurm_conf}"
[loop]
poll_interval_s = {poll_interval_s}
socket = "{socket}"
watch_state_folder = {watches}
[policy]
te = "{te}"
be = "{be}"
[guard]
min_run_time_s = 0
cool_down_s = 0
order_timeout_s = 600
bind_for_s = 600
retry_after_s = 5
useful_run_s = 0
[classes]
default_grace_period_s = 10
[[classes.rules]]
name = "trials"
job_class = "te"
match = {{ names = ["te*"] }}
"""


def run_tesched(*argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run `tesched argv…` with these environment variables besides; in this process if it only reads (`READING`)."""
    ours = {"COLUMNS": "160", "NO_COLOR": "1", **variables}
    if argv[0] in READING and os.environ.get("PYTHONPATH") == _PYTHONPATH:
        done = CliRunner().invoke(main, argv, prog_name="tesched", env=ours, catch_exceptions=False)
        return subprocess.CompletedProcess(["tesched", *argv], done.exit_code, done.stdout, done.stderr)
    environment = {**os.environ, **ours}
    return subprocess.run(
        [str(TESCHED), *argv], env=environment, capture_output=True, text=True, timeout=Patience().limit_s, check=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A running daemon."""

    config: Path
    process: subprocess.Popen[bytes]
    log: Path

    def ask(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run `tesched argv…` against this daemon's store."""
        return run_tesched(*argv, TESCHED_CONFIG=str(self.config))

    def json(self, *argv: str) -> Any:
        """Return what `tesched argv… --json` prints, by its schema."""
        answer = self.ask(*argv, "--json")
        # `status` ends with what it says of the daemon, too.
        assert answer.returncode in ({0, 1, 3} if argv[0] == "status" else {0}), answer.stderr
        content = json.loads(answer.stdout)
        json_check.check(content)
        return content

    def await_polls(self, cluster: LocalCluster, more: int = 2) -> None:
        """Wait until the daemon has polled so often again; with the second one a whole poll has begun and ended."""
        before = self.json("status")["daemon"]["cycle"]
        cluster.wait_for(lambda: self.json("status")["daemon"]["cycle"] >= before + more, f"{more} polls")


def write_config(
    cluster: LocalCluster,
    folder: Path,
    client: ClientChoice,
    mode: str = "enforce",
    policy: str = "fitgpp",
    *,
    poll_interval_s: float = 0.5,
    socket: str = "",
    watches: bool = False,
) -> Path:
    """Write a daemon's configuration. Only one that `watches` finds new jobs between two polls by itself."""
    config = folder / "tesched.toml"
    te, _, be = policy.partition("+")
    config.write_text(
        CONFIG.format(
            mode=mode,
            te=te,
            be=be or "none",
            folder=folder,
            client=client,
            slurm_conf=cluster.slurm_conf,
            poll_interval_s=poll_interval_s,
            socket=socket,
            watches=str(watches).lower(),
        )
    )
    return config


@contextmanager
def running_daemon(
    cluster: LocalCluster,
    folder: Path,
    client: ClientChoice,
    mode: str = "enforce",
    policy: str = "fitgpp",
    *,
    poll_interval_s: float = 0.5,
    socket: str = "",
    watches: bool = False,
) -> Iterator[Daemon]:
    """Run a daemon until the block ends; it must then end by SIGTERM with status 0.

    `policy` is the TE policy's name, or with a best-effort policy besides "patient+fill".
    """
    config = write_config(
        cluster, folder, client, mode, policy, poll_interval_s=poll_interval_s, socket=socket, watches=watches
    )
    with daemon_of(cluster, config) as daemon:
        yield daemon


@contextmanager
def daemon_of(cluster: LocalCluster, config: Path, variables: Mapping[str, str] | None = None) -> Iterator[Daemon]:
    """Run a daemon of this configuration, with these environment variables besides, as `running_daemon` does."""
    log = config.with_name("daemon.log")
    argv = [str(TESCHED), "daemon", "--config", str(config)]
    with log.open("wb") as out:
        process = subprocess.Popen(argv, env={**os.environ, **(variables or {})}, stdout=out, stderr=out)
    daemon = Daemon(config=config, process=process, log=log)
    try:
        cluster.wait_for(
            lambda: any(word in log.read_text() for word in FIRST_TURN) or process.poll() is not None,
            "the daemon's first turn",
        )
        assert process.poll() is None, "the daemon has ended"
        yield daemon
    except BaseException:
        process.kill()
        process.wait()
        print(log.read_text())  # noqa: T201 - pytest shows it with the failure
        raise
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=Patience().limit_s) == 0, log.read_text()


@contextmanager
def crashing_daemon(
    config: Path, before_step: int, blow: signal.Signals = signal.SIGKILL, *, early: bool = False
) -> Iterator[Daemon]:
    """Run a daemon that stops itself by this signal before this step (`crashing_daemon.py`); end it with the block."""
    log = config.with_name("crash.log")
    argv = [sys.executable, str(CRASHING), str(config), str(before_step), blow.name, *(["early"] if early else [])]
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=out)
    try:
        yield Daemon(config=config, process=process, log=log)
    except BaseException:
        print(log.read_text())  # noqa: T201 - pytest shows it with the failure
        raise
    finally:
        process.kill()
        process.wait()


def until_killed(cluster: LocalCluster, daemon: Daemon) -> None:
    """Wait until a daemon has killed itself."""
    cluster.wait_for(lambda: daemon.process.poll() is not None, "the daemon to kill itself")
    assert daemon.process.returncode == -signal.SIGKILL, daemon.log.read_text()
