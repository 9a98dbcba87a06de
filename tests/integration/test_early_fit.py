"""A site with long polls and settings with which no early turn comes hears of it: which, and what would be right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine
from tesched_core.model.limits import YieldBy
from tesched_core.model.rate_limit import RateLimit
from tesched_daemon.config import Config, load
from tesched_daemon.doctor.early_turns import early_turns
from tesched_daemon.doctor.finding import Severity
from tesched_daemon.early_fit import FRESH_S
from tesched_daemon.rate_limited import with_limit
from tesched_db import migrate
from tesched_db import queries as read
from tesched_db.engine import open_store
from tesched_db.journal import SqlJournal

from tests.early_parts import Site, polled
from tests.loop_parts import FULL_CLUSTER, Notebook
from tests.unit.daemon.test_new_jobs import finder

RULE = '[[classes.rules]]\nname = "trials"\njob_class = "te"\nmatch = { names = ["te"] }\n'


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Engine]:
    """Give a state store."""
    url = f"sqlite:///{tmp_path}/store.sqlite"
    migrate.upgrade(url)
    engine = open_store(url)
    yield engine
    engine.dispose()


def config(folder: Path, text: str) -> Config:
    file = folder / "tesched.toml"
    file.write_text(f'mode = "enforce"\n{text}{RULE}')
    return load(file)


@pytest.mark.parametrize(
    ("text", "because", "right"),
    [
        ("", "", ""),
        ("[loop]\npoll_interval_s = 30\n", "", ""),
        ("[loop]\nearly_turn = false\n", "loop.early_turn = false", "loop.early_turn = true"),
        ("[guard.te]\nmax_running_per_user = 1\n", "guard.te", "no guard.te"),
        ('[policy]\nbe = "fill"\n', "policy.be", "policy.be = []"),
        ('[slurm]\nclient = "commands"\n[guard]\nlever = "plugin"\n', 'guard.lever = "plugin"', "guard.lever = "),
        ('[loop]\nsocket = ""\nwatch_state_folder = false\n', 'loop.socket = ""', "loop.watch_state_folder = true"),
        ('[loop]\nsocket = ""\nwatch_state_folder = false\ntests_per_minute = 60\n', "", ""),
        (
            "[loop]\npoll_interval_s = 60\nbackoff_max_s = 60\n",
            "loop.poll_interval_s = 60",
            "loop.poll_interval_s = 30, or guard.wait_for_free_s = 0",
        ),
        ("[loop]\npoll_interval_s = 60\nbackoff_max_s = 60\n[guard]\nwait_for_free_s = 0\n", "", ""),
    ],
)
def test_the_doctor_names_the_settings_and_what_would_be_right(
    store: Engine, tmp_path: Path, text: str, because: str, right: str
) -> None:
    polled(Site(), SqlJournal(store))
    (finding,) = early_turns(config(tmp_path, text), read.status(store).cycles)
    assert finding.text.startswith("polls take up to 5 s")
    assert finding.level is (Severity.WARN if because else Severity.OK)
    assert f"no early turn comes, because of {because}" in finding.text or not because
    assert finding.advice.startswith(f"set {right}" if right else "")
    assert bool(finding.advice) is bool(right)


def test_pyslurm_s_client_reads_no_single_jobs_also_where_no_site_has_named_it(store: Engine, tmp_path: Path) -> None:
    journal = SqlJournal(store)
    loop = polled(Site(), journal)
    loop.client_name = "pyslurm 25.11.2 (slurm 25.11.2)"
    loop.turn(asked=True)
    (finding,) = early_turns(config(tmp_path, ""), read.status(store).cycles)
    assert finding.advice == 'set slurm.client = "commands"'


def test_where_slurmctld_limits_rpcs_none_comes_and_the_doctor_says_so(store: Engine, tmp_path: Path) -> None:
    loop = polled(Site(), SqlJournal(store))
    limited = replace(FULL_CLUSTER.settings, rate_limit=RateLimit(burst=30, per_s=2.0))
    assert "rl_enable" in loop._early.hindered(loop, replace(FULL_CLUSTER, settings=limited))
    assert loop._early.hindered(loop, FULL_CLUSTER) == loop._early.hindered(loop, None) == ""
    cycle = replace(read.status(store).cycles[0], client=with_limit("slurm commands", limited.rate_limit))
    (finding,) = early_turns(config(tmp_path, ""), (cycle,))
    assert "no early turn comes, because of SlurmctldParameters = rl_enable" in finding.text
    assert finding.level is Severity.WARN


def test_where_polls_are_short_nothing_is_said(store: Engine, tmp_path: Path) -> None:
    without = config(tmp_path, "[loop]\nearly_turn = false\n")
    assert not [*early_turns(without, read.status(store).cycles)], "no poll has come"
    polled(Site(poll_s=1.0), SqlJournal(store))
    assert not [*early_turns(without, read.status(store).cycles)]


def test_status_says_it_too_of_the_settings_that_the_daemon_goes_by() -> None:
    notebook = Notebook()
    loop = polled(Site(), notebook)
    loop.new_jobs = finder().new_jobs
    loop.turn(asked=True)
    assert "early turn" not in notebook.new_jobs
    loop.limits = replace(loop.limits, wait_for_free_s=10.0)
    loop.pace = replace(loop.pace, backoff_max_s=FRESH_S, poll_interval_s=FRESH_S)
    loop.turn(asked=True)
    assert "; no early turn comes, because of loop.poll_interval_s = 60" in notebook.new_jobs
    loop.limits = replace(loop.limits, lever=YieldBy.PLUGIN, wait_for_free_s=0.0)
    loop.turn(asked=True)
    assert notebook.new_jobs.endswith('; no early turn comes, because of guard.lever = "plugin"')
    short = polled(Site(poll_s=1.0), notebook)
    short.new_jobs, short.limits = loop.new_jobs, loop.limits
    short.turn(asked=True)
    assert "early turn" not in notebook.new_jobs
