"""Jobs of users' crontabs (scrontab) are left to Slurm: it refuses to change them, and a signal ends their series."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import nan

import pytest
from tesched_core.model.actions import holds
from tesched_core.model.decision import RefusalCode
from tesched_core.model.job_report import Curve, Reported
from tesched_core.model.limits import Limits, TeLimits
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.policy import BoostJob, HoldJob, Intent, Proposal, View
from tesched_policies.slaq.jobs import managed_jobs

from tests.builders import NOW, cluster, node, running, share, traits, view_of, waiting
from tests.scenarios import pdors_site, test_gavel_rounds
from tests.scenarios.driver import BE, TE, Driver
from tests.scenarios.test_fill import brought, drive, holder, queued
from tests.scenarios.test_strange_policies import OTHER, VICTIM, Strange, StrangeToo, capacity, site
from tests.scenarios.test_two_raises import Wants


@pytest.mark.parametrize(("of_crontab", "code"), [(True, RefusalCode.CRON_JOB), (None, RefusalCode.UNREAD)])
def test_it_is_no_victim_nor_is_one_of_which_that_is_not_known(of_crontab: bool | None, code: RefusalCode) -> None:
    jobs = [running(BE, share("n1", 32), of_crontab=of_crontab), waiting(TE, cpus=16)]
    alone = Driver([node("n1")], jobs)
    assert alone.cycle(0) == ()
    assert [one.code for one in alone.decision.refusals if one.job_id == BE] == [code]
    alone.change(BE, of_crontab=False)
    assert BE in {action.job_id for action in alone.cycle(1)}


def test_as_a_te_job_it_has_no_victim() -> None:
    alone = Driver([node("n1")], [running(BE, share("n1", 32)), waiting(TE, cpus=16, of_crontab=True)])
    assert alone.cycle(0) == ()
    assert alone.why_not(TE) is RefusalCode.UNSUPPORTED
    alone.change(TE, of_crontab=False)
    assert alone.cycle(1) != ()


@dataclass(frozen=True, kw_only=True)
class Seeing(Strange):
    """Propose nothing, and keep the TE jobs that it might serve."""

    seen: list[JobId] = field(default_factory=list)

    def propose(self, view: View, state: None) -> Proposal[None]:
        self.seen.extend(job.job_id for job in view.waiting)
        return Proposal()


def test_no_policy_is_to_serve_it() -> None:
    own = site(policy := Seeing())
    own.change(TE, of_crontab=True)
    own.jobs[JobId(8)] = waiting(8)
    own.start = own.start.with_traits({**own.start.traits, JobId(8): own.start.traits[JobId(TE)]})
    own.cycle(0)
    assert policy.seen == [8]


@pytest.mark.parametrize(("of_crontab", "held"), [(False, [8, TE]), (True, [8])])
def test_above_the_limits_of_te_jobs_it_is_not_held(of_crontab: bool, held: list[int]) -> None:
    jobs = [waiting(job_id, cpus=1, submit_time=NOW - 100 + job_id) for job_id in (7, 8, TE)]
    alone = Driver([node("n1")], jobs, limits=Limits(te=TeLimits(max_running_per_user=1)))
    alone.change(TE, of_crontab=of_crontab)
    assert sorted(action.job_id for action in alone.cycle(0) if holds(action)) == held


@pytest.mark.parametrize(("of_crontab", "forward"), [(False, [3]), (True, [4])])
def test_fill_brings_another_forward(of_crontab: bool, forward: list[int]) -> None:
    jobs = (queued(2, 32), queued(3, 16, of_crontab=of_crontab), queued(4, 16))
    assert brought(drive(holder(), *jobs, j2=60, j3=60, j4=60)) == forward


def test_fill_delays_one_that_is_first_no_more_than_others() -> None:
    first = queued(2, 32, of_crontab=True)
    driver = drive(holder(ends_in=600), first, queued(3, 16), j2=60, j3=601)
    assert brought(driver) == []
    (refusal,) = driver.decision.refusals
    assert (refusal.job_id, refusal.preemptor, refusal.code) == (3, 2, RefusalCode.WOULD_DELAY)


@pytest.mark.parametrize("held", [{}, {"reason": "BeginTime", "restarts": 3, "eligible_time": NOW + 60}])
def test_gavel_holds_none(held: dict[str, object]) -> None:
    a, c = test_gavel_rounds.A, test_gavel_rounds.C
    rounds = test_gavel_rounds.Site(
        test_gavel_rounds.on(a, "v"), test_gavel_rounds.queued(c), speeds={a: {"v100": 2}, c: {"v100": 4}}
    )
    rounds.nodes.pop("k")
    rounds.change(c, of_crontab=True, **held)  # type: ignore[arg-type]
    assert rounds.cycle(0) == ()
    assert list(rounds.state("gavel").jobs) == [a]
    rounds.change(c, of_crontab=False)
    assert [action.job_id for action in rounds.cycle(1)] == [c]


def test_pdors_plans_none() -> None:
    a = pdors_site.A
    racks = pdors_site.Site(
        pdors_site.filler(7, "a1"), pdors_site.filler(8, "b1"), pdors_site.wide(a), run_times={7: 60, 8: 600}
    )
    racks.change(a, of_crontab=True)
    assert racks.cycle(0) == ()
    assert JobId(a) not in racks.state("pdors").plans
    racks.change(a, of_crontab=False)
    assert [action.job_id for action in racks.cycle(1)] == [a]


def test_slaq_counts_none_among_its_trainings() -> None:
    jobs = [waiting(2), waiting(3, of_crontab=True)]
    told = Reported(curve=Curve.of([[1, 10.0, NOW - 5, nan], [2, 5.0, NOW - 4, nan]]))
    seen = replace(cluster([node("n1")], jobs), reported={job.job_id: told for job in jobs})
    seen = seen.with_traits({job.job_id: traits(JobClass.BE) for job in jobs})
    assert [one.job_id for one in managed_jobs(view_of(seen))] == [2]


@pytest.mark.parametrize("intent", [HoldJob(job_id=JobId(OTHER), why=""), BoostJob(job_id=JobId(OTHER), why="")])
@pytest.mark.parametrize("of_crontab", [False, True])
def test_a_sites_own_policy_changes_none(intent: Intent, of_crontab: bool) -> None:
    own = site(StrangeToo(intents=(intent,)))
    own.jobs[JobId(OTHER)] = waiting(OTHER, priority=1, of_crontab=of_crontab)
    own.jobs[JobId(VICTIM)] = waiting(VICTIM, priority=50)
    assert [action.job_id for action in own.cycle(0)] == ([] if of_crontab else [OTHER])


@pytest.mark.parametrize("of_crontab", [False, True])
def test_nor_frees_it_anything_for_one(of_crontab: bool) -> None:
    own = site(Strange(intents=(capacity(TE, VICTIM),)))
    own.change(TE, of_crontab=of_crontab)
    assert (own.cycle(0) == ()) is of_crontab


@pytest.mark.parametrize("of_crontab", [False, True])
def test_nor_moves_one(of_crontab: bool) -> None:
    jobs = [running(VICTIM, share("n1", 32)), waiting(OTHER, of_crontab=of_crontab)]
    moves = Driver([node("n1")], jobs, best_effort=Wants(intents=(capacity(OTHER, VICTIM),)), run_times={OTHER: 60})
    assert (moves.cycle(0) == ()) is of_crontab
    assert (moves.why_not(OTHER) is RefusalCode.UNSUPPORTED) is of_crontab
