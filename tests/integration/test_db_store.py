"""How a store is made, opened, upgraded, shared, and what happens when it cannot be used."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, event, func, select, text
from tesched_core.model.journal_error import JournalError
from tesched_db import engine as engine_module
from tesched_db import migrate
from tesched_db import queries as read
from tesched_db.columns_there import check_columns
from tesched_db.engine import SCHEMA, make_engine, open_store, reading, writing
from tesched_db.errors import StoreError
from tesched_db.journal import SqlJournal
from tesched_db.tables import DaemonRow, JobRow
from tesched_testcluster.harness import private_postgresql
from tesched_testcluster.harness.private_postgresql import PrivatePostgresql
from tesched_testcluster.harness.store_examples import DOWN, Writer, job, report
from tesched_testcluster.patience import HANG_S

Opened = Callable[..., Engine]


def test_an_upgrade_makes_the_schema_that_the_code_knows(empty_url: str, opened: Opened) -> None:
    make_engine(empty_url, create=True).dispose()
    assert migrate.current(empty_url) is None
    assert migrate.upgrade(empty_url) == SCHEMA
    assert migrate.current(empty_url) == SCHEMA
    assert migrate.differences(opened(empty_url)) == []


def test_an_upgrade_of_what_is_up_to_date_changes_nothing(url: str, store: Engine) -> None:
    Writer(store).look(100.0, job(3))
    migrate.upgrade(url)
    assert len(read.jobs(store)) == 1


def test_a_schema_that_is_not_the_codes_is_recognised(store: Engine) -> None:
    with writing(store).begin() as connection:
        connection.execute(text("ALTER TABLE jobs ADD COLUMN mascot TEXT"))
        connection.execute(text("DROP INDEX ix_jobs_last_seen"))
    found = " ".join(migrate.differences(store))
    assert "mascot" in found
    assert "ix_jobs_last_seen" in found


def test_a_store_of_the_same_schema_that_lacks_a_column_is_reported(store: Engine) -> None:
    check_columns(store)
    with writing(store).begin() as connection:
        connection.execute(text("ALTER TABLE jobs DROP COLUMN elastic"))
    with pytest.raises(StoreError, match=r"jobs\.elastic.*made by another development version"):
        check_columns(store)


def test_the_code_knows_the_newest_migration(empty_url: str) -> None:
    engine = make_engine(empty_url, create=True)
    with engine.connect() as connection:
        assert ScriptDirectory.from_config(migrate.configuration(connection)).get_current_head() == SCHEMA
    engine.dispose()


def test_a_store_without_schema_says_what_to_type(empty_url: str) -> None:
    make_engine(empty_url, create=True).dispose()
    with pytest.raises(StoreError, match="empty; run `tesched db upgrade`"):
        open_store(empty_url)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ("0.1", r"older tesched \(schema 0.1\); run `tesched db upgrade`"),
        ("0.10", "newer tesched"),
        ("0019", r"before tesched's first release \(schema 0019\)"),
    ],
)
def test_a_store_of_another_release_is_not_used(url: str, store: Engine, found: str, words: str) -> None:
    with writing(store).begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :found"), {"found": found})
    with pytest.raises(StoreError, match=words) as caught:
        open_store(url)
    assert "tesched db upgrade" in str(caught.value)


def test_a_newer_store_is_not_upgraded(url: str, store: Engine) -> None:
    with writing(store).begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9.9'"))
    with pytest.raises(StoreError, match="newer tesched"):
        migrate.upgrade(url)


def test_a_store_from_which_no_migration_leads_is_not_upgraded(url: str, store: Engine) -> None:
    with writing(store).begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0.1'"))
    with pytest.raises(StoreError, match=r"no way from schema 0\.1"):
        migrate.upgrade(url)
    assert migrate.current(url) == "0.1"


def test_an_upgrade_that_fails_leaves_nothing(empty_url: str) -> None:
    engine = make_engine(empty_url, create=True)
    with writing(engine).begin() as connection:
        connection.execute(text("CREATE TABLE victims (something_else INTEGER)"))
    with pytest.raises(StoreError, match="cannot upgrade the state store"):
        migrate.upgrade(empty_url)
    assert migrate.current(empty_url) is None
    with engine.connect() as connection:
        assert engine.dialect.get_table_names(connection) == ["victims"]
    engine.dispose()


def test_a_store_error_is_what_the_daemon_catches() -> None:
    assert issubclass(StoreError, JournalError)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://somewhere/store", "not mysql"),
        ("no url at all: secret", "is not one of the form"),
        ("postgresql://tesched:secret@db:port/tesched", "the port .* is no number"),
        ("postgresql://tesched:secret@db:65536/tesched", "the port .* is no number"),
        ("postgresql://tesched:secret@db:0/tesched", "the port .* is no number"),
        ("postgresql://tesched:a@b:secret@db/tesched", "the port .* write %40 for @, %3A for :, "),
        ("sqlite://", "needs a path"),
        ("sqlite:///:memory:", "needs a path"),
        ("sqlite:////there/is/no/such/folder/store.sqlite", "does not exist; create it first"),
    ],
)
def test_a_wrong_url_is_a_clear_error(url: str, words: str) -> None:
    with pytest.raises(StoreError, match=words) as caught:
        make_engine(url)
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there_is_an_error_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot read the state store postgresql://tesched:\*\*\*@/store") as caught:
        open_store(f"postgresql://tesched:secret@/store?host={tmp_path}")
    assert "secret" not in str(caught.value)


def test_a_sqlite_store_is_for_its_owner_and_group_alone(tmp_path: Path, opened: Opened) -> None:
    url = f"sqlite:///{tmp_path}/store.sqlite"
    before = os.umask(0)
    try:
        migrate.upgrade(url)
        Writer(opened(url)).look(100.0, job(3))
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"store.sqlite": 0o640, "store.sqlite-wal": 0o640, "store.sqlite-shm": 0o640}


def test_a_sqlite_path_may_have_any_sign(tmp_path: Path, opened: Opened) -> None:
    folder = tmp_path / "50% #1 a b"
    folder.mkdir()
    url = f"sqlite:///{folder}/store.sqlite"
    migrate.upgrade(url)
    Writer(opened(url)).look(100.0, job(3))
    assert len(read.jobs(opened(url, read_only=True))) == 1
    assert (folder / "store.sqlite").exists()


def test_a_file_that_is_no_store_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, " * 100)
    with pytest.raises(StoreError, match="the file is not a state store"):
        migrate.upgrade(f"sqlite:///{path}")
    assert path.read_text() == "not a database, " * 100


def test_a_reader_of_a_store_that_is_not_there_makes_none(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no state store at"):
        make_engine(f"sqlite:///{tmp_path}/store.sqlite", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_may_only_be_read_takes_no_writes(url: str, store: Engine, opened: Opened) -> None:
    Writer(store).look(100.0, job(3))
    reader = opened(url, read_only=True)
    assert len(read.jobs(reader)) == 1
    with pytest.raises(StoreError, match=r"cannot write to the state store: .*read-?only"):
        Writer(reader).look(102.0, job(4))


# As root everything may be written, so it becomes another user once all is imported. In a process of its own: SQLite
# shares what it has open among all connections of a process.
_NOBODY = """
import os, sys
import sqlalchemy.dialects.sqlite.pysqlite
from tesched_db import queries as read
from tesched_db.engine import open_store
from tesched_db.errors import StoreError
from tesched_db.journal import Identity
from tesched_testcluster.harness.store_examples import Writer, job
Identity.here()
if os.geteuid() == 0:
    os.seteuid(65534)
