"""Queries of the store, with numbers that were counted by hand."""

from __future__ import annotations

from sqlalchemy import Engine
from tesched_core.model.cluster import JobState
from tesched_core.model.order import Departure, Ending, OrderState, VictimState
from tesched_core.model.snapshot import JobClass
from tesched_db import queries as read
from tesched_db.views import OrderFilter
from tesched_testcluster.harness.store_examples import Writer, job, moved, order, remembering, victim

LEFT, BACK, SPARED = VictimState.LEFT, VictimState.BACK, VictimState.SPARED


def written(store: Engine) -> Writer:
    """Write four orders: one that worked, a futile one, one with a victim that finished, and one under way."""
    writer = Writer(store)
    requeued = victim(3, BACK, noticed_at=200.0, left_at=230.0, departure=Departure.REQUEUED, back_at=300.0)
    itself = victim(4, LEFT, noticed_at=200.0, left_at=210.0, departure=Departure.REQUEUED_ITSELF, nodes=("n3",))
    finished = victim(5, LEFT, noticed_at=200.0, left_at=220.0, departure=Departure.FINISHED)
    ended = OrderState.ENDED
    memory = remembering(
        order(1, 7, requeued, state=ended, ending=Ending.STARTED_HERE, started_at=231.0, ended_at=301.0),
        order(2, 8, itself, state=ended, ending=Ending.EXPIRED, ended_at=500.0, created_at=250.0),
        order(3, 9, finished, state=ended, ending=Ending.STARTED_HERE, ended_at=220.0),
        order(4, 10, victim(6), victim(99), created_at=500.0),
    )
    writer.look(
        600.0,
        *(job(number, submit_time=500.0, user=f"user{number}") for number in range(3, 11)),
        te=[7, 8, 9, 10],
        memory=memory,
        transitions=[
            moved(1, 200.0, "", "open"),
            moved(4, 500.0, "", "open"),
            moved(4, 501.0, "planned", "noticed", 6),
        ],
    )
    return writer


def test_the_tally_counts_what_orders_cost(store: Engine) -> None:
    written(store)
    tally = read.status(store, now=600.0).tally
    assert (tally.orders, tally.started_here, tally.futile) == (3, 2, 1)
    assert (tally.victims_left, tally.victims_saved) == (3, 2)
    assert tally.lost_node_s == 2 * 130 + 1 * 110
    assert read.status(store, now=600.0, window_s=200.0).tally.orders == 1


def test_a_futile_preemption_counts_before_its_order_has_ended(store: Engine) -> None:
    writer = Writer(store)
    away = victim(3, LEFT, noticed_at=200.0, left_at=230.0, departure=Departure.REQUEUED)
    by_slurm = victim(4, LEFT, left_at=230.0, departure=Departure.REQUEUED)
    moves = victim(6, LEFT, noticed_at=200.0, left_at=230.0, departure=Departure.FINISHED)
    memory = remembering(
        order(1, 7, away, state=OrderState.SETTLING, ending=Ending.NO_RUN),
        order(2, 8, by_slurm, state=OrderState.SETTLING, ending=Ending.STARTED_ELSEWHERE),
        order(3, 9, victim(5), state=OrderState.SETTLING, ending=Ending.STARTED_HERE),
        # It was to move, and finished.
        order(4, 6, moves, state=OrderState.SETTLING, ending=Ending.PREEMPTOR_GONE),
    )
    writer.look(600.0, *(job(number) for number in range(3, 10)), te=[7, 8, 9], memory=memory)
    assert read.status(store, now=600.0).tally.futile == 2
    assert [one.order.order_id for one in read.orders(store, OrderFilter(futile_only=True))] == [1, 2]


def test_open_orders_are_shown_with_their_victims_and_steps(store: Engine) -> None:
    written(store)
    (view,) = read.status(store, now=600.0).open_orders
    assert (view.order.order_id, view.preemptor_label, view.preemptor_user) == (4, "10", "user10")
    # Job 99 was never seen.
    assert view.victim_labels == ("6", "99")
    assert view.victim_users == ("user6", "")
    assert [step.after for step in view.transitions] == ["open", "noticed"]


