"""Templates of pages: whatever text they are given is shown as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError
from markupsafe import Markup
from tesched_sim.reports.templating import environment


@given(st.text())
def test_a_page_has_neither_the_tags_nor_the_quotes_of_a_text(text: str) -> None:
    shown = environment().from_string("{{ text }}").render(text=text)
    assert not set(shown) & set("<>\"'\n\x1b\u202e")
    assert shown.isprintable()


@pytest.mark.parametrize(
    "template",
    [
        "{{ text }}",
        "{% for one in [text] %}{{ one }}{% endfor %}",
        "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(text) }}",
    ],
)
def test_a_text_is_escaped_once_wherever_a_template_has_it(template: str) -> None:
    shown = environment().from_string(template).render(text="<b>&\u202e")
    assert shown == "&lt;b&gt;&amp;\\u202e"


def test_a_drawing_of_ours_passes_as_it_is() -> None:
    assert environment().from_string("{{ one }}").render(one=Markup("<svg>\n</svg>")) == "<svg>\n</svg>"


def test_a_name_that_a_template_misspells_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        environment().from_string("{{ txet }}").render(text="x")
