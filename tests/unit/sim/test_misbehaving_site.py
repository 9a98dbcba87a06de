"""slurmctld that goes away, clocks that are set, a store that fails, each by itself: what is seen, and what is kept."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.policy import in_turn
from tesched_policies.fitgpp import FitGpp
from tesched_sim.controller_faults import FORGETS_AFTER_S
from tesched_sim.engine import Daemon, Simulation
from tesched_sim.fault_settings import FaultKind, FaultSettings
from tesched_sim.job_record import hold, set_nice
from tesched_sim.misbehaviour import MisbehavingObserver
from tesched_sim.slurm import MIN_JOB_AGE_S, Event, JobPhase
from tesched_sim.slurm_settings import Behaviour
from tesched_sim.store_faults import COPIED_EACH_S, OLDEST_COPY_S, Copies, Failing, fails

from tests.unit.sim.examples import Sketch, te, workload
from tests.unit.sim.test_actions import number
from tests.unit.sim.test_misbehaviour import FIRST, REQUEUE, SECOND, Misbehaving, to_nice, told

DICE = Random(1)  # noqa: S311 - no secret
HOUR_S = 3600.0


class Away(Misbehaving):
    """The same site, without dice: what happens is called."""

    def __init__(self) -> None:
        """Let nothing go wrong by itself."""
        super().__init__(FaultKind.SLURMCTLD_RESTARTS)

    def sees(self) -> Snapshot:
        seen = self.eyes.see()
        assert isinstance(seen, Snapshot)
        return seen

    def returns(self) -> None:
        """Let time pass until slurmctld is there again."""
        while self.faults.controller.is_away:
            self.run.go_on(self.slurm.now + 1)

    def restarts(self) -> None:
        self.faults.controller.restarts(DICE)
        self.returns()

    def fails_over(self) -> None:
        """Let slurmctld be killed, after what is done between this and `returns`."""
        self.faults.controller.fails_over(DICE)
        self.faults.gets_a_command()

    def is_killed(self) -> None:
        while not self.faults.controller.is_away:
            self.run.go_on(self.slurm.now + 0.1)
        self.returns()


class TestSlurmctldIsAway:
    def test_it_answers_nothing_and_a_command_has_no_effect(self) -> None:
        site = Away()
        site.faults.controller.restarts(DICE)
        assert isinstance(site.eyes.see(), Failure)
        assert site.does(to_nice(-500)) is FailureKind.UNREACHABLE
        assert site.slurm.nice[1] == 0

    def test_nothing_starts_and_an_end_is_learned_once_the_node_has_reported(self) -> None:
        site = Away()
        site.faults.controller.restarts(DICE)
        site.slurm.push(site.slurm.now + 1, Event.END, 0)
        site.returns()
        seen = site.sees()
        assert (seen.jobs[FIRST].state.value, seen.nodes["n1"].state) == ("RUNNING", "UNKNOWN")
        assert site.slurm.state[1] is JobPhase.PENDING
        site.run.go_on(site.slurm.now + 61)
        assert site.slurm.state == [JobPhase.DONE, JobPhase.RUNNING]

    def test_what_was_set_stays_and_no_job_that_waits_has_a_reason_at_first(self) -> None:
        site = Away()
        site.does(to_nice(-500))
        site.restarts()
        job = site.sees().jobs[SECOND]
        assert (job.nice, job.reason) == (-500, "None")
        site.run.go_on(site.slurm.now + 6)
        assert site.sees().jobs[SECOND].reason == "Resources"

    def test_a_late_command_is_lost_with_it(self) -> None:
        site = Misbehaving(FaultKind.LATE_COMMAND)
        site.does(to_nice(-500))
        site.faults.controller.restarts(DICE)
        site.run.go_on(site.slurm.now + 2000)
        assert site.slurm.nice[1] == 0

    def test_after_its_return_a_job_that_ended_long_before_is_known_for_a_minute(self) -> None:
        site = Away()
        site.slurm.fail(0)
        site.slurm.end_s[0] -= MIN_JOB_AGE_S
        site.restarts()
        assert FIRST in site.sees().jobs
        site.run.go_on(site.slurm.now + FORGETS_AFTER_S + 1)
        assert FIRST not in site.sees().jobs

    def test_what_has_not_reported_to_it_has_not_to_the_next_one(self) -> None:
        site = Away()
        site.restarts()
        site.restarts()
        assert site.sees().controller_is_new
        site.run.go_on(site.slurm.now + 61)
        assert not site.sees().controller_is_new


class TestAnOlderState:
    def test_what_was_set_last_is_as_it_was_before(self) -> None:
        site = Away()
        before = site.slurm.priority[1]
        site.fails_over()
        set_nice(site.slurm, 1, -500)
        hold(site.slurm, 1)
        site.is_killed()
        assert (site.slurm.nice[1], site.slurm.priority[1], site.slurm.held) == (0, before, set())

    def test_a_job_that_was_requeued_is_shown_to_run_until_slurmctld_misses_it(self) -> None:
        site = Away()
        site.slurm.behaviour = replace(site.slurm.behaviour, kill_wait_s=0)
        site.fails_over()
        site.does(REQUEUE)
        site.is_killed()
        assert (site.slurm.state[0], site.slurm.restarts[0]) == (JobPhase.RUNNING, 0)
        site.run.go_on(site.slurm.now + 600)
        assert site.slurm.restarts[0] == 1

    def test_a_job_that_has_started_since_waits_again(self) -> None:
        site = Away()
        site.fails_over()
        site.slurm.cancel(0)
        site.slurm.push(site.slurm.now, Event.WAKE, 0)
        site.run.go_on(site.slurm.now + 0.1)
        assert site.slurm.state[1] is JobPhase.RUNNING
        site.is_killed()
        assert (site.slurm.state[1], site.slurm.restarts[1], site.slurm.free[0, 0] > 0) == (JobPhase.PENDING, 0, True)


class TestLateAnswer:
    def test_the_daemon_has_it_when_it_comes(self) -> None:
        site = Misbehaving(FaultKind.LATE_ANSWER)
        at = site.slurm.now
        assert isinstance(site.eyes.see(), Failure)
        assert site.eyes.answers_at_s is not None
        assert at + 1 <= site.eyes.answers_at_s <= at + 8
        faults = FaultSettings(seed=1, share=1, every_s=1e9, kinds=FaultKind.LATE_ANSWER)
        behaviour = replace(Behaviour.slurm(poll_s=0), faults=faults)
        run = Simulation(workload([Sketch(at=0, run=1000)]), behaviour, policies=in_turn(FitGpp()), limits=Limits())
        daemon = run.daemon
        assert daemon is not None
        assert isinstance(daemon.eyes, MisbehavingObserver)
        daemon.look()
        comes = daemon.eyes.answers_at_s
        assert comes is not None
        assert any(at == comes and event == Event.WAKE for at, event, *_ in run.slurm.heap)


def test_what_was_to_happen_before_now_happens_now() -> None:
    site = Away()
    at = site.slurm.now
    site.slurm.later(at - 5, lambda: None)
    assert site.slurm.heap[0][0] == at


class TestClocks:
    def test_a_record_keeps_the_time_that_it_was_written_at(self) -> None:
        site = Away()
        began = site.sees().jobs[FIRST].start_time
        clocks = site.faults.clocks
        clocks.daemon_s = HOUR_S
        assert (site.sees().taken_at, site.sees().jobs[FIRST].start_time) == (site.slurm.now + HOUR_S, began)
        clocks.slurms_is_set(DICE)
        site.slurm.cancel(0)
        ended = site.sees().jobs[FIRST]
        assert (ended.start_time, ended.end_time) == (began, site.slurm.now + site.slurm.ahead_s)

    @pytest.mark.parametrize("by_s", [HOUR_S, -HOUR_S])
    def test_a_job_that_waits_for_a_time_waits_for_it_by_the_new_clock(
        self, by_s: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        site = Away()
        site.slurm.put_off(1, site.slurm.now + 5000)

        shown = site.sees().jobs[SECOND].eligible_time
        monkeypatch.setattr("tesched_sim.clock_faults._leap_s", lambda _: by_s)
        site.faults.clocks.slurms_is_set(DICE)
        assert site.slurm.eligible_s[1] == site.slurm.now + 5000 - by_s
        assert site.sees().jobs[SECOND].eligible_time == shown


class TestStore:
    def daemon(self) -> Daemon:
        """Return a daemon as its notice is due; a store of its that fails does so for no time."""
        faults = FaultSettings(seed=1, share=0, kinds=FaultKind.STORE_FAILS)
        jobs = [Sketch(at=0, run=1000, grace=60), te(at=100, run=50)]
        run = Simulation(
            workload(jobs),
            replace(Behaviour.slurm(poll_s=0), faults=faults),
            policies=in_turn(FitGpp()),
            limits=Limits(wait_for_free_s=0),
        )
        run.go_on(99)
        run.slurm.now = 100
        run.slurm.submit(1)
        assert run.daemon is not None
        return run.daemon

    @pytest.mark.parametrize(
        ("failing", "is_meant", "is_done"),
        [(Failing.INTENT, False, False), (Failing.UNHEARD, True, False), (Failing.OUTCOME, True, True)],
    )
    def test_nothing_is_done_that_the_store_has_not(
        self, failing: Failing, is_meant: bool, is_done: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        daemon = self.daemon()
        monkeypatch.setattr("tesched_sim.engine.fails", lambda *_: failing)
        daemon.look()
        assert (bool(daemon.memory.orders), bool(daemon.slurm.records)) == (is_meant, is_done)
        assert daemon.memory.answers is None, "it is read anew"

    def test_each_write_fails_and_that_of_no_outcome_does_not(self) -> None:
        dice = Misbehaving(FaultKind.STORE_FAILS).faults
        assert {fails(dice, (told(),)) for _ in range(40)} == {*Failing}
        assert {fails(dice, ()) for _ in range(40)} == {Failing.INTENT, Failing.UNHEARD, None}
        assert fails(None, ()) is None


def test_a_field_that_a_daemon_set_is_one_of_its_clock() -> None:
    """A begin time is slurmctld's: one that is set in an hour by it is so by its clock."""
    site = Away()
    site.slurm.ahead_s = HOUR_S
    site.does(number(SECOND, Field.BEGIN, int(site.slurm.now + HOUR_S + 500)))
    assert site.slurm.eligible_s[JobId(SECOND) - 1] == pytest.approx(site.slurm.now + 500, abs=1)


