"""No expression that may meet a user's text is worse than linear: each is run over text made to be slow for it."""

from __future__ import annotations

import ast
import importlib
import re
import signal
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

ROOT = Path(__file__).parents[3]
#: the packages that run in the daemon; the others read files of their own user
PACKAGES = ("core", "daemon", "db", "policies", "predict", "report", "slurm")
#: characters of the text: twice as many as are read of a script
LENGTH = 1 << 17
#: Seconds of this process's own time, not of the clock: over one text an expression needs some milliseconds, and one
#: that takes the square of the length half a minute.
MOST_CPU_S = 1.0

#: what expressions repeat
ATOMS = (" ", "\n", "a", "0", "9a", "#-", "a=", " a=b", ",", "(", "[")
#: what ends a run of them
ENDS = ("", "\0")


Pattern: TypeAlias = re.Pattern[str] | re.Pattern[bytes]


def patterns() -> dict[str, tuple[Pattern, str]]:
    """Return the expressions of these packages, and how each is used.

    Those that modules keep, and those that stand in calls of `re`.
    """
    found: dict[str, tuple[Pattern, str]] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).glob("tesched_*/**/*.py")):
            name = ".".join(path.relative_to(ROOT / package).with_suffix("").parts)
            text = path.read_text()
            if "re." not in text:
                continue
            for key, value in vars(importlib.import_module(name.removesuffix(".__init__"))).items():
                if isinstance(value, re.Pattern):
                    found[f"{name}.{key}"] = value, "compile"
            for node in ast.walk(ast.parse(text)):
                if not isinstance(node, ast.Call) or not ast.unparse(node.func).startswith("re."):
                    continue
                (first, *_), use = node.args, ast.unparse(node.func).removeprefix("re.")
                # What is compiled in a module was found above.
                if (
                    isinstance(first, ast.Constant)
                    and isinstance(first.value, str)
                    and use not in {"escape", "compile"}
                ):
                    flags = re.MULTILINE if "MULTILINE" in ast.unparse(node) else 0
                    found[f"{name}:{node.lineno}"] = re.compile(first.value, flags), use
    return found


PATTERNS = patterns()


@contextmanager
def own_time_bounded(what: str, most_s: float = MOST_CPU_S) -> Iterator[None]:
    def over(*_: object) -> None:
        raise AssertionError(f"{what} takes more than linear time")

    before = signal.signal(signal.SIGVTALRM, over)
    signal.setitimer(signal.ITIMER_VIRTUAL, most_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def texts(pattern: str) -> Iterator[str]:
    """Yield texts for this expression: its own words, then a repeated text, then what does not fit."""
    words = re.findall(r"[A-Za-z_]*[ =:\[(]|[A-Za-z_]{3,}", pattern)
    for atom in dict.fromkeys((*ATOMS, *words)):
        for end in ENDS:
            yield "".join(words) + atom * (LENGTH // len(atom)) + end


def search_all(pattern: re.Pattern[Any], use: str) -> None:
    """Use an expression on all its texts. AssertionError if one takes more than linear time."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode()
    for text in texts(source):
        given: Any = text if isinstance(pattern.pattern, str) else text.encode()
        with own_time_bounded(f"{source!r} over {text[:40]!r}…{text[-5:]!r}"):
            if use in {"match", "fullmatch", "compile"}:
                pattern.match(given) if use == "match" else pattern.fullmatch(given)
            if use not in {"match", "fullmatch"}:
                # As search, sub, split and findall do.
                deque(pattern.finditer(given), maxlen=0)


@pytest.mark.parametrize("name", PATTERNS)
def test_an_expression_is_linear(name: str) -> None:
    search_all(*PATTERNS[name])


@pytest.mark.parametrize("slow", [r"(.*?)\n*\Z", "NtasksPerTRES=.*?Zed"])
def test_an_expression_that_is_not_linear_is_found(slow: str) -> None:
    with pytest.raises(AssertionError, match="more than linear"):
        search_all(re.compile(slow, re.DOTALL), "search")
