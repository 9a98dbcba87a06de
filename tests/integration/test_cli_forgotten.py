"""Jobs that Slurm forgot before their end was seen run no more, and a suspension is no part of a run: each command."""

from __future__ import annotations

import json
import os
import pwd
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import Engine
from tesched_cli.common import clock, configuration
from tesched_cli.main import main
from tesched_cli.top.command import Store
from tesched_cli.top.poll import JOB_COLUMNS, job_rows
from tesched_cli.web.content import StoreSource
from tesched_cli.web.story import story_of
from tesched_core.model.cluster import JobState
from tesched_core.model.memory import Memory
from tesched_core.model.order import Departure, Ending, OrderState, VictimState
from tesched_core.model.outlived import Outlived
from tesched_core.model.resources import JobId
from tesched_db.engine import open_store
from tesched_testcluster.harness.store_examples import Writer, configured_store, job, order, remembering, victim

ME = pwd.getpwuid(os.getuid()).pw_name
RUNNING, SUSPENDED = JobState.RUNNING, JobState.SUSPENDED


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, Engine]]:
    """Give a configuration and its store."""
    path, url = configured_store(tmp_path)
    engine = open_store(url)
    yield path, engine
    engine.dispose()


def out(config: Path, *argv: str) -> str:
    answer = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(main, [*argv, "--config", str(config)])
    assert answer.exit_code == 0, answer.output
    return answer.stdout


def forgotten(engine: Engine) -> Writer:
    """Write three jobs that were seen at 220, and that Slurm no longer knows at 900: the daemon was away meanwhile."""
    running = job(1, RUNNING, nodes=["n1"], user=ME, start_time=100.0, time_limit_s=600)
    suspended = job(2, SUSPENDED, nodes=["n2"], user=ME, start_time=100.0, time_limit_s=600)
    pending = job(3, user=ME, reason="Priority", submit_time=90.0)
    writer = Writer(engine)
    writer.look(160.0, running, suspended, pending)
    writer.look(220.0, running, suspended, pending)
    writer.look(900.0, job(4, RUNNING, nodes=["n1"], user=ME, start_time=890.0))
    return writer


def test_jobs_shows_them_as_gone_and_up_to_when_they_were_last_seen(site: tuple[Path, Engine]) -> None:
    config, engine = site
    forgotten(engine)
    columns = "jobid:5,st:5,state:8,time:6,timeleft:10,where:35"
    assert [line.split() for line in out(config, "jobs", "--all", "--noheader", "-O", columns).splitlines()[:3]] == [
        ["1", "GONE", "GONE", "02:00", "08:00", "n1", "(Slurm", "no", "longer", "knows", "it)"],
        ["2", "GONE", "GONE", "01:00", "09:00", "n2", "(Slurm", "no", "longer", "knows", "it)"],
        ["3", "GONE", "GONE", "00:00", "UNLIMITED", "(Slurm", "no", "longer", "knows", "it)"],
    ]
    assert [line.split()[0] for line in out(config, "jobs", "--noheader").splitlines()] == ["4"]


@pytest.mark.parametrize(
    ("asks_for", "shown"),
    [
        (["-t", "GONE"], ["1", "2", "3"]),
        (["-t", "gone,R"], ["1", "2", "3", "4"]),
        (["-t", "R"], ["4"]),
        (["-t", "R", "--all"], ["4"]),
        (["-t", "PD,GONE", "--mine"], ["1", "2", "3"]),
        (["-t", "CD"], []),
        (["-t", "CD", "--all"], ["5"]),
        (["-t", "GONE,CD"], ["1", "2", "3"]),
    ],
)
def test_a_state_means_the_jobs_that_are_shown_with_it(
    site: tuple[Path, Engine], asks_for: list[str], shown: list[str]
) -> None:
    config, engine = site
    writer = forgotten(engine)
    last = job(4, RUNNING, nodes=["n1"], user=ME, start_time=890.0)
    writer.look(910.0, last, job(5, JobState.COMPLETED, user=ME, start_time=890.0, end_time=905.0))
    writer.look(1900.0, last)  # Slurm has forgotten job 5, whose end was seen
    lines = out(config, "jobs", *asks_for, "--noheader").splitlines()
    assert [line.split()[0] for line in lines] == shown


