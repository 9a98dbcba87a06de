"""Entry point of each container of the Docker cluster: `python -m tesched_testcluster.docker_service SERVICE`.

Runs inside the image only, as root. `setup` comes first and alone: it writes what all others read, Slurm's
configuration, munge's key and the databases' passwords, into volumes. Every other service makes its own container
ready and then becomes the daemon, so that the daemon's end is the container's.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec

from tesched_testcluster.definition import (
    Account,
    Accounting,
    ClusterDefinition,
    NodeGroup,
    Placement,
    Qos,
    docker_placement,
    parse_release,
)
from tesched_testcluster.render import (
    all_device_names,
    further_files,
    render_cgroup_conf,
    render_gres_conf,
    render_slurm_conf,
    render_slurmdbd_conf,
    sacctmgr_commands,
)

#: holds the definition as JSON; without it the cluster is the default one
DEFINITION_VARIABLE = "TESCHED_CLUSTER"
#: holds the first three numbers of the addresses in the cluster's network
NET_VARIABLE = "TESCHED_NET"
DEFAULT_NODES = 4
#: the last number of a service's address, as in compose.yaml
SERVICE_ADDRESSES = {"slurmctld": 2, "slurmdbd": 3, "mariadb": 4, "postgresql": 5}
#: the last number of the first node's address; the others follow
FIRST_NODE_ADDRESS = 11
#: so many that the last ones are left to containers without a fixed address
MOST_NODES = 230

_TESCHED_CONFIG = Path("/etc/tesched/tesched.toml")
#: files with the databases' passwords, beside slurm.conf
_MARIADB_KEY_FILE = "mariadb.password"
_POSTGRESQL_KEY_FILE = "postgresql.password"
#: slurmdbd's container has it once the accounting is filled; compose.yaml checks for it
_FILLED = Path("/run/slurm/filled")
_MARIADB_DATA = Path("/var/lib/mysql")
_POSTGRESQL_DATA = Path("/var/lib/postgresql/data")
_START_TIMEOUT_S = 600.0
_PAUSE_S = 0.1


def docker_definition(nodes: int = DEFAULT_NODES) -> ClusterDefinition:
    """Return the usual cluster of `nodes` nodes, n1 and so on.

    Its QOS are `te` and `be`. alice and bob are ordinary users of the account `research`; tesched is an Operator.
    """
    qos = (Qos(name="be"), Qos(name="te", priority=100))
    account = Account(name="research", users=("root", "tesched", "alice", "bob"), qos=("be", "te"))
    return ClusterDefinition(
        groups=(NodeGroup(count=nodes),),
        # A node without its network must be missed soon.
        slurmd_timeout_s=10,
        accounting=Accounting(qos=qos, accounts=(account,), operators=("tesched",)),
    )


def main(arguments: list[str]) -> None:
    """Run the service that is named. SystemExit if there is none of that name."""
    name, *_ = *arguments, ""
    if name not in _SERVICES:
        raise SystemExit(f"unknown service {name!r}; there is {', '.join(_SERVICES)}")
    _write_hosts()
    _SERVICES[name]()


def addresses(definition: ClusterDefinition) -> dict[str, int]:
    """Return the last number of the address of each service and node. ValueError if there are too many nodes."""
    nodes = definition.node_names
    if len(nodes) > MOST_NODES:
        raise ValueError(f"the network has addresses for {MOST_NODES} nodes, not for {len(nodes)}")
    return SERVICE_ADDRESSES | {name: FIRST_NODE_ADDRESS + index for index, name in enumerate(nodes)}


def _write_hosts() -> None:
    """Put every address into /etc/hosts.

    Docker's name server forgets a container that has stopped, and slurmctld, which then asks it for minutes, gives no
    answers meanwhile. Docker writes the file again at each start of a container.
    """
    net = os.environ[NET_VARIABLE]
    with Path("/etc/hosts").open("a") as hosts:
        hosts.writelines(f"{net}.{last} {name}\n" for name, last in addresses(_definition()).items())


def _definition() -> ClusterDefinition:
    """Return the definition that the environment gives, or the default one."""
    given = os.environ.get(DEFINITION_VARIABLE)
    return msgspec.json.decode(given, type=ClusterDefinition) if given else docker_definition()


def _etc() -> Path:
    """Return the folder of Slurm's configuration, a volume that all services share."""
    return Path(docker_placement().etc)


