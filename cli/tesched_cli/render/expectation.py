"""Expected run time of a job, for `tesched explain`: by its owner's word, or learned as the daemon learns it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import Engine
from tesched_core.model.cluster import FINISHED, JobState
from tesched_db import finished_runs, run_time_levels
from tesched_db.views import JobView
from tesched_predict.history import JobFacts
from tesched_predict.quantiles import LEVELS, Prediction, RunTimes
from tesched_predict.words import in_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Expected run time of a job."""

    #: a sentence for people
    said: str
    #: "owner" or "learned"
    source: str
    #: seconds by level, such as "0.8"; of its owner's word the same for all
    quantiles_s: Mapping[str, float]
    #: what the runs have in common with the job, how many they are, and which part of them was shorter than the 0.8
    likeness: str = ""
    runs: int = 0
    shorter: float | None = None
    #: seconds of its present run, without those for which it was suspended: so the daemon counts
    ran_s: float = 0.0

    @property
    def low_s(self) -> float:
        """Return the run time that `guard.bound` counts on, seconds."""
        return self.quantiles_s[str(LEVELS[0])]


def of_job(engine: Engine, job: JobView, *, learns: bool) -> Expected | None:
    """Expected run time of a job that has not ended; None where nothing is known. Raises StoreError.

    `learns`: the daemon does, from finished runs.
    """
    if job.state in FINISHED or job.gone:
        return None
    if job.run_time_s is not None:
        said = f"{in_words(job.run_time_s)} in all, by its owner's word (--comment)"
        return Expected(said=said, source="owner", quantiles_s={str(level): job.run_time_s for level in LEVELS})
    if not learns:
        return None
    runs_for_s = 0.0
    if job.state is not JobState.PENDING and job.start_time is not None:
        runs_for_s = job.run_s(time.time())
    prediction = _predicted(engine, _facts(job), runs_for_s)
    if prediction is None:
        return None
    return Expected(
        said=prediction.explained,
        source="learned",
        quantiles_s={str(level): prediction.at(level) for level in LEVELS},
        likeness=prediction.likeness.value,
        runs=prediction.runs,
        shorter=prediction.shorter,
        ran_s=prediction.ran_s,
    )


def _predicted(engine: Engine, facts: JobFacts, ran_s: float) -> Prediction | None:
    """Predict as the daemon does, from those of the finished runs that count for this job. Raises StoreError."""
    written = run_time_levels.newest(engine)
    names = (written.cluster,) if written else finished_runs.clusters(engine)
    run_times = RunTimes()
    for run in finished_runs.load_groups(engine, names[0] if names else "", facts):
        run_times.learned(run, scored=False)
    levels = [written.levels.get(level, level) for level in LEVELS] if written else None
    return run_times.predict(facts, ran_s=ran_s, levels=levels)


def _facts(job: JobView) -> JobFacts:
    return JobFacts(
        user=job.user,
        account=job.account,
        partition=job.partition.partition(",")[0],
        job_name=job.name,
        gpus=job.gpus,
        cpus=job.cpus,
        nodes=job.min_nodes,
        time_limit_s=None if job.time_limit_s is None else float(job.time_limit_s),
    )
