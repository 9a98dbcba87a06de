"""Whatever users type: every command prints lines of visible characters, and the page and the JSON can be read."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.users_text import COMMANDS, configuration, fill, tesched

#: Of what a name can be made: anything, and often what does harm.
_PARTS = st.one_of(
    st.characters(),
    st.sampled_from(
        [*"\x1b\n\r\t\0\x7f\x9b\u202e\u2066\u200b\u2028\ufeff\udcff", "[/", "[red]", "]", "<b>", "&", ":smile:"]
    ),
)
TEXT = st.lists(_PARTS, min_size=1, max_size=300).map("".join)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with a configuration and an empty store, to be copied."""
    folder = tmp_path_factory.mktemp("empty")
    configuration(folder)
    return folder


@given(text=TEXT, columns=st.integers(40, 250))
@settings(max_examples=examples(8))
def test_no_command_lets_a_control_character_through(empty: Path, text: str, columns: int) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        shutil.copy(empty / "store.sqlite", folder)
        (folder / "tesched.toml").write_text(f'[store]\nurl = "sqlite:///{folder}/store.sqlite"\n')
        fill(folder, text)
        for argv in COMMANDS:
            answer = tesched(folder, *argv, columns=columns)
            assert answer.exit_code in {0, 1}, (argv, answer.output)
            assert answer.output.replace("\n", "").isprintable(), argv
            as_json = tesched(folder, *argv, "--json").output
            assert as_json.replace("\n", "").isascii()
            assert as_json.replace("\n", "").isprintable()
            json.loads(as_json)
        tesched(folder, "status", "--html", str(folder / "page.html"))
        page = (folder / "page.html").read_text(encoding="utf-8")
        assert page.replace("\n", "").isprintable()
        body = page[page.index("<body>") : page.index("</html>")]
        ET.fromstring(body)  # noqa: S314 - our own page
