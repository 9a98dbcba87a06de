"""Bystander: a BE job that waits in the queue while TE jobs hold what it would fit into."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from tesched_core.model.resources import JobId, UnixSeconds

#: TE jobs that are kept by name for one bystander; the rest of its delay has no name
MOST_NAMED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """Part of a bystander's delay that one TE job has caused."""

    job_id: JobId
    user: str
    seconds: float


class TeRunInTheWay(NamedTuple):
    """One run of a TE job that is in a bystander's way."""

    job_id: JobId
    user: str
    started: UnixSeconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Bystander:
    """Delay of one job as a bystander, all its waits together (`orders/bystanders.py`)."""

    #: when it was submitted: another job that has its id was at another time
    submitted_at: UnixSeconds
    #: its own user
    user: str
    #: it is delayed since then; None: not now
    since: UnixSeconds | None = None
    #: runs of TE jobs that are in its way since then
    by: tuple[TeRunInTheWay, ...] = ()
    #: seconds until `since`, by TE jobs of other users and of its own
    delayed_s: float = 0.0
    by_own_user_s: float = 0.0
    #: of both, the largest parts
    shares: tuple[Share, ...] = ()
    #: when the last delay ended; None: none has
    until: UnixSeconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """When the queue was last examined for bystanders, and which TE jobs held nodes then, with their starts."""

    at: UnixSeconds
    te: frozenset[tuple[JobId, UnixSeconds]]


def ended(one: Bystander, until: UnixSeconds) -> Bystander:
    """Return the delay after it has ended, for now or for good; one that does not go on as it is."""
    if one.since is None:
        return one
    seconds = max(until - one.since, 0.0)
    if not seconds or not one.by:
        return replace(one, since=None, by=())
    each = seconds / len(one.by)
    own_s = each * sum(te.user == one.user for te in one.by)
    parts = {(share.job_id, share.user): share.seconds for share in one.shares}
    for te in one.by:
        parts[te.job_id, te.user] = parts.get((te.job_id, te.user), 0.0) + each
    shares = [Share(job_id=job_id, user=user, seconds=part) for (job_id, user), part in parts.items()]
    return replace(
        one,
        since=None,
        by=(),
        until=until,
        delayed_s=one.delayed_s + seconds - own_s,
        by_own_user_s=one.by_own_user_s + own_s,
        shares=tuple(sorted(shares, key=lambda share: (-share.seconds, share.job_id))[:MOST_NAMED]),
    )
