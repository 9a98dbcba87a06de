"""A lease that was written, or is read, by a clock that was ahead: none waits for hours, and no second one leads."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine, update
from tesched_cli.health import health
from tesched_cli.main import main
from tesched_cli.undo import outlast
from tesched_core.model.lead import Lead
from tesched_daemon.wiring import StartError
from tesched_db import lease_watch
from tesched_db import queries as read
from tesched_db.clock_skew import now_of
from tesched_db.engine import open_store, writing
from tesched_db.journal import Identity, SqlJournal
from tesched_db.lease import LeaseError, holder
from tesched_db.lease_watch import LEASE_S, LONGER_S
from tesched_db.liveness import DaemonState
from tesched_db.tables import DaemonRow, StandbyRow
from tesched_testcluster.harness.store_examples import configured_store

from tests.integration.test_lease import FIRST, HERE, SECOND, token, turn
from tests.loop_parts import Cluster, Notebook, loop_of

AHEAD_S = 6 * 3600.0
NEXT_S = 30.0
#: the longest that a lease with this announcement lasts
LONGEST_S = NEXT_S + LEASE_S + LONGER_S


class Steady:
    """A clock that only runs, as far as a test lets it."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> Steady:
    """Return the clock by which the journals that are made from here on watch the lease."""
    clock = Steady()
    monkeypatch.setattr(lease_watch, "steady", clock)
    return clock


def written_ahead(store: Engine, by_s: float, identity: Identity = FIRST) -> SqlJournal:
    """Have a leader write, and set the clock by which it wrote back by so many seconds."""
    journal = SqlJournal(store, identity=identity)
    turn(journal, time.time(), next_in_s=NEXT_S)
    set_back(store, by_s)
    return journal


def set_back(store: Engine, by_s: float) -> None:
    """Set the store's clock back, or forward: what it holds lies by so much later."""
    names = ("lease_until", "lease_since", "reported_at", "next_at", "seen_at")
    later = {name: getattr(DaemonRow, name) + by_s for name in names}
    with writing(store).begin() as connection:
        connection.execute(update(DaemonRow).values(later))


def test_a_lease_far_ahead_is_waited_for_no_longer_than_a_lease_can_last(store: Engine, steady: Steady) -> None:
    written_ahead(store, AHEAD_S)
    second = SqlJournal(store, identity=SECOND)
    assert "process 11 on login1 leads" in second.lead().leader
    steady.at += LONGEST_S - 1.0
    assert "process 11 on login1 leads" in second.lead().leader
    with pytest.raises(LeaseError):
        turn(second, 2.0)
    steady.at += 3.0
    assert second.lead().leader == ""
    turn(second, 2.0)
    assert token(store) == 2


def test_a_leader_that_lives_keeps_the_lead_as_its_clock_is_set_back(store: Engine, steady: Steady) -> None:
    first = written_ahead(store, AHEAD_S)
    second = SqlJournal(store, identity=SECOND)
    for _ in range(5):
        assert "process 11 on login1 leads" in second.lead().leader
        # It writes nothing before its next poll ends, which may take long.
        steady.at += NEXT_S + LEASE_S
        assert "process 11 on login1 leads" in second.lead().leader
        turn(first, time.time(), next_in_s=NEXT_S)
        set_back(store, AHEAD_S)
    with pytest.raises(LeaseError):
        turn(second, 2.0)
    assert token(store) == 1


@pytest.mark.parametrize("next_in_s", [2.0, 600.0, 3600.0])
def test_a_leader_with_a_long_pause_keeps_the_lead_for_all_of_it(
    store: Engine, steady: Steady, next_in_s: float
) -> None:
    first = SqlJournal(store, identity=FIRST)
    turn(first, time.time(), next_in_s=next_in_s, took_s=40.0)
    turn(first, time.time(), next_in_s=next_in_s)
    set_back(store, AHEAD_S)
    second = SqlJournal(store, identity=SECOND)
    assert second.lead().leader
    steady.at += next_in_s + LEASE_S + LONGER_S - 1.0
    assert second.lead().leader


def test_a_clock_that_was_set_between_poll_and_write_makes_a_lease_no_shorter(store: Engine, steady: Steady) -> None:
    first = SqlJournal(store, identity=FIRST)
    turn(first, time.time() + 900.0, next_in_s=600.0)  # set back by 15 min since it saw the cluster
    second = SqlJournal(store, identity=SECOND)
    assert second.lead().leader
    steady.at += 600.0
    assert second.lead().leader


def test_a_clock_that_is_set_forward_ends_no_lease_that_is_watched(store: Engine, steady: Steady) -> None:
    first = SqlJournal(store, identity=FIRST)
    turn(first, time.time(), next_in_s=NEXT_S)
    second = SqlJournal(store, identity=SECOND)
    assert second.lead().leader
    real = lease_watch.remaining_s

    def an_hour_later(until: float, now: float) -> float:
        return real(until, now + 3600.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease_watch, "remaining_s", an_hour_later)
        steady.at += 2.0
        assert second.lead().leader, "it acts, perhaps, at this moment"
        with pytest.raises(LeaseError):
            turn(second, 2.0)
        steady.at += NEXT_S + LEASE_S
        assert second.lead().leader == ""


