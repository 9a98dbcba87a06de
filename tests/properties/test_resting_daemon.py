"""Random jobs on a site that polls: the polls that are passed over (`Daemon.rests`) change nothing of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tesched_core.model.limits import Limits
from tesched_policies.registry import policy_config
from tesched_sim.engine import Daemon, Outage, Simulation
from tesched_sim.result import Result
from tesched_sim.slurm_settings import Behaviour
from tesched_sim.workload import SimulatedNodes, Workload

from tests.examples import examples

NODES = 3
#: what a run says of each job
SAID = ("start_s", "end_s", "preempted", "lost_node_s")


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Draw jobs that come now and then, so that there are times in which no TE job waits, and others."""
    jobs = draw(st.integers(2, 10))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    te = random.random(jobs) < 0.5
    run_s = random.integers(1, 60, jobs) * np.where(te, 1, 10)
    grace_s = np.where(te, 0, random.choice([0, 30, 90], jobs))
    return Workload.of(
        "now and then",
        SimulatedNodes.alike(NODES, cpus=8, mem_mib=80),
        submit_s=np.sort(random.integers(0, draw(st.sampled_from([300, 2000])), jobs)).astype(float),
        run_s=run_s.astype(float),
        limit_s=(run_s * random.choice([1, 2, 5], jobs)).astype(float),
        nodes=np.where(random.random(jobs) < 0.1, 2, 1),
        demand=np.column_stack([random.choice([2, 4, 8], jobs), np.zeros(jobs), np.zeros(jobs)]).astype(np.int64),
        te=te,
        grace_s=grace_s.astype(float),
        yield_s=(grace_s * random.choice([0.5, 1.0, 2.0], jobs)).astype(float),
        saves_on_notice=random.random(jobs) < 0.8,
        user=random.integers(0, 2, jobs),
        user_names=("ada", "eve"),
    )


@contextmanager
def each_poll() -> Iterator[None]:
    """Let no poll be passed over."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Daemon, "rests", lambda _: False)
        yield


def run(
    workload: Workload, te: str, poll_s: float, outages: Sequence[Outage] = (), stops: Sequence[float] = ()
) -> Result:
    """Run it to its end, with these stops on the way."""
    limits = Limits(min_run_time_s=60, cool_down_s=120)
    policies = policy_config(te).entries()
    one = Simulation(workload, Behaviour.slurm(poll_s=poll_s), policies=policies, limits=limits, outages=outages)
    for at in sorted(stops):
        one.go_on(at)
        assert one.slurm.now <= at
    return one.run()


@settings(max_examples=examples(30), deadline=None)
@given(
    workload=workloads(),
    te=st.sampled_from(["fitgpp", "patient", "lrtp", "youngest", "rand"]),
    poll_s=st.sampled_from([5.0, 7.3, 33.0]),
    outages=st.lists(
        st.builds(
            lambda node, at, for_s: Outage(node=node, from_s=at, to_s=at + for_s),
            st.integers(0, NODES - 1),
            st.floats(0, 3000),
            st.floats(1, 900),
        ),
        max_size=1,
    ),
    stops=st.lists(st.floats(0, 3000), max_size=2),
)
def test_polls_that_are_passed_over_change_nothing(
    workload: Workload, te: str, poll_s: float, outages: list[Outage], stops: list[float]
) -> None:
    found = run(workload, te, poll_s, outages, stops)
    with each_poll():
        slow = run(workload, te, poll_s, outages, stops)
    for name in SAID:
        np.testing.assert_array_equal(getattr(found, name), getattr(slow, name), err_msg=name)
    for one in fields(found.preemptions):
        mine, its = (getattr(result.preemptions, one.name) for result in (found, slow))
        np.testing.assert_array_equal(mine, its, err_msg=one.name)
    for column in ("at_s", "held", "te_waiting", "be_waiting"):
        np.testing.assert_array_equal(getattr(found.use, column), getattr(slow.use, column), err_msg=column)


def test_polls_are_passed_over_while_no_te_job_waits() -> None:
    machines = SimulatedNodes.alike(1, cpus=8, mem_mib=80)
    hours = Workload.of("hours", machines, submit_s=[0.0], run_s=[7200.0], demand=[[8, 0, 0]], te=[False])
    # The job's submission is seen, and its end.
    assert 2 <= run(hours, "fitgpp", 5.0).asked < 5
    with each_poll():
        assert run(hours, "fitgpp", 5.0).asked >= 7200 / 5


def test_te_job_that_waits_for_a_limit_of_time_is_served_once_that_has_passed() -> None:
    machines = SimulatedNodes.alike(1, cpus=8, mem_mib=80)
    full = Workload.of(
        "full",
        machines,
        submit_s=[0.0, 10.0],
        run_s=[7200.0, 60.0],
        demand=[[8, 0, 0]] * 2,
        te=[False, True],
        user=[0, 1],
        user_names=("ada", "eve"),
    )
    # The victim must have run for a minute (min_run_time_s).
    assert 60 <= run(full, "fitgpp", 5.0).start_s[1] <= 70
