"""Gavel's turns where not every job may have every node: partitions, reservations.

Two nodes of one v100 each, v and w; las divides the time; a round takes 360 s. A runs on v from the beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tesched_core.model.actions import Notify, kind_of
from tesched_core.model.cluster import Job, Partition, Reservation
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_policies.gavel.policy import Gavel

from tests.builders import NOW, node, share
from tests.scenarios.driver import Driver
from tests.scenarios.test_gavel_rounds import LIMITS, A, B, C, on, queued


class Site(Driver):
    """The two nodes; all jobs are as fast."""

    def __init__(
        self,
        *jobs: Job,
        partitions: Sequence[Partition] = (),
        reservations: Sequence[Reservation] = (),
        nodes: str = "vw",
    ) -> None:
        super().__init__(
            [node(name, gres={"gpu:v100": 1}) for name in nodes],
            jobs,
            limits=LIMITS,
            best_effort=Gavel(allocator="las", types=("v100",)),
            run_times={int(job.job_id): 36_000 for job in jobs},
            reservations=reservations,
        )
        if partitions:
            self.start = replace(self.start, partitions={one.name: one for one in partitions})

    def snapshot(self, at_s: float) -> Snapshot:
        return replace(super().snapshot(at_s), speeds={job_id: {"v100": 2} for job_id in self.jobs})


def kinds(site: Site) -> list[tuple[str, int]]:
    return [(kind_of(action), action.job_id) for action in site.decision.actions]


COURSE = Reservation(name="course", start_time=NOW - 100, end_time=NOW + 86_400, nodes=frozenset({"w"}))
HERE = Partition(name="p", nodes=frozenset({"v"}))
ELSEWHERE = Partition(name="other", nodes=frozenset({"w"}))
EVERYWHERE = Partition(name="all", nodes=frozenset({"v", "w"}))


@pytest.mark.parametrize(
    ("partitions", "reservations"), [((), (COURSE,)), ((HERE, ELSEWHERE), ())], ids=["reserved", "partition"]
)
def test_gpus_that_no_managed_job_may_have_are_not_divided(
    partitions: Sequence[Partition], reservations: Sequence[Reservation]
) -> None:
    site = Site(on(A, "v"), queued(C), partitions=partitions, reservations=reservations)
    site.obeys(*site.cycle(0))
    assert kinds(site) == [("hold", C)]
    site.obeys(*site.cycle(360))
    site.cycle(361)
    assert ("notify", A) in kinds(site), "the next round is C's"


class TestOneThatMayBeElsewhere:
    """A may be on v and w, C on v alone: two GPUs are there to be divided, and each has a turn."""

    def site(self) -> Site:
        anywhere = replace(on(A, "v"), partitions=("all",))
        return Site(anywhere, queued(C), partitions=(HERE, EVERYWHERE))

    def test_it_leaves_where_the_other_one_alone_can_be(self) -> None:
        site = self.site()
        for at_s in (0, 360, 720):
            actions = site.cycle(at_s)
            site.obeys(*(action for action in actions if not isinstance(action, Notify)))
            if any(isinstance(action, Notify) for action in actions):
                break
        assert [action.job_id for action in actions if isinstance(action, Notify)] == [A]
        assert "setnodes" in [kind_of(action) for action in actions if action.job_id == C]

    def test_it_starts_on_the_other_node(self) -> None:
        site = self.site()
        for at_s in (0, 360, 720):
            actions = site.cycle(at_s)
            site.obeys(*actions)
            if any(isinstance(action, Notify) for action in actions):
                break
        site.requeued(A)
        site.change(JobId(A), reason="Resources")
        site.cycle(at_s + 10)
        assert ("setnodes", A) in kinds(site)

    def test_of_several_one_leaves_and_the_others_keep_their_turns(self) -> None:
        anywhere = [replace(on(job_id, "v"), partitions=("all",)) for job_id in (A, B)]
        held = share("x", 1, 1, {"gpu:v100": 1})
        anywhere[1] = replace(anywhere[1], allocation=(held,))
        both = Partition(name="p", nodes=frozenset({"v", "x"}))
        site = Site(
            *anywhere, queued(C), partitions=(both, replace(EVERYWHERE, nodes=frozenset({"v", "w", "x"}))), nodes="vwx"
        )
        for at_s in (0, 360, 720):
            actions = site.cycle(at_s)
            leaving = [action.job_id for action in actions if isinstance(action, Notify)]
            if leaving:
                break
            site.obeys(*actions)
        assert len(leaving) == 1
        (stays,) = {A, B} - {int(job_id) for job_id in leaving}
        (note,) = (one.text for one in site.decision.refusals if one.job_id == stays)
        assert "in this round its turn is on v100" in note
