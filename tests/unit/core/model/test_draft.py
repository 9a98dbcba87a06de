"""The draft of the memory: one record a job, written apart from the memory that it was copied from."""

from __future__ import annotations

from dataclasses import fields, replace

from tesched_core.model.change import Change
from tesched_core.model.draft import MemoryDraft
from tesched_core.model.field import Field
from tesched_core.model.job_memory import JobMemory, Past, RecordFields
from tesched_core.model.memory import Memory
from tesched_core.model.resources import JobId

A, B, C = JobId(1), JobId(2), JobId(3)
PREEMPTED = JobMemory(preemptions=1, last_preempted=5.0, past=Past(submitted_at=0.0, ran_s=9.0))
HELD = Change(job_id=A, field=Field.HOLD, previous=100, value=0, at=1.0, since=1.0)


def test_every_field_of_a_record_can_be_set() -> None:
    assert RecordFields.__optional_keys__ == {one.name for one in fields(JobMemory)}


def test_a_job_without_a_record_has_an_empty_one() -> None:
    assert MemoryDraft().job(A) == JobMemory() == Memory().job(A)
    assert MemoryDraft.of(Memory(jobs={A: PREEMPTED})).job(A) == PREEMPTED


def test_a_record_keeps_the_fields_that_are_not_set() -> None:
    draft = MemoryDraft.of(Memory(jobs={A: PREEMPTED}))
    draft.update(A, retry_at=7.0)
    draft.update(B, preemptions=2)
    assert draft.jobs == {A: replace(PREEMPTED, retry_at=7.0), B: JobMemory(preemptions=2)}


def test_a_record_that_holds_nothing_any_more_is_dropped() -> None:
    draft = MemoryDraft.of(Memory(jobs={A: PREEMPTED, B: JobMemory(retry_at=7.0)}))
    draft.update(A, preemptions=0, last_preempted=None)
    draft.update(B, retry_at=None)
    draft.update(C, futile=None)
    assert draft.jobs == {A: JobMemory(past=PREEMPTED.past)}


def test_neither_memory_changes_with_the_draft() -> None:
    before = Memory(jobs={A: PREEMPTED}, declined=frozenset({A}), changes={Field.HOLD: {A: HELD}})
    draft = MemoryDraft.of(before)
    written = draft.written(before)
    assert written == before
    draft.update(A, preemptions=2)
    draft.declined.clear()
    del draft.changes[Field.HOLD][A]
    assert before == written == Memory(jobs={A: PREEMPTED}, declined=frozenset({A}), changes={Field.HOLD: {A: HELD}})
    assert draft.written(before) == Memory(jobs={A: replace(PREEMPTED, preemptions=2)})


def test_jobs_that_were_tried_or_are_missing_are_found_among_those_that_were_preempted() -> None:
    tried = {A: JobMemory(retry_at=7.0), B: replace(PREEMPTED, shadowed_until=8.0)}
    draft = MemoryDraft.of(Memory(jobs={JobId(9): PREEMPTED, **tried}))
    assert dict(draft.tried_or_missing()) == tried
    draft.update(C, missing_since=1.0)
    draft.update(A, retry_at=None)
    assert dict(draft.tried_or_missing()) == {B: tried[B], C: JobMemory(missing_since=1.0)}


def test_a_job_is_missing_since_the_first_answer_without_it_and_until_one_shows_it() -> None:
    draft = MemoryDraft.of(Memory(jobs={A: replace(PREEMPTED, missing_since=1.0), B: JobMemory(missing_since=1.0)}))
    draft.set_missing({C: 3.0})
    assert draft.jobs == {A: PREEMPTED, C: JobMemory(missing_since=3.0)}


def test_the_store_keeps_nothing_of_shadow_mode_or_of_absence() -> None:
    assert replace(PREEMPTED, shadowed_until=8.0, missing_since=1.0).lasting == PREEMPTED
    assert PREEMPTED.lasting is PREEMPTED
