"""Findings of the fault test (`tests/properties/test_faults.py`), each as a plain sequence; none may come back.

One node. Job 1 fills it, has 4 s of grace and sits them out; job 2 is a trial that wants the node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tesched_core.model.resources import JobId
from tesched_policies.fitgpp import FitGpp
from tesched_testcluster.harness.faults.faulty_daemon import Fault, Port, What
from tesched_testcluster.harness.faults.faulty_site import LIMITS, Site
from tesched_testcluster.harness.faults.faulty_slurm import CPUS, MIN_JOB_AGE_S, Answer, Work

from tests.builders import by_job

VICTIM, TRIAL = JobId(1), JobId(2)


@pytest.fixture
def site() -> Iterator[Site]:
    """Give the site after the trial was submitted; no daemon has polled yet."""
    made = Site(
        nodes=1, limits=replace(LIMITS, retry_after_s=2, max_preemptions_per_job=1), policy=FitGpp(), best_effort=None
    )
    made.slurm.submit(Work(job_id=VICTIM, name="be", user="ada", cpus=CPUS, run_s=300, priority=100, grace_s=4))
    made.slurm.pass_time(30)
    made.slurm.submit(Work(job_id=TRIAL, name="te", user="bob", cpus=CPUS, run_s=30, priority=50))
    yield made
    made.close()


def turns(site: Site, count: int, faults: tuple[Fault, ...] = ()) -> None:
    """Let the daemon make turns, two seconds apart; the faults happen at the next call of their kind."""
    for place in range(count):
        site.turn("first", () if place else faults)
        site.slurm.pass_time(2)
        site.ledger.check()


def left_held(site: Site) -> Work:
    """Let the victim be suspended right before its requeue, and the release that belongs to it be lost."""
    turns(site, 2)
    turns(site, 1, (Fault(Port.ACT, What.LEFT_HELD),))
    victim = site.slurm.jobs[VICTIM]
    assert (victim.restarts, victim.held, victim.held_by_user) == (1, True, False)
    return victim


def test_a_victim_that_was_left_held_is_released_though_the_first_release_is_lost_and_the_daemon_dies(
    site: Site,
) -> None:
    victim = left_held(site)
    site.turn("first", (Fault(Port.ACT, What.DIES_BEFORE),))
    site.slurm.pass_time(20)
    turns(site, 2)
    assert not victim.held


def test_undo_releases_a_victim_that_was_left_held(site: Site) -> None:
    victim = left_held(site)
    assert site.undo()
    assert not victim.held


def test_undo_releases_it_when_the_daemon_has_seen_it_already(site: Site) -> None:
    victim = left_held(site)
    site.turn("first", (Fault(Port.ACT, What.DIES_BEFORE),))
    assert site.undo()
    assert not victim.held


def test_undo_is_followed_by_the_cool_down_of_the_victims_that_it_has_let_go(site: Site) -> None:
    turns(site, 1)
    assert site.ledger.noticed
    assert site.undo()
    turns(site, 3)
    assert len(site.ledger.noticed) == 1


def test_a_victim_has_the_cool_down_when_slurm_refuses_its_requeue(site: Site) -> None:
    turns(site, 2)
    turns(site, 1, (Fault(Port.ACT, What.REFUSED),))
    turns(site, 5)
    assert site.ledger.endings == {1: "refused"}
    assert len(site.ledger.noticed) == 1


def test_undo_counts_victims_that_have_left_and_were_not_seen_to_have(site: Site) -> None:
    turns(site, 2)
    turns(site, 1, (Fault(Port.ACT, What.DIES_AFTER),))
    assert site.slurm.jobs[VICTIM].restarts == 1
    assert site.undo()
    memory = site.start("first").journal.load()
    assert by_job(memory, "preemptions") == {VICTIM: 1}
    assert [paid.job_id for paid in memory.paid] == [VICTIM]


def test_undo_does_not_believe_an_answer_without_jobs(site: Site) -> None:
    turns(site, 1)
    trial = site.slurm.jobs[TRIAL]
    assert trial.nice < 0
    assert site.undo((Fault(Port.OBSERVE, What.NO_JOBS),))
    assert trial.nice == 0
    assert site.remembered() == []


def test_undo_believes_it_after_a_while(site: Site) -> None:
    turns(site, 1)
    site.slurm.jobs.clear()
    assert not site.undo()
    site.slurm.pass_time(MIN_JOB_AGE_S)
    assert site.undo()


def test_a_nice_value_that_a_user_sets_during_the_raise_of_a_trial_stays_in_the_end(site: Site) -> None:
    turns(site, 1)
    trial = site.slurm.jobs[TRIAL]
    assert trial.nice < 0
    trial.nice = trial.nice_wanted = 200
    turns(site, 10)
    assert trial.start_at is not None
    assert trial.nice == 200


def test_an_answer_without_jobs_after_a_restart_does_not_make_it_forget_earlier_victims(site: Site) -> None:
    site.slurm.jobs[VICTIM].answer = Answer.REQUEUES_ITSELF
    turns(site, 30)
    assert site.remembered() == []
    assert site.slurm.jobs[VICTIM].restarts == 1
    site.kill("first")
    turns(site, 1, (Fault(Port.OBSERVE, What.NO_JOBS),))
    site.slurm.submit(Work(job_id=JobId(3), name="te", user="bob", cpus=CPUS, run_s=30, priority=50))
    turns(site, 30)
    assert site.slurm.jobs[VICTIM].restarts == 1


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0])
def test_the_clock_is_set_and_the_store_does_not_say_that_it_has_written(site: Site, jump_s: float) -> None:
    turns(site, 1)
    site.jump(jump_s)
    site.turn("first", (Fault(Port.INTEND, What.WRITTEN_UNHEARD),))
    site.slurm.pass_time(1)
    site.turn("first")
    assert site.slurm.jobs[VICTIM].runs, "a second of its grace period is left"
    site.slurm.pass_time(1)
    turns(site, 4)
    assert site.slurm.jobs[VICTIM].restarts == 1, "its grace period is over"


def test_what_the_ledger_finds_inside_a_turn_is_not_taken_for_a_jobs_error(site: Site) -> None:
    # The loop sets a job aside whose data it can't work with, and goes on: that must not hide what the test found.
    site.ledger.limits = replace(LIMITS, max_open_orders=0)
    with pytest.raises(AssertionError) as found:
        turns(site, 1)
    assert "max_open_orders" in str(found.traceback[-1].statement)
