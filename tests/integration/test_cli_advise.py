"""`tesched advise` on a recorded day. Slurm's nodes and settings are given."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tesched_cli.advise import LineFigures, _matters_most
from tesched_cli.main import main
from tesched_core.model.cluster import Node, SlurmSettings
from tesched_core.model.resources import Tres
from tesched_core.model.snapshot import Snapshot
from tesched_daemon.config import load
from tesched_sim.advice import Figures

HEAD = "JobID|User|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|ReqMem|State\n"


def recorded(te_jobs: int) -> str:
    """A best-effort job of six hours on all of a node, beside which a trial of a minute comes each half an hour."""
    lines = ["1|bea|1000|1000|22600|21600|720|1|4|100M|COMPLETED"]
    for number in range(te_jobs):
        at = 2000 + 1800 * number
        lines.append(f"{number + 2}|tea|{at}|{22600 + 60 * number}|{22660 + 60 * number}|60|5|1|4|100M|COMPLETED")
    return HEAD + "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a configuration and a trace; Slurm has one node of 4 CPUs."""
    (tmp_path / "trace.txt").write_text(recorded(10))
    (tmp_path / "tesched.toml").write_text(f'[store]\nurl = "sqlite:///{tmp_path}/store.sqlite"\n')
    node = Node(name="n1", state="IDLE", total=Tres(cpus=4, mem_mib=4096))
    seen = Snapshot.of(0.0, nodes=[node], settings=SlurmSettings(release="22.05.8"))
    monkeypatch.setattr("tesched_cli.recorded_past.look", lambda _config: seen)
    return tmp_path


def advise(folder: Path, *argv: str) -> Result:
    words = ("advise", "--config", str(folder / "tesched.toml"), "--trace", str(folder / "trace.txt"))
    return CliRunner(env={"COLUMNS": "300"}).invoke(main, [*words, "--processes", "1", *argv])


