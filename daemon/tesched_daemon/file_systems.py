"""Kind of the file system that a folder is on, by the list of mounts that Linux keeps for each process."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from tesched_daemon.bounded_read import bounded_read

MOUNTS = Path("/proc/self/mounts")
#: Those that other machines serve, by the beginnings of their types' names: nfs4, fuse.sshfs.
_NETWORK = (
    *("nfs", "lustre", "gpfs", "cifs", "smb", "beegfs", "ceph", "afs", "glusterfs", "pvfs2", "orangefs", "panfs"),
    *("ocfs2", "gfs2", "9p", "virtiofs", "wekafs", "coda", "davfs", "sshfs", "juicefs", "s3fs", "cvmfs2"),
)


def served_by(folder: Path) -> str:
    """Return the type of the network's file system that the folder is on; empty if it is a local one, or unknown.

    A link is followed, unless its file system does not answer.
    """
    with suppress(OSError):
        folder = bounded_read(folder.resolve)
    try:
        return network_type(folder, MOUNTS.read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError:
        return ""


def network_type(folder: Path, mounts: str) -> str:
    """Return the type of the file system that the folder is on, if it is one of a network; else nothing.

    `mounts` is what stands in /proc/self/mounts.
    """
    depth, found = -1, ""
    for line in mounts.split("\n"):
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = Path(_plain(words[1]))
        # Of two mounts at one place the later one is seen.
        if folder.is_relative_to(point) and len(point.parts) >= depth:
            depth, found = len(point.parts), words[2]
    return found if found.removeprefix("fuse.").startswith(_NETWORK) else ""


def _plain(text: str) -> str:
    r"""Return the text without the kernel's escapes: `\040` is a space."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
