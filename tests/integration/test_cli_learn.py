"""`tesched learn`: from a trace, twice; and what is said of bad input."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tesched_cli.main import main
from tesched_db import finished_runs
from tesched_db.engine import open_store
from tesched_testcluster.harness.empty_store import empty_store

HEAD = "JobID|User|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|JobName|State"
LINES = f"""{HEAD}
1|ada|1000|1010|1070|60|30|1|4|train_1|COMPLETED
1.batch|ada|1000|1010|1070|60|30|1|4|batch|COMPLETED
2|ada|1000|1020|1090|70|30|1|4|train_2|CANCELLED by 0
3|ada|1000|1020|1040|20|30|1|4|train_3|TIMEOUT
"""
DRAWN = "<4f2a91c07b3e>"
SACCT = LINES.replace("|", DRAWN)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    url = empty_store(tmp_path / "store.sqlite")
    config = tmp_path / "tesched.toml"
    (tmp_path / "slurm.conf").touch()
    config.write_text(f'[store]\nurl = "{url}"\n[slurm]\nconf = "{tmp_path}/slurm.conf"\n')
    return config


def tesched(site: Path, *argv: str) -> Result:
    return CliRunner().invoke(main, ["learn", "--config", str(site), *argv])


def learned(site: Path, *argv: str) -> dict[str, object]:
    done = tesched(site, *argv, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.stdout)
    del found["meta"]
    return found


def test_a_trace_is_learned_once_and_what_was_cut_short_is_not(site: Path) -> None:
    trace = site.with_name("trace.txt")
    trace.write_text(SACCT)
    first = learned(site, "--trace", str(trace))
    left_out = {"steps": 1, "CANCELLED": 1}
    assert first == {"source": str(trace), "runs": 2, "new": 2, "kept": 2, "left_out": left_out, "used": True}
    assert learned(site, "--trace", str(trace))["new"] == 0
    engine = open_store(f"sqlite:///{site.parent}/store.sqlite", read_only=True)
    runs, _ = finished_runs.load(engine, "here")
    engine.dispose()
    assert [(run.job_name, run.run_s, run.end_s) for run in runs] == [
        ("train_3", 20.0, 1040.0),
        ("train_1", 60.0, 1070.0),
    ]


def test_a_table_in_which_a_users_text_may_forge_records_is_refused(site: Path) -> None:
    trace = site.with_name("trace.txt")
    forged = "x|COMPLETED\n9|alice|1000|1010|87410|86400|30|1|1|y"
    trace.write_text(LINES.replace("train_1", forged))
    refused = tesched(site, "--trace", str(trace))
    assert refused.exit_code == 2
    assert f"{trace}:1: with the separator | any user's JobName may forge a record" in refused.stderr
    assert "sacct --delimiter" in refused.stderr
    trace.write_text(SACCT.replace("train_1", forged))
    assert learned(site, "--trace", str(trace))["new"] == 2


def test_a_table_without_a_users_text_needs_no_drawn_separator(site: Path) -> None:
    trace = site.with_name("trace.txt")
    cells = [line.split("|") for line in LINES.splitlines()]
    trace.write_text("".join("|".join([*line[:9], *line[10:]]) + "\n" for line in cells))
    assert learned(site, "--trace", str(trace))["new"] == 2


def test_equal_runs_of_a_trace_without_ids_are_as_many_as_they_are(site: Path) -> None:
    trace = site.with_name("trace.csv")
    lines = ["2017-10-03 00:00:00,60,1,1,vc"] * 3 + ["2017-10-03 00:10:00,60,1,1,vc"]
    trace.write_text("\n".join(["timestamp,duration,num_gpus,gpu_time,cluster", *lines]) + "\n")
    assert learned(site, "--trace", str(trace))["new"] == 4
    copy = site.with_name("copy.csv")
    copy.write_text(trace.read_text())
    assert learned(site, "--trace", str(copy))["new"] == 0


def test_all_can_be_forgotten(site: Path) -> None:
    trace = site.with_name("trace.txt")
    trace.write_text(SACCT)
    learned(site, "--trace", str(trace))
    assert learned(site, "--forget") == {"forgotten": 2}


def test_it_is_said_that_nothing_is_used_where_learning_is_off(site: Path) -> None:
    site.write_text(site.read_text() + "[run_times]\nlearn = false\n")
    trace = site.with_name("trace.txt")
    trace.write_text(SACCT)
    assert f"{site}: run_times.learn is false" in tesched(site, "--trace", str(trace)).stdout


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ((), "it takes one of --since 30d, --trace FILE and --forget, not none of them"),
        (("--since", "3d", "--forget"), "not --since and --forget"),
        (("--since", "soon"), "'soon' is not a duration such as 90s, 15m, 2h or 1d"),
        (("--since", "3d", "--format", "swf"), "--format says what a trace is, and needs --trace"),
        (("--trace", "/no/such.txt"), "/no/such.txt"),
        (("--since", "3d"), "sacct does not say what ran: Slurm accounting storage is disabled"),
    ],
)
def test_bad_input_says_what_would_be_right(
    site: Path, argv: Sequence[str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sacct = site.with_name("sacct")
    sacct.write_text("#!/bin/sh\necho 'Slurm accounting storage is disabled' >&2\nexit 1\n")
    sacct.chmod(0o755)
    monkeypatch.setenv("PATH", f"{site.parent}:/usr/bin:/bin")
    done = tesched(site, *argv)
    assert done.exit_code == 2
    assert says in done.stderr


def of_cluster(site: Path, *names: str) -> str:
    """Write a trace with one run of each of these clusters; return its path."""
    trace = site.with_name(f"{'_'.join(names)}.txt")
    rows = [f"{at}|ada|1000|1010|107{at}|6{at}|30|1|4|train|COMPLETED|{name}" for at, name in enumerate(names)]
    trace.write_text("\n".join([f"{HEAD}|Cluster", *rows]).replace("|", DRAWN) + "\n")
    return str(trace)


def test_a_trace_of_another_cluster_is_refused(site: Path) -> None:
    first, other = of_cluster(site, "north"), of_cluster(site, "south")
    assert learned(site, "--trace", first)["new"] == 1
    refused = tesched(site, "--trace", other)
    assert refused.exit_code == 2
    assert "store.url: the finished runs in" in refused.output
    assert f"are of cluster north, and {other}'s are of south" in refused.output
    assert "tesched learn --forget" in refused.output
    # One that names no cluster may be of this one.
    trace = site.with_name("trace.txt")
    trace.write_text(SACCT)
    assert learned(site, "--trace", str(trace))["new"] == 2
    assert learned(site, "--trace", first)["new"] == 0
    tesched(site, "--forget")
    assert learned(site, "--trace", other)["kept"] == 1


def test_a_trace_of_several_clusters_is_refused(site: Path) -> None:
    refused = tesched(site, "--trace", of_cluster(site, "north", "south"))
    assert refused.exit_code == 2
    said = "Cluster: the runs are of north, south, and a store has those of one cluster: sacct --clusters=north"
    assert said in refused.output
    assert learned(site, "--trace", of_cluster(site, "south"))["kept"] == 1
