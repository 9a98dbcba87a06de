"""A dask-jobqueue cluster that keeps one worker, and a computation on it, which outlives its worker.

A worker that is away for longer than `distributed.deploy.lost-worker-timeout` (15 s; `kinds_stage.py` says more, by the
environment) dask cancels; `adapt` then submits another one.

    python dask_jobs.py NAME

Prints the worker's job id once it computes, then waits; exit status 0 only if the sum is right.
"""

import os
import sys
import time
from pathlib import Path

from dask.distributed import Client
from dask_jobqueue import SLURMCluster

NAME = sys.argv[1]
NUMBERS = range(10)


def square(number: int, folder: str) -> int:
    """Compute, slowly until another run of the worker."""
    log = Path(folder, f"{NAME}.events")
    mark = Path(folder, f"{NAME}.{os.environ['SLURM_JOB_ID']}.{os.environ.get('SLURM_RESTART_COUNT', '0')}")
    if not mark.exists():
        mark.touch()
        with log.open("a") as out:
            out.write("begun\n")
    if number and log.read_text().split() == ["begun"]:
        time.sleep(3600)
    return number**2


if __name__ == "__main__":
    with (
        SLURMCluster(
            cores=1,
            processes=1,
            memory="1GB",
            walltime="01:00:00",
            job_extra_directives=["--exclusive", "--nodes=1", "--job-name=be-dask"],
        ) as cluster,
        Client(cluster) as client,
    ):
        cluster.adapt(minimum_jobs=1, maximum_jobs=1)
        futures = client.map(square, NUMBERS, folder=os.getcwd())  # noqa: PTH109 - what the worker has, too
        futures[0].result()
        sys.stdout.write(" ".join(str(worker.job_id) for worker in cluster.workers.values()) + "\n")
        sys.stdout.flush()
        right = sum(client.gather(futures)) == sum(number**2 for number in NUMBERS)
        if right:
            with Path(f"{NAME}.events").open("a") as out:
                out.write("done\n")
    sys.exit(not right)
