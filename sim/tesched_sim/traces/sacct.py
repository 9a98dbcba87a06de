"""A site's own history, as `sacct` prints it (sacct(1)).

    SLURM_TIME_FORMAT=%s sacct --allusers --allocations --parsable2 --starttime now-7days --endtime now
          --state CD,F,TO,CA,NF,PR,OOM,DL,BF,R,S,PD
          --format JobID,User,Submit,Eligible,Start,End,ElapsedRaw,TimelimitRaw,NNodes,NCPUS,ReqMem,AllocTRES,ReqTRES,
                   State

Columns are found by their names; others may stand beside them: JobName, Account, Partition, Cluster and ReqCPUS are
read, too; Eligible and ReqTRES may be missing. With JobName the separator is to be drawn (`drawn.py`). Without
SLURM_TIME_FORMAT=%s times have no zone, and are read in this host's. Jobs that run are taken to have ended when sacct
printed them. Steps, and jobs that never ran, are left out; those that wait, or were cancelled first, are kept apart. A
job that was requeued has several records, of which sacct prints the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from io import StringIO
from pathlib import Path

import numpy as np
from tesched_core.intake.accounted_gpus import gpus_in, tres_amounts

from tesched_sim.traces.drawn import OWN
from tesched_sim.traces.recorded import LONGEST_S, STEPS, NotRun, Recorded, Rows
from tesched_sim.traces.text import TableLine, finite, table, whole

_MIB = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_A_TIME = "a time such as 2026-01-31T12:00:00"
_SECONDS = f"seconds, from 0 to {LONGEST_S}"
#: Slurm itself allows so many nodes in a cluster
_MOST_NODES = 65_536
#: the end of the year 9999
_LATEST_S = 253_402_300_799
#: in the place of minutes: none, and the partition's, which the record does not have
_NO_LIMIT = ["UNLIMITED", "PARTITION_LIMIT"]
_NOT_RUN = ["NONE", "UNKNOWN"]
#: states of jobs that waited without a start; the last two ended so
_WAITED = ("PENDING", "CANCELLED", "DEADLINE")
#: in the place of memory
_NOT_RECORDED = ["", "?"]


def read_sacct(path: Path) -> Recorded:
    """Return the jobs. Raises WorkloadError, naming the line."""
    return _recorded(path, None, 0.0)


def printed(text: str, at_s: float) -> Recorded:
    """Return the jobs of what sacct printed at that time. Raises WorkloadError, naming the line of it."""
    lines = (line.rstrip("\n") for line in StringIO(text))
    return _recorded(Path("sacct"), enumerate(lines, 1), at_s)


def _recorded(path: Path, lines: Iterator[tuple[int, str]] | None, at_s: float) -> Recorded:
    """Read the jobs; `at_s` is when sacct printed them, or before: the latest time among them may be later."""
    rows = Rows(name=path.name)
    waiting: list[TableLine] = []

    def head(names: list[str], separator: str) -> None:
        rows.open_to_users = next((name for name in names if name not in OWN), "") if separator == "|" else ""

    for line in table(path, "|", ("JobID", "Submit", "ElapsedRaw", "NNodes", "NCPUS"), lines, head=head):
        if "." in line.text("JobID"):
            rows.left_out[STEPS] += 1
            continue
        state = (line.text("State").split() or [""])[0]
        # One that is cancelled at once has its end as its start (22.05).
        at_once = state in _WAITED and line.text("ElapsedRaw") == "0" and not line.text("AllocTRES")
        if at_once or line.text("Start").upper() in _NOT_RUN:
            if state in _WAITED:
                waiting.append(line)
            else:
                rows.left_out["never ran"] += 1
            continue
        nodes, cpus = line.read("NNodes", _nodes, f"a number of nodes, at most {_MOST_NODES}"), line.whole("NCPUS")
        tres = _tres(line)
        submit_s = line.read("Submit", _seconds, _A_TIME)
        start_s = line.read("Start", _seconds, _A_TIME) if line.text("Start") else np.nan
        rows.add(
            submit_s=submit_s,
            # One that started before it was submitted had its clock set: how long it waited is not known.
            waited_s=start_s - submit_s if start_s >= submit_s else np.nan,
            run_s=line.read("ElapsedRaw", _elapsed, _SECONDS),
            limit_s=_limit_s(line),
            nodes=max(nodes, 1),
            cpus=max(cpus, 1),
            mem_mib=_mem_mib(tres.get("mem", ""), line, nodes, cpus),
            gpus=_gpus(line),
            user=line.text("User"),
            job_name=line.text("JobName"),
            account=line.text("Account"),
            partition=line.text("Partition"),
            job_id=line.text("JobID"),
            state=state,
            cluster=line.text("Cluster"),
            requested_cpus=max(line.whole("ReqCPUS"), 1) if line.text("ReqCPUS") else -1,
            requested_gpus=_gpus_in("ReqTRES", line) if line.text("ReqTRES") else -1,
        )
    ends = np.array(rows.submit_s) + np.nan_to_num(rows.waited_s) + np.array(rows.run_s)
    others = [_time(line, name) for line in waiting for name in ("Submit", "End")]
    at_s = float(np.nanmax([at_s, *ends, *others]))
    rows.not_run += (_not_run(line, at_s) for line in waiting)
    return rows.recorded()


def _time(line: TableLine, name: str) -> float:
    """Time that a job which has not run may lack; nan then."""
    word = line.text(name)
    return np.nan if not word or word.upper() in _NOT_RUN else line.read(name, _seconds, _A_TIME)


def _not_run(line: TableLine, at_s: float) -> NotRun:
    """Read a job that waits at `at_s`, or was cancelled before it started."""
    waits = line.text("State") == _WAITED[0]
    # One that is held, or awaits another job, has no such time; one that awaits its begin time has a later one.
    since_s = _time(line, "Eligible" if line.text("Eligible") else "Submit")
    waited_s = (at_s if waits else _time(line, "End")) - since_s
    return NotRun(
        waits=waits,
        waited_s=waited_s if waited_s >= 0 else np.nan,
        limit_s=_limit_s(line),
        cpus=max(line.whole("NCPUS"), 1),
        gpus=_gpus(line),
    )


def _tres(line: TableLine) -> dict[str, str]:
    """Return AllocTRES, or ReqTRES, as sacct writes it: cpu=8,gres/gpu=2,mem=64G,node=1."""
    return tres_amounts(line.text("AllocTRES") or line.text("ReqTRES"))


def _gpus(line: TableLine) -> int:
    return _gpus_in("AllocTRES" if line.text("AllocTRES") else "ReqTRES", line)


def _gpus_in(name: str, line: TableLine) -> int:
    return line.read(name, lambda text: gpus_in(text, whole), "amounts: cpu=8,gres/gpu=2") if line.text(name) else 0


def _mem_mib(of_tres: str, line: TableLine, nodes: int, cpus: int) -> float:
    """Memory over all nodes; ReqMem may be a node's (a trailing n) or a CPU's (c). -1: not recorded."""
    if of_tres:
        column = "AllocTRES" if line.text("AllocTRES") else "ReqTRES"
        amount, unit = line.read(column, lambda _: _amount(of_tres), "amounts: cpu=8,mem=64G")
    elif line.text("ReqMem") in _NOT_RECORDED:
        return -1
    else:
        amount, unit = line.read("ReqMem", _amount, "memory such as 64G, 4000Mn (of a node) or 2Gc (of a CPU)")
    return amount * {"n": nodes, "c": cpus}.get(unit, 1)


def _amount(word: str) -> tuple[float, str]:
    """Return MiB, and of what: a node, a CPU or, where it is not said, the job. Raises ValueError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTP]?)([nc]?)", word)
    if not found:
        raise ValueError(word)
    return float(found[1]) * _MIB[found[2] or "M"], found[3]


def _limit_s(line: TableLine) -> float:
    """Return the time limit; TimelimitRaw is in minutes, or a word."""
    if not line.text("TimelimitRaw"):
        return np.nan
    return line.read("TimelimitRaw", _limit_of, "minutes, UNLIMITED or Partition_Limit")


def _limit_of(word: str) -> float:
    if word.upper() in _NO_LIMIT:
        return float(np.inf)
    limit_s = finite(word) * 60
    if limit_s < 0:
        raise ValueError(word)
    # Any user may set any limit: one that no job reaches is none.
    return limit_s if limit_s <= LONGEST_S else float(np.inf)


def _seconds(word: str) -> float:
    seconds = float(word) if word.isdecimal() else datetime.fromisoformat(word).timestamp()
    return _within(seconds, 0, _LATEST_S, word)


def _nodes(word: str) -> int:
    return int(_within(whole(word), 0, _MOST_NODES, word))


def _elapsed(word: str) -> float:
    return _within(finite(word), 0, LONGEST_S, word)


def _within(number: float, least: float, most: float, word: str) -> float:
    if not least <= number <= most:
        raise ValueError(word)
    return number
