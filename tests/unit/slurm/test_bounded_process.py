"""Programs that hang, flood or do not read are ended; what the others say is whole."""

from __future__ import annotations

import fcntl
import sys
import threading
from functools import partial
from pathlib import Path

import pytest
from tesched_core.model.actions import Failure, FailureKind
from tesched_slurm.bounded_process import MOST_COMPLAINTS, ours, run_bounded
from tesched_slurm.run_command import Call, Commands
from tesched_testcluster.patience import HANG_S, Patience

bounded = partial(run_bounded, environment=ours({"PATH"}))


def python(code: str) -> tuple[str, ...]:
    return sys.executable, "-c", code


def test_what_it_says_is_whole() -> None:
    code = "import sys; sys.stderr.write('b' * 300000); print('a' * 300000, end=''); sys.exit(3)"
    ended = bounded(python(code), timeout_s=HANG_S, most_out=1 << 20)
    assert (ended.status, len(ended.out), len(ended.err), ended.stopped) == (3, 300_000, 300_000, "")


def test_all_input_arrives_however_slowly_it_reads() -> None:
    code = "import sys; print(len(sys.stdin.buffer.read()), end='')"
    ended = bounded(python(code), timeout_s=HANG_S, most_out=1 << 20, said=b"x" * 3_000_000)
    assert (ended.out, ended.status) == (b"3000000", 0)


def test_one_that_reads_nothing_is_judged_by_how_it_ends() -> None:
    ended = bounded(python("print('well')"), timeout_s=HANG_S, most_out=1 << 20, said=b"x" * 3_000_000)
    assert (ended.out, ended.status, ended.stopped) == (b"well\n", 0, "")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_flood_is_ended_long_before_its_time_and_is_not_kept(stream: str) -> None:
    code = f"import sys\nwhile True: sys.{stream}.write('x' * 65536)"
    ended = bounded(python(code), timeout_s=HANG_S, most_out=1 << 20)
    assert ended.status == -9
    assert ended.stopped.startswith("said more than 1 MiB of")
    assert len(ended.out) + len(ended.err) <= MOST_COMPLAINTS + (1 << 17)


def test_one_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    proof = tmp_path / "pid"

    def stopwatch() -> float:
        """Let the time-out pass as soon as it hangs with its child, which holds the pipes open."""
        return HANG_S if proof.exists() else 0.0

    hanging = ("sh", "-c", f"sleep 1000 & echo $! > {proof}.new; mv {proof}.new {proof}; wait")
    ended = bounded(hanging, timeout_s=HANG_S, most_out=1 << 20, stopwatch=stopwatch)
    assert (ended.status, ended.stopped) == (-9, "took more than 180 s")
    child = Path(f"/proc/{proof.read_text().strip()}/stat")
    patience = Patience()
    while child.exists() and child.read_text().split()[2] != "Z":
        assert not patience.is_over(), "the child goes on"


def test_output_without_a_reader_is_no_flood() -> None:
    code = "print('x' * 3000000)"
    ended = bounded(python(code), timeout_s=HANG_S, most_out=None)
    assert (ended.status, ended.out, ended.stopped) == (0, b"", "")


def test_one_that_has_said_enough_is_ended_and_has_not_failed() -> None:
    endless = "import sys\nwhile True: sys.stdout.write('xy' * 32768)"
    ended = bounded(python(endless), timeout_s=HANG_S, most_out=1 << 30, enough=100_001)
    assert (len(ended.out), ended.had_enough, ended.stopped) == (100_001, True, "")
    assert len(str(Commands(timeout_s=HANG_S).run(python(endless), enough=100_001))) == 100_001
    brief = bounded(python("print('all')"), timeout_s=HANG_S, most_out=1 << 30, enough=100)
    assert (brief.out, brief.status, brief.had_enough) == (b"all\n", 0, False)
    failed = Commands(timeout_s=HANG_S).run(python("print('x'); exit('no such job')"), enough=100)
    assert isinstance(failed, Failure)


def test_what_is_handed_on_comes_whole_and_in_order_and_only_its_beginning_is_kept() -> None:
    handed: list[bytes] = []
    code = "print(*range(400_000), end='')"
    ended = bounded(python(code), timeout_s=HANG_S, most_out=1 << 24, into=handed.append)
    whole = " ".join(map(str, range(400_000))).encode()
    assert (b"".join(handed), ended.status, ended.stopped) == (whole, 0, "")
    assert ended.out == whole[: len(ended.out)]
    assert len(ended.out) == 1 << 12


