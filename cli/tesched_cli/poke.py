"""`tesched poke`: the daemon polls now, before its next poll is due."""

from __future__ import annotations

from pathlib import Path

import click
from tesched_daemon import wakeup as pokes

from tesched_cli.common import changing_config_option, configuration


@click.command()
@changing_config_option
def poke(config_path: Path) -> None:
    """Have the daemon poll at once.

    It returns at once, and prints nothing where the configuration is named, or the site's. For hooks and scripts on the
    daemon's own host. Exit status 1 if no daemon listens on `loop.socket`.
    """
    path = configuration(config_path).loop.socket
    if not path:
        raise click.ClickException("loop.socket is empty: this daemon takes no pokes")
    try:
        pokes.poke(path)
    except pokes.PokeError as error:
        raise click.ClickException(str(error)) from error
