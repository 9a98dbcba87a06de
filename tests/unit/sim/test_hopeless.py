"""TE jobs without a victim: which are left out of the next cycle, and what makes each of them be weighed again."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tesched_core.model.actions import OrderId, Reason, ReasonCode, Suspend
from tesched_core.model.columns import ClusterColumns
from tesched_core.model.decision import Decision, Refusal, RefusalCode, Refusals
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_core.policy import in_turn
from tesched_core.step import step
from tesched_policies.baselines import AtRandom
from tesched_policies.fill import Fill
from tesched_policies.fitgpp import FitGpp
from tesched_sim import engine
from tesched_sim.engine import NO_LIMITS, Daemon, Simulation
from tesched_sim.hopeless import Hopeless, can_leave_out
from tesched_sim.slurm import Slurm
from tesched_sim.slurm_settings import Behaviour

from tests.unit.sim.examples import Sketch, te, workload

PAPER = Behaviour.paper(te_first=True)
#: on two nodes of 8 GPUs: two TE jobs that fill them, two of which one takes a whole node, and one of half a node
FULL, WHOLE, HALF = (te(0, 50), te(0, 50)), (te(1, 10), te(1, 10)), te(1, 10, gpus=4)
SAVES = Sketch(at=2, run=50, gpus=4, grace=30)


def at_work(*jobs: Sketch) -> tuple[Slurm, Hopeless]:
    """Return a cluster of two nodes on which all of these wait."""
    slurm = Slurm(workload(jobs, nodes=2), PAPER)
    for row in range(len(jobs)):
        slurm.submit(row)
    hopeless = Hopeless(slurm)
    hopeless.least = 1
    return slurm, hopeless


def decided(*rows: int, code: RefusalCode = RefusalCode.NO_VICTIM) -> Decision:
    """Return a decision that has done nothing, with a refusal of each of these TE jobs."""
    refusals = Refusals(Refusal(job_id=JobId(row + 1), preemptor=JobId(row + 1), code=code, text="") for row in rows)
    return Decision(cycle=1, at=0.0, policy="", actions=(), refusals=refusals, transitions=(), summary="")


def refused(*jobs: Sketch, starts: dict[int, tuple[int, ...]]) -> tuple[Slurm, Hopeless]:
    """Return the same after some have started, and the third was found to have no victim."""
    slurm, hopeless = at_work(*jobs)
    for row, nodes in starts.items():
        slurm.start(row, nodes)
    hopeless.learn(decided(2))
    hopeless.settle(Memory())
    return slurm, hopeless


def on_full() -> tuple[Slurm, Hopeless]:
    return refused(*FULL, *WHOLE, HALF, starts={0: (0,), 1: (1,)})


def test_a_job_that_wants_what_one_without_a_victim_wants_is_left_out_and_no_other() -> None:
    _, hopeless = on_full()
    assert hopeless.rows(Memory()) == {2, 3}


def test_few_are_not_left_out() -> None:
    _, hopeless = on_full()
    hopeless.least = 3
    assert hopeless.rows(Memory()) == frozenset()


def test_a_job_of_another_user_is_weighed() -> None:
    jobs = replace(workload([*FULL, *WHOLE], nodes=2), user=np.array([0, 0, 0, 1]), user_names=("ada", "eve"))
    slurm = Slurm(jobs, PAPER)
    hopeless = Hopeless(slurm)
    hopeless.least = 1
    for row in range(4):
        slurm.submit(row)
    slurm.start(0, (0,))
    slurm.start(1, (1,))
    hopeless.learn(decided(2))
    hopeless.settle(Memory())
    assert hopeless.rows(Memory()) == {2}


@pytest.mark.parametrize(
    "happens",
    [
        pytest.param(lambda slurm: slurm.ends_now(0), id="a TE job ends"),
        pytest.param(lambda slurm: slurm.node_down(1), id="a node goes"),
        pytest.param(lambda slurm: slurm.free.__iadd__(1), id="resources come"),
    ],
)
def test_all_are_weighed_again_once_more_is_free_or_a_node_comes_or_goes(happens: Callable[[Slurm], object]) -> None:
    slurm, hopeless = on_full()
    happens(slurm)
    assert hopeless.rows(Memory()) == frozenset()
    # Nor does it come back: what was refused then is refused anew, or not.
    assert hopeless.rows(Memory()) == frozenset()


def test_all_are_weighed_again_once_a_node_is_back() -> None:
    slurm, hopeless = at_work(*FULL, *WHOLE)
    slurm.start(0, (0,))
    slurm.node_down(1)
    hopeless.learn(decided(2))
    hopeless.settle(Memory())
    assert hopeless.rows(Memory()) == {1, 2, 3}
    slurm.node_up(1)
    assert hopeless.rows(Memory()) == frozenset()


def with_an_order() -> Memory:
    """Return a daemon's memory while job 1 has its notice for job 2."""
    jobs = workload([Sketch(run=100, grace=30), te(5, 10)])
    run = Simulation(jobs, PAPER, policies=in_turn(FitGpp()), limits=NO_LIMITS)
    run.go_on(10)
    assert run.daemon is not None
    assert [one.preemptor for one in run.daemon.memory.open_orders()] == [2]
    return run.daemon.memory


@pytest.mark.parametrize("opens", [True, False])
def test_all_are_weighed_again_once_an_order_is_opened_or_ends(*, opens: bool) -> None:
    before, after = (Memory(), with_an_order()) if opens else (with_an_order(), Memory())
    _, hopeless = on_full()
    hopeless.settle(before)
    assert hopeless.rows(before) == {2, 3}
    assert hopeless.rows(after) == frozenset()


