"""Whether Slurm would take a running job back and start it again on an empty cluster: only such a job is a victim.

Definitions
    deadline      a time by which a job must have ended (sbatch --deadline). Slurm ends a waiting job that can't end by
                  then (DEADLINE), and how long a victim waits is not known
    its limits    what a waiting job is held to and a running one is not, and an admin may have changed since then: its
                  partition's state, MaxTime, MinNodes, MaxNodes, MaxMemPerNode, MaxCPUsPerNode, AllowAccounts,
                  AllowQos, AllowGroups, DenyAccounts, DenyQos, RootOnly, ReqResv; limits of associations and QOS
                  (`within_limits.py`); a reservation that is over
    its nodes     those that it holds: they may be its partition's no more, or have lost a feature that it asks for

Principle
    A requeue is no harm to a job that runs again. To one that would wait for ever, or be ended in the queue, it is the
    same as its end. So such a job is no victim, whatever it costs the TE job.

    Slurm itself is no help: `sbatch --test-only` answers for a job like it, and says "to start at" for each limit of an
    association or a QOS, and for an account or a QOS that the partition does not allow (8 of 13 cases that then waited
    for ever, 22.05).

    A QOS is compared in any case of its letters, as Slurm does it. One that is gone is not shown of its jobs any more;
    with AccountingStorageEnforce=qos none of them starts again (InvalidQOS), nor does a job whose user may not use its
    QOS any more: that slurmdbd says (`sacctmgr show assoc`). An association cannot go while its jobs run: sacctmgr
    refuses that.

    An account counts on 22.05 letter by letter: there AllowAccounts has just the accounts that are named. It starts no
    job of account `child` where AllowAccounts=lab, the parent of `child`, nor where AllowAccounts=CHILD. 26.05 starts
    it in both cases: the children of an account are allowed with it (slurm.conf(5)). So but for 22.05 a job's account
    is not allowed only if the accounts above it are known (`scontrol show assoc_mgr`), and none of them is named in any
    case of its letters. (Of an account that was given its parent since slurmctld last read its configuration 26.05
    started no job before `scontrol reconfigure`: that is not seen.)

    A user's groups are those that this host has (`getent`), and slurmctld reads its own host's, every few minutes.

    Not seen are AllocNodes (Slurm says PartitionConfig then), MaxMemPerCPU, of which Slurm makes more CPUs
    (BadConstraints where no node has so many), and a threshold on its account's share. Such a job may be a victim, and
    then `tesched status` names it.

    A QOS may lift its partition's limits (flags PartitionTimeLimit, PartitionMaxNodes, PartitionMinNodes): slurmdbd
    shows that (`sacctmgr show qos`), and until it has answered no QOS does.

    Some jobs are no victims although Slurm would start them again: one with --time-min, one that requested fewer nodes
    than it got, one submitted to several partitions, of which Slurm shows a running job's own alone, and one that other
    nodes than its own would do for, or less than it holds.

Source
    sbatch(1), --deadline; slurm.conf(5), MaxTime, MaxNodes, MinNodes, State, AllowAccounts, AllowQos and the others;
    tried on 22.05 and 26.05. Slurm's release notes for the licences: a requeued job loses them from 25.05.0 to 25.11.6.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import inf

from tesched_core.model.cluster import Job, Partition, Reservation, SlurmSettings
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.constraint import UnsupportedConstraintError, has_features
from tesched_core.placement.within_limits import is_within_limits

#: rows of `INELIGIBLE`
DEADLINE, LIMITS, RESERVATION, LICENSES, NODES, SLURM_LIMITS, QOS_GONE, QOS_TAKEN = 10, 11, 12, 13, 14, 15, 16, 17
CRON_JOB, FEDERATED = 18, 19
#: releases in which a requeued job loses its licences: from the first of these up to, and without, the second
_LOSE_LICENSES = (25, 5, 0), (25, 11, 7)
#: the release on which AllowAccounts was seen to leave out the children of an account that it names
_NO_CHILDREN = "22.05."
#: words of AccountingStorageEnforce with which a job needs a QOS that its user has
_ENFORCE_QOS = frozenset({"qos", "all"})
#: words of it with which a job starts only if its account has enough left for it to end by itself
_ENFORCE_SAFE = frozenset({"safe", "all"})
#: the user that each partition takes; SlurmUser, which it takes too, is not known here
_ROOT = "root"


def why_it_cannot_return(job: Job, snapshot: Snapshot) -> int:
    """Find why a running job would not start again after a requeue, as a row of `INELIGIBLE`; 0: it would."""
    if job.deadline is not None:
        return DEADLINE
    partitions = [snapshot.partitions[name] for name in job.partitions if name in snapshot.partitions]
    if partitions and not any(_takes(one, job, snapshot) for one in partitions):
        return LIMITS
    if not job.qos and _ENFORCE_QOS & snapshot.settings.enforced:
        return QOS_GONE
    if job.qos and _ENFORCE_QOS & snapshot.settings.enforced and not _may_use_its_qos(job, snapshot):
        return QOS_TAKEN
    safe = not _ENFORCE_SAFE.isdisjoint(snapshot.settings.enforced)
    if partitions and not any(
        one.doubt or is_within_limits(job, one, snapshot.limits, safe=safe) for one in partitions
    ):
        return SLURM_LIMITS
    if (partitions and not any(_has_its_nodes(one, job) for one in partitions)) or _lacks_a_feature(job, snapshot):
        return NODES
    named = [snapshot.reservations.get(name) for name in job.reservation.split(",")]
    if job.reservation and not any(_is_there(one, snapshot.taken_at) for one in named):
        return RESERVATION
    return LICENSES if job.licenses and loses_licenses(snapshot.settings) else 0


def _may_use_its_qos(job: Job, snapshot: Snapshot) -> bool:
    allowed = snapshot.limits.may_use
    return any(allowed(job.account, job.user, partition, job.qos) for partition in job.partitions or ("",))


def loses_licenses(settings: SlurmSettings) -> bool:
    """Check whether a requeued job loses its licences on this release of Slurm."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", settings.release)
    if found is None:
        return False
    release = tuple(int(part or 0) for part in found.groups())
    return _LOSE_LICENSES[0] <= release < _LOSE_LICENSES[1]


