"""`tesched undo`: puts back what tesched has changed; it needs the state store and Slurm, and no daemon."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
from tesched_core.fields.nice import awaits_release
from tesched_core.intake.classify import classified
from tesched_core.model.actions import (
    Action,
    Outcome,
    Resume,
    SetField,
    SetMarks,
    Status,
    kind_of,
)
from tesched_core.model.field import Field, HoldState, Nodes
from tesched_core.model.journal_error import JournalError
from tesched_core.model.lead import Lead
from tesched_core.model.memory import Memory
from tesched_core.model.order import VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.orders.undo import changed_still, under_notice
from tesched_core.orders.undo import undo as undone
from tesched_daemon.config import Config
from tesched_daemon.loop import Loop
from tesched_daemon.settings import Mode
from tesched_daemon.undo import not_all, put_all_back
from tesched_daemon.wiring import StartError, check_conf, look, opened_loop
from tesched_db import deeds, lease
from tesched_db import queries as read
from tesched_db.engine import open_store
from tesched_db.liveness import DaemonState
from tesched_policies.registry import STATES

from tesched_cli.common import (
    changing_config_option,
    clock,
    configuration,
    console,
    json_option,
    say,
    table,
    writable_store,
)
from tesched_cli.health import health
from tesched_cli.json_output import document, print_json

#: seconds from one read of another's lease to the next
_LOOKS_EACH_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoneChange:
    """One change that is put back."""

    #: 0: of no single job
    job_id: JobId
    #: "nice", "hold", …; its value before this, and the one that it is set to
    what: str
    was: str
    to: str
    #: "put back", "would be put back", or what came of it
    outcome: str


@document("undo")
@dataclass(frozen=True, slots=True, kw_only=True)
class UndoJson:
    """What was put back."""

    dry_run: bool
    #: nothing is left that tesched has changed
    settled: bool
    changes: tuple[UndoneChange, ...]
    #: jobs that stay suspended for now, since others have their CPUs
    suspended: tuple[JobId, ...]
    #: jobs that are held: with priority/basic Slurm would start one whose nice value is put back
    held: tuple[JobId, ...]
    #: victims that have had their notice and may leave yet: the next daemon, or undo, puts them back in the queue then
    leaving: tuple[JobId, ...]
    #: changes and orders that are not seen to be put back; null: Slurm was not seen
    left: int | None
    #: what has ended it early, such as Slurm that could not be seen, or what could not be written down; "": nothing
    trouble: str


@dataclass(kw_only=True)
class _Undone:
    """What came of it so far."""

    rows: list[tuple[Action, str]] = field(default_factory=list)
    settled: bool = False
    left: int | None = None
    trouble: str = ""
    stuck: list[JobId] = field(default_factory=list)
    held: list[JobId] = field(default_factory=list)
    leaving: tuple[JobId, ...] = ()


@click.command()
@changing_config_option
@click.option("--dry-run", is_flag=True, help="Say what would be put back, and do nothing.")
@json_option
def undo(config_path: Path, *, dry_run: bool, as_json: bool) -> None:
    """Put back what tesched has changed, and withdraw its orders.

    For a daemon that is dead, stopped or silent; while it polls, nothing is done (exit status 2). A silent one is there
    and has missed its next poll by more than 15 s: end its process first, or it may go on changing priorities. Nor is
    anything done while another process holds the lease of the store, such as one on another host that has just died;
    where the clock was ahead when it wrote, this waits for as long as a lease lasts, to see whether it writes again. A
    victim that has left waits in the queue with its own priority; a suspended one goes on, if its CPUs are free. One
    that has had its notice is awaited for 5 s; what it does after that is followed by the next daemon, or undo. While
    Slurm or the store does not answer it is tried ten times, for about 30 s. Exit status 1 if a change could not be put
    back, or it is not seen to be: the output says what was done and how much is left; 2 if nothing could be done.
    """
    config = configuration(config_path)
    engine = open_store(config.store.url, read_only=True)
    try:
        daemon = read.daemon(engine)
        memory = read.memory(engine, STATES)
        leader = lease.holder(engine)
    finally:
        engine.dispose()
    how = health(daemon, time.time())
    if how.state in {DaemonState.WELL, DaemonState.BLIND} and not dry_run:
        raise StartError(f"the daemon runs ({how.line}): stop it first, or it goes on changing priorities")
    if leader is not None and not leader.of_another_clock and not dry_run:
        # Whatever the clocks say: the store refuses what is written without the lease.
        raise StartError(f"another process works on this store ({leader}): stop it, or try again then")
    if dry_run:
        done = _would_be(config, memory)
    else:
        check_conf(config)
        with opened_loop(replace(config, mode=Mode.ENFORCE), takes_over=True) as loop:
            if leader is not None:
                wait = f"waiting {leader.left_s:.0f} s, to see whether it writes again"
                say(f"{leader.words}, by a clock that was ahead: {wait}", err=True)
                outlast(loop.journal.lead, leader.left_s)
            seen_at = daemon.seen_at if daemon is not None else None
            done = _put_back(loop, unseen_s=0.0 if seen_at is None else time.time() - seen_at)
            try:
                memory = loop.journal.load()
                done.stuck, done.leaving = _stuck(memory), under_notice(memory)
                loop.journal.resign()
                with writable_store(config_path) as engine:
                    became = "all is put back" if done.settled else "not all is put back"
                    deeds.record(engine, f"undo: {len(done.rows)} change(s), {became}")
            except JournalError as error:  # what has been put back is to be said all the same
                done.trouble = done.trouble or str(error)
        if not (done.settled or done.trouble):
            done.held = _held_now(memory, config)
    if as_json:
        changes = tuple(_plain(*row) for row in done.rows)
        print_json(
            UndoJson(
                dry_run=dry_run,
                settled=done.settled,
                changes=changes,
                suspended=tuple(done.stuck),
                held=tuple(done.held),
                leaving=done.leaving,
                left=done.left,
                trouble=done.trouble,
            )
        )
    else:
        _show(done, dry_run=dry_run)
    if not done.settled and not dry_run:
        raise SystemExit(1)


def _would_be(config: Config, memory: Memory) -> _Undone:
    """Find out what would be put back. Raises StartError."""
    seen = look(config)
    memory, decision = undone(memory, classified(seen, config.classes), config.guard)
    rows = [(action, "would be put back") for action in decision.actions]
    stuck, held = _stuck(memory, {action.job_id for action, _ in rows}), _held(memory, seen)
    leaving, left = under_notice(memory), changed_still(memory, seen)
    settled = not (rows or stuck or held or leaving)
    return _Undone(rows=rows, stuck=stuck, held=held, leaving=leaving, settled=settled, left=left)


def _put_back(loop: Loop, unseen_s: float) -> _Undone:
    """Put all back, to the end or for as long as that is tried. Raises StartError and JournalError if none was."""
    done = _Undone()
    try:
        for turn in put_all_back(loop, unseen_s=unseen_s):
            if turn.trouble and turn.refused is None and turn.trouble != done.trouble:
                say(f"{turn.trouble}; trying again", err=True)
            # Of one that the store refuses commands may have gone out.
            done.rows += [(outcome.action, _became(outcome)) for outcome in turn.outcomes]
            done.settled, done.trouble = turn.settled, turn.trouble
            if not turn.trouble:
                done.left = turn.left
    except JournalError as error:
        if not done.rows:
            raise
        done.trouble = str(error)
    if done.trouble and done.left is None and not done.rows:
        raise StartError(done.trouble)
    return done


def outlast(
    lead: Callable[[], Lead],
    left_s: float,
    *,
    sleep: Callable[[float], None] = time.sleep,
    steady: Callable[[], float] = time.monotonic,
) -> None:
    """Wait until the lease has lasted as long as it can. Raises StartError if it was renewed meanwhile."""
    until = steady() + left_s + _LOOKS_EACH_S
    while leader := lead().leader:
        if steady() > until:
            raise StartError(f"another process works on this store ({leader}): stop it, or try again then")
        sleep(_LOOKS_EACH_S)


def _stuck(memory: Memory, resumed: Collection[JobId] = ()) -> list[JobId]:
    """Return the jobs that stay suspended for now, since others have their CPUs."""
    return [
        victim.job_id
        for order in memory.open_orders()
        for victim in order.victims
        if victim.state is VictimState.SUSPENDED and victim.suspended_at is not None and victim.job_id not in resumed
    ]


def _held_now(memory: Memory, config: Config) -> list[JobId]:
    try:
        return _held(memory, look(config))
    except StartError:  # what has been put back is to be said all the same
        return []


def _held(memory: Memory, seen: Snapshot) -> list[JobId]:
    """Find the jobs whose nice value stays for as long as they are held."""
    changes = memory.changes_of(Field.NICE).values()
    jobs = ((one, seen.jobs.get(one.job_id)) for one in changes if not one.restored)
    return sorted(job.job_id for one, job in jobs if job is not None and awaits_release(job, one, seen))


def _became(outcome: Outcome) -> str:
    if outcome.status is Status.SENT:
        return "put back"
    return f"{outcome.status}: {outcome.failure.message}" if outcome.failure else str(outcome.status)


def _change(action: Action) -> tuple[str, str, str]:
    match action:
        case SetField():
            return _set(action)
        case Resume():
            return "state", "suspended", "running"
        case SetMarks():
            return "marks", "marked jobs", f"{len(action.marks)} marked"
        case _:
            return kind_of(action), "", ""


def _set(action: SetField) -> tuple[str, str, str]:
    match action.value, action.previous:
        case Nodes() as nodes, Nodes() as previous:
            some = f"{nodes.count} of " if nodes.count else ""
            return "nodes", ",".join(previous.names), f"{some}{','.join(nodes.names) or 'any'}"
        case HoldState.UNMARKED, _:
            return "mark", "of the hook", "none"
        case int(value), int(previous) if action.field is Field.BEGIN:
            return "begin", clock(previous), clock(value)
        case 0, previous if action.field is Field.THROTTLE:
            return "throttle", str(previous), "none"
        case value, previous:
            return action.field.value, str(previous), str(value)


def _plain(action: Action, became: str) -> UndoneChange:
    what, now, then = _change(action)
    return UndoneChange(job_id=action.job_id, what=what, was=now, to=then, outcome=became)


def _show(done: _Undone, *, dry_run: bool) -> None:
    out = console()
    if done.rows:
        shown = table("JOB>", "WHAT", "IS", "TO", "")
        for action, became in done.rows:
            shown.add_row(str(action.job_id), *_change(action), became)
        out.print(shown)
    for job_id in done.stuck:
        out.print(f"job {job_id} is suspended, and others have its CPUs: it can be resumed when they have ended")
    for job_id in done.held:
        out.print(
            f"job {job_id} is held, and Slurm would start it with a change of its nice value (priority/basic): "
            "try `tesched undo` again when it is released"
        )
    for job_id in done.leaving:
        out.print(
            f"job {job_id} has had its notice, and may leave yet: it is put back in the queue if it does, by the next "
            "daemon or the next `tesched undo`, and else goes on"
        )
    if done.settled:
        out.print("nothing is left that tesched has changed")
    elif not dry_run:
        why = f": {done.trouble}" if done.trouble else ""
        out.print(f"{not_all(done.left)}{why}")
