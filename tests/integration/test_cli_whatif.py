"""`tesched whatif` with guard.bound: what came of it, and why it cannot be kept. Slurm's nodes are given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tesched_cli.main import main
from tesched_cli.recorded_past import RecordedPast
from tesched_core.model.cluster import JobState, Node, SlurmSettings
from tesched_core.model.resources import Tres
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_sim.workloads import read

TRACE = """JobID|User|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|ReqMem|State
1|bea|1000|1000|4600|3600|120|1|4|100M|COMPLETED
2|tea|1600|4600|4660|60|5|1|4|100M|COMPLETED
3|tea|1700|4660|4720|60|5|1|4|100M|COMPLETED
"""
NODE = Node(name="n1", state="IDLE", total=Tres(cpus=4, mem_mib=4096))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a configuration with a bound, and a trace; Slurm has one node of 4 CPUs."""
    (tmp_path / "trace.txt").write_text(TRACE)
    (tmp_path / "tesched.toml").write_text(
        f'[store]\nurl = "sqlite:///{tmp_path}/store.sqlite"\n[guard.bound]\nslowdown = 2\nte_time_limit_s = 600\n'
    )
    monkeypatch.setattr("tesched_cli.recorded_past.look", lambda _config: Snapshot.of(0.0, nodes=[NODE]))
    return tmp_path


def command(folder: Path) -> list[str]:
    return ["whatif", "--config", str(folder / "tesched.toml"), "--trace", str(folder / "trace.txt")]


def whatif(folder: Path, *argv: str) -> Result:
    done = CliRunner(env={"COLUMNS": "300"}).invoke(main, [*command(folder), *argv])
    assert done.exit_code == 0, done.output
    return done


def test_it_says_what_came_of_the_bound_and_why_it_cannot_be_kept(folder: Path) -> None:
    found = json.loads(whatif(folder, "--json").stdout)
    assert [*found["bounds"]] == ["fitgpp"]
    assert found["warnings"] == []
    assert 0 <= found["bounds"]["fitgpp"]["largest_part"] <= 1
    assert "fitgpp: guard.bound: " in whatif(folder).stdout
    short = ("--set", "guard.bound.te_time_limit_s=60")
    (warning,) = json.loads(whatif(folder, "--json", *short).stdout)["warnings"]
    assert warning.startswith("fitgpp: guard.bound.te_time_limit_s is 60 s, and 2 TE job(s)")
    assert f"warning: {warning}" in whatif(folder, *short).stdout


def test_a_victim_holds_its_nodes_for_as_long_as_this_sites_slurm_conf_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []
    for kill_wait_s in (30, 600):
        settings = SlurmSettings(release="22.05.8", kill_wait_s=kill_wait_s)
        seen = Snapshot.of(0.0, nodes=[NODE], settings=settings)
        monkeypatch.setattr("tesched_cli.recorded_past.look", lambda _config, seen=seen: seen)
        found = json.loads(whatif(folder, "--json", "--policy=native", "--set", "guard.bound=none").stdout)
        (te,) = (line for line in found["lines"] if (line["case"], line["job_class"]) == ("native", "te"))
        waits.append(te["wait_p95_s"])
    assert waits[0] < 300 < waits[1]


def test_what_the_jobs_notes_say_is_shown(folder: Path) -> None:
    (folder / "trace.txt").write_text(TRACE + "7|eve|1100|4800|Unknown|100|5|1|1|100M|RUNNING\n")
    notes = json.loads(whatif(folder, "--json").stdout)["notes"]
    assert any(note.startswith("1 job(s) still run") for note in notes)
    shown = whatif(folder).stdout
    assert all(note in shown for note in notes)


def test_without_a_bound_it_says_nothing_of_it(folder: Path) -> None:
    off = ("--set", "guard.bound=none")
    assert json.loads(whatif(folder, "--json", *off).stdout)["bounds"] == {}
    assert "guard.bound" not in whatif(folder, *off).stdout


