"""Tables as classes, of SQLAlchemy's Core alone: its ORM takes longer to import than a command takes to run.

A class lists the columns of a table once, with the types of their values. On the class a column is a `Column`, for
queries; on a row (`tesched_db.rows.rows_of`) it is the value. `select`, `insert` and the like take the class itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, overload

from sqlalchemy import JSON, BigInteger, Boolean, Column, Float, Index, MetaData, Table

from tesched_db.user_text import UserText

T = TypeVar("T")


class Stored(Generic[T]):
    """Type of a column, as it is annotated: the type of its values, and whether it may be NULL."""

    if TYPE_CHECKING:

        @overload
        def __get__(self, row: None, table: Any) -> Column[T]: ...
        @overload
        def __get__(self, row: object, table: Any) -> T: ...
        def __get__(self, row: object, table: Any) -> Any: ...


#: types of columns by their annotations; with a foreign key, a column has the type of the one that it refers to
_TYPES = {
    "Any": JSON(),
    "bool": Boolean(),
    "dict[str, Any]": JSON(),
    "float": Float(53),
    "int": BigInteger(),
    "list[Any]": JSON(),
    "list[dict[str, Any]]": JSON(),
    "list[str]": JSON(),
    "str": UserText(),
}


class _More(NamedTuple):
    """What a column has besides its annotation."""

    args: tuple[Any, ...]
    options: dict[str, Any]


def stored(*args: Any, **options: Any) -> Any:
    """Give a column another name in the database, another type, or whatever else `sqlalchemy.Column` takes."""
    return _More(args, options)


class _TableClass(type):
    """Class of a class that SQLAlchemy takes for its table."""

    __table__: Table

    def __clause_element__(cls) -> Table:
        """Return the table."""
        return cls.__table__


class TableBase(metaclass=_TableClass):
    """A class with a `__tablename__` is a table; one without is a base of such classes, and has their `metadata`."""

    metadata: ClassVar[MetaData]
    __tablename__: ClassVar[str]
    #: indexes over several columns
    __indexes__: ClassVar[tuple[Index, ...]] = ()
    #: options of the table
    __options__: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        """Make the table of a class."""
        if "__tablename__" not in cls.__dict__:
            return
        columns = {
            name: _column(name, annotation, cls.__dict__.get(name, _More((), {})))
            for name, annotation in cls.__annotations__.items()
            if annotation.startswith("Stored[")
        }
        cls.__table__ = Table(cls.__tablename__, cls.metadata, *columns.values(), *cls.__indexes__, **cls.__options__)
        for name, column in columns.items():
            setattr(cls, name, column)


def _column(name: str, annotation: str, more: _More) -> Column[Any]:
    """Make the column with this annotation, such as `Stored[int | None]`."""
    kind = annotation.removeprefix("Stored[").removesuffix("]")
    args = list(more.args)
    in_database = args.pop(0) if args and isinstance(args[0], str) else name
    if not args:
        args = [_TYPES[kind.removesuffix(" | None")]]
    return Column(in_database, *args, key=name, nullable=kind.endswith(" | None"), **more.options)
