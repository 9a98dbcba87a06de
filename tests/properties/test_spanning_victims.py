"""A TE job of several nodes costs the fewest victims that there are, where jobs span nodes, by trying all sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tesched_core.model.cluster import Request
from tesched_core.policy import MakeRoom
from tesched_policies import victim_search
from tesched_policies.victim_search import fewest_and_cheapest, plan_all

from tests.builders import cluster, node, running, share, view_of, waiting
from tests.examples import examples


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Nodes by (CPUs, memory), jobs by their nodes and (CPUs, memory) on each, and what the TE job wants on each."""

    nodes: Sequence[tuple[int, int]]
    jobs: Sequence[tuple[Sequence[int], tuple[int, int]]]
    #: [jobs] which goes first
    order: Sequence[int]
    wanted: int
    each: tuple[int, int]
    required: Sequence[int] = ()


_SIZES, _AMOUNTS, _WANTED = st.sampled_from([8, 10, 6]), st.sampled_from([2, 3, 1, 4]), st.sampled_from([5, 6, 4, 3])


@st.composite
def spread_jobs(draw: st.DrawFn) -> Spread:
    """Draw two to five nodes, and at most nine jobs on one to three of them."""
    nodes = [(draw(_SIZES), draw(_SIZES)) for _ in range(draw(st.sampled_from([3, 4, 2, 5])))]
    left, jobs = [*nodes], []
    for _ in range(draw(st.sampled_from([12, 10, 8]))):
        where = draw(st.lists(st.integers(0, len(nodes) - 1), min_size=1, max_size=3, unique=True))
        cpus, mem = draw(_AMOUNTS), draw(_AMOUNTS)
        if all(left[place][0] >= cpus and left[place][1] >= mem for place in where):
            jobs.append((tuple(where), (cpus, mem)))
            for place in where:
                left[place] = left[place][0] - cpus, left[place][1] - mem
    return Spread(
        nodes=nodes,
        jobs=jobs,
        order=draw(st.permutations(range(len(jobs)))),
        wanted=min(draw(st.sampled_from([2, 3])), len(nodes)),
        each=(draw(_WANTED), draw(_WANTED)),
        required=draw(st.sampled_from([(), (), (0,)])),
    )


def enough(site: Spread, going: Sequence[int]) -> bool:
    """Check whether the TE job fits once these jobs have left."""
    fits = []
    for place, (cpus, mem) in enumerate(site.nodes):
        stay = [size for number, (where, size) in enumerate(site.jobs) if place in where and number not in going]
        free = cpus - sum(size[0] for size in stay), mem - sum(size[1] for size in stay)
        fits.append(free[0] >= site.each[0] and free[1] >= site.each[1])
    return sum(fits) >= site.wanted and all(fits[place] for place in site.required)


def smallest(site: Spread) -> list[tuple[int, ...]]:
    """Return all sets of the fewest jobs without which the TE job fits."""
    for count in range(len(site.jobs) + 1):
        found = [going for going in combinations(range(len(site.jobs)), count) if enough(site, going)]
        if found:
            return found
    return []


def victims(site: Spread) -> list[tuple[int, ...]]:
    """Return the victims of the one plan, or of none."""
    request = Request(
        cpus=site.wanted * site.each[0],
        tasks=site.wanted,
        cpus_per_task=site.each[0],
        min_nodes=site.wanted,
        max_nodes=site.wanted,
        mem_per_node_mib=site.each[1],
        required_nodes=tuple(f"n{place}" for place in site.required),
    )
    view = view_of(
        cluster(
            [node(f"n{place}", cpus=cpus, mem_mib=mem) for place, (cpus, mem) in enumerate(site.nodes)],
            [
                *(
                    running(number, *(share(f"n{place}", *size) for place in where))
                    for number, (where, size) in enumerate(site.jobs, 1)
                ),
                waiting(99, request),
            ],
        )
    )
    score = np.array([2.0 ** site.order[job_id - 1] for job_id in view.running.job_id.tolist()])
    found = plan_all(view, lambda _view, _job: score, fewest_and_cheapest, why="")
    return [tuple(one - 1 for one in plan.victim_ids) for plan in found.plans if isinstance(plan, MakeRoom)]


@settings(max_examples=examples(300), deadline=None)
@given(spread_jobs())
def test_no_fewer_jobs_that_span_nodes_are_enough(site: Spread) -> None:
    least, found = smallest(site), victims(site)
    assert len(found) == bool(least)
    assert not found or len(found[0]) == len(least[0])


@settings(max_examples=examples(300), deadline=None)
@given(spread_jobs())
def test_one_job_that_is_enough_is_the_one_that_goes_first(site: Spread) -> None:
    least = smallest(site)
    if least and len(least[0]) == 1:
        assert victims(site) == [min(least, key=lambda one: site.order[one[0]])]


@settings(max_examples=examples(300), deadline=None)
@given(spread_jobs())
def test_none_of_the_victims_is_superfluous_however_few_sets_are_compared(site: Spread) -> None:
    with patch.multiple(victim_search, MOST_STARTS=0, MOST_NODE_SETS=0):
        found = victims(site)
    for some in found:
        assert not any(enough(site, [one for one in some if one != other]) for other in some)
