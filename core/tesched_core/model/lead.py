"""Lead of one of several daemons on one store."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """Lead: whether this daemon may decide, and begin anything new."""

    #: the leader, in words; empty if no other daemon leads
    leader: str = ""
    #: why nothing new is to be begun, in words; empty if it may be
    paused: str = ""
    #: mode of the daemon that wrote last, this one or another; empty: none has
    mode: str = ""
    #: what that one had left of mode enforce to put back, in words; empty: nothing, or its mode was enforce
    leaving: str = ""
