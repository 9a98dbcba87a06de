"""The command line, on stores that a real loop filled."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import select, update
from tesched_cli.common import duration
from tesched_cli.main import main
from tesched_core.model.actions import sets
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.decision import Decision
from tesched_core.model.field import Field
from tesched_core.model.order import Departure, VictimState
from tesched_core.model.snapshot import Snapshot
from tesched_core.ports import CycleReport
from tesched_db.engine import open_store, writing
from tesched_db.journal import Identity, SqlJournal
from tesched_db.tables import DaemonRow
from tesched_slurm.run_command import Commands
from tesched_testcluster.harness.store_examples import configured_store

from tests.loop_parts import FULL_CLUSTER, TRIAL, VICTIM, Cluster, Notebook, loop_of


def seen(at: float, *jobs: Job) -> Snapshot:
    """Return the cluster of the loop's tests with these jobs."""
    return replace(FULL_CLUSTER, taken_at=at, jobs={job.job_id: job for job in jobs})


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Give a configuration with one preemption under way in its store: job 1 was given notice for job 2."""
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    now = time.time()
    cluster = Cluster(seen=seen(now, replace(VICTIM, start_time=now - 100), replace(TRIAL, submit_time=now - 5)))
    loop = loop_of(cluster, Notebook())
    loop.journal = SqlJournal(engine)
    loop.clock = time.time
    loop.calls = lambda: {"scontrol show job": 3, "scancel": 1}
    loop.turn()
    engine.dispose()
    return path


def tesched(*argv: str) -> Result:
    """Run `tesched argv…` in this process."""
    return CliRunner(env={"COLUMNS": "160", "NO_COLOR": "1"}).invoke(main, list(argv))


def test_status_shows_the_daemon_the_queues_and_the_order(config: Path) -> None:
    shown = tesched("status", "--config", str(config))
    assert shown.exit_code == 0, shown.output
    assert "well: pid" in shown.output
    assert "resources for job 2 on n1 from 1" in shown.output
    assert "slurm    4 RPCs/min (scontrol show job 3, scancel 1)" in shown.output
    data = json.loads(tesched("status", "--json", "--config", str(config)).output)
    assert data["meta"]["command"] == "status"
    assert [order["order"]["preemptor"] for order in data["orders"]] == [2]
    assert data["use"]["be"] == {"jobs": 1, "cpus": 8, "gpus": 8, "nodes": 1}
    assert data["tally"]["futile"] == 0
    assert data["daemon"]["calls"] == {"scontrol show job": 3, "scancel": 1}


def test_status_shows_pokes_above_a_users_share(config: Path) -> None:
    assert "pokes" not in tesched("status", "--config", str(config)).output
    engine = open_store(_url(config))
    with writing(engine).begin() as connection:
        calls = {"scontrol show job": 3, "poke served": 7, "poke left to the poll": 120}
        connection.execute(update(DaemonRow).values(calls=calls))
    engine.dispose()
    shown = tesched("status", "--config", str(config)).output
    assert "slurm    3 RPCs/min (scontrol show job 3)" in shown
    assert "pokes    7/min, and 120/min above a user's share, left to the next poll" in shown


def test_status_shows_which_daemon_stands_by_and_which_leads(config: Path) -> None:
    engine = open_store(_url(config))
    with writing(engine).begin() as connection:
        # As on another host: the leader's process, this one, would be taken for an earlier life of ours.
        connection.execute(update(DaemonRow).values(lease_place="login1"))
    SqlJournal(engine, identity=replace(Identity.here(), pid=1, host="login2", place="login2")).lead()
    engine.dispose()
    shown = tesched("status", "--config", str(config)).output
    assert re.search(r"standby  pid 1 on login2, heard of [0-9] s ago; leader is \S+ since \d\d:\d\d:\d\d", shown)
    (standby,) = json.loads(tesched("status", "--config", str(config), "--json").output)["standbys"]
    assert (standby["host"], standby["pid"]) == ("login2", 1)


def test_jobs_shows_each_with_its_class_and_can_be_filtered(config: Path) -> None:
    everybody = json.loads(tesched("jobs", "--json", "--config", str(config)).output)["jobs"]
    assert [(job["job_id"], job["job_class"], job["rule"]) for job in everybody] == [
        (1, "be", "default"),
        (2, "te", "te"),
    ]
    waiting = json.loads(tesched("jobs", "--json", "-t", "PD", "--config", str(config)).output)["jobs"]
    assert [job["job_id"] for job in waiting] == [2]
    assert "(Resources)" in tesched("jobs", "--config", str(config)).output


def test_explain_shows_the_preemptor_its_nodes_and_the_victim_its_preemptor(config: Path) -> None:
    trial = tesched("explain", "2", "--config", str(config)).output
    assert "trial and error" in trial
    assert "rule: te" in trial
    assert "job 1 was notified" in trial
    victim = tesched("explain", "1", "--config", str(config)).output
    assert "it was notified, for job 2" in victim
    assert "SIGUSR1 to its batch shell, from the site's default" in victim
    assert "30 s between notice and requeue" in victim


def test_explain_of_an_unknown_job_says_so(config: Path) -> None:
    answer = tesched("explain", "77", "--config", str(config))
    assert answer.exit_code == 1
    assert "job 77: tesched has never seen it" in answer.output


def test_orders_shows_each_step(config: Path) -> None:
    shown = tesched("orders", "--config", str(config)).output
    assert "job 1: notice by SIGUSR1" in shown


def test_a_silent_daemon_is_reported(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = open_store(_url(config))
    with engine.connect() as connection:
        later = connection.execute(select(DaemonRow.reported_at)).scalar_one() + 3600
    engine.dispose()
    monkeypatch.setattr("tesched_cli.status.time.time", lambda: later)
    # The process is there: it is this one.
    said = tesched("status", "--config", str(config)).output
    assert "was last heard of 01:00:00 ago; it cannot write to the state store, or hangs" in said
    engine = open_store(_url(config))
    with writing(engine).begin() as connection:
        connection.execute(update(DaemonRow).values(pid=2**22 - 1))
    engine.dispose()
    assert "NOT RUNNING" in tesched("status", "--config", str(config)).output


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mood = 1", "mood: unknown key"),
        ('[store]\nurl = "mysql://x/y"', "mysql"),
        ('[store]\nurl = "sqlite:////no/such/folder/x.sqlite"', "/no/such/folder"),
    ],
)
def test_what_cannot_be_used_ends_with_status_2_and_no_traceback(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    answer = tesched("status", "--config", str(path))
    assert answer.exit_code == 2
    assert said in answer.output
    assert "Traceback" not in answer.output


@pytest.mark.parametrize("argv", [["jobs", "--json"], ["status"], ["--help"], ["explain", "--help"], ["--version"]])
def test_output_that_finds_its_file_system_full_ends_with_status_2_and_one_line(config: Path, argv: list[str]) -> None:
    options = ["--config", str(config)] if argv[0] in {"jobs", "status"} else []
    with Path("/dev/full").open("w") as full:
        run = subprocess.run(
            [sys.executable, "-c", "from tesched_cli.main import main; main()", *argv, *options],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert run.stderr == "Error: cannot write the output: No space left on device\n"
    assert run.returncode == 2


@pytest.mark.parametrize("output", ["stderr", "both", "stderr without a reader"])
@pytest.mark.parametrize("argv", [["status", "--config", "/no/such.toml"], ["jobs", "--no-such-option"], ["no-such"]])
def test_an_error_that_finds_stderr_full_has_its_exit_status(argv: list[str], output: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with Path("/dev/full").open("w") as full, os.fdopen(writer, "w") as unread:
        run = subprocess.run(
            [sys.executable, "-c", "from tesched_cli.main import main; main()", *argv],
            stdout=full if output == "both" else subprocess.PIPE,
            stderr=unread if "reader" in output else full,
            check=False,
        )
    # With a traceback it is 1; where the interpreter tries at its end to write what is left it is 120.
    assert run.returncode == 2
    assert not run.stdout


def test_output_and_stderr_that_are_full_end_with_status_2(config: Path) -> None:
    with Path("/dev/full").open("w") as full:
        argv = [sys.executable, "-c", "from tesched_cli.main import main; main()", "status", "--config", str(config)]
        assert subprocess.run(argv, stdout=full, stderr=full, check=False).returncode == 2


@pytest.mark.parametrize("error", ["click.ClickException('no')", "KeyboardInterrupt", "click.Abort"])
def test_an_end_with_status_1_that_finds_stderr_full_has_its_exit_status(error: str) -> None:
    code = f"""
