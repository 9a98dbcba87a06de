"""Random clusters, one step: plans fit, no victim is superfluous, every job is accounted for.

What the plans come to is reckoned here anew, job by job in plain integers, and not with core's own arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TypeAlias

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tesched_core.model.cluster import Job, JobState, Node, NodeShare, Partition, Request
from tesched_core.model.decision import Decision, RefusalCode
from tesched_core.model.job_memory import JobMemory
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order
from tesched_core.model.resources import JobId, Tres
from tesched_core.model.snapshot import JobClass, Snapshot, Traits
from tesched_core.policy import Policy, in_turn
from tesched_core.step import step
from tesched_policies.baselines import AtRandom, LongestRemaining, YoungestFirst
from tesched_policies.fitgpp import FitGpp

from tests.builders import NOW, excused
from tests.examples import examples

#: (node, resource) -> amount
Amounts: TypeAlias = dict[tuple[str, str], int]
POLICIES: Sequence[Policy[None]] = (FitGpp(), FitGpp(s=0), LongestRemaining(), AtRandom(seed=3), YoungestFirst())
RESOURCES = ("cpu", "mem_mib", "gpu")
rarely = st.integers(0, 7).map(lambda number: number == 7)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A cluster, what is remembered, and the site's limits."""

    snapshot: Snapshot
    memory: Memory
    limits: Limits
    policy: Policy[None]


def _tres(cpus: int, mem_mib: int, gpus: int) -> Tres:
    return Tres(cpus=cpus, mem_mib=mem_mib, gres=(("gpu", gpus),) if gpus else ())


@st.composite
def nodes_of(draw: st.DrawFn) -> list[Node]:
    """Draw one to four nodes."""
    return [
        Node(
            name=f"n{place}",
            state="IDLE",
            flags=frozenset({"DRAIN"}) if draw(rarely) else frozenset(),
            total=_tres(draw(st.sampled_from([8, 4, 2])), 80, draw(st.sampled_from([4, 2, 0]))),
        )
        for place in range(draw(st.sampled_from([3, 2, 4, 1])))
    ]


@st.composite
def running_jobs(draw: st.DrawFn, nodes: Sequence[Node]) -> list[Job]:
    """Draw jobs that hold one to three nodes' resources, never more than is there."""
    free = {node.name: dict(node.total.as_mapping()) for node in nodes}
    jobs: list[Job] = []
    for job_id in range(1, draw(st.sampled_from([8, 5, 12, 2])) + 1):
        shares: list[NodeShare] = []
        names = st.sampled_from(sorted(free))
        for name in draw(st.lists(names, min_size=1, max_size=3, unique=True)) if draw(rarely) else [draw(names)]:
            left = free[name]
            if left["cpu"] == 0:
                continue
            cpus = min(draw(st.sampled_from([2, 1, 4, 8])), left["cpu"])
            mem_mib = min(draw(st.sampled_from([0, 10, 20, 40])), left["mem_mib"])
            gpus = min(draw(st.sampled_from([1, 0, 2, 4])), left.get("gpu", 0))
            for resource, amount in (("cpu", cpus), ("mem_mib", mem_mib), ("gpu", gpus)):
                left[resource] = left.get(resource, 0) - amount
            shares.append(NodeShare(node=name, tres=_tres(cpus, mem_mib, gpus)))
        if shares:
            jobs.append(
                Job(
                    job_id=JobId(job_id),
                    state=JobState.RUNNING,
                    partitions=("p",),
                    priority=draw(st.integers(1, 5)),
                    start_time=NOW - draw(st.sampled_from([600, 90, 60, 59, 0])),
                    time_limit_s=draw(st.sampled_from([None, 60, 600])),
                    batch=not draw(rarely),
                    requeueable=not draw(rarely),
                    allocation=tuple(shares),
                )
            )
    return jobs


