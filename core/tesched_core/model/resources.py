"""Amounts of trackable resources (TRES): what a job asks for, what a node has.

A GRES is named as Slurm names it: `gpu`, or `gpu:a100` for a type. A typed amount is always counted twice, once under
its type and once under its bare name, so that "any two GPUs" and "two A100s" are both one comparison a component.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NewType, TypeAlias

#: Slurm's job id. Each array task that has started, and each component of a heterogeneous job, has its own.
JobId = NewType("JobId", int)
#: Seconds since 1970-01-01 UTC.
UnixSeconds: TypeAlias = float
#: The user that Slurm shows where it can't find the name.
NO_NAME = "nobody"


def with_bare_names(gres: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    """Return (name, count) pairs, sorted, in which each typed GRES is also counted under its bare name.

    `gres` holds what Slurm said, each device once: `[("gpu:a100", 4)]` gives `(("gpu", 4), ("gpu:a100", 4))`.
    Zero counts are dropped.
    """
    total: dict[str, int] = {}
    for name, count in gres:
        if not count:
            continue
        total[name] = total.get(name, 0) + count
        bare = name.partition(":")[0]
        if bare != name:
            total[bare] = total.get(bare, 0) + count
    return tuple(sorted(total.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tres:
    """An amount of CPUs, memory and generic resources."""

    #: logical CPUs, as Slurm counts them
    cpus: int = 0
    #: MiB of memory
    mem_mib: int = 0
    #: (name, count), sorted by name, typed ones also under their bare name (`with_bare_names`)
    gres: tuple[tuple[str, int], ...] = ()

    @property
    def gpus(self) -> int:
        """Return the number of GPUs of any type."""
        return dict(self.gres).get("gpu", 0)

    def __add__(self, other: Tres) -> Tres:
        """Return the sum, component by component."""
        gres = dict(self.gres)
        for name, count in other.gres:
            gres[name] = gres.get(name, 0) + count
        return Tres(cpus=self.cpus + other.cpus, mem_mib=self.mem_mib + other.mem_mib, gres=tuple(sorted(gres.items())))

    def as_mapping(self) -> Mapping[str, int]:
        """Return every component by name: `cpu`, `mem_mib` and each GRES."""
        return {"cpu": self.cpus, "mem_mib": self.mem_mib, **dict(self.gres)}

    def __str__(self) -> str:
        """Return it as an admin would write it: `4 CPUs, 16 GiB, 2 gpu`."""
        parts = [f"{self.cpus} CPU{'' if self.cpus == 1 else 's'}"]
        if self.mem_mib:
            gib = self.mem_mib / 1024
            parts.append(f"{gib:.0f} GiB" if gib >= 10 else f"{self.mem_mib} MiB")
        typed = {name.partition(":")[0] for name, _ in self.gres if ":" in name}
        parts += [f"{in_units(count)} {name}" for name, count in self.gres if name not in typed]
        return ", ".join(parts)


def in_units(count: int) -> str:
    """Return the count of a GRES as Slurm writes it, in the largest unit that divides it: `400G`."""
    units = ""
    for unit in "KMGTP":
        if not count or count % 1024:
            break
        count, units = count // 1024, unit
    return f"{count}{units}"
