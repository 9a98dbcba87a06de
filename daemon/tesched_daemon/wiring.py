"""Puts the parts together: from a configuration to a running daemon."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from sqlalchemy import Engine
from tesched_core.model.actions import Failure
from tesched_core.model.cluster import Job
from tesched_core.model.job_report import Curve, Reported
from tesched_core.model.journal_error import JournalError
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.model.told_error import ToldError
from tesched_core.ports import Actuator
from tesched_db import migrate
from tesched_db.engine import open_store
from tesched_db.journal import SqlJournal
from tesched_db.reports import stored
from tesched_db.trainings import gone_tasks
from tesched_policies.registry import STATES
from tesched_slurm import clients
from tesched_slurm.run_command import Commands
from tesched_slurm.sacct_history import Accounted, accounted, table
from tesched_slurm.submission_signs import SubmissionCount

from tesched_daemon import log_lines
from tesched_daemon.admission_file import AdmissionFile
from tesched_daemon.config import Config, load_files
from tesched_daemon.config_checks import CONF_ADVICE, refuse, remarks, unread_conf
from tesched_daemon.config_errors import ConfigError
from tesched_daemon.idle_file import IdleFile
from tesched_daemon.job_reports import socket as report_socket
from tesched_daemon.job_reports.inbox import Inbox
from tesched_daemon.job_reports.rounds import SpoolReports
from tesched_daemon.job_reports.spool import UnreadError
from tesched_daemon.knowledge import Knowledge
from tesched_daemon.loop import Loop
from tesched_daemon.marks_file import MarkingActuator, MarksFile
from tesched_daemon.metrics.exporter import Exporter
from tesched_daemon.new_jobs import NewJobs
from tesched_daemon.reload import Reloader, acting
from tesched_daemon.run_time_source import LearnedRunTimes
from tesched_daemon.service import Service
from tesched_daemon.settings import Mode
from tesched_daemon.tell_command import Teller, TellingActuator
from tesched_daemon.throughput_source import StoredSpeeds
from tesched_daemon.undo import put_all_back_at_a_stop
from tesched_daemon.wakeup import listening
from tesched_daemon.wakeup_shares import WakeupShares

log = logging.getLogger(__name__)


class StartError(ToldError):
    """The daemon cannot start. The text says why and what to do."""


def connect(config: Config) -> clients.Client:
    """Return the way to Slurm that the configuration says. Raises StartError."""
    try:
        client = clients.choose(config.slurm.client, _commands(config))
        return replace(
            client, actuator=MarkingActuator(actuator=client.actuator, file=MarksFile(path=Path(config.slurm.marks)))
        )
    except clients.NoPyslurmError as error:
        raise StartError(str(error)) from None


def _commands(config: Config) -> Commands:
    return Commands(timeout_s=config.slurm.timeout_s, slurm_conf=config.slurm.conf)


@contextmanager
def opened_loop(
    config: Config,
    client: clients.Client | None = None,
    *,
    takes_over: bool = False,
    inbox: Inbox | None = None,
    teller: Teller | None = None,
) -> Iterator[Loop]:
    """Give the loop of this configuration, with its store open for as long. Raises StartError and JournalError.

    `client` is the way to Slurm if there is one. One that `takes_over` writes as `tesched undo`. `inbox`
    is where reports come that are sent. `teller` notifies users; without one only their jobs' records do.
    """
    client = client or connect(config)
    restorer = telling_too(client.actuator, teller)
    engine = open_store(config.store.url)
    try:
        yield Loop(
            observer=client.observer,
            watcher=client.watcher,
            single_reads=client.single_reads,
            actuator=acting(config.mode, restorer),
            restorer=restorer,
            marks=client.actuator.file if isinstance(client.actuator, MarkingActuator) else None,
            admission=AdmissionFile(path=Path(config.slurm.admission)),
            telling=config.tell.telling(config.guard),
            told=teller.counts if teller else dict,
            journal=SqlJournal(engine, takes_over=takes_over, states=STATES, learns=config.run_times.learn),
            policies=config.policy.entries(),
            knowledge=Knowledge(
                declarations=client.declarations,
                free_of_limits=client.limits,
                reports=_reports(config, engine, inbox),
                speeds=StoredSpeeds(engine=engine),
                expectations=LearnedRunTimes(engine=engine) if config.run_times.learn else None,
                idle=IdleFile(config=config.idle),
            ),
            limits=config.guard,
            classes=config.classes,
            mode=config.mode,
            pace=config.loop,
            client_name=client.name,
            calls=lambda: client.calls,
        )
    finally:
        engine.dispose()


def telling_too(actuator: Actuator, teller: Teller | None) -> Actuator:
    """Return the actuator that notifies users besides."""
    return TellingActuator(actuator=actuator, teller=teller) if teller else actuator


def _reports(config: Config, engine: Engine, inbox: Inbox | None) -> SpoolReports | None:
    """Receiver of what jobs say; None where they have no way to say it."""
    if not config.reports.spool and inbox is None:
        return None

    def earlier(array: JobId, there: Collection[int]) -> tuple[Curve, ...]:
        try:
            return gone_tasks(engine, array, there)
        except JournalError as error:
            log.warning("what tasks of array %s reported before is not known: %s", array, error)
            return ()

    def before(job: Job) -> Reported | None:
        try:
            return stored(engine, job)
        except JournalError as error:
            raise UnreadError(str(error)) from error

    folder = Path(config.reports.spool) if config.reports.spool else None
    return SpoolReports(folder, inbox=inbox, stored=before, earlier=earlier)


def check_conf(config: Config) -> None:
    """Raise StartError where the configured slurm.conf cannot be read: each of Slurm's commands would hang for it.

    For commands that a person waits for. The daemon goes on polling: a file server may be late.
    """
    if why := unread_conf(config.slurm.conf):
        raise StartError(f"slurm.conf: {why}; {CONF_ADVICE}")


def look(config: Config) -> Snapshot:
    """Read what Slurm shows now, unclassified. Raises StartError if it does not answer."""
    check_conf(config)
    seen = connect(config).observer.observe()
    if isinstance(seen, Failure):
        raise StartError(f"Slurm does not answer: {seen.message}")
    return seen


def history(config: Config, since_s: float) -> Accounted:
    """Return the runs of the last `since_s` seconds that ended by themselves, as sacct has them. Raises StartError."""
    check_conf(config)
    found = accounted(_commands(config), since_s)
    if isinstance(found, Failure):
        raise StartError(f"sacct does not say what ran: {found.message}")
    return found


def history_table(config: Config, since_s: float) -> str:
    """Return sacct's table of the jobs of the last `since_s` seconds that ended. Raises StartError."""
    check_conf(config)
    found = table(_commands(config), since_s)
    if isinstance(found, Failure):
        raise StartError(f"sacct does not say what ran: {found.message}")
    return found


