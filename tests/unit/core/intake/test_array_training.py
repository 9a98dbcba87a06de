"""The reports of a job array's tasks, gathered into one of the training. Expected values are worked out by hand."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tesched_core.intake.array_training import Part, Trainings, gathered
from tesched_core.model.job_report import MOST_POINTS, Curve, Reported
from tesched_core.model.resources import JobId

from tests.builders import running

ARRAY = JobId(20)


def curve(*points: tuple[float, float], at: float = 0.0, work: float = np.nan) -> Curve:
    """Return a curve of (iteration, loss), each reported as many seconds after `at` as its iteration says."""
    return Curve.of([(iteration, loss, at + iteration, work) for iteration, loss in points])


def told(*points: tuple[float, float], at: float = 0.0, work: float = np.nan, **more: object) -> Reported:
    return Reported(curve=curve(*points, at=at, work=work), **more)  # type: ignore[arg-type]


def heard(before: Trainings, tasks: Mapping[int, Reported | None]) -> Trainings:
    """Return the trainings after these tasks of array 20 were seen; the last of them has the array's own id."""
    jobs = [
        running(20 if index == max(tasks) else 100 + index, array_job_id=ARRAY, array_task_id=index) for index in tasks
    ]
    reported = {job.job_id: one for job in jobs if (one := tasks[job.array_task_id or 0]) is not None}
    return before.heard(jobs, reported)


def pairs(found: Curve) -> list[tuple[int, float]]:
    return list(zip(found.iteration.tolist(), found.loss.tolist(), strict=True))


def test_the_loss_is_the_mean_over_the_workers_that_hold_there() -> None:
    # The worked example of the module: 6 and 4 at 5, 4 and 2 at 10, and task 1 alone at 20.
    tasks = {0: told((0, 8), (10, 4)), 1: told((5, 4), (10, 2), (20, 1))}
    found = heard(Trainings(), tasks).reported[ARRAY]
    assert pairs(found.curve) == [(0, 8.0), (5, 5.0), (10, 3.0), (20, 1.0)]


def test_work_is_summed_where_it_was_reported_and_the_first_worker_reaches_an_iteration() -> None:
    tasks = {
        0: told((0, 8), (10, 4), at=100, work=3),
        1: told((0, 8), (10, 4), at=90, work=2),
        2: told((10, 4), (20, 3)),
    }
    found = heard(Trainings(), tasks).reported[ARRAY].curve
    np.testing.assert_equal(found.work, [5.0, 5.0, np.nan])
    assert found.at.tolist() == [90.0, 10.0, 20.0]


def test_a_task_with_the_arrays_own_id_is_a_worker_like_the_others() -> None:
    jobs = [running(20, array_job_id=ARRAY, array_task_id=1), running(21, array_job_id=ARRAY, array_task_id=0)]
    alone = running(30)
    said = {JobId(20): told((1, 2.0)), JobId(21): told((1, 4.0)), JobId(30): told((1, 9.0))}
    found = Trainings().heard([*jobs, alone], said).reported
    assert list(found) == [ARRAY]
    assert pairs(found[ARRAY].curve) == [(1, 3.0)]


def test_a_worker_that_is_gone_stays_in_the_mean_as_one_worker() -> None:
    first = heard(Trainings(), {0: told((1, 9.0), workload="lstm", target_loss=0.5), 1: told((1, 6.0))})
    assert pairs(first.reported[ARRAY].curve) == [(1, 7.5)]
    # Tasks 0 and 1 are gone; task 2 reports the same iteration: (9 + 6 + 3) / 3.
    then = heard(first, {2: told((1, 3.0), (2, 2.0))})
    found = then.reported[ARRAY]
    assert pairs(found.curve) == [(1, 6.0), (2, 2.0)]
    assert (found.workload, found.target_loss) == ("lstm", 0.5)
    # No task reports any more, but the array still has tasks.
    assert pairs(heard(then, {3: None}).reported[ARRAY].curve) == [(1, 6.0), (2, 2.0)]
    assert not heard(then, {3: None}).heard([], {}).reported


