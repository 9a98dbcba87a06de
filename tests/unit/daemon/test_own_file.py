"""Files that the daemon keeps at a site's paths: nothing else there is written, replaced, removed or waited for."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from tesched_core.intake.class_rules import Classification
from tesched_core.model.decision import Admission
from tesched_daemon.admission_file import AdmissionFile
from tesched_daemon.marks_file import MarksFile
from tesched_daemon.own_file import OwnFile


def _marks(path: Path) -> str:
    """Write marks, and return what is said of that."""
    file = MarksFile(path=path)
    file.doubt()
    try:
        file.write(())
    except OSError:
        assert file.failure
    return file.failure


def _admission(path: Path) -> str:
    """Write the admission file and remove it, and return what is said of the removal."""
    file = AdmissionFile(path=path)
    file.follow(Admission(until=1.0, most_s=1.0), Classification(), now=0.0, longest_wait_s=1.0)
    file.withdraw()
    return file.failure


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))


def as_it_is(path: Path) -> tuple[object, ...]:
    """Return what a write, a replacement or a removal of a file would change, and reading it would not."""
    status = path.lstat()
    text = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
    return status.st_ino, status.st_mode, status.st_size, status.st_mtime_ns, text


#: what may stand at a path, and what is said of it
OTHERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "another file": (lambda path: path.write_text("SQLite format 3"), "it is another file, which is left"),
    "a word that begins alike": (lambda path: path.write_text("tesched-"), "it is another file, which is left"),
    "a binary file": (lambda path: path.write_bytes(b"\0" * 100), "it is another file, which is left"),
    "a folder": (lambda path: path.mkdir(), "it is a folder"),
    "a FIFO": (os.mkfifo, "it is a FIFO"),
    "a socket": (_socket, "it is a socket"),
    "a dangling link": (lambda path: path.symlink_to("nothing"), "it is a symbolic link"),
    "a link to a file": (lambda path: path.symlink_to("/etc/passwd"), "it is a symbolic link"),
}


@pytest.mark.parametrize("write", [_marks, _admission])
@pytest.mark.parametrize("other", OTHERS)
def test_what_is_another_is_left_and_named(tmp_path: Path, other: str, write: Callable[[Path], str]) -> None:
    path = tmp_path / "path"
    make, why = OTHERS[other]
    make(path)
    before = as_it_is(path)
    said = write(path)
    assert f"{path}: {why}" in said
    assert f"name another path (slurm.{'marks' if write is _marks else 'admission'})" in said
    assert as_it_is(path) == before, "neither written, nor replaced, nor removed"
    assert [*tmp_path.iterdir()] == [path], "and nothing is left beside it"


@pytest.mark.parametrize("write", [_marks, _admission])
def test_a_device_is_left_and_named(write: Callable[[Path], str]) -> None:
    path = Path("/dev/null")
    before = path.lstat()
    assert f"{path}: it is a device" in write(path)
    after = path.lstat()
    assert (after.st_ino, after.st_mode, after.st_rdev) == (before.st_ino, before.st_mode, before.st_rdev)


@pytest.mark.parametrize("write", [_marks, _admission])
def test_each_knows_the_other_for_another(tmp_path: Path, write: Callable[[Path], str]) -> None:
    path = tmp_path / "path"
    path.write_text("tesched-admission 1\nend\n" if write is _marks else "tesched-marks 1\nend 0\n")
    assert "it is another file, which is left" in write(path)


@pytest.mark.parametrize("write", [_marks, _admission])
@pytest.mark.parametrize("text", ["", "tesched-marks 1\nend 0\n", "tesched-marks 2\n"])
def test_one_of_its_own_and_an_empty_one_are_replaced(tmp_path: Path, text: str, write: Callable[[Path], str]) -> None:
    path = tmp_path / "path"
    path.write_text(text if write is _marks else text.replace("marks", "admission"))
    assert write(path) == ""


def test_what_stands_where_the_new_one_is_written_is_left_too(tmp_path: Path) -> None:
    beside = tmp_path / ".path.new"
    beside.write_text("precious")
    said = _marks(tmp_path / "path")
    assert f"{beside}, where it is written first: it is another file, which is left" in said, "it is named itself"
    assert beside.read_text() == "precious"
    beside.write_text("tesched-marks 1\n12 * 3")
    assert _marks(tmp_path / "path") == "", "one that a crash has left"


def test_the_file_that_it_has_put_there_is_its_own_whatever_stands_in_it(tmp_path: Path) -> None:
    file = OwnFile(path=tmp_path / "path", key="slurm.marks", word="tesched-marks")
    file.replace("tesched-marks 1\n")
    file.path.write_text("garbage")
    file.replace("tesched-marks 1\n")
    assert file.path.read_text() == "tesched-marks 1\n"
    # A file system gives a new file the number of one that is gone, unless that is held.
    file.path.unlink()
    file.path.write_text("precious")
    with pytest.raises(OSError, match="another file"):
        file.replace("tesched-marks 1\n")
    with pytest.raises(OSError, match="another file"):
        file.remove()
    assert file.path.read_text() == "precious"


def _open() -> int:
    """Return how many files this process has open."""
    return len([*Path("/proc/self/fd").iterdir()])


def test_no_file_is_held_open_for_long(tmp_path: Path) -> None:
    before = _open()
    file = OwnFile(path=tmp_path / "path", key="slurm.marks", word="tesched-marks")
    for _ in range(3):
        file.replace("tesched-marks 1\n")
        assert _open() == before + 1
    file.remove()
    assert _open() == before
    file.replace("tesched-marks 1\n")
    del file
    assert _open() == before
