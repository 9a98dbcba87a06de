"""Marking: which running BE jobs Slurm's plugin may preempt, in which order, and what it has preempted.

With `guard.lever = "plugin"` no order asks a victim. The policy ranks the jobs that may be victims, before a TE job is
there; the limits that count hold by how many are marked: if Slurm preempts all marked jobs before the next poll, no
limit is passed. What Slurm did is seen, not believed: a marked job that is back in the queue, and a TE job that waited
then, become an order with one victim, which pays as any other does, though the TE job may have started elsewhere. One
that tesched has put back itself, for a turn, is none.

A job that has declared a signal is not marked: what Slurm makes of a job that ends in its grace period depends on its
release and on the exit status, and some are not run again. Of any other job Slurm ends the run and puts it back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tesched_core.context import CycleContext
from tesched_core.guard.budget import Counted, CountedBy, Tally
from tesched_core.guard.count_limits import passed, reached
from tesched_core.guard.eligibility import eligible_victims
from tesched_core.guard.misuse import barred_users
from tesched_core.intake import patience
from tesched_core.intake.pending_reason import resources_would_not_help
from tesched_core.model.actions import OrderId
from tesched_core.model.change import Change, Mark, TeRules
from tesched_core.model.cluster import Job
from tesched_core.model.decision import Block, Refusal, RefusalCode, Refusals, Why
from tesched_core.model.field import Field
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory
from tesched_core.model.notice import Target
from tesched_core.model.order import Departure, Ending, Order, OrderState, Victim, VictimState
from tesched_core.model.payment import Paid
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.size import Size, size_of
from tesched_core.model.snapshot import JobClass
from tesched_core.orders.advance import leave
from tesched_core.orders.came_back import waiting_after_return, why_it_waits
from tesched_core.orders.turnover import wait_for_any
from tesched_core.policy import MarkJobs, Policy, View

#: Scores below this one become whole numbers of so many parts, since Slurm's are 31 bits wide.
LARGEST, FINENESS = 2000.0, 1_000_000
#: Users that the plugin bars at most: with more of them no job is marked.
MOST_BARRED = 256
#: Seconds for which a TE job may yet start in the place of a marked job that is back in the queue: KillWait and more.
STARTS_WITHIN_S = 60.0


def marked(policy: Policy[Any], state: object, view: View, context: CycleContext) -> tuple[MarkJobs, Refusals, str]:
    """Return the marks: of the jobs that may be victims, lowest score first, as many as the limits have left.

    With them, why Slurm alone decides for each waiting TE job and why a running job is not marked; and what went wrong
    with the policy, in words: then no job is marked.
    """
    scores, failed = _ranked(policy, state, view)
    if scores is None:
        refusals = (_of_trial(job, (RefusalCode.POLICY_FAILED, failed)) for job in view.waiting)
        return MarkJobs(marks={}), Refusals(refusals), failed
    order = _order_of(scores)
    running, memory, limits = view.running, view.memory, context.limits
    # The plugin holds the least run time by itself, so that a job need not be marked anew when it has run so long.
    at_once = replace(limits, min_run_time_s=0.0)
    nodes, deadlines = context.columns.capacity.index, context.deadlines
    eligible = eligible_victims(running, memory, at_once, context.now, nodes, deadlines=deadlines)
    if deadlines is not None:
        eligible = eligible.for_te_of(deadlines.te_time_limit_s)
    whys, why = [*eligible.whys, *_SPARED], eligible.why.copy()
    tally = Tally.of(memory.paid, memory.open_orders(), context.now)
    barred = _barred(tally, limits, view.waiting)
    for job, mark in _perhaps_preempted(memory, context):
        tally.add(_payment(job, mark.started_at, context.now), context.now)
    marks: dict[JobId, Mark] = {}
    for row in np.lexsort((running.job_id, scores)).tolist():
        if why[row] >= 0:
            continue
        job = context.snapshot.jobs[JobId(int(running.job_id[row]))]
        payment = _payment(job, float(running.started[row]), context.now)
        spared = _why_not(job, context)
        if spared is None and (over := passed(tally, (payment,), limits)) is not None:
            spared = over.code
        if spared is not None:
            why[row] = len(eligible.whys) + _SPARED_BY_CODE[spared]
            continue
        tally.add(payment, context.now)
        marks[job.job_id] = Mark(
            order=int(order[row]),
            score=float(scores[row]),
            grace_s=0.0,
            restarts=job.restarts,
            nodes=job.nodes,
            started_at=float(running.started[row]),
            size=_size(job, context),
            until=None if deadlines is None else deadlines.victim_until(job),
        )
    no_te_jobs = frozenset([*barred, *barred_users(memory.outlived, limits.te, context.now)])
    if len(no_te_jobs) > MOST_BARRED:
        marks = {}
    wait_s = wait_for_any(context)
    came_back = waiting_after_return(memory, limits, context.now)
    told: list[Refusal | Block] = [
        _of_trial(
            job,
            barred.get(job.user)
            or _why_it_waits_again(job, memory, came_back, limits)
            or patience.why_it_waits(job, context.snapshot.traits[job.job_id], context.now)
            or _waits_for_slurm(job, len(marks), wait_s, context),
        )
        for job in view.waiting
    ]
    if view.waiting:
        rows = np.flatnonzero(why >= 0)
        rows = rows[np.argsort(running.job_id[rows])]
        # For the first of them: it is the same for the others.
        told.append(
            Block(
                preemptor=view.waiting[0].job_id,
                job_id=running.job_id[rows],
                why=why[rows],
                whys=whys,
                score=np.asarray(scores[rows], dtype=np.float64),
            )
        )
    rules = TeRules(barred=no_te_jobs, wait_s=wait_s, came_back=tuple(came_back.values()))
    return MarkJobs(marks=marks, te_rules=rules), Refusals(told), ""


def _size(job: Job, context: CycleContext) -> Size:
    """Resources that the job has; those of a run that is marked already are known."""
    before: Change[Mark] | None = context.changes_of(Field.MARK).get(job.job_id)
    known = before is not None and before.value.restarts == job.restarts and not before.value.ended
    return before.value.size if known and before is not None and before.value.size is not None else size_of(job)


def _perhaps_preempted(memory: Memory, context: CycleContext) -> Iterator[tuple[Job, Mark]]:
    """Yield the marked jobs that are leaving or back in the queue before it is known whether Slurm has preempted them.

    They count as if it had: else others would be marked in their place, and more would leave than the limits allow.
    """
    ours = _requeued_by(memory.open_orders())
    for job_id, one in context.changes_of(Field.MARK).items():
        job = context.snapshot.jobs.get(job_id)
        if job is None or one.order_id is not None or (job_id, one.value.restarts) in ours:
            continue
        if job.completing or job.restarts > one.value.restarts:
            yield job, one.value


def _why_not(job: Job, context: CycleContext) -> RefusalCode | None:
    """Reason that a job that may be a victim is not marked, whatever the limits are."""
    if context.snapshot.traits[job.job_id].notice_signal:
        return RefusalCode.DECLARES_SIGNAL
    before = context.changes_of(Field.MARK).get(job.job_id)
    put_back = before is not None and before.order_id is None and job.restarts > before.value.restarts
    return RefusalCode.COOL_DOWN if put_back else None


def _ranked(policy: Policy[Any], state: object, view: View) -> tuple[NDArray[np.float64] | None, str]:
    """Return the policy's scores, or what went wrong, in words: a policy may be a site's own."""
    try:
        scores = policy.rank(view, state)
    except Exception as error:  # noqa: BLE001 - whatever a site's own code raises, the daemon goes on
        return None, f"the policy {policy.name} has failed: {type(error).__name__}: {error}"
    if scores is None or np.shape(scores) != (len(view.running),) or not np.isfinite(scores).all():
        return None, f"the policy {policy.name} has failed: it gave no finite score for each running best-effort job"
    return scores, ""


def _order_of(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return each job's place as Slurm has it, a whole number: by its score, so that it stays when other jobs come.

    Where scores are too large or below zero, it is the rank.
    """
    if ((scores >= 0) & (scores < LARGEST)).all():
        return np.rint(scores * FINENESS).astype(np.int64)
    _, ranks = np.unique(scores, return_inverse=True)
    return ranks.astype(np.int64)