import click
from tesched_cli import main

def fail(*_):
    raise {error}

main._imported = fail
main.main(["status"])
"""
    with Path("/dev/full").open("w") as full:
        run = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=full, check=False)
    assert run.returncode == 1


def test_a_state_that_slurm_does_not_have_is_refused(config: Path) -> None:
    answer = tesched("jobs", "-t", "PD,SLEEPING", "--config", str(config))
    assert answer.exit_code == 2
    assert "SLEEPING" in answer.output


def test_the_example_can_be_checked_as_it_is_printed(tmp_path: Path) -> None:
    path = tmp_path / "example.toml"
    path.write_text(tesched("config", "example").output)
    checked = tesched("config", "check", str(path))
    assert checked.exit_code == 0
    assert "mode shadow, policy fitgpp" in checked.output


def test_a_store_is_made_by_db_upgrade(tmp_path: Path) -> None:
    path = tmp_path / "tesched.toml"
    path.write_text(f'[store]\nurl = "sqlite:///{tmp_path}/new.sqlite"\n')
    assert "tesched db upgrade" in tesched("status", "--config", str(path)).output
    assert tesched("db", "upgrade", "--config", str(path)).exit_code == 0
    assert "no daemon has ever run" in tesched("status", "--config", str(path)).output


def test_a_preemption_is_shown_to_its_end_from_the_store_alone(config: Path) -> None:
    """The loop dies after the notice; another one with the same store brings the order to its end."""
    engine = open_store(f"sqlite:///{config.parent}/store.sqlite")
    at = time.time() + 10
    gone = replace(VICTIM, state=JobState.PENDING, restarts=1, allocation=(), start_time=None, submit_time=at)
    started = replace(TRIAL, state=JobState.RUNNING, reason="", start_time=at, allocation=VICTIM.allocation)
    # Its priority of 50 had to pass the victim's 100: 51 more, and a margin of 1000.
    cluster = Cluster(seen=seen(at, gone, replace(started, nice=-1051, priority=1101)))
    loop = loop_of(cluster, Notebook())
    loop.journal = SqlJournal(engine)
    loop.clock = lambda: at
    loop.turn()
    assert [action.value for action in cluster.acted if sets(action, Field.NICE)] == [0]
    back = replace(VICTIM, restarts=1, start_time=at + 60, submit_time=at)
    done = replace(started, state=JobState.COMPLETED, allocation=(), end_time=at + 50)
    cluster.seen = seen(at + 61, back, done)
    loop.turn()
    engine.dispose()
    story = json.loads(tesched("explain", "1", "--json", "--config", str(config)).output)["story"]
    (view,) = story["orders_as_victim"]
    assert (view["order"]["ending"], view["order"]["victims"][0]["state"]) == ("started_here", "back")
    assert view["order"]["victims"][0]["departure"] == "requeued_itself"
    assert story["job"]["preemptions"] == 1
    assert "was away for 01:00" in tesched("explain", "1", "--config", str(config)).output


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0, "00:00"), (61.9, "01:01"), (3600, "01:00:00"), (90061, "1-01:01:01")]
)
def test_durations_are_written_as_slurm_does(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_whatif_has_nothing_to_say_of_days_in_which_no_job_ended(config: Path) -> None:
    # Both jobs of the store are still there.
    said = tesched("whatif", "--config", str(config))
    assert said.exit_code == 2
    assert "the state store knows of no job that ran and ended in the last 7 days" in said.output


class TestPause:
    """Nothing new is begun, and every user is informed."""

    def test_a_pause_is_shown_with_its_user_its_reason_and_its_end(self, config: Path) -> None:
        said = tesched("pause", "--config", str(config), "--reason", "upgrade of Slurm", "--for", "2h")
        assert said.exit_code == 0
        assert said.output.startswith("tesched is paused by ")
        status = tesched("status", "--config", str(config))
        assert "PAUSED" in status.output
        assert "upgrade of Slurm" in status.output
        paused = json.loads(tesched("status", "--config", str(config), "--json").output)["paused"]
        assert paused["until"] - paused["since"] == 7200
        assert tesched("unpause", "--config", str(config)).output == "tesched goes on\n"
        assert tesched("unpause", "--config", str(config)).output == "tesched was not paused\n"
        assert "PAUSED" not in tesched("status", "--config", str(config)).output

    @pytest.mark.parametrize("word", ["0", "soon", "-5", "1.5h", "10w", "\u0663h"])
    def test_a_duration_that_is_none_is_named(self, config: Path, word: str) -> None:
        said = tesched("pause", "--config", str(config), f"--for={word}")
        assert said.exit_code == 2
        assert f"{word!r} is not a duration such as 90s, 15m, 2h or 1d" in said.output


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("db", "prune", "--older-than", "5"), "'5' is not a duration such as 90s, 15m, 2h or 1d"),
        (("explain", "\uff11\uff12"), "'\uff11\uff12' is no job: 123, 120_4"),
        (("explain", "abc"), "'abc' is no job: 123, 120_4 (a task of an array) or 130+1"),
    ],
)
def test_a_number_without_its_unit_and_a_word_that_is_no_job_end_with_2(
    config: Path, argv: tuple[str, ...], said: str
) -> None:
    found = tesched(*argv, "--config", str(config))
    assert found.exit_code == 2
    assert said in found.output


def test_prune_forgets_what_ended_long_ago_and_nothing_that_is_under_way(config: Path) -> None:
    before = json.loads(tesched("orders", "--config", str(config), "--json").output)["orders"]
    said = tesched("db", "prune", "--config", str(config), "--older-than", "1s")
    assert (said.exit_code, said.output.startswith("forgotten: 0 orders")) == (0, True)
    assert json.loads(tesched("orders", "--config", str(config), "--json").output)["orders"] == before


def test_a_victim_that_waits_too_long_to_run_again_is_pointed_out(config: Path) -> None:
    config.write_text(config.read_text() + "[guard]\nreturn_within_s = 0\n")
    assert json.loads(tesched("status", "--config", str(config), "--json").output)["overdue"] == []
    engine = open_store(_url(config))
    journal = SqlJournal(engine, takes_over=True)
    memory = journal.load()
    (order,) = memory.orders.values()
    left = replace(order.victims[0], state=VictimState.LEFT, departure=Departure.REQUEUED, left_at=time.time() - 90)
    orders = {order.order_id: replace(order, victims=(left,))}
    report = CycleReport(at=time.time(), mode="enforce", client="test", observe_s=0, step_s=0)
    nothing = Decision(cycle=9, at=1.0, policy="", actions=(), refusals=(), transitions=(), summary="")
    journal.intend(seen(time.time()), replace(memory, orders=orders), nothing, report)
    (late,) = json.loads(tesched("status", "--config", str(config), "--json").output)["overdue"]
    assert (late["job"], late["waited_s"] > 89) == ("1", True)
    assert "ALARM    job 1 made way (order 1) and has waited 01:3" in tesched("status", "--config", str(config)).output


def test_a_job_that_is_suspended_for_too_long_is_pointed_out(config: Path) -> None:
    config.write_text(config.read_text() + "[guard]\nsuspend_for_s = 60\n")
    engine = open_store(_url(config))
    journal = SqlJournal(engine, takes_over=True)
    memory = journal.load()
    (order,) = memory.orders.values()
    for ago_s, expected in ((30, []), (90, [("1", True)])):
        victim = replace(
            order.victims[0], state=VictimState.SUSPENDED, by_suspending=True, suspended_at=time.time() - ago_s
        )
        memory = replace(memory, cycle=memory.cycle + 1, orders={order.order_id: replace(order, victims=(victim,))})
        report = CycleReport(at=time.time(), mode="enforce", client="test", observe_s=0, step_s=0)
        nothing = Decision(cycle=memory.cycle, at=1.0, policy="", actions=(), refusals=(), transitions=(), summary="")
        journal.intend(seen(time.time()), memory, nothing, report)
        late = json.loads(tesched("status", "--config", str(config), "--json").output)["overdue"]
        assert [(one["job"], one["suspended"]) for one in late] == expected
    said = tesched("status", "--config", str(config)).output
    assert "ALARM    job 1 made way (order 1) and is suspended for 01:3" in said
    assert "suspended, for 01:3" in said


def _url(config: Path) -> str:
    return config.read_text().split('"')[1]


@pytest.mark.parametrize(
    "argv",
    [
        ("undo",),
        ("undo", "--dry-run"),
        ("ask", "--", "-n1", "--wrap=x"),
        ("learn", "--since=1d"),
        ("whatif", "--sacct"),
        ("advise", "--sacct"),
    ],
    ids=" ".join,
)
def test_a_slurm_conf_that_is_not_there_is_named_and_no_command_of_slurm_is_run(
    argv: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = configured_store(tmp_path)
    missing = tmp_path / "slurm.conf"
    path.write_text(f'{path.read_text()}\n[slurm]\nconf = "{missing}"\n')
    monkeypatch.setattr(Commands, "run", lambda *_, **__: pytest.fail("a command of Slurm was run"))
    said = tesched(argv[0], "--config", str(path), *argv[1:])
    assert (said.exit_code, f"slurm.conf: there is no {missing}; " in said.output) == (2, True), said.output


def test_a_slurm_conf_that_cannot_be_examined_is_named_with_the_reason(tmp_path: Path) -> None:
    path, _ = configured_store(tmp_path)
    (tmp_path / "file").touch()
    path.write_text(f'{path.read_text()}\n[slurm]\nconf = "{tmp_path}/file/slurm.conf"\n')
    said = tesched("undo", "--config", str(path))
    assert said.exit_code == 2
    assert f"slurm.conf: {tmp_path}/file/slurm.conf: Not a directory; " in said.output
