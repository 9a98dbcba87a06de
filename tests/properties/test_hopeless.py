"""Random queues of TE jobs: those that are left out of cycles (`hopeless.py`) change nothing of what comes of a run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tesched_core.policy import Policy, in_turn
from tesched_policies.fitgpp import FitGpp
from tesched_policies.patient import Patient
from tesched_sim.engine import NO_LIMITS, Outage, Simulation
from tesched_sim.slurm_settings import Backfill, Behaviour, RequeuedTo
from tesched_sim.workload import SimulatedNodes, Workload

from tests.examples import examples

NODES = 3
#: what a run says of each job and preemption
SAID = ("start_s", "end_s", "preempted", "lost_node_s")


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Draw more jobs than fit, most of them TE jobs of a few kinds."""
    jobs = draw(st.integers(12, 40))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    te = random.random(jobs) < draw(st.sampled_from([0.5, 0.8]))
    run_s = random.integers(1, 60, jobs) * np.where(te, 1, 10)
    gpus = random.choice([1, 4, 8], jobs)
    grace_s = np.where(te, 0, random.choice([0, 0, 30, 90], jobs))
    return Workload.of(
        "queue",
        SimulatedNodes.alike(NODES, cpus=8, mem_mib=80, gpus=8),
        submit_s=np.sort(random.integers(0, draw(st.sampled_from([40, 200])), jobs)).astype(float),
        run_s=run_s.astype(float),
        limit_s=(run_s * random.choice([1, 2, 5], jobs)).astype(float),
        nodes=np.where(random.random(jobs) < 0.1, 2, 1),
        demand=np.column_stack([np.zeros(jobs), np.zeros(jobs), gpus]).astype(np.int64),
        te=te,
        grace_s=grace_s.astype(float),
        yield_s=(grace_s * random.choice([0.5, 1.0, 2.0], jobs)).astype(float),
        saves_on_notice=random.random(jobs) < 0.8,
        checkpoint_s=np.full(jobs, np.inf),
        restart_s=random.choice([0.0, 5.0], jobs),
        constraint=(random.random(jobs) < 0.2).astype(np.int64),
        allowed=np.array([[True] * NODES, [True, True, *[False] * (NODES - 2)]]),
        user=random.integers(0, 2, jobs),
        user_names=("ada", "eve"),
    )


BEHAVIOURS = st.builds(
    lambda backfill, to, delay_s, kill_s: replace(
        Behaviour.paper(te_first=True),
        backfill=backfill,
        requeued_to=to,
        requeue_delay_s=delay_s,
        kill_wait_s=kill_s,
    ),
    st.sampled_from(Backfill),
    st.sampled_from(RequeuedTo),
    st.sampled_from([0.0, 20.0]),
    st.sampled_from([0.0, 15.0]),
)
POLICIES: st.SearchStrategy[Policy[None]] = st.sampled_from([FitGpp(), Patient(patience_s=15), Patient(patience_s=0)])
OUTAGES = st.lists(
    st.builds(
        lambda node, at, for_s: Outage(node=node, from_s=at, to_s=at + for_s),
        st.integers(0, NODES - 1),
        st.integers(1, 200),
        st.integers(1, 100),
    ),
    max_size=2,
    unique_by=lambda one: one.node,
)


def simulated(workload: Workload, behaviour: Behaviour, policy: Policy[None], outages: list[Outage]) -> Simulation:
    """Return a run that has not begun, in which one such job is enough to be left out."""
    run = Simulation(workload, behaviour, policies=in_turn(policy), limits=NO_LIMITS, outages=outages)
    assert run.daemon is not None
    assert run.daemon.hopeless is not None
    run.daemon.hopeless.least = 1
    return run


@settings(max_examples=examples(60), deadline=None)
@given(workloads(), BEHAVIOURS, POLICIES, OUTAGES)
def test_with_hopeless_jobs_left_out_each_run_and_the_memory_are_as_with_all_of_them(
    workload: Workload, behaviour: Behaviour, policy: Policy[None], outages: list[Outage]
) -> None:
    quick, whole = (simulated(workload, behaviour, policy, outages) for _ in range(2))
    assert whole.daemon is not None
    assert quick.daemon is not None
    whole.daemon.hopeless = None
    mine, its = quick.run(), whole.run()
    for name in SAID:
        np.testing.assert_array_equal(getattr(mine, name), getattr(its, name), err_msg=name)
    for name in ("victim", "preemptor", "notice_s", "left_s", "back_s", "lost_node_s"):
        np.testing.assert_array_equal(getattr(mine.preemptions, name), getattr(its.preemptions, name), err_msg=name)
    assert (mine.asked, mine.events) == (its.asked, its.events)
    assert quick.daemon.memory == whole.daemon.memory
