"""`tesched undo` says what it has put back, though the store refuses a turn of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tesched_cli.main import main
from tesched_core.model.actions import Outcome, Reason, ReasonCode, SetField, Status
from tesched_core.model.field import Field
from tesched_core.model.journal_error import JournalError
from tesched_core.model.resources import JobId
from tesched_daemon.loop import CycleResult
from tesched_db import deeds
from tesched_db.engine import open_store
from tesched_testcluster.harness.empty_store import empty_store

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
