"""`tesched report`: for scripts in jobs, what `import tesched_report` is for trainings."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

import click
import numpy as np
from click.core import ParameterSource
from tesched_core.model.job_report import LONGEST_NAME
from tesched_report.follow import Follower, follow, reader_of
from tesched_report.readers import ITERATION_KEYS, LOSS_KEYS, LossFormat, ReadError
from tesched_report.reporter import Reporter
from tesched_report.sender import SOCKET_VARIABLE
from tesched_report.where import SPOOL_VARIABLE, job_name, speaks_for_its_job, spool_of

from tesched_cli.common import say

#: Seconds that the command waits for its write, at the end.
_LAST_S = 10.0
_WAYS = f"{SPOOL_VARIABLE}, {SOCKET_VARIABLE}"


class BadFileError(click.ClickException):
    """A file that was given cannot be used. The text names it, and the place."""

    exit_code = 2


def _finite(_context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """Pass over what is no number, as the call in Python does: a training that diverges is no wrong command line."""
    if value is not None and not np.isfinite(value):
        say(f"{parameter.opts[0]} is {value}, and is passed over", err=True)
        return None
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
    job, or without a spool folder or socket, it says so and ends with status 0, and so it does for what is NaN or
    infinite: no training fails for it. A wrong command line ends with 2, and so does --follow --once with a file in
    which there is no loss.
    """
    given = _given()
    if ("iteration" in given) != ("loss" in given):
        raise click.UsageError("--iteration and --loss go together")
    if not given & {"loss", "throughput", "file", "saved"}:
        raise click.UsageError("nothing to report: give --iteration and --loss, --throughput, --saved, or --follow")
    if file is not None and given & {"loss", "throughput", "saved"}:
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
    if file is not None and _is_heard(environment):
        follower = Follower(
            file, lambda: reader_of(LossFormat(form), iteration_key=iteration_key, loss_key=loss_key), reporter
        )
        _follow(follower, file, reporter, once=once)
        if once and not follower.found:
            _say_why_none(follower.seen, file, form=form, iteration_key=iteration_key, loss_key=loss_key)
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


def _say_why_none(seen: frozenset[str], file: Path, *, form: str, iteration_key: str, loss_key: str) -> None:
    """Say why no loss was found in the file. Raises BadFileError unless that is since the training diverged."""
    has_losses = not seen.isdisjoint({loss_key} if loss_key else LOSS_KEYS)
    has_iterations = not seen.isdisjoint({iteration_key} if iteration_key else ITERATION_KEYS)
    if has_losses and (has_iterations or form == LossFormat.TENSORBOARD):
        say(f"{file}: each loss in it is NaN, infinite or no number, and is passed over", err=True)
        return
    names = ", ".join(sorted(seen)[:20])
    raise BadFileError(f"{file}: no loss in it{f', only {names}; name it by --loss-key' if names else ''}")


def _given() -> set[str]:
    """Names of the options that the command line has, whatever became of their values."""
    context = click.get_current_context()
    return {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}


def _is_heard(environment: Mapping[str, str]) -> bool:
    """Check whether a report of this process would go anywhere; say why not. One job's other ranks are silent."""
    if not speaks_for_its_job(environment):
        return False
    if not job_name(environment):
        say("nothing is reported: this is no Slurm job", err=True)
        return False
    if not environment.get(SOCKET_VARIABLE) and spool_of(environment) is None:
        say(f"nothing is reported: no spool folder and no socket is known ({_WAYS})", err=True)
        return False
    return True


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
