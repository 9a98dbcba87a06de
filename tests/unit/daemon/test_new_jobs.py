"""New jobs that the daemon finds by itself: when it reads what shows them, and what it says of that."""

from __future__ import annotations

import errno
import os
import socket
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.lead import Lead
from tesched_core.model.rate_limit import RateLimit
from tesched_daemon import bounded_read
from tesched_daemon.config import Config
from tesched_daemon.doctor.new_jobs import new_jobs as examined
from tesched_daemon.new_jobs import AGAIN_S, EACH_S, HANGS_S, IDLE_S, MOST_S, NewJobs
from tesched_daemon.settings import Mode, Pace
from tesched_slurm.run_command import Commands
from tesched_slurm.submission_signs import ScriptFolders, SubmissionCount
from tesched_testcluster.patience import HANG_S

from tests.loop_parts import FULL_CLUSTER, Cluster, Notebook, loop_of

FAILURE = Failure(kind=FailureKind.UNREACHABLE, message="sdiag took more than 10 s")
#: 600 a minute, and no state folder
TESTS = Pace(tests_per_minute=600, watch_state_folder=False)


@dataclass
class Count(SubmissionCount):
    """A count that gives these answers in turn, each after so many seconds of the stopwatch."""

    commands: Commands = field(default_factory=Commands)
    answers: list[bool | Failure] = field(default_factory=list)
    takes_s: float = 0.01
    now: float = 0.0
    asked: int = 0
    forgotten: int = 0

    def has_new(self) -> bool | Failure:
        self.asked += 1
        self.now += self.takes_s
        return self.answers.pop(0) if self.answers else False

    def forget(self) -> None:
        self.forgotten += 1


@dataclass
class Finder:
    """What finds jobs, with what it has poked."""

    new_jobs: NewJobs
    count: Count
    pokes: list[None] = field(default_factory=list)


def finder(*answers: bool | Failure, takes_s: float = 0.01) -> Finder:
    count = Count(answers=list(answers), takes_s=takes_s)
    found = Finder(new_jobs=NewJobs(count=count, stopwatch=lambda: count.now), count=count)
    found.new_jobs.poked = lambda: found.pokes.append(None)
    return found


@pytest.fixture
def here(tmp_path: Path) -> SlurmSettings:
    """Give the settings of a slurmctld on this host."""
    return SlurmSettings(controllers=(f"{socket.gethostname()}.example.org",), state_folder=str(tmp_path))


def test_tests_come_as_often_as_configured_and_poke_for_each_job_found() -> None:
    one = finder(True, False, True)
    one.new_jobs.follow(SlurmSettings(), TESTS, preempts=lambda: True)
    assert [one.new_jobs.test() for _ in range(3)] == pytest.approx([0.09] * 3)
    assert len(one.pokes) == 2


def test_a_test_that_takes_long_is_followed_by_as_long_a_pause() -> None:
    one = finder(takes_s=0.4)
    one.new_jobs.follow(SlurmSettings(), TESTS, preempts=lambda: True)
    assert one.new_jobs.test() == pytest.approx(0.4)


def test_by_default_no_test_is_made() -> None:
    one = finder(True)
    one.new_jobs.follow(SlurmSettings(), Pace(), preempts=lambda: True)
    assert (one.new_jobs.test(), one.count.asked) == (IDLE_S, 0)


@pytest.mark.parametrize(
    ("settings", "preempts", "why"),
    [
        (SlurmSettings(), False, "no best-effort job runs"),
        (SlurmSettings(rate_limit=RateLimit(burst=30, per_s=2)), True, "slurmctld limits this user's RPCs"),
    ],
)
def test_no_test_is_made_that_nothing_can_come_of(settings: SlurmSettings, why: str, *, preempts: bool) -> None:
    one = finder(True)
    one.new_jobs.follow(settings, TESTS, preempts=lambda: preempts)
    assert (one.new_jobs.test(), one.count.asked, one.count.forgotten) == (IDLE_S, 0, 1)
    assert f"by 600 tests a minute, but not now: {why}" in one.new_jobs.said(TESTS)


def test_tests_that_fail_come_less_and_less_often_and_it_says_why() -> None:
    one = finder(*[FAILURE] * 8, True)
    one.new_jobs.follow(SlurmSettings(), TESTS, preempts=lambda: True)
    assert [one.new_jobs.test() for _ in range(8)] == [2, 4, 8, 16, 32, MOST_S, MOST_S, MOST_S]
    assert FAILURE.message in one.new_jobs.said(TESTS)
    assert one.new_jobs.test() == pytest.approx(0.09)
    assert len(one.pokes) == 1, "what came meanwhile"
    assert one.new_jobs.said(TESTS).endswith("by 600 tests a minute")


def test_a_job_above_its_share_pokes_for_nothing() -> None:
    one = finder(True, True)
    one.new_jobs.served = iter([True, False]).__next__
    one.new_jobs.follow(SlurmSettings(), TESTS, preempts=lambda: True)
    one.new_jobs.test(), one.new_jobs.test()
    assert len(one.pokes) == 1


