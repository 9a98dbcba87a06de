"""The file of the plugin preempt/tesched on this host, and of which release it is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

FILE = "preempt_tesched.so"
#: the release that the plugin carries
_BUILT_FOR = re.compile(rb"tesched-built-for=(\d+\.\d+\.\d+)")


def find_file(folders: Iterable[str]) -> Path | None:
    """Find the file in the order of slurmctld's search; None where this host has none."""
    return next((path for path in (Path(folder) / FILE for folder in folders) if path.is_file()), None)


def built_for(folders: Iterable[str]) -> str:
    """Return the release that the file was built for, as "22.05.8"; empty where that can't be read here."""
    path = find_file(folders)
    with suppress(OSError):
        found = _BUILT_FOR.search(path.read_bytes()) if path is not None else None
        return found[1].decode() if found else ""
    return ""
