"""Class rules as the submission hook reads them: which jobs may be TE, in words that Lua can evaluate.

Definitions
    line        a condition's name and its values: globs as Lua patterns, or a lower and an upper bound ("-": none)
    pattern     a glob after a `=`: its pieces between the `*`, each a Lua pattern of single characters, with %XX for
                what is no letter or digit

Principle
    The hook knows a job before slurmctld has filled in its defaults, so it finds more jobs that may be TE than there
    are, and never fewer: what it can't know counts as met. A job too many is released by the daemon at once.

    Lua's own `.*` would take a time that grows with a power of a user's text, while slurmctld waits. So the hook
    searches for one piece after the other.

Source
    `intake/classify.py`, of which this is the other reading; systemd/job_submit.lua reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

from tesched_core.intake.class_rules import Classification, Match
from tesched_core.model.snapshot import JobClass

#: in a set of a Lua pattern: the first byte of a character in UTF-8 is none of these, and all others are
_CONTINUED = b"\x80-\xbf"
#: conditions on a text
TEXTS = ("partitions", "qos", "accounts", "users", "names", "comments")
_BOUNDS = ("time_limit_s", "nodes", "cpus", "gpus")
#: what the hook takes for a text that it can't judge
UNKNOWN = "?"


def lines_of(classes: Classification) -> Iterator[str]:
    """Yield the lines: what a job is that no rule matches, the user's word, the rules in their order."""
    yield f"default {classes.default_class}"
    if classes.user_word.may_say_be:
        yield "say be"
    if classes.user_word.may_say_te:
        yield "say te"
        yield from _conditions(classes.user_word.within)
    # After the last rule that makes jobs TE the others change nothing, unless what remains is TE.
    rules = classes.rules
    if classes.default_class is not JobClass.TE:
        last = max((at for at, rule in enumerate(rules) if rule.job_class is JobClass.TE), default=-1)
        rules = rules[: last + 1]
    for rule in rules:
        yield f"rule {rule.job_class}"
        yield from _conditions(rule.match)


def _conditions(match: Match) -> Iterator[str]:
    for name in TEXTS:
        globs = getattr(match, name)
        if globs:
            yield " ".join([name, *map(pattern_of, globs)])
    if match.interactive is not None:
        yield f"interactive {'yes' if match.interactive else 'no'}"
    for name in _BOUNDS:
        low, high = getattr(match, f"min_{name}"), getattr(match, f"max_{name}")
        if low is not None or high is not None:
            yield f"{name} {'-' if low is None else low} {'-' if high is None else high}"


def pattern_of(glob: str) -> str:
    """Return a glob as the hook reads it: `=debug*`; `UNKNOWN` for one with a set that Lua's patterns lack."""
    pieces = [b""]
    at = 0
    while at < len(glob):
        letter, at = glob[at], at + 1
        if letter == "*":
            pieces.append(b"")
        elif letter == "?":
            pieces[-1] += b"[^%b][%b]*" % (_CONTINUED, _CONTINUED)
        elif letter == "[" and (end := _end_of_set(glob, at)) is not None:
            found = _set_of(glob[at:end])
            if found is None:
                return UNKNOWN
            pieces[-1], at = pieces[-1] + found, end + 1
        elif letter == "\0":  # ends a pattern of Lua 5.1
            return UNKNOWN
        else:
            plain = letter.isalnum() or not letter.isascii()
            pieces[-1] += (letter if plain else f"%{letter}").encode("utf-8", "surrogateescape")
    return "=" + "*".join(quote(piece, safe="") for piece in pieces)


def _end_of_set(glob: str, at: int) -> int | None:
    """Position where the set ends that begins at `at`, as fnmatch has it; None: the bracket is a bracket."""
    end = at
    if end < len(glob) and glob[end] == "!":
        end += 1
    if end < len(glob) and glob[end] == "]":
        end += 1
    end = glob.find("]", end)
    return end if end >= 0 else None


def _set_of(inner: str) -> bytes | None:
    """Return a set of ASCII letters, digits, `_` and `.`, and of ranges of letters or digits; None for any other."""
    inverted = inner.startswith("!")
    inner = inner.removeprefix("!")
    if not re.fullmatch(r"(?:[a-z]-[a-z]|[A-Z]-[A-Z]|[0-9]-[0-9]|[A-Za-z0-9_.])+", inner):
        return None
    if any(low > high for low, high in re.findall(r"(.)-(.)", inner)):
        return None
    letters = inner.replace(".", "%.").encode("ascii")
    return b"[^%b%b][%b]*" % (_CONTINUED, letters, _CONTINUED) if inverted else b"[%b]" % letters
