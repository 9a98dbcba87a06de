"""Random small workloads through the simulator: what holds whatever the policy and the site.

The resources that jobs hold are reckoned here anew, in plain integers, from starts and ends as they happen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tesched_core.policy import Policy, in_turn
from tesched_policies.baselines import AtRandom, LongestRemaining, YoungestFirst
from tesched_policies.fitgpp import FitGpp
from tesched_policies.patient import Patient
from tesched_sim.engine import NO_LIMITS, Outage, Simulation
from tesched_sim.result import Result
from tesched_sim.slurm import JobPhase
from tesched_sim.slurm_settings import Backfill, Behaviour, NativePreemption, NodeChoice, RequeuedTo
from tesched_sim.workload import SimulatedNodes, Workload

from tests.examples import examples

POLICIES: tuple[Policy[None] | None, ...] = (
    None,
    FitGpp(),
    Patient(patience_s=20),
    LongestRemaining(),
    AtRandom(seed=3),
    YoungestFirst(),
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A simulation that has not been run."""

    workload: Workload
    behaviour: Behaviour
    policy: Policy[None] | None
    most: int
    outages: tuple[Outage, ...]

    def simulation(self) -> Simulation:
        limits = replace(NO_LIMITS, max_preemptions_per_job=self.most)
        return Simulation(
            self.workload,
            self.behaviour,
            policies=in_turn(*([self.policy] if self.policy else [])),
            limits=limits,
            outages=self.outages,
        )

    def run(self) -> Result:
        return self.simulation().run()


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a case."""
    nodes = draw(st.integers(1, 3))
    count = draw(st.integers(1, 14))

    def column(values: st.SearchStrategy[float]) -> list[float]:
        return draw(st.lists(values, min_size=count, max_size=count))

    run_s = column(st.integers(1, 60))
    te = column(st.booleans())
    machines = SimulatedNodes.alike(nodes, cpus=8, mem_mib=80, gpus=8)
    devices = [[draw(st.integers(0, 8))] for _ in range(count)]
    each = draw(st.sampled_from([0, 0, 2, 3]))
    if each:
        machines = replace(
            machines,
            resources=(*machines.resources, "shard"),
            total=np.column_stack([machines.total, machines.total[:, 2] * each]),
        )
        devices = [draw(st.sampled_from([[gpus, 0], [0, gpus % each + 1]])) for (gpus,) in devices]
    workload = Workload.of(
        "drawn",
        machines,
        submit_s=column(st.integers(0, 60)),
        run_s=run_s,
        limit_s=np.array(run_s) * draw(st.sampled_from([1, 3, np.inf])),
        nodes=[draw(st.integers(1, nodes)) if draw(st.integers(0, 4)) == 0 else 1 for _ in range(count)],
        demand=[[draw(st.integers(1, 8)), draw(st.integers(1, 80)), *one] for one in devices],
        te=te,
        grace_s=column(st.sampled_from([0, 5, 20])),
        yield_s=column(st.sampled_from([0, 3, 20, np.inf])),
        saves_on_notice=column(st.booleans()),
        checkpoint_s=column(st.sampled_from([7, np.inf])),
        restart_s=column(st.sampled_from([0, 2])),
    )
    behaviour = Behaviour(
        backfill=draw(st.sampled_from(Backfill)),
        placement=draw(st.sampled_from(NodeChoice)),
        te_first=draw(st.booleans()),
        keeps_free=draw(st.booleans()),
        requeued_to=draw(st.sampled_from(RequeuedTo)),
        requeue_delay_s=draw(st.sampled_from([0, 6])),
        kill_wait_s=draw(st.sampled_from([0, 4])),
        native=draw(st.sampled_from([None, NativePreemption(), NativePreemption(grace_s=9, tells_job=True)])),
        poll_s=draw(st.sampled_from([0, 5])),
        true_run_times=draw(st.booleans()),
    )
    policy = draw(st.sampled_from(POLICIES))
    if policy is not None:
        behaviour = replace(behaviour, native=None)
    outages = (Outage(node=0, from_s=30, to_s=45),) if draw(st.integers(0, 4)) == 0 else ()
    return Case(
        workload=workload,
        behaviour=behaviour,
        policy=policy,
        most=draw(st.sampled_from([1, 2, 0])),
        outages=outages,
    )


@given(cases())
@settings(max_examples=examples(125))
def test_every_job_finishes_and_no_second_is_lost_from_the_books(case: Case) -> None:
    simulation = case.simulation()
    slurm = simulation.slurm
    held: dict[int, tuple[float, tuple[int, ...]]] = {}
    held_s = [0.0] * len(case.workload)
    capacity = [[8, 80, 8] for _ in range(len(case.workload.machines.names))]

    def saw(row: int) -> None:
        demand = case.workload.demand[row].tolist()[:3]
        if slurm.state[row] is JobPhase.RUNNING:
            assert row not in held
            assert slurm.now >= case.workload.submit_s[row]
            held[row] = (slurm.now, slurm.where[row])
            assert len(set(slurm.where[row])) == case.workload.nodes[row]
            for node in slurm.where[row]:
                capacity[node] = [left - want for left, want in zip(capacity[node], demand, strict=True)]
                assert min(capacity[node]) >= 0
        else:
            since, nodes = held.pop(row)
            held_s[row] += slurm.now - since
            for node in nodes:
                capacity[node] = [left + want for left, want in zip(capacity[node], demand, strict=True)]

    slurm.watchers.append(saw)
    result = simulation.run()
    assert result.finished.all()
    assert not held
    # What it held its nodes for is its work and what was lost of it.
    nodes, lost_s = case.workload.nodes, result.lost_node_s / case.workload.nodes
    np.testing.assert_allclose(held_s, case.workload.run_s + lost_s, atol=1e-6)
    np.testing.assert_allclose(result.held_node_s, held_s * nodes, atol=1e-6)
    assert (result.jct_s >= case.workload.run_s + lost_s - 1e-6).all()
    assert (slurm.free == case.workload.machines.most).all()


@given(cases().filter(lambda case: "shard" in case.workload.machines.resources))
@settings(max_examples=examples(75))
def test_no_gpu_is_given_twice_and_each_job_has_its_shards_of_one(case: Case) -> None:
    simulation = case.simulation()
    slurm, each = simulation.slurm, int(case.workload.machines.shards_each[0])

    def saw(_: int) -> None:
        assert slurm.shared is not None
        for node in range(len(case.workload.machines.names)):
            gpus = [each] * 8
            for row in (row for row in slurm.running if node in slurm.where[row]):
                part = slurm.shared.held_by(row, node)
                whole, shards = case.workload.demand[row, 2:].tolist()
                assert [count for _, count in part] == ([shards] if shards else [each] * whole)
                for index, count in part:
                    gpus[index] -= count
            assert min(gpus) >= 0
            assert slurm.free[node, 2:].tolist() == [gpus.count(each), max(gpus)]

    slurm.watchers.append(saw)
    assert simulation.run().finished.all()


@given(cases())
@settings(max_examples=examples(75))
def test_te_jobs_are_never_preempted_nor_anybody_more_often_than_p(case: Case) -> None:
    result = replace(case, outages=()).run()
    assert not result.preempted[case.workload.te].any()
    if case.policy is not None:
        assert (result.preempted <= case.most).all()
        assert len(result.preemptions.victim) == 0 or not case.workload.te[result.preemptions.victim].any()


@given(cases())
@settings(max_examples=examples(30))
def test_the_same_gives_the_same(case: Case) -> None:
    first, second = case.run(), case.run()
    np.testing.assert_array_equal(first.end_s, second.end_s)
    np.testing.assert_array_equal(first.preemptions.victim, second.preemptions.victim)
    assert (first.events, first.asked) == (second.events, second.asked)


@given(cases())
@settings(max_examples=examples(50))
def test_strict_fifo_starts_jobs_in_their_order(case: Case) -> None:
    result = replace(case, policy=None, outages=(), behaviour=Behaviour.paper(te_first=False)).run()
    assert (np.diff(result.start_s) >= 0).all()


@given(cases())
@settings(max_examples=examples(50))
def test_kept_resources_never_go_to_a_best_effort_job(case: Case) -> None:
    behaviour = replace(Behaviour.paper(te_first=True), backfill=case.behaviour.backfill)
    simulation = replace(case, policy=FitGpp(), outages=(), behaviour=behaviour).simulation()
    slurm, scheduler = simulation.slurm, simulation.scheduler

    def saw(row: int) -> None:
        if slurm.state[row] is JobPhase.RUNNING and not slurm.te[row]:
            for node in slurm.where[row]:
                leaving = sum(
                    (
                        slurm.workload.demand[job]
                        for job in slurm.running_be
                        if node in slurm.where[job] and np.isfinite(slurm.noticed_s[job])
                    ),
                    np.zeros(slurm.free.shape[1], dtype=np.int64),
                )
                if slurm.shared is None:
                    assert (slurm.free[node] + leaving >= scheduler.kept[node]).all()
                    continue
                assert (slurm.free[node] + leaving >= scheduler.kept[node])[:2].all()
                # Of GPUs in parts what is free does not add up: those for which some are reserved have a place each.
                kept_for = [other for other, nodes in scheduler.reserved.items() if node in nodes]
                if slurm.workload.demand[row, 2:].any():
                    left = slurm.shared.left(node, beside_kept=False)
                    for other in kept_for:
                        part = slurm.shared.part_of(other, node, left)
                        assert part is not None
                        for index, count in part:
                            left[index] -= count

    slurm.watchers.append(saw)
    simulation.run()


@pytest.mark.parametrize("policy", [FitGpp(), LongestRemaining(), AtRandom(seed=1)], ids=lambda policy: policy.name)
@given(case=cases())
@settings(max_examples=examples(30))
def test_with_p_0_all_policies_are_the_same(policy: Policy[None], case: Case) -> None:
    behaviour = Behaviour.paper(te_first=True)
    nobody = replace(case, policy=FitGpp(), most=0, outages=(), behaviour=behaviour).run()
    other = replace(case, policy=policy, most=0, outages=(), behaviour=behaviour).run()
    np.testing.assert_array_equal(nobody.end_s, other.end_s)
    assert not other.preempted.any()
