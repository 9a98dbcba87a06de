"""`tesched pause` and `tesched unpause`: nothing new is begun, and what is under way goes on to its end."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import click
from tesched_db import deeds, lease, queries

from tesched_cli.common import Duration, changing_config_option, json_option, say, writable_store
from tesched_cli.health import NO_DAEMON, health
from tesched_cli.json_output import document, print_json

#: characters of a reason, which each `tesched status` has
_LONGEST_REASON = 500


@document("pause")
@dataclass(frozen=True, slots=True, kw_only=True)
class PauseJson:
    """The pause that was made."""

    pause: lease.Pause


@document("unpause")
@dataclass(frozen=True, slots=True, kw_only=True)
class UnpauseJson:
    """What was ended."""

    #: false: there was no pause
    was_paused: bool


def _bounded(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    if len(value) > _LONGEST_REASON:
        raise click.BadParameter(f"it has {len(value)} characters; {_LONGEST_REASON} are enough for a reason")
    return value


@click.command()
@changing_config_option
@click.option("--reason", default="", callback=_bounded, help="Why; `tesched status` shows it.")
@click.option("--for", "for_s", type=Duration(), help="It ends by itself after so long: 90s, 15m, 2h, 1d.")
@json_option
def pause(config_path: Path, *, reason: str, for_s: float | None, as_json: bool) -> None:
    """Begin nothing new: no job is preempted or brought forward.

    The daemon goes on to poll and to record. Orders under way go on to their end, so that no victim has left for
    nothing and every priority is put back; `tesched undo` withdraws them instead.
    """
    with writable_store(config_path) as engine:
        made = lease.pause(engine, by=deeds.caller(), reason=reason, for_s=for_s)
        with engine.connect() as connection:
            standbys = lease.read_standbys(connection)
        how = health(queries.daemon(engine), time.time(), standbys)
    if as_json:
        print_json(PauseJson(pause=made))
    else:
        say(f"tesched is {made}")
    if how.exit_status == NO_DAEMON:
        say(f"no daemon lives on this store ({how.line}); `tesched config show` says which store is meant", err=True)


@click.command()
@changing_config_option
@json_option
def unpause(config_path: Path, *, as_json: bool) -> None:
    """End a pause."""
    with writable_store(config_path) as engine:
        was = lease.unpause(engine, by=deeds.caller())
    if as_json:
        print_json(UnpauseJson(was_paused=was))
    else:
        say("tesched goes on" if was else "tesched was not paused")
