"""`tesched`: the commands, and what a user is told when one cannot be done."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version

import click
from tesched_core.model.visible import visible_lines
from tesched_core.ports import JournalError
from tesched_daemon.config_errors import ConfigError
from tesched_daemon.wiring import StartError
from tesched_sim.reports.run_summary import ReportError
from tesched_sim.workload import WorkloadError

from tesched_cli.config import config
from tesched_cli.doctor import doctor
from tesched_cli.explain import explain
from tesched_cli.jobs import jobs, orders
from tesched_cli.pause import pause, unpause
from tesched_cli.poke import poke
from tesched_cli.report import report
from tesched_cli.service import daemon, db
from tesched_cli.status import status
from tesched_cli.throughputs import throughputs
from tesched_cli.undo import undo

#: Commands with modules that import slowly (the simulators, SciPy): on request, not by `tesched status`.
_HEAVY = {
    "simulate": ("tesched_cli.simulate", "simulate"),
    "simulate-gavel": ("tesched_cli.reproduce.gavel", "simulate_gavel"),
    "simulate-pdors": ("tesched_cli.reproduce.pdors", "simulate_pdors"),
    "simulate-slaq": ("tesched_cli.reproduce.slaq", "simulate_slaq"),
    "whatif": ("tesched_cli.whatif", "whatif"),
}


class _InputError(click.ClickException):
    exit_code = 2


class _Commands(click.Group):
    """Turns what went wrong into one line on stderr and exit status 2; a user sees no traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names."""
        return sorted([*super().list_commands(ctx), *_HEAVY])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported by now; None if there is none of this name."""
        if cmd_name not in _HEAVY:
            return super().get_command(ctx, cmd_name)
        module, attribute = _HEAVY[cmd_name]
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except (ConfigError, StartError, JournalError, ReportError, WorkloadError) as error:
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
@click.version_option(version("tesched"), "-V", "--version", prog_name="tesched")
def main() -> None:
    """A companion to Slurm: trial-and-error jobs start at once, best-effort jobs hardly notice."""


for command in (
    config,
    daemon,
    db,
    doctor,
    explain,
    jobs,
    orders,
    pause,
    poke,
    report,
    status,
    throughputs,
    undo,
    unpause,
):
    main.add_command(command)