print([view.job_id for view in read.jobs(open_store(sys.argv[1], read_only=True))])
try:
    Writer(open_store(sys.argv[1])).look(200.0, job(5))
except StoreError as error:
    print(error)
"""


def test_a_user_that_may_only_read_reads_beside_the_daemon_and_without_it(open_folder: Path) -> None:
    folder = open_folder
    url = f"sqlite:///{folder}/store.sqlite"

    def as_nobody() -> list[str]:
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", _NOBODY, url],
            cwd=Path(__file__).parents[2],
            text=True,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        folder.chmod(0o755)
        return done.stdout.splitlines()

    migrate.upgrade(url)
    engine = open_store(url)
    writer = Writer(engine)
    writer.look(100.0, job(3))
    writer.journal.resign()
    assert len(list(folder.iterdir())) == 3
    ids, error = as_nobody()
    assert ids == "[3]"
    assert "do it as that user" in error
    engine.dispose()
    # The write-ahead log went with the daemon, and a reader without rights cannot make one.
    assert [path.name for path in folder.iterdir()] == ["store.sqlite"]
    ids, error = as_nobody()
    assert ids == "[3]"
    assert "do it as that user" in error


def test_a_full_disk_is_an_error_and_the_store_stays_whole(tmp_path: Path, opened: Opened) -> None:
    url = f"sqlite:///{tmp_path}/store.sqlite"
    migrate.upgrade(url)
    store = make_engine(url)
    event.listen(store, "connect", lambda connection, _: connection.execute("PRAGMA max_page_count = 60").close())
    writer = Writer(store)
    writer.look(100.0, job(3))
    with pytest.raises(StoreError, match="the file system is full"):
        writer.look(102.0, *(job(number) for number in range(1, 2000)))
    store.dispose()
    other = opened(url)
    assert [view.job_id for view in read.jobs(other)] == [3]
    assert SqlJournal(other).load().cycle == 1


def test_a_locked_store_is_an_error_in_bounded_time(
    url: str, store: Engine, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    Writer(store).look(100.0, job(3))
    # PostgreSQL ends a connection that holds a lock for longer.
    monkeypatch.setattr(engine_module, "IDLE_S", HANG_S)
    holder, hurried = opened(url), opened(url, lock_wait_s=0.3)
    with hurried.connect() as connection:
        postgresql = store.dialect.name == "postgresql"
        bound = connection.exec_driver_sql("SHOW lock_timeout" if postgresql else "PRAGMA busy_timeout").scalar_one()
        assert bound == ("300ms" if postgresql else 300)
    impatient = Writer(hurried)
    with writing(holder).begin() as connection:
        connection.execute(select(DaemonRow).with_for_update())
        # The lock is there until this block ends: only the bound ends the wait.
        with pytest.raises(StoreError, match="lock"):
            impatient.look(102.0, job(3))
    impatient.memory = impatient.journal.load()
    impatient.look(104.0, job(3), job(4))
    assert len(read.jobs(store)) == 2


def test_a_reader_sees_one_instant_while_the_daemon_writes(url: str, store: Engine, opened: Opened) -> None:
    writer = Writer(store)
    writer.look(100.0, job(3))
    reader = opened(url, read_only=True)
    with reading(reader).connect() as connection:
        assert connection.scalar(select(func.count()).select_from(JobRow)) == 1
        writer.look(102.0, job(3), job(4))
        writer.journal.unseen(report(104.0, failure=DOWN))
        assert connection.scalar(select(func.count()).select_from(JobRow)) == 1
    assert len(read.jobs(reader)) == 2


def test_a_server_that_comes_back_is_used_again(store: Engine, request: pytest.FixtureRequest) -> None:
    if store.dialect.name != "postgresql":
        return
    writer = Writer(store)
    writer.look(100.0, job(3))
    server: PrivatePostgresql = request.getfixturevalue("postgresql")
    server.disconnect_everybody()
    writer.memory = writer.journal.load()
    writer.look(102.0, job(3), job(4))
    assert len(read.jobs(store)) == 2


_WRITER = """
import sys
from tesched_db.engine import open_store
from tesched_testcluster.harness.store_examples import Writer, job, notice, order, remembering, victim
writer = Writer(open_store(sys.argv[1]))
at = 100.0
while True:
    at += 1
    jobs = [job(number, priority=int(at)) for number in range(1, 200)]
    writer.look(at, *jobs, memory=remembering(order(int(at), 7, victim(3))), actions=[notice(3, 7, int(at))])
    print(int(at), flush=True)
