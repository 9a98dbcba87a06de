"""Limits of accounts, users and QOS that keep a job from starting, or from being submitted, before it is submitted.

Principle
    As slurmctld goes through them (`acct_policy.c` of 22.05.8): first the limits on how many jobs run and for how long,
    then those on what the job holds; of each the partition's QOS (the job's own with OverPartQOS), the other QOS, the
    user's association, and the accounts above it with their Grp… alone. A kind and TRES that a QOS limits is not
    compared with what lies behind it. The first limit in the way gives the reason that Slurm shows; all are named.

    A job without --time, in a partition without DefaultTime, has the time that GrpWall and MaxWall allow, also where
    that is above the partition's MaxTime, which then keeps it; with the flag DenyOnLimit what the minutes of its TRES
    allow, too. Without any of these it has none, and is above each limit on minutes (tried on 22.05.8).
    At its submission Slurm counts the submitted jobs of each, and with DenyOnLimit what the job requests by itself.

Limits
    What is not known of the job (what it is billed, a node's whole memory, GRES of whole nodes), or of a limit (the
    flag Relative), is not compared, and is named. 22.05 shows no MaxTRESRunMins of a QOS, and keeps no job for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tesched_core.model.cluster import Job, Partition
from tesched_core.model.slurm_limits import QosRules
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.limits_in_use import HolderOfLimits, LimitInUse, LimitsInUse

from tesched_daemon.submission.limit_words import limit_name, reason_of
from tesched_daemon.submission.reason_word import PARTITION_TIME

#: in the order in which slurmctld compares them, before and after it has selected nodes
_BEFORE_NODES = ("GrpJobs", "GrpWall", "MaxJobsPA", "MaxJobsPU", "MaxJobs", "MaxWallPJ")
_WITH_NODES = (
    *("GrpTRESMins", "GrpTRES", "GrpTRESRunMins", "MaxTRESMinsPJ", "MaxTRESPJ", "MaxTRESPN", "MinTRESPJ"),
    *("MaxTRESPA", "MaxTRESPU", "MaxTRESRunMinsPA", "MaxTRESRunMinsPU"),
)
_SUBMITTED = ("GrpSubmitJobs", "MaxSubmitJobsPA", "MaxSubmitJobsPU", "MaxSubmitJobs")
#: limits on the time of a job
_TIMES = ("MaxWallPJ", "GrpWall")
#: what the job requests by itself: compared at a submission where a QOS has DenyOnLimit
_BY_ITSELF = (*_WITH_NODES, *_TIMES)
_RUNNING = frozenset({"GrpJobs", "MaxJobs", "MaxJobsPU", "MaxJobsPA"})
_SHARED = frozenset({"GrpTRES", "MaxTRESPU", "MaxTRESPA"})
_MINUTES = frozenset({"MaxTRESMinsPJ", "GrpTRESMins", "GrpTRESRunMins", "MaxTRESRunMinsPU", "MaxTRESRunMinsPA"})
_USED_MINUTES = frozenset({"GrpTRESMins", "GrpTRESRunMins"})
_MULTIPLIED = frozenset({"GrpTRES", "MaxTRESPJ"})
#: kinds of a QOS' that replace an association's
_REPLACED_BY = {"MaxJobs": ("MaxJobsPU", "MaxJobsPA"), "MaxSubmitJobs": ("MaxSubmitJobsPU", "MaxSubmitJobsPA")}
_MINUTE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A job, and what it would hold."""

    job: Job
    #: how much of a TRES; None: not known
    amount: Callable[[str], int | None]
    #: nodes that Slurm would give it now; empty: not known
    nodes: tuple[str, ...] = ()
    #: None: no limit
    minutes: int | None = None
    #: --time is said, or its partition has a DefaultTime; else the limits on time give it one
    is_timed: bool = True
    #: tasks of its array
    tasks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitInTheWay:
    """A limit that keeps the job."""

    #: Slurm's word
    reason: str
    text: str


@dataclass(slots=True, kw_only=True)
class Ahead:
    """Limits that keep the job, and those that are not compared."""

    in_the_way: list[LimitInTheWay] = field(default_factory=list)
    #: limits that are not compared, in words
    uncompared: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Holder:
    """A QOS, a user's association or an account, with the limits of it that count."""

    label: str
    is_qos: bool
    limits: Sequence[LimitInUse]
    #: whether what this job holds counts against it
    counts: Callable[[Job], bool]
    is_relative: bool = False