def test_ones_own_have_no_word_on_what_comes_next(site: tuple[Path, Engine]) -> None:
    config, engine = site
    forgotten(engine)
    lines = out(config, "jobs", "--mine", "--all").splitlines()[1:]
    assert [("GONE" in line, "(Slurm no longer knows it)" in line) for line in lines] == [(True, True)] * 3 + [
        (False, False)
    ]
    assert ["may be preempted" in line for line in lines] == [False, False, False, True]
    mine = json.loads(out(config, "jobs", "--mine", "--all", "--json"))["jobs"]
    assert [(one["gone"], bool(one["expected"])) for one in mine] == [(True, False)] * 3 + [(False, True)]


def test_a_preempted_one_does_not_run_again(site: tuple[Path, Engine]) -> None:
    config, engine = site
    left = victim(3, VictimState.LEFT, noticed_at=200.0, left_at=210.0, departure=Departure.REQUEUED)
    ended = order(1, 7, left, state=OrderState.ENDED, ending=Ending.STARTED_HERE, ended_at=215.0)
    writer = Writer(engine)
    waits = job(3, user=ME, restarts=1, start_time=100.0)
    writer.look(220.0, waits, job(7, RUNNING, start_time=215.0), te=[7], memory=remembering(ended))
    assert "runs again as soon as resources are free" in out(config, "jobs", "--mine")
    writer.look(900.0, job(7, RUNNING, start_time=215.0), te=[7])
    said = out(config, "jobs", "--mine", "--all")
    assert "job 3 was preempted" in said
    assert "runs again" not in said


def test_no_limit_on_te_jobs_holds_one_back(site: tuple[Path, Engine]) -> None:
    config, engine = site
    config.write_text(config.read_text() + "[guard.te]\nmax_outlived_per_user_day = 1\n")
    now = time.time()
    runs = tuple(Outlived(job_id=JobId(90 + number), at=now - 100, user=ME) for number in range(2))
    writer = Writer(engine)
    writer.look(220.0, job(1, user=ME), job(2, user=ME), te=[1, 2], memory=Memory(outlived=runs))
    writer.look(900.0, job(2, user=ME), te=[2], memory=Memory(outlived=runs))
    assert ["outlived the time limits" in out(config, "explain", name) for name in "12"] == [False, True]


def test_the_page_of_one_says_so_and_draws_its_run_until_then(site: tuple[Path, Engine]) -> None:
    config, engine = site
    forgotten(engine)
    found = story_of(StoreSource(engine, configuration(config)), "1")
    assert found is not None
    assert found.state == "gone"
    (bar,) = found.drawing.bars
    assert f"{clock(100.0)} to {clock(220.0)}" in bar.words
    # It is the end of the drawing, too: nothing is known of what came then.
    assert float(bar.x.removesuffix("%")) + float(bar.width.removesuffix("%")) == pytest.approx(100.0)


def test_time_is_without_suspensions_in_jobs_top_and_explain(site: tuple[Path, Engine]) -> None:
    config, engine = site
    writer = Writer(engine)
    for at, state in ((101.0, RUNNING), (160.0, SUSPENDED), (200.0, RUNNING), (230.0, SUSPENDED), (300.0, SUSPENDED)):
        writer.look(at, job(1, state, nodes=["n1"], start_time=100.0, time_limit_s=600))
    assert out(config, "jobs", "--noheader", "-o", "%M %L").split() == ["01:30", "08:30"]
    assert ", ran 01:30" in out(config, "explain", "1")
    (row,) = job_rows(Store(engine, configuration(config)).poll(), 400.0)
    assert row.cells[JOB_COLUMNS.index("TIME")] == "01:30"
