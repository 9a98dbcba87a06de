"""Speed of the simulator: `python -m benchmarks.simulator [--trace FILE] [--policy …] [JOBS…]`.

Jobs a second by policy, the ratio to plain FIFO, how time grows with the number of jobs, and peak memory (of the
process so far, so it only rises), on FitGpp's workload or on the first JOBS of a trace (all of them: 0). One process,
one run each; a workload is made before the clock starts.
"""

from __future__ import annotations

import resource
from pathlib import Path

import click
from tesched_sim import workloads
from tesched_sim.experiment import ExperimentSetting, Site, run_one
from tesched_sim.workload import Workload
from tesched_sim.workloads.fitgpp import FitGppWorkload, fitgpp

JOBS = (1_000, 16_384, 65_536)
CONTENDERS = "fifo,te-first,native,lrtp,rand,fitgpp,patient,patient+fill"


@click.command()
@click.argument("jobs", type=click.IntRange(0), nargs=-1)
@click.option("--trace", type=click.Path(path_type=Path))
@click.option("--load", type=float, default=0.7, show_default=True, help="Of a trace: the offered load.")
@click.option("--policy", "policies", default=CONTENDERS, show_default=True)
@click.option(
    "--depth", type=click.IntRange(0), default=500, show_default=True, help="Jobs tried for backfill; 0: all."
)
@click.option("--site", type=click.Choice([site.value for site in Site]), default=Site.PAPER.value, show_default=True)
def main(*, jobs: tuple[int, ...], trace: Path | None, load: float, policies: str, depth: int, site: str) -> None:
    """Print one line a policy and number of jobs."""
    setting = ExperimentSetting.of(Site(site)).with_values({"site.backfill_depth": str(depth)})
    print(f"{'JOBS':>9}  {'POLICY':<12} {'SECONDS':>8} {'JOBS/S':>8} {'TO FIRST':>8} {'PEAK MIB':>9}")
    for count in jobs or JOBS:
        workload = _workload(trace, count, load)
        first_s = 0.0
        for contender in policies.split(","):
            took_s = run_one(contender, setting, workload).took_s
            first_s = first_s or took_s
            peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"{len(workload):>9}  {contender:<12} {took_s:>8.2f} {len(workload) / took_s:>8.0f}"
                f" {took_s / first_s:>8.1f} {peak_mib:>9.0f}",
                flush=True,
            )


def _workload(trace: Path | None, count: int, load: float) -> Workload:
    if trace is None:
        return fitgpp(FitGppWorkload(jobs=count), seed=0)
    return workloads.read(trace, seed=0, jobs=str(count), load=str(load))


if __name__ == "__main__":
    main()
