"""What the commands share: the configuration, the state store, how things are printed."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from enum import Enum
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TypeVar

import click
from ClusterShell.NodeSet import NodeSet
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from sqlalchemy import Engine
from tesched_daemon.config import DEFAULT_PATH, Config, load
from tesched_db.engine import open_store

T = TypeVar("T")

#: Changes when a field of the JSON output changes its name or meaning.
JSON_VERSION = 1

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Duration(click.ParamType[float]):
    """Seconds, from `90`, `90s`, `15m`, `2h` or `1d`."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds."""
        found = re.fullmatch(r"(\d{1,9})([smhd]?)", str(value))
        if not found or int(found[1]) == 0:
            self.fail(f"{value!r} is not a duration such as 90s, 15m, 2h or 1d", param, ctx)
        return int(found[1]) * float(_UNITS[found[2] or "s"])


config_option = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    envvar="TESCHED_CONFIG",
    default=DEFAULT_PATH,
    show_default=True,
    help="The configuration (environment: TESCHED_CONFIG).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def configuration(path: Path) -> Config:
    """Return the configuration. Raises ConfigError."""
    return load(path)


@contextmanager
def store(path: Path) -> Iterator[Engine]:
    """Open the state store that the configuration names, for reading. Raises ConfigError and JournalError."""
    engine = open_store(configuration(path).store.url, read_only=True)
    try:
        yield engine
    finally:
        engine.dispose()


def console() -> Console:
    """Return the terminal. In a pipe nothing is cut: lines are as wide as they need, or as COLUMNS says.

    What its encoding lacks, such as a letter of a job's name in ASCII, becomes a question mark.
    """
    piped = Console(highlight=False, soft_wrap=False)
    if piped.options.ascii_only and isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    if piped.is_terminal or "COLUMNS" in os.environ:
        return piped
    return Console(highlight=False, width=200)


def print_json(command: str, data: Mapping[str, object]) -> None:
    """Print the data under a head that says what it is."""
    meta = {"command": command, "version": JSON_VERSION, "at": time.time()}
    click.echo(json.dumps({"meta": meta, **{key: plain(value) for key, value in data.items()}}, indent=2))


def plain(value: Any) -> Any:
    """Return the value as JSON has it: dataclasses as objects, sets sorted, enums by value."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(inner) for key, inner in value.items()}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, frozenset | set):
        return sorted(plain(inner) for inner in value)
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return value


def duration(seconds: float | None) -> str:
    """Return a duration as Slurm writes it: `D-HH:MM:SS`, `HH:MM:SS`, `MM:SS`."""
    if seconds is None:
        return "-"
    total = max(int(seconds), 0)
    days, rest = divmod(total, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, last = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{last:02}"
    return f"{hours:02}:{minutes:02}:{last:02}" if hours else f"{minutes:02}:{last:02}"


def clock(at: float | None) -> str:
    """Return a time of day, with the date if it is not today's."""
    if at is None:
        return "-"
    then = time.localtime(at)
    today = time.localtime()
    return time.strftime("%H:%M:%S" if then[:3] == today[:3] else "%Y-%m-%dT%H:%M:%S", then)


def hostlist(nodes: Sequence[str]) -> str:
    """Return the nodes folded: `n[1-3]`."""
    return str(NodeSet.fromlist(list(nodes))) if nodes else ""


def table(*columns: str, title: str = "") -> Table:
    """Return an empty table in squeue's plain looks; a column that ends in `>` is aligned to the right."""
    made = Table(box=None, pad_edge=False, title=title or None, title_justify="left", title_style="bold")
    for column in columns:
        right = column.endswith(">")
        made.add_column(column.rstrip(">"), justify="right" if right else "left", overflow="fold")
    return made


def progress(things: Iterable[T], what: str, *, total: int | None = None) -> Iterator[T]:
    """Yield them, and show on a terminal how far it is, with an estimate; nothing in a pipe."""
    terminal = Console(stderr=True)
    if not terminal.is_terminal:
        yield from things
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=terminal, transient=True) as bar:
        yield from bar.track(things, total=total, description=what)