def test_policy_that_the_jobs_of_a_store_cannot_serve_is_refused_with_what_can_be_tried(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_trace = CliRunner(env={"COLUMNS": "300"}).invoke(main, [*command(folder), "--policy", "fitgpp+gavel"])
    assert (of_trace.exit_code, "--set workload.types=" in of_trace.output) == (2, True)
    workload = read(folder / "trace.txt", seed=0, nodes="1")
    past = RecordedPast(title="", jobs=3, workload=workload, lines=(), besides=(), not_run=())
    monkeypatch.setattr("tesched_cli.recorded_past._has_store", lambda _: True)
    monkeypatch.setattr("tesched_cli.recorded_past.past_of_store", lambda *_: past)
    words = ("whatif", "--config", str(folder / "tesched.toml"), "--policy")
    of_store = CliRunner(env={"COLUMNS": "300"}).invoke(main, [*words, "fitgpp+gavel"])
    assert of_store.exit_code == 2
    assert of_store.output.rstrip().endswith("of the state store's jobs try --policy fitgpp+none")
    assert CliRunner().invoke(main, [*words, "fitgpp+none"]).exit_code == 0


#: beside them a job of more CPUs than the node has, which waited an hour, and one of more nodes than there are
TOO_LARGE = """8|eve|1100|4700|4800|100|5|1|64|100M|COMPLETED
9|eve|1200|1200|1300|100|5|64|64|100M|COMPLETED
"""


def test_jobs_of_a_trace_that_fit_no_node_are_left_out_and_counted(folder: Path) -> None:
    others = json.loads(whatif(folder, "--json").stdout)
    (folder / "trace.txt").write_text(TRACE + TOO_LARGE)
    found = json.loads(whatif(folder, "--json").stdout)
    assert (found["jobs"], found["left_out"]) == (3, 2)
    # Also what was is of the jobs that are run again.
    assert found["lines"] == others["lines"]
    assert "2 job(s) are left out: they do not fit on these nodes" in whatif(folder).stdout
    # Nodes that are set can hold one of them.
    assert json.loads(whatif(folder, "--json", "--set", "workload.cpus=64").stdout)["left_out"] == 1


def test_broken_line_is_an_error_whatever_is_left_out(folder: Path) -> None:
    (folder / "trace.txt").write_text(TRACE + TOO_LARGE + "10|eve|soon|1|1|1|1|1|1|1M|COMPLETED\n")
    done = CliRunner().invoke(main, command(folder))
    assert done.exit_code == 2
    assert f"{folder}/trace.txt:7: Submit is 'soon'" in done.output


def test_trace_of_which_no_job_fits_is_an_error(folder: Path) -> None:
    (folder / "trace.txt").write_text(TRACE.splitlines()[0] + "\n" + TOO_LARGE)
    done = CliRunner().invoke(main, command(folder))
    assert done.exit_code == 2
    assert "trace.txt: none of its 2 jobs fits on the nodes, which are 1 nodes of 4 CPUs, 4 GiB, 0 GPUs" in done.output


def test_key_that_is_set_twice_is_refused(folder: Path) -> None:
    twice = ("--set", "guard.max_preemptions_per_job=1", "--set", "guard.max_preemptions_per_job=2")
    done = CliRunner().invoke(main, [*command(folder), *twice])
    assert done.exit_code == 2
    assert "--set guard.max_preemptions_per_job: it is set twice" in done.output


def test_what_was_is_of_the_trace_alone_where_trainings_are_added(folder: Path) -> None:
    added = ("--set", "workload.trainings=1", "--set", "workload.iterations=2", "--set", "workload.workers=2")
    found = json.loads(whatif(folder, "--json", "--policy", "fitgpp+slaq", "--set", "guard.bound=none", *added).stdout)
    assert found["jobs"] == 3
    assert found["lines"][:2] == json.loads(whatif(folder, "--json").stdout)["lines"][:2]


def job(key: int, **fields: object) -> SimpleNamespace:
    ours = {
        "key": key,
        "label": f"{key}",
        "user": "ada",
        "job_class": JobClass.BE,
        "cpus": 4,
        "mem_mib": 100,
        "gpus": 0,
    }
    times = {"first_submit_time": 100.0, "ran_s": 60.0, "waited_s": 5.0, "time_limit_s": 600, "grace_period_s": 0}
    more = {"min_nodes": 1, "preemptions": 0, "restarts": 0, "gets_notice": False, "state": JobState.COMPLETED}
    return SimpleNamespace(**{**ours, **times, **more, **fields})


def of_store(folder: Path, monkeypatch: pytest.MonkeyPatch, jobs: Sequence[SimpleNamespace], *words: str) -> Any:
    """Return what it says of these jobs of a state store with that policy."""
    queries = SimpleNamespace(
        jobs=lambda _, which: [] if JobState.RUNNING in which.states else jobs, as_victims=lambda *_: {}
    )
    monkeypatch.setattr("tesched_cli.recorded_past.read", queries)
    config = ["--config", str(folder / "tesched.toml")]
    assert CliRunner().invoke(main, ["db", "upgrade", *config]).exit_code == 0
    done = CliRunner().invoke(main, ["whatif", *config, "--json", "--policy", *words])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.mark.parametrize(("saves", "lost_s"), [(True, (0, 60)), (False, (800, 1000))])
def test_a_job_of_the_store_that_declared_no_signal_loses_its_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, saves: bool, lost_s: tuple[float, float]
) -> None:
    be = job(1, ran_s=3600.0, time_limit_s=7200, grace_period_s=30 if saves else 0, gets_notice=saves)
    jobs = [be, job(2, job_class=JobClass.TE, first_submit_time=1000.0)]
    found = of_store(folder, monkeypatch, jobs, "fitgpp", "--set", "guard.bound=none")
    (lost,) = (line["lost_node_h"] for line in found["lines"] if line["case"] == "fitgpp" and line["job_class"] == "be")
    assert lost_s[0] < lost * 3600 < lost_s[1]


