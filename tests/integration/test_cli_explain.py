"""`tesched explain` says of a victim what was done to it, and no more.

Over 400 lines: one command, with all that it says of a job.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from tesched_cli.common import clock
from tesched_cli.main import main
from tesched_core.intake.class_rules import Classification, UserWord
from tesched_core.intake.classify import classified
from tesched_core.model.change import FREE, LET_THROUGH, STANDS, Change, Mark
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.job_memory import JobMemory
from tesched_core.model.memory import Memory
from tesched_core.model.order import Departure, VictimState
from tesched_core.model.outlived import Outlived
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_db.engine import open_store
from tesched_testcluster.harness.store_examples import (
    Writer,
    configured_store,
    job,
    order,
    refusal,
    remembering,
    snapshot,
    victim,
)

WAITS = "is preempted once the other victims of the order have left"
NEVER = "was selected and not notified"
NOTIFIED = "was notified"
PREEMPTED = "was preempted"
SUSPENDED = "was suspended, since its CPUs are enough"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Give a store with one order, whose victims are in all states before they leave."""
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    victims = (
        victim(1, VictimState.PLANNED),
        victim(2, VictimState.SPARED),
        victim(3, VictimState.LEFT, left_at=210.0, departure=Departure.FINISHED),
        victim(4, VictimState.SPARED, noticed_at=200.0),
        victim(5, VictimState.REQUEUING, noticed_at=200.0, requeue_sent_at=200.0),
        victim(6, VictimState.LEFT, noticed_at=200.0, left_at=210.0, departure=Departure.REQUEUED),
        # It is sent no signal.
        victim(7, VictimState.REQUEUING, noticed_at=200.0, requeue_sent_at=200.0, grace_period_s=0.0),
        victim(8, VictimState.LEFT, noticed_at=200.0, left_at=210.0, departure=Departure.REQUEUED, grace_period_s=0.0),
        victim(10, VictimState.SUSPENDED, noticed_at=200.0, suspended_at=201.0, by_suspending=True),
        victim(11, VictimState.SPARED, noticed_at=200.0, by_suspending=True),
        victim(12, VictimState.SPARED, by_suspending=True),
    )
    jobs = [job(number) for number in range(1, 13)]
    Writer(engine).look(220.0, *jobs, te=[9], memory=remembering(order(1, 9, *victims)))
    engine.dispose()
    return path


@pytest.mark.parametrize(
    ("job_id", "said"),
    [
        (1, WAITS),
        (2, NEVER),
        (3, NEVER),
        (4, NOTIFIED),
        (5, NOTIFIED),
        (6, PREEMPTED),
        (7, "was to be requeued"),
        (8, PREEMPTED),
        (10, SUSPENDED),
        (11, SUSPENDED.replace("was", "was to be")),
        (12, NEVER),
    ],
)
def test_a_victim_is_said_to_be_preempted_only_when_it_was(config: Path, job_id: int, said: str) -> None:
    def explain(number: int) -> str:
        runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})
        return " ".join(runner.invoke(main, ["explain", str(number), "--config", str(config)]).output.split())

    assert f"it {said}, for job 9" in explain(job_id)
    assert f"job {job_id} {said}:" in explain(9)


def held(job_id: int, value: int) -> Change[int]:
    one = Change(job_id=JobId(job_id), field=Field.HOLD, previous=FREE, value=value, at=200.0, since=200.0)
    return replace(one, taken_at=210.0, restored=value == LET_THROUGH, of_array=job_id == 3)


