"""The demo on a real Slurm: it runs to its end, and its picture shows what its jobs and orders say."""

from __future__ import annotations

import re
import sys
import urllib.request
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tesched_testcluster.demo_record import read, runs, waits
from tesched_testcluster.patience import HANG_S

from tests.terminal import ENTER, on_terminal

pytestmark = [pytest.mark.slurm, pytest.mark.gate]

TITLE = "{http://www.w3.org/2000/svg}title"


def test_the_demo_draws_what_happened(tmp_path: Path) -> None:
    picture = tmp_path / "demo.svg"
    command = [sys.executable, "-m", "tesched_testcluster", "demo", "--on", "local", "--picture", str(picture)]
    with on_terminal(command) as terminal:
        lines = terminal.wait_for(lambda lines: any("Enter ends the demo" in line for line in lines), "the demo's end")
        address = re.search(r"http://127\.0\.0\.1:[0-9]+/", " ".join(lines))
        assert address, lines
        with urllib.request.urlopen(address[0], timeout=HANG_S) as page:  # noqa: S310 - of http alone
            assert "te-1" in page.read().decode()
        terminal.press(ENTER)
        lines = terminal.wait_for(lambda lines: any("drawn: " in line for line in lines), "the picture")
        assert terminal.process.wait(HANG_S) == 0
    record = read(picture.with_suffix(".json"))
    of = {job.job_id: job for job in record.jobs}
    trials = {job.job_id for job in record.jobs if job.kind == "te"}
    assert {one.preemptor for one in record.preemptions} == trials, "a victim left for each TE job"
    found = runs(record)
    for one in record.preemptions:
        (first, again) = (run for run in found if run.job.job_id == one.victim)
        (trial,) = (run for run in found if run.job.job_id == one.preemptor)
        assert first.preemption == one
        assert (trial.node,) == one.nodes == (first.node,)
        assert first.end <= trial.start
        assert again.start > first.end
        # Job 1 and 2 save their work, and go on from there.
        assert (first.saving is not None, again.resumed_ticks > 0) == (bool(one.signal), bool(one.signal))
    assert {one.signal for one in record.preemptions} == {"USR1", ""}
    svg = ET.parse(picture).getroot()  # noqa: S314 - our own file
    shown = [title.text or "" for title in svg.iter(TITLE)]
    for run in found:
        assert any(title.startswith(f"{run.job.name} on {run.node} from ") for title in shown)
    again_shown = {title.partition(" on ")[0] for title in shown if ", again from its " in title}
    assert again_shown == {of[one.victim].name for one in record.preemptions}
    assert {f"{of[wait.job.job_id].name} requeued" for wait in waits(record) if wait.requeued} <= {
        title.partition(",")[0] for title in shown
    }
    assert f"job {min(trials)} 'te-1'" in record.explain
    assert re.search(r"^TE +3 +20 ", record.status, re.MULTILINE), "three TE jobs run on 20 GPUs"
