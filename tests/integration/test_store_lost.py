"""The store's file is deleted, renamed or replaced under a daemon, and a second daemon begins on a new one."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tesched_core.model.actions import Status
from tesched_daemon.loop import Loop
from tesched_db import migrate
from tesched_db.engine import make_engine, open_store
from tesched_db.errors import StoreError
from tesched_db.journal import Identity, SqlJournal
from tesched_testcluster.harness.store_examples import Writer, job

from tests.loop_parts import Cluster, Notebook, loop_of

Opened = Callable[..., Engine]


def _url(path: Path) -> str:
    return f"sqlite:///{path}"


def _daemon(url: str, opened: Opened, cluster: Cluster, name: str = "first") -> Loop:
    """Return the loop of a daemon on the store; another name is another process on another host."""
    loop = loop_of(cluster, Notebook())
    identity = Identity.here()
    loop.journal = SqlJournal(opened(url), identity=replace(identity, host=name, place=name))
    return loop


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the file of a store with nothing in it."""
    folder = tmp_path / "lib"
    folder.mkdir()
    migrate.upgrade(_url(folder / "store.sqlite"))
    return folder / "store.sqlite"


def _delete(path: Path) -> None:
    path.unlink()


def _rename(path: Path) -> None:
    path.rename(path.with_name("away.sqlite"))


def _replace(path: Path) -> None:
    migrate.upgrade(_url(path.with_name("other.sqlite")))
    path.with_name("other.sqlite").replace(path)


def _move_the_directory(path: Path) -> None:
    path.parent.rename(path.parent.with_name("away"))


def _mount_over(path: Path) -> None:
    """Show another directory in the place of the store's, as after an unmount."""
    path.parent.rename(path.parent.with_name("away"))
    path.parent.mkdir()


def _delete_the_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


