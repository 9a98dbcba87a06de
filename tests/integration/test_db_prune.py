"""Pruning of the store: what is forgotten and what is not."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
from sqlalchemy import Engine, event
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import RefusalCode
from tesched_core.model.memory import Memory
from tesched_core.model.order import Departure, Ending, OrderState, VictimState
from tesched_db import finished_runs, paced_writes
from tesched_db import queries as read
from tesched_db.errors import StoreError
from tesched_db.journal import SqlJournal
from tesched_db.retention import Pruned, prune
from tesched_db.tables import ActionRow, CycleRow, HistoryRow, JobRow, OrderRow, RefusalRow, TransitionRow, VictimRow
from tesched_db.views import JobFilter
from tesched_predict.history import FinishedRun
from tesched_testcluster.harness.store_examples import (
    Writer,
    job,
    moved,
    notice,
    order,
    refusal,
    remembering,
    rows,
    victim,
)

from tests.integration.query_plans import query_plans

ENDED = OrderState.ENDED


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give the pauses between two writes, which are not waited for."""
    found: list[float] = []
    monkeypatch.setattr(paced_writes, "sleep", found.append)
    return found


def written(store: Engine) -> Writer:
    """Write one order that has ended and one that has not, from 200 on, and then nothing new until 10,000."""
    writer = Writer(store)
    memory = remembering(
        order(
            1, 7, victim(3, VictimState.LEFT, left_at=210.0), state=ENDED, ending=Ending.STARTED_HERE, ended_at=210.0
        ),
        order(2, 8, victim(4)),
    )
    writer.look(
        200.0,
        *(job(number) for number in range(3, 10)),
        te=[7, 8],
        memory=memory,
        actions=[notice(4, 8, 2)],
        transitions=[moved(1, 200.0, "", "open"), moved(2, 200.0, "", "open")],
        refusals=[refusal(5, 8, RefusalCode.OUTSCORED), refusal(6, 8, RefusalCode.OUTSCORED)],
    )
    memory = remembering(order(2, 8, victim(4)))
    writer.look(202.0, job(9), memory=memory, actions=[notice(3, 7, 1)], refusals=[refusal(9, 9, RefusalCode.HELD)])
    writer.look(204.0, job(9), refusals=[refusal(9, 9, RefusalCode.HELD)])
    writer.look(10_000.0, job(9), refusals=[refusal(9, 9, RefusalCode.HELD)])
    return writer


def test_what_has_ended_is_forgotten_and_what_lives_stays(store: Engine) -> None:
    writer = written(store)
    before = SqlJournal(store).load()
    pruned = prune(store, 1000.0, now=10_000.0)
    # Jobs 4 and 8 are those of the open order; 9 is still there. The cycle of 200 mattered for that order.
    assert pruned == Pruned(orders=1, cycles=2, refusals=2, jobs=4)
    assert [view.job_id for view in read.jobs(store, JobFilter(with_gone=True))] == [4, 8, 9]
    assert (rows(store, OrderRow), rows(store, VictimRow), rows(store, TransitionRow)) == (1, 1, 1)
    assert (rows(store, CycleRow), rows(store, ActionRow)) == (2, 1)
    assert (rows(store, HistoryRow), rows(store, RefusalRow)) == (3, 1)
    assert SqlJournal(store).load() == before
    story = read.job_story(store, "4")
    assert story is not None
    assert [view.order.order_id for view in story.orders_as_victim] == [2]
    # The daemon that was running all the while goes on.
    writer.look(10_002.0, job(9), refusals=[refusal(9, 9, RefusalCode.HELD)])
    assert rows(store, CycleRow) == 2


def test_nothing_recent_is_forgotten(store: Engine) -> None:
    written(store)
    assert prune(store, 9999.0, now=10_000.0) == Pruned()


def test_pruning_in_parts_removes_as_much(store: Engine) -> None:
    writer = Writer(store)
    writer.look(100.0, *(job(number) for number in range(1, 26)))
    writer.look(102.0)
    assert prune(store, 10.0, now=1000.0, bite=10).jobs == 25
    assert rows(store, JobRow) == 0


def test_an_order_is_not_forgotten_while_the_memory_holds_it(store: Engine) -> None:
    writer = Writer(store)
    memory = remembering(order(1, 7, state=ENDED, ending=Ending.EXPIRED, ended_at=210.0))
    writer.look(210.0, job(7), memory=memory)
    prune(store, 10.0, now=10_000.0)
    assert SqlJournal(store).load().orders == memory.orders
    writer.look(212.0, job(7), memory=Memory())
    assert prune(store, 10.0, now=10_000.0).orders == 1


def test_the_last_cycle_is_never_forgotten_since_the_next_may_join_it(store: Engine) -> None:
    writer = Writer(store)
    writer.look(100.0, job(3))
    assert prune(store, 10.0, now=1000.0).cycles == 0
    writer.look(1001.0, job(3))
    (cycle,) = read.status(store).cycles
    assert (cycle.first_at, cycle.count) == (100.0, 2)


