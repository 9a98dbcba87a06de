"""Rounds over jobs' reports, when another daemon has led meanwhile."""

from __future__ import annotations

from pathlib import Path

from tesched_core.model.job_report import Reported
from tesched_core.model.lead import Lead
from tesched_core.model.resources import JobId
from tesched_daemon.job_reports.rounds import SpoolReports

from tests.integration.test_daemon_reports import ME, Slow, spool_of, text
from tests.loop_parts import FULL_CLUSTER, Cluster, Notebook, loop_of


def test_a_round_from_before_it_stood_by_says_nothing() -> None:
    slow = Slow({JobId(1): Reported(workload="w")})
    port = SpoolReports(slow, wait_s=0.001)
    assert port.read(FULL_CLUSTER).by_job == {}
    port.stand_by()
    slow.go_on.set()
    port._wait_s = 20.0
    assert port.read(FULL_CLUSTER).by_job == {}
    assert port.read(FULL_CLUSTER).by_job == slow.found


def test_a_standby_forgets_what_it_heard_when_it_led(tmp_path: Path) -> None:
    folder = tmp_path / "spool" / str(ME)
    folder.mkdir(parents=True)
    (folder / "1.json").write_text(text(5, 4))
    notebook = Notebook(says=Lead(leader="process 7 on login2 leads"))
    loop = loop_of(Cluster(), notebook)
    loop.knowledge.reports = port = SpoolReports(spool_of(folder), wait_s=20.0)
    first = port.read(FULL_CLUSTER).by_job[JobId(1)]
    assert port.read(FULL_CLUSTER).by_job[JobId(1)] is first
    loop.turn()
    assert port.read(FULL_CLUSTER).by_job[JobId(1)] is not first, "it is read anew"
