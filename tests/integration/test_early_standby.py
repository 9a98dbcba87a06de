"""Early turns of two daemons on one store, SQLite and PostgreSQL: the one that leads makes them, and it alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import Engine, update
from tesched_daemon.loop import Loop
from tesched_db.clock_skew import now_of
from tesched_db.engine import writing
from tesched_db.journal import Identity, SqlJournal
from tesched_db.tables import DaemonRow

from tests.early_parts import Site, none_comes, noticed, polled
from tests.loop_parts import VICTIM


def journal(store: Engine, host: str) -> SqlJournal:
    return SqlJournal(store, identity=replace(Identity.here(), host=host, place=host))


def take_over(store: Engine, second: Loop) -> None:
    """Let the leader's lease run out, and the standby take the lead."""
    with writing(store).begin() as connection:
        connection.execute(update(DaemonRow).values(lease_until=now_of(connection) - 0.001))
    assert second.turn(asked=True).saw


@pytest.fixture
def second_of(store: Engine) -> Callable[[Site], Loop]:
    """Give what makes the loop of a standby beside the first daemon on a site."""

    def made(site: Site) -> Loop:
        watch: Callable[[], float] = lambda: site.time  # noqa: E731
        parts = {"observer": site, "actuator": site, "single_reads": site, "clock": watch, "stopwatch": watch}
        return replace(
            polled(Site()),
            journal=journal(store, "login2"),
            _memory=None,
            _last=None,
            **parts,  # type: ignore[arg-type]
        )

    return made


def test_a_standby_makes_no_early_turn(store: Engine, second_of: Callable[[Site], Loop]) -> None:
    site = Site()
    first = polled(site, journal(store, "login1"))
    second = second_of(site)
    assert second.turn().summary.startswith("standby")
    assert none_comes(second, site)
    assert noticed(first, site)


def test_a_leader_that_has_lost_the_lead_since_its_poll_makes_none(
    store: Engine, second_of: Callable[[Site], Loop]
) -> None:
    site = Site()
    first = polled(site, journal(store, "login1"))
    take_over(store, second_of(site))
    assert site.noticed() == [VICTIM.job_id]
    site.acted.clear()
    assert none_comes(first, site)
    assert first.turn(asked=True).summary.startswith("standby")


@pytest.mark.parametrize("reads", [1, 3, 4, 5])
def test_one_that_loses_it_in_an_early_turn_does_nothing_and_stands_by(
    store: Engine, second_of: Callable[[Site], Loop], reads: int
) -> None:
    site = Site()
    first, second = polled(site, journal(store, "login1")), second_of(site)
    site.after[reads] = lambda: take_over(store, second)
    assert first.early_turn() is None
    assert len(site.reads) >= reads
    assert site.noticed() == [VICTIM.job_id], "by the second, once"
    assert first.turn(asked=True).summary.startswith("standby")
    assert site.noticed() == [VICTIM.job_id]
