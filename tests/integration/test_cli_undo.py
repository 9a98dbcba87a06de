"""`tesched undo` says what it has put back, though the store refuses a turn of it, or Slurm cannot be seen."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest
from click.testing import CliRunner, Result
from tesched_cli.main import main
from tesched_core.model.actions import Outcome, Reason, ReasonCode, SetField, Status
from tesched_core.model.field import Field
from tesched_core.model.journal_error import JournalError, LedByAnotherError
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import undo as undone
from tesched_daemon.loop import CycleResult, Loop
from tesched_daemon.undo import put_all_back
from tesched_db import deeds
from tesched_db.engine import open_store
from tesched_testcluster.harness.empty_store import empty_store
from tesched_testcluster.harness.store_examples import configured_store

from tests.loop_parts import Notebook
from tests.scenarios.driver import BE, one_node

FULL = JournalError("disk full")
REASON = Reason(code=ReasonCode.ORDER_ENDED, text="because")
BACK = SetField(job_id=JobId(2), reason=REASON, field=Field.NICE, value=0, previous=-1001)
REFUSED = CycleResult(
    summary="",
    next_in_s=0.0,
    outcomes=(Outcome(action=BACK, status=Status.SENT, at=1.0),),
    trouble="disk full",
    refused=FULL,
)


def test_changes_of_a_turn_that_the_store_refuses_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/store.sqlite"
    (tmp_path / "tesched.toml").write_text(f'[store]\nurl = "{url}"\n')
    empty_store(tmp_path / "store.sqlite")

    def turns(*_: object, **__: object) -> Iterator[CycleResult]:
        yield REFUSED
        yield CycleResult(summary="", next_in_s=0.0, settled=True)

    monkeypatch.setattr("tesched_cli.undo.put_all_back", turns)
    said = CliRunner().invoke(main, ["undo", "--json", "--config", str(tmp_path / "tesched.toml")])
    assert said.exit_code == 0, said.output
    shown = json.loads(said.stdout)
    assert (shown["settled"], [one["outcome"] for one in shown["changes"]]) == (True, ["put back"])
    engine = open_store(url, read_only=True)
    with engine.connect() as connection:
        (deed,) = deeds.recent(connection, 2)
    engine.dispose()
    assert deed.what == "undo: 1 change(s), all is put back"


UNSEEN = CycleResult(summary="", next_in_s=0.0, trouble="Slurm cannot be seen (unreachable): timed out")
SEEN = CycleResult(summary="", next_in_s=0.0, outcomes=REFUSED.outcomes, left=3)
PUT_BACK = CycleResult(summary="", next_in_s=0.0, settled=True)
LED = LedByAnotherError("process 11 on login1 leads")


class Turns(Loop):
    """A loop whose turns end so; the last one again and again."""

    def __init__(self, *turns: CycleResult | JournalError) -> None:
        """Make no parts but the journal: none is used."""
        self.turns = list(turns)
        self.notebook = self.journal = Notebook()

    def undo(self, *, unseen_s: float = 0.0) -> CycleResult:
        found = self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]
        if isinstance(found, JournalError):
            self.notebook.fails = {"load"}
            raise found
        return found


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a configuration with an empty store; pauses between two turns take no time."""
    monkeypatch.setattr("tesched_cli.undo.put_all_back", partial(put_all_back, sleep=lambda _: None))
    path, _ = configured_store(tmp_path)
    return path


def run(
    config: Path, monkeypatch: pytest.MonkeyPatch, *turns: CycleResult | JournalError, json: bool = False
) -> Result:
    monkeypatch.setattr("tesched_cli.undo.opened_loop", lambda *_args, **_more: nullcontext(Turns(*turns)))
    return CliRunner().invoke(main, ["undo", *(["--json"] if json else []), "--config", str(config)])


def test_it_waits_where_slurm_cannot_be_seen_for_a_moment(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for turns in ((SEEN, UNSEEN, PUT_BACK), (UNSEEN, UNSEEN, SEEN, PUT_BACK)):
        said = run(config, monkeypatch, *turns)
        assert said.exit_code == 0, said.output
        assert said.stderr.count("Slurm cannot be seen (unreachable): timed out") == 1
        assert "put back" in said.stdout
        assert "nothing is left that tesched has changed" in said.stdout


@pytest.mark.parametrize(("last", "why"), [(UNSEEN, UNSEEN.trouble), (FULL, "disk full"), (LED, str(LED))])
def test_it_says_what_was_done_and_what_is_left_where_trouble_ends_it(
    config: Path, monkeypatch: pytest.MonkeyPatch, last: CycleResult | JournalError, why: str
) -> None:
    said = run(config, monkeypatch, SEEN, last, json=True)
    assert said.exit_code == 1, said.output
    shown = json.loads(said.stdout)
    assert [(one["job_id"], one["outcome"]) for one in shown["changes"]] == [(2, "put back")]
    assert (shown["settled"], shown["left"], shown["trouble"]) == (False, 3, why)
    said = run(config, monkeypatch, SEEN, last)
    assert said.exit_code == 1
    assert f"3 change(s) and order(s) are left; `tesched undo` tries it again: {why}" in " ".join(said.stdout.split())


def test_a_victim_that_may_leave_yet_is_named_and_what_becomes_of_it(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    memory, _ = undone(drive.memory, drive.snapshot(1), drive.limits)
    monkeypatch.setattr(Notebook, "load", lambda _: memory)
    said = run(config, monkeypatch, SEEN, json=True)
    assert (said.exit_code, json.loads(said.stdout)["leaving"]) == (1, [BE])
    said = run(config, monkeypatch, SEEN)
    assert f"job {BE} has had its notice, and may leave yet: it is put back in the queue if it does" in " ".join(
        said.stdout.split()
    )


@pytest.mark.parametrize("last", [UNSEEN, FULL])
def test_it_is_an_error_where_nothing_could_be_done(
    config: Path, monkeypatch: pytest.MonkeyPatch, last: CycleResult | JournalError
) -> None:
    said = run(config, monkeypatch, last)
    assert (said.exit_code, said.stdout) == (2, "")
    assert (UNSEEN.trouble if last is UNSEEN else "disk full") in said.stderr


def test_what_was_done_is_said_though_it_cannot_be_recorded(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: Path) -> NoReturn:
        raise FULL

    monkeypatch.setattr("tesched_cli.undo.writable_store", refused)
    said = run(config, monkeypatch, SEEN, PUT_BACK, json=True)
    assert said.exit_code == 0, said.output
    shown = json.loads(said.stdout)
    assert (shown["settled"], len(shown["changes"]), shown["trouble"]) == (True, 1, "disk full")
