"""Word of a job's user that does not count, or not as it was said: for `tesched explain`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

#: characters of a word, and of a job's value, that are kept; and words of one job
LONGEST_SAID, MOST_SAID = 80, 12


class About(StrEnum):
    """Part of what is known of a job that a word is about."""

    CLASS = "class"
    #: signal, grace period, meaning of exit 0: known only once a job's own --signal is read
    NOTICE = "notice"
    RUN = "run"
    #: a word that tesched does not know
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotFollowed:
    """One such word."""

    about: About
    #: as it was said: "signal=KILL"
    said: str
    #: where: "the job's comment"
    source: str
    #: why it does not count so; a setting by its key in tesched.toml
    why: str
    #: what counts instead
    instead: str
