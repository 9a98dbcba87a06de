"""Words that messages, documents, names of tests, docstrings and comments are to be without, and each one's count.

So are first words of docstrings that hide the noun or the verb that a reader searches for.

`python -m tests.words` lists each place. `python -m tests.words --lower` takes the counts that have fallen into
`words_ceiling.json`, which a test compares (`tests/unit/project/test_language.py`); it raises none.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

ROOT = Path(__file__).parents[1]
CEILING = Path(__file__).with_name("words_ceiling.json")
#: what has commands for people; strings in it are messages, help and what commands print
CODE = ("core", "policies", "predict", "slurm", "db", "daemon", "sim", "cli", "report", "papers")
#: what else has docstrings and comments to read
FOR_DEVELOPERS = ("benchmarks", "slurm_test_cluster", "tests")
#: generated, or written as it was then
NO_PAGES = ("docs/man", "docs/adr", "CHANGELOG.md")

#: a pattern, and what is written instead; a job, a node, a file is "it"
WORDS: Mapping[str, tuple[str, str]] = {
    "room": (r"rooms?", "free resources"),
    "look": (r"looks?|looked|looking|glances?", "poll, or what is done: read, check, search"),
    "told": (r"told|tells?|telling", "notify of a victim; say, show or report of a program"),
    "asked": (r"asked", "notified of a victim"),
    "nobody": (r"nobody|somebody|everybody|whoever|whom", "no job, a job, each job, which"),
    "person": (r"his|him|he", "its, it"),
    "spared": (r"spared|barred", "not eligible, not selected, excluded"),
    "promised": (r"promised?|promises", "reserved"),
    "thing": (r"things?|something|stuff|somehow", "the noun that is meant"),
}
#: besides, in names of tests, which have no people in them but users
OF_TESTS = {"who": (r"who|whose", "that, which")}
#: how a docstring begins that hides its noun, in packages of the wheel
OF_FIRST_WORDS = {
    "return what": (
        r"^return (?:what|how|why|when|which|where|whether)",
        "the noun or the verb that a reader searches for: Check whether, Count the, Reason that, Time at which",
    )
}
NOT_IN_WHEEL = ("papers",)

BY_KIND: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "messages": WORDS,
    "documents": WORDS,
    "test names": {**WORDS, **OF_TESTS},
    "docstrings and comments": WORDS,
    "first words": OF_FIRST_WORDS,
}

#: what a command of ours has printed, in README: its words are read where they are written
_SAMPLES = re.compile(r"(?s)<!-- samples.*?<!-- end -->")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One such word."""

    kind: str
    word: str
    where: str
    text: str


def places() -> Iterator[Place]:
    """Yield each place in messages, documents, names of tests, docstrings and comments."""
    for folder in (*CODE, *FOR_DEVELOPERS):
        for path in sorted((ROOT / folder).rglob("*.py")):
            source = path.read_text()
            for line, text in messages(source) if folder in CODE else ():
                yield from _in("messages", f"{path.relative_to(ROOT)}:{line}", text, WORDS)
            if folder in CODE and folder not in NOT_IN_WHEEL:
                yield from hidden_nouns(str(path.relative_to(ROOT)), source)
            for line, text in (*docstrings(source), *comments(source)):
                yield from _in("docstrings and comments", f"{path.relative_to(ROOT)}:{line}", text, WORDS)
    for path in pages():
        for line, text in enumerate(_SAMPLES.sub(_blank, path.read_text()).splitlines(), 1):
            yield from _in("documents", f"{path.relative_to(ROOT)}:{line}", text, WORDS)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for line, name in test_names(path.read_text()):
            yield from _in("test names", f"{path.relative_to(ROOT)}:{line}", name, BY_KIND["test names"])


def hidden_nouns(path: str, source: str) -> Iterator[Place]:
    """Yield each docstring of a module whose first words hide the noun or the verb that a reader searches for."""
    for line, text in docstrings(source):
        yield from _in("first words", f"{path}:{line}", text.lstrip(), OF_FIRST_WORDS)


def _blank(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")


def pages() -> list[Path]:
    """Return the documents that are read: pages, and the example configuration."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "systemd" / "tesched.toml"]
    return sorted(path for path in found if not str(path.relative_to(ROOT)).startswith(NO_PAGES))


def messages(source: str) -> Iterator[tuple[int, str]]:
    """Yield the string constants of a module that have several words, with their lines; of docstrings, a command's."""
    tree = ast.parse(source)
    passed = set(_docstrings(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in passed and " " in node.value:
            yield node.lineno, node.value


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield the docstrings of a module that no user sees, with their lines."""
    for node in _docstrings(ast.parse(source)):
        if isinstance(node.value, str):
            yield node.lineno, node.value


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            # `--help` shows the docstring of a command.
            shown = isinstance(node, ast.FunctionDef) and _is_command(node)
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and not shown:
                yield first.value


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments of a module, with their lines."""
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _is_command(node: ast.FunctionDef) -> bool:
    return any(re.search(r"\b(command|group)\(", ast.unparse(one)) for one in node.decorator_list)


def test_names(source: str) -> Iterator[tuple[int, str]]:
    """Yield the names of the tests of a module as sentences, with their lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.lineno, node.name.replace("_", " ")


def _in(kind: str, where: str, text: str, words: Mapping[str, tuple[str, str]]) -> Iterator[Place]:
    for word, (pattern, _) in words.items():
        for _found in re.finditer(rf"\b(?:{pattern})\b", text, re.IGNORECASE):
            yield Place(kind=kind, word=word, where=where, text=" ".join(text.split()))


def counts() -> dict[str, dict[str, int]]:
    """Count how often each word stands, by kind."""
    found = {kind: dict.fromkeys(words, 0) for kind, words in BY_KIND.items()}
    for place in places():
        found[place.kind][place.word] += 1
    return found


def ceiling() -> dict[str, dict[str, int]]:
    """Read how often each word may stand, by kind."""
    found: dict[str, dict[str, int]] = json.loads(CEILING.read_text())
    return found


def lowered(before: Mapping[str, Mapping[str, int]], now: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Return the ceiling with the counts that have fallen; a word that it does not have gets its count."""
    return {
        kind: {word: min(before.get(kind, {}).get(word, count), count) for word, count in words.items()}
        for kind, words in now.items()
    }


if __name__ == "__main__":
    if sys.argv[1:] == ["--lower"]:
        CEILING.write_text(json.dumps(lowered(ceiling(), counts()), indent=2) + "\n")
    else:
        for one in places():
            sys.stdout.write(f"{one.kind}: {one.word}: {one.where}: {one.text[:160]}\n")
