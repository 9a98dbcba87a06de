"""Public traces of GPU clusters, as CSV.

Philly (Microsoft, 2017, msr-fiddle/philly-traces, CC-BY-4.0) as others have flattened it: timestamp, duration,
num_gpus, cluster (the virtual cluster, a group of users, who are not known: the account). Alibaba's openb (2023,
alibaba/clusterdata, cluster-trace-gpu-v2023): pods; those of quality class BE are best effort, those of LS and
Burstable are taken for TE, which is a weak label: services are among them. A part of a GPU is one where the nodes have
shards, and else counts as a GPU.

Chronus (S-Lab, ACM SoCC 2021, S-Lab-System-Group/ChronusArtifact, MIT): Philly's jobs with made-up labels, times in
minutes. Those that it calls best effort are; of the others it says that they have deadlines, not which are TE. Gavel
(Stanford, OSDI 2020, stanford-futuredata/gavel, MIT): pairs of duration and GPUs, without times, to draw jobs from.
"""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil, nan
from pathlib import Path

from tesched_sim.traces.recorded import Recorded, Rows
from tesched_sim.traces.text import TableLine, table, whole

MINUTE_S = 60.0
#: thousandths of a GPU
WHOLE = 1000


def read_philly(path: Path) -> Recorded:
    """Return the jobs of a trace. Raises WorkloadError, naming the line."""
    rows = Rows(name=path.name)
    for line in table(path, ",", ("timestamp", "duration", "num_gpus")):
        rows.add(
            submit_s=line.read("timestamp", _seconds, "a time such as 2017-09-07 03:58:57"),
            run_s=line.number("duration"),
            gpus=line.whole("num_gpus"),
            account=line.text("cluster"),
        )
    return rows.recorded()


def read_openb(path: Path) -> Recorded:
    """Return the pods of a trace as jobs. Raises WorkloadError, naming the line."""
    rows = Rows(name=path.name)
    for line in table(path, ",", ("cpu_milli", "memory_mib", "num_gpu", "qos", "creation_time", "deletion_time")):
        created = line.number("creation_time")
        begun = line.number("scheduled_time") if line.text("scheduled_time") else created
        if not line.text("deletion_time"):
            rows.left_out["its end is not recorded"] += 1
            continue
        rows.add(
            submit_s=created,
            waited_s=begun - created,
            run_s=line.number("deletion_time") - begun,
            nodes=1,
            cpus=max(ceil(line.number("cpu_milli") / 1000), 1),
            mem_mib=line.number("memory_mib"),
            gpus=line.whole("num_gpu"),
            gpu_milli=_milli(line),
            te=_class(line),
            partition=line.text("qos"),
        )
    return rows.recorded()


def read_chronus(path: Path) -> Recorded:
    """Return the jobs of a trace. Raises WorkloadError, naming the line."""
    rows = Rows(name=path.name)
    for line in table(path, ",", ("user", "num_gpu", "submit_time", "duration", "best_effort")):
        best_effort = line.read("best_effort", _flag, "0 or 1")
        rows.add(
            submit_s=line.number("submit_time") * MINUTE_S,
            run_s=line.number("duration") * MINUTE_S,
            gpus=line.whole("num_gpu"),
            user=line.text("user"),
            te=0 if best_effort else -1,
        )
    return rows.recorded()


def read_gavel(path: Path) -> Recorded:
    """Return the jobs of a distribution, without times. Raises WorkloadError, naming the line."""
    rows = Rows(name=path.name)
    for line in table(path, ",", ("duration_s", "num_gpus")):
        rows.add(submit_s=nan, run_s=line.number("duration_s"), gpus=line.whole("num_gpus"))
    return rows.recorded()


def _flag(word: str) -> bool:
    if word not in {"0", "1"}:
        raise ValueError(word)
    return word == "1"


def _milli(line: TableLine) -> int:
    if not line.text("gpu_milli"):
        return -1
    return line.read("gpu_milli", _thousandths, f"thousandths of a GPU, 0 to {WHOLE}")


def _thousandths(word: str) -> int:
    found = whole(word)
    if found > WHOLE:
        raise ValueError(word)
    return found


def _class(line: TableLine) -> int:
    return 0 if line.text("qos") == "BE" else 1


def _seconds(word: str) -> float:
    found = datetime.fromisoformat(word)
    # Without a zone it is read alike on each host: this one's may set its clock back within the trace.
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
