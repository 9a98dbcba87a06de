"""The files of a configuration: which they are, how they become one tree, and which of them gave a value.

After the main file those of `conf.d/` beside it are read, in the order of their names. Tables are merged key by key;
of two values the later one stays; a list takes the place of a list. Files that no user has named are read only if no
other user can have written them (`config_trust.py`).
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from tesched_daemon import config_trust
from tesched_daemon.config_errors import ConfigError, not_toml
from tesched_daemon.config_trust import SearchedPath

DEFAULT_PATH = Path("/etc/tesched/tesched.toml")
DROP_INS = "conf.d"
#: levels of tables and lists that are taken; the deepest key has six
_DEEPEST = 32
#: characters that are read of a file at most
_LARGEST = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """Content of the files together."""

    #: the main file first
    files: tuple[str, ...]
    values: dict[str, object] = field(default_factory=dict)
    #: of each value, by its dotted key, the file that gave it; those given last stand last
    origins: dict[str, str] = field(default_factory=dict)

    def blamed(self, key: str) -> str:
        """Return the file to check for an error at `key`.

        It is the one that gave the value; if the value is a default, the last one that gave anything near it.
        """
        parts = re.sub(r"\[\d+\]", "", key).split(".")
        for length in range(len(parts), 0, -1):
            part = ".".join(parts[:length])
            near = [file for known, file in self.origins.items() if known == part or known.startswith(f"{part}.")]
            if near:
                return near[-1]
        return self.files[0]


def layers(main: Path, *, waits: bool = True) -> list[tuple[str, dict[str, object]]]:
    """Return the files of a configuration, each with its name, the main one first. Raises ConfigError.

    With `waits` the main one may be a pipe, as of `<(command)`, whose writer is waited for; those beside it are files.
    """
    # The main file first: where it is missing, nothing is to be said of its folder.
    first = (str(main), read(main, waits=waits))
    return [first, *((str(each), read(each)) for each in drop_ins(main))]


def drop_ins(main: Path) -> list[Path]:
    """Return the files to read after the main one. Raises ConfigError for a conf.d that cannot be read."""
    folder = main.parent / DROP_INS
    try:
        if isinstance(folder, SearchedPath):
            config_trust.check(folder)
        names = sorted(entry.name for entry in folder.iterdir())
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        raise ConfigError(f"{folder}: must be a folder, whose *.toml files are read after {main}") from None
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be read: {error.strerror}; the daemon's user must be able to") from None
    # Editors keep copies of open files under names that begin with a dot.
    return [folder / name for name in names if name.endswith(".toml") and not name.startswith(".")]


def read(path: Path, *, waits: bool = False) -> dict[str, object]:
    """Read a configuration file; with `waits` also a pipe, whose writer is waited for. Raises ConfigError."""
    try:
        with _opened(path, waits=waits) as file:
            text = file.read(_LARGEST + 1)  # a device may have no end
    except FileNotFoundError:
        if path.is_symlink():
            raise ConfigError(f"{path}: a link to a file that does not exist") from None
        raise ConfigError(f"{path}: no such file; `tesched config example` prints one to start from") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: must be a file, not a folder") from None
    except UnicodeDecodeError as error:
        wrong = f"byte {error.start + 1} is no UTF-8; save the file as UTF-8"
        raise ConfigError(f"{path}: cannot be read: {wrong}") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}; the daemon's user must be able to") from None
    if len(text) > _LARGEST:
        raise ConfigError(f"{path}: must have {_LARGEST >> 20} MiB at most")
    return parse(text, str(path))


def _opened(path: Path, *, waits: bool) -> TextIO:
    """Open the file for reading, with or without the mark that some editors put before UTF-8."""
    if isinstance(path, SearchedPath):
        opened = config_trust.descriptor(path)
    else:
        opened = config_trust.named_descriptor(path) if waits else config_trust.file_descriptor(path)
    return os.fdopen(opened, encoding="utf-8-sig")


def parse(text: str, source: str) -> dict[str, object]:
    """Parse a configuration's text; `source` names it in errors. Raises ConfigError."""
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise _too_deep(source) from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: {not_toml(text, str(error))}") from None
    except ValueError:
        # Python reads numbers of some thousand digits at most.
        raise ConfigError(f"{source}: not valid TOML: a number must have fewer digits") from None
    # A table's header of many parts nests as deeply, and is read without recursion.
    level: list[object] = [values]
    for _ in range(_DEEPEST):
        level = [inner for each in level for inner in _inside(each)]
    if level:
        raise _too_deep(source)
    return values


def _inside(value: object) -> Iterable[object]:
    """Values in a list or table; none in another value."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _too_deep(source: str) -> ConfigError:
    return ConfigError(f"{source}: not valid TOML: lists and tables are nested too deeply")


def merged(files: Iterable[tuple[str, Mapping[str, object]]]) -> Tree:
    """Merge what the files, each with its name, say together."""
    files = list(files)
    tree = Tree(files=tuple(source for source, _ in files))
    for source, layer in files:
        _merge(tree.values, layer, "", source, tree.origins)
    return tree


def _merge(
    into: dict[str, object], layer: Mapping[str, object], prefix: str, source: str, origins: dict[str, str]
) -> None:
    for name, value in layer.items():
        key = f"{prefix}{name}"
        if not isinstance(value, dict):
            # What was given last is to stand last, and what was below it is gone.
            for old in [known for known in origins if known == key or known.startswith(f"{key}.")]:
                del origins[old]
            into[name], origins[key] = value, source
            continue
        inner = into.get(name)
        if not isinstance(inner, dict):
            origins.pop(key, None)
            inner = {}
            into[name] = inner
        _merge(inner, value, f"{key}.", source, origins)
