"""The example that mails users: one mail to one address, whatever the job is called."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.policy import default
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "tell_by_mail.py"
TOLD = {
    "version": 1,
    "job_id": 12,
    "job": "10_2",
    "name": "train\r\nBcc: everybody@example.org\r\n\r\n.\r\n",
    "user": "ada",
    "preempted_at": 1_000_000.0,
    "for": "a trial-and-error job",
    "left": "requeued",
    "lost": False,
    "times": 1,
    "most": 2,
}


@contextmanager
def mail_server() -> Iterator[tuple[str, list[bytes], list[bytes]]]:
    """Give a server's address, and the recipients and mails that it gets."""
    recipients: list[bytes] = []
    mails: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rwb") as stream:

            def answer(text: bytes) -> None:
                stream.write(text + b"\r\n")
                stream.flush()

            answer(b"220 ready")
            while line := stream.readline():
                word = line[:4].upper()
                if word == b"RCPT":
                    recipients.append(line.strip())
                if word == b"DATA":
                    answer(b"354 go on")
                    lines = iter(stream.readline, b".\r\n")
                    mails.append(b"".join(lines))
                answer(b"221 bye" if word == b"QUIT" else b"250 ok")
                if word == b"QUIT":
                    return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", recipients, mails
        thread.join(30)


def run(server: str, **changes: object) -> subprocess.CompletedProcess[str]:
    """Notify of a preemption."""
    argv = [sys.executable, str(EXAMPLE), server, "example.org", "tesched@example.org"]
    return subprocess.run(
        argv, input=json.dumps({**TOLD, **changes}), capture_output=True, text=True, timeout=60, check=False
    )


def test_the_user_gets_one_mail_whatever_the_job_is_called() -> None:
    with mail_server() as (server, recipients, mails):
        done = run(server)
    assert done.returncode == 0, done.stderr
    assert recipients == [b"rcpt TO:<ada@example.org>"]
    mail = message_from_bytes(mails[0], policy=default)
    assert mail["To"] == "ada@example.org"
    assert mail["Subject"] == "Slurm job 10_2 was preempted and is back in the queue"
    assert mail["Bcc"] is None
    body = mail.get_content()
    assert "for a trial-and-error job, and is back in the queue." in body
    assert "That was preemption 1 of at most 2." in body


def test_a_job_that_has_ended_is_not_said_to_be_back_and_what_is_not_counted_has_no_number() -> None:
    with mail_server() as (server, _, mails):
        done = run(server, left="ended", times=0)
    assert done.returncode == 0, done.stderr
    mail = message_from_bytes(mails[0], policy=default)
    assert mail["Subject"] == "Slurm job 10_2 was preempted and is not put back in the queue, as its owner said"
    assert "is back" not in mail.get_content()
    assert "preemption 0" not in mail.get_content()


def test_a_user_name_that_is_no_address_is_refused() -> None:
    done = run("127.0.0.1:9", user="ada\nBcc: everybody")
    assert done.returncode == 1
    assert "CR or LF" in done.stderr or "invalid" in done.stderr.lower()


def test_a_server_that_does_not_answer_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert run(f"127.0.0.1:{port}").returncode == 1
