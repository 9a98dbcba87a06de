"""Pending TE jobs that no limit of an association or a QOS keeps from starting, as slurmctld has them right now.

Definitions
    holder     what has limits: the user's association, each account above it (its Grp… limits), the job's QOS and that
               of its partition
    clear      all holders are shown, and each limit of theirs leaves at least what the job may hold at most
    at most    as many nodes as it may get, each of them whole, and the largest of its partitions: what Slurm will
               count is not known before it has selected nodes

Principle
    It is said only where it is certain, since victims leave on it: a job of which it is not said has Slurm's own word
    awaited (`tesched_core.orders.first_look`). So each limit counts, also one that another holder's replaces; what
    other pending TE jobs of the same holder may hold counts as well, since they may start first; and a limit of which
    it is not known what the job would count (billing, licences), or by what it is multiplied, is never clear of.
    Limits on how many jobs are submitted keep no pending job from starting.

Source
    `scontrol -o show assoc_mgr`, one RPC, and what slurmdbd has said of the flags of QOS (`SlurmLimits.rules`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf

from tesched_core.model.actions import Failure
from tesched_core.model.cluster import Job, Partition
from tesched_core.model.request import tasks_in
from tesched_core.model.resources import JobId, Tres
from tesched_core.model.snapshot import Snapshot

from tesched_slurm.limits_in_use import LimitInUse, LimitsInUse, limits_in_use
from tesched_slurm.run_command import Commands
from tesched_slurm.sacctmgr_qos import PLAIN_NAME
from tesched_slurm.scontrol_limits import NAME
from tesched_slurm.uptime import uptime_s

#: kinds that keep no pending job from starting
_OF_SUBMISSION = frozenset({"GrpSubmitJobs", "MaxSubmitJobs", "MaxSubmitJobsPU", "MaxSubmitJobsPA"})
#: on how many jobs run, on what they hold together, on what each holds, and on minutes
_JOBS = frozenset({"GrpJobs", "MaxJobs", "MaxJobsPU", "MaxJobsPA"})
_SHARED = frozenset({"GrpTRES", "MaxTRESPU", "MaxTRESPA"})
_OF_EACH = frozenset({"MaxTRESPJ", "MaxTRESPN"})
_MINUTES = frozenset({"MaxTRESMinsPJ", "GrpTRESMins", "GrpTRESRunMins", "MaxTRESRunMinsPU", "MaxTRESRunMinsPA"})
_WALL = frozenset({"MaxWallPJ", "GrpWall"})
#: flags of a QOS with which more counts than its limits, or these have another meaning
_OTHER_RULES = frozenset({"enforceusagethreshold", "relative", "requiresreservation", "usagefactorsafe"})
#: seconds after which they are read again for jobs that wait on
AGAIN_S = 5.0
_UID = re.compile(rf" UserName=({NAME})\((\d{{1,10}})\) ")
#: users whose limits are read in one poll
_MOST_USERS = 20


@dataclass(kw_only=True)
class ClearOfLimits:
    """Reads the limits when it matters: at once for a job that is new, and seldom for others that wait on."""

    commands: Commands
    stopwatch: Callable[[], float] = uptime_s
    #: jobs for which they were read, by that clock when they were last read
    _known: frozenset[JobId] = frozenset()
    _read_at: float = -AGAIN_S

    def among(
        self,
        wanted: Sequence[Job],
        seen: Snapshot,
        pending: Sequence[Job],
        *,
        early: bool = False,
        within_s: float = inf,
    ) -> frozenset[JobId]:
        """Return those of the `wanted` jobs that are clear; `pending` are all TE jobs that may start before them.

        The answer has to come `within_s` seconds. After an `early` turn the poll reads them for itself.
        """
        now, ids = self.stopwatch(), frozenset(job.job_id for job in wanted)
        users = sorted({job.user for job in wanted if PLAIN_NAME.fullmatch(job.user)})[:_MOST_USERS]
        if not users or (not early and ids <= self._known and now - self._read_at < AGAIN_S):
            return frozenset()
        if not early:
            self._known, self._read_at = ids, now
        commands = replace(self.commands, timeout_s=min(self.commands.timeout_s, within_s))
        answer = commands.run(("scontrol", "-o", "show", "assoc_mgr", "flags=assoc,qos", f"users={','.join(users)}"))
        if isinstance(answer, Failure):
            return frozenset()
        found, uids = limits_in_use(answer), {name: int(uid) for name, uid in _UID.findall(answer)}
        return frozenset(
            job.job_id
            for job in wanted
            if job.user in users and is_clear(job, uids.get(job.user), found, seen, pending)
        )


def is_clear(job: Job, uid: int | None, found: LimitsInUse, seen: Snapshot, pending: Sequence[Job]) -> bool:
    """Check whether no limit keeps the job from starting, in whichever of its partitions."""
    others = [one for one in pending if one.job_id != job.job_id]
    partitions = [seen.partitions.get(name) for name in job.partitions]
    return bool(partitions) and all(
        partition is not None
        and (limits := _limits_on(partition, job, uid, found, seen)) is not None
        and all(_leaves_enough(one, job, seen, others) for one in limits)
        for partition in partitions
    )


def _limits_on(
    partition: Partition, job: Job, uid: int | None, found: LimitsInUse, seen: Snapshot
) -> Sequence[LimitInUse] | None:
    """Return each limit that may keep the job from starting there; None: not all are known, or as they are meant."""
    own = found.association_of(job.account, job.user, partition.name)
    above = found.accounts_from(job.account)
    if own is None or not above or not job.qos or uid is None:
        return None
    limits = [*own[0].limits, *(one for _, held in above for one in held.limits if one.kind.startswith("Grp"))]
    rules = []
    for name in {name.lower() for name in (job.qos, partition.access.qos) if name}:
        held, rule = found.qos.get(name), seen.limits.rules.get(name)
        # Of a QOS in which no job has been slurmctld shows no limits on users and accounts.
        if held is None or rule is None or not (held.of_users and held.of_accounts) or rule.flags & _OTHER_RULES:
            return None
        rules.append(rule)
        limits += [*held.limits, *held.on_user(uid), *held.on_account(job.account)]
    limits = [one for one in limits if one.kind not in _OF_SUBMISSION]
    return None if limits and any(rule.limit_factor is not None for rule in rules) else limits


def _leaves_enough(one: LimitInUse, job: Job, seen: Snapshot, others: Sequence[Job]) -> bool:
    """Check whether a limit leaves what the job may hold, and the others before it."""
    kind = one.kind
    if kind in _JOBS:
        return one.used + sum(map(tasks_in, others)) < one.most
    minutes = None if job.time_limit_s is None else ceil(job.time_limit_s / 60)
    if kind in _WALL:
        return minutes is not None and one.used + minutes <= one.most and not (kind == "GrpWall" and others)
    wants = _at_most(job, one.tres, seen)
    if wants is None:
        return False
    if kind in _OF_EACH:
        return wants <= one.most
    if kind in _MINUTES:
        shared = kind != "MaxTRESMinsPJ"
        return minutes is not None and not (shared and others) and one.used + one.running + wants * minutes <= one.most
    if kind not in _SHARED:
        return False  # MinTRESPJ, and what is not known
    for other in others:
        more = _at_most(other, one.tres, seen)
        if more is None:
            return False
        wants += more * tasks_in(other)
    return one.used + wants <= one.most


def _at_most(job: Job, tres: str, seen: Snapshot) -> int | None:
    """Amount of a TRES that a job may hold at most; None: not known."""
    request = job.request
    nodes = max(request.min_nodes, min(request.max_nodes, max(request.tasks, 1)))
    if tres == "node":
        return nodes
    kind, _, name = tres.partition("/")
    if tres not in {"cpu", "mem"} and kind != "gres":
        return None
    totals = [node.total for node in seen.nodes.values() if not node.partitions.isdisjoint(job.partitions)]
    return nodes * max((_amount(total, tres, name) for total in totals), default=0) if totals else None


def _amount(total: Tres, tres: str, name: str) -> int:
    if tres == "cpu":
        return total.cpus
    return total.mem_mib if tres == "mem" else dict(total.gres).get(name, 0)
