"""Limits of one user's associations and of QOS, each with what counts against it now.

Source
    `scontrol -o show assoc_mgr`, one RPC, which shows both; limits of a QOS on users and accounts where none has had a
    job yet are slurmdbd's alone (`sacctmgr show qos`). 22.05.8's `src/scontrol/info_assoc_mgr.c` for the form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tesched_core.model.actions import Failure

from tesched_slurm.run_command import Commands
from tesched_slurm.sacctmgr_qos import PLAIN_NAME
from tesched_slurm.scontrol_limits import ASSOCIATION, NAME, PARENT, QOS
from tesched_slurm.slurm_formats import mebibytes

#: limits of an account, a user in it, or a QOS; those of a QOS on each account and each user are shown apart
_OWN = re.compile(
    r" (GrpJobs|GrpSubmitJobs|GrpWall|MaxJobs|MaxSubmitJobs|MaxWallPJ"
    r"|GrpTRES|GrpTRESMins|GrpTRESRunMins|MaxTRESP[JN]|MaxTRESMinsPJ|MinTRESPJ)=(\S*)"
)
_EACH = re.compile(r"[ {]((?:MaxJobs|MaxSubmitJobs|MaxTRES|MaxTRESRunMins)P[AU])=([^\s}]*)")
#: `lab={…}`, `1001={…}`, since 24.05 `ann(1001)={…}`
_HOLDER = re.compile(rf" ({NAME})(?:\((\d{{1,10}})\))?=(\{{[^}}]*\}})")
#: columns of sacctmgr, and the kind of limit that each is
_OF_DATABASE = {
    "maxjobsperuser": "MaxJobsPU",
    "maxsubmitjobsperuser": "MaxSubmitJobsPU",
    "maxtresperuser": "MaxTRESPU",
    "maxjobsperaccount": "MaxJobsPA",
    "maxsubmitjobsperaccount": "MaxSubmitJobsPA",
    "maxtresperaccount": "MaxTRESPA",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitInUse:
    """One limit, times in minutes, memory in MiB."""

    kind: str
    #: empty: it is of no TRES
    tres: str = ""
    most: int
    #: what counts against it; 0 for a limit on each job by itself
    used: int = 0
    #: of GrpTRESMins: what running jobs may yet use
    running: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderOfLimits:
    """An account, a user in it, or a QOS."""

    limits: tuple[LimitInUse, ...] = ()
    #: of an account: the one above it
    parent: str = ""
    #: of a QOS: those on each user, by id, and on each account
    of_users: Mapping[str, tuple[LimitInUse, ...]] = field(default_factory=dict)
    of_accounts: Mapping[str, tuple[LimitInUse, ...]] = field(default_factory=dict)

    def on_user(self, uid: int) -> tuple[LimitInUse, ...]:
        """Limits of a QOS on this user."""
        return _on(self.of_users, str(uid))

    def on_account(self, account: str) -> tuple[LimitInUse, ...]:
        """Limits of a QOS on this account."""
        return _on(self.of_accounts, account)


def _on(each: Mapping[str, tuple[LimitInUse, ...]], name: str) -> tuple[LimitInUse, ...]:
    """Limits of one name; one that is not shown has the same limits, and has used nothing."""
    if name in each:
        return each[name]
    return tuple(replace(one, used=0) for one in next(iter(each.values()), ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsInUse:
    """All that is shown."""

    #: by account, user and partition
    associations: Mapping[tuple[str, str, str], HolderOfLimits] = field(default_factory=dict)
    #: by name, in small letters
    qos: Mapping[str, HolderOfLimits] = field(default_factory=dict)

    def association_of(self, account: str, user: str, partition: str) -> tuple[HolderOfLimits, bool] | None:
        """Return the one that counts for a job, and whether it is of that partition alone; None: not shown."""
        for name in (partition, ""):
            found = self.associations.get((account, user, name))
            if found is not None:
                return found, bool(name)
        return None

    def accounts_from(self, account: str) -> tuple[tuple[str, HolderOfLimits], ...]:
        """Return an account and those above it, up to the topmost; empty where they are not all shown."""
        found: list[tuple[str, HolderOfLimits]] = []
        for _ in self.associations:
            one = self.associations.get((account, "", ""))
            if one is None:
                break
            found.append((account, one))
            account = one.parent
            if not account:
                return tuple(found)
        return ()


def read_limits_in_use(commands: Commands, user: str) -> LimitsInUse | Failure:
    """Read the limits that may bear on one user's jobs."""
    named = (f"users={user}",) if PLAIN_NAME.fullmatch(user) else ()
    answer = commands.run(("scontrol", "-o", "show", "assoc_mgr", "flags=assoc,qos", *named))
    return answer if isinstance(answer, Failure) else limits_in_use(answer)


