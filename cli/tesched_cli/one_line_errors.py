"""Errors of commands: one line on stderr and exit status 2, for `tesched` and for `python -m tesched_papers`.

It imports nothing that a command needs: `--help` and TAB completion wait for it.
"""

from __future__ import annotations

import click
from tesched_core.model.told_error import ToldError
from tesched_core.model.visible import visible_lines


class _InputError(click.ClickException):
    exit_code = 2


class OneLineErrors(click.Group):
    """Commands whose errors become one line on stderr and exit status 2; a user sees no traceback."""

    def invoke(self, ctx: click.Context) -> object:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except ToldError as error:
            raise _InputError(visible_lines(str(error))) from error
        except click.ClickException as error:
            # It may quote what Slurm, a file or the store says.
            text = error.format_message()
            if visible_lines(text) == text:
                raise
            raise _shown(error, visible_lines(text)) from error


def _shown(error: click.ClickException, text: str) -> click.ClickException:
    """Return the error with another text."""
    if isinstance(error, click.UsageError):
        return click.UsageError(text, error.ctx)
    return _InputError(text) if error.exit_code == _InputError.exit_code else click.ClickException(text)
