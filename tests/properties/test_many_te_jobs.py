"""Many waiting TE jobs: what is kept from one to the next changes no plan.

Once against a search in plain integers, node by node, of jobs that hold and want one node; once against the planning of
each TE job alone on what the plans before it have left, of jobs of every kind, some refused by limits;
and where a policy proposes anew without some of them, against what it proposes then if nothing was kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tesched_core.guard.admission import GuardAdmission, admitted
from tesched_core.model.cluster import Job, Request
from tesched_core.model.decision import RefusalCode, Refusals
from tesched_core.model.limits import Limits
from tesched_core.model.resources import JobId
from tesched_core.placement import node_prices
from tesched_core.placement.fewest import least_of_all
from tesched_core.policy import MakeRoom, Plan, Policy, Proposal, View
from tesched_policies import ground
from tesched_policies.baselines import AtRandom, LongestRemaining, YoungestFirst
from tesched_policies.fitgpp import FitGpp
from tesched_policies.ground import Ground
from tesched_policies.patient import Patient
from tesched_policies.victim_search import fewest_and_cheapest, plan_all

from tests.builders import NOW, cluster, node, running, share, view_of, waiting
from tests.examples import examples

USERS = ("ada", "bob", "eve")


@dataclass(frozen=True, kw_only=True)
class Held:
    """What a running job holds."""

    job_id: int
    node: str
    cpus: int
    mem_mib: int
    score: int


def _cheapest_on(there: Sequence[Held], free: tuple[int, int], wants: tuple[int, int]) -> tuple[Held, ...] | None:
    """Return the victims on one node, by the rule of `fewest_and_cheapest`; None if not all of them are enough."""

    def enough(some: Sequence[Held]) -> bool:
        cpus, mem_mib = sum(one.cpus for one in some), sum(one.mem_mib for one in some)
        return free[0] + cpus >= wants[0] and free[1] + mem_mib >= wants[1]

    if enough(()):
        return ()
    in_order = sorted(there, key=lambda one: one.score)
    single = [one for one in in_order if enough((one,))]
    if single:
        return (single[0],)
    first = [in_order[:count] for count in range(2, len(in_order) + 1) if enough(in_order[:count])][:1]
    if not first:
        return None
    kept = first[0]
    for one in reversed(first[0]):
        without = [other for other in kept if other is not one]
        kept = without if enough(without) else kept
    for count in range(2, len(kept)):
        sets = [some for some in combinations(in_order, count) if enough(some)]
        if sets:
            return min(sets, key=lambda some: sum(one.score for one in some))
    return tuple(kept)


def _plans(
    held: Sequence[Held], sizes: Mapping[str, tuple[int, int]], wants: Sequence[tuple[int, int]]
) -> list[tuple[str, tuple[int, ...]] | None]:
    """Return each TE job's node and victims; None where there are none."""
    there = {name: [one for one in held if one.node == name] for name in sizes}
    free = {
        name: (cpus - sum(one.cpus for one in there[name]), mem - sum(one.mem_mib for one in there[name]))
        for name, (cpus, mem) in sizes.items()
    }
    found: list[tuple[str, tuple[int, ...]] | None] = []
    for job in wants:
        ways = [
            (len(victims), sum(one.score for one in victims), place, name, victims)
            for place, name in enumerate(sizes)
            if (victims := _cheapest_on(there[name], free[name], job)) is not None
        ]
        if not ways:
            found.append(None)
            continue
        _, _, _, name, victims = min(ways, key=lambda way: way[:3])
        found.append((name, tuple(one.job_id for one in sorted(victims, key=lambda one: one.score))))
        there[name] = [one for one in there[name] if one not in victims]
        cpus, mem = (free[name][part] - job[part] for part in (0, 1))
        free[name] = cpus + sum(one.cpus for one in victims), mem + sum(one.mem_mib for one in victims)
    return found


