"""The door for nodes, partitions and settings: what is out of bounds there makes that one unreadable, and nothing else.

These are the site's and slurmd's own, and an Operator's: no ordinary user writes them. But one GRES with a count of 64
bits, or one limit with a digit too many, would raise in NumPy or in the store, and end each turn. An unreadable node or
partition is there, starts no job and has no free resources; `tesched status` names it. Jobs have a door of their own
(`job_bounds.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from tesched_core.model.cluster import Node, Partition
from tesched_core.model.resources import Tres

from tesched_slurm.job_bounds import MOST_TEXT

#: raised for a record that can't be read: it is its node's or partition's alone, whatever it is
UNREADABLE = Exception
#: CPUs, sockets and cores of a node; Slurm itself has 16 bits for each.
MOST_CPUS = 2**20
#: MiB: those of the largest cluster, of 65,536 nodes, fit into 64 bits.
MOST = 2**46
#: The count of a GRES on a node, and on all nodes together: local disks are counted in bytes (`Gres=tmp:100T`).
MOST_GRES, MOST_GRES_IN_ALL = 2**56, 2**62
#: What a partition or the site gives with each CPU or GPU: it is multiplied by a job's (`job_bounds.MOST_COUNT`).
MOST_OF_EACH = 2**30
#: Seconds, and all other numbers of partitions and settings: Slurm has 32 bits for them.
MOST_NUMBER = 2**32
#: Characters of what is kept of a node's reason, and of a name.
MOST_REASON, MOST_NAME = 1024, 256

#: by their name in `Partition`
_MOST = {
    "max_mem_per_node_mib": MOST,
    "max_mem_per_cpu_mib": MOST_OF_EACH,
    "def_cpus_per_gpu": MOST_OF_EACH,
    "def_mem_per_gpu_mib": MOST_OF_EACH,
    "def_mem_per_cpu_mib": MOST_OF_EACH,
    "def_mem_per_node_mib": MOST,
    #: minutes in Slurm
    "max_time_s": 60 * MOST_NUMBER,
    "default_time_s": 60 * MOST_NUMBER,
}

T = TypeVar("T", Node, Partition)


def node_within_bounds(node: Node, nodes: int) -> Node:
    """Return one of so many nodes, with a reason of bounded length.

    Raises ValueError for what is out of bounds, and names it.
    """
    most_gres = min(MOST_GRES, MOST_GRES_IN_ALL // max(nodes, 1))
    for name in ("sockets", "cores_per_socket", "threads_per_core"):
        _check(f"its {name}", getattr(node, name), MOST_CPUS)
    _check("its local disk", node.tmp_mib, MOST)
    for what, tres in (("it has", node.total), ("is held on it", node.held or Tres())):
        _check(f"the CPUs that {what}", tres.cpus, MOST_CPUS)
        _check(f"the memory that {what}", tres.mem_mib, MOST)
        for name, count in tres.gres:
            _check(f"the {name[:40]} that {what}", count, most_gres)
    _check_texts(node.name, node.state, *node.flags, *node.features, *node.partitions)
    return replace(node, reason=node.reason[:MOST_REASON]) if len(node.reason) > MOST_REASON else node


def partition_within_bounds(partition: Partition) -> Partition:
    """Return the partition. Raises ValueError for what is out of bounds, and names it."""
    for name in partition.__dataclass_fields__:
        value = getattr(partition, name)
        if isinstance(value, int):
            _check(f"its {name}", value, _MOST.get(name, MOST_NUMBER))
    access = partition.access
    names = (partition.allow_accounts, partition.allow_qos, access.deny_accounts, access.deny_qos, access.allow_groups)
    _check_texts(partition.name, partition.oversubscribe, access.qos, *(name for some in names for name in some))
    return partition


def setting(key: str, value: str, most: int = MOST_NUMBER) -> int:
    """Return the number of a setting. Raises ValueError, which names the key, for what is none or out of bounds."""
    if not re.fullmatch(r"\d{1,20}", value) or int(value) > most:
        raise ValueError(f"{key} is no number from 0 to {most}: {value[:40]!r}")
    return int(value)


def each_once(kind: type[T], found: Iterable[tuple[str, Callable[[], T]]]) -> tuple[T, ...]:
    """Return the nodes, or partitions, by name and what reads them; an unreadable one is in doubt.

    So is one with two records: a comment of an Operator's may read like a record. Raises ValueError where none can be
    read: that is an answer of another form than known.
    """
    by_name: dict[str, T] = {}
    for full_name, read in found:
        name = full_name[:MOST_NAME]
        by_name[name] = _in_doubt(kind, name, "it has two records") if name in by_name else _read(kind, name, read)
    if by_name and all(one.doubt for one in by_name.values()):
        first = next(iter(by_name.values()))
        raise ValueError(f"{first.name}: {first.doubt}")
    return tuple(by_name.values())


def _read(kind: type[T], name: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except UNREADABLE as error:
        return _in_doubt(kind, name, f"its record could not be read ({type(error).__name__}: {str(error)[:200]})")


def _in_doubt(kind: type[T], name: str, why: str) -> T:
    return kind(name=name, state="UNKNOWN", doubt=why)


def _check(what: str, number: int, most: int) -> None:
    if not 0 <= number <= most:
        raise ValueError(f"{what} is out of all bounds: {str(number)[:40]}")


def _check_texts(*texts: str) -> None:
    length = sum(map(len, texts))
    if length > MOST_TEXT:
        raise ValueError(f"its texts have {length} characters")
