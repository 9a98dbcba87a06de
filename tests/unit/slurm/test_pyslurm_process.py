"""The daemon's end of its pyslurm process, with a pyslurm of our own in it: it may hang, die, or print."""

from __future__ import annotations

import gc
import signal
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tesched_core.model.actions import Failure, FailureKind
from tesched_slurm.pyslurm_process import PyslurmProcess
from tesched_slurm.pyslurm_wire import Do, Done, Hello, LookAtJob, Version
from tesched_testcluster.patience import HANG_S

#: a pyslurm with jobs that do what their id says
FAKE = """
import os, pathlib, time
__version__ = "26.5.0"
class RPCError(Exception): pass
class JobSubmitDescription:
    def __init__(self, nice=None, priority=None): self.said = f"nice={nice!r} priority={priority!r}"
class Job:
    def __init__(self, id): self.id = id
    @staticmethod
    def load(id):
        if id == 1: raise RPCError("Invalid job id specified")
        if id == 2: time.sleep(3600)
        if id == 3: os.abort()
    def requeue(self):
        if self.id == 5: raise RPCError("Unspecified error")
        print("a line that is no answer", flush=True)
    def modify(self, changes):
        if self.id in (5, 6): raise RPCError("Message receive failure" if self.id == 6 else "Unspecified error")
        pathlib.Path(os.environ["FAKE_LOG"]).write_text(changes.said)
    suspend = unsuspend = hold = release = requeue
"""

MakeProcess = Callable[[str], PyslurmProcess]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def make(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeProcess]:
    """Give a function that makes a process with the source given as pyslurm, ended with the test."""
    made: list[PyslurmProcess] = []

    def process(source: str) -> PyslurmProcess:
        (tmp_path / "pyslurm.py").write_text(source)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        monkeypatch.setenv("FAKE_LOG", str(log))
        made.append(PyslurmProcess(timeout_s=HANG_S))
        return made[-1]

    yield process
    for each in made:
        each.close()


def test_it_says_its_version(make: MakeProcess) -> None:
    assert make(FAKE).ask(Hello()) == Version("26.5.0")


def test_a_refusal_of_slurms_is_a_failure_and_the_process_goes_on(make: MakeProcess) -> None:
    process = make(FAKE)
    assert process.ask(LookAtJob(1)) == Failure(kind=FailureKind.NOT_FOUND, message="Invalid job id specified")
    assert process.ask(Hello()) == Version("26.5.0")


def test_a_change_that_a_job_submit_plugin_refuses_is_refused_and_a_lost_answer_may_have_arrived(
    make: MakeProcess,
) -> None:
    process = make(FAKE)
    refused = process.ask(Do(5, "nice", -50))
    assert refused == Failure(kind=FailureKind.REFUSED, message="Unspecified error")
    assert process.ask(Do(5, "requeue")) == Failure(kind=FailureKind.UNKNOWN, message="Unspecified error")
    lost = process.ask(Do(6, "nice", -50))
    assert isinstance(lost, Failure)
    assert lost.kind is FailureKind.UNREACHABLE


def test_a_call_that_hangs_is_given_up_in_time_and_the_next_one_works(make: MakeProcess) -> None:
    process = make(FAKE)
    assert process.ask(Hello()) == Version("26.5.0")
    running = process._running
    assert running is not None
    # The call takes an hour; however busy the machine is, this time-out is over before.
    process._timeout_s = 1
    answer = process.ask(LookAtJob(2))
    assert isinstance(answer, Failure)
    assert answer.kind is FailureKind.UNREACHABLE
    assert "timed out after 1 s" in answer.message
    assert running.process.returncode == -signal.SIGKILL
    process._timeout_s = HANG_S
    assert process.ask(Hello()) == Version("26.5.0")


def test_of_processes_that_were_ended_nothing_is_kept(make: MakeProcess) -> None:
    process, ended = make(FAKE), []
    for _ in range(3):
        process.ask(Hello())
        running = process._running
        assert running is not None
        ended.append(weakref.ref(running.process))
        process.close()
        assert running.process.returncode is not None
        del running
    gc.collect()
    assert [one() for one in ended] == [None] * 3


def test_a_process_that_dies_is_a_failure_and_the_next_call_works(make: MakeProcess) -> None:
    process = make(FAKE)
    answer = process.ask(LookAtJob(3))
    assert isinstance(answer, Failure)
    assert "signal 6" in answer.message
    assert process.ask(Hello()) == Version("26.5.0")


def test_what_pyslurm_prints_is_no_answer(make: MakeProcess) -> None:
    assert make(FAKE).ask(Do(9, "requeue")) == Done()


def test_a_pyslurm_that_cannot_be_imported_says_why(make: MakeProcess) -> None:
    answer = make("raise SystemExit('fatal: Could not establish a configuration source')").ask(Hello())
    assert isinstance(answer, Failure)
    assert answer.kind is FailureKind.UNREACHABLE
    assert "Could not establish a configuration source" in answer.message


@pytest.mark.parametrize(
    ("order", "said"),
    [
        # pyslurm takes the number 0 for "not given".
        (Do(9, "nice", 0), "nice='0' priority=None"),
        (Do(9, "nice", -50), "nice='-50' priority=None"),
        (Do(9, "priority", 0), "nice=None priority=0"),
    ],
)
def test_a_value_of_zero_is_sent(make: MakeProcess, log: Path, order: Do, said: str) -> None:
    assert make(FAKE).ask(order) == Done()
    assert log.read_text() == said
