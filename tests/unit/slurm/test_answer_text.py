"""Slurm's answers take one byte a character, whatever users write; their texts are read as they were typed."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tesched_core.model.actions import Failure
from tesched_slurm.answer_text import as_narrow, as_text, narrow
from tesched_slurm.columns import Query, rows_of
from tesched_slurm.run_command import Commands

from tests.unit.slurm.queue_reading import only
from tests.unit.slurm.squeue_says import PLAIN, scontrol, squeue

WIDE = ("\N{GRINNING FACE}", "fàst\u2026", "\x85", "\u00a0", b"\xff\xa0".decode("utf-8", "surrogateescape"))


@given(st.binary())
def test_what_was_printed_is_what_is_read(said: bytes) -> None:
    text = as_text(narrow(said))
    assert text == said.decode("utf-8", "surrogateescape")
    assert as_narrow(text) == narrow(said)


def test_one_users_wide_character_makes_no_answer_wider() -> None:
    commands, said = Commands(), "x" * 100_000
    answer, plain = (commands.run_narrow(("printf", "%s", text)) for text in (f"{said}\N{GRINNING FACE}", said))
    assert not isinstance(answer, Failure)
    assert sys.getsizeof(answer) < sys.getsizeof(plain) + 100
    assert commands.run(("printf", "%s", "fàst")) == "fàst"
    together = commands.run_together((("printf", "%s", "fàst"), None), (("printf", "%s", "x"), None))
    assert together == [as_narrow("fàst"), "x"]


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
