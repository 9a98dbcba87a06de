"""guard.bound on the simulated Slurm: what its records say of jobs, and for how long TE jobs may delay a BE job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from tesched_core.model.limits import Bound
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import ExpectedRun
from tesched_core.policy import in_turn
from tesched_policies.fitgpp import FitGpp
from tesched_sim.engine import NO_LIMITS, Simulation
from tesched_sim.observer import SimulatedObserver
from tesched_sim.slurm import Event, Slurm
from tesched_sim.slurm_scheduler import Scheduler
from tesched_sim.slurm_settings import Behaviour

from tests.unit.sim.examples import Sketch, te, workload

FIRST, SECOND = JobId(1), JobId(2)


def test_record_of_a_waiting_job_says_since_when_it_is_eligible() -> None:
    slurm = Slurm(workload([Sketch(at=7, run=100)]), replace(Behaviour.slurm(), requeue_delay_s=121.0))
    slurm.now = 7.0
    slurm.submit(0)
    assert SimulatedObserver(slurm).job(0).eligible_time == 7.0
    Scheduler(slurm).run()
    slurm.now = 40.0
    slurm.node_down(0)
    assert SimulatedObserver(slurm).job(0).eligible_time == 161.0


def test_record_of_a_finished_job_says_where_it_ran() -> None:
    slurm = Slurm(workload([Sketch(run=10)]), Behaviour.paper(te_first=False))
    slurm.submit(0)
    Scheduler(slurm).run()
    assert SimulatedObserver(slurm).job(0).ran_on == ()
    slurm.now = 10.0
    slurm.happen(Event.END, 0, 1)
    seen = SimulatedObserver(slurm).job(0)
    assert (seen.ran_on, seen.allocation) == (("n1",), ())


def test_snapshot_has_the_run_times_that_are_known() -> None:
    known = np.array([[10.0, 20.0, 30.0], [np.inf] * 3])
    slurm = Slurm(replace(workload([Sketch(run=20), Sketch(run=20)]), expected_s=known), Behaviour.slurm())
    seen = SimulatedObserver(slurm).observe()
    assert seen.expected_run(FIRST) == ExpectedRun(low_s=10.0, median_s=20.0, high_s=30.0)
    assert seen.expected_run(SECOND) is None


def start_beside_te_jobs(jobs: Sequence[Sketch], users: Sequence[str], slowdown: float, known: bool = True) -> float:
    """Return when the second job starts on one node beside TE jobs of other users."""
    sketched = workload(jobs)
    names = tuple(dict.fromkeys(users))
    owned = replace(sketched, user=np.array([names.index(user) for user in users], dtype=np.int32), user_names=names)
    if known:
        run_s = np.where(owned.te, np.inf, owned.run_s)
        owned = replace(owned, expected_s=np.column_stack([run_s] * 3))
    behaviour = replace(Behaviour.slurm(poll_s=10.0), hook=True, requeue_delay_s=0.0, kill_wait_s=0.0, te_first=True)
    bound = Bound(slowdown=slowdown, te_time_limit_s=100.0) if slowdown else Bound()
    result = Simulation(owned, behaviour, policies=in_turn(FitGpp()), limits=replace(NO_LIMITS, bound=bound)).run()
    return float(result.start_s[1])


#: a TE job runs, a BE job waits, and TE jobs come that each hold the node for 100 s
STREAM = (
    replace(te(15, 100), limit=100),
    Sketch(at=16, run=500),
    *(replace(te(17, 100), limit=100) for _ in range(20)),
)
OWNERS = ("t0", "b", *("t1" for _ in range(20)))


@pytest.mark.parametrize(
    ("slowdown", "starts_at"),
    [
        # The first TE job, which was there before it, counts for nothing; each other one delays it by 100 s.
        (0, 2115),
        # T is 100 + 30 + three polls: 160 s. One ends in time, as another would, by its limit, not.
        (1.1, 215),
        # 500 s: the last one starts after 300 s, as 100 + 30 s and two polls are left.
        (2, 515),
        (3, 1015),
    ],
)
def test_waiting_job_is_delayed_by_at_most_its_bound(slowdown: float, starts_at: float) -> None:
    assert start_beside_te_jobs(STREAM, OWNERS, slowdown) == starts_at


def test_waiting_job_of_unknown_run_time_is_delayed_by_at_most_one_te_job() -> None:
    assert start_beside_te_jobs(STREAM, OWNERS, 3, known=False) == 215


@pytest.mark.parametrize(("owner", "starts_at"), [("b", 2115), ("", 515)])
def test_job_of_an_unknown_user_has_no_other_job_of_its_user(owner: str, starts_at: float) -> None:
    assert start_beside_te_jobs(STREAM, [owner] * len(STREAM), 2) == starts_at


@pytest.mark.parametrize(("slowdown", "starts_at"), [(1.1, 5000), (2, 1010)])
def test_run_that_a_victim_lost_counts_from_the_very_beginning(slowdown: float, starts_at: float) -> None:
    # It runs since 0. To lose 1,005 s is more than a tenth of its 5,000 s, and less than all of them.
    jobs = (Sketch(run=5000), replace(te(1005, 100), limit=100))
    assert start_beside_te_jobs(jobs, ("b", "t0"), slowdown) == starts_at
