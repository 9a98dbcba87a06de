"""Whether Slurm would take a running job back and start it again on an empty cluster: only such a job is a victim.

Definitions
    deadline      a time by which a job must have ended (sbatch --deadline). Slurm ends a waiting job that can't end by
                  then (DEADLINE), and how long a victim waits is not known
    its limits    what a waiting job is held to and a running one is not: its partition's state, MaxTime, MinNodes and
                  MaxNodes, which an admin may have changed since it started; a reservation that is over

Principle
    A requeue is no harm to a job that runs again. To one that would wait for ever, or be ended in the queue, it is the
    same as its end. So such a job is no victim, whatever it costs the TE job. Limits of associations and QOS are not
    seen here: a job that waits at one starts when others of its user have ended.

    Where Slurm would start a job all the same it is spared without need: one whose QOS lifts its partition's limits
    (flags PartitionTimeLimit, PartitionMaxNodes), one with --time-min, one that asked for fewer nodes than it got, and
    one submitted to several partitions, of which Slurm shows a running job's own alone.

Source
    sbatch(1), --deadline; slurm.conf(5), MaxTime, MaxNodes, MinNodes, State; tried on 22.05. Slurm's release notes for
    the licences: a requeued job loses them from 25.05.0 to 25.11.6.
"""

from __future__ import annotations

import re

from tesched_core.model.cluster import Job, Partition, Reservation, SlurmSettings
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import Snapshot

#: rows of `INELIGIBLE`
DEADLINE, LIMITS, RESERVATION, LICENSES = 10, 11, 12, 13
#: releases in which a requeued job loses its licences: from the first of these up to, and without, the second
_LOSE_LICENSES = (25, 5, 0), (25, 11, 7)


def why_it_cannot_return(job: Job, snapshot: Snapshot) -> int:
    """Find why a running job would not start again after a requeue, as a row of `INELIGIBLE`; 0: it would."""
    if job.deadline is not None:
        return DEADLINE
    partitions = [snapshot.partitions[name] for name in job.partitions if name in snapshot.partitions]
    if partitions and not any(_takes(one, job) for one in partitions):
        return LIMITS
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


def _takes(partition: Partition, job: Job) -> bool:
    """Check whether a partition would start a job like this. One that is not read says nothing."""
    if partition.doubt:
        return True
    longest = partition.max_time_s
    if partition.state != "UP" or (longest is not None and (job.time_limit_s is None or job.time_limit_s > longest)):
        return False
    fewest = job.request.min_nodes
    return fewest <= (partition.max_nodes or fewest) and max(fewest, job.request.max_nodes) >= partition.min_nodes


def _is_there(reservation: Reservation | None, now: UnixSeconds) -> bool:
    return reservation is not None and reservation.end_time > now