_AMOUNTS = st.tuples(st.integers(1, 3), st.integers(1, 3))


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), _AMOUNTS), min_size=1, max_size=16),
    st.permutations(range(16)),
    st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), min_size=1, max_size=3),
    st.lists(st.integers(0, 2), min_size=1, max_size=14),
)
@settings(max_examples=examples(100), deadline=None)
def test_plans_of_many_are_those_of_a_search_node_by_node(
    jobs: list[tuple[str, tuple[int, int]]],
    scores: list[int],
    kinds: list[tuple[int, int]],
    asking: list[int],
) -> None:
    # Powers of two: no two sets of jobs cost the same.
    held = [
        Held(job_id=number + 1, node=name, cpus=cpus, mem_mib=mem, score=2 ** scores[number])
        for number, (name, (cpus, mem)) in enumerate(jobs)
    ]
    sizes = {
        name: (
            sum(one.cpus for one in held if one.node == name) + free,
            sum(one.mem_mib for one in held if one.node == name) + free,
        )
        for free, name in enumerate("abcd")
    }
    wants = [kinds[number % len(kinds)] for number in asking]
    view = view_of(
        cluster(
            [node(name, cpus=cpus, mem_mib=mem) for name, (cpus, mem) in sizes.items()],
            [
                *(running(one.job_id, share(one.node, one.cpus, one.mem_mib)) for one in held),
                *(
                    waiting(100 + number, Request(cpus=cpus, cpus_per_task=cpus, mem_per_node_mib=mem))
                    for number, (cpus, mem) in enumerate(wants)
                ),
            ],
        )
    )
    score = np.array([held[job_id - 1].score for job_id in view.running.job_id.tolist()], dtype=np.float64)
    found = plan_all(view, lambda _view, _job: score, fewest_and_cheapest, why="")
    plans = {plan.preemptor: plan for plan in found.plans if isinstance(plan, MakeRoom)}
    by_job = [plans.get(JobId(100 + number)) for number in range(len(wants))]
    assert [None if one is None else (*one.nodes, one.victim_ids) for one in by_job] == _plans(held, sizes, wants)


def _one_by_one(
    view: View, propose: partial[Proposal[None]], admits: Callable[[Sequence[Plan]], bool] = lambda _: True
) -> Proposal[None]:
    """Plan each TE job alone, on what the plans before it have left; one that is not admitted is left out."""
    intents: list[Plan] = []
    eligible, capacity, running_jobs = view.eligibility, view.capacity_after_orders, view.running
    refusals = Refusals()
    for job in view.waiting:
        alone = replace(view, kept={}, waiting=(job,), find_eligible=partial(lambda found: found, eligible))
        vars(alone)["capacity_after_orders"] = capacity
        answer = propose(view=alone)
        refusals += answer.refusals
        for plan in answer.plans:
            if not admits([*intents, plan]):
                continue
            intents.append(plan)
            if not isinstance(plan, MakeRoom):
                continue
            rows = [running_jobs.row_of[job_id] for job_id in plan.victim_ids]
            shares = np.flatnonzero(np.isin(running_jobs.share_job, rows))
            capacity = capacity.changed(running_jobs.share_node[shares], running_jobs.frees[shares])
            request, nodes = job.request, len(plan.nodes)
            takes = np.zeros((nodes, len(capacity.resources)), dtype=np.int64)
            takes[:, 0], takes[:, 1] = request.cpus // nodes, request.mem_per_node_mib or 0
            capacity = capacity.changed([capacity.index[name] for name in plan.nodes], -takes)
            why = (RefusalCode.ALREADY_LEAVING, "it yields already, to another trial-and-error job of this cycle")
            eligible = eligible.without(np.array(rows, dtype=np.intp), why)
    return Proposal(intents=tuple(intents), refusals=refusals)


@st.composite
def views(draw: st.DrawFn) -> View:
    """Draw a cluster on which jobs of several nodes and several users run, and a queue of a few kinds of TE jobs."""
    names = [f"n{place}" for place in range(draw(st.integers(2, 7)))]
    left = dict.fromkeys(names, (8, 8))
    jobs: list[Job] = []
    for job_id in range(1, draw(st.integers(1, 20)) + 1):
        where = draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True))
        cpus, mem = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
        if all(left[name] >= (cpus, mem) and left[name][1] >= mem for name in where):
            left |= {name: (left[name][0] - cpus, left[name][1] - mem) for name in where}
            user = draw(st.sampled_from(USERS))
            jobs.append(running(job_id, *(share(name, cpus, mem) for name in where), user=user))
    kinds = [
        Request(
            cpus=nodes * cpus,
            min_nodes=nodes,
            max_nodes=nodes,
            tasks=nodes,
            cpus_per_task=cpus,
            mem_per_node_mib=mem,
            required_nodes=required,
        )
        for nodes, cpus, mem, required in draw(
            st.lists(
                st.tuples(
                    st.sampled_from([1, 1, 2, 3]),
                    st.integers(1, 8),
                    st.integers(1, 8),
                    st.sampled_from([(), (), (names[0],)]),
                ),
                min_size=1,
                max_size=3,
            )
        )
    ]
    queue = [
        waiting(100 + number, kind, user=user, submit_time=NOW - since)
        for number, (kind, user, since) in enumerate(
            draw(
                st.lists(
                    st.tuples(st.sampled_from(kinds), st.sampled_from(USERS), st.integers(0, 300)),
                    min_size=1,
                    max_size=10,
                )
            )
        )
    ]
    graces: dict[int, float] = {job.job_id: draw(st.sampled_from([10.0, 30.0])) for job in jobs}
    excused = [job.job_id for job in jobs if draw(st.integers(0, 9)) == 0]
    return view_of(
        cluster([node(name, cpus=8, mem_mib=8) for name in names], [*jobs, *queue], graces=graces), excused=excused
    )


