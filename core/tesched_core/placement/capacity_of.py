"""Resources of each node, total and free, as a snapshot shows them; and what jobs free of them when they go."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from tesched_core.model.capacity import Capacity, mask_of
from tesched_core.model.cluster import Job, JobState, Node, NodeShare
from tesched_core.model.column_layout import ColumnLayout, of_one_gpu, shards_of_each_gpu, threads_of, vector
from tesched_core.model.columns import size_of
from tesched_core.model.known_jobs import KnownSite, LastingSite
from tesched_core.model.site_answers import lasting_of
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.modelled import counts_anew

#: of a node that does not say what is held there: what jobs hold is never less
_NOT_SAID = np.iinfo(np.int64).min


def freed_by(job: Job, share: NodeShare, capacity: Capacity) -> NDArray[np.int64]:
    """Resources that come free on one node when the job goes, [resources]."""
    if capacity.layout is not None:
        return _freed_by(job, share, capacity.layout, capacity)
    freed = vector(share.tres, capacity.resources)
    if job.state is JobState.SUSPENDED:
        freed[0] = 0  # free already
    return freed


def _freed_by(job: Job, share: NodeShare, layout: ColumnLayout, nodes: Capacity | LastingSite) -> NDArray[np.int64]:
    row = nodes.index[share.node]
    each = 0 if nodes.shards_each is None else int(nodes.shards_each[row])
    return layout.of_job(job, share, each, nodes.total[row])


class KnownAmounts:
    """What jobs free and their sizes, each worked out once: most jobs hold as much as others."""

    def __init__(self, site: LastingSite) -> None:
        self._site = site
        self._freed: dict[Hashable, NDArray[np.int64]] = {}
        self._sizes: dict[Hashable, float] = {}

    def freed_by(self, job: Job, share: NodeShare) -> NDArray[np.int64]:
        """Return the same as `freed_by`; it is not to be changed."""
        site = self._site
        row = None if site.shards_each is None else site.index[share.node]
        shares = bool(site.layout.alone) and job.request.sharing == "YES"
        key = share.tres, job.state is JobState.SUSPENDED, job.partitions[:1], shares, row
        found = self._freed.get(key)
        if found is None:
            found = self._freed[key] = _freed_by(job, share, site.layout, site)
        return found

    def size(self, job: Job) -> float:
        """Return FitGpp's Size of what the job holds, by what its first node has."""
        site = self._site
        first = site.index.get(job.allocation[0].node)
        if first is None:
            return 0.0
        key = tuple([share.tres for share in job.allocation]), site.total[first].tobytes()
        found = self._sizes.get(key)
        if found is None:
            resources = site.layout.names
            each = (vector(share.tres, resources) for share in job.allocation)
            held = sum(each, np.zeros(len(resources), np.int64))
            found = self._sizes[key] = size_of(held, site.total[first], resources)
        return found


def site_of(snapshot: Snapshot, before: KnownSite | None = None) -> KnownSite:
    """Read the site of a snapshot; of one like it `before`, only the nodes that have changed since."""
    nodes = snapshot.nodes
    if before is None or not _is_like(before, snapshot):
        lasting = _lasting_site(snapshot)
        changed: Iterable[tuple[int, Node]] = enumerate(nodes.values())
        available = np.empty(len(nodes), dtype=np.bool_)
        held = np.full_like(lasting.total, _NOT_SAID)
    else:
        lasting = before.lasting
        pairs = enumerate(zip(nodes.values(), before.nodes.values(), strict=True))
        changed = [(row, one) for row, (one, was) in pairs if one is not was]
        available, held = before.available, before.held
        if changed:
            available, held = available.copy(), held.copy()
    each = lasting.shards_each
    for row, node in changed:
        available[row] = node.available
        held[row] = _NOT_SAID
        if node.held is not None:
            held[row] = vector(node.held, lasting.layout.names)
            if each is not None and each[row]:
                lasting.layout.with_shards(held[row], int(each[row]), lasting.total[row])
    for array in (available, held):
        array.setflags(write=False)
    return KnownSite(lasting=lasting, nodes=nodes, available=available, held=held)


