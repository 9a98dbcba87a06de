"""State stores of both kinds, each test its own, and a munged. What is missing fails and says how to install it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tesched_db import migrate
from tesched_db.engine import open_store
from tesched_testcluster.harness.empty_store import empty_store
from tesched_testcluster.harness.private_munged import private_munged
from tesched_testcluster.harness.private_postgresql import NoPostgresqlError, PrivatePostgresql, private_postgresql

_BOTH = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]


@pytest.fixture(scope="session")
def munged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Give the socket of the munged that the tests of one process share."""
    with private_munged(tmp_path_factory.mktemp("munge")) as path:
        yield path


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PrivatePostgresql]:
    """Give the PostgreSQL server that the tests of one process share."""
    try:
        with private_postgresql() as server:
            yield server
    except NoPostgresqlError as error:
        pytest.fail(str(error))


@pytest.fixture(scope="session")
def migrated(postgresql: PrivatePostgresql) -> str:
    """Give the name of a database with the schema in it and nothing else, to be copied."""
    name = postgresql.create()
    migrate.upgrade(postgresql.url(name))
    return name


@pytest.fixture(params=_BOTH)
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give the URL of a database without tables."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/empty.sqlite"
        return
    server: PrivatePostgresql = request.getfixturevalue("postgresql")
    name = server.create()
    yield server.url(name)
    server.drop(name)


@pytest.fixture(params=_BOTH)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give the URL of a store with nothing in it."""
    if request.param == "sqlite":
        yield empty_store(tmp_path / "store.sqlite")
        return
    server: PrivatePostgresql = request.getfixturevalue("postgresql")
    name = server.create(request.getfixturevalue("migrated"))
    yield server.url(name)
    server.drop(name)


@pytest.fixture
def opened() -> Iterator[Callable[..., Engine]]:
    """Give `open_store`; its engines are closed with the test."""
    engines: list[Engine] = []

    def opening(url: str, *, read_only: bool = False, lock_wait_s: float = 5.0) -> Engine:
        engines.append(open_store(url, read_only=read_only, lock_wait_s=lock_wait_s))
        return engines[-1]

    yield opening
    for engine in engines:
        engine.dispose()


@pytest.fixture
def store(url: str, opened: Callable[..., Engine]) -> Engine:
    """Give an open store with nothing in it."""
    return opened(url)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Give a folder that every user can get to: pytest closes its own anew when another worker makes its first."""
    with tempfile.TemporaryDirectory(prefix="tesched-open-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
