"""A connection to PostgreSQL that gives up a server which does not answer.

TCP reports a peer that is gone, and `statement_timeout` is the server's own. Neither helps where the peer's kernel
still takes what is sent and the process behind it does nothing: a proxy that hangs, a stopped server.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import psycopg

T = TypeVar("T")


class AnsweringConnection(psycopg.Connection[Any]):
    """A connection on which a wait for the server ends, and the connection with it, after some time without a sign."""

    #: seconds; to connect has a bound of its own (connect_timeout)
    answer_s: float = math.inf

    def wait(self, gen: Generator[Any, Any, T], *more: Any, **options: Any) -> T:
        """Wait as psycopg does. Raises OperationalError where the server gives no sign of it for `answer_s`."""
        return super().wait(within(self.answer_s, self.close, gen), *more, **options)


def connect(answer_s: float, *arguments: Any, **parameters: Any) -> AnsweringConnection:
    """Return a connection that gives up a server which is silent for `answer_s` seconds."""
    connection = AnsweringConnection.connect(*arguments, **parameters)
    connection.answer_s = answer_s
    return connection


def within(answer_s: float, close: Callable[[], None], waiting: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
    """Yield what psycopg waits for, and pass on whether it came; psycopg wakes up for this several times a second.

    After `answer_s` seconds in which nothing came it closes the connection and raises OperationalError.
    """
    until = time.monotonic() + answer_s
    ready = None
    while True:
        try:
            wanted = waiting.send(ready)
        except StopIteration as end:
            found: T = end.value
            return found
        ready = yield wanted
        now = time.monotonic()
        if ready:
            until = now + answer_s
        elif now >= until:
            close()
            raise psycopg.OperationalError(f"the server has not answered for {answer_s:g} s")
