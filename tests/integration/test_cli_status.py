"""`tesched status` says how the daemon is: well, stopped, dead, another process; and what mode shadow would do."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import delete, insert, update
from tesched_cli.main import main
from tesched_core.model.resources import JobId
from tesched_daemon.loop import Loop
from tesched_daemon.settings import Mode
from tesched_db import deeds, migrate
from tesched_db.engine import open_store, writing
from tesched_db.journal import Identity, SqlJournal
from tesched_db.process import ticks_of
from tesched_db.tables import DaemonRow, JobMemoryRow
from tesched_testcluster.harness.empty_store import empty_store
from tesched_testcluster.harness.store_examples import DOWN

from tests.loop_parts import FULL_CLUSTER, TRIAL, VICTIM, Cluster, Notebook, loop_of

BEGAN = time.time()


def tesched(config: Path, *argv: str) -> Result:
    """Run `tesched argv… --config …` in this process."""
    return CliRunner(env={"COLUMNS": "160", "NO_COLOR": "1"}).invoke(main, [*argv, "--config", str(config)])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Give a configuration with an empty store."""
    path = tmp_path / "tesched.toml"
    path.write_text(f'[store]\nurl = "{_url(tmp_path)}"\n')
    empty_store(tmp_path / "store.sqlite")
    return path


def _url(folder: Path) -> str:
    return f"sqlite:///{folder}/store.sqlite"


def _turn(config: Path, mode: Mode = Mode.ENFORCE, *, ends: bool = False, times: int = 1, **identity: object) -> Loop:
    """Let a daemon poll once, or so many times."""
    engine = open_store(_url(config.parent))
    now = time.time()
    jobs = {JobId(1): replace(VICTIM, start_time=BEGAN - 100), JobId(2): replace(TRIAL, submit_time=BEGAN - 5)}
    loop = loop_of(Cluster(seen=replace(FULL_CLUSTER, taken_at=now, jobs=jobs)), Notebook(), mode)
    if mode is Mode.SHADOW:
        from tesched_slurm.commands_actuator import DryRunActuator  # noqa: PLC0415

        loop.actuator, loop.restorer = DryRunActuator(), loop.actuator
    loop.clock = time.time
    loop.journal = SqlJournal(engine, identity=replace(Identity.here(), **identity))  # type: ignore[arg-type]
    for _ in range(times):
        loop.turn()
    if ends:
        loop.journal.resign()
    engine.dispose()
    return loop


@pytest.mark.parametrize(
    ("change", "held", "said"),
    [
        ("UPDATE jobs SET nodes = ?", '["n1', "Unterminated string"),
        ("UPDATE daemon SET held = ?", "", "Expecting value"),
        ("UPDATE jobs SET state = ?", "ASLEEP", "'ASLEEP' is not a valid JobState"),
    ],
)
def test_a_record_that_is_damaged_is_an_error_of_one_line(config: Path, change: str, held: str, said: str) -> None:
    _turn(config)
    with sqlite3.connect(config.parent / "store.sqlite") as connection:
        connection.execute(change, (held,))
    shown = tesched(config, "status")
    assert shown.exit_code == 2, shown.output
    store = config.parent / "store.sqlite"
    begin = f"Error: cannot read the state store {store}: a record holds what tesched does not write: {said}"
    assert shown.stderr.startswith(begin)
    assert shown.stderr.count("\n") == 1


