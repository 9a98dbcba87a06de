"""One rule that is broken to see whether the tests notice it."""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    """One rule, and how it is broken."""

    rule: str
    path: str
    text: str
    instead: str
