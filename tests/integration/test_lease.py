"""Two daemons on one store: one leads, and the other changes nothing. On SQLite and on PostgreSQL."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from sqlalchemy import Engine, update
from tesched_core.model.decision import Decision
from tesched_core.model.journal_error import LedByAnotherError
from tesched_core.model.memory import Memory
from tesched_core.model.snapshot import Snapshot
from tesched_core.ports import CycleReport
from tesched_db import clock_skew
from tesched_db import queries as read
from tesched_db.clock_skew import now_of
from tesched_db.engine import writing
from tesched_db.journal import Identity, SqlJournal
from tesched_db.lease import LATE_S, LEASE, LeaseError, PollTimes, pause, unpause
from tesched_db.lease_watch import LEASE_S
from tesched_db.liveness import DaemonState, state_of
from tesched_db.process import ticks_of
from tesched_db.tables import DaemonRow, StandbyRow
from tesched_testcluster.harness.store_examples import job, order, remembering, victim

HERE = Identity.here()
#: on hosts of their own, so that neither can know whether the other is alive
FIRST = replace(HERE, pid=11, host="login1", place="boot1")
SECOND = replace(HERE, pid=22, host="login2", place="boot2")


def turn(journal: SqlJournal, at: float, next_in_s: float = 600.0, took_s: float = 0.0) -> None:
    """Make a turn that does nothing, as the loop does, after so long a poll; its lease lasts longer than any test."""
    memory = journal.load()
    decided = Decision(
        cycle=memory.cycle + 1, at=at, policy="", actions=(), refusals=(), transitions=(), summary="did nothing"
    )
    report = CycleReport(at=at, mode="enforce", client="test", observe_s=took_s, step_s=0, next_in_s=next_in_s)
    journal.intend(Snapshot.of(at), replace(memory, cycle=memory.cycle + 1), decided, report)


def run_out(store: Engine) -> None:
    """Let time pass until the lease has run out."""
    with writing(store).begin() as connection:
        connection.execute(update(DaemonRow).values(lease_until=now_of(connection) - 0.001))


def now(store: Engine) -> float:
    """Return the store's clock."""
    with store.connect() as connection:
        return now_of(connection)


def token(store: Engine) -> int:
    """Return how often the lead has changed hands."""
    with store.connect() as connection:
        return int(connection.execute(LEASE).one().lease_token)


@pytest.fixture
def first(store: Engine) -> SqlJournal:
    """Return the journal of the leader."""
    journal = SqlJournal(store, identity=FIRST)
    turn(journal, 1.0)
    return journal


def test_the_second_daemon_stands_by_and_may_not_write(store: Engine, first: SqlJournal) -> None:
    second = SqlJournal(store, identity=SECOND)
    assert "process 11 on login1 leads" in second.lead().leader
    assert first.lead().leader == ""
    with pytest.raises(LeaseError, match="the lead was lost, and what was meant is not done: process 11 on login1"):
        turn(second, 2.0)
    turn(first, 3.0)
    assert token(store) == 1


def test_another_daemon_learns_in_which_mode_the_store_was_written_last(store: Engine, first: SqlJournal) -> None:
    other = SqlJournal(store, identity=SECOND)
    assert (other.lead().mode, other.lead().leaving) == ("enforce", "")
    first.unseen(CycleReport(at=2.0, mode="shadow", client="test", observe_s=0, step_s=0, leaving="2 change(s)"))
    assert (other.lead().mode, other.lead().leaving) == ("shadow", "2 change(s)")


def test_when_the_lease_has_run_out_the_second_takes_over_and_the_first_may_not_write(
    store: Engine, first: SqlJournal
) -> None:
    memory = first.load()
    run_out(store)
    second = SqlJournal(store, identity=SECOND)
    assert second.lead().leader == ""
    turn(second, 2.0)
    assert "process 22 on login2 leads" in first.lead().leader
    with pytest.raises(LeaseError):
        first.conclude(memory, _nothing(), [], [])
    with pytest.raises(LeaseError):
        turn(first, 3.0)
    assert token(store) == 2


