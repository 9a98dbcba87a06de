"""A new lever in one file: the one of docs/howto/add-a-lever.md, with everything that goes over all levers."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest
from sqlalchemy import Engine
from tesched_core.model.actions import FailureKind, Status, sets
from tesched_core.model.field import Field, FieldValue
from tesched_core.model.resources import JobId
from tesched_core.orders.clock_jump import shift_times
from tesched_core.orders.levers import LEVERS
from tesched_core.orders.undo import changed_still, undo
from tesched_core.policy import LeverIntent, Policy, Proposal, View
from tesched_daemon.plausibility import doubt
from tesched_db.journal import SqlJournal
from tesched_db.queries import changed_jobs
from tesched_testcluster.harness.store_examples import Writer

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import Driver

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "add-a-lever.md"
RUNS, WAITS = 1, 2


@pytest.fixture(name="page", scope="module")
def fixture_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """Return the page's file as a module."""
    (text,) = re.findall(r"^`stand_back.py`:\n\n```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    path = tmp_path_factory.mktemp("page") / "stand_back.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("stand_back", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["stand_back"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules["stand_back"]


@dataclass(frozen=True, kw_only=True)
class Wants(Policy[None]):
    """Propose for BE jobs what a test says."""

    name: ClassVar[str] = "wants"
    serves_te: ClassVar[bool] = False
    intents: tuple[LeverIntent, ...] = ()

    def propose(self, view: View, state: None) -> Proposal[None]:
        return Proposal(intents=self.intents)


@pytest.fixture(name="drive")
def fixture_drive(page: ModuleType) -> Driver:
    """Return a cluster in which a best-effort job waits and is to stand back; its nice value is 7."""
    wants = Wants(intents=(page.StandBack(job_id=JobId(WAITS), why="its user has many"),))
    jobs = [running(RUNS, share("n1", 32)), waiting(WAITS, cpus=16, nice=7)]
    levers = (*LEVERS, page.StandBackRule())
    return Driver([node("n1")], jobs, best_effort=wants, run_times={WAITS: 60}, levers=levers)


def nice(actions: tuple[Any, ...]) -> list[tuple[FieldValue, FieldValue]]:
    """Return the nice values that are set, and those before."""
    return [(action.value, action.previous) for action in actions if sets(action, Field.NICE)]


def test_it_is_carried_out_once_and_put_back_when_it_is_not_wanted_any_more(drive: Driver) -> None:
    assert nice(drive.cycle(0)) == [(1000, 7)]
    drive.obeys(*drive.decision.actions)
    assert drive.cycle(2) == ()
    drive.best_effort = Wants()
    assert nice(drive.cycle(4)) == [(7, 1000)]
    assert nice(drive.cycle(6)) == [(7, 1000)], "it is believed to be back when that is seen"
    drive.obeys(*drive.decision.actions)
    drive.cycle(8)
    assert drive.memory.changes == {}


def test_undo_puts_it_back(drive: Driver) -> None:
    drive.obeys(*drive.cycle(0))
    drive.memory, decision = undo(drive.memory, drive.snapshot(2), drive.limits, drive.levers)
    assert nice(decision.actions) == [(7, 1000)]
    assert changed_still(drive.memory, drive.snapshot(2), drive.levers) == 1
    drive.obeys(*decision.actions)
    drive.memory, _ = undo(drive.memory, drive.snapshot(4), drive.limits, drive.levers)
    assert changed_still(drive.memory, drive.snapshot(4), drive.levers) == 0


@pytest.mark.parametrize(("status", "left"), [(Status.SKIPPED, 0), (Status.WOULD, 0), (Status.FAILED, 1)])
def test_what_did_not_reach_slurm_is_not_put_back(drive: Driver, status: Status, left: int) -> None:
    drive.says(status, *drive.cycle(0), kind=FailureKind.UNREACHABLE)
    assert changed_still(drive.memory, drive.snapshot(0), drive.levers) == left


def test_what_others_have_set_since_is_theirs(drive: Driver) -> None:
    drive.obeys(*drive.cycle(0))
    drive.change(WAITS, nice=50_000)
    drive.best_effort = Wants()
    assert (drive.cycle(2), drive.memory.changes) == ((), {})


def test_clock_jumps_the_store_status_and_doubts_know_it_without_a_word(drive: Driver, store: Engine) -> None:
    drive.cycle(0)
    later = shift_times(drive.memory, 60.0)
    assert later.changes_of("stand_back")[JobId(WAITS)].at == NOW + 60
    Writer(store).write(drive.snapshot(0), memory=later)
    assert SqlJournal(store).load().changes == later.changes
    assert changed_jobs(store) == {"stand_back": frozenset({WAITS})}
    assert doubt(replace(drive.snapshot(2), jobs={}), None, drive.memory, 0.0), "its job would be forgotten"
