"""Reads `sacctmgr show qos`: flags and factors of the QOS, which change what limits mean.

slurmctld does not show them (22.05 to 26.05), and slurmdbd, which does, may be slow or away. So it is asked beside the
polls, and a poll takes the last answer that has come; the first poll waits for it, some seconds at most. Until there is
an answer each QOS counts as one without flags and factors. They change seldom: what was read is believed while slurmdbd
does not answer.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from math import isfinite

from tesched_core.model.actions import Failure
from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.slurm_limits import LimitKind, QosRules, UnreadLimits

from tesched_slurm.columns import strange
from tesched_slurm.run_command import Commands

log = logging.getLogger(__name__)

#: seconds for which an answer is believed, and until slurmdbd is asked again where it did not answer
AGE_S = 300.0
#: seconds that slurmdbd may take; no poll waits for it but the first
TIMEOUT_S = 5.0
_ARGV = ("sacctmgr", "-n", "-P", "show", "qos", "format=name,flags,limitfactor,usagefactor")
_COLUMNS = 4
#: characters of an answer of another form that are shown
_SHOWN = 100


def read_rules(answer: str) -> dict[str, QosRules]:
    """Return the flags and factors by the QOS' name, in small letters. What has another form is left out."""
    found: dict[str, QosRules] = {}
    for line in answer.split("\n"):
        columns = line.split("|")
        if len(columns) != _COLUMNS:
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
    """Flags and factors of QOS, asked for anew after a while."""

    commands: Commands
    #: a clock that only runs
    stopwatch: Callable[[], float] = time.monotonic
    clock: Callable[[], float] = time.time
    beside: Executor = field(default_factory=_one_thread)
    _read: Mapping[str, QosRules] = field(default_factory=dict)
    _asked_at: float | None = None
    _asked: Future[Mapping[str, QosRules] | Failure] | None = None
    #: what it said when it did not answer; None: it did
    unread: UnreadLimits | None = field(default=None, init=False)

    def now(self, settings: SlurmSettings) -> Mapping[str, QosRules]:
        """Return the rules by the QOS' name, in small letters, as last read; empty where there is no slurmdbd."""
        if not settings.has_slurmdbd:
            self.unread = None
            return {}
        now = self.stopwatch()
        first = self._asked_at is None
        if self._asked is None and (self._asked_at is None or now - self._asked_at > AGE_S):
            self._asked_at, self._asked = now, self.beside.submit(self._ask)
        if self._asked is not None and first:
            wait([self._asked], timeout=TIMEOUT_S)
        if self._asked is not None and self._asked.done():
            self._take(self._asked.result())
            self._asked = None
        return self._read

    def _take(self, answer: Mapping[str, QosRules] | Failure) -> None:
        if not isinstance(answer, Failure):
            self._read, self.unread = answer, None
            return
        log.warning("sacctmgr does not say which flags the QOS have: %s", answer.message)
        since = self.clock() if self.unread is None else self.unread.since
        kept = bool(self._read)
        self.unread = UnreadLimits(kind=LimitKind.QOS_FLAGS, since=since, said=answer.message, kept=kept)

    def _ask(self) -> Mapping[str, QosRules] | Failure:
        # Not counted: it is no RPC of slurmctld's.
        patient = replace(self.commands, timeout_s=min(self.commands.timeout_s, TIMEOUT_S), calls=Counter())
        answer = patient.run(_ARGV)
        if isinstance(answer, Failure):
            return answer
        # There is one at least, `normal`.
        return read_rules(answer) or strange("sacctmgr show qos", ValueError(answer[:_SHOWN] or "nothing"))
