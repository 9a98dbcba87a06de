"""Jobs of submitit's: a function with a `checkpoint` method, submitted alone and as an array.

    python submitit_jobs.py PREFIX MEMORY_GB [COMMENT]

Prints the jobs' ids, then waits; exit status 0 only if each function has returned what it should.
"""

import os
import sys
import time
from pathlib import Path

import submitit

PREFIX, MEMORY_GB = sys.argv[1], float(sys.argv[2])


class Count:
    """Counts until its second run, then a little longer."""

    def __init__(self, at: int = 0) -> None:
        """Go on from where another one was."""
        self.at = at

    def __call__(self, name: str) -> str:
        """Count."""
        self.say(name, "resumed" if self.at else "begun")
        left = 5
        while left:
            time.sleep(0.1)
            self.at += 1
            left -= "SLURM_RESTART_COUNT" in os.environ
        self.say(name, "done")
        return name

    def checkpoint(self, name: str) -> submitit.helpers.DelayedSubmission:
        """Return what submitit shall run next time."""
        return submitit.helpers.DelayedSubmission(Count(self.at), name)

    @staticmethod
    def say(name: str, what: str) -> None:
        """Note what this run has come to."""
        with Path(f"{name}.events").open("a") as out:
            out.write(f"{what}\n")


if __name__ == "__main__":
    executor = submitit.AutoExecutor(folder=f"{PREFIX}-log", cluster="slurm")
    executor.update_parameters(name="be", timeout_min=60, nodes=1, mem_gb=MEMORY_GB, slurm_exclusive=True)
    if len(sys.argv) > 3:
        executor.update_parameters(slurm_additional_parameters={"comment": sys.argv[3]})
    names = [f"{PREFIX}-alone", f"{PREFIX}-one", f"{PREFIX}-two"]
    jobs = [executor.submit(Count(), names[0])]
    executor.update_parameters(slurm_array_parallelism=2)
    with executor.batch():
        jobs += [executor.submit(Count(), name) for name in names[1:]]
    sys.stdout.write(" ".join(job.job_id for job in jobs) + "\n")
    sys.stdout.flush()
    sys.exit([job.result() for job in jobs] != names)
