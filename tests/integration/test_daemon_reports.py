"""The reader of the spool, on real files: what is taken, and what harms no job but its own."""

from __future__ import annotations

import json
import os
import resource
import socket
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tesched_core.model.actions import Notify
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.job_report import MOST_BYTES, Curve, Reported
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_daemon.job_reports import spool as reports
from tesched_daemon.job_reports.rounds import SpoolReports
from tesched_daemon.job_reports.spool import Spool

from tests.builders import running, share
from tests.loop_parts import FULL_CLUSTER, Cluster, Notebook, loop_of

ME = os.geteuid()
START = 1_000_000.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give this user's folder in a spool."""
    made = tmp_path / "spool" / str(ME)
    made.mkdir(parents=True)
    return made


def spool_of(folder: Path, **more: Any) -> Spool:
    """Return a reader of the spool to which every user is the one who runs this test; no round's time is ever over."""
    parts: dict[str, Any] = {"clock": lambda: START + 100, "stopwatch": lambda: 0.0, **more}
    return Spool(folder.parent, number_of=lambda _user: ME, **parts)


def job(job_id: int, **more: Any) -> Job:
    """Return a job that runs."""
    one = running(job_id, share("n1", 1, gres={"gpu:v100": 1}), user="ada", submit_time=START)
    return replace(one, **more)


def text(*losses: float, **more: Any) -> str:
    """Return a report of these losses."""
    points = [[iteration, loss, START + iteration, None] for iteration, loss in enumerate(losses)]
    return json.dumps({"version": 1, "points": points, **more})


def told(spool: Spool, *jobs: Job) -> dict[int, Reported]:
    """Return what one round finds."""
    return {int(job_id): reported for job_id, reported in spool.look(jobs).items()}


def losses(found: dict[int, Reported], job_id: int) -> list[float]:
    values: list[float] = found[job_id].curve.loss.tolist()
    return values


def test_each_job_is_read_under_its_name_and_again_only_when_it_has_changed(folder: Path) -> None:
    spool = spool_of(folder)
    (folder / "1.json").write_text(text(5, 4, samples=[[START, "", 7]]))
    (folder / "20_3.json").write_text(text(9))
    (folder / "21.json").write_text(text(1))
    task = job(21, array_job_id=JobId(20), array_task_id=3)
    found = told(spool, job(1), task, job(2))
    assert set(found) == {1, 21}
    assert (losses(found, 1), losses(found, 21)) == ([5.0, 4.0], [9.0])
    assert found[1].throughputs == {"v100": 7.0}
    again = told(spool, job(1), task)
    assert again[1] is found[1]
    (folder / "1.json").write_text(text(5, 4, 3))
    assert losses(told(spool, job(1), task), 1) == [5.0, 4.0, 3.0]


def _symlink(path: Path) -> None:
    path.with_name("other").write_text(text(1))
    path.symlink_to("other")


def _hard_link(path: Path) -> None:
    path.write_text(text(1))
    path.with_name("other").hardlink_to(path)


def _socket(path: Path) -> None:
    # A socket's path must be short.
    here = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


BAD: list[tuple[str, Callable[[Path], Any], str]] = [
    ("symlink", _symlink, "is a link"),
    ("dangling", lambda path: path.symlink_to("nowhere"), "is a link"),
    ("hard link", _hard_link, "has 2 names"),
    ("fifo", os.mkfifo, "no plain file"),
    ("socket", _socket, "cannot be read"),
    ("folder", Path.mkdir, "no plain file"),
    ("oversized", lambda path: path.write_bytes(b" " * (MOST_BYTES + 1)), "longer than 65536 bytes"),
    ("empty", Path.touch, "no JSON"),
    ("binary", lambda path: path.write_bytes(bytes(range(256))), "no JSON"),
    ("deep", lambda path: path.write_bytes(b"[" * 60_000), "nested too deeply"),
    ("list", lambda path: path.write_text("[]"), "no JSON object"),
    ("later version", lambda path: path.write_text('{"version": 2}'), "its version is 2"),
    ("words", lambda path: path.write_text('{"version": 1, "points": [["a", 1, 1, 1]]}'), "not of numbers"),
]


