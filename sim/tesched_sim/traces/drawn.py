"""Records of sacct's with a separator that was drawn for the call, such as `<4f2a91c07b3e>`: the first line shows it.

A job's name is whatever its user typed: `|` and line feeds too. What no user can know, no user can type: so what is
between two separators is one field, and a record ends at the line feed behind its last field, which is Slurm's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

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
#: characters of the longest record
LONGEST_RECORD = 1 << 24
_HEAD = re.compile(r"\w+(<\w{6,}>)\w")


def separator_of(head: str) -> str:
    """Return the separator that the first line shows: a drawn one, else sacct's own."""
    found = _HEAD.match(head)
    return found[1] if found else "|"


def drawn_records(
    path: Path, names: list[str], separator: str, lines: Iterator[tuple[int, str]]
) -> Iterator[tuple[int, str]]:
    """Yield (number of its first line, record) of what follows the first line. Raises WorkloadError."""
    for place, name in (("first", names[0]), ("last", names[-1])):
        if name not in OWN:
            raise WorkloadError(f"{path}:1: {name} is the {place} column, and a user may type what ends a record there")
    for number, line in lines:
        if not line:
            continue
        parts, length = [line], len(line)
        separators = line.count(separator)
        # The first field has no line feed, so that a line without a separator begins no record.
        while 0 < separators < len(names) - 1:
            _, more = next(lines, (0, None))
            if more is None:
                break
            parts.append(more)
            separators, length = separators + more.count(separator), length + len(more)
            if length > LONGEST_RECORD:
                raise WorkloadError(f"{path}:{number}: a record has more than {LONGEST_RECORD} characters")
        yield number, "\n".join(parts)
