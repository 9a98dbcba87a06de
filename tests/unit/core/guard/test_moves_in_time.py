"""A job that moves starts again only after Slurm's requeue delay: by then it has to end before a reservation there."""

from __future__ import annotations

import pytest
from tesched_core.guard.admission import admitted
from tesched_core.model.cluster import Reservation, SlurmSettings
from tesched_core.model.decision import Refusal, RefusalCode
from tesched_core.model.limits import Limits
from tesched_core.model.resources import JobId
from tesched_core.policy import ChosenVictim, MakeRoom

from tests.builders import NOW, cluster, node, running, share, view_of


@pytest.mark.parametrize(("begins_in_s", "moves"), [(30 + 30 + 121 + 600, True), (30 + 30 + 120 + 600, False)])
def test_a_job_that_moves_also_waits_until_slurm_starts_it_again(begins_in_s: int, *, moves: bool) -> None:
    # 30 s of grace, KillWait of 30 s, and 121 s in which a requeued job does not start
    job = running(1, share("n1", 1), time_limit_s=600)
    maintenance = Reservation(name="m", start_time=NOW + begins_in_s, end_time=NOW + 9999, nodes=frozenset({"n2"}))
    settings = SlurmSettings(kill_wait_s=30, requeue_delay_s=121)
    seen = cluster([node("n1"), node("n2")], [job], reservations=[maintenance], settings=settings)
    dropped: list[Refusal] = []
    move = MakeRoom(preemptor=JobId(1), nodes=("n2",), victims=(ChosenVictim(job_id=JobId(1)),))
    assert bool(admitted([move], view_of(seen), Limits(min_run_time_s=0), dropped.append)) is moves
    assert [one.code for one in dropped] == ([] if moves else [RefusalCode.RESERVATION])
