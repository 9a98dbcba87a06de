"""The configuration: TOML, every key with a default, an unknown key an error.

The sections are the very dataclasses that the heart works with (`Limits`, `Classification`, …), so a key
means the same in the file, in the code and in the simulator. `systemd/tesched.toml` explains each one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from itertools import product
from pathlib import Path
from typing import Annotated

import msgspec
from sqlalchemy import make_url
from tesched_core.intake.class_rules import Classification
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.ranges import Form, between, check_ranges
from tesched_core.policy import Policy
from tesched_policies.registry import BROKEN, PolicyConfig, normal_be
from tesched_slurm.client_choice import ClientChoice

from tesched_daemon import config_files
from tesched_daemon.config_errors import LACKS, ConfigError, in_words, unknown_keys, without
from tesched_daemon.config_files import Tree
from tesched_daemon.job_reports.address import TcpAddress, address_of
from tesched_daemon.renamed_keys import renamed_keys
from tesched_daemon.settings import IdleConfig, Mode, Pace, RunTimesConfig, TellConfig
from tesched_daemon.store_config import StoreConfig

_BELOW_ROOT = r"|/[^\x00]*"
#: a path, or none; systemd starts the daemon in /, an admin types in any folder: a relative path would be two files
_CONF = Form(pattern=_BELOW_ROOT, said=' must be empty or an absolute path, such as "/etc/slurm/slurm.conf"')
_SPOOL = Form(pattern=_BELOW_ROOT, said=' must be empty or an absolute path, such as "/shared/tesched"')
_MUNGE = Form(pattern=_BELOW_ROOT, said=' must be empty or an absolute path, such as "/run/munge/munge.socket.2"')
#: complaints of one check that are named
_MOST_COMPLAINTS = 20
#: a name in a complaint, one of another table with it, and the place in a list that is taken away whole
_WORD, _WORDS, _LAST_INDEX = re.compile(r"[a-z0-9_]+"), re.compile(r"[a-z_.]+"), re.compile(r"\[\d+\]$")
#: keys of [slurm] that name files which the daemon writes
OWN_FILES = ("marks", "admission")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmConfig:
    """Access to Slurm."""

    client: ClientChoice = ClientChoice.AUTO
    #: slurm.conf; empty means what the environment (SLURM_CONF) or Slurm's own search says
    conf: Annotated[str, _CONF] = ""
    #: seconds after which a call is given up
    timeout_s: Annotated[float, between(0.5, 300, "seconds")] = 10.0
    #: where slurmctld's plugin preempt/tesched reads its marks (`guard.lever = "plugin"`)
    marks: str = "/run/tesched/marks"
    #: where the submission hook reads until when TE jobs may start by themselves (`guard.bound`)
    admission: str = "/run/tesched/admission"

    def __post_init__(self) -> None:
        """Raise ValueError for a time-out that would hang the loop, or none, and for a relative path."""
        check_ranges(self)
        for name in OWN_FILES:
            path = getattr(self, name)
            if not _names_a_file(path):
                raise ValueError(f'{name} must be the absolute path of a file, such as "/run/tesched/{name}"')
            if path != _plainest(path):
                raise ValueError(f"{name} must be a path in its plainest form: {_plainest(path)}")
        if self.admission == self.marks:
            raise ValueError('admission must be another file than marks, such as "/run/tesched/admission"')


def _names_a_file(path: str) -> bool:
    """Check whether it is an absolute path that may be a file's: no "/" at its end, no NUL."""
    return path.startswith("/") and not path.endswith("/") and "\0" not in path and _plainest(path) != "/"


def _from_here(path: str) -> str:
    """Return the path as an absolute one, as SQLite opens it."""
    with suppress(OSError):  # the current folder is gone, and no relative path leads to a file
        return str(Path(path).absolute()) if path else ""
    return path