LOSSES = {
    "deleted": (_delete, "is gone"),
    "renamed": (_rename, "is gone"),
    "replaced": (_replace, "replaced by another file"),
    "directory moved": (_move_the_directory, "is gone"),
    "unmounted": (_mount_over, "is gone"),
    "log deleted": (_delete_the_log, "was deleted or replaced"),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_daemon_does_nothing_more_once_its_store_is_lost(path: Path, opened: Opened, loss: str) -> None:
    cluster = Cluster()
    loop = _daemon(_url(path), opened, cluster)
    assert not loop.turn().trouble
    assert cluster.acted
    cluster.acted.clear()
    lose, words = LOSSES[loss]
    lose(path)
    for _ in range(3):
        turn = loop.turn()
        assert words in turn.trouble
        assert "nothing is done" in turn.trouble
    assert not cluster.acted


@pytest.mark.parametrize("loss", LOSSES)
def test_a_store_that_is_lost_between_the_intent_and_an_action_stops_the_action(
    path: Path, opened: Opened, loss: str
) -> None:
    cluster = Cluster()
    loop = _daemon(_url(path), opened, cluster)
    lose, words = LOSSES[loss]

    def looking() -> None:
        if len(cluster.acted) == 1:
            lose(path)
            cluster.looking = lambda: None

    cluster.looking = looking
    turn = loop.turn()
    assert len(cluster.acted) == 1
    assert words in turn.trouble


def test_a_symbolic_link_that_is_turned_to_another_store_is_noticed(path: Path, opened: Opened, tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    migrate.upgrade(_url(other))
    link = tmp_path / "link.sqlite"
    link.symlink_to(path)
    cluster = Cluster()
    loop = _daemon(_url(link), opened, cluster)
    assert not loop.turn().trouble
    cluster.acted.clear()
    link.unlink()
    link.symlink_to(other)
    assert "replaced by another file" in loop.turn().trouble
    assert not cluster.acted


def test_of_two_daemons_the_one_with_a_moved_store_does_not_act(path: Path, opened: Opened) -> None:
    first, second = Cluster(), Cluster()
    old = _daemon(_url(path), opened, first)
    old.turn()
    _rename(path)
    assert migrate.upgrade(_url(path))
    new = _daemon(_url(path), opened, second, "second")
    assert not new.turn().trouble
    assert second.acted
    first.acted.clear()
    assert "replaced by another file" in old.turn().trouble
    assert not first.acted
    # Moved back, the store is the one that it knows, and the other daemon is the one that must not act.
    path.with_name("away.sqlite").replace(path)
    second.acted.clear()
    assert new.turn().trouble
    assert not second.acted


def test_a_store_that_is_put_back_is_used_again(path: Path, opened: Opened) -> None:
    cluster = Cluster()
    loop = _daemon(_url(path), opened, cluster)
    loop.turn()
    _rename(path)
    assert loop.turn().trouble
    path.with_name("away.sqlite").rename(path)
    turn = loop.turn()
    assert not turn.trouble
    assert not any(outcome.status is Status.SKIPPED for outcome in turn.outcomes)


def test_a_daemon_may_close_its_last_connection_and_open_another(path: Path, opened: Opened) -> None:
    """SQLite takes the log away with the last connection: that is no loss."""
    engine = opened(_url(path))
    writer = Writer(engine)
    writer.look(100.0, job(3))
    # Held open, so that the next log cannot happen to have the same inode.
    with Path(f"{path}-wal").open("rb") as log:
        engine.pool.dispose()
        assert os.fstat(log.fileno()).st_nlink == 0
        engine.pool = engine.pool.recreate()
        migrate.upgrade(_url(path))  # another process was there meanwhile
        writer.look(102.0, job(3), job(4))
        assert not writer.journal.lost()


def test_a_check_of_the_store_costs_next_to_nothing(path: Path, opened: Opened) -> None:
    calls = 0

    def counted(*arguments: object) -> None:
        nonlocal calls
        calls += 1

    journal = SqlJournal(opened(_url(path)))
    journal.load()
    sys.setprofile(counted)
    try:
        journal.lost()
    finally:
        sys.setprofile(None)
    assert calls < 60


class TestMaking:
    """The user that makes a store, and its owner."""

    def test_a_missing_store_is_not_made_by_opening_it(self, tmp_path: Path) -> None:
        for read_only in (True, False):
            with pytest.raises(StoreError, match="there is no state store at"):
                make_engine(_url(tmp_path / "store.sqlite"), read_only=read_only)
        assert list(tmp_path.iterdir()) == []

    def test_a_directory_is_no_store(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="is a directory"):
            open_store(_url(tmp_path))
        with pytest.raises(StoreError, match="is a directory"):
            migrate.upgrade(_url(tmp_path))

    def test_reading_leaves_nothing_behind(self, path: Path) -> None:
        for _ in range(2):
            engine = open_store(_url(path), read_only=True)
            engine.dispose()
            assert [each.name for each in path.parent.iterdir()] == [path.name]

    def test_a_reader_sees_what_a_daemon_writes_that_starts_after_it(self, path: Path, opened: Opened) -> None:
        reader = opened(_url(path), read_only=True)
        with reader.connect() as connection:
            assert not connection.exec_driver_sql("SELECT * FROM jobs").fetchall()
        Writer(opened(_url(path))).look(100.0, job(3))
        with reader.connect() as connection:
            assert len(connection.exec_driver_sql("SELECT * FROM jobs").fetchall()) == 1


# In a process of its own: SQLite shares what it has open among all connections of a process.
_AS_NOBODY = """
import os, sys
import sqlalchemy.dialects.sqlite.pysqlite
from tesched_db import lease, migrate
from tesched_db import queries as read
from tesched_db.engine import open_store
from tesched_db.errors import StoreError
from tesched_testcluster.harness.store_examples import Writer
os.setegid(65534)
os.seteuid(65534)
try:
    exec(sys.argv[2], {**globals(), "url": sys.argv[1]})
except StoreError as error:
    print(error)
"""


def _as_nobody(url: str, what: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _AS_NOBODY, url, what],
        cwd=Path(__file__).parents[2],
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
class TestOwner:
    """Root at the command line, beside a daemon with a user of its own."""

    @pytest.fixture
    def folder(self, open_folder: Path) -> Path:
        """Give a directory of an unprivileged user."""
        os.chown(open_folder, 65534, 65534)
        return open_folder

    def test_a_store_that_root_makes_belongs_to_the_directorys_owner(self, folder: Path) -> None:
        url = _url(folder / "store.sqlite")
        migrate.upgrade(url)
        assert {path.stat().st_uid for path in folder.iterdir()} == {65534}
        assert _as_nobody(url, "print(lease.pause(open_store(url), by='me', reason='', for_s=None).by)") == "me\n"

    def test_root_leaves_no_file_that_the_daemon_cannot_open(self, folder: Path) -> None:
        url = _url(folder / "store.sqlite")
        migrate.upgrade(url)
        reader, writer = open_store(url, read_only=True), open_store(url)
        try:
            Writer(reader).journal.load()
            Writer(writer).look(100.0, job(3))
            found = {path.name: path.stat().st_uid for path in folder.iterdir()}
            assert len(found) == 3
            assert set(found.values()) == {65534}
            assert _as_nobody(url, "print(len(read.jobs(open_store(url))))") == "1\n"
        finally:
            reader.dispose()
            writer.dispose()

    def test_another_user_may_not_write_and_sees_which_user_may(self, open_folder: Path) -> None:
        folder = open_folder
        folder.chmod(0o777)
        url = _url(folder / "store.sqlite")
        migrate.upgrade(url)
        (folder / "store.sqlite").chmod(0o666)
        me = pwd.getpwuid(0).pw_name
        said = _as_nobody(url, "open_store(url)")
        assert f"belongs to {me}: do it as that user, as in `runuser -u {me} -- tesched ...`" in said
        assert [path.name for path in folder.iterdir()] == ["store.sqlite"]

    def test_a_store_is_not_made_in_another_users_directory(self, folder: Path) -> None:
        os.chown(folder, 1, 1)
        folder.chmod(0o777)
        url = _url(folder / "store.sqlite")
        assert "do it as that user" in _as_nobody(url, "migrate.upgrade(url)")
        assert list(folder.iterdir()) == []
