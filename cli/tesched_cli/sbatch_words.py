"""Command lines that are sbatch's: its options, then a script (`tesched ask`, `tesched check`)."""

from __future__ import annotations

from typing import Any

import click
from click.shell_completion import CompletionItem

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
