"""`tesched report`, `tesched throughputs`, and what `tesched explain` says of a job's losses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from tesched_cli.main import main
from tesched_cli.render.ascii_curve import sparkline
from tesched_core.model.cluster import JobState
from tesched_core.model.job_report import Curve, Reported
from tesched_core.model.resources import JobId
from tesched_db.engine import open_store
from tesched_testcluster.harness.store_examples import Writer, configured_store, job, snapshot
from tesched_testcluster.patience import HANG_S

TESCHED = Path(sys.executable).with_name("tesched")


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """Give a spool folder."""
    made = tmp_path / "spool"
    made.mkdir()
    return made


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Give a configuration with an empty store."""
    return configured_store(tmp_path)[0]


def tesched(*argv: str, **variables: str) -> Result:
    """Run `tesched argv…` in this process."""
    return CliRunner(env={"COLUMNS": "160", "NO_COLOR": "1", **variables}).invoke(main, list(argv))


def in_job(spool: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run `tesched report argv…` in job 42."""
    return subprocess.run(
        [str(TESCHED), "report", *argv],
        env={**os.environ, "SLURM_JOB_ID": "42", "TESCHED_SPOOL": str(spool)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def content(spool: Path) -> dict[str, Any]:
    """Return what job 42 has reported."""
    found: dict[str, Any] = json.loads((spool / str(os.geteuid()) / "42.json").read_text())
    return found


class TestReport:
    """From inside a job's script."""

    def test_each_call_adds_to_what_was_reported_before(self, spool: Path) -> None:
        for argv in (
            ["--iteration", "5", "--loss", "0.3", "--work", "2"],
            ["--iteration", "6", "--loss", "0.2", "--target-loss", "0.1", "--workload", "lstm"],
            ["--throughput", "12.5", "--type", "v100"],
        ):
            answer = in_job(spool, *argv)
            assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")
        told = content(spool)
        assert [(point[0], point[1], point[3]) for point in told["points"]] == [(5, 0.3, 2.0), (6, 0.2, None)]
        assert [sample[1:] for sample in told["samples"]] == [["v100", 12.5]]
        assert (told["workload"], told["target_loss"]) == ("lstm", 0.1)

    def test_a_file_is_followed_until_the_script_ends_it_and_its_last_line_is_reported(
        self, spool: Path, tmp_path: Path
    ) -> None:
        log = tmp_path / "log.jsonl"
        log.write_text('{"step": 1, "loss": 4}\n')
        process = subprocess.Popen(
            [str(TESCHED), "report", "--follow", str(log), "--workload", "lstm"],
            env={**os.environ, "SLURM_JOB_ID": "42", "TESCHED_SPOOL": str(spool)},
        )
        try:
            _await((spool / str(os.geteuid()) / "42.json").exists)
            with log.open("a") as file:
                file.write('{"step": 2, "loss": 3}\n')
            process.send_signal(signal.SIGTERM)
            assert process.wait(HANG_S) == 0
        finally:
            process.kill()
            process.wait()
        told = content(spool)
        assert [point[:2] for point in told["points"]] == [[1, 4.0], [2, 3.0]]
        assert told["workload"] == "lstm"

    def test_a_signal_that_comes_while_a_loss_is_reported_ends_it_after_the_last_line(
        self, spool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = tmp_path / "log.jsonl"
        log.write_text('{"step": 1, "loss": 4}\n{"step": 2, "loss": 3}\n')
        before = signal.getsignal(signal.SIGTERM)
        monkeypatch.setenv("SLURM_JOB_ID", "42")
        monkeypatch.setenv("TESCHED_SPOOL", str(spool))

        def signalled(_what: str, value: float) -> float:
            """Let the signal come inside of what keeps every exception from a training."""
            signal.raise_signal(signal.SIGTERM)
            return value

        monkeypatch.setattr("tesched_report.reporter._not_negative", signalled)
        try:
            assert CliRunner().invoke(main, ["report", "--follow", str(log)]).exit_code == 0
        finally:
            signal.signal(signal.SIGTERM, before)
        assert [point[:2] for point in content(spool)["points"]] == [[1, 4.0], [2, 3.0]]

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            ([], "nothing to report"),
            (["--iteration", "5"], "--iteration and --loss go together"),
            (["--loss", "5"], "--iteration and --loss go together"),
            (["--iteration", "-1", "--loss", "5"], "-1 is not in the range"),
            (["--iteration", "1.5", "--loss", "5"], "'1.5' is not a valid integer"),
            (["--throughput", "-1"], "-1.0 is not in the range"),
            (["--throughput", "1", "--type", "x" * 101], "at most 100 printable characters"),
            (["--throughput", "1", "--workload", "a\nb"], "at most 100 printable characters"),
            (["--follow", "x", "--throughput", "1"], "give no other report with it"),
            (["--follow", "x", "--format", "xml"], "'xml' is not one of 'jsonl', 'csv', 'tensorboard'"),
            (["--follow", "/nowhere", "--once"], "/nowhere: no loss in it"),
            (["--follow", "{log}", "--once", "--format", "tensorboard"], "log: no TFRecord begins at byte 0"),
            (["--follow", "{log}", "--once", "--format", "csv"], "log: no loss in it, only nll, step; name it by"),
        ],
    )
    def test_what_cannot_be_reported_ends_with_status_2(
        self, spool: Path, tmp_path: Path, argv: list[str], said: str
    ) -> None:
        log = tmp_path / "log"
        log.write_text("step,nll\n1,2\n")
        answer = tesched(
            "report", *(word.format(log=log) for word in argv), SLURM_JOB_ID="42", TESCHED_SPOOL=str(spool)
        )
        assert answer.exit_code == 2, answer.output
        assert said in answer.output
        assert "Traceback" not in answer.output
        assert list(spool.iterdir()) == []

    @pytest.mark.parametrize(
        ("changed", "said"),
        [({"SLURM_JOB_ID": ""}, "this is no Slurm job"), ({"TESCHED_SPOOL": "/nowhere"}, "could not be written")],
    )
    def test_where_nothing_can_be_reported_a_script_goes_on(
        self, spool: Path, changed: dict[str, str], said: str
    ) -> None:
        answer = tesched(
            *("report", "--iteration", "5", "--loss", "0.3"),
            **{"SLURM_JOB_ID": "42", "TESCHED_SPOOL": str(spool), **changed},
        )
        assert answer.exit_code == 0
        assert said in answer.stderr

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            (["--iteration", "5", "--loss", "nan"], "--loss is nan, and is passed over"),
            (["--iteration", "5", "--loss", "-inf"], "--loss is -inf, and is passed over"),
            (["--throughput", "inf"], "--throughput is inf, and is passed over"),
            (["--throughput", "nan"], "--throughput is nan, and is passed over"),
            (["--follow", "{nan}", "--once"], "nan: each loss in it is NaN, infinite or no number"),
            (["--follow", "{nan}", "--once", "--format", "csv"], "nan: each loss in it is NaN, infinite or no number"),
        ],
    )
    def test_a_training_that_diverges_does_not_fail_for_it(
        self, spool: Path, tmp_path: Path, argv: list[str], said: str
    ) -> None:
        log = tmp_path / "nan"
        log.write_text("step,loss\n1,nan\n2,inf\n" if "csv" in argv else '{"step": 1, "loss": NaN}\n')
        answer = tesched(
            "report", *(word.format(nan=log) for word in argv), SLURM_JOB_ID="42", TESCHED_SPOOL=str(spool)
        )
        assert (answer.exit_code, answer.stdout) == (0, "")
        assert said in answer.stderr
        assert list(spool.iterdir()) == []

    def test_the_rest_of_a_report_counts_beside_what_is_no_number(self, spool: Path) -> None:
        answer = in_job(
            spool,
            *("--iteration", "5", "--loss", "0.3", "--work", "nan", "--target-loss", "inf", "--throughput", "2"),
        )
        assert answer.returncode == 0
        assert "--work is nan" in answer.stderr
        assert "--target-loss is inf" in answer.stderr
        answer = in_job(spool, "--iteration", "6", "--loss", "nan", "--throughput", "3")
        assert answer.returncode == 0
        told = content(spool)
        assert [(point[0], point[1], point[3]) for point in told["points"]] == [(5, 0.3, None)]
        assert [sample[2] for sample in told["samples"]] == [2.0, 3.0]

    @pytest.mark.parametrize("missing", ["SLURM_JOB_ID", "TESCHED_SPOOL"])
    @pytest.mark.parametrize("argv", [["--once"], []])
    def test_where_nothing_can_be_reported_no_file_is_followed(
        self, spool: Path, tmp_path: Path, missing: str, argv: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def followed(*_args: object, **_more: object) -> None:
            raise OSError("for ever")

        monkeypatch.setattr("tesched_cli.report.follow", followed)
        known = {
            "SLURM_JOB_ID": "42",
            "TESCHED_SPOOL": str(spool),
            "TESCHED_CONFIG": str(tmp_path / "none"),
            missing: "",
        }
        answer = tesched("report", "--follow", str(tmp_path / "nofile"), *argv, **known)
        assert (answer.exit_code, answer.stdout) == (0, "")
        assert "nothing is reported: " in answer.stderr

    def test_a_file_is_followed_by_the_first_rank_alone(self, spool: Path, tmp_path: Path) -> None:
        known = {"SLURM_JOB_ID": "42", "TESCHED_SPOOL": str(spool), "SLURM_PROCID": "1"}
        answer = tesched("report", "--follow", str(tmp_path / "nofile"), "--once", **known)
        assert (answer.exit_code, answer.output) == (0, "")


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)