def _payment(job: Job, started_at: float, now: UnixSeconds) -> Paid:
    """Payment of a job that Slurm preempts now; for which TE job is not known yet."""
    return Paid(
        at=now,
        job_id=job.job_id,
        user=job.user,
        account=job.account,
        nodes=job.nodes,
        node_s=len(job.nodes) * max(now - started_at, 0.0),
    )


def _barred(tally: Tally, limits: Limits, waiting: Sequence[Job]) -> dict[str, Why]:
    """Users whose TE jobs have made as many jobs leave as the limits allow, and why; before any mark.

    A limit of an account, or of one TE job, bars the users that have such a job waiting: the plugin knows users.
    """
    causes: list[tuple[str, Counted, str]] = [
        *((str(by[1]), by, "its user") for by in tally.counts if by[0] is CountedBy.TE_USER),
        *((job.user, (CountedBy.TE_ACCOUNT, job.account), "its account") for job in waiting),
        *((job.user, (CountedBy.TE_JOB, job.job_id), "one TE job of its user") for job in waiting),
    ]
    found: dict[str, Why] = {}
    for user, by, cause in causes:
        if over := reached(tally, by, limits):
            made = f"{cause} made {over.count:g} job(s) leave in the last hour; {over.key} allows no more"
            found.setdefault(user, (over.code, f"Slurm preempts none for it: {made}"))
    return found


