"""TE jobs come before a turn that awaits Slurm's word: they may have its victims and its place, and it ends then."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import kind_of
from tesched_core.model.cluster import Request
from tesched_core.model.order import Ending, OrderState, VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass

from tests.builders import NOW, node, traits, waiting
from tests.scenarios.test_gavel_rounds import GPU, TRIAL, A, C, kinds, on, queued
from tests.scenarios.test_turn_look import BOTH, LateSite, in_its_turn, leave


def submit(site: LateSite, request: Request = GPU, reason: str = "Resources") -> None:
    trial = replace(waiting(TRIAL, request, submit_time=NOW + 360), reason=reason, user="eve")
    site.jobs[trial.job_id] = trial
    site.start = site.start.with_traits({**site.start.traits, trial.job_id: traits(JobClass.TE)})


def test_a_te_job_has_the_victims_of_a_turn_of_which_slurm_has_said_nothing() -> None:
    site = in_its_turn()
    submit(site)
    site.obeys(*site.cycle(361))
    assert leave(site) == [A]
    turn, order = site.order(1), site.order(2)
    assert (turn.ending, turn.futile, turn.victims[0].state) == (Ending.OVERTAKEN, False, VictimState.SPARED)
    assert (order.preemptor, order.victims[0].job_id) == (TRIAL, A)
    for at_s in range(362, 366):
        site.obeys(*site.cycle(at_s))
    assert leave(site) == [], "it has one notice"
    assert site.jobs[JobId(C)].request.required_nodes == ()
    assert site.jobs[JobId(C)].nice == 0, "its raise was not sent, or is put back"
    assert site.memory.job(JobId(C)).retry_at is None


def test_once_a_victim_has_had_its_notice_the_turn_keeps_it() -> None:
    site = in_its_turn()
    site.obeys(*site.cycle(361))
    site.passes()
    site.obeys(*site.cycle(362))
    assert leave(site) == [A]
    submit(site)
    site.cycle(363)
    assert (site.order(1).state, site.open_orders()) == (OrderState.OPEN, [1])


def test_a_te_job_that_awaits_slurms_word_itself_ends_no_turn() -> None:
    site = in_its_turn()
    submit(site, reason="None")
    site.cycle(361)
    assert site.order(1).state is OrderState.OPEN
    assert leave(site) == []


@pytest.mark.parametrize(("free", "ends"), [(1, True), (2, False)])
def test_a_te_job_has_what_is_free_beside_the_victims_of_such_a_turn(free: int, ends: bool) -> None:
    site = LateSite(on(A, "v"), replace(queued(C), request=BOTH), speeds={A: {"v100": 2}, C: {"v100": 4}})
    site.nodes.pop("k")
    site.nodes["v"] = node("v", gres={"gpu:v100": 2})
    for at_s in (0, 360, 361):
        site.obeys(*site.cycle(at_s))
    site.nodes["v"] = node("v", gres={"gpu:v100": 1 + free})
    submit(site)
    site.obeys(*site.cycle(362))
    assert [kind_of(one) for one in site.decision.actions if kind_of(one) == "notify"] == []
    assert (site.order(1).ending is Ending.OVERTAKEN) is ends, kinds(site)
