"""Common parts of the commands: the configuration, the state store, the printing.

Whatever a command prints goes through `Terminal` (tables and lines), `say` (plain lines) or `json_output.print_json`.
None of them takes text as markup, and none lets a control character of a user's text through to the terminal.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from sqlalchemy import Engine
from tesched_core.model.extra import Extra
from tesched_core.model.ranges import LONGEST_S
from tesched_core.model.told_error import ToldError
from tesched_core.model.visible import shortened, visible, visible_lines
from tesched_daemon.config_errors import ConfigError
from tesched_daemon.config_files import DEFAULT_PATH, DROP_INS
from tesched_daemon.config_lookup import NAME, VARIABLE, places, search
from tesched_daemon.config_trust import SearchedPath
from tesched_daemon.shown_config import ShownConfig, load_shown
from tesched_db.engine import open_store, parse_url
from tesched_db.errors import StoreError

from tesched_cli.access import missing_group
from tesched_cli.narrow_table import NarrowTable

if TYPE_CHECKING:
    from tesched_daemon.config import Config

T = TypeVar("T")

#: Characters of a name that are shown in a table; `--json` has all of it.
LONGEST_CELL = 24
#: Characters of a sentence of Slurm's, such as a reason, that are shown in a table.
LONGEST_TEXT = 60

#: Digits and other text of a name.
_PARTS = re.compile(r"([0-9]{1,18})|([^0-9]+)")
#: What a node may be called.
_NODE = re.compile(r"[\w.-]+", re.ASCII)

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


class Duration(click.ParamType[float]):
    """Seconds, from `90`, `90s`, `15m`, `2h` or `1d`; with `unit` the letter must be there."""

    name = "duration"

    def __init__(self, *, unit: bool = False) -> None:
        """Take a number alone for seconds, or, with `unit`, for a mistake."""
        self.unit = unit

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds."""
        found = re.fullmatch(r"([0-9]{1,9})([smhd]?)", str(value))
        if not found or int(found[1]) == 0 or (self.unit and not found[2]):
            self.fail(f"{value!r} is not a duration such as 90s, 15m, 2h or 1d", param, ctx)
        seconds = int(found[1]) * float(_UNITS[found[2] or "s"])
        if seconds > LONGEST_S:
            self.fail(f"{value!r} is above a hundred years", param, ctx)
        return seconds


