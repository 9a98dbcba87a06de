"""Limits of accounts, users and QOS in the way of a job that is not submitted, read from Slurm."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tesched_core.model.actions import Failure
from tesched_core.model.cluster import Job, Partition
from tesched_core.model.request import takes_whole_nodes, tasks_in
from tesched_core.model.size import devices_in_all
from tesched_core.model.snapshot import Snapshot
from tesched_slurm import slurm_formats as formats
from tesched_slurm.limits_in_use import LimitsInUse, read_limits_in_use, with_limits_of_database
from tesched_slurm.run_command import Commands
from tesched_slurm.sbatch_asked import NotTaken, SlurmsWord
from tesched_slurm.sbatch_options import SbatchOption

from tesched_daemon.submission.limits_ahead import Ahead, Wanted, limits_ahead
from tesched_daemon.submission.pretended import Pretended

#: words of AccountingStorageEnforce with which limits keep jobs from starting (slurm.conf(5))
_ENFORCED = frozenset({"limits", "safe", "all"})
_MINUTE_S = 60
#: of a number that are read
_DIGITS = 18


@dataclass(slots=True, kw_only=True)
class ForetoldLimits:
    """Limits of accounts, users and QOS, as `tesched ask` shows them."""

    #: the reason that Slurm would give; empty: no limit keeps the job
    reason: str = ""
    lines: list[str] = field(default_factory=list)
    #: why they are not compared; empty: they are
    unread: str = ""
    notes: list[str] = field(default_factory=list)


def slurm_limits(
    pretended: Pretended,
    options: Mapping[str, SbatchOption],
    answer: SlurmsWord | NotTaken | None,
    seen: Snapshot,
    commands: Commands,
) -> ForetoldLimits:
    """Compare the limits in force with what the job would hold; of one that Slurm refuses, those of its submission."""
    job, known = pretended.job, pretended.request_known
    if not _ENFORCED & seen.settings.enforced:
        return ForetoldLimits(unread="Slurm enforces none here (AccountingStorageEnforce)")
    found = _read(job, seen, commands)
    if isinstance(found, Failure):
        return ForetoldLimits(unread=f"they can't be read: {found.message}")
    word = answer if isinstance(answer, SlurmsWord) else None
    at_submission = isinstance(answer, NotTaken) and answer.by_limits
    default_s = seen.partitions[job.partitions[0]].default_time_s
    every: dict[str, Ahead] = {}
    for name in job.partitions:
        partition = seen.partitions[name]
        ahead = limits_ahead(
            _wanted(job, word, partition, known=known, is_timed="time" in options or default_s is not None),
            found,
            seen,
            partition,
            os.getuid(),
            at_submission=at_submission,
        )
        if isinstance(ahead, str):
            return ForetoldLimits(unread=ahead)
        every[name] = ahead
    first = every[job.partitions[0]]
    said = ForetoldLimits()
    if all(one.in_the_way for one in every.values()) or at_submission:
        # Slurm gives the reason of the partition that it tries last; the limits of all are named.
        said.reason = first.in_the_way[0].reason if first.in_the_way else ""
        said.lines = [*dict.fromkeys(one.text for ahead in every.values() for one in ahead.in_the_way)]
    uncompared = [*dict.fromkeys(one for ahead in every.values() for one in ahead.uncompared)]
    if uncompared:
        said.notes.append(f"not compared, since not known of the job or the limit: {', '.join(uncompared)}")
    return said


def _read(job: Job, seen: Snapshot, commands: Commands) -> LimitsInUse | Failure:
    found = read_limits_in_use(commands, job.user)
    if isinstance(found, Failure):
        return found
    names = (job.qos, *(seen.partitions[name].access.qos for name in job.partitions))
    return with_limits_of_database(found, commands, tuple(dict.fromkeys(one.lower() for one in names if one)))


def _wanted(job: Job, word: SlurmsWord | None, partition: Partition, *, known: bool, is_timed: bool) -> Wanted:
    nodes = _hosts(word.nodes) if word is not None else ()
    return Wanted(
        job=job,
        amount=_amount(job, word, len(nodes), partition, known=known),
        nodes=nodes,
        minutes=None if job.time_limit_s is None else math.ceil(job.time_limit_s / _MINUTE_S),
        is_timed=is_timed,
        tasks=tasks_in(job),
    )


def _hosts(text: str) -> tuple[str, ...]:
    try:
        return formats.hosts(text)
    except ValueError:
        return ()


def _amount(
    job: Job, word: SlurmsWord | None, nodes: int, partition: Partition, *, known: bool
) -> Callable[[str], int | None]:
    """Amount of each TRES that the job would hold: CPUs and nodes by Slurm's own word, where it has one."""
    request = job.request
    whole = takes_whole_nodes(request, partition)
    on_nodes = nodes or (max(request.min_nodes, 1) if known else 0)
    cpus = word.cpus if word is not None else 0 if whole or not known else request.cpus
    gres = devices_in_all(request, on_nodes)
    memory = 0
    if request.mem_per_node_mib:
        memory = request.mem_per_node_mib * on_nodes
    elif request.mem_per_cpu_mib:
        memory = request.mem_per_cpu_mib * cpus
    elif request.mem_per_gres:
        memory = sum(gres.get(name, 0) * mib for name, mib in request.mem_per_gres)
    plain = {"cpu": cpus, "node": on_nodes, "mem": memory if known else 0}

    def amount(tres: str) -> int | None:
        kind, _, name = tres.partition("/")
        if tres in plain:
            return plain[tres] or None
        if kind == "gres":
            # Which type a job gets that names none is not known.
            of_no_type = gres.get(bare := name.partition(":")[0], 0) > sum(
                count for one, count in gres.items() if one.startswith(f"{bare}:")
            )
            return None if whole or not known or (bare != name and of_no_type) else gres.get(name, 0)
        return _licenses(job.licenses, name) if kind == "license" else None

    return amount


def _licenses(text: str, name: str) -> int:
    """Count the units of a licence in `a:2,b`."""
    for one in re.split("[,;|]", text):
        found, _, count = one.replace("=", ":").partition(":")
        if found == name:
            # Of a number that Slurm would not take either its beginning is more than any limit.
            return int(count[:_DIGITS]) if count.isdecimal() else 1
    return 0
