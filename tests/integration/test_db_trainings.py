"""Trainings in the store: jobs and job arrays, the cores that they hold, which tasks are gathered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine
from tesched_core.model.cluster import Job, JobState, NodeShare, Request
from tesched_core.model.job_report import Curve, Reported
from tesched_core.model.resources import JobId, Tres
from tesched_db import trainings
from tesched_db.trainings import HeldShare, TrainingView
from tesched_testcluster.harness.store_examples import Writer, job, snapshot

ARRAY = JobId(20)


def told(*points: tuple[float, float], **more: object) -> Reported:
    curve = Curve.of([(iteration, loss, 100.0 + iteration, np.nan) for iteration, loss in points])
    return Reported(curve=curve, **more)  # type: ignore[arg-type]


def on(job_id: int, cpus: int, **more: Any) -> Job:
    """Return a job that runs on so many CPUs."""
    one = job(job_id, JobState.RUNNING, submit_time=1.0, **more)
    held = (NodeShare(node="n1", tres=Tres(cpus=cpus)),)
    return replace(one, allocation=held, request=Request(cpus=cpus))


def task(index: int, cpus: int = 1, **more: Any) -> Job:
    return on(100 + index, cpus, array_job_id=ARRAY, array_task_id=index, **more)


def look(writer: Writer, at: float, said: Mapping[Job, Reported | None]) -> None:
    reported = {one.job_id: what for one, what in said.items() if what is not None}
    writer.write(replace(snapshot(at, *said), reported=reported))


def shown(store: Engine, limit: int = 10) -> dict[str, TrainingView]:
    return {one.label: one for one in trainings.trainings(store, limit=limit).shown}


def losses(curve: Curve) -> list[tuple[int, float]]:
    return list(zip(curve.iteration.tolist(), curve.loss.tolist(), strict=True))


def test_jobs_and_arrays_with_their_parts_of_the_cores_that_trainings_hold(store: Engine) -> None:
    writer = Writer(store)
    said: dict[Job, Reported | None] = {
        on(7, 2): told((0, 5.0), (1, 4.0), workload="lstm", target_loss=0.1),
        task(0, 3): told((0, 9.0)),
        task(1, 3): told((0, 7.0), (1, 6.0)),
        on(8, 64): None,
    }
    look(writer, 200.0, said)
    found = shown(store)
    assert list(found) == ["20_*", "7"], "who holds most comes first; who tells nothing is no training"
    array, alone = found["20_*"], found["7"]
    assert losses(array.curve) == [(0, 8.0), (1, 6.0)]
    assert (array.array_job_id, array.tasks, array.share, array.at) == (20, 2, HeldShare(cpus=6, part=0.75), 101.0)
    assert (alone.array_job_id, alone.tasks, alone.share) == (None, 1, HeldShare(cpus=2, part=0.25))
    assert (alone.workload, alone.target_loss, alone.user, alone.name) == ("lstm", 0.1, "ada", "run")
    assert trainings.shares(store) == {"20_*": array.share, "7": alone.share}
    first = trainings.trainings(store, limit=1)
    assert ([one.label for one in first.shown], first.more) == (["20_*"], 1)


def test_tasks_that_slurm_has_forgotten_count_and_the_ones_that_are_over_are_no_training(store: Engine) -> None:
    writer = Writer(store)
    look(writer, 200.0, {task(0): told((0, 9.0)), task(1): told((0, 7.0))})
    look(writer, 202.0, {task(1): told((0, 7.0)), task(2): told((0, 5.0))})
    (array,) = shown(store).values()
    assert losses(array.curve) == [(0, 7.0)]
    assert array.tasks == 2
    assert [losses(one) for one in trainings.gone_tasks(store, ARRAY, {1, 2})] == [[(0, 9.0)]]
    over = [replace(task(index), state=JobState.COMPLETED, allocation=(), end_time=203.0) for index in (1, 2)]
    look(writer, 204.0, {over[0]: told((0, 7.0)), over[1]: told((0, 5.0))})
    assert shown(store) == {}
    whole = trainings.array(store, ARRAY)
    assert whole is not None
    assert losses(whole.curve) == [(0, 7.0)]
    assert (whole.label, whole.tasks, whole.share) == ("20_*", 0, HeldShare(cpus=0, part=None))


def test_an_earlier_array_of_the_same_id_is_another_training(store: Engine) -> None:
    writer = Writer(store)
    look(writer, 200.0, {task(0): told((0, 900.0))})
    look(writer, 202.0, {})
    again = replace(task(5), submit_time=300.0)
    look(writer, 302.0, {again: told((0, 5.0))})
    assert losses(shown(store)["20_*"].curve) == [(0, 5.0)]
    assert trainings.gone_tasks(store, ARRAY, {5}) == ()


@pytest.mark.parametrize("reported", [None, Reported()])
def test_an_array_that_reported_nothing_has_no_report(store: Engine, reported: Reported | None) -> None:
    look(Writer(store), 200.0, {task(0): reported})
    assert trainings.array(store, ARRAY) is None


def test_of_an_array_with_too_many_losses_the_newest_tasks_are_gathered(
    store: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainings, "MOST_ROWS", 5)
    writer = Writer(store)
    look(writer, 200.0, {task(0): told(*((k, 9.0) for k in range(3)))})
    look(writer, 202.0, {task(index): told(*((k, float(index)) for k in range(2))) for index in (1, 2)})
    assert losses(shown(store)["20_*"].curve) == [(0, 1.5), (1, 1.5)]
