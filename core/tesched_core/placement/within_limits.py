"""Whether the limits of a job's associations and QOS would let it start again on an empty cluster.

Definitions
    its QOS       its own, and that of its partition (slurm.conf, QOS=)
    empty         no other job counts: of a limit of several jobs (GrpTRES, MaxJobs) only that it is lower than what
                  this one job has, or 0

Principle
    Slurm weighs a limit of a QOS before that of the associations, each kind and TRES by itself: what one of the two QOS
    sets is not compared with the other's, nor with the associations'. The partition's QOS comes first, unless the job's
    has the flag OverPartQOS; while that is not known (slurmdbd has to answer), the higher limit counts. Of the
    associations, the job's own counts with all limits (slurmctld hands an account's limits of one job down to its
    users), those above it with their Grp… alone. GrpTRES and MaxTRESPerJob of associations, and no others, are
    multiplied by the LimitFactor of the first QOS that has one. With the flag UsageFactorSafe of its QOS a job's time
    limit is multiplied by the QOS' UsageFactor. With the flag Relative (23.11 and later) slurmctld shows percentages as
    if they were numbers: such limits replace others, and say nothing. Where its own QOS has UsageFactor 0, usage
    counts as none: GrpTRESMins says nothing of it, and GrpWall counts all the same.

    A job has what it holds: so much Slurm counts again when it starts on such nodes. What it counts and tesched does
    not know (how much it is billed, how many licences it has) is not compared.

    Of GrpTRESMins and GrpWall counts what is left, by what slurmctld says has been used. While nothing is left each job
    that has any of that TRES, one that is billed, too, waits until usage has fallen with time, is reset, or the limit
    is raised: days, as a rule. Where AccountingStorageEnforce has `safe`, as much must be left as the job's time limit
    may use.

    Some jobs are found to be beyond a limit although Slurm would start them again: one whose limits an Operator has
    set, and those of `can_return`. Of others it is not seen that they would wait: those at MinPrioThreshold and
    UsageThreshold and, on 22.05, which does not show them, MaxTRESRunMinsPerUser and PerAccount. Submit limits keep no
    job from starting again, and the flags DenyOnLimit, NoDecay, NoReserve and RequiresReservation change nothing here.

Example
    GrpTRES=cpu=64 of account lab, lowered to cpu=16; a job of lab with 32 CPUs runs on. Back in the queue it would wait
    for ever (AssocGrpCpuLimit), whatever else ends. With GrpTRES=cpu=200 of its QOS it would start.

Source
    Slurm's "Resource Limits" page (the order of QOS and associations); each kind tried on 22.05.8 and 26.05.5 with a
    job that was requeued after its limit was lowered, each flag and factor, too; `src/slurmctld/acct_policy.c` of
    22.05.8 for which limits replace others, which are multiplied, and for UsageFactor 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tesched_core.model.cluster import Job, Partition
from tesched_core.model.slurm_limits import OF_USAGE, Limits, SlurmLimits

#: kinds of limits: on how many jobs there may be, on what they hold, and on that times their time limit
_JOBS = frozenset({"GrpJobs", "MaxJobs", "MaxJobsPU", "MaxJobsPA"})
_HELD = frozenset({"GrpTRES", "MaxTRESPJ", "MaxTRESPU", "MaxTRESPA"})
_MINUTES = frozenset({"GrpTRESRunMins", "MaxTRESMinsPJ", "MaxTRESRunMinsPU", "MaxTRESRunMinsPA"})
_LEAST = "MinTRESPJ"
#: kinds of associations' limits that a QOS' LimitFactor multiplies
_MULTIPLIED = frozenset({"GrpTRES", "MaxTRESPJ"})
#: TRES of which each job has some, also where it is not known how much
_ALWAYS_HELD = frozenset({"billing", "mem"})
#: between two licences of a job, and after the name of one
_BETWEEN_LICENSES, _COUNT = re.compile(r"[,;|]"), re.compile(r"[:=]")
#: kinds of the QOS' that replace MaxJobs of an association
_FOR_MAX_JOBS = (("MaxJobsPU", ""), ("MaxJobsPA", ""))


def is_within_limits(job: Job, partition: Partition, limits: SlurmLimits, *, safe: bool = False) -> bool:
    """Check whether no limit keeps this job from starting in this partition. What is not known says nothing.

    `safe`: Slurm starts no job for which less is left than its time limit may use (AccountingStorageEnforce).
    """
    association = job.account, job.user, partition.name
    limits_on = _limits_on(association, (job.qos, partition.access.qos), limits)
    if not limits_on:
        return True
    rules = limits.rules_of(job.qos)
    if rules.usage_factor == 0:
        limits_on = tuple(each for each in limits_on if each[0] != "GrpTRESMins")
    factor = rules.time_factor
    # Of no time limit each part is none, too.
    minutes = int(job.time_limit_s // 60 * factor) if job.time_limit_s is not None else None if factor else 0
    if safe and any(_may_exceed(job, minutes, *each) for each in limits_on if each[0] in OF_USAGE):
        return False
    return not any(_is_beyond(job, minutes, *each) for each in limits_on)


def _limits_on(
    association: tuple[str, str, str], qos: tuple[str, str], limits: SlurmLimits
) -> tuple[tuple[str, str, int], ...]:
    """Return the limits that count for jobs of this account, user, partition and QOS: kind, TRES and number of each."""
    found = limits.counted.get((association, qos))
    if found is None:
        found = tuple(_each_limit(association, _in_order(*qos, limits), limits))
        limits.counted[association, qos] = found
    return found


def _in_order(own: str, of_partition: str, limits: SlurmLimits) -> list[str]:
    """Return a job's QOS and its partition's, that whose limits come first at the head."""
    over_partition = "overpartqos" in limits.rules_of(own).flags
    names = (own, of_partition) if over_partition else (of_partition, own)
    return [name.lower() for name in names if name]


def _each_limit(
    association: tuple[str, str, str], names: Sequence[str], limits: SlurmLimits
) -> Iterator[tuple[str, str, int]]:
    if any(name not in limits.qos for name in names):
        return
    in_order = bool(limits.rules)
    of_qos = (_first if in_order else _loosest)([limits.qos[name] for name in names])
    # By the QOS that has set it, the first one.
    set_by = {key: name for name in reversed(names) for key in limits.qos[name]}
    relative = {key for key, name in set_by.items() if key[1] and "relative" in limits.rules_of(name).flags}
    yield from ((kind, tres, most) for (kind, tres), most in of_qos.items() if (kind, tres) not in relative)
    own = limits.association_of(*association)
    if own is None:
        return
    factors = [factor for name in names if (factor := limits.rules_of(name).limit_factor) is not None]
    replaces_max_jobs = any(key in of_qos for key in _FOR_MAX_JOBS)
    above = [one.limits for one in limits.accounts_from(own.account)]
    for found in (own.limits, *above):
        for (kind, tres), most in found.items():
            inherited = found is not own.limits and not kind.startswith("Grp")
            if not inherited and (kind, tres) not in of_qos and not (kind == "MaxJobs" and replaces_max_jobs):
                yield kind, tres, _multiplied(most, factors) if kind in _MULTIPLIED else most


def _multiplied(limit: int, factors: Sequence[float]) -> int:
    """Return an association's limit as its job's QOS has it: multiplied by the first factor, unless that is 0."""
    return int(limit * factors[0]) if factors and factors[0] > 0 else limit


def _first(several: Sequence[Limits]) -> Limits:
    return {key: number for limits in reversed(several) for key, number in limits.items()}


def _loosest(several: Sequence[Limits]) -> Limits:
    found: dict[tuple[str, str], int] = {}
    for limits in several:
        for key, number in limits.items():
            found[key] = (min if key[0] == _LEAST else max)(number, found.get(key, number))
    return found


def _is_beyond(job: Job, minutes: int | None, kind: str, tres: str, limit: int) -> bool:
    """Check whether a job, with a limit of so many minutes, has more than a limit allows, or less than it wants."""
    if kind in _JOBS or kind == "GrpWall":
        return limit < 1
    if kind == "GrpTRESMins":
        return limit < 1 and _may_hold(job, tres)
    if kind == "MaxTRESMinsPJ" and minutes is None:
        return _may_hold(job, tres)
    if kind == "MaxWallPJ":
        return minutes is None or minutes > limit
    held = _held(job, tres)
    if held is None:
        return False
    if kind in _HELD:
        return held > limit
    if kind == "MaxTRESPN":
        return held // max(len(job.allocation), 1) > limit
    if kind in _MINUTES:
        return minutes is not None and held * minutes > limit
    return kind == _LEAST and held < limit


def _may_exceed(job: Job, minutes: int | None, kind: str, tres: str, left: int) -> bool:
    """Check whether a job, with a limit of so many minutes, may use more than is left."""
    if kind == "GrpWall":
        return minutes is not None and minutes > left
    if minutes is None:
        return _may_hold(job, tres)
    held = _held(job, tres)
    return held is not None and held > 0 and held * minutes > left


def _may_hold(job: Job, tres: str) -> bool:
    """Check whether a job has any of a TRES, or may have: how much need not be known."""
    kind, _, name = tres.partition("/")
    if kind == "license":
        return any(_COUNT.split(one)[0] == name for one in _BETWEEN_LICENSES.split(job.licenses))
    return tres in _ALWAYS_HELD or bool(_held(job, tres))


def _held(job: Job, tres: str) -> int | None:
    """Amount of a TRES that a job holds; None where it is not known."""
    shares = [share.tres for share in job.allocation]
    if tres == "cpu":
        return sum(one.cpus for one in shares)
    if tres == "mem":
        return sum(one.mem_mib for one in shares) or None
    if tres == "node":
        return len(shares)
    kind, _, name = tres.partition("/")
    return sum(count for one in shares for found, count in one.gres if found == name) if kind == "gres" else None
