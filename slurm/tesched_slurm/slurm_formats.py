"""Slurm's ways to write numbers, times, states and host lists, read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from math import prod

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from ClusterShell.RangeSet import RangeSetException

_EMPTY = frozenset({"", "(null)", "N/A", "None", "Unknown", "UNLIMITED", "NONE", "ALL", "INFINITE"})
_SCALE_MIB = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}


def text(value: str) -> str:
    """Return the text, empty for Slurm's "nothing"."""
    return "" if value in {"(null)", "N/A"} else value


def names(value: str) -> frozenset[str]:
    """Return a comma list's items; none for ALL and for nothing."""
    return frozenset() if value in _EMPTY else frozenset(value.split(","))


def in_order(value: str) -> tuple[str, ...]:
    """Return a comma list's items, each once; Slurm passes over empty ones, and keeps the list as it was typed."""
    return tuple(dict.fromkeys(item for item in value.split(",") if item))


#: Slurm itself allows 65,536 nodes in a cluster.
MOST_NODES = 65_536
_HOST_LIST = re.compile(r"[\w.,\[\]-]+", re.ASCII)
#: Slurm's own; it keeps a list of nodes of a user's as it was typed (`scontrol update jobid=… excnodelist=`)
_BETWEEN_HOSTS = re.compile(r"[\t ,]+")


@lru_cache(maxsize=4096)
def hosts(value: str) -> tuple[str, ...]:
    """Return the nodes of a host list, unfolded: `n[1-2]` gives n1, n2, and so does `n1 ,n2,`.

    Raises ValueError for what is no host list of plain names, or one of more nodes than any cluster has. ClusterShell
    would run a shell command for `@group`, so groups are never resolved, and their signs are not let through.
    """
    value = _BETWEEN_HOSTS.sub(",", value).strip(",")
    if value in _EMPTY:
        return ()
    if not _HOST_LIST.fullmatch(value) or _count(value) > MOST_NODES:
        raise ValueError(f"a list of nodes has another form than known: {value[:80]!r}")
    try:
        return tuple(str(node) for node in NodeSet(value, resolver=RESOLVER_NOGROUP))
    except (NodeSetException, RangeSetException) as error:
        raise ValueError(f"a list of nodes has another form than known: {value[:80]!r} ({error})") from None


def _count(value: str) -> int:
    """Count the nodes that the list has at most, without unfolding it: the ranges of one name multiply."""
    total, sizes = 0, [1]
    for part in re.split(r"(\[[^\[\]]*\]|,)", value):
        if part == ",":
            total, sizes = total + prod(sizes), [1]
        elif part.startswith("["):
            ranges = (piece.partition("-") for piece in part.strip("[]").split(","))
            sizes.append(sum(_span(low, high) for low, _, high in ranges))
    return total + prod(sizes)


def _span(low: str, high: str) -> int:
    if not (low.isdecimal() and len(low) < 10 and (not high or (high.isdecimal() and len(high) < 10))):
        raise ValueError(f"a list of nodes has another form than known: {low[:40]!r} to {high[:40]!r}")
    return max(int(high or low) - int(low) + 1, 1)


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


_UNITS = "kmgtp"
#: a GRES' count: Slurm takes `2g`, `2G` and `2GiB` for 2 * 1024^3, and `2gb` for 2 * 1000^3
_COUNT = re.compile(r"(\d+)(?:([kmgtp])(ib|b)?)?", re.ASCII | re.IGNORECASE)
#: what stands behind a GRES in parentheses: devices by number, or (`tmp(CNT:1024)`) how many of those without files
_BEHIND = re.compile(r"\((?:CNT:(\d+)|[^()]*)\)", re.ASCII)


def gres(value: str) -> tuple[tuple[str, int], ...]:
    """Return a GRES list's (name, count), each device once.

    Reads `gpu:2`, `gpu:a100:2(S:0-1)`, `gres:gpu:2`, `gres/gpu:a100=2`, `gpu:8(IDX:0-7)`, `gpu` (one), and of GRES
    without files `tmp:400G`, `gres:tmp:199g`, `tmp(CNT:1024)`: a job's request has the unit that its user typed.
    """
    return tuple(sorted(_each_gres(value)))


def asked_gres(value: str) -> tuple[tuple[str, int], ...]:
    """Return a request's (name, count), read as `gres`: of a name that stands twice Slurm gives the last (22.05)."""
    return tuple(sorted(gres_in_order(value)))


def gres_in_order(value: str) -> tuple[tuple[str, int], ...]:
    """Return the same as they stand there: 22.05 starts some jobs in one order alone (`placement/modelled.py`)."""
    found: dict[str, int] = {}
    for name, count in _each_gres(value):
        # A count of 0 is passed over (22.05).
        found[name] = count or found.get(name, 0)
    return tuple(found.items())


def _each_gres(value: str) -> Iterator[tuple[str, int]]:
    if value in _EMPTY:
        return
    for part in _BEHIND.sub(lambda behind: f":{behind[1]}" if behind[1] else "", value).split(","):
        item = re.sub(r"^gres[:/]", "", part.strip()).replace("=", ":")
        pieces = item.split(":")
        number = _gres_count(pieces[-1])
        if number is not None:
            pieces = pieces[:-1]
        name = ":".join(piece for piece in pieces if piece not in {"(null)", "no_consume"})
        if name:
            yield name, 1 if number is None else number


def _gres_count(value: str) -> int | None:
    match = _COUNT.fullmatch(value)
    if match is None:
        return None
    thousand = 1000 if (match[3] or "").lower() == "b" else 1024
    number = int(match[1])
    for _ in range(_UNITS.index(match[2].lower()) + 1 if match[2] else 0):
        number *= thousand
    return number
