"""sacct's table with a separator that was drawn: no user's text forges a record, or breaks the reading."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_sim import traces
from tesched_sim.traces.finished import finished_run
from tesched_sim.workload import WorkloadError

NAMES = (
    *("JobID", "User", "Submit", "Start", "End", "ElapsedRaw", "TimelimitRaw", "NNodes", "NCPUS", "ReqCPUS"),
    *("AllocTRES", "ReqTRES", "JobName", "State"),
)
PLAIN = {
    "JobID": "7",
    "User": "ada",
    "Submit": "1000",
    "Start": "1010",
    "End": "1070",
    "ElapsedRaw": "60",
    "TimelimitRaw": "30",
    "NNodes": "1",
    "NCPUS": "2",
    "ReqCPUS": "1",
    "AllocTRES": "cpu=2,gres/gpu:a100=8",
    "ReqTRES": "cpu=1,gres/gpu:a100=4",
    "JobName": "train",
    "State": "COMPLETED",
}
DRAWN = "<4f2a91c07b3e>"


def record(separator: str = DRAWN, **fields: str) -> str:
    return separator.join({**PLAIN, **fields}.values()) + "\n"


def written(folder: Path, *records: str, separator: str = DRAWN, names: tuple[str, ...] = NAMES) -> Path:
    path = folder / "history.txt"
    path.write_text("".join((separator.join(names) + "\n", *records)), encoding="utf-8", newline="")
    return path


@pytest.mark.parametrize(
    "name",
    [
        "a|b",
        "",
        "\n",
        "a\nb\n\nc",
        "x\n" + record(separator="|", JobID="9", User="alice", ElapsedRaw="86400").strip(),
        "x\n" + record(separator="<000000000000>", JobID="9", User="alice").strip(),
    ],
)
def test_a_name_is_one_field_whatever_is_in_it(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, record(JobID="1"), record(JobID="2", JobName=name), record(JobID="3"))
    read = traces.read(path)
    assert read.job_ids == ("1", "2", "3")
    assert read.job_names == ("train", name, "train")
    assert read.users == ("ada",) * 3
    assert read.open_to_users == ""


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ((record()[:40] + "\n",), "history.txt:2: it has 3 fields; the first line has 14"),
        (("what sacct says besides\n", record()), "history.txt:2: it has 1 fields; the first line has 14"),
        ((record(JobName=f"a{DRAWN}b"),), "history.txt:2: it has 15 fields; the first line has 14"),
    ],
)
def test_what_is_no_record_is_an_error_that_names_its_line(tmp_path: Path, records: tuple[str, ...], said: str) -> None:
    with pytest.raises(WorkloadError, match=said):
        traces.read(written(tmp_path, *records))


@pytest.mark.parametrize("names", [("JobName", *NAMES[:12], "State"), (*NAMES[:12], "State", "JobName")])
def test_a_users_text_may_be_neither_the_first_column_nor_the_last(tmp_path: Path, names: tuple[str, ...]) -> None:
    at_fault = names[0] if names[0] == "JobName" else names[-1]
    with pytest.raises(WorkloadError, match=f"history.txt:1: {at_fault} is the (first|last) column"):
        traces.read(written(tmp_path, names=names))


def test_a_record_without_an_end_fills_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tesched_core.intake.drawn_records.LONGEST_RECORD", 1000)
    with pytest.raises(WorkloadError, match=r"history.txt:2: a record has more than 1000 characters"):
        traces.read(written(tmp_path, record(JobName="a\n" * 1000)))


@pytest.mark.parametrize(("column", "said"), [("JobName", "JobName"), ("Comment", "Comment"), ("State", "")])
def test_a_separator_that_a_user_may_type_is_known_for_one(tmp_path: Path, column: str, said: str) -> None:
    names = tuple(name for name in NAMES if name not in {"JobName", "State"})
    line = "|".join([*(PLAIN[name] for name in names), PLAIN.get(column, "x")]) + "\n"
    read = traces.read(written(tmp_path, line, separator="|", names=(*names, column)))
    assert read.open_to_users == said


def test_a_run_is_learned_by_what_it_requested(tmp_path: Path) -> None:
    read = traces.read(written(tmp_path, record()))
    assert (read.cpus.tolist(), read.gpus.tolist()) == ([2], [8]), "a simulation goes by what it held"
    run = finished_run(read, 0)
    assert (run.cpus, run.gpus) == (1, 4)


def test_where_requests_are_not_recorded_a_run_is_learned_by_what_it_held(tmp_path: Path) -> None:
    names = tuple(name for name in NAMES if name not in {"ReqCPUS", "ReqTRES"})
    line = DRAWN.join(PLAIN[name] for name in names) + "\n"
    run = finished_run(traces.read(written(tmp_path, line, names=names)), 0)
    assert (run.cpus, run.gpus) == (2, 8)
