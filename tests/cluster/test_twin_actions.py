"""The simulated Slurm beside a real one: the same actions in the same order, and what both say after each of them.

Both have eight nodes that one job fills, and three jobs that wait. Compared are how an action failed, each job's state,
what it waits for where that is no resources, its nice value and restarts, and the order of those that could start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import ClassVar

import pytest
from tesched_core.model.actions import (
    Action,
    FailureKind,
    Outcome,
    Reason,
    ReasonCode,
    Requeue,
    Rerun,
    Resume,
    SetField,
    Suspend,
)
from tesched_core.model.cluster import Job
from tesched_core.model.field import Field, Nodes, NumberField
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_sim.actuator import SimulatedActuator
from tesched_sim.engine import Simulation
from tesched_sim.observer import SimulatedObserver
from tesched_sim.slurm import Slurm
from tesched_sim.slurm_scheduler import Scheduler
from tesched_sim.slurm_settings import Behaviour
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.harness.slurm_clients import connecting
from tesched_testcluster.local import LocalCluster

from tests.builders import hold, node_list, release
from tests.unit.sim.examples import Sketch, workload

pytestmark = [pytest.mark.slurm, pytest.mark.release]

WHY = Reason(code=ReasonCode.ADMIN, text="a test")
#: what both say of a job that waits for more than resources; else Slurm's word depends on its last pass over the queue
WAITS_FOR = {"JobHeldAdmin", "BeginTime", "Dependency", "JobArrayTaskLimit"}
#: jobs by what they are here: the one that fills all nodes, and those that wait; and the time, beside their ids
FULL, A, B, C, NOW = 1, 2, 3, 4, 0
#: makes an action, from the ids of the jobs above
Make = Callable[[dict[int, JobId]], Action]
#: of one job: state, what it waits for, nice value, restarts, nodes that it must have
Row = tuple[str, str, int, int, tuple[str, ...]]


def row_of(job: Job) -> Row:
    reason = job.reason if job.reason in WAITS_FOR else ""
    return job.state, reason, job.nice, job.restarts, job.request.required_nodes


def shown(jobs: dict[int, Job]) -> tuple[list[Row], list[int]]:
    """Return each job's row, and the jobs that could start, the first in the queue first."""
    could = [name for name, job in jobs.items() if job.pending and job.reason not in WAITS_FOR and job.priority]
    return [row_of(job) for job in jobs.values()], sorted(could, key=lambda name: -jobs[name].priority)


class Twin:
    """The simulated Slurm."""

    ids: ClassVar = {name: JobId(name) for name in (FULL, A, B, C)}

    def __init__(self) -> None:
        sketches = [Sketch(run=1000, nodes=8), *(Sketch(run=1000) for _ in range(3))]
        behaviour = replace(Behaviour.slurm(), requeue_delay_s=6.0)
        self.slurm = Slurm(workload(sketches, nodes=8), behaviour)
        self.scheduler = Scheduler(self.slurm)
        for row in range(len(sketches)):
            self.slurm.submit(row)
        self.scheduler.run()

    def act(self, make: Make) -> Outcome:
        return SimulatedActuator(self.slurm).act(make({**self.ids, NOW: JobId(int(self.slurm.now))}))

    def shown(self) -> tuple[list[Row], list[int]]:
        observer = SimulatedObserver(self.slurm)
        return shown({name: observer.job(job_id - 1) for name, job_id in self.ids.items()})


def nice(name: int, value: int) -> Make:
    return number(name, Field.NICE, value)


def number(name: int, field: NumberField, value: int) -> Make:
    return lambda ids: SetField(job_id=ids[name], reason=WHY, field=field, value=value, previous=0)


def after(name: int, other: int | None) -> Make:
    def make(ids: dict[int, JobId]) -> Action:
        text = "" if other is None else f"afterany:{ids[other]}"
        return SetField(job_id=ids[name], reason=WHY, field=Field.DEPENDENCY, value=text, previous="")

    return make


def bound(name: int, *nodes: str) -> Make:
    return lambda ids: node_list(ids[name], WHY, Nodes(names=nodes), previous=Nodes())


def begins_now(name: int) -> Make:
    return lambda ids: SetField(job_id=ids[name], reason=WHY, field=Field.BEGIN, value=ids[NOW], previous=LATER)