GAVEL = {
    "v100": {
        "('LM (batch size 5)', 1)": {"null": 20.5, "('A3C', 2)": [8.25, 1.5]},
        "('LM (batch size 5)', 4)": {"null": 60},
    },
    "k80": {"('LM (batch size 5)', 1)": {"null": 0.0}},
}


class TestThroughputs:
    """From a file."""

    def listed(self, config: Path) -> list[tuple[Any, ...]]:
        shown = json.loads(tesched("throughputs", "list", "--json", "--config", str(config)).output)["throughputs"]
        names = ("workload", "scale", "accelerator", "partner", "partner_scale", "steps_per_s")
        return [tuple(one[name] for name in names) for one in shown]

    def test_gavels_form_and_csv_say_the_same(self, config: Path, tmp_path: Path) -> None:
        expected = [
            ("LM (batch size 5)", 1, "k80", "", 0, 0.0),
            ("LM (batch size 5)", 1, "v100", "", 0, 20.5),
            ("LM (batch size 5)", 1, "v100", "A3C", 2, 8.25),
            ("LM (batch size 5)", 4, "v100", "", 0, 60.0),
        ]
        file = tmp_path / "speeds"
        file.write_text(json.dumps(GAVEL))
        answer = tesched("throughputs", "import", str(file), "--config", str(config))
        assert answer.output == f"4 throughputs from {file}: 3 alone, 1 beside another workload\n"
        assert self.listed(config) == expected
        file.write_text(
            "workload,scale,accelerator,steps_per_s,partner,partner_scale\n"
            "LM (batch size 5),1,v100,20.5,,\nLM (batch size 5),1,v100,8.25,A3C,2\n"
            "LM (batch size 5),4,v100,60,,\nLM (batch size 5),,k80,0,,\n"
        )
        assert tesched("throughputs", "import", str(file), "--config", str(config)).exit_code == 0
        assert self.listed(config) == expected
        shown = tesched("throughputs", "list", "--config", str(config)).output
        assert "A3C (2)" in shown

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("", "line 1: no column workload; known are workload, accelerator, steps_per_s, scale"),
            ("workload,accelerator\n", "line 1: no column steps_per_s"),
            ("workload,accelerator,steps_per_s,speed\n", "line 1: the unknown column 'speed'"),
            ("workload,accelerator,steps_per_s\n", "there is no throughput in it"),
            ("workload,accelerator,steps_per_s\na,b\n", "line 2: steps_per_s must be a number of at least 0"),
            ("workload,accelerator,steps_per_s\na,b,-1\n", "line 2: steps_per_s must be a number of at least 0"),
            ("workload,accelerator,steps_per_s\na,b,nan\n", "line 2: steps_per_s must be a number of at least 0"),
            ("workload,accelerator,steps_per_s\na,b,1e999\n", "line 2: steps_per_s must be"),
            ("workload,accelerator,steps_per_s\na,b,1\n,b,1\n", "line 3: workload must be a text of 1 to 100"),
            ("workload,accelerator,steps_per_s\na,b,1\na,b,2\n", "line 3: 'a' on b stands there twice"),
            ("workload,accelerator,steps_per_s,scale\na,b,1,0\n", "line 2: scale must be a whole number of at least 1"),
            ("workload,accelerator,steps_per_s\n" + "x" * 200_000 + ",b,1\n", "line 1: field larger than"),
            ("{", "no JSON"),
            ('{"v100": 3}', "v100 must be a table of Gavel's form"),
            ('{"v100": {"LM": {"null": 1}}}', "v100.LM: must be of the form ('workload', scale)"),
            ('{"v100": {"(\'LM\', 1)": {"null": [1, 2]}}}', "v100.('LM', 1).null: steps_per_s must be a number"),
            ('{"v100": {"(\'LM\', 1)": {"null": null}}}', "v100.('LM', 1).null: steps_per_s must be a number"),
            ("{" * 100_000, "no JSON"),
        ],
    )
    def test_a_bad_file_is_reported_with_its_place_and_changes_nothing(
        self, config: Path, tmp_path: Path, text: str, said: str
    ) -> None:
        file = tmp_path / "speeds"
        file.write_text("workload,accelerator,steps_per_s\nlstm,v100,3\n")
        assert tesched("throughputs", "import", str(file), "--config", str(config)).exit_code == 0
        file.write_text(text)
        answer = tesched("throughputs", "import", str(file), "--config", str(config))
        assert answer.exit_code == 2
        (line,) = answer.stderr.splitlines()
        assert line.startswith(f"Error: {file}: ")
        assert said in line
        assert self.listed(config) == [("lstm", 1, "v100", "", 0, 3.0)]

    def test_a_pipe_is_read(self, config: Path) -> None:
        end, start = os.pipe()
        try:
            os.write(start, b"workload,accelerator,steps_per_s\nlstm,v100,3\n")
            os.close(start)
            assert tesched("throughputs", "import", f"/dev/fd/{end}", "--config", str(config)).exit_code == 0
        finally:
            os.close(end)
        assert self.listed(config) == [("lstm", 1, "v100", "", 0, 3.0)]

    def test_a_file_that_cannot_be_read_is_reported(self, config: Path, tmp_path: Path) -> None:
        answer = tesched("throughputs", "import", "/dev/zero", "--config", str(config))
        assert (answer.exit_code, "it is larger than 64 MB" in answer.stderr) == (2, True)
        for path, said in (("nowhere", "cannot be read: No such file"), ("", "cannot be read: Is a directory")):
            answer = tesched("throughputs", "import", str(tmp_path / path), "--config", str(config))
            assert (answer.exit_code, said in answer.stderr) == (2, True)
        (tmp_path / "bytes").write_bytes(b"workload\xff")
        answer = tesched("throughputs", "import", str(tmp_path / "bytes"), "--config", str(config))
        assert "byte 9 is no UTF-8" in answer.stderr


