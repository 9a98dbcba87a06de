"""All levers, whatever they have changed and whatever was seen since: undo leaves nothing outstanding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st
from tesched_core.model.actions import Status
from tesched_core.model.change import By, Change, Mark
from tesched_core.model.cluster import Job, JobState
from tesched_core.model.field import Field, Nodes
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import changed_still, undo

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import Driver

#: fields of which changes are kept, and for what
KEPT: list[tuple[Field, By | None]] = [
    (Field.NICE, By.PREEMPTOR),
    (Field.NICE, By.VICTIM),
    (Field.NICE, By.QUEUE),
    (Field.HOLD, None),
    (Field.HOLD, By.REQUEUE),
    (Field.NODES, None),
    (Field.BEGIN, None),
    (Field.THROTTLE, None),
    (Field.MARK, None),
]
#: undo asks once, and sees it done the next time; a value that may be on its way is awaited for some seconds
ENOUGH, EVERY_S = 4, 6
#: value that no lever has set
OTHERS = 77_000


@st.composite
def changed_jobs(draw: st.DrawFn, field: Field, by: By | None, job_id: int) -> tuple[Change[Any], Job]:
    """Return a change of the field, and its job as it may be now."""
    marked = Mark(order=0, score=0.0, grace_s=0.0, restarts=0, nodes=("n1",), started_at=NOW)
    values: dict[Field, tuple[Any, Any]] = {
        Field.NICE: (0, -500),
        Field.HOLD: (0, 1),
        Field.THROTTLE: (0, 3),
        Field.BEGIN: (int(NOW) - 5, int(NOW) + 500),
        Field.NODES: (Nodes(), Nodes(names=("n1",))),
        Field.MARK: (marked, replace(marked, order=3)),
    }
    previous, value = values[field]
    change = Change(
        by=by,
        job_id=JobId(job_id),
        field=field,
        previous=previous,
        value=value,
        before=draw(st.sampled_from([None, previous])) if field is Field.THROTTLE else None,
        at=NOW - draw(st.sampled_from([0, 1, 1000])),
        since=NOW - 1000,
        dry=draw(st.booleans()) and field is Field.THROTTLE,
    )
    arrived, others = draw(st.booleans()), draw(st.booleans()) and field in {Field.NICE, Field.THROTTLE, Field.BEGIN}
    shown: Any = OTHERS if others else value if arrived and not change.dry else previous
    event(f"{field} {by}: {'of others' if others else 'arrived' if arrived else 'did not arrive'}")
    job = waiting(job_id, priority=100)
    if field is Field.HOLD:
        job = replace(job, priority=0, reason="JobHeldAdmin") if shown else job
    elif field is Field.NODES:
        job = replace(job, request=replace(job.request, required_nodes=shown.names))
    elif field is Field.THROTTLE:
        job = replace(job, array_job_id=JobId(job_id), array_tasks="0-9", array_throttle=shown)
    elif field is Field.BEGIN:
        job = replace(job, eligible_time=float(shown))
    elif field is not Field.MARK:
        job = replace(job, nice=shown)
    if draw(st.booleans()) and field not in {Field.HOLD, Field.THROTTLE}:
        runs = running(job_id, share("n1", 1), nice=job.nice)
        job = replace(runs, request=job.request)
    return change, draw(st.sampled_from([job, job, job, replace(job, state=JobState.CANCELLED)]))


@given(
    some=st.tuples(
        *(st.none() | changed_jobs(field, by, number) for number, (field, by) in enumerate(KEPT, start=1))
    ).map(lambda some: [one for one in some if one is not None])
)
def test_after_undo_no_lever_has_anything_outstanding(some: list[tuple[Change[Any], Job]]) -> None:
    drive = Driver([node("n1")], [job for _, job in some], run_times={int(job.job_id): 60 for _, job in some})
    fields = {one.field for one, _ in some}
    drive.memory = Memory(
        changes={field: {one.job_id: one for one, _ in some if one.field is field} for field in fields}
    )
    before = dict(drive.jobs)
    for turn in range(ENOUGH):
        drive.memory, decision = undo(drive.memory, drive.snapshot(turn * EVERY_S), drive.limits)
        drive.obeys(*decision.actions)
        drive.says(Status.SENT, *decision.actions)
    assert changed_still(drive.memory, drive.snapshot(ENOUGH * EVERY_S)) == 0
    for one, _ in some:
        job, earlier = drive.jobs[one.job_id], before[one.job_id]
        if job.finished and (one.field is not Field.THROTTLE or one.dry):
            assert job == earlier, "a job that has ended is left alone, but for the throttle of an array"
        elif OTHERS in {earlier.nice, earlier.array_throttle, earlier.eligible_time}:
            assert job == earlier, "what others have set is theirs"
        elif one.field is Field.NODES and not job.pending:
            assert job == earlier, "Slurm changes nothing of a running job's nodes"
        elif one.field is Field.BEGIN:
            assert not job.pending or (job.eligible_time or 0) <= NOW + ENOUGH * EVERY_S
        else:
            own = (0, 0, False, frozenset(one.previous.names) if one.field is Field.NODES else frozenset())
            assert (job.nice, job.array_throttle, job.held, frozenset(job.request.required_nodes)) == own
