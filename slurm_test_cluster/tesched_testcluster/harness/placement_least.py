"""Fewest victims that arithmetic alone allows for a request: what Slurm can't do without, whatever its rules are.

For `placement.py`: where tesched names several victims, a smaller set may be enough. Sets that free too little by mere
sums are certainly not; others are tried on Slurm. Nothing of tesched's own model of requests is used, which is what is
put to the test. Options that are not read here ask for nothing: more sets are possible then, never fewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot

_POWERS = {unit: power for power, unit in enumerate("kmgtp", start=1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """Least that a request needs, by its options: sums over all nodes, and over each."""

    least_nodes: int
    most_nodes: int
    tasks: int
    cpus_per_task: int
    mem_mib_per_cpu: int
    mem_mib_per_node: int
    #: devices by name, of each node, task and job
    per_node: Mapping[str, int]
    per_task: Mapping[str, int]
    per_job: Mapping[str, int]
    partitions: tuple[str, ...]


def wish_of(options: Sequence[str], default_partition: str, *, memory_counts: bool) -> Wish:
    """Return what sbatch's options ask for at least; memory only where Slurm shares it out."""
    said = _read(options)
    low, _, high = said.get("-N", "").partition("-")
    per_node_tasks = int(said.get("--ntasks-per-node", "0"))
    least = int(low or 1)
    tasks = int(said.get("-n", max(least * per_node_tasks, least)))
    least = min(least, tasks)  # sbatch takes fewer nodes than given where there are fewer tasks
    return Wish(
        least_nodes=least,
        most_nodes=int(high or low or tasks),
        tasks=tasks,
        cpus_per_task=int(said.get("-c", "1")),
        mem_mib_per_cpu=int(said.get("--mem-per-cpu", "0")) if memory_counts else 0,
        mem_mib_per_node=int(said.get("--mem", "0")) if memory_counts else 0,
        per_node=_devices(said.get("--gres", ""), said.get("--gpus-per-node", "")),
        per_task=_devices("", said.get("--gpus-per-task", "")),
        per_job=_devices("", said.get("--gpus", "")),
        partitions=tuple(said.get("-p", default_partition).split(",")),
    )


def smaller_sets(wish: Wish, snapshot: Snapshot, pool: Iterable[int], below: int) -> list[tuple[int, ...]]:
    """Return the smallest sets of jobs of `pool` that free enough by mere sums, all of one size less than `below`.

    Those that free most come first; none if it takes `below` jobs by any arithmetic.
    """
    free, frees = _free(snapshot), _frees(snapshot, pool)
    for size in range(1, below):
        found = []
        for some in combinations(sorted(frees), size):
            nodes = {node for job in some for node in frees[job]}
            after = {
                name: {
                    key: amount + sum(frees[job].get(name, {}).get(key, 0) for job in some)
                    for key, amount in own.items()
                }
                for name, own in free.items()
                if _allowed(wish, snapshot, name)
            }
            if _may_do(wish, after):
                found.append((sum(after[name]["cpu"] for name in nodes if name in after), some))
        if found:
            return [some for _, some in sorted(found, reverse=True)]
    return []


def _allowed(wish: Wish, snapshot: Snapshot, node: str) -> bool:
    parts = (snapshot.partitions[name] for name in wish.partitions if name in snapshot.partitions)
    return any(node in part.nodes for part in parts)


def _may_do(wish: Wish, free: Mapping[str, Mapping[str, int]]) -> bool:
    """Check whether some of these nodes have enough, by sums and by whole tasks."""
    nodes = [own for own in free.values() if _fits_on(wish, own)]
    for count in range(wish.least_nodes, min(wish.most_nodes, len(nodes)) + 1):
        for some in combinations(nodes, count):
            if sum(_tasks_on(wish, own) for own in some) < wish.tasks:
                continue
            if all(sum(own.get(name, 0) for own in some) >= amount for name, amount in wish.per_job.items()):
                return True
    return False


def _fits_on(wish: Wish, own: Mapping[str, int]) -> bool:
    return own["mem_mib"] >= wish.mem_mib_per_node and all(
        own.get(name, 0) >= amount for name, amount in wish.per_node.items()
    )


def _tasks_on(wish: Wish, own: Mapping[str, int]) -> int:
    most = own["cpu"] // wish.cpus_per_task
    if wish.mem_mib_per_cpu:
        most = min(most, own["mem_mib"] // (wish.mem_mib_per_cpu * wish.cpus_per_task))
    return min([most, *(own.get(name, 0) // amount for name, amount in wish.per_task.items() if amount)])


def _free(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    free = {node.name: dict(node.total.as_mapping()) for node in snapshot.nodes.values()}
    for job in snapshot.jobs.values():
        for share in job.allocation:
            for name, amount in share.tres.as_mapping().items():
                free[share.node][name] = free[share.node].get(name, 0) - amount
    return free


def _frees(snapshot: Snapshot, pool: Iterable[int]) -> dict[int, dict[str, Mapping[str, int]]]:
    """Return what each job of the pool holds, by node and resource."""
    jobs = (snapshot.jobs[JobId(job_id)] for job_id in pool if JobId(job_id) in snapshot.jobs)
    return {job.job_id: {share.node: share.tres.as_mapping() for share in job.allocation} for job in jobs}


def _read(options: Sequence[str]) -> dict[str, str]:
    """Return the options' values: `-n4` and `--mem=100` by their names."""
    found = {}
    for option in options:
        name, _, value = option.partition("=") if option.startswith("--") else (option[:2], "", option[2:])
        found[name] = value
    return found


def _devices(*lists: str) -> dict[str, int]:
    """Return devices by name, the most of each: the first list is `gpu:a:2,tmp:199G`, the second `a:2`, of GPUs."""
    found: dict[str, int] = {}
    for place, words in enumerate(lists):
        for word in filter(None, words.split(",")):
            *names, amount = word.split(":") if place == 0 else f"gpu:{word}".split(":")
            found[":".join(names)] = max(found.get(":".join(names), 0), _amount(amount))
    return found


def _amount(text: str) -> int:
    """Return a number of sbatch's: K to P are powers of 1024, KB to PB of 1000."""
    digits = text.rstrip("kmgtpbKMGTPB")
    unit = text[len(digits) :].lower()
    count: int = int(digits) * (1000 if unit.endswith("b") else 1024) ** _POWERS.get(unit[:1], 0)
    return count
