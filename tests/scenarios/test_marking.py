"""guard.lever = "plugin": which jobs are marked for Slurm's plugin, and what goes with the marks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
from tesched_core.model.actions import FailureKind, MarkLine, SetMarks, Status
from tesched_core.model.cluster import JobState, PluginSettings, Request
from tesched_core.model.decision import RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.orders.undo import changed_still, undo
from tesched_core.policy import Policy, Proposal, View
from tesched_core.step import step
from tesched_policies.baselines import AtRandom, LongestRemaining, YoungestFirst
from tesched_policies.patient import Patient

from tests.builders import NOW, node, running, share, waiting
from tests.scenarios.driver import Driver

SMALL, LARGE, TE = 1, 2, 9


def site(**limits: Any) -> Driver:
    """Return two nodes with a small job and a large one."""
    jobs = [running(SMALL, share("n1", 8)), running(LARGE, share("n2", 32), user="bob")]
    return ordinary(Driver([node("n1"), node("n2")], jobs, limits=Limits(lever=YieldBy.PLUGIN, **limits)))


def ordinary(drive: Driver) -> Driver:
    """Return the cluster in which no job has declared a signal."""
    traits = {job_id: replace(one, notice_signal="") for job_id, one in drive.start.traits.items()}
    drive.start = drive.start.with_traits(traits)
    return drive


def marks(actions: tuple[Any, ...]) -> list[MarkLine]:
    """Return the lines of the file that is written, the first victim first."""
    (one,) = (action for action in actions if isinstance(action, SetMarks))
    return sorted(one.marks, key=lambda line: line.order)


def written(drive: Driver, at_s: float) -> list[int]:
    """Return the jobs that are marked in this cycle, first victim first; the file is written."""
    lines = marks(drive.cycle(at_s))
    drive.says(Status.SENT, *drive.decision.actions)
    return [line.job_id for line in lines]


def test_the_smallest_is_first_and_a_mark_is_for_one_run() -> None:
    drive = site()
    first, second = marks(drive.cycle(0))
    assert (first.job_id, second.job_id) == (SMALL, LARGE)
    assert (first.max_restarts, first.least_run_s) == (1, 60)
    assert first.after < drive.decision.at < first.until == drive.decision.at + 900


def test_it_is_written_when_it_changes_and_when_half_of_its_time_has_passed() -> None:
    drive = site()
    assert written(drive, 0) == [SMALL, LARGE]
    assert drive.cycle(2) == ()
    drive.ends(LARGE)
    assert written(drive, 4) == [SMALL]
    assert drive.cycle(400) == ()
    assert written(drive, 460) == [SMALL], "it is renewed"


def test_with_another_lever_all_marks_are_taken_away() -> None:
    drive = site()
    assert written(drive, 0) == [SMALL, LARGE]
    drive.limits = Limits(lever=YieldBy.REQUEUE)
    assert written(drive, 2) == []
    assert drive.cycle(600) == ()


def test_no_more_are_marked_than_the_limits_would_bear() -> None:
    assert written(site(max_preemptions_per_hour=1), 0) == [SMALL]
    assert site(max_preemptions_per_user_hour=0).cycle(0) == ()
    assert written(site(protected_users=("bob",)), 0) == [SMALL]
    assert site(max_lost_node_hours_per_day=0).cycle(0) == ()


@pytest.mark.parametrize("how", ["leaving", "put back"])
def test_no_job_is_marked_in_the_place_of_one_that_slurm_may_have_preempted(how: str) -> None:
    drive = site(max_preemptions_per_hour=1)
    assert written(drive, 0) == [SMALL]
    if how == "leaving":
        drive.change(SMALL, flags=frozenset({"COMPLETING"}))
    else:
        drive.requeued(SMALL)
    drive.cycle(2)
    assert JobId(LARGE) not in drive.memory.changes_of(Field.MARK)


def test_a_job_that_has_declared_a_signal_is_not_marked() -> None:
    drive = site()
    traits = dict(drive.start.traits)
    drive.start = drive.start.with_traits(traits | {JobId(SMALL): replace(traits[JobId(SMALL)], notice_signal="USR1")})
    assert written(drive, 0) == [LARGE]


@pytest.mark.parametrize("kind", [FailureKind.BUSY, FailureKind.REFUSED])
def test_a_file_that_was_not_written_is_written_at_the_next_poll(kind: FailureKind) -> None:
    drive = site()
    drive.says(Status.FAILED, *drive.cycle(0), kind=kind)
    assert written(drive, 2) == [SMALL, LARGE]


def test_a_pause_and_undo_take_all_marks_away() -> None:
    drive = site()
    written(drive, 0)
    _, decision = step(drive.memory, drive.snapshot(2), drive.entries(), drive.limits, paused="maintenance")
    assert marks(decision.actions) == []
    drive.memory, decision = undo(drive.memory, drive.snapshot(2), drive.limits)
    assert marks(decision.actions) == []
    assert changed_still(drive.memory, drive.snapshot(2)) > 0
    drive.says(Status.SENT, *decision.actions)
    assert changed_still(drive.memory, drive.snapshot(2)) == 0


def test_shadow_mode_leaves_nothing_to_undo() -> None:
    drive = site()
    drive.says(Status.WOULD, *drive.cycle(0))
    assert drive.cycle(2) == (), "it is recorded once"
    assert changed_still(drive.memory, drive.snapshot(2)) == 0
    drive.memory = drive.memory.without_dry_runs()
    assert written(drive, 4) == [SMALL, LARGE], "in mode enforce it is still to be done"


@pytest.mark.parametrize(
    ("policy", "first"),
    [
        (Patient(), SMALL),  # both leave at once, and it holds less
        (YoungestFirst(), LARGE),
        (LongestRemaining(), LARGE),
    ],
)
def test_a_policy_marks_in_its_own_order_and_that_stays_while_time_passes(policy: Policy[Any], first: int) -> None:
    drive = site()
    drive.policy = policy
    drive.change(SMALL, start_time=drive.start.taken_at - 3600, time_limit_s=7200)
    drive.change(LARGE, start_time=drive.start.taken_at - 1800, time_limit_s=7200)
    assert written(drive, 0)[0] == first
    assert drive.cycle(30) == ()


def test_a_draw_depends_on_its_seed() -> None:
    orders = set()
    for seed in range(8):
        drive = site()
        drive.policy = AtRandom(seed=seed)
        orders.add(tuple(written(drive, 0)))
    assert orders == {(SMALL, LARGE), (LARGE, SMALL)}


@dataclass(frozen=True, kw_only=True)
class Ranked(Policy[None]):
    """A site's own."""

    name: ClassVar[str] = "ranked"
    serves_te: ClassVar[bool] = True
    scores: object = None

    def propose(self, view: View, state: None) -> Proposal[None]:
        return Proposal()

    def rank(self, view: View, state: None) -> Any:
        if isinstance(self.scores, Exception):
            raise self.scores
        return self.scores