def _nothing() -> Decision:
    return Decision(cycle=2, at=2.0, policy="", actions=(), refusals=(), transitions=(), summary="")


def test_a_lease_outlasts_the_pause_that_its_holder_has_announced(store: Engine, first: SqlJournal) -> None:
    before = now(store)
    turn(first, 2.0, next_in_s=600.0)
    after = now(store)
    with store.connect() as connection:
        lease_until = connection.execute(LEASE).one().lease_until
    assert before + 600 + LEASE_S <= lease_until <= after + 600 + LEASE_S


def test_a_lease_outlasts_the_announced_pause_from_the_end_of_the_actions(store: Engine, first: SqlJournal) -> None:
    turn(first, 2.0, next_in_s=600.0)
    memory = first.load()
    # The actions take so long; the next poll begins 600 s after them.
    run_out(store)
    ended = now(store)
    first.conclude(memory, _nothing(), [], [])
    with store.connect() as connection:
        assert connection.execute(LEASE).one().lease_until >= ended + 600 + LEASE_S


def test_a_daemon_that_resigns_lets_the_second_lead_at_once(store: Engine, first: SqlJournal) -> None:
    first.resign()
    second = SqlJournal(store, identity=SECOND)
    assert second.lead().leader == ""
    turn(second, 2.0)
    first.resign()  # too late: it is not its own any more
    assert "process 22" in first.lead().leader


def test_a_holder_that_is_dead_on_this_host_is_not_waited_for(store: Engine) -> None:
    gone = replace(HERE, pid=2**22 - 1)  # the greatest that Linux gives, and not in use
    turn(SqlJournal(store, identity=gone), 1.0)
    assert SqlJournal(store, identity=HERE).lead().leader == ""
    alive = replace(HERE, pid=1, ticks=ticks_of(1))
    turn(SqlJournal(store, identity=alive), 2.0)
    assert "process 1 on" in SqlJournal(store, identity=HERE).lead().leader
    # The same number, and a process that was started at another time.
    run_out(store)
    turn(SqlJournal(store, identity=replace(alive, ticks=(alive.ticks or 0) + 1)), 2.5)
    assert SqlJournal(store, identity=HERE).lead().leader == ""
    # The same number in a container of the same host is another process's.
    elsewhere = SqlJournal(store, identity=replace(gone, place="another"))
    turn(elsewhere, 3.0)
    assert "leads" in SqlJournal(store, identity=HERE).lead().leader


def test_undo_may_write_once_the_lease_has_run_out_or_its_holder_is_known_to_be_dead(
    store: Engine, first: SqlJournal
) -> None:
    assert first.lead().leader == ""
    undo = SqlJournal(store, identity=SECOND, takes_over=True)
    with pytest.raises(LeaseError, match="process 11 on login1 leads"):
        turn(undo, 2.0)
    run_out(store)
    turn(undo, 2.0)
    assert token(store) == 2
    undo.resign()
    turn(SqlJournal(store, identity=replace(HERE, pid=2**22 - 1)), 3.0)
    turn(SqlJournal(store, identity=HERE, takes_over=True), 4.0)
    assert token(store) == 4


@pytest.mark.parametrize(("took_s", "longer_s"), [(5.0, 0.0), (12.0, 14.0), (30.0, 50.0), (500.0, 60.0)])
def test_a_lease_outlasts_another_poll_as_long_as_the_longest_of_late_within_bounds(
    store: Engine, first: SqlJournal, took_s: float, longer_s: float
) -> None:
    turn(first, 2.0, took_s=took_s)
    before = now(store)
    turn(first, 3.0, next_in_s=2.0)
    after = now(store)
    with store.connect() as connection:
        lease_until = connection.execute(LEASE).one().lease_until
    assert before + 2 + LEASE_S + longer_s <= lease_until <= after + 2 + LEASE_S + longer_s
    first.conclude(first.load(), _nothing(), [], [])
    with store.connect() as connection:
        assert connection.execute(LEASE).one().lease_until >= after + 2 + LEASE_S + longer_s


