"""Users' text as it is shown: nothing in it moves a cursor, begins a line, turns the writing or hides."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tesched_core.model.visible import shortened, visible, visible_lines

#: Any text, surrogates among it, and often of what does harm.
TEXT = st.text(
    st.one_of(st.characters(), st.sampled_from("\x1b\n\r\0\x7f\x9b\u202e\u2066\u200b\u2028\ufeff\udcff[]<&'\""))
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("train-7 [/x] <b> a&b", "train-7 [/x] <b> a&b"),
        ("Straße_学習_тест", "Straße_学習_тест"),
        (r"DOMAIN\ada", r"DOMAIN\ada"),
        ("\x1b[2J\x1b]0;root\x07", r"\x1b[2J\x1b]0;root\x07"),
        ("a\nINFO b\r\tc\0", r"a\nINFO b\r\tc\x00"),
        ("\x7f\x85\x9b31m", r"\x7f\x85\x9b31m"),
        ("\u202egpj.exe\u202c", r"\u202egpj.exe\u202c"),
        ("\u2066a\u2069\u200f\u061c", r"\u2066a\u2069\u200f\u061c"),
        ("ad\u200ba\u2060\ufeff\u00ad", r"ad\u200ba\u2060\ufeff\xad"),
        ("a\u2028b\u2029c\u00a0d\u3000", r"a\u2028b\u2029c\xa0d\u3000"),
        ("\udcff\udc80", r"\xff\x80"),
        ("\ud800", r"\ud800"),
        ("\ue000\U000e0041\U0010ffff", r"\ue000\U000e0041\U0010ffff"),
        ("ada\u3164\u115f\ufe0f\u034f\u2800", r"ada\u3164\u115f\ufe0f\u034f\u2800"),
        ("e\u0301", "e\u0301"),
        ("Z" + "\u0310" * 6, "Z" + "\u0310" * 4 + r"\u0310\u0310"),
    ],
)
def test_what_is_not_plainly_visible_is_an_escape(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(TEXT)
def test_whatever_comes_is_one_line_of_visible_characters_and_stays_so(text: str) -> None:
    shown = visible(text)
    assert {unicodedata.category(character)[0] for character in shown} <= set("LMNPS") | {"Z"}
    assert shown.isprintable()
    assert shown.encode("utf-8").decode() == shown
    assert visible(shown) == shown
    if text.isascii() and text.isprintable():
        assert shown == text


@given(TEXT, st.integers(2, 40))
def test_a_long_text_is_cut_after_it_was_made_visible(text: str, most: int) -> None:
    shown = shortened(text, most)
    assert len(shown) <= most
    assert shown.isprintable()
    if len(visible(text)) > most:
        assert shown.endswith("..")


def test_a_text_of_ours_keeps_its_lines_and_nothing_else() -> None:
    assert visible_lines("a\nb\x1b[0m\r\n") == "a\nb\\x1b[0m\\r\n"
