"""What a training imports: it writes what it was given, and never stands in the training's way."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tesched_core.model import job_report as rules
from tesched_report import document
from tesched_report.document import Document, Point, Sample, load, sweep
from tesched_report.reporter import Reporter
from tesched_report.where import job_name, own_folder, speaks_for_its_job, spool_of

RUN_S = 20.0
#: a report whose iteration is infinite
ENDLESS = '{"points": [[1e999, 1, 1, null]], "samples": [], "workload": "", "target_loss": null}'


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Give a spool folder, as a site has it."""
    folder = tmp_path / "spool"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def job(spool: Path, **more: str) -> dict[str, str]:
    """Return the environment of job 42."""
    return {"SLURM_JOB_ID": "42", "TESCHED_SPOOL": str(spool), **more}


def content(spool: Path, name: str = "42") -> dict[str, Any]:
    """Return what the report says."""
    found: dict[str, Any] = json.loads((spool / str(os.geteuid()) / f"{name}.json").read_text())
    return found


def train(spool: Path, script: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a training of its own process in job 42."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, **job(spool, **more)},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )


def test_a_trainings_reports_are_in_its_file_when_it_ends_and_core_understands_them(spool: Path) -> None:
    ended = train(
        spool,
        """
        import tesched_report
        for iteration in range(5):
            tesched_report.report(iteration=iteration, loss=1 / (iteration + 1), work=2, target_loss=0.1, workload="w")
        tesched_report.throughput(steps_per_s=12.5, accelerator="v100")
        """,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    data = (spool / str(os.geteuid()) / "42.json").read_bytes()
    found = rules.parse(data, now=time.time())
    assert found.curve.iteration.tolist() == [0, 1, 2, 3, 4]
    assert found.curve.loss.tolist() == pytest.approx([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5], rel=1e-8)
    assert found.curve.work.tolist() == [2.0] * 5
    assert (found.workload, found.target_loss, found.throughputs) == ("w", 0.1, {"v100": 12.5})


def test_a_training_reports_up_to_when_it_has_saved_and_the_latest_time_counts(spool: Path) -> None:
    before = time.time()
    ended = train(spool, "import tesched_report\ntesched_report.saved()\ntesched_report.saved(at=17)")
    assert (ended.returncode, ended.stderr) == (0, "")
    file = spool / str(os.geteuid()) / "42.json"
    found = rules.parse(file.read_bytes(), now=time.time()).saved_at
    assert found is not None
    assert before - 0.01 <= found <= time.time()
    # A process after it, which says nothing of that, leaves it.
    train(spool, "import tesched_report\ntesched_report.report(iteration=1, loss=1)")
    assert rules.parse(file.read_bytes(), now=time.time()).saved_at == found


def test_writer_and_reader_have_the_same_limits() -> None:
    names = ("VERSION", "MOST_BYTES", "MOST_POINTS", "MOST_SAMPLES", "LONGEST_NAME")
    assert [getattr(document, name) for name in names] == [getattr(rules, name) for name in names]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("report(iteration='x', loss=1)", "a report was not taken: invalid literal"),
        ("report(iteration=-1, loss=1)", "an iteration is 0 or more"),
        ("report(iteration=1, loss=object())", "a report was not taken"),
        ("report(iteration=1, loss=1, work=float('inf'))", "work is a number"),
        ("report(iteration=1, loss=1, workload='a\\nb')", "workload is a text of at most 100"),
        ("throughput(-1); throughput(-1)", "a number of steps is 0 or more"),
        ("throughput(steps_per_s=float('nan'))", "a speed is 0 or more"),
        ("saved(at=float('nan'))", "at is a time in the past"),
        ("saved(at='x')", "saved() was ignored"),
        ("saved(at=1.7e12)", "at is a time in the past, in Unix seconds"),
    ],
)
def test_a_mistake_is_said_once_and_ends_nothing(spool: Path, script: str, said: str) -> None:
    ended = train(spool, f"from tesched_report import *\n{script}\n{script}\nprint('trained')")
    assert (ended.returncode, ended.stdout) == (0, "trained\n")
    (line,) = ended.stderr.splitlines()
    assert said in line


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"SLURM_JOB_ID": ""}, "this is no Slurm job"),
        ({"SLURM_JOB_ID": "../42"}, "this is no Slurm job"),
        ({"TESCHED_SPOOL": "", "TESCHED_CONFIG": "/nowhere"}, "no spool folder and no socket is known"),
        ({"TESCHED_SOCKET": "nowhere"}, "TESCHED_SOCKET is host:port or an absolute path, not 'nowhere'"),
        ({"TESCHED_SPOOL": "/nowhere/at/all"}, "No such file or directory"),
        ({"SLURM_PROCID": "3"}, ""),
        ({"SLURM_PROCID": "0", "RANK": "1"}, ""),
    ],
)
def test_where_there_is_nothing_to_report_to_a_training_trains(spool: Path, changed: dict[str, str], said: str) -> None:
    ended = train(spool, "import tesched_report as t\nt.report(iteration=1, loss=1)\nprint('trained')", **changed)
    assert (ended.returncode, ended.stdout) == (0, "trained\n")
    assert said in ended.stderr
    assert len(ended.stderr.splitlines()) == (1 if said else 0)
    assert list(spool.iterdir()) == []