def test_a_long_poll_is_forgotten_when_the_later_ones_were_short() -> None:
    polls = PollTimes()
    for at, took_s in ((0.0, 30.0), (PollTimes.PERIOD_S - 1, 1.0), (2 * PollTimes.PERIOD_S - 1, 1.0)):
        polls.add(took_s, at)
        assert polls.lease_s() == LEASE_S + 50.0
    polls.add(1.0, 3 * PollTimes.PERIOD_S)
    assert polls.lease_s() == LEASE_S


def state(store: Engine) -> DaemonState:
    """Return the state of the daemon, as `tesched status` says it."""
    return state_of(read.daemon(store), time.time())


def test_a_leader_is_well_after_a_poll_that_took_longer_than_a_daemon_may_be_late(store: Engine) -> None:
    journal = SqlJournal(store, identity=FIRST)
    turn(journal, time.time() - 40.0, next_in_s=2.0, took_s=40.0)
    assert state(store) is DaemonState.WELL
    with writing(store).begin() as connection:
        until = now_of(connection) - (LATE_S - LEASE_S)
        connection.execute(update(DaemonRow).values(lease_until=until))
    assert state(store) is DaemonState.DIED


def test_a_leader_on_a_host_with_another_clock_is_well(store: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    real = time.time
    with monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: real() - 60.0)
        turn(SqlJournal(store, identity=FIRST), time.time(), next_in_s=2.0)
    # With SQLite it is one host, whose clock was set: a minute may well have passed.
    assert state(store) is (DaemonState.WELL if store.dialect.name == "postgresql" else DaemonState.DIED)


def test_of_two_that_find_the_lease_run_out_one_writes(store: Engine, first: SqlJournal) -> None:
    assert first.lead().leader == ""
    run_out(store)
    both = [SqlJournal(store, identity=replace(SECOND, pid=pid)) for pid in (22, 33)]
    memories = [journal.load() for journal in both]
    assert memories[0] == memories[1] == Memory(cycle=1)
    turn(both[0], 2.0)
    with pytest.raises(LedByAnotherError):
        turn(both[1], 2.0)


def test_a_pause_reaches_the_loop_and_ends_by_itself(store: Engine, first: SqlJournal) -> None:
    pause(store, by="ann", reason="upgrade", for_s=3600)
    assert first.lead().paused.startswith("tesched is paused by ann since 2")
    assert first.lead().paused.endswith(": upgrade")
    pause(store, by="ann", reason="", for_s=0.0)
    assert first.lead().paused == ""
    pause(store, by="bob", reason="", for_s=None)
    assert "paused by bob" in first.lead().paused
    assert unpause(store, by="root") is True
    assert (first.lead().paused, unpause(store, by="root")) == ("", False)


class TestStandby:
    """A standby says that it is one, for as long as it is."""

    def test_status_shows_it_until_it_leads(self, store: Engine, first: SqlJournal) -> None:
        second = SqlJournal(store, identity=SECOND)
        before = now(store)
        second.lead()
        (standby,) = read.status(store).standbys
        assert (standby.host, standby.pid, standby.started_at) == ("login2", 22, SECOND.started_at)
        assert 0 <= standby.silent_s <= now(store) - before
        first.resign()
        began = now(store)
        turn(second, 2.0)
        status = read.status(store)
        assert status.standbys == ()
        assert status.daemon is not None
        assert status.daemon.leads_since >= began

    def test_a_daemon_that_ends_stands_by_no_more(self, store: Engine, first: SqlJournal) -> None:
        second = SqlJournal(store, identity=SECOND)
        second.lead()
        second.resign()
        assert read.status(store).standbys == ()
        assert first.lead().leader == "", "the leader's lease is not touched"

    def test_a_silent_daemon_is_taken_for_gone(self, store: Engine, first: SqlJournal) -> None:
        SqlJournal(store, identity=SECOND).lead()
        with writing(store).begin() as connection:
            connection.execute(update(StandbyRow).values(seen_at=now_of(connection) - 61))
        assert read.status(store).standbys == ()

    def test_it_says_the_same_at_each_poll_so_that_a_log_has_it_once(self, store: Engine, first: SqlJournal) -> None:
        second = SqlJournal(store, identity=SECOND)
        said = second.lead().leader
        turn(first, 2.0, next_in_s=700.0)
        assert second.lead().leader == said

    def test_since_is_when_the_lead_changed_hands_and_not_the_last_write(
        self, store: Engine, first: SqlJournal
    ) -> None:
        def since() -> float:
            with store.connect() as connection:
                return float(connection.execute(LEASE).one().lease_since)

        before = since()
        turn(first, 2.0)
        assert since() == before > 0


