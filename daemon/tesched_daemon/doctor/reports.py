"""The doctor's lines on reports: whether jobs can write into the spool, and whether the socket and munge answer."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from tesched_daemon.bounded_read import bounded_read
from tesched_daemon.config import ReportsConfig
from tesched_daemon.doctor.finding import Finding, ok, warn
from tesched_daemon.job_reports.address import address_of
from tesched_daemon.job_reports.munge import Munge, MungeError
from tesched_daemon.job_reports.socket import HELLO

#: Seconds for which the daemon is waited for.
_WAIT_S = 5.0


def examine(reports: ReportsConfig) -> Iterator[Finding]:
    """Yield how the ways are by which jobs can report; nothing of those that are not configured."""
    if reports.spool:
        yield _spool(Path(reports.spool))
    if reports.socket:
        yield _socket(reports)


def _spool(folder: Path) -> Finding:
    try:
        return bounded_read(lambda: _spool_finding(folder))
    except TimeoutError as error:
        return warn("spool", f"{folder} {error.strerror}", "check its file system")


def _spool_finding(folder: Path) -> Finding:
    advice = "make it on the file system that jobs share, mode 1777; docs/howto/reports.md"
    try:
        found = folder.stat()
    except OSError as error:
        return warn("spool", f"{folder} (reports.spool): {error.strerror}: no job can report", advice)
    mode = f"{stat.S_IMODE(found.st_mode):04o}"
    if not stat.S_ISDIR(found.st_mode):
        return warn("spool", f"{folder} (reports.spool) is no folder: no job can report", advice)
    if found.st_mode & 0o003 != 0o003:
        text = f"{folder} has mode {mode}: other users cannot make their folders in it"
        return warn("spool", text, f"chmod 1777 {folder}, or make each user's folder yourself; docs/howto/reports.md")
    if not found.st_mode & stat.S_ISVTX:
        text = f"{folder} has mode {mode}: anybody may take away other users' folders"
        return warn("spool", text, f"chmod +t {folder}")
    if not os.access(folder, os.X_OK, effective_ids=True):
        advice = "run this as the daemon's user, or give that user the folder's group"
        return warn("spool", f"{folder} cannot be entered by this user", advice)
    return ok("spool", f"{folder}, mode {mode}")


def _socket(reports: ReportsConfig) -> Finding:
    check = "report socket"
    try:
        munge = Munge(socket=reports.munge_socket)
        munge.decoded(munge.encoded(HELLO))
        credential = munge.encoded(HELLO)
    except MungeError as error:
        advice = "install munge and start munged; where its socket is not the usual one, say so by reports.munge_socket"
        return warn(check, f"munge: {error}: no report can be taken on {reports.socket}", advice)
    try:
        said = _said(reports.socket, credential)
    except OSError as error:
        text = f"{reports.socket} (reports.socket) does not answer: {error.strerror or error}"
        return warn(check, text, "start the daemon, or restart it; journalctl -u tesched says why it does not listen")
    if said != "ok":
        return warn(check, f"{reports.socket} answers {said!r}", "check whether the daemon listens there, or what does")
    return ok(check, f"{reports.socket} answers, and munge says who sends")


def _said(address: str, credential: bytes) -> str:
    with _connected(address) as channel:
        channel.sendall(credential + b"\n")
        return channel.recv(200).partition(b"\n")[0].decode(errors="replace")


def _connected(address: str) -> socket.socket:
    where = address_of(address)
    if not isinstance(where, Path):
        return socket.create_connection((where.host or "localhost", where.port), _WAIT_S)
    channel = socket.socket(socket.AF_UNIX)
    try:
        channel.settimeout(_WAIT_S)
        channel.connect(str(where))
    except BaseException:
        channel.close()
        raise
    return channel
