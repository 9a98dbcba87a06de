"""Readers of recorded workloads: what a trace says, and no more. `workloads.fill` makes up what it lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tesched_sim.traces.drawn import separator_of
from tesched_sim.traces.gpu_clusters import read_chronus, read_gavel, read_openb, read_philly
from tesched_sim.traces.recorded import Recorded
from tesched_sim.traces.sacct import read_sacct
from tesched_sim.traces.swf import read_swf
from tesched_sim.traces.text import lines_of
from tesched_sim.workload import WorkloadError

READERS: Mapping[str, Callable[[Path], Recorded]] = {
    "sacct": read_sacct,
    "swf": read_swf,
    "philly": read_philly,
    "openb": read_openb,
    "chronus": read_chronus,
    "gavel": read_gavel,
}
FORMATS = tuple(READERS)


def read(path: Path, form: str | None = None) -> Recorded:
    """Read a trace. Raises WorkloadError for a format that is not known or not recognised, or a malformed line."""
    if form is None:
        form = _format_of(path)
    elif form not in READERS:
        raise WorkloadError(f"there is no trace format {form}; there are {', '.join(FORMATS)}")
    return READERS[form](path)


def _format_of(path: Path) -> str:
    """Format that the first line shows. Raises WorkloadError if it shows none."""
    first = next((text for _, text in lines_of(path)), "")
    if first.startswith(";") or (len(first.split()) == 18 and "," not in first):
        return "swf"
    if len(names := first.split(separator_of(first))) > 1 and "JobID" in names:
        return "sacct"
    words = set(first.split(","))
    if {"timestamp", "duration", "num_gpus"} <= words:
        return "philly"
    if {"submit_time", "duration", "num_gpu", "best_effort"} <= words:
        return "chronus"
    if words == {"duration_s", "num_gpus"}:
        return "gavel"
    if {"cpu_milli", "memory_mib", "creation_time", "deletion_time"} <= words:
        return "openb"
    raise WorkloadError(
        f"{path}:1: this is the beginning of none of the formats {', '.join(FORMATS)}; --format says which it is"
    )