def test_an_empty_store_can_be_pruned(store: Engine) -> None:
    assert prune(store, 0.0) == Pruned()


def test_a_job_under_a_used_again_id_survives_its_namesake(store: Engine) -> None:
    writer = Writer(store)
    writer.look(100.0, job(3, JobState.COMPLETED, submit_time=90.0, end_time=99.0))
    writer.look(9_000.0, job(3, submit_time=8_999.0))
    assert prune(store, 1000.0, now=10_000.0).jobs == 1
    (seen,) = read.jobs(store)
    assert seen.first_submit_time == 8_999.0


def test_a_store_that_may_only_be_read_is_not_pruned(url: str, store: Engine, opened: Callable[..., Engine]) -> None:
    written(store)
    with pytest.raises(StoreError, match="cannot prune the state store"):
        prune(opened(url, read_only=True), 1000.0, now=10_000.0)


def test_an_order_stays_while_slurm_knows_its_victim_which_it_has_delayed(store: Engine) -> None:
    writer = Writer(store)
    paid = victim(3, VictimState.BACK, noticed_at=200.0, left_at=210.0, departure=Departure.REQUEUED, back_at=300.0)
    memory = remembering(order(1, 7, paid, state=ENDED, ending=Ending.STARTED_HERE, ended_at=300.0))
    writer.look(300.0, job(3), job(7), te=[7], memory=memory)
    writer.look(302.0, job(3), memory=Memory())
    assert prune(store, 10.0, now=10_000.0).orders == 0
    writer.look(304.0, memory=Memory())
    assert prune(store, 10.0, now=10_000.0).orders == 1


def jobs_of_long_ago(store: Engine) -> None:
    """Write 25 jobs that have ended."""
    writer = Writer(store)
    writer.look(100.0, *(job(number) for number in range(1, 26)))
    writer.look(102.0)


def test_another_process_gets_sqlites_lock_between_any_two_bites(
    url: str, store: Engine, opened: Callable[..., Engine], pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs_of_long_ago(store)
    # Who waits for SQLite's lock tries again each 100 ms at most; this one does not even wait.
    other, written, wrote_in = opened(url, lock_wait_s=0.0), [0], list[int]()

    @event.listens_for(store, "commit")
    def note(_connection: object) -> None:
        written[0] += 1

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        wrote_in.append(written[0])
        Writer(other).look(900.0 + len(pauses), job(99))

    monkeypatch.setattr(paced_writes, "sleep", pause)
    assert prune(store, 10.0, now=1000.0, bite=10).jobs == 25
    if store.dialect.name == "sqlite":
        assert wrote_in == list(range(1, written[0]))
        assert min(pauses) > 0.1
    else:
        # PostgreSQL has a queue for its locks.
        assert pauses == []


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_a_pause_is_as_long_as_the_bite_before_it(
    store: Engine, pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs_of_long_ago(store)
    # The first bite takes a second, the second one two.
    readings = (at for bite in count(1) for at in (100.0 * bite, 101.0 * bite))
    monkeypatch.setattr(paced_writes, "perf_counter", lambda: next(readings))
    assert prune(store, 10.0, now=1000.0, bite=10).jobs == 25
    assert pauses[:3] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_bites_walk_the_past_alone_and_not_all_that_is_kept(store: Engine) -> None:
    written(store)
    with query_plans(store) as plans:
        assert prune(store, 1000.0, now=10_000.0, bite=1) == Pruned(orders=1, cycles=2, refusals=2, jobs=4)
    for table, index in {
        "orders": "ended_at",
        "cycles": "last_at",
        "refusals": "last_seen",
        "jobs": "last_seen",
        "throughputs": "at",
        "finished_runs": "end_s",
    }.items():
        assert not [step for step in plans if step.startswith(f"SCAN {table}")]
        assert [step for step in plans if step.startswith(f"SEARCH {table} ") and f"ix_{table}_{index} (" in step]
    # In the order of its key a table would be read up to its end.
    assert not [step for step in plans if "(rowid<?)" in step or "(rowid>?)" in step]


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_what_is_learned_is_written_in_parts_with_pauses_between_them(
    url: str, store: Engine, opened: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    other, seen = opened(url, lock_wait_s=0.0), list[int]()

    def pause(_seconds: float) -> None:
        seen.append(finished_runs.count(other))
        Writer(other).look(100.0 + len(seen), job(99))

    monkeypatch.setattr(paced_writes, "sleep", pause)
    runs = [
        finished_runs.LearnedRun(
            run=FinishedRun(user="ada", run_s=1.0, end_s=float(number)), name=str(number), cluster="c", source="sacct"
        )
        for number in range(3)
    ]
    assert finished_runs.add(store, [[one] for one in runs]) == 3
    assert seen == [1, 2, 3]
