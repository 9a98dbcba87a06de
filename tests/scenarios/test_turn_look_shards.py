"""Turns of jobs that request shards of a GPU: whether Slurm's word is awaited before their victims leave.

Everywhere: v is the only GPU, with two shards; A is on it, C is held, and from 360 s on the turn is C's.
"""

from __future__ import annotations

import pytest
from tesched_core.model.actions import kind_of
from tesched_core.model.order import Ending

from tests.builders import share
from tests.scenarios.said_late import LIMIT, SaysLate
from tests.scenarios.test_gavel_sharing import A, C, Site, on, queued


class LateSite(SaysLate, Site):
    """The node v, of which Slurm says nothing until its next pass."""


def in_its_turn(gres: str) -> LateSite:
    site = LateSite(on(A, "v", gres), queued(C), workloads={A: "heavy", C: "heavy"})
    for at_s in (0, 360):
        site.obeys(*site.cycle(at_s))
    assert site.order(1).preemptor == C
    return site


def notified(site: LateSite) -> bool:
    return any(kind_of(one) in {"notify", "requeue"} for one in site.decision.actions)


def test_of_a_victim_with_the_gpu_alone_slurms_word_is_awaited() -> None:
    site = in_its_turn("gpu")
    assert not notified(site)
    site.obeys(*site.cycle(361))
    site.passes()
    site.cycle(362)
    assert notified(site)


def test_a_limit_costs_such_a_victim_nothing() -> None:
    site = in_its_turn("gpu")
    site.change(C, reason=LIMIT)
    site.cycle(361)
    assert (site.order(1).ending, notified(site)) == (Ending.BLOCKED, False)


def test_beside_a_victim_with_shards_it_might_start_meanwhile() -> None:
    assert notified(in_its_turn("shard"))


@pytest.mark.parametrize(("held", "ends"), [("gpu", True), ("shard", False)])
def test_a_gpu_that_another_job_has_taken_ends_the_order(held: str, ends: bool) -> None:
    site = in_its_turn("gpu")
    site.ends(A)
    site.submits(queued(11, held), like=A)
    site.starts(11, share("v", 1, 1, {held: 1}), at_s=361)
    site.cycle(362)
    assert (site.order(1).ending is Ending.OVERTAKEN) is ends
