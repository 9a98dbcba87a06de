"""Answers that a cycle takes over from the one before it: those of the same site alone, and the same as anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tesched_core.model.capacity import Capacity
from tesched_core.model.cluster import Job, Partition, Request, Reservation
from tesched_core.model.resources import JobId, Tres
from tesched_core.model.site_answers import SiteAnswers
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement.columns_of import columns_of
from tesched_core.placement.constraint import UnsupportedRequestError
from tesched_core.placement.demand import demands_of
from tesched_core.placement.places import PlacesOfCycle

from tests.builders import NOW, cluster, node, running, share, waiting

NODES = ("n1", "n2", "n3")
ONE = Request(cpus=4, mem_per_node_mib=1)
JOB = waiting(1, ONE, user="ada")


def site() -> Snapshot:
    """Return three nodes, of which the first is in use."""
    jobs = [running(9, share("n1", 32), user="eve")]
    return cluster([node(name, gres={"gpu": 2}) for name in NODES], jobs, partitions=[partition(*NODES)])


def partition(*nodes: str) -> Partition:
    return Partition(name="p", nodes=frozenset(nodes))


def polled(snapshot: Snapshot, before: SiteAnswers | None = None) -> tuple[Snapshot, Capacity]:
    """Return the snapshot with answers of its own, and its resources."""
    answers = SiteAnswers(
        nodes=snapshot.nodes,
        partitions=snapshot.partitions,
        reservations=snapshot.reservations,
        settings=snapshot.settings,
        before=before,
    )
    capacity = columns_of(snapshot).capacity
    answers.capacity = capacity
    return replace(snapshot, answers=answers), capacity


def with_node(snapshot: Snapshot, **fields: object) -> Snapshot:
    """Return the snapshot with another n2."""
    return replace(snapshot, nodes={**snapshot.nodes, "n2": replace(snapshot.nodes["n2"], **fields)})  # type: ignore[arg-type]


def with_partition(snapshot: Snapshot, **fields: object) -> Snapshot:
    return replace(snapshot, partitions={"p": replace(snapshot.partitions["p"], **fields)})  # type: ignore[arg-type]


def reserved(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with a reservation of another's on n2."""
    one = Reservation(name="r", start_time=NOW - 1, end_time=NOW + 99, nodes=frozenset({"n2"}), users=frozenset({"x"}))
    return replace(snapshot, reservations={"r": one})


def old_answers(request: Request = ONE) -> SiteAnswers:
    """Return answers of a cycle in which the job's demands and places were worked out."""
    snapshot, capacity = polled(site())
    demands_of(replace(JOB, request=request), snapshot, capacity)
    PlacesOfCycle(snapshot=snapshot, capacity=capacity).of(replace(JOB, request=request))
    assert snapshot.answers is not None
    return snapshot.answers


def test_the_next_cycle_of_the_same_site_works_nothing_out_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    before = old_answers()
    # Another job runs by now, and the nodes' records say so.
    jobs = {JobId(9): running(9, share("n2", 8), user="eve"), JobId(8): running(8, share("n3", 32), user="ada")}
    now = with_node(replace(site(), jobs=jobs), state="MIXED", held=Tres(cpus=8), flags=frozenset({"PLANNED"}))
    snapshot, capacity = polled(now, before)
    expected = demands_of(JOB, now, capacity)
    monkeypatch.setattr("tesched_core.placement.demand.unsupported", lambda *_args, **_named: pytest.fail("worked out"))
    (found,) = demands_of(replace(JOB, job_id=JobId(2)), snapshot, capacity)
    assert found.job.job_id == 2, "it is the demand of the job that was asked for"
    assert (found.allowed == expected[0].allowed).all()
    assert (found.takes == expected[0].takes).all()
    assert PlacesOfCycle(snapshot=snapshot, capacity=capacity).of(JOB).can_start


