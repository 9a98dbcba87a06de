"""`tesched top` in this process, over a store that holds what is known; `tests/cluster/test_top.py` has a real Slurm.

The pages are compared with `screens/*.txt`. TESCHED_WRITE_SCREENS=1 writes them
anew, to be read in the change.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update
from tesched_cli.common import configuration
from tesched_cli.health import Health
from tesched_cli.top.app import LIGHT, Listing, Top
from tesched_cli.top.command import Store
from tesched_cli.top.poll import MOST_ROWS, Poll, node_rows
from tesched_core.model.cluster import JobState
from tesched_core.model.order import VictimState
from tesched_core.model.resources import JobId
from tesched_db.engine import open_store, writing
from tesched_db.errors import StoreError
from tesched_db.liveness import DaemonState
from tesched_db.tables import DaemonRow
from tesched_testcluster.harness.daemon_process import TESCHED
from tesched_testcluster.harness.store_examples import (
    Writer,
    configured_store,
    job,
    moved,
    order,
    remembering,
    snapshot,
    victim,
)
from tesched_testcluster.patience import HANG_S
from textual.pilot import Pilot

from tests import users_text
from tests.integration.test_cli_users_text import HOSTILE
from tests.screen_text import screen_text
from tests.terminal import on_terminal

SCREENS = Path(__file__).with_name("screens")
NOW = 1_000_000.0
WELL = Health(state=DaemonState.WELL, line="well: pid 7 on login1, up 12:03, last poll 0.4 s ago", exit_status=0)


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Times of day are shown as they are anywhere."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


class Known(Store):
    """The state store, with a daemon that is well whatever processes there are, and failures to order."""

    fails = False

    def poll(self) -> Poll:
        if self.fails:
            raise StoreError("database is locked")
        return replace(super().poll(), health=WELL)


@pytest.fixture
def known(tmp_path: Path) -> Iterator[Known]:
    """Give a store with two BE jobs, one of them a victim in its grace period, and three TE jobs."""
    config, url = configured_store(tmp_path)
    engine = open_store(url)
    running = [
        job(101, JobState.RUNNING, nodes=("gpu9",), name="train-a", user="ada", start_time=NOW - 7300),
        job(102, JobState.RUNNING, nodes=("gpu10",), name="train-b", user="bob", start_time=NOW - 62),
        job(103, JobState.RUNNING, nodes=("gpu10",), name="probe", user="eve", start_time=NOW - 5),
    ]
    waiting = [
        job(104, name="debug", user="eve", submit_time=NOW - 3, reason="Resources"),
        job(105, name="debug-too", user="eve", submit_time=NOW - 9, reason="Priority"),
    ]
    seen = snapshot(NOW, *running, *waiting, te=(103, 104, 105))
    step = replace(moved(1, NOW - 2, "held", "noticed", 101), text="notice by SIGUSR1; grace period 120 s")
    one = victim(101, VictimState.NOTICED, nodes=("gpu9",), noticed_at=NOW - 2, grace_period_s=120.0)
    Writer(engine).write(
        seen,
        memory=remembering(order(1, 104, one, nodes=("gpu9",), created_at=NOW - 2)),
        summary="resources for job 104 on gpu9 from 101",
        transitions=(step,),
    )
    yield Known(engine, configuration(config))
    engine.dispose()


def shown(store: Store, do: Callable[[Pilot[None], Top], Awaitable[None]], size: tuple[int, int] = (80, 24)) -> str:
    """Run the view, `do` it, and return the screen."""

    async def run() -> str:
        app = Top(store, every_s=3600, clock=lambda: NOW)
        async with app.run_test(size=size) as pilot:
            await settled(pilot, app)
            await do(pilot, app)
            return screen_text(app)

    return asyncio.run(run())


async def settled(pilot: Pilot[None], app: Top) -> None:
    """Wait until what was begun is done and shown."""
    await app.workers.wait_for_complete()
    await pilot.pause()


def pressing(*keys: str) -> Callable[[Pilot[None], Top], Awaitable[None]]:
    async def press(pilot: Pilot[None], app: Top) -> None:
        for key in keys:
            await pilot.press(key)
            await settled(pilot, app)

    return press


@pytest.mark.parametrize(
    ("name", "keys", "size"),
    [
        ("queue-80x24", (), (80, 24)),
        ("queue-160x30", (), (160, 30)),
        ("nodes-80x24", ("2",), (80, 24)),
        ("decisions-80x24", ("3",), (80, 24)),
        ("story-80x24", ("shift+tab", "enter"), (80, 24)),
        ("filter-80x24", ("slash", *"bob"), (80, 24)),
    ],
)
def test_a_page_is_shown_as_in_its_file(known: Known, name: str, keys: tuple[str, ...], size: tuple[int, int]) -> None:
    text = shown(known, pressing(*keys), size)
    path = SCREENS / f"{name}.txt"
    if os.environ.get("TESCHED_WRITE_SCREENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


def test_a_job_that_is_opened_is_the_one_under_the_cursor(known: Known) -> None:
    text = shown(known, pressing("down", "down", "enter"))
    assert "job 103 'probe' of eve" in text


def test_the_cursor_stays_on_its_job_when_others_come(known: Known) -> None:
    async def more_come(pilot: Pilot[None], app: Top) -> None:
        await pilot.press("down", "down")
        before = known.poll()
        fresh = replace(before.jobs[3], key=999, job_id=JobId(1), label="1", first_submit_time=NOW - 99)
        app.take(replace(before, jobs=(fresh, *before.jobs)), "")
        await settled(pilot, app)
        await pilot.press("enter")
        await settled(pilot, app)

    assert "job 103 'probe' of eve" in shown(known, more_come)


def test_a_store_that_cannot_be_read_is_said_and_the_last_poll_stays(known: Known) -> None:
    async def fail(pilot: Pilot[None], app: Top) -> None:
        known.fails = True
        app.read()
        await settled(pilot, app)

    text = shown(known, fail)
    assert re.match(r" the state store cannot be read: database is locked; last read at [0-9:]{8}\n", text)
    assert "well: pid" not in text, "how the daemon is now is not known"
    assert "train-b" in text


def test_a_slow_store_is_read_once_at_a_time_and_again_after(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = threading.Event()
    begun: list[int] = []
    poll = known.poll

    def slow() -> Poll:
        begun.append(len(begun))
        assert goes_on.wait(HANG_S)
        return poll()

    async def ask_often(pilot: Pilot[None], app: Top) -> None:
        monkeypatch.setattr(known, "poll", slow)
        for _ in range(5):
            app.read()
        goes_on.set()
        await settled(pilot, app)
        assert begun == [0]
        app.read()
        await settled(pilot, app)

    shown(known, ask_often)
    assert begun == [0, 1]


def test_it_ends_with_its_terminal_also_where_the_shell_ignores_that(tmp_path: Path) -> None:
    config, _ = configured_store(tmp_path)
    ignoring = ["bash", "-c", "trap '' HUP; exec \"$@\"", "bash"]
    with on_terminal([*ignoring, TESCHED, "top", "--config", config]) as terminal:
        terminal.wait_for(lambda lines: any("no order is under way" in line for line in lines), "the page")
        terminal.process.send_signal(signal.SIGHUP)
        assert terminal.process.wait(HANG_S) == -signal.SIGHUP


def test_the_gravest_trouble_is_shown_and_the_others_are_counted(known: Known) -> None:
    grave, other = "cannot be written: disk full", {"kind": "limits", "since": NOW, "said": "no", "kept": False}
    with writing(known.engine).begin() as connection:
        connection.execute(update(DaemonRow).values(admission_trouble=grave, limits_unread=[other]))
    text = shown(known, pressing())
    assert f"HOOK {grave} (and 1 more: tesched status)" in text


def test_a_filter_is_ended_by_escape(known: Known) -> None:
    assert "train-a" not in shown(known, pressing("slash", *"bob", "enter"))
    assert "train-a" in shown(known, pressing("slash", *"bob", "enter", "escape"))


def test_the_theme_changes_to_light(known: Known) -> None:
    themes = []

    async def change(pilot: Pilot[None], app: Top) -> None:
        await pilot.press("t")
        themes.append(app.theme)

    shown(known, change)
    assert themes == [LIGHT]


def test_of_very_many_jobs_the_first_are_shown_and_a_filter_reaches_the_others(known: Known) -> None:
    one = known.poll().jobs[0]
    many = tuple(
        replace(one, key=n, job_id=JobId(n), label=str(n), name=f"job-{n}", nodes=(f"c{n}",), start_time=NOW - n)
        for n in range(1, MOST_ROWS + 500)
    )
    found = replace(known.poll(), jobs=many)
    assert len(node_rows(found)) == MOST_ROWS
    last = str(MOST_ROWS + 499)
    rows = []

    async def filtered(pilot: Pilot[None], app: Top) -> None:
        table = app.query_one("#jobs", Listing)
        app.take(found, "")
        rows.append(table.row_count)
        await pressing("slash", *f"job-{last}", "enter")(pilot, app)
        rows.append(table.row_count)
        await pressing("enter")(pilot, app)

    assert f"job {last}" in shown(known, filtered)
    assert rows == [MOST_ROWS, 1]


@pytest.mark.parametrize("what", HOSTILE)
def test_users_text_is_shown_and_no_more(tmp_path: Path, what: str) -> None:
    text, visibly = HOSTILE[what]
    config = users_text.configuration(tmp_path)
    users_text.fill(tmp_path, text)
    engine = open_store(f"sqlite:///{tmp_path}/store.sqlite")
    store = Store(engine, configuration(config))
    screens = []

    async def all_pages(pilot: Pilot[None], app: Top) -> None:
        for keys in ((), ("2",), ("3",), ("1", "shift+tab", "enter")):
            await pressing(*keys)(pilot, app)
            screens.append(screen_text(app))

    shown(store, all_pages, (200, 30))
    engine.dispose()
    assert len(screens) == 4
    for screen in screens:
        # A column of names has so many characters of it.
        assert visibly[:10] in screen
        assert screen.replace("\n", "").isprintable()


def test_tick_of_the_clock_while_it_closes_is_no_error(known: Known) -> None:
    async def closed() -> Top:
        app = Top(known, every_s=3600, clock=lambda: NOW)
        async with app.run_test():
            pass
        return app

    app = asyncio.run(closed())
    app.take(known.poll(), "")
    assert not app.is_running


def test_it_wants_a_terminal(tmp_path: Path) -> None:
    configured_store(tmp_path)
    answer = users_text.tesched(tmp_path, "top")
    assert answer.exit_code == 2
    assert "tesched top needs a terminal; `tesched status` prints the same once" in answer.output
