"""Reads sacctmgr: flags and factors of the QOS, which change what limits mean, and which QOS each user may use.

slurmctld does not show that (22.05 to 26.05), and slurmdbd, which does, may be slow or away. So it is queried beside
the polls, and a poll takes the last answer that has come; the first poll waits for it, some seconds at most. Until
there is an answer each QOS counts as one without flags and factors, which each user may use. That changes seldom: what
was read counts while slurmdbd does not answer. Users are queried by name, those with jobs running.
"""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from math import isfinite

from tesched_core.model.actions import Failure
from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.refused import MOST_SAID
from tesched_core.model.slurm_limits import LimitKind, QosRules, UnreadLimits
from tesched_core.model.visible import shortened

from tesched_slurm.columns import strange
from tesched_slurm.run_command import Commands
from tesched_slurm.uptime import uptime_s

log = logging.getLogger(__name__)

#: seconds for which an answer counts, and until slurmdbd is queried again where it did not answer
AGE_S = 300.0
#: seconds that slurmdbd may take; no poll waits for it but the first
TIMEOUT_S = 5.0
_QOS = ("sacctmgr", "-n", "-P", "show", "qos", "format=name,flags,limitfactor,usagefactor")
_ALLOWED = ("sacctmgr", "-n", "-P", "show", "assoc", "format=cluster,account,user,partition,qos")
#: columns of each
_QOS_COLUMNS, _ALLOWED_COLUMNS = 4, 5
#: more users than these are not queried, nor is one with a strange name
MOST_USERS = 1000
#: Linux has no longer one; with 256 of them the longest word of a command line is half of what it takes (128 KiB)
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@$-]{0,255}")
USERS_AT_ONCE = 256
#: characters of an answer of another form that are shown
_SHOWN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class InDatabase:
    """What slurmdbd says of the QOS, names in small letters."""

    rules: Mapping[str, QosRules] = field(default_factory=dict)
    #: the QOS that each user may use, by account, user and partition
    allowed: Mapping[tuple[str, str, str], frozenset[str]] = field(default_factory=dict)


NOTHING_SAID = InDatabase()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """What it has answered; None: what it said last counts."""

    rules: Mapping[str, QosRules] | None = None
    allowed: Mapping[tuple[str, str, str], frozenset[str]] | None = None
    #: what was not answered, and why
    lacks: tuple[LimitKind, str] | None = None


def read_allowed(answer: str, cluster: str) -> dict[tuple[str, str, str], frozenset[str]]:
    """Return the QOS that each user may use on this cluster, by account, user and partition.

    A slurmdbd may have several clusters, and writes their names in small letters. What has another form is left out.
    """
    rows = [columns for line in answer.split("\n") if len(columns := line.split("|")) == _ALLOWED_COLUMNS]
    return {
        (account, user, partition): frozenset(name for name in qos.lower().split(",") if name)
        for of_cluster, account, user, partition, qos in rows
        if user and of_cluster.lower() == cluster.lower()
    }


def read_rules(answer: str) -> dict[str, QosRules]:
    """Return the flags and factors by the QOS' name, in small letters. What has another form is left out."""
    found: dict[str, QosRules] = {}
    for line in answer.split("\n"):
        columns = line.split("|")
        if len(columns) != _QOS_COLUMNS:
            continue
        name, flags, limit, usage = columns
        factor = _number(usage)
        found[name.lower()] = QosRules(
            flags=frozenset(flag for flag in flags.lower().split(",") if flag),
            limit_factor=_number(limit),
            usage_factor=1.0 if factor is None else factor,
        )
    return found


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) and number >= 0 else None


def _one_thread() -> Executor:
    return ThreadPoolExecutor(1, thread_name_prefix="slurmdbd")


