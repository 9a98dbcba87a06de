"""JSON Schemas (draft 2020-12) of what `--json` prints, from the classes of `json_output`.

`python -m tesched_cli.json_schemas docs/reference/json` writes them, for developers; a test compares. A published
schema is open: a later tesched may have more keys, and its documents are still valid. Tests close it, so that no key is
printed that it does not have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import msgspec
from tesched_daemon.config_schema import DIALECT, REFERENCE, Schema, comments, dataclasses_in

from tesched_cli.json_output import KINDS, Kind, Meta


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
def write(folder: Path) -> None:
    """Write the schemas of all commands into FOLDER."""
    from tesched_cli.main import main  # noqa: PLC0415 - it knows the commands

    for name in with_json(main):
        (folder / file_name(name)).write_text(shown(output_schema(KINDS[name])), encoding="utf-8")


def file_name(command: str) -> str:
    """Return the name of a command's schema: "config-show.schema.json"."""
    return f"{command.replace(' ', '-')}.schema.json"


def shown(schema: Schema) -> str:
    """Return a schema as text."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def with_json(group: click.Group) -> dict[str, click.Command]:
    """Return the commands that have `--json`, by all their words. Their modules and documents are imported."""
    found = dict(_with_json(group, "", click.Context(group)))
    for command in found.values():
        # Documents may stand beside a command, in a module that it imports only for --json.
        beside = f"{command.callback.__module__}_json" if command.callback else ""
        if beside and find_spec(beside):
            import_module(beside)
    return found


def _with_json(command: click.Command, path: str, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield from _with_json(inner, f"{path} {name}".strip(), click.Context(inner, parent=context))
    elif any("--json" in parameter.opts for parameter in command.params):
        yield path, command


def output_schema(kind: Kind, *, closed: bool = False) -> Schema:
    """Return the schema of what a command prints; a `closed` one has no place for keys that it does not name."""
    (head, *bodies), parts = msgspec.json.schema_components((Meta, *kind.classes), ref_template=REFERENCE)
    named: dict[str, list[Any]] = {}
    for one in dataclasses_in((Meta, *kind.classes)):
        named.setdefault(one.__name__, []).append(one)
    for name, part in parts.items():
        if "properties" in part:
            same = named.get(name, [])
            _finish(part, comments(same[0]) if len(same) == 1 else {}, closed=closed)
    wholes = [_under(head, parts[body["$ref"].rpartition("/")[2]]) for body in bodies]
    for body in bodies:
        del parts[body["$ref"].rpartition("/")[2]]
    whole = wholes[0] if len(wholes) == 1 else {"anyOf": wholes}
    parts["Meta"]["properties"]["command"] = {"const": kind.command}
    parts["Meta"]["properties"]["version"] |= {"const": kind.version}
    return {"$schema": DIALECT, "title": f"tesched {kind.command} --json", **whole, "$defs": parts}


def _finish(part: Schema, said: Any, *, closed: bool) -> None:
    """Make each key required, for each is printed, and describe it by its source."""
    for key, value in part["properties"].items():
        value.pop("default", None)
        part["properties"][key] = {"description": said[key], **value} if key in said else value
    part["required"] = list(part["properties"])
    part["additionalProperties"] = not closed


def _under(head: Schema, body: Schema) -> Schema:
    """Return the schema of a document: a body's keys, and the head."""
    inner = {key: value for key, value in body.items() if key != "title"}
    return inner | {"properties": {"meta": head, **body["properties"]}, "required": ["meta", *body["required"]]}


if __name__ == "__main__":
    write()
