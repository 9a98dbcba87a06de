"""Loss curves, their forecasts and the cores of each job: `tesched status`, its page, `tesched explain`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tesched_cli.main import main
from tesched_core.model.cluster import Job, JobState, NodeShare, Request
from tesched_core.model.job_report import Curve, Reported
from tesched_core.model.resources import JobId, Tres
from tesched_db import migrate
from tesched_db.engine import open_store
from tesched_testcluster.harness.store_examples import Writer, configured_store, job, snapshot

TESCHED = Path(sys.executable).with_name("tesched")

#: exit status of `tesched status` where the daemon has been stopped
STOPPED = 3


def told(loss: Callable[[int], float], count: int, **more: Any) -> Reported:
    curve = Curve.of([(k, loss(k), 100.0 + k, np.nan) for k in range(count)])
    return Reported(curve=curve, **more)


def on(job_id: int, cpus: int, **more: Any) -> Job:
    one = job(job_id, JobState.RUNNING, submit_time=1.0, **more)
    held = (NodeShare(node="n1", tres=Tres(cpus=cpus)),)
    return replace(one, allocation=held, request=Request(cpus=cpus))


def _always(loss: float) -> Callable[[int], float]:
    return lambda _iteration: loss


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Give a configuration with job 7 in its store, and array 20 with two tasks; job 7 halves its loss each time."""
    path, url = configured_store(tmp_path)
    said = {on(7, 4): told(lambda k: 8 * 0.5**k + 1, 12, workload="<b>né[red]</b>", target_loss=1.0)}
    for index in range(2):
        task = on(20 + index, 6, array_job_id=JobId(20), array_task_id=index, name="workers")
        said[task] = told(_always(2.0 + 2 * index), 3)
    engine = open_store(url)
    writer = Writer(engine)
    writer.write(replace(snapshot(200.0, *said), reported={one.job_id: what for one, what in said.items()}))
    # Else how late the daemon is would depend on how fast the test is: it is this process, and its lease runs.
    writer.journal.resign()
    engine.dispose()
    return path


def tesched(config: Path, *argv: str, **variables: str) -> Result:
    answer = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1", **variables}).invoke(
        main, [*argv, "--config", str(config)]
    )
    assert answer.exit_code == (STOPPED if argv[0] == "status" else 0), answer.output
    return answer


def test_status_has_a_line_for_each_training(config: Path) -> None:
    lines = tesched(config, "status").output.splitlines()
    (head,) = (line for line in lines if line.startswith("JOB "))
    array, alone = lines[lines.index(head) + 1 : lines.index(head) + 3]
    assert head.split() == ["JOB", "TRAINS", "ITER", "LOSS", "NORM", "CURVE", "EXPECTED", "CPUS", "SHARE"]
    # The tasks reported 2 and 4, again and again. They hold 12 of 16 cores.
    assert array.split() == ["20_*", "workers", "2", "3", "1.00", "▁▁▁", "3", "at", "12", "12", "75", "%"]
    # 1 + 8 / 2048 at 11, towards 1: of the 8 above that at first 1 / 2048 is left.
    cells = alone.split()
    assert cells[:5] == ["7", "<b>né[red]</b>", "11", "1.004", "0.00"]
    assert cells[6:] == ["1", "at", "21", "4", "25", "%"]
    assert cells[5] == "█▄▂▁▁▁▁▁▁▁▁▁"


@pytest.mark.parametrize("width", [60, 80, 200])
def test_status_is_no_wider_than_the_terminal(config: Path, width: int) -> None:
    lines = tesched(config, "status", COLUMNS=str(width)).output.splitlines()
    assert max(map(len, lines)) <= width


def test_status_in_json_says_the_same(config: Path) -> None:
    data = json.loads(tesched(config, "status", "--json").output)["trainings"]
    assert data["more"] == 0
    array, alone = data["shown"]
    assert (array["job"], array["array_job_id"], array["tasks"]) == ("20_*", 20, 2)
    assert array["share"] == {"cpus": 12, "part": 0.75}
    assert (alone["job"], alone["array_job_id"], alone["workload"]) == ("7", None, "<b>né[red]</b>")
    ahead = alone["outlook"]
    assert (ahead["iteration"], ahead["loss"], ahead["family"]) == (11, 1 + 8 / 2048, "linear")
    assert ahead["predicted"]["iteration"] == 21
    assert ahead["predicted"]["loss"] == pytest.approx(1 + 8 / 2**21, rel=1e-4)
    assert ahead["asymptote"] == pytest.approx(1, rel=1e-4)
    assert ahead["normalised_loss"] == pytest.approx(1 / 2048, abs=1e-4)


