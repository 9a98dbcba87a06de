"""Files that the daemon keeps at paths which a site names: no other file there is written, replaced or removed.

Principle
    Such a file is known by its first word, or by being the very file that this process has put there, whatever another
    process has made of it since. An empty one holds nothing that could be lost. A path that leads to anything else is
    left as it is, and is never opened so that it could block.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC


class AnotherFileError(OSError):
    """The path leads to a file that is not the daemon's. `strerror` says what."""


def kind_of(mode: int) -> str:
    """Kind of file that a path leads to, by its mode: "a FIFO"."""
    return _KINDS.get(stat.S_IFMT(mode), "no file")


def obstacle(path: Path, word: str) -> str:
    """Obstacle at `path`: what is no file that begins with this word; empty where there is none, or such a file.

    Raises OSError where that cannot be seen.
    """
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return ""
    if not stat.S_ISREG(kind):
        return f"it is {kind_of(kind)}, where a file of tesched's own is to be"
    try:
        head = beginning(path, len(word) + 1)
    except FileNotFoundError:
        return ""  # removed meanwhile
    return "it is another file, which is left" if head and head != f"{word} ".encode() else ""


def new_beside(path: Path) -> Path:
    """Path of the file that is written first, and then takes the place of `path`."""
    return path.with_name(f".{path.name}.new")


@contextmanager
def opened(path: Path) -> Iterator[int]:
    """Give a file's descriptor for reading, without ever waiting. Raises OSError, also for what is no file."""
    try:
        handle = os.open(path, _READ)
    except OSError as error:
        if error.errno == errno.ELOOP and path.is_symlink():
            raise AnotherFileError(errno.ELOOP, "it is a symbolic link") from None
        raise
    try:
        found = os.fstat(handle).st_mode
        if not stat.S_ISREG(found):
            raise AnotherFileError(errno.EEXIST, f"it is {kind_of(found)}, not a file")
        yield handle
    finally:
        os.close(handle)


def beginning(path: Path, most: int) -> bytes:
    """Return so many bytes of a file at most, without ever waiting. Raises OSError, also for what is no file."""
    with opened(path) as handle:
        return os.read(handle, most)


@dataclass(kw_only=True)
class OwnFile:
    """One such file, which is replaced whole."""

    path: Path
    #: the configuration's key that names the path
    key: str
    #: the first word of the file
    word: str
    #: the file that this process has put there last, held open: so no other one gets its inode
    _written: int | None = field(default=None)

    def __del__(self) -> None:
        """Let the file that was held open go."""
        self._hold(None)

    def replace(self, text: str) -> None:
        """Put the text in place of the file before, at once for a reader. Raises OSError; what is another's is left."""
        self._refuse(self.path)
        new = new_beside(self.path)
        # An older one of a crash may be another user's link: it is never written through.
        if not new.is_symlink():
            self._refuse(new)
        new.unlink(missing_ok=True)
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
        try:
            with os.fdopen(handle, "w", encoding="ascii", closefd=False) as stream:
                os.fchmod(handle, 0o644)
                stream.write(text)
                stream.flush()
                os.fsync(handle)
            new.replace(self.path)
        except BaseException:
            os.close(handle)
            raise
        self._hold(handle)

    def remove(self) -> None:
        """Remove it, whichever process has written it. Raises OSError; what is another's is left."""
        self._refuse(self.path)
        self.path.unlink(missing_ok=True)
        self._hold(None)

    def _refuse(self, path: Path) -> None:
        if not self._is_written(path) and (why := obstacle(path, self.word)):
            where = "" if path == self.path else f"{path}, where it is written first: "
            raise AnotherFileError(errno.EEXIST, f"{where}{why}; name another path ({self.key})")

    def _is_written(self, path: Path) -> bool:
        """Check whether it is the very file that this process has put there."""
        if self._written is None:
            return False
        try:
            return os.path.samestat(path.lstat(), os.fstat(self._written))
        except FileNotFoundError:
            return False

    def _hold(self, handle: int | None) -> None:
        if self._written is not None:
            os.close(self._written)
        self._written = handle
