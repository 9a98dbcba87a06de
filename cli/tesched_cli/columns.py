"""Columns of `tesched jobs` and `tesched orders`, chosen and sorted as for squeue.

Definitions
    field    a value that can be shown of a row, by a name, and by squeue's letter where squeue has it
    format   squeue's -o ("%.18i %.9P %j"), or its -O ("jobid,user:10,class"): a text with a percent sign is the former
    sort     squeue's -S: letters or names with commas between them, each after + or -

Principle
    What is chosen is shown whole, or as wide as is chosen. The columns that are shown where none are chosen
    fit a terminal: long cells are shortened (they end in two dots), then whole columns are left out, the least
    important first. No cell goes on in another line. In a pipe nothing is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeAlias, TypeVar

import click
from rich.cells import cell_len, set_cell_size
from rich.text import Text
from tesched_core.model.visible import shortened, visible

R = TypeVar("R")

#: characters of the widest column that can be chosen
_WIDEST = 10_000
_DIRECTIVE = re.compile(r"%(\.?)(\d{0,5})(.?)", re.DOTALL)
_NAMED = re.compile(r"([a-z_-]+)(?::(\.?)(\d{1,5}))?", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnField(Generic[R]):
    """One value that can be shown of a row, and by which rows can be sorted."""

    #: its own name, which is its heading in upper case, and those that squeue has for it
    names: tuple[str, ...]
    #: squeue's letter; empty: squeue has none
    letter: str = ""
    heading: str = ""
    cell: Callable[[R], str]
    #: what rows are sorted by; None: by the cell
    key: Callable[[R], Any] | None = None
    right: bool = False
    #: characters that are shown where no column was chosen; 0: all
    most: int = 0
    #: a cell is shortened to so many characters at least, where the terminal is too narrow; 0: never
    least: int = 0
    #: the one with the greatest is left out first where a terminal is too narrow; 0: none is
    leave_out: int = 0

    @property
    def title(self) -> str:
        """Return its heading."""
        return self.heading or self.names[0].upper()


@dataclass(frozen=True, slots=True, kw_only=True)
class Column(Generic[R]):
    """One column of a format."""

    field: ColumnField[R]
    #: None: as wide as its widest cell
    width: int | None = None
    right: bool = False
    #: a text before and behind it, in a format of letters
    before: str = ""
    behind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format(Generic[R]):
    """The columns, in their order."""

    columns: tuple[Column[R], ...]
    #: it was given in letters: texts stand between the columns, and one without a width is as wide as its cell
    letters: bool = False
    #: no column was chosen: some may be left out
    default: bool = False


Fields: TypeAlias = Sequence[ColumnField[R]]


def default_format(fields: Fields[R], names: Sequence[str]) -> Format[R]:
    """Return the format of these fields, by name."""
    columns = tuple(Column(field=_named(fields, name), right=_named(fields, name).right) for name in names)
    return Format(columns=columns, default=True)


def read_format(text: str, fields: Fields[R]) -> Format[R]:
    """Read squeue's -o or -O. Raises BadParameter, which lists the fields."""
    return _of_letters(text, fields) if "%" in text else _of_names(text, fields)


def _of_letters(text: str, fields: Fields[R]) -> Format[R]:
    columns: list[Column[R]] = []
    end = 0
    for found in _DIRECTIVE.finditer(text):
        dot, digits, letter = found.groups()
        field = next((one for one in fields if one.letter and one.letter == letter), None)
        if field is None:
            raise _bad(found[0], fields)
        between, end = text[end : found.start()], found.end()
        if columns:
            columns[-1] = replace(columns[-1], behind=between)
        width = _width(found[0], digits) if digits else None
        columns.append(Column(field=field, width=width, right=bool(dot), before="" if columns else between))
    columns[-1] = replace(columns[-1], behind=text[end:])
    return Format(columns=tuple(columns), letters=True)


def _of_names(text: str, fields: Fields[R]) -> Format[R]:
    columns: list[Column[R]] = []
    for word in text.split(","):
        found = _NAMED.fullmatch(word.strip())
        if found is None:
            raise _bad(word.strip(), fields)
        field = _named(fields, found[1])
        width = _width(word, found[3]) if found[3] else None
        columns.append(Column(field=field, width=width, right=bool(found[2]) if width else field.right))
    return Format(columns=tuple(columns))


def _width(word: str, digits: str) -> int:
    if not 0 < int(digits) <= _WIDEST:
        raise click.BadParameter(f"{word!r}: a width must be from 1 to {_WIDEST}")
    return int(digits)


def _named(fields: Fields[R], name: str) -> ColumnField[R]:
    field = next((one for one in fields if name.lower() in one.names), None)
    if field is None:
        raise _bad(name, fields)
    return field


def _bad(word: str, fields: Fields[R]) -> click.BadParameter:
    return click.BadParameter(f"{word!r} is no field; right are {known(fields)}")