def _setup() -> None:
    """Write the configuration of the whole cluster, once; a second start leaves it as it is."""
    etc = _etc()
    if (etc / "slurm.conf").exists():
        return
    definition = _definition()
    password = secrets.token_hex(16)
    placement = docker_placement(storage_password=password)
    release = parse_release(subprocess.run(["slurmctld", "-V"], capture_output=True, text=True, check=True).stdout)
    _write(etc / "munge.key", secrets.token_bytes(1024), 0o400)
    _write(etc / _MARIADB_KEY_FILE, password.encode(), 0o400)
    _write(etc / "slurmdbd.conf", render_slurmdbd_conf(definition, placement).encode(), 0o600)
    _write(etc / "gres.conf", render_gres_conf(definition, placement).encode(), 0o644)
    _write(etc / "cgroup.conf", render_cgroup_conf(release).encode(), 0o644)
    for name, text in further_files(definition).items():
        _write(etc / name, text.encode(), 0o644)
    store_password = secrets.token_hex(16)
    _write(etc / _POSTGRESQL_KEY_FILE, store_password.encode(), 0o400)
    _write(_TESCHED_CONFIG, _tesched_config(store_password).encode(), 0o640)
    shutil.chown(_TESCHED_CONFIG, group="tesched")
    # Last: where it stands, all the rest does.
    _write(etc / "slurm.conf", render_slurm_conf(definition, placement, release).encode(), 0o644)


def _tesched_config(store_password: str) -> str:
    """Return tesched's configuration: what it remembers is in PostgreSQL; a job's class is its QOS, or its name's.

    Jobs on a test cluster take seconds, so they may be notified at once.
    """
    return (
        'mode = "enforce"\n\n'
        "[store]\n"
        f'url = "postgresql+psycopg://tesched:{store_password}@postgresql/tesched"\n\n'
        "[loop]\n"
        "poll_interval_s = 0.5\n\n"
        "[guard]\n"
        "min_run_time_s = 0\n"
        "cool_down_s = 0\n"
        # No busy machine comes to these.
        "order_timeout_s = 600\n"
        "bind_for_s = 600\n"
        "retry_after_s = 5\n\n"
        "[classes]\n"
        "default_grace_period_s = 6\n\n"
        "[[classes.rules]]\n"
        'name = "trial and error"\n'
        'job_class = "te"\n'
        'match = { qos = ["te"] }\n\n'
        "[[classes.rules]]\n"
        'name = "debug-jobs"\n'
        'job_class = "te"\n'
        'match = { names = ["te-*"] }\n'
    )


def _run_slurmctld() -> NoReturn:
    placement = _start_munged()
    _make_folders(placement.log, placement.run, placement.state)
    _become("slurmctld", "-D")


def _run_node() -> NoReturn:
    """Become the slurmd of the node that has the container's name, with devices that stand for its GPUs."""
    placement = _start_munged()
    _make_folders(placement.log, placement.run, f"{placement.spool}/{socket.gethostname()}", placement.dev)
    for name in all_device_names(_definition()):
        device = Path(placement.dev) / name
        if not device.exists():
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
            device.chmod(0o666)
    _become("slurmd", "-D")


def _run_slurmdbd() -> NoReturn:
    """Become slurmdbd; a child fills it with QOS and accounts as soon as it answers."""
    placement = _start_munged()
    _make_folders(placement.log, placement.run)
    if not _FILLED.exists() and os.fork() == 0:
        _fill_accounting()
        os._exit(0)
    _become("slurmdbd", "-D")


def _fill_accounting() -> None:
    """Wait until slurmdbd answers, then create what the definition says."""
    deadline = time.monotonic() + _START_TIMEOUT_S
    while subprocess.run(["sacctmgr", "-n", "list", "cluster"], capture_output=True, check=False).returncode:
        if time.monotonic() > deadline:
            raise SystemExit("slurmdbd does not answer")
        time.sleep(_PAUSE_S)
    for call in sacctmgr_commands(_definition()):
        subprocess.run(["sacctmgr", *call], check=True)
    _FILLED.touch()


