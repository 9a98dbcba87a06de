"""Check that no other user can have written a configuration that was searched for.

A file in the current folder is read unasked. Where it is another user's, that user would say what root does there:
whose store is opened, which program notifies users. So a file that was searched for, each link on the way to it, and
conf.d beside it with its files are to belong to root or to the user who runs the command, and no other may write to
them.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections.abc import Callable
from pathlib import Path, PosixPath

from tesched_daemon.config_errors import ConfigError

#: Links that are followed to a file, as many as Linux does.
_MOST_LINKS = 40


class SearchedPath(PosixPath):
    """Path of a configuration that was searched for, or of what is read beside it."""


def descriptor(path: Path) -> int:
    """Open the file for reading. Raises ConfigError if another user may say what is in it, and OSError."""
    # What is opened is what is checked, whatever the folder's owner puts in its place meanwhile.
    # To open a pipe would else wait for its writer.
    return _opened(path, _followed(path), lambda status: _check(path, status), os.O_NOFOLLOW | os.O_NONBLOCK)


def file_descriptor(path: Path) -> int:
    """Open a file beside one that was named, also one that others may write to. Raises as `descriptor`."""
    return _opened(path, path, _any, os.O_NONBLOCK)


def named_descriptor(path: Path) -> int:
    """Open what was named, also a pipe, which is waited for, or a device. Raises as `descriptor`."""
    return _opened(path, path, _any, 0, waits=True)


def _any(_status: os.stat_result) -> None:
    """Any user may say what is in a file that was named."""


def _opened(
    path: Path, target: Path, check: Callable[[os.stat_result], None], flags: int, *, waits: bool = False
) -> int:
    opened = os.open(target, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | flags)
    try:
        status = os.fstat(opened)
        check(status)
        if not waits or stat.S_ISDIR(status.st_mode):
            _check_file(path, status)
    except BaseException:
        os.close(opened)
        raise
    return opened


def check(path: Path) -> None:
    """Raise ConfigError if another user may say what is there, and OSError."""
    _followed(path)


def distrusted(status: os.stat_result, us: int) -> str:
    """Reason that user `us` does not go by what has this status; empty if only this user and root can write it."""
    if status.st_uid not in {0, us}:
        return f"it belongs to {_user(status.st_uid)}"
    if stat.S_ISLNK(status.st_mode):
        return ""  # a link's mode says nothing
    if status.st_mode & stat.S_IWOTH:
        return "every user may write to it"
    if status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid, status.st_uid):
        return f"the group {_group(status.st_gid)} may write to it"
    return ""


def _followed(path: Path) -> Path:
    """Follow the links at the end of a path. Raises ConfigError for a step that is another user's."""
    step = path
    for _ in range(_MOST_LINKS):
        status = step.lstat()
        _check(path, status)
        if not stat.S_ISLNK(status.st_mode):
            return step
        step = step.parent / step.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _check(path: Path, status: os.stat_result) -> None:
    us = os.geteuid()
    if why := distrusted(status, us):
        mend = f"chmod go-w {path}, or " if status.st_uid in {0, us} else ""
        raise ConfigError(
            f"{path}: not used, since {why}, and what it says would be done as {_user(us)}; "
            f"{mend}name the configuration that is meant by --config FILE"
        )


def _check_file(path: Path, status: os.stat_result) -> None:
    """Raise ConfigError for a pipe and its like: to read one might never end."""
    if not stat.S_ISREG(status.st_mode):
        raise ConfigError(f"{path}: must be a file{', not a folder' if stat.S_ISDIR(status.st_mode) else ''}")


def _is_private(gid: int, uid: int) -> bool:
    """Check whether this is the group that has this user alone, as many systems give one to each user."""
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(uid)
    except KeyError:
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