def _is_like(before: KnownSite, snapshot: Snapshot) -> bool:
    """Check whether a site is as it was, but for what changes as jobs come and go."""
    known = before.lasting
    return (
        known.settings == snapshot.settings
        and known.partitions == snapshot.partitions
        and known.limits == snapshot.limits
        and len(before.nodes) == len(snapshot.nodes)
        and all(
            one is was or lasting_of(one) == lasting_of(was)
            for one, was in zip(snapshot.nodes.values(), before.nodes.values(), strict=True)
        )
        and known.names == tuple(snapshot.nodes)
    )


def _lasting_site(snapshot: Snapshot) -> LastingSite:
    nodes = snapshot.nodes
    names = tuple(nodes)
    index = {name: row for row, name in enumerate(names)}
    by_job = counts_anew(snapshot.settings.release)
    layout = ColumnLayout.of(nodes, snapshot.partitions, by_job=by_job)
    total = np.zeros((len(names), len(layout.names)), dtype=np.int64)
    limits = [snapshot.partitions[name] for name in layout.limited]
    each = np.zeros(len(names), dtype=np.int64)
    for row, node in enumerate(nodes.values()):
        total[row] = layout.of_node(node.total, [one for one in limits if node.name in one.nodes])
        each[row] = shards_of_each_gpu(node.total)
    total.setflags(write=False)
    threads = threads_of(nodes)
    return LastingSite(
        partitions=snapshot.partitions,
        settings=snapshot.settings,
        limits=snapshot.limits,
        names=names,
        index=index,
        layout=layout,
        total=total,
        shards_each=each if each.any() else None,
        threads=threads if (threads > 1).any() else None,
        masks={
            name: mask_of(partition.nodes, index)
            for name, partition in snapshot.partitions.items()
            if partition.state == "UP"
        },
    )


def capacity_with(site: KnownSite, taken: NDArray[np.int64], kept_by: Iterable[tuple[int, str]]) -> Capacity:
    """Resources of a site of which jobs have `taken` so much, [nodes, resources]; `kept_by` is of the result.

    What the nodes' own records say is held counts where the jobs' say less: a job with a record that is missing, or not
    true, frees no resources.
    """
    lasting = site.lasting
    free = lasting.total - np.maximum(taken, site.held)
    of_one_gpu(lasting.layout.names, lasting.total, free)
    free.setflags(write=False)
    kept = tuple(sorted(set(kept_by)))
    return Capacity(
        names=lasting.names,
        index=lasting.index,
        resources=lasting.layout.names,
        total=lasting.total,
        free=free,
        available=site.available,
        partitions=lasting.masks,
        layout=lasting.layout,
        shards_each=lasting.shards_each,
        kept_by=kept,
        keepers=frozenset(user for _, user in kept),
        threads=lasting.threads,
    )


def capacity_of(snapshot: Snapshot) -> Capacity:
    """Return the resources of each node as the snapshot shows them."""
    site = site_of(snapshot)
    index, amounts = site.lasting.index, KnownAmounts(site.lasting)
    taken = np.zeros_like(site.lasting.total)
    for job in snapshot.jobs.values():
        for share in job.allocation:
            row = index.get(share.node)
            if row is not None:
                taken[row] += amounts.freed_by(job, share)
    keeps = keeps_nodes(snapshot)
    keepers = (job for job in snapshot.jobs.values() if keeps(job))
    return capacity_with(site, taken, kept_nodes(keepers, index))


def keeps_nodes(snapshot: Snapshot) -> Callable[[Job], bool]:
    """Predicate of jobs that share their nodes with their own user's jobs alone."""
    alone = {name for name, partition in snapshot.partitions.items() if partition.exclusive_user}
    return lambda job: job.request.sharing == "USER" or not alone.isdisjoint(job.partitions[:1])


def kept_nodes(jobs: Iterable[Job], index: Mapping[str, int]) -> Iterable[tuple[int, str]]:
    """Return (row, user) of the nodes that each of these jobs shares with its own user's jobs alone."""
    return ((index[name], job.user) for job in jobs for name in job.nodes if name in index)
