"""`tesched jobs` and `tesched orders`: the queue with its classes, and the preemptions with their steps."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from sqlalchemy import Engine
from tesched_core.model.cluster import JobState
from tesched_core.model.order import Ending
from tesched_core.model.snapshot import JobClass
from tesched_core.model.told_error import ToldError
from tesched_db import queries as read
from tesched_db.views import JobFilter, JobView, OrderFilter, OrderView

from tesched_cli.columns import Fields, Format, known, listed, read_format, read_sort
from tesched_cli.common import capacity_of, clock, config_option, console, json_option, names_in, store
from tesched_cli.job_columns import GONE, JOB_FIELDS, JOBS_DEFAULT, ORDER_FIELDS, SHORT_STATES
from tesched_cli.json_output import document, print_json
from tesched_cli.mine import my_jobs, show, who_asks

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
_CODES = {code: state for state, code in SHORT_STATES.items()} | {state.value: state for state in JobState}
_FORMAT = "TESCHED_FORMAT"
_MANY = "several with commas between them"


def _states(_context: click.Context, _parameter: click.Parameter, value: str | None) -> frozenset[str]:
    """Read the states, and GONE, which is none of Slurm's."""
    words = [word.upper() for word in names_in(value or "")]
    unknown = [word for word in words if word not in _CODES and word != GONE]
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is no job state; known: {', '.join(sorted([*_CODES, GONE]))}")
    return frozenset(words)


def _list(_context: click.Context, _parameter: click.Parameter, value: str | None) -> frozenset[str] | None:
    """Read names with commas between them; None if there is no such option."""
    if value is None:
        return None
    found = frozenset(names_in(value))
    if not found:
        raise click.BadParameter(f"{value!r} names none; right are names with commas between them")
    return found


class UnknownUserError(ToldError):
    """No user of this name is known, and no job of one."""


def _names(users: frozenset[str] | None) -> frozenset[str]:
    """Return the users' names; a number is a user's id, as for squeue."""
    found = set()
    for user in users or ():
        with suppress(KeyError, ValueError, OverflowError):
            found.add(pwd.getpwuid(int(user)).pw_name if user.isascii() and user.isdecimal() else user)
            continue
        found.add(user)
    return frozenset(found)


def _refuse_unknown(engine: Engine, users: frozenset[str]) -> None:
    """Raise UnknownUserError for users that neither this host nor a job in the store knows, as squeue says it."""
    unknown = [user for user in sorted(users) if not _is_here(user) and not _has_jobs(engine, user)]
    if unknown:
        raise UnknownUserError(f"Invalid user: {', '.join(unknown)}; no such user is known here, and none has jobs")


def _is_here(user: str) -> bool:
    try:
        return bool(pwd.getpwnam(user))
    except (KeyError, ValueError):  # ValueError: a text that can't be a name
        return False


def _has_jobs(engine: Engine, user: str) -> bool:
    return bool(read.jobs(engine, JobFilter(users=frozenset({user}), with_gone=True, limit=1)))


