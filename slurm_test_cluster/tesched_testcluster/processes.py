"""The processes of a local cluster: how they are recognised, and how they are ended.

Daemons are started with two variables in their environment that nothing else gets, and slurmstepd inherits them. A
job's own processes do not (their environment comes from sbatch), but they have this cluster's SLURM_CONF together
with SLURMD_NODENAME, which Slurm sets inside a job only: a shell or a daemon that merely talks to the cluster is
never taken for one of its jobs. So nothing depends on pid files, which a half start does not write, or on pids, which
are reused.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

#: the cluster's folder, in the environment of its daemons
FOLDER_VARIABLE = "TESCHED_TESTCLUSTER_FOLDER"
#: which daemon it is: munged, slurmctld, slurmdbd, mariadbd, or a node's name
DAEMON_VARIABLE = "TESCHED_TESTCLUSTER_DAEMON"

_PAUSE_S = 0.01


def slurm_conf_path(folder: Path) -> Path:
    """Return where a cluster has its slurm.conf."""
    return folder / "etc" / "slurm.conf"


def find_processes(folder: Path, daemon: str | None = None) -> tuple[int, ...]:
    """Return the pids of the cluster in `folder`: daemons, slurmstepd and jobs.

    With `daemon` only that daemon's; a node's name gives its slurmd and all that runs on that node.
    """
    wanted = {_entry(FOLDER_VARIABLE, str(folder))}
    if daemon is not None:
        wanted.add(_entry(DAEMON_VARIABLE, daemon))
    found = [pid for pid, environment in _environments() if wanted <= environment]
    return tuple(found) + find_jobs(folder, daemon)


def find_jobs(folder: Path, node: str | None = None) -> tuple[int, ...]:
    """Return the pids of job scripts and what they started, on all nodes of the cluster or on one."""
    conf = _entry("SLURM_CONF", str(slurm_conf_path(folder)))
    on_node = b"SLURMD_NODENAME=" if node is None else _entry("SLURMD_NODENAME", node)
    found = []
    for pid, environment in _environments():
        here = on_node in environment if node is not None else any(entry.startswith(on_node) for entry in environment)
        if conf in environment and here:
            found.append(pid)
    return tuple(found)


def end_processes(folder: Path, daemon: str | None = None, *, timeout_s: float = 10) -> None:
    """Kill what `find_processes` finds, until nothing is left. TimeoutError names what would not go."""
    deadline = time.monotonic() + timeout_s
    while pids := find_processes(folder, daemon):
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes of the cluster in {folder} do not end: {', '.join(map(str, pids))}")
        send(pids, signal.SIGKILL)
        time.sleep(_PAUSE_S)


def send(pids: Iterable[int], signal_number: signal.Signals) -> None:
    """Send a signal to each process that is still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal_number)


def _environments() -> Iterator[tuple[int, frozenset[bytes]]]:
    """Yield every process that we may look into, with its environment's `NAME=value` entries."""
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            environment = (process / "environ").read_bytes()
        except OSError:
            continue  # it has ended meanwhile, or belongs to another user
        yield int(process.name), frozenset(environment.split(b"\0"))


def _entry(name: str, value: str) -> bytes:
    """Return one entry of an environment as /proc shows it."""
    return os.fsencode(f"{name}={value}")