def _takes(partition: Partition, job: Job, snapshot: Snapshot) -> bool:
    """Check whether a partition would start a job like this. One that is not read says nothing."""
    if partition.doubt:
        return True
    if snapshot.settings.limits_enforced and not _is_allowed(partition, job, snapshot):
        return False
    return _has_the_form(partition, job, snapshot)


def takes(partition: Partition, job: Job, snapshot: Snapshot) -> bool:
    """Check whether it is known that a partition would start a pending job with this request once resources are free.

    Its lists of accounts and QOS count also where slurm.conf enforces no limits: 22.05 then keeps each job out. An
    account counts only if it is named itself. Where MaxMemPerCPU is set Slurm may change the request, and that is not
    followed.
    """
    if partition.doubt or partition.max_mem_per_cpu_mib is not None:
        return False
    if partition.allow_accounts and job.account not in partition.allow_accounts:
        return False
    if not _is_allowed(partition, job, snapshot):
        return False
    return _has_the_form(partition, job, snapshot)


def _has_the_form(partition: Partition, job: Job, snapshot: Snapshot) -> bool:
    """Check whether a job's user, time and request are within a partition's own limits."""
    lifted = snapshot.limits.rules_of(job.qos).flags
    longest = None if "partitiontimelimit" in lifted else partition.max_time_s
    if partition.state != "UP" or (longest is not None and (job.time_limit_s is None or job.time_limit_s > longest)):
        return False
    access, request = partition.access, job.request
    if (access.root_only and job.user != _ROOT) or (access.needs_reservation and not job.reservation):
        return False
    if access.allow_groups and job.user != _ROOT and not snapshot.limits.is_in_one_of(access.allow_groups, job.user):
        return False
    if (request.mem_per_node_mib or 0) > (partition.max_mem_per_node_mib or inf):
        return False
    if request.min_cpus_per_node > (partition.max_cpus_per_node or inf):
        return False
    fewest = request.min_nodes
    if "partitionmaxnodes" not in lifted and fewest > (partition.max_nodes or fewest):
        return False
    return "partitionminnodes" in lifted or max(fewest, request.max_nodes) >= partition.min_nodes


def _is_allowed(partition: Partition, job: Job, snapshot: Snapshot) -> bool:
    """Check whether a partition allows a job's account and QOS. Without a slurmdbd 26.05 takes any, and 22.05 none."""
    accounts, qos, access = partition.allow_accounts, _small(partition.allow_qos), partition.access
    if accounts and not _is_among(job.account, accounts, snapshot):
        return False
    if not accounts and job.account in access.deny_accounts:
        return False
    # Of several, Slurm starts it in one that is allowed there.
    own = {one.lower() for one in job.each_qos}
    return not qos.isdisjoint(own) if qos else not own <= _small(access.deny_qos)


def _is_among(account: str, accounts: frozenset[str], snapshot: Snapshot) -> bool:
    """Check whether an account, or one above it, may be among these. On 22.05 it must be named itself."""
    if account in accounts or snapshot.settings.release.startswith(_NO_CHILDREN):
        return account in accounts
    above = snapshot.limits.accounts_from(account)
    return not above or not _small(accounts).isdisjoint(one.account for one in above)


@lru_cache(maxsize=4096)
def _small(names: frozenset[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


def _has_its_nodes(partition: Partition, job: Job) -> bool:
    """Check whether the nodes that a job holds are still the partition's. One without nodes is not read whole."""
    return bool(partition.doubt) or not partition.nodes or partition.nodes.issuperset(job.nodes)


def _lacks_a_feature(job: Job, snapshot: Snapshot) -> bool:
    """Check whether a node that a job holds lacks what it asks for (--constraint). One not read says nothing."""
    if not job.request.features:
        return False
    nodes = [snapshot.nodes.get(name) for name in job.nodes]
    return not all(_satisfies(job.request.features, one.features) for one in nodes if one is not None and not one.doubt)


@lru_cache(maxsize=4096)
def _satisfies(constraint: str, features: frozenset[str]) -> bool:
    """Check whether a node has what a constraint asks for. One that is not about one node alone says nothing."""
    try:
        return has_features(constraint, features)
    except UnsupportedConstraintError:
        return True


def _is_there(reservation: Reservation | None, now: UnixSeconds) -> bool:
    return reservation is not None and not reservation.doubt and reservation.end_time > now
