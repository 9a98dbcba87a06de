"""Idle file of the site's: which of its jobs count as idle, and when the file is not believed."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.resources import JobId
from tesched_daemon.config import parse
from tesched_daemon.config_errors import ConfigError
from tesched_daemon.idle_file import MOST_BYTES, MOST_LINES, IdleFile
from tesched_daemon.settings import IdleConfig

from tests.builders import NOW, cluster, node, running, share, waiting

WRITTEN = NOW - 10


def job(number: int) -> Job:
    return running(number, share("n1", 1), start_time=NOW - 5000)


SEEN = cluster([node("n1")], [job(1), job(2)])


def source(path: Path, text: str | bytes = "", *, mode: int = 0o644, written: float = WRITTEN) -> IdleFile:
    """Write the file, and return what reads it; it is NOW."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path.chmod(mode)
    os.utime(path, (written, written))
    return IdleFile(config=IdleConfig(file=str(path)), clock=lambda: NOW)


def test_jobs_that_idle_for_long_enough_count_as_idle(tmp_path: Path) -> None:
    text = f"# jobs of n1\n\n1 {NOW - 900:.0f}\n2\t{NOW - 899.5}\r\n77 1\n"
    file = source(tmp_path / "idle", text)
    assert (file.read(SEEN), file.trouble) == ({1: NOW - 900}, "")
    file.configure(IdleConfig(file=str(tmp_path / "idle"), after_s=60))
    assert file.read(SEEN) == {1: NOW - 900, 2: NOW - 899.5}


def test_an_idle_time_begins_with_the_present_run(tmp_path: Path) -> None:
    file = source(tmp_path / "idle", "1 1\n2 1\n3 1\n")
    just = replace(job(2), start_time=NOW - 30)
    unknown = replace(job(3), start_time=None)
    assert file.read(cluster([node("n1")], [job(1), just, unknown])) == {1: NOW - 5000}


def test_only_running_best_effort_jobs_count_as_idle(tmp_path: Path) -> None:
    suspended = replace(job(4), state=JobState.SUSPENDED)
    seen = cluster([node("n1")], [job(1), job(2), waiting(3), suspended], exempt=(2,))
    be = seen.traits[JobId(1)]
    seen = seen.with_traits({**seen.traits, JobId(3): be})
    assert source(tmp_path / "idle", "1 1\n2 1\n3 1\n4 1\n").read(seen) == {1: NOW - 5000}


def test_of_a_job_that_stands_there_twice_the_later_time_counts(tmp_path: Path) -> None:
    assert source(tmp_path / "idle", f"1 {NOW - 1000}\n1 {NOW - 2000}\n").read(SEEN) == {1: NOW - 1000}
    assert source(tmp_path / "idle", f"1 {NOW + 1000}\n").read(SEEN) == {}, "idle from a time to come"


def test_a_file_that_was_written_anew_is_read_anew(tmp_path: Path) -> None:
    file = source(tmp_path / "idle", "1 1\n")
    assert set(file.read(SEEN)) == {1}
    new = tmp_path / "new"
    source(new, "2 1\n")
    new.replace(tmp_path / "idle")
    assert set(file.read(SEEN)) == {2}


def test_without_a_file_in_the_configuration_no_job_is_idle_and_nothing_is_wrong() -> None:
    file = IdleFile(config=IdleConfig())
    assert (file.read(SEEN), file.trouble) == ({}, "")


def refused(file: IdleFile) -> str:
    """Return why the file is not believed; no job is idle then."""
    assert file.read(SEEN) == {}
    start = f"no job counts as idle: {file.config.file}: "
    assert file.trouble.startswith(start)
    return file.trouble.removeprefix(start)


