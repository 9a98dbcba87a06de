"""The columns in which resources are counted, and what a job that runs takes of each.

`cpu`, `mem_mib` and each GRES by name; for a partition with MaxCPUsPerNode `cpu:NAME`, the CPUs that its jobs may still
have on the node; for a partition with jobs that may share cores (OverSubscribe) `shared:NAME`, of which each of them
takes one and a job of any other partition wants all: Slurm starts it on no node where such a job runs. Where there is a
partition with OverSubscribe=FORCE:1, `unshared`, of which each job takes one that is in no such partition and may share
no cores, and a job of such a partition wants all: Slurm starts it on no node where a job of that kind runs.

Tried on 22.05 and 26.05, each kind of job beside each (`tests/cluster/test_shared_nodes.py`). Before 26.05 all jobs of
a partition with OverSubscribe=YES keep others off; from then on those alone that were submitted with --oversubscribe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from tesched_core.model.arrays import NDArray, np
from tesched_core.model.cluster import Job, JobState, Node, NodeShare, Partition
from tesched_core.model.resources import Tres

#: the GRES that stands for parts of GPUs
SHARD = "shard"
#: of a `shared:` column, more than there can be jobs on a node
ALONE = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnLayout:
    """Layout of the columns: which there are."""

    names: tuple[str, ...]
    #: columns of the partitions with MaxCPUsPerNode, and of those with jobs that may share cores
    limited: Mapping[str, int]
    sharing: Mapping[str, int]
    #: column of the jobs that share no cores, and the partitions with jobs that want all of it
    unshared: int | None = None
    forced: frozenset[str] = frozenset()
    #: of a partition with OverSubscribe=YES those jobs alone keep others off that may share cores themselves
    by_job: bool = False

    @staticmethod
    def of(nodes: Mapping[str, Node], partitions: Mapping[str, Partition], *, by_job: bool = False) -> ColumnLayout:
        """Return the columns for this cluster; `by_job` as its release counts."""
        gres = sorted({name for node in nodes.values() for name, _ in node.total.gres})
        ordered = sorted(partitions.values(), key=lambda partition: partition.name)
        limited = [partition.name for partition in ordered if partition.max_cpus_per_node is not None]
        sharing = [partition.name for partition in ordered if may_share(partition)]
        forced = frozenset(partition.name for partition in ordered if partition.oversubscribe == "FORCE:1")
        first = 2 + len(gres)
        last = first + len(limited) + len(sharing)
        return ColumnLayout(
            names=(
                "cpu",
                "mem_mib",
                *gres,
                *(f"cpu:{name}" for name in limited),
                *(f"shared:{name}" for name in sharing),
                *(("unshared",) if forced else ()),
            ),
            limited={name: first + place for place, name in enumerate(limited)},
            sharing={name: first + len(limited) + place for place, name in enumerate(sharing)},
            unshared=last if forced else None,
            forced=forced,
            by_job=by_job,
        )

    @property
    def alone(self) -> list[int]:
        """Return the columns of which a job wants all, or nothing: no job holds any of them for others."""
        return [*self.sharing.values(), *(() if self.unshared is None else (self.unshared,))]

    def of_node(self, total: Tres, partitions: Sequence[Partition]) -> NDArray[np.int64]:
        """Resources of a node that these partitions have, [resources]."""
        found = vector(total, self.names)
        for partition in partitions:
            if partition.name in self.limited:
                found[self.limited[partition.name]] = min(total.cpus, partition.max_cpus_per_node or 0)
        found[self.alone] = ALONE
        return found

    def of_job(self, job: Job, share: NodeShare, shards_each: int, has: NDArray[np.int64]) -> NDArray[np.int64]:
        """Resources that a job takes of one node, which `has` so much [resources]; free when the job goes.

        Each GPU there has `shards_each` shards.

        A suspended job's CPUs are free; its memory and GRES are not. A GPU of which a job has a shard is free for none
        that wants it whole, and none of a GPU's shards is free while a job has it whole.
        """
        found = vector(share.tres, self.names)
        if shards_each:
            self.with_shards(found, shards_each, has)
        if job.state is JobState.SUSPENDED:
            found[0] = 0
        shares = job.request.sharing == "YES"
        if self.unshared is not None and not shares and self.forced.isdisjoint(job.partitions[:1]):
            found[self.unshared] = 1
        if (self.limited or self.sharing) and job.partitions:
            name = job.partitions[0]
            if name in self.limited:
                found[self.limited[name]] = found[0]
            if name in self.sharing and (shares or not self.by_job):
                found[self.sharing[name]] = 1
        return found

    def with_shards(self, found: NDArray[np.int64], each: int, has: NDArray[np.int64]) -> None:
        """Add to an amount the shards of its GPUs, and the GPUs of its shards, each job's by itself.

        Only of what the node `has` [resources]: other nodes may have GPUs of types that it lacks. Of a node with GPUs
        of several types Slurm does not say which of them are held in part: all may be.
        """
        amounts = dict(zip(self.names, found.tolist(), strict=True))
        gpus, shards = amounts.get("gpu", 0), amounts.get(SHARD, 0)
        for column, name in enumerate(self.names):
            kind = name.partition(":")[0]
            if not has[column]:
                continue
            if kind == "gpu":
                found[column] += ceil(shards / each)
            elif kind == SHARD:
                found[column] += gpus * each


def may_share(partition: Partition) -> bool:
    """Check whether jobs of the partition may share cores with each other."""
    word, _, times = partition.oversubscribe.partition(":")
    return word in {"YES", "FORCE"} and times not in {"", "1"}


def shards_of_each_gpu(total: Tres) -> int:
    """Number of shards that each of a node's GPUs has; 0 without shards, and for a node of one GPU (`of_one_gpu`)."""
    amounts = dict(total.gres)
    gpus = amounts.get("gpu", 0)
    return amounts.get(SHARD, 0) // gpus if gpus > 1 else 0


def of_one_gpu(resources: Sequence[str], total: NDArray[np.int64], free: NDArray[np.int64]) -> None:
    """Take from what is free, on nodes of one GPU with shards, the GPU if a shard is held, and the shards if it is."""
    if "gpu" not in resources or SHARD not in resources:
        return
    gpu, shard = resources.index("gpu"), resources.index(SHARD)
    one = (total[:, gpu] == 1) & (total[:, shard] > 0)
    whole, parts = one & (free[:, gpu] < 1), one & (free[:, shard] < total[:, shard])
    for column, name in enumerate(resources):
        kind = name.partition(":")[0]
        if kind in {"gpu", SHARD}:
            free[parts if kind == "gpu" else whole, column] = 0


def vector(tres: Tres, resources: Sequence[str]) -> NDArray[np.int64]:
    """Return the amounts in the order of `resources`; a resource that is not among them is left out."""
    amounts = tres.as_mapping()
    return np.array([amounts.get(name, 0) for name in resources], dtype=np.int64)


def threads_of(nodes: Mapping[str, Node]) -> NDArray[np.intp]:
    """Return [nodes] how many of its CPUs each node gives out at a time: those of a core."""
    return np.array([node.cpus_per_core for node in nodes.values()], dtype=np.intp)
