"""The site's command that notifies users: what it is given, in which bounds, and how its failures are counted alone."""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tesched_core.model.actions import (
    Action,
    Failure,
    FailureKind,
    Outcome,
    Reason,
    ReasonCode,
    Record,
    Status,
    TellUser,
)
from tesched_core.model.resources import JobId
from tesched_core.ports import Barred, never_barred
from tesched_daemon import tell_command
from tesched_daemon.config import parse
from tesched_daemon.config_errors import ConfigError
from tesched_daemon.settings import TellConfig
from tesched_daemon.tell_command import MOST_WAITING, Teller, TellingActuator
from tesched_slurm.bounded_process import ProgramResult, run_bounded
from tesched_slurm.commands_actuator import DryRunActuator
from tesched_testcluster.patience import HANG_S, wait_for

HOSTILE = 'x" --bcc=all\n;$(touch pwned)`id`'


def preempted(job: int = 1, user: str = "ada", **changes: object) -> TellUser:
    """Return the notification of this job."""
    told = {
        "job_id": JobId(job),
        "reason": Reason(code=ReasonCode.TELLS_USER, text="its user is told"),
        "label": str(job),
        "name": HOSTILE,
        "user": user,
        "at": 1000.0,
        "cause": "a trial-and-error job",
        "departure": "requeued",
        "times": 1,
        "most": 2,
        "lost": False,
        "record": Record.NONE,
    }
    return TellUser(**{**told, **changes})  # type: ignore[arg-type]


def script(folder: Path, text: str) -> tuple[str, ...]:
    """Return the command that runs this Python text."""
    file = folder / "tell.py"
    file.write_text(f"import json, os, sys, time\n{text}\n")
    return (sys.executable, str(file), "--fixed")


def telling(*command: str, **values: object) -> TellConfig:
    """Return a configuration with a time-out that no command reaches but one that hangs."""
    return TellConfig(**{"command": command, "timeout_s": HANG_S, **values})  # type: ignore[arg-type]


def counts(teller: Teller) -> tuple[object, object, object]:
    """Return sent, failed, held off."""
    found = teller.counts()
    return found["told"], found["failed"], found["held_off"]


def test_the_facts_come_on_standard_input_and_the_arguments_are_the_sites_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "secret")
    out = tmp_path / "out"
    text = f"json.dump([sys.argv[1:], json.load(sys.stdin), sorted(os.environ)], open({str(out)!r}, 'w'))"
    teller = Teller(telling(*script(tmp_path, text)))
    teller.tell(preempted(7))
    wait_for(lambda: counts(teller) == (1, 0, 0))
    teller.close()
    arguments, facts, variables = json.loads(out.read_text())
    assert arguments == ["--fixed"]
    assert facts == {
        "version": 1,
        "job_id": 7,
        "job": "7",
        "name": HOSTILE,
        "user": "ada",
        "preempted_at": 1000.0,
        "for": "a trial-and-error job",
        "left": "requeued",
        "lost": False,
        "times": 1,
        "most": 2,
    }
    assert not [name for name in variables if "ada" in name]
    assert "PATH" in variables
    assert "PGPASSWORD" not in variables


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("sys.stderr.write('first\\nno such user\\n'); sys.exit(67)", "exit status 67: no such user"),
        ("os.kill(os.getpid(), 9)", "signal 9"),
        ("sys.stdin.close(); sys.exit(1)", "exit status 1"),
        ("while True: sys.stderr.write('x' * 65536)", "it said more than 1 MiB of complaints"),
    ],
)
def test_a_failure_is_counted_with_its_last_words(tmp_path: Path, text: str, why: str) -> None:
    teller = Teller(telling(*script(tmp_path, text)))
    teller.tell(preempted())
    wait_for(lambda: counts(teller) == (0, 1, 0))
    assert teller.counts()["last_failure"] == why
    teller.close()


def test_an_error_of_our_own_is_counted_and_the_next_user_is_notified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = tell_command.facts
    monkeypatch.setattr(tell_command, "facts", lambda action: 1 / 0 if action.job_id == 1 else facts(action))
    teller = Teller(telling(*script(tmp_path, "")))
    teller.tell(preempted(1))
    teller.tell(preempted(2, user="bob"))
    wait_for(lambda: counts(teller) == (1, 1, 0))
    assert teller.counts()["last_failure"] == "an error of tesched's own, ZeroDivisionError('division by zero')"
    teller.close()


def test_a_command_that_is_not_there_is_counted_too(tmp_path: Path) -> None:
    teller = Teller(TellConfig(command=(str(tmp_path / "none"),)))
    teller.tell(preempted())
    wait_for(lambda: counts(teller) == (0, 1, 0))
    assert teller.counts()["last_failure"] == "No such file or directory"
    teller.close()


