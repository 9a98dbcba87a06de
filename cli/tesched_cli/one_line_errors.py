"""Errors of commands: one line on stderr and exit status 2, for `tesched` and for `python -m tesched_papers`.

A character that the terminal's encoding lacks is none: what a command prints has a question mark for it.

It imports nothing that a command needs: `--help` and TAB completion wait for it.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import Any, TextIO

import click
from tesched_core.model.told_error import ToldError
from tesched_core.model.visible import visible_lines

#: Why standard output takes no more: its file system is full, so is the user's share of it, or its terminal is gone.
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


class _InputError(click.ClickException):
    exit_code = 2


class OneLineErrors(click.Group):
    """Commands whose errors become one line on stderr and exit status 2; a user sees no traceback."""

    #: exit status of what has ended the command, until it is shown; None: no error has
    _failed: int | None = None

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run as a program; also what click itself prints, such as a command's help, may find its file system full."""
        _print_all(sys.stdout, sys.stderr)
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            if self._failed is not None:
                # It could not be shown: stderr is full, or its reader has gone. Its exit status is all that is left.
                _drop(sys.stdout, sys.stderr)
                sys.exit(self._failed)
            # Its command says what is wrong with a file's own path; a reader that has gone is click's.
            if error.errno not in _NO_SPACE or error.filename is not None:
                raise
            _drop(sys.stdout)
            try:
                _InputError(f"cannot write the output: {error.strerror}").show()
            except OSError:
                _drop(sys.stderr)
            sys.exit(_InputError.exit_code)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the options."""
        self._failed = None
        with self._noted():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> object:
        """Run a command."""
        with self._noted():
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

    @contextmanager
    def _noted(self) -> Iterator[None]:
        """Note with which exit status click is to end the program, before it shows why."""
        try:
            yield
        except click.ClickException as error:
            self._failed = error.exit_code
            raise
        except (click.Abort, EOFError, KeyboardInterrupt):
            self._failed = 1
            raise


def _print_all(*outputs: TextIO | None) -> None:
    """Let the outputs print a question mark for what their encoding lacks, such as a letter of a job's name in Latin-1.

    With the interpreter's own setting that ends the command with a traceback, and with the exit status of a refusal.
    """
    for output in outputs:
        # stderr prints an escape by itself.
        if isinstance(output, TextIOWrapper) and output.errors in {"strict", "surrogateescape"}:
            output.reconfigure(errors="replace")


def _drop(*outputs: TextIO | None) -> None:
    """Drop what is left of the outputs: the interpreter would try it once more at its end, in lines of its own."""
    for output in filter(None, outputs):  # a program may be started without one
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())


def _shown(error: click.ClickException, text: str) -> click.ClickException:
    """Return the error with another text."""
    if isinstance(error, click.UsageError):
        return click.UsageError(text, error.ctx)
    return _InputError(text) if error.exit_code == _InputError.exit_code else click.ClickException(text)