@dataclass(kw_only=True)
class QosInDatabase:
    """What slurmdbd says of the QOS, queried anew after a while."""

    commands: Commands
    #: a clock that only runs
    stopwatch: Callable[[], float] = uptime_s
    clock: Callable[[], float] = time.time
    beside: Executor = field(default_factory=_one_thread)
    _read: InDatabase = NOTHING_SAID
    _queried_at: float | None = None
    _query: Future[_Answer] | None = None
    #: what it said when it did not answer; None: it did
    unread: UnreadLimits | None = field(default=None, init=False)

    def now(self, settings: SlurmSettings, users: Collection[str]) -> InDatabase:
        """Limits of the QOS, and of these users, as last read; nothing where there is no slurmdbd."""
        if not settings.has_slurmdbd:
            self.unread = None
            return NOTHING_SAID
        now = self.stopwatch()
        first = self._queried_at is None
        if self._query is None and (self._queried_at is None or now - self._queried_at > AGE_S):
            self._queried_at = now
            try:
                self._query = self.beside.submit(self._query_slurmdbd, settings.cluster_name, frozenset(users))
            except RuntimeError as error:  # no thread can be started
                self._take(_raised(error))
        if self._query is not None and first:
            wait([self._query], timeout=TIMEOUT_S)
        if self._query is not None and self._query.done():
            self._take(self._query.result())
            self._query = None
        return self._read

    def is_due(self, settings: SlurmSettings) -> bool:
        """Check whether a poll would query it now, or take in an answer."""
        young = self._queried_at is not None and self.stopwatch() - self._queried_at <= AGE_S
        return settings.has_slurmdbd and (self._query is not None or not young)

    def _take(self, answer: _Answer) -> None:
        rules = self._read.rules if answer.rules is None else answer.rules
        allowed = self._read.allowed if answer.allowed is None else answer.allowed
        self._read = InDatabase(rules=rules, allowed=allowed)
        if answer.lacks is None:
            self.unread = None
            return
        kind, message = answer.lacks
        said = shortened(message, MOST_SAID)
        log.warning("sacctmgr does not say %s: %s", kind, said)
        since = self.unread.since if self.unread is not None and self.unread.kind is kind else self.clock()
        kept = bool(rules) if kind is LimitKind.QOS_FLAGS else answer.allowed is None and bool(allowed)
        self.unread = UnreadLimits(kind=kind, since=since, said=said, kept=kept)

    def _query_slurmdbd(self, cluster: str, users: frozenset[str]) -> _Answer:
        try:
            return self._answer(cluster, users)
        except Exception as error:
            # Raised again by the future, it would fail the poll.
            log.exception("sacctmgr: what it says of the QOS can't be read")
            return _raised(error)

    def _answer(self, cluster: str, users: frozenset[str]) -> _Answer:
        # Not counted: it is no RPC of slurmctld's.
        patient = replace(self.commands, timeout_s=min(self.commands.timeout_s, TIMEOUT_S), calls=Counter())
        answer = patient.run(_QOS)
        if isinstance(answer, Failure):
            return _Answer(lacks=(LimitKind.QOS_FLAGS, answer.message))
        rules = read_rules(answer)
        if not rules:  # there is one at least, `normal`
            failure = strange("sacctmgr show qos", ValueError(answer[:_SHOWN] or "nothing"))
            return _Answer(lacks=(LimitKind.QOS_FLAGS, failure.message))
        named = sorted(filter(PLAIN_NAME.fullmatch, users))
        if len(named) > MOST_USERS:
            said = f"{len(named)} users have jobs running; no more than {MOST_USERS} are queried"
            return _Answer(rules=rules, allowed={}, lacks=(LimitKind.ALLOWED_QOS, said))
        strangers = sorted(users.difference(named))
        said = f"slurmdbd is not queried for {len(strangers)} user(s) with a strange name, such as {strangers[:1]}"
        lacks = (LimitKind.ALLOWED_QOS, said) if strangers else None
        if not cluster or not named:
            return _Answer(rules=rules, allowed={}, lacks=lacks)
        allowed: dict[tuple[str, str, str], frozenset[str]] = {}
        for first in range(0, len(named), USERS_AT_ONCE):
            answer = patient.run((*_ALLOWED, f"user={','.join(named[first : first + USERS_AT_ONCE])}"))
            if isinstance(answer, Failure):
                return _Answer(rules=rules, lacks=(LimitKind.ALLOWED_QOS, answer.message))
            allowed |= read_allowed(answer, cluster)
        return _Answer(rules=rules, allowed=allowed, lacks=lacks)


def _raised(error: Exception) -> _Answer:
    return _Answer(lacks=(LimitKind.QOS_FLAGS, f"sacctmgr: {type(error).__name__}: {error}"))
