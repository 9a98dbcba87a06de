"""Users' texts are read as they were typed, whatever bytes they have; an answer is kept as it was printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tesched_slurm.answer_bytes import as_printed, as_text
from tesched_slurm.columns import Query, rows_of
from tesched_slurm.run_command import Call, Commands

from tests.unit.slurm.queue_reading import only
from tests.unit.slurm.squeue_says import PLAIN, scontrol, squeue

WIDE = ("\N{GRINNING FACE}", "fàst\u2026", "\x85", "\u00a0", as_text(b"\xff\xa0"))


@given(st.binary())
def test_a_text_stands_for_the_bytes_that_were_printed(said: bytes) -> None:
    assert as_printed(as_text(said)) == said


def test_an_answer_is_what_the_command_has_printed() -> None:
    commands, text = Commands(), "fàst\r\n"
    assert commands.run(("printf", "%s", text)) == text
    assert commands.run_bytes(("printf", "%s", text)) == text.encode()
    assert commands.run_together(Call(("printf", "%s", text)), Call(("printf", "x"))) == [text.encode(), b"x"]


@pytest.mark.parametrize("text", WIDE)
@pytest.mark.parametrize("field", ["name", "account", "qos", "mcs_label", "wc_key", "user_name"])
def test_a_job_is_read_whole_whatever_bytes_its_texts_have(field: str, text: str) -> None:
    row = PLAIN._replace(**{field: f"a{text}b"})
    query = Query()
    assert rows_of(query, squeue(query, [row])) == [row]
    job = only(row, scontrol(row))
    assert (job.nodes, job.doubt, job.partly_read) == (("n1",), "", "")


@pytest.mark.parametrize("text", WIDE)
def test_slurms_own_words_may_have_any_bytes_too(text: str) -> None:
    said = scontrol(PLAIN).replace(" Reason=None ", f" Reason=a{text}b ").replace("GRES=gpu:1", f"GRES=gpu:a{text}b:1")
    job = only(PLAIN, said)
    assert (job.nodes, job.doubt, job.partly_read) == (("n1",), "", "")