_SPARED: tuple[Why, ...] = (
    (RefusalCode.DECLARES_SIGNAL, "it is not marked, as it has declared a signal: Slurm may not put it back after it"),
    (RefusalCode.COOL_DOWN, "it was put back a moment ago, and it is not known yet whether Slurm preempted it"),
    (RefusalCode.HOUR_LIMIT, "as many jobs are marked as guard.max_preemptions_per_hour has left"),
    (RefusalCode.BUDGET, "the marked jobs have run as long as guard.max_lost_node_hours_per_day has left"),
    (RefusalCode.USER_LIMIT, "as many jobs of its user are marked as guard.max_preemptions_per_user_hour has left"),
    (
        RefusalCode.ACCOUNT_LIMIT,
        "as many jobs of its account are marked as guard.max_preemptions_per_account_hour has left",
    ),
    (
        RefusalCode.NODE_LIMIT,
        "as many jobs on a node of its are marked as guard.max_preemptions_per_node_hour has left",
    ),
)
_SPARED_BY_CODE = {code: place for place, (code, _) in enumerate(_SPARED)}


def _of_trial(job: Job, why: Why) -> Refusal:
    return Refusal(job_id=job.job_id, preemptor=job.job_id, code=why[0], text=why[1])


def _why_it_waits_again(job: Job, memory: Memory, came_back: Collection[JobId], limits: Limits) -> Why | None:
    one = memory.job(job.job_id).futile
    return why_it_waits(one, limits) if one is not None and job.job_id in came_back else None


def _waits_for_slurm(job: Job, marked_jobs: int, wait_s: int, context: CycleContext) -> Why:
    plugin = context.snapshot.settings.plugin
    if plugin is None:
        return RefusalCode.SLURM_DECIDES, "Slurm obeys no marks (`tesched doctor` says why), so it preempts none for it"
    if not plugin.takes_for_te(job):
        text = (
            f"Slurm preempts none for it: neither its partition ({','.join(job.partitions)}) nor its QOS "
            f"({job.qos or 'none'}) is one of TE jobs in slurm.conf (tesched_te_partition, tesched_te_qos)"
        )
        return RefusalCode.NO_TE_TO_SLURM, text
    eligible = job.submit_time if job.eligible_time is None else job.eligible_time
    if context.now - eligible < wait_s:
        return RefusalCode.AWAITS_FREE, f"so much comes free by itself that no job is preempted for it for {wait_s} s"
    text = f"{marked_jobs} jobs are marked, and Slurm decides whether it preempts any of them"
    return RefusalCode.SLURM_DECIDES, text


def see_what_slurm_did(memory: Memory, context: CycleContext) -> Memory:
    """Return the memory with an order for each preemption by Slurm of a marked job; its mark is spent.

    So is the mark of a run that tesched itself has put back: Slurm had no part in that.
    """
    marks = context.changes_of(Field.MARK)
    orders, next_order = dict(memory.orders), memory.next_order
    ours = _requeued_by(memory.orders.values())
    for job_id, one in list(marks.items()):
        job = context.snapshot.jobs.get(job_id)
        if job_id in context.absent or one.order_id is not None:
            continue
        if job is None or job.restarts <= one.value.restarts:
            # Of a run that is leaving it is not known yet why; any other mark goes with its line in the file.
            if one.restored and (job is None or job.finished or (job.on_nodes and not job.completing)):
                del marks[job_id]
            continue
        if (job_id, one.value.restarts) in ours:  # what it pays is that order's
            marks[job_id] = replace(one, order_id=ours[job_id, one.value.restarts])
            if one.restored:
                del marks[job_id]
            continue
        cause = _cause(job, one, context)
        if cause is None and context.now - job.submit_time <= STARTS_WITHIN_S:
            continue  # a TE job may start in its place in a moment
        if cause is not None:
            orders[next_order] = _order(next_order, job, cause, one, context)
            marks[job_id] = replace(one, order_id=next_order)
            next_order = OrderId(next_order + 1)
        if one.restored:
            del marks[job_id]
    if next_order == memory.next_order:
        return memory
    return replace(memory, orders=orders, next_order=next_order)


