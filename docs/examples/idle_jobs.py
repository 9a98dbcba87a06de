#!/usr/bin/env python3
"""Lists jobs that use no CPU for `file` in `[idle]` of tesched.toml: an example, run as root on the daemon's host.

    idle_jobs.py /run/tesched-idle/idle [SECONDS]

Every SECONDS (60) it compares the CPU time of each running job with the sample before (sstat). A job that has used less
than 2 % of one CPU since is idle, and since when is the first of the samples between which that is so. After a restart
every job counts as busy until it has been idle again for long enough.

What it does not see: GPUs. A job whose CPUs wait while its GPUs compute is called idle here, which most training is
not, as its CPUs load data and poll. A job that polls in a loop for nothing is called busy. A site whose exporters know
the GPU load of each job (DCGM, nvidia-smi) should write the same lines from that, and only of jobs for which both are
idle. sstat asks the nodes of all jobs that it names. It needs root, and in slurm.conf JobAcctGatherType and a
JobAcctGatherFrequency above 0 and below SECONDS: else CPU times stand still, and every job is called idle.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

#: part of one CPU below which a job is idle
LEAST = 0.02
#: jobs of one call of sstat
MANY = 200


def output(*argv: str) -> list[str]:
    """Return the lines that a command prints; of a failing one those that it has printed."""
    found = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=120, check=False)
    return found.stdout.splitlines()


def seconds(text: str) -> float:
    """Return the seconds of "[DD-]HH:MM:SS" or "MM:SS.mmm"."""
    days, _, clock = text.rpartition("-")
    total = 0.0
    for part in clock.split(":"):
        total = total * 60 + float(part)
    return int(days or 0) * 86_400 + total


def cpu_times() -> dict[str, float]:
    """Return the CPU seconds of each running job so far, all steps together."""
    jobs = [line.strip() for line in output("squeue", "--noheader", "--states=RUNNING", "--format=%A")]
    used: dict[str, float] = defaultdict(float)
    for start in range(0, len(jobs), MANY):
        ids = ",".join(jobs[start : start + MANY])
        for line in output(
            "sstat", "--allsteps", "--noheader", "--parsable2", "--format=JobID,AveCPU,NTasks", "-j", ids
        ):
            step, average, tasks = (*line.split("|"), "", "")[:3]
            # The external step's processes sleep by design; a step that says no CPU time is not idle, but unknown.
            if average and tasks.isdecimal() and not step.endswith(".extern"):
                used[step.partition(".")[0]] += seconds(average) * int(tasks)
    return used


def write(path: Path, lines: list[str]) -> None:
    """Put the lines in place of the file at once, so that half a file is never read."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "w") as stream:
        stream.writelines(f"{line}\n" for line in lines)
    new.replace(path)


def main() -> None:
    """Write the file until SIGTERM; where Slurm does not answer the file grows stale, and is not believed."""
    path, every_s = Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    before: dict[str, float] = {}
    since: dict[str, float] = {}
    sampled_at = time.time()
    while True:
        now, used = time.time(), cpu_times()
        idle = {
            job
            for job, cpu_s in used.items()
            if job in before and 0 <= cpu_s - before[job] < LEAST * max(now - sampled_at, 1.0)
        }
        since = {job: since.get(job, sampled_at) for job in idle}
        write(path, [f"{job} {at:.0f}" for job, at in since.items()])
        before, sampled_at = used, now
        time.sleep(every_s)


if __name__ == "__main__":
    main()