@pytest.mark.parametrize(
    "line",
    [
        *("1", "1 2 3", "-1 1", "0 1", "1 -1", "1 nan", "1 inf", "1 1e9", "1,1", "1_2 1"),
        *(
            "0x1 1",
            "1 999999999999",
            "99999999999 1",
            "\x1b[31m1 1",
            "\u0661 1",
            "1 1\0",
            "1 1;rm",
            "1 1\x0b",
            "[1, 1]",
        ),
    ],
)
def test_a_file_with_a_line_that_is_no_idle_job_is_not_believed(tmp_path: Path, line: str) -> None:
    why = refused(source(tmp_path / "idle", f"1 1\n{line}\n2 1\n"))
    assert why.startswith("line 2: ")
    assert why.endswith('a line must read "JOBID SINCE", such as "1234 1760000000" (Unix seconds)')
    assert why.isascii()
    assert why.isprintable()


def test_of_a_line_of_any_length_the_beginning_is_shown(tmp_path: Path) -> None:
    assert len(refused(source(tmp_path / "idle", b"\xff" * 100_000))) < 400


def test_a_file_that_is_too_large_is_not_believed(tmp_path: Path) -> None:
    assert refused(source(tmp_path / "idle", "#" * (MOST_BYTES + 1))).startswith(f"it has more than {MOST_BYTES} bytes")
    assert refused(source(tmp_path / "idle", "\n" * MOST_LINES)).startswith(f"it has more than {MOST_LINES} lines")
    assert set(source(tmp_path / "idle", "\n" * (MOST_LINES - 2) + "1 1\n").read(SEEN)) == {1}


@pytest.mark.parametrize(
    ("age_s", "why"), [(301, "it was last written 301 s ago"), (-61, "it was written 61 s in the fut")]
)
def test_a_file_of_another_time_is_not_believed(tmp_path: Path, age_s: float, why: str) -> None:
    file = source(tmp_path / "idle", "1 1\n", written=NOW - age_s)
    assert refused(file).startswith(why)
    os.utime(tmp_path / "idle", (NOW - 300, NOW - 300))
    assert (set(file.read(SEEN)), file.trouble) == ({1}, "")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (str, "No such file or directory"),
        (os.mkfifo, "it is a FIFO"),
        (Path.mkdir, "it is a folder"),
        (lambda path: path.symlink_to("/etc/passwd"), "it is a symbolic link"),
        (_socket, "No such device or address"),
    ],
    ids=["nothing", "fifo", "folder", "link", "socket"],
)
def test_what_is_no_file_is_not_believed_and_not_waited_for(
    tmp_path: Path, make: Callable[[Path], object], why: str
) -> None:
    make(tmp_path / "idle")
    assert refused(IdleFile(config=IdleConfig(file=str(tmp_path / "idle")), clock=lambda: NOW)).startswith(why)


def test_a_file_that_every_user_may_write_to_is_not_believed(tmp_path: Path) -> None:
    assert refused(source(tmp_path / "idle", "1 1\n", mode=0o666)).startswith(
        "every user may write to it; it must belong"
    )


def test_a_file_of_another_user_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = source(tmp_path / "idle", "1 1\n")
    if os.geteuid() == 0:  # root's files are believed by every daemon
        os.chown(tmp_path / "idle", 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert refused(file).endswith("; it must belong to root or to the daemon's user, who alone may write to it")
    assert "it belongs to " in file.trouble


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            'file = "idle"',
            'idle.file: must be empty or the absolute path of a file, such as "/run/tesched-idle/idle", not "idle"',
        ),
        ('file = "/run/"', "idle.file: must be empty or the absolute path of a file"),
        ("file = 3", "idle.file: must be a text in quotes"),
        ("after_s = -1", "idle.after_s: must be a number of at least 0, not -1"),
        ("stale_s = 0", "idle.stale_s: must be between 1 and 86400 seconds, not 0"),
        ("since = 1", "idle.since: unknown key"),
    ],
)
def test_bad_keys_of_the_configuration_are_refused(said: str, why: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse(f"[idle]\n{said}\n", "x.toml")
    assert str(error.value).startswith(f"x.toml: {why}")


def test_the_idle_file_is_not_one_that_the_daemon_writes() -> None:
    with pytest.raises(ConfigError, match=r"slurm\.marks: must be another file than idle\.file"):
        parse('[idle]\nfile = "/run/tesched/marks"\n', "x.toml")
