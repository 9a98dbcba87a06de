"""How fast the simulator is: `python -m benchmarks.simulator [JOBS…]`.

Jobs a second by policy on FitGpp's workload, the ratio to plain FIFO, how time grows with the number of jobs, and peak
memory. One process, one run each.
"""

from __future__ import annotations

import resource
import sys

from tesched_sim.contenders import Setting, Site, run_one
from tesched_sim.workloads.fitgpp import FitGppWorkload, fitgpp

JOBS = (1_000, 16_384, 65_536)
CONTENDERS = ("fifo", "te-first", "native", "lrtp", "rand", "fitgpp", "patient")


def main(arguments: list[str]) -> None:
    """Print one line a policy and number of jobs."""
    setting = Setting.of(Site.PAPER)
    print(f"{'JOBS':>9}  {'POLICY':<9} {'SECONDS':>8} {'JOBS/S':>8} {'TO FIFO':>8} {'PEAK MIB':>9}")
    for jobs in [int(word) for word in arguments] or JOBS:
        workload = fitgpp(FitGppWorkload(jobs=jobs), seed=0)
        fifo_s = 0.0
        for contender in CONTENDERS:
            took_s = run_one(contender, setting, workload).took_s
            fifo_s = fifo_s or took_s
            peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"{jobs:>9}  {contender:<9} {took_s:>8.2f} {jobs / took_s:>8.0f} {took_s / fifo_s:>8.1f}"
                f" {peak_mib:>9.0f}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