def limits_ahead(
    wanted: Wanted, found: LimitsInUse, seen: Snapshot, partition: Partition, uid: int, *, at_submission: bool
) -> Ahead | str:
    """Return the limits in the way in this partition; as a text, why they are not known."""
    job = wanted.job
    own = found.association_of(job.account, job.user, partition.name)
    above = found.accounts_from(job.account)
    if own is None or not above:
        what = (
            f"account {job.account}, and those above it" if own else f"user {job.user} in account {job.account or '?'}"
        )
        return f"slurmctld does not show those of {what} (PrivateData?)"
    names = _qos_in_order(job.qos, partition.access.qos, seen.limits.rules_of(job.qos))
    if not job.qos or any(name not in found.qos for name in names):
        return f"slurmctld does not show those of QOS {', '.join(names) or '?'}"
    rules = [seen.limits.rules_of(name) for name in names]
    holders = [_of_qos(name, found.qos[name], job, uid, seen) for name in names]
    set_by_qos = {(one.kind, one.tres) for holder in holders for one in holder.limits}
    factor = next((rule.limit_factor for rule in rules if rule.limit_factor is not None), None)
    holders.append(_of_user(own, job, partition.name, factor))
    holders += [_of_account(name, one, found, factor) for name, one in above]
    denies = any("denyonlimit" in rule.flags for rule in rules)
    given = None if wanted.is_timed else _time_of_limits(wanted, holders, set_by_qos, denies=denies)
    if not wanted.is_timed:
        wanted = replace(wanted, minutes=None if given is None else given.minutes)
    running = [one for one in seen.jobs.values() if one.on_nodes]
    walk = _Walk(
        wanted=wanted, holders=holders, set_by_qos=set_by_qos, rule=seen.limits.rules_of(job.qos), running=running
    )
    if at_submission:
        walk.go(_SUBMITTED)
        if denies:
            walk.by_itself = True
            walk.go(_BY_ITSELF)
    else:
        if given is not None and "partitiontimelimit" not in walk.rule.flags:
            walk.ahead.in_the_way += _above_max_time(given, partition)
        walk.is_safe = bool({"safe", "all"} & seen.settings.enforced)
        walk.go(_BEFORE_NODES)
        walk.go(_WITH_NODES)
    return walk.ahead


def _qos_in_order(own: str, of_partition: str, rules: QosRules) -> tuple[str, ...]:
    names = (own, of_partition) if "overpartqos" in rules.flags else (of_partition, own)
    return tuple(dict.fromkeys(name.lower() for name in names if name))


def _of_qos(name: str, held: HolderOfLimits, job: Job, uid: int, seen: Snapshot) -> _Holder:
    def counts(one: Job) -> bool:
        known = (seen.partitions.get(each) for each in one.partitions)
        return name in {one.qos.lower(), *(each.access.qos.lower() for each in known if each is not None)}

    return _Holder(
        label=f"QOS {name}",
        is_qos=True,
        limits=(*held.limits, *held.on_account(job.account), *held.on_user(uid)),
        counts=counts,
        is_relative="relative" in seen.limits.rules_of(name).flags,
    )


def _of_user(own: tuple[HolderOfLimits, bool], job: Job, partition: str, factor: float | None) -> _Holder:
    held, in_partition = own
    return _Holder(
        label=f"user {job.user} in account {job.account}{f' and partition {partition}' if in_partition else ''}",
        is_qos=False,
        limits=[_multiplied(one, factor) for one in held.limits],
        counts=lambda one: (
            (one.account, one.user) == (job.account, job.user) and (not in_partition or partition in one.partitions)
        ),
    )


def _of_account(name: str, held: HolderOfLimits, found: LimitsInUse, factor: float | None) -> _Holder:
    return _Holder(
        label=f"account {name}",
        is_qos=False,
        limits=[_multiplied(one, factor) for one in held.limits if one.kind.startswith("Grp")],
        counts=lambda one: name in {above for above, _ in found.accounts_from(one.account)},
    )


def _multiplied(one: LimitInUse, factor: float | None) -> LimitInUse:
    if not factor or one.kind not in _MULTIPLIED:
        return one
    return replace(one, most=int(one.most * factor))


def _each(
    holders: Sequence[_Holder], set_by_qos: set[tuple[str, str]], kinds: Sequence[str]
) -> Iterator[tuple[_Holder, LimitInUse]]:
    """Yield the limits of these kinds that count, in Slurm's order."""
    taken: set[tuple[str, str]] = set()
    replaced = {kind for kind, by in _REPLACED_BY.items() if any((one, "") in set_by_qos for one in by)}
    for holder in holders:
        mine = {(one.kind, one.tres) for one in holder.limits}
        for kind in kinds:
            for one in holder.limits:
                key = (one.kind, one.tres)
                hidden = key in taken if holder.is_qos else key in set_by_qos or kind in replaced
                if one.kind == kind and not hidden:
                    yield holder, one
        if holder.is_qos:
            taken |= mine


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class _TimeOfLimit:
    """Time limit that a job has by one of the limits."""

    minutes: int
    limit: str


