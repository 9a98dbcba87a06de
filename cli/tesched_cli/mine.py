"""`tesched jobs --mine`: the user's own jobs, and what became of those that were preempted. Nothing of other users."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from tesched_core.model.change import By
from tesched_core.model.cluster import FINISHED, JobState
from tesched_core.model.limits import Limits
from tesched_core.model.order import PREEMPTED, Departure, Victim
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import JobClass
from tesched_core.orders.tell_users import cause_of
from tesched_db import queries as read
from tesched_db.views import JobFilter, JobView

from tesched_cli.columns import ColumnField, default_format, listed
from tesched_cli.common import (
    LONGEST_CELL,
    LONGEST_TEXT,
    capacity_of,
    clock,
    console,
    duration,
    shown_configuration,
    store_of,
)
from tesched_cli.job_columns import place_of, state_of
from tesched_cli.json_output import document, print_json

#: What the run that was ended has had, and what is known of its saved state.
_SAVED: Mapping[Departure, str] = {
    Departure.REQUEUED_ITSELF: "left by itself: it has saved, if its script does",
    Departure.SAVED: "ended with exit status 0, which for it means saved",
    Departure.DIED_OF_NOTICE: "died of its signal: only what it had saved before is left",
    Departure.ENDED: "ended, and does not run again, as its comment says (preempted=end)",
    Departure.LOST: "could NOT be put back in the queue: submit it again",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MyPreemption:
    """One preemption of one job, as its user may know it."""

    at: UnixSeconds
    #: for what kind of job
    cause: str
    #: how it left (`orders.Departure`), and what that means for its saved state
    departure: str
    saved_state: str
    #: the signal that it had, empty for none, and seconds from that to its end
    signal: str
    had_s: float
    #: how long the run had lasted that was ended, seconds
    run_s: float
    #: when it ran again; None: not yet
    back_at: UnixSeconds | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MyJob:
    """One job, as its user may know it."""

    job: str
    name: str
    partition: str
    job_class: JobClass
    state: JobState
    #: Slurm knows it no longer: of a job that has not ended, `state` is the last that is known
    gone: bool
    #: Slurm's reason word while it waits
    reason: str
    nodes: tuple[str, ...]
    #: how often it was preempted for TE jobs of other users
    preempted: int
    #: how often it may be preempted in its life; 0 for a job that never is. Of one that has not run yet, and may
    #: declare a signal in its script, as if it did
    most: int
    preemptions: tuple[MyPreemption, ...]
    #: what comes next, in words
    expected: str

    @property
    def is_forgotten(self) -> bool:
        """Check whether Slurm forgot it before its end was seen."""
        return self.gone and self.state not in FINISHED


@document("jobs")
@dataclass(frozen=True, slots=True, kw_only=True)
class MineJson:
    """The caller's own jobs (`tesched jobs --mine`)."""

    #: true
    mine: bool
    jobs: tuple[MyJob, ...]


def who_asks() -> str:
    """Return the caller's user name. Raises ClickException if there is none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise click.ClickException(f"the system knows no user with the number {os.getuid()}") from None


def my_jobs(
    config_path: Path, user: str, which: JobFilter, in_order: Callable[[Sequence[JobView]], list[JobView]] = list
) -> tuple[MyJob, ...]:
    """Return the user's jobs, in this order. Raises ConfigError and JournalError."""
    config = shown_configuration(config_path)
    with store_of(config) as engine:
        found = read.jobs(engine, which)
        victims = read.as_victims(engine, [job.key for job in found])
        ahead = read.raised_jobs(engine, By.VICTIM)
    return tuple(
        _mine(job, victims.get(job.key, ()), config.guard, ahead=job.job_id in ahead)
        for job in in_order(found)
        if job.user == user
    )


def show(jobs: Sequence[MyJob], *, as_json: bool, header: bool = True) -> None:
    """Print them."""
    if as_json:
        print_json(MineJson(mine=True, jobs=tuple(jobs)))
        return
    out = console()
    if not jobs:
        if not header:
            return
        out.print("tesched knows no job of yours; `--all` shows those that Slurm has forgotten, too")
        return
    width = capacity_of(out)
    shown = [*listed(jobs, _WHOLE, header=header, width=None)]
    is_narrow = width is not None and max(line.cell_len for line in shown) > width
    for line in listed(jobs, _NARROW, header=header, width=width) if is_narrow else shown:
        out.print(line, soft_wrap=True)
    for job in jobs if is_narrow else ():
        if job.expected:
            out.print(f"job {job.job} {job.expected}")
    for job in jobs:
        for text in lines(job):
            out.print(text, soft_wrap=width is None)


