"""Files of a configuration that root can read and the daemon cannot: what root checks would be refused at its start.

The unit's folder belongs to root and is for the daemon's group (systemd/tesched.tmpfiles). A file that root makes there
has root's group, and by a umask of 077 or 027 no right for others. Root itself may read whatever is there, so that
`tesched config check` alone would find nothing.
"""

from __future__ import annotations

import grp
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tesched_daemon.config import Loaded
from tesched_daemon.config_files import DROP_INS

#: where the kernel keeps further users and groups that may read a file
_ACCESS_LIST = "system.posix_acl_access"


def unreadable(loaded: Loaded) -> Iterator[tuple[str, str]]:
    """Yield what a daemon in the folder's group could not read, each with what to do, where root checks it.

    A folder of root's group is no unit's: its daemon may run as root. A file of another user may be the daemon's own.
    """
    folder = Path(loaded.tree.files[0]).parent
    if os.geteuid() or not (gid := folder.stat().st_gid):
        return
    drop_ins = folder / DROP_INS
    for path in (*map(Path, loaded.tree.files), *([drop_ins] if drop_ins.exists() else [])):
        try:
            status, further = path.stat(), os.listxattr(path)
        except OSError:  # a pipe that has been read, or a file that is gone since
            continue
        if status.st_uid or _may_read(status, gid) or _ACCESS_LIST in further:
            continue
        group = _name(gid)
        text = f"{path}: the group {group} may not read it, as it may {folder}: a daemon that is in it cannot start"
        yield text, f"chgrp {group} {path}; chmod {'g+rx' if stat.S_ISDIR(status.st_mode) else 'g+r'} {path}"


def _may_read(status: os.stat_result, gid: int) -> bool:
    """Check whether the mode lets the group read the file, or enter and list the folder."""
    rights = status.st_mode >> 3 if status.st_gid == gid else status.st_mode
    needed = 0o5 if stat.S_ISDIR(status.st_mode) else 0o4
    return rights & needed == needed


def _name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
