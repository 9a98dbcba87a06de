"""The clusters of this host: their folders, names and ports.

Each cluster has one folder below `root()`; its `cluster.json` says what runs in it. A claim is made under a lock, so
that clusters which start at the same moment get different ports.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from tesched_testcluster.cluster import ClusterError
from tesched_testcluster.definition import ClusterDefinition, local_port_count

#: names another folder for the clusters than the one below the system's folder for temporary files
ROOT_VARIABLE = "TESCHED_TESTCLUSTER_DIR"

_RECORD = "cluster.json"
#: ports below those that the kernel gives to outgoing connections
_FIRST_PORT, _LAST_PORT = 20_000, 32_000
#: longest path of a Unix socket that the kernel takes
_SOCKET_PATH_MAX = 107
_numbers = itertools.count(1)


class UnknownClusterError(ClusterError):
    """There is no cluster of that name."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of `cluster.json`."""

    definition: ClusterDefinition
    #: (22, 5) for Slurm 22.05
    release: tuple[int, int]
    first_port: int


def root() -> Path:
    """Return the folder of this user's clusters, which need not exist."""
    named = os.environ.get(ROOT_VARIABLE)
    return Path(named).absolute() if named else Path(tempfile.gettempdir()) / f"tesched-testcluster-{os.getuid()}"


def checked_name(name: str) -> str:
    """Return a cluster's name. ValueError if no folder should have it."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,39}", name):
        raise ValueError(f"a cluster is named by up to 40 lower-case letters, digits, - and _, not {name!r}")
    return name


def fresh_name() -> str:
    """Return a name that no other live process uses."""
    return f"p{os.getpid()}-{next(_numbers)}"


def names() -> tuple[str, ...]:
    """Return the names of all clusters that have a folder, in order."""
    if not root().is_dir():
        return ()
    return tuple(sorted(entry.name for entry in root().iterdir() if entry.is_dir() and entry.name[0] != "."))


def read(name: str) -> Record:
    """Return what is recorded of a cluster. UnknownClusterError if there is none of that name."""
    try:
        return msgspec.json.decode((root() / checked_name(name) / _RECORD).read_bytes(), type=Record)
    except FileNotFoundError:
        raise UnknownClusterError(f"no cluster is named {name} (there is: {', '.join(names()) or 'none'})") from None
    except msgspec.DecodeError as error:
        raise ClusterError(f"cluster {name} was started by another version of this program: {error}") from error


def claim(folder: Path, definition: ClusterDefinition, release: tuple[int, int]) -> int:
    """Make a new cluster's folder and record, and return the first of the ports that are now its own.

    ClusterError if the name is taken, the path too long for a socket, or no ports are free.
    """
    longest = folder / "run" / "munge.sock"
    if len(os.fsencode(longest)) > _SOCKET_PATH_MAX:
        raise ClusterError(f"{longest} is too long for a socket; set {ROOT_VARIABLE} to a shorter folder")
    with _lock(folder.parent):
        if folder.exists():
            raise ClusterError(f"cluster {folder.name} exists already; end it with: down {folder.name}")
        first_port = _free_ports(local_port_count(definition))
        record = Record(definition=definition, release=release, first_port=first_port)
        # Renamed when complete, so that a folder without its record never stands there.
        new = folder.with_name(f".{folder.name}")
        new.mkdir(mode=0o755, exist_ok=True)
        (new / _RECORD).write_bytes(msgspec.json.encode(record))
        new.rename(folder)
    return first_port


def _free_ports(count: int) -> int:
    """Return the first of `count` consecutive ports that no cluster has claimed and that are not in use."""
    taken: set[int] = set()
    for name in names():
        # One that cannot be read, or is just being removed, still listens on what it needs.
        with suppress(ClusterError):
            record = read(name)
            taken.update(range(record.first_port, record.first_port + local_port_count(record.definition)))
    # Clusters of one process get ports far from another's, and a new one does not begin where one has just ended:
    # clients of that may still be asking.
    span = _LAST_PORT - _FIRST_PORT
    start = (os.getpid() * 613 + next(_numbers) * 101) % span
    for step in range(0, span, 7):
        first = _FIRST_PORT + (start + step) % (span - count)
        wanted = range(first, first + count)
        if taken.isdisjoint(wanted) and all(map(_is_free, wanted)):
            return first
    raise ClusterError(f"no {count} consecutive free ports between {_FIRST_PORT} and {_LAST_PORT}")


def _is_free(port: int) -> bool:
    """Return whether a daemon could listen on this port, at whichever of the host's addresses."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Hold the lock of the clusters' folder, which is made if need be. ClusterError if it is another user's."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise ClusterError(f"{folder} belongs to another user; set {ROOT_VARIABLE} to a folder of your own")
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
