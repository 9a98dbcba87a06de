"""A TE job that the submission hook holds: the daemon takes the hold over, and releases the job once it is admitted."""

from __future__ import annotations

import pytest
from tesched_core.fields.hold import HOLD_RULE
from tesched_core.model.actions import Action, FailureKind, SetField, Status, holds, kind_of
from tesched_core.model.cluster import Job
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field, HoldState
from tesched_core.model.hook import HOOK_MARK
from tesched_core.model.job_memory import Past
from tesched_core.model.limits import Bound, Limits, TeLimits
from tesched_core.model.resources import JobId
from tesched_core.orders.undo import undo

from tests.builders import NOW, node, remembered, running, share, waiting
from tests.scenarios.driver import BE, TE, Driver

BE_WAITS, SECOND = 5, 10
BOUNDED = Limits(bound=Bound(slowdown=3, te_time_limit_s=60), max_preemptions_per_job=0)


def held(job_id: int, *, reason: str = "JobHeldUser", mark: str = HOOK_MARK, restarts: int = 0) -> Job:
    """Return a TE job that waits for its release."""
    return waiting(
        job_id,
        cpus=16,
        priority=0,
        reason=reason,
        admin_comment=mark,
        restarts=restarts,
        user="te",
        time_limit_s=60,
    )


def past(delayed_s: float) -> Past:
    """Past of the waiting BE job that has been delayed for so long."""
    return Past(submitted_at=NOW - 10, ran_s=0.0, delayed_s=delayed_s)


def site(*jobs: Job, delayed_s: float = 0.0, limits: Limits = BOUNDED) -> Driver:
    """Return a full node, and a BE job that waits for it and has been delayed for so long."""
    be = waiting(BE_WAITS, cpus=32, user="be")
    drive = Driver(
        [node("n1")], [running(BE, share("n1", 32), user="be"), be, *jobs], limits=limits, run_times={BE_WAITS: 10}
    )
    drive.requeue_delay_s = 1
    drive.memory = remembered(drive.memory, BE_WAITS, past=past(delayed_s))
    return drive


def of(job_id: int, actions: tuple[Action, ...]) -> list[str]:
    """Return the kinds of the actions on one job."""
    return [kind_of(action) for action in actions if action.job_id == job_id]


#: more than a job of 10 s may be delayed by
TOO_LONG_S = 1000.0


def test_its_mark_may_stand_behind_a_text_of_the_sites() -> None:
    assert of(TE, site(held(TE, mark=f"of the site; {HOOK_MARK}")).cycle(0)) == ["release"]


@pytest.mark.parametrize("limits", [BOUNDED, Limits(max_preemptions_per_job=0)], ids=["bound", "no bound any more"])
def test_one_that_is_admitted_is_released_and_explained(limits: Limits) -> None:
    drive = site(held(TE), limits=limits)
    actions = drive.cycle(0)
    assert of(TE, actions) == ["release"]
    assert drive.why_not(TE) is RefusalCode.HELD
    assert next(one.text for one in drive.decision.refusals if one.job_id == TE) == (
        "it is admitted, and is being released"
    )
    drive.obeys(*(action for action in actions if action.job_id == TE))
    drive.change(TE, admin_comment="")
    drive.cycle(1)
    assert JobId(TE) not in drive.memory.changes_of(Field.HOLD)


def test_one_that_must_wait_is_held_as_by_an_operator_once() -> None:
    drive = site(held(TE), delayed_s=TOO_LONG_S)
    actions = drive.cycle(0)
    assert of(TE, actions) == ["hold"]
    assert drive.why_not(TE) is RefusalCode.BOUND
    assert [one.behind for one in drive.decision.refusals if one.job_id == TE] == [str(BE_WAITS)]
    drive.obeys(*actions)
    assert of(TE, drive.cycle(1)) == []
    # The BE job has run: nothing waits that TE jobs have delayed.
    drive.forgets(BE_WAITS)
    assert of(TE, drive.cycle(2)) == ["release"]


def test_a_hold_that_does_not_arrive_is_sent_again_after_a_while() -> None:
    drive = site(held(TE), delayed_s=TOO_LONG_S)
    assert of(TE, drive.cycle(0)) == ["hold"]
    assert of(TE, drive.cycle(1)) == []
    assert of(TE, drive.cycle(10)) == ["hold"]


def test_one_that_is_no_te_job_is_released() -> None:
    drive = site(held(TE), delayed_s=TOO_LONG_S)
    drive.start = drive.start.with_traits({**drive.start.traits, JobId(TE): drive.start.traits[JobId(BE_WAITS)]})
    assert of(TE, drive.cycle(0)) == ["release"]


