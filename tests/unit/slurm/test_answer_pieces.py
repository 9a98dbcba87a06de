"""An answer that is read while it is printed says what it says as a whole, wherever it is cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tesched_core.model.actions import Failure, FailureKind
from tesched_slurm.answer_bytes import Pieces
from tesched_slurm.columns import KnownRows, Query, QueueRow, RowsReader
from tesched_slurm.details import DetailsFound, DetailsQuery, KnownRecords
from tesched_slurm.queue import Queue
from tesched_slurm.run_command import Commands
from tesched_testcluster.patience import HANG_S

from tests.unit.slurm.queue_reading import Slurm, read, reading
from tests.unit.slurm.squeue_says import MARK, PLAIN, said_to, scontrol, squeue

VICTIM = PLAIN._replace(job_id="55", array_job_id="55")
ARRAY = PLAIN._replace(job_id="3", array_job_id="3", array_task_id="0-9", state="PENDING", node_list="")
TASK = ARRAY._replace(job_id="12", array_task_id="7")
FORGED = scontrol(VICTIM, shares="Nodes=n1 CPU_IDs=0-31 Mem=1 GRES=", mark="|ab3DEfgh1J")
#: what a user types into every text that there is
HOSTILE = (
    "train",
    "x\n",
    "\n\nJobId=55 ",
    f"x\n{FORGED}",
    f"x\n{FORGED[: FORGED.index('GroupId')]}",
    "x\nJobId=12 ArrayJobId=3 ArrayTaskId=7 JobName=train",
    " UserId=ada(1000) GroupId=ada(1000) MCS_label= JobState=RUNNING SubmitTime=1000 Features=",
    "f\N{GRINNING FACE}\u2026\r\x85 JobId=55 JobName=train",
)


def typed(row: QueueRow, text: str) -> QueueRow:
    """Return the job with this text in all its fields; of an array's in those that its tasks are found with."""
    if row is ARRAY:
        return row._replace(name=text, comment=text)
    return row._replace(name=text, account=text, mcs_label=text, wc_key=text, qos=text, comment=text)


def task_record(task: QueueRow) -> str:
    return scontrol(task, array=f"ArrayJobId=3 ArrayTaskId={task.array_task_id} ", comment=task.comment)


def cut(said: bytes, places: Iterable[int]) -> Iterator[bytes]:
    """Yield what was said, in pieces that end at these places."""
    return (said[start:end] for start, end in pairwise((0, *sorted(places), len(said))))


def found_in(
    query: DetailsQuery, pieces: Iterable[bytes], rows: dict[str, QueueRow], known: KnownRecords | None = None
) -> DetailsFound:
    reader = query.reader(lambda: rows, known or KnownRecords())
    for piece in pieces:
        reader.feed(piece)
    reader.end(well=True)
    return reader.found()


@pytest.fixture(params=HOSTILE)
def records(request: pytest.FixtureRequest) -> tuple[DetailsQuery, bytes, dict[str, QueueRow]]:
    """Return an answer in which a job, and a task that squeue doesn't show, have this text in all fields."""
    liar, array = typed(PLAIN, request.param), typed(ARRAY, request.param)
    task = array._replace(job_id=TASK.job_id, array_task_id=TASK.array_task_id)
    query = DetailsQuery()
    said = scontrol(liar, comment=liar.comment) + task_record(task) + scontrol(VICTIM) + task_record(array)
    return query, said_to(query, said), {row.job_id: row for row in (liar, VICTIM, array)}


def test_records_cut_at_any_byte_say_what_they_say_whole(
    records: tuple[DetailsQuery, bytes, dict[str, QueueRow]],
) -> None:
    query, said, rows = records
    whole = query.find(said, rows)
    assert (set(whole.by_id), set(whole.hidden)) == ({"1", "3", "55"}, {"12"})
    assert whole.by_id["55"].shares == (("n1", "0,16", "2000", "gpu:1(IDX:0)"),)
    for place in range(len(said) + 1):
        assert found_in(query, cut(said, [place]), rows) == whole


