"""`tesched daemon`, `tesched db …`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click
from tesched_daemon.wiring import run
from tesched_db import migrate, retention

from tesched_cli.common import (
    Duration,
    changing_config_option,
    config_option,
    configuration,
    json_option,
    say,
    writable_store,
)
from tesched_cli.json_output import document, print_json


@document("db prune")
@dataclass(frozen=True, slots=True, kw_only=True)
class PruneJson:
    """What was forgotten."""

    pruned: retention.Pruned


@click.command()
@config_option
@click.option("--once", is_flag=True, help="Make one turn and end.")
def daemon(config_path: Path, *, once: bool) -> None:
    """Run the daemon in the foreground until SIGTERM. SIGHUP has it read the configuration again."""
    run(config_path, once=once)


@click.group()
def db() -> None:
    """Make the state store, or bring it up to date."""


@db.command()
@changing_config_option
def upgrade(config_path: Path) -> None:
    """Make the tables, or bring them up to date."""
    say(f"the state store is at schema {migrate.upgrade(configuration(config_path).store.url)}")


@db.command()
@config_option
def current(config_path: Path) -> None:
    """Say which schema the store has."""
    say(migrate.current(configuration(config_path).store.url) or "empty: run `tesched db upgrade`")


@db.command()
@changing_config_option
@click.option(
    "--older-than",
    "older_than_s",
    type=Duration(unit=True),
    default="90d",
    show_default=True,
    help="What ended before: 90d, 12h.",
)
@json_option
def prune(config_path: Path, *, older_than_s: float, as_json: bool) -> None:
    """Forget what ended long ago; may run beside the daemon. What is under way stays, with all that was done for it."""
    with writable_store(config_path) as engine:
        gone = retention.prune(engine, older_than_s)
    if as_json:
        print_json(PruneJson(pruned=gone))
    else:
        say(
            f"forgotten: {gone.orders} orders, {gone.cycles} cycles, {gone.refusals} refusals, {gone.jobs} jobs, "
            f"{gone.throughputs} throughputs, {gone.runs} learned runs"
        )