def test_orders_are_filtered(store: Engine) -> None:
    written(store)

    def ids(which: OrderFilter | None = None) -> list[int]:
        return [view.order.order_id for view in read.orders(store, which)]

    assert ids() == [1, 2, 3, 4]
    assert ids(OrderFilter(open_only=True)) == [4]
    assert ids(OrderFilter(futile_only=True)) == [2]
    assert ids(OrderFilter(since=250.0, until=500.0)) == [2]
    assert ids(OrderFilter(limit=2)) == [3, 4]
    assert [view.lost_node_s for view in read.orders(store)] == [260.0, 110.0, 0.0, 0.0]


def test_a_job_shows_its_orders_by_the_part_it_had_in_them(store: Engine) -> None:
    written(store)
    victims_story, preemptors_story = read.job_story(store, "3"), read.job_story(store, "10")
    assert victims_story is not None
    assert preemptors_story is not None
    assert [view.order.order_id for view in victims_story.orders_as_victim] == [1]
    assert victims_story.orders_as_preemptor == ()
    assert (victims_story.job.preemptions, preemptors_story.job.preemptions) == (1, 0)
    assert [view.order.order_id for view in preemptors_story.orders_as_preemptor] == [4]
    assert preemptors_story.orders_as_victim == ()


def test_an_order_keeps_its_jobs_after_slurm_has_forgotten_them(store: Engine) -> None:
    writer = written(store)
    writer.look(602.0, memory=remembering(order(4, 10, victim(6, SPARED), victim(99, SPARED), expires_at=401.0)))
    story = read.job_story(store, "6")
    assert story is not None
    assert [view.order.victims[0].state for view in story.orders_as_victim] == [SPARED]
    # Those that are not remembered any more stay as history.
    assert len(read.orders(store)) == 4


def test_recent_transitions_are_the_newest_oldest_first(store: Engine) -> None:
    written(store)
    assert [step.at for step in read.recent_transitions(store, limit=2)] == [500.0, 501.0]
    assert [step.at for step in read.recent_transitions(store, since=501.0)] == [501.0]


def test_queues_show_how_long_each_job_waits(store: Engine) -> None:
    writer = Writer(store)
    waiting = [job(number, submit_time=1000.0 - number) for number in range(1, 101)]
    running = job(200, JobState.RUNNING, nodes=["n1"], submit_time=0.0)
    writer.look(1000.0, *waiting, running, te=range(1, 101))
    queues = {queue.job_class: queue for queue in read.status(store, now=1000.0).queues}
    te = queues[JobClass.TE]
    assert te.states == {JobState.PENDING: 100}
    assert (te.waiting_s.count, te.waiting_s.p50, te.longest_wait_s) == (100, 50.5, 100.0)
    assert queues[JobClass.BE].states == {JobState.RUNNING: 1}
    assert queues[JobClass.BE].waiting_s.p50 is None
    assert queues[JobClass.BE].longest_wait_s is None


def test_slowdown_percentiles_are_by_class_and_within_the_window(store: Engine) -> None:
    writer = Writer(store)
    # Job n waits n seconds and runs 10.
    finished = [
        job(number, JobState.COMPLETED, submit_time=0.0, start_time=float(number), end_time=number + 10.0)
        for number in range(0, 101, 10)
    ]
    cancelled = job(500, JobState.CANCELLED, submit_time=0.0, end_time=50.0)
    writer.look(200.0, *finished, cancelled, te=range(501))
    queues = {queue.job_class: queue for queue in read.status(store, now=200.0).queues}
    te = queues[JobClass.TE].slowdown
    assert (te.count, te.p50, te.p95, te.p99) == (11, 6.0, 10.5, 10.9)
    late = {queue.job_class: queue for queue in read.status(store, now=200.0, window_s=100.0).queues}
    assert late[JobClass.TE].slowdown.count == 2
    assert queues[JobClass.BE].slowdown.count == 0