class ConfigPath(click.Path):
    """The path of a configuration. Whether it may be read is checked later: the message names the group that may."""

    def __init__(self) -> None:
        """Make a path of what is typed."""
        super().__init__(path_type=Path, readable=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises BadParameter for an empty text, which as a path would be the current folder."""
        if value == "":
            self.fail("'' names no file", param, ctx)
        return super().convert(value, param, ctx)


class NumberRange(click.FloatRange):
    """A number in a range: nan is in none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Raises BadParameter for another one."""
        number: float = super().convert(value, param, ctx)
        if isnan(number):
            self.fail(f"{value!r} is no number", param, ctx)
        return number


def names_in(text: str) -> tuple[str, ...]:
    """Return the names that stand between commas, each once."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


#: The option by itself, for a command that says in its own way that there is no configuration: None if not named.
named_config_option = click.option(
    "--config",
    "config_path",
    type=ConfigPath(),
    envvar=VARIABLE,
    show_default=f"the first of ./{NAME}, ~/.config/tesched/{NAME}, {DEFAULT_PATH}",
    help=f"The configuration (environment: {VARIABLE}).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
iterate_option = click.option(
    "-i", "--iterate", "every_s", type=NumberRange(0.5, 86_400), default=2.0, help="Seconds between updates."
)


def config_option(command: Callable[..., T]) -> Callable[..., T]:
    """Give a command the path of its configuration, which is searched for where it is not named."""

    @wraps(command)
    def with_path(*args: Any, config_path: Path | None, **more: Any) -> T:
        return command(*args, config_path=config_path or search(), **more)

    return named_config_option(with_path)


def changing_config_option(command: Callable[..., T]) -> Callable[..., T]:
    """Add --config to a command that changes the state, which says on stderr that it goes by what was just found here.

    A first try's file in the current folder may be forgotten, and the site's be meant. That one needs no word.
    """

    @wraps(command)
    def with_path(*args: Any, config_path: Path | None, **more: Any) -> T:
        path = config_path or search()
        if config_path is None and isinstance(path, SearchedPath):
            words = next((place.words for place in places(os.environ) if place.path == path), "")
            say(f"configuration: {path} ({words})", err=True)
        return command(*args, config_path=path, **more)

    return named_config_option(with_path)


def configuration(path: Path) -> Config:
    """Return the configuration. Raises ConfigError; where the caller may not read it, with the group that may."""
    from tesched_daemon.config import load  # noqa: PLC0415 - imports each policy: see `shown_config`

    return loaded_by(load, path)


def shown_configuration(path: Path) -> ShownConfig:
    """Return the tables of a command that only shows the store. Raises ConfigError, as `configuration`."""
    return loaded_by(load_shown, path)


def loaded_by(load: Callable[[Path], T], path: Path, *, group_alone: bool = False) -> T:
    """Load the configuration. Raises ConfigError as `configuration`; `group_alone` is that of `missing_group`."""
    try:
        return load(path)
    except ConfigError:
        # Of one that was searched for, and is not used, the reason is said already.
        if not isinstance(path, SearchedPath) and (why := _forbidden(path, group_alone=group_alone)):
            raise ConfigError(why) from None
        raise


def _forbidden(path: Path, *, group_alone: bool) -> str:
    """Reason that the caller may not read one of the configuration's files; empty if nothing forbids it."""
    folder = path.parent / DROP_INS
    if why := missing_group(path, group_alone=group_alone):
        return why
    if folder.is_dir() and (why := missing_group(folder, folder=True, group_alone=group_alone)):
        return why
    parts = sorted(folder.glob("*.toml")) if folder.is_dir() else []
    return next(filter(None, (missing_group(part, group_alone=group_alone) for part in parts)), "")


@contextmanager
def store(path: Path) -> Iterator[Engine]:
    """Open the state store that the configuration in this file names. Raises ConfigError, and as `store_of`."""
    with store_of(shown_configuration(path)) as engine:
        yield engine


@contextmanager
def store_of(config: Config | ShownConfig) -> Iterator[Engine]:
    """Open the state store that a configuration names, for reading. Raises StoreError."""
    url = config.store.url
    try:
        engine = open_store(url, read_only=True)
    except StoreError:
        parsed = parse_url(url)
        if parsed.get_backend_name() == "sqlite" and (why := missing_group(Path(parsed.database or ""))):
            raise StoreError(why) from None
        raise
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def writable_store(path: Path) -> Iterator[Engine]:
    """Open the same store for writing. Raises ConfigError and JournalError."""
    engine = open_store(configuration(path).store.url)
    try:
        yield engine
    finally:
        engine.dispose()


class Terminal(Console):
    """A console that prints users' text as it is to be seen: no markup, no emoji codes, and each string on one line."""

    def __init__(self, *, width: int | None = None, stderr: bool = False) -> None:
        """Take the width, which else is the terminal's."""
        # Rich takes COLUMNS=0 at its word, and then prints nothing.
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        super().__init__(
            highlight=False,
            markup=False,
            emoji=False,
            soft_wrap=False,
            width=width or columns_of_environment(),
            stderr=stderr,
            _environ=environment,
        )

    def render_str(self, text: str, *args: Any, **more: Any) -> Text:
        """Return a string as it is printed, alone or in a cell."""
        return super().render_str(visible(text), *args, **more)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yield what is printed of a renderable; every text in it comes through here."""
        yield from super().render(_seen(self, renderable) if isinstance(renderable, Text) else renderable, options)


def _seen(console: Console, text: Text) -> Text:
    """Return the text with all of it visible, on one line, in its styles."""
    if visible(text.plain) == text.plain:
        return text
    parts = ((visible(part.text), part.style or "") for part in text.render(console) if not part.control)
    return Text.assemble(*parts, style=text.style, justify=text.justify, overflow=text.overflow, no_wrap=text.no_wrap)


def columns_of_environment() -> int | None:
    """Return COLUMNS; None if it is no positive number, which counts for nothing."""
    try:
        columns = int(os.environ.get("COLUMNS", ""))
    except ValueError:
        return None
    return columns if columns > 0 else None


def console() -> Terminal:
    """Return the terminal. In a pipe nothing is cut: lines are as wide as they need, or as COLUMNS says."""
    piped = Terminal()
    if piped.is_terminal or columns_of_environment():
        return piped
    return Terminal(width=200)


def capacity_of(terminal: Terminal) -> int | None:
    """Width that a line may have at most, in columns; None in a pipe, unless COLUMNS says it."""
    return terminal.width if terminal.is_terminal or columns_of_environment() else None


class MissingError(ToldError):
    """An option asks for a package that cannot be used. The text names both, and says what to do."""


def refuse_without(extras: Iterable[Extra], option: str) -> None:
    """Raise MissingError where a package that the option needs cannot be used."""
    for extra in extras:
        if why := extra.lacking():
            raise MissingError(f"{option} needs {why}")


def say(text: str, *, err: bool = False) -> None:
    """Print one line."""
    click.echo(visible(text), err=err)


def say_lines(text: str) -> None:
    """Print a text of ours, which has its own line feeds."""
    click.echo(visible_lines(text), nl=False)


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


def natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a key by which n2 comes before n10."""
    return [(bool(letters), int(digits or 0), letters) for digits, letters in _PARTS.findall(name)]


def hostlist(nodes: Sequence[str]) -> str:
    """Return the nodes folded: `n[1-3]`; what is no node's name is neither expanded nor resolved as a group."""
    if not all(map(_NODE.fullmatch, nodes)):
        return shortened(",".join(nodes), LONGEST_TEXT)
    if len(nodes) < 2:
        return "".join(nodes)
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet  # noqa: PLC0415 - needed where there are several nodes

    return str(NodeSet.fromlist(list(nodes), resolver=RESOLVER_NOGROUP))


class BoundedTable(NarrowTable):
    """A table with bounded cells in the columns of users' text: one long name spoils no line."""

    #: by column: whether it is one of users' text
    bounded: tuple[bool, ...] = ()

    def add_row(self, *cells: RenderableType | None, **more: Any) -> None:
        """Add a row."""
        pairs = zip(cells, self.bounded, strict=True)
        kept = (shortened(one, LONGEST_CELL) if bound and isinstance(one, str) else one for one, bound in pairs)
        super().add_row(*kept, **more)


def table(*columns: str, title: str = "") -> Table:
    """Make an empty table in squeue's plain style.

    A column that ends in `>` is aligned to the right; one that ends in `~` is a name that a user chose.
    """
    made = BoundedTable(box=None, pad_edge=False, title=title or None, title_justify="left", title_style="bold")
    for column in columns:
        made.add_column(
            column.rstrip(">~"),
            justify="right" if column.endswith(">") else "left",
            overflow="fold",
        )
    made.bounded = tuple(column.endswith("~") for column in columns)
    return made


def progress(things: Iterable[T], what: str, *, total: int | None = None) -> Iterator[T]:
    """Yield them, and show on a terminal how far it is, with an estimate; nothing in a pipe."""
    terminal = Terminal(stderr=True)
    if not terminal.is_terminal:
        yield from things
        return
    from rich.progress import (  # noqa: PLC0415 - needed on a terminal alone
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

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


def unread(label: str, user: str) -> str:
    """Name what an unreadable record is of: a job and its user, or a node or partition, which has none."""
    return f"job {label} of {user}" if user else label
