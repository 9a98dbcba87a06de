"""The timeline's drawing: which bar lies where, what is marked, and what is left out."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from tesched_cli.common import natural
from tesched_cli.web.charts import MOST_DOTS, charts
from tesched_cli.web.drawing import AXIS, GAP, LEAST_S, MOST_LANES, MOST_NODES, MOST_WAITS, ROW, Drawing, draw
from tesched_core.intake.job_times import Run
from tesched_core.model.order import Departure, Ending, OrderState, VictimState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_db.timeline import EndedJob, JobRuns, Timeline
from tesched_db.views import OrderView
from tesched_testcluster.harness.store_examples import order, victim

NOW = 1_000_000.0


def ran(job_id: int, *runs: Run, te: bool = False, submitted: float = NOW - 900, **more: Any) -> JobRuns:
    values: dict[str, Any] = {
        "label": str(job_id),
        "job_id": JobId(job_id),
        "name": f"job-{job_id}",
        "user": "ada",
        "job_class": JobClass.TE if te else JobClass.BE,
        "submitted_at": submitted,
        "waits": not runs,
        "runs": runs,
    }
    return JobRuns(**{**values, **more})


def run(start: float, end: float | None = None, *nodes: str, restarts: int = 0) -> Run:
    """Return a run from so many seconds before now to so many."""
    return Run(restarts=restarts, start=NOW - start, end=None if end is None else NOW - end, nodes=nodes or ("n1",))


def drawn(*jobs: JobRuns, orders: tuple[OrderView, ...] = (), since: float = NOW - 1000, cut: bool = False) -> Drawing:
    return draw(Timeline(jobs=jobs, cut=cut, orders=orders, waiting=(), waiting_count=0, ended=()), since, NOW)


def place(text: str) -> float:
    return float(text.removesuffix("%"))


def test_nodes_are_in_their_natural_order_and_each_has_a_row() -> None:
    found = drawn(ran(1, run(500, None, "n10", "n2", "n1")))
    assert [*found.rows] == [("n1", AXIS, ROW), ("n2", AXIS + ROW + GAP, ROW), ("n10", AXIS + 2 * (ROW + GAP), ROW)]
    assert len(found.bars) == 3


@pytest.mark.parametrize(
    ("less", "more"), [("n2", "n10"), ("a9b1", "a9b2"), ("gpu9", "gpu10"), ("a", "b"), ("n1", "n01x"), ("1", "a")]
)
def test_numbers_in_names_count_as_numbers(less: str, more: str) -> None:
    assert natural(less) < natural(more)


def test_a_bar_lies_where_its_run_was() -> None:
    (bar, other) = drawn(ran(1, run(1000, 500)), ran(2, run(250))).bars
    assert (place(bar.x), place(bar.width)) == (0, 50)
    assert (place(other.x), place(other.width)) == (75, 25)
    assert (bar.y, bar.height) == (AXIS + 0.5, ROW - 1)


def test_a_run_that_began_before_is_cut_off_at_the_left_and_one_that_ended_before_is_not_drawn() -> None:
    found = drawn(ran(1, run(5000, 500)), ran(2, run(3000, 2000)))
    assert [(bar.job, place(bar.x), place(bar.width)) for bar in found.bars] == [("1", 0, 50)]


def test_the_drawing_begins_with_the_first_run_if_that_is_later() -> None:
    (bar,) = drawn(ran(1, run(100))).bars
    assert 0 < place(bar.x) < 3
    (short,) = drawn(ran(1, run(1))).bars
    assert place(short.width) == pytest.approx(100 / LEAST_S, abs=0.01)


def test_jobs_that_share_a_node_lie_beside_each_other_in_lanes() -> None:
    found = drawn(ran(1, run(900, 100)), ran(2, run(800, 200)), ran(3, run(90)))
    assert [(bar.job, bar.y) for bar in found.bars] == [
        ("1", AXIS + 0.5),
        ("2", AXIS + ROW / 2 + 0.5),
        ("3", AXIS + 0.5),
    ]
    assert {bar.height for bar in found.bars} == {ROW / 2 - 1}
    assert not any(bar.is_written for bar in found.bars)


def test_a_run_that_a_poll_saw_end_late_gives_way_to_the_next_one_on_its_node() -> None:
    found = drawn(ran(1, run(1000, 499)), ran(2, run(500)))
    assert [(bar.y, place(bar.x), place(bar.width)) for bar in found.bars] == [
        (AXIS + 0.5, 0, 50),
        (AXIS + 0.5, 50, 50),
    ]


def test_what_has_no_place_is_said_to_be_missing() -> None:
    crowd = [ran(number, run(900)) for number in range(1, MOST_LANES + 3)]
    found = drawn(*crowd, ran(99, run(900, None, *(f"m{node}" for node in range(MOST_NODES + 2)))), cut=True)
    assert found.left_out == (
        "Not drawn: 3 more node(s) ran jobs; 2 run(s) share a node with more than 5 others; older jobs than the newest "
        "are missing."
    )
    assert "n1" in [name for name, _, _ in found.rows], "the node with the most runs"
    assert len(found.rows) == MOST_NODES
    assert drawn(ran(1, run(9))).left_out == ""


def preempted(**more: Any) -> tuple[JobRuns, OrderView]:
    """Return job 1, which ran on n1, left at 300 s before now, and runs again; and the order for job 2."""
    job = ran(1, run(1000, 300), run(100, restarts=1))
    values = {
        "state": VictimState.BACK,
        "nodes": ("n1",),
        "noticed_at": NOW - 400,
        "left_at": NOW - 290,
        "back_at": NOW - 100,
        "departure": Departure.REQUEUED,
        "user": "ada",
        **more,
    }
    one = order(3, 2, victim(1, **values), state=OrderState.ENDED, ending=Ending.STARTED_HERE, created_at=NOW - 400)
    view = OrderView(
        order=one,
        preemptor_label="2",
        preemptor_user="bob",
        victim_labels=("1",),
        victim_users=("ada",),
        transitions=(),
    )
    return job, view


def test_a_preemption_has_its_notice_its_grace_period_its_end_and_the_run_after_it() -> None:
    job, view = preempted()
    found = drawn(job, orders=(view,))
    marks = {mark.kind: mark for mark in found.marks}
    assert place(marks["notice"].x) == 60
    assert (place(marks["grace"].x), place(marks["grace"].width)) == (60, 10)
    # Slurm's end of the run, not the poll that saw it.
    assert place(marks["left"].x) == 70
    assert [bar.kind for bar in found.bars] == ["be", "be again"]
    at = [time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(NOW - before)) for before in (400, 290, 100)]
    assert found.words == (f"{at[0]}: job 1 of ada for job 2 of bob (order 3): left at {at[1]}, ran again at {at[2]}.",)
    assert found.words[0] in found.description


def test_an_array_task_has_one_name_in_its_bar_and_in_its_marks() -> None:
    job, view = preempted()
    found = drawn(replace(job, label="20_1"), orders=(replace(view, victim_labels=("20_1",)),))
    assert len(found.marks) == 3
    for said in (*(bar.words for bar in found.bars), *(mark.words for mark in found.marks)):
        assert "job 20_1 " in said or "job 20_1," in said


def test_a_job_without_a_signal_has_no_notice_and_one_that_is_suspended_no_mark() -> None:
    job, view = preempted(notice_signal="")
    assert {mark.kind for mark in drawn(job, orders=(view,)).marks} == {"grace", "left"}
    job, view = preempted(grace_period_s=0.0)
    assert {mark.kind for mark in drawn(job, orders=(view,)).marks} == {"grace", "left"}, "none is sent"
    job, view = preempted(by_suspending=True)
    assert drawn(job, orders=(view,)).marks == ()


def test_a_job_that_ended_its_work_in_its_grace_period_was_not_preempted() -> None:
    job, view = preempted(departure=Departure.FINISHED, state=VictimState.LEFT, back_at=None)
    found = drawn(replace(job, runs=job.runs[:1]), orders=(view,))
    assert {mark.kind for mark in found.marks} == {"notice", "grace"}


def test_no_job_leaves_before_its_notice_by_the_whole_seconds_of_slurm() -> None:
    job, view = preempted(noticed_at=NOW - 299.5)
    marks = {mark.kind: place(mark.x) for mark in drawn(job, orders=(view,)).marks}
    assert marks["left"] == marks["notice"] == pytest.approx(70.05)


def test_a_grace_period_under_way_ends_now_or_at_its_deadline() -> None:
    job, view = preempted(state=VictimState.NOTICED, left_at=None, back_at=None, departure=None, grace_period_s=900.0)
    still = replace(job, runs=(run(1000),))
    (grace,) = [mark for mark in drawn(still, orders=(view,)).marks if mark.kind == "grace"]
    assert place(grace.width) == 40
    job, view = preempted(state=VictimState.SPARED, left_at=None, back_at=None, departure=None, grace_period_s=50.0)
    (grace,) = [mark for mark in drawn(still, orders=(view,)).marks if mark.kind == "grace"]
    assert place(grace.width) == 5


def test_te_jobs_have_a_line_while_they_wait_those_that_wait_now_before_others() -> None:
    started = [ran(number, run(100 + number), te=True, submitted=NOW - 300) for number in range(2, 2 + MOST_WAITS)]
    found = drawn(ran(1, run(1000)), *started, ran(50, te=True, submitted=NOW - 60), ran(51, submitted=NOW - 60))
    assert len(found.waits) == MOST_WAITS
    (waits,) = [wait for wait in found.waits if wait.open]
    assert (waits.text, place(waits.x), place(waits.to)) == ("job-50 waits 01:00", 94, 100)
    # The shortest wait is the one without a line.
    assert "11" not in {wait.job for wait in found.waits}


def test_every_bar_says_in_words_what_it_shows() -> None:
    job = ran(1, run(1000, 300), te=True, name="<b>")
    (bar,) = drawn(job).bars
    start, end = (time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(NOW - before)) for before in (1000, 300))
    assert bar.words == f"TE job 1 <b> of ada: {start} to {end}, on n1"


def test_nothing_to_draw_is_no_error() -> None:
    found = drawn()
    assert (found.rows, found.bars, found.waits, found.marks) == ((), (), (), ())


def ended(job_class: JobClass, at: float, waited_s: float, slowdown: float | None) -> EndedJob:
    return EndedJob(label="1", job_class=job_class, ended_at=NOW - at, waited_s=waited_s, slowdown=slowdown)


def test_charts_are_of_te_waits_and_be_slowdowns_with_medians() -> None:
    jobs = [ended(JobClass.TE, 3600 * hour, 2.0**hour, 1.5) for hour in range(1, 12)]
    jobs += [ended(JobClass.BE, 100, 5.0, value) for value in (1.0, 1.5, 4.0, None)]
    te, be = charts(jobs, NOW - 86400, NOW)
    assert te.description == "11 job(s) that ended: median 01:04, at most 34:08."
    assert be.description == "3 job(s) that ended: median 1.50, at most 4.00."
    # The longest wait is at the top, and lies at the left: it was the first.
    assert min(te.dots, key=lambda dot: dot[1]) == min(te.dots, key=lambda dot: place(dot[0]))
    assert len(be.medians) == 1


def test_a_class_of_which_no_job_ended_has_no_chart_and_of_many_jobs_some_are_drawn() -> None:
    assert list(charts([], NOW - 86400, NOW)) == []
    many = [ended(JobClass.TE, second, 1.0, None) for second in range(3 * MOST_DOTS)]
    (te,) = charts(many, NOW - 86400, NOW)
    assert len(te.dots) == MOST_DOTS
    assert te.description.startswith(f"{3 * MOST_DOTS} job(s)")
