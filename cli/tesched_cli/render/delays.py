"""Delays by TE jobs, in words and as JSON: of one job for `tesched explain`, of all for `tesched status`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from tesched_core.intake.delays import Delay
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import BoundNow, LeftOfBound
from tesched_core.model.resources import UnixSeconds
from tesched_db.delay_views import Delays, GroupDelay, JobDelay
from tesched_db.te_refused import TeRefused

from tesched_cli.common import duration

#: TE jobs named in one line before the rest is counted
NAMED = 3


def delayed(job: JobDelay) -> str:
    """Return a job's delay in words, with the TE jobs; empty if it has none."""
    parts: list[str] = []
    if job.delay.total_s > 0:
        parts.append(f"{duration(job.delay.total_s)} by TE jobs: {_parts(job.delay)}")
    if job.by_own_user.total_s > 0:
        own = duration(job.by_own_user.total_s)
        parts.append(f"{own} by TE jobs of its own user (no limit counts that): {_parts(job.by_own_user)}")
    if job.waits_for:
        parts.append(f"it waits for {_some([f'job {one}' for one in job.waits_for])} now")
    named = [f"job {one.job} of {one.user or 'an unknown user'} {duration(one.delay.total_s)}" for one in job.causes]
    return "; ".join([*parts, *([_some(named)] if named else [])])


def _some(names: Sequence[str]) -> str:
    more = [f"{len(names) - NAMED} more"] if len(names) > NAMED else []
    return ", ".join([*names[:NAMED], *more])


def delays_lines(delays: Delays, hours: float) -> Iterator[str]:
    """Yield how many jobs are delayed, the most delayed one, and the user and the account with the longest means."""
    if not delays.jobs:
        yield f"delays by TE jobs: none in the last {hours:.0f} h"
        return
    first = delays.jobs[0]
    now = f" ({delays.waiting} wait for TE jobs now)" if delays.waiting else ""
    yield (
        f"delays by TE jobs: {delays.count} job(s) preempted, back or waiting in the last {hours:.0f} h{now}, "
        f"{duration(delays.mean_s)} on average; most: job {first.job} of {first.user}, {delayed(first)}"
    )
    worst = [_group(group) for by in ("user", "account") if (group := delays.worst(by)) is not None]
    if len({(job.user, job.account) for job in delays.jobs}) > 1:
        yield f"  longest means: {', '.join(worst)}"


def share_line(held: Mapping[str, Mapping[str, int]]) -> str:
    """Return the share of the cluster that TE jobs hold, in words; empty where nothing is known of it."""
    parts = [
        f"{100 * held['te'][name] / total:.0f} % of the {word} ({held['te'][name]} of {total})"
        for name, word in (("cpu", "CPUs"), ("gpu", "GPUs"))
        if (total := held.get("all", {}).get(name, 0))
    ]
    return f"TE jobs hold {' and '.join(parts)}" if parts else ""


def bound_lines(bound: BoundNow | None, refused: TeRefused, hours: float) -> Iterator[str]:
    """Yield by how much TE jobs may delay a BE job, how near jobs are to that, and how many TE jobs waited for it.

    Nothing where nothing is bounded.
    """
    if bound is None:
        return
    longest = duration(bound.te_time_limit_s)
    said = (
        f"bound: TE jobs may delay a BE job by {bound.slowdown - 1:g} times its run time, or as one of {longest} does; "
        f"{bound.near} job(s) near that, {bound.te_waiting} TE job(s) wait for it"
    )
    first = next(iter(bound.jobs), None)
    yield f"{said}; nearest: job {first.job} of {first.user}, {left(first)}" if first else said
    least = "" if refused.whole else "at least "
    yield f"TE jobs that had to wait for guard.bound in the last {hours:.0f} h: {least}{refused.jobs}"


def left(job: LeftOfBound) -> str:
    """Rest of a job's bound, in words."""
    if job.delayed_s <= 0:
        return f"may be delayed by at most {duration(job.bound_s)}; nothing used yet"
    rest = duration(max(job.bound_s - job.delayed_s, 0.0))
    return f"delayed by {duration(job.delayed_s)} of at most {duration(job.bound_s)}, {rest} left"


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayJson:
    """Delay of one job, or a part of it, seconds."""

    lost_s: float
    away_s: float
    suspended_s: float
    bystander_s: float
    #: all of it
    total_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseJson:
    """One TE job that has delayed a job."""

    #: as squeue writes it
    job: str
    user: str
    delay: DelayJson


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDelayJson:
    """Delay of one job, by all its preemptions and waits together."""

    #: as squeue writes it
    job: str
    user: str
    account: str
    partition: str
    qos: str
    state: JobState
    #: by TE jobs of other users
    delay: DelayJson
    #: by TE jobs of its own user
    by_own_user: DelayJson
    #: the longest delay first
    causes: tuple[CauseJson, ...]
    #: since when it waits for TE jobs; null: it does not now
    waits_since: UnixSeconds | None
    #: for which TE jobs
    waits_for: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DelaysJson:
    """Delays of all jobs together."""

    #: how many there are
    count: int
    #: how many wait for TE jobs now
    waiting: int
    mean_s: float
    #: the most delayed ones
    jobs: tuple[JobDelayJson, ...]
    #: by user, account, partition and QOS
    groups: tuple[GroupDelay, ...]


def _delay(delay: Delay) -> DelayJson:
    return DelayJson(**asdict(delay), total_s=delay.total_s)


def delay_json(job: JobDelay) -> JobDelayJson:
    """Return a job's delay as JSON has it: the parts, and their sum as `total_s`."""
    return JobDelayJson(
        job=job.job,
        user=job.user,
        account=job.account,
        partition=job.partition,
        qos=job.qos,
        state=job.state,
        delay=_delay(job.delay),
        by_own_user=_delay(job.by_own_user),
        causes=tuple(CauseJson(job=one.job, user=one.user, delay=_delay(one.delay)) for one in job.causes),
        waits_since=job.waits_since,
        waits_for=job.waits_for,
    )


def delays_json(delays: Delays) -> DelaysJson:
    """Return the delays as JSON has them: the sums of all, and the most delayed jobs."""
    return DelaysJson(
        count=delays.count,
        waiting=delays.waiting,
        mean_s=delays.mean_s,
        jobs=tuple(map(delay_json, delays.jobs)),
        groups=delays.groups,
    )


def _parts(delay: Delay) -> str:
    each = (
        (delay.lost_s, "of runs lost"),
        (delay.away_s, "from notice to restart"),
        (delay.suspended_s, "suspended"),
        (delay.bystander_s, "waiting for what they held"),
    )
    return ", ".join(f"{duration(seconds)} {what}" for seconds, what in each if seconds > 0)


def _group(group: GroupDelay) -> str:
    return f"{group.by} {group.name} {duration(group.mean_s)} in {group.jobs} job(s)"
