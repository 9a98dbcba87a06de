"""Enforcement: whether TE jobs are kept to what guard.bound and guard.te say, or that is measured alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Enforced(StrEnum):
    """How far a limit on TE jobs is enforced."""

    YES = "yes"
    PARTLY = "partly"
    NO = "no"
    #: that cannot be seen from the daemon's host
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Enforcement:
    """How far the limits on TE jobs are enforced, as the daemon has found it last."""

    #: tables of the configuration that are set: guard.bound, guard.te
    keys: tuple[str, ...]
    enforced: Enforced
    #: why it is not, or not wholly, or not known, in words; empty if it is
    why: str = ""