def _dead_pid() -> int:
    """Return the number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


class TestDaemon:
    """Each state has its line, its exit status and its word in JSON."""

    def _says(self, config: Path, status: int, state: str, *words: str) -> None:
        shown = tesched(config, "status")
        assert shown.exit_code == status, shown.output
        for word in words:
            assert word in shown.output
        data = tesched(config, "status", "--json")
        assert data.exit_code == status
        assert json.loads(data.output)["state"] == state

    def test_no_daemon_has_ever_run(self, config: Path) -> None:
        self._says(config, 3, "never", "NOT RUNNING: no daemon has ever run on this store")

    def test_living_daemon_is_well(self, config: Path) -> None:
        _turn(config)
        self._says(config, 0, "well", f"well: pid {os.getpid()} on")

    def test_it_cannot_see_slurm(self, config: Path) -> None:
        loop = _turn(config)
        loop.observer = Cluster(seen=DOWN)
        loop.journal = SqlJournal(open_store(_url(config.parent)))
        loop.turn()
        self._says(config, 1, "blind", "TROUBLE", "Slurm cannot be seen")

    def test_stopped_daemon_is_shown(self, config: Path) -> None:
        _turn(config, ends=True)
        self._says(config, 3, "stopped", "NOT RUNNING: stopped at ", f"it was pid {os.getpid()}")
        _turn(config)
        self._says(config, 0, "well")

    def test_dead_daemon_is_shown(self, config: Path) -> None:
        pid = _dead_pid()
        _turn(config, pid=pid, ticks=5)
        self._says(config, 3, "died", f"NOT RUNNING: pid {pid} on", "ended without a word")

    def test_its_number_is_another_process_by_now(self, config: Path) -> None:
        ticks = ticks_of(1)
        assert ticks is not None
        _turn(config, pid=1, ticks=ticks + 1)
        self._says(config, 3, "died", "ended without a word")

    def test_its_number_counted_in_another_boot(self, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        _turn(config, pid=1, ticks=ticks_of(1), place="here/another-boot/pid:[1]")
        self._says(config, 0, "well")
        later = time.time() + 60
        monkeypatch.setattr("tesched_cli.status.time.time", lambda: later)
        self._says(config, 3, "died", "ended without a word")

    def test_hanging_daemon_is_shown(self, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        _turn(config)
        later = time.time() + 60
        monkeypatch.setattr("tesched_cli.status.time.time", lambda: later)
        self._says(config, 1, "silent", "TROUBLE", "hangs")

    def test_undo_is_no_daemon(self, config: Path) -> None:
        _turn(config, ends=True)
        engine = open_store(_url(config.parent))
        loop = loop_of(Cluster(), Notebook())
        loop.journal = SqlJournal(engine, takes_over=True)
        loop.undo()
        engine.dispose()
        self._says(config, 3, "undone", "NOT RUNNING: `tesched undo` was the last to work on this store")

    def test_a_standby_that_takes_over_is_reported(self, config: Path) -> None:
        _turn(config, pid=11, host="login1", place="boot1")
        engine = open_store(_url(config.parent))
        standby = SqlJournal(engine, identity=replace(Identity.here(), pid=22, host="login2", place="boot2"))
        assert standby.lead().leader
        with writing(engine).begin() as connection:
            connection.execute(update(DaemonRow).values(stopped_at=time.time()))
        engine.dispose()
        self._says(config, 1, "stopped", "pid 22 on login2 stands by, and takes over")

    def test_undo_is_refused_while_it_runs_and_not_once_it_died(self, config: Path) -> None:
        _turn(config)
        said = tesched(config, "undo")
        assert said.exit_code == 2
        assert "the daemon runs" in said.output

    def test_undo_is_refused_while_another_one_on_another_host_holds_the_lease(self, config: Path) -> None:
        engine = open_store(_url(config.parent))
        loop = loop_of(Cluster(), Notebook())
        identity = replace(Identity.here(), pid=11, host="login1", place="boot1")
        loop.journal = SqlJournal(engine, identity=identity, takes_over=True)
        loop.undo()
        engine.dispose()
        said = tesched(config, "undo")
        assert said.exit_code == 2
        assert "process 11 on login1 leads" in said.output
        assert "try again" in said.output


def test_a_job_that_waits_for_another_try_is_shown_with_when(config: Path) -> None:
    _turn(config)
    engine = open_store(_url(config.parent))
    with writing(engine).begin() as connection:
        connection.execute(delete(JobMemoryRow))
        connection.execute(insert(JobMemoryRow).values(job_id=2, retry_at=time.time() + 290))
    engine.dispose()
    assert "job 2 of  waits: it is tried again in 04:4" in tesched(config, "status").output
    (retry,) = json.loads(tesched(config, "status", "--json").output)["retries"]
    assert retry["label"] == "2"


class TestShadow:
    """Nothing was done, and nothing sounds as if it had been."""

    @pytest.fixture
    def shadow(self, config: Path) -> Path:
        """Give a store in which a daemon in mode shadow has decided once."""
        _turn(config, Mode.SHADOW)
        return config

    @pytest.mark.parametrize(
        ("argv", "words"),
        [
            (["status"], "would have (mode shadow, nothing was done): resources for job 2 on n1 from 1"),
            (["status"], "in mode shadow: 1 order(s) would have been given"),
            (
                ["explain", "2"],
                "resources would have been freed for it on n1 (mode shadow: recorded, nothing was done)",
            ),
            (["explain", "2"], "job 1 would have been preempted"),
            (["explain", "1"], "it would have been preempted for job 2"),
            (["orders"], "would have been given (mode shadow: recorded, nothing was done)"),
        ],
    )
    def test_it_says_would_have(self, shadow: Path, argv: list[str], words: str) -> None:
        said = " ".join(tesched(shadow, *argv).output.split())
        assert words in said
        for lie in ("resources were freed for it", "was preempted", "made way", "1 order(s) ended", "in vain"):
            assert lie not in said

    def test_jobs_counts_no_preemption(self, shadow: Path) -> None:
        data = json.loads(tesched(shadow, "jobs", "--json").output)["jobs"]
        assert [job["preemptions"] for job in data] == [0, 0]

    def test_the_next_poll_says_that_the_job_is_tried_again(self, shadow: Path) -> None:
        _turn(shadow, Mode.SHADOW, times=2)
        said = " ".join(tesched(shadow, "explain", "2").output.split())
        assert "its order was recorded in mode shadow" in said
        assert "in vain" not in said
        shown = " ".join(tesched(shadow, "status").output.split())
        assert "no trial-and-error job waits" not in shown
        assert "because trial-and-error job 2 is to wait" in shown


class TestLeaving:
    """Mode enforce is left: status says so, and that changes are really put back."""

    @pytest.fixture
    def shadow(self, config: Path) -> Path:
        """Give a store in which a daemon of mode shadow goes on from one of mode enforce."""
        _turn(config)
        _turn(config, Mode.SHADOW)
        return config

    def test_status_says_what_is_put_back_and_by_what(self, shadow: Path) -> None:
        shown = tesched(shadow, "status")
        assert shown.exit_code == 0, "the daemon does its work"
        said = " ".join(shown.output.split())
        assert "LEAVING what mode enforce has changed is put back first: 3 change(s) and order(s) are left" in said
        assert "the daemon puts them back" in said
        assert "undo: 0 change(s) to put back" in said
        assert "would have" not in said
        as_json = json.loads(tesched(shadow, "status", "--json").output)
        assert as_json["daemon"]["leaving"].startswith("what mode enforce has changed is put back first")

    def test_status_of_a_daemon_that_has_stopped_says_nothing_of_it(self, config: Path) -> None:
        _turn(config)
        _turn(config, Mode.SHADOW, ends=True)
        assert "LEAVING" not in tesched(config, "status").output
        page = config.parent / "status.html"
        assert tesched(config, "status", "--html", str(page)).exit_code == 3
        assert "is put back first" not in page.read_text()
        as_json = json.loads(tesched(config, "status", "--json").output)
        assert as_json["daemon"]["leaving"] == ""

    def test_the_order_is_withdrawn_and_was_given(self, shadow: Path) -> None:
        for argv in (["orders"], ["explain", "2"]):
            said = " ".join(tesched(shadow, *argv).output.split())
            assert "withdrawn" in said
            assert "nothing was done" not in said

    def test_mode_enforce_leaves_nothing(self, config: Path) -> None:
        _turn(config)
        assert "LEAVING" not in tesched(config, "status").output


class TestAudit:
    """The user of a deed is the one that the kernel names."""

    def test_the_environment_says_nothing(self, config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
            monkeypatch.setenv(name, "director")
        assert "director" not in tesched(config, "pause", "--reason", "upgrade").output
        tesched(config, "unpause")
        shown = tesched(config, "status").output
        assert "director" not in shown
        assert f"{deeds.caller()}: pause: upgrade" in shown
        assert f"{deeds.caller()}: unpause" in shown

    def test_a_login_is_shown_beside_the_user(self, monkeypatch: pytest.MonkeyPatch) -> None:
        said = {"login": "65534\n"}
        monkeypatch.setattr(Path, "read_text", lambda *_, **__: said["login"])
        assert deeds.caller().endswith(" (logged in as nobody)")
        said["login"] = f"{2**32 - 1}\n"
        assert "logged in" not in deeds.caller()


def _newer(path: Path) -> None:
    migrate.upgrade(f"sqlite:///{path}")
    engine = open_store(f"sqlite:///{path}")
    with writing(engine).begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()


WORKS: dict[str, Callable[[Path], object]] = {
    "missing": lambda _: None,
    "a directory": lambda path: path.mkdir(),
    "empty": lambda path: path.write_bytes(b""),
    "a text": lambda path: path.write_text("no database, " * 100),
    "newer": _newer,
    "a dangling link": lambda path: path.symlink_to(path.with_name("nothing")),
}
COMMANDS = [
    ("status",),
    ("status", "--json"),
    ("jobs",),
    ("orders",),
    ("explain", "1"),
    ("pause",),
    ("unpause",),
    ("undo",),
    ("undo", "--dry-run"),
    ("whatif",),
    ("db", "current"),
    ("db", "prune"),
    ("throughputs", "list"),
]


@pytest.mark.parametrize("store", WORKS)
def test_a_store_that_cannot_be_used_is_an_error_and_no_file_is_made(tmp_path: Path, store: str) -> None:
    folder = tmp_path / "lib"
    folder.mkdir()
    WORKS[store](folder / "store.sqlite")
    before = sorted(path.name for path in folder.iterdir())
    config = tmp_path / "tesched.toml"
    config.write_text(f'[store]\nurl = "{_url(folder)}"\n')
    for argv in COMMANDS:
        said = tesched(config, *argv)
        if argv == ("db", "current") and store in {"empty", "newer"}:
            assert said.exit_code == 0  # which schema it has was the question
        else:
            assert (argv, said.exit_code) == (argv, 2), said.output
            assert "state store" in said.output
            assert said.exception is None or isinstance(said.exception, SystemExit)
        assert sorted(path.name for path in folder.iterdir()) == before, argv


@pytest.mark.parametrize("columns", ["40", "60", "80"])
@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("status", "QUEUE LONGEST WAIT SLOWDOWN 50/95/99% ENDED ORDER STATE WHERE VICTIM DECISION"),
        ("config show", "KEY VALUE FROM slurm.timeout_s default"),
    ],
)
def test_on_a_narrow_terminal_lines_fit_and_no_head_is_broken(
    config: Path, command: str, words: str, columns: str
) -> None:
    _turn(config)
    runner = CliRunner(env={"COLUMNS": columns, "NO_COLOR": "1"})
    shown = runner.invoke(main, [*command.split(), "--config", str(config)]).stdout
    assert set(words.split()) <= set(shown.split())
    assert max(map(len, shown.splitlines()[command == "config show" :])) <= int(columns)


@pytest.mark.parametrize("every", ["nan", "inf", "-inf", "1e300", "0.4"])
@pytest.mark.parametrize("command", [("status", "--watch"), ("top",)])
def test_an_interval_is_a_finite_number_of_seconds(config: Path, command: tuple[str, ...], every: str) -> None:
    answer = tesched(config, *command, "-i", every)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert "Invalid value for '-i' / '--iterate'" in answer.stderr


def test_watching_prints_no_json(config: Path) -> None:
    answer = tesched(config, "status", "--watch", "--json")
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert "--watch" in answer.stderr


def test_a_limit_is_one_that_the_store_can_count_to(config: Path) -> None:
    answer = tesched(config, "orders", "-n", "99999999999999999999")
    assert (answer.exit_code, "Invalid value for '-n' / '--limit'" in answer.stderr) == (2, True)
