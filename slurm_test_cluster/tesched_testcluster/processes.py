"""The processes of a local cluster: how they are recognised, and how they are ended.

Daemons are started with two variables in their environment that nothing else gets, and slurmstepd inherits them. A
job's own processes do not (their environment comes from sbatch), but they have this cluster's SLURM_CONF together with
SLURMD_NODENAME, which Slurm sets inside a job only: a shell or a daemon that merely talks to the cluster is never taken
for one of its jobs. Descendants of all these belong too. So nothing depends on pid files, which a half start does not
write, or on pids, which are reused.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from tesched_testcluster.patience import Patience

#: the cluster's folder, in the environment of its daemons
FOLDER_VARIABLE = "TESCHED_TESTCLUSTER_FOLDER"
#: which daemon it is: munged, slurmctld, slurmdbd, mariadbd, or a node's name
DAEMON_VARIABLE = "TESCHED_TESTCLUSTER_DAEMON"

_PAUSE_S = 0.01


def slurm_conf_path(folder: Path) -> Path:
    """Return where a cluster has its slurm.conf."""
    return folder / "etc" / "slurm.conf"


def find_processes(folder: Path, daemon: str | None = None) -> tuple[int, ...]:
    """Return the pids of the cluster in `folder`: daemons, slurmstepd and jobs, with all that they started.

    With `daemon` only that daemon's; a node's name gives its slurmd and all that runs on that node. Daemons and
    slurmstepd come first: a kill in this order ends no job before the one that would report its end.
    """
    wanted = {_entry(FOLDER_VARIABLE, str(folder))}
    if daemon is not None:
        wanted.add(_entry(DAEMON_VARIABLE, daemon))
    daemons: list[int] = []

    def belongs(pid: int, environment: frozenset[bytes]) -> bool:
        if wanted <= environment or _is_stepd(pid, folder, daemon):
            daemons.append(pid)
            return True
        return _in_job(environment, folder, daemon)

    family = _family(belongs)
    return (*daemons, *(pid for pid in family if pid not in daemons))


def find_jobs(folder: Path, node: str | None = None) -> tuple[int, ...]:
    """Return the pids of job scripts and what they started, on all nodes of the cluster or on one."""
    return _family(lambda _, environment: _in_job(environment, folder, node))


def end_processes(folder: Path, daemon: str | None = None, *, timeout_s: float | None = None) -> None:
    """Kill what `find_processes` finds, until nothing is left. TimeoutError names what would not go."""
    patience = Patience(timeout_s)
    while pids := find_processes(folder, daemon):
        if patience.is_over():
            raise TimeoutError(f"processes of the cluster in {folder} do not end: {', '.join(map(str, pids))}")
        send(pids, signal.SIGKILL)
        time.sleep(_PAUSE_S)


def exit_on_sigterm() -> None:
    """Raise SystemExit in the main thread on SIGTERM, with the status of a shell, if the program has no other way."""
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))


def send(pids: Iterable[int], signal_number: signal.Signals) -> None:
    """Send a signal to each process that is still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal_number)


def _is_stepd(pid: int, folder: Path, node: str | None) -> bool:
    """Return whether a process is a slurmstepd of the cluster (on that node): it has its slurmd's log open.

    Newer releases write the process's title over its environment, so that alone shows nothing.
    """
    logs = folder / "log"
    try:
        if Path(f"/proc/{pid}/comm").read_text().strip() != "slurmstepd":
            return False
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False
    for descriptor in descriptors:
        with suppress(OSError):  # closed meanwhile
            opened = descriptor.readlink()
            if opened.parent == logs and (node is None or opened.name == f"slurmd.{node}.log"):
                return True
    return False


def _in_job(environment: frozenset[bytes], folder: Path, node: str | None) -> bool:
    """Return whether a process with this environment was started by a job of the cluster (on that node)."""
    if _entry("SLURM_CONF", str(slurm_conf_path(folder))) not in environment:
        return False
    if node is not None:
        return _entry("SLURMD_NODENAME", node) in environment
    return any(entry.startswith(b"SLURMD_NODENAME=") for entry in environment)


def _family(belongs: Callable[[int, frozenset[bytes]], bool]) -> tuple[int, ...]:
    """Return the processes with an environment that `belongs`, and descendants: a job may clear its environment."""
    children: dict[int, list[int]] = {}
    found: set[int] = set()
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        pid = int(process.name)
        try:
            # After the program's name, which stands in parentheses and may hold any character: state, parent.
            parent = int((process / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(pid)
            if belongs(pid, frozenset((process / "environ").read_bytes().split(b"\0"))):
                found.add(pid)
        except OSError:
            continue  # it has ended meanwhile, or its environment is another user's secret
    unvisited = list(found)
    while unvisited:
        for child in children.get(unvisited.pop(), ()):
            if child not in found and not _is_dead(child):
                found.add(child)
                unvisited.append(child)
    return tuple(sorted(found))


def _is_dead(pid: int) -> bool:
    """Return whether a process has ended and merely waits for its parent to take note."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] in {"Z", "X"}
    except OSError:
        return True


def _entry(name: str, value: str) -> bytes:
    """Return one entry of an environment as /proc shows it."""
    return os.fsencode(f"{name}={value}")
