"""Empty SQLite stores for tests: the migrations run once in a process, and each store is a copy of what they made."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tesched_db import migrate


@cache
def _migrated() -> tuple[bytes, int]:
    """Return a store's file and its mode."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "store.sqlite"
        migrate.upgrade(f"sqlite:///{path}")
        return path.read_bytes(), path.stat().st_mode


def store_bytes() -> bytes:
    """Return the file of a store without rows, with this code's schema."""
    return _migrated()[0]


def empty_store(path: Path) -> str:
    """Write a store without rows to `path`, which has this code's schema; return its URL."""
    content, mode = _migrated()
    path.write_bytes(content)
    path.chmod(mode)
    return f"sqlite:///{path}"