class Last:
    """Dice by which the store is always restored, from the copy of this place among them."""

    def __init__(self, place: float) -> None:
        self.place = place

    def strikes(self, kind: FaultKind) -> bool:
        return kind is FaultKind.STORE_RESTORED

    def between(self, kind: FaultKind, least: float, most: float) -> float:
        return least + self.place * (most - least)


def test_a_store_is_restored_from_one_of_its_copies_and_later_ones_are_no_more() -> None:
    copies = Copies(Last(0.5))
    assert copies.restored() is None
    for turn in range(5):
        copies.keep(Memory(cycle=turn), turn * COPIED_EACH_S / 2)
    found = copies.restored()  # of those of turn 0, 2 and 4
    assert found is not None
    assert (found.cycle, copies.last_s) == (2, COPIED_EACH_S)
    copies.keep(Memory(cycle=9), OLDEST_COPY_S + 1.5 * COPIED_EACH_S)
    assert [at for at, _ in copies._made] == [OLDEST_COPY_S + 1.5 * COPIED_EACH_S]


def test_a_store_is_restored_only_where_that_is_named() -> None:
    assert FaultKind.STORE_RESTORED not in FaultSettings(seed=1).chosen
    assert FaultSettings(seed=1, kinds="store_restored").chosen == {FaultKind.STORE_RESTORED}