def known(fields: Fields[R]) -> str:
    """Return the fields with their letters, as help and errors have them."""
    return ", ".join(f"{one.names[0]} (%{one.letter})" if one.letter else one.names[0] for one in fields)


def read_sort(text: str, fields: Fields[R]) -> Callable[[Sequence[R]], list[R]]:
    """Read squeue's -S; return what sorts rows. Raises BadParameter, which lists the fields."""
    keys: list[tuple[ColumnField[R], bool]] = []
    for word in text.split(","):
        name = word.strip().removeprefix("%")
        down = name.startswith("-")
        name = name[1:] if name[:1] in {"+", "-"} else name
        by_letter = next((one for one in fields if one.letter and one.letter == name), None)
        keys.append((by_letter if by_letter is not None else _named(fields, name), down))

    def in_order(rows: Sequence[R]) -> list[R]:
        found = list(rows)
        for field, down in reversed(keys):
            value = field.key or field.cell
            there = [row for row in found if value(row) is not None]
            rest = [row for row in found if value(row) is None]  # what is not known comes last, either way
            found = [*sorted(there, key=value, reverse=down), *rest]
        return found

    return in_order


def listed(rows: Sequence[R], form: Format[R], *, header: bool, width: int | None) -> Iterator[Text]:
    """Yield the lines of a table."""
    cells = [[_shown(column.field, row, default=form.default) for column in form.columns] for row in rows]
    titles = [column.field.title for column in form.columns]
    if form.letters:
        lines = (_templated(line, form) for line in ([titles] if header else []) + cells)
    else:
        form, titles, cells = _fitting(form, titles, cells, width)
        lines = (_padded(line, form) for line in ([titles] if header else []) + cells)
    for place, line in enumerate(lines):
        yield Text(line.rstrip(), style="bold" if header and place == 0 else "")


def _shown(field: ColumnField[R], row: R, *, default: bool) -> str:
    cell = field.cell(row)
    return shortened(cell, field.most) if default and field.most else visible(cell)


def _templated(cells: Sequence[str], form: Format[R]) -> str:
    parts = (
        f"{visible(one.before)}{cell if one.width is None else _sized(cell, one.width, right=one.right)}"
        f"{visible(one.behind)}"
        for cell, one in zip(cells, form.columns, strict=True)
    )
    return "".join(parts)


def _padded(cells: Sequence[str], form: Format[R]) -> str:
    return " ".join(
        _sized(cell, one.width or 0, right=one.right) for cell, one in zip(cells, form.columns, strict=True)
    )


def _sized(cell: str, width: int, *, right: bool) -> str:
    length = cell_len(cell)
    if length >= width:
        return set_cell_size(cell, width)
    return f"{' ' * (width - length)}{cell}" if right else f"{cell}{' ' * (width - length)}"


def _fitting(
    form: Format[R], titles: list[str], cells: list[list[str]], width: int | None
) -> tuple[Format[R], list[str], list[list[str]]]:
    """Return the columns with their widths, and the cells, as they fit into a line of so many characters."""
    wide = [
        one.width or max(cell_len(cell) for cell in (title, *(line[place] for line in cells)))
        for place, (one, title) in enumerate(zip(form.columns, titles, strict=True))
    ]
    kept = list(range(len(wide)))
    narrow = list(wide)
    while width is not None and kept:
        narrow = _narrowed(form, kept, wide, width)
        if sum(narrow[place] for place in kept) + len(kept) - 1 <= width or not form.default:
            break
        last = max(kept, key=lambda place: form.columns[place].field.leave_out)
        if form.columns[last].field.leave_out == 0:
            break
        kept.remove(last)
    columns = tuple(replace(form.columns[place], width=narrow[place]) for place in kept)

    def fit(line: list[str]) -> list[str]:
        asked = (form.columns[place].width for place in kept)
        return [
            line[place]
            if own is not None or cell_len(line[place]) <= narrow[place]
            else _cut(line[place], narrow[place])
            for place, own in zip(kept, asked, strict=True)
        ]

    return replace(form, columns=columns), fit(titles), [fit(line) for line in cells]


def _narrowed(form: Format[R], kept: list[int], wide: list[int], width: int) -> list[int]:
    """Return the widths with long cells shortened, the widest first, until they fit or can't be shorter."""
    found = list(wide)
    over = sum(found[place] for place in kept) + len(kept) - 1 - width
    may = [place for place in kept if form.columns[place].width is None and form.columns[place].field.least]
    while over > 0:
        longer = [place for place in may if found[place] > form.columns[place].field.least]
        if not longer:
            break
        found[max(longer, key=found.__getitem__)] -= 1
        over -= 1
    return found


def _cut(cell: str, width: int) -> str:
    """Return as much of a cell as fits, which ends in two dots."""
    return shortened(cell, width) if len(cell) == cell_len(cell) else f"{set_cell_size(cell, width - 2).rstrip()}.."
