"""What past victims took to leave is read back from the orders: by a new daemon, and by `tesched explain`."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Engine
from tesched_core.model.order import Departure, Ending, OrderState, Victim, VictimState
from tesched_db import leave_times
from tesched_db import queries as read
from tesched_db.journal import SqlJournal
from tesched_testcluster.harness.store_examples import Writer, job, order, remembering, victim


def left(job_id: int, asked_at: float, left_at: float, **more: Any) -> Victim:
    """Return a victim that was requeued without a signal."""
    values = {"notice_signal": "", "departure": Departure.REQUEUED, **more}
    return victim(job_id, VictimState.BACK, noticed_at=asked_at, left_at=left_at, back_at=300.0, **values)


def test_a_new_daemon_knows_how_long_victims_took_to_leave_each_node(store: Engine) -> None:
    """However they left, from when they were seen to be ending."""
    writer = Writer(store)
    ended: dict[str, Any] = {"state": OrderState.ENDED, "ending": Ending.STARTED_HERE, "ended_at": 301.0}
    memory = remembering(
        order(1, 7, left(3, 230.0, 290.0, ending_since=240.0, nodes=("n1", "n2"), notice_signal="USR1"), **ended),
        order(2, 7, left(4, 200.0, 203.0, ending_since=200.0, nodes=("n1",), departure=Departure.FINISHED), **ended),
        # These teach nothing: one was not seen to be ending, one is still there, one took longer than it was awaited.
        order(3, 7, left(4, 200.0, 210.0), **ended),
        order(4, 7, victim(3, VictimState.REQUEUING, noticed_at=290.0, ending_since=290.0), created_at=290.0),
        order(5, 7, left(4, 1.0, 299.0, ending_since=-5000.0, nodes=("n1",)), **ended),
    )
    writer.look(310.0, job(3), job(4), job(7), te=[7], memory=memory)
    known = {"n1": (3.0, 50.0), "n2": (50.0,)}
    assert SqlJournal(store).load().ending_times == known
    assert read.memory(store).ending_times == known


def test_a_new_daemon_knows_what_victims_took_to_leave(store: Engine) -> None:
    writer = Writer(store)
    ended: dict[str, Any] = {"state": OrderState.ENDED, "ending": Ending.STARTED_HERE, "ended_at": 301.0}
    memory = remembering(
        # The later one first: the order of the times is that in which they were seen.
        order(1, 7, left(3, 230.0, 232.5), **ended),
        order(2, 7, left(4, 200.0, 203.0), **ended),
        order(3, 7, left(5, 200.0, 231.0), **ended),
        # These teach nothing: one had a signal, one put itself back, one is still there.
        order(4, 7, left(3, 200.0, 210.0, notice_signal="USR1"), **ended),
        order(5, 7, left(4, 200.0, 210.0, departure=Departure.REQUEUED_ITSELF), **ended),
        order(6, 7, left(4, 200.0, 210.0, by_suspending=True), **ended),
        order(7, 7, victim(3, VictimState.REQUEUING, notice_signal="", noticed_at=290.0), created_at=290.0),
    )
    jobs = [job(3, name="train"), job(4, name="train"), job(5, name="eval"), job(6, name="else"), job(7)]
    writer.look(310.0, *jobs, te=[7], memory=memory)
    known = {("ada", "train"): (3.0, 2.5), ("ada", "eval"): (31.0,)}
    assert SqlJournal(store).load().leave_times == known
    assert read.memory(store).leave_times == known
    for job_id, times in ((3, (3.0, 2.5)), (5, (31.0,)), (6, ())):
        story = read.job_story(store, str(job_id))
        assert story is not None
        assert story.leave_times == times


def test_a_daemon_that_starts_searches_the_latest_victims_alone(store: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where most victims have a notice, those without one may be far back."""
    writer = Writer(store)
    ended: dict[str, Any] = {"state": OrderState.ENDED, "ending": Ending.STARTED_HERE, "ended_at": 301.0}
    memory = remembering(
        order(1, 7, left(3, 200.0, 203.0, ending_since=200.0, nodes=("n1",)), **ended),
        order(2, 7, left(4, 210.0, 214.0, ending_since=210.0, nodes=("n2",)), **ended),
        order(3, 7, left(5, 220.0, 290.0, notice_signal="USR1"), **ended),
    )
    writer.look(310.0, job(3, name="train"), job(4, name="eval"), job(5), job(7), te=[7], memory=memory)
    monkeypatch.setattr(leave_times, "MOST_SEARCHED", 2)
    loaded = SqlJournal(store).load()
    assert loaded.leave_times == {("ada", "eval"): (4.0,)}
    assert loaded.ending_times == {"n2": (4.0,)}
