"""`preempted=end`: exactly that word, and no other of its key, ends a job that is preempted."""

from __future__ import annotations

import pytest
from tesched_core.intake.ends_for_good import ends_when_preempted


@pytest.mark.parametrize(
    "comment",
    [
        "preempted=end",
        "be preempted=end",
        "lr=0.1,preempted=end;seed=3",
        "tesched:preempted=end",
        "Preempted=end",
        "preempted=end preempted=end",
        " preempted=end\t",
    ],
)
def test_exact_word_ends_a_job_for_good(comment: str) -> None:
    assert ends_when_preempted(comment)


@pytest.mark.parametrize(
    "comment",
    [
        "",
        "end",
        "be end",
        "preempted",
        "preempted end",
        "preempted= end",
        "preempted =end",
        "preempted=",
        "preempted=End",
        "preempted=END",
        "preempted=ended",
        "preempted=end.",
        "preempted=end=1",
        "preempted=requeue",
        "preempted=kill",
        "preempted:end",
        "preempted==end",
        "'preempted=end'",
        "not-preempted=end",
        "tesched:tesched:preempted=end",
        "preempted=end preempted=requeue",
        "preempted=requeue preempted=end",
        "preempted=end tesched:preempted=no",
        "preempted=end preempted",
        "unless preempted, end",
        "preempted=end\u200b",
        "preempted=\uff45nd",
    ],
)
def test_anything_else_is_requeued(comment: str) -> None:
    assert not ends_when_preempted(comment)