def test_a_command_that_hangs_is_ended_with_its_children_and_the_next_user_is_notified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = tmp_path / "hangs"
    # The child holds standard error open.
    text = (
        "told = json.load(sys.stdin)\n"
        f"if told['job_id'] == 1: os.fork() or open({str(hangs)!r}, 'w').close(); time.sleep(3600)"
    )
    set_on = [0.0]

    def stopwatch() -> float:
        """Let the time-out pass as soon as the command hangs with its child, not before."""
        if hangs.exists():
            hangs.unlink()
            set_on[0] += HANG_S
        return time.monotonic() + set_on[0]

    given: list[float] = []

    def bounded(*args: Any, timeout_s: float, **options: Any) -> ProgramResult:
        given.append(timeout_s)
        return run_bounded(*args, timeout_s=timeout_s, stopwatch=stopwatch, **options)

    monkeypatch.setattr(tell_command, "run_bounded", bounded)
    teller = Teller(telling(*script(tmp_path, text)))
    teller.tell(preempted(1))
    teller.tell(preempted(2))
    wait_for(lambda: counts(teller) == (1, 1, 0))
    assert teller.counts()["last_failure"] == "it took more than 180 s"
    assert given == [HANG_S, HANG_S]
    teller.close()


def test_one_user_is_notified_so_often_and_others_are_not_held_off_by_that() -> None:
    now = [0.0]
    config = telling("/bin/true", max_per_user_hour=3)
    teller = Teller(config, stopwatch=lambda: now[0])
    for job in range(5):
        teller.tell(preempted(job))
    teller.tell(preempted(9, user="bob"))
    wait_for(lambda: counts(teller) == (4, 0, 2))
    now[0] = 3600 / 3  # a third of an hour: one more
    teller.tell(preempted(10))
    teller.tell(preempted(11))
    wait_for(lambda: counts(teller) == (5, 0, 3))
    teller.close()


def test_what_waits_is_bounded(tmp_path: Path) -> None:
    go = tmp_path / "go"
    text = f"while not os.path.exists({str(go)!r}): time.sleep(0.01)"
    teller = Teller(telling(*script(tmp_path, text), max_per_user_hour=10_000))
    for job in range(MOST_WAITING + 10):
        teller.tell(preempted(job))
    # One may have been taken from the queue already.
    assert counts(teller)[2] in {9, 10}
    teller.configure(TellConfig())  # what waits then has no command to be sent by
    go.touch()
    teller.close()


def test_without_a_command_nothing_is_run_and_nothing_counted() -> None:
    teller = Teller(TellConfig())
    before = threading.active_count()
    teller.tell(preempted())
    assert threading.active_count() == before
    assert counts(teller) == (0, 0, 0)
    teller.close()


class Refusing:
    """An actuator that may not write notes."""

    def __init__(self) -> None:
        """Begin with nothing requested."""
        self.asked: list[Action] = []

    def act(self, action: Action, barred: Barred = never_barred) -> Outcome:
        """Refuse."""
        self.asked.append(action)
        failure = Failure(kind=FailureKind.DENIED, message="Access/permission denied")
        return Outcome(action=action, status=Status.FAILED, at=0.0, failure=failure)


def test_the_command_notifies_also_where_the_note_is_refused() -> None:
    slurm, teller = Refusing(), Teller(telling("/bin/true"))
    outcome = TellingActuator(actuator=slurm, teller=teller).act(preempted(record=Record.ADMIN_COMMENT))
    assert outcome.status is Status.FAILED
    wait_for(lambda: counts(teller) == (1, 0, 0))
    assert TellingActuator(actuator=slurm, teller=teller).act(preempted()).status is Status.SENT
    assert len(slurm.asked) == 1
    teller.close()


def test_mode_shadows_actuator_notifies_no_user() -> None:
    assert DryRunActuator().act(preempted()).status is Status.WOULD


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('command = "mail"', "tell.command"),
        ('command = ["mail"]', "absolute path"),
        ('record = "comment"', "tell.record"),
        ("timeout_s = 0", "timeout_s"),
        ("max_per_user_hour = 0", "max_per_user_hour"),
        ("often = 3", "often"),
    ],
)
def test_a_bad_configuration_is_refused_with_the_key(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse(f"[tell]\n{text}\n", "a file")


def test_by_default_a_note_is_written_where_no_other_program_has_written() -> None:
    config = parse("", "a file").tell
    assert (config.record, config.command) == (Record.AUTO, ())


def test_the_page_names_each_variable_that_the_command_has() -> None:
    page = (Path(__file__).parents[3] / "docs" / "howto" / "preempted.md").read_text()
    _, _, said = page.partition("Of the daemon's environment it has ")
    assert set(re.findall("`(.*?)`", said.partition(" alone")[0])) == tell_command._ENVIRONMENT
