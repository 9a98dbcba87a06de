"""One nice value with two wants: a job at the head of its queue becomes a preemptor, and is put back to its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tesched_core.model.actions import sets
from tesched_core.model.field import Field
from tesched_core.model.limits import TurnLimits
from tesched_core.model.order import Departure
from tesched_core.model.resources import JobId
from tesched_core.policy import BoostJob, ChosenVictim, Intent, MakeRoom, Policy, Proposal, View

from tests.builders import node, running, share, waiting
from tests.scenarios.driver import Driver

RUNS, MOVES, FIRST = 1, 2, 3


@dataclass(frozen=True, kw_only=True)
class Wants(Policy[None]):
    """Propose what a test says."""

    name: ClassVar[str] = "wants"
    intents: tuple[Intent, ...] = ()

    @property
    def turn_limits(self) -> TurnLimits:
        return TurnLimits()

    def propose(self, view: View, state: None) -> Proposal[None]:
        return Proposal(intents=self.intents)


BOOST = BoostJob(job_id=JobId(MOVES), why="it is next", stays=True)
TURN = MakeRoom(preemptor=JobId(MOVES), nodes=("n1",), victims=(ChosenVictim(job_id=JobId(RUNS)),))


def boosted() -> Driver:
    """Return the case right after a waiting best-effort job was put at the head of its queue."""
    jobs = [running(RUNS, share("n1", 32)), waiting(MOVES, cpus=32), waiting(FIRST, cpus=32, priority=700)]
    known = {RUNS: 60.0, MOVES: 60.0, FIRST: 60.0}
    drive = Driver([node("n1")], jobs, best_effort=Wants(intents=(BOOST,)), run_times=known)
    drive.obeys(*drive.cycle(0))
    assert drive.jobs[JobId(MOVES)].nice < 0
    return drive


def test_a_boosted_job_that_becomes_a_preemptor_has_its_own_nice_value_when_both_are_over() -> None:
    drive = boosted()
    drive.best_effort = Wants(intents=(BOOST, TURN))
    drive.obeys(*drive.cycle(2))
    drive.change(FIRST, priority=5000)
    drive.obeys(*drive.cycle(4))
    drive.requeued(RUNS)
    drive.obeys(*drive.cycle(6))
    drive.starts(MOVES, share("n1", 32), at_s=7)
    drive.best_effort = Wants()
    for at_s in (8, 10, 12, 130):
        drive.obeys(*drive.cycle(at_s))
    assert drive.jobs[JobId(MOVES)].nice == 0
    assert JobId(MOVES) not in drive.memory.changes_of(Field.NICE)


def test_what_a_turn_takes_a_victim_from_is_no_preemption_by_a_te_job() -> None:
    jobs = [running(RUNS, share("n1", 32), user="ada"), waiting(MOVES, cpus=32, user="bob")]
    turn = Wants(intents=(TURN,))
    drive = Driver([node("n1")], jobs, best_effort=turn, run_times={RUNS: 60.0, MOVES: 60.0})
    drive.obeys(*drive.cycle(0))
    drive.requeued(RUNS)
    drive.best_effort = Wants()
    drive.starts(MOVES, share("n1", 32), at_s=3)
    drive.obeys(*drive.cycle(4))
    assert drive.victim(RUNS).departure is Departure.REQUEUED_ITSELF
    assert not drive.memory.job(JobId(RUNS)).preemptions
    assert [one.job_id for one in drive.memory.paid] == [RUNS]


def test_a_job_that_is_boosted_twice_in_one_poll_gets_one_command() -> None:
    jobs = [running(RUNS, share("n1", 32)), waiting(MOVES, cpus=32), waiting(FIRST, cpus=32, priority=700)]
    twice = Wants(intents=(BOOST, replace(BOOST, why="TE jobs wait for it", is_due=True)))
    drive = Driver([node("n1")], jobs, best_effort=twice, run_times={RUNS: 60.0, MOVES: 60.0, FIRST: 60.0})
    sent = drive.cycle(0)
    assert [action.job_id for action in sent] == [MOVES]
    drive.obeys(*sent)
    assert drive.jobs[JobId(MOVES)].nice < 0


def test_a_held_job_is_put_at_the_head_once_it_is_released() -> None:
    jobs = [
        running(RUNS, share("n1", 32)),
        waiting(MOVES, priority=0, reason="JobHeldUser"),
        waiting(FIRST, priority=700),
    ]
    known = {RUNS: 60.0, MOVES: 60.0, FIRST: 60.0}
    drive = Driver([node("n1")], jobs, best_effort=Wants(intents=(BOOST,)), run_times=known)
    assert drive.cycle(0) == ()
    drive.change(MOVES, priority=90, reason="Priority")
    (action,) = drive.cycle(10)
    assert sets(action, Field.NICE)
    assert action.job_id == MOVES


def test_a_task_that_leaves_a_boosted_array_has_its_own_nice_value_again_too() -> None:
    jobs = [running(RUNS, share("n1", 32)), waiting(MOVES, cpus=32), waiting(FIRST, cpus=32, priority=700)]
    known = {RUNS: 60.0, MOVES: 60.0, FIRST: 60.0}
    drive = Driver([node("n1")], jobs, best_effort=Wants(intents=(BOOST,)), run_times=known)
    drive.change(MOVES, array_job_id=JobId(MOVES), array_tasks="0-9")
    drive.obeys(*drive.cycle(0))
    boost = drive.jobs[JobId(MOVES)].nice
    assert boost < 0
    # Its user changes one of its tasks, and has set another's nice value.
    for job_id, nice in ((20, boost), (21, 7)):
        task = replace(drive.jobs[JobId(MOVES)], job_id=JobId(job_id), array_tasks="", array_task_id=job_id, nice=nice)
        drive.submits(task, like=MOVES)
    drive.best_effort = Wants()
    for at_s in (130, 135):
        drive.obeys(*drive.cycle(at_s))
    assert {job_id: drive.jobs[JobId(job_id)].nice for job_id in (MOVES, 20, 21)} == {MOVES: 0, 20: 0, 21: 7}
    assert JobId(MOVES) not in drive.memory.changes_of(Field.NICE)


def test_a_task_that_leaves_a_boosted_array_and_becomes_a_preemptor_has_its_own_nice_value_again() -> None:
    jobs = [running(RUNS, share("n1", 32)), waiting(MOVES, cpus=32), waiting(FIRST, cpus=32, priority=700)]
    known = {RUNS: 60.0, MOVES: 60.0, FIRST: 60.0, 20: 60.0}
    drive = Driver([node("n1")], jobs, best_effort=Wants(intents=(BOOST,)), run_times=known)
    drive.change(MOVES, array_job_id=JobId(MOVES), array_tasks="0-9")
    drive.obeys(*drive.cycle(0))
    task = replace(drive.jobs[JobId(MOVES)], job_id=JobId(20), array_tasks="", array_task_id=3)
    drive.submits(task, like=MOVES)
    drive.change(FIRST, priority=5000)
    drive.best_effort = Wants(intents=(BOOST, replace(TURN, preemptor=JobId(20))))
    drive.obeys(*drive.cycle(2))
    assert drive.jobs[JobId(20)].nice < drive.jobs[JobId(MOVES)].nice < 0
    # The array's boost is over before the task runs.
    drive.best_effort = Wants(intents=(replace(TURN, preemptor=JobId(20)),))
    for at_s in (124, 128):
        drive.obeys(*drive.cycle(at_s))
    assert drive.jobs[JobId(MOVES)].nice == 0
    drive.starts(20, share("n1", 32), at_s=129)
    drive.best_effort = Wants()
    for at_s in (130, 135, 260, 265):
        drive.obeys(*drive.cycle(at_s))
    assert drive.jobs[JobId(20)].nice == 0
