"""The least that Slurm's own code takes to read all jobs and nodes, beside which tesched's polls are measured.

Two ways, on a cluster that runs: `libslurm`, the calls of the C library that `scontrol` makes (`slurm_load_jobs`,
`slurm_load_node`) with nothing done with their answer, in a process of its own; and `scontrol`, the bare command, its
text thrown away. Seconds, medians of `TIMES`.
"""

from __future__ import annotations

import ctypes
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tesched_testcluster.local import LocalCluster

TIMES = 5
PATIENCE_S = 120
#: slurm.h: SHOW_ALL and SHOW_DETAIL
_ALL_IN_DETAIL = 0x0001 | 0x0002
_JOBS = ("scontrol", "-a", "-d", "-o", "show", "job")


def bare_scontrol_s(cluster: LocalCluster) -> float:
    """Return the seconds that `scontrol show job` takes."""

    def read() -> None:
        subprocess.run(_JOBS, env=cluster.env, stdout=subprocess.DEVNULL, timeout=PATIENCE_S, check=True)

    return _median_s(read)


def libslurm_s(cluster: LocalCluster) -> dict[str, float] | None:
    """Return the seconds that libslurm takes for all jobs and for all nodes; None where there is no libslurm."""
    if library() is None:
        return None
    argv = [sys.executable, "-m", "benchmarks.raw_reads"]
    said = subprocess.run(argv, env=cluster.env, stdout=subprocess.PIPE, text=True, timeout=10 * PATIENCE_S, check=True)
    found: dict[str, float] = json.loads(said.stdout)
    return found


def library() -> Path | None:
    """Find libslurm: the distribution's, or one that was built into /usr."""
    names = ("*/slurm-wlm/libslurmfull.so", "slurm/libslurmfull.so", "*/slurm/libslurmfull.so", "*/libslurm.so.*")
    places = [Path("/usr/lib"), Path("/usr/local/lib")]
    return next((path for name in names for place in places for path in sorted(place.glob(name))), None)


def _median_s(read: Callable[[], None]) -> float:
    took_s = []
    for _ in range(TIMES):
        began = time.perf_counter()
        read()
        took_s.append(time.perf_counter() - began)
    return statistics.median(took_s)


def _read_here() -> dict[str, float]:
    """Read as `scontrol` does, here: SLURM_CONF names the cluster."""
    slurm = ctypes.CDLL(str(library()), mode=ctypes.RTLD_GLOBAL, use_errno=True)
    slurm.slurm_init(None)
    slurm.slurm_strerror.restype = ctypes.c_char_p

    def loading(load: str, free: str) -> Callable[[], None]:
        def read() -> None:
            answer = ctypes.c_void_p()
            # Time 0: everything, whether it has changed or not.
            if getattr(slurm, load)(ctypes.c_long(0), ctypes.byref(answer), ctypes.c_uint16(_ALL_IN_DETAIL)):
                raise SystemExit(f"{load}: {slurm.slurm_strerror(ctypes.get_errno()).decode()}")
            getattr(slurm, free)(answer)

        return read

    return {
        "jobs_s": _median_s(loading("slurm_load_jobs", "slurm_free_job_info_msg")),
        "nodes_s": _median_s(loading("slurm_load_node", "slurm_free_node_info_msg")),
    }


if __name__ == "__main__":
    print(json.dumps(_read_here()))
