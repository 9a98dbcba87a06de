"""The daemon's log and what systemd hears: users' text begins no line and no field."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

import pytest
from tesched_daemon.log_lines import LineFormatter
from tesched_daemon.sdnotify import notify

FORGED = "x\n2026-01-01 00:00:00,000 INFO requeue job 7: sent\x1b[2J\u202e"


def record(text: str, *words: object, error: BaseException | None = None) -> logging.LogRecord:
    about = (type(error), error, error.__traceback__) if error else None
    return logging.LogRecord("tesched", logging.WARNING, __file__, 1, text, words, about)


def test_a_name_with_line_feeds_is_one_line_of_the_log() -> None:
    line = LineFormatter("%(levelname)s %(message)s").format(record("job %d of %s failed", 7, FORGED))
    assert line == r"WARNING job 7 of x\n2026-01-01 00:00:00,000 INFO requeue job 7: sent\x1b[2J\u202e failed"


def test_no_line_of_a_traceback_passes_for_a_message() -> None:
    try:
        raise ValueError(FORGED)  # noqa: TRY301 - the traceback is what is tested
    except ValueError as error:
        first, *more = LineFormatter("%(message)s").format(record("a turn failed", error=error)).split("\n")
    assert first == "a turn failed"
    assert more
    assert all(line.startswith("    ") and line.isprintable() for line in more)


def test_the_record_itself_stays_as_it_is_for_other_handlers() -> None:
    one = record("%s", FORGED)
    LineFormatter("%(message)s").format(one)
    assert one.getMessage() == FORGED


def test_the_log_of_the_daemon_is_written_by_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tesched_daemon import log_lines  # noqa: PLC0415 - beside what it changes

    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setenv("JOURNAL_STREAM", "1:2")
    before = {name: logging.getLogger(name).level for name in ("apscheduler", "alembic")}
    try:
        log_lines.set_up()
        logging.getLogger("tesched_daemon.loop").warning("of %s", FORGED)
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)
    assert capsys.readouterr().err.splitlines() == [
        r"of x\n2026-01-01 00:00:00,000 INFO requeue job 7: sent\x1b[2J\u202e"
    ]


def test_a_summary_with_line_feeds_is_one_field_for_systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "s"))
        systemd.settimeout(10)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "s"))
        notify(STATUS="ready for a\nMAINPID=1", WATCHDOG="1")
        assert systemd.recv(1000).decode().split("\n") == [r"STATUS=ready for a\nMAINPID=1", "WATCHDOG=1"]