def _run_mariadb() -> NoReturn:
    _make_folders("/run/mysqld", str(_MARIADB_DATA), owner="mysql")
    if not (_MARIADB_DATA / "mysql").exists():
        subprocess.run(["mariadb-install-db", "--user=mysql", f"--datadir={_MARIADB_DATA}"], check=True)
    password = (_etc() / _MARIADB_KEY_FILE).read_text()
    start = Path("/run/mysqld/start.sql")
    _write(
        start,
        (
            "CREATE DATABASE IF NOT EXISTS slurm_acct_db;\n"
            f"CREATE OR REPLACE USER slurm@'%' IDENTIFIED BY '{password}';\n"
            "GRANT ALL ON slurm_acct_db.* TO slurm@'%';\n"
        ).encode(),
        0o400,
    )
    shutil.chown(start, "mysql")
    # The last two are what slurmdbd asks for: with snapshot isolation it may end at a conflict of two writes.
    _become(
        "mariadbd",
        "--user=mysql",
        "--bind-address=0.0.0.0",
        "--skip-name-resolve",
        f"--init-file={start}",
        "--innodb-snapshot-isolation=OFF",
        "--innodb-lock-wait-timeout=900",
    )


def _run_postgresql() -> NoReturn:
    _make_folders("/run/postgresql", str(_POSTGRESQL_DATA), owner="postgres")
    _POSTGRESQL_DATA.chmod(0o700)
    programs = max(Path("/usr/lib/postgresql").iterdir()) / "bin"
    if not (_POSTGRESQL_DATA / "PG_VERSION").exists():
        options = ("--auth-local=peer", "--auth-host=scram-sha-256", "--encoding=UTF8", "--no-instructions")
        subprocess.run([*_as("postgres"), f"{programs}/initdb", *options, str(_POSTGRESQL_DATA)], check=True)
        with (_POSTGRESQL_DATA / "pg_hba.conf").open("a") as rules:
            rules.write("host all all all scram-sha-256\n")
        password = (_etc() / _POSTGRESQL_KEY_FILE).read_text()
        sql = f"CREATE ROLE tesched LOGIN PASSWORD '{password}';\nCREATE DATABASE tesched OWNER tesched;\n"
        subprocess.run(
            [*_as("postgres"), f"{programs}/postgres", "--single", "-D", str(_POSTGRESQL_DATA), "postgres"],
            input=sql.encode(),
            check=True,
        )
    _become(*_as("postgres"), f"{programs}/postgres", "-D", str(_POSTGRESQL_DATA), "-c", "listen_addresses=*")


def _run_tesched() -> NoReturn:
    _start_munged()
    subprocess.run([*_as("tesched"), "tesched", "db", "upgrade", "--config", str(_TESCHED_CONFIG)], check=True)
    _become(*_as("tesched"), "tesched", "daemon", "--config", str(_TESCHED_CONFIG))


def _start_munged() -> Placement:
    """Start munged with the cluster's key; return where they are."""
    placement = docker_placement()
    _make_folders(str(Path(placement.munge_socket).parent), "/var/log/munge", "/var/lib/munge")
    # --force: it runs as root, for which its folders are otherwise too open.
    key = _etc() / "munge.key"
    subprocess.run(["munged", "--force", f"--key-file={key}", f"--socket={placement.munge_socket}"], check=True)
    return placement


def _make_folders(*paths: str, owner: str = "root") -> None:
    """Make folders that every user may enter."""
    for path in map(Path, paths):
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o755)
        shutil.chown(path, owner)


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a new file that no other user may read before it has its mode."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(content)
    path.chmod(mode)


def _as(user: str) -> tuple[str, ...]:
    """Return what to put before a command that shall run as `user`."""
    return ("setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups")


def _become(program: str, *arguments: str) -> NoReturn:
    """Turn this process into another program."""
    os.execvp(program, [program, *arguments])  # noqa: S606 - no shell is wanted


_SERVICES: dict[str, Callable[[], None]] = {
    "setup": _setup,
    "mariadb": _run_mariadb,
    "postgresql": _run_postgresql,
    "slurmdbd": _run_slurmdbd,
    "slurmctld": _run_slurmctld,
    "node": _run_node,
    "tesched": _run_tesched,
}

if __name__ == "__main__":
    main(sys.argv[1:])
