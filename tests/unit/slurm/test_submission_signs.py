"""Signs of a submission: folders of scripts that come and go, and slurmctld's count."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tesched_core.model.actions import Failure
from tesched_slurm.run_command import Commands
from tesched_slurm.submission_signs import ScriptFolders, SubmissionCount

#: Linux' user without rights
NOBODY = 65534


@pytest.fixture
def state() -> Iterator[Path]:
    """Give a state folder that any user may search, as a site's usually is."""
    with tempfile.TemporaryDirectory(prefix="state-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def script(state: Path, job_id: int) -> Path:
    """Make the folder of a job's script as slurmctld does, which alone may enter it and the one above."""
    above = state / f"hash.{job_id % 10}"
    above.mkdir(mode=0o700, exist_ok=True)
    folder = above / f"job.{job_id}"
    folder.mkdir(mode=0o700)
    return folder


def settled(state: Path) -> ScriptFolders:
    """Return folders that were read, and longer ago than the file system's clock can tell."""
    for number, folder in enumerate(sorted(state.glob("hash.*"))):
        os.utime(folder, (1000 + number, 1000 + number))
    folders = ScriptFolders(folder=state)
    assert folders.has_new(), "a job may have come since the last poll"
    assert not folders.has_new()
    return folders


def test_a_script_in_a_new_folder_and_in_an_old_one_is_seen_once(state: Path) -> None:
    folders = settled(state)
    script(state, 17)
    assert (folders.has_new(), folders.has_new()) == (True, False)
    script(state, 27)
    assert (folders.has_new(), folders.has_new()) == (True, False)


def test_a_job_that_slurmctld_forgets_is_not_a_new_one(state: Path) -> None:
    gone = script(state, 17)
    folders = settled(state)
    gone.rmdir()
    assert not folders.has_new()


def test_one_that_comes_while_another_goes_is_a_new_one(state: Path) -> None:
    gone = script(state, 17)
    folders = settled(state)
    script(state, 27)
    gone.rmdir()
    assert folders.has_new()


def test_a_script_that_is_written_later_is_not_a_new_job(state: Path) -> None:
    folder = script(state, 17)
    folders = settled(state)
    (folder / "environment").write_text("x")
    assert not folders.has_new()


def as_nobody(call: Callable[[], bool]) -> bool | str:
    """Return what the call returns, or the error that it raises, in a process without rights."""
    if os.geteuid() != 0:
        return call()
    read, write = os.pipe()
    if (child := os.fork()) == 0:
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        try:
            said = str(call())
        except OSError as error:
            said = str(error.strerror)
        os.write(write, said.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as said_by_child:
        said = said_by_child.read()
    os.waitpid(child, 0)
    return {"True": True, "False": False}.get(said, said)


def test_no_right_on_slurmctlds_own_folders_is_needed(state: Path) -> None:
    script(state, 17).parent.chmod(0o000)
    folders = settled(state)
    assert as_nobody(folders.has_new) is False
    (state / "hash.7").chmod(0o700)
    script(state, 27)
    (state / "hash.7").chmod(0o000)
    assert as_nobody(folders.has_new) is True
    (state / "hash.7").chmod(0o700)


@pytest.mark.parametrize("exists", [True, False])
def test_a_state_folder_that_is_not_there_is_an_error_and_an_empty_one_none(state: Path, *, exists: bool) -> None:
    folders = ScriptFolders(folder=state if exists else state / "none")
    if exists:
        assert folders.has_new()
    else:
        with pytest.raises(FileNotFoundError):
            folders.has_new()


def counting(folder: Path, monkeypatch: pytest.MonkeyPatch, answers: list[str]) -> SubmissionCount:
    """Return a count by an sdiag that gives these answers in turn."""
    program = folder / "sdiag"
    program.write_text(f'#!/bin/sh\ncd {folder}\nn=$(cat n); echo $((n + 1)) > n\ncat "answer.$n"\n')
    program.chmod(0o755)
    (folder / "n").write_text("0")
    for number, answer in enumerate(answers):
        (folder / f"answer.{number}").write_text(answer)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return SubmissionCount(commands=Commands())


def test_a_count_that_has_grown_is_a_new_job_and_one_set_to_zero_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = [7, 7, 8, 0, 0, 2, 9]
    count = counting(tmp_path, monkeypatch, [f"Jobs pending: 5\nJobs submitted: {n}\n" for n in numbers])
    assert [count.has_new() for _ in numbers[:-1]] == [True, False, True, False, False, True]
    count.forget()
    assert count.has_new() is True
    assert count.commands.calls == {"sdiag": 7}


def test_an_answer_of_another_form_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(counting(tmp_path, monkeypatch, ["nothing\n"]).has_new(), Failure)
