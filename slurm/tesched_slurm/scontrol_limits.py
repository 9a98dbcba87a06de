"""Reads `scontrol -o show assoc_mgr`: the limits of associations and QOS that slurmctld has in force.

It is one RPC. slurmctld shows an Operator all of them; where PrivateData hides some from the daemon's user, of those
nothing is known. Users are queried by name: a large site has ten thousand associations. Limits are read seldom, and
that they cannot be read ends no poll. Of a user whose first job started since then nothing is known, and it was within
its limits then.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace

from tesched_core.model.actions import Failure
from tesched_core.model.cluster import Job, Partition, SlurmSettings
from tesched_core.model.refused import MOST_SAID
from tesched_core.model.slurm_limits import (
    NOTHING_KNOWN,
    OF_USAGE,
    Association,
    LimitKind,
    Limits,
    SlurmLimits,
    UnreadLimits,
)
from tesched_core.model.visible import shortened

from tesched_slurm.group_members import read_members
from tesched_slurm.run_command import Commands
from tesched_slurm.sacctmgr_qos import MOST_USERS, PLAIN_NAME, QosInDatabase
from tesched_slurm.uptime import uptime_s

log = logging.getLogger(__name__)

#: Seconds for which what was read is believed, and those after which nothing is known while it can't be read again.
LIMITS_AGE_S, FORGOTTEN_AFTER_S = 300.0, 900.0
#: Characters of users' names in one command, half of what Linux takes; with more, or a strange name, all are read.
_MOST_NAMES = 1 << 16
#: Characters of an answer of another form that are shown.
_SHOWN = 100
#: The beginning of an association's record, and what stands in it for the account above. Of one with blanks or
#: parentheses in a name nothing is known.
NAME = r"[^\s(]{1,256}"
ASSOCIATION = re.compile(
    rf"ClusterName=\S{{1,256}} Account=({NAME}) UserName=(?:({NAME})\(\d{{1,10}}\))? Partition=({NAME})?"
    r" Priority=\d{1,10} ID=\d{1,10} "
)
PARENT = re.compile(rf" ParentAccount=({NAME})\(\d{{1,10}}\) ")
QOS = re.compile(rf"QOS=({NAME})\(\d{{1,10}}\) ")
#: Words of AccountingStorageEnforce with which limits keep jobs from starting (slurm.conf(5)).
_ENFORCE_LIMITS = frozenset({"limits", "safe", "all"})
#: Kinds that `tesched_core.placement.within_limits` compares. Where a limit of a QOS stands several times, once for
#: each user or account that has jobs, it is the same.
_LIMIT = re.compile(
    r"[ {](GrpJobs|GrpWall|MaxJobs|MaxJobsP[UA]|MaxWallPJ"
    r"|GrpTRES|GrpTRESMins|GrpTRESRunMins|MaxTRESP[JNUA]|MaxTRESRunMinsP[UA]|MaxTRESMinsPJ|MinTRESPJ)=([^\s}]*)"
)


def read_limits(answer: str) -> SlurmLimits:
    """Return the limits that are set. What has another form than known is left out."""
    associations: dict[tuple[str, str, str], Association] = {}
    qos: dict[str, Limits] = {}
    for line in answer.split("\n"):
        if found := ASSOCIATION.match(line):
            account, user, partition = (text or "" for text in found.groups())
            rest = line[found.end() - 1 :]
            above = PARENT.search(rest)
            associations[account, user, partition] = Association(
                account=account,
                user=user,
                partition=partition,
                parent=above[1] if above else "",
                limits=_limits(rest),
            )
        elif found := QOS.match(line):
            qos[found[1].lower()] = _limits(line[found.end() - 1 :])
    return SlurmLimits(associations=associations, qos=qos)


def _limits(text: str) -> Limits:
    found: dict[tuple[str, str], int] = {}
    for kind, value in _LIMIT.findall(text):
        for part in value.split(","):
            tres, _, number = part.rpartition("=")
            # 5(2): two of them are in use; N(2): no limit.
            number, _, used = number.partition("(")
            if number.isdecimal() and bool(tres) == ("TRES" in kind):
                found.setdefault((kind, tres), int(number) - (_whole(used) if kind in OF_USAGE else 0))
    return found


def _whole(used: str) -> int:
    """Return a number without its fraction, as Slurm compares it; 0 for what is none."""
    digits = used.rstrip(")").partition(".")[0]
    return int(digits) if digits.isdecimal() else 0


@dataclass(kw_only=True)
class LimitsInForce:
    """Limits of associations and QOS, and members of groups, queried anew after a while."""

    commands: Commands
    #: seconds for which they are believed
    age_s: float = LIMITS_AGE_S
    #: a clock that only runs
    stopwatch: Callable[[], float] = uptime_s
    clock: Callable[[], float] = time.time
    #: what slurmdbd alone says of them
    in_database: QosInDatabase = field(init=False)
    _read: SlurmLimits = NOTHING_KNOWN
    #: by that clock: when it was last tried, and when limits were last read
    _tried_at: float | None = None
    _known_at: float = 0.0
    _unread: UnreadLimits | None = None

    def __post_init__(self) -> None:
        """Make ready to query slurmdbd."""
        self.in_database = QosInDatabase(commands=self.commands, clock=self.clock)

    def now(self, settings: SlurmSettings, partitions: Iterable[Partition], jobs: Collection[Job]) -> SlurmLimits:
        """Limits that may bear on these jobs, as last read."""
        users = {job.user for job in jobs if job.on_nodes}
        now, enforced = self.stopwatch(), bool(_ENFORCE_LIMITS & settings.enforced)
        if not enforced or now - self._known_at > FORGOTTEN_AFTER_S:
            self._read = replace(NOTHING_KNOWN, members=self._read.members, users=self._read.users)
        if users and (self._tried_at is None or now - self._tried_at > self.age_s):
            self._tried_at = now  # one that fails is not repeated with each poll
            if enforced:
                self._read_again(users, now)
            members = read_members(partitions, jobs)
            self._read = replace(self._read, members=members.of, users=members.users)
        found = self.in_database.now(settings, users)
        if found.rules != self._read.rules:
            # Not what was worked out with other rules.
            self._read = replace(self._read, rules=found.rules, counted={})
        self._read = replace(self._read, allowed_qos=found.allowed)
        return replace(self._read, unread=self._all_unread(enforced=enforced))

    def are_due(self, settings: SlurmSettings) -> bool:
        """Check whether a poll with any job on nodes would read them now."""
        young = self._tried_at is not None and self.stopwatch() - self._tried_at <= self.age_s
        return not young or self.in_database.is_due(settings)

    def _read_again(self, users: set[str], now: float) -> None:
        answer = self.commands.run(_argv(users))
        read = answer if isinstance(answer, Failure) else read_limits(answer)
        if isinstance(read, Failure):
            self._lacks(LimitKind.LIMITS, read.message)
        elif not read.qos and not read.associations:
            first_line = answer.strip().split("\n", 1)[0] if isinstance(answer, str) else ""
            self._lacks(LimitKind.LIMITS, f"scontrol show assoc_mgr: unexpected answer: {first_line[:_SHOWN]!r}")
        else:
            self._read, self._known_at = read, now
            if any(one.user in users for one in read.associations.values()):
                self._unread = None
            else:
                said = f"slurmctld shows none of the {len(users)} user(s) with jobs running (PrivateData?)"
                self._lacks(LimitKind.USERS, said)

    def _lacks(self, kind: LimitKind, message: str) -> None:
        said = shortened(message, MOST_SAID)
        log.warning("limits of accounts, users or QOS can't be read: %s", said)
        since = self._unread.since if self._unread is not None and self._unread.kind is kind else self.clock()
        self._unread = UnreadLimits(kind=kind, since=since, said=said, kept=False)

    def _all_unread(self, *, enforced: bool) -> tuple[UnreadLimits, ...]:
        """Limits that can't be read now; where no limits are enforced none is missed."""
        if not enforced:
            self._unread = None
        own = self._unread
        if own is not None and own.kind is LimitKind.LIMITS:
            own = replace(own, kept=bool(self._read.qos))
        return tuple(one for one in (own, self.in_database.unread) if one is not None)


def _argv(users: set[str]) -> tuple[str, ...]:
    argv = ("scontrol", "-o", "show", "assoc_mgr", "flags=assoc,qos")
    names = ",".join(sorted(users))
    if len(users) > MOST_USERS or len(names) > _MOST_NAMES or not all(map(PLAIN_NAME.fullmatch, users)):
        return argv
    return (*argv, f"users={names}")