def test_status_says_that_a_daemon_with_a_report_from_the_future_does_not_run(store: Engine) -> None:
    written_ahead(store, AHEAD_S)
    found = health(read.daemon(store), time.time())
    assert found.state is DaemonState.DIED
    assert found.line.startswith("NOT RUNNING: pid 11 on login1 last reported at ")
    assert found.line.endswith(", which is still to come: the clock was ahead; it ended without a word")


def test_status_is_in_trouble_where_the_process_is_there(store: Engine) -> None:
    written_ahead(store, AHEAD_S, identity=HERE)
    found = health(read.daemon(store), time.time())
    assert found.state is DaemonState.SILENT
    assert found.line.startswith(f"TROUBLE: pid {HERE.pid} on {HERE.host} last reported at ")


def test_status_of_a_leader_that_is_well_has_no_poll_in_the_future(store: Engine) -> None:
    written_ahead(store, 20.0)
    found = health(read.daemon(store), time.time())
    assert found.state is DaemonState.WELL
    assert found.line.endswith("last poll 0.0 s ago")


@pytest.mark.postgresql
@pytest.mark.parametrize("ahead_s", [-300.0, 300.0])
@pytest.mark.parametrize("url", ["postgresql"], indirect=True)  # with SQLite there is one clock
def test_a_poll_is_as_long_ago_as_the_stores_clock_says(
    store: Engine, monkeypatch: pytest.MonkeyPatch, ahead_s: float
) -> None:
    real = time.time
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: real() + ahead_s)
        turn(SqlJournal(store, identity=FIRST), time.time() - 4.0)
    found = health(read.daemon(store), time.time())
    assert found.state is DaemonState.WELL
    assert 4.0 <= float(found.line.rpartition("last poll ")[2].removesuffix(" s ago")) < 60.0


def test_a_standby_from_the_future_stands_by_no_more(store: Engine) -> None:
    turn(SqlJournal(store, identity=FIRST), time.time())
    SqlJournal(store, identity=SECOND).lead()
    with writing(store).begin() as connection:
        connection.execute(update(StandbyRow).values(seen_at=now_of(connection) + AHEAD_S))
    assert read.status(store).standbys == ()
    SqlJournal(store, identity=replace(SECOND, pid=33)).lead()
    with writing(store).begin() as connection:
        assert [row.pid for row in connection.execute(StandbyRow.__table__.select())] == [33]


class TestUndo:
    """`tesched undo` waits once, for as long as the lease can last, where the clock was ahead."""

    def test_the_holder_is_found_with_how_long_it_may_last(self, store: Engine) -> None:
        written_ahead(store, AHEAD_S)
        found = holder(store)
        assert found is not None
        assert "process 11 on login1 leads" in found.words
        assert found.of_another_clock
        assert found.left_s == pytest.approx(LONGEST_S, abs=5.0)

    def test_a_usual_lease_is_not_waited_for(self, store: Engine) -> None:
        written_ahead(store, 20.0)
        found = holder(store)
        assert found is not None
        assert not found.of_another_clock
        assert str(found).endswith(" s more if it does not write again")

    def test_it_leads_once_the_lease_has_lasted_that_long(self, store: Engine, steady: Steady) -> None:
        written_ahead(store, AHEAD_S)
        undo = SqlJournal(store, identity=SECOND, takes_over=True)
        outlast(undo.lead, LONGEST_S, sleep=lambda s: setattr(steady, "at", steady.at + s), steady=steady)
        turn(undo, 2.0)
        assert token(store) == 2
        assert read.status(store).standbys == ()

    def test_it_does_nothing_while_another_renews_the_lease(self, store: Engine, steady: Steady) -> None:
        first = written_ahead(store, AHEAD_S)
        undo = SqlJournal(store, identity=SECOND, takes_over=True)
        naps = list[float]()

        def asleep(seconds: float) -> None:
            naps.append(seconds)
            steady.at += seconds
            if len(naps) % 20 == 0:
                turn(first, time.time(), next_in_s=NEXT_S)

        lead: Callable[[], Lead] = undo.lead
        with pytest.raises(StartError, match="process 11 on login1 leads"):
            outlast(lead, LONGEST_S, sleep=asleep, steady=steady)
        assert sum(naps) <= LONGEST_S + 10.0
        assert read.status(store).standbys == ()

    def test_the_command_waits_and_then_puts_back(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        config, url = configured_store(tmp_path)
        engine = open_store(url)
        written_ahead(engine, AHEAD_S)
        engine.dispose()
        waits = list[float]()

        def waited(_lead: object, left_s: float) -> None:
            waits.append(left_s)

        loop = loop_of(Cluster(), Notebook())
        monkeypatch.setattr("tesched_cli.undo.check_conf", lambda _config: None)
        monkeypatch.setattr("tesched_cli.undo.opened_loop", lambda *_args, **_more: nullcontext(loop))
        monkeypatch.setattr("tesched_cli.undo.outlast", waited)
        said = CliRunner().invoke(main, ["undo", "--config", str(config)])
        assert said.exit_code == 0, said.output
        assert "process 11 on login1 leads" in said.stderr
        assert f", by a clock that was ahead: waiting {LONGEST_S:.0f} s" in said.stderr
        assert waits == [pytest.approx(LONGEST_S, abs=1.0)]