@st.composite
def waiting_jobs(draw: st.DrawFn) -> list[Job]:
    """Draw TE jobs with a plain demand on each node: CPUs a node, memory a node (0: all of it), GPUs a node."""
    jobs: list[Job] = []
    for job_id in range(101, 101 + draw(st.sampled_from([3, 2, 5, 1, 0]))):
        nodes = draw(st.sampled_from([1, 1, 2, 3]))
        gpus = draw(st.sampled_from([1, 0, 2]))
        jobs.append(
            Job(
                job_id=JobId(job_id),
                state=JobState.PENDING,
                partitions=(draw(st.sampled_from(["p", "p", "q"])),),
                reason="Dependency" if draw(rarely) else draw(st.sampled_from(["Resources", "Priority"])),
                priority=draw(st.integers(1, 5)),
                submit_time=NOW - draw(st.integers(0, 3)),
                request=Request(
                    min_nodes=nodes,
                    max_nodes=nodes,
                    cpus=nodes * draw(st.sampled_from([2, 1, 4, 8])),
                    mem_per_node_mib=draw(st.sampled_from([10, 20, 40, 0])),
                    gres_per_node=(("gpu", gpus),) if gpus else (),
                    exclusive=draw(rarely),
                ),
            )
        )
    return jobs


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a case."""
    nodes = draw(nodes_of())
    paying, asking = draw(running_jobs(nodes)), draw(waiting_jobs())
    names = frozenset(node.name for node in nodes)
    graces = st.sampled_from([0.0, 10.0, 60.0])
    partitions = (Partition(name="p", nodes=names), Partition(name="q", nodes=frozenset({"n0", "n1"})))
    snapshot = Snapshot.of(
        NOW,
        jobs=[*paying, *asking],
        nodes=nodes,
        partitions=partitions,
        traits={
            job.job_id: Traits(job_class=job_class, rule="drawn", grace_period_s=draw(graces), grace_source="drawn")
            for jobs, job_class in ((paying, JobClass.BE), (asking, JobClass.TE))
            for job in jobs
        },
    )
    preempted = {job.job_id: int(draw(rarely)) for job in paying}
    limits = Limits(
        max_preemptions_per_job=draw(st.sampled_from([1, 2, 0])),
        min_run_time_s=draw(st.sampled_from([0.0, 60.0])),
        max_victims_per_cycle=draw(st.sampled_from([20, 2, 1])),
        max_open_orders=draw(st.sampled_from([50, 1])),
    )
    return Case(
        snapshot=snapshot,
        memory=Memory(jobs={job_id: JobMemory(preemptions=times) for job_id, times in preempted.items() if times}),
        limits=limits,
        policy=draw(st.sampled_from(POLICIES)),
    )


def run(case: Case) -> tuple[Memory, Decision, tuple[Order, ...]]:
    memory, decision = step(case.memory, case.snapshot, in_turn(case.policy), case.limits)
    return memory, decision, memory.open_orders()


def free_now(snapshot: Snapshot) -> Amounts:
    """Return what no job holds."""
    free = {
        (node.name, resource): node.total.as_mapping().get(resource, 0)
        for node in snapshot.nodes.values()
        for resource in RESOURCES
    }
    for job in snapshot.jobs.values():
        change(free, job, -1)
    return free


def change(free: Amounts, job: Job, sign: int) -> None:
    """Add what a job holds (or take it)."""
    for share in job.allocation:
        for resource, amount in share.tres.as_mapping().items():
            free[share.node, resource] += sign * amount


def share_on(job: Job, node: Node) -> Mapping[str, int]:
    """Return what a waiting job takes of a node."""
    total = node.total.as_mapping()
    request = job.request
    if request.exclusive:
        return {resource: total.get(resource, 0) for resource in RESOURCES}
    mem_mib = request.mem_per_node_mib or total["mem_mib"]
    gpus = dict(request.gres_per_node).get("gpu", 0)
    return {"cpu": request.cpus // request.min_nodes, "mem_mib": mem_mib, "gpu": gpus}


def fits_on(job: Job, node: Node, free: Amounts) -> bool:
    request = job.request
    wanted = {
        "cpu": request.cpus // request.min_nodes,
        "mem_mib": request.mem_per_node_mib or 0,
        "gpu": dict(request.gres_per_node).get("gpu", 0),
    }
    total = node.total.as_mapping()
    here = all(free[node.name, resource] >= amount for resource, amount in wanted.items())
    if not request.mem_per_node_mib:
        here = here and free[node.name, "mem_mib"] == total["mem_mib"]
    if request.exclusive:
        here = here and all(free[node.name, resource] == total.get(resource, 0) for resource in RESOURCES)
    return here


def may_use(job: Job, node: Node, snapshot: Snapshot) -> bool:
    return node.available and any(node.name in snapshot.partitions[name].nodes for name in job.partitions)


def fits_somewhere(job: Job, snapshot: Snapshot, free: Amounts) -> bool:
    nodes = [node for node in snapshot.nodes.values() if may_use(job, node, snapshot) and fits_on(job, node, free)]
    return len(nodes) >= job.request.min_nodes


@given(cases())
@settings(max_examples=examples(50))
def test_every_plan_fits_beside_all_others_of_its_cycle(case: Case) -> None:
    _, _, orders = run(case)
    free = free_now(case.snapshot)
    for order in orders:
        job = case.snapshot.jobs[order.preemptor]
        if order.waits:
            # It is to be the head of its queue first; no victim is notified for it yet.
            assert not order.nodes
            assert not order.victims
            continue
        nodes = [case.snapshot.nodes[name] for name in order.nodes]
        assert len({node.name for node in nodes}) == len(nodes) == job.request.min_nodes
        assert all(may_use(job, node, case.snapshot) for node in nodes)
        for victim in order.victims:
            change(free, case.snapshot.jobs[victim.job_id], +1)
        assert all(fits_on(job, node, free) for node in nodes)
        for node in nodes:
            for resource, amount in share_on(job, node).items():
                free[node.name, resource] -= amount
    assert all(amount >= 0 for amount in free.values())


@given(cases())
@settings(max_examples=examples(50))
def test_no_victim_pays_in_vain(case: Case) -> None:
    _, _, orders = run(case)
    free = free_now(case.snapshot)
    for order in orders:
        job = case.snapshot.jobs[order.preemptor]
        for spared in order.victims:
            without = dict(free)
            for victim in order.victims:
                if victim is not spared:
                    change(without, case.snapshot.jobs[victim.job_id], +1)
            nodes = [case.snapshot.nodes[name] for name in order.nodes]
            assert not all(fits_on(job, node, without) for node in nodes)
            if isinstance(case.policy, FitGpp):
                assert not fits_somewhere(job, case.snapshot, without)
        for victim in order.victims:
            change(free, case.snapshot.jobs[victim.job_id], +1)
        for name in order.nodes:
            for resource, amount in share_on(job, case.snapshot.nodes[name]).items():
                free[name, resource] -= amount


@given(cases())
@settings(max_examples=examples(50))
def test_no_excused_job_is_selected_and_no_job_is_selected_twice(case: Case) -> None:
    _, _, orders = run(case)
    asked = [victim.job_id for order in orders for victim in order.victims]
    assert len(set(asked)) == len(asked)
    for job_id in asked:
        job = case.snapshot.jobs[job_id]
        assert job.batch
        assert job.requeueable
        assert NOW - (job.start_time or NOW) >= case.limits.min_run_time_s
        assert case.memory.job(job_id).preemptions < case.limits.max_preemptions_per_job
    assert len(asked) <= case.limits.max_victims_per_cycle
    assert len(orders) <= case.limits.max_open_orders
    assert len({order.preemptor for order in orders}) == len(orders)


@given(cases())
@settings(max_examples=examples(50))
def test_every_running_job_is_a_victim_or_refused_for_each_preemptor_that_needs_one(case: Case) -> None:
    _, decision, orders = run(case)
    running = {job_id for job_id, job in case.snapshot.jobs.items() if job.on_nodes}
    preemptors = {order.preemptor for order in orders if order.victims} | {
        refusal.job_id
        for refusal in decision.refusals
        if refusal.code is RefusalCode.NO_VICTIM and refusal.job_id == refusal.preemptor
    }
    for preemptor in preemptors:
        taken = [victim.job_id for order in orders if order.preemptor == preemptor for victim in order.victims]
        told = [one.job_id for one in decision.refusals if one.preemptor == preemptor and one.job_id != preemptor]
        assert sorted(taken + told) == sorted(running)


@given(cases())
@settings(max_examples=examples(50))
def test_every_waiting_job_gets_an_order_or_one_reason_why_not(case: Case) -> None:
    _, decision, orders = run(case)
    waiting = sorted(job_id for job_id, job in case.snapshot.jobs.items() if job.pending)
    # An order that waits for its job to be first in the queue is shown as a refusal, too.
    asking = [order.preemptor for order in orders if order.waits]
    told = [one.job_id for one in decision.refusals if one.job_id == one.preemptor and one.job_id not in asking]
    assert sorted([order.preemptor for order in orders] + told) == waiting


@given(cases())
@settings(max_examples=examples(50))
def test_a_job_that_is_refused_for_lack_of_victims_would_not_even_fit_if_all_left(case: Case) -> None:
    _, decision, orders = run(case)
    free = free_now(case.snapshot)
    eligibility = excused(case.snapshot, case.memory, case.limits)
    # Without what other orders take, the word of each is about the cluster as it is.
    assume(not orders)
    for job_id, job in case.snapshot.jobs.items():
        if job.on_nodes and job_id not in eligibility:
            change(free, job, +1)
    for refusal in decision.refusals:
        if refusal.code is RefusalCode.NO_VICTIM:
            assert not fits_somewhere(case.snapshot.jobs[refusal.preemptor], case.snapshot, free)


@given(cases())
@settings(max_examples=examples(50))
def test_the_same_input_gives_the_same_decision_and_is_left_as_it_was(case: Case) -> None:
    before = deepcopy((dict(case.snapshot.jobs), dict(case.snapshot.traits), case.memory, case.limits))
    first = step(case.memory, case.snapshot, in_turn(case.policy), case.limits)
    second = step(case.memory, case.snapshot, in_turn(case.policy), case.limits)
    assert first == second
    assert before == (dict(case.snapshot.jobs), dict(case.snapshot.traits), case.memory, case.limits)


@given(cases())
@settings(max_examples=examples(50))
def test_the_order_in_which_jobs_are_listed_decides_nothing(case: Case) -> None:
    backwards = dict(reversed(list(case.snapshot.jobs.items())))
    turned = replace(case.snapshot, jobs=backwards)
    memory, decision = step(case.memory, case.snapshot, in_turn(case.policy), case.limits)
    memory_turned, decision_turned = step(case.memory, turned, in_turn(case.policy), case.limits)
    assert memory == memory_turned
    assert decision.actions == decision_turned.actions


@given(cases())
@settings(max_examples=examples(50))
def test_p_0_selects_no_job(case: Case) -> None:
    _, decision, orders = run(replace(case, limits=replace(case.limits, max_preemptions_per_job=0)))
    assert all(not order.victims for order in orders)
    assert not any(hasattr(action, "restarts") for action in decision.actions)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@settings(max_examples=examples(15))
@given(case=cases())
def test_the_next_cycle_selects_no_job_again(policy: Policy[None], case: Case) -> None:
    # Nothing has changed yet: the orders stand, and no victim is notified by a second one.
    case = replace(case, policy=policy)
    memory, _, orders = run(case)
    again, _ = step(memory, replace(case.snapshot, taken_at=NOW + 1), in_turn(policy), case.limits)
    before = [victim.job_id for order in orders for victim in order.victims]
    asked = [victim.job_id for order in again.open_orders() for victim in order.victims]
    assert len(set(asked)) == len(asked)
    assert asked[: len(before)] == before