def limits_in_use(answer: str) -> LimitsInUse:
    """Read scontrol's answer. What has another form than known is left out."""
    associations: dict[tuple[str, str, str], HolderOfLimits] = {}
    qos: dict[str, HolderOfLimits] = {}
    for line in answer.split("\n"):
        if found := ASSOCIATION.match(line):
            account, user, partition = (text or "" for text in found.groups())
            rest = line[found.end() - 1 :]
            above = PARENT.search(rest)
            associations[account, user, partition] = HolderOfLimits(
                limits=tuple(_limits(_OWN, rest)), parent=above[1] if above else ""
            )
        elif found := QOS.match(line):
            own, _, each = line[found.end() - 1 :].partition(" Account Limits=")
            of_accounts, _, of_users = each.partition(" User Limits=")
            qos[found[1].lower()] = HolderOfLimits(
                limits=tuple(_limits(_OWN, own)), of_accounts=_each(of_accounts), of_users=_each(of_users)
            )
    return LimitsInUse(associations=associations, qos=qos)


def _each(text: str) -> dict[str, tuple[LimitInUse, ...]]:
    # A user by its id, an account by its name.
    return {found[2] or found[1]: tuple(_limits(_EACH, found[3])) for found in _HOLDER.finditer(text)}


def _limits(pattern: re.Pattern[str], text: str) -> Iterator[LimitInUse]:
    said = dict(pattern.findall(text))
    for kind, value in said.items():
        for part in value.split(","):
            tres, _, number = part.rpartition("=")
            # 5(2): two of them are in use; N(2): no limit.
            number, _, used = number.partition("(")
            if number.isdecimal() and bool(tres) == ("TRES" in kind):
                running = _used(tres, said.get("GrpTRESRunMins", "")) if kind == "GrpTRESMins" else 0
                yield LimitInUse(kind=kind, tres=tres, most=int(number), used=_whole(used), running=running)


def _used(tres: str, value: str) -> int:
    """Amount of a TRES that is in use: 5 of `cpu=N(5)`."""
    parts = (part.rpartition("=") for part in value.split(","))
    return next((_whole(number.partition("(")[2]) for name, _, number in parts if name == tres), 0)


def _whole(used: str) -> int:
    """Return a number without its fraction, as Slurm compares it; 0 for what is none."""
    digits = used.rstrip(")").partition(".")[0]
    return int(digits) if digits.isdecimal() else 0


def with_limits_of_database(found: LimitsInUse, commands: Commands, names: tuple[str, ...]) -> LimitsInUse | Failure:
    """Add the limits on users and accounts of these QOS, where slurmctld shows none since no job was there yet."""
    lacking = [one for one in names if (held := found.qos.get(one)) and not (held.of_users and held.of_accounts)]
    if not lacking:
        return found
    columns = f"format=name,{','.join(_OF_DATABASE)}"
    answer = commands.run(("sacctmgr", "-n", "-P", "show", "qos", "where", f"name={','.join(lacking)}", columns))
    if isinstance(answer, Failure):
        return answer
    qos = dict(found.qos)
    for line in answer.split("\n"):
        name, *values = line.split("|")
        held = qos.get(name.lower())
        if held is None or len(values) != len(_OF_DATABASE):
            continue
        limits = [one for kind, value in zip(_OF_DATABASE.values(), values, strict=True) for one in _said(kind, value)]
        on_users, on_accounts = (tuple(one for one in limits if one.kind.endswith(end)) for end in ("PU", "PA"))
        qos[name.lower()] = replace(
            held,
            of_users=held.of_users or {"": on_users},
            of_accounts=held.of_accounts or {"": on_accounts},
        )
    return replace(found, qos=qos)


def _said(kind: str, value: str) -> Iterator[LimitInUse]:
    """Yield the limits of one of sacctmgr's columns: `3`, or `cpu=4,mem=2G`."""
    for part in value.split(","):
        tres, _, number = part.rpartition("=")
        most = mebibytes(number) if tres == "mem" else int(number) if number.isdecimal() else None
        if most is not None and bool(tres) == ("TRES" in kind):
            yield LimitInUse(kind=kind, tres=tres, most=most)
