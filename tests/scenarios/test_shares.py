"""SLAQ's shares with Slurm's throttles, by hand: the workers of each array, what is put back, and what is left alone.

Everywhere: one node of 8 CPUs; arrays 10 and 20 have workers of 2 CPUs, of which two each run at first; an allocation
every 30 s; an iteration takes 15 CPU-seconds, so a worker does 4 in that time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from tesched_core.model.actions import Action, FailureKind, Status, kind_of, sets
from tesched_core.model.cluster import Job, Request
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field, FieldValue
from tesched_core.model.job_report import Curve, Reported
from tesched_core.model.limits import Limits
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.orders.undo import undo
from tesched_core.policy import MakeRoom
from tesched_core.step import step
from tesched_policies.fitgpp import FitGpp, gains
from tesched_policies.slaq.policy import Slaq

from tests.builders import NOW, cluster, node, running, share, view_of, waiting
from tests.scenarios.driver import Driver

TWO = Request(cpus=2, mem_per_node_mib=1)
EARLY, LATE, ALONE, OTHER, TRIAL = 10, 20, 30, 31, 99


def curve(iterations: int, at_s: float, *, per: float = 1.0) -> Curve:
    """Return losses that halve every four iterations, reported evenly in time up to `at_s`; `per` is their unit."""
    k = np.arange(iterations + 1, dtype=np.float64)
    at = NOW + at_s - (iterations - k)
    return Curve.of(np.stack([k, per * 2 ** (-k / 4), at, np.full_like(k, np.nan)], axis=1))


def worker(array: int, task: int, throttle: int = 0) -> Job:
    job = running(array + task, share("n1", 2, 1), array_job_id=JobId(array), array_task_id=task, start_time=NOW)
    return replace(job, request=TWO, array_throttle=throttle)


def array(job_id: int, *, throttle: int = 0) -> Job:
    head = waiting(job_id, TWO, array_job_id=JobId(job_id), array_tasks="3-99", submit_time=NOW - 50 + job_id)
    return replace(head, array_throttle=throttle, reason="JobArrayTaskLimit" if throttle else "Resources")


class Site(Driver):
    """The node, with what the trainings have reported."""

    def __init__(self, *jobs: Job, slaq: Slaq | None = None, limits: Limits | None = None) -> None:
        mine = {int(job.job_id): 3600.0 for job in jobs if job.job_id != TRIAL}
        super().__init__([node("n1", cpus=8)], jobs, best_effort=slaq or Slaq(), run_times=mine, limits=limits)
        traits = self.start.traits
        elastic = {job.job_id: replace(traits[job.job_id], elastic=True) for job in jobs if job.array_job_id}
        self.start = self.start.with_traits({**traits, **elastic})
        self.told: dict[int, Curve] = {}
        self.alone: dict[int, Curve] = {}

    def snapshot(self, at_s: float) -> Snapshot:
        def reported(curves: Mapping[int, Curve]) -> dict[JobId, Reported]:
            return {JobId(job_id): Reported(curve=one) for job_id, one in curves.items()}

        return replace(super().snapshot(at_s), reported_by_array=reported(self.told), reported=reported(self.alone))

    def tells(self, at_s: float, **iterations: int) -> None:
        """Let the early and the late training report their losses up to these iterations."""
        for name, count in iterations.items():
            self.told[{"early": EARLY, "late": LATE}[name]] = curve(count, at_s)


def two_arrays(*more: Job, throttle: int = 0, slaq: Slaq | None = None, limits: Limits | None = None) -> Site:
    workers = [worker(each, task, throttle if each == EARLY else 0) for each in (EARLY, LATE) for task in (1, 2)]
    return Site(array(EARLY, throttle=throttle), array(LATE), *workers, *more, slaq=slaq, limits=limits)


def throttles(actions: tuple[Action, ...]) -> dict[int, tuple[FieldValue, FieldValue]]:
    """Return each throttle that is set: what it was, and what it becomes."""
    return {int(action.job_id): (action.previous, action.value) for action in actions if sets(action, Field.THROTTLE)}


def grown(site: Site) -> tuple[Action, ...]:
    """Go on to the second allocation, by which both trainings have done 8 iterations; return what is done then."""
    site.tells(0, early=8, late=40)
    site.obeys(*site.cycle(0))
    site.tells(30, early=16, late=48)
    return site.cycle(30)


def test_a_training_that_still_gains_gets_the_workers_of_one_that_is_nearly_done() -> None:
    site = two_arrays()
    site.tells(0, early=8, late=40)
    first = site.cycle(0)
    assert throttles(first) == {EARLY: (0, 2), LATE: (0, 2)}, "what an iteration costs is not known yet: equal shares"
    site.obeys(*first)
    assert site.cycle(15) == ()
    site.tells(30, early=16, late=48)
    second = site.cycle(30)
    assert throttles(second) == {EARLY: (2, 3), LATE: (2, 1)}
    (text,) = {one.text for one in site.decision.refusals if one.job_id == EARLY and one.code is RefusalCode.NOTE}
    assert "its share is 3 of the workers that 8 CPUs hold" in text
    assert "15 CPU-seconds each" in text
    # From 2^-4 on, 3 workers do 12 iterations: to 2^-7.
    assert f"fall by {2**-4 - 2**-7:.3g}" in text


def test_what_was_foretold_is_held_against_what_came() -> None:
    site = two_arrays()
    site.obeys(*grown(site))
    site.tells(60, early=28, late=52)
    site.cycle(60)
    (text,) = {one.text for one in site.decision.refusals if one.job_id == EARLY}
    fell = (2**-4 - 2**-7) / (1 - 2**-0.25)
    assert f"it gained {fell:.2f}, {fell:.2f} was foretold" in text


def test_a_change_below_the_smallest_step_is_not_made() -> None:
    site = two_arrays(slaq=Slaq(throttle_step=2))
    assert grown(site) == ()


def test_an_array_is_left_alone_for_its_cool_down() -> None:
    site = two_arrays(slaq=Slaq(throttle_cool_down_s=45))
    assert grown(site) == ()
    assert throttles(site.cycle(45)) == {EARLY: (2, 3), LATE: (2, 1)}


def test_an_epoch_that_is_shorter_by_now_ends_sooner() -> None:
    site = two_arrays(slaq=Slaq(epoch_s=3600))
    site.tells(0, early=8, late=40)
    site.obeys(*site.cycle(0))
    site.tells(30, early=16, late=48)
    assert site.cycle(30) == ()
    site.best_effort = Slaq()
    site.cycle(31)
    assert site.state("slaq").allocated_at == NOW + 31
    assert throttles(site.decision.actions) == {EARLY: (2, 3), LATE: (2, 1)}


def test_a_limit_of_its_own_is_never_exceeded() -> None:
    site = two_arrays(throttle=2)
    assert grown(site) == (), "the early one may not have a third, so the late one keeps its second"
    assert [site.jobs[JobId(job_id)].array_throttle for job_id in (EARLY, LATE)] == [2, 2]


def test_an_array_that_comes_is_given_its_share_at_once() -> None:
    site = Site(array(EARLY), *(worker(EARLY, task) for task in (1, 2, 3, 4)))
    site.obeys(*site.cycle(0))
    assert site.jobs[JobId(EARLY)].array_throttle == 4
    late = array(LATE)
    site.jobs[late.job_id] = late
    site.start = site.start.with_traits({**site.start.traits, late.job_id: site.start.traits[JobId(EARLY)]})
    assert throttles(site.cycle(10)) == {LATE: (0, 2)}, "the other one has its cool-down"
    site.obeys(*site.decision.actions)
    assert throttles(site.cycle(31)) == {EARLY: (4, 2)}


def test_its_own_limit_is_back_when_none_of_its_tasks_waits() -> None:
    site = two_arrays(throttle=7)
    site.obeys(*grown(site))
    site.starts(EARLY, share("n1", 2, 1), at_s=40)
    site.change(EARLY, array_tasks="", array_task_id=99)
    assert throttles(site.cycle(41))[EARLY] == (3, 7)
    site.obeys(*site.decision.actions)
    assert EARLY not in throttles(site.cycle(42))
    assert JobId(EARLY) not in site.memory.changes_of(Field.THROTTLE)


def test_a_task_that_was_put_back_in_the_queue_still_has_a_share() -> None:
    site = two_arrays(throttle=7)
    site.obeys(*grown(site))
    for job_id in (EARLY, EARLY + 1, LATE + 1, LATE + 2):
        site.ends(job_id)
    site.requeued(EARLY + 2)
    assert throttles(site.cycle(61))[EARLY] == (3, 1), "the array's id is that of a task that has ended"
    site.obeys(*site.decision.actions)
    site.starts(EARLY + 2, share("n1", 2, 1), at_s=70)
    assert throttles(site.cycle(71))[EARLY] == (1, 7)


def test_a_throttle_that_another_user_sets_is_the_limit_from_then_on() -> None:
    site = two_arrays()
    site.obeys(*grown(site))
    site.throttled(EARLY, 1)
    assert EARLY not in throttles(site.cycle(60))
    site.memory, site.decision = undo(site.memory, site.snapshot(61), site.limits)
    assert throttles(site.decision.actions) == {LATE: (1, 0)}


def test_a_limit_that_is_set_between_two_allocations_is_kept_at_once() -> None:
    # The share is 3 until 60 s; what the user lets the array have is 1, and later 2 of those 3.
    site = two_arrays()
    site.obeys(*grown(site))
    for at_s, limit in ((40, 1), (50, 2)):
        site.throttled(EARLY, limit)
        assert EARLY not in throttles(site.cycle(at_s))
    assert site.jobs[JobId(EARLY)].array_throttle == 2


def test_a_throttle_that_did_not_arrive_is_set_at_the_next_chance() -> None:
    site = two_arrays()
    site.obeys(*(action for action in grown(site) if action.job_id != EARLY))
    assert site.cycle(33) == ()
    assert throttles(site.cycle(60)) == {EARLY: (2, 3)}
    site.obeys(*site.decision.actions)
    site.memory, site.decision = undo(site.memory, site.snapshot(61), site.limits)
    assert throttles(site.decision.actions) == {EARLY: (3, 0), LATE: (1, 0)}


def test_an_array_that_refuses_is_not_throttled_at_each_poll() -> None:
    site = two_arrays()
    actions = site.cycle(0)
    site.says(Status.FAILED, *actions, kind=FailureKind.DENIED)
    assert site.cycle(1) == ()
    assert site.cycle(31) == ()
    assert set(throttles(site.cycle(61))) == {EARLY, LATE}
    site.says(Status.FAILED, *site.decision.actions, kind=FailureKind.DENIED)
    site.memory, site.decision = undo(site.memory, site.snapshot(62), site.limits)
    assert (site.decision.actions, site.memory.changes_of(Field.THROTTLE)) == ((), {})


def test_shadow_mode_says_it_once_and_leaves_nothing_to_put_back() -> None:
    site = two_arrays()
    site.says(Status.WOULD, *site.cycle(0))
    assert site.cycle(31) == ()
    site.memory, site.decision = undo(site.memory, site.snapshot(32), site.limits)
    assert (site.decision.actions, site.memory.changes_of(Field.THROTTLE)) == ((), {})


def test_what_was_set_before_shadow_mode_is_not_forgotten_in_it() -> None:
    site = two_arrays()
    site.says(Status.WOULD, *grown(site))
    site.memory, site.decision = undo(site.memory, site.snapshot(61), site.limits)
    assert throttles(site.decision.actions) == {EARLY: (2, 0), LATE: (2, 0)}


@pytest.mark.parametrize("how", ["undo", "another policy"])
def test_everything_is_put_back(how: str) -> None:
    site = two_arrays(throttle=5)
    site.obeys(*grown(site))

    def again(at_s: float) -> tuple[Action, ...]:
        if how == "undo":
            site.memory, site.decision = undo(site.memory, site.snapshot(at_s), site.limits)
        else:
            site.best_effort = None
            site.cycle(at_s)
        return site.decision.actions

    assert throttles(again(40)) == {EARLY: (3, 5), LATE: (1, 0)}
    assert throttles(again(41)) == {EARLY: (3, 5), LATE: (1, 0)}, "until it is seen"
    site.obeys(*site.decision.actions)
    assert again(42) == ()
    assert site.memory.changes_of(Field.THROTTLE) == {}


def test_while_it_is_paused_throttles_stay_as_they_are() -> None:
    site = two_arrays()
    site.tells(0, early=8, late=40)
    site.obeys(*site.cycle(0))
    site.tells(30, early=16, late=48)
    _, decision = step(site.memory, site.snapshot(30), site.entries(), site.limits, paused="by root")
    assert decision.actions == ()


def test_resources_that_are_reserved_for_a_trial_are_not_shared() -> None:
    site = two_arrays(waiting(TRIAL, Request(cpus=4, mem_per_node_mib=1)), slaq=Slaq())
    for task in (2, 1):
        site.ends(LATE + task)
    site.obeys(*site.cycle(0))
    assert site.jobs[JobId(EARLY)].array_throttle + site.jobs[JobId(LATE)].array_throttle == 2


def test_a_protected_users_array_and_one_that_is_not_elastic_are_left_alone() -> None:
    limits = Limits(protected_users=("chief",))
    site = two_arrays(limits=limits)
    site.change(EARLY, user="chief")
    rigid = {JobId(LATE): replace(site.start.traits[JobId(LATE)], elastic=False)}
    site.start = site.start.with_traits({**site.start.traits, **rigid})
    assert site.cycle(0) == ()


def test_of_those_that_wait_the_one_that_gains_most_is_first_and_put_back_when_it_runs() -> None:
    jobs = [
        replace(running(job_id, share("n1", 2, 1), start_time=NOW - 100), request=TWO, nice=0)
        for job_id in (ALONE, OTHER)
    ]
    ahead = waiting(40, TWO, priority=500)
    site = Site(*jobs, ahead)
    site.alone = {ALONE: curve(8, 0), OTHER: curve(40, 0)}
    assert site.cycle(0) == ()
    site.alone = {ALONE: curve(12, 29), OTHER: curve(44, 29)}
    assert site.cycle(29) == ()
    for job_id in (ALONE, OTHER):
        site.requeued(job_id)
        site.change(job_id, reason="Priority", priority=100)
    actions = site.cycle(30)
    assert [(kind_of(action), action.job_id) for action in actions] == [("setnice", ALONE)]
    site.obeys(*actions)
    assert site.jobs[JobId(ALONE)].priority > 500
    assert site.cycle(200) == (), "however long it waits"
    # Another one would gain more now; it is left alone for the cool-down.
    site.alone[OTHER] = curve(45, 201, per=1000)
    assert site.cycle(231) == ()
    site.starts(ALONE, share("n1", 2, 1), at_s=240)
    (back,) = site.cycle(241)
    assert sets(back, Field.NICE)
    assert (back.job_id, back.value) == (ALONE, 0)


def test_the_one_that_gains_least_yields_with_a_weight_of_quality() -> None:
    snapshot = cluster([node("n1", cpus=8)], [running(job_id, share("n1", 2, 1)) for job_id in (1, 2, 3)])
    known = {JobId(1): 2.0, JobId(2): 0.5}
    trial = replace(view_of(snapshot), gains=known, waiting=(waiting(TRIAL, Request(cpus=4, mem_per_node_mib=1)),))

    def victims(policy: FitGpp) -> list[int]:
        plans = policy.propose(trial, None).plans
        return [job_id for plan in plans if isinstance(plan, MakeRoom) for job_id in plan.victim_ids]

    assert victims(FitGpp()) == [1], "alike but for their ids"
    assert victims(FitGpp(quality=1.0)) == [2]
    # For a job of which nothing is known, the mean: (2 + 0.5) / 2 of 2.
    assert gains(trial).tolist() == [1.0, 0.25, 0.625]


def test_what_mode_shadow_would_have_set_is_set_in_mode_enforce() -> None:
    site = two_arrays()
    site.says(Status.WOULD, *site.cycle(0))
    assert site.cycle(31) == ()
    site.memory = site.memory.without_dry_runs()
    assert set(throttles(site.cycle(62))) == {EARLY, LATE}
    assert site.memory.without_dry_runs() == site.memory, "what was sent is not forgotten"
