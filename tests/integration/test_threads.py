"""The daemon's process: one that cannot start a thread ends, or goes on without it; a stop goes on to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tesched_db import migrate
from tesched_db import queries as read
from tesched_db.engine import open_store
from tesched_testcluster.patience import HANG_S

# The kernel refuses a thread where the user, or the unit (TasksMax), has as many as it may: so it seems to Python.
_DAEMON = """
import sys, threading
refused, started, start = int(sys.argv[2]), 0, threading.Thread.start
def starting(thread):
    global started
    started += 1
    if started == refused:
        raise RuntimeError("can't start new thread")
    start(thread)
threading.Thread.start = starting
from pathlib import Path
from tesched_daemon.wiring import run
run(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("refused", range(1, 6))
def test_a_daemon_without_one_of_its_threads_ends_or_polls(tmp_path: Path, munged: str, refused: int) -> None:
    (tmp_path / "spool").mkdir()
    url = f"sqlite:///{tmp_path}/store.sqlite"
    migrate.upgrade(url)
    config = tmp_path / "tesched.toml"
    config.write_text(
        f'[store]\nurl = "{url}"\n[loop]\npoll_interval_s = 0.1\nsocket = "{tmp_path}/poke"\n'
        f'[reports]\nspool = "{tmp_path}/spool"\nsocket = "{tmp_path}/reports"\nmunge_socket = "{munged}"\n'
        '[slurm]\nclient = "commands"\ntimeout_s = 1\n'
    )
    # Without Slurm's programs each poll fails, at once, and is one all the same.
    nowhere = {**os.environ, "SLURM_CONF": str(tmp_path / "none.conf"), "PATH": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", _DAEMON, str(config), str(refused)], env=nowhere, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        # It says so after its first poll, or ends: a process that does neither is what this test is about.
        hang = threading.Timer(HANG_S, process.kill)
        hang.start()
        said = ""
        for line in process.stderr:
            said += line
            if "Slurm cannot be seen" in line:
                process.send_signal(signal.SIGTERM)
        process.wait()
        hang.cancel()
    assert process.returncode != -signal.SIGKILL, f"it sat there idle: {said}"
    engine = open_store(url, read_only=True)
    daemon = read.status(engine).daemon
    engine.dispose()
    if process.returncode:
        assert "can't start new thread" in said
    else:
        assert daemon is not None, said
        assert "Slurm cannot be seen" in said


_STOPPING = """
import signal, sys
from pathlib import Path
from tesched_daemon import wiring
def signalled(loop):
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.raise_signal(number)
    print("all is put back", file=sys.stderr)
wiring.put_all_back_at_a_stop = signalled
wiring.run(Path(sys.argv[1]))
"""


def test_no_second_signal_ends_a_daemon_that_puts_back(tmp_path: Path) -> None:
    config = tmp_path / "tesched.toml"
    config.write_text(
        f'mode = "enforce"\nundo_on_stop = true\n[store]\nurl = "sqlite:///{tmp_path}/store.sqlite"\n'
        f'[loop]\nsocket = "{tmp_path}/poke"\n[slurm]\nclient = "commands"\ntimeout_s = 1\n'
    )
    nowhere = {**os.environ, "SLURM_CONF": str(tmp_path / "none.conf"), "PATH": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", _STOPPING, str(config)], env=nowhere, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        hang = threading.Timer(HANG_S, process.kill)
        hang.start()
        said = []
        for line in process.stderr:
            said.append(line)
            if "Slurm cannot be seen" in line:
                process.send_signal(signal.SIGTERM)
        process.wait()
        hang.cancel()
    assert process.returncode == 0, said
    *signals, back = [line for line in said if "already stopping" in line or "put back" in line]
    assert [line.split("received ")[1] for line in signals] == [
        f"{name}: already stopping\n" for name in ("SIGTERM", "SIGHUP", "SIGINT")
    ]
    assert back == "all is put back\n"
