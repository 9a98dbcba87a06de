"""`tesched init`: a configuration and a state store in the current folder, for a first try by any user."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import click
from tesched_core.model.told_error import ToldError
from tesched_daemon.config import Config, parse
from tesched_daemon.config_errors import ConfigError, toml
from tesched_daemon.config_files import DROP_INS
from tesched_daemon.config_lookup import NAME, VARIABLE
from tesched_daemon.config_trust import distrusted
from tesched_daemon.file_systems import served_by
from tesched_db import migrate
from tesched_db.engine import parse_url

from tesched_cli.common import say

STORE = "tesched.sqlite"
SOCKET = "poke.sock"
#: The files that the daemon writes, by their keys' names.
WRITTEN = ("marks", "admission")
#: What SQLite has beside a store.
_BESIDE = ("", "-wal", "-shm", "-journal")
#: Where Slurm's packages, and sites that build it, have slurm.conf.
_USUAL = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/opt/slurm/etc/slurm.conf",
)
#: Most bytes of a socket's path (`settings.Pace`).
_LONGEST_SOCKET = 107

#: The keys that matter first. What stands here with a plain value has its default.
_TEXT = """\
# tesched: the keys that matter first. `tesched config example` has all, each with what it means. `tesched config check`
# says whether this file can be used; a daemon that runs reads it again at SIGHUP.

# observe: watches and records. shadow: also decides, and touches nothing. enforce: acts.
mode = "shadow"

[store]
# What the daemon remembers, and `tesched status`, `jobs`, `orders` and `explain` read.
url = {url}

[slurm]
# slurm.conf; empty means what the environment (SLURM_CONF) or Slurm itself finds.
conf = {conf}
# What the daemon writes for Slurm's plugin and for the submission hook. A site's service has the defaults, below
# /run/tesched; another daemon's are here, since two with one path remove each other's file.
marks = {marks}
admission = {admission}

[loop]
# Seconds from one poll of Slurm to the next.
poll_interval_s = 2.0
# Whatever is written to this socket makes the daemon poll at once (`tesched poke`). Empty for none.
socket = {socket}

[guard]
# How often one job may be preempted for other users' trial-and-error jobs in its life,
max_preemptions_per_job = 16
# how often its run may be lost by that, as it declares no signal or dies of it (0: one that declares none stays),
max_lost_runs_per_job = 1
# and how many preemptions there may be in any hour, of all jobs.
max_preemptions_per_hour = 200
# Users whose jobs are never preempted (shell globs); partitions, accounts, QOS and others have such lists, too.
protected_users = []

[classes]
# Seconds between a victim's signal and its requeue, unless the job or its rule says otherwise.
default_grace_period_s = 30.0

