"""Text of users, as every database takes it."""

from __future__ import annotations

from sqlalchemy import Dialect, Text, TypeDecorator


class UserText(TypeDecorator[str]):
    """Text that any user may have chosen.

    A job's name is whatever bytes its user typed. PostgreSQL takes no NUL and neither database takes what is not UTF-8,
    and one user must not be able to stop the store with a job name; such characters are written as escapes.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 (SQLAlchemy's)
        """Return the text that is stored."""
        return None if value is None else storable(value)


def storable(text: str) -> str:
    """Return the text as every database takes it: unchanged, unless it has a NUL or is not UTF-8."""
    if "\0" not in text:
        if text.isascii():
            return text
        try:
            text.encode()
        except UnicodeEncodeError:
            pass
        else:
            return text
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
