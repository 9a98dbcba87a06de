"""The accounting of a local cluster: a MariaDB and a slurmdbd of its own, on loopback, in the cluster's folder.

`local.py` starts them before slurmctld, and ends them with everything else that has the cluster's folder in its
environment. MariaDB takes connections by a socket in that folder and on the port of the cluster's placement.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from tesched_testcluster.definition import Placement

#: besides what every local cluster needs
PROGRAMS = ("mariadbd", "mariadb-install-db", "mariadb", "slurmdbd", "sacctmgr")


def install_command(folder: Path, user: str) -> tuple[str, ...]:
    """Return what makes an empty database below the cluster's folder."""
    return (
        "mariadb-install-db",
        "--no-defaults",
        f"--user={user}",
        f"--datadir={_data(folder)}",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
    )


def start_command(folder: Path, placement: Placement) -> tuple[str, ...]:
    """Return what starts MariaDB in the background. It reads `start_sql` first."""
    # The last three are what slurmdbd asks for, and what makes the start of an empty database quick.
    argv = (
        "mariadbd",
        "--no-defaults",
        f"--user={placement.slurm_user}",
        f"--datadir={_data(folder)}",
        f"--socket={_socket(folder)}",
        f"--pid-file={folder}/run/mariadb.pid",
        f"--bind-address={placement.storage_host}",
        f"--port={placement.storage_port}",
        f"--init-file={start_sql_path(folder)}",
        f"--log-error={folder}/log/mariadb.log",
        "--skip-name-resolve",
        "--innodb-lock-wait-timeout=900",
        "--innodb-flush-log-at-trx-commit=0",
        "--innodb-log-file-size=16M",
    )
    return "sh", "-c", f"{shlex.join(argv)} &"


def start_sql_path(folder: Path) -> Path:
    """Return where MariaDB finds its first statements."""
    return folder / "etc" / "start.sql"


def start_sql(placement: Placement) -> str:
    """Return the statements that give slurmdbd a database and a user."""
    return (
        "CREATE DATABASE IF NOT EXISTS slurm_acct_db;\n"
        f"CREATE OR REPLACE USER {placement.storage_user}@'%' IDENTIFIED BY '{placement.storage_password or ''}';\n"
        f"GRANT ALL ON slurm_acct_db.* TO {placement.storage_user}@'%';\n"
    )


def ping_command(placement: Placement) -> tuple[str, ...]:
    """Return what succeeds once slurmdbd can use its database: by its own address, user and right to make tables.

    slurmdbd waits for a connection, and ends for good at a table that it can't make.
    """
    return (
        "mariadb",
        "--no-defaults",
        "--protocol=tcp",
        f"--host={placement.storage_host}",
        f"--port={placement.storage_port}",
        f"--user={placement.storage_user}",
        f"--password={placement.storage_password or ''}",
        "--execute=CREATE OR REPLACE TABLE ping (id INT) ENGINE=InnoDB; DROP TABLE ping",
        "slurm_acct_db",
    )


def _data(folder: Path) -> Path:
    return folder / "mariadb"


def _socket(folder: Path) -> Path:
    return folder / "run" / "mariadb.sock"
