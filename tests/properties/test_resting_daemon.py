"""Random jobs on a site that polls: the polls that are passed over (`Daemon.rests`) change nothing of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tesched_core.model.decision import RefusalCode, Refusals
from tesched_core.model.job_memory import Futility, JobMemory
from tesched_core.model.limits import Limits
from tesched_core.model.order import Ending
from tesched_core.model.resources import JobId
from tesched_policies.registry import policy_config
from tesched_sim import engine
from tesched_sim.engine import Daemon, Outage, Simulation
from tesched_sim.result import Result
from tesched_sim.slurm_settings import Behaviour
from tesched_sim.stillness import still_until_s
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


#: a minute's run before a victim may leave, and two between two of its preemptions
MINUTES = Limits(min_run_time_s=60, cool_down_s=120)
#: limits that end by time, at which TE jobs wait
LIMITS = (
    MINUTES,
    Limits(min_run_time_s=0, cool_down_s=900, wait_for_free_s=0),
    Limits(min_run_time_s=300, cool_down_s=0, max_preemptions_per_hour=1, retry_after_s=60),
    Limits(min_run_time_s=30, cool_down_s=0, max_slowdown=1.5, max_preemptions_per_user_hour=1),
    Limits(min_run_time_s=0, cool_down_s=0, max_lost_node_hours_per_day=0.05, max_preemptions_per_job=2),
)
#: what is known of run times (limits alone, or also how long jobs run, by less or more than they do), and when
#: jobs start: at events, some of them at times that go by themselves
BEHAVIOURS = (
    Behaviour.slurm(),
    replace(Behaviour.slurm(), true_run_times=True, run_time_sigma=1.0, start_s=5.0),
    replace(Behaviour.slurm(), backfill_s=30.0),
    replace(Behaviour.slurm(), backfill_s=45.0, pass_s=7.0, tries_new=False),
)


def run(
    workload: Workload,
    te: str,
    poll_s: float,
    outages: Sequence[Outage] = (),
    stops: Sequence[float] = (),
    *,
    limits: Limits = MINUTES,
    behaviour: Behaviour = BEHAVIOURS[0],
) -> Result:
    """Run it to its end, with these stops on the way."""
    policies = policy_config(te).entries()
    behaviour = replace(behaviour, poll_s=poll_s)
    one = Simulation(workload, behaviour, policies=policies, limits=limits, outages=outages)
    for at in sorted(stops):
        one.go_on(at)
        assert one.slurm.now <= at
    return one.run()


@settings(max_examples=examples(60), deadline=None)
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
    limits=st.sampled_from(LIMITS),
    behaviour=st.sampled_from(BEHAVIOURS),
    learned=st.sampled_from([None, 0.1, 1.0]),
)
def test_polls_that_are_passed_over_change_nothing(
    *,
    workload: Workload,
    te: str,
    poll_s: float,
    outages: list[Outage],
    stops: list[float],
    limits: Limits,
    behaviour: Behaviour,
    learned: float | None,
) -> None:
    if learned is not None:
        workload = replace(workload, expected_s=np.outer(workload.run_s, [learned, 2 * learned, 4 * learned]))
    found = run(workload, te, poll_s, outages, stops, limits=limits, behaviour=behaviour)
    with each_poll():
        slow = run(workload, te, poll_s, outages, stops, limits=limits, behaviour=behaviour)
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


def full(te: Sequence[bool], submit_s: Sequence[float], run_s: Sequence[float], nodes: int = 1) -> Workload:
    """Return jobs that want all of a node, or of the one that there is; each has a user of its own."""
    return Workload.of(
        "full",
        SimulatedNodes.alike(nodes, cpus=8, mem_mib=80),
        submit_s=list(submit_s),
        run_s=list(run_s),
        demand=[[8, 0, 0]] * len(te),
        te=list(te),
        user=list(range(len(te))),
        user_names=[f"u{row}" for row in range(len(te))],
    )


def test_polls_are_passed_over_while_a_te_job_waits_that_has_no_victim() -> None:
    behind = full([True, True], [0.0, 10.0], [7200.0, 60.0])
    found = run(behind, "patient", 5.0)
    assert found.start_s[1] == 7200
    assert found.asked < 10
    with each_poll():
        assert run(behind, "patient", 5.0).asked >= 7200 / 5


NONE = Limits(min_run_time_s=0, cool_down_s=0, max_slowdown=1e9, await_first_look=False, wait_for_free_s=0)


@pytest.mark.parametrize(
    ("limits", "from_s"),
    [
        (replace(NONE, cool_down_s=5000), 5000),
        (replace(NONE, max_preemptions_per_hour=1), 3600),
        (replace(NONE, max_lost_node_hours_per_day=35 / 3600), 86_400),
    ],
    ids=["cool-down", "an hour", "a day"],
)
def test_te_job_is_served_in_the_poll_after_a_limit_has_ended(limits: Limits, from_s: float) -> None:
    # A TE job preempts the BE job at once, and another one comes when it has run again for a while.
    again = full([False, True, True], [0.0, 10.0, 1000.0], [172_800.0, 60.0, 60.0])
    saves = replace(again, grace_s=np.array([30.0, 0.0, 0.0]), yield_s=np.array([10.0, 0.0, 0.0]))
    found = run(saves, "fitgpp", 5.0, limits=limits)
    assert 10 <= found.start_s[1] <= 50
    assert from_s <= found.start_s[2] <= from_s + 60
    assert found.asked < 400


def waited(limit_s: float) -> Workload:
    """Return a BE job that has waited for an hour behind an exempt one, and a TE job that comes while it runs."""
    jobs = full([False, False, True], [0.0, 1.0, 4000.0], [3600.0, 50_000.0, 60.0])
    return replace(jobs, limit_s=np.array([3600.0, limit_s, 600.0]))


def test_te_job_is_served_once_a_victim_has_run_for_longer_than_was_expected() -> None:
    late = replace(Behaviour.slurm(), true_run_times=True, run_time_sigma=2.0)
    factor = {seed: np.random.default_rng(seed).lognormal(0.0, 2.0, 3)[1] for seed in range(50)}
    seed = min(seed for seed, one in factor.items() if 0.04 < one < 0.08)
    limits = replace(NONE, max_slowdown=1.5)
    found = run(waited(500_000.0), "fitgpp", 5.0, limits=limits, behaviour=replace(late, seed=seed))
    ends_s = 3600 + factor[seed] * 50_000
    assert ends_s <= found.start_s[2] <= ends_s + 60


def test_te_job_is_served_once_a_victim_has_run_for_so_long_that_its_slowdown_is_less() -> None:
    jobs = replace(waited(500_000.0), expected_s=np.array([[3600.0] * 3, [60.0, 400_000.0, 400_000.0], [60.0] * 3]))
    found = run(jobs, "fitgpp", 5.0, limits=replace(NONE, max_slowdown=1.5))
    # It has waited for 3,600 s, which is half of what it has run at twice that.
    assert 10_800 <= found.start_s[2] <= 10_860


def test_te_job_that_awaits_what_comes_free_is_served_once_nothing_does() -> None:
    # Eight jobs of a CPU have just ended, one after the other; eight long ones run now, and none ends for hours.
    jobs = 8 + 8 + 1
    often = Workload.of(
        "often",
        SimulatedNodes.alike(1, cpus=8, mem_mib=80),
        submit_s=[0.0] * (jobs - 1) + [42.0],
        run_s=[20.0 + row * 2.5 for row in range(8)] + [7200.0] * 8 + [60.0],
        demand=[[1, 0, 0]] * jobs,
        te=[False] * (jobs - 1) + [True],
        user=list(range(jobs)),
        user_names=[f"u{row}" for row in range(jobs)],
    )
    found = run(often, "fitgpp", 5.0, limits=replace(NONE, wait_for_free_s=30.0))
    with each_poll():
        slow = run(often, "fitgpp", 5.0, limits=replace(NONE, wait_for_free_s=30.0))
    assert 50 < slow.start_s[-1] < 100
    assert found.start_s[-1] == slow.start_s[-1]


def test_te_job_is_served_once_a_node_has_come_back() -> None:
    jobs = replace(full([False, True], [0.0, 10.0], [7200.0, 60.0], nodes=2), nodes=np.array([1, 2]))
    found = run(jobs, "fitgpp", 5.0, [Outage(node=1, from_s=0.0, to_s=2002.0)])
    assert 2002 <= found.start_s[1] <= 2060


def test_it_does_not_rest_while_a_te_job_runs_for_which_an_order_came_to_nothing_before() -> None:
    one = Simulation(
        full([True, True], [0.0, 10.0], [7200.0, 60.0]),
        Behaviour.slurm(),
        policies=policy_config("fitgpp").entries(),
        limits=MINUTES,
    )
    daemon = one.daemon
    assert daemon is not None
    one.go_on(100)
    assert daemon.rests()
    # Whether its run is useful is seen by a poll.
    daemon.memory = replace(daemon.memory, jobs={JobId(1): JobMemory(futile=Futility(count=1, ending=Ending.NO_RUN))})
    assert not daemon.rests()


def test_it_is_not_still_after_another_refusal_or_a_change_of_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def noted(*args: Any, **about: Any) -> float:
        seen.append((args, about))
        return still_until_s(*args, **about)

    monkeypatch.setattr(engine, "still_until_s", noted)
    one = Simulation(
        full([True, True], [0.0, 10.0], [7200.0, 60.0]),
        Behaviour.slurm(),
        policies=policy_config("fitgpp").entries(),
        limits=MINUTES,
    )
    one.go_on(100)
    args, about = seen[-1]
    assert still_until_s(*args, **about) > 100
    (refusal,) = about["decision"].refusals
    other = replace(about["decision"], refusals=Refusals([replace(refusal, code=RefusalCode.AWAITS_FREE)]))
    assert still_until_s(*args, **{**about, "decision": other}) == -inf
    nothing = replace(about["decision"], refusals=Refusals())
    assert still_until_s(*args, **{**about, "decision": nothing}) == -inf
    changed = replace(about["after"], jobs={JobId(9): JobMemory(missing_since=90.0)})
    assert still_until_s(*args, **{**about, "after": changed}) == -inf