def test_it_is_said_which_jobs_another_hand_has_released(tmp_path: Path) -> None:
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    jobs = [replace(job(number, user="ada"), admin_comment="") for number in (1, 2, 6)]
    task = replace(job(4, user="bob"), array_job_id=JobId(3), array_task_id=1)
    # Another task has had its run since, and of an array the last task alone was let through.
    tasks = [task, replace(task, job_id=JobId(5), array_task_id=2, restarts=1)]
    tasks += [replace(task, job_id=JobId(number), array_job_id=JobId(8), array_task_id=number) for number in (8, 9)]
    released = dict.fromkeys((1, 3, 8), LET_THROUGH)
    holds = {JobId(number): held(number, value) for number, value in {**released, 2: STANDS}.items()}
    Writer(engine).look(220.0, *jobs, *tasks, te=[1, 2, 4, 5, 6, 8, 9], memory=Memory(changes={Field.HOLD: holds}))
    engine.dispose()
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TZ": "UTC"})

    def said(*argv: str) -> str:
        return " ".join(runner.invoke(main, [*argv, "--config", str(path)]).output.split())

    words = "hold released by another hand at"
    assert [words in said("explain", name) for name in ("1", "3_1", "8_8")] == [True] * 3
    assert [words in said("explain", name) for name in ("2", "3_2", "6", "8_9")] == [False] * 4
    assert json.loads(said("explain", "1", "--json"))["let_through"]["at"] == 210
    assert json.loads(said("explain", "2", "--json"))["let_through"] is None
    assert "let through: 3 TE job(s), released by another hand and not held again: 1 of ada (" in said("status")
    assert [one["job"] for one in json.loads(said("status", "--json"))["let_through"]] == ["1", "3", "8_8"]
    assert json.loads(said("status", "--json"))["changed"] == {Field.HOLD: [2]}


def test_an_idle_job_is_shown_with_since_when(tmp_path: Path) -> None:
    path, url = configured_store(tmp_path)
    engine, now = open_store(url), time.time()
    jobs = [job(number, JobState.RUNNING, nodes=("n1",), start_time=now - 5000) for number in (1, 2)]
    Writer(engine).write(replace(snapshot(now, *jobs), idle_since={JobId(2): now - 3725}))
    engine.dispose()
    runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"})

    def said(*argv: str) -> str:
        return runner.invoke(main, [*argv, "--config", str(path)]).output

    assert f"  idle    idle since {clock(now - 3725)}, for 01:02:0" in said("explain", "2")
    assert "idle" not in said("explain", "1")
    assert said("jobs", "-O", "jobid,idle", "--noheader").split()[:3] == [
        "1",
        "2",
        said("jobs", "-O", "idle").split()[1],
    ]
    assert said("jobs", "-O", "idle", "-S", "-idle").split()[1].startswith("01:02:0")
    assert [one["idle_since"] for one in json.loads(said("jobs", "--json"))["jobs"]] == [None, now - 3725]


def test_it_is_said_which_users_have_no_te_jobs_and_until_when(tmp_path: Path) -> None:
    path, url = configured_store(tmp_path)
    path.write_text(path.read_text() + "[guard.te]\nmax_outlived_per_user_day = 2\n")
    engine, now = open_store(url), time.time()
    jobs = [job(1, user="ada"), job(2, user="bob"), job(3, JobState.RUNNING, user="ada"), job(4, user="ada")]
    runs = tuple(Outlived(job_id=JobId(90 + number), at=now - 100 + number, user="ada") for number in range(3))
    Writer(engine).look(220.0, *jobs, te=[1, 2, 3], memory=Memory(outlived=runs))
    engine.dispose()
    runner = CliRunner(env={"COLUMNS": "250", "NO_COLOR": "1"})

    def said(*argv: str) -> str:
        return " ".join(runner.invoke(main, [*argv, "--config", str(path)]).output.split())

    words = "user 3 TE jobs of ada outlived the time limits with which they started in the last 24 h"
    assert [words in said("explain", name) for name in "1234"] == [True, False, False, False]
    one = {"user": "ada", "count": 3, "most": 2, "until": pytest.approx(now - 99 + 86400)}
    assert json.loads(said("explain", "1", "--json"))["barred"] == one
    assert json.loads(said("explain", "2", "--json"))["barred"] is None
    assert json.loads(said("status", "--json"))["barred"] == [one]
    assert "excluded: no TE job starts of 1 user(s), whose TE jobs outlived their limits: ada, 3 of 2, until" in said(
        "status"
    )


def explained(path: Path, name: str, *more: str) -> str:
    runner = CliRunner(env={"COLUMNS": "400", "NO_COLOR": "1"})
    answer = runner.invoke(main, ["explain", name, *more, "--config", str(path)])
    assert answer.exit_code == 0, answer.output
    return answer.output


WHEN: dict[str, Any] = {"at": 1_000_005.0, "since": 1_000_005.0}
BEGIN: dict[str, Any] = {"previous": 0, "value": 1_000_260}
HOSTILE = "\x1b[2Jx\n\u202e[/x]"


