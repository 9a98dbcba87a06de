"""The configuration: one TOML file, every key with a default, an unknown key an error.

The sections are the very dataclasses that the heart works with (`guard.Limits`, `classify.Classification`, …), so a key
means the same in the file, in the code and in the simulator. `systemd/tesched.toml` explains each one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
from tesched_core.classify import Classification
from tesched_core.guard import Limits
from tesched_core.policies import PolicyConfig
from tesched_slurm.clients import ClientChoice

from tesched_daemon.loop import Mode, Pace

DEFAULT_PATH = Path("/etc/tesched/tesched.toml")


class ConfigError(Exception):
    """The configuration cannot be used. The text names the file, the key, what is wrong and what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreConfig:
    """Where things are remembered."""

    #: an SQLAlchemy URL; SQLite or PostgreSQL
    url: str = "sqlite:////var/lib/tesched/tesched.sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmConfig:
    """How to reach Slurm."""

    client: ClientChoice = ClientChoice.AUTO
    #: slurm.conf; empty means what the environment (SLURM_CONF) or Slurm's own search says
    conf: str = ""
    #: seconds after which a call is given up
    timeout_s: float = 10.0

    def __post_init__(self) -> None:
        """Raise ValueError for a time-out that would hang the loop, or none."""
        if not 0.5 <= self.timeout_s <= 300:
            raise ValueError("timeout_s must be between 0.5 and 300 seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole file."""

    mode: Mode = Mode.SHADOW
    store: StoreConfig = StoreConfig()
    slurm: SlurmConfig = SlurmConfig()
    loop: Pace = Pace()
    policy: PolicyConfig = PolicyConfig()
    guard: Limits = Limits()
    classes: Classification = Classification()


def load(path: Path) -> Config:
    """Return the configuration in `path`. Raises ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file; `tesched config example` prints one to start from") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: cannot be read: {error}") from None
    return parse(text, str(path))


def parse(text: str, source: str) -> Config:
    """Return the configuration in `text`; `source` names it in errors. Raises ConfigError."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: not valid TOML: {error}") from None
    for complaint in _unknown_keys(tree, Config, ""):
        raise ConfigError(f"{source}: {complaint}")
    try:
        return msgspec.convert(tree, Config)
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at ")
        key = where.strip("`").removeprefix("$").removeprefix(".") or "top level"
        raise ConfigError(f"{source}: {key}: {what}") from None


def _unknown_keys(tree: Mapping[str, object], kind: type[Any], prefix: str) -> Iterator[str]:
    """Yield a complaint for each key that `kind` does not have. msgspec passes over them in dataclasses."""
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]
    for key, value in tree.items():
        if key not in names:
            near = get_close_matches(key, names, n=1, cutoff=0.6)
            hint = f"did you mean {prefix}{near[0]}?" if near else f"known here: {', '.join(names)}"
            yield f"{prefix}{key}: unknown key; {hint}"
            continue
        inner = _dataclass_in(hints[key])
        if inner is None:
            continue
        if isinstance(value, dict):
            yield from _unknown_keys(value, inner, f"{prefix}{key}.")
        elif isinstance(value, list):
            for position, item in enumerate(value):
                if isinstance(item, dict):
                    yield from _unknown_keys(item, inner, f"{prefix}{key}[{position}].")


def _dataclass_in(hint: object) -> type[Any] | None:
    """Return the dataclass that a field holds: itself, in a tuple, or beside None."""
    if isinstance(hint, type) and is_dataclass(hint):
        return hint
    if get_origin(hint) in {tuple, Union, UnionType}:
        return next((found for part in get_args(hint) if (found := _dataclass_in(part))), None)
    return None
