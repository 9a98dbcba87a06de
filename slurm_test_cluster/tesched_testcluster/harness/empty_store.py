"""Empty SQLite stores for tests: the migrations run once in a process, and each store is a copy of what they made."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tesched_db import migrate

#: as a store that `migrate.upgrade` makes
_MODE = 0o640


@cache
def store_bytes() -> bytes:
    """Return the file of a store without rows, with this code's schema."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        migrate.upgrade(f"sqlite:///{path}")
        assert path.stat().st_mode & 0o777 == _MODE
        return path.read_bytes()


def empty_store(path: Path) -> str:
    """Write a store without rows to `path`, which has this code's schema; return its URL."""
    path.write_bytes(store_bytes())
    path.chmod(_MODE)
    return f"sqlite:///{path}"