def curve_of(*losses: float) -> Curve:
    """Return a curve of these losses, ten iterations apart."""
    return Curve.of([(10 * place, loss, 100.0 + place, np.nan) for place, loss in enumerate(losses)])


class TestExplain:
    """What a person sees of it."""

    def told(self, config: Path, **more: Any) -> Result:
        """Let job 7 report a value; return what explain says of it."""
        engine = open_store(f"sqlite:///{config.parent}/store.sqlite")
        seen = snapshot(200.0, job(7, JobState.RUNNING, nodes=["n1"], submit_time=1.0))
        Writer(engine).write(replace(seen, reported={JobId(7): Reported(**more)}))
        engine.dispose()
        return tesched("explain", "7", "--config", str(config))

    def test_a_jobs_losses_are_a_line_and_a_chart(self, config: Path) -> None:
        said = self.told(config, curve=curve_of(8, 4, 2, 1), target_loss=0.5).output
        assert "  learns  iteration 30, loss 1 (at first 8, target 0.5), " in said
        # From 0.5 to 8 in 47 steps of an eighth of a line, the lowest an eighth high: 8 has 48, 4 has 23, 2 has 10, 1
        # has 4 of them. The last line shows their first eight, and what is expected.
        assert "│███▄••••••••" in said
        data = json.loads(tesched("explain", "7", "--json", "--config", str(config)).output)["report"]
        assert data["points"][1] == {"iteration": 10, "loss": 4.0, "at": 101.0, "work": None}

    def test_a_report_that_is_not_used_is_shown_with_the_reason(self, config: Path) -> None:
        said = self.told(config, refused="it is no JSON").output
        assert "  report  not used: it is no JSON" in said
        assert "learns" not in said

    def test_a_job_that_reports_nothing_has_no_line(self, config: Path) -> None:
        engine = open_store(f"sqlite:///{config.parent}/store.sqlite")
        Writer(engine).look(200.0, job(7))
        engine.dispose()
        said = tesched("explain", "7", "--config", str(config)).output
        assert "learns" not in said
        assert "report" not in said
        assert json.loads(tesched("explain", "7", "--json", "--config", str(config)).output)["report"] is None

    @pytest.mark.parametrize(
        ("losses", "line"),
        [((3.0,), "▁"), ((2.0, 2.0), "▁▁"), ((1e100, -1e100), "█▁"), ((0.0, 1e-300), "▁█"), ((5, 4, 5), "█▁█")],
    )
    def test_a_curve_of_any_shape_can_be_drawn(self, losses: tuple[float, ...], line: str) -> None:
        assert sparkline(curve_of(*losses)) == line

    def test_a_long_curve_is_drawn_by_iterations_not_by_points(self) -> None:
        # Ninety points in the first tenth of the iterations, two in the rest: it is flat for nine tenths.
        early = [(iteration, 9.0 - iteration / 10, 0.0, 0.0) for iteration in range(90)]
        drawn = sparkline(Curve.of([*early, (500, 0.0, 0.0, 0.0), (900, 0.0, 0.0, 0.0)]), width=10)
        assert (len(drawn), drawn[0], set(drawn[2:])) == (10, "█", {"▁"})