@pytest.mark.parametrize(("make", "said"), [(make, said) for _, make, said in BAD], ids=[name for name, _, _ in BAD])
def test_an_invalid_report_harms_its_own_job_alone_and_is_logged_once(
    folder: Path, caplog: pytest.LogCaptureFixture, make: Callable[[Path], Any], said: str
) -> None:
    (folder / "2.json").write_text(text(5, 4))
    make(folder / "1.json")
    spool = spool_of(folder)
    found = told(spool, job(1), job(2))
    assert said in found[1].refused
    assert (len(found[1].curve), losses(found, 2), found[2].refused) == (0, [5.0, 4.0], "")
    again = told(spool, job(1), job(2))
    assert again[1] is found[1]
    (line,) = caplog.messages
    assert line.startswith("the report of job 1 is not used: ")
    assert line.isprintable()


def test_a_file_of_another_user_is_refused_and_reported(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "1.json").write_text(text(5))
    theirs = folder.parent / str(ME + 1)
    theirs.mkdir()
    (theirs / "2.json").write_text(text(5))
    numbers = {"ada": ME, "eve": ME + 1}
    spool = Spool(folder.parent, number_of=numbers.get, clock=lambda: START + 100, stopwatch=lambda: 0.0)
    # Eve's folder was made by another user, and so was the file in it.
    found = told(spool, job(1), job(2, user="eve"), job(3, user="nobody-here"))
    assert losses(found, 1) == [5.0]
    assert found[2].refused == f"its folder belongs to user {ME}, the job to user {ME + 1}"
    assert found[3].refused == "this host knows no user 'nobody-here'"
    assert len(caplog.messages) == 2


def test_a_file_that_another_user_put_into_the_users_folder_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "1.json").write_text(text(5))
    real = os.fstat

    def of_somebody_else(descriptor: int) -> os.stat_result:
        found = real(descriptor)
        values = list(found)
        values[4] = ME + 1 if Path(f"/proc/self/fd/{descriptor}").readlink().name == "1.json" else found.st_uid
        return os.stat_result(values)

    monkeypatch.setattr(os, "fstat", of_somebody_else)
    found = told(spool_of(folder), job(1))
    assert found[1].refused == f"the file belongs to user {ME + 1}, the job to user {ME}"


def test_a_bad_report_leaves_the_good_one_of_before_and_a_good_one_clears_it(folder: Path) -> None:
    spool = spool_of(folder)
    (folder / "1.json").write_text(text(5, 4))
    told(spool, job(1))
    (folder / "1.json").write_text("rubbish")
    found = told(spool, job(1))
    assert (losses(found, 1), found[1].refused) == ([5.0, 4.0], "it is no JSON")
    (folder / "1.json").write_text(text(5, 4, 3))
    found = told(spool, job(1))
    assert (losses(found, 1), found[1].refused) == ([5.0, 4.0, 3.0], "")


def test_a_file_of_an_earlier_job_with_the_same_id_is_none_of_this_one(folder: Path) -> None:
    path = folder / "1.json"
    path.write_text(text(5))
    os.utime(path, (START - 3600, START - 3600))
    assert told(spool_of(folder), job(1)) == {}
    # A requeue resets the submit time, and the file is still this job's.
    assert losses(told(spool_of(folder), job(1, restarts=1)), 1) == [5.0]


def test_a_job_under_a_used_again_id_does_not_inherit(folder: Path) -> None:
    spool = spool_of(folder)
    path = folder / "1.json"
    path.write_text(text(5))
    os.utime(path, (START, START))
    assert losses(told(spool, job(1)), 1) == [5.0]
    assert losses(told(spool, job(1, restarts=1, submit_time=START + 500)), 1) == [5.0]
    assert told(spool, job(1, submit_time=START + 5000)) == {}


def test_last_words_are_read_and_then_nothing_more(folder: Path) -> None:
    spool = spool_of(folder)
    path = folder / "1.json"
    path.write_text(text(5, samples=[[START, "", 7]]))
    told(spool, job(1))
    ended = job(1, state=JobState.COMPLETED, allocation=())
    path.write_text(text(5, 4, samples=[[START, "", 7], [START + 1, "", 9]]))
    found = told(spool, ended)
    assert losses(found, 1) == [5.0, 4.0]
    # On what it ran Slurm does not say any more.
    assert found[1].throughputs == {"v100": 8.0}
    path.write_text(text(5, 4, 3))
    assert losses(told(spool, ended), 1) == [5.0, 4.0]
    assert told(spool) == {}


