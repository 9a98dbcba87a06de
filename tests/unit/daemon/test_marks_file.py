"""The marks file as the daemon writes it, and what it makes of a file that another process has touched."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tesched_core.model.actions import CameBack, MarkLine, Reason, ReasonCode, SetMarks, Status
from tesched_core.model.cluster import PluginSettings, SlurmSettings
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.orders.marking import MOST_BARRED
from tesched_daemon.marks_file import (
    MOST_GRACE_S,
    MOST_LINES,
    MOST_ORDER,
    MOST_TIME,
    MarkingActuator,
    MarksFile,
    text_of,
)
from tesched_daemon.plugin_fit import marks_trouble, user_name
from tesched_slurm.commands_actuator import DryRunActuator

from tests.builders import cluster, node, running, share, waiting

PLUGIN = Limits(lever=YieldBy.PLUGIN)
LINE = MarkLine(job_id=JobId(17), order=3, grace_s=0, max_restarts=2, least_run_s=60, after=1, until=2)


def snapshot(**settings: Any) -> Snapshot:
    """Return an empty cluster with these settings."""
    return Snapshot.of(0.0, settings=SlurmSettings(**settings))


@pytest.fixture
def file(tmp_path: Path) -> MarksFile:
    """Give a file that has one mark."""
    file = MarksFile(path=tmp_path / "marks")
    file.write([LINE])
    return file


def test_it_is_a_file_that_the_plugin_takes(file: MarksFile) -> None:
    assert file.path.read_text() == "tesched-marks 1\n17 * 3 0 requeue 2 60 1 2\nend 1\n"
    assert oct(file.path.stat().st_mode & 0o777) == "0o644"
    assert (file.doubt(), file.tampered()) == ("", "")


def test_its_lines_ascend_by_job_id(file: MarksFile) -> None:
    file.write([replace(LINE, job_id=JobId(one)) for one in (9, 100, 10)])
    assert [line.split()[0] for line in file.path.read_text().splitlines()[1:-1]] == ["9", "10", "100"]


def test_the_largest_numbers_are_the_plugins_own() -> None:
    folder = Path(__file__).parents[3] / "slurm_plugin"
    header, parser = (folder / "marks.h").read_text(), (folder / "marks.c").read_text()
    assert f"#define MARKS_MAX_ORDER {MOST_ORDER}\n" in header
    assert "#define MARKS_MAX_GRACE_S (7 * 24 * 3600)\n" in header
    assert MOST_GRACE_S == 7 * 24 * 3600
    assert f"#define MARKS_MAX_COUNT ((size_t) {MOST_LINES})\n" in header
    assert f"#define MARKS_MAX_BARRED {MOST_BARRED}\n" in header
    assert parser.count(f"INT64_C({MOST_TIME})") == 2


@pytest.mark.parametrize(
    "odd",
    [
        {"max_restarts": 65_536},
        {"grace_s": MOST_GRACE_S + 1},
        {"order": MOST_ORDER + 1},
        {"least_run_s": 2**31},
        {"until": MOST_TIME + 1},
        {"after": -1},
        {"job_id": JobId(2**31)},
    ],
)
def test_a_mark_that_the_plugin_would_not_read_costs_no_other_job_its_mark(file: MarksFile, odd: Any) -> None:
    file.write([replace(LINE, job_id=JobId(16)), replace(LINE, **odd), replace(LINE, job_id=JobId(18))])
    _, *lines, end = file.path.read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["16", "18"]
    assert end == "end 2"


def test_a_link_that_a_crash_or_another_user_has_left_beside_it_is_not_written_through(file: MarksFile) -> None:
    other = file.path.with_name("other")
    other.write_text("mine")
    file.path.with_name(".marks.new").symlink_to(other)
    file.write([LINE])
    assert other.read_text() == "mine"
    assert file.path.read_text().startswith("tesched-marks 1\n17")


def test_excluded_users_stand_first_by_their_ids(file: MarksFile) -> None:
    file.write([LINE], barred=["nobody", "root", "4711"])
    assert file.path.read_text().startswith("tesched-marks 1\nbarred 0\nbarred 4711\nbarred 65534\n17 * 3")
    file.write([LINE], barred=["root"], wait_s=2)
    assert file.path.read_text().startswith("tesched-marks 1\nwait 2\nbarred 0\n17 * 3")


def test_of_more_users_than_the_plugin_takes_none_is_excluded_no_job_is_marked_and_status_says_so(
    file: MarksFile,
) -> None:
    came_back = [CameBack(job_id=JobId(41), restarts=0, until=9)]
    file.write([LINE], barred=map(str, range(5000, 5000 + MOST_BARRED)))
    assert file.path.read_text().count("barred") == MOST_BARRED
    assert ("\n17 * " in file.path.read_text(), file.unnamed()) == (True, "")
    file.write([LINE], barred=map(str, range(5000, 5001 + MOST_BARRED)), came_back=came_back)
    assert file.path.read_text() == "tesched-marks 1\n41 41 0 0 requeue 0 0 0 9\nend 1\n"
    seen = snapshot(plugin=PluginSettings(marks=str(file.path), owners=frozenset({user_name()})))
    assert f"no job is marked: {MOST_BARRED + 1} users may preempt no more " in marks_trouble(seen, file, PLUGIN)
    # One without an id here counts as the others: nothing is marked for want of its line.
    file.write([LINE], barred=["no such", *map(str, range(5000, 5000 + MOST_BARRED))])
    assert "\n17 * " not in file.path.read_text()
    file.write([LINE], barred=["5000"])
    assert ("\n17 * " in file.path.read_text(), file.unnamed()) == (True, "")


def test_a_te_job_that_came_back_has_a_line_by_its_id_which_is_a_mark_that_never_holds(file: MarksFile) -> None:
    came_back = [CameBack(job_id=JobId(one), restarts=3, until=1795393600) for one in (41, 9)]
    file.write([LINE], came_back=came_back)
    _, *lines, end = file.path.read_text().splitlines()
    # Itself as its preemptor, the count of restarts as its order; at 0 restarts no job is preempted.
    assert [lines[0], lines[2]] == [f"{one} {one} 3 0 requeue 0 0 0 1795393600" for one in (9, 41)]
    assert (lines[1].split()[0], len(lines), end) == ("17", 3, "end 3")


def test_the_action_writes_the_te_jobs_that_came_back(file: MarksFile) -> None:
    one = CameBack(job_id=JobId(41), restarts=0, until=9, victim_left_at=7)
    reason = Reason(code=ReasonCode.MARKS, text="")
    action = SetMarks(job_id=JobId(0), reason=reason, marks=(LINE,), came_back=(one,))
    assert MarkingActuator(actuator=DryRunActuator(), file=file).act(action).status is Status.SENT
    assert "\n41 41 0 0 requeue 0 0 7 9\n" in file.path.read_text()


@pytest.mark.parametrize("odd", [{"job_id": JobId(2**31)}, {"restarts": MOST_ORDER + 1}, {"until": MOST_TIME + 1}])
def test_a_te_job_that_the_plugin_would_not_read_costs_no_other_line(file: MarksFile, odd: Any) -> None:
    good = CameBack(job_id=JobId(41), restarts=0, until=9)
    file.write(
        [LINE], came_back=[replace(good, job_id=JobId(40)), replace(good, **odd), replace(good, job_id=JobId(42))]
    )
    _, *lines, end = file.path.read_text().splitlines()
    assert [line.split()[0] for line in lines] == ["17", "40", "42"]
    assert end == "end 3"


def test_however_many_te_jobs_come_back_the_marks_stay_and_the_file_has_no_more_lines_than_the_plugin_takes() -> None:
    came_back = [CameBack(job_id=JobId(one), restarts=0, until=9) for one in range(1000, 1000 + MOST_LINES)]
    lines = text_of([LINE, replace(LINE, job_id=JobId(MOST_LINES * 2))], came_back=came_back).splitlines()
    assert len(lines) == MOST_LINES + 2
    assert lines[1].startswith("17 * ")
    assert lines[-2].startswith(f"{MOST_LINES * 2} * ")
    assert lines[-1] == f"end {MOST_LINES}"


#: names of users that no id can be given for: unknown here, more than 32 bits, no name at all
WITHOUT_ID = ("no-such-user", "4294967296", "9" * 5000, "no\0name", "\udcff")


@pytest.mark.parametrize("name", WITHOUT_ID)
def test_an_excluded_user_without_an_id_here_costs_no_other_user_a_line(
    file: MarksFile, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    file.write([LINE], barred=["root", name])
    assert file.path.read_text() == "tesched-marks 1\nbarred 0\n17 * 3 0 requeue 2 60 1 2\nend 1\n"
    assert (file.failure, file.unknown) == ("", (name,))
    file.write([LINE], barred=[name])
    assert caplog.text.count("no id on this host") == 1, "it is said once"
    seen = snapshot(plugin=PluginSettings(marks=str(file.path), owners=frozenset({user_name()})))
    assert "has no id on this host" in marks_trouble(seen, file, PLUGIN)
    file.write([LINE], barred=["root"])
    assert marks_trouble(seen, file, PLUGIN) == ""


def test_a_plugin_of_another_release_is_red(file: MarksFile) -> None:
    file.write([LINE])
    folder = file.path.parent
    settings = PluginSettings(marks=str(file.path), owners=frozenset({user_name()}), folders=(str(folder),))
    assert marks_trouble(snapshot(plugin=settings), file, PLUGIN) == ""
    (folder / "preempt_tesched.so").write_bytes(b"\0tesched-built-for=1.02.3\0")
    assert "was built for Slurm 1.02.3" in marks_trouble(snapshot(plugin=settings), file, PLUGIN)


def test_many_excluded_users_without_an_id_are_counted_and_not_all_named(file: MarksFile) -> None:
    file.write([LINE], barred=[f"no-such-user-{number}" for number in range(200)])
    seen = snapshot(plugin=PluginSettings(marks=str(file.path), owners=frozenset({user_name()})))
    said = marks_trouble(seen, file, PLUGIN)
    assert "200 users" in said
    assert len(said) < 300


@pytest.mark.parametrize(
    ("touch", "says"),
    [
        (lambda path: path.unlink(), "was removed"),
        (lambda path: path.write_text("garbage"), "was changed"),
        (lambda path: path.chmod(0o666), "was changed"),
        (lambda path: os.chown(path, 65534, 65534), "was changed"),
    ],
)
def test_a_file_that_another_process_has_touched_is_in_doubt_until_it_is_written(
    file: MarksFile, touch: Callable[[Path], object], says: str
) -> None:
    touch(file.path)
    assert says in file.tampered() == file.doubt()
    file.write([LINE])
    assert file.doubt() == ""
    assert file.path.is_file()
    assert not file.path.is_symlink()


def test_a_file_of_an_earlier_process_is_in_doubt_unless_it_has_no_mark(file: MarksFile) -> None:
    other = MarksFile(path=file.path)
    assert "earlier process" in other.doubt()
    assert other.tampered() == "", "it is no fault"
    file.write([])
    assert MarksFile(path=file.path).doubt() == ""
    file.path.unlink()
    assert MarksFile(path=file.path).doubt() == ""


def test_what_cannot_be_written_is_said_until_it_can_be(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    file = MarksFile(path=folder / "marks")
    seen = snapshot(plugin=PluginSettings(marks=str(file.path), owners=frozenset({user_name()})))
    action = SetMarks(job_id=JobId(0), reason=Reason(code=ReasonCode.MARKS, text=""), marks=(LINE,))
    actuator = MarkingActuator(actuator=DryRunActuator(), file=file)
    assert actuator.act(action).status is Status.FAILED
    assert marks_trouble(seen, file, PLUGIN) == f"the marks cannot be written: {file.path}: No such file or directory"
    folder.mkdir()
    assert actuator.act(action).status is Status.SENT
    assert marks_trouble(seen, file, PLUGIN) == ""


def test_a_file_that_slurm_does_not_read_is_trouble(file: MarksFile) -> None:
    seen = snapshot(plugin=PluginSettings(marks="/elsewhere", owners=frozenset({user_name()})))
    assert "slurmctld reads /elsewhere" in marks_trouble(seen, file, PLUGIN)
    assert "PreemptType is preempt/none" in marks_trouble(snapshot(preempt_type="preempt/none"), file, PLUGIN)
    assert marks_trouble(seen, file, Limits()) == "", "it is another lever's"


def test_a_best_effort_job_that_slurm_preempts_for_is_trouble(file: MarksFile) -> None:
    plugin = PluginSettings(marks=str(file.path), owners=frozenset({user_name()}), te_qos=frozenset({"te"}))
    jobs = [waiting(1, cpus=1), replace(waiting(2, cpus=1), qos="te"), running(3, share("n1", 8))]
    seen = replace(cluster([node("n1")], jobs), settings=SlurmSettings(plugin=plugin))
    assert marks_trouble(seen, file, PLUGIN) == ""
    as_be = seen.with_traits({key: replace(one, job_class=JobClass.BE) for key, one in seen.traits.items()})
    assert "1 best-effort job(s) are TE jobs by slurm.conf, the first is 2" in marks_trouble(as_be, file, PLUGIN)
