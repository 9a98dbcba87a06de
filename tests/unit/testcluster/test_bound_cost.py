"""Sites on which the cost of guard.bound is measured: their loads, their bounds, and what is seen of each run."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from tesched_sim.workload import SimulatedNodes, Workload, WorkloadError
from tesched_testcluster.harness.bound_cost import (
    TE_LIMIT_S,
    Base,
    Case,
    Line,
    cases,
    knowing_runs,
    made,
    measured,
    offered,
    setting_of,
    together,
    with_te_load,
)

SMALL = Base(source="fitgpp", nodes=2, hours=1.5)
LOADS = (0.3, 0.9, 1.5)


def site(te_run_s: float = 120.0) -> Workload:
    """Return 2 nodes of 8 GPUs, over 10 h: 20 BE jobs that hold half of them, and 20 TE jobs of 1 GPU."""
    te = np.arange(40) % 2 == 1
    return Workload.of(
        "site",
        SimulatedNodes.alike(2, cpus=32, mem_mib=1024, gpus=8),
        submit_s=np.linspace(0, 36_000, 40),
        run_s=np.where(te, te_run_s, 3600.0),
        demand=[[1, 1, 1 if one else 4] for one in te],
        te=te,
    )


@pytest.mark.parametrize("load", LOADS)
def test_te_jobs_ask_for_the_load_that_was_chosen(load: float) -> None:
    made_up = with_te_load(site(), load, seed=1)
    asked_s = (made_up.demand[:, 2] * made_up.run_s)[made_up.te].sum()
    assert asked_s / (16 * 36_000) == pytest.approx(load, rel=0.02)
    assert offered(made_up, made_up.te) == pytest.approx(load, rel=0.02)


def test_be_jobs_are_the_same_under_every_te_load() -> None:
    base = site()
    be = [with_te_load(base, load, seed=1) for load in LOADS]
    for one in be:
        assert one.submit_s[~one.te].tolist() == base.submit_s[~base.te].tolist()
        assert one.run_s[~one.te].tolist() == base.run_s[~base.te].tolist()
        # 20 jobs of 4 of 16 GPUs for an hour each, in 10 hours.
        assert offered(one, ~one.te) == pytest.approx(0.5, rel=0.01)


def test_te_jobs_have_limits_within_the_bounds_and_no_be_jobs_user() -> None:
    made_up = with_te_load(site(te_run_s=1700.0), 0.9, seed=1)
    assert (made_up.limit_s[made_up.te] <= TE_LIMIT_S).all()
    assert (made_up.limit_s >= made_up.run_s).all()
    assert not set(made_up.user[made_up.te].tolist()) & set(made_up.user[~made_up.te].tolist())


def test_be_jobs_alone_say_how_long_they_run() -> None:
    known = knowing_runs(site())
    assert known.expected_s is not None
    assert np.isinf(known.expected_s[known.te]).all()
    assert known.expected_s[~known.te, 0].tolist() == known.run_s[~known.te].tolist()


def test_site_without_te_jobs_has_none_to_draw_from() -> None:
    base = site()
    alone = Workload.of(
        "site", base.machines, submit_s=base.submit_s, run_s=base.run_s, demand=base.demand, te=np.zeros(40, np.bool_)
    )
    with pytest.raises(WorkloadError, match="there is no TE job to draw from"):
        with_te_load(alone, 0.3, seed=1)


@pytest.mark.parametrize("slowdown", [None, 3.0])
def test_site_has_the_hook_and_the_bound_that_was_chosen(slowdown: float | None) -> None:
    setting = setting_of(Case(base=SMALL, te_load=0.3, slowdown=slowdown))
    assert setting.site.hook
    assert setting.guard.bound.is_set is (slowdown is not None)
    assert setting.guard.bound.slowdown == (slowdown or 0.0)


def test_run_without_a_bound_holds_no_te_job_and_counts_delays_all_the_same() -> None:
    (off,) = cases([SMALL], [None], [0.9], said=True, policy="fitgpp")
    line = measured(off)
    assert (line.te_held, line.most_of_bound, line.beyond_bound) == (0.0, None, 0)
    assert line.te_jobs > 20
    assert (line.be_delay_p95_s or 0.0) > 0


def test_run_with_a_bound_holds_te_jobs_and_delays_no_be_job_beyond_it() -> None:
    (one,) = cases([SMALL], [1.5], [1.5], said=True, policy="fitgpp")
    line = measured(one)
    assert line.te_held > 0
    assert line.beyond_bound == 0
    assert 0 < (line.most_of_bound or 0.0) <= 1


def test_trace_gives_its_short_jobs_as_te_jobs_and_be_jobs_that_fill_the_cluster(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    rows = [
        f"2017-09-07 {minute // 60:02}:{minute % 60:02}:00,{600 if minute % 2 else 3600},1" for minute in range(240)
    ]
    path.write_text("timestamp,duration,num_gpus\n" + "\n".join(rows) + "\n")
    jobs = made(Base(source=str(path), nodes=2, hours=4, after=0.0))
    assert set(jobs.run_s[jobs.te].tolist()) == {600.0}
    assert set(jobs.run_s[~jobs.te].tolist()) == {3600.0}
    # One more of an hour on 1 of 16 GPUs, in 4 hours, is 1.6 %.
    assert offered(jobs, ~jobs.te) == pytest.approx(0.9, abs=0.02)


def line(seed: int, **more: object) -> Line:
    """Make a line of which the median differs."""
    numbers: dict[str, object] = {one.name: 0.0 for one in fields(Line)}
    numbers |= {"workload": "fitgpp", "seed": seed, "te_load": 0.3, "slowdown": 3.0, "said": True, "policy": "fitgpp"}
    numbers |= {"te_wait_p50_s": 60.0 * seed, "most_of_bound": 0.1 * seed, "beyond_bound": seed % 2, "te_jobs": 9}
    return Line(**(numbers | more))  # type: ignore[arg-type]


def test_seeds_are_taken_together_and_no_job_beyond_its_bound_is_lost() -> None:
    off = line(1, slowdown=None, most_of_bound=None, beyond_bound=0)
    three, alone = together([off, line(3), line(1), line(2)])
    assert (three.te_wait_p50_s, three.beyond_bound) == (120.0, 2)
    assert three.most_of_bound == pytest.approx(0.3)
    assert (alone.slowdown, alone.te_wait_p50_s, alone.most_of_bound) == (None, 60.0, None)


def test_cases_that_differ_stay_apart() -> None:
    lines = [line(1), line(1, te_load=0.9), line(1, said=False), line(1, workload="openb"), line(1, slowdown=2.0)]
    assert len(together(lines)) == 5
