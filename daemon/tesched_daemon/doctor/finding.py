"""Finding of the doctor on one check: its level, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    #: it works; data or time is lost or will be
    WARN = "warn"
    #: tesched cannot do its work
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One line of the report."""

    level: Severity
    #: what was checked, in a word or two
    check: str
    #: how it is
    text: str
    #: what to do about it; empty where all is well
    advice: str = ""


def ok(check: str, text: str) -> Finding:
    """Return that all is well."""
    return Finding(level=Severity.OK, check=check, text=text)


def warn(check: str, text: str, advice: str) -> Finding:
    """Make a finding of level WARN."""
    return Finding(level=Severity.WARN, check=check, text=text, advice=advice)


def fail(check: str, text: str, advice: str) -> Finding:
    """Return that tesched cannot do its work."""
    return Finding(level=Severity.FAIL, check=check, text=text, advice=advice)
