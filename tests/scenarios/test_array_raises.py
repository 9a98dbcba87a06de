"""Raises of a job array: tasks that left its record while it was raised are put back as well."""

from __future__ import annotations

from tesched_core.fields.nice import MOST_PUT_BACK
from tesched_core.model.resources import JobId

from tests.builders import NOW, running, share
from tests.scenarios.driver import BE, TE, one_node


def test_of_many_tasks_some_are_put_back_in_a_poll_and_the_waiting_ones_first() -> None:
    drive = one_node()
    drive.change(TE, array_job_id=JobId(TE), array_tasks="100-999")
    drive.obeys(*drive.cycle(0))
    drive.requeued(BE)
    for number in range(MOST_PUT_BACK + 5):
        drive.jobs[JobId(100 + number)] = running(
            100 + number,
            share("n1", 0),
            array_job_id=JobId(TE),
            array_task_id=number,
            nice=-1001,
            start_time=NOW + 5,
        )
    counts = []
    for at_s in (6, 8):
        actions = drive.cycle(at_s)
        counts.append((len(actions), TE in {one.job_id for one in actions}))
        drive.obeys(*actions)
    assert counts == [(MOST_PUT_BACK, True), (6, False)]
    assert {job.nice for job in drive.jobs.values()} == {0}