def test_a_users_declaration_that_the_site_ignored_is_shown_with_what_counts_instead(tmp_path: Path) -> None:
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    how = Classification(default_notice_signal="B:TERM")
    comments = {1: "te signal=KILL grace=9999", 2: "first try of the new model", 3: f"tesched:{HOSTILE}", 4: "elastic"}
    jobs = [job(number, comment=text) for number, text in comments.items()]
    jobs[3] = replace(jobs[3], array_job_id=JobId(4), array_tasks="0-9")
    Writer(engine).write(classified(Snapshot.of(220.0, jobs=jobs), how))
    engine.dispose()

    said = explained(path, "1")
    assert (
        "  said    te (the job's comment) is not followed: classes.user_word.may_say_te = false; "
        "instead: best effort (rule: default)\n"
    ) in said
    assert (
        "  said    signal=KILL (the job's comment) is not followed: SIGKILL may not be a notice; HUP, INT, USR1, USR2, "
        "TERM, CONT may; instead: SIGTERM to its batch shell, from the site's default\n"
    ) in said
    assert (
        "  said    grace=9999 (the job's comment) is not followed: classes.user_word.max_grace_period_s = 600; "
        "instead: 600 s, from the job's comment\n"
    ) in said
    seen = json.loads(explained(path, "1", "--json"))["story"]["job"]["not_followed"]
    assert [(one["about"], one["said"]) for one in seen] == [
        ("class", "te"),
        ("notice", "signal=KILL"),
        ("notice", "grace=9999"),
    ]
    assert seen[0]["why"] == "classes.user_word.may_say_te = false"
    assert seen[0]["instead"] == "best effort (rule: default)"
    assert "is not followed" not in explained(path, "2")
    hostile = explained(path, "3")
    assert r"said    tesched:\x1b[2Jx (the job's comment) is not followed: tesched knows no such word" in hostile
    assert "\x1b" not in hostile
    assert "elastic (the job's comment) is not followed: policy.be is none; slaq goes by that word" in explained(
        path, "4"
    )
    path.write_text(path.read_text() + '[policy]\nbe = "slaq"\n')
    assert "is not followed" not in explained(path, "4")


