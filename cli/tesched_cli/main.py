"""`tesched`: the commands.

A command's module is imported when the command is run: `--version`, `--help` and TAB completion wait for none of them.
"""

from __future__ import annotations

import gc
from importlib import import_module
from types import ModuleType
from typing import NamedTuple

import click
from click.shell_completion import CompletionItem

from tesched_cli.one_line_errors import OneLineErrors


class _Lazy(NamedTuple):
    """A command that is not imported yet."""

    #: below tesched_cli
    module: str
    attribute: str
    #: as the command itself says it
    short_help: str


#: As `--help` has them: the groups, the commands of each, and what it says of each in one line of 80 columns.
GROUPS = {
    "Set up": {
        "init": _Lazy("init", "init", "Make a configuration and a state store to start from."),
        "config": _Lazy("config", "config", "Show or check the configuration, or print an example."),
        "doctor": _Lazy("doctor", "doctor", "Say what stands in the way, and what to do about it."),
        "daemon": _Lazy("service", "daemon", "Run the daemon in the foreground until SIGTERM."),
        "db": _Lazy("service", "db", "Make the state store, or bring it up to date."),
        "schema": _Lazy("schema", "schema", "Print the JSON Schema of a command's --json."),
    },
    "Look": {
        "status": _Lazy("status", "status", "Show how the daemon and its queues are."),
        "top": _Lazy("top.command", "top", "Watch queue, orders and nodes on a terminal."),
        "jobs": _Lazy("jobs", "jobs", "List the jobs with their class and the rule that gave it."),
        "orders": _Lazy("jobs", "orders", "List the preemptions, each with its steps."),
        "explain": _Lazy("explain", "explain", "Say what tesched knows of JOB, what it did about it and why."),
        "web": _Lazy("web.command", "web", "Serve a live page with a timeline of the nodes."),
    },
    "Before you submit": {
        "ask": _Lazy("ask", "ask", "Say what would happen if a job were submitted now."),
        "check": _Lazy("check", "check", "Say whether a job would survive its preemption."),
    },
    "Control": {
        "pause": _Lazy("pause", "pause", "Begin nothing new: no job is preempted or brought forward."),
        "unpause": _Lazy("pause", "unpause", "End a pause."),
        "poke": _Lazy("poke", "poke", "Have the daemon poll at once."),
        "undo": _Lazy("undo", "undo", "Put back what tesched has changed, and withdraw its orders."),
    },
    "Set what it decides by": {
        "learn": _Lazy("learn", "learn", "Learn run times from Slurm's accounting, or from a trace."),
        "throughputs": _Lazy("throughputs", "throughputs", "Show or set how fast workloads go on which accelerators."),
        "report": _Lazy("report", "report", "Say from inside a job how far a training is, and how fast."),
    },
    "Simulate": {
        "advise": _Lazy("advise", "advise", "Find the configuration that had served the last days best."),
        "whatif": _Lazy("whatif", "whatif", "Run the jobs of the last days again on a simulated Slurm."),
        "simulate": _Lazy("simulate", "simulate", "Run policies on a simulated Slurm and compare them."),
    },
}
COMMANDS = {name: lazy for group in GROUPS.values() for name, lazy in group.items()}


def _imported(module: str) -> ModuleType:
    """Import the module. Of what is imported nothing becomes garbage: a search for some takes a tenth of the time."""
    gc.disable()
    try:
        return import_module(module)
    finally:
        gc.freeze()
        gc.enable()


class _Commands(OneLineErrors):
    """The commands, each imported when it is run."""

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
        """Write the list of commands for `--help`, in groups."""
        # One column in all groups.
        width = max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), lazy.short_help) for name, lazy in group.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete what may follow `tesched`."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=COMMANDS[name].short_help)
            for name in sorted(COMMANDS)
            if name.startswith(incomplete)
        ]


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(None, "-V", "--version", package_name="tesched", prog_name="tesched")
def main() -> None:
    """A companion to Slurm: trial-and-error jobs start at once, best-effort jobs hardly notice."""