def _time_of_limits(
    wanted: Wanted, holders: Sequence[_Holder], set_by_qos: set[tuple[str, str]], *, denies: bool
) -> _TimeOfLimit | None:
    """Return the time that Slurm gives a job without one; None: none."""
    found: list[_TimeOfLimit] = []
    for holder, one in _each(holders, set_by_qos, (*_TIMES, *sorted(_MINUTES if denies else ()))):
        amount = 1 if not one.tres else wanted.amount(one.tres) or 0
        limit = f"{limit_name(one)} of {holder.label}"
        found += [_TimeOfLimit(minutes=one.most // amount, limit=limit)] if amount else []
    return min(found, default=None)


def _above_max_time(given: _TimeOfLimit, partition: Partition) -> Iterator[LimitInTheWay]:
    if partition.max_time_s is not None and given.minutes * _MINUTE_S > partition.max_time_s:
        name = f"MaxTime={partition.max_time_s // _MINUTE_S} min of partition {partition.name}"
        text = f"{name}: its time limit is {given.minutes} min by {given.limit}  [{PARTITION_TIME}]"
        yield LimitInTheWay(reason=PARTITION_TIME, text=text)


@dataclass(slots=True, kw_only=True)
class _Walk:
    """One pass through the limits."""

    wanted: Wanted
    holders: Sequence[_Holder]
    set_by_qos: set[tuple[str, str]]
    #: of the job's own QOS
    rule: QosRules
    #: jobs on nodes
    running: Sequence[Job]
    #: as much must be left as the job's time limit may use
    is_safe: bool = False
    #: the request is compared as if no other job were there
    by_itself: bool = False
    ahead: Ahead = field(default_factory=Ahead)

    def go(self, kinds: Sequence[str]) -> None:
        """Compare the limits of these kinds."""
        for holder, one in _each(self.holders, self.set_by_qos, kinds):
            amount = self._amount(holder, one)
            if amount is None or holder.is_relative:
                self.ahead.uncompared.append(f"{limit_name(one)} of {holder.label}")
            elif said := self._over(one, amount):
                reason = reason_of(one, is_qos=holder.is_qos)
                text = f"{limit_name(one)} of {holder.label}: {said}  [{reason}]"
                self.ahead.in_the_way.append(LimitInTheWay(reason=reason, text=text))

    def _amount(self, holder: _Holder, one: LimitInUse) -> int | None:
        """Amount of the limit's TRES that counts of the job; None: not known."""
        if not one.tres:
            return 0
        amount = self.wanted.amount(one.tres)
        if one.tres != "node" or one.kind not in _SHARED or amount is None or self.by_itself:
            return amount
        # A node counts once for all jobs of the holder.
        job = self.wanted.job
        taken = {
            node
            for other in self.running
            if holder.counts(other)
            and (one.kind != "MaxTRESPU" or other.user == job.user)
            and (one.kind != "MaxTRESPA" or other.account == job.account)
            for node in other.nodes
        }
        return max(amount - len(taken.intersection(self.wanted.nodes)), 0)

    def _over(self, one: LimitInUse, amount: int) -> str:
        """Explain how the job passes the limit, in words; empty if it does not."""
        kind, most, used = one.kind, one.most, 0 if self.by_itself else one.used
        if kind in _RUNNING:
            return f"{used} running" if used >= most else ""
        if kind in _SUBMITTED:
            more = f"{self.wanted.tasks} more with it" if self.wanted.tasks > 1 else "it would be one more"
            return f"{used} pending or running, and {more}" if used + self.wanted.tasks > most else ""
        if kind == "MinTRESPJ":
            return f"it wants {amount}" if amount < most else ""
        if kind == "MaxTRESPN":
            each = amount // (self.wanted.amount("node") or 1)
            return f"it wants {each} on a node" if each > most else ""
        if kind in _SHARED or kind == "MaxTRESPJ":
            over = amount > most or (amount > 0 and amount + used > most)
            return (f"{used} in use, and " if used else "") + f"it wants {amount}" if over else ""
        return self._over_time(one, amount, used)

    def _over_time(self, one: LimitInUse, amount: int, used: int) -> str:
        """Explain how the job's time, or what it holds for so long, passes the limit; empty if it does not."""
        kind, most, minutes, running = one.kind, one.most, self.wanted.minutes, one.running
        if not self.by_itself and "usagefactorsafe" in self.rule.flags and minutes is not None:
            minutes = int(minutes * self.rule.usage_factor)
        if kind in _USED_MINUTES and self.rule.usage_factor == 0:
            used = running = 0
        if kind == "GrpWall":
            wants = minutes if self.is_safe or self.by_itself else 0
            over = (used >= most and not self.by_itself) or (wants is not None and used + wants > most)
            return f"{used} min used" + (f", and its time limit is {minutes} min" if wants else "") if over else ""
        if kind == "MaxWallPJ":
            limit = "it has no time limit" if minutes is None else f"its time limit is {minutes} min"
            return limit if minutes is None or minutes > most else ""
        if not amount:
            return ""
        if kind == "GrpTRESMins" and used >= most and not self.by_itself:
            return f"{used} min used"
        if kind == "GrpTRESMins" and not (self.is_safe or self.by_itself):
            return ""
        if minutes is None:
            return "it has no time limit"
        wants = amount * minutes
        used += 0 if self.by_itself else running
        return (f"{used} min in use, and " if used else "") + f"it wants {wants} min" if used + wants > most else ""
