"""What mode enforce has changed is put back before another mode begins, whatever was in its way at first.

Over 400 lines: one obstacle after the other, at one site.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tesched_core.intake.class_rules import Classification, Match, Rule
from tesched_core.model.actions import Action, Failure, FailureKind, Outcome, Status, kind_of
from tesched_core.model.change import FREE, HELD, first_change
from tesched_core.model.cluster import JobState
from tesched_core.model.field import Field
from tesched_core.model.hook import HOOK_MARK
from tesched_core.model.lead import Lead
from tesched_core.model.limits import Limits, YieldBy
from tesched_core.model.memory import Memory
from tesched_core.model.order import Ending, Order, OrderState, VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.policy import in_turn
from tesched_core.ports import Barred, never_barred
from tesched_daemon.admission_file import AdmissionFile
from tesched_daemon.leaving import POLLS
from tesched_daemon.loop import CycleResult, Loop
from tesched_daemon.settings import Mode, Pace
from tesched_daemon.undo import put_all_back
from tesched_policies.fitgpp import FitGpp
from tesched_slurm.commands_actuator import DryRunActuator

from tests.builders import NOW, node, running, share, waiting
from tests.loop_parts import Reported
from tests.scenarios.driver import BE, TE, Driver

PACE = Pace(poll_interval_s=2.0, backoff_max_s=30.0)
GRACE_S = 600.0
AWAY = Failure(kind=FailureKind.UNREACHABLE, message="slurmctld does not answer")


@dataclass
class Site:
    """A Slurm that does what it is to do, unless it is away, and the store of the daemons beside it."""

    drive: Driver
    away: bool = False
    #: it takes commands and does nothing
    idle: bool = False
    sent: list[Action] = field(default_factory=list)
    store: Reported = field(default_factory=Reported)
    lever: YieldBy = YieldBy.REQUEUE

    def observe(self, *, whole: bool = True, ends: bool = False) -> Snapshot | Failure:
        return AWAY if self.away else self.drive.snapshot(self.drive.at_s)

    def act(self, action: Action, barred: Barred = never_barred) -> Outcome:
        assert not barred()
        self.sent.append(action)
        if not self.idle:
            self.drive.obeys(action)
        return Outcome(action=action, status=Status.SENT, at=self.drive.at_s + NOW)

    def daemon(self, mode: Mode) -> Loop:
        """Return the loop of a new process."""
        rule = Rule(name="te", job_class=JobClass.TE, match=Match(names=("te",)))
        return Loop(
            observer=self,
            actuator=self if mode is Mode.ENFORCE else DryRunActuator(),
            restorer=self,
            journal=self.store,
            policies=in_turn(FitGpp()),
            limits=Limits(min_run_time_s=0, cool_down_s=0, lever=self.lever),
            classes=Classification(rules=(rule,), default_notice_signal="B:USR1", default_grace_period_s=GRACE_S),
            mode=mode,
            pace=PACE,
            clock=lambda: NOW + self.drive.at_s,
            stopwatch=lambda: self.drive.at_s,
        )

    def reload(self, loop: Loop, mode: Mode) -> None:
        """Let the loop go on in this mode."""
        actuator = self if mode is Mode.ENFORCE else DryRunActuator()
        policies, limits, classes, pace = loop.policies, loop.limits, loop.classes, loop.pace
        loop.go_on_with(
            actuator=actuator, policies=policies, limits=limits, classes=classes, mode=mode, pace=pace, telling=None
        )

    def turns(self, loop: Loop, count: int = 1) -> list[CycleResult]:
        """Make turns, and let the time pass that each of them wants."""
        made = []
        for _ in range(count):
            made.append(loop.turn())
            self.drive.at_s += made[-1].next_in_s
        return made

    def kinds(self) -> list[str]:
        """Return the kinds of what was sent since the last call."""
        kinds = [kind_of(action) for action in self.sent]
        self.sent.clear()
        return kinds

    @property
    def is_as_before(self) -> bool:
        """Check whether the TE job is as its user has submitted it."""
        trial = self.drive.jobs[JobId(TE)]
        return (trial.nice, trial.request.required_nodes, trial.held) == (0, (), False)


def site_of(lever: YieldBy = YieldBy.REQUEUE) -> Site:
    """Return a site on which one BE job fills the node and a TE job waits."""
    jobs = [running(BE, share("n1", 32, 10), name="be"), waiting(TE, cpus=16, name="te")]
    return Site(Driver([node("n1"), node("n2", cpus=1)], jobs), lever=lever)


@pytest.fixture
def site() -> Site:
    """Give a site on which a daemon in mode enforce has raised and bound the TE job, and notified the victim."""
    made = site_of()
    made.turns(made.daemon(Mode.ENFORCE))
    assert made.kinds() == ["setnice", "setnodes", "notify"]
    assert not made.is_as_before
    return made


def undone(site: Site) -> bool:
    """Check whether the TE job is as before and the order is withdrawn; a victim may have its grace period still."""
    memory = site.store.memory
    waits = (one.state is OrderState.SETTLING and are_noticed(one) for one in memory.open_orders())
    return site.is_as_before and all(waits) and not any(memory.changes.values())


def are_noticed(order: Order) -> bool:
    return all(victim.state is VictimState.NOTICED for victim in order.victims)


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OBSERVE])
def test_changes_are_put_back_before_another_mode_decides(
    site: Site, mode: Mode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    loop = site.daemon(mode)
    turns = site.turns(loop, 2)
    assert site.kinds() == ["setnice", "setnodes"]
    assert undone(site)
    assert [turn.left for turn in turns] == [3, 1], "the victim may leave yet"
    assert loop.is_leaving
    (after,) = site.turns(loop)
    assert (after.settled, loop.is_leaving, site.kinds()) == (False, False, [])
    said = "what mode enforce has changed is put back first: 3 change(s) and order(s) are left"
    assert [report.leaving for report in site.store.reports[-3:]][::2] == [said, ""]
    lines = [record.getMessage() for record in caplog.records]
    assert lines.count(f"mode {mode} is to begin: {said}") == 1
    assert lines.count("mode enforce is left: what it had changed is put back") == 1


def test_a_stop_that_puts_all_back_leaves_no_word_of_it(site: Site) -> None:
    loop = site.daemon(Mode.SHADOW)
    site.turns(loop)
    assert loop.is_leaving
    site.drive.at_s += GRACE_S
    *_, last = put_all_back(loop, sleep=lambda _: None)
    assert last.settled
    assert not site.store.reports[-1].leaving


def test_what_was_sent_in_a_turn_that_the_store_refuses_is_said(site: Site) -> None:
    site.store.fails = {"conclude"}
    site.drive.at_s += GRACE_S
    first, *_, last = put_all_back(site.daemon(Mode.ENFORCE), sleep=lambda _: site.store.fails.clear())
    assert site.kinds() == [kind_of(outcome.action) for outcome in first.outcomes] == ["setnice", "setnodes"]
    assert "conclude: disk full" in first.trouble
    assert (first.refused is not None, first.settled, last.settled) == (True, False, True)
    assert undone(site)


def test_a_daemon_that_leaves_mode_enforce_goes_on_after_a_turn_that_the_store_refuses(site: Site) -> None:
    loop = site.daemon(Mode.SHADOW)
    site.store.fails = {"conclude"}
    (turn,) = site.turns(loop)
    assert (turn.trouble, loop.is_leaving) == (
        "it could not be written down what was put back: conclude: disk full",
        True,
    )
    site.store.fails.clear()
    site.turns(loop, 2)
    assert undone(site)
    assert not loop.is_leaving


def test_slurmctld_that_is_down_for_long_at_the_start_is_awaited(site: Site) -> None:
    loop = site.daemon(Mode.SHADOW)
    site.away = True
    turns = site.turns(loop, 3 * POLLS)
    assert site.kinds() == []
    assert turns[-1].trouble
    assert turns[-1].next_in_s == PACE.backoff_max_s
    assert site.store.reports[-1].failure == AWAY
    assert site.store.reports[-1].leaving
    site.away = False
    site.turns(loop, 2)
    assert undone(site)


def test_a_standby_in_shadow_puts_back_what_the_leader_had_changed_when_it_leads(site: Site) -> None:
    standby = site.daemon(Mode.SHADOW)
    site.store.says = Lead(leader="process 1 on login1")
    site.turns(standby, 3)
    assert site.kinds() == []
    site.store.says = Lead()
    site.turns(standby, 2)
    assert undone(site)


@pytest.mark.parametrize("call", ["lead", "load", "intend", "conclude"])
def test_a_store_that_cannot_be_used_for_a_moment_is_tried_again(site: Site, call: str) -> None:
    loop = site.daemon(Mode.SHADOW)
    site.store.fails.add(call)
    assert "disk full" in site.turns(loop)[0].trouble
    site.store.fails.clear()
    site.turns(loop, 2)
    assert undone(site)


def test_an_order_with_a_notice_is_withdrawn_and_not_one_of_shadow_mode(site: Site) -> None:
    site.turns(site.daemon(Mode.SHADOW), 1)
    (order,) = site.store.memory.orders.values()
    assert order.ending is Ending.WITHDRAWN
    assert order.victims[0].noticed_at is not None


def test_a_notice_alone_is_an_order_of_mode_enforce(site: Site) -> None:
    site.store.memory = replace(site.store.memory, changes={})
    site.drive.change(TE, nice=0, priority=100, request=waiting(TE, cpus=16).request)
    site.turns(site.daemon(Mode.SHADOW), 1)
    (order,) = site.store.memory.orders.values()
    assert order.ending is Ending.WITHDRAWN


def test_a_suspended_victim_is_resumed(caplog: pytest.LogCaptureFixture) -> None:
    site = site_of(lever=YieldBy.AUTO)
    site.turns(site.daemon(Mode.ENFORCE), 2)
    assert "suspend" in site.kinds()
    trial_runs = share("n1", 16, 1)
    site.drive.starts(TE, trial_runs)
    loop = site.daemon(Mode.SHADOW)
    turns = site.turns(loop, 2 * POLLS)
    assert "resume" not in site.kinds(), "its CPUs are the TE job's"
    assert loop.is_leaving
    assert turns[0].next_in_s < PACE.poll_interval_s < turns[-1].next_in_s == PACE.backoff_max_s
    site.drive.ends(TE)
    site.turns(loop, 3)
    assert site.kinds() == ["resume"]
    assert site.drive.jobs[JobId(BE)].state is JobState.RUNNING
    assert not site.store.memory.open_orders()
    assert caplog.text.count("is put back first") == 1, "it is logged once"


def test_a_held_job_is_released() -> None:
    site = site_of()
    site.drive.change(TE, priority=0, reason="JobHeldAdmin")
    one = first_change(JobId(TE), Field.HOLD, FREE, HELD, NOW - 60)
    site.store.memory = Memory(changes={Field.HOLD: {JobId(TE): one}})
    site.turns(site.daemon(Mode.SHADOW), 2)
    assert site.kinds() == ["release"]
    assert undone(site)


def hooked(site: Site) -> None:
    """Let the submission hook hold the TE job."""
    site.drive.change(TE, priority=0, reason="JobHeldUser", admin_comment=HOOK_MARK)


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OBSERVE])
def test_what_the_hook_has_held_since_the_last_poll_is_released_after_a_reload(tmp_path: Path, mode: Mode) -> None:
    site = site_of()
    site.drive.change(TE, name="be")
    loop = site.daemon(Mode.ENFORCE)
    loop.admission = AdmissionFile(path=tmp_path / "admission")
    site.turns(loop)
    site.drive.change(TE, name="te")
    hooked(site)
    (tmp_path / "admission").write_text("tesched-admission 1\n")
    site.reload(loop, mode)
    assert loop.is_leaving, "a stop now puts back, too"
    (turn,) = site.turns(loop)
    assert not turn.saw, "it has decided nothing"
    assert not (tmp_path / "admission").exists()
    site.turns(loop, 2)
    assert site.kinds()[0] == "release"
    assert site.is_as_before
    assert not loop.is_leaving


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OBSERVE])
def test_what_the_hook_has_held_is_released_by_a_daemon_that_finds_the_admission_file(
    tmp_path: Path, mode: Mode
) -> None:
    site = site_of()
    hooked(site)
    (tmp_path / "admission").write_text("tesched-admission 1\n")
    loop = site.daemon(mode)
    loop.admission = AdmissionFile(path=tmp_path / "admission")
    site.turns(loop, 4)
    assert site.kinds()[0] == "release"
    assert site.is_as_before
    assert not loop.is_leaving


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OBSERVE])
def test_what_another_daemons_hook_has_held_stays(tmp_path: Path, mode: Mode) -> None:
    site = site_of()
    hooked(site)
    loop = site.daemon(mode)
    loop.admission = AdmissionFile(path=tmp_path / "admission")
    site.turns(loop, 4)
    assert site.kinds() == []
    assert site.drive.jobs[JobId(TE)].held
    assert not loop.is_leaving


def planned() -> tuple[Site, Loop]:
    """Return a site whose daemon, of mode enforce, has an order for which nothing was done yet."""
    site = site_of()
    loop = site.daemon(Mode.ENFORCE)
    site.store.gone = "the lease is lost"
    site.turns(loop)
    assert site.kinds() == []
    (order,) = site.store.memory.open_orders()
    assert order.victims[0].state is VictimState.PLANNED
    site.store.gone = ""
    return site, loop


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OBSERVE])
@pytest.mark.parametrize("leads_at_first", [True, False])
def test_an_order_for_which_nothing_was_done_yet_ends_after_a_restart(mode: Mode, leads_at_first: bool) -> None:
    site, _ = planned()
    loop = site.daemon(mode)
    if not leads_at_first:
        site.store.says = Lead(leader="process 1 on login1")
        site.turns(loop)
        site.store.says = Lead()
    (turn,) = site.turns(loop)
    assert not turn.saw, "it has decided nothing"
    site.turns(loop)
    assert site.kinds() == []
    assert undone(site)
    assert not loop.is_leaving


def test_a_restart_that_slurmctld_does_not_see_is_no_reason_to_forget_the_order() -> None:
    site, _ = planned()
    site.away = True
    site.turns(site.daemon(Mode.OBSERVE))
    site.away = False
    site.turns(site.daemon(Mode.OBSERVE), 2)
    assert undone(site)


def test_a_restart_with_nothing_open_decides_at_once(site: Site) -> None:
    site.drive.at_s += GRACE_S
    *_, last = put_all_back(site.daemon(Mode.ENFORCE), sleep=lambda _: None)
    assert last.settled
    (turn,) = site.turns(site.daemon(Mode.SHADOW))
    assert turn.saw


def test_an_order_for_which_nothing_was_done_yet_ends_after_a_reload() -> None:
    site, loop = planned()
    site.reload(loop, Mode.OBSERVE)
    site.turns(loop, 2)
    assert site.kinds() == []
    assert undone(site)
    assert not loop.is_leaving


def test_a_reload_back_to_mode_enforce_leaves_nothing(site: Site) -> None:
    loop = site.daemon(Mode.ENFORCE)
    site.reload(loop, Mode.OBSERVE)
    site.reload(loop, Mode.ENFORCE)
    assert not loop.is_leaving
    (turn,) = site.turns(loop)
    assert turn.saw, "it was a turn of mode enforce"


def test_what_slurm_does_not_put_back_is_tried_less_and_less_often(site: Site) -> None:
    loop = site.daemon(Mode.SHADOW)
    site.idle = True
    turns = site.turns(loop, POLLS + 5)
    assert [turn.next_in_s for turn in turns] == [*[0.5] * POLLS, 2.0, 4.0, 8.0, 16.0, 30.0]
    assert site.store.reports[-1].next_in_s == 30.0, "the lease lasts that long"


def test_a_nice_value_that_stays_while_its_job_is_held_keeps_no_mode_from_beginning(site: Site) -> None:
    site.drive.priority_type = "priority/basic"
    site.drive.change(TE, priority=0, reason="JobHeldUser")
    loop = site.daemon(Mode.SHADOW)
    site.turns(loop, 3)
    assert not loop.is_leaving
    assert site.drive.jobs[JobId(TE)].nice != 0
    site.kinds()
    site.drive.change(TE, priority=100, reason="Resources")
    site.turns(loop, 3)
    assert site.kinds() == ["setnice"]
    assert undone(site)


def test_nodes_of_a_te_job_that_runs_keep_no_mode_from_beginning(site: Site) -> None:
    site.drive.ends(BE)
    site.drive.starts(TE, share("n1", 16, 1))
    loop = site.daemon(Mode.SHADOW)
    site.turns(loop, 3)
    assert not loop.is_leaving
    assert site.store.memory.is_bound(JobId(TE))
    site.kinds()
    site.drive.requeued(TE)
    site.turns(loop, 3)
    assert "setnodes" in site.kinds()
    assert undone(site)


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OBSERVE])
def test_a_job_in_doubt_keeps_no_mode_from_beginning(site: Site, mode: Mode) -> None:
    known = site.drive.jobs[JobId(TE)]
    site.drive.jobs[JobId(TE)] = replace(known, doubt="its nodes cannot be read")
    loop = site.daemon(mode)
    site.turns(loop, 3)
    assert not loop.is_leaving
    assert site.kinds() == []
    site.drive.jobs[JobId(TE)] = known
    site.turns(loop, 4)
    assert site.kinds() == ["setnice", "setnodes"]
    assert undone(site)
    assert not loop.is_leaving


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OBSERVE])
def test_a_victim_that_leaves_keeps_no_mode_from_beginning(site: Site, mode: Mode) -> None:
    site.drive.completing(BE, JobState.RUNNING)
    loop = site.daemon(mode)
    site.turns(loop, 4)
    assert not loop.is_leaving
    assert site.is_as_before, "what can be put back was"
    (order,) = site.store.memory.open_orders()
    assert (order.state, order.ending) == (OrderState.SETTLING, Ending.WITHDRAWN)
    site.drive.requeued(BE)
    site.turns(loop, 4)
    assert undone(site)
    assert not loop.is_leaving


def test_a_victim_that_may_have_left_keeps_no_mode_from_beginning(site: Site) -> None:
    known = site.drive.nodes["n1"]
    site.drive.nodes["n1"] = replace(known, state="UNKNOWN")
    loop = site.daemon(Mode.OBSERVE)
    site.turns(loop, 4)
    assert not loop.is_leaving
    assert site.store.memory.open_orders()
    site.drive.nodes["n1"] = known
    site.turns(loop, 4)
    assert undone(site)
    assert not loop.is_leaving


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OBSERVE])
@pytest.mark.parametrize("busy", [False, True])
def test_a_victim_that_obeys_its_notice_in_another_mode_is_put_back_in_the_queue(
    site: Site, mode: Mode, *, busy: bool
) -> None:
    loop = site.daemon(mode)
    site.turns(loop, 4)
    assert not loop.is_leaving
    site.kinds()
    site.idle = busy
    site.drive.ends(BE, JobState.FAILED)
    site.turns(loop, 4)
    assert site.kinds() == ["rerun"]
    if busy:
        site.turns(loop, POLLS)
        assert site.kinds() == ["rerun"], "it is sent again"
        assert loop.is_leaving
    site.drive.requeued(BE)
    site.turns(loop, 4)
    assert not site.store.memory.open_orders()
    assert not loop.is_leaving


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OBSERVE])
def test_its_rerun_is_sent_before_its_epilog_is_over(site: Site, mode: Mode) -> None:
    loop = site.daemon(mode)
    site.turns(loop, 4)
    site.kinds()
    site.drive.completing(BE, JobState.UNKNOWN)
    site.drive.change(BE, reason="NonZeroExitCode", exit_status=1)
    site.turns(loop, 4)
    assert site.kinds() == ["rerun"]
    assert not loop.is_leaving, "what follows is awaited"


@pytest.mark.parametrize("mode", [Mode.SHADOW, Mode.OBSERVE])
def test_a_victim_that_does_not_obey_its_notice_goes_on_in_another_mode(site: Site, mode: Mode) -> None:
    loop = site.daemon(mode)
    site.turns(loop, 4)
    site.kinds()
    site.drive.at_s += GRACE_S
    site.turns(loop, 4)
    assert (site.kinds(), site.store.memory.open_orders(), loop.is_leaving) == ([], (), False)


def test_a_nice_value_of_a_job_that_is_completing_keeps_no_mode_from_beginning(site: Site) -> None:
    site.drive.ends(BE)
    site.drive.starts(TE, share("n1", 16, 1))
    site.drive.completing(TE, JobState.COMPLETED)
    loop = site.daemon(Mode.OBSERVE)
    site.turns(loop, 4)
    assert not loop.is_leaving
    assert site.kinds() == []
    site.drive.ends(TE)
    site.turns(loop, 4)
    assert not site.store.memory.open_orders()
    assert not loop.is_leaving
    assert site.kinds() == []
    site.drive.requeued(TE)
    site.drive.change(TE, reason="Resources")
    site.turns(loop, 4)
    assert undone(site)
    assert not any(site.store.memory.changes.values())


def test_what_shadow_mode_has_recorded_is_nothing_to_put_back() -> None:
    site = site_of()
    loop = site.daemon(Mode.SHADOW)
    for _ in range(5):
        site.turns(loop)
        assert not loop.is_leaving
    assert site.kinds() == []


def test_a_daemon_back_in_mode_enforce_goes_on(site: Site) -> None:
    loop = site.daemon(Mode.SHADOW)
    site.away = True
    site.turns(loop)
    assert loop.is_leaving
    site.away = False
    loop.mode, loop.actuator = Mode.ENFORCE, site
    (turn,) = site.turns(loop)
    assert turn.saw, "it was a turn of mode enforce"
    assert site.store.memory.open_orders()
    assert not site.is_as_before