def test_an_error_of_our_own_ends_neither_thread_and_is_said(
    here: SlurmSettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one = finder(True)
    one.new_jobs.follow(here, replace(TESTS, watch_state_folder=True), preempts=lambda: True)
    with monkeypatch.context() as broken:
        broken.setattr(ScriptFolders, "has_new", lambda _: 1 / 0)
        broken.setattr(Count, "has_new", lambda _: 1 / 0)
        assert one.new_jobs.check_folders() == MOST_S
        assert one.new_jobs.test() == MOST_S
    said = one.new_jobs.said(TESTS)
    assert said.startswith("by polls (an error of tesched's own, ZeroDivisionError(")
    assert "by 600 tests a minute, but not now: an error of tesched's own, ZeroDivisionError(" in said
    assert caplog.text.count("Traceback") == 2
    assert one.new_jobs.check_folders() == EACH_S
    assert one.new_jobs.test() < IDLE_S
    assert "ZeroDivisionError" not in one.new_jobs.said(TESTS)


def test_a_script_in_slurmctlds_state_folder_is_a_poke(here: SlurmSettings) -> None:
    one = finder()
    assert one.new_jobs.check_folders() == IDLE_S, "nothing is known yet"
    one.new_jobs.follow(here, Pace(), preempts=lambda: False)
    assert one.new_jobs.check_folders() == EACH_S
    one.pokes.clear()
    one.new_jobs.follow(here, Pace(), preempts=lambda: False)
    one.new_jobs.check_folders()
    assert not one.pokes
    (Path(here.state_folder) / "hash.7" / "job.17").mkdir(parents=True)
    one.new_jobs.check_folders()
    assert len(one.pokes) == 1
    assert one.new_jobs.said(Pace()) == f"batch jobs at once, by their scripts in {here.state_folder}"


@pytest.mark.parametrize(
    ("change", "pace", "why"),
    [
        ({"controllers": ("ctl1", "ctl2")}, Pace(), "slurmctld's state folder is on ctl1, ctl2"),
        ({"state_folder": "/nowhere/state"}, Pace(), "/nowhere/state: No such file or directory"),
        ({"state_folder": ""}, Pace(), "StateSaveLocation is not known"),
        ({}, Pace(watch_state_folder=False), "loop.watch_state_folder is off"),
    ],
)
def test_what_cannot_be_watched_is_said_and_left_to_polls(
    here: SlurmSettings, change: dict[str, Any], pace: Pace, why: str
) -> None:
    one = finder()
    one.new_jobs.follow(replace(here, **change), pace, preempts=lambda: True)
    is_tried = why.startswith("/nowhere")
    assert one.new_jobs.check_folders() == (AGAIN_S if is_tried else IDLE_S)
    assert why in one.new_jobs.said(pace)
    found = examined(Config(loop=pace), replace(here, **change), "ada")
    assert why in found.text
    assert (found.level == "warn") == is_tried
    assert "setfacl" not in found.advice, "it is no right that is missing"


def test_a_right_that_is_missing_is_said_with_the_command_that_gives_it(
    here: SlurmSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_folders: ScriptFolders) -> bool:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(ScriptFolders, "has_new", refused)
    settings = replace(here, state_folder=f"{here.state_folder}/slurm state")
    found = examined(Config(), settings, "ada")
    assert (found.level, "ada may not search" in found.text) == ("warn", True)
    assert f"setfacl -m u:ada:x '{settings.state_folder}'" in found.advice


def test_a_state_folder_that_is_moved_is_not_watched_where_it_was(here: SlurmSettings, tmp_path: Path) -> None:
    one = finder()
    one.new_jobs.follow(here, Pace(), preempts=lambda: True)
    one.new_jobs.check_folders()
    one.new_jobs.follow(replace(here, state_folder=f"{tmp_path}/new"), Pace(), preempts=lambda: True)
    assert one.new_jobs.check_folders() == AGAIN_S
    assert f"{tmp_path}/new: No such file" in one.new_jobs.said(Pace())
    (tmp_path / "new").mkdir()
    assert one.new_jobs.check_folders() == EACH_S
    one.new_jobs.follow(replace(here, controllers=("elsewhere",)), Pace(), preempts=lambda: True)
    assert one.new_jobs.check_folders() == IDLE_S
    assert "state folder is on elsewhere" in one.new_jobs.said(Pace())


def test_where_slurmctld_has_a_backup_at_once_is_said_under_its_condition(here: SlurmSettings) -> None:
    settings = replace(here, controllers=(*here.controllers, "ctl2"))
    one = finder()
    one.new_jobs.follow(settings, Pace(), preempts=lambda: True)
    one.new_jobs.check_folders()
    condition = f"while slurmctld runs on this host (of {settings.controllers[0]}, ctl2)"
    assert condition in one.new_jobs.said(Pace())
    assert condition in examined(Config(), settings, "ada").text


def test_a_state_folder_that_hangs_keeps_neither_the_loop_nor_the_end_waiting(
    here: SlurmSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, goes_on = threading.Event(), threading.Event()

    def hangs(_folders: ScriptFolders) -> bool:
        reads.set()
        goes_on.wait()
        return False

    monkeypatch.setattr(ScriptFolders, "has_new", hangs)
    monkeypatch.setattr("tesched_daemon.new_jobs.END_S", 0.0)
    one = finder()

    def life() -> None:
        one.new_jobs.follow(here, Pace(), preempts=lambda: True)
        with one.new_jobs.running():
            assert reads.wait(HANG_S)
            one.count.now += HANGS_S + 1
            one.new_jobs.follow(here, Pace(), preempts=lambda: True)
            said.append(one.new_jobs.said(Pace()))

    said: list[str] = []
    daemon = threading.Thread(target=life, daemon=True)
    daemon.start()
    daemon.join(HANG_S)
    ended = not daemon.is_alive()
    goes_on.set()
    assert ended
    assert f"a read of {here.state_folder} has hung for 6 s" in said[0]


def test_a_state_folder_that_hangs_hangs_no_doctor(here: SlurmSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()
    monkeypatch.setattr(bounded_read, "WAIT_S", 0.01)
    monkeypatch.setattr(ScriptFolders, "has_new", lambda _folders: goes_on.wait())
    found = examined(Config(), here, "ada")
    goes_on.set()
    assert (found.level, f"{here.state_folder}: has not answered" in found.text) == ("warn", True)


def test_a_folder_that_is_lost_is_tried_again(here: SlurmSettings) -> None:
    one = finder()
    one.new_jobs.follow(here, Pace(), preempts=lambda: True)
    one.new_jobs.check_folders()
    Path(here.state_folder).rename(f"{here.state_folder}.away")
    assert one.new_jobs.check_folders() == AGAIN_S
    assert "No such file" in one.new_jobs.said(Pace())
    Path(f"{here.state_folder}.away").rename(here.state_folder)
    assert one.new_jobs.check_folders() == EACH_S
    assert "at once" in one.new_jobs.said(Pace())


@pytest.mark.parametrize(("mode", "tests"), [(Mode.OBSERVE, 0), (Mode.SHADOW, 1), (Mode.ENFORCE, 1)])
def test_the_loop_says_what_it_is_to_go_by(mode: Mode, tests: int) -> None:
    one = finder()
    notebook = Notebook()
    loop = loop_of(Cluster(seen=FULL_CLUSTER), notebook, mode=mode)
    loop.pace, loop.new_jobs = replace(loop.pace, tests_per_minute=600), one.new_jobs
    loop.turn()
    one.new_jobs.test()
    assert one.count.asked == tests


@pytest.mark.parametrize(
    ("cluster", "notebook", "why"),
    [
        (Cluster(seen=FULL_CLUSTER), Notebook(says=Lead(paused="paused by ada")), "paused by ada"),
        (Cluster(seen=FAILURE), Notebook(), "nothing can be decided now"),
        (Cluster(seen=FULL_CLUSTER), Notebook(fails={"intend"}), "nothing can be decided now"),
    ],
)
def test_no_test_is_made_while_nothing_can_be_decided(
    here: SlurmSettings, cluster: Cluster, notebook: Notebook, why: str
) -> None:
    one = finder()
    one.new_jobs.follow(here, TESTS, preempts=lambda: True)
    loop = loop_of(cluster, notebook)
    loop.new_jobs = one.new_jobs
    loop.turn()
    assert (one.new_jobs.test(), one.new_jobs.check_folders(), one.count.asked) == (IDLE_S, IDLE_S, 0)
    assert why in one.new_jobs.said(TESTS)


def test_a_standby_finds_no_jobs(here: SlurmSettings) -> None:
    one = finder()
    one.new_jobs.follow(here, Pace(tests_per_minute=600), preempts=lambda: True)
    loop = loop_of(Cluster(seen=FULL_CLUSTER), Notebook(says=Lead(leader="another daemon leads")))
    loop.new_jobs = one.new_jobs
    loop.turn()
    assert (one.new_jobs.check_folders(), one.new_jobs.test(), one.count.asked) == (IDLE_S, IDLE_S, 0)
    assert "this daemon is a standby" in one.new_jobs.said(Pace())


def test_jobs_are_found_until_the_block_ends() -> None:
    one = finder()
    one.count.answers = [True]
    found = threading.Event()
    one.new_jobs.poked = found.set
    one.new_jobs.follow(SlurmSettings(), TESTS, preempts=lambda: True)
    with one.new_jobs.running():
        assert found.wait(HANG_S)
    assert not [thread.name for thread in threading.enumerate() if thread.name in {"tests", "state folder"}]
