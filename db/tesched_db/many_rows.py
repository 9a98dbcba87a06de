"""Many rows at once: what a poll changes is written by one statement a kind of change, and little of Python a row.

`Connection.execute` with a list makes a dictionary and a tuple of each row, and finds the types of its values anew:
for 1,000 rows that took as long as SQLite did. And PostgreSQL takes each row as a statement of its own. Here the values
go column by column, converted by the columns' own types: to SQLite as tuples for the driver's `executemany`, to
PostgreSQL as one array a column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import (
    ARRAY,
    Boolean,
    Connection,
    Dialect,
    Float,
    Integer,
    String,
    TypeDecorator,
    bindparam,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import StatementError
from sqlalchemy.sql.dml import Insert, Update
from sqlalchemy.types import TypeEngine

from tesched_db.declared import TableBase
from tesched_db.rows import Values

#: Values of one statement for PostgreSQL, which waits while the driver makes text of them, for 5 s at most. Rows are no
#: measure: one of the history has 9 of them, one of a job 40.
MOST_VALUES = 10_000


def insert_rows(connection: Connection, table: type[TableBase], rows: Sequence[Values]) -> None:
    """Insert the rows, at least one, which have the same columns."""
    _write(connection, table, tuple(rows[0]), rows, updates=False)


def update_rows(connection: Connection, table: type[TableBase], rows: Sequence[Values]) -> None:
    """Update the rows, at least one: each has the primary key, of one column and once, and the same columns to set."""
    _write(connection, table, tuple(rows[0]), rows, updates=True)


def rows_of_a_statement(columns: int) -> int:
    """Count the rows that one statement for PostgreSQL has at most: those of 40 columns are not as many as of three."""
    return max(MOST_VALUES // columns, 1)


def _write(
    connection: Connection, table: type[TableBase], names: tuple[str, ...], rows: Sequence[Values], *, updates: bool
) -> None:
    on_postgresql = connection.dialect.name == "postgresql"
    written = _of_arrays if on_postgresql else _of_rows
    one = written(connection.dialect, table, names, updates=updates)
    columns: list[Sequence[Any]] = list(zip(*map(itemgetter(*one.names), rows), strict=True))
    try:
        for place, kind in one.kinds:
            columns[place] = kind.values(columns[place])
        for place, convert in one.convert:
            columns[place] = [*map(convert, columns[place])]
        if isinstance(one.statement, str):
            connection.exec_driver_sql(one.statement, list(zip(*columns, strict=True)))
            return
        most = rows_of_a_statement(len(one.names))
        for start in range(0, len(rows), most):
            some = slice(start, start + most)
            arrays = {f"b_{name}": list(column[some]) for name, column in zip(one.names, columns, strict=True)}
            connection.execute(one.statement, arrays)
    except (TypeError, ValueError) as error:
        # What SQLAlchemy makes of it where it converts by itself. JSON for PostgreSQL is made by the driver.
        raise StatementError(str(error), str(one.statement), None, error) from error


class _Kind(NamedTuple):
    """Type of a column's values, of which each must be: the driver takes no array of several types."""

    #: the column, for what is said of a wrong value
    column: str
    made: type[Any]
    #: types of which the values are made
    accepted: tuple[type[Any], ...]

    def values(self, found: Sequence[Any]) -> Sequence[Any]:
        """Values of a column as its type has them, such as 5.0 for 5, a word for a member of an enum.

        Raises:
            TypeError: a value is of another type. Whether a database takes it depends on the database, and of
                PostgreSQL's driver on the values beside it.
        """
        if {*map(type, found)} <= {self.made, type(None)}:  # nearly always, and far quicker than one by one
            return found
        return [*map(self._value, found)]

    def _value(self, value: Any) -> Any:
        if value is None or type(value) is self.made:
            return value
        if isinstance(value, bool) or not isinstance(value, self.accepted):  # a bool is an int, to Python
            raise TypeError(f"{self.column}: {value!r} is no {self.made.__name__}")
        return self.made(value)


class _Statement(NamedTuple):
    """A statement that writes many rows."""

    #: text as the driver takes it; or one of SQLAlchemy's, which takes an array a column
    statement: str | Insert | Update
    #: the columns in the order of its parameters
    names: tuple[str, ...]
    #: by place, of which type its values are to be, but for JSON
    kinds: tuple[tuple[int, _Kind], ...]
    #: by place, how values are made those that the driver takes, where that is needed
    convert: tuple[tuple[int, Callable[[Any], Any]], ...]


@lru_cache(maxsize=128)  # the columns that change together are few
def _of_rows(dialect: Dialect, table: type[TableBase], names: tuple[str, ...], *, updates: bool) -> _Statement:
    columns = table.__table__.columns
    parameters = {name: bindparam(f"b_{name}", type_=columns[name].type) for name in names}
    statement: Insert | Update
    if updates:
        (key,) = table.__table__.primary_key
        this = parameters.pop(key.key)
        statement = update(table).where(key == this).values(parameters)
    else:
        statement = insert(table).values(parameters)
    compiled = statement.compile(dialect=dialect)
    # Of a driver that numbers its parameters, as SQLite's does.
    ordered = tuple(name.removeprefix("b_") for name in getattr(compiled, "positiontup", None) or ())
    processors = (columns[name].type.dialect_impl(dialect).bind_processor(dialect) for name in ordered)
    convert = tuple((place, one) for place, one in enumerate(processors) if one is not None)
    return _Statement(str(compiled), ordered, _kinds(table, ordered), convert)


@lru_cache(maxsize=128)
def _of_arrays(_dialect: Dialect, table: type[TableBase], names: tuple[str, ...], *, updates: bool) -> _Statement:
    columns = table.__table__.columns
    # Of one dimension: a value that is a list, of JSON, is no array of the database.
    arrays = [bindparam(f"b_{name}", type_=ARRAY(columns[name].type, dimensions=1)) for name in names]
    changed = func.unnest(*arrays).table_valued(*names, name="changed").render_derived()
    values = {name: changed.c[name] for name in names}
    statement: Insert | Update
    if updates:
        (key,) = table.__table__.primary_key
        this = values.pop(key.key)
        statement = update(table).where(key == this).values(values)
    else:
        statement = insert(table).from_select(list(names), select(*values.values()))
    return _Statement(statement, names, _kinds(table, names), ())


#: By type of a column: of which type its values are, and from which they are made.
_KINDS: tuple[tuple[type[TypeEngine[Any]], type[Any], tuple[type[Any], ...]], ...] = (
    (Float, float, (int, float)),
    (Boolean, bool, (bool,)),
    (Integer, int, (int,)),
    (String, str, (str,)),
)


def _kinds(table: type[TableBase], names: tuple[str, ...]) -> tuple[tuple[int, _Kind], ...]:
    columns = table.__table__.columns
    return tuple(
        (place, _Kind(f"{table.__tablename__}.{columns[name].name}", made, accepted))
        for place, name in enumerate(names)
        for of, made, accepted in _KINDS
        if isinstance(_plain(columns[name].type), of)
    )


def _plain(of: TypeEngine[Any]) -> TypeEngine[Any]:
    """Type without what SQLAlchemy calls decorators."""
    while isinstance(of, TypeDecorator):
        of = of.impl_instance
    return of
