"""Puts the parts together: from a configuration to a running daemon."""

from __future__ import annotations

import logging
import os
import sys

from tesched_core.actions import Failure
from tesched_core.snapshot import Snapshot
from tesched_db import migrate
from tesched_db.engine import open_store
from tesched_db.journal import SqlJournal
from tesched_slurm import clients
from tesched_slurm.command import Commands
from tesched_slurm.commands import DryRunActuator

from tesched_daemon.config import Config
from tesched_daemon.loop import Loop, Mode
from tesched_daemon.service import Service

log = logging.getLogger(__name__)


class StartError(Exception):
    """The daemon cannot start. The text says why and what to do."""


def make_loop(config: Config) -> Loop:
    """Return the loop of this configuration, its store opened. Raises StartError and JournalError."""
    commands = Commands(timeout_s=config.slurm.timeout_s, slurm_conf=config.slurm.conf)
    try:
        client = clients.choose(config.slurm.client, commands)
    except clients.NoPyslurmError as error:
        raise StartError(str(error)) from None
    log.info("Slurm is reached through %s: %s", client.name, client.why)
    return Loop(
        observer=client.observer,
        actuator=client.actuator if config.mode is Mode.ENFORCE else DryRunActuator(),
        journal=SqlJournal(open_store(config.store.url)),
        policy=config.policy.te_policy(),
        limits=config.guard,
        classes=config.classes,
        mode=config.mode,
        pace=config.loop,
        client_name=client.name,
    )


def look(config: Config) -> Snapshot:
    """Return what Slurm shows now, unclassified. Raises StartError if it does not answer."""
    commands = Commands(timeout_s=config.slurm.timeout_s, slurm_conf=config.slurm.conf)
    try:
        seen = clients.choose(config.slurm.client, commands).observer.observe()
    except clients.NoPyslurmError as error:
        raise StartError(str(error)) from None
    if isinstance(seen, Failure):
        raise StartError(f"Slurm does not answer: {seen.message}")
    return seen


def run(config: Config, *, once: bool = False) -> None:
    """Run the daemon until SIGTERM, or for one turn. Raises StartError and JournalError."""
    # journald adds time and priority by itself.
    form = "%(message)s" if "JOURNAL_STREAM" in os.environ else "%(asctime)s %(levelname)s %(message)s"
    logging.basicConfig(level=logging.INFO, format=form, stream=sys.stderr)
    for chatty in ("apscheduler", "alembic"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    if config.store.url.startswith("sqlite"):
        # One host, one file: nobody else's data is at stake, so a new store is made and an old one brought up to date.
        migrate.upgrade(config.store.url)
    loop = make_loop(config)
    if once:
        turn = loop.turn()
        log.info("%s", turn.summary)
        return
    log.info("tesched starts in mode %s, policy %s", config.mode, loop.policy.name)
    Service(loop).run()
