"""Many runs, on all cores or as an array of Slurm jobs: every contender, every value that is swept, every seed.

Each seed's workload is the same for every contender, so that they can be compared seed by seed. Runs that have finished
before an interrupt are kept.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from pathlib import Path

from tesched_core.model.extra import Extra
from tesched_policies.baselines import AtRandom

from tesched_sim.experiment import ExperimentSetting, run_one
from tesched_sim.reports.run_summary import Case
from tesched_sim.workload import Workload, WorkloadError

#: Makes a workload for a seed. It is sent to other processes, and its workloads are kept there by what it equals: a
#: frozen dataclass that can be called, or a function of a module; not a partial, which equals nothing but itself.
MakeWorkload = Callable[[int], Workload]

#: submits the array
SUBMITIT = Extra(package="submitit", module="submitit", install=".[submitit]")
#: seconds between two polls of jobs on Slurm
POLL_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One value of each key that is swept: columns of its own in the report."""

    #: "policy.fitgpp.s=2, site.poll_s=5"; empty if nothing is swept
    name: str = ""
    setting: ExperimentSetting
    make_workload: MakeWorkload


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRun:
    """One run to be made."""

    contender: str
    seed: int
    variant: Variant


def runs_of(contenders: Sequence[str], seeds: Sequence[int], variants: Sequence[Variant]) -> tuple[SweepRun, ...]:
    """Return every run, those of one seed and variant together."""
    return tuple(
        SweepRun(contender=contender, seed=seed, variant=variant)
        for variant, seed, contender in product(variants, seeds, contenders)
    )


def perform(run: SweepRun) -> Case:
    """Make one run. Raises WorkloadError if its workload cannot be made or its policy is unknown."""
    workload = made(run.variant.make_workload, run.seed)
    setting = run.variant.setting
    site, policy = replace(setting.site, seed=run.seed), setting.policy.with_table(AtRandom(seed=run.seed))
    result = run_one(run.contender, replace(setting, site=site, policy=policy), workload)
    return Case.of(result, seed=run.seed, variant=run.variant.name)


@lru_cache(maxsize=1)
def made(make_workload: MakeWorkload, seed: int) -> Workload:
    """Return the workload; the runs of one seed come one after the other, so the last one is worth keeping."""
    return make_workload(seed)


def perform_on_slurm(
    runs: Sequence[SweepRun], folder: Path, *, options: dict[str, str], at_once: int
) -> Iterator[Case]:
    """Yield each run's case when its job on Slurm is done; the runs are one job array, at most `at_once` at a time.

    `folder` must be on a file system that the compute nodes share; submitit keeps its pickles and logs there.
    `options` are sbatch's, without dashes: {"partition": "debug"}. An interruption cancels what has not finished.
    Raises WorkloadError if a job fails.
    """
    import submitit  # noqa: PLC0415 - needed only on request

    for handler in logging.getLogger("submitit").handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(sys.stderr)  # standard output is the report's
    executor = submitit.SlurmExecutor(folder=folder, max_num_timeout=0)
    executor.update_parameters(
        job_name="tesched-simulate", array_parallelism=at_once, additional_parameters=dict(options), time=24 * 60
    )
    try:
        pending = dict(enumerate(executor.map_array(perform, list(runs))))
    except (submitit.core.utils.FailedJobError, submitit.core.utils.FailedSubmissionError) as error:
        raise WorkloadError(f"Slurm takes no such job: {_last_line(error)}") from None
    try:
        while pending:
            finished = [place for place, job in pending.items() if job.done()]
            for place in finished:
                try:
                    yield pending.pop(place).result()
                except (submitit.core.utils.FailedJobError, submitit.core.utils.UncompletedJobError) as error:
                    raise WorkloadError(f"a job on Slurm failed: {_last_line(error)}") from None
            if not finished:
                time.sleep(POLL_S)
    finally:
        for job in pending.values():
            job.cancel(check=False)


def _last_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