def _as_squeue(fields: Fields[R], *, variable: str | None) -> Callable[[F], F]:
    """Give a command squeue's options on columns and order, for these fields."""
    environment = f" Environment: {variable}, as SQUEUE_FORMAT." if variable else ""

    def columns(context: click.Context, parameter: click.Parameter, text: str | None) -> Format[R] | None:
        # The environment's are read where they are shown: `_usual`.
        is_asked = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        return read_format(text, fields) if text is not None and is_asked else None

    options = (
        click.option(
            "-o",
            "-O",
            "--format",
            "form",
            metavar="FORMAT",
            envvar=variable,
            callback=columns,
            help='The columns, as squeue\'s -o ("%.18i %.9P %j": letters, each with a width) or as its -O '
            f"(jobid,user:10,class: names). Known: {known(fields)}.{environment}",
        ),
        click.option(
            "-S",
            "--sort",
            "sort",
            metavar="FIELDS",
            callback=lambda _context, _parameter, text: None if text is None else read_sort(text, fields),
            help="The order, as squeue's -S: letters or names, each after - for the greatest first (-t,user).",
        ),
        click.option(
            "--noheader", is_flag=True, help="No line of headings. (squeue's -h: here -h is --help, as everywhere.)"
        ),
    )

    def give(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return give


def _usual(fields: Fields[R], default: Format[R]) -> Format[R]:
    """Return the columns of the environment, or the default. Raises BadParameter, which names the variable."""
    text = os.environ.get(_FORMAT)
    try:
        return read_format(text, fields) if text else default
    except click.BadParameter as error:
        error.param_hint = f"{_FORMAT} of the environment"
        raise


@document("jobs")
@dataclass(frozen=True, slots=True, kw_only=True)
class JobsJson:
    """Jobs, but for those of --mine."""

    jobs: tuple[JobView, ...]


@document("orders")
@dataclass(frozen=True, slots=True, kw_only=True)
class OrdersJson:
    """Preemptions, the oldest first; where there are more than `--limit` says, the newest of them."""

    orders: tuple[OrderView, ...]


@click.command()
@config_option
@json_option
@click.option("--class", "job_class", type=click.Choice([kind.value for kind in JobClass]), help="Only this class.")
@click.option("-u", "--user", "users", callback=_list, help=f"Only these users' jobs, {_MANY}.")
@click.option("-p", "--partition", "partitions", callback=_list, help=f"Only jobs of these partitions, {_MANY}.")
@click.option("-t", "--states", callback=_states, help="Only these states, such as PD,R; GONE: their end was not seen.")
@click.option("--mine", "--me", is_flag=True, help="Only your own, and what became of those that were preempted.")
@click.option(
    "--all", "with_gone", is_flag=True, help="Also those that Slurm no longer knows (GONE: their end was not seen)."
)
@_as_squeue(JOB_FIELDS, variable=_FORMAT)
def jobs(
    *,
    config_path: Path,
    as_json: bool,
    job_class: str | None,
    users: frozenset[str] | None,
    partitions: frozenset[str] | None,
    states: frozenset[str],
    mine: bool,
    with_gone: bool,
    form: Format[JobView] | None,
    sort: Callable[[Sequence[JobView]], list[JobView]] | None,
    noheader: bool,
) -> None:
    """List the jobs with their class and the rule that gave it.

    With --mine: your own jobs, how often each was preempted of how many times, for what kind of job, what is known of
    its saved state, and what comes next (docs/howto/preempted.md). Exit status 2 and one line that names the group
    where you may not read the state store.

    Columns, order and filters are given as to squeue. On a terminal too narrow for them long cells are shortened and
    some columns left out, unless --format asks for them; in a pipe none is.
    """
    if mine and users is not None:
        raise click.UsageError("--mine is your own jobs: it cannot be together with --user")
    which = JobFilter(
        users=frozenset({who_asks()}) if mine else _names(users),
        partitions=partitions or frozenset(),
        job_class=JobClass(job_class) if job_class else None,
        states=frozenset(_CODES[word] for word in states if word != GONE),
        # As it is shown: a job that Slurm has forgotten neither runs nor waits, as far as is known.
        forgotten=GONE in states if states else None,
        with_gone=with_gone,
    )
    in_order = sort if sort is not None and not as_json else list[JobView]
    # A table of its own, to which the user's usual columns do not apply.
    if mine and (as_json or form is None):
        show(my_jobs(config_path, who_asks(), which, in_order), as_json=as_json, header=not noheader)
        return
    shown = form or (JOBS_DEFAULT if as_json else _usual(JOB_FIELDS, JOBS_DEFAULT))
    with store(config_path) as engine:
        _refuse_unknown(engine, which.users)
        found = read.jobs(engine, which)
    if as_json:
        print_json(JobsJson(jobs=found))
        return
    out = console()
    for line in listed(in_order(found), shown, header=not noheader, width=capacity_of(out)):
        out.print(line, soft_wrap=True)


@click.command()
@config_option
@json_option
@click.option("--open", "open_only", is_flag=True, help="Only those under way.")
@click.option("--futile", "futile_only", is_flag=True, help="Only those for which a job was preempted for nothing.")
@click.option("-u", "--user", "users", callback=_list, help=f"Only those with jobs of these users, {_MANY}.")
@click.option("--mine", "--me", is_flag=True, help="Only those in which a job of yours is the TE job or a victim.")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 1_000_000), default=20, show_default=True, help="The newest so many."
)
@_as_squeue(ORDER_FIELDS, variable=None)
def orders(
    *,
    config_path: Path,
    as_json: bool,
    open_only: bool,
    futile_only: bool,
    users: frozenset[str] | None,
    mine: bool,
    limit: int,
    form: Format[OrderView] | None,
    sort: Callable[[Sequence[OrderView]], list[OrderView]] | None,
    noheader: bool,
) -> None:
    """List the preemptions, each with its steps.

    With --format each is on one line.
    """
    if mine and users is not None:
        raise click.UsageError("--mine is orders with your own jobs: it cannot be together with --user")
    theirs = frozenset({who_asks()}) if mine else _names(users)
    which = OrderFilter(open_only=open_only, futile_only=futile_only, users=theirs, limit=limit)
    with store(config_path) as engine:
        _refuse_unknown(engine, theirs)
        found = read.orders(engine, which)
    if as_json:
        print_json(OrdersJson(orders=found))
        return
    out = console()
    in_order = found if sort is None else sort(found)
    if form is not None:
        for line in listed(in_order, form, header=not noheader, width=capacity_of(out)):
            out.print(line, soft_wrap=True)
        return
    # In a pipe a line is as long as it is.
    is_whole = capacity_of(out) is None
    if not found and not noheader:
        out.print("no orders")
    for view in in_order:
        order = view.order
        ending = (order.ending or order.state).replace("_", " ")
        if order.ending is Ending.SHADOW:
            ending = "would have been given (mode shadow: recorded, nothing was done)"
        heading = f"order {order.order_id} for job {view.preemptor_label} ({view.preemptor_user}): {ending}"
        out.print(heading, style="bold", soft_wrap=is_whole)
        for step in view.transitions:
            who = f"job {step.job_id}: " if step.job_id else ""
            would = "would have: " if order.ending is Ending.SHADOW and step.after != order.state else ""
            out.print(f"  {clock(step.at)}  {would}{who}{step.text}", soft_wrap=is_whole)