def test_the_time_in_which_its_output_is_read_is_none_of_the_programs() -> None:
    now = 0.0

    def into(_: bytes) -> None:
        nonlocal now
        now += 1000.0

    ended = bounded(
        python("print('x' * 3_000_000)"), timeout_s=HANG_S, most_out=1 << 24, into=into, stopwatch=lambda: now
    )
    assert (ended.status, ended.stopped) == (0, "")


def test_it_is_read_where_no_larger_pipe_may_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(fcntl, "fcntl", refused)
    handed: list[bytes] = []
    ended = bounded(python("print('x' * 3_000_000, end='')"), timeout_s=HANG_S, most_out=1 << 24, into=handed.append)
    assert (sum(map(len, handed)), ended.status) == (3_000_000, 0)


def test_of_a_flood_no_more_is_handed_on_than_may_be_said() -> None:
    handed: list[bytes] = []
    code = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    ended = bounded(python(code), timeout_s=HANG_S, most_out=1 << 21, into=handed.append)
    assert ended.stopped == "said more than 2 MiB of output"
    assert sum(map(len, handed)) <= 1 << 21


def test_what_a_command_complains_of_on_its_output_is_said_though_it_was_handed_on() -> None:
    class Reader:
        well: bool | None = None

        def feed(self, piece: bytes) -> None:
            assert piece == b"Invalid job id specified\n"

        def end(self, *, well: bool) -> None:
            self.well = well

    reader = Reader()
    call = Call(python("print('Invalid job id specified'); raise SystemExit(1)"), reader=reader)
    found = Commands(timeout_s=HANG_S).run_together(call)
    assert isinstance(found, Failure)
    assert (found.kind, reader.well) == (FailureKind.NOT_FOUND, False)


def test_a_reader_that_waits_for_another_is_ended_where_no_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Reader:
        """Its answer is read once another's is."""

        def __init__(self, after: threading.Event) -> None:
            self.after, self.ended = after, threading.Event()

        def feed(self, piece: bytes) -> None:
            assert self.after.wait(HANG_S)

        def end(self, *, well: bool) -> None:
            self.ended.set()

    started = threading.Thread.start
    names: list[str] = []

    def start(thread: threading.Thread) -> None:
        names.append(thread.name)
        if len(names) > 1:
            raise RuntimeError("can't start new thread")
        started(thread)

    first = Reader(threading.Event())
    first.after.set()
    calls = [Call(python("print(1)"), reader=first), Call(python("print(2)"), reader=Reader(first.ended))]
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        Commands(timeout_s=HANG_S).run_together(*calls, Call(python("print(3)")))


def test_a_flooding_client_is_a_failure() -> None:
    code = "import sys\nwhile True: sys.stderr.write('x' * 65536)"
    found = Commands(timeout_s=HANG_S).run(python(code))
    assert isinstance(found, Failure)
    assert found.kind is FailureKind.UNREACHABLE
    assert "said more than 1 MiB of complaints" in found.message


@pytest.mark.parametrize("name", ["SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT", "SLURM_SACK_SOCKET"])
def test_slurms_commands_are_given_what_finds_slurm(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "ctl:6817")
    assert Commands().run(python(f"import os; print(os.environ['{name}'])")) == "ctl:6817\n"


@pytest.mark.parametrize(
    "name",
    ["SCANCEL_INTERACTIVE", "SCANCEL_NAME", "SLURM_CLUSTERS", "SQUEUE_FORMAT", "SACCT_FORMAT", "SLURM_BITSTR_LEN", "X"],
)
def test_no_variable_of_the_daemons_reaches_slurms_commands(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    monkeypatch.setenv("SLURM_CONF", "/etc/there")
    said = Commands().run(python(f"import os; print(os.environ.get('{name}'), os.environ['SLURM_CONF'])"))
    assert said == "None /etc/there\n"


@pytest.mark.parametrize("command", ["SQUEUE", "SCONTROL", "SINFO", "SPRIO", "SACCT"])
def test_slurms_commands_are_of_this_cluster_alone(command: str) -> None:
    assert Commands().run(python(f"import os; print(os.environ['{command}_LOCAL'])")) == "1\n"
