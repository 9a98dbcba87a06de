"""A run of Gavel's simulation, from the first job to the end of the last that counts."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tesched_sim.workload import WorkloadError

from tesched_papers.gavel.filling import FillingRun
from tesched_papers.gavel.ideal import IdealRun
from tesched_papers.gavel.pairs import SharingRun
from tesched_papers.gavel.rounds import Allocate, Cluster, Manner, Outcome, Run
from tesched_papers.gavel.workload import GavelJob

#: A run ends when more jobs than these are there at once.
MOST_JOBS = 2_000


class OverloadError(WorkloadError):
    """More jobs come than can be served."""


def simulate(
    jobs: Iterator[GavelJob],
    window: range,
    cluster: Cluster,
    allocate: Allocate,
    *,
    manner: Manner,
    seed: int,
    most_jobs: int = MOST_JOBS,
) -> Outcome:
    """Run the jobs until all of the window have ended, and return what came of it.

    `jobs` come in their order of arrival; those after the window keep coming until it has ended. `seed` orders the
    types. Raises WorkloadError if a job can never run, if the window has more jobs than come, or for pairs in rounds
    that are filled or ideal; OverloadError if more than `most_jobs` are there at once: then it might never end, since
    all of them share what there is.
    """
    began = time.process_time()
    if manner.sharing and (cluster.fill or cluster.ideal):
        raise WorkloadError("pairs of jobs are simulated in the authors' rounds alone: neither filled nor ideal")
    kind = IdealRun if cluster.ideal else FillingRun if cluster.fill else SharingRun if manner.sharing else Run
    run = kind(jobs, cluster, allocate, manner, seed)
    missing = set(window)
    while missing:
        missing.difference_update(run.turn())
        if len(run.jobs) > most_jobs:
            raise OverloadError(
                f"the cluster does not keep up: {len(run.jobs)} jobs are there after {run.now / 3600:.0f} hours"
            )
    run.outcome.took_s = time.process_time() - began
    return run.outcome