@pytest.mark.parametrize(
    "job",
    [
        held(TE, mark=""),
        held(TE, mark="", reason="JobHeldAdmin"),
        held(TE, mark="of the site"),
        # It ran since: what holds it now is another one.
        held(TE, restarts=1),
    ],
    ids=["its user's", "an admin's", "another text", "after a run"],
)
@pytest.mark.parametrize("delayed_s", [0.0, TOO_LONG_S])
def test_a_hold_of_another_is_left(job: Job, delayed_s: float) -> None:
    drive = site(job, delayed_s=delayed_s)
    assert of(TE, drive.cycle(0)) == []
    assert HOLD_RULE.outstanding(drive.memory, drive.snapshot(0)) == 0
    assert of(TE, undo(drive.memory, drive.snapshot(1), drive.limits)[1].actions) == []


def test_where_the_mark_stays_a_later_hold_is_its_user_s_own() -> None:
    drive = site(held(TE))
    drive.obeys(*(action for action in drive.cycle(0) if action.job_id == TE))
    drive.cycle(1)
    assert HOLD_RULE.outstanding(drive.memory, drive.snapshot(1)) == 0
    drive.change(TE, priority=0, reason="JobHeldUser")
    assert of(TE, drive.cycle(2)) == []
    # It can be held again by tesched itself.
    drive.change(TE, priority=100, reason="Resources")
    drive.memory = remembered(drive.memory, BE_WAITS, past=past(TOO_LONG_S))
    actions = drive.cycle(3)
    assert of(TE, actions) == ["hold"]
    drive.obeys(*actions)
    drive.forgets(BE_WAITS)
    assert of(TE, drive.cycle(4)) == ["release"]


def test_the_mark_of_one_that_its_user_has_released_is_removed_and_nothing_else() -> None:
    drive = site(held(TE))
    drive.change(TE, priority=100, reason="Resources")
    (removal,) = (action for action in drive.cycle(0) if action.job_id == TE)
    assert isinstance(removal, SetField)
    assert removal.value is HoldState.UNMARKED
    # It does not go; it is tried again, for a while, and by undo.
    assert of(TE, drive.cycle(1)) == []
    assert of(TE, drive.cycle(6)) == ["release"]
    assert of(TE, drive.cycle(30)) == []
    assert of(TE, undo(drive.memory, drive.snapshot(31), drive.limits)[1].actions) == ["release"]
    # What its user holds by now stays held.
    drive.change(TE, priority=0, reason="JobHeldUser")
    assert of(TE, drive.cycle(40)) == []
    assert of(TE, undo(drive.memory, drive.snapshot(41), drive.limits)[1].actions) == []


def test_undo_releases_all_of_them_and_has_nothing_left() -> None:
    drive = site(held(TE), held(SECOND, reason="JobHeldAdmin"), delayed_s=TOO_LONG_S)
    memory, decision = undo(drive.memory, drive.snapshot(0), drive.limits)
    assert [of(job_id, decision.actions) for job_id in (TE, SECOND)] == [["release"], ["release"]]
    assert HOLD_RULE.outstanding(memory, drive.snapshot(0)) == 2
    drive.obeys(*decision.actions)
    memory, decision = undo(memory, drive.snapshot(1), drive.limits)
    assert HOLD_RULE.outstanding(memory, drive.snapshot(1)) == 0


def test_te_jobs_that_are_free_are_held_before_those_that_the_hook_holds() -> None:
    drive = site(held(TE), waiting(SECOND, cpus=16, user="te", time_limit_s=60), delayed_s=TOO_LONG_S)
    held_ids = [action.job_id for action in drive.cycle(0) if holds(action)]
    assert held_ids == [SECOND, TE]


def test_of_many_that_came_at_once_only_those_within_the_limits_are_released() -> None:
    limits = Limits(te=TeLimits(max_running_per_user=1), max_preemptions_per_job=0)
    drive = site(held(TE), held(SECOND), limits=limits)
    actions = drive.cycle(0)
    assert (of(TE, actions), of(SECOND, actions)) == (["release"], ["hold"])


def test_one_that_is_its_user_s_own_hold_by_now_is_left_to_the_user() -> None:
    drive = site(waiting(TE, cpus=16, user="te", time_limit_s=60), delayed_s=TOO_LONG_S)
    drive.obeys(*drive.cycle(0))
    drive.change(TE, reason="JobHeldUser")
    drive.forgets(BE_WAITS)
    assert of(TE, drive.cycle(1)) == []
    assert HOLD_RULE.outstanding(drive.memory, drive.snapshot(1)) == 0


def test_a_hold_that_its_user_sets_first_is_not_made_an_operators() -> None:
    te = waiting(TE, cpus=16, user="te", time_limit_s=60)
    drive = site(te, delayed_s=TOO_LONG_S)
    assert of(TE, drive.cycle(0)) == ["hold"]
    drive.says(Status.FAILED, *drive.decision.actions, kind=FailureKind.ALREADY_DONE, words="job 9 is held by now")
    drive.change(TE, priority=0, reason="JobHeldUser")
    for at_s in (2, 10, 30):
        assert of(TE, drive.cycle(at_s)) == []
    drive.change(TE, priority=100, reason="Priority")  # by its user
    assert of(TE, drive.cycle(32)) == ["hold"]
