"""Resources of each node, and which of them are free. Never changed: taking or freeing gives a new one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tesched_core.model.arrays import NDArray, np
from tesched_core.model.column_layout import (
    ColumnLayout,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Capacity:
    """Total and free resources of each node: [nodes, resources], in the units of `Tres`."""

    names: tuple[str, ...]
    index: Mapping[str, int]
    resources: tuple[str, ...]
    total: NDArray[np.int64]
    free: NDArray[np.int64]
    #: [nodes] Slurm would start a job there if it fitted
    available: NDArray[np.bool_]
    #: [nodes] of each partition that starts jobs
    partitions: Mapping[str, NDArray[np.bool_]]
    #: [nodes] CPUs of each core, which are given out together; None: one everywhere
    threads: NDArray[np.intp] | None = None
    #: (row, user) of nodes that a running job shares with its own user's jobs alone
    kept_by: tuple[tuple[int, str], ...] = ()
    #: those users
    keepers: frozenset[str] = frozenset()
    #: [nodes] where other users' jobs are, of the user whose job is meant; None: by the snapshot
    with_others: NDArray[np.bool_] | None = None
    #: which columns are there beside amounts; None: none
    layout: ColumnLayout | None = None
    #: [nodes] shards of each GPU; None: no GPU has shards
    shards_each: NDArray[np.int64] | None = None

    def changed(self, rows: Sequence[int] | NDArray[np.intp], by: NDArray[np.int64]) -> Capacity:
        """Return the resources after `by` [rows, resources] was added to the free part of these rows (minus takes)."""
        free = self.free.copy()
        np.add.at(free, np.asarray(rows, dtype=np.intp), by)
        free.setflags(write=False)
        return replace(self, free=free)


def mask_of(names: Iterable[str], index: Mapping[str, int]) -> NDArray[np.bool_]:
    mask = np.zeros(len(index), dtype=np.bool_)
    mask[[index[name] for name in names if name in index]] = True
    return mask