@pytest.mark.parametrize(
    "scores", [ZeroDivisionError("by zero"), None, np.array([1.0]), np.array([1.0, np.nan]), "no array"]
)
def test_no_job_is_marked_by_a_policy_that_fails_and_its_failure_is_reported(scores: object) -> None:
    drive = site()
    drive.policy = Ranked(scores=scores)
    assert drive.cycle(0) == ()
    assert "the policy ranked has failed" in drive.decision.summary


@pytest.mark.parametrize("scores", [[-5.0, -7.0], [7e9, 5e9]])
def test_scores_of_any_size_become_places_that_slurm_can_have(scores: list[float]) -> None:
    drive = site()
    drive.policy = Ranked(scores=np.array(scores))
    first, second = marks(drive.cycle(0))
    assert (first.job_id, first.order, second.order) == (LARGE, 0, 1)


def test_no_more_jobs_of_a_node_are_marked_than_its_limit_has_left() -> None:
    jobs = [running(SMALL, share("n1", 8)), running(LARGE, share("n1", 16))]
    limits = Limits(lever=YieldBy.PLUGIN, max_preemptions_per_node_hour=1)
    assert written(ordinary(Driver([node("n1")], jobs, limits=limits)), 0) == [SMALL]


@pytest.mark.parametrize("limit", ["max_preemptions_per_user_hour", "max_preemptions_per_account_hour"])
def test_no_more_jobs_of_a_user_or_an_account_are_marked_than_its_limit_has_left(limit: str) -> None:
    jobs = [replace(running(job, share("n1", 8)), user="ada", account="lab") for job in (SMALL, LARGE)]
    most: dict[str, Any] = {limit: 1}
    limits = Limits(lever=YieldBy.PLUGIN, **most)
    assert written(ordinary(Driver([node("n1")], jobs, limits=limits)), 0) == [SMALL]


def test_the_marks_are_written_when_a_user_is_to_be_excluded_and_nothing_else_has_changed() -> None:
    jobs = [running(SMALL, share("n1", 8)), waiting(TE, cpus=8, user="eve", reason="JobHeldUser")]
    limits = Limits(lever=YieldBy.PLUGIN, max_victims_for_te_account_hour=0)
    drive = ordinary(Driver([node("n1")], jobs, limits=limits))
    written(drive, 0)
    drive.change(TE, reason="Resources")
    (action,) = (one for one in drive.cycle(2) if isinstance(one, SetMarks))
    assert action.barred == ("eve",)


def test_a_file_in_doubt_is_written_anew() -> None:
    drive = site()
    written(drive, 0)
    drive.start = replace(drive.start, marks_doubtful=True)
    assert written(drive, 2) == [SMALL, LARGE]
    drive.start = replace(drive.start, marks_doubtful=False)
    assert drive.cycle(4) == ()


def test_a_file_in_doubt_is_emptied_where_no_job_is_marked() -> None:
    drive = site(max_preemptions_per_hour=0)
    drive.start = replace(drive.start, marks_doubtful=True)
    assert written(drive, 0) == []


