"""`tesched config …`: what holds and why, whether a file can be used, an example to start from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from tesched_daemon.config import Loaded, leaves, load_files
from tesched_daemon.config_checks import refuse, remarks
from tesched_daemon.config_errors import SECRET, ConfigError, toml
from tesched_daemon.config_lookup import VARIABLE, places, search
from tesched_daemon.config_readers import unreadable

from tesched_cli.common import ConfigPath, config_option, console, json_option, loaded_by, say, say_lines, table
from tesched_cli.example_keys import explained
from tesched_cli.json_output import document, print_json


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """One key."""

    key: str
    value: Any
    #: the file that gave it; None for a default
    file: str | None


@document("config show")
@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigShowJson:
    """Which file is used, and what holds."""

    #: the main file, and what named it: "--config", "TESCHED_CONFIG" or where it is
    configuration: str
    by: str
    #: those that were read, the main one first
    files: tuple[str, ...]
    settings: tuple[ConfigKey, ...]


@click.group()
def config() -> None:
    """Show or check the configuration, or print an example."""


@config.command()
@config_option
@json_option
def show(*, config_path: Path, as_json: bool) -> None:
    """Show which file is used, what holds, and which file says so."""
    loaded = loaded_by(load_files, config_path)
    found = list(settings(loaded))
    by = _found_by(config_path)
    if as_json:
        read = loaded.tree.files
        print_json(ConfigShowJson(configuration=str(config_path), by=by, files=read, settings=tuple(found)))
        return
    say(f"{config_path} ({by})")
    shown = table("KEY", "VALUE", "FROM")
    for each in found:
        value = "-" if each.value is None else toml(each.value)
        shown.add_row(each.key, value, each.file or "default")
    console().print(shown)


@config.command()
@click.argument("path", type=ConfigPath(), envvar=VARIABLE, required=False)
def check(path: Path | None) -> None:
    """Say whether PATH, with conf.d beside it, can be used. Without PATH it is the configuration that is found."""
    path = path or search()
    try:
        loaded = loaded_by(load_files, path, group_alone=True)
        refuse(loaded)
    except ConfigError as error:
        for complaint in error.every:
            say(f"Error: {complaint}", err=True)
        raise SystemExit(2) from None
    rules = len(loaded.config.classes.rules)
    more = len(loaded.tree.files) - 1
    with_more = f" with {more} file(s) of {path.parent / 'conf.d'}" if more else ""
    policy = f"mode {loaded.config.mode}, policy {loaded.config.policy.te}, {rules} rule(s)"
    say(f"{path}{with_more}: good ({policy})")
    for remark in remarks(loaded):
        say(f"Warning: {remark}", err=True)
    for text, advice in unreadable(loaded):
        say(f"Warning: {text}; {advice}", err=True)


@config.command()
def example() -> None:
    """Print an example with every key explained."""
    say_lines(example_text())


@config.command()
def schema() -> None:
    """Print a JSON Schema of it, for editors.

    With it an editor completes the keys of tesched.toml and of the files of conf.d, explains them, and marks what
    cannot be: `tesched config schema > tesched.schema.json`, and as the first line of the file
    `#:schema ./tesched.schema.json` (Even Better TOML, taplo). It has the policies that are installed here. What keys
    must be to each other `tesched config check` says alone.
    """
    from tesched_daemon.config_schema import config_schema  # noqa: PLC0415 - for this command alone

    say_lines(json.dumps(config_schema(explained(example_text())), indent=2, ensure_ascii=False) + "\n")


def _found_by(path: Path) -> str:
    """Source that named the configuration of the command that runs: an option, a variable, or its place."""
    source = click.get_current_context().get_parameter_source("config_path")
    if source is ParameterSource.COMMANDLINE:
        return "--config"
    if source is ParameterSource.ENVIRONMENT:
        return VARIABLE
    return next((place.words for place in places(os.environ) if place.path == path), "")


def settings(loaded: Loaded) -> Iterator[ConfigKey]:
    """Yield every key with its value. A password is not shown."""
    for key, value in leaves(loaded.config):
        shown = loaded.config.store.shown() if key in SECRET else value
        yield ConfigKey(key=key, value=shown, file=loaded.tree.origins.get(key))


def example_text() -> str:
    """Return the example configuration: beside the package where installed, in systemd/ in a checkout."""
    packaged = files("tesched_cli").joinpath("tesched.toml")
    if packaged.is_file():
        return packaged.read_text(encoding="utf-8")
    return (Path(__file__).parents[2] / "systemd" / "tesched.toml").read_text(encoding="utf-8")
