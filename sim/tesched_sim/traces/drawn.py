"""The head of sacct's table, whose separator may have been drawn (`tesched_core.intake.drawn_records`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tesched_core.intake.drawn_records import LongRecordError, drawn_records

from tesched_sim.workload import WorkloadError

#: columns in which no user can type a separator or a line feed
OWN = frozenset(
    {
        *("JobID", "JobIDRaw", "Cluster", "User", "UID", "Account", "Partition", "QOS", "Submit", "Eligible", "Start"),
        *("End", "Elapsed", "ElapsedRaw", "Timelimit", "TimelimitRaw", "NNodes", "AllocNodes", "NCPUS", "AllocCPUS"),
        *("ReqCPUS", "ReqMem", "ReqTRES", "AllocTRES", "State", "ExitCode", "DerivedExitCode"),
        *("Priority", "Restarts", "Suspended", "NodeList", "Group", "GID", "Flags", "Planned", "DBIndex", "SLUID"),
        *("CPUTime", "CPUTimeRAW", "TotalCPU", "UserCPU", "SystemCPU", "MaxRSS", "AveRSS", "ConsumedEnergyRaw"),
    }
)
_HEAD = re.compile(r"\w+(<\w{6,}>)\w")


def separator_of(head: str) -> str:
    """Return the separator that the first line shows: a drawn one, else sacct's own."""
    found = _HEAD.match(head)
    return found[1] if found else "|"


def records_below(
    path: Path, names: list[str], separator: str, lines: Iterator[tuple[int, str]]
) -> Iterator[tuple[int, str]]:
    """Yield (number of its first line, record) of what follows the first line. Raises WorkloadError."""
    for place, name in (("first", names[0]), ("last", names[-1])):
        if name not in OWN:
            raise WorkloadError(f"{path}:1: {name} is the {place} column, and a user may type what ends a record there")
    try:
        yield from drawn_records(lines, len(names), separator)
    except LongRecordError as error:
        raise WorkloadError(f"{path}:{error.line}: {error}") from None
