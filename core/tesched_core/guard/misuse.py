"""Misuse of TE jobs is limited (`guard.te.max_outlived_per_user_day`): a user whose runs outlive their limits has none.

Definitions
    outlived    a TE run whose time limit was raised while it ran, and that went on past the one with which it started:
                a long job that had a short one's place. It is BE from then on (`intake/classify.py`)
    barred      a user with so many of them in the last 24 h, until they are fewer

Principle
    The TE jobs of a barred user stay TE jobs, and wait, held as those above the other limits of `guard.te`. To call
    them BE would be a way around the bound: in the partition of TE jobs, of a higher tier, they would start before all
    BE jobs, and no second of them would count. What runs goes on.

    A run counts once, at the time when it outlived its limit, by Slurm's clock, whatever becomes of the daemon, and
    for the user as whose it was seen first. Where the name service is away Slurm shows each user as NO_NAME: such a
    run is another user's once that is seen.

Worked example
    max_outlived_per_user_day = 2: runs of ada outlived their limits at 9:00 and at 15:00. The TE jobs of ada wait from
    15:00 until 9:00 of the next day.

Source
    tesched's own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tesched_core.model.limits import TeLimits
from tesched_core.model.outlived import OUTLIVED, Barred, Outlived
from tesched_core.model.payment import DAY_S
from tesched_core.model.resources import NO_NAME, UnixSeconds

if TYPE_CHECKING:
    from tesched_core.model.snapshot import Snapshot


def outlived_lately(known: tuple[Outlived, ...], snapshot: Snapshot, limits: TeLimits) -> tuple[Outlived, ...]:
    """Return the runs that outlived their limits in the last 24 h, those that this snapshot shows among them."""
    found = {(one.job_id, one.at): one for one in known}
    if limits.max_outlived_per_user_day:
        for job_id, traits in snapshot.traits.items():
            job = snapshot.jobs[job_id]
            if traits.rule == OUTLIVED and job.start_time is not None and traits.time_limit_s is not None:
                at = job.start_time + traits.time_limit_s
                first = found.get((job_id, at))
                if first is None or first.user == NO_NAME:
                    found[job_id, at] = Outlived(job_id=job_id, at=at, user=job.user)
    kept = [one for one in found.values() if one.at > snapshot.taken_at - DAY_S]
    return tuple(sorted(kept, key=lambda one: (one.at, one.job_id)))


def barred_users(outlived: Iterable[Outlived], limits: TeLimits, now: UnixSeconds) -> Mapping[str, Barred]:
    """Return the users who have no TE jobs now, by name."""
    most, times = limits.max_outlived_per_user_day, defaultdict[str, list[UnixSeconds]](list)
    for one in sorted(outlived, key=lambda one: one.at):
        if most and now - one.at < DAY_S:
            times[one.user].append(one.at)
    return {
        user: Barred(user=user, count=len(ats), most=most, until=ats[len(ats) - most] + DAY_S)
        for user, ats in times.items()
        if len(ats) >= most
    }
