"""Victims that finish in the moment of their requeue: the short version of `python -m benchmarks.double_run`.

What remains is the moment in which slurmctld has not heard of the end; no requeue goes beyond it.
"""

from __future__ import annotations

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.harness.double_run import bench_of

pytestmark = [pytest.mark.slurm, pytest.mark.release]

VICTIMS = 20


def test_no_victim_runs_twice_when_slurmctld_had_heard_of_its_end(client_choice: ClientChoice) -> None:
    with bench_of("pyslurm" if client_choice is ClientChoice.PYSLURM else "commands", seed=0) as bench:
        bench.batch(VICTIMS)
        assert bench.counts.known_ended == 0