@given(
    views(),
    st.sampled_from(
        [FitGpp(), FitGpp(s=0.0), FitGpp(), Patient(), LongestRemaining(), YoungestFirst(), AtRandom(seed=3)]
    ),
    st.sampled_from([(200, 1000, 100, 100), (2, 3, 1, 100), (1, 1, 0, 0)]),
    st.sampled_from([0, ground.FEW]),
)
@settings(max_examples=examples(150), deadline=None)
def test_each_plan_is_that_of_its_job_alone(
    view: View, policy: Policy[None], bounds: tuple[int, int, int, int], few: int
) -> None:
    weighed, kept, ahead, many = bounds
    with patch.multiple(node_prices, MOST_WEIGHED=weighed, _KEPT=kept, _AHEAD=ahead, _MANY=many):
        # What is found for strangers is taken over for each user, or for those with own jobs on few nodes alone.
        with patch.object(ground, "FEW", few):
            together = policy.propose(view, None)
        # For none: on no cluster are so few nodes few.
        with patch.object(ground, "FEW", 1000):
            alone = _one_by_one(view, partial(lambda view: policy.propose(view, None)))
    assert together.plans == alone.plans
    assert _said(together) == _said(alone)


@given(
    views(),
    st.sampled_from([FitGpp(), Patient(), Patient(patience_s=100.0), LongestRemaining(), AtRandom(seed=3)]),
    st.integers(0, 4),
    st.integers(0, 3),
    st.sampled_from([Limits(), Limits(max_preemptions_per_user_hour=1), Limits(max_victims_for_te_user_hour=1)]),
)
@settings(max_examples=examples(150), deadline=None)
def test_a_job_that_a_limit_refuses_takes_nothing_from_those_after_it(
    view: View, policy: Policy[None], open_orders: int, victims: int, hourly: Limits
) -> None:
    limits = replace(hourly, max_open_orders=open_orders, max_victims_per_cycle=victims)
    together = policy.propose(replace(view, kept={}, limits=limits, admission=GuardAdmission.of), None)
    alone = _one_by_one(
        view,
        partial(lambda view: policy.propose(view, None)),
        lambda plans: len(admitted(plans, view, limits, lambda _: None)) == len(plans),
    )
    assert together.plans == alone.plans
    # Of each job that gets no plan there is a reason.
    reasons = {one.preemptor for one in together.refusals if one.job_id == one.preemptor}
    assert {job.job_id for job in view.waiting} == reasons | {plan.preemptor for plan in together.plans}


def _said(proposal: Proposal[None]) -> set[tuple[object, ...]]:
    return {
        (one.preemptor, one.job_id, one.code, one.score, one.text if one.code is RefusalCode.NO_VICTIM else "")
        for one in proposal.refusals
    }


@given(views(), st.sampled_from([FitGpp(), FitGpp(s=0.0), AtRandom(seed=3)]), st.data())
@settings(max_examples=examples(100), deadline=None)
def test_what_is_proposed_anew_is_what_is_proposed_at_first(
    view: View, policy: Policy[None], data: st.DataObject
) -> None:
    policy.propose(view, None)
    for _ in range(2):
        some = tuple(job for job in view.waiting if data.draw(st.booleans()))
        again = policy.propose(replace(view, waiting=some), None)
        first = policy.propose(replace(view, waiting=some, kept={}), None)
        assert (again.plans, again.refusals) == (first.plans, first.refusals)


@given(views())
@settings(max_examples=examples(50), deadline=None)
def test_the_least_number_of_victims_follows_the_plans(view: View) -> None:
    kept = Ground.of(view, fewest_and_cheapest, drawn=False)
    pool, score = kept.pool_of(view.eligibility), FitGpp().rank(view, None)
    for job in view.waiting:
        for demand in kept.candidates(job)[0].any:
            assert kept.least(demand, pool) == least_of_all(demand, view.running, pool, kept.capacity)
            found = kept.search(demand, pool, kept.prices(job, score).price)
            if found is not None:
                kept.plan(demand, found, stay=False)
                assert not pool[list(found.victims)].any()
