"""Raises of a job array: tasks that left its record while it was raised are put back as well."""

from __future__ import annotations

from dataclasses import replace

from tesched_core.context import CycleContext
from tesched_core.fields.nice import MOST_PUT_BACK
from tesched_core.fields.priority import raised as by_explicit_priority
from tesched_core.fields.reconcile import Want
from tesched_core.model.actions import Reason, ReasonCode
from tesched_core.model.change import By
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import undo
from tesched_core.placement.columns_of import columns_of

from tests.builders import NOW, running, share
from tests.scenarios.driver import BE, TE, Driver, one_node
from tests.scenarios.test_refused_changes import refuses

WHY = Reason(code=ReasonCode.MAKE_ROOM_FIRST, text="")


def many() -> Driver:
    """Return a raised array of which more tasks run than are put back in a poll; its order has ended."""
    drive = one_node()
    drive.change(TE, array_job_id=JobId(TE), array_tasks="100-999")
    drive.obeys(*drive.cycle(0))
    drive.requeued(BE)
    for number in range(MOST_PUT_BACK + 5):
        task = running(100 + number, share("n1", 0), nice=-1001, start_time=NOW + 5)
        drive.jobs[task.job_id] = replace(task, array_job_id=JobId(TE), array_task_id=number)
    return drive


def test_of_many_tasks_some_are_put_back_in_a_poll_and_the_waiting_ones_first() -> None:
    drive = many()
    counts = []
    for at_s in (6, 8):
        actions = drive.cycle(at_s)
        counts.append((len(actions), TE in {one.job_id for one in actions}))
        drive.obeys(*actions)
    assert counts == [(MOST_PUT_BACK, True), (6, False)]
    assert {job.nice for job in drive.jobs.values()} == {0}


def test_an_undo_puts_all_of_them_back_at_once() -> None:
    drive = many()
    _, decision = undo(drive.memory, drive.snapshot(6), drive.limits)
    assert len(decision.actions) == MOST_PUT_BACK + 6


def test_a_task_s_own_priority_is_not_the_one_that_its_array_was_raised_to() -> None:
    drive = one_node(limits=Limits(max_open_orders=4))
    drive.change(TE, array_job_id=JobId(TE), array_tasks="0-9")
    # Slurm refuses nice values here: an explicit priority stands for them.
    refuses(drive, 0, "setnice")
    drive.obeys(*drive.cycle(2))
    raised = drive.jobs[JobId(TE)].priority
    assert raised > 1000
    task = replace(drive.jobs[JobId(TE)], job_id=JobId(1000), array_tasks="", array_task_id=3)
    drive.submits(task, like=TE)
    snapshot = drive.snapshot(4)
    context = CycleContext.of(drive.memory, snapshot, columns_of(snapshot), drive.limits)
    for shown, own in ((raised, 100), (raised + 7, raised + 7)):
        job = replace(task, priority=shown)
        want = Want(job_id=job.job_id, value=raised + 500, why=WHY, by=By.PREEMPTOR)
        change = by_explicit_priority(want, None, job, context)
        assert (change.field, change.previous) == (Field.PRIORITY, own)