class TestAwaited:
    """Resources that come free by themselves, on a cluster where jobs end all the time."""

    def wait_s(self, ends: int, *, trial_cpus: int = 8, nodes: int = 1, on: str = "n1", **limits: Any) -> int:
        """Return how long TE jobs are to wait when so many jobs of 16 CPUs have just ended."""
        half = Request(cpus=16, mem_per_node_mib=1000)
        ended = [
            replace(job, state=JobState.COMPLETED, ran_on=(on,))
            for job in (waiting(100 + one, half, start_time=NOW - 61, end_time=NOW - 1) for one in range(ends))
        ]
        trial = waiting(TE, Request(cpus=trial_cpus, mem_per_node_mib=1000, min_nodes=nodes))
        jobs = [running(SMALL, share("n1", 8)), trial, *ended]
        self.drive = ordinary(Driver([node("n1")], jobs, limits=Limits(lever=YieldBy.PLUGIN, **limits)))
        best_effort = {one.job_id: replace(self.drive.start.traits[one.job_id], job_class=JobClass.BE) for one in ended}
        self.drive.start = self.drive.start.with_traits({**self.drive.start.traits, **best_effort})
        (action,) = (one for one in self.drive.cycle(0) if isinstance(one, SetMarks))
        return action.wait_s

    def test_the_more_has_ended_lately_the_shorter_is_the_wait(self) -> None:
        # 90 s divided by the ends, rounded up to a power of two.
        assert [self.wait_s(ends) for ends in (90, 46, 45, 20, 12)] == [1, 2, 2, 8, 8]

    def test_no_job_waits_where_little_ends_or_too_few_resources_are_released(self) -> None:
        assert self.wait_s(8) == 0, "90 / 8 s is longer than guard.wait_for_free_s"
        assert self.wait_s(2) == 0
        assert self.wait_s(90, trial_cpus=17) == 0
        assert self.wait_s(90, nodes=2) == 0
        assert self.wait_s(90, on="n2") == 0
        assert self.wait_s(90, wait_for_free_s=0) == 0

    def test_it_is_said_of_the_te_job(self) -> None:
        assert self.wait_s(45) == 2
        (told,) = (one for one in self.drive.decision.refusals if one.job_id == TE)
        assert told.code is RefusalCode.SLURM_DECIDES, "it has waited as long"
        assert "waits 2 s for resources to be released" in self.drive.decision.summary


class TestWhatIsTold:
    """The refusals of a cycle with a waiting TE job."""

    def told(self, plugin: PluginSettings | None = None, **limits: Any) -> dict[int, RefusalCode]:
        jobs = [running(SMALL, share("n1", 8)), running(LARGE, share("n2", 32), user="bob"), waiting(TE, cpus=8)]
        drive = ordinary(Driver([node("n1"), node("n2")], jobs, limits=Limits(lever=YieldBy.PLUGIN, **limits)))
        traits = dict(drive.start.traits)
        traits[JobId(LARGE)] = replace(traits[JobId(LARGE)], notice_signal="USR1")
        drive.start = drive.start.with_traits(traits)
        drive.plugin = plugin
        drive.cycle(0)
        return {one.job_id: one.code for one in drive.decision.refusals}

    def test_of_a_job_that_is_not_marked_why(self) -> None:
        assert self.told()[LARGE] is RefusalCode.DECLARES_SIGNAL
        assert SMALL not in self.told()
        assert self.told(max_preemptions_per_hour=0)[SMALL] is RefusalCode.HOUR_LIMIT
        assert self.told(max_preemptions_per_user_hour=0)[SMALL] is RefusalCode.USER_LIMIT
        assert self.told(max_preemptions_per_account_hour=0)[SMALL] is RefusalCode.ACCOUNT_LIMIT
        assert self.told(max_lost_node_hours_per_day=0)[SMALL] is RefusalCode.BUDGET

    def test_of_a_cycle_what_was_done(self) -> None:
        jobs = [running(SMALL, share("n1", 8)), waiting(TE, cpus=8)]
        drive = ordinary(Driver([node("n1")], jobs, limits=Limits(lever=YieldBy.PLUGIN)))
        written(drive, 0)
        assert drive.decision.summary == "1 job(s) may be preempted by Slurm (1 new or changed, 0 no more)"
        drive.cycle(2)
        assert (
            drive.decision.summary
            == "did nothing, because Slurm frees resources by itself for 1 waiting trial-and-error job(s)"
        )

    def test_the_settings_decide_whether_slurm_serves_a_te_job(self) -> None:
        assert self.told(PluginSettings(te_partitions=frozenset({"p"})))[TE] is RefusalCode.SLURM_DECIDES
        assert self.told(PluginSettings())[TE] is RefusalCode.NO_TE_TO_SLURM
        assert self.told(None)[TE] is RefusalCode.SLURM_DECIDES


@pytest.mark.parametrize(
    ("words", "is_te"),
    [("tesched:te", True), ("x,tesched:te;y", True), ("tesched:te2", False), ("nottesched:te", False), ("", False)],
)
def test_the_word_of_an_administrator_makes_a_te_job_to_slurm(words: str, is_te: bool) -> None:
    assert PluginSettings().takes_for_te(replace(waiting(TE, cpus=1), admin_comment=words)) is is_te