def run(path: Path, *, once: bool = False) -> None:
    """Run the daemon on the configuration in `path` until SIGTERM, or for one turn.

    Raises ConfigError, StartError and JournalError.
    """
    loaded = load_files(path)
    refuse(loaded)
    config = loaded.config
    log_lines.set_up()
    for remark in remarks(loaded):
        log.warning("%s", remark)
    if config.store.url.startswith("sqlite"):
        # One host, one file: no other data is at stake, so a new store is made and an old one brought up to date.
        migrate.upgrade(config.store.url)
    client = connect(config)
    log.info("Slurm is reached through %s: %s", client.name, client.why)
    inbox = Inbox() if config.reports.socket and not once else None
    teller = Teller(config.tell)
    # To the end: a second SIGTERM must not keep what is changed from being put back.
    with ExitStack() as signals, opened_loop(config, client, inbox=inbox, teller=teller) as loop:
        try:
            if once:
                turn = loop.turn()
                log.info("%s", turn.summary)
            else:
                actuator = telling_too(client.actuator, teller)
                reloader = Reloader(path=path, running=config, actuator=actuator, teller=teller)
                with _metrics(loop, reloader):
                    _serve(loop, reloader, inbox, signals)
        finally:
            _leave_file(loop)
        _resign(loop)
    teller.close()


def _serve(loop: Loop, reloader: Reloader, inbox: Inbox | None, signals: ExitStack) -> None:
    """Run until SIGTERM; then put back what is changed, where that is configured. Signals are taken for `signals`."""
    shares = WakeupShares(lambda: clients.slurm_user(_commands(reloader.running)))
    count = SubmissionCount(commands=_commands(reloader.running))
    to_slurm = loop.calls
    loop.calls = lambda: {**to_slurm(), **shares.counts(), **count.commands.calls}
    names = "+".join(entry.policy.label for entry in loop.policies)
    log.info("tesched starts in mode %s, policy %s", loop.mode, names)
    service = Service(loop, reload=reloader.reload)
    loop.new_jobs = new_jobs = NewJobs(count=count, poked=partial(service.poke, again=False), served=shares.found)
    reports = reloader.running.reports
    if loop.admission is not None:
        # One that an earlier process has left, before the socket is there: this one's mode may be another.
        loop.admission.withdraw()
        # Their changes of jobs are no submissions; root's are none by themselves. slurmctld may be up later than this.
        loop.admission.uids = lambda: {os.geteuid(), *shares.hooks()} - {0}
    with (
        listening(reloader.running.loop.socket, service.poke, shares),
        report_socket.listening(reports.socket, reports.munge_socket, inbox or Inbox()),
        new_jobs.running(),
    ):
        signals.enter_context(service.signals())
        service.run()
        # While the socket is there: a job that is held finds a daemon, or is not held.
        _leave_file(loop)
    acts = loop.mode is Mode.ENFORCE or loop.is_leaving
    if reloader.running.undo_on_stop and acts:
        put_all_back_at_a_stop(loop)


@contextmanager
def _metrics(loop: Loop, reloader: Reloader) -> Iterator[None]:
    """Serve the metrics until the block ends, where the configuration says. Raises ConfigError if that cannot be."""
    config = reloader.running
    metrics = Exporter(
        store_url=config.store.url, mode=lambda: loop.mode, calls=lambda: {**loop.calls()}, partitions=loop.partitions
    )
    if why := metrics.configure(config.metrics.listen):
        raise ConfigError(f"{load_files(reloader.path).tree.blamed('metrics.listen')}: {why}")
    reloader.metrics, loop.metrics_trouble = metrics, lambda: metrics.trouble
    try:
        yield
    finally:
        metrics.close()


def _leave_file(loop: Loop) -> None:
    """Remove the admission file, if this process has written it."""
    if loop.admission is not None:
        loop.admission.leave()


def _resign(loop: Loop) -> None:
    """Give the lead up. That the store is away is no reason for a stop to fail: then the lease runs out."""
    try:
        loop.journal.resign()
    except JournalError as error:
        log.warning("the lead could not be given up, and runs out by itself: %s", error)
