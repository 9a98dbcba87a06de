"""A page that a command writes: what certainly cannot be written is said before anything is run."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from tesched_core.model.told_error import ToldError

from tesched_cli.common import say

#: how a page begins
_BEGINS = b"<!doctype html"


class PageFileError(ToldError, ValueError):
    """A page that cannot be written. The text names the file, and what is wrong."""


def check_folder(path: Path) -> None:
    """Raise PageFileError for a file that certainly cannot be written."""
    if not path.parent.is_dir():
        raise PageFileError(f"{path}: cannot be written: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise PageFileError(f"{path}: cannot be written: Permission denied")
    if path.exists() and not _ends(path):
        raise PageFileError(f"{path}: this is no plain file; name another one")


def _ends(path: Path) -> bool:
    """Check whether a write to what is there ends: of a FIFO it waits for a reader, but for a pipe of the shell's."""
    mode = path.stat().st_mode
    if stat.S_ISFIFO(mode):
        # /dev/stdout in a pipeline leads to `pipe:[7]`, which is no name of a file.
        return not path.resolve().exists()
    return stat.S_ISREG(mode) or stat.S_ISCHR(mode)


def check_page(path: Path) -> None:
    """Raise PageFileError as `check_folder` does, and for a file that is no page: it may be a trace, or a script."""
    check_folder(path)
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            begins = file.read(len(_BEGINS))
    except OSError as error:
        raise PageFileError(f"--html {path}: cannot be read: {error.strerror}") from None
    if begins and begins.lower() != _BEGINS:
        raise PageFileError(f"--html {path}: this file is no page, and would be lost; name another one")


def write_file(path: Path, text: str) -> None:
    """Write a file, and say so on stderr. Raises PageFileError."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PageFileError(f"{path}: cannot be written: {error.strerror}") from None
    say(f"{path} is written", err=True)