def test_a_job_for_which_a_victim_leaves_is_weighed() -> None:
    slurm, hopeless = at_work(*FULL, *WHOLE)
    slurm.start(0, (0,))
    memory = with_an_order()
    hopeless.learn(decided(2))
    hopeless.settle(memory)
    assert hopeless.rows(memory) == {2, 3}


def test_a_job_that_may_leave_in_the_place_of_one_that_may_not_is_more() -> None:
    slurm, hopeless = refused(*FULL, *WHOLE, SAVES, starts={0: (0,), 1: (1,)})
    slurm.ends_now(0)
    slurm.start(4, (0,))
    assert hopeless.rows(Memory()) == frozenset()


def test_a_te_job_in_the_place_of_another_is_no_more() -> None:
    slurm, hopeless = on_full()
    slurm.ends_now(0)
    slurm.start(2, (0,))
    assert hopeless.rows(Memory()) == {3}


def test_a_best_effort_job_that_was_preempted_before_is_not_what_may_leave() -> None:
    slurm, hopeless = at_work(*FULL, *WHOLE, SAVES)
    slurm.start(0, (0,))
    slurm.start(4, (1,))
    preempted = replace(Memory(), jobs={JobId(5): replace(Memory().job(JobId(5)), preemptions=1)})
    hopeless.learn(decided(2))
    hopeless.settle(preempted)
    assert hopeless.rows(preempted) == {1, 2, 3}
    slurm.ends_now(4)  # no TE job could have its GPUs
    assert hopeless.rows(preempted) == frozenset()


def test_a_job_that_is_bound_held_or_has_licences_is_weighed() -> None:
    slurm, hopeless = refused(*FULL, *WHOLE, te(1, 10), te(1, 10), starts={0: (0,), 1: (1,)})
    slurm.bound[3] = (0,)
    slurm.licenses[4] = "matlab"
    slurm.keep_back(5, slurm.held, back=True)
    assert hopeless.rows(Memory()) == {2}


def test_after_a_plan_that_was_dropped_nothing_is_known() -> None:
    _, hopeless = on_full()
    hopeless.learn(decided(3, code=RefusalCode.NOT_CONSIDERED_YET))
    assert hopeless.rows(Memory()) == frozenset()


def test_after_a_suspension_nothing_is_known() -> None:
    _, hopeless = on_full()
    stops = Suspend(job_id=JobId(1), reason=Reason(code=ReasonCode.NOTICE, text=""), restarts=0)
    hopeless.learn(replace(decided(3), actions=(stops,)))
    assert hopeless.rows(Memory()) == frozenset()


def test_jobs_are_left_out_for_policies_that_refuse_each_job_by_itself() -> None:
    slurm = Slurm(workload([*FULL], nodes=2), PAPER)
    assert can_leave_out(slurm, in_turn(FitGpp()))
    assert not can_leave_out(slurm, in_turn(FitGpp(), Fill()))
    assert not can_leave_out(slurm, in_turn(AtRandom(seed=1)))
    assert not can_leave_out(Slurm(workload([*FULL], nodes=2), replace(PAPER, poll_s=5)), in_turn(FitGpp()))


def test_a_limit_of_the_guards_has_all_of_them_weighed() -> None:
    limits = replace(NO_LIMITS, min_run_time_s=60)
    for given, leaves_out in ((limits, False), (NO_LIMITS, True)):
        run = Simulation(workload([*FULL], nodes=2), PAPER, policies=in_turn(FitGpp()), limits=given)
        assert run.daemon is not None
        assert (run.daemon.hopeless is not None) is leaves_out


def many_waiting() -> tuple[Simulation, Daemon]:
    """Return a run in which two long TE jobs hold the cluster, and forty more come one by one."""
    run = Simulation(
        workload([te(0, 999), te(0, 999), *(te(1 + at, 10) for at in range(40))], nodes=2),
        PAPER,
        policies=in_turn(FitGpp()),
        limits=NO_LIMITS,
    )
    assert run.daemon is not None
    return run, run.daemon


def test_with_many_waiting_the_policy_weighs_few_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    run, daemon = many_waiting()
    left_out: list[int] = []
    without = daemon.eyes.without

    def saw(rows: Container[int]) -> ClusterColumns:
        left_out.append(sum(row in rows for row in range(42)))
        return without(rows)

    monkeypatch.setattr(daemon.eyes, "without", saw)
    run.go_on(100)
    # The cycle in which the fourth comes is the first: those before it were refused, and it wants the same.
    assert left_out == list(range(4, 41))


def test_a_step_that_changes_an_order_is_done_anew_with_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    run, daemon = many_waiting()
    run.go_on(30)
    weighed: list[int] = []

    def seen(memory: Memory, snapshot: Snapshot, *entries: Any, **more: Any) -> tuple[Memory, Decision]:
        weighed.append(len(snapshot.columns.trials) if snapshot.columns is not None else 0)
        after, decision = step(memory, snapshot, *entries, **more)
        if len(weighed) == 1:
            return replace(after, next_order=OrderId(after.next_order + 1)), decision
        return after, replace(decision, refusals=Refusals())

    monkeypatch.setattr(engine, "step", seen)
    before = daemon.memory.next_order
    run.go_on(31)
    assert (weighed, daemon.memory.next_order) == ([0, 31], before)
    # What was refused before was not refused in this one.
    assert daemon.hopeless is not None
    assert daemon.hopeless.rows(daemon.memory) == frozenset()