def test_a_waiting_jobs_report_is_not_read(folder: Path) -> None:
    (folder / "1.json").write_text(text(5))
    assert told(spool_of(folder), job(1, state=JobState.PENDING, allocation=())) == {}


def test_a_round_is_bounded_in_time_and_in_files_and_the_next_goes_on_from_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [job(number) for number in range(1, 11)]
    for one in jobs:
        (folder / f"{one.job_id}.json").write_text(text(one.job_id))
    ticks = iter(range(1000))
    # Each reading of the watch is a tick; a round begins with one, and ends when four have passed.
    monkeypatch.setattr(reports, "ROUND_S", 4)
    spool = spool_of(folder, stopwatch=lambda: next(ticks))
    assert [sorted(told(spool, *jobs)) for _ in range(3)] == [[*range(1, 5)], [*range(1, 9)], [*range(1, 11)]]
    # It has gone round: 9, 10, 1 and 2 were read, so 3 is next.
    for number in (2, 3):
        (folder / f"{number}.json").write_text(text(99, 98))
    found = told(spool, *jobs)
    assert (losses(found, 2), losses(found, 3)) == ([2.0], [99.0, 98.0])

    monkeypatch.setattr(reports, "ROUND_S", 1000)
    monkeypatch.setattr(reports, "MOST_JOBS", 3)
    spool = spool_of(folder)
    assert [sorted(told(spool, *jobs)) for _ in range(2)] == [[1, 2, 3], [1, 2, 3, 4, 5, 6]]


