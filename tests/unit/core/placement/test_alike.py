"""Jobs that may start in the same places, and what they want as if some jobs were gone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.cluster import Job, Partition, Request
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.placement import alike
from tesched_core.placement.alike import WithoutSome, kind_of
from tesched_core.placement.columns_of import columns_of
from tesched_core.placement.demand import Demand, demands_of
from tesched_core.placement.whole_nodes import with_whole_nodes

from tests.builders import cluster, node, running, share, waiting

ONE = Request(cpus=4, mem_per_node_mib=1)
ALONE = replace(ONE, sharing="USER")
SEVERAL = replace(ONE, min_nodes=1, max_nodes=3, tasks=3, cpus=3)
NODES = ("n1", "n2", "n3", "n4")
TE, BE = JobId(1), JobId(2)


def there(name: str, job_id: int, *, user: str, request: Request = ONE) -> Job:
    return replace(running(job_id, share(name, 4), user=user), request=request)


def site(*, exclusive_user: bool = False) -> Snapshot:
    """Return nodes that ada keeps, that bob keeps, that ada is on, and an empty one."""
    snapshot = cluster(
        [node(name) for name in NODES],
        [
            there("n1", TE, user="ada", request=ALONE),
            there("n2", BE, user="bob", request=ALONE),
            there("n3", 3, user="ada"),
        ],
    )
    partition = Partition(name="p", nodes=frozenset(NODES), exclusive_user=exclusive_user)
    return replace(snapshot, partitions={"p": partition})


def allowed(demands: tuple[Demand, ...] | list[Demand]) -> list[list[bool]]:
    return [one.allowed.tolist() for one in demands]


@pytest.mark.parametrize("exclusive_user", [False, True])
@pytest.mark.parametrize("request_", [ONE, ALONE, SEVERAL, replace(SEVERAL, sharing="USER")])
@pytest.mark.parametrize("user", ["ada", "bob", "eve"])
@pytest.mark.parametrize("gone", [(), (TE,), (BE,), (3,), (TE, BE), (TE, BE, 3), (99,)])
def test_what_a_job_wants_without_some_is_what_it_would_want_if_they_had_never_come(
    exclusive_user: bool, request_: Request, user: str, gone: tuple[JobId, ...]
) -> None:
    snapshot, job = site(exclusive_user=exclusive_user), waiting(10, request_, user=user)
    capacity = columns_of(snapshot).capacity
    found = WithoutSome(snapshot=snapshot, capacity=capacity).demands(
        job, demands_of(job, snapshot, capacity), frozenset(gone)
    )
    rest = replace(snapshot, jobs={job_id: one for job_id, one in snapshot.jobs.items() if job_id not in gone})
    wanted = demands_of(job, rest, columns_of(rest).capacity)
    assert allowed([*found]) == allowed(wanted)
    assert [one.nodes for one in found] == [one.nodes for one in wanted]


@pytest.mark.parametrize(("user", "same"), [("eve", True), ("ada", False)])
def test_jobs_of_users_that_keep_no_node_are_alike(user: str, same: bool) -> None:
    snapshot = site()
    capacity = columns_of(snapshot).capacity
    kinds = [kind_of(waiting(10, ONE, user=one), snapshot, capacity) for one in (user, "zoe")]
    assert (kinds[0] == kinds[1]) is same


def test_demands_are_worked_out_once_for_a_job_of_one_node(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot, job = site(), waiting(10, ALONE, user="eve")
    capacity = columns_of(snapshot).capacity
    now, asked = demands_of(job, snapshot, capacity), []

    def demands(*args: object, **options: object) -> object:
        asked.append(args)
        return demands_of(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(alike, "demands_of", demands)
    anew = WithoutSome(snapshot=snapshot, capacity=capacity)
    for gone in ((TE,), (BE,), (TE, BE)):
        anew.demands(job, now, frozenset(gone))
    assert len(asked) == 1
    assert not anew.costs(job, now)
    several = replace(job, request=replace(SEVERAL, sharing="USER"))
    assert anew.costs(several, demands_of(several, snapshot, capacity))


@pytest.mark.parametrize("request_", [ONE, SEVERAL])
def test_job_that_may_want_whole_nodes_is_counted_both_ways_if_some_were_gone(request_: Request) -> None:
    snapshot = site()
    known = [
        Partition(name="p", nodes=frozenset(NODES), exclusive_user=True),
        Partition(name="whole", nodes=frozenset({"n4"}), exclusive_user=True, oversubscribe="EXCLUSIVE"),
    ]
    snapshot = replace(snapshot, partitions={one.name: one for one in known})
    capacity, job = columns_of(snapshot).capacity, waiting(10, request_, user="eve", partitions=("p", "whole"))
    anew, gone, cpus = WithoutSome(snapshot=snapshot, capacity=capacity), frozenset({TE, BE}), []
    for one in (job, with_whole_nodes(job)):
        now = demands_of(one, snapshot, capacity, binds=False)
        cpus.append([int(demand.takes[0, 0]) for demand in anew.demands(one, now, gone)])
    assert cpus[0][0] < cpus[1][0] == capacity.total[0, 0]
