"""Meaning of Slurm's error texts for tesched."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tesched_core.model.actions import Failure, FailureKind
from tesched_slurm.errors import failure
from tesched_slurm.run_command import Commands


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("slurm_load_jobs error: Invalid job id specified", FailureKind.NOT_FOUND),
        ("Invalid job id specified for job 99", FailureKind.NOT_FOUND),
        ("Job is no longer pending execution for job 7", FailureKind.ALREADY_DONE),
        ("Job is pending execution for job 7", FailureKind.ALREADY_DONE),
        ("Job/step already completing or completed for job 7", FailureKind.ALREADY_DONE),
        ("Access/permission denied for job 7", FailureKind.DENIED),
        ("Requested operation is presently disabled for job 7", FailureKind.REFUSED),
        ("Unable to contact slurm controller (connect failure)", FailureKind.UNREACHABLE),
        ("Socket timed out on send/recv operation", FailureKind.UNREACHABLE),
        ("scontrol: error: Could not establish a configuration source", FailureKind.UNREACHABLE),
        ("Zero Bytes were transmitted or received", FailureKind.UNREACHABLE),
        ("Resource temporarily unavailable", FailureKind.BUSY),
        ("the moon is full", FailureKind.UNKNOWN),
        # As a job_submit plugin's slurm_job_modify has slurmctld answer on 22.05.8, by what it returns.
        ("Unspecified error for job 7", FailureKind.REFUSED),
        ("3_0-5: Unspecified error", FailureKind.REFUSED),
        ("3_[0-5%2]: Unspecified error", FailureKind.REFUSED),
        ("Unspecified error for job 3_4", FailureKind.REFUSED),
        ("Environment variable exists for job 7", FailureKind.REFUSED),
        ("Unknown error 9999 for job 7", FailureKind.REFUSED),
        ("Invalid user id for job 7\nslurm_suspend error: Invalid user id", FailureKind.DENIED),
        # Nothing of slurmctld's, or no answer that says what it did.
        ("Message receive failure for job 7", FailureKind.UNREACHABLE),
        ("Connection reset by peer for job 7", FailureKind.UNREACHABLE),
        ("Protocol authentication error for job 7", FailureKind.UNREACHABLE),
        ("Slurm backup controller in standby mode for job 7", FailureKind.UNREACHABLE),
        ("Unexpected message received for job 7", FailureKind.UNKNOWN),
        ("scancel: error: Kill job error on job id 7: Unspecified error", FailureKind.UNKNOWN),
        # Neither is lasting.
        ("Job can not be altered now, try again later for job 7", FailureKind.BUSY),
        ("Unable to connect to database for job 7", FailureKind.BUSY),
    ],
)
def test_texts_have_their_kinds(text: str, kind: FailureKind) -> None:
    assert failure(text, of_change=True).kind is kind


@pytest.mark.parametrize("text", ["Unspecified error for job 7", "slurm_suspend error: Unspecified error"])
def test_an_answer_to_a_requeue_or_suspension_that_is_not_listed_is_unknown(text: str) -> None:
    assert failure(text).kind is FailureKind.UNKNOWN
    assert failure("Requested operation is presently disabled for job 7").kind is FailureKind.REFUSED


@pytest.mark.parametrize(
    "text",
    [
        "Header lengths are longer than data received",
        "Transport endpoint is not connected",
        "Cannot assign requested address",
        "Too many open files",
        "Operation now in progress",
        "Host is down",
        "Software caused connection abort",
        "Bad file descriptor",
        "No buffer space available",
    ],
)
def test_an_error_of_the_connection_s_is_no_answer(text: str) -> None:
    assert failure(f"{text} for job 7", of_change=True).kind is FailureKind.UNREACHABLE
    assert failure(text, of_change=True, answered=True).kind is FailureKind.UNREACHABLE


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("hold 7", FailureKind.REFUSED),
        ("update jobid=7 nice=1", FailureKind.REFUSED),
        ("requeue 7", FailureKind.UNKNOWN),
    ],
)
def test_a_command_s_error_is_an_answer_where_it_changes_a_field(
    words: str, kind: FailureKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "scontrol"
    program.write_text("#!/bin/sh\necho 'Unspecified error for job 7' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    found = Commands().run(("scontrol", *words.split()))
    assert isinstance(found, Failure)
    assert found.kind is kind


def test_an_error_of_pyslurm_s_is_an_answer_unless_it_is_the_connection_s() -> None:
    assert failure("Unspecified error", of_change=True, answered=True).kind is FailureKind.REFUSED
    assert failure("Message receive failure", of_change=True, answered=True).kind is FailureKind.UNREACHABLE


def test_the_message_is_the_last_line() -> None:
    assert failure("a warning\n\nslurm_suspend error: Access/permission denied\n\n") == Failure(
        kind=FailureKind.DENIED, message="slurm_suspend error: Access/permission denied"
    )


def test_silence_is_no_answer() -> None:
    assert failure("") == Failure(kind=FailureKind.UNKNOWN, message="no message")


def test_a_command_that_is_not_installed() -> None:
    found = Commands().run(("tesched-no-such-command",))
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.UNREACHABLE
    assert "installed" in found.message


def test_a_command_that_hangs_ends_in_time() -> None:
    found = Commands(timeout_s=0.2).run((sys.executable, "-c", "import signal; signal.pause()"))
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.UNREACHABLE
