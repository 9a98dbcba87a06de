"""Findings on the partitions in which TE jobs wait: whether Slurm comes to them before the others.

Slurm goes by PriorityTier first, and by the jobs' priorities only within a tier. A TE job in a partition of a higher
tier is the head of the queue from its submission on, and resources that come free by themselves go to it before tesched
has seen it. In the tier of the best-effort jobs it is put first at tesched's next poll; below them it never is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from tesched_core.model.cluster import Partition
from tesched_core.model.snapshot import JobClass

from tesched_daemon.config import Config
from tesched_daemon.doctor.finding import Finding, ok, warn

CHECK = "PriorityTier"
#: one line of slurm.conf; measured by benchmarks/native.py
WHY = (
    "a TE job is the head of the queue from its submission on then, and resources that come free by themselves go to "
    "it (docs/howto/first-in-line.md has what that saves)"
)


def first_in_line(config: Config, partitions: Sequence[Partition]) -> Iterator[Finding]:
    """Yield whether TE jobs are first in line on their nodes; nothing where no rule makes a job TE."""
    rules = [rule for rule in config.classes.rules if rule.job_class is JobClass.TE]
    if not rules:
        return
    globs = [glob for rule in rules for glob in rule.match.partitions]
    mine = [one for one in partitions if any(fnmatchcase(one.name, glob) for glob in globs)]
    if not mine:
        text = "the TE jobs wait in the partitions of the best-effort jobs, behind those until tesched's next poll"
        yield warn(CHECK, text, _advice(partitions))
        return
    names = {one.name for one in mine}
    rivals = [
        (one, other)
        for one in mine
        for other in partitions
        if other.name not in names and other.priority_tier >= one.priority_tier and one.nodes & other.nodes
    ]
    if not rivals:
        yield ok(CHECK, f"jobs in {', '.join(sorted(names))} are first in line on the nodes of these partitions")
        return
    ahead = [(one, other) for one, other in rivals if other.priority_tier > one.priority_tier]
    one, other = (ahead or rivals)[0]
    said = f"{one.name} (PriorityTier={one.priority_tier}) and {other.name} ({other.priority_tier}) share nodes"
    if ahead:
        text = f"{said}: a job that waits in {other.name} takes what a victim has left for one in {one.name}"
    else:
        text = f"{said}: a TE job waits behind the jobs in {other.name} until tesched's next poll"
    top = max(rival.priority_tier for _, rival in rivals)
    advice = f"set PriorityTier={top + 1} or more for the partition {one.name} in slurm.conf: {WHY}"
    yield warn(CHECK, text, advice)


def _advice(partitions: Sequence[Partition]) -> str:
    usual = next((one for one in partitions if one.default), partitions[0] if partitions else None)
    name = usual.name if usual else "main"
    tier = max((one.priority_tier for one in partitions), default=1) + 1
    return (
        f"add a partition for them over the same nodes (PartitionName=te Nodes=<those of {name}> PriorityTier={tier} "
        f"in slurm.conf), and a rule that names it: {WHY}"
    )