_FIELDS: tuple[ColumnField[MyJob], ...] = (
    ColumnField(names=("jobid",), cell=lambda job: job.job),
    ColumnField(names=("class",), cell=lambda job: job.job_class.upper()),
    ColumnField(names=("partition",), cell=lambda job: job.partition, most=LONGEST_CELL, least=6, leave_out=1),
    ColumnField(names=("name",), cell=lambda job: job.name, most=LONGEST_CELL, least=8),
    ColumnField(names=("state",), cell=lambda job: state_of(job.state, forgotten=job.is_forgotten)),
    ColumnField(
        names=("preempted",), cell=lambda job: f"{job.preempted} of {job.most}" if job.most else "never", right=True
    ),
    ColumnField(
        names=("where",),
        cell=lambda job: place_of(job.nodes, job.reason, forgotten=job.is_forgotten),
        most=LONGEST_TEXT,
        least=12,
    ),
    ColumnField(names=("expected",), cell=lambda job: job.expected or "-"),
)
_WHOLE = default_format(_FIELDS, [field.names[0] for field in _FIELDS])
#: without the sentence on what comes next, which is a line of its own then
_NARROW = default_format(_FIELDS, [field.names[0] for field in _FIELDS[:-1]])


def lines(job: MyJob) -> Iterator[str]:
    """Yield a line for each of its preemptions."""
    for one in job.preemptions:
        again = f"; ran again {clock(one.back_at)}" if one.back_at is not None else ""
        after = f", after {duration(one.run_s)} of its run"
        yield f"job {job.job} was preempted {clock(one.at)} for {one.cause}{after}: {one.saved_state}{again}"


def _mine(job: JobView, victims: Sequence[Victim], limits: Limits, *, ahead: bool) -> MyJob:
    counted = [one for one in victims if one.departure in PREEMPTED and one.is_limited]
    preempted, lost = len(counted), sum(one.loses_run for one in counted)
    most = 0
    if job.job_class is JobClass.BE:
        most = limits.most_preemptions(gets_notice=job.may_get_notice, preempted=preempted, lost=lost)
    most = most if job.most_preemptions is None else min(most, job.most_preemptions)
    gone = tuple(_preemption(one) for one in victims if one.departure in {*PREEMPTED, Departure.ENDED})
    last = victims[-1] if victims else None
    return MyJob(
        job=job.label,
        name=job.name,
        partition=job.partition,
        job_class=job.job_class,
        state=job.state,
        gone=job.gone,
        reason=job.reason if job.state is JobState.PENDING else "",
        nodes=job.nodes,
        preempted=preempted,
        most=most,
        preemptions=gone,
        expected=_expected(job, preempted, last, most, ahead=ahead),
    )


def _preemption(victim: Victim) -> MyPreemption:
    left_at = victim.left_at if victim.left_at is not None else victim.started_at
    had_s = max(left_at - victim.noticed_at, 0.0) if victim.noticed_at is not None else 0.0
    return MyPreemption(
        at=left_at,
        cause=cause_of(victim),
        departure=victim.departure.value if victim.departure else "",
        saved_state=_saved(victim, had_s),
        signal=victim.notice_signal if victim.gets_notice else "",
        had_s=had_s,
        run_s=max(left_at - victim.started_at, 0.0),
        back_at=victim.back_at,
    )


def _saved(victim: Victim, had_s: float) -> str:
    if victim.departure is not None and victim.departure in _SAVED:
        return _SAVED[victim.departure]
    if victim.gets_notice:
        return (
            f"had SIG{victim.notice_signal} and stayed until it was requeued {had_s:.0f} s later: "
            "it may not have saved its work"
        )
    why = "had no grace period" if victim.notice_signal else "declared no signal"
    return f"{why}, and had Slurm's SIGTERM alone: what it had saved before is left"


def _expected(job: JobView, preempted: int, last: Victim | None, most: int, *, ahead: bool) -> str:
    if job.gone:
        return ""
    left = max(most - preempted, 0)
    if job.state is JobState.PENDING and last is not None and last.awaited:
        return "runs again as soon as resources are free" + (", ahead of other best-effort jobs" if ahead else "")
    if job.state is JobState.PENDING and last is not None and last.departure is Departure.LOST:
        return "submit it again"
    if job.state not in {JobState.RUNNING, JobState.SUSPENDED}:
        return ""
    if not most or not left:
        return "will not be preempted" + (" again" if preempted else "")
    if last is not None and last.left_at is None and last.noticed_at is not None and last.back_at is None:
        return "has had its notice: it is to leave its nodes"
    return f"may be preempted {left} more time(s)" if preempted else f"may be preempted {left} time(s)"
