"""Language: a job is "it", personal pronouns are for people alone; one word for one thing.

Docstrings, comments and documents by pronouns; messages, documents and names of tests by the words of `tests/words.py`,
each with a ceiling that only falls; so have docstrings that begin with "Return what".
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import words

ROOT = Path(__file__).parents[3]
FOLDERS = (
    *("core", "policies", "predict", "slurm", "db", "daemon", "sim", "cli", "report"),
    *("papers", "slurm_test_cluster", "benchmarks", "tests"),
)
#: every page that is read, but for those that are generated (docs/man)
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "slurm_test_cluster" / "README.md"])
PRONOUNS = re.compile(r"\b(who|whom|his|him|he|nobody|somebody|everybody|anybody|whoever)\b", re.IGNORECASE)
#: people, and what stands in for one: a user who ..., the Unix user of that name
PEOPLE = re.compile(
    r"\b(users?|admins?|people|persons?|researchers?|authors?|operators?|developers?|readers?|maintainers?|attackers?|"
    r"strangers?|callers?|senders?|owners?|those|anyone|someone|root)\b",
    re.IGNORECASE,
)


def prose(source: str) -> str:
    """Return the docstrings and comments of a module."""
    return "\n".join(text for _, text in (*words.docstrings(source), *words.comments(source)))


def of_jobs(text: str) -> list[str]:
    """Return the lines with a pronoun, but for lines about people."""
    return [line.strip() for line in text.splitlines() if PRONOUNS.search(line) and not PEOPLE.search(line)]


@pytest.mark.parametrize("folder", FOLDERS)
def test_code_has_at_most_one_pronoun_for_jobs_in_a_thousand_lines(folder: str) -> None:
    files = sorted((ROOT / folder).rglob("*.py"))
    sources = [path.read_text() for path in files]
    assert sources
    lines = sum(source.count("\n") for source in sources)
    found = [line for source in sources for line in of_jobs(prose(source))]
    assert len(found) <= lines / 1000, found


def test_documents_have_at_most_one_pronoun_for_jobs_in_a_thousand_lines() -> None:
    texts = {path.relative_to(ROOT): path.read_text() for path in DOCUMENTS}
    assert len(texts) > 40
    lines = sum(text.count("\n") for text in texts.values())
    found = [f"{path}: {line}" for path, text in texts.items() for line in of_jobs(text)]
    assert len(found) <= lines / 1000, found


@pytest.mark.parametrize(
    ("text", "bad"),
    [
        ("# who yields", 1),
        ("# a user who pokes", 0),
        ('"""Whoever is held."""', 1),
        ('x = "nobody yields"', 0),
        ("# it is held", 0),
    ],
)
def test_pronouns_are_distinguished(text: str, bad: int) -> None:
    assert len(of_jobs(prose(text + "\n"))) == bad


@pytest.fixture(scope="module")
def places() -> list[words.Place]:
    return list(words.places())


@pytest.mark.parametrize("kind", words.BY_KIND)
def test_a_word_stands_no_more_often_than_its_ceiling_which_falls_with_it(kind: str, places: list[words.Place]) -> None:
    ceiling = words.ceiling()[kind]
    known = words.BY_KIND[kind]
    assert ceiling.keys() == known.keys()
    for word, (_, instead) in known.items():
        found = [place for place in places if place.kind == kind and place.word == word]
        listed = "\n".join(f"{place.where}: {place.text[:160]}" for place in found)
        many = f"{kind}: {word} stands {len(found)} times, at most {ceiling[word]}; say: {instead}\n{listed}"
        assert len(found) <= ceiling[word], many
        assert len(found) == ceiling[word], (
            f"{kind}: {word} has become rarer; run: .venv/bin/python -m tests.words --lower"
        )


def test_a_ceiling_falls_and_never_rises() -> None:
    assert words.lowered({"messages": {"room": 5, "look": 1}}, {"messages": {"room": 3, "look": 2, "thing": 4}}) == {
        "messages": {"room": 3, "look": 1, "thing": 4}
    }


def test_messages_are_strings_of_several_words_and_what_help_shows() -> None:
    source = '''
"""A module."""
WORD = "room"
SAID = f"{WORD} has no room"

@click.command()
def wait():
    """Wait for room."""

def other():
    """Return room."""
    raise ValueError("nobody yields")
'''
    assert sorted(text for _, text in words.messages(source)) == [" has no room", "Wait for room.", "nobody yields"]


def test_a_name_of_a_test_is_read_as_a_sentence() -> None:
    source = "def test_nobody_yields() -> None: ...\ndef helper_told() -> None: ...\n"
    assert list(words.test_names(source)) == [(1, "test nobody yields")]


def test_docstrings_and_comments_are_read_but_for_what_help_shows() -> None:
    source = '''
"""A room."""
#: told apart
SAID = "no room"  # nobody

@click.command()
def wait():
    """Wait for room."""

def other():
    """Return room."""
'''
    assert sorted(text for _, text in words.docstrings(source)) == ["A room.", "Return room."]
    assert [text for _, text in words.comments(source)] == ["#: told apart", "# nobody"]


@pytest.mark.parametrize(
    ("docstring", "found"),
    [
        ("Return whether it runs.", 1),
        ("\n    Return what it holds.", 1),
        ("Check whether it runs.", 0),
        ("Return the jobs.", 0),
        ("Count the jobs. Return whether one runs.", 0),
        ("Returns.\n\nReturn when it ends.", 0),
    ],
)
def test_only_the_first_words_of_a_docstring_hide_its_noun(docstring: str, found: int) -> None:
    assert len(list(words.hidden_nouns("a.py", f'"""{docstring}"""\n'))) == found