@pytest.fixture
def clock_says(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Give what sets the command's clock."""
    return lambda at: monkeypatch.setattr("tesched_cli.explain.time", SimpleNamespace(time=lambda: at))


def test_until_when_is_said_of_each_refusal_that_ends_by_itself(
    tmp_path: Path, clock_says: Callable[[float], None]
) -> None:
    clock_says(1_000_011.0)
    path, url = configured_store(tmp_path)
    path.write_text(path.read_text() + "[guard]\nmin_run_time_s = 60\ncool_down_s = 600\n")
    engine = open_store(url)
    young = [job(n, JobState.RUNNING, nodes=("n1",), start_time=1_000_000.0 + n) for n in (1, 2, 3)]
    te = job(9)
    texts = {
        1: (RefusalCode.MIN_RUN_TIME, "it has run for less than guard.min_run_time_s, 60 s"),
        2: (RefusalCode.MIN_RUN_TIME, "it has run for less than guard.min_run_time_s, 60 s"),
        3: (RefusalCode.COOL_DOWN, "it was asked"),
    }
    refusals = [refusal(number, 9, code, text) for number, (code, text) in texts.items()]
    own = refusal(9, 9, RefusalCode.RETRY_LATER, "tried again after guard.retry_after_s")
    memory = Memory(jobs={JobId(9): JobMemory(retry_at=1_000_300.0), JobId(3): JobMemory(last_preempted=999_900.0)})
    Writer(engine).look(1_000_010.0, *young, te, te=[9], memory=memory, refusals=(*refusals, own))
    engine.dispose()

    assert f"guard.min_run_time_s, 60 s (until {clock(1_000_061)})  [min_run_time]" in explained(path, "1")
    assert f"it was asked (until {clock(1_000_500)})  [cool_down]" in explained(path, "3")
    said = explained(path, "9")
    assert f"tried again after guard.retry_after_s (until {clock(1_000_300)})  [retry_later]" in said
    both = f"the first until {clock(1_000_061)}, the last until {clock(1_000_062)}"
    assert f"job 1, 2: {texts[1][1]} ({both})  [min_run_time]" in said
    times = {(one["job"], one["what"]): one["at"] for one in json.loads(explained(path, "9", "--json"))["until"]}
    assert times == {
        ("1", "min_run_time"): 1_000_061.0,
        ("2", "min_run_time"): 1_000_062.0,
        ("3", "cool_down"): 1_000_500.0,
        ("9", "retry_later"): 1_000_300.0,
    }
    assert "which is over" not in said

    clock_says(1_000_062.0)
    assert f"guard.min_run_time_s, 60 s (until {clock(1_000_061)}, which is over)  [min_run_time]" in explained(
        path, "1"
    )
    both = f"the first until {clock(1_000_061)}, which is over, the last until {clock(1_000_062)}, which is over"
    assert f"job 1, 2: {texts[1][1]} ({both})  [min_run_time]" in explained(path, "9")
    over = {(one["job"], one["over"]) for one in json.loads(explained(path, "9", "--json"))["until"]}
    assert over == {("1", True), ("2", True), ("3", False), ("9", False)}


def test_until_when_its_owner_lets_a_te_job_wait_before_others_leave_for_it(
    tmp_path: Path, clock_says: Callable[[float], None]
) -> None:
    clock_says(1_000_011.0)
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    waits = [replace(job(n, comment="te patience=300", priority=9), eligible_time=1_000_000.0) for n in (7, 8, 6, 5)]
    waits[1] = replace(waits[1], state=JobState.RUNNING)
    waits[2] = replace(waits[2], priority=0)
    waits[3] = replace(waits[3], eligible_time=None)
    how = Classification(user_word=UserWord(may_say_te=True))
    own = [refusal(n, n, RefusalCode.PATIENCE, "no other job is to leave for it yet") for n in (7, 8)]
    Writer(engine).write(classified(Snapshot.of(1_000_010.0, jobs=waits), how), refusals=own)
    engine.dispose()

    owners = "before others have to leave for it, by its owner's word (patience=300)  [patience]"
    assert f"it waits until {clock(1_000_300)} {owners}" in explained(path, "7")
    seen = json.loads(explained(path, "7", "--json"))
    assert [(one["what"], one["at"], one["over"]) for one in seen["until"]] == [("patience", 1_000_300.0, False)]
    assert (seen["story"]["job"]["patience_s"], seen["story"]["job"]["patience_until"]) == (300.0, 1_000_300.0)
    assert json.loads(explained(path, "8", "--json"))["story"]["job"]["patience_until"] is None, "it waits no more"
    for name in ("6", "5"):
        held = json.loads(explained(path, name, "--json"))["story"]["job"]
        assert (held["patience_s"], held["patience_until"]) == (300.0, None), "it begins anew with its release"
    clock_says(1_000_301.0)
    assert f"it waits until {clock(1_000_300)}, which is over {owners}" in explained(path, "7")


def test_until_when_is_said_of_what_is_under_way_and_of_what_tesched_has_set(
    tmp_path: Path, clock_says: Callable[[float], None]
) -> None:
    clock_says(1_000_011.0)
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    later = victim(1, VictimState.NOTICED, noticed_at=1_000_000.0, grace_period_s=90.0)
    jobs = [job(number, JobState.RUNNING, nodes=("n1",), start_time=999_000.0) for number in (1, 3)]
    waiting = [job(number) for number in (2, 8, 9)]
    mark = Mark(order=4, score=1.0, grace_s=0.0, restarts=0, nodes=("n1",), started_at=999_000.0)
    changes: dict[str, dict[JobId, Change[Any]]] = {
        Field.MARK: {JobId(3): Change(job_id=JobId(3), field=Field.MARK, previous=mark, value=mark, **WHEN)},
        Field.BEGIN: {JobId(2): Change(job_id=JobId(2), field=Field.BEGIN, **BEGIN, **WHEN)},
        Field.HOLD: {JobId(8): Change(job_id=JobId(8), field=Field.HOLD, previous=FREE, value=STANDS, **WHEN)},
    }
    memory = replace(remembering(order(1, 9, later, expires_at=1_000_200.0)), changes=changes)
    late = refusal(8, 8, RefusalCode.TE_LIMIT, "with it 2 TE jobs of ada would run at once")
    Writer(engine).look(1_000_010.0, *jobs, *waiting, te=[8, 9], memory=memory, refusals=(late,))
    engine.dispose()

    assert f"  its grace period ends at {clock(1_000_090)}: then it is requeued\n" in explained(path, "1")
    assert f"(under way, until {clock(1_000_200)} unless it starts or a victim takes longer to end)" in explained(
        path, "9"
    )
    assert (
        f"  begin   put later by tesched, while another victim of its order holds its nodes, until {clock(1_000_260)}"
        in (explained(path, "2"))
    )
    marked = explained(path, "3")
    assert "  mark    marked, rank 4: Slurm may preempt it for TE jobs (guard.mark_for_s, renewed" in marked
    assert f"until {clock(1_000_905)}" in marked
    held = explained(path, "8")
    assert f"  hold    held by tesched until it may start, as is said below; since {clock(1_000_005)}" in held
    assert "would run at once (until TE jobs have ended, or guard.te changes)  [te_limit]" in held

    # Where no daemon polls, nothing ends in time.
    clock_says(1_010_000.0)
    ended = f"  its grace period ended at {clock(1_000_090)}: it was to be requeued then\n"
    assert ended in explained(path, "1")
    ends = f"(under way, until {clock(1_000_200)}, which is over, unless it starts or a victim takes longer to end)"
    assert ends in explained(path, "9")
    assert f"holds its nodes, until {clock(1_000_260)}, which is over\n" in explained(path, "2")
    assert f"until {clock(1_000_905)}, which is over\n" in explained(path, "3")
    assert f"as is said below; since {clock(1_000_005)}\n" in explained(path, "8")


def test_a_victim_with_its_owners_word_is_said_to_be_cancelled_at_the_end_of_its_grace_period(
    tmp_path: Path, clock_says: Callable[[float], None]
) -> None:
    clock_says(1_000_011.0)
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    ends = victim(1, VictimState.NOTICED, noticed_at=1_000_000.0, grace_period_s=90.0, ends=True)
    memory = remembering(order(1, 9, ends, expires_at=1_000_200.0))
    one = job(1, JobState.RUNNING, nodes=("n1",), start_time=999_000.0, comment="preempted=end")
    Writer(engine).look(1_000_010.0, one, job(9), te=[9], memory=memory)
    engine.dispose()
    why = "by its owner's word (preempted=end)\n"
    assert f"  its grace period ends at {clock(1_000_090)}: then it is cancelled, {why}" in explained(path, "1")
    clock_says(1_010_000.0)
    assert f"  its grace period ended at {clock(1_000_090)}: it was to be cancelled then, {why}" in explained(path, "1")


@pytest.mark.parametrize(
    ("lever", "ends", "end"),
    [
        (
            "requeue",
            "it is cancelled without a notice",
            "when it is preempted it does not run again, by its owner's word",
        ),
        (
            "plugin",
            "it is requeued without a notice",
            'with guard.lever = "plugin" Slurm preempts it, and it runs again:',
        ),
    ],
)
def test_where_slurm_preempts_a_job_that_is_to_end_for_good_is_said_to_run_again(
    tmp_path: Path, lever: str, ends: str, end: str
) -> None:
    path, url = configured_store(tmp_path)
    marks = 'marks = "/var/spool/slurm/tesched_marks"\n' if lever == "plugin" else ""
    path.write_text(f'{path.read_text()}[slurm]\n{marks}[guard]\nlever = "{lever}"\n')
    engine = open_store(url)
    silent, signalled = (
        job(n, JobState.RUNNING, nodes=("n1",), start_time=100.0, comment=f"preempted=end{word}")
        for n, word in ((1, ""), (2, " signal=B:USR1@120"))
    )
    Writer(engine).write(classified(Snapshot.of(220.0, jobs=[silent, signalled]), Classification()))
    engine.dispose()
    assert f"  end     {end}" in explained(path, "1")
    assert ends in explained(path, "1")
    noun = "end" if lever == "requeue" else "requeue"
    assert f"s between notice and {noun}, from" in explained(path, "2")


def test_a_signal_to_the_steps_alone_is_shown_with_what_the_batch_shell_takes(tmp_path: Path) -> None:
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    comments = {1: "signal=USR1@120", 2: "signal=B:USR1@120"}
    jobs = [job(n, JobState.RUNNING, nodes=("n1",), start_time=100.0, comment=text) for n, text in comments.items()]
    Writer(engine).write(classified(Snapshot.of(220.0, jobs=jobs), Classification()))
    engine.dispose()
    words = "  notice  its steps are what srun started: a trap of its batch script takes B:USR1\n"
    assert [words in explained(path, name) for name in "12"] == [True, False]
