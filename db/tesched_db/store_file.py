"""The SQLite file behind an engine: still the one that was opened, and its owner.

SQLite goes on writing into a file that was deleted or renamed, and the next process finds another one, or
makes it. So the file's device and inode are kept from its opening, and compared with what the path names at the
beginning and the end of each transaction, and by the loop before each action (`Journal.lost`). The same holds for the
write-ahead log beside it, in which the newest writes are.
"""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path
from typing import TypeAlias

from sqlalchemy import Engine

from tesched_db.errors import StoreError

#: Device and inode: two paths that have both alike are one file.
Identity: TypeAlias = tuple[int, int]

#: Under which of an engine's options its file is found.
OPTION = "tesched_file"


class StoreFile:
    """One file, from its opening on."""

    def __init__(self, path: Path) -> None:
        """Take the file that the path names now. Raises StoreError if there is none, or it is no file."""
        self._path, self._log = path, Path(f"{path}-wal")
        self._identity = _identity(found(path))
        #: of the write-ahead log; None: it was not seen yet
        self._log_identity: Identity | None = None
        #: connections of this process; with the last one SQLite takes the log away
        self._connections = 0

    def connected(self) -> None:
        """Count one connection more."""
        self._connections += 1

    def disconnected(self) -> None:
        """Count one connection less."""
        self._connections -= 1
        if self._connections <= 0:
            self._log_identity = None

    def lost(self) -> str:
        """Reason that what is written now is not what the next process will read; empty if all is well."""
        try:
            now = _identity(self._path.stat())
        except OSError as error:
            return (
                f"the state store {self._path} is gone ({error.strerror}): it was deleted or renamed, or its file "
                "system is away; put it back, or restart tesched to begin with an empty one"
            )
        if now != self._identity:
            return f"the state store {self._path} was replaced by another file; restart tesched to go on with that one"
        try:
            log = _identity(self._log.stat())
        except FileNotFoundError:
            log = None
        except OSError as error:
            return f"the state store's log {self._log} cannot be checked: {error.strerror}"
        if self._log_identity is None:
            self._log_identity = log
        elif log != self._log_identity:
            return f"the state store's log {self._log} was deleted or replaced; restart tesched"
        return ""

    def check(self) -> None:
        """Raise StoreError if it is lost."""
        if why := self.lost():
            raise StoreError(why)


def lost(engine: Engine) -> str:
    """Reason that this engine's store is no longer the one that was opened; empty if all is well.

    A PostgreSQL server says so by itself: there a lost connection is a failed transaction.
    """
    file = engine.get_execution_options().get(OPTION)
    return file.lost() if isinstance(file, StoreFile) else ""


def found(path: Path) -> os.stat_result:
    """Status of the file that the path names. Raises StoreError if there is nothing, or no file."""
    try:
        status = path.stat()
    except FileNotFoundError as error:
        raise StoreError(f"there is no state store at {path}; `tesched db upgrade` makes one") from error
    except OSError as error:
        raise StoreError(f"cannot open the state store {path}: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        what = "a directory" if stat.S_ISDIR(status.st_mode) else "no regular file"
        raise StoreError(f"the state store {path} is {what}; store.url has to name a file")
    return status


def make(path: Path) -> bool:
    """Make the file if there is none, readable by its group; return whether it was made.

    It belongs to the directory's owner, the daemon's user: root gives it to that user, any other is refused. SQLite
    gives its other files the same owner and mode. Raises StoreError and OSError.
    """
    if path.exists():
        return False
    folder = path.parent.stat()
    us = os.geteuid()
    # A directory of root's, such as /tmp, says nothing of the user that runs the daemon.
    theirs = folder.st_uid not in {0, us}
    if theirs and us != 0:
        raise StoreError(_as_owner(f"cannot make a state store in {path.parent}, which", folder.st_uid))
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o640)
    except FileExistsError:
        return False
    try:
        if theirs:
            os.fchown(descriptor, folder.st_uid, folder.st_gid)
    finally:
        os.close(descriptor)
    return True


def check_owner(path: Path) -> None:
    """Raise StoreError where SQLite's files beside this one would not be its owner's: the owner could then not write.

    For root it makes them the owner's.
    """
    owner = found(path).st_uid
    if os.geteuid() not in {0, owner}:
        raise StoreError(_as_owner(f"cannot write to the state store {path}, which", owner))


def check_log(path: Path) -> None:
    """Raise StoreError where to read the store another user would have to make a file beside it.

    So it is after a copy that left out a part, and after a crash of the whole machine.
    """
    owner = found(path).st_uid
    may_make = os.geteuid() not in {0, owner} and os.access(path.parent, os.W_OK, effective_ids=True)
    if may_make and not Path(f"{path}-shm").exists():
        raise StoreError(_as_owner(f"cannot read the state store {path}, which was not closed and", owner))


def _as_owner(what: str, uid: int) -> str:
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = f"#{uid}"
    return f"{what} belongs to {name}: do it as that user, as in `runuser -u {name} -- tesched ...`"


def _identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino
