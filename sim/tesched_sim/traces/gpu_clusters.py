"""Public traces of GPU clusters, as CSV.

Philly (Microsoft, 2017, msr-fiddle/philly-traces, CC-BY-4.0) as others have flattened it: timestamp, duration,
num_gpus, cluster (the virtual cluster, which stands for the user here). Alibaba's openb (2023, alibaba/clusterdata,
cluster-trace-gpu-v2023): pods; those of quality class BE are best effort, those of LS and Burstable are taken for TE,
which is a weak label: services are among them. A part of a GPU counts as one.
"""

from __future__ import annotations

from datetime import datetime
from math import ceil
from pathlib import Path

from tesched_sim.traces.recorded import Recorded, Rows
from tesched_sim.traces.text import Line, table


def read_philly(path: Path) -> Recorded:
    """Return the jobs of a trace. Raises WorkloadError, naming the line."""
    rows = Rows(name=path.name)
    for line in table(path, ",", ("timestamp", "duration", "num_gpus")):
        rows.add(
            submit_s=line.read("timestamp", _seconds, "a time such as 2017-09-07 03:58:57"),
            run_s=line.number("duration"),
            gpus=line.read("num_gpus", _whole, "a whole number"),
            user=line.text("cluster"),
        )
    return rows.recorded()


def read_openb(path: Path) -> Recorded:
    """Return the pods of a trace as jobs. Raises WorkloadError, naming the line."""
    rows = Rows(name=path.name)
    for line in table(path, ",", ("cpu_milli", "memory_mib", "num_gpu", "qos", "creation_time", "deletion_time")):
        created = line.number("creation_time")
        begun = line.number("scheduled_time") if line.text("scheduled_time") else created
        if not line.text("deletion_time"):
            rows.left_out["its end is not told"] += 1
            continue
        rows.add(
            submit_s=created,
            run_s=line.number("deletion_time") - begun,
            nodes=1,
            cpus=max(ceil(line.number("cpu_milli") / 1000), 1),
            mem_mib=int(line.number("memory_mib")),
            gpus=line.read("num_gpu", _whole, "a whole number"),
            te=_class(line),
        )
    return rows.recorded()


def _class(line: Line) -> int:
    return 0 if line.text("qos") == "BE" else 1


def _seconds(word: str) -> float:
    return datetime.fromisoformat(word).timestamp()


def _whole(word: str) -> int:
    number = float(word)
    if number != int(number) or number < 0:
        raise ValueError(word)
    return int(number)
