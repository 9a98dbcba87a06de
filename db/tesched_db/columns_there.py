"""Whether a store has the columns of this code: a schema that has not been released yet changes under the same name."""

from __future__ import annotations

from sqlalchemy import Engine, select

from tesched_db.engine import reader
from tesched_db.tables import Base


def check_columns(engine: Engine) -> None:
    """Raise StoreError if a table or a column is lacking, in the words that whatever reads it would have."""
    with reader(engine) as connection:
        for table in Base.metadata.sorted_tables:
            connection.execute(select(table).limit(0))