def _plainest(path: str) -> str:
    """Return the path without "..", "." and doubled slashes: two at the beginning are one to Linux, not to POSIX."""
    plain = os.path.normpath(path)
    return f"/{plain.lstrip('/')}" if plain.startswith("/") else plain


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportsConfig:
    """Settings for what jobs may report."""

    #: the folder on the shared file system; empty: none is read
    spool: Annotated[str, _SPOOL] = ""
    #: where reports are taken that munge vouches for: "host:port", ":port" or an absolute path; empty: nowhere
    socket: str = ""
    #: the socket of munged; empty: the system's
    munge_socket: Annotated[str, _MUNGE] = ""

    def __post_init__(self) -> None:
        """Raise ValueError for a path that is not the same for jobs and daemon, and for what is no address."""
        check_ranges(self)
        if self.socket:
            try:
                address_of(self.socket)
            except ValueError as error:
                raise ValueError(f"socket must be empty or an address: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsConfig:
    """Place of the metrics for Prometheus."""

    #: where they are served: "host:port" or an absolute path; empty: nowhere
    listen: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for what is no address of one host."""
        right = 'such as "127.0.0.1:9817"'
        try:
            where = address_of(self.listen) if self.listen else None
        except UnicodeError as error:
            raise ValueError(f"listen must name a host, {right}: {error}") from None
        except ValueError:
            raise ValueError(f'listen must be empty, "host:port" or the absolute path of a socket, {right}') from None
        if isinstance(where, TcpAddress) and not where.host:
            raise ValueError(f"listen must name the address to listen on, {right}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole file."""

    mode: Mode = Mode.SHADOW
    #: put back what was changed when the service stops, instead of going on from there at the next start
    undo_on_stop: bool = False
    store: StoreConfig = StoreConfig()
    slurm: SlurmConfig = SlurmConfig()
    loop: Pace = Pace()
    policy: PolicyConfig = PolicyConfig()
    guard: Limits = Limits()
    classes: Classification = Classification()
    reports: ReportsConfig = ReportsConfig()
    tell: TellConfig = TellConfig()
    run_times: RunTimesConfig = RunTimesConfig()
    metrics: MetricsConfig = MetricsConfig()
    idle: IdleConfig = IdleConfig()

    def __post_init__(self) -> None:
        """Raise ValueError for a lever that the policy for TE jobs cannot use, and for a bound that they may pass."""
        if self.guard.lever is YieldBy.PLUGIN:
            served = [one.policy for one in self.policy.entries() if one.policy.serves_te]
            if any(type(one).rank is Policy.rank for one in served):
                names = ", ".join(one.label for one in served)
                why = "it has no order of victims before a TE job is there; fitgpp has one, and patient"
                raise ValueError(f'guard.lever must not be "plugin" with policy.te = "{names}": {why}')
        for name, (key, others) in product(OWN_FILES, self._other_files().items()):
            if getattr(self.slurm, name) in map(_plainest, others):
                raise ValueError(f'slurm.{name} must be another file than {key}, such as "/run/tesched/{name}"')
        if self.guard.bound.is_set and (why := self.classes.te_longer_than(self.guard.bound.te_time_limit_s)):
            raise ValueError(why)

    def _other_files(self) -> Mapping[str, tuple[str, ...]]:
        """Return the files that other keys name, and those that belong to these."""
        url = make_url(self.store.url)
        store = _from_here(url.database or "") if url.get_backend_name() == "sqlite" else ""
        beside = tuple(f"{store}{end}" for end in ("", "-wal", "-shm", "-journal")) if store else ()
        named = {
            "store.url": beside,
            "slurm.conf": (self.slurm.conf,),
            "loop.socket": (self.loop.socket,),
            "reports.socket": (self.reports.socket,),
            "reports.munge_socket": (self.reports.munge_socket,),
            "tell.command": self.tell.command[:1],
            "metrics.listen": (self.metrics.listen,),
            "idle.file": (self.idle.file,),
        }
        return {key: tuple(filter(None, paths)) for key, paths in named.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A configuration, and where it came from."""

    config: Config
    #: what the files say; what they do not say is a default
    tree: Tree


def leaves(part: object, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield every key of a configuration, or of a table of it, with its value: "guard.cool_down_s". A list is one."""
    if not is_dataclass(part):
        raise TypeError(f"{part} is no table")
    for field in fields(part):
        value = getattr(part, field.name)
        if is_dataclass(value):
            yield from leaves(value, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}", value


def load(path: Path) -> Config:
    """Return the configuration in `path` and in conf.d beside it. Raises ConfigError."""
    return load_files(path).config


def load_files(path: Path, *, waits: bool = True) -> Loaded:
    """Return the configuration in `path` and in conf.d beside it, and which file said what. Raises ConfigError.

    With `waits` it may be a pipe, whose writer is waited for.
    """
    return _checked(config_files.layers(path, waits=waits))


def parse(text: str, source: str) -> Config:
    """Return the configuration in `text`; `source` names it in errors. Raises ConfigError."""
    return _checked([(source, config_files.parse(text, source))]).config


def _with_normal_be(layer: Mapping[str, object]) -> Mapping[str, object]:
    policy = layer.get("policy")
    if not isinstance(policy, Mapping) or "be" not in policy:
        return layer
    return {**layer, "policy": {**policy, "be": normal_be(policy["be"])}}


def _broken_policies(layer: Mapping[str, object]) -> Iterator[str]:
    """Yield a complaint for each policy that is named and installed, and cannot be used."""
    policy = layer.get("policy")
    if not isinstance(policy, Mapping):
        return
    entries = policy.get("be")
    be = [one.get("name") for one in entries if isinstance(one, Mapping)] if isinstance(entries, list) else []
    for name in (policy.get("te"), *be, *policy):
        if isinstance(name, str) and name in BROKEN:
            yield f"policy: the policy {name} is installed and cannot be used: {BROKEN[name]}"


def _checked(layers: Sequence[tuple[str, Mapping[str, object]]]) -> Loaded:
    layers = [(source, _with_normal_be(layer)) for source, layer in layers]
    # Each file by itself: an unknown key is an error also where a later file would replace it.
    unknown = [f"{source}: {complaint}" for source, layer in layers for complaint in _not_known(layer)]
    tree = config_files.merged(layers)
    # Bad values beside them: one round is enough to mend all.
    try:
        config = msgspec.convert(tree.values, Config)
    except msgspec.ValidationError as error:
        unknown += _complaints(tree, str(error), unknown)
        raise ConfigError(unknown[0], unknown[1:_MOST_COMPLAINTS]) from None
    if unknown:
        raise ConfigError(unknown[0], unknown[1:_MOST_COMPLAINTS])
    return Loaded(config=config, tree=tree)


def _not_known(layer: Mapping[str, object]) -> Iterator[str]:
    """Yield what a file says that is not known; of a key that has another name now, that name alone."""
    renamed = [*renamed_keys(layer)]
    yield from (*renamed, *_broken_policies(layer))
    keys = {complaint.partition(":")[0] for complaint in renamed}
    yield from (one for one in unknown_keys(layer, Config) if one.partition(":")[0] not in keys)


def _complaints(tree: Tree, error: str, unknown: Sequence[str]) -> Iterator[str]:
    """Yield what is wrong, key by key: msgspec stops at the first, so each is taken away and the rest tried again.

    That a table lacks a key is not said where it has an `unknown` one, which may be that key with a slip in it.
    """
    values: Mapping[str, object] = tree.values
    gone: set[str] = set()
    for _ in range(_MOST_COMPLAINTS):
        key, what = in_words(error, Config, values)
        table, _, name = key.rpartition(".")
        words = [name, *_WORD.findall(re.sub(r'"[^"]*"', "", what))]
        beside = [f"{table}.{word}".removeprefix(".") for word in words]
        # A key that is compared with one that was taken away is compared with its default: that says nothing.
        dotted = [one for found in _WORDS.findall(what) if "." in (one := found.strip("."))]
        slipped = what.startswith(LACKS) and any(f": {key}." in one for one in unknown)
        if not slipped and gone.isdisjoint([*beside, *(f"{key}.{word}" for word in words), *dotted]):
            yield _blamed(tree, key, what)
        values = next((one for word in beside if (one := without(values, word)) is not None), {})
        gone.add(_LAST_INDEX.sub("", key))
        try:
            msgspec.convert(values, Config)
        except msgspec.ValidationError as another:
            error = str(another)
        else:
            return


def _blamed(tree: Tree, key: str, what: str) -> str:
    """Return a complaint with the file that gave the value."""
    file = tree.blamed(key)
    # "backoff_max_s must be at least poll_interval_s": each of the two may have come from another file.
    table = key.rpartition(".")[0]
    others = [
        f"{word} is set in {found}"
        for word in _WORD.findall(what)
        if (found := tree.origins.get(f"{table}.{word}", file)) != file
    ]
    return f"{file}: {key}: {'; '.join([what, *others])}"
