"""Command lines that are sbatch's: its options, then a script (`tesched ask`, `tesched check`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import CompletionItem

from tesched_cli.common import say

#: Settings of such a command: options that are not its own are sbatch's.
SBATCH_OPTIONS: dict[str, Any] = {
    "ignore_unknown_options": True,
    "allow_interspersed_args": False,
    # Of sbatch's -pother click would take the h.
    "help_option_names": ["--help"],
}

sbatch_words = click.argument(
    "words",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[SBATCH_OPTION]... SCRIPT",
    shell_complete=lambda _context, _parameter, begun: [CompletionItem(begun, type="file")],
)


def say_misplaced(command: str, words: Sequence[str]) -> None:
    """Say on stderr that an option of ours stands where it is the script's, or sbatch's."""
    for word in words:
        if word.partition("=")[0] in {"--json", "--config"}:
            say(
                f"note: {word} is taken for the script's here; for tesched: tesched {command} {word} ... SCRIPT",
                err=True,
            )
