"""A record that is missing in one answer is not taken for a job that is gone.

Everywhere: job 1 holds the only node, job 9 wants half of it. MinJobAge is Slurm's own, 300 s.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import Requeue, sets
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.job_memory import JobMemory
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.order import OrderState, VictimState
from tesched_core.model.resources import JobId

from tests.builders import NOW, by_job, node, nodes_set, running, share, waiting
from tests.scenarios.driver import BE, HALF, TE, Driver, nice_back, one_node

LIMITS = Limits(
    max_preemptions_per_job=2,
    max_lost_runs_per_job=2,
    min_run_time_s=0,
    cool_down_s=0,
    max_slowdown=1e9,
    retry_after_s=0,
)


def look_without(drive: Driver, job_id: int, at_s: float) -> None:
    """Poll once, with an answer that lacks this job's record."""
    job = drive.jobs.pop(JobId(job_id))
    drive.obeys(*drive.cycle(at_s))
    drive.jobs[job.job_id] = job


def preempted(drive: Driver, trial: int, at_s: float) -> None:
    """Let job 1 be preempted for this trial, which runs and ends; job 1 runs again."""
    drive.jobs[JobId(trial)] = waiting(trial, cpus=32)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(trial): drive.start.traits[JobId(TE)]})
    drive.obeys(*drive.cycle(at_s))
    drive.starts(trial, share("n1", 32), at_s=at_s + 1)
    drive.obeys(*drive.cycle(at_s + 2))
    drive.ends(trial)
    drive.starts(BE, share("n1", 32), at_s=at_s + 3)
    drive.obeys(*drive.cycle(at_s + 4))
    drive.obeys(*drive.cycle(at_s + 5))


def test_p_2_never_becomes_3() -> None:
    drive = one_node(grace_s=0, limits=LIMITS)
    drive.ends(TE)
    for trial, at_s in ((20, 0.0), (21, 100.0)):
        preempted(drive, trial, at_s)
        look_without(drive, BE, at_s + 10)
    assert (by_job(drive.memory, "preemptions"), drive.jobs[JobId(BE)].restarts) == ({BE: 2}, 2)
    drive.jobs[JobId(22)] = waiting(22, cpus=32)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(22): drive.start.traits[JobId(TE)]})
    drive.cycle(200)
    assert drive.why_not(22) is RefusalCode.NO_VICTIM
    assert not any(isinstance(action, Requeue) for action in drive.decision.actions)


def test_its_cool_down_and_its_past_are_kept() -> None:
    drive = one_node(grace_s=0, limits=LIMITS)
    drive.ends(TE)
    preempted(drive, 20, 0)
    before = drive.memory.job(JobId(BE))
    look_without(drive, BE, 10)
    after = drive.memory.job(JobId(BE))
    assert before.last_preempted is not None
    assert (after.last_preempted, after.past) == (before.last_preempted, before.past)


def test_after_minjobage_slurm_has_forgotten_it_and_so_does_tesched() -> None:
    drive = one_node(grace_s=0, limits=LIMITS)
    drive.ends(TE)
    preempted(drive, 20, 0)
    drive.forgets(BE)
    drive.cycle(10)
    drive.cycle(309)
    assert by_job(drive.memory, "preemptions") == {BE: 1}
    drive.cycle(310)
    assert drive.memory.jobs == {}


def test_a_victim_that_is_missing_in_its_grace_period_is_neither_gone_nor_noticed_again() -> None:
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    look_without(drive, BE, 2)
    assert (drive.victim().state, drive.victim().noticed_at) == (VictimState.NOTICED, NOW)
    assert drive.cycle(4) == ()
    (gone,) = drive.cycle(30)
    assert isinstance(gone, Requeue)


@pytest.mark.parametrize("at_s", [2.0, 31.0])
def test_while_the_te_job_is_missing_no_victim_is_requeued_for_it(at_s: float) -> None:
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    look_without(drive, TE, at_s)
    assert drive.decision.actions == ()
    assert drive.order().state is OrderState.OPEN


def test_a_priority_that_is_to_be_put_back_is_put_back_when_the_job_is_seen_again() -> None:
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    drive.requeued(BE)
    drive.starts(TE, HALF, at_s=5)
    drive.cycle(6)
    look_without(drive, TE, 8)
    assert drive.cycle(10) == (nice_back(0, now=-1001),)


def test_a_binding_is_remembered() -> None:
    jobs = [running(BE, share("n1", 32)), waiting(TE, cpus=16)]
    drive = Driver([node("n1")], jobs, graces={BE: 100}, binds=True)
    drive.obeys(*drive.cycle(0))
    look_without(drive, TE, 2)
    assert set(drive.memory.changes_of(Field.NODES)) == {TE}
    drive.nodes["n1"] = node("n9")
    del drive.nodes["n1"]
    drive.cycle(4)
    assert [nodes.names for _, nodes in nodes_set(drive.decision.actions)] == [()]


def test_a_job_that_is_seen_to_have_ended_is_gone_at_once() -> None:
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    drive.ends(BE, JobState.CANCELLED)
    drive.cycle(2)
    assert drive.victim().state is VictimState.LEFT
    drive.ends(TE, JobState.CANCELLED)
    drive.cycle(4)
    assert drive.order().state is OrderState.ENDED
    assert not any(sets(action, Field.NICE) for action in drive.decision.actions)


def test_of_a_record_that_could_not_be_read_nothing_is_concluded_and_nothing_is_done_for_it() -> None:
    drive = one_node()
    drive.obeys(*drive.cycle(0))
    for job_id in (BE, TE):
        read = drive.jobs[JobId(job_id)]
        drive.jobs[read.job_id] = replace(read, doubt="its record could not be read", priority=0)
        assert drive.cycle(31) == ()
        drive.jobs[read.job_id] = read
    assert drive.order().state is OrderState.OPEN
    (gone,) = drive.cycle(32)
    assert isinstance(gone, Requeue)


def test_a_job_that_is_remembered_for_its_absence_alone_is_forgotten() -> None:
    drive = one_node(grace_s=0, limits=LIMITS)
    gone, shadowed, counted = JobId(50), JobId(51), JobId(52)
    since, until = JobMemory(missing_since=NOW - 1), JobMemory(shadowed_until=NOW + 1000)
    drive.memory = Memory(jobs={gone: since, shadowed: until, counted: JobMemory(preemptions=1, missing_since=NOW - 1)})
    drive.cycle(0)
    assert (drive.memory.job(gone), drive.memory.job(shadowed)) == (JobMemory(), until)
    assert drive.memory.job(counted) == JobMemory(preemptions=1, missing_since=NOW - 1)
