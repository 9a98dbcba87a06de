"""Place of the configuration where neither --config nor TESCHED_CONFIG names it: the first file of three counts.

They are that in the current folder, the user's own and the site's, as for git and ruff. The first two may be another
user's: they are read only if they can be trusted (`config_trust.py`).
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tesched_daemon.config_errors import ConfigError
from tesched_daemon.config_files import DEFAULT_PATH
from tesched_daemon.config_trust import SearchedPath

VARIABLE = "TESCHED_CONFIG"
NAME = "tesched.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One file that may be the configuration."""

    path: Path
    #: what it is: "the current folder's"
    words: str


def places(environment: Mapping[str, str]) -> Iterator[Place]:
    """Yield the places of a configuration that is searched for, in this order."""
    try:
        here = SearchedPath.cwd() / NAME
    except OSError:
        pass  # the folder is gone
    else:
        if here != DEFAULT_PATH:
            yield Place(path=here, words="the current folder's")
    folder = _own_folder(environment)
    if folder is not None:
        yield Place(path=SearchedPath(folder / "tesched" / NAME), words="the user's own")
    yield Place(path=DEFAULT_PATH, words="the site's")


def search(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the configuration's path. Raises ConfigError, which names the places, if there is none."""
    tried = list(places(environment))
    for place in tried:
        if _is_there(place.path):
            return place.path
    where = ", ".join(str(place.path) for place in tried)
    raise ConfigError(
        f"there is no configuration: neither --config nor {VARIABLE} names one, and none of these exists: {where}; "
        "`tesched init` makes one in the current folder"
    )


def _own_folder(environment: Mapping[str, str]) -> Path | None:
    """Return the folder of the user's configurations; None if the user has none. Source: XDG Base Directory 0.8."""
    named = Path(environment.get("XDG_CONFIG_HOME", ""))
    if named.is_absolute():
        return named
    home = environment.get("HOME", "")
    if not home:
        try:
            home = pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            return None
    return Path(home) / ".config" if Path(home).is_absolute() else None


def _is_there(path: Path) -> bool:
    """Check whether there is such a file, or a link."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        # The site's may be closed to this user, who is shown that. Others are passed over: a command that root runs as
        # the daemon's user, by runuser, is in root's folder, and has root's HOME.
        return path == DEFAULT_PATH
    return True
