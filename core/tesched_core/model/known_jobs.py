"""Facts of a site and its jobs that one poll has read: the next one reads of them only what has changed.

A memo of pure functions: with it and without, the columns are the same. It is data of one cycle, which the next one is
given, and is never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tesched_core.model.arrays import NDArray, np
from tesched_core.model.cluster import Node, Partition, SlurmSettings
from tesched_core.model.column_layout import ColumnLayout
from tesched_core.model.slurm_limits import SlurmLimits


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LastingSite:
    """What seldom changes of a site from one poll to the next. It is one object for as long as nothing of it does."""

    partitions: Mapping[str, Partition]
    settings: SlurmSettings
    limits: SlurmLimits
    names: tuple[str, ...]
    #: the node's row, by name
    index: Mapping[str, int]
    layout: ColumnLayout
    #: [nodes, resources]
    total: NDArray[np.int64]
    #: [nodes] shards of each GPU; None: no GPU has shards
    shards_each: NDArray[np.int64] | None
    #: [nodes] CPUs of each core; None: one everywhere
    threads: NDArray[np.intp] | None
    #: [nodes] of each partition that starts jobs
    masks: Mapping[str, NDArray[np.bool_]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownSite:
    """A site as one poll saw it."""

    lasting: LastingSite
    nodes: Mapping[str, Node]
    #: [nodes] Slurm would start a job there
    available: NDArray[np.bool_]
    #: [nodes, resources] what the nodes' own records say is held; the lowest number where they do not say
    held: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownHolders:
    """The jobs on nodes, of any class, in the order of the snapshot: one entry a job, one share a job and node."""

    #: [jobs] `read_jobs.HOLDER`
    facts: NDArray[np.void]
    #: [jobs] what stands in the job's record
    names: NDArray[np.object_]
    owners: NDArray[np.object_]
    #: [jobs] what was learned of its run time, and the numbers in it: low, median; NaN, inf where nothing was
    expected: NDArray[np.object_]
    learned: NDArray[np.float64]
    #: [shares] the node's row
    share_node: NDArray[np.intp]
    #: [shares, resources] what becomes free there when the job goes
    frees: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownJobs:
    """The jobs of one snapshot, in its order."""

    lasting: LastingSite
    #: [jobs] the objects that were read, a `Job` and its `Traits`, or None. As long as they are kept here, no other
    #: object has the id of one of them
    jobs: NDArray[np.object_]
    traits: NDArray[np.object_]
    #: [jobs] their ids
    ids: NDArray[np.intp]
    traits_ids: NDArray[np.intp]
    #: [jobs] `read_jobs.JOB`
    facts: NDArray[np.void]
    holders: KnownHolders


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownCluster:
    """What a cycle leaves to the next one."""

    site: KnownSite
    jobs: KnownJobs
