"""Until when: the time at which what keeps a job ends, as far as it is known, for `tesched explain`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Engine
from tesched_core.guard.until import RefusedJob, ends_at
from tesched_core.model.change import HELD, STANDS, Change, Mark
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import LeftOfBound, RefusalCode
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.order import LostNode, Order, OrderState, Victim, VictimState
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_db import queries as read
from tesched_db.delays import delay_of
from tesched_db.views import JobFilter, JobStory, JobView, RefusalView

from tesched_cli.common import clock

#: Jobs of which the times are worked out; of more, those of the first ones are shown.
_MOST_JOBS = 500
#: What ends with an event, in words.
_EVENTS: Mapping[RefusalCode, str] = {
    RefusalCode.TE_LIMIT: "until TE jobs have ended, or guard.te changes",
    RefusalCode.ALREADY_LEAVING: "until that order has ended",
    RefusalCode.SUSPENDED: "until that TE job has ended",
    RefusalCode.SCRIPT_UNREAD: "until its script is read, within seconds",
    RefusalCode.MAX_PREEMPTIONS: "for good",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Until:
    """Times at which refusals of this job, and of those that were weighed for it, end."""

    memory: Memory
    limits: Limits
    jobs: Mapping[JobId, RefusedJob]
    now: UnixSeconds
    #: the last good poll
    seen_at: UnixSeconds

    def of(self, refusal: RefusalView) -> UnixSeconds | None:
        """Return until when a refusal stands; None: that is not known, or it stands no more."""
        job = self.jobs.get(refusal.job_id)
        if job is None or not refusal.stands or (refusal.code is RefusalCode.MIN_RUN_TIME and not _of_guard(refusal)):
            return None
        return ends_at(refusal.code, job, self.memory, self.limits, self.now)

    def is_over(self, at: UnixSeconds) -> bool:
        """Check whether a time has come; where no daemon polls, what ends then still stands in the store."""
        return at <= self.now

    def at(self, at: UnixSeconds) -> str:
        """Format a time at which a state ends."""
        return f"{clock(at)}, which is over" if self.is_over(at) else clock(at)

    def words(self, refusals: Sequence[RefusalView], *, leave_some_out: bool = False) -> str:
        """Return until when these stand, which have one code, to be put behind their text; empty if not known."""
        times = sorted(at for one in refusals if (at := self.of(one)) is not None)
        if times:
            first, last = self.at(times[0]), self.at(times[-1])
            if leave_some_out:
                return f" (of those kept the first until {first}, the last until {last})"
            return f" (until {first})" if first == last else f" (the first until {first}, the last until {last})"
        newest = refusals[0]
        if newest.stands and newest.behind:
            # Slurm's own estimate of its start is none: it counts on no TE job, and is not read at each poll.
            return f" (until job {newest.behind} has started or ended; when is not known)"
        return f" ({_EVENTS[newest.code]})" if newest.stands and newest.code in _EVENTS else ""


def _of_guard(refusal: RefusalView) -> bool:
    """Rounds of other policies have a shortest run time of their own."""
    return "guard.min_run_time_s" in refusal.text


def until_of(engine: Engine, story: JobStory, limits: Limits, now: UnixSeconds) -> Until:
    """Find what is known of the job and those weighed for it. Raises StoreError."""
    ids = list(dict.fromkeys(one.job_id for one in story.refusals_as_preemptor))[:_MOST_JOBS]
    others = read.jobs(engine, JobFilter(ids=frozenset(ids))) if ids else ()
    jobs = {one.job_id: _kept(one) for one in (*others, *(() if story.job.gone else (story.job,)))}
    daemon = read.daemon(engine)
    seen_at = daemon.seen_at if daemon is not None and daemon.seen_at is not None else now
    return Until(memory=read.memory(engine), limits=limits, jobs=jobs, now=now, seen_at=seen_at)


def _kept(job: JobView) -> RefusedJob:
    array = job.label.partition("_")[0]
    return RefusedJob(
        job_id=job.job_id,
        array_job_id=JobId(int(array)) if "_" in job.label and array.isdecimal() else None,
        user=job.user,
        account=job.account,
        nodes=job.nodes,
        started_at=job.start_time if job.nodes else None,
        patience_until=job.patience_until,
    )


def change_lines(job: JobView, until: Until) -> Iterator[str]:
    """Yield what tesched has set of the job in Slurm that ends at some time, and when."""
    if job.gone:
        return
    for what, at, words in _changes(job, until):
        yield f"  {what:<7} {words}{until.at(at) if words.endswith('until ') else clock(at)}"


def _changes(job: JobView, until: Until) -> Iterator[tuple[str, UnixSeconds, str]]:
    """Yield of each such change its name, the time, and what goes before the time."""
    find = partial(_change, until.memory, job)
    mark: Change[Mark] | None = find(Field.MARK)
    if mark is not None and not mark.value.ended:
        rank = f"marked, rank {mark.value.order}: Slurm may preempt it for TE jobs"
        if mark.value.until is not None and mark.value.until < mark.at + until.limits.mark_for_s:
            yield "mark", mark.value.until, f"{rank}, by guard.bound until "
        else:
            renewed = "guard.mark_for_s, renewed by the daemon for as long as it stands"
            yield "mark", mark.at + until.limits.mark_for_s, f"{rank} ({renewed}) until "
    begin: Change[int] | None = find(Field.BEGIN)
    if begin is not None:
        text = "put later by tesched, while another victim of its order holds its nodes, until "
        yield "begin", float(begin.value), text
    hold: Change[int] | None = find(Field.HOLD)
    if hold is not None and hold.by is None and hold.value in {HELD, STANDS}:
        since = hold.at or job.first_seen
        yield "hold", since, "held by tesched until it may start, as is said below; since "


def _change(memory: Memory, job: JobView, lever: str) -> Change[Any] | None:
    one = memory.changes_of(lever).get(job.job_id)
    return None if one is None or one.restored or one.dry else one


def bound_ends(story: JobStory, bound: LeftOfBound, until: Until) -> str:
    """Time from which a job that TE jobs keep waiting may not be delayed any more; empty for any other job."""
    waits = story.job.state is JobState.PENDING and delay_of(story).waits_for
    return f": no TE job delays it after {until.at(until.seen_at + bound.bound_s - bound.delayed_s)}" if waits else ""


def order_ends(order: Order, until: Until) -> str:
    """Time at which an order that is under way is given up, or notifies a victim, at the latest."""
    if order.ended_at is not None or order.started_at is not None:
        return ""
    if (awaited := lost_nodes_until(order, until)) is not None:
        return f", awaits its nodes until {until.at(awaited)}"
    if order.waits_until is not None:
        return f", awaits free resources until {until.at(order.waits_until)}"
    comma = "," if until.is_over(order.expires_at) else ""
    return f", until {until.at(order.expires_at)}{comma} unless it starts or a victim takes longer to end"


def lost_nodes_until(order: Order, until: Until) -> UnixSeconds | None:
    """Time until which an order awaits nodes that are out of service; None: it awaits none, or a victim is to leave."""
    left_at = order.all_left_at if _awaited(order) else None
    return None if left_at is None else left_at + until.limits.order_timeout_s


def _awaited(order: Order) -> Sequence[LostNode]:
    return order.lost_nodes if order.state is OrderState.OPEN else ()


def lost_nodes(order: Order, until: Until) -> Iterator[str]:
    """Yield which nodes of an order are out of service, what that means for its job, and until when it awaits them."""
    for one in _awaited(order):
        awaited = lost_nodes_until(order, until)
        limit = f"{until.limits.order_timeout_s:.0f} s after its victims have left"
        at = until.at(awaited) if awaited is not None else limit
        yield f"  node {one} is out of service: the job is bound to no nodes meanwhile; awaited until {at}"


def grace_ends(victim: Victim, until: Until) -> Iterator[str]:
    """Yield when a victim that has its notice is requeued, or cancelled."""
    if victim.state is VictimState.NOTICED and victim.noticed_at is not None and victim.left_at is None:
        at = victim.noticed_at + victim.grace_period_s
        what, why = ("cancelled", ", by its owner's word (preempted=end)") if victim.ends else ("requeued", "")
        if until.is_over(at):
            yield f"  its grace period ended at {clock(at)}: it was to be {what} then{why}"
        else:
            yield f"  its grace period ends at {clock(at)}: then it is {what}{why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UntilJson:
    """A time at which a limit or a wait ends."""

    #: as squeue writes it
    job: str
    #: the TE job that it is about, as squeue writes it; null: it is about none
    preemptor: str | None
    #: a refusal's code, a change's name, "grace_period", or "lost_nodes": of its order, which are out of service
    what: str
    at: UnixSeconds
    #: it has ended
    over: bool


def until_json(story: JobStory, until: Until) -> Iterator[UntilJson]:
    """Yield each time that is known, by refusal and by change, and whether it is over."""
    for job, preemptor, what, at in _known(story, until):
        yield UntilJson(job=job, preemptor=preemptor, what=what, at=at, over=until.is_over(at))


def _known(story: JobStory, until: Until) -> Iterator[tuple[str, str | None, str, UnixSeconds]]:
    """Yield each time with its job, what that is for, and what ends."""
    for one in (*story.refusals_as_preemptor, *story.refusals_as_candidate):
        if (at := until.of(one)) is not None:
            yield one.job_label, one.preemptor_label, one.code, at
    if not story.job.gone:
        for what, at, words in _changes(story.job, until):
            if words.endswith("until "):
                yield story.job.label, None, what, at
    for view in story.orders_as_preemptor:
        if (awaited := lost_nodes_until(view.order, until)) is not None:
            yield story.job.label, None, "lost_nodes", awaited
    for view in story.orders_as_victim:
        for victim in view.order.victims:
            if victim.job_id == story.job.job_id and [*grace_ends(victim, until)]:
                at = (victim.noticed_at or 0.0) + victim.grace_period_s
                yield story.job.label, view.preemptor_label, "grace_period", at