def _requeued_by(orders: Iterable[Order]) -> dict[tuple[JobId, int], OrderId]:
    """Runs, by job and restarts, that tesched itself puts back: for a turn, or by a lever that was set before."""
    return {
        (victim.job_id, victim.restarts): order.order_id
        for order in orders
        for victim in order.victims
        if victim.requeue_sent_at is not None and victim.state is not VictimState.SPARED
    }


def _waited_then(job: Job, context: CycleContext) -> tuple[Job, ...]:
    """Return the TE jobs that waited, by whole seconds, when a marked job was put back."""
    return tuple(
        other
        for other in context.snapshot.jobs.values()
        if other.submit_time <= job.submit_time + 1 and context.snapshot.job_class(other.job_id) is JobClass.TE
    )


def _cause(job: Job, one: Change[Mark], context: CycleContext) -> tuple[Job, Ending] | None:
    """Return the TE job for which a marked job was put back, and what came of it; None: not known, or none.

    Slurm does not say for which job it has preempted one, or that it has. So a TE job that waited then counts, if in
    the end none has started in the job's place: first one that has started elsewhere, then one that still waits.
    """
    there, trials = set(one.value.nodes), _waited_then(job, context)
    started = [other for other in trials if other.start_time is not None and other.start_time >= job.submit_time - 1]
    here = [other for other in started if not there.isdisjoint(other.last_nodes)]
    if here:
        return _likeliest(here, job), Ending.STARTED_HERE
    if context.now - job.submit_time <= STARTS_WITHIN_S:
        return None
    if started:
        return min(started, key=_first_started), Ending.STARTED_ELSEWHERE
    waiting = [other for other in trials if other.pending and not resources_would_not_help(other)]
    return (min(waiting, key=lambda other: other.job_id), Ending.EXPIRED) if waiting else None


def _likeliest(some: Sequence[Job], job: Job) -> Job:
    """Select the TE job that counts. By one of its own user a job gains nothing, so that is taken first."""
    return min(some, key=lambda other: (other.user != job.user, *_first_started(other)))


def _first_started(job: Job) -> tuple[float, JobId]:
    return job.start_time or 0.0, job.job_id


def _order(order_id: OrderId, job: Job, cause: tuple[Job, Ending], one: Change[Mark], context: CycleContext) -> Order:
    trial, ending = cause
    mark, here = one.value, ending is Ending.STARTED_HERE
    past = context.draft.job(job.job_id).past
    victim = Victim(
        job_id=job.job_id,
        state=VictimState.REQUEUING,
        restarts=mark.restarts,
        grace_period_s=mark.grace_s,
        notice_signal="",
        notice_target=Target.BATCH,
        score=mark.score,
        why=f"it was marked with a score of {mark.score:.3f}, and Slurm {'' if here else 'seems to have '}preempted it",
        nodes=mark.nodes,
        started_at=mark.started_at,
        queued_at=past.submitted_at if past is not None else mark.started_at,
        user=job.user,
        account=job.account,
        for_user=trial.user,
        for_account=trial.account,
        size=mark.size,
    )
    order = Order(
        order_id=order_id,
        preemptor=trial.job_id,
        state=OrderState.SETTLING,
        created_at=context.now,
        expires_at=context.now,
        nodes=mark.nodes,
        victims=(victim,),
        started_at=trial.start_time,
        ending=ending,
    )
    where = ",".join(mark.nodes)
    text = f"Slurm freed resources for job {trial.label} on {where}"
    if not here:
        text = f"Slurm put job {job.label} back while job {trial.label} waited, which has not started on {where}"
    context.order_step(None, order, text)
    left = leave(victim, Departure.REQUEUED, order, context)
    if here:
        put_back_at = min(job.submit_time, context.now)
        paid = context.draft.paid
        paid[-1] = replace(paid[-1], preemptor_restarts=trial.restarts, put_back_at=put_back_at)
    return replace(order, victims=(left,))
