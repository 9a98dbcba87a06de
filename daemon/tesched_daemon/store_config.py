"""The table [store] of the configuration."""

from __future__ import annotations

from dataclasses import dataclass

from tesched_db.engine import parse_url, shown
from tesched_db.errors import StoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """Place of the state store."""

    #: an SQLAlchemy URL; SQLite or PostgreSQL
    url: str = "sqlite:////var/lib/tesched/tesched.sqlite"

    def __post_init__(self) -> None:
        """Raise ValueError for what is no URL of a store; whether there is one is not checked."""
        try:
            database = parse_url(self.url).database or ""
        except StoreError as error:
            raise ValueError(f"url: {error}") from None
        if "\0" in database:
            raise ValueError("url must be without the character NUL")

    def shown(self) -> str:
        """Return the URL without its passwords, for logs and screens."""
        return shown(self.url)
