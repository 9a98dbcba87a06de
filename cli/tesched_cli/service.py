"""`tesched daemon`, `tesched config …`, `tesched db …`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click
from tesched_daemon.config import DEFAULT_PATH, load
from tesched_daemon.wiring import run
from tesched_db import migrate

from tesched_cli.common import config_option, configuration


@click.command()
@config_option
@click.option("--once", is_flag=True, help="Make one turn and end.")
def daemon(config_path: Path, *, once: bool) -> None:
    """Run the daemon in the foreground until SIGTERM."""
    run(configuration(config_path), once=once)


@click.group()
def config() -> None:
    """Check the configuration, or print an example."""


@config.command()
@click.argument("path", type=click.Path(path_type=Path), default=DEFAULT_PATH)
def check(path: Path) -> None:
    """Say whether PATH can be used."""
    loaded = load(path)
    rules = len(loaded.classes.rules)
    click.echo(f"{path}: good (mode {loaded.mode}, policy {loaded.policy.te}, {rules} rule(s))")


@config.command()
def example() -> None:
    """Print an example with every key explained."""
    click.echo(example_text(), nl=False)


def example_text() -> str:
    """Return the example configuration: beside the package where installed, in systemd/ in a checkout."""
    packaged = files("tesched_cli").joinpath("tesched.toml")
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return (Path(__file__).parents[2] / "systemd" / "tesched.toml").read_text(encoding="utf-8")


@click.group()
def db() -> None:
    """Make the state store, or bring it up to date."""


@db.command()
@config_option
def upgrade(config_path: Path) -> None:
    """Make the tables, or bring them up to date."""
    click.echo(f"the state store is at schema {migrate.upgrade(configuration(config_path).store.url)}")


@db.command()
@config_option
def current(config_path: Path) -> None:
    """Say which schema the store has."""
    click.echo(migrate.current(configuration(config_path).store.url) or "empty: run `tesched db upgrade`")