def test_a_crowd_of_bad_reports_does_not_flood_the_log(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    jobs = [job(number) for number in range(1, 101)]
    for one in jobs:
        (folder / f"{one.job_id}.json").touch()
    told(spool_of(folder), *jobs)
    assert len(caplog.messages) == reports.TOLD + 1
    assert caplog.messages[-1] == "80 more reports are not used"


def test_no_descriptor_is_left_open(folder: Path) -> None:
    for number, (_, make, _) in enumerate(BAD, 1):
        make(folder / f"{number}.json")
        if (folder / "other").exists():
            (folder / "other").rename(folder / f"other{number}")
    jobs = [job(number) for number in range(1, len(BAD) + 1)]
    spool = spool_of(folder)
    assert len(told(spool, *jobs)) == len(BAD)
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        told(spool, *jobs)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_missing_spool_is_logged_once_and_found_when_it_comes(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    away = folder.parent.with_name("later")
    spool = Spool(away, number_of=lambda _user: ME, clock=lambda: START + 100)
    assert told(spool, job(1)) == {}
    assert told(spool, job(1)) == {}
    assert caplog.messages == [f"the spool of reports {away} cannot be opened: No such file or directory"]
    (folder / "1.json").write_text(text(5))
    folder.parent.rename(away)
    assert losses(told(spool, job(1)), 1) == [5.0]


class Slow(Spool):
    """A spool on a file system that hangs until it is released."""

    def __init__(self, found: dict[JobId, Reported]) -> None:
        """Begin; `found` is what it finds in the end."""
        super().__init__(Path("/nowhere"))
        self.found = found
        self.go_on = threading.Event()
        self.rounds = 0

    def look(self, jobs: Any) -> dict[JobId, Reported]:
        self.rounds += 1
        self.go_on.wait(20)
        return self.found


@pytest.fixture
def slow() -> Iterator[Slow]:
    made = Slow({JobId(1): Reported(workload="w")})
    yield made
    made.go_on.set()


class TestPort:
    """What the loop sees of it."""

    def test_a_file_system_that_hangs_holds_up_no_turn_and_is_logged_once(
        self, slow: Slow, caplog: pytest.LogCaptureFixture
    ) -> None:
        now = {"at": 0.0}
        port = SpoolReports(slow, wait_s=0.001, late_s=30.0, stopwatch=lambda: now["at"])
        cluster, notebook = Cluster(), Notebook()
        loop = loop_of(cluster, notebook)
        loop.knowledge.reports = port
        loop.turn()
        assert Notify in [type(action) for action in cluster.acted], "the preemption goes its way"
        assert caplog.messages == []
        for at in (29.0, 31.0, 40.0):
            now["at"] = at
            assert port.read(FULL_CLUSTER).by_job == {}
        assert caplog.messages == ["the spool of reports has not answered for 30 s; tesched goes on without"]
        assert slow.rounds == 1, "one round at a time"
        slow.go_on.set()
        port = SpoolReports(slow, wait_s=20.0)
        assert port.read(FULL_CLUSTER).by_job == slow.found

    def test_news_of_a_round_that_took_longer_come_with_the_next_turn(self, slow: Slow) -> None:
        port = SpoolReports(slow, wait_s=0.001)
        assert port.read(FULL_CLUSTER).by_job == {}
        slow.go_on.set()
        port._wait_s = 20.0
        assert port.read(FULL_CLUSTER).by_job == slow.found

    def test_the_cycle_and_the_journal_are_given_what_was_read(self, folder: Path) -> None:
        (folder / "1.json").write_text(text(5, 4))
        seen: list[Snapshot] = []

        class Watching(Notebook):
            def intend(self, snapshot: Snapshot, *rest: Any) -> None:
                seen.append(snapshot)
                super().intend(snapshot, *rest)

        loop = loop_of(Cluster(), Watching())
        loop.knowledge.reports = SpoolReports(spool_of(folder), wait_s=20.0)
        loop.turn()
        assert seen[0].reported[JobId(1)].curve.loss.tolist() == [5.0, 4.0]

    def test_the_tasks_of_an_array_are_shown_alone_and_gathered_and_stay_when_slurmctld_has_forgotten_them(
        self, folder: Path
    ) -> None:
        tasks = [job(20 + index, array_job_id=JobId(20), array_task_id=index) for index in range(3)]
        for index, loss in enumerate((6, 4, 2)):
            (folder / f"20_{index}.json").write_text(text(loss))
        port = SpoolReports(spool_of(folder), wait_s=20.0)
        heard = port.read(Snapshot.of(START, jobs=tasks[:2]))
        assert {int(job_id): one.curve.loss.tolist() for job_id, one in heard.by_job.items()} == {20: [6.0], 21: [4.0]}
        assert heard.by_array[JobId(20)].curve.loss.tolist() == [5.0]
        later = port.read(Snapshot.of(START, jobs=tasks[2:]))
        assert set(later.by_job) == {22}
        assert later.by_array[JobId(20)].curve.loss.tolist() == [4.0]

    def test_reports_of_tasks_from_before_the_daemon_began_are_requested(self, folder: Path) -> None:
        (folder / "20_1.json").write_text(text(4))
        asked: list[tuple[int, set[int]]] = []

        def earlier(array: JobId, there: Collection[int]) -> list[Curve]:
            asked.append((array, set(there)))
            return [Curve.of([(0, 8.0, START, 0.0)])]

        port = SpoolReports(spool_of(folder), earlier=earlier, wait_s=20.0)
        tasks = [job(20 + index, array_job_id=JobId(20), array_task_id=index) for index in (1, 2)]
        for _ in range(2):
            heard = port.read(Snapshot.of(START, jobs=tasks))
            assert heard.by_array[JobId(20)].curve.loss.tolist() == [6.0]
        assert asked == [(20, {1, 2})]

    def test_a_bug_in_the_reader_is_no_silence(self, monkeypatch: pytest.MonkeyPatch, slow: Slow) -> None:
        def broken(*_: object) -> None:
            raise KeyError("a bug")

        monkeypatch.setattr(Slow, "look", broken)
        with pytest.raises(KeyError, match="a bug"):
            SpoolReports(slow, wait_s=20.0).read(FULL_CLUSTER)


def test_a_file_that_grows_without_end_takes_no_memory(folder: Path) -> None:
    path = folder / "1.json"
    path.touch()
    os.truncate(path, 1 << 40)  # no bytes on disk, a terabyte to read
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "longer than" in told(spool_of(folder), job(1))[1].refused
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
