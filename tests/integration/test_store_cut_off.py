"""PostgreSQL that is cut off without a word: each call ends in bounded time, and the daemon goes on later."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.waiting import Ready, Wait
from sqlalchemy import Engine, make_url, text
from tesched_db import answering
from tesched_db import engine as engine_module
from tesched_db.engine import postgresql_arguments
from tesched_db.errors import StoreError, store_errors
from tesched_testcluster.harness.private_postgresql import PrivatePostgresql
from tesched_testcluster.patience import wait_for

from tests.integration.relay import Relay, relay_to
from tests.integration.test_two_daemons import Pair, leader, run_out


@pytest.fixture
def database(postgresql: PrivatePostgresql, migrated: str) -> Iterator[str]:
    """Give the name of a database with a store in it."""
    name = postgresql.create(migrated)
    yield name
    postgresql.drop(name)


@pytest.fixture
def relay(postgresql: PrivatePostgresql) -> Iterator[Relay]:
    """Give a TCP relay to the server."""
    with relay_to(postgresql.folder) as relay:
        yield relay


Opened = Callable[..., Engine]


def url_of(relay: Relay, database: str, more: str = "") -> str:
    return f"postgresql://tesched@127.0.0.1:{relay.port}/{database}?sslmode=disable{more}"


TCP = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


def test_a_dead_peer_is_known_after_twenty_seconds_unless_the_url_says_otherwise() -> None:
    shipped = postgresql_arguments(make_url("postgresql://db/tesched"), 5.0)
    assert {name: shipped[name] for name in TCP} == TCP
    assert shipped["connect_timeout"] == 10
    for name in (*TCP, "connect_timeout"):
        assert name not in postgresql_arguments(make_url(f"postgresql://db/tesched?{name}=7"), 5.0)


@pytest.mark.postgresql
def test_these_bounds_are_in_force(relay: Relay, database: str, opened: Opened) -> None:
    names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)

    def bounds(more: str) -> list[int]:
        with opened(url_of(relay, database, more)).connect() as connection:
            pgconn = connection.connection.driver_connection.pgconn  # type: ignore[union-attr]
            with socket.socket(fileno=os.dup(pgconn.socket)) as own:
                assert own.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
                return [own.getsockopt(socket.IPPROTO_TCP, name) for name in names]

    assert bounds("") == [5, 5, 3, 20_000]
    assert bounds("&keepalives_idle=9&tcp_user_timeout=7000") == [9, 5, 3, 7_000]


@pytest.mark.postgresql
@pytest.mark.parametrize("statement", ["SELECT 1", "BEGIN"])
def test_a_proxy_that_takes_what_is_sent_and_never_answers_is_an_error_in_bounded_time(
    relay: Relay, database: str, opened: Opened, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """Keepalives are answered by its kernel, and a statement's bound is counted by the server that did not get it."""
    monkeypatch.setattr(engine_module, "ANSWER_S", 0.5)
    store = opened(url_of(relay, database, "&connect_timeout=2"))
    with store.connect() as connection:
        connection.execute(text("SELECT 1"))
        relay.fall_silent()
        with pytest.raises(StoreError, match="has not answered for"), store_errors("read the state store"):
            connection.execute(text(statement))
    # Neither the connections of the pool nor a new one.
    with pytest.raises(StoreError, match="timeout"), store_errors("read the state store"):
        store.connect()
    relay.speak()
    with store.connect() as connection:
        assert connection.execute(text("SELECT 1")).scalar_one() == 1


def test_an_answer_is_awaited_for_as_long_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    closed: list[bool] = []

    def close() -> None:
        closed.append(True)

    def of_ten_parts() -> Generator[Wait, Ready, str]:
        for _ in range(10):
            while not (yield Wait.R):
                pass
        return "all"

    waiting = answering.within(10.0, close, of_ten_parts())
    assert next(waiting) is Wait.R
    for _ in range(9):
        now[0] += 9.5
        assert waiting.send(Ready.NONE) is Wait.R
        assert waiting.send(Ready.R) is Wait.R
    now[0] += 9.5
    assert waiting.send(Ready.NONE) is Wait.R
    assert not closed
    now[0] += 0.5
    with pytest.raises(psycopg.OperationalError, match="has not answered for 10 s"):
        waiting.send(Ready.NONE)
    assert closed
    whole = answering.within(10.0, close, of_ten_parts())
    assert [whole.send(ready) for ready in (None, *[Ready.R] * 9)] == [Wait.R] * 10
    with pytest.raises(StopIteration, match="all"):
        whole.send(Ready.R)


@pytest.mark.postgresql
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a network")
def test_a_leader_with_lost_packets_says_so_and_stands_by_once_they_are_not(
    postgresql: PrivatePostgresql, database: str, tmp_path: Path, opened: Opened
) -> None:
    pair = Pair(postgresql.url(database), tmp_path, began=0.0)
    pair.path.touch()
    cut = pair.path.with_suffix(".cut")
    store = opened(pair.url)
    with pair.cut_off_daemon("login1", postgresql.folder, database) as first:
        wait_for(lambda: first.says("did nothing"), "the first to lead")
        with pair.daemon("login2") as second:
            wait_for(lambda: second.says("standby: process"), "the second to stand by")
            cut.touch()
            wait_for(pair.path.with_suffix(".is-cut").exists, "the packets to be lost")
            wait_for(lambda: first.says("the state store cannot be used"), "the first to know that its peer is dead")
            run_out(store)
            wait_for(lambda: leader(store) == ("login2", 2), "the standby to lead")
            cut.unlink()
            wait_for(lambda: first.says("standby: process"), "the first to reach the store again")
