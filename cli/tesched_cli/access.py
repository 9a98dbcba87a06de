"""Reason for which a file of tesched's cannot be read: the group that may read it, and that the caller is not in."""

from __future__ import annotations

import grp
import os
import stat
from pathlib import Path


def missing_group(path: Path, *, folder: bool = False, group_alone: bool = False) -> str:
    """Return in one line which users may read `path`, if the caller may not; empty if nothing on the way forbids it.

    `folder` is for a folder that is to be listed, too. With `group_alone` it is empty where no group may.
    """
    whole = path.absolute()
    for step in (*reversed(whole.parents), whole):
        into = step != whole or folder
        wanted = (os.X_OK if into else 0) | (os.R_OK if step == whole else 0)
        try:
            status = step.stat()
        except OSError:
            return ""  # another complaint than this one
        if not os.access(step, wanted, effective_ids=True):
            needed = (stat.S_IXGRP if into else 0) | (stat.S_IRGRP if step == whole else 0)
            return _in_words(step, status, needed=needed, group_alone=group_alone)
    return ""


def _in_words(step: Path, status: os.stat_result, *, needed: int, group_alone: bool) -> str:
    if status.st_mode & needed != needed or _is_ours(status.st_gid):
        return "" if group_alone else f"you may not read {step}: ask the site's admins"
    return (
        f"you may not read {step}: only the group {_name(status.st_gid)!r} may, and you are not in it; "
        "ask the site's admins to add you, then log in again"
    )


def _is_ours(gid: int) -> bool:
    return gid in {os.getegid(), *os.getgroups()}


def _name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