def test_records_that_end_at_any_byte_are_those_of_the_answer_that_ends_there(
    records: tuple[DetailsQuery, bytes, dict[str, QueueRow]],
) -> None:
    query, said, rows = records
    for end in range(0, len(said), 7):
        assert found_in(query, cut(said[:end], [end // 2]), rows) == query.find(said[:end], rows)


_RECORDS = st.lists(
    st.tuples(st.sampled_from((PLAIN, VICTIM, ARRAY)), st.sampled_from(HOSTILE), st.sampled_from((MARK, MARK, ""))),
    max_size=6,
)


@given(st.lists(st.tuples(_RECORDS, st.lists(st.integers(0, 9000), max_size=12)), min_size=1, max_size=4))
def test_in_any_pieces_the_records_of_poll_after_poll_are_those_of_whole_answers(
    polls: list[tuple[list[tuple[QueueRow, str, str]], list[int]]],
) -> None:
    known_whole, known, rows = KnownRecords(), KnownRecords(), {row.job_id: row for row in (PLAIN, VICTIM, ARRAY)}
    for records, places in polls:
        query = DetailsQuery()
        texts = (
            scontrol(row, comment=text, mark=mark, array="ArrayJobId=3 ArrayTaskId=0-9 " if row is ARRAY else "")
            for row, text, mark in records
        )
        said = said_to(query, "".join(texts))
        pieces = cut(said, (min(place, len(said)) for place in places))
        assert found_in(query, pieces, rows, known) == query.find(said, rows, known_whole)


def test_a_task_without_a_row_is_read_of_its_own_record_as_of_the_whole_answer(
    records: tuple[DetailsQuery, bytes, dict[str, QueueRow]],
) -> None:
    query, said, rows = records
    task = rows["3"]._replace(job_id=TASK.job_id, array_task_id=TASK.array_task_id)
    kept = found_in(query, cut(said, range(0, len(said), 100)), rows).hidden_records
    assert len(kept) < len(said) / 2
    of_task = {task.job_id: task}
    assert query.find(kept, of_task) == query.find(said, of_task)
    assert set(query.find(kept, of_task).by_id) == {"12"}


def test_what_stands_in_the_middle_of_a_line_begins_no_record_though_a_piece_begins_there() -> None:
    query, rows = DetailsQuery(), {"55": VICTIM}
    # A job of the same user's that squeue does not show yet: all but the line's beginning is as of the other one.
    unseen = VICTIM._replace(job_id="99", array_job_id="99", name="JobId=55 JobName=train")
    said = said_to(query, scontrol(unseen, shares="Nodes=n1 CPU_IDs=0-31 Mem=1 GRES=") + scontrol(VICTIM))
    for place in range(len(said) + 1):
        found = found_in(query, cut(said, [place]), rows)
        assert found.by_id["55"].shares == (("n1", "0,16", "2000", "gpu:1(IDX:0)"),)


def test_a_known_record_that_has_grown_is_read_again_though_a_piece_ends_where_it_ended() -> None:
    known, rows = KnownRecords(), {"1": PLAIN}
    short = scontrol(PLAIN, comment="x")
    for said, binds in ((short, False), (f"{short}y GresEnforceBind=Yes \n", True)):
        query = DetailsQuery()
        found = found_in(query, cut(said_to(query, said), [len(said_to(query, short))]), rows, known)
        assert found.by_id["1"].enforces_binding is binds


@pytest.mark.parametrize("text", HOSTILE)
def test_rows_cut_at_any_byte_say_what_they_say_whole(text: str) -> None:
    query, known, rows = Query(), KnownRows(), [typed(PLAIN, text), VICTIM]
    said = squeue(query, rows)
    whole_records = (0, len(squeue(query, rows[:1])), len(said))
    for place in range(len(said) + 1):
        reader = RowsReader(query, known)
        for piece in cut(said, [place]):
            reader.feed(piece)
        reader.end(well=True)
        assert reader.found() == rows
        ends = RowsReader(query)
        ends.feed(said[:place])
        ends.end(well=True)
        assert isinstance(ends.found(), Failure) == (place not in whole_records)


def test_a_text_of_a_users_is_not_searched_again_with_each_piece() -> None:
    searched = 0

    def read(said: bytes, _: bool) -> int:
        nonlocal searched
        searched += len(said)
        return 0

    pieces = Pieces(read)
    for _ in range(1000):
        pieces.feed(b"x" * 100)
    pieces.end()
    assert searched <= 4 * 100_000


@pytest.mark.parametrize("piece", [1, 100, 1 << 16])
def test_a_queue_that_is_read_while_it_is_printed_has_the_same_jobs(piece: int) -> None:
    liar, array = typed(PLAIN, HOSTILE[3]), typed(ARRAY, HOSTILE[3])
    task = array._replace(job_id=TASK.job_id, array_task_id=TASK.array_task_id)
    said = scontrol(liar, comment=liar.comment) + task_record(task) + scontrol(VICTIM) + task_record(array)
    rows = [liar, VICTIM, array]
    printed = reading(Slurm(rows_by_task=[task], all_rows=rows, all_records=said, piece=piece)).query()
    assert not isinstance(printed, Failure)
    jobs = {job.job_id: job for job in printed[0]}
    assert jobs == read(reading(Slurm(rows_by_task=[task])), rows, said)
    assert jobs.keys() == {1, 3, 12, 55}
    assert not any(job.doubt or job.partly_read for job in jobs.values())


@pytest.mark.parametrize(
    ("squeue_does", "kind"),
    [
        ("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", FailureKind.UNREACHABLE),
        ("echo what is this", FailureKind.UNKNOWN),
    ],
)
def test_where_squeue_fails_scontrol_does_not_wait_for_its_rows(
    squeue_does: str, kind: FailureKind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, does in (("squeue", squeue_does), ("scontrol", "head -c 5000000 /dev/zero")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    read_all = Queue(commands=Commands(timeout_s=HANG_S)).query()
    assert isinstance(read_all, Failure)
    assert read_all.kind is kind, read_all
