"""The simulator of training jobs: worked out by hand, and what holds for any policy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tesched_papers.slaq.figures import TITLES, figures, row
from tesched_papers.slaq.run import LEVELS, POLICIES, Outcome, simulate
from tesched_papers.slaq.workload import LINREG, MIXES, SVM, Gaps, Jobs, Plan, losses_of, make
from tesched_policies.slaq.curves import Floats
from tesched_sim.workload import WorkloadError

#: normalised losses 1, 0.5, 0.2, 0
FOUR = np.array([10.0, 5.0, 2.0, 0.0])


def jobs(*losses: Floats, submit_s: tuple[float, ...], cost_core_s: tuple[float, ...]) -> Jobs:
    """Return jobs with these losses."""
    return Jobs(
        kinds=tuple(replace(SVM, count=len(one)) for one in losses),
        submit_s=np.array(submit_s),
        cost_core_s=np.array(cost_core_s),
        count=np.array([len(one) for one in losses]),
        losses=losses,
        normalised=tuple((one - one[-1]) / (one[0] - one[-1]) for one in losses),
    )


def test_one_job_alone_has_all_cores_and_its_times_follow() -> None:
    # 8 core-seconds an iteration on 4 cores: 2 s each. 25 % and 50 % are reached with the second, 75 % with the third.
    outcome = simulate(jobs(FOUR, submit_s=(1.0,), cost_core_s=(8.0,)), "fair", cores=4)
    assert outcome.done_s.tolist() == pytest.approx([8.0])
    assert outcome.level_s[0].tolist() == pytest.approx([4.0, 4.0, 6.0, 8.0, 8.0])
    # 1 while the first and the second iteration run, 0.5 in the third, 0.2 in the fourth.
    assert outcome.mean_loss == pytest.approx((2 + 2 + 0.5 * 2 + 0.2 * 2) / 8)
    assert outcome.ended_s == pytest.approx(9.0)


def test_two_jobs_share_equally_while_both_are_there() -> None:
    # The second comes at 4 s. Until then the first did 2 iterations; then each does one in 4 s.
    outcome = simulate(jobs(FOUR, FOUR, submit_s=(0.0, 4.0), cost_core_s=(8.0, 8.0)), "fair", cores=4)
    # The first: two more at 4 s each, until 12 s. The second: two by 12 s, two more at 2 s each.
    assert outcome.done_s.tolist() == pytest.approx([12.0, 12.0])
    assert outcome.mean_running == pytest.approx((4 * 1 + 8 * 2 + 4 * 1) / 16)


def test_cores_that_are_fewer_than_jobs_leave_the_last_waiting() -> None:
    outcome = simulate(jobs(FOUR, FOUR, submit_s=(0.0, 0.0), cost_core_s=(1.0, 1.0)), "slaq", cores=1)
    assert outcome.done_s.tolist() == pytest.approx([4.0, 8.0])
    # Its normalised loss is 1 for the 4 s that it waits and for its first two iterations.
    assert outcome.mean_loss == pytest.approx(((1 + 1 + 0.5 + 0.2 + 4) / 2 + 1 + 1 + 0.5 + 0.2) / 8)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_cores_are_always_busy_so_all_policies_end_at_the_same_time(policy: str) -> None:
    made = make(Plan(jobs=12, load=1.5), seed=1)
    outcome = simulate(made, policy, cores=640)
    work = float((made.cost_core_s * made.count).sum())
    # Nothing is left undone, and the cores were idle only if no job was there.
    assert outcome.ended_s == pytest.approx(simulate(made, "fair", cores=640).ended_s)
    assert outcome.ended_s >= work / 640 - 1e-6
    assert not np.isnan(outcome.done_s).any()
    assert (np.diff(outcome.level_s, axis=1) >= 0).all()
    assert (outcome.level_s[:, -1] <= outcome.done_s + 1e-9).all()
    assert sum(outcome.core_shares) == pytest.approx(1)
    assert 0 < outcome.mean_loss < 1


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    plan = Plan(jobs=10)
    first, again, other = (simulate(make(plan, seed), "slaq", cores=640).done_s for seed in (3, 3, 4))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


def test_under_load_slaq_lowers_the_loss_and_the_times_to_it_and_costs_the_last_iterations() -> None:
    made = make(Plan(jobs=40, load=1.0), seed=0)
    slaq, fair = (figures(simulate(made, policy, cores=640)) for policy in ("slaq", "fair"))
    assert slaq["mean_loss"] < 0.75 * fair["mean_loss"]
    assert slaq["to_90_s"] < 0.7 * fair["to_90_s"]
    assert slaq["to_end_s"] > fair["to_end_s"]
    assert slaq["share_top"] > 0.45
    assert fair["share_top"] < 0.3


@pytest.mark.parametrize("gaps", Gaps)
@pytest.mark.parametrize("mix", MIXES)
def test_the_load_is_met_and_the_kinds_come_in_turn(gaps: Gaps, mix: str) -> None:
    plan = Plan(jobs=24, load=0.7, gaps=gaps, mix=mix)
    made = make(plan, seed=2)
    assert (made.cost_core_s * made.count).sum() == pytest.approx(0.7 * 640 * 24 * 15)
    assert [kind.name for kind in made.kinds[: len(MIXES[mix])]] == [kind.name for kind in MIXES[mix]]
    assert made.submit_s[0] == 0
    assert (np.diff(made.submit_s) >= 0).all()
    # Of one kind, the sizes of the data come in turn.
    svm = [cost for cost, kind in zip(made.cost_core_s, made.kinds, strict=True) if kind is SVM][:3]
    assert np.array(svm) / svm[2] == pytest.approx([0.1, 0.5, 1.0])


@pytest.mark.parametrize("kind", MIXES["eight"])
def test_losses_go_from_the_first_to_the_last(kind: object) -> None:
    one = next(each for each in MIXES["eight"] if each is kind)
    losses = losses_of(one, np.random.default_rng(0))
    assert len(losses) == one.count
    assert (losses[0], losses[-1]) == pytest.approx((one.first, one.last))
    rises = (np.diff(losses) > 0).any()
    assert rises == (one.jitter > 0)


def test_without_noise_a_kinds_losses_are_its_curve() -> None:
    # The stretch is drawn; it cancels out of the ratio of two equal steps of an exponential.
    losses = losses_of(replace(LINREG, jitter=0), np.random.default_rng(0), noise=0)
    steps = np.diff(losses)[:20]
    assert np.allclose(steps[1:] / steps[:-1], steps[1] / steps[0])


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        (Plan(load=0), "load 0"),
        (Plan(load=float("nan")), "load nan"),
        (Plan(jobs=0), "0 jobs"),
        (Plan(cores=0), "0 cores"),
        (Plan(mean_gap_s=-1), "mean gap -1"),
        (Plan(mix="five"), "'five'"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(plan: Plan, says: str) -> None:
    with pytest.raises(WorkloadError, match=says):
        make(plan, seed=0)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(WorkloadError, match="'best'"):
        simulate(make(Plan(jobs=1), seed=0), "best", cores=1)


def outcome_of(done_s: float, share: float) -> Outcome:
    """Return a run of one job."""
    return Outcome(
        done_s=np.array([done_s]),
        level_s=np.full((1, len(LEVELS)), done_s / 2),
        mean_loss=0.1,
        core_shares=(share, share, share),
        mean_running=1.0,
        ended_s=done_s,
        allocations=1,
    )


def test_differences_are_seed_by_seed_and_a_figure_that_is_not_there_is_left_out() -> None:
    mine = [figures(outcome_of(10, np.nan)), figures(outcome_of(30, np.nan))]
    base = [figures(outcome_of(20, np.nan)), figures(outcome_of(40, np.nan))]
    made = row("slaq", 0.9, mine, base)
    assert made.figures["to_end_s"].mean == 20
    # -50 % and -25 %.
    assert made.difference_percent["to_end_s"].mean == pytest.approx(-37.5)
    assert set(TITLES) - set(made.figures) == {"share_top", "share_next", "share_rest"}
    assert not row("fair", 0.9, base, []).difference_percent