def test_jobs_of_the_store_that_fit_no_node_are_left_out_and_counted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [job(1), job(2, job_class=JobClass.TE, cpus=2), job(3, cpus=64), job(4, min_nodes=2), job(5, ran_s=None)]
    found = of_store(folder, monkeypatch, jobs, "fifo")
    assert (found["jobs"], found["left_out"]) == (2, 2)
    assert [(one["such_as"], one["jobs"]) for one in found["left_out_besides"]] == [("5", 1)]
    assert [(line["case"], line["jobs"]) for line in found["lines"]] == [
        ("as it was", 1),
        ("as it was", 1),
        ("fifo", 1),
        ("fifo", 1),
    ]


def test_without_a_policy_of_tesched_s_the_jobs_run_as_with_any_other(folder: Path) -> None:
    cases = [
        line["case"] for line in json.loads(whatif(folder, "--json", "--policy", "none, fifo,none").stdout)["lines"]
    ]
    assert cases == [one for one in ("as it was", "none", "fifo") for _ in range(2)]
    # One that is configured says no more than Slurm alone.
    (folder / "tesched.toml").write_text((folder / "tesched.toml").read_text() + '[policy]\nte = "none"\n')
    cases = [line["case"] for line in json.loads(whatif(folder, "--json").stdout)["lines"]]
    assert cases == [one for one in ("as it was", "fifo") for _ in range(2)]


@pytest.mark.parametrize("policies", [",", "", " , "])
def test_no_policy_is_no_list_of_policies(folder: Path, policies: str) -> None:
    for words in (command(folder), ["simulate", "--workload", "poisson"]):
        done = CliRunner().invoke(main, [*words, "--policy", policies])
        assert done.exit_code == 2, done.output
        assert "names no policy; there are fifo, " in done.output.replace("\n", " ")
