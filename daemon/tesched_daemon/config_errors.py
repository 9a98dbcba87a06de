"""Messages for a configuration that cannot be used: the file, the key, and what would be right there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tesched_core.model.told_error import ToldError

#: Values that may hold a password: they are not repeated.
SECRET = frozenset({"store.url"})
#: longest value that an error repeats
_SHOWN = 60
#: what would be right, by the beginning of what tomllib says
_TOML_HINTS = (
    ("Invalid value", "texts stand in quotes, true, false and numbers without"),
    ("Expected newline", "one key = value stands on a line; texts stand in quotes"),
    ("Expected '=' after", "a line reads key = value, or [table]"),
    ("Invalid statement", "a line reads key = value, or [table]"),
    ('Expected "\'"', "the quotes that close it are missing"),
    ("Unterminated", "the quotes that close it are missing"),
    ("Unescaped", r"write \\ for it, or put the text in 'single quotes'"),
    ("Cannot overwrite", "a key stands once in its table"),
    ("Cannot declare", "put both parts of the table into one"),
)
#: how a complaint of a table without one of its keys begins
LACKS = "lacks the key"
_INDEX = re.compile(r"\[(\d+)\]")


def keys_of(kind: type[Any]) -> Mapping[str, Any]:
    """Return the keys of a table with their types; a policy's class has other attributes besides."""
    hashable: Any = kind
    return _keys_of(hashable)


@cache
def _keys_of(kind: Any) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


class ConfigError(ToldError):
    """The configuration cannot be used. The text names the file, the key, what is wrong and what would be right."""

    def __init__(self, text: str, others: Sequence[str] = ()) -> None:
        """Take the first complaint, and the others of the same check: the text counts these."""
        more = f"; {len(others)} more complaint(s), which `tesched config check` has" if others else ""
        super().__init__(f"{text}{more}")
        #: each complaint by itself, the first one first
        self.every = (text, *others)


def unknown_keys(tree: Mapping[str, object], kind: type[Any], prefix: str = "") -> Iterator[str]:
    """Yield a complaint for each key that `kind` does not have. msgspec passes over them in dataclasses."""
    yield from _unknown(tree, kind, prefix, (kind, prefix))


def _unknown(tree: Mapping[str, object], kind: type[Any], prefix: str, root: tuple[type[Any], str]) -> Iterator[str]:
    hints = keys_of(kind)
    for key, value in tree.items():
        if key not in hints:
            # In a table below this one first: a rule's max_gpus belongs into its match.
            known = [*_all_keys(kind, prefix), *_all_keys(*root)]
            yield f"{prefix}{_bare(key)}: unknown key; {_meant(key, [*hints], prefix, known)}"
            continue
        inner = _table_in(hints[key])
        if inner is None:
            continue
        if isinstance(value, dict):
            yield from _unknown(value, inner, f"{prefix}{key}.", root)
        elif isinstance(value, list):
            for position, item in enumerate(value):
                if isinstance(item, dict):
                    yield from _unknown(item, inner, f"{prefix}{key}[{position}].", root)


def _meant(key: str, here: Sequence[str], prefix: str, elsewhere: Sequence[str]) -> str:
    """Guess what was probably meant: the same name in another table, or a similar one in this."""
    for known in elsewhere:
        if known.rpartition(".")[2] == key:
            return f"did you mean {known}?"
    near = get_close_matches(key, here, n=1, cutoff=0.6)
    return f"did you mean {prefix}{near[0]}?" if near else f"known here: {', '.join(here)}"


def _all_keys(kind: type[Any], prefix: str) -> Iterator[str]:
    for name, hint in keys_of(kind).items():
        yield f"{prefix}{name}"
        # The tables of a list are left out: which of them would be meant?
        if isinstance(hint, type) and is_dataclass(hint):
            yield from _all_keys(hint, f"{prefix}{name}.")


def _bare(key: str) -> str:
    """Return the key as it stands in a file, on one line."""
    return key if re.fullmatch(r"[\w-]+", key) else toml(key)


def toml(value: object) -> str:
    """Return the value as a TOML file has it, on one line. Empty and absent parts of a table are left out."""
    if isinstance(value, Enum):
        return toml(value.value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_dataclass(value) and not isinstance(value, type):
        return toml({field.name: getattr(value, field.name) for field in fields(value)})
    if isinstance(value, Mapping):
        inner = [f"{_bare(key)} = {toml(part)}" for key, part in value.items() if not _empty(part)]
        return f"{{ {', '.join(inner)} }}" if inner else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml(part) for part in value)}]"
    return str(value)


def _empty(value: object) -> bool:
    return value is None or value == () or toml(value) == "{}"


def right_form(hint: object) -> str:
    """Form of a value of this type in the file, in words to come after "must be"."""
    hint = _given(hint)
    if isinstance(hint, UnionType) or get_origin(hint) is Union:
        return " or ".join(right_form(part) for part in get_args(hint))
    if get_origin(hint) is Literal:
        return " or ".join(toml(word) for word in get_args(hint))
    if isinstance(hint, type):
        if issubclass(hint, Enum):
            return f"one of {', '.join(toml(word) for word in hint)}"
        if is_dataclass(hint):
            return f"a table with keys of {', '.join(field.name for field in fields(hint))}"
        simple = {bool: "true or false", int: "a whole number", float: "a number", str: 'a text in quotes ("…")'}
        return simple[hint]
    element = get_args(hint)[0]
    return "a list of tables" if _table_in(element) else 'a list of texts (["…", "…"])'


