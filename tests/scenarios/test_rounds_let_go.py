"""No job is left held or bound by a policy that no longer manages it, or by a mode that acts no more.

Everywhere in Gavel's scenarios: job 1 runs on the only GPU of a v100 (node v), job 3 waits and is held for its turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tesched_core.fields.hold import MOST_HELD
from tesched_core.model.actions import Action, FailureKind, OrderId, SetField, Status, kind_of, sets
from tesched_core.model.change import Change
from tesched_core.model.field import Field, Nodes
from tesched_core.model.order import Ending
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.orders.undo import undo
from tesched_core.step import step
from tesched_daemon.plausibility import doubt
from tesched_policies.gavel.policy import Gavel

from tests.builders import NOW, node, nodes_set, running, share, waiting
from tests.scenarios import pdors_site
from tests.scenarios import test_gavel_rounds as gavel
from tests.scenarios.driver import Driver
from tests.scenarios.said_late import SaysLate
from tests.scenarios.test_binding import bound

A, B, C = 1, 2, 3


def of(actions: tuple[Action, ...], kind: str) -> list[int]:
    return [int(action.job_id) for action in actions if kind_of(action) == kind]


def held_by_gavel() -> Driver:
    site = gavel.Site(gavel.on(A, "v"), gavel.queued(C), speeds={A: {"v100": 2}, C: {"v100": 4}})
    site.nodes.pop("k")
    site.obeys(*site.cycle(0))
    assert of(site.decision.actions, "hold") == [C]
    return site


def held_by_pdors() -> Driver:
    site = pdors_site.Site(pdors_site.filler(A, "a1", "a2", "b1", "b2"), pdors_site.wide(C))
    site.obeys(*site.cycle(0))
    assert of(site.decision.actions, "hold") == [C]
    return site


HELD = (held_by_gavel, held_by_pdors)


def becomes(site: Driver, job_id: int, job_class: JobClass) -> None:
    known = dict(site.start.traits)
    known[JobId(job_id)] = replace(known[JobId(job_id)], job_class=job_class)
    site.start = site.start.with_traits(known)


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("job_class", [JobClass.EXEMPT, JobClass.TE])
def test_a_job_that_is_of_another_class_now_is_let_go(held: Callable[[], Driver], job_class: JobClass) -> None:
    site = held()
    becomes(site, C, job_class)
    assert C in of(site.cycle(5), "release")


@pytest.mark.parametrize("held", HELD)
def test_a_job_that_requests_own_nodes_now_is_let_go(held: Callable[[], Driver]) -> None:
    site = held()
    node = next(iter(site.nodes))
    site.change(C, request=replace(site.jobs[JobId(C)].request, required_nodes=(node,)))
    assert C in of(site.cycle(5), "release")


@pytest.mark.parametrize("held", HELD)
def test_a_protected_job_is_neither_held_nor_kept_so(held: Callable[[], Driver]) -> None:
    site = held()
    site.change(C, user="chief")
    site.limits = replace(site.limits, protected_users=("chief",))
    site.obeys(*site.cycle(5))
    assert of(site.decision.actions, "release") == [C]
    assert of(site.cycle(20), "hold") == []


def test_a_job_held_by_another_policy_is_let_go_where_this_one_has_no_turns_for_it() -> None:
    site = held_by_pdors()
    site.best_effort = Gavel(allocator="las", types=("v100",))
    assert of(site.cycle(5), "release") == [C]


@pytest.mark.parametrize("held", HELD)
def test_no_job_is_held_during_a_pause(held: Callable[[], Driver]) -> None:
    site = held()
    site.memory, decision = step(site.memory, site.snapshot(20), site.entries(), site.limits, paused="by an admin")
    assert of(decision.actions, "release") == [C]
    site.obeys(*decision.actions)
    assert C in {*of(site.cycle(30), "hold"), *of(site.decision.actions, "setnodes")}, "afterwards it goes on"


def test_tasks_of_an_array_are_left_alone() -> None:
    site = gavel.Site(gavel.on(A, "v"), gavel.queued(C), speeds={A: {"v100": 2}, C: {"v100": 4}})
    site.nodes.pop("k")
    site.jobs[JobId(A)] = replace(site.jobs[JobId(A)], array_job_id=JobId(50), array_task_id=4)
    for at_s in (0, 361, 362):
        site.obeys(*site.cycle(at_s))
        assert A not in of(site.decision.actions, "notify")


def test_a_job_that_slurm_does_not_start_in_its_turn_is_left_to_slurm_for_a_while() -> None:
    site = gavel.Site(gavel.queued(C), speeds={C: {"v100": 4, "k80": 4}})
    free = 0
    for at_s in range(0, 1200, 30):
        site.obeys(*site.cycle(at_s))
        job = site.jobs[JobId(C)]
        free += not job.request.required_nodes and not job.held
    assert free * 30 >= site.limits.retry_after_s


class LimitedSite(SaysLate, gavel.Site):
    """The two nodes, where some users are at a limit."""


def test_a_job_at_a_limit_has_no_order_after_order_for_a_free_gpu() -> None:
    site = LimitedSite(gavel.queued(C), speeds={C: {"v100": 4, "k80": 4}})
    # Behind a job that gavel has no part in Slurm says Priority of C, unless C is raised.
    site.submits(waiting(B, cpus=64), like=C)
    site.limited = (C,)
    (order,) = site.polls(0, 60)
    assert (order.preemptor, order.ending) == (C, Ending.BLOCKED)
    assert not site.jobs[JobId(C)].held
    assert site.jobs[JobId(C)].request.required_nodes == ()
    assert site.cycle(60) == ()


def test_a_node_that_slurmctld_does_not_list_ends_no_poll() -> None:
    site = gavel.Site(
        gavel.on(A, "v"), gavel.on(B, "k"), gavel.queued(C), speeds={A: {"v100": 1, "k80": 2}, B: {"v100": 2, "k80": 1}}
    )
    site.cycle(0)
    site.nodes.pop("k")
    site.cycle(361)


def test_of_many_a_part_is_held_in_each_poll_first_come_first() -> None:
    jobs = [gavel.queued(number) for number in range(100, 100 + MOST_HELD + 10)]
    site = gavel.Site(gavel.on(A, "v"), *jobs, speeds={A: {"v100": 2}})
    site.nodes.pop("k")
    first = of(site.cycle(0), "hold")
    assert first == list(range(100, 100 + MOST_HELD))
    site.obeys(*site.decision.actions)
    assert len(of(site.cycle(2), "hold")) == 10


def test_an_empty_slurmctld_is_not_believed_while_a_job_is_held() -> None:
    site = held_by_pdors()
    assert doubt(replace(site.snapshot(5), jobs={}), None, site.memory, 0.0)


class TestABindingOfBefore:
    """Job 1 was bound to k by an earlier order, ran there, and moves: it and job 2 trade places."""

    def trading(self) -> Driver:
        site = gavel.Site(
            gavel.on(A, "k"),
            gavel.on(B, "v"),
            speeds={A: {"v100": 4, "k80": 1}, B: {"v100": 2, "k80": 2}},
        )
        site.change(A, request=replace(site.jobs[JobId(A)].request, required_nodes=("k",)))
        bound = Change(
            job_id=JobId(A),
            field=Field.NODES,
            previous=Nodes(),
            value=Nodes(names=("k",)),
            at=NOW - 1000,
            since=None,
            order_id=OrderId(77),
        )
        changes = {str(Field.NODES): {JobId(A): bound}}
        site.memory = replace(site.memory, changes=changes, next_order=OrderId(100))
        site.obeys(*site.cycle(0))
        site.cycle(5)
        for job_id in (A, B):
            site.requeued(job_id)
            site.change(job_id, reason="Resources")
        return site

    def binding(self, site: Driver) -> list[SetField]:
        return [one for one in site.decision.actions if sets(one, Field.NODES) and one.job_id == A]

    def test_killed_before_the_new_one_was_sent_it_is_sent_again(self) -> None:
        site = self.trading()
        site.cycle(10)
        assert [nodes.names for _, nodes in nodes_set(self.binding(site))] == [("v",)]
        site.cycle(12)
        assert [nodes.names for _, nodes in nodes_set(self.binding(site))] == [("v",)]

    def test_undo_puts_back_the_old_one_too(self) -> None:
        site = self.trading()
        site.cycle(10)
        _, decision = undo(site.memory, site.snapshot(12), site.limits)
        assert [nodes.names for job_id, nodes in nodes_set(decision.actions) if job_id == A] == [()]

    def test_refused_the_old_one_stays_on_the_books(self) -> None:
        site = self.trading()
        site.cycle(10)
        site.says(Status.FAILED, *self.binding(site), kind=FailureKind.BUSY)
        shown = site.jobs[JobId(A)]
        assert shown.request.required_nodes == ("k",)
        assert site.memory.own_request(shown).required_nodes == ()
        site.cycle(12)
        assert [nodes.names for _, nodes in nodes_set(self.binding(site))] == [("v",)]


def test_a_raise_that_was_made_is_on_the_books_in_mode_shadow() -> None:
    drive = bound()
    assert drive.jobs[JobId(9)].nice < 0
    drive.cycle(1)
    drive.says(Status.WOULD, *drive.cycle(101))
    _, decision = undo(drive.memory, drive.snapshot(102), drive.limits)
    assert [one.value for one in decision.actions if sets(one, Field.NICE) and one.job_id == 9] == [0]


@pytest.mark.parametrize(("most", "asked"), [(20, {4, A, B}), (1, {4})])
def test_a_cycle_asks_no_more_for_rounds_than_trials_have_left_over(most: int, asked: set[int]) -> None:
    site = gavel.Site(
        gavel.on(A, "k"),
        gavel.on(B, "v"),
        running(4, share("c", 64)),
        waiting(9, cpus=64),
        speeds={A: {"v100": 4, "k80": 1}, B: {"v100": 2, "k80": 2}},
    )
    site.nodes["c"] = node("c", cpus=64)
    site.start = replace(
        site.start, partitions={"p": replace(site.start.partitions["p"], nodes=frozenset({"v", "k", "c"}))}
    )
    site.limits = replace(site.limits, max_victims_per_cycle=most)
    becomes(site, 9, JobClass.TE)
    site.cycle(0)
    assert set(of(site.decision.actions, "notify")) == asked
