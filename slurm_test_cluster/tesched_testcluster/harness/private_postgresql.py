"""A PostgreSQL server of one's own: made, used and removed by the process that asks for it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from tesched_testcluster.patience import HANG_S, Patience

#: Where Debian and Red Hat put the server's programs, which are not on the path.
_PLACES = ("/usr/lib/postgresql", "/usr")


class NoPostgresqlError(Exception):
    """The server's programs are not installed."""


class PrivatePostgresql:
    """A running server, reached by its socket alone."""

    def __init__(self, folder: Path) -> None:
        """Take the folder that holds the server's socket."""
        #: where its socket is
        self.folder = folder
        self._count = 0

    def url(self, database: str) -> str:
        """Return the URL of a database for SQLAlchemy."""
        return f"postgresql://tesched@/{database}?host={self.folder}"

    def create(self, template: str = "template0") -> str:
        """Create a database, empty or as a copy of `template`; return its name."""
        self._count += 1
        name = f"store_{self._count}"
        with self._connect() as connection:
            connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"'.encode())
        return name

    def drop(self, database: str) -> None:
        """Remove a database, with all connections to it."""
        with self._connect() as connection:
            connection.execute(f'DROP DATABASE "{database}" WITH (FORCE)'.encode())

    def disconnect_everybody(self) -> None:
        """End every connection but the one that asks for it, as a restart would."""
        with self._connect() as connection:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

    def _connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(f"host={self.folder} user=tesched dbname=postgres", autocommit=True)

    def wait(self, server: subprocess.Popen[bytes]) -> None:
        """Wait until the server answers."""
        patience = Patience()
        while True:
            try:
                self._connect().close()
            except psycopg.OperationalError:
                if server.poll() is not None or patience.is_over():
                    raise
                time.sleep(0.05)
            else:
                return


@contextmanager
def private_postgresql(*, fsync: bool = False) -> Iterator[PrivatePostgresql]:
    """Give a new server, gone with all it holds at the end. Raises NoPostgresqlError.

    With `fsync` it waits for the disk, as a real one does.
    """
    programs = _programs()
    # Not pytest's folder: a socket's path may not be longer than about 100 characters.
    folder = Path(tempfile.mkdtemp(prefix="tesched-pg-"))
    # The server refuses to run as root.
    user = "postgres" if os.geteuid() == 0 else None
    if user:
        shutil.chown(folder, user)
    try:
        options = ["--pgdata=data", "--username=tesched", "--auth=trust", "--no-sync", "--no-locale", "--encoding=UTF8"]
        subprocess.run([programs / "initdb", *options], cwd=folder, user=user, check=True, capture_output=True)
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": folder,
            "fsync": "on" if fsync else "off",
            "shared_buffers": "32MB",
        }
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                [programs / "postgres", "-D", "data", *(f"--{name}={value}" for name, value in settings.items())],
                cwd=folder,
                user=user,
                stdout=log,
                stderr=log,
            )
        try:
            postgresql = PrivatePostgresql(folder)
            postgresql.wait(server)
            yield postgresql
        finally:
            # "Fast shutdown": does not wait for open connections.
            server.send_signal(signal.SIGINT)
            server.wait(timeout=HANG_S)
    finally:
        shutil.rmtree(folder)


def _programs() -> Path:
    """Return the folder of the server's programs, of the newest release if there are several."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    for place in _PLACES:
        pattern = "*/bin/initdb" if place.endswith("postgresql") else "pgsql-*/bin/initdb"
        found = sorted(Path(place).glob(pattern), key=lambda path: float(path.parts[-3].removeprefix("pgsql-")))
        if found:
            return found[-1].parent
    raise NoPostgresqlError("no PostgreSQL server is installed; `make install` installs what the tests need")