@pytest.mark.parametrize(
    ("request_", "change"),
    [
        (ONE, lambda one: with_node(one, state="DOWN")),
        (ONE, lambda one: with_node(one, flags=frozenset({"DRAIN"}))),
        (replace(ONE, exclusive=True), lambda one: with_node(one, total=Tres(cpus=2, mem_mib=64_000))),
        (replace(ONE, features="fast"), lambda one: with_node(one, features=frozenset({"fast"}))),
        (replace(ONE, tmp_mib=5), lambda one: with_node(one, tmp_mib=9)),
        (ONE, lambda one: with_partition(one, nodes=frozenset({"n1"}))),
        (ONE, lambda one: with_partition(one, oversubscribe="EXCLUSIVE")),
        (ONE, lambda one: with_partition(one, max_mem_per_node_mib=1, min_nodes=2)),
        (ONE, lambda one: with_partition(one, oversubscribe="FORCE:4")),
        (ONE, lambda one: with_partition(one, exclusive_user=True)),
        (ONE, reserved),
        (
            replace(ONE, gres_per_node=(("gpu", 1),), mem_per_node_mib=None),
            lambda one: replace(one, settings=replace(one.settings, def_mem_per_gpu_mib=77, def_cpus_per_gpu=7)),
        ),
    ],
)
def test_of_another_site_all_is_worked_out_anew(request_: Request, change: Callable[[Snapshot], Snapshot]) -> None:
    job, now = replace(JOB, request=request_), change(site())
    snapshot, capacity = polled(now, old_answers(request_))
    assert said(job, snapshot, capacity) == said(job, now, capacity)


def said(job: Job, snapshot: Snapshot, capacity: Capacity) -> object:
    """Return a job's demands and places as values that can be compared."""
    places = PlacesOfCycle(snapshot=snapshot, capacity=capacity).of(job)
    where = places.can_start, None if places.nodes is None else places.nodes.tolist()
    try:
        demands = demands_of(job, snapshot, capacity)
    except UnsupportedRequestError as error:
        return where, str(error)
    return where, [(one.nodes, one.allowed.tolist(), one.takes.tolist(), one.all_memory) for one in demands]


def test_in_a_reservation_with_other_nodes_it_is_worked_out_anew() -> None:
    job = replace(JOB, reservation="mine")
    one = Reservation(name="mine", start_time=NOW - 1, end_time=NOW + 99, nodes=frozenset({"n2"}))
    before, capacity = polled(replace(site(), reservations={"mine": one}))
    assert demands_of(job, before, capacity)[0].allowed.tolist() == [False, True, False]
    moved = replace(site(), reservations={"mine": replace(one, nodes=frozenset({"n3"}))})
    now, capacity = polled(moved, before.answers)
    assert demands_of(job, now, capacity)[0].allowed.tolist() == [False, False, True]


def test_what_is_not_modelled_is_said_again() -> None:
    request = replace(ONE, not_modelled=("--odd=1",))
    snapshot, capacity = polled(site())
    for _ in range(2):
        with pytest.raises(UnsupportedRequestError, match="--odd=1"):
            demands_of(replace(JOB, request=request), snapshot, capacity)


@pytest.mark.parametrize(
    ("request_", "exclusive_user"), [(replace(ONE, sharing="USER"), False), (ONE, True)], ids=["job", "partition"]
)
def test_jobs_that_keep_their_nodes_for_their_user_are_worked_out_each_time(
    request_: Request, exclusive_user: bool
) -> None:
    snapshot, capacity = polled(with_partition(site(), exclusive_user=exclusive_user))
    capacity = replace(capacity, kept_by=())
    alone = replace(JOB, request=request_)
    assert demands_of(alone, snapshot, capacity)[0].allowed.tolist() == [False, True, True]
    gone = replace(snapshot, jobs={})
    assert demands_of(alone, gone, capacity)[0].allowed.tolist() == [True, True, True]


def test_a_closed_cycle_keeps_none_before_it() -> None:
    first = old_answers()
    snapshot, _ = polled(site(), first)
    assert snapshot.answers is not None
    snapshot.answers.close()
    assert snapshot.answers.before is None
