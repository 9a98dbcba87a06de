"""Metrics of a store that a daemon's journal writes: what is counted, what a scrape gets, and what cannot stop it.

Over 400 lines: all of them are of one store and one exporter, and share its fixture.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import RefusalCode
from tesched_core.model.order import Departure, Ending, OrderState, Purpose, VictimState
from tesched_daemon.metrics import endpoint as endpoint_module
from tesched_daemon.metrics import exporter as exporter_module
from tesched_daemon.metrics.endpoint import MOST_CLIENTS, MOST_REQUEST
from tesched_daemon.metrics.exporter import Exporter
from tesched_daemon.settings import Mode
from tesched_db import queries as read
from tesched_db import retention
from tesched_db import tail as tail_module
from tesched_db.errors import StoreError
from tesched_db.tail import Now, Tail
from tesched_testcluster.harness.private_prometheus import free_port
from tesched_testcluster.harness.store_examples import (
    DOWN,
    Writer,
    job,
    moved,
    order,
    refusal,
    remembering,
    report,
    victim,
)
from tesched_testcluster.patience import HANG_S, wait_for

NOW = 1000.0


def tail_of(store: Engine) -> Tail:
    tail = Tail(engine=store, began_at=NOW)
    tail.skip()
    return tail


def test_a_run_is_counted_once_with_its_wait_and_a_requeued_ones_from_its_requeue(store: Engine) -> None:
    writer, tail = Writer(store), tail_of(store)
    waits = job(1, submit_time=NOW, partitions=("main",))
    runs = replace(waits, state=JobState.RUNNING, start_time=NOW + 7)
    before = job(2, JobState.RUNNING, submit_time=100.0, start_time=200.0, partitions=("main",))
    writer.look(NOW, waits, before, te=[1])
    assert tail.read(NOW).news.started == ()
    writer.look(NOW + 10, runs, before, te=[1])
    writer.look(NOW + 11, replace(runs, state=JobState.SUSPENDED), before, te=[1])
    writer.look(NOW + 12, runs, before, te=[1])
    (one,) = tail.read(NOW + 12).news.started
    assert (one.job_class, one.partition, one.waited_s) == ("te", "main", 7.0)
    back = replace(waits, submit_time=NOW + 20, restarts=1)
    writer.look(NOW + 21, back, te=[1])
    writer.look(NOW + 30, replace(back, state=JobState.RUNNING, start_time=NOW + 25), te=[1])
    assert [each.waited_s for each in tail.read(NOW + 30).news.started] == [5.0]
    assert tail.read(NOW + 31).news.started == ()


def test_a_run_that_no_poll_fell_into_is_counted_and_one_that_was_cancelled_in_the_queue_is_not(store: Engine) -> None:
    writer, tail = Writer(store), tail_of(store)
    short = job(1, JobState.COMPLETED, submit_time=NOW, start_time=NOW + 2, end_time=NOW + 4, partitions=("main",))
    gone = job(2, JobState.CANCELLED, submit_time=NOW, start_time=NOW + 3, end_time=NOW + 3, partitions=("main",))
    writer.look(NOW + 5, short, gone)
    news = tail.read(NOW + 5).news
    assert [one.waited_s for one in news.started] == [2.0]
    # It waited as long as it ran.
    assert news.slowdowns == (("be", 2.0),)


def test_a_job_that_had_ended_before_the_process_began_is_not_counted(store: Engine) -> None:
    writer, tail = Writer(store), tail_of(store)
    ended = job(1, JobState.CANCELLED, submit_time=NOW - 9, start_time=NOW - 8, end_time=NOW - 1, partitions=("main",))
    writer.look(NOW + 1, ended)
    news = tail.read(NOW + 1).news
    assert (news.started, news.slowdowns) == ((), ())


def test_an_orders_phases_its_victims_and_its_end_are_counted_each_once(store: Engine) -> None:
    writer, tail = Writer(store), tail_of(store)
    made = order(1, 2, victim(1, VictimState.NOTICED, noticed_at=203.0))
    jobs = [job(1, JobState.RUNNING, nodes=["n1"]), job(2)]
    writer.look(NOW, *jobs, te=[2], memory=remembering(made), transitions=[moved(1, 200.0, "", "open")])
    news = tail.read(NOW).news
    assert (news.phases, news.left, news.endings, news.futile) == ((), (), (), ())
    gone = victim(1, VictimState.LEFT, noticed_at=203.0, left_at=213.0, departure=Departure.REQUEUED)
    started = replace(made, victims=(gone,), state=OrderState.SETTLING, ending=Ending.STARTED_HERE)
    steps = [moved(1, 213.0, "requeuing", "left", 1), moved(1, 218.0, "open", "settling")]
    writer.look(NOW + 1, *jobs, te=[2], memory=remembering(started), transitions=steps)
    news = tail.read(NOW + 1).news
    (one,) = news.phases
    assert (one.notice_s, one.leave_s, one.start_s, one.whole_s) == (3.0, 10.0, 5.0, 18.0)
    # two nodes, from 100 to 213
    assert [(left.departure, left.lost_node_s) for left in news.left] == [(Departure.REQUEUED, 226.0)]
    lost = replace(gone, departure=Departure.LOST, given_up_at=220.0)
    ended = replace(started, victims=(lost,), state=OrderState.ENDED, ended_at=NOW + 2)
    steps = [moved(1, 220.0, "left", "left", 1), moved(1, NOW + 2, "settling", "ended")]
    writer.look(NOW + 2, *jobs, te=[2], memory=remembering(ended), transitions=steps)
    news = tail.read(NOW + 2).news
    assert [(left.departure, left.lost_node_s) for left in news.left] == [(Departure.LOST, 0.0)]
    assert (news.phases, news.endings, news.futile) == ((), ((Ending.STARTED_HERE, Purpose.TE),), ())


def test_a_futile_order_is_counted_when_that_is_known(store: Engine) -> None:
    writer, tail = Writer(store), tail_of(store)
    gone = victim(1, VictimState.LEFT, noticed_at=203.0, left_at=213.0, departure=Departure.REQUEUED)
    made = order(1, 2, gone, state=OrderState.SETTLING, ending=Ending.EXPIRED)
    writer.look(NOW, job(1), job(2), te=[2], memory=remembering(made), transitions=[moved(1, NOW, "open", "settling")])
    now = tail.read(NOW)
    assert (now.news.futile, now.news.phases, now.tally.futile) == ((Purpose.TE,), (), 1)
    ended = replace(made, state=OrderState.ENDED, ended_at=NOW + 1)
    step = moved(1, NOW + 1, "settling", "ended")
    writer.look(NOW + 1, job(1), job(2), te=[2], memory=remembering(ended), transitions=[step])
    now = tail.read(NOW + 1)
    assert (now.news.futile, now.news.endings, now.tally.futile) == ((), ((Ending.EXPIRED, Purpose.TE),), 1)


def test_turns_of_be_jobs_are_counted_apart_and_have_no_phases(store: Engine) -> None:
    writer, tail = Writer(store), tail_of(store)
    gone = victim(1, VictimState.LEFT, noticed_at=203.0, left_at=213.0, departure=Departure.REQUEUED)
    gave_way = replace(gone, purpose=Purpose.ROUND)
    turn = order(1, 2, gave_way, state=OrderState.ENDED, ending=Ending.STARTED_HERE, ended_at=NOW)
    in_vain = order(2, 3, gave_way, state=OrderState.ENDED, ending=Ending.EXPIRED, ended_at=NOW)
    trial = order(3, 4, gone, state=OrderState.ENDED, ending=Ending.STARTED_HERE, ended_at=NOW)
    steps = [
        moved(number, NOW, *step) for number in (1, 2, 3) for step in (("open", "settling"), ("settling", "ended"))
    ]
    jobs = [job(number) for number in (1, 2, 3, 4)]
    writer.look(NOW, *jobs, te=[4], memory=remembering(turn, in_vain, trial), transitions=steps)
    now = tail.read(NOW)
    expected = [
        (Ending.STARTED_HERE, Purpose.ROUND),
        (Ending.EXPIRED, Purpose.ROUND),
        (Ending.STARTED_HERE, Purpose.TE),
    ]
    assert list(now.news.endings) == expected
    assert now.news.futile == (Purpose.ROUND,)
    # of the trial alone: 800 s from the decision
    assert [one.whole_s for one in now.news.phases] == [800.0]
    assert (now.tally.orders, now.tally.turns) == (1, 1)


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_an_order_that_ends_in_more_steps_than_one_read_takes_is_counted_once(
    store: Engine, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(tail_module, "MOST_ROWS", most)
    writer, tail = Writer(store), tail_of(store)
    gone = victim(1, VictimState.LEFT, noticed_at=203.0, left_at=213.0, departure=Departure.REQUEUED)
    ended = order(1, 2, gone, state=OrderState.ENDED, ending=Ending.EXPIRED, ended_at=NOW)
    steps = [
        moved(1, NOW, "requeuing", "left", 1),
        moved(1, NOW, "open", "settling"),
        moved(1, NOW, "settling", "ended"),
        # of the same poll, after the order's own
        moved(1, NOW, "left", "back", 1),
    ]
    writer.look(NOW, job(1), job(2), te=[2], memory=remembering(ended), transitions=steps)
    read = [tail.read(NOW).news for _ in range(6)]
    assert [one for news in read for one in news.endings] == [(Ending.EXPIRED, Purpose.TE)]
    assert [one for news in read for one in news.futile] == [Purpose.TE]
    assert [left.lost_node_s for news in read for left in news.left] == [226.0]


def test_refusals_and_polls_are_counted_as_they_come_and_repeated_ones_once(store: Engine) -> None:
    writer, tail = Writer(store), tail_of(store)
    refused = [refusal(2, 2, RefusalCode.BOUND), refusal(1, 2, RefusalCode.COOL_DOWN)]
    for second in range(3):
        writer.look(NOW + second, job(1, JobState.RUNNING), job(2), te=[2], refusals=refused)
    news = tail.read(NOW + 3).news
    assert news.refusals == {(RefusalCode.BOUND, True): 1, (RefusalCode.COOL_DOWN, False): 1}
    assert sum(polls.count for polls in news.polls) == 3
    assert sum(polls.observe_s for polls in news.polls) == pytest.approx(0.3)
    # It goes into the row that is there.
    writer.look(NOW + 4, job(1, JobState.RUNNING), job(2), te=[2], refusals=refused)
    writer.journal.unseen(report(NOW + 5, failure=DOWN))
    news = tail.read(NOW + 5).news
    assert news.refusals == {}
    assert [(polls.failure, polls.count) for polls in news.polls] == [("", 1), ("unreachable", 1)]


def test_what_is_pruned_makes_no_count_fall_and_nothing_count_again(store: Engine) -> None:
    writer, tail = Writer(store), tail_of(store)
    done = job(1, JobState.COMPLETED, submit_time=NOW, start_time=NOW + 2, end_time=NOW + 4, partitions=("main",))
    writer.look(NOW + 5, done)
    assert len(tail.read(NOW + 5).news.started) == 1
    writer.look(NOW + 6)
    assert retention.prune(store, 0.0, now=NOW + 100).jobs == 1
    assert tail.read(NOW + 100).news.started == ()
    later = replace(done, job_id=job(2).job_id, submit_time=NOW + 101, start_time=NOW + 104, end_time=NOW + 105)
    writer.look(NOW + 106, later)
    assert [one.waited_s for one in tail.read(NOW + 106).news.started] == [3.0]


def test_a_process_counts_from_its_start_and_orders_under_way_from_where_they_are(store: Engine) -> None:
    writer = Writer(store)
    gone = victim(1, VictimState.LEFT, noticed_at=203.0, left_at=213.0, departure=Departure.REQUEUED)
    made = order(1, 2, gone, victim(3))
    writer.look(NOW, job(1), job(2), job(3), te=[2], memory=remembering(made), transitions=[moved(1, NOW, "", "open")])
    tail = tail_of(store)
    more = replace(made, victims=(gone, replace(gone, job_id=job(3).job_id)))
    step = moved(1, NOW + 1, "noticed", "left", 3)
    writer.look(NOW + 1, job(1), job(2), job(3), te=[2], memory=remembering(more), transitions=[step])
    assert len(tail.read(NOW + 1).news.left) == 1


@pytest.fixture
def served(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Exporter]:
    """Give an exporter of this process, which is the daemon, on a free port."""
    monkeypatch.setattr(exporter_module, "EVERY_S", 0.2)
    monkeypatch.setattr(exporter_module, "RESTS", 1.0)
    exporter = Exporter(store_url=url, mode=lambda: Mode.ENFORCE, calls=lambda: {"squeue": 3}, partitions=lambda: ["m"])
    assert exporter.configure(f"127.0.0.1:{free_port()}") == ""
    yield exporter
    exporter.close()


def scraped(exporter: Exporter, *, accept: str = "*/*") -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{exporter.port}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=HANG_S) as answer:  # noqa: S310 - our own
        return str(answer.read().decode())


def value(text: str, series: str) -> float | None:
    found = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
    return float(found[1]) if found else None


def test_a_scrape_says_what_status_says_and_a_daemon_that_does_not_lead_has_its_own_alone(
    served: Exporter, store: Engine
) -> None:
    assert value(scraped(served), "tesched_leader") == 0
    assert "tesched_jobs" not in scraped(served)
    at = time.time()
    gone = victim(1, VictimState.LEFT, started_at=at - 60, noticed_at=at - 9, left_at=at - 2, departure=Departure.LOST)
    made = order(1, 2, gone, state=OrderState.ENDED, ending=Ending.STARTED_HERE, created_at=at - 9, ended_at=at)
    jobs = [job(1, JobState.RUNNING, name="be-secret", user="ada-user"), job(2, user="eve-user", submit_time=at - 9)]
    writer = Writer(store)
    # It leads from its first write on.
    writer.look(at, *jobs, te=[2])
    wait_for(lambda: value(scraped(served), "tesched_leader") == 1)
    writer.look(at, *jobs, te=[2], memory=remembering(made), transitions=[moved(1, at, "settling", "ended")])
    wait_for(lambda: value(scraped(served), 'tesched_orders_total{ending="started_here",purpose="te"}') == 1)
    text, tally = scraped(served), read.status(store).tally
    assert value(text, "tesched_last_day_lost_victims") == tally.lost == 1
    assert value(text, "tesched_last_day_lost_node_seconds") == pytest.approx(tally.lost_node_s)
    assert value(text, 'tesched_victims_total{departure="lost",purpose="te"}') == 1
    assert value(text, 'tesched_jobs{class="te",state="pending"}') == 1
    assert value(text, 'tesched_calls_total{call="squeue"}') == 3
    assert value(text, 'tesched_job_wait_seconds_count{class="te",partition="m"}') == 0
    assert not re.search("secret|-user", text)
    other = scraped(served, accept="application/openmetrics-text; version=1.0.0,*/*;q=0.1")
    assert other.endswith("# EOF\n")


def test_a_store_that_cannot_be_read_is_shown_and_the_last_values_stay(
    served: Exporter, store: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Writer(store).look(time.time(), job(1))
    wait_for(lambda: value(scraped(served), 'tesched_jobs{class="be",state="pending"}') == 1)

    def broken(*_: object) -> object:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(Tail, "_jobs", broken)
        wait_for(lambda: "could not be brought up to date" in caplog.text)
        assert value(scraped(served), 'tesched_jobs{class="be",state="pending"}') == 1
    # It goes on.
    before = value(scraped(served), "tesched_store_read_timestamp_seconds")
    wait_for(lambda: value(scraped(served), "tesched_store_read_timestamp_seconds") != before)


def test_clients_that_say_nothing_or_take_nothing_are_in_no_others_way(
    served: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    # None of them is late.
    monkeypatch.setattr(endpoint_module, "DEADLINE_S", 10 * HANG_S)
    hanging = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(2 * MOST_CLIENTS)]
    for number, each in enumerate(hanging):
        if number % 2:
            each.sendall(b"GET /metrics HTTP/1.1\r\n")
    assert value(scraped(served), "tesched_leader") == 0
    # The oldest were cut off: they hear the end.
    hanging[0].settimeout(HANG_S)
    assert hanging[0].recv(1) == b""
    for each in hanging:
        each.close()


def test_a_client_that_is_late_is_cut_off(served: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "DEADLINE_S", 0.05)
    with socket.create_connection(("127.0.0.1", served.port), timeout=HANG_S) as channel:
        channel.sendall(b"GET /metrics HTTP/1.1\r\n")
        assert channel.recv(1) == b""


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\r\n\r\n", b"400"),
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"\x00\xff\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\n" + b"x" * (MOST_REQUEST + 1), b"400"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"GET /etc/passwd HTTP/1.1\r\n\r\n", b"404"),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", b"200"),
        (b"GET /metrics?name[]=x HTTP/1.0\r\nAccept: text/plain\r\n\r\n", b"200"),
    ],
)
def test_what_is_no_request_is_refused(served: Exporter, sent: bytes, status: bytes) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=HANG_S) as channel:
        channel.sendall(sent)
        assert channel.recv(1 << 16).startswith(b"HTTP/1.1 " + status)


def test_an_address_that_is_taken_is_said_and_the_endpoint_of_before_stays(served: Exporter) -> None:
    port = served.port
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        said = served.configure(taken)
    assert said == (
        f"metrics.listen: {taken} cannot be listened on: Address already in use; "
        f"metrics are served on 127.0.0.1:{port}, as before"
    )
    assert served.trouble == said
    assert value(scraped(served), "tesched_leader") == 0
    # The next reload finds it free.
    assert served.configure(taken) == served.trouble == ""
    assert served.port == int(taken.rpartition(":")[2])
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=HANG_S)


def test_a_host_that_can_be_no_name_and_a_store_that_cannot_be_opened_are_said(
    served: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = f"127.0.0.1:{served.port}"
    assert served.configure("a..b:9817") == (
        "metrics.listen: a..b:9817 cannot be listened on: each part of a host's name, between dots, has 1 to 63 "
        f"characters; metrics are served on {before}, as before"
    )
    assert served.configure("") == ""

    def fails(*_: object, **__: object) -> Engine:
        raise StoreError("cannot open the state store: it is gone")

    monkeypatch.setattr(exporter_module, "make_engine", fails)
    said = served.configure(before)
    assert said == f"metrics.listen: {before} is not served: cannot open the state store: it is gone"
    assert (served.trouble, served.port) == (said, 0)
    with socket.create_server(("127.0.0.1", int(before.rpartition(":")[2]))):
        pass  # nothing listens there


def test_the_host_can_be_changed_on_the_same_port_and_back(served: Exporter) -> None:
    port = served.port
    for host in ("0.0.0.0", "127.0.0.1"):  # noqa: S104 - for a moment
        assert served.configure(f"{host}:{port}") == ""
        assert value(scraped(served), "tesched_leader") == 0
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.2", port))
        other.listen()
        said = served.configure(f"0.0.0.0:{port}")
    assert said.endswith(f"Address already in use; metrics are served on 127.0.0.1:{port}, as before")
    assert value(scraped(served), "tesched_leader") == 0


def test_an_endpoint_that_has_ended_by_an_error_is_said_and_the_next_reload_serves_again(
    served: Exporter, open_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    address, dies = str(open_folder / "metrics.sock"), threading.Event()

    async def broken(*_: object) -> None:
        # Not before `configure` has returned.
        await asyncio.to_thread(dies.wait)
        raise RuntimeError("a bug")

    with monkeypatch.context() as patch:
        patch.setattr(endpoint_module.Endpoint, "_accept", broken)
        assert served.configure(address) == ""
        dies.set()
        wait_for(lambda: served.trouble)
    assert served.trouble == (
        f"metrics.listen: {address} is served no more, the log says why; a reload serves it again"
    )
    assert "a bug" in caplog.text
    assert served.configure(address) == served.trouble == ""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(HANG_S)
        channel.connect(address)
        channel.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert channel.recv(1 << 16).startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_reload_waits_for_no_read_and_nothing_comes_of_one_that_was_under_way(
    served: Exporter, store: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = served.port
    Writer(store).look(time.time(), job(1))
    wait_for(lambda: value(scraped(served), 'tesched_jobs{class="be",state="pending"}') == 1)
    reads, goes_on, is_over = threading.Event(), threading.Event(), threading.Event()
    reader, read_of_before = served._reader, Tail.read

    def slow(tail: Tail, now: float) -> Now:
        if threading.current_thread() is not reader:
            return read_of_before(tail, now)
        found = read_of_before(tail, now)
        reads.set()
        goes_on.wait(HANG_S)
        is_over.set()
        return replace(found, standbys=99)

    monkeypatch.setattr(Tail, "read", slow)
    assert reads.wait(HANG_S)
    monkeypatch.setattr(exporter_module, "_ENDS_WITHIN_S", HANG_S)
    assert served.configure("") == ""
    assert not is_over.is_set()
    assert served.configure(f"127.0.0.1:{port}") == ""
    wait_for(lambda: value(scraped(served), "tesched_standbys") == 0)
    # The new one stands still: whatever changes now is the old one's.
    monkeypatch.setattr(exporter_module, "EVERY_S", 10 * HANG_S)
    goes_on.set()
    assert reader is not None
    reader.join(HANG_S)
    assert not reader.is_alive()
    assert value(scraped(served), "tesched_standbys") == 0


def test_a_unix_socket_takes_a_dead_ones_place_and_goes_with_the_endpoint(served: Exporter, open_folder: Path) -> None:
    path = open_folder / "metrics.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    assert served.configure(str(path)) == ""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(HANG_S)
        channel.connect(str(path))
        channel.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert channel.recv(1 << 16).startswith(b"HTTP/1.1 200 OK\r\n")
    assert path.stat().st_mode & 0o777 == 0o660
    assert served.configure("") == ""
    assert not path.exists()
