"""JSON Schema of the configuration (draft 2020-12), made from the types that the loader itself converts a file to.

msgspec gives the shape. What the types declare beside that (`tesched_core.model.ranges`, `registry.Shorthand`) gives
the bounds, patterns and words; no key is known here by name. A schema sees one value at a time: what two keys must be
to each other, and what a path or a URL leads to, is checked by `tesched config check` alone.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec
from tesched_core.model.ranges import Form, OneOf, Range, said_of
from tesched_policies.registry import Shorthand

from tesched_daemon.config import Config

DIALECT = "https://json-schema.org/draft/2020-12/schema"
REFERENCE = "#/$defs/{name}"

Schema = dict[str, Any]


def config_schema(descriptions: Mapping[str, str]) -> Schema:
    """Return the schema. `descriptions` has texts for users by dotted key; other keys are described by their source."""
    (top,), parts = msgspec.json.schema_components((Config,), ref_template=REFERENCE)
    for path, kind, part in _tables(Config, "", top, parts):
        hints = get_type_hints(kind, include_extras=True)
        part["description"] = _about(kind)
        # msgspec passes over unknown keys; the loader does not.
        part["additionalProperties"] = False
        if not part.get("required"):
            part.pop("required", None)
        for name, schema in part["properties"].items():
            hint = hints[name]
            # A table says itself what it is.
            is_table = isinstance(hint, type) and is_dataclass(hint)
            said = descriptions.get(f"{path}{name}") or ("" if is_table else comments(kind, shared=True).get(name, ""))
            part["properties"][name] = _key(schema, hint, said)
    title = "Configuration of tesched (tesched.toml)"
    return {"$schema": DIALECT, "title": title, **top, "$defs": parts}


def _tables(kind: type[Any], path: str, schema: Schema, parts: Schema) -> Iterator[tuple[str, Any, Schema]]:
    """Yield each table once, with the key before it and its part of the schema; those of a list, too."""
    waiting = [(path, kind, schema)]
    seen = set()
    while waiting:
        path, kind, schema = waiting.pop(0)
        name = schema["$ref"].rpartition("/")[2]
        if name in seen:
            continue
        seen.add(name)
        hints = get_type_hints(kind)
        for key, below in parts[name]["properties"].items():
            hint = hints[key]
            if isinstance(hint, type) and is_dataclass(hint):
                waiting.append((f"{path}{key}.", hint, below))
            elif get_origin(hint) is tuple and is_dataclass(get_args(hint)[0]):
                waiting.append((f"{path}{key}.", get_args(hint)[0], below["items"]))
        yield path, kind, parts[name]


def _key(schema: Schema, hint: Any, said: str) -> Schema:
    """Return the schema of one key: without null, which TOML cannot say, and with what its type declares."""
    default = schema.pop("default", None)
    if "anyOf" in schema:
        given = [one for one in schema["anyOf"] if one != {"type": "null"}]
        schema = given[0] if len(given) == 1 else {"anyOf": given}
    inner = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    if get_origin(inner) is tuple:
        for one in said_of(get_args(inner)[0]):
            schema["items"] |= _constraint(one)
    for one in said_of(hint):
        schema |= _constraint(one)
        if isinstance(one, Shorthand):
            schema = _with_shorthand(schema, one, get_args(inner)[0])
    # A table's own keys have their defaults.
    if default is not None and not isinstance(default, dict):
        schema["default"] = list(default) if isinstance(default, tuple) else default
    return {**({"description": said} if said else {}), **schema}


def _constraint(one: object) -> Schema:
    """Schema of a declaration beside a type."""
    if isinstance(one, Form):
        return {"pattern": f"^(?:{one.pattern})$"}
    if isinstance(one, OneOf):
        return {"enum": list(one.words)}
    if not isinstance(one, Range):
        return {}
    inside = {"exclusiveMinimum" if one.is_above else "minimum": _number(one.least), "maximum": _number(one.most)}
    return {"anyOf": [{"const": 0}, inside]} if one.or_zero else inside


def _number(value: float) -> float:
    return int(value) if isinstance(value, int) or (value.is_integer() and value < 2**53) else value


def _with_shorthand(schema: Schema, one: Shorthand, element: type[Any]) -> Schema:
    """Return the schema of a list of tables, for each of which the value of one key may stand."""
    names = [word.value for word in get_type_hints(element)[one.key]]
    tables = {"anyOf": [{"enum": names}, schema["items"]]}
    return {"anyOf": [{"enum": [one.nothing, *names]}, {"type": "array", "items": tables}]}


def _about(kind: type[Any]) -> str:
    """Return the first line of what a class says of itself, or of its file where that has it."""
    text = inspect.getdoc(kind) or ""
    if "head of this file" in text:
        text = sys.modules[kind.__module__].__doc__ or text
    return text.strip().partition("\n")[0]


@cache
def comments(kind: Any, *, shared: bool = False) -> Mapping[str, str]:
    """Return the comments that document a class's fields in its source, by field; those of its bases, too.

    A `shared` one counts for all fields down to the next.
    """
    own = {field.name for field in fields(kind)}
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        try:
            source = inspect.getsource(one)
        except (OSError, TypeError):  # it is made by a call, or built in
            continue
        said: list[str] = []
        is_new = True
        for line in map(str.strip, source.splitlines()):
            key, colon, _ = line.partition(": ")
            if line.startswith("#:"):
                said, is_new = [*([] if is_new else said), line.removeprefix("#:").strip()], False
            elif not colon or key not in own:
                said, is_new = [], True
            else:
                is_new = True
                if said:
                    found[key] = " ".join(said)
                said = said if shared else []
    return found


def dataclasses_in(hints: Iterable[Any]) -> Iterator[type[Any]]:
    """Yield each dataclass once that these types have in them, themselves among them."""
    seen: set[Any] = set()
    waiting = list(hints)
    while waiting:
        hint = waiting.pop()
        waiting += get_args(hint)
        if isinstance(hint, type) and is_dataclass(hint) and hint not in seen:
            seen.add(hint)
            yield hint
            waiting += get_type_hints(hint).values()
