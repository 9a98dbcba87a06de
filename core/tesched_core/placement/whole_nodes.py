"""A job of several partitions of which one gives whole nodes alone."""

from __future__ import annotations

from dataclasses import replace

from tesched_core.model.cluster import Job
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.modelled import counts_anew


def may_want_whole_nodes(job: Job, snapshot: Snapshot) -> bool:
    """Check whether one of the job's several partitions gives whole nodes alone (OverSubscribe=EXCLUSIVE).

    Once Slurm has tried the job in that one, it wants whole nodes in the others, too, also on nodes that are in these
    alone (22.05). When that will be is not known; its record does not say so for certain. 26.05 gives it what it
    requested.
    """
    if counts_anew(snapshot.settings.release):
        return False
    parts = [snapshot.partitions[name] for name in job.partitions if name in snapshot.partitions]
    return len(parts) > 1 and any(part.oversubscribe == "EXCLUSIVE" for part in parts)


def with_whole_nodes(job: Job) -> Job:
    """Return the job as Slurm (before 26.05) counts it once it has tried it in such a partition."""
    return replace(job, request=replace(job.request, exclusive=True))
