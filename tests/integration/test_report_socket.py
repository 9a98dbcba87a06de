"""Reports by the socket, with a real munged: the sender, what is refused, and that no sender is in another's way."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.job_report import MOST_BYTES
from tesched_core.model.resources import JobId
from tesched_daemon.job_reports import inbox as inbox_module
from tesched_daemon.job_reports import socket as report_socket
from tesched_daemon.job_reports.inbox import Inbox
from tesched_daemon.job_reports.munge import Munge, MungeError
from tesched_daemon.job_reports.socket import MOST_CLIENTS, MOST_MESSAGE, TcpAddress, address_of, listening
from tesched_daemon.job_reports.spool import Spool
from tesched_report import reporter as reporter_module
from tesched_report.reporter import Reporter
from tesched_report.sender import send
from tesched_testcluster.patience import Patience

from tests.builders import running, share
from tests.private_munged import private_munged

ME = os.geteuid()
START = 1_000_000.0


def wait_for(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


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
    channel.settimeout(10)
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


def report(*losses: float) -> bytes:
    points = [[iteration, loss, START + iteration, None] for iteration, loss in enumerate(losses)]
    whole = {"version": 1, "points": points, "samples": [], "workload": "", "target_loss": None}
    return json.dumps(whole, separators=(",", ":")).encode()


def message(munged: str, content: bytes) -> bytes:
    return Munge(socket=munged).encoded(content) + b"\n"


def test_a_report_is_taken_under_the_number_of_who_sent_it(address: str, munged: str, inbox: Inbox) -> None:
    assert ask(address, message(munged, b"tesched-report 1 120_4\n" + report(5))) == "ok\n"
    assert list(inbox.waiting()) == [(ME, "120_4")]
    assert inbox.take(ME, "120_4") == report(5)
    assert inbox.take(ME, "120_4") is None


def test_a_message_that_somebody_caught_and_sends_again_is_refused(address: str, munged: str, inbox: Inbox) -> None:
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
def test_a_credential_that_was_made_for_something_else_is_no_report(
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


def test_who_says_nothing_is_sent_away_and_is_in_nobodys_way(
    address: str, munged: str, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = [message(munged, b"tesched-report 1 %d\n" % job + report(5)) for job in range(5)]
    with ExitStack() as stack:
        silent = [stack.enter_context(connected(address)) for _ in range(MOST_CLIENTS + 20)]
        for channel in silent[20::3]:
            channel.sendall(b"MUNGE:")
        assert [ask(address, each) for each in good] == ["ok\n"] * 5
        # Some of those that say nothing had to go.
        quiet = [channel for channel in silent if channel not in silent[20::3]]
        assert "busy\n" in [answer(channel) for channel in quiet]
        monkeypatch.setattr(report_socket, "DEADLINE_S", 0.05)
        with connected(address) as late:
            assert answer(late) == "refused: nothing whole came within 0 s\n"


def test_who_goes_away_in_the_middle_harms_nobody(address: str, munged: str) -> None:
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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with (
        listening(f"{host}:{port}", munged, inbox),
        socket.create_connection((host or "127.0.0.1", port), 10) as channel,
    ):
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
def test_what_is_no_address_is_told(text: str) -> None:
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


def _sent_in_the_end(address: str, job: str, environment: dict[str, str]) -> None:
    """Send a report; on a busy machine the flood has most of the CPUs, and the first try may take too long."""
    patience = Patience(30)
    while True:
        try:
            return send(address, job, report(5), environment)
        except TimeoutError:
            if patience.is_over():
                raise


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_one_users_flood_on_this_host_does_not_starve_another_user(munged: str, inbox: Inbox) -> None:
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
            for job in range(8):
                _sent_in_the_end(path, str(job), environment)
    assert sorted(inbox.waiting()) == [(ME, str(job)) for job in range(8)]


class TestInbox:
    """How much is kept."""

    def test_one_users_flood_leaves_room_for_others(self, inbox: Inbox) -> None:
        taken = [inbox.put(1, str(job), b"x" * MOST_BYTES) for job in range(300)]
        assert taken == [True] * 256 + [False] * 44, "16 MiB of 64 KiB each"
        assert inbox.put(2, "7", b"y")
        assert inbox.put(1, "0", b"z" * MOST_BYTES), "in the place of the one before"
        assert inbox.take(1, "0") == b"z" * MOST_BYTES
        assert [inbox.put(3, str(job), b"") for job in range(2001)] == [True] * 2000 + [False]

    def test_all_users_together_are_bounded(self, inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(inbox_module, "MOST_BYTES", 100)
        assert [inbox.put(user, "7", b"x" * 30) for user in range(4)] == [True, True, True, False]
        assert not inbox.put(0, "7", b"x" * 50)
        assert inbox.take(0, "7") == b"x" * 30, "the earlier one stays"

    def test_users_who_fill_it_together_leave_the_others_their_share(
        self, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(inbox_module, "MOST_BYTES", 100)
        monkeypatch.setattr(inbox_module, "MOST_OF_ONE", 25)
        for user in range(1, 5):
            assert all(inbox.put(user, str(job), b"x" * 5) for job in range(5))
        assert inbox.put(7, "1", b"y" * 10)
        assert inbox.take(7, "1") == b"y" * 10
        # The oldest of the users that had most made room for it; a user that has as much as they do gets no more.
        assert inbox.take(1, "0") is None
        for job in range(2, 7):
            inbox.put(7, str(job), b"y" * 5)
        held = [user for user, _ in inbox.waiting()]
        assert min(held.count(user) for user in (1, 2, 3, 4, 7)) >= 3

    def test_what_nobody_asks_for_is_forgotten(self) -> None:
        now = {"at": 0.0}
        inbox = Inbox(stopwatch=lambda: now["at"])
        inbox.put(1, "7", b"x")
        now["at"] = 500.0
        inbox.put(1, "8", b"x")
        now["at"] = 601.0
        assert list(inbox.waiting()) == [(1, "8")]

    def test_a_daemon_that_asks_for_nothing_takes_nothing(self) -> None:
        now = {"at": 0.0}
        inbox = Inbox(stopwatch=lambda: now["at"])
        now["at"] = 601.0
        assert not inbox.put(1, "7", b"x"), "a standby"
        inbox.waiting()
        assert inbox.put(1, "7", b"x"), "it leads now"


def job(job_id: int, user: str = "ada") -> Job:
    return running(job_id, share("n1", 1), user=user, submit_time=START)


class TestSpool:
    """What becomes of what was sent."""

    @staticmethod
    def spool(inbox: Inbox, folder: Path | None = None) -> Spool:
        return Spool(folder, inbox=inbox, number_of={"ada": 7, "eve": 8}.get, clock=lambda: START + 100)

    def test_a_report_counts_for_a_job_of_its_sender_alone(
        self, inbox: Inbox, caplog: pytest.LogCaptureFixture
    ) -> None:
        spool = self.spool(inbox)
        inbox.put(8, "1", report(9))
        inbox.put(7, "1", report(5, 4))
        inbox.put(8, "2", report(3))
        found = spool.look([job(1), job(2, "eve"), job(3)])
        assert {int(job_id): one.curve.loss.tolist() for job_id, one in found.items()} == {1: [5.0, 4.0], 2: [3.0]}
        inbox.put(8, "1", report(9))
        spool.look([job(1)])
        (line,) = caplog.messages
        assert "user 8 has sent one for job 1 of user ada" in line

    def test_a_process_that_starts_again_goes_on_where_it_was(self, inbox: Inbox) -> None:
        spool = self.spool(inbox)
        inbox.put(7, "1", report(5, 4, 3))
        spool.look([job(1)])
        again = json.dumps({"version": 1, "points": [[2, 2.5, START, None], [3, 2, START, None]]}).encode()
        inbox.put(7, "1", again)
        found = spool.look([job(1)])[JobId(1)]
        assert (found.curve.iteration.tolist(), found.curve.loss.tolist()) == ([0, 1, 2, 3], [5.0, 4.0, 2.5, 2.0])

    def test_what_is_no_report_is_told_and_what_was_known_stays(
        self, inbox: Inbox, caplog: pytest.LogCaptureFixture
    ) -> None:
        spool = self.spool(inbox)
        inbox.put(7, "1", report(5, 4))
        spool.look([job(1)])
        inbox.put(7, "1", b"[")
        found = spool.look([job(1)])[JobId(1)]
        assert (found.refused, found.curve.loss.tolist()) == ("it is no JSON", [5.0, 4.0])
        assert caplog.messages == ["the report of job 1 is not used: it is no JSON"]

    def test_a_report_that_comes_before_its_job_is_seen_waits_for_it(self, inbox: Inbox) -> None:
        spool = self.spool(inbox)
        inbox.put(7, "20_3", report(5))
        assert spool.look([job(1)]) == {}
        task = replace(job(21), array_job_id=JobId(20), array_task_id=3)
        assert spool.look([task])[JobId(21)].curve.loss.tolist() == [5.0]

    def test_the_last_words_of_a_job_that_was_put_back_in_the_queue_are_heard(self, inbox: Inbox) -> None:
        spool = self.spool(inbox)
        inbox.put(7, "1", report(5))
        spool.look([job(1)])
        inbox.put(7, "1", report(5, 4))
        requeued = replace(job(1), state=JobState.PENDING, allocation=(), restarts=1, submit_time=START + 50)
        assert spool.look([requeued])[JobId(1)].curve.loss.tolist() == [5.0, 4.0]

    def test_what_is_sent_for_a_job_that_never_ran_is_not_used(self, inbox: Inbox) -> None:
        spool = self.spool(inbox)
        inbox.put(7, "1", report(5))
        assert spool.look([replace(job(1), state=JobState.PENDING, allocation=())]) == {}

    def test_beside_a_spool_folder_both_are_heard(self, inbox: Inbox, tmp_path: Path) -> None:
        mine = tmp_path / str(ME)
        mine.mkdir()
        (mine / "2.json").write_bytes(report(3))
        spool = Spool(tmp_path, inbox=inbox, number_of=lambda _user: ME, clock=lambda: START + 100)
        inbox.put(ME, "1", report(5))
        found = spool.look([job(1), job(2)])
        assert {int(job_id): one.curve.loss.tolist() for job_id, one in found.items()} == {1: [5.0], 2: [3.0]}


class TestReporter:
    """`import tesched_report` with TESCHED_SOCKET."""

    @pytest.fixture(autouse=True)
    def _hurried(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reporter_module, "SEND_INTERVAL_S", 0.01)

    @staticmethod
    def environment(address: str, munged: str) -> dict[str, str]:
        return {"SLURM_JOB_ID": "42", "TESCHED_SOCKET": address, "TESCHED_MUNGE_SOCKET": munged}

    def test_what_a_training_tells_comes_to_the_inbox(self, address: str, munged: str, inbox: Inbox) -> None:
        reporter = Reporter(self.environment(address, munged), interval_s=0.01)
        reporter.report(iteration=1, loss=0.5, workload="lstm")
        reporter.flush(10)
        reporter.report(iteration=2, loss=0.25)
        reporter.flush(10)
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
            timeout=60,
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
            wait_for(inbox.waiting, 20)

    def test_no_call_waits_for_a_daemon_that_does_not_answer_nor_for_munge(self, munged: str, tmp_path: Path) -> None:
        with socket.socket(socket.AF_UNIX) as deaf:
            deaf.bind(str(tmp_path / "deaf"))
            deaf.listen()
            program = (
                "import time, tesched_report as t\nbegan = time.monotonic()\n"
                "for k in range(1000): t.report(iteration=k, loss=1)\n"
                "print(time.monotonic() - began < 1)"
            )
            for changed in ({"TESCHED_SOCKET": str(tmp_path / "deaf")}, {"PATH": "/nowhere"}):
                ended = subprocess.run(
                    [sys.executable, "-c", program],
                    env={**os.environ, **self.environment(str(tmp_path / "deaf"), munged), **changed},
                    capture_output=True,
                    text=True,
                    timeout=30,
                    check=False,
                )
                assert (ended.returncode, ended.stdout) == (0, "True\n")
                assert "Traceback" not in ended.stderr


def test_munge_says_who_it_was_and_what_is_wrong(munged: str) -> None:
    munge = Munge(socket=munged)
    credential = munge.encoded(b"text")
    assert munge.decoded(credential) == (ME, b"text")
    with pytest.raises(MungeError, match="Replayed"):
        munge.decoded(credential)
    # What a forged one says of itself is not kept for the next one.
    with pytest.raises(MungeError):
        munge.decoded(b"MUNGE:AAAAAAAA:")
    assert munge.decoded(munge.encoded(b"")) == (ME, b"")


def test_a_missing_library_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tesched_daemon.job_reports.munge.LIBRARY", "libnowhere.so.9")
    with pytest.raises(MungeError, match=r"libnowhere\.so\.9 cannot be loaded"):
        Munge()