def test_advised_configuration_serves_trials_that_waited_for_hours(folder: Path) -> None:
    done = advise(folder, "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    by_name = {one["name"]: one for one in said["tried"]}
    assert by_name["Slurm alone"]["te_wait_p95_s"] > 3600
    assert by_name["Slurm alone"]["preempted"] == 0
    assert by_name["native preemption"]["te_wait_p95_s"] < 3600
    chosen = by_name[said["chosen"]]
    assert chosen["te_wait_p95_s"] < by_name["Slurm alone"]["te_wait_p95_s"]
    assert chosen["preempted"] > 0
    # It is the best of those that tesched can be.
    assert said["chosen"] not in {"Slurm alone", "native preemption"}


def test_written_keys_are_a_configuration_that_can_be_used(folder: Path) -> None:
    (folder / "tesched.toml").write_text(
        f'[store]\nurl = "sqlite:///{folder}/store.sqlite"\n[policy]\nte = "none"\nbe = "fill"\n'
    )
    (folder / "conf.d").mkdir()
    written = folder / "conf.d" / "advised.toml"
    done = advise(folder, "--write", str(written))
    assert done.exit_code == 0, done.output
    assert re.search(r"^Advised: ", done.stdout, re.MULTILINE)
    keys = tomllib.loads(written.read_text())
    assert keys["policy"]["te"] in {"fitgpp", "patient"}
    assert load(folder / "tesched.toml").policy.te == keys["policy"]["te"]
    again = advise(folder, "--write", str(written))
    assert again.exit_code == 2
    assert f"{written}: there is such a file" in again.output


def test_a_page_and_keys_in_one_file_are_refused(folder: Path) -> None:
    both = str(folder / "advised")
    done = advise(folder, "--write", both, "--html", f"{folder}/./advised")
    assert (done.exit_code, Path(both).exists()) == (2, False)
    assert f"--write and --html both name {both}" in done.output


def test_site_needs_no_preemption_if_its_trials_start_at_once(folder: Path) -> None:
    (folder / "trace.txt").write_text(HEAD + "1|tea|1000|1000|1060|60|5|1|4|100M|COMPLETED\n")
    done = advise(folder, "--write", str(folder / "advised.toml"))
    assert done.exit_code == 0, done.output
    assert "No preemption is needed" in done.stdout
    assert not (folder / "advised.toml").exists()


#: what sacct prints with SLURM_TIME_FORMAT=%s
SACCT = (
    "JobID|User|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|ReqMem|AllocTRES|State\n"
    "1|bea|1000|1000|22600|21600|720|1|4|100M|cpu=4,mem=100M,node=1|COMPLETED\n"
    "2|tea|2000|22600|22660|60|5|1|4|100M|cpu=4,mem=100M,node=1|CANCELLED by 0\n"
)


def put_sacct(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a sacct on PATH that notes its arguments and goes on as the script says."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "printed").write_text(SACCT)
    command = folder / "bin" / "sacct"
    command.write_text(f'#!/bin/sh\necho "$@" >> {folder}/arguments\n{script}\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")


def test_site_without_a_store_and_one_with_an_empty_store_read_sacct(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_sacct(folder, monkeypatch, f"cat {folder}/printed")
    words = ["advise", "--config", str(folder / "tesched.toml"), "--processes", "1", "--json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["jobs"] == 2
    assert done.stderr.splitlines()[0] == (
        f"there is no state store at sqlite:///{folder}/store.sqlite; "
        "read from sacct: 2 jobs of 2 user(s), of the last 30 days"
    )
    assert said["notes"][-4] == "read from sacct: 2 jobs of 2 user(s), of the last 30 days"
    assert "--starttime now-30days" in (folder / "arguments").read_text()
    assert CliRunner().invoke(main, ["db", "upgrade", *words[1:3]]).exit_code == 0
    (folder / "printed").write_text(SACCT.replace("|tea|", "|bea|"))
    of_store = CliRunner().invoke(main, [*words, "--days", "0.5"])
    assert (of_store.exit_code, json.loads(of_store.stdout)["jobs"]) == (0, 2)
    assert of_store.stderr.splitlines()[0].startswith(
        "the state store knows of no job that ran and ended in the last 0.5 days; "
        "read from sacct: 2 jobs of 1 user(s), of the last 0.5 days; where jobs are private (PrivateData)"
    )
    assert "--starttime now-43200seconds" in (folder / "arguments").read_text()


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (
            "echo 'sacct: error: Problem talking to the database: Connection refused' >&2; exit 1",
            "sacct does not say what ran: sacct: error: Problem talking to the database: Connection refused",
        ),
        (
            "echo 'Slurm accounting storage is disabled' >&2; exit 1",
            "sacct does not say what ran: Slurm accounting storage is disabled",
        ),
        (f"echo '{SACCT.splitlines()[0]}'", "sacct shows no job that ran and ended in the last"),
        ("echo JobID; echo x", "sacct:1: there is no column Submit"),
    ],
)
def test_sacct_that_does_not_answer_is_one_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, says: str
) -> None:
    put_sacct(folder, monkeypatch, script)
    config = ["--config", str(folder / "tesched.toml")]
    by_itself = CliRunner().invoke(main, ["advise", *config])
    assert by_itself.exit_code == 2
    assert f"there is no state store at sqlite:///{folder}/store.sqlite, and {says}" in by_itself.output
    assert by_itself.output.endswith("; --trace takes what sacct prints instead\n")
    asked = CliRunner().invoke(main, ["whatif", "--sacct", *config])
    assert (asked.exit_code, says in asked.output) == (2, True)
    assert len(asked.output.splitlines()) == 1


def test_site_without_sacct_is_an_error_that_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{folder}/bin")
    done = CliRunner().invoke(main, ["advise", "--sacct", "--config", str(folder / "tesched.toml")])
    assert done.exit_code == 2
    assert "sacct: no such command; are Slurm's client programs installed and on PATH?" in done.output


def test_only_one_source_of_jobs_is_taken(folder: Path) -> None:
    done = advise(folder, "--sacct")
    assert done.exit_code == 2
    assert "--sacct and --trace: only one of them" in done.output


@pytest.mark.parametrize("command", ["advise", "whatif"])
def test_days_beside_a_trace_are_refused_since_all_of_it_runs_again(folder: Path, command: str) -> None:
    argv = ["--config", str(folder / "tesched.toml"), "--trace", str(folder / "trace.txt"), "--days", "3"]
    done = CliRunner().invoke(main, [command, *argv])
    assert done.exit_code == 2
    assert "--days and --trace: only one of them; all jobs of a trace run again" in done.output


@pytest.mark.parametrize("command", ["advise", "whatif"])
@pytest.mark.parametrize("days", ["nan", "1e300", "0"])
def test_days_that_are_no_number_of_days_are_refused(folder: Path, command: str, days: str) -> None:
    done = CliRunner().invoke(main, [command, "--config", str(folder / "tesched.toml"), "--days", days])
    assert (done.exit_code, "--days" in done.output) == (2, True)


def test_line_of_slurm_conf_that_makes_trials_wait_is_not_said_to_matter_most() -> None:
    def figures(te_s: float, be_s: float) -> Figures:
        values: dict[str, Any] = dict.fromkeys((one.name for one in fields(Figures)), 0)
        return Figures(**values | {"te_wait_p95_s": te_s, "be_wait_mean_s": be_s})

    chosen = figures(900, 500)
    worse = LineFigures(line="a", figures=figures(3000, 400))
    better = LineFigures(line="b", figures=figures(910, 450))
    assert _matters_most(chosen, [worse, better]) == "b"
    assert _matters_most(chosen, [worse]) == ""


def test_workload_key_needs_a_trace(folder: Path) -> None:
    words = ["advise", "--config", str(folder / "tesched.toml"), "--set", "workload.te_run_max=5"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert "only with --trace or --sacct" in done.output


def test_keys_of_set_are_written_and_hold_against_slurm_conf(folder: Path) -> None:
    written = folder / "advised.toml"
    sets = ("--set", "guard.max_preemptions_per_job=3", "--set", "guard.bound=none", "--set", "guard.lever=requeue")
    done = advise(folder, *sets, "--write", str(written))
    assert done.exit_code == 0, done.output
    text = written.read_text()
    guard = tomllib.loads(text)["guard"]
    assert guard["max_preemptions_per_job"] in {1, 3}
    assert guard["lever"] == "requeue"
    assert "# guard.bound was off" in text
    slow = advise(folder, "--set", "site.kill_wait_s=600", "--json")
    waits = [json.loads(one.stdout)["tried"][1]["te_wait_p95_s"] for one in (slow, advise(folder, "--json"))]
    assert waits[0] > waits[1] + 500


def test_configuration_that_lacks_what_it_needs_is_left_out(folder: Path) -> None:
    (folder / "tesched.toml").write_text(f'[store]\nurl = "sqlite:///{folder}/store.sqlite"\n[policy]\nbe = "pdors"\n')
    done = advise(folder, "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert "as configured" not in {one["name"] for one in said["tried"]}
    assert said["chosen"]
    assert 'Left out is "as configured"' in said["notes"][0]
    assert "no job of this workload takes more nodes than it must" in said["notes"][0]


def test_each_configuration_has_one_line_of_100_columns(folder: Path) -> None:
    words = ("advise", "--config", str(folder / "tesched.toml"), "--trace", str(folder / "trace.txt"))
    done = CliRunner(env={"COLUMNS": "100"}).invoke(main, [*words, "--processes", "1"])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    (first,) = (at for at, line in enumerate(lines) if line.startswith("  Slurm alone "))
    names = [line[2:].partition("  ")[0] for line in lines[first : first + 8]]
    assert names[:3] == ["Slurm alone", "native preemption", "as configured"]
    assert "patient 120 s + fill" in [name.rstrip() for name in names]


def test_file_that_cannot_be_written_is_said_before_the_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tesched_cli.recorded_past.look", lambda _config: pytest.fail("it went on"))
    done = advise(folder, "--write", str(folder / "none" / "advised.toml"))
    assert done.exit_code == 2
    assert f"there is no folder {folder}/none" in done.output


def test_trace_without_trials_is_said_to_have_none(folder: Path) -> None:
    (folder / "trace.txt").write_text(HEAD + "1|bea|1000|1000|91000|90000|1600|1|4|100M|COMPLETED\n")
    written = folder / "advised.toml"
    done = advise(folder, "--write", str(written))
    assert done.exit_code == 0, done.output
    assert "None of these jobs is a TE job" in done.stdout
    assert "No preemption is needed" not in done.stdout
    assert f"{written} is not written" in done.stderr


def test_jobs_that_fit_no_node_are_left_out_and_counted(folder: Path) -> None:
    with (folder / "trace.txt").open("a") as trace:
        trace.write("98|eve|1100|4700|4800|100|5|1|64|100M|COMPLETED\n99|eve|1100|4700|4800|100|5|64|64|100M|F\n")
    said = json.loads(advise(folder, "--json").stdout)
    assert (said["jobs"], said["left_out"]) == (11, 2)
    assert "2 job(s) are left out: they do not fit on these nodes, even on empty ones." in advise(folder).stdout


def test_each_policy_is_tried_or_said_to_be_left_out_with_what_it_needs(folder: Path) -> None:
    said = json.loads(advise(folder, "--json").stdout)
    notes = "\n".join(said["notes"])
    for name, key in (("gavel", "types"), ("slaq", "trainings"), ("pdors", "workers")):
        assert f"fitgpp + {name}" not in {one["name"] for one in said["tried"]}
        assert re.search(f'^Left out is "fitgpp \\+ {name}".* --set workload.{key}=', notes, re.MULTILINE)
    lines = (
        (folder / "trace.txt")
        .read_text()
        .replace("|ReqMem|", "|ReqMem|AllocTRES|")
        .replace("|100M|", "|1G|gres/gpu=1|")
    )
    (folder / "trace.txt").write_text(lines)
    nodes = ("workload.nodes=4", "workload.gpus=1", "workload.types=v100:1:1/k80:1:0.5")
    others = ("workload.trainings=1", "workload.iterations=2", "workload.workers=2")
    sets = [word for one in (*nodes, *others) for word in ("--set", one)]
    said = json.loads(advise(folder, "--json", *sets).stdout)
    assert {"fitgpp + gavel", "fitgpp + slaq", "fitgpp + pdors"} < {one["name"] for one in said["tried"]}
    assert not [one for one in said["notes"] if one.startswith("Left out is")]
    assert said["jobs"] == 11


def not_run(count: int, cancelled_at: int, *, limit_min: int = 5) -> str:
    """Trials that were cancelled while they waited for the node that a best-effort job has."""
    lines = (
        f"{500 + number}|tea|2000|None|{cancelled_at}|0|{limit_min}|1|1|100M|CANCELLED by 1000"
        for number in range(count)
    )
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("count", "cancelled_at", "hidden"), [(2, 180_000, True), (1, 180_000, False), (2, 2060, False)]
)
def test_it_is_not_said_that_no_preemption_is_needed_where_trials_waited_long_and_never_ran(
    folder: Path, count: int, cancelled_at: int, hidden: bool
) -> None:
    ran = [
        f"{number}|tea|{1000 + 100 * number}|{1000 + 100 * number}|x|60|5|1|4|100M|COMPLETED" for number in range(1, 20)
    ]
    (folder / "trace.txt").write_text(HEAD + "\n".join(ran) + "\n" + not_run(count, cancelled_at))
    shown = advise(folder).stdout
    assert ("No preemption is needed" in shown) is not hidden
    assert ("have not run (below), so that preemption may be needed" in shown.replace("\n", " ")) is hidden
    assert f"{count} TE job(s) were cancelled before they ran: after " in shown
