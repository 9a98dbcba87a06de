"""Random hostile users beside an honest one, for seconds; `python -m benchmarks.hostile --soak` does it for minutes."""

from __future__ import annotations

import math

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.harness.attacks.soak import Plan, run

pytestmark = [pytest.mark.slurm, pytest.mark.release]


def test_random_users_neither_end_nor_blind_the_daemon(client_choice: ClientChoice) -> None:
    seen = run(Plan(client=client_choice, seconds=20, quiet_s=8, jobs=60))
    assert seen.ended == ""
    assert seen.submitted > 0
    assert seen.honest not in seen.unread
    assert seen.beside is not None
    assert seen.beside.waits, "no honest TE job was submitted"
    assert all(map(math.isfinite, seen.beside.waits)), "an honest TE job has never started"
