"""Puts the parts together: from a configuration to a running daemon."""

from __future__ import annotations

import logging
import os
import sys

from tesched_core.actions import Failure
from tesched_core.ports import Actuator
from tesched_db import migrate
from tesched_db.engine import open_store
from tesched_db.journal import SqlJournal
from tesched_slurm.command import Commands
from tesched_slurm.commands import CommandsActuator, CommandsObserver, DryRunActuator

from tesched_daemon.config import ClientChoice, Config
from tesched_daemon.loop import Loop, Mode
from tesched_daemon.service import Service


class StartError(Exception):
    """The daemon cannot start. The text says why and what to do."""


def make_loop(config: Config) -> Loop:
    """Return the loop of this configuration, its store opened. Raises StartError and JournalError."""
    if config.slurm.client is ClientChoice.PYSLURM:
        raise StartError("slurm.client: pyslurm is not built into this release; use auto or commands")
    commands = Commands(timeout_s=config.slurm.timeout_s, slurm_conf=config.slurm.conf)
    actuator: Actuator = CommandsActuator(commands=commands) if config.mode is Mode.ENFORCE else DryRunActuator()
    return Loop(
        observer=CommandsObserver(commands=commands),
        actuator=actuator,
        journal=SqlJournal(open_store(config.store.url)),
        policy=config.policy.te_policy(),
        limits=config.guard,
        classes=config.classes,
        mode=config.mode,
        pace=config.loop,
        client_name=_client_name(commands),
    )


def _client_name(commands: Commands) -> str:
    version = commands.run(("scontrol", "--version"))
    return "commands" if isinstance(version, Failure) else f"commands ({version.strip()})"


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
        logging.getLogger(__name__).info("%s", turn.summary)
        return
    logging.getLogger(__name__).info("tesched starts in mode %s, policy %s", config.mode, loop.policy.name)
    Service(loop).run()
