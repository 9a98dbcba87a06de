"""States of policies, as JSON, one row each. They are carried unread: what is in one, its policy knows."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, insert, select

from tesched_db.rows import rows_of
from tesched_db.tables import PolicyStateRow

log = logging.getLogger(__name__)


def load(connection: Connection, kinds: Mapping[str, type[Any]]) -> dict[str, Any]:
    """Return each policy's state, by its name; `kinds` are the states' types.

    A state that its policy cannot read (of another release), or of a policy not installed, is left out: the policy
    begins anew.
    """
    found: dict[str, Any] = {}
    for row in rows_of(connection, select(PolicyStateRow).order_by(PolicyStateRow.policy)):
        kind = kinds.get(row.policy)
        if kind is None:
            continue
        try:
            found[row.policy] = msgspec.convert(row.state, kind, str_keys=True)
        except msgspec.ValidationError as error:
            log.warning("what the policy %s remembered is of another form, and it begins anew: %s", row.policy, error)
    return found


def write(connection: Connection, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Write in what the states differ from those of before."""
    for name in before.keys() | now.keys():
        state = now.get(name)
        if state is before.get(name) or state == before.get(name):
            continue
        connection.execute(delete(PolicyStateRow).where(PolicyStateRow.policy == name))
        if state is None:
            continue
        try:
            values = msgspec.to_builtins(state, str_keys=True)
        except TypeError as error:
            log.warning("what the policy %s remembers cannot be kept over a restart: %s", name, error)
            continue
        connection.execute(insert(PolicyStateRow).values(policy=name, state=values))