def hint_at(kind: type[Any], key: str) -> object:
    """Return the type of what stands at `key` ("classes.rules[0].match.users[1]") in a configuration of this kind."""
    hint: object = kind
    for part in filter(None, key.split(".")):
        name, *positions = _INDEX.sub(r".\1", part).split(".")
        if not isinstance(hint, type):
            raise TypeError(f"{key}: {hint} has no keys")
        hint = _given(keys_of(hint)[name])
        for _ in positions:
            hint = _given(get_args(hint)[0])
    return hint


def value_at(tree: Mapping[str, object], key: str) -> object:
    """Value that the files have at `key`; None if they have none, which TOML cannot say."""
    value: object = tree
    for part in _INDEX.sub(r".\1", key).split("."):
        if isinstance(value, Mapping):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def without(tree: Mapping[str, object], key: str) -> Mapping[str, object] | None:
    """Return the tree without what stands at the key; without the whole list, if that is a part of one.

    None: nothing stands there.
    """
    # Else the tables that follow it in the list would have other numbers.
    key = re.sub(r"\[\d+\]$", "", key)
    name, _, rest = _INDEX.sub(r".\1", key).partition(".")
    return None if not name else _without(tree, [name, *filter(None, rest.split("."))])


def _without(tree: Mapping[str, object], path: Sequence[str]) -> Mapping[str, object] | None:
    name, *below = path
    value = tree.get(name)
    if value is None:
        return None
    if not below:
        return {key: part for key, part in tree.items() if key != name}
    if isinstance(value, list) and below[0].isdecimal() and int(below[0]) < len(value) and below[1:]:
        at = int(below[0])
        inner = _without(value[at], below[1:]) if isinstance(value[at], Mapping) else None
        return None if inner is None else {**tree, name: [*value[:at], inner, *value[at + 1 :]]}
    inner = _without(value, below) if isinstance(value, Mapping) else None
    return None if inner is None else {**tree, name: inner}


def in_words(text: str, kind: type[Any], tree: Mapping[str, object]) -> tuple[str, str]:
    """Return the key at which msgspec stumbled, and what would be right there.

    `text` is msgspec's: "Expected `float`, got `str` - at `$.guard.cool_down_s`". What a dataclass itself complains of
    begins with its key: "cool_down_s must be …", or "cool_down_s: …".
    """
    # What the whole file's own check complains of has no place.
    what, at, where = text.rpartition(" - at `$")
    what = what if at else text
    key = "" if not at else where.strip("`").removeprefix(".")
    hint = hint_at(kind, key)
    lacks = re.fullmatch(r"Object missing required field `(\w+)`", what)
    own = re.match(r"([a-z_]\w*)[\w.\[\]]*", what)
    if lacks and isinstance(hint, type):
        return key, f"{LACKS} {lacks[1]}: {right_form(keys_of(hint)[lacks[1]])}"
    if own and isinstance(hint, type) and is_dataclass(hint) and own[1] in keys_of(hint):
        key = f"{key}.{own[0]}".removeprefix(".")
        what = what.removeprefix(own[0]).removeprefix(":").strip()
    else:
        what = f"must be {right_form(hint)}"
    found = value_at(tree, key)
    if found is None or key in SECRET or isinstance(found, dict | list):
        return key, what
    shown = toml(found)
    return key, f"{what}, not {shown if len(shown) <= _SHOWN else shown[: _SHOWN - 1] + '…'}"


def not_toml(text: str, error: str) -> str:
    """Explain why a text is no TOML: the line, the key in it, and what tomllib says."""
    lines = text.rstrip().split("\n")
    said, _, place = error.rpartition(" (at ")
    number = re.match(r"line (\d+)", place)
    line = int(number[1]) if number else len(lines)
    # Only the key of that line: its value may be a secret.
    key = re.match(r"\s*([\w.\"'-]+)\s*=", lines[line - 1]) if line <= len(lines) else None
    hint = next(
        (hint for begin, hint in _TOML_HINTS if said.startswith(begin)), "`tesched config example` shows the form"
    )
    return f"not valid TOML: line {line}{f' ({key[1]})' if key else ''}: {said or error}; {hint}"


def _table_in(hint: object) -> type[Any] | None:
    """Return the dataclass that a field holds: itself, in a tuple, or beside None."""
    if isinstance(hint, type) and is_dataclass(hint):
        return hint
    if get_origin(hint) in {tuple, Union, UnionType}:
        return next((found for part in get_args(hint) if (found := _table_in(part))), None)
    return None


def _given(hint: object) -> object:
    """Return the type of a value that is there: without None."""
    if get_origin(hint) in {Union, UnionType} and NoneType in get_args(hint):
        return next(part for part in get_args(hint) if part is not NoneType)
    return hint