class TestClocks:
    """Another process goes on with the memory: its times are made those of that process's clock."""

    @pytest.fixture(autouse=True)
    def _steady(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have no difference come of two clocks that are read one after the other, seconds apart."""
        monkeypatch.setattr(clock_skew, "DIFFER_S", 60.0)

    def written(self, store: Engine) -> float:
        """Write an order with a victim that was given notice just now; return when."""
        journal, now = SqlJournal(store, identity=FIRST), time.time()
        memory = remembering(order(1, 7, victim(3, noticed_at=now), created_at=now, expires_at=now + 120))
        journal.load()
        nothing = Decision(cycle=1, at=now, policy="", actions=(), refusals=(), transitions=(), summary="")
        report = CycleReport(at=now, mode="enforce", client="test", observe_s=0, step_s=0)
        journal.intend(Snapshot.of(now, jobs=[job(3), job(7)]), memory, nothing, report)
        return now

    def found(self, journal: SqlJournal) -> tuple[float, float]:
        """Return when the victim's notice was, and when the order ends, as the journal says."""
        (one,) = journal.load().orders.values()
        noticed_at = one.victims[0].noticed_at
        assert noticed_at is not None
        return noticed_at, one.expires_at

    def test_clocks_that_agree_leave_it_as_it_is(self, store: Engine) -> None:
        at = self.written(store)
        assert self.found(SqlJournal(store, identity=SECOND)) == (at, at + 120)

    @pytest.mark.parametrize("behind_s", [3600.0, 200.0])
    def test_nothing_lies_in_the_future_on_a_host_with_a_slow_clock(
        self, store: Engine, monkeypatch: pytest.MonkeyPatch, behind_s: float
    ) -> None:
        at = self.written(store)
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() - behind_s)
        noticed_at, expires_at = self.found(SqlJournal(store, identity=SECOND))
        assert abs(noticed_at - (at - behind_s)) <= real() - at
        assert expires_at - noticed_at == pytest.approx(120)

    def test_no_grace_period_is_cut_short_on_a_host_with_a_fast_clock(
        self, store: Engine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        at = self.written(store)
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + 200)
        noticed_at, _ = self.found(SqlJournal(store, identity=SECOND))
        # With SQLite it is one host, and 200 s may well have passed.
        assert abs(noticed_at - (at + (200 if store.dialect.name == "postgresql" else 0))) <= real() - at

    def test_a_daemon_gets_its_own_entry_back_as_it_was(self, store: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        """The loop knows by its own clocks what has happened since, and would count it twice."""
        journal = SqlJournal(store, identity=SECOND)
        at = self.written(store)
        run_out(store)
        memory = journal.load()
        nothing = replace(_nothing(), at=at)
        report = CycleReport(at=at, mode="enforce", client="test", observe_s=0, step_s=0)
        journal.intend(Snapshot.of(at, jobs=[job(3), job(7)]), memory, nothing, report)
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() - 3600)
        assert self.found(journal)[0] == at
