"""A TE job that is best effort by now, by its user's word or by new rules: no victim leaves for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import Requeue
from tesched_core.model.limits import Limits
from tesched_core.model.order import Ending, VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_policies.patient import Patient

from tests.builders import by_job, node, running, share, waiting
from tests.scenarios.driver import Driver

BE, TE = 1, 9
WHOLE = share("n1", 32)


def site(grace_s: int) -> Driver:
    victim = replace(running(BE, WHOLE), user="ada")
    trial = replace(waiting(TE, cpus=32), user="eve")
    return Driver([node("n1")], [victim, trial], graces={BE: grace_s}, on_trial=True, limits=Limits())


def says(drive: Driver, job_class: JobClass) -> None:
    """Give the TE job this class from now on."""
    traits = drive.start.traits
    drive.start = drive.start.with_traits({**traits, JobId(TE): replace(traits[JobId(TE)], job_class=job_class)})


def requeued(drive: Driver, at_s: float) -> list[JobId]:
    actions = drive.cycle(at_s)
    drive.obeys(*actions)
    return [one.job_id for one in actions if isinstance(one, Requeue)]


@pytest.mark.parametrize(("said", "ending"), [(JobClass.TE, None), (JobClass.BE, Ending.CHANGED)])
def test_its_victims_are_let_go(said: JobClass, ending: Ending | None) -> None:
    drive = site(grace_s=60)
    assert requeued(drive, 0) == []
    assert drive.order().victims[0].state is VictimState.NOTICED
    says(drive, said)
    assert requeued(drive, 5) == []
    assert drive.order().ending is ending
    assert requeued(drive, 61) == ([BE] if ending is None else [])


def test_it_keeps_no_place_in_which_it_waits_for_what_comes_free() -> None:
    jobs = [replace(running(BE, WHOLE), user="ada"), waiting(TE, cpus=32)]
    drive = Driver([node("n1")], jobs, graces={BE: 60.0}, policy=Patient(patience_s=120))
    drive.obeys(*drive.cycle(0))
    assert drive.order().waits
    says(drive, JobClass.BE)
    drive.cycle(5)
    assert drive.order().ending is Ending.CHANGED


def test_a_run_that_begins_as_best_effort_is_on_trial_all_the_same() -> None:
    drive = site(grace_s=0)
    assert requeued(drive, 0) == [BE]
    says(drive, JobClass.BE)
    drive.starts(TE, WHOLE, at_s=2)
    drive.cycle(3)
    assert drive.order().run_seen_at is not None
    drive.requeued(TE)
    says(drive, JobClass.TE)
    drive.starts(BE, WHOLE, at_s=4)
    assert requeued(drive, 6) == []
    assert drive.order().ending is Ending.NO_RUN
    assert by_job(drive.memory, "futile")[JobId(TE)].count == 1


def test_an_order_without_victims_ends_too() -> None:
    first = replace(waiting(8, cpus=32, priority=200), user="bob")
    drive = Driver([node("n1")], [first, replace(waiting(TE, cpus=32), user="eve")], run_times={8: 600})
    drive.obeys(*drive.cycle(0))
    assert drive.open_orders() == [1]
    assert drive.order().victims == ()
    says(drive, JobClass.BE)
    drive.cycle(5)
    assert drive.order().ending is Ending.CHANGED


def test_a_turn_without_victims_goes_on() -> None:
    first = replace(waiting(8, cpus=32, priority=200), user="bob")
    drive = Driver([node("n1")], [first, replace(waiting(TE, cpus=32), user="eve")], run_times={8: 600})
    drive.obeys(*drive.cycle(0))
    drive.turns(TE)
    drive.cycle(5)
    assert drive.order().ending is None