def test_nothing_new_is_the_same_object() -> None:
    tasks: dict[int, Reported | None] = {0: told((1, 9.0)), 1: None}
    first = heard(Trainings(), tasks)
    again = heard(first, tasks)
    assert again.reported[ARRAY] is first.reported[ARRAY]
    assert heard(again, {**tasks, 1: told((1, 3.0))}).reported[ARRAY] is not first.reported[ARRAY]


def test_curves_of_tasks_that_were_gone_before_count() -> None:
    jobs = [running(21, array_job_id=ARRAY, array_task_id=5)]
    asked: list[tuple[JobId, set[int]]] = []

    def earlier(array: JobId, there: Collection[int]) -> list[Curve]:
        asked.append((array, set(there)))
        return [curve((0, 8.0), (2, 6.0)), curve((0, 6.0), (2, 4.0))]

    first = Trainings().heard(jobs, {JobId(21): told((2, 2.0), (4, 1.0))}, earlier)
    assert pairs(first.reported[ARRAY].curve) == [(0, 7.0), (2, 4.0), (4, 1.0)]
    again = first.heard(jobs, {JobId(21): told((2, 2.0), (4, 0.5))}, earlier)
    assert pairs(again.reported[ARRAY].curve) == [(0, 7.0), (2, 4.0), (4, 0.5)]
    assert asked == [(ARRAY, {5})], "once for an array"


def test_a_refused_task_is_named_and_the_others_count() -> None:
    tasks = {0: told((1, 4.0)), 3: Reported(refused="it is no JSON"), 7: Reported(refused="it is no JSON")}
    found = heard(Trainings(), tasks).reported[ARRAY]
    assert found.refused == "task 3: it is no JSON (and 1 more)"
    assert pairs(found.curve) == [(1, 4.0)]


CURVES = st.lists(
    st.tuples(st.integers(0, 60), st.floats(-1e100, 1e100), st.floats(0, 1e9), st.floats(0, 1e100) | st.just(np.nan)),
    max_size=8,
).map(Curve.of)


@given(st.lists(CURVES, max_size=5), st.randoms(use_true_random=False))
def test_the_order_of_workers_does_not_matter_and_no_loss_is_beyond_what_was_reported(
    curves: list[Curve], chance: random.Random
) -> None:
    found = gathered(map(Part.of, curves))
    chance.shuffle(curves)
    other = gathered(map(Part.of, curves))
    assert found.curve.iteration.tolist() == other.curve.iteration.tolist()
    np.testing.assert_allclose(found.curve.loss, other.curve.loss, rtol=1e-9, atol=1e88)
    iterations = {at for one in curves for at in one.iteration.tolist()}
    assert set(found.curve.iteration.tolist()) == iterations
    assert np.isfinite(found.curve.loss).all()
    if iterations:
        losses = np.concatenate([one.loss for one in curves])
        capacity = 1e-9 * np.abs(losses).max()
        assert found.curve.loss.min() >= losses.min() - capacity
        assert found.curve.loss.max() <= losses.max() + capacity


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_workers_that_all_report_the_trainings_loss_make_that_curve_again(workers: int) -> None:
    whole = [(k, 1 / (k + 1)) for k in range(100)]
    found = gathered([Part.of(curve(*whole[worker:])) for worker in range(workers)])
    np.testing.assert_allclose(found.curve.loss, [loss for _, loss in whole], rtol=1e-12)
    assert found.workers.tolist() == [min(k + 1, workers) for k in range(100)]


def test_a_gathered_curve_is_bounded_and_keeps_its_ends() -> None:
    parts = [Part.of(curve(*((k * 7 + worker, 1.0 + worker) for k in range(900)))) for worker in range(7)]
    found = gathered(parts)
    assert len(found.curve) == MOST_POINTS
    assert (found.curve.iteration[0], found.curve.iteration[-1]) == (0, 899 * 7 + 6)
    # The newest are whole.
    assert np.diff(found.curve.iteration[-400:]).tolist() == [1] * 399
