"""A record of squeue's that has not changed is the object of the poll before, and any other is what squeue says now."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tesched_slurm import columns
from tesched_slurm.columns import KnownRows, Query, QueueRow

from tests.unit.slurm.squeue_says import PLAIN, squeue


def jobs(count: int) -> list[QueueRow]:
    return [PLAIN._replace(job_id=str(number), array_job_id=str(number)) for number in range(1, count + 1)]


def polled(rows: list[QueueRow], known: KnownRows | None = None) -> list[QueueRow]:
    """Return what a poll reads of these records: each poll draws its own separators."""
    query = Query()
    return query.rows(squeue(query, rows), known)


def test_a_record_with_other_separators_alone_is_the_same_object() -> None:
    known = KnownRows()
    first = polled(jobs(3), known)
    assert first == jobs(3)
    again = polled(jobs(3), known)
    assert all(now is then for now, then in zip(again, first, strict=True))


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(QueueRow._fields), st.text(max_size=12)), max_size=4),
        min_size=2,
        max_size=6,
    )
)
def test_whatever_changes_the_records_are_those_that_a_first_poll_reads(
    changes: list[list[tuple[str, str]]],
) -> None:
    known, rows = KnownRows(), jobs(4)
    for change in changes:
        for place, (name, value) in enumerate(change):
            rows[place] = rows[place]._replace(**{name: value})
        assert polled(rows, known) == polled(rows) == rows


def test_two_values_that_change_places_are_another_record() -> None:
    # The text of both columns together is the same.
    known, (one,) = KnownRows(), jobs(1)
    polled([one._replace(account="ab", partition="c")], known)
    assert polled([one._replace(account="a", partition="bc")], known) == [one._replace(account="a", partition="bc")]


def test_a_record_of_which_only_the_hash_is_known_is_not_another_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "hash", lambda _: 0, raising=False)
    known, rows = KnownRows(), jobs(3)
    assert polled(rows, known) == rows
    assert polled(rows, known) == rows


def test_a_record_that_was_not_in_the_last_answer_is_forgotten() -> None:
    known, rows = KnownRows(), jobs(2)
    first = polled(rows, known)
    polled(rows[:1], known)
    assert polled(rows, known)[1] is not first[1]


def test_after_an_answer_that_was_cut_short_all_are_read_as_before() -> None:
    known, rows = KnownRows(), jobs(3)
    first, query = polled(rows, known), Query()
    with pytest.raises(ValueError, match="in the middle of a record"):
        query.rows(squeue(query, rows)[:-20], known)
    assert all(now is then for now, then in zip(polled(rows, known), first, strict=True))


def test_values_that_jobs_share_are_kept_once() -> None:
    one, two = polled([row._replace(user_name=f"user-{len(jobs(2))}") for row in jobs(2)])
    assert one.user_name is two.user_name
    assert one.tres_alloc is two.tres_alloc


def test_records_without_an_id_are_no_jobs() -> None:
    # Of jobs that other clusters of a federation have started (22.05.8): all have the number for none.
    rows = jobs(2)
    revoked = PLAIN._replace(job_id="4294967294", state="REVOKED", origin="one", siblings_viable="one,two")
    assert polled([revoked, rows[0], revoked, rows[1]]) == rows
