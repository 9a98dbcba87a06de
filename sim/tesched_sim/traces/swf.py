"""The Standard Workload Format, version 2, of the Parallel Workloads Archive.

A line has 18 numbers; -1 stands for "not known". Some logs append fields of their own, which are passed over. A job
that was checkpointed has a line of all of it, and one of each part besides, whose statuses are 2, 3 and 4.
Processors are taken for CPUs, memory is in KiB a processor. Users, groups (accounts) and programs (job names) are
numbers there.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tesched_sim.traces.recorded import Recorded, Rows
from tesched_sim.traces.text import finite, lines_of
from tesched_sim.workload import WorkloadError

FIELDS = 18
_SUBMIT, _WAIT, _RUN, _USED_CPUS, _WANTED_CPUS, _WANTED_S, _WANTED_KIB = 1, 2, 3, 4, 7, 8, 9
_STATUS, _USER, _GROUP, _PROGRAM, _PARTITION = 10, 11, 12, 13, 15
_PARTS = (2, 3, 4)
#: Programs differ by letters: in a job's name, digits often count its runs.
_LETTERS = str.maketrans("0123456789", "abcdefghij")


def read_swf(path: Path) -> Recorded:
    """Return the jobs of a trace. Raises WorkloadError, naming the line."""
    rows = Rows(name=path.name)
    for number, line in lines_of(path):
        if not line.strip() or line.startswith(";"):
            continue
        words = line.split()
        if len(words) < FIELDS:
            raise WorkloadError(f"{path}:{number}: it has {len(words)} fields; a job of SWF has {FIELDS}")
        try:
            values = [finite(word) for word in words[:FIELDS]]
        except ValueError:
            raise WorkloadError(f"{path}:{number}: a field is not a number") from None
        if values[_STATUS] in _PARTS:
            rows.left_out["parts of checkpointed jobs"] += 1
            continue
        cpus = int(values[_WANTED_CPUS] if values[_WANTED_CPUS] > 0 else values[_USED_CPUS])
        if cpus <= 0:
            rows.left_out["no processors are recorded"] += 1
            continue
        kib = values[_WANTED_KIB]
        rows.add(
            submit_s=values[_SUBMIT],
            run_s=values[_RUN],
            waited_s=values[_WAIT] if values[_WAIT] >= 0 else np.nan,
            limit_s=values[_WANTED_S] if values[_WANTED_S] > 0 else np.nan,
            cpus=cpus,
            mem_mib=kib * cpus / 1024 if kib > 0 else -1,
            gpus=0,
            user=f"user{int(values[_USER])}",
            account=_numbered("group", values[_GROUP]),
            job_name=_numbered("program-", values[_PROGRAM]).translate(_LETTERS),
            partition=_numbered("partition", values[_PARTITION]),
        )
    return rows.recorded()


def _numbered(what: str, number: float) -> str:
    return f"{what}{int(number)}" if number >= 0 else ""
