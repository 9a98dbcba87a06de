"""Each kind of misbehaviour of the simulated Slurm, by itself and for certain: the answer, and what becomes of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import Action, Failure, FailureKind, Notify, Outcome, Requeue, Status
from tesched_core.model.cluster import JobState
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.notice import Target
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.can_return import loses_licenses
from tesched_core.policy import in_turn
from tesched_policies.fitgpp import FitGpp
from tesched_sim.engine import Simulation
from tesched_sim.experiment import ExperimentSetting, Site
from tesched_sim.fault_settings import FaultKind, FaultSettings
from tesched_sim.misbehaviour import MisbehavingActuator, MisbehavingObserver, Misbehaviour
from tesched_sim.slurm import JobPhase
from tesched_sim.slurm_settings import Behaviour
from tesched_sim.workload import WorkloadError

from tests.unit.sim.examples import INF, Sketch, te, workload
from tests.unit.sim.test_actions import WHY, number

FIRST, SECOND = JobId(1), JobId(2)


class Misbehaving:
    """One node, filled by job 1; job 2 waits for it. Every command or answer goes wrong in this way."""

    def __init__(self, *kinds: FaultKind, every_s: float = 1e9, share: float = 1) -> None:
        """Submit both."""
        faults = FaultSettings(seed=1, share=share, every_s=every_s, kinds="/".join(kinds))
        behaviour = replace(Behaviour.slurm(poll_s=0), faults=faults)
        jobs = [Sketch(at=0, run=1000, grace=60), Sketch(at=0, run=1000)]
        self.run = Simulation(workload(jobs), behaviour)
        self.slurm = self.run.slurm
        self.faults = Misbehaviour(self.slurm, faults)
        self.hands = MisbehavingActuator(self.slurm, self.faults)
        self.eyes = MisbehavingObserver(self.slurm, self.faults)
        self.run.go_on(10)

    def does(self, action: Action) -> FailureKind | None:
        outcome = self.answers(action)
        return outcome.failure.kind if outcome.failure else None

    def answers(self, action: Action) -> Outcome:
        return self.hands.act(action)


def to_nice(nice: int) -> Action:
    return number(SECOND, Field.NICE, nice)


def told() -> Notify:
    return Notify(job_id=FIRST, reason=WHY, signal="USR1", target=Target.STEPS, restarts=0)


REQUEUE = Requeue(job_id=FIRST, reason=WHY, restarts=0)


def test_backfill_writes_the_priority_back_and_leaves_nice() -> None:
    site = Misbehaving(FaultKind.PRIORITY_BACK)
    before = site.slurm.priority[1]
    assert site.does(to_nice(-500)) is None
    assert site.slurm.priority[1] == before + 500
    site.run.go_on(12)
    assert (site.slurm.priority[1], site.slurm.nice[1]) == (before, -500)


@pytest.mark.parametrize(
    ("kind", "at_once", "later"),
    [(FaultKind.UNSENT, 0, 0), (FaultKind.UNHEARD, -500, -500), (FaultKind.LATE_COMMAND, 0, -500)],
)
def test_a_command_without_an_answer_has_its_effect_at_once_later_or_never(
    kind: FaultKind, at_once: int, later: int
) -> None:
    site = Misbehaving(kind)
    assert site.does(to_nice(-500)) is FailureKind.UNREACHABLE
    assert site.slurm.nice[1] == at_once
    site.run.go_on(16)
    assert site.slurm.nice[1] == later


def test_a_site_that_refuses_a_change_refuses_that_kind_alone() -> None:
    site = Misbehaving(FaultKind.REFUSED)
    assert site.does(to_nice(-500)) is FailureKind.DENIED
    assert site.does(REQUEUE) is None
    site.faults.heal()
    assert site.does(to_nice(-500)) is None


def test_commands_beyond_the_rate_of_one_user_are_not_sent() -> None:
    site = Misbehaving(FaultKind.RATE_LIMITED, share=0)
    said = [site.answers(to_nice(-number)).status for number in range(1, 40)]
    # 30 tokens and 8 seconds of 2 each, at 2 for a command.
    assert said == [Status.SENT] * 23 + [Status.SKIPPED] * 16
    site.run.go_on(40)
    assert site.answers(to_nice(-100)).status is Status.SENT


def test_a_victim_dies_of_its_notice_and_stays_failed() -> None:
    site = Misbehaving(FaultKind.DIES_OF_NOTICE)
    site.does(told())
    site.run.go_on(12)
    assert (site.eyes.job(0).state, site.eyes.job(0).restarts) == (JobState.FAILED, 0)


def test_a_job_that_leaves_by_its_notice_is_held_and_one_that_is_requeued_is_not() -> None:
    for action, held in ((told(), True), (REQUEUE, False)):
        site = Misbehaving(FaultKind.HELD_AGAIN)
        site.does(action)
        site.run.go_on(80)
        job = site.eyes.job(0)
        assert (job.state, job.held, "REQUEUE_HOLD" in job.flags) == (JobState.PENDING, held, held)


def test_a_requeue_that_meets_the_end_of_a_job_leaves_it() -> None:
    site = Misbehaving(FaultKind.ENDS_FIRST)
    assert site.does(REQUEUE) is FailureKind.ALREADY_DONE
    assert (site.eyes.job(0).state, site.slurm.restarts[0]) == (JobState.COMPLETED, 0)


def test_a_poll_has_no_answer_a_late_one_or_one_that_lacks_jobs() -> None:
    assert isinstance(Misbehaving(FaultKind.NO_ANSWER).eyes.see(), Failure)
    cut = Misbehaving(FaultKind.CUT_ANSWER).eyes
    seen = [cut.see() for _ in range(30)]
    assert {len(one.jobs) for one in seen if isinstance(one, Snapshot)} >= {1, 2}
    late = Misbehaving(FaultKind.LATE_ANSWER)
    assert isinstance(late.eyes.see(), Failure)
    late.slurm.set_priority(1, 7)
    late.run.go_on(19)
    answer = late.eyes.see()
    assert isinstance(answer, Snapshot)
    assert (answer.taken_at, answer.jobs[SECOND].priority == 7) == (10, False)


def test_a_requeued_job_has_lost_its_licences_and_a_release_that_loses_them_is_shown() -> None:
    site = Misbehaving(FaultKind.LICENCES_LOST)
    assert loses_licenses(site.eyes.observe().settings)
    site.slurm.licenses[0] = "tool:1"
    assert site.eyes.job(0).licenses == "tool:1"
    site.does(REQUEUE)
    site.run.go_on(60)
    assert (site.eyes.job(0).state, site.eyes.job(0).licenses) == (JobState.PENDING, "")


def test_nodes_die_and_come_back_and_users_cancel_jobs() -> None:
    dies = Misbehaving(FaultKind.NODE_DIES, every_s=20)
    dies.run.go_on(400)
    assert dies.faults.happened[FaultKind.NODE_DIES] > 1
    assert dies.slurm.restarts[0] == 1
    dies.faults.heal()
    assert dies.slurm.up.all()
    cancels = Misbehaving(FaultKind.USER_CANCELS, every_s=20)
    cancels.run.go_on(400)
    assert cancels.slurm.cancelled == {0, 1}
    assert cancels.slurm.state == [JobPhase.DONE, JobPhase.DONE]


def test_a_kind_that_does_not_exist_is_named_with_those_that_do() -> None:
    setting = ExperimentSetting.of(Site.SLURM)
    with pytest.raises(WorkloadError, match="kinds: there is no rain; there are priority_back/held_again"):
        setting.with_values({"site.faults.seed": "1", "site.faults.kinds": "unsent/rain"})
    with pytest.raises(WorkloadError, match="share must be from 0 to 1"):
        setting.with_values({"site.faults.share": "2"})
    assert FaultSettings(seed=1).chosen == frozenset(FaultKind) - {FaultKind.STORE_RESTORED}
    assert FaultSettings().chosen == frozenset()


def test_a_victim_that_ends_with_success_under_notice_has_finished_on_every_release() -> None:
    """From 24.05 on Slurm itself runs such a job again; a simulated one has no other success than its end."""
    faults = FaultSettings(seed=1, share=0, kinds=FaultKind.LICENCES_LOST)
    behaviour = replace(Behaviour.slurm(poll_s=5), faults=faults)
    jobs = [Sketch(at=0, run=130, grace=60, yields=INF), te(at=100, run=50)]
    run = Simulation(workload(jobs), behaviour, policies=in_turn(FitGpp()), limits=Limits(wait_for_free_s=0))
    run.slurm.licenses.clear()
    result = run.run()
    assert len(run.slurm.records) == 1
    assert (result.end_s[0], run.slurm.restarts[0], run.slurm.state[0]) == (130, 0, JobPhase.DONE)
