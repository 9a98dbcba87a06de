"""Runs as sacct prints them: no job's name forges or breaks a record, and what was cut short is left out."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tesched_core.model.actions import Failure
from tesched_slurm.run_command import Commands
from tesched_slurm.sacct_history import read, table, table_command

SEPARATOR = "<4f2a>"
PLAIN = {
    "JobID": "7",
    "Cluster": "here",
    "User": "ada",
    "Account": "lab",
    "Partition": "gpu",
    "JobName": "train",
    "Start": "1000",
    "End": "1060",
    "ElapsedRaw": "60",
    "TimelimitRaw": "30",
    "NNodes": "1",
    "ReqCPUS": "4",
    "ReqTRES": "billing=4,cpu=4,gres/gpu=2,mem=4G,node=1",
    "State": "COMPLETED",
}


def line(**fields: str) -> str:
    return SEPARATOR.join({**PLAIN, **fields}.values()) + "\n"


def test_a_record_is_read() -> None:
    (run,) = read(line(), SEPARATOR).runs
    assert (run.label, run.cluster, run.user, run.account, run.partition) == ("7", "here", "ada", "lab", "gpu")
    assert (run.job_name, run.start_time, run.end_time, run.ran_s) == ("train", 1000.0, 1060.0, 60.0)
    assert (run.time_limit_s, run.nodes, run.cpus, run.gpus) == (1800.0, 1, 4, 2)


@pytest.mark.parametrize(
    "name",
    [
        "a|b",
        "a\nb",
        "a\n8|here|root",
        "\n",
        "",
        "a\n" + line(JobID="9").replace(SEPARATOR, "<0000>"),
        "a\r\n\udcff\x1f",
    ],
)
def test_a_name_is_one_field_whatever_is_in_it(name: str) -> None:
    runs = read(line(JobID="1") + line(JobName=name) + line(JobID="3"), SEPARATOR).runs
    assert [(run.label, run.job_name) for run in runs] == [("1", "train"), ("7", name), ("3", "train")]


def test_what_was_cut_short_or_never_ran_is_left_out_and_counted() -> None:
    found = read(
        line(State="CANCELLED by 0") + line(State="NODE_FAIL") + line(Start="Unknown") + line(State="TIMEOUT"),
        SEPARATOR,
    )
    assert [run.label for run in found.runs] == ["7"]
    assert found.left_out == {"CANCELLED": 1, "NODE_FAIL": 1, "never ran": 1}


def test_limits_in_words_are_none_and_no_gpu_is_none() -> None:
    (run,) = read(line(TimelimitRaw="UNLIMITED", ReqTRES=""), SEPARATOR).runs
    assert (run.time_limit_s, run.gpus) == (None, 0)


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [
        ("cpu=8,gres/gpu:a100=4,mem=1G", 4),
        ("cpu=8,gres/gpu:a100=4,gres/gpu:v100=2", 6),
        ("gres/gpu=4,gres/gpu:a100=4", 4),
        ("gres/gpu=0,gres/shard=3", 0),
    ],
)
def test_gpus_are_counted_where_the_site_accounts_for_types_alone(tres: str, gpus: int) -> None:
    (run,) = read(line(ReqTRES=tres), SEPARATOR).runs
    assert run.gpus == gpus


def test_history_without_runs_is_empty() -> None:
    assert read("", SEPARATOR).runs == ()


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("some warning\n", "line 1: it has 1 fields, not 14"),
        (line()[:40], "line 1: it has 5 fields, not 14"),
        (line(JobName="a\nb") + "7<4f2a>here\n", "line 3: it has 2 fields, not 14"),
        (line(JobName="a<4f2a>b"), "line 1: it has 15 fields, not 14"),
    ],
)
def test_what_is_no_record_is_an_error_that_names_its_line(said: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(said, SEPARATOR)


def test_a_record_without_an_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tesched_core.intake.drawn_records.LONGEST_RECORD", 1000)
    with pytest.raises(ValueError, match="a record has more than 1000 characters"):
        read(line(JobName="a\n" * 1000), SEPARATOR)


def test_table_is_of_the_command_that_the_documents_print() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "workloads.md").read_text()
    printed = page[page.index("    SLURM_TIME_FORMAT=%s sacct ") :].partition(" > history.txt")[0]
    # Times without a zone are read in that of the host that reads them; the program sets the variable itself.
    _, *words = shlex.split(printed.replace("\\\n", " "))
    assert table_command(7 * 86_400.0) == tuple(words)
    states = words[words.index("--state") + 1].split(",")
    # Each end of a job, and those that hold nodes or wait.
    assert {"CD", "F", "TO", "CA", "NF", "PR", "OOM", "DL", "BF", "R", "S", "PD"} == {*states}
    assert "now-90seconds" in table_command(90.0)
    assert f"now-{3650}days" in table_command(1e30)


def test_table_that_is_too_large_is_an_error_and_not_a_part_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sacct").write_text("#!/bin/sh\nwhile :; do echo 1234567890; done\n")
    (tmp_path / "sacct").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr("tesched_slurm.sacct_history.MOST_TABLE", 1 << 20)
    found = table(Commands(), 60.0)
    assert isinstance(found, Failure)
    assert found.message == "sacct printed more than 1 MiB; fewer days have fewer jobs"
