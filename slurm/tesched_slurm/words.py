"""Slurm's ways to write numbers, times, states and host lists, read."""

from __future__ import annotations

import re
from functools import lru_cache

from ClusterShell.NodeSet import NodeSet

_EMPTY = frozenset({"", "(null)", "N/A", "None", "Unknown", "UNLIMITED", "NONE", "ALL", "INFINITE"})
_SCALE_MIB = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}


def text(value: str) -> str:
    """Return the text, empty for Slurm's "nothing"."""
    return "" if value in {"(null)", "N/A"} else value


def names(value: str) -> frozenset[str]:
    """Return a comma list's items; none for ALL and for nothing."""
    return frozenset() if value in _EMPTY else frozenset(value.split(","))


@lru_cache(maxsize=4096)
def hosts(value: str) -> tuple[str, ...]:
    """Return the nodes of a host list, unfolded: `n[1-2]` gives n1, n2."""
    return () if value in _EMPTY else tuple(str(node) for node in NodeSet(value))


def seconds(value: str) -> int | None:
    """Return a duration in seconds: `1-02:03:04`, `05:00`, `30` (seconds); None for no limit."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(?:(\d+):)?(\d+)", value)
    if not match:
        return None
    days, first, second, last = match.groups()
    # Of two colons' fields the first is hours; of one, minutes.
    hours, minutes = (first, second) if second is not None else (None, first)
    return ((int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)) * 60 + int(last)


def moment(value: str) -> float | None:
    """Return a time in Unix seconds; None for Slurm's Unknown, None and N/A."""
    return float(value) if value.isdecimal() and value != "0" else None


def mebibytes(value: str) -> int | None:
    """Return `8000M`, `2G` or `512` (MiB) in MiB."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGTP]?)(?:[cn])?", value)
    return int(float(match[1]) * _SCALE_MIB[match[2] or "M"]) if match else None


def gres(value: str) -> tuple[tuple[str, int], ...]:
    """Return a GRES list's (name, count), each device once.

    Reads `gpu:2`, `gpu:a100:2(S:0-1)`, `gres:gpu:2`, `gres/gpu:a100=2`, `gpu:8(IDX:0-7)`, `gpu` (one).
    """
    if value in _EMPTY:
        return ()
    found: list[tuple[str, int]] = []
    for part in re.sub(r"\([^)]*\)", "", value).split(","):
        item = re.sub(r"^gres[:/]", "", part.strip()).replace("=", ":")
        pieces = item.split(":")
        if pieces[-1].isdecimal():
            count, pieces = int(pieces[-1]), pieces[:-1]
        elif match := re.fullmatch(r"(\d+)([KMG])", pieces[-1]):
            count, pieces = int(match[1]) * 1024 ** ("KMG".index(match[2]) + 1), pieces[:-1]
        else:
            count = 1
        name = ":".join(piece for piece in pieces if piece not in {"(null)", "no_consume"})
        if name:
            found.append((name, count))
    return tuple(sorted(found))