"""


def test_a_daemon_killed_in_the_middle_of_writing_leaves_a_whole_store(url: str, store: Engine) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _WRITER, url], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
    ) as child:
        assert child.stdout is not None
        for _ in range(5):
            last = int(child.stdout.readline())
        child.kill()
    memory = SqlJournal(store).load()
    (found,) = memory.orders
    assert found >= last
    # The jobs, the order and the intent are all of the same cycle.
    assert {view.priority for view in read.jobs(store)} == {found}
    assert read.status(store).cycles[0].actions[0].order_id == found


def test_the_log_that_one_large_write_left_shrinks_with_small_ones_after_it(
    tmp_path: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "MOST_LOG_MIB", 1)
    url, log = f"sqlite:///{tmp_path}/store.sqlite", tmp_path / "store.sqlite-wal"
    migrate.upgrade(url)
    store = opened(url)
    with writing(store).begin() as connection:
        connection.execute(text("CREATE TABLE large (value BLOB)"))
        connection.execute(text("INSERT INTO large VALUES (zeroblob(40000000))"))  # above LOG_PAGES: copied at once
    assert log.stat().st_size > 40_000_000
    for _ in range(2):
        with writing(store).begin() as connection:
            connection.execute(text("INSERT INTO large VALUES (NULL)"))
    assert log.stat().st_size <= 2**20


def test_sqlite_is_sound_after_all_this(tmp_path: Path, opened: Opened) -> None:
    url = f"sqlite:///{tmp_path}/store.sqlite"
    migrate.upgrade(url)
    Writer(opened(url)).look(100.0, job(3))
    connection = sqlite3.connect(tmp_path / "store.sqlite")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    with opened(url).connect() as mine:
        assert mine.execute(text("PRAGMA foreign_keys")).scalar() == 1
        assert mine.execute(text("PRAGMA synchronous")).scalar() == 2


def test_without_a_postgresql_server_tests_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_postgresql, "_PLACES", ())
    monkeypatch.setenv("PATH", "")
    with (
        pytest.raises(private_postgresql.NoPostgresqlError, match="make install"),
        private_postgresql.private_postgresql(),
    ):
        pass
