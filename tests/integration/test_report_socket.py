"""Reports by the socket, with a real munged: the sender, what is refused, and that no sender is in another's way."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from tesched_core.model.job_report import MOST_BYTES
from tesched_daemon.job_reports import socket as report_socket
from tesched_daemon.job_reports.address import TcpAddress, address_of
from tesched_daemon.job_reports.inbox import Inbox
from tesched_daemon.job_reports.munge import Munge, MungeError
from tesched_daemon.job_reports.socket import MOST_CLIENTS, MOST_MESSAGE, Server, bound_path, listening
from tesched_report import reporter as reporter_module
from tesched_report import sender as sender_module
from tesched_report.reporter import Reporter
from tesched_report.sender import send
from tesched_testcluster.harness.private_munged import private_munged
from tesched_testcluster.patience import HANG_S, wait_for

from tests.sent_reports import report

ME = os.geteuid()


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def address(munged: str, inbox: Inbox, tmp_path: Path) -> Iterator[str]:
    """Give the address of a server that listens."""
    path = str(tmp_path / "s")
    with listening(path, munged, inbox):
        yield path


def connected(address: str) -> socket.socket:
    channel = socket.socket(socket.AF_UNIX)
    # With a time-out, a queue that is full for the moment would be an error.
    channel.connect(address)
    channel.settimeout(HANG_S)
    return channel


def answer(channel: socket.socket) -> str:
    said = b""
    while piece := channel.recv(1000):
        said += piece
    return said.decode()


def ask(address: str, message: bytes) -> str:
    """Send this and return the answer."""
    with connected(address) as channel:
        channel.sendall(message)
        return answer(channel)


def message(munged: str, content: bytes) -> bytes:
    return Munge(socket=munged).encoded(content) + b"\n"


def test_a_report_is_taken_under_the_uid_of_its_sender(address: str, munged: str, inbox: Inbox) -> None:
    assert ask(address, message(munged, b"tesched-report 1 120_4\n" + report(5))) == "ok\n"
    assert list(inbox.waiting()) == [(ME, "120_4")]
    assert inbox.take(ME, "120_4") == report(5)
    assert inbox.take(ME, "120_4") is None


def test_an_error_of_our_own_over_one_message_does_not_end_the_socket(
    address: str, munged: str, inbox: Inbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(inbox, "put", lambda *_: 1 / 0)
        said = ask(address, message(munged, b"tesched-report 1 120\n" + report(5)))
        assert said == "refused: an error of tesched's own, see its log\n"
    assert "ZeroDivisionError" in caplog.text
    assert ask(address, message(munged, b"tesched-report 1 120\n" + report(6))) == "ok\n"


def test_a_message_that_is_caught_and_sent_again_is_refused(address: str, munged: str, inbox: Inbox) -> None:
    caught = message(munged, b"tesched-report 1 7\n" + report(5))
    assert ask(address, caught) == "ok\n"
    inbox.take(ME, "7")
    assert ask(address, caught) == "refused: munge says: Replayed credential\n"
    assert not inbox.waiting()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda _: b"\n", "refused: munge says: "),
        (lambda _: b"GET / HTTP/1.1\r\n\r\n", "refused: munge says: "),
        (lambda _: bytes(range(256)) * 10, "refused: munge says: "),
        (lambda good: good[:60] + b"AAAA" + good[64:], "refused: munge says: Invalid credential"),
        (lambda good: good.strip() + b"\0\n", "refused: it has a NUL in it"),
        (lambda _: b"M" * (MOST_MESSAGE + 1), f"refused: it is longer than {MOST_MESSAGE} bytes"),
    ],
    ids=["empty", "http", "bytes", "forged", "nul", "long"],
)
def test_what_is_no_credential_is_refused(
    address: str, munged: str, inbox: Inbox, make: Callable[[bytes], bytes], said: str
) -> None:
    found = ask(address, make(message(munged, b"tesched-report 1 7\n" + report(5))))
    assert said.replace("refused: it has", "has") in found
    assert not inbox.waiting()
    assert ask(address, message(munged, b"tesched-report 1 8\n" + report(5))) == "ok\n", "and the next one is served"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"tesched-report 2 7\n{}",
        b"tesched-report 1 ../7\n{}",
        b"tesched-report 1 7\n" + b" " * (MOST_BYTES + 1),
    ],
)
def test_a_credential_that_was_made_for_another_program_is_no_report(
    address: str, munged: str, inbox: Inbox, content: bytes
) -> None:
    assert ask(address, message(munged, content)).startswith("refused: ")
    assert not inbox.waiting()


def test_a_credential_of_another_site_is_refused(address: str, munged: str, inbox: Inbox, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with private_munged(tmp_path / "other") as other:
        assert ask(address, message(other, b"tesched-report 1 7\n" + report(5))) == (
            "refused: munge says: Invalid credential\n"
        )
    assert not inbox.waiting()


def test_a_silent_client_is_sent_away_and_is_in_no_ones_way(
    address: str, munged: str, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = [message(munged, b"tesched-report 1 %d\n" % job + report(5)) for job in range(5)]
    # Who goes before has to because there are too many.
    monkeypatch.setattr(report_socket, "DEADLINE_S", HANG_S)
    with ExitStack() as stack:
        silent = [stack.enter_context(connected(address)) for _ in range(MOST_CLIENTS + 20)]
        for channel in silent[20::3]:
            with suppress(BrokenPipeError):  # it may have had to go by now
                channel.sendall(b"MUNGE:")
        assert [ask(address, each) for each in good] == ["ok\n"] * 5
        # Some of those that say nothing had to go: 25 at least, each any one of those that were there.
        quiet = [channel for channel in silent if channel not in silent[20::3]]
        gone, _, _ = select.select(quiet, [], [], HANG_S)
        assert {answer(channel) for channel in gone} == {"busy\n"}
        monkeypatch.setattr(report_socket, "DEADLINE_S", 0.05)
        with connected(address) as late:
            assert answer(late) == "refused: nothing whole came within 0 s\n"


def test_a_message_that_came_in_time_is_taken_however_late_it_is_read(
    munged: str, inbox: Inbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_socket, "DEADLINE_S", 0.0)
    listener = bound_path(tmp_path / "s", 0o600)
    with connected(str(tmp_path / "s")) as channel:
        channel.sendall(message(munged, b"tesched-report 1 7\n" + report(5)))
        with Server(listener, Munge(socket=munged), inbox).running():
            assert answer(channel) == "ok\n"
    assert list(inbox.waiting()) == [(ME, "7")]


def test_a_client_that_goes_away_in_the_middle_harms_no_other(address: str, munged: str) -> None:
    for _ in range(20):
        with connected(address) as channel:
            channel.sendall(b"MUNGE:AwQ")
    assert ask(address, message(munged, b"tesched-report 1 8\n" + report(5))) == "ok\n"


def test_without_munged_reports_are_refused_and_the_server_stays(inbox: Inbox, tmp_path: Path) -> None:
    with listening(str(tmp_path / "s"), str(tmp_path / "nowhere"), inbox):
        for _ in range(2):
            assert "refused: munge says: Failed to access" in ask(str(tmp_path / "s"), b"MUNGE:AwQ:\n")


@pytest.mark.parametrize(("host", "dualstack"), [("127.0.0.1", True), ("localhost", True), ("", True), ("", False)])
def test_on_tcp_it_is_the_same(
    munged: str, inbox: Inbox, host: str, dualstack: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not dualstack:
        monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    create_server = socket.create_server
    made: list[socket.socket] = []

    def at_a_free_port(address: tuple[str, int], **options: Any) -> socket.socket:
        """Listen where it was to listen, at a port that the kernel gives: one that is chosen before may be taken."""
        assert address[1] == 6820
        made.append(create_server((address[0], 0), **options))
        return made[-1]

    monkeypatch.setattr(socket, "create_server", at_a_free_port)
    with listening(f"{host}:6820", munged, inbox), ExitStack() as stack:
        port = made[0].getsockname()[1]
        channel = stack.enter_context(socket.create_connection((host or "127.0.0.1", port), HANG_S))
        channel.sendall(message(munged, b"tesched-report 1 7\n" + report(5)))
        assert answer(channel) == "ok\n"
    assert inbox.take(ME, "7") == report(5)


def test_a_socket_that_cannot_be_made_is_a_warning_and_a_dead_daemons_is_replaced(
    munged: str, inbox: Inbox, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with listening(str(path), munged, inbox):
        assert ask(str(path), message(munged, b"tesched-report 1 7\n" + report(5))) == "ok\n"
        with listening(str(path), munged, inbox):
            pass
    assert f"no reports are taken on reports.socket {path}: Address already in use" in caplog.text
    with listening("192.0.2.1:6820", munged, inbox):
        pass
    assert "no reports are taken on reports.socket 192.0.2.1:6820: Cannot assign requested address" in caplog.text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("login1:6820", TcpAddress("login1", 6820)),
        (":6820", TcpAddress("", 6820)),
        ("[fe80::1%eth0]:1", TcpAddress("fe80::1%eth0", 1)),
        ("/run/tesched/report.sock", Path("/run/tesched/report.sock")),
    ],
)
def test_an_address_is_a_host_with_a_port_or_a_path(text: str, found: TcpAddress | Path) -> None:
    assert address_of(text) == found


@pytest.mark.parametrize(
    "text", ["login1", "login1:0", "login1:65536", "a:b:1", "run/x", "/" + "x" * 107, "[]:1", " :1"]
)
def test_a_bad_address_is_reported(text: str) -> None:
    with pytest.raises(ValueError, match=r"path|bytes"):
        address_of(text)


# Another user's process that connects as fast as it can, with messages that are whole.
_FLOOD = """
import os, socket, sys
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
sent = []
while True:
    channel = socket.socket(socket.AF_UNIX)
    try:
        channel.connect(sys.argv[1])
        channel.send(b"MUNGE:nothing:\\n")
    except OSError:
        pass
    sent.append(channel)
    if len(sent) == 100:
        print("flooding", flush=True)
    if len(sent) > 200:
        sent.pop(0).close()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_one_users_flood_on_this_host_does_not_starve_another_user(
    munged: str, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the flood has most of the CPUs.
    monkeypatch.setattr(sender_module, "_WAIT_S", HANG_S)
    monkeypatch.setattr(report_socket, "DEADLINE_S", HANG_S)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = f"{folder}/s"
        with listening(path, munged, inbox), ExitStack() as stack:
            for _ in range(2):
                process = stack.enter_context(
                    subprocess.Popen([sys.executable, "-c", _FLOOD, path], stdout=subprocess.PIPE)
                )
                stack.callback(process.kill)
                assert process.stdout is not None
                assert process.stdout.readline() == b"flooding\n"
            environment = {"TESCHED_MUNGE_SOCKET": munged}
            for job in range(4):
                send(path, str(job), report(5), environment)
    assert sorted(inbox.waiting()) == [(ME, str(job)) for job in range(4)]


class TestReporter:
    """`import tesched_report` with TESCHED_SOCKET."""

    @pytest.fixture(autouse=True)
    def _hurried(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reporter_module, "SEND_INTERVAL_S", 0.01)
        monkeypatch.setattr(sender_module, "_WAIT_S", HANG_S)

    @staticmethod
    def environment(address: str, munged: str) -> dict[str, str]:
        return {"SLURM_JOB_ID": "42", "TESCHED_SOCKET": address, "TESCHED_MUNGE_SOCKET": munged}

    def test_a_trainings_report_comes_to_the_inbox(self, address: str, munged: str, inbox: Inbox) -> None:
        reporter = Reporter(self.environment(address, munged), interval_s=0.01)
        reporter.report(iteration=1, loss=0.5, workload="lstm")
        reporter.flush(HANG_S)
        reporter.report(iteration=2, loss=0.25)
        reporter.flush(HANG_S)
        told = json.loads(inbox.take(ME, "42") or b"{}")
        assert [point[:2] for point in told["points"]] == [[1, 0.5], [2, 0.25]]
        assert told["workload"] == "lstm"

    def test_the_command_sends_too(self, address: str, munged: str, inbox: Inbox) -> None:
        ended = subprocess.run(
            [
                *(str(Path(sys.executable).with_name("tesched")), "report", "--iteration", "5", "--loss", "0.3"),
                *("--socket", address),
            ],
            env={**os.environ, "SLURM_JOB_ID": "42", "TESCHED_MUNGE_SOCKET": munged},
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
        assert json.loads(inbox.take(ME, "42") or b"{}")["points"][0][:2] == [5, 0.3]

    def test_it_is_sent_again_when_the_daemon_comes_back(
        self, munged: str, inbox: Inbox, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = str(tmp_path / "later")
        reporter = Reporter(self.environment(path, munged), interval_s=0.01)
        reporter.report(iteration=1, loss=0.5)
        wait_for(lambda: "could not be sent" in capsys.readouterr().err)
        with listening(path, munged, inbox):
            wait_for(inbox.waiting)

    def test_no_call_waits_for_a_daemon_that_does_not_answer_nor_for_munge(self, munged: str, tmp_path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.bind(str(tmp_path / "deaf"))
            deaf.listen()
            # A call that waited would not come back for an hour; the end waits a moment for the last write.
            program = (
                "import functools, tesched_report as t\nfrom tesched_report import reporter, sender\n"
                "sender._WAIT_S = 3600\n"
                "reporter.Reporter.flush = functools.partialmethod(reporter.Reporter.flush, 0.1)\n"
                "for k in range(1000): t.report(iteration=k, loss=1)\n"
                "print('all reported')"
            )
            for changed in ({"TESCHED_SOCKET": str(tmp_path / "deaf")}, {"PATH": "/nowhere"}):
                ended = subprocess.run(
                    [sys.executable, "-c", program],
                    env={**os.environ, **self.environment(str(tmp_path / "deaf"), munged), **changed},
                    capture_output=True,
                    text=True,
                    timeout=HANG_S,
                    check=False,
                )
                assert (ended.returncode, ended.stdout) == (0, "all reported\n")
                assert "Traceback" not in ended.stderr


def test_munge_names_the_sender_and_what_is_wrong(munged: str) -> None:
    munge = Munge(socket=munged)
    credential = munge.encoded(b"text")
    assert munge.decoded(credential) == (ME, b"text")
    with pytest.raises(MungeError, match="Replayed"):
        munge.decoded(credential)
    # What a forged one says of itself is not kept for the next one.
    with pytest.raises(MungeError):
        munge.decoded(b"MUNGE:AAAAAAAA:")
    assert munge.decoded(munge.encoded(b"")) == (ME, b"")


def test_a_missing_library_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tesched_daemon.job_reports.munge.LIBRARY", "libnowhere.so.9")
    with pytest.raises(MungeError, match=r"libnowhere\.so\.9 cannot be loaded"):
        Munge()
