"""`tesched schema COMMAND`: the JSON Schema of what a command's `--json` prints."""

from __future__ import annotations

import click

from tesched_cli.common import say, say_lines
from tesched_cli.json_output import KINDS
from tesched_cli.json_schemas import output_schema, shown, with_json


@click.command()
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
def schema(words: tuple[str, ...]) -> None:
    """Print the JSON Schema of a command's --json.

    COMMAND is `jobs`, `config show` and so on; without it the commands that have --json are listed, each with the
    version of what it prints. The version, `meta.version` in the output, rises when a key goes, or changes its name,
    type or meaning. Keys that are added leave it (docs/reference/json.md).
    """
    from tesched_cli.main import main  # noqa: PLC0415 - it knows the commands

    known = with_json(main)
    name = " ".join(words)
    if not name:
        for one in sorted(known):
            say(f"{one} {KINDS[one].version}")
        return
    if name not in known:
        raise click.UsageError(f"{name}: no command with --json; there are {', '.join(sorted(known))}")
    say_lines(shown(output_schema(KINDS[name])))
