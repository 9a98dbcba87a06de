"""Runs and jobs for the tests of learned run times."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st
from tesched_predict.groups import Groups
from tesched_predict.history import FinishedRun, JobFacts
from tesched_predict.quantiles import RunTimes

SHAPE = {"user": "ada", "account": "vision", "partition": "gpu", "job_name": "train_0017", "gpus": 4, "cpus": 32}


def run(run_s: float, end_s: float = 0.0, **changes: Any) -> FinishedRun:
    """Return a run of ada's training, changed as said."""
    return FinishedRun(**{**SHAPE, "run_s": run_s, "end_s": end_s, **changes})


def job(**changes: Any) -> JobFacts:
    """Return ada's training before it ends, changed as said."""
    return JobFacts(**{**SHAPE, **changes})


def taught(runs: Iterable[FinishedRun], *, runs_per_group: int = 64, groups: int = 100) -> RunTimes:
    """Run times that these runs teach."""
    run_times = RunTimes(groups=Groups(runs_per_group, runs_per_group, groups))
    for each in runs:
        run_times.learned(each)
    return run_times


LENGTHS = st.floats(1.0, 1e6)
LIMITS = st.one_of(st.none(), st.floats(1.0, 1e6))
USERS = st.sampled_from(["", "ada", "bob"])
ACCOUNTS = st.sampled_from(["", "vision"])
PARTITIONS = st.sampled_from(["gpu", "debug"])
NAMES = st.sampled_from(["", "train_1", "train_2", "eval"])
GPUS = st.integers(0, 9)
JOBS = st.builds(
    JobFacts, user=USERS, account=ACCOUNTS, partition=PARTITIONS, job_name=NAMES, gpus=GPUS, time_limit_s=LIMITS
)
RUNS = st.builds(
    FinishedRun,
    user=USERS,
    account=ACCOUNTS,
    partition=PARTITIONS,
    job_name=NAMES,
    gpus=GPUS,
    time_limit_s=LIMITS,
    run_s=LENGTHS,
    end_s=st.integers(0, 5).map(float),
)
