"""Words that a user may put into a job's comment, and how each is read (`classify.py`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tesched_core.model.job_report import LONGEST_NAME
from tesched_core.model.notice import ExitZero, read_signal

#: What a job may say of how much time matters to it (`pdors.workload.Urgency`).
UTILITIES = ("insensitive", "sensitive", "critical")
#: Words beyond doubt said to tesched begin so: `tesched:te`, `tesched:grace=120`.
PREFIX = "tesched:"
#: What becomes of a BE job that is preempted: the key, and its values.
PREEMPTED, ENDS, REQUEUED = "preempted", "end", "requeue"
#: How often it may be preempted: the key.
PREEMPTIONS = "preemptions"
#: Words without a value.
BARE = frozenset({"te", "be", "elastic"})
WORD = re.compile(r"[^\s,;]+")


def words(comment: str) -> tuple[frozenset[str], Mapping[str, str]]:
    """Return a comment's bare words and its key=value pairs, in lower case."""
    bare: set[str] = set()
    pairs: dict[str, str] = {}
    for word in WORD.findall(comment):
        key, equals, value = word.partition("=")
        if equals:
            pairs[key.lower().removeprefix(PREFIX)] = value
        else:
            bare.add(word.lower().removeprefix(PREFIX))
    return frozenset(bare), pairs


def seconds(text: str) -> float | None:
    """Seconds that `120` or `0.5` says; None for any other text."""
    # No float(): it would take "inf" and "nan" from a user's comment.
    return float(text) if re.fullmatch(r"\d{1,6}(\.\d{1,3})?", text) else None


def count(text: str) -> int | None:
    """Count that `0` or `3` says; None for any other text."""
    return int(text) if re.fullmatch(r"[0-9]{1,6}", text) else None


def amount(text: str) -> float | None:
    """Amount that `20000` or `2.5e6` says, above 0; None for any other text."""
    return (float(text) or None) if re.fullmatch(r"\d{1,15}(\.\d{1,6})?(e\d{1,2})?", text) else None


def weight(text: str) -> float | None:
    """Weight that `2` or `0.5` says, from 0.001 to 1,000; None for any other text."""
    value = float(text) if re.fullmatch(r"\d{1,4}(\.\d{1,6})?", text) else 0.0
    # Beyond that it is as good as none, or all, and a program with it hard to solve.
    return value if 0.001 <= value <= 1000 else None


def exit_zero(text: str) -> ExitZero | None:
    """Meaning of exit 0 by `again`, `finished` or `slurm`; None for any other text."""
    return ExitZero(text.lower()) if text.lower() in set(ExitZero) else None


def utility(text: str) -> str:
    """Utility that `critical` says; empty for what is none."""
    return text.lower() if text.lower() in UTILITIES else ""


#: By key: what takes its value, and gives nothing for one that can't be read.
READERS: Mapping[str, Callable[[str], object]] = MappingProxyType(
    {
        "signal": read_signal,
        "patience": seconds,
        "preempted": lambda text: text if text in {ENDS, REQUEUED} else None,
        PREEMPTIONS: count,
        "grace": seconds,
        "exit0": exit_zero,
        "run": lambda text: seconds(text) or None,
        "workload": lambda text: text[:LONGEST_NAME] or None,
        "weight": weight,
        "slo": lambda text: seconds(text) or None,
        "samples": amount,
        "utility": lambda text: utility(text) or None,
    }
)
