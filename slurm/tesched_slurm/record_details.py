"""What one record of scontrol's that is believed (`details.py`) adds to a job's row, in Slurm's words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tesched_slurm.answer_bytes import as_text

_PAIR = re.compile(r" (Restarts|NodeList|NumCPUs|NumNodes|MinMemory\w*)=(\S*)")
#: as it was typed, with blanks between names of nodes (`scontrol update jobid=… excnodelist="n1 n2"`)
_EXCLUDED = re.compile(r" ExcNodeList=([^\n=]*) NodeList=")
_SHARE = re.compile(r" Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+) GRES=(\S*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """Additions of scontrol to one record of squeue's, in Slurm's words."""

    #: most tasks of its array at once (ArrayTaskThrottle); 0: no limit
    throttle: int
    #: of an array, those of its waiting tasks that have no record of their own: "0,2-4", without the limit behind it
    array_tasks: str
    #: which run, and how large: to be compared with squeue's
    restarts: str
    node_list: str
    num_cpus: str
    #: how many nodes it has, or asks for: `2-4`, or `2` where it names no most
    num_nodes: str
    #: what MinMemory is for: "CPU", "Node" or "TRES"
    memory_for: str
    excluded: str
    of_crontab: bool
    #: its devices are bound to its sockets (GresEnforceBind), and how many tasks each of them gets (NtasksPerTRES)
    enforces_binding: bool
    tasks_per_gres: int
    #: (nodes, ids of CPUs, MiB, GRES) of each group of nodes that are alike
    shares: tuple[tuple[str, str, str, str], ...]


def read_details(window: str, tail: str, begin: re.Match[bytes]) -> Details | None:
    """Read the details that a believed record has; None where one is missing.

    `window` is Slurm's own words alone, `begin` the match of the record's beginning, and `tail` what follows. A user's
    text stands in there, too: only what makes tesched leave the job alone is taken from it, and a user who hides that
    deceives about a job of its own.
    """
    per_gres = re.search(r" NtasksPerTRES(?::\S*)?=(\d{1,6})", tail)
    # The first of each: what a share says of its nodes comes later.
    pairs: dict[str, str] = {}
    for key, value in _PAIR.findall(window):
        pairs.setdefault(key, value)
    excluded = _EXCLUDED.search(window)
    memory = next((key for key in pairs if key.startswith("MinMemory")), "")
    if excluded is None:
        return None
    try:
        return Details(
            throttle=int(begin[4] or b"0"),
            array_tasks=as_text(begin[3] or b"").partition("%")[0],
            restarts=pairs["Restarts"],
            node_list=pairs["NodeList"],
            num_cpus=pairs["NumCPUs"],
            num_nodes=pairs["NumNodes"],
            memory_for=memory.removeprefix("MinMemory"),
            excluded=excluded[1],
            # Up to the partition no word is a user's: Slurm writes the crontab's times itself.
            of_crontab=" CronJob=Yes " in window.partition(" Deadline=")[2].partition(" Partition=")[0],
            enforces_binding=" GresEnforceBind=Yes" in tail,
            tasks_per_gres=int(per_gres[1]) if per_gres else 0,
            shares=tuple(_SHARE.findall(window)),
        )
    except KeyError:
        return None
