"""What keeps waiting jobs from starting and no record of theirs shows: limits of associations and QOS; users' groups.

It is read seldom. Of what was not read nothing is known.

A limit has a kind, in the words of `scontrol show assoc_mgr` (GrpJobs, MaxWallPJ, MaxTRESPJ, …), and one that is of a
TRES has its name, too: "cpu", "mem" (MiB), "node", "gres/gpu", "gres/gpu:a100". Times are in minutes, as Slurm's are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from tesched_core.model.resources import UnixSeconds

#: by kind and TRES (empty where it is of none): those that are set
Limits: TypeAlias = Mapping[tuple[str, str], int]
#: kinds of limits on what has been used, in minutes: of these the number is what is left, below 0 where more was used
OF_USAGE = frozenset({"GrpWall", "GrpTRESMins"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """An account's own record, or that of a user in an account, and perhaps in one partition alone."""

    account: str
    #: empty for the account's own
    user: str = ""
    partition: str = ""
    #: the account above an account; empty for the topmost one, and for a user's
    parent: str = ""
    limits: Limits = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QosRules:
    """Flags and factors of a QOS, which change what limits mean (sacctmgr(1)). slurmctld does not show them."""

    #: in small letters
    flags: frozenset[str] = frozenset()
    #: by which GrpTRES and MaxTRES of associations are multiplied; None: by nothing
    limit_factor: float | None = None
    #: by which usage is multiplied and, with the flag UsageFactorSafe, a job's time limit
    usage_factor: float = 1.0

    @property
    def time_factor(self) -> float:
        """By what a job's time limit is multiplied before it is compared with limits."""
        return self.usage_factor if "usagefactorsafe" in self.flags else 1.0


class LimitKind(StrEnum):
    """What is read by itself, and may fail by itself."""

    #: limits of associations and QOS, of slurmctld
    LIMITS = "limits"
    #: those of users' associations alone, where slurmctld hides them
    USERS = "users"
    #: flags and factors of QOS, of slurmdbd
    QOS_FLAGS = "qos_flags"
    #: which QOS each user may use, of slurmdbd; queried after the flags, so that it is not read where these aren't
    ALLOWED_QOS = "allowed_qos"


_WORDS = {
    LimitKind.LIMITS: "limits of accounts, users and QOS",
    LimitKind.USERS: "limits of users",
    LimitKind.QOS_FLAGS: "flags and factors of QOS, and which a user may use (sacctmgr)",
    LimitKind.ALLOWED_QOS: "which QOS a user may use (sacctmgr)",
}
#: what it means that nothing of them is known
_UNKNOWN = {
    LimitKind.LIMITS: "none is known: a job that a limit would keep waiting for ever may be a victim",
    LimitKind.USERS: "a job that one of them would keep waiting for ever may be a victim",
    LimitKind.QOS_FLAGS: "each QOS counts as one without: limits that a QOS lifts keep its jobs from being victims",
    LimitKind.ALLOWED_QOS: "a job whose QOS was taken from its user may be a victim",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadLimits:
    """What could not be read when it was last tried."""

    kind: LimitKind
    #: when it first failed, of those tries since which none has succeeded
    since: UnixSeconds
    #: why it failed last
    said: str
    #: what was read before that still counts
    kept: bool

    @property
    def words(self) -> str:
        """What it is."""
        return _WORDS[self.kind]

    @property
    def meaning(self) -> str:
        """What follows for victims."""
        return "those read before still count" if self.kept else _UNKNOWN[self.kind]


#: of a QOS as sacctmgr creates it
PLAIN = QosRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmLimits:
    """Limits of associations and QOS, as slurmctld has them in force, and members of groups."""

    #: by account, user and partition. Of users those that have jobs running, of accounts all
    associations: Mapping[tuple[str, str, str], Association] = field(default_factory=dict)
    #: by the QOS' name, in small letters
    qos: Mapping[str, Limits] = field(default_factory=dict)
    #: by the QOS' name, in small letters; empty until slurmdbd has answered
    rules: Mapping[str, QosRules] = field(default_factory=dict)
    #: the QOS that each user may use, in small letters, by account, user and partition; of users that are known
    allowed_qos: Mapping[tuple[str, str, str], frozenset[str]] = field(default_factory=dict)
    #: by group, of those in partitions' AllowGroups that are known: which of `users` are in it, and maybe others
    members: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: users whose groups are known
    users: frozenset[str] = frozenset()
    #: what could not be read
    unread: tuple[UnreadLimits, ...] = field(default=(), compare=False)

    #: what is worked out from the first three, by account, user, partition and QOS (`placement/within_limits.py`)
    counted: dict[tuple[object, ...], tuple[tuple[str, str, int], ...]] = field(
        default_factory=dict, compare=False, repr=False
    )

    def rules_of(self, qos: str) -> QosRules:
        """Return a QOS' flags and factors; of one that is not known, those of a new one."""
        return self.rules.get(qos.lower(), PLAIN)

    def is_in_one_of(self, groups: frozenset[str], user: str) -> bool:
        """Check whether a user may be in one of these groups. Of a user, or a group, that is not known it may be."""
        known = user in self.users and groups <= self.members.keys()
        return not known or any(user in self.members[group] for group in groups)

    def association_of(self, account: str, user: str, partition: str) -> Association | None:
        """Return the one that counts for a job; None where it is not known."""
        found = self.associations
        return found.get((account, user, partition)) or found.get((account, user, ""))

    def may_use(self, account: str, user: str, partition: str, qos: str) -> bool:
        """Check whether a user may use a QOS there. Where that is not known it may."""
        found = self.allowed_qos
        allowed = found.get((account, user, partition)) or found.get((account, user, ""))
        return not allowed or qos.lower() in allowed

    def accounts_from(self, account: str) -> tuple[Association, ...]:
        """Return an account's own record and those above it, up to the topmost; empty where they are not all known."""
        found: list[Association] = []
        for _ in self.associations:
            one = self.associations.get((account, "", ""))
            if one is None:
                break
            found.append(one)
            account = one.parent
            if not account:
                return tuple(found)
        return ()


NOTHING_KNOWN = SlurmLimits()
