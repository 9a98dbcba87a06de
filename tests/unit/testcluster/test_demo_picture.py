"""The picture of a demo: what happened is in it, in its place, whatever the jobs are called."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tesched_testcluster.__main__ import main
from tesched_testcluster.demo_picture import WIDTH, draw
from tesched_testcluster.demo_record import DemoJob, DemoRecord, Preemption, read, runs, waits, write
from tesched_testcluster.load import Event, EventName, Kind

SVG = "{http://www.w3.org/2000/svg}"
DOCS = Path(__file__).parents[3] / "docs"


def job(job_id: int, name: str, kind: Kind = "be", gpus: int = 8, at: float = 0.0) -> DemoJob:
    return DemoJob(job_id=job_id, name=name, kind=kind, gpus=gpus, submitted_at=at)


def event(at: float, of: DemoJob, name: EventName, ticks: int = 0, node: str = "n1") -> Event:
    restarts = int(name is EventName.RESTART)
    return Event(time=at, job_id=of.job_id, job_name=of.name, name=name, ticks_done=ticks, restarts=restarts, node=node)


def preemption(*, victim: DemoJob, preemptor: DemoJob, node: str, signal: str, how: str, left_at: float) -> Preemption:
    return Preemption(
        victim=victim.job_id,
        preemptor=preemptor.job_id,
        nodes=(node,),
        signal=signal,
        noticed_at=10.5,
        left_at=left_at,
        how=how,
    )


def record(saver: str = "saver", plain: str = "plain", trial: str = "trial") -> DemoRecord:
    """Two nodes: `saver` leaves n1 with a checkpoint, `plain` is requeued on n2, for two trials; both come back."""
    saves, loses = job(1, saver), job(2, plain)
    first, second = job(3, trial, "te", at=10.0), job(4, f"{trial}-2", "te", gpus=4, at=10.2)
    beside = job(5, "beside", gpus=4, at=1.0)
    return DemoRecord(
        slurm="slurm-wlm 22.05.8",
        nodes=("n1", "n2"),
        gpus=8,
        jobs=(saves, loses, first, second, beside),
        events=(
            event(0.0, saves, EventName.START),
            event(0.0, loses, EventName.START, node="n2"),
            event(10.6, saves, EventName.NOTICE, 100),
            event(11.2, saves, EventName.CHECKPOINT, 100),
            event(11.2, saves, EventName.LEAVE, 100),
            event(11.4, first, EventName.START),
            event(11.5, second, EventName.START, node="n2"),
            event(11.6, beside, EventName.START, node="n2"),
            event(15.0, beside, EventName.DONE, node="n2"),
            event(20.0, first, EventName.DONE),
            event(20.1, second, EventName.DONE, node="n2"),
            event(21.0, saves, EventName.RESTART, 100, node="n2"),
            event(22.0, loses, EventName.RESTART),
            event(23.0, saves, EventName.DONE, 120, node="n2"),
            event(34.0, loses, EventName.DONE, 120),
        ),
        preemptions=(
            preemption(victim=saves, preemptor=first, node="n1", signal="USR1", how="requeued_itself", left_at=11.3),
            preemption(victim=loses, preemptor=second, node="n2", signal="", how="requeued", left_at=12.0),
        ),
        status="",
        explain="",
    )


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - our own text


def titles(svg: ET.Element) -> list[str]:
    """Return in words what each bar and each line shows."""
    return [found.text or "" for shape in svg for found in shape.findall(f"{SVG}title")]


def texts(svg: ET.Element) -> list[str]:
    return [found.text or "" for found in svg.iter(f"{SVG}text")]


def bars(svg: ET.Element) -> dict[str, tuple[float, float, float, float]]:
    """Return the left, right, top and lower edge of each bar, by its title."""
    found = {}
    for shape in svg.iter(f"{SVG}rect"):
        title = shape.find(f"{SVG}title")
        if title is not None and title.text:
            x, y, width, height = (float(shape.attrib[name]) for name in ("x", "y", "width", "height"))
            found[title.text] = (x, x + width, y, y + height)
    return found


def test_a_run_that_slurm_ended_lasts_until_a_job_begins_that_would_not_fit_beside_it() -> None:
    ends = {(run.job.name, run.number): run.end for run in runs(record())}
    assert ends["saver", 0] == 11.2, "its own last line"
    assert ends["plain", 0] == 11.5, "before tesched saw it gone"
    alone = record()
    alone = replace(alone, jobs=tuple(replace(one, gpus=min(one.gpus, 4)) for one in alone.jobs))
    assert {(run.job.name, run.number): run.end for run in runs(alone)}["plain", 0] == 12.0


def test_a_job_waits_before_its_first_run_and_between_its_runs() -> None:
    found = {(wait.job.name, wait.requeued): (wait.start, wait.end) for wait in waits(record())}
    assert found["trial", False] == (10.0, 11.4)
    assert found["saver", True] == (11.2, 21.0)
    assert found["plain", True] == (11.5, 22.0)


def test_the_picture_says_that_te_jobs_start_victims_leave_and_come_back() -> None:
    svg = parsed(draw(record()))
    assert set(titles(svg)) == {
        "saver on n1 from -10.0 s to 1.2 s; SIGUSR1 at 0.5 s, requeued itself, saved at 1.2 s",
        "plain on n2 from -10.0 s to 1.5 s; requeued at 0.5 s",
        "trial on n1 from 1.4 s to 10.0 s",
        "trial-2 on n2 from 1.5 s to 10.1 s",
        "beside on n2 from 1.6 s to 5.0 s",
        "saver on n2 from 11.0 s to 13.0 s, again from its checkpoint",
        "plain on n1 from 12.0 s to 24.0 s, again from its beginning",
        "beside waits 10.6 s",
        "trial waits 1.4 s",
        "trial-2 waits 1.3 s",
        "saver requeued, waits 9.8 s",
        "plain requeued, waits 10.5 s",
    }
    assert {"n1", "n2", "TE jobs are submitted", "trial: runs 1.4 s after sbatch"} <= set(texts(svg))
    assert "plain, again from its beginning" in texts(svg)
    description = svg.find(f"{SVG}desc")
    assert description is not None
    assert set((description.text or "").splitlines()) == set(titles(svg))


def test_bars_stand_in_their_node_s_row_and_none_over_another() -> None:
    found = bars(parsed(draw(record())))
    rows = {node: {edges[2:] for title, edges in found.items() if f" on {node} " in title} for node in ("n1", "n2")}
    assert max(low for _, low in rows["n1"]) <= min(top for top, _ in rows["n2"])
    for title, (left, right, top, low) in found.items():
        for other, (left_2, right_2, top_2, low_2) in found.items():
            apart = right <= left_2 or right_2 <= left or low <= top_2 or low_2 <= top
            assert title == other or apart, f"{title} and {other}"
    (trial,) = (edges for title, edges in found.items() if title.startswith("trial on"))
    (victim,) = (edges for title, edges in found.items() if title.startswith("saver on n1"))
    assert 0 < trial[0] - victim[1] < 10, "a fifth of a second, where thirty are 770 pixels"


HOSTILE = (
    "</title></svg><script>alert(1)</script>",
    "a\x1b[2J\x00b\nc",
    "\u202egnp.exe",
    "\ud800\udcff",
    "]]><!--&amp;&#x0;",
    '" onload="alert(1)',
    "x" * 5000,
    "",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_of_a_job_breaks_the_picture(name: str, tmp_path: Path) -> None:
    text = draw(record(saver=name, plain=name, trial=name))
    svg = parsed(text)
    path = tmp_path / "picture.svg"
    path.write_text(text, encoding="utf-8")
    assert {found.tag for found in svg.iter()} == {found.tag for found in parsed(draw(record())).iter()}
    assert not [key for found in svg.iter() for key in found.attrib if key.startswith("on")]
    shown = texts(svg)
    assert not [one for one in shown if not one.isprintable()]
    assert max(map(len, shown)) < 120, "a long name is cut"
    assert len(bars(svg)) == 7


def test_no_text_is_wider_than_the_picture() -> None:
    """By a width of letters that is more than most fonts have, at the size that the style sheet gives."""
    long = record(*("x" * 300,) * 3)
    # Its jobs wait until shortly before the end, at the right.
    short = replace(long, events=tuple(replace(one, time=min(one.time, 23.0)) for one in long.events))
    for shown in (record(), long, short, read(DOCS / "demo.json")):
        for text in parsed(draw(shown)).iter(f"{SVG}text"):
            width = len(text.text or "") * (7.8 if text.get("class") == "head" else 6.7)
            x = float(text.attrib["x"])
            left = {"middle": x - width / 2, "end": x - width}.get(text.get("text-anchor", ""), x)
            assert left >= 0, text.text
            assert left + width <= WIDTH, text.text


def test_each_colour_has_one_for_light_pages_and_one_for_dark() -> None:
    style = parsed(draw(record())).find(f"{SVG}style")
    assert style is not None
    light, _, dark = (style.text or "").partition("@media (prefers-color-scheme:dark){")
    colours = re.compile(r"([.\w]+)\{((?:fill|stroke):#[^}]*)\}")
    by_day, by_night = dict(colours.findall(light)), dict(colours.findall(dark))
    assert by_day.keys() == by_night.keys()
    assert {".page", "text", ".be", ".te"} <= by_day.keys()
    assert not [name for name in by_day if by_day[name] == by_night[name]]


def test_the_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "demo.json"
    write(record(), path)
    assert read(path) == record()


@pytest.mark.parametrize("text", ["", "{}", "[]", "no json"])
def test_a_file_that_is_no_record_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"other\.json is no record of a demo: "):
        read(path)
    said = CliRunner().invoke(main, ["draw", str(path)])
    assert (said.exit_code, "other.json is no record" in said.stderr) == (2, True)


def test_a_record_without_te_jobs_is_refused() -> None:
    only = record()
    only = replace(only, events=tuple(one for one in only.events if not one.job_name.startswith("trial")))
    with pytest.raises(ValueError, match="no run of a TE job"):
        draw(only)


@pytest.mark.parametrize("path", ["demo.png", "no/such/folder/demo.svg"])
def test_a_picture_that_can_not_be_written_is_refused_before_the_demo(path: str, tmp_path: Path) -> None:
    said = CliRunner().invoke(main, ["demo", "--on", "local", "--picture", str(tmp_path / path)])
    assert (said.exit_code, said.stdout) == (2, "")
    assert "give a file that ends in .svg, in a folder that is there" in said.stderr


def test_the_readme_s_picture_is_that_of_its_record() -> None:
    shown = read(DOCS / "demo.json")
    text = (DOCS / "demo.svg").read_text(encoding="utf-8")
    assert text == draw(shown), "python -m tesched_testcluster draw docs/demo.json"
    assert len(text.encode()) < 60_000
    found = titles(parsed(text))
    for one in (one for one in shown.jobs if one.kind == "te"):
        assert any(title.startswith(f"{one.name} on ") for title in found)
    again = [title for title in found if "again from its" in title]
    assert len(again) == len(shown.preemptions) > 0