def test_a_folder_that_another_user_made_is_not_written_to(spool: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (spool / str(os.geteuid())).symlink_to(tmp_path / "elsewhere")
    ended = train(spool, "import tesched_report as t\nt.report(iteration=1, loss=1)")
    assert ended.returncode == 0
    assert "is no folder of user" in ended.stderr
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_file_system_that_hangs_holds_up_no_training(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hangs, goes_on = threading.Event(), threading.Event()

    def hanging(_spool: Path) -> Path:
        hangs.set()
        goes_on.wait(RUN_S)
        raise OSError("at last")

    monkeypatch.setattr("tesched_report.reporter.own_folder", hanging)
    reporter = Reporter(job(spool))
    reporter.report(iteration=0, loss=1)
    assert hangs.wait(RUN_S)
    began = time.monotonic()
    for iteration in range(20_000):
        reporter.report(iteration=iteration, loss=1)
    # Twenty thousand reports in far less time than the file system takes: measured 0.1 s.
    assert time.monotonic() - began < RUN_S / 4
    began = time.monotonic()
    reporter.flush(0.1)
    assert time.monotonic() - began < RUN_S / 4
    goes_on.set()


def test_a_worker_of_a_fork_neither_hangs_nor_spoils_the_report(spool: Path) -> None:
    ended = train(
        spool,
        """
        import os, tesched_report
        tesched_report.report(iteration=1, loss=1)
        child = os.fork()
        if child == 0:
            tesched_report.report(iteration=2, loss=0.5)
            tesched_report.flush(10)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        tesched_report.report(iteration=3, loss=0.25)
        raise SystemExit(status)
        """,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [point[0] for point in content(spool)["points"]][-1] == 3


def test_many_reports_at_once_keep_the_last_and_the_file_small(spool: Path) -> None:
    ended = train(
        spool,
        """
        import tesched_report
        for i in range(30_000):
            tesched_report.report(iteration=i, loss=1 + 1 / (i + 3), work=1 / 3)
        """,
    )
    assert ended.returncode == 0
    points = content(spool)["points"]
    assert points[-1][0] == 29_999
    assert len(points) <= rules.MOST_POINTS


class TestDocument:
    """The file's content."""

    def test_it_stays_within_the_readers_bounds_and_keeps_beginning_and_end(self) -> None:
        made, dice = Document(workload="ü" * 100), random.Random(7)  # noqa: S311
        for iteration in range(10_000):
            made.add(Point(10**12 + iteration, dice.random() * 1e-9, 1.7e9 + iteration / 3, dice.random()))
        for number in range(100):
            made.measured(Sample(1.7e9 + number, "ü" * 100, dice.random()))
        found = rules.parse(made.text(), now=1.8e9)
        assert len(made.text()) <= rules.MOST_BYTES
        first, last = found.curve.iteration[0], found.curve.iteration[-1]
        assert (first, last) == (10**12, 10**12 + 9999)
        assert len(found.curve) > rules.MOST_POINTS / 4
        assert [sample.at for sample in found.samples] == [1.7e9 + number for number in range(68, 100)]

    def test_a_training_that_went_back_forgets_what_came_after(self) -> None:
        made = Document()
        for iteration, loss in ((0, 5.0), (10, 4.0), (20, 3.0), (10, 3.5), (15, float("nan"))):
            made.add(Point(iteration, loss, 0.0))
        assert [(point.iteration, point.loss) for point in made.points] == [(0, 5.0), (10, 3.5)]

    def test_a_new_process_of_the_same_job_goes_on_and_another_job_does_not(self, spool: Path) -> None:
        def tell(iteration: int, **more: str) -> None:
            reporter = Reporter(job(spool, **more), interval_s=0.0)
            reporter.report(iteration=iteration, loss=1)
            reporter.flush(RUN_S)

        tell(1)
        tell(2)
        assert [point[0] for point in content(spool)["points"]] == [1, 2]
        # Requeued: the same job. Then a job that began an hour later and was never requeued: another one.
        later = str(int(time.time()) + 3600)
        tell(3, SLURM_RESTART_COUNT="1", SLURM_JOB_START_TIME=later)
        assert [point[0] for point in content(spool)["points"]] == [1, 2, 3]
        tell(9, SLURM_JOB_START_TIME=later)
        assert [point[0] for point in content(spool)["points"]] == [9]

    @pytest.mark.parametrize(
        "text", ["", "[]", "{}", '{"points": 3}', "[" * 60_000, '{"points": [[1]], "samples": []}', ENDLESS]
    )
    def test_a_file_that_cannot_be_read_again_is_begun_anew(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "42.json"
        path.write_text(text)
        assert load(path, since=0.0) == Document()

    def test_a_write_that_fails_leaves_the_file_and_no_rubbish(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "42.json"
        document.write(path, b"old")

        def full(*_: object) -> None:
            raise OSError("disk full")

        monkeypatch.setattr(Path, "replace", full)
        with pytest.raises(OSError, match="disk full"):
            document.write(path, b"new")
        assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"42.json": b"old"}

    @pytest.mark.parametrize(("folder_mode", "file_mode"), [(0o755, 0o644), (0o2750, 0o640)])
    def test_the_daemon_may_read_it_whatever_the_umask_is(
        self, tmp_path: Path, folder_mode: int, file_mode: int
    ) -> None:
        tmp_path.chmod(folder_mode)
        before = os.umask(0o077)
        try:
            document.write(tmp_path / "42.json", b"x")
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "42.json").stat().st_mode) == file_mode

    def test_old_files_are_swept_and_young_ones_stay(self, tmp_path: Path) -> None:
        for name in ("old.json", "young.json"):
            (tmp_path / name).touch()
        os.utime(tmp_path / "old.json", (0, time.time() - document.FORGOTTEN_AFTER_S - 60))
        sweep(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["young.json"]

    def test_a_file_that_another_job_renames_meanwhile_ends_no_sweep(self, tmp_path: Path) -> None:
        for name in ("old.json", ".43.json.17"):
            (tmp_path / name).touch()
        os.utime(tmp_path / "old.json", (0, 0))

        def renamed() -> float:
            with suppress(FileNotFoundError):
                (tmp_path / ".43.json.17").rename(tmp_path / "43.json")
            return time.time()

        sweep(tmp_path, now=renamed)
        assert [path.name for path in tmp_path.iterdir()] == ["43.json"]


class TestWhere:
    """Which job, which process, which folder."""

    @pytest.mark.parametrize(
        ("environment", "name"),
        [
            ({}, ""),
            ({"SLURM_JOB_ID": "42"}, "42"),
            ({"SLURM_JOB_ID": "43", "SLURM_ARRAY_JOB_ID": "40", "SLURM_ARRAY_TASK_ID": "2"}, "40_2"),
            ({"SLURM_JOB_ID": "1/../2"}, ""),
            ({"SLURM_JOB_ID": "٤٢"}, ""),
        ],
    )
    def test_a_job_has_squeues_name(self, environment: dict[str, str], name: str) -> None:
        assert job_name(environment) == name

    def test_the_first_rank_speaks(self) -> None:
        assert speaks_for_its_job({"SLURM_PROCID": "0", "RANK": "0"})
        assert not speaks_for_its_job({"SLURM_PROCID": "1"})

    def test_the_spool_is_the_variables_else_the_configurations(self, tmp_path: Path) -> None:
        config = tmp_path / "tesched.toml"
        config.write_text('[reports]\nspool = "/shared/x"\n')
        assert spool_of({"TESCHED_CONFIG": str(config)}) == Path("/shared/x")
        assert spool_of({"TESCHED_CONFIG": str(config), "TESCHED_SPOOL": "/other"}) == Path("/other")
        for text in ("", "reports = 3", "[reports]\nspool = 7", '[reports]\nspool = ""', "not TOML"):
            config.write_text(text)
            assert spool_of({"TESCHED_CONFIG": str(config)}) is None

    def test_a_spool_that_a_drop_in_names_is_found_the_last_one_by_name(self, tmp_path: Path) -> None:
        config, drop_ins = tmp_path / "tesched.toml", tmp_path / "conf.d"
        drop_ins.mkdir()
        config.write_text("mode = 'shadow'\n")
        (drop_ins / "50-b.toml").write_text('\ufeff[reports]\nspool = "/shared/b"\n', encoding="utf-8")
        (drop_ins / "50-a.toml").write_text('[reports]\nspool = "/shared/a"\n')
        (drop_ins / "60-other.toml").write_text("[reports]\nsocket = ':6820'\n")
        for not_read in (".70-open.toml", "80-note.txt"):
            (drop_ins / not_read).write_text('[reports]\nspool = "/nowhere"\n')
        assert spool_of({"TESCHED_CONFIG": str(config)}) == Path("/shared/b")

    def test_what_cannot_be_read_of_a_configuration_leaves_what_the_other_files_say(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        config, drop_ins = tmp_path / "tesched.toml", tmp_path / "conf.d"
        config.write_text('[reports]\nspool = "/shared/main"\n')
        drop_ins.mkdir()
        (drop_ins / "10.toml").mkdir()
        (drop_ins / "20.toml").write_text("not TOML")
        (drop_ins / "30.toml").write_text("reports = 3")
        assert spool_of({"TESCHED_CONFIG": str(config)}) == Path("/shared/main")
        (drop_ins / "15.toml").write_text('[reports]\nspool = "/shared/drop-in"\n')
        assert spool_of({"TESCHED_CONFIG": str(config)}) == Path("/shared/drop-in")

        def refused(path: Path) -> Iterator[Path]:
            raise PermissionError(13, "Permission denied", str(path))

        monkeypatch.setattr(Path, "iterdir", refused)
        assert spool_of({"TESCHED_CONFIG": str(config)}) == Path("/shared/main")
        config.unlink()
        assert spool_of({"TESCHED_CONFIG": str(config)}) is None

    @pytest.mark.parametrize(("spool_mode", "mode"), [(0o1777, 0o755), (0o3777, 0o2750)])
    def test_a_users_folder_is_open_to_the_daemon_and_shut_to_writers(
        self, spool: Path, spool_mode: int, mode: int
    ) -> None:
        spool.chmod(spool_mode)
        before = os.umask(0o077)
        try:
            made = own_folder(spool)
        finally:
            os.umask(before)
        assert (made.name, stat.S_IMODE(made.stat().st_mode)) == (str(os.geteuid()), mode)
        assert own_folder(spool) == made


def test_a_speed_is_counted_over_ten_seconds_and_more(spool: Path) -> None:
    now = {"at": 100.0}
    reporter = Reporter(job(spool), interval_s=0.0, stopwatch=lambda: now["at"])

    def counted(steps: float, after_s: float) -> None:
        now["at"] += after_s
        reporter.throughput(steps)
        reporter.flush(RUN_S)

    tell: Callable[[], list[Any]] = lambda: [sample[2] for sample in content(spool)["samples"]]  # noqa: E731
    reporter.report(iteration=0, loss=1)
    counted(1000, 5.0)  # starts the clock: how long those took is not known
    counted(20, 4.0)
    counted(20, 5.0)
    assert tell() == []
    counted(20, 3.0)
    # Sixty steps in twelve seconds.
    assert tell() == [5.0]
    counted(30, 10.0)
    assert tell() == [5.0, 3.0]
