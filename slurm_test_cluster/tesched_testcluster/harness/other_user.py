"""Running this checkout's programs as another user, wherever the checkout stands.

A clone below /root or another home can be read by its owner alone, and so can a Python that was installed there. The
program then runs in a mount namespace of its own, in which the folders above are open; nothing outside is changed.
"""

from __future__ import annotations

import shlex
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
#: is covered in the namespace while the mounts are made
_STAGE = "/mnt"


def prefix(*paths: Path) -> list[str]:
    """Return the words before a command so that any user may reach the checkout, its Python, and these paths besides.

    None where all of that can be reached already. Needs root, as becoming another user does. PermissionError if the
    checkout or its Python itself, not a folder above, is closed to others.
    """
    own = {ROOT, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve()}
    for path in own:
        if not _is_open(path):
            raise PermissionError(f"other users may not enter {path}: chmod o+rx {path}")
    return words({*own, *(path.resolve() for path in paths)})


def words(paths: Iterable[Path]) -> list[str]:
    """Return the words for these paths, which are absolute and without links."""
    below = {path: [parent for parent in path.parents if not _is_open(parent)] for path in paths}
    closed = sorted({parents[-1] for parents in below.values() if parents})
    shown = sorted(path for path, parents in below.items() if parents)
    shown = [path for path in shown if not any(other in path.parents for other in shown)]
    if not closed:
        return []
    lines = ["set -e", "umask 022", f"mount -t tmpfs -o mode=755 none {_STAGE}"]
    for number, path in enumerate(shown):
        lines += [f"mkdir {_STAGE}/{number}", f"mount --bind {_quoted(path)} {_STAGE}/{number}"]
    lines += [f"mount -t tmpfs -o mode=755 none {_quoted(path)}" for path in closed]
    for number, path in enumerate(shown):
        lines += [f"mkdir -p {_quoted(path)}", f"mount --bind {_STAGE}/{number} {_quoted(path)}"]
    return ["unshare", "--mount", "--", "sh", "-c", "\n".join([*lines, 'exec "$@"']), "sh"]


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _is_open(folder: Path) -> bool:
    """Return whether others may go through the folder."""
    return bool(folder.stat().st_mode & stat.S_IXOTH)
