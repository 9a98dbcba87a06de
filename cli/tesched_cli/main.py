"""`tesched`: the commands, and what a user is told when one cannot be done.

A command's module is imported when the command is run: `--version`, `--help` and TAB completion wait for none of them.
"""

from __future__ import annotations

import gc
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem
from tesched_core.model.told_error import ToldError
from tesched_core.model.visible import visible_lines


class _Lazy(NamedTuple):
    """A command that is not imported yet."""

    #: below tesched_cli
    module: str
    attribute: str
    #: as the command itself says it
    short_help: str


COMMANDS = {
    "config": _Lazy("config", "config", "Show or check the configuration, or print an example."),
    "daemon": _Lazy("service", "daemon", "Run the daemon in the foreground until SIGTERM."),
    "db": _Lazy("service", "db", "Make the state store, or bring it up to date."),
    "doctor": _Lazy(
        "doctor",
        "doctor",
        "Look at the configuration, Slurm, the store and the daemon, and say what stands in the way.",
    ),
    "explain": _Lazy(
        "explain",
        "explain",
        "Say what tesched knows of JOB (123, 120_4, 130+1), what it did about it and why.",
    ),
    "init": _Lazy("init", "init", "Make a configuration and a state store in the current folder, to start from."),
    "learn": _Lazy("learn", "learn", "Learn run times from what ran before: Slurm's accounting, or a trace."),
    "jobs": _Lazy("jobs", "jobs", "List the jobs with their class and the rule that gave it."),
    "orders": _Lazy("jobs", "orders", "List the preemptions, each with its steps."),
    "pause": _Lazy(
        "pause",
        "pause",
        "Begin nothing new: no job is asked to yield any more, and none is brought forward.",
    ),
    "poke": _Lazy("poke", "poke", "Have the daemon look at once; returns at once, and prints nothing."),
    "report": _Lazy("report", "report", "Tell tesched, from inside a job, how far a training is and how fast it goes."),
    "simulate": _Lazy(
        "simulate",
        "simulate",
        "Run policies on a simulated Slurm and compare what TE jobs gain and what BE jobs pay.",
    ),
    "simulate-gavel": _Lazy(
        "reproduce.gavel",
        "simulate_gavel",
        "Divide accelerators of several types by Gavel's policies, on its authors' workload and in its rounds.",
    ),
    "simulate-pdors": _Lazy(
        "reproduce.pdors",
        "simulate_pdors",
        "Place training jobs' workers and parameter servers, slot by slot, and compare what their ends are worth.",
    ),
    "simulate-slaq": _Lazy(
        "reproduce.slaq",
        "simulate_slaq",
        "Let training jobs share cores, by what their losses would gain (SLAQ) and equally, and compare.",
    ),
    "status": _Lazy(
        "status",
        "status",
        "Show how the daemon and its queues are, and how far trainings are that report (docs/howto/reports.md).",
    ),
    "throughputs": _Lazy("throughputs", "throughputs", "Show or set how fast workloads go on which accelerators."),
    "undo": _Lazy(
        "undo",
        "undo",
        "Put back every priority that tesched still has changed, and withdraw the orders under way.",
    ),
    "unpause": _Lazy("pause", "unpause", "End a pause."),
    "whatif": _Lazy(
        "whatif",
        "whatif",
        "Run the jobs of the last days again on a simulated Slurm, beside what really happened.",
    ),
}


def _imported(module: str) -> ModuleType:
    """Return the module. Of what is imported nothing becomes garbage: to look for some takes a tenth of the time."""
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        gc.enable()


class _InputError(click.ClickException):
    exit_code = 2


class _Commands(click.Group):
    """Turns what went wrong into one line on stderr and exit status 2; a user sees no traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click gives it
        """Return the names."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click gives it
        """Return the command, imported by now; None if there is none of this name."""
        lazy = COMMANDS.get(cmd_name)
        if lazy is None:
            return None
        command: click.Command = getattr(_imported(f"tesched_cli.{lazy.module}"), lazy.attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as above
        """Write the list of commands for `--help`."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].short_help) for name in sorted(COMMANDS)])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return what may follow `tesched`."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=COMMANDS[name].short_help)
            for name in sorted(COMMANDS)
            if name.startswith(incomplete)
        ]

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


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "-V", "--version", package_name="tesched", prog_name="tesched")
def main() -> None:
    """A companion to Slurm: trial-and-error jobs start at once, best-effort jobs hardly notice."""