# Which jobs are trial and error (te): here those that ask for half an hour at most, on one node, with two GPUs at most.
# All conditions of a match must hold, and the first rule that matches wins; a job without one is best effort (be).
# Others: partitions = ["debug*"], qos, accounts, users, names, comments (lists of shell globs), max_cpus,
# interactive = true. `tesched jobs` shows the class of each job, and the rule that gave it.
[[classes.rules]]
name = "short-and-small"
job_class = "te"
match = {{ max_time_limit_s = 1800, max_nodes = 1, max_gpus = 2 }}
"""


class InitError(ToldError):
    """Nothing was made. The text says why."""


@click.command()
def init() -> None:
    """Make a configuration and a state store to start from.

    Both are made in the current folder, which has to be on a local disk. tesched.toml has the keys that matter first,
    with mode shadow; slurm.conf is the one that SLURM_CONF names, or that of a usual place. Nothing is overwritten
    (exit status 2). For a service of the site's, docs/howto/installation.md says more.
    """
    try:
        folder = Path.cwd()
        conf = slurm_conf(os.environ)
        made = make(folder, conf)
    except OSError as error:
        raise InitError(f"{error.filename or 'the current folder'}: {error.strerror}; nothing was made") from error
    say(f"made {folder / NAME}: mode {made.mode}, slurm.conf {conf or 'as Slurm itself finds it'}")
    say(f"made {folder / STORE}: the state store")
    if kind := served_by(folder):
        say(
            f"{folder} is on a network's file system ({kind}), where a state store in SQLite can be damaged; "
            "do it in a folder on a local disk",
            err=True,
        )
    if named := os.environ.get(VARIABLE):
        say(f"unset {VARIABLE}: it names another configuration, {named}", err=True)
    say("next: tesched doctor")


def make(folder: Path, conf: str) -> Config:
    """Make configuration and store in the folder; return what the configuration says.

    Raises InitError, ConfigError, StoreError and OSError; nothing is left then.
    """
    config, store = folder / NAME, folder / STORE
    if why := distrusted(status := folder.stat(), os.geteuid()):
        # By a umask of 002, in a group with other members, also a new folder is one that others may write to.
        ours = status.st_uid == os.geteuid() and not status.st_mode & stat.S_ISVTX
        advice = (
            f"say chmod go-w {shlex.quote(str(folder))}"
            if ours
            else "make a folder of your own: mkdir -m 700 ~/tesched; cd ~/tesched"
        )
        raise InitError(f"{folder}: no place for a configuration, since {why}; {advice}")
    own = (config, folder / DROP_INS, *_files(store), *(folder / name for name in WRITTEN))
    there = [path for path in own if os.path.lexists(path)]
    if there:
        raise InitError(f"{there[0]} is there already, and nothing is overwritten; do it in an empty folder")
    text = starter(folder, conf)
    parsed = _parsed(text, folder, conf)
    # Of two commands at the same moment, the one that makes this file makes the store.
    with os.fdopen(os.open(config, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640), "wb") as file:
        try:
            file.write(text.encode())
            file.flush()
            migrate.upgrade(parsed.store.url)
        except BaseException:
            for path in (config, *_files(store)):
                path.unlink(missing_ok=True)
            raise
    return parsed


def starter(folder: Path, conf: str) -> str:
    """Return the configuration for this folder. InitError for a folder whose name is no text."""
    socket = str(folder / SOCKET)
    try:
        fits = len(socket.encode()) <= _LONGEST_SOCKET
    except UnicodeEncodeError:
        raise InitError(f"{folder!a}: the folder's name is no UTF-8; take one with a plain name") from None
    written = {name: toml(str(folder / name)) for name in WRITTEN}
    return _TEXT.format(url=toml(_url(folder / STORE)), conf=toml(conf), socket=toml(socket if fits else ""), **written)


def _parsed(text: str, folder: Path, conf: str) -> Config:
    """Parse a configuration for this folder. InitError if it cannot name the folder, or slurm.conf."""
    with suppress(ConfigError):
        parsed = parse(starter(folder, ""), NAME)
        if parse_url(parsed.store.url).database == str(folder / STORE):
            try:
                return parse(text, NAME)
            except ConfigError as error:
                raise InitError(f"SLURM_CONF names {conf}, and no configuration can: {error}") from None
    raise InitError(f"{folder}: no URL of a state store can name this folder; take one with a plain name")


def slurm_conf(environment: Mapping[str, str]) -> str:
    """Return the path of slurm.conf; empty if Slurm has to find it. InitError if SLURM_CONF names no file."""
    named = environment.get("SLURM_CONF", "")
    if not named:
        return next(filter(_is_file, _USUAL), "")
    path = Path(named).absolute()
    if not path.is_file():
        raise InitError(f"SLURM_CONF names {path}, and there is no such file; set it right, or unset it")
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InitError(f"SLURM_CONF names {str(path)!a}, which is no UTF-8; take one with a plain name") from None
    return str(path)


def _is_file(path: str) -> bool:
    """Check whether there is such a file, as far as this user can see."""
    try:
        return Path(path).is_file()
    except OSError:
        return False


def _url(store: Path) -> str:
    return f"sqlite:///{store}"


def _files(store: Path) -> list[Path]:
    return [store.with_name(f"{store.name}{ending}") for ending in _BESIDE]
