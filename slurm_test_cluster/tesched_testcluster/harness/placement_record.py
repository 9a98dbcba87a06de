"""Full record of a job that Slurm does not start where `placement.py` expects it: it explains it without its cluster.

The jobs and nodes as scontrol shows them, what slurmctld logged since the case began, and what it logs of the same job
once its debug flags are set. They are set only then: slurmctld of a case that is as expected writes nothing more.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from tesched_core.model.snapshot import Snapshot

from tesched_testcluster.local import LocalCluster
from tesched_testcluster.patience import Patience

#: what slurmctld then logs: why select/cons_tres takes no nodes, each node's GRES, and each job that backfill tries
DEBUG_FLAGS = ("SelectType", "Gres", "Backfill")
#: lines that are kept of what was logged before, and after, the flags were set
MOST_BEFORE, MOST_AFTER = 200, 400
#: attempts at the job that are awaited, seconds (of an idle machine) for them, and between two reads of the log
_ATTEMPTS, _ATTEMPTS_WITHIN_S, _PAUSE_S = 2, 8.0, 0.3


#: what of a job and of nodes is shown in a line
_SHOWN = {
    *("Partition", "ReqNodeList", "NumNodes", "NumCPUs", "NumTasks", "CPUs/Task", "ReqB:S:C:T", "NtasksPerN:B:S:C"),
    *("MinCPUsNode", "MinMemoryCPU", "MinMemoryNode", "OverSubscribe", "TresPerNode", "TresPerJob", "TresPerTask"),
    *("NodeName", "CPUAlloc", "CPUTot", "AllocMem", "RealMemory", "GresUsed", "State"),
}


def brief_record(cluster: LocalCluster, job_id: int, nodes: Iterable[str]) -> str:
    """Return in a line what Slurm shows of a job that does not start, and of the nodes where it was to."""
    job = cluster.run("scontrol", "-o", "-d", "show", "job", str(job_id)).stdout
    of_nodes = cluster.run("scontrol", "-o", "-d", "show", "node", ",".join(nodes)).stdout.splitlines()
    return "; ".join(
        " ".join(word for word in line.split() if word.split("=")[0] in _SHOWN) for line in (job, *of_nodes)
    )


def held_record(snapshot: Snapshot, enough: Iterable[int] = ()) -> str:
    """Return what each job held on its nodes, and which of them were enough as victims."""
    jobs = [
        f"{job.job_id}: " + "; ".join(f"{share.node}: {share.tres}" for share in job.allocation)
        for job in snapshot.jobs.values()
        if job.allocation
    ]
    nodes = [f"{node.name}: {node.total} in all" for node in snapshot.nodes.values()]
    return "\n".join((f"enough: {sorted(enough)}", *nodes, *jobs))


def log_size(cluster: LocalCluster) -> int:
    """Return the bytes of slurmctld's log, where what it logs from now on begins."""
    return cluster.slurmctld_log.stat().st_size


def full_record(cluster: LocalCluster, job_id: int, log_from: int) -> str:
    """Return the whole state around a job that waits, with slurmctld's lines from byte `log_from` of its log on."""
    # A line each: a case has a dozen running jobs.
    shown = [
        cluster.run("scontrol", "-o", "-d", "show", *what, check=False).stdout.strip()
        for what in (("job", str(job_id)), ("job",), ("node",), ("partition",))
    ]
    before = _lines(cluster, log_from)[-MOST_BEFORE:]
    after = _with_flags(cluster, job_id)[:MOST_AFTER]
    parts = zip(
        (f"job {job_id}", "jobs", "nodes", "partitions", "log", f"log with {','.join(DEBUG_FLAGS)}"),
        (*shown, "\n".join(before), "\n".join(after)),
        strict=True,
    )
    return "\n\n".join(f"== {title}\n{text}" for title, text in parts)


def _with_flags(cluster: LocalCluster, job_id: int) -> list[str]:
    """Return what slurmctld logs with the flags set, until it has tried the job twice or does so no more."""
    for flag in DEBUG_FLAGS:
        cluster.run("scontrol", "setdebugflags", f"+{flag}", check=False)
    cluster.run("scontrol", "setdebug", "debug3", check=False)
    # Each flag that is set makes slurmctld read its jobs anew, and log that.
    begin = log_size(cluster)
    patience, lines = Patience(_ATTEMPTS_WITHIN_S), list[str]()
    while not patience.is_over():
        lines = _lines(cluster, begin)
        if sum(f"evaluating JobId={job_id} " in line for line in lines) > _ATTEMPTS:
            break
        time.sleep(_PAUSE_S)
    cluster.run("scontrol", "setdebug", "info", check=False)
    for flag in DEBUG_FLAGS:
        cluster.run("scontrol", "setdebugflags", f"-{flag}", check=False)
    return lines


def _lines(cluster: LocalCluster, begin: int) -> list[str]:
    with cluster.slurmctld_log.open("rb") as source:
        source.seek(begin)
        return source.read().decode(errors="replace").splitlines()