#: a time in the future that both clocks have not reached
LATER = 4_000_000_000
STEPS: Iterable[tuple[str, Make]] = (
    ("a job that waits is held", lambda ids: hold(ids[A], WHY)),
    ("a held job's priority is refused", number(A, Field.PRIORITY, 77)),
    ("a held job is held already", lambda ids: hold(ids[A], WHY)),
    ("a held job's nice value would let it start", nice(A, -5)),
    ("it is released", lambda ids: release(ids[A], WHY)),
    ("a job that is not held is released to the end", lambda ids: release(ids[A], WHY)),
    ("nice moves a priority", nice(C, -1_000)),
    ("and back", nice(C, 0)),
    ("a priority is set", number(B, Field.PRIORITY, 1000)),
    ("nice counts for nothing after it", nice(B, -50)),
    ("nodes are required", bound(A, "n1")),
    ("and are not any more", bound(A)),
    ("a job is put off", number(A, Field.BEGIN, LATER)),
    ("what is put off is held", lambda ids: hold(ids[A], WHY)),
    ("a begin time of a held job", number(A, Field.BEGIN, LATER + 60)),
    ("it is released, and waits for its time", lambda ids: release(ids[A], WHY)),
    ("a time that has passed is now", begins_now(A)),
    ("it waits for another job", after(C, B)),
    ("and no more", after(C, None)),
    ("what waits is not requeued", lambda ids: Requeue(job_id=ids[C], reason=WHY, restarts=0)),
    ("what waits is not run again", lambda ids: Rerun(job_id=ids[C], reason=WHY, restarts=0)),
    ("what waits is not suspended", lambda ids: Suspend(job_id=ids[C], reason=WHY, restarts=0)),
    ("what waits is not resumed", lambda ids: Resume(job_id=ids[C], reason=WHY)),
    ("what runs is not held", lambda ids: hold(ids[FULL], WHY)),
    ("what runs is not bound", bound(FULL, "n1")),
    ("what runs has no begin time", number(FULL, Field.BEGIN, LATER)),
    ("what runs waits for no job", after(FULL, B)),
    ("what is no array has no throttle", number(C, Field.THROTTLE, 2)),
    ("what runs is suspended", lambda ids: Suspend(job_id=ids[FULL], reason=WHY, restarts=0)),
    ("a second time", lambda ids: Suspend(job_id=ids[FULL], reason=WHY, restarts=0)),
    ("and goes on", lambda ids: Resume(job_id=ids[FULL], reason=WHY)),
    ("another run is not requeued", lambda ids: Requeue(job_id=ids[FULL], reason=WHY, restarts=1)),
    ("a priority that is set is released", lambda ids: release(ids[B], WHY)),
)


@pytest.mark.gate
def test_both_say_the_same_after_each_action(cluster: LocalCluster, one_client: ClientChoice) -> None:
    client = connecting(one_client)(cluster)
    full = JobId(cluster.sbatch("--exclusive", "-N8", wrap="exec sleep 1000"))
    cluster.wait_state(full, "RUNNING")
    waiting = [JobId(cluster.sbatch("--exclusive", wrap="exec sleep 1000")) for _ in range(3)]
    ids = dict(zip((FULL, A, B, C), (full, *waiting), strict=True))
    twin = Twin()

    def real() -> tuple[list[Row], list[int]]:
        seen = client.observer.observe()
        assert isinstance(seen, Snapshot), seen
        return shown({name: seen.jobs[job_id] for name, job_id in ids.items()})

    def failed(outcome: Outcome) -> FailureKind | None:
        return outcome.failure.kind if outcome.failure else None

    for text, make in STEPS:
        outcome = client.actuator.act(make({**ids, NOW: JobId(int(time.time()))}))
        assert failed(outcome) == failed(twin.act(make)), (text, outcome)
        # What Slurm says of a job comes with its next pass over the queue.
        cluster.wait_for(lambda: real() == twin.shown(), f"{text}, to be seen as by the twin: {twin.shown()}")


def test_a_requeued_job_is_submitted_anew_to_both(cluster: LocalCluster, one_client: ClientChoice) -> None:
    client = connecting(one_client)(cluster)

    def submitted() -> float:
        seen = client.observer.observe()
        assert isinstance(seen, Snapshot), seen
        return seen.jobs[job_id].submit_time

    job_id = JobId(cluster.sbatch(wrap="exec sleep 1000"))
    cluster.wait_state(job_id, "RUNNING")
    first = submitted()
    cluster.wait_for(lambda: time.time() > first + 2, "another second than that of its submission")
    client.actuator.act(Requeue(job_id=job_id, reason=WHY, restarts=0))
    cluster.wait_state(job_id, "PENDING")
    twin = Simulation(workload([Sketch(run=1000)]), Behaviour.slurm())
    twin.go_on(10)
    SimulatedActuator(twin.slurm).act(Requeue(job_id=JobId(1), reason=WHY, restarts=0))
    twin.go_on(50)
    assert (submitted() > first, SimulatedObserver(twin.slurm).job(0).submit_time > 0) == (True, True)