def test_explain_draws_the_curve_and_what_is_expected_and_says_what_it_holds(config: Path) -> None:
    said = tesched(config, "explain", "7").output
    assert "  learns  iteration 11, loss 1.004 (at first 9, target 1), " in said
    assert (
        "  expects loss 1 at iteration 21, by a linear curve towards 1; 0 % of the first loss above that are left"
        in said
    )
    assert "  holds   4 CPUs, 25 % of what all trainings hold" in said
    # In 47 steps above the lowest eighth: 47, 23.5, 11.75, 5.9, 2.9, 1.5, 0.7, 0.4 and less.
    assert "│███▇▄▂▂▁▁▁▁▁••••••••" in said
    report = json.loads(tesched(config, "explain", "7", "--json").output)["report"]
    assert report["outlook"]["predicted"]["iteration"] == 21
    assert report["share"] == {"cpus": 4, "part": 0.25}


@pytest.mark.parametrize("name", ["20_1", "20", "20_*"])
def test_explain_of_a_task_shows_its_own_losses_and_those_of_its_array(config: Path, name: str) -> None:
    said = tesched(config, "explain", name).output
    own = 4 if name == "20_1" else 2
    assert f"  learns  iteration 2, loss {own} (at first {own})" in said
    assert "  array   20_*: what its tasks reported, gathered; of those that report, 2 tasks are there" in said
    assert "  learns  iteration 2, loss 3 (at first 3)" in said
    assert "  holds   12 CPUs, 75 % of what all trainings hold" in said
    data = json.loads(tesched(config, "explain", name, "--json").output)
    assert [point["loss"] for point in data["report"]["points"]] == [own] * 3
    assert [point["loss"] for point in data["array"]["points"]] == [3.0] * 3


@pytest.mark.parametrize("argv", [["status"], ["explain", "7"]])
def test_a_terminal_without_utf_8_gets_ascii(config: Path, argv: list[str]) -> None:
    answer = subprocess.run(
        [str(TESCHED), *argv, "--config", str(config)],
        env={"PYTHONIOENCODING": "ascii", "COLUMNS": "100", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (answer.returncode, answer.stderr) == (STOPPED if argv == ["status"] else 0, b"")
    assert b"#" in answer.stdout
    assert "n?[red]" in answer.stdout.decode("ascii") or argv != ["status"]


def test_the_page_is_whole_in_itself_and_draws_each_training(config: Path, tmp_path: Path) -> None:
    path = tmp_path / "state.html"
    assert tesched(config, "status", "--html", str(path)).stdout == ""
    text = path.read_text(encoding="utf-8")
    for outside in ("http:", "https:", "src=", "@import", "<script", "<link"):
        assert outside not in text
    # A user's word is text, never markup.
    assert "<b>né" not in text
    assert "&lt;b&gt;né[red]&lt;/b&gt;" in text
    assert text.count("<figure>") == 2
    page = ET.fromstring(text.partition("</head>")[2].removesuffix("</html>\n"))  # noqa: S314 - our own text
    drawings = page.findall(".//figure/svg")
    assert [len(drawing.findall("polyline")) for drawing in drawings] == [2, 3], "three losses are too few for a fit"
    told_at = {polyline.attrib["style"] for drawing in drawings for polyline in drawing.findall("polyline")}
    assert told_at == {"stroke: var(--c0)", "stroke: var(--c1)"}
    assert "is expected at 21" in text


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (
            ["--html", "/no/such/folder/x.html"],
            "/no/such/folder/x.html: cannot be written: there is no folder /no/such/folder",
        ),
        (["--html", "x.html", "--watch"], "it cannot be together with --watch"),
        (["--html", "x.html", "--json"], "it cannot be together with --json"),
    ],
)
def test_a_page_that_cannot_be_written_is_reported(config: Path, argv: list[str], said: str) -> None:
    answer = CliRunner(env={"COLUMNS": "200"}).invoke(main, ["status", *argv, "--config", str(config)])
    assert (answer.exit_code, said in answer.stderr) == (2, True)


def test_a_store_without_trainings_does_not_wait_for_the_fits(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.sqlite"
    (tmp_path / "tesched.toml").write_text(f'[store]\nurl = "{url}"\n')
    migrate.upgrade(url)
    program = (
        "import sys; from contextlib import suppress; from tesched_cli.main import main\n"
        # It ends with 3: no daemon has ever run there.
        f"with suppress(SystemExit): main(['status', '--config', '{tmp_path}/tesched.toml'], standalone_mode=False)\n"
        "heavy = {'scipy', 'matplotlib', 'tesched_policies.slaq.forecast', 'tesched_cli.render.status_page'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert answer.stdout.splitlines()[-1] == "[]"
