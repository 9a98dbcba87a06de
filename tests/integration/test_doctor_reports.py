"""`tesched doctor` on the ways by which jobs report."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest
from tesched_daemon import bounded_read
from tesched_daemon.config import ReportsConfig
from tesched_daemon.doctor import reports as doctor_reports
from tesched_daemon.doctor.finding import Finding, Severity
from tesched_daemon.doctor.reports import examine
from tesched_daemon.job_reports.inbox import Inbox
from tesched_daemon.job_reports.socket import listening


def looked(spool: Path) -> Finding:
    (found,) = examine(ReportsConfig(spool=str(spool)))
    return found


def test_nothing_is_said_of_what_is_not_configured() -> None:
    assert list(examine(ReportsConfig())) == []


@pytest.mark.parametrize(
    ("mode", "level", "said"),
    [
        (0o1777, Severity.OK, "mode 1777"),
        (0o3773, Severity.OK, "mode 3773"),
        (0o755, Severity.WARN, "other users cannot make their folders in it"),
        (0o777, Severity.WARN, "anybody may take away other users' folders"),
    ],
)
def test_a_spool_is_a_folder_in_which_each_user_may_make_an_own_folder(
    tmp_path: Path, mode: int, level: Severity, said: str
) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    spool.chmod(mode)
    found = looked(spool)
    assert (found.check, found.level, said in found.text) == ("spool", level, True)


def test_a_spool_that_is_missing_or_no_folder_or_hangs_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "No such file or directory: no job can report" in looked(tmp_path / "nowhere").text
    (tmp_path / "file").touch()
    assert "is no folder" in looked(tmp_path / "file").text
    monkeypatch.setattr(bounded_read, "WAIT_S", 0.01)
    for_ever = threading.Event()
    monkeypatch.setattr(doctor_reports, "_spool_finding", lambda _folder: for_ever.wait())
    assert "has not answered" in looked(tmp_path).text
    for_ever.set()


def answer(address: str, munge_socket: str) -> Finding:
    (found,) = examine(ReportsConfig(socket=address, munge_socket=munge_socket))
    assert found.check == "report socket"
    return found


def test_a_socket_that_answers_and_takes_nothing(munged: str, tmp_path: Path) -> None:
    inbox = Inbox()
    path = str(tmp_path / "s")
    with listening(path, munged, inbox):
        assert answer(path, munged) == Finding(
            level=Severity.OK, check="report socket", text=f"{path} answers, and munge says who sends"
        )
    assert not inbox.waiting()


def test_a_fault_of_a_socket_is_reported(munged: str, tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    assert "Failed to access" in answer(path, str(tmp_path / "nowhere")).text
    assert "does not answer: No such file or directory" in answer(path, munged).text
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert "does not answer: Connection refused" in answer(f"127.0.0.1:{port}", munged).text
    assert answer(f"127.0.0.1:{port}", munged).level is Severity.WARN
