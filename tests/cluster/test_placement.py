"""A real Slurm as the oracle of placement: what tesched says of random requests is what Slurm then does.

`python -m benchmarks.placement` asks for thousands, and counts what Slurm starts though tesched had refused; here are
some requests, always the same ones, and what must hold for each.
"""

from __future__ import annotations

import pytest
from tesched_testcluster.harness.placement import Case, Verdict, run_cluster

pytestmark = pytest.mark.slurm

SEED, CLUSTER, CASES = 100, 0, 25


def told(cases: list[Case]) -> str:
    return "\n".join(f"sbatch {case.options} | {case.cluster} | {case.tesched} | {case.slurm}" for case in cases)


def test_no_victim_leaves_for_a_job_that_slurm_does_not_start_there() -> None:
    cases = run_cluster(SEED, CLUSTER, CASES)
    futile = [case for case in cases if case.verdict is Verdict.FUTILE]
    assert not futile, told(futile)
    took_more = [case for case in cases if case.took_more]
    assert not took_more, told(took_more)
    # Among them are jobs for which victims left.
    assert any(case.verdict is Verdict.STARTED and " go" in case.tesched for case in cases), told(cases)
