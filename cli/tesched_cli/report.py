"""`tesched report`: for scripts in jobs, what `import tesched_report` is for trainings."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from types import FrameType

import click
import numpy as np
from tesched_core.model.job_report import LONGEST_NAME
from tesched_report.follow import Follower, follow, reader_of
from tesched_report.readers import LossFormat, ReadError
from tesched_report.reporter import Reporter
from tesched_report.sender import SOCKET_VARIABLE
from tesched_report.where import SPOOL_VARIABLE

from tesched_cli.common import say

#: Seconds that the command waits for its write, at the end.
_LAST_S = 10.0


class BadFileError(click.ClickException):
    """A file that was given cannot be used. The text names it, and the place."""

    exit_code = 2


def _finite(_context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    if value is not None and not np.isfinite(value):
        raise click.BadParameter(f"must be a number, not {value}", param=parameter)
    return value


def _name(_context: click.Context, parameter: click.Parameter, value: str) -> str:
    if len(value) > LONGEST_NAME or not value.isprintable():
        raise click.BadParameter(f"must be at most {LONGEST_NAME} printable characters", param=parameter)
    return value


@click.command()
@click.option("--iteration", type=click.IntRange(min=0, max=2**53), help="How many iterations are done.")
@click.option("--loss", type=float, callback=_finite, help="The loss after it.")
@click.option("--work", type=float, callback=_finite, help="Work done per core-second, in any unit that stays.")
@click.option("--target-loss", type=float, callback=_finite, help="The loss at which it is done, where that is known.")
@click.option("--throughput", type=click.FloatRange(min=0), callback=_finite, help="Steps a second.")
@click.option("--type", "accelerator", default="", callback=_name, help="On which accelerator; else the job's own.")
@click.option("--saved", is_flag=True, help="All work up to now is saved.")
@click.option("--workload", default="", callback=_name, help="What is trained; else the job's name.")
@click.option("--spool", type=click.Path(path_type=Path), envvar=SPOOL_VARIABLE, help="The site's folder for reports.")
@click.option("--socket", "address", envvar=SOCKET_VARIABLE, help="The daemon's, HOST:PORT or a path; then no folder.")
@click.option("--follow", "file", type=click.Path(path_type=Path), help="Report what a training adds to this file.")
@click.option(
    "--format",
    "form",
    type=click.Choice([each.value for each in LossFormat]),
    default="jsonl",
    show_default=True,
    help="Its format.",
)
@click.option("--iteration-key", default="", help="Its name for iterations; else iteration, step, epoch or the like.")
@click.option("--loss-key", default="", help="Its name for the loss; else loss, train_loss or the like.")
@click.option("--once", is_flag=True, help="Read what is in the file now, and end.")
def report(
    *,
    iteration: int | None,
    loss: float | None,
    work: float | None,
    target_loss: float | None,
    throughput: float | None,
    accelerator: str,
    saved: bool,
    workload: str,
    spool: Path | None,
    address: str | None,
    file: Path | None,
    form: str,
    iteration_key: str,
    loss_key: str,
    once: bool,
) -> None:
    """Say from inside a job how far a training is, and how fast.

    With --follow it runs beside the training until the job ends: `tesched report --follow train.jsonl &`. Outside of a
    job, or without a spool folder or socket, it says so and ends with status 0: no training fails for it.
    """
    if (iteration is None) != (loss is None):
        raise click.UsageError("--iteration and --loss go together")
    if loss is None and throughput is None and file is None and not saved:
        raise click.UsageError("nothing to report: give --iteration and --loss, --throughput, --saved, or --follow")
    if file is not None and (loss is not None or throughput is not None or saved):
        raise click.UsageError("--follow reads losses from its file: give no other report with it")
    environment = {**os.environ, **({SPOOL_VARIABLE: str(spool)} if spool else {})}
    environment |= {SOCKET_VARIABLE: address} if address else {}
    reporter = Reporter(environment)
    reporter.about(target_loss=target_loss, workload=workload)
    if iteration is not None and loss is not None:
        reporter.report(iteration=iteration, loss=loss, work=work)
    if throughput is not None:
        reporter.throughput(steps_per_s=throughput, accelerator=accelerator)
    if saved:
        reporter.saved()
    if file is not None:
        follower = Follower(
            file, lambda: reader_of(LossFormat(form), iteration_key=iteration_key, loss_key=loss_key), reporter
        )
        _follow(follower, file, reporter, once=once)
    reporter.flush(_LAST_S)


def _follow(follower: Follower, file: Path, reporter: Reporter, *, once: bool) -> None:
    """Follow the file until SIGTERM, or read it once. Raises BadFileError if nothing can be read then."""
    # `kill $!` at the end of a script: what was written last is still read.
    ending = _Ending()
    signal.signal(signal.SIGTERM, ending.signalled)
    try:
        try:
            follow(follower, say=lambda text: say(f"{file}: {text}", err=True), once=once, pause=ending.pause)
        except _EndError:
            follower.look()
    except (ReadError, OSError) as error:
        reporter.flush(_LAST_S)
        raise BadFileError(f"{file}: {error.strerror if isinstance(error, OSError) else error}") from error
    if once and not follower.found:
        names = ", ".join(sorted(follower.seen)[:20])
        raise BadFileError(f"{file}: no loss in it{f', only {names}; name it by --loss-key' if names else ''}")


class _EndError(Exception):
    """SIGTERM has come."""


class _Ending:
    """SIGTERM, which ends a pause, never a report: the reporter keeps every exception from a training."""

    def __init__(self) -> None:
        self._has_come = self._pausing = False

    def signalled(self, _number: int, _frame: FrameType | None) -> None:
        """Handle the signal."""
        is_first, self._has_come = not self._has_come, True
        if is_first and self._pausing:
            raise _EndError

    def pause(self, seconds: float) -> None:
        """Sleep. Raises _EndError if the signal comes, or has come."""
        self._pausing = True
        try:
            if self._has_come:
                raise _EndError
            time.sleep(seconds)
        finally:
            self._pausing = False
