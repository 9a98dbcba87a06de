"""The configuration read again while the daemon runs: what holds from the next turn on, and what needs a restart."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tesched_core.ports import Actuator
from tesched_slurm.commands_actuator import DryRunActuator

from tesched_daemon.config import Config, leaves, load_files
from tesched_daemon.config_checks import refuse, remarks
from tesched_daemon.config_errors import SECRET, ConfigError, toml
from tesched_daemon.loop import Loop
from tesched_daemon.metrics.exporter import Exporter
from tesched_daemon.settings import Mode
from tesched_daemon.tell_command import Teller

log = logging.getLogger(__name__)


def acting(mode: Mode, actuator: Actuator) -> Actuator:
    """Actuator of this mode; `actuator` is the one that really acts."""
    return actuator if mode is Mode.ENFORCE else DryRunActuator()


@dataclass(kw_only=True)
class Reloader:
    """Brings a loop up to date with its files."""

    path: Path
    #: what the loop runs on now
    running: Config
    #: what speaks to Slurm in mode enforce
    actuator: Actuator
    #: what runs the command that notifies users
    teller: Teller | None = None
    #: what serves the metrics
    metrics: Exporter | None = None

    def reload(self, loop: Loop) -> str:
        """Let the loop go on with what the files say now; nothing is changed if they are bad.

        Return what an admin has yet to do, in one line; empty if nothing. Never raises for what is in the files.
        """
        try:
            loaded = load_files(self.path, waits=False)
            refuse(loaded)
        except ConfigError as error:
            log.warning("the configuration is not reloaded, the one of before stays: %s", error)
            return f"the configuration is not reloaded: {error}"
        for one in remarks(loaded):
            log.warning("%s", one)
        found = loaded.config
        # The store, the way to Slurm, the spool and the socket are open; another one would be another daemon.
        pace = replace(found.loop, socket=self.running.loop.socket)
        kept = self.running
        now = replace(found, store=kept.store, slurm=kept.slurm, reports=kept.reports, loop=pace)
        now = replace(now, run_times=kept.run_times)
        changed = _changes(self.running, now)
        loop.go_on_with(
            actuator=acting(now.mode, self.actuator),
            policies=now.policy.entries(),
            limits=now.guard,
            classes=now.classes,
            mode=now.mode,
            pace=now.loop,
            telling=now.tell.telling(now.guard),
        )
        if loop.knowledge.idle is not None:
            loop.knowledge.idle.configure(now.idle)
        if self.teller is not None:
            self.teller.configure(now.tell)
        unserved = self.metrics.configure(now.metrics.listen) if self.metrics is not None else ""
        if unserved:
            log.warning("%s", unserved)
        self.running = now
        text = ", ".join(f"{key} {before} -> {after}" for key, (before, after) in changed.items())
        log.info("configuration reloaded from %s: %s", self.path, text or "nothing has changed")
        waiting = [*_changes(now, found)]
        if not waiting:
            return unserved
        remark = f"changed in the configuration, and holds after a restart: {', '.join(waiting)}"
        log.warning("%s", remark)
        return "; ".join(filter(None, (unserved, remark)))


def _changes(before: Config, after: Config) -> Mapping[str, tuple[str, str]]:
    """Return the keys that differ, each with both values, as they stand in a file. No value may be a secret."""
    old = dict(leaves(before))
    return {
        key: ("…", "…") if key in SECRET else (_short(old[key]), _short(value))
        for key, value in leaves(after)
        if value != old[key]
    }


def _short(value: object) -> str:
    """Return the value; of a list of rules their names."""
    if value is None:
        return "none"
    return toml([part.name if hasattr(part, "name") else part for part in value] if isinstance(value, tuple) else value)
