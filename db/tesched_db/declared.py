"""Tables as classes, of SQLAlchemy's Core alone: its ORM takes longer to import than a command takes to run.

A class lists the columns of a table once, with the types of their values. On the class a column is a `Column`, for
queries; on a row (`tesched_db.rows.rows_of`) it is the value. `select`, `insert` and the like take the class itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar, overload

from sqlalchemy import JSON, BigInteger, Boolean, Column, Float, ForeignKey, Index, Integer, MetaData, Table
from sqlalchemy.types import TypeEngine

from tesched_db.checked import CheckedJson, CheckedValue
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


#: type of a key, and of what refers to one: SQLite counts rows up by itself only in a column declared INTEGER
KEY = BigInteger().with_variant(Integer, "sqlite")
#: types of columns by their annotations, with the types of their values
_VALUES: dict[str, tuple[TypeEngine[Any], tuple[type[Any], ...]]] = {
    "float": (Float(53), (int, float)),
    "int": (BigInteger(), (int,)),
    "str": (UserText(), (str,)),
}
#: shapes of JSON by the annotations of its columns
_SHAPES: dict[str, Any] = {
    "Any": Any,
    "dict[str, Any]": dict[str, Any],
    "dict[str, dict[str, int]]": dict[str, dict[str, int]],
    "dict[str, float]": dict[str, float],
    "dict[str, int | str]": dict[str, int | str],
    "list[Any]": list[Any],
    "list[dict[str, Any]]": list[dict[str, Any]],
    "list[dict[str, str]]": list[dict[str, str]],
    "list[str]": list[str],
    "list[tuple[int, str, float]]": list[tuple[int, str, float]],
}


class _More(NamedTuple):
    """What a column has besides its annotation."""

    args: tuple[Any, ...]
    options: dict[str, Any]
    holds: Any = None


def stored(*args: Any, holds: Any = None, **options: Any) -> Any:
    """Give a column another name in the database, another type, or whatever else `sqlalchemy.Column` takes.

    `holds` is the shape of JSON that its annotation alone does not say.
    """
    return _More(args, options, holds)


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
            name: _column(cls.__tablename__, name, annotation, cls.__dict__.get(name, _More((), {})))
            for name, annotation in cls.__annotations__.items()
            if annotation.startswith("Stored[")
        }
        cls.__table__ = Table(cls.__tablename__, cls.metadata, *columns.values(), *cls.__indexes__, **cls.__options__)
        for name, column in columns.items():
            setattr(cls, name, column)


def _column(table: str, name: str, annotation: str, more: _More) -> Column[Any]:
    """Make the column of this table with this annotation, such as `Stored[int | None]`."""
    kind = annotation.removeprefix("Stored[").removesuffix("]")
    nullable = kind.endswith(" | None")
    args = list(more.args)
    in_database = args.pop(0) if args and isinstance(args[0], str) else name
    refers = bool(args) and isinstance(args[0], ForeignKey)
    if refers or not args:
        named, kind = f"{table}.{in_database}", kind.removesuffix(" | None")
        args.insert(0, CheckedValue(named, KEY, int) if refers else _type(named, kind, more.holds, nullable=nullable))
    return Column(in_database, *args, key=name, nullable=nullable, **more.options)


def _type(column: str, kind: str, holds: Any, *, nullable: bool) -> TypeEngine[Any]:
    """Type of a column with values of this kind. Raises KeyError for one that no column has."""
    if kind == "bool":
        return Boolean()  # which takes whatever is there for true or false
    if kind in _VALUES:
        of, kinds = _VALUES[kind]
        return CheckedValue(column, of, *kinds)
    shape = holds or _SHAPES[kind]
    # Else None would be JSON's null, which is no NULL: a column that may not be NULL would take it.
    return CheckedJson(column, JSON(none_as_null=True), shape | None if nullable else shape)
