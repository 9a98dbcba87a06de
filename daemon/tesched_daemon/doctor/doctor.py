"""`tesched doctor`: is everything in place for tesched to do its work? It reads, asks Slurm, and changes nothing.

Here are the configuration, the state store and the daemon itself; what concerns Slurm is in `slurm.py`. The
answers are those for the user who asks: run it as the daemon's.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType

from sqlalchemy import Engine
from tesched_core.model.field import Field
from tesched_core.model.journal_error import JournalError
from tesched_core.model.refused import WORDS, recent
from tesched_db import queries as read
from tesched_db.columns_there import check_columns
from tesched_db.engine import SCHEMA, open_store, parse_url
from tesched_db.liveness import heard_s_ago
from tesched_db.process import alive
from tesched_db.views import DaemonView

from tesched_daemon.bounded_read import bounded_read
from tesched_daemon.config import Config, Loaded, load_files
from tesched_daemon.config_checks import complaints, remarks
from tesched_daemon.config_errors import ConfigError
from tesched_daemon.config_lookup import search
from tesched_daemon.config_readers import unreadable
from tesched_daemon.doctor import reach
from tesched_daemon.doctor import reports as doctor_reports
from tesched_daemon.doctor import slurm as doctor_slurm
from tesched_daemon.doctor.early_turns import early_turns
from tesched_daemon.doctor.finding import Finding, fail, ok, warn
from tesched_daemon.plugin_fit import user_name

#: Free space of the store's file system, in bytes: below this it is a matter of days, below that of hours.
LITTLE, TOO_LITTLE = 500e6, 20e6
_TO_COME = "has last polled at a time that is still to come, since the clock was ahead, and has not polled again"
#: What a refusal costs, and what would end it, by the field.
_LET: Mapping[Field, str] = MappingProxyType(
    {
        Field.NICE: "TE jobs are raised by explicit priorities instead; let a job_submit plugin pass the daemon's user",
        Field.PRIORITY: "where nice is refused, too, only the first in the queue has victims; let a job_submit plugin "
        "pass the daemon's user, which needs the rights of an Operator",
        Field.NODES: "TE jobs are not bound to where victims leave, and may start elsewhere; let a job_submit plugin "
        "pass the daemon's user",
        Field.BEGIN: "a victim that has left may be back on its nodes before the others of its order have left; "
        "let a job_submit plugin pass the daemon's user",
        Field.THROTTLE: "elastic arrays keep their size; let a job_submit plugin pass the daemon's user",
        Field.HOLD: "policies that go in rounds need holds; let a job_submit plugin pass the daemon's user",
    }
)


def examine(path: Path | None) -> Iterator[Finding]:
    """Yield what is found, each finding as soon as it is known. Never raises for a fault.

    `path` is the configuration; None: the one that is found.
    """
    named = path is not None
    try:
        path = path or search()
    except ConfigError as error:
        text, _, advice = str(error).rpartition("; ")
        yield fail("configuration", text, advice)
        return
    try:
        loaded = load_files(path)
    except ConfigError as error:
        # One that was searched for has to be trusted, too; a check of a file by its name leaves that out.
        again = f"tesched config check {path}" if named else "tesched config check"
        yield fail("configuration", str(error), f"mend it; `{again}` tries it again")
        return
    yield _configuration(loaded)
    yield from _checked(loaded)
    yield from doctor_reports.examine(loaded.config.reports)
    yield from _losses(loaded.config)
    yield from doctor_slurm.examine(loaded.config)
    yield from _store(loaded.config)


def _configuration(loaded: Loaded) -> Finding:
    config = loaded.config
    rules = config.classes.rules
    what = f"{', '.join(loaded.tree.files)}: mode {config.mode}, policy {config.policy.te}, {len(rules)} rule(s)"
    if not config.classes.makes_te:
        text = f"{what}; none makes a job trial and error, so no job is ever preempted"
        return warn("configuration", text, 'write a rule with job_class = "te"; `tesched config example` has one')
    return ok("configuration", what)


def _checked(loaded: Loaded) -> Iterator[Finding]:
    """Yield what `tesched config check` says besides."""
    for complaint in complaints(loaded):
        text, _, advice = complaint.rpartition("; ")
        yield fail("configuration", text, advice)
    for one in remarks(loaded):
        # What is wrong with slurm.conf keeps this command from going on, and is said there.
        if one.key == "slurm.conf":
            continue
        yield warn("configuration", f"{one.file}: {one.key}: {one.text}", one.advice)
    for text, advice in unreadable(loaded):
        yield warn("configuration", text, advice)


def _losses(config: Config) -> Iterator[Finding]:
    """Yield whether slaq hears of losses, where it is the policy."""
    if not config.policy.has("slaq"):
        return
    spool, socket = config.reports.spool, config.reports.socket
    if not spool and not socket:
        text = "policy.be is slaq, and reports.spool is empty: without losses, elastic arrays have equal shares"
        yield warn("losses", text, "name the folder into which jobs write their reports; docs/howto/reports.md")
        return
    try:
        is_there = bool(socket) or bounded_read(Path(spool).is_dir)
    except TimeoutError as error:
        yield warn("losses", f"{spool} (reports.spool) {error.strerror}", "check its file system")
        return
    if not is_there:
        text = f"policy.be is slaq, and there is no folder {spool} (reports.spool) to read losses from"
        yield warn("losses", text, "make it, mode 1777, on the file system that jobs share; docs/howto/reports.md")
    else:
        yield ok("losses", f"slaq hears of them by {' and '.join(filter(None, (spool, socket)))}")


def _store(config: Config) -> Iterator[Finding]:
    url = parse_url(config.store.url)
    path = Path(url.database or "").absolute() if url.get_backend_name() == "sqlite" else None
    try:
        engine = open_store(config.store.url, read_only=True)
    except JournalError as error:
        # The store's errors say what to do behind a semicolon.
        text, _, advice = str(error).partition("; ")
        yield fail("store", text, advice or "mend store.url, or the database that it names")
        return
    try:
        check_columns(engine)
        yield _opened(config, path)
        if path is not None:
            yield _free_space(path)
        yield _daemon(config, engine)
        yield from early_turns(config, read.status(engine).cycles)
        yield from _reach(config, engine)
        yield from _refused(engine)
        yield from _unread_limits(engine)
    except JournalError as error:
        yield fail("store", str(error), "check the database that store.url names")
    finally:
        engine.dispose()


def _opened(config: Config, path: Path | None) -> Finding:
    what = f"{config.store.shown()} answers, schema {SCHEMA}"
    if path is not None and not all(os.access(each, os.W_OK, effective_ids=True) for each in (path, path.parent)):
        advice = "run this as the daemon's user, or give that user the file and its folder"
        return warn("store", f"{what}; {user_name()} may not write {path} and its folder", advice)
    return ok("store", what)


def _free_space(path: Path) -> Finding:
    free = shutil.disk_usage(path.parent).free
    text = f"{free / 1e9:.1f} GB free beside {path}"
    if free >= LITTLE:
        return ok("disk", text)
    advice = "free some space: without it the daemon can write nothing, and then does nothing"
    return (warn if free >= TOO_LITTLE else fail)("disk", f"{free / 1e6:.0f} MB free beside {path}", advice)


def _daemon(config: Config, engine: Engine) -> Finding:
    daemon = read.daemon(engine)
    if daemon is None:
        return warn(
            "daemon", "has never polled, by this store", "start it: systemctl enable --now tesched, or `tesched daemon`"
        )
    now = time.time()
    who, ago_s = f"pid {daemon.pid} on {daemon.host}, mode {daemon.mode}", heard_s_ago(daemon, now)
    if now > daemon.late_at:
        text = f"has not polled for {ago_s:.0f} s ({who})" if ago_s is not None else f"{_TO_COME} ({who})"
        return fail("daemon", text, "systemctl status tesched, journalctl -u tesched; then start it")
    if daemon.failure_kind is not None:
        text = f"runs, and cannot see Slurm: {daemon.failure_kind}: {daemon.failure} ({who})"
        return fail("daemon", text, "see what is said of slurmctld above, and journalctl -u tesched")
    return _up_to_date(config, daemon, f"polled {ago_s or 0.0:.1f} s ago ({who})")


def _reach(config: Config, engine: Engine) -> Iterator[Finding]:
    """Yield the paths that the daemon does not see, where it runs on this host."""
    daemon = read.daemon(engine)
    if daemon is not None and alive(daemon.pid, daemon.place, daemon.pid_ticks):
        yield from reach.examine(config, daemon.pid)


def _refused(engine: Engine) -> Iterator[Finding]:
    """Yield the kinds of change that Slurm has refused lately."""
    daemon = read.daemon(engine)
    for field, one in recent(daemon.refused, time.time()).items() if daemon is not None else ():
        if not one.count:
            continue
        whose = "jobs" if one.everywhere else f"jobs of {', '.join(one.users)}"
        ago_s = max(time.time() - one.at, 0.0)
        text = (
            f'Slurm refuses to change {WORDS[field]} of {whose}: "{one.said}" ({one.count} time(s), {ago_s:.0f} s ago)'
        )
        yield warn("refused", text, _LET[field])


def _unread_limits(engine: Engine) -> Iterator[Finding]:
    """Yield the limits that the daemon could not read."""
    daemon = read.daemon(engine)
    for one in daemon.limits_unread if daemon is not None else ():
        ago_s = max(time.time() - one.since, 0.0)
        text = f"the daemon can't read {one.words} since {ago_s:.0f} s: {one.said}; {one.meaning}"
        yield warn("limits", text, "it needs the rights of an Operator, and Slurm's answer; it tries again by itself")


def _up_to_date(config: Config, daemon: DaemonView, text: str) -> Finding:
    if daemon.version != version("tesched"):
        text = f"{text}; it is tesched {daemon.version}, installed is {version('tesched')}"
        return warn("daemon", text, "systemctl restart tesched")
    if daemon.mode != config.mode:
        return warn("daemon", f"{text}; the configuration says {config.mode}", "systemctl reload tesched")
    return ok("daemon", text)
