"""Core's orders and victims, from their rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from sqlalchemy import Connection, select
from tesched_core.model.order import Order, Victim

from tesched_db.rows import CHUNK, AnyRow, from_row, rows_of
from tesched_db.tables import OrderRow, VictimRow


def victims_of(connection: Connection, order_ids: list[int]) -> dict[int, list[Victim]]:
    """Return the victims of these orders, by order, in their order."""
    found: dict[int, list[Victim]] = {}
    for start in range(0, len(order_ids), CHUNK):
        some = order_ids[start : start + CHUNK]
        query = select(VictimRow).where(VictimRow.order_id.in_(some)).order_by(VictimRow.order_id, VictimRow.position)
        for row in rows_of(connection, query):
            found.setdefault(row.order_id, []).append(victim_of(row))
    return found


def order_of(row: OrderRow, victims: Iterable[Victim]) -> Order:
    """Order that a row holds."""
    return replace(from_row(row, Order, victims=()), victims=tuple(victims))


def victim_of(row: VictimRow | AnyRow) -> Victim:
    """Victim that a row holds, maybe with columns of other tables."""
    return from_row(row, Victim)
