"""Types of columns whose values are checked where they are read, so that no reader finds one of another kind.

SQLite keeps whatever is put in a column, a word in one of numbers as well, and in JSON any shape is right. What another
version or another hand has left there is an error of the store (`errors.store_errors`), in one line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from sqlalchemy import Dialect, Text, TypeDecorator
from sqlalchemy.types import TypeEngine


class DamagedError(ValueError):
    """A record has a value of another kind than its column's."""


class _Checked(TypeDecorator[Any]):
    """Another type, with the name of its column for what is said of a wrong value."""

    impl = Text
    cache_ok = True

    def __init__(self, column: str, of: TypeEngine[Any]) -> None:
        """Take the column, with its table's name, and the type that it has in the database."""
        super().__init__()
        self.column, self.of = column, of
        self.impl = of  # type: ignore[assignment]  # of a class its class, of an instance its instance


class CheckedJson(_Checked):
    """JSON of one shape, read as it stands in the store."""

    cache_ok = True

    def __init__(self, column: str, of: TypeEngine[Any], shape: Any) -> None:
        """Take besides what `msgspec.convert` is to take each value for; None where it may be null."""
        super().__init__(column, of)
        self.shape = shape

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any]:
        """Reader of a value, which raises DamagedError for one of another shape."""
        read, column = super().result_processor(dialect, coltype), self.column
        # msgspec works out a shape anew at each call, but for that of a struct, which takes a quarter of the time.
        holds = msgspec.defstruct("Holds", [("value", self.shape)], array_like=True)

        def checked(held: Any) -> Any:
            if held is None:
                return None  # NULL: of a row that is not there, in an outer join
            value = held if read is None else read(held)
            try:
                msgspec.convert((value,), holds)
            except msgspec.ValidationError as error:
                said = str(error).replace("$[0]", "$", 1)
                raise DamagedError(f"{column}: {said}") from error
            return value

        return checked


class CheckedValue(_Checked):
    """Number or text, where the database does not hold its columns to their types."""

    cache_ok = True

    def __init__(self, column: str, of: TypeEngine[Any], *kinds: type[Any]) -> None:
        """Take besides the types that a value may have."""
        super().__init__(column, of)
        self.kinds = kinds

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[Any], Any] | None:
        """Reader of a value, which raises DamagedError for one of another type; NULL is not for it to judge."""
        if dialect.name != "sqlite":
            return super().result_processor(dialect, coltype)
        column, kinds = self.column, frozenset({*self.kinds, type(None)})

        def checked(value: Any) -> Any:
            # Once for each value of each row that is read.
            if type(value) in kinds:
                return value
            raise DamagedError(f"{column}: {value!r} is no {self.kinds[-1].__name__}")

        return checked
