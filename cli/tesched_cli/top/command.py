"""`tesched top`: the command. What the terminal shows is `app.py`."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import click
from sqlalchemy import Engine
from tesched_core.model.cluster import JobState
from tesched_core.model.extra import Extra
from tesched_daemon.config import Config
from tesched_db import queries as read
from tesched_db.views import JobFilter, JobView

from tesched_cli.common import Terminal, config_option, configuration, iterate_option, refuse_without, store_of
from tesched_cli.explain import explained, story_lines
from tesched_cli.health import health
from tesched_cli.render.troubles import trouble_lines
from tesched_cli.top.poll import Poll

TEXTUAL = Extra(package="Textual", module="textual.app", install=".[top]")
_HERE = JobFilter(states=frozenset({JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED}))


@click.command()
@config_option
@iterate_option
def top(*, config_path: Path, every_s: float) -> None:
    """Watch queue, orders and nodes on a terminal.

    Enter opens a job's story. It reads the state store alone and changes nothing; the keys are in its last line
    (docs/howto/top.md).
    """
    refuse_without([TEXTUAL], "tesched top")
    config = configuration(config_path)
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM", "dumb") == "dumb":
        raise click.UsageError("tesched top needs a terminal; `tesched status` prints the same once")
    from tesched_cli.top.app import Top  # noqa: PLC0415 - Textual is an extra

    # Where a shell has it ignored, it would go on without its terminal, and take half a core.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    with store_of(config) as engine:
        Top(Store(engine, config), every_s=every_s).run()


class Store:
    """Reader of the state store. Its methods raise StoreError."""

    def __init__(self, engine: Engine, config: Config) -> None:
        """Read this store; what a job's limits are follows from the configuration."""
        self.engine = engine
        self._config = config
        self._jobs: tuple[JobView, ...] = ()
        self._jobs_of: object = None

    def poll(self) -> Poll:
        """Read it now; jobs, of which there may be many, only once the daemon has written anew."""
        view = read.status(self.engine)
        written = view.daemon and (view.daemon.pid, view.daemon.leads_since, view.daemon.reported_at)
        if self._jobs_of is None or self._jobs_of != written:
            self._jobs, self._jobs_of = read.jobs(self.engine, _HERE), written
        now = time.time()
        troubles = sorted(trouble_lines(view, self._config.guard, now), key=lambda line: "red" not in str(line.style))
        return Poll(
            at=now,
            health=health(view.daemon, now, view.standbys),
            # A line with a blank in front goes on with the one before.
            troubles=tuple(line.plain for line in troubles if not line.plain.startswith(" ")),
            status=view,
            jobs=self._jobs,
        )

    def story(self, job: str, width: int) -> list[str]:
        """Read a job's story, as `tesched explain` has it; `job` is what squeue writes, `width` in characters."""
        found = explained(self.engine, self._config, job, lambda: self._config)
        return list(story_lines(found, Terminal(width=width))) if found else [f"job {job}: tesched has never seen it"]
