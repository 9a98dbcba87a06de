"""Whether Slurm would take a running job back and start it again on an empty cluster: only such a job is a victim.

Definitions
    deadline      a time by which a job must have ended (sbatch --deadline). Slurm ends a waiting job that can't end by
                  then (DEADLINE), and how long a victim waits is not known
    its limits    what a waiting job is held to and a running one is not: its partition's state, MaxTime, MinNodes,
                  MaxNodes, AllowAccounts and AllowQos, which an admin may have changed since it started; a reservation
                  that is over
    its nodes     those that it holds: they may be its partition's no more, or have lost a feature that it asks for

Principle
    A requeue is no harm to a job that runs again. To one that would wait for ever, or be ended in the queue, it is the
    same as its end. So such a job is no victim, whatever it costs the TE job.

    Limits of associations and QOS are not seen here. A job that waits at one starts when others of its user have ended,
    but for a limit of one job that was lowered since it started (MaxWall, MaxTRESPerJob), or one that is 0. Slurm is
    no help: `sbatch --test-only` answers for a job like it, and says "to start at" for each of these, and for an
    account or a QOS that the partition does not allow (8 of 13 cases that then waited for ever, 22.05). It says no for
    a QOS that is gone, of which nothing is seen here either.

    A QOS is compared in any case of its letters, as Slurm does it. An account counts on 22.05 alone, where
    AllowAccounts has just the accounts that are named, letter by letter: it starts no job of account `child` where
    AllowAccounts=lab, the parent of `child`, nor where AllowAccounts=CHILD. 26.05 starts it in both cases: the children
    of an account are allowed with it (slurm.conf(5)), and tesched does not read who is whose child. So but for 22.05 an
    account that is not named says nothing, and the job may be a victim. (Of an account that was given its parent since
    slurmctld last read its configuration 26.05 started no job before `scontrol reconfigure`.)

    Some jobs are no victims although Slurm would start them again: one whose QOS lifts its partition's limits (flags
    PartitionTimeLimit, PartitionMaxNodes), one with --time-min, one that asked for fewer nodes than it got, one
    submitted to several partitions, of which Slurm shows a running job's own alone, and one that other nodes than its
    own would do for.

Source
    sbatch(1), --deadline; slurm.conf(5), MaxTime, MaxNodes, MinNodes, State, AllowAccounts, AllowQos; tried on
    22.05 and 26.05. Slurm's release notes for the licences: a requeued job loses them from 25.05.0 to 25.11.6.
"""

from __future__ import annotations

import re
from functools import lru_cache

from tesched_core.model.cluster import Job, Partition, Reservation, SlurmSettings
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.constraint import UnsupportedConstraintError, has_features

#: rows of `INELIGIBLE`
DEADLINE, LIMITS, RESERVATION, LICENSES, NODES = 10, 11, 12, 13, 14
#: releases in which a requeued job loses its licences: from the first of these up to, and without, the second
_LOSE_LICENSES = (25, 5, 0), (25, 11, 7)
#: the release on which AllowAccounts was seen to leave out the children of an account that it names
_NO_CHILDREN = "22.05."


def why_it_cannot_return(job: Job, snapshot: Snapshot) -> int:
    """Find why a running job would not start again after a requeue, as a row of `INELIGIBLE`; 0: it would."""
    if job.deadline is not None:
        return DEADLINE
    partitions = [snapshot.partitions[name] for name in job.partitions if name in snapshot.partitions]
    if partitions and not any(_takes(one, job, snapshot.settings) for one in partitions):
        return LIMITS
    if (partitions and not any(_has_its_nodes(one, job) for one in partitions)) or _lacks_a_feature(job, snapshot):
        return NODES
    named = [snapshot.reservations.get(name) for name in job.reservation.split(",")]
    if job.reservation and not any(_is_there(one, snapshot.taken_at) for one in named):
        return RESERVATION
    return LICENSES if job.licenses and loses_licenses(snapshot.settings) else 0


def loses_licenses(settings: SlurmSettings) -> bool:
    """Check whether a requeued job loses its licences on this release of Slurm."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", settings.release)
    if found is None:
        return False
    release = tuple(int(part or 0) for part in found.groups())
    return _LOSE_LICENSES[0] <= release < _LOSE_LICENSES[1]


def _takes(partition: Partition, job: Job, settings: SlurmSettings) -> bool:
    """Check whether a partition would start a job like this. One that is not read says nothing."""
    if partition.doubt:
        return True
    longest = partition.max_time_s
    if partition.state != "UP" or (longest is not None and (job.time_limit_s is None or job.time_limit_s > longest)):
        return False
    if settings.limits_enforced and not _is_allowed(partition, job, settings):
        return False
    fewest = job.request.min_nodes
    return fewest <= (partition.max_nodes or fewest) and max(fewest, job.request.max_nodes) >= partition.min_nodes


def _is_allowed(partition: Partition, job: Job, settings: SlurmSettings) -> bool:
    """Check whether a partition allows a job's account and QOS. Without a slurmdbd 26.05 takes any, and 22.05 none."""
    accounts, qos = partition.allow_accounts, partition.allow_qos
    takes_account = not accounts or job.account in accounts or not settings.release.startswith(_NO_CHILDREN)
    return takes_account and (not qos or job.qos.lower() in {name.lower() for name in qos})


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
    return reservation is not None and reservation.end_time > now
