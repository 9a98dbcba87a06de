"""What the running daemon does not see, or may not write, of its configuration's paths: its unit shuts it in.

`ProtectHome=`, `PrivateTmp=` and `ProtectSystem=strict` of systemd/tesched.service give it other folders at some paths
and make the rest read-only; a site's drop-in may change that. So its own view counts, /proc/PID/root (proc(5)),
which root and the daemon's user may read. Another user knows nothing of it, and nothing is said.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tesched_core.model.limits import YieldBy

from tesched_daemon.bounded_read import bounded_read
from tesched_daemon.config import Config
from tesched_daemon.doctor.finding import Finding, warn
from tesched_daemon.hook_fit import keys_of

_CHECK, _SPOOL = "unit", "reports.spool"
_PAGE = "docs/howto/installation.md#what-the-unit-lets-it-reach"


def examine(config: Config, pid: int) -> Iterator[Finding]:
    """Yield the paths that are there for this user, and for the daemon with this process id are not, or are others."""
    try:
        found = bounded_read(lambda: [*_findings(config, Path(f"/proc/{pid}/root"))])
    except OSError:  # a file server hangs: other checks say which
        return
    yield from found


def _findings(config: Config, view: Path) -> Iterator[Finding]:
    if not _is_there(view):
        return
    elsewhere = "name a path outside of /home, /root, /run/user, /tmp and /var/tmp"
    for key, path in _read(config):
        # Of these the spool alone is a folder that others write to. A file is replaced now and then.
        if text := _hidden(view, path, key) or (_another(view, path, key) if key == _SPOOL else ""):
            yield _warning(text, f"{elsewhere}; or ProtectHome=read-only, below /tmp BindReadOnlyPaths={path}")
    for key, path in _written(config):
        folder = path.parent
        if text := _hidden(view, folder, key) or _another(view, folder, key):
            bound = f"ProtectHome=read-only and ReadWritePaths={folder}, below /tmp BindPaths={folder}"
            yield _warning(text, f"name a path in /run/tesched; or {bound}")
        elif _read_only(folder) is False and _read_only(_within(view, folder)):
            text = f"the daemon may not write in {folder} ({key}): it is read-only to its unit"
            yield _warning(text, f"name a path in /run/tesched; or ReadWritePaths={folder}")


def _warning(text: str, advice: str) -> Finding:
    return warn(_CHECK, text, f"{advice} in a drop-in (systemctl edit tesched): {_PAGE}")


def _hidden(view: Path, path: Path, key: str) -> str:
    """Say that what is at the path is not in the daemon's view; empty if it is, or is not there at all."""
    if _is_there(path) and not _is_there(_within(view, path)):
        return f"the daemon does not see {path} ({key}), which is there: its unit hides it"
    return ""


def _another(view: Path, folder: Path, key: str) -> str:
    """Say that the folder is another one in the daemon's view; empty if it is the same, or not there for either."""
    here, there = _identity(folder), _identity(_within(view, folder))
    if here is None or there is None or here == there:
        return ""
    return f"the daemon sees another folder at {folder} ({key}): its unit has one of its own there"


def _read(config: Config) -> Iterator[tuple[str, Path]]:
    """Yield what the daemon reads or runs, by key. A program without a path is found on the daemon's PATH."""
    command = config.tell.command[0] if config.tell.command else ""
    for key, text in (
        ("slurm.conf", config.slurm.conf),
        (_SPOOL, config.reports.spool),
        ("idle.file", config.idle.file),
        ("tell.command", command if command.startswith("/") else ""),
    ):
        if text:
            yield key, Path(text)


def _written(config: Config) -> Iterator[tuple[str, Path]]:
    """Yield the files that the daemon writes for slurmctld, by key."""
    if config.guard.lever is YieldBy.PLUGIN:
        yield "slurm.marks", Path(config.slurm.marks)
    if keys_of(config.guard):
        yield "slurm.admission", Path(config.slurm.admission)


def _within(view: Path, path: Path) -> Path:
    """Place of the path in the daemon's view. Links are followed here: there an absolute one would lead out of it."""
    return view / path.resolve().relative_to("/")


def _is_there(path: Path) -> bool:
    return _identity(path) is not None


def _identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of what is at the path, the same in each view; None if nothing is."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _read_only(folder: Path) -> bool | None:
    """Check whether the folder is mounted read-only; None if it is not there."""
    try:
        return bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
    except OSError:
        return None
