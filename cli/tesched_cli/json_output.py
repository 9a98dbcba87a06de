"""What `--json` prints: one document a command, each of a class that says its keys, under a head that says its version.

    meta     {"command": "jobs", "version": 1, "at": 1767225600.0}: the command, the version, when it was made
    …        the fields of the command's class, below it

A class is made a document by `@document("jobs")`; `tesched schema jobs` and docs/reference/json are made from it. The
version rises by one when a key is removed or renamed, or its type or meaning changes, and then CHANGELOG says so. A key
that is added, or a word that a key may have besides, leaves it: a program passes over what it does not know.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar

import click

K = TypeVar("K", bound=type[Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """Head of a document."""

    #: the command: "jobs", "config show"
    command: str
    #: of this command's document; it rises when a key goes, or changes its name, type or meaning
    version: int
    #: when it was made, seconds since 1970
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What one command prints."""

    command: str
    version: int
    #: one class, or several of which each document is one
    classes: tuple[type[Any], ...] = ()


#: by command; a command's module fills its own in, or the one beside it that ends in `_json`
KINDS: dict[str, Kind] = {}
_KIND_OF: dict[type[Any], str] = {}


def document(command: str, *, version: int = 1) -> Callable[[K], K]:
    """Make a dataclass a document of this command. All of one command have one version."""

    def registered(kind: K) -> K:
        before = KINDS.get(command, Kind(command=command, version=version))
        if before.version != version:
            raise ValueError(f"{command}: its documents have versions {before.version} and {version}")
        KINDS[command] = Kind(command=command, version=version, classes=(*before.classes, kind))
        _KIND_OF[kind] = command
        return kind

    return registered


def print_json(said: Any) -> None:
    """Print a document under its head. KeyError for what `document` has not made one."""
    kind = KINDS[_KIND_OF[type(said)]]
    meta = Meta(command=kind.command, version=kind.version, at=time.time())
    write({"meta": plain(meta), **plain(said)})


def write(content: Mapping[str, Any]) -> None:
    """Print JSON. Tests put a check of the command's schema before it."""
    click.echo(json.dumps(content, indent=2))


def plain(value: Any) -> Any:
    """Return the value as JSON has it: dataclasses as objects, sets sorted, enums by value."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(inner) for key, inner in value.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, frozenset | set):
        return sorted(plain(inner) for inner in value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(inner) for inner in value]
    return value
