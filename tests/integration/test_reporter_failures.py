"""What fails as a training reports: it is tried again, within bounds, and never ends the training."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tesched_report import document
from tesched_report.reporter import Reporter

from tests.integration.test_reporter import RUN_S, content, job, train


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Give a spool folder."""
    folder = tmp_path / "spool"
    folder.mkdir()
    return folder


def failing(monkeypatch: pytest.MonkeyPatch, *errors: OSError | None) -> None:
    """Let the next writes of a report end so, one after the other, and all after them well."""
    left = list(errors)

    def write(path: Path, made: bytes) -> None:
        error = left.pop(0) if left else None
        if error is not None:
            raise error
        document.write(path, made)

    monkeypatch.setattr("tesched_report.reporter.write", write)


@pytest.mark.parametrize("times", [1, 3])
def test_a_report_is_written_after_a_failed_write_without_another_report(
    spool: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    failing(monkeypatch, *[OSError(f"no {time}") for time in range(times)])
    reporter = Reporter(job(spool))
    reporter.report(iteration=7, loss=1)
    reporter.flush(RUN_S)
    assert [point[0] for point in content(spool)["points"]] == [7]


def test_a_flush_does_not_take_a_failed_write_for_done(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mended = threading.Event()

    def full(path: Path, made: bytes) -> None:
        if not mended.is_set():
            raise OSError("disk full")
        document.write(path, made)

    monkeypatch.setattr("tesched_report.reporter.write", full)
    reporter = Reporter(job(spool), interval_s=0.0)
    reporter.report(iteration=7, loss=1)
    reporter.flush(0.3)
    assert list((spool / str(os.geteuid())).iterdir()) == []
    mended.set()
    reporter.flush(RUN_S)
    assert [point[0] for point in content(spool)["points"]] == [7]


def test_a_report_is_written_before_old_files_are_removed_and_whatever_becomes_of_that(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there: list[bool] = []

    def refused(folder: Path) -> Iterator[os.DirEntry[str]]:
        there.append((Path(folder) / "42.json").exists())
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(os, "scandir", refused)
    reporter = Reporter(job(spool), interval_s=0.0)
    for iteration in (7, 8):
        reporter.report(iteration=iteration, loss=1)
        reporter.flush(RUN_S)
    assert [point[0] for point in content(spool)["points"]] == [7, 8]
    assert there == [True]


def test_a_training_without_a_standard_error_goes_on(spool: Path) -> None:
    script = "import sys, tesched_report as t\nsys.stderr = None\nt.report(iteration=-1, loss=1)\nprint('trained')"
    ended = train(spool, script)
    assert (ended.returncode, ended.stdout) == (0, "trained\n")


def test_a_time_for_flush_that_is_none_ends_nothing(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter(job(spool))
    reporter.report(iteration=7, loss=1)
    reporter.flush("x")  # type: ignore[arg-type]
    reporter.flush(RUN_S)
    assert content(spool)["points"]
    assert "flush() was ignored" in capsys.readouterr().err


def test_a_thread_that_cannot_be_started_is_tried_again_with_the_next_report(
    spool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    reporter = Reporter(job(spool))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        reporter.report(iteration=7, loss=1)
    reporter.report(iteration=8, loss=1)
    reporter.flush(RUN_S)
    assert [point[0] for point in content(spool)["points"]] == [7, 8]


def test_workers_of_forks_of_forks_wait_once_at_their_end(spool: Path) -> None:
    script = """
    import atexit, os, tesched_report
    made = []
    def noting(register):
        def note(*functions, **more):
            made.append(register.__name__)
            return register(*functions, **more)
        return note
    atexit.register, os.register_at_fork = noting(atexit.register), noting(os.register_at_fork)
    for generation in range(3):
        tesched_report.report(iteration=generation, loss=1)
        child = os.fork()
        if child:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    tesched_report.report(iteration=3, loss=1)
    print(*sorted(made))
    """
    ended = train(spool, script)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "register register_at_fork\n", "")
    # By its one exit handler.
    assert content(spool)["points"][-1][0] == 3
