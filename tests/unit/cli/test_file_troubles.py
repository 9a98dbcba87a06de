"""What is wrong with the marks and with the submission hook's file has a label of its own each."""

from __future__ import annotations

import pytest
from tesched_cli.render.file_troubles import file_troubles

HOOK = "the admission file cannot be written: /x: No space left on device"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("", []),
        ("a; b", [("marks", "a; b")]),
        (HOOK, [("hook", HOOK)]),
        (f"a; b; {HOOK}", [("marks", "a; b"), ("hook", HOOK)]),
    ],
)
def test_each_has_its_label(said: str, shown: list[tuple[str, str]]) -> None:
    assert [*file_troubles(said)] == shown
