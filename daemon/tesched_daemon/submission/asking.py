"""What would happen to a job if it were submitted now: the daemon's own step on a snapshot with that job in it.

Principle
    The pretended job is put into a snapshot of now, classified by the same rules, and `step` is called with the memory
    in the state store: what it decides is what the daemon would decide. Classes and notices of running jobs are those
    that the daemon has recorded. Whether free resources are enough, and when running jobs' time limits free some, is
    Slurm's own word (`sbatch --test-only`). Nothing is written, and nothing submitted.

Limits
    The job is taken to be seen by Slurm at the head of its queue, where limits of users and accounts show; Slurm's word
    has none of these, so they are compared here (`limits_ahead.py`). Reports of running jobs and speeds of workloads
    are not read.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Engine
from tesched_core.guard.until import RefusedJob, ends_at
from tesched_core.intake.classify import classify
from tesched_core.intake.patience import patience_ends
from tesched_core.intake.pending_reason import resources_would_not_help
from tesched_core.model.actions import Failure
from tesched_core.model.cluster import Job
from tesched_core.model.decision import Decision, Refusal, RefusalCode
from tesched_core.model.limits import YieldBy
from tesched_core.model.memory import Memory
from tesched_core.model.order import Order
from tesched_core.model.resources import UnixSeconds
from tesched_core.model.snapshot import JobClass, Snapshot
from tesched_core.placement.columns_of import columns_of
from tesched_core.placement.deadlines import Deadlines
from tesched_core.step import step
from tesched_db import queries as read
from tesched_db.liveness import DaemonState, state_of
from tesched_db.views import DaemonView
from tesched_policies.registry import STATES
from tesched_slurm.run_command import Commands
from tesched_slurm.sbatch_asked import NEVER_S, NotTaken

from tesched_daemon.config import Config
from tesched_daemon.rate_limited import longest_wait_s
from tesched_daemon.settings import Mode
from tesched_daemon.submission.as_recorded import as_recorded
from tesched_daemon.submission.foretold import Foretold, Obstacle, Verdict, VictimCost
from tesched_daemon.submission.pretended import pretended_job
from tesched_daemon.submission.read import declared_by
from tesched_daemon.submission.reason_word import RESOURCES
from tesched_daemon.submission.slurm_limits import slurm_limits
from tesched_daemon.submission.slurms_answer import refusal, refuse_half_a_view, slurms_answer, waits_for_nodes
from tesched_daemon.submission.sources import SubmissionError, read_words
from tesched_daemon.submission.user_limits import limits_of_user
from tesched_daemon.wiring import check_conf, connect

#: seconds from now within which a start that Slurm foretells counts as one at once
AT_ONCE_S = 5.0
#: options with which sbatch submits nothing
_NOTHING = ("help", "usage", "version")
#: jobs that are named of one reason
_NAMED = 12
#: what keeps a TE job even from free resources
_HELD_FOR = frozenset({RefusalCode.TE_LIMIT, RefusalCode.BOUND})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """The pretended job, and what is known beside it."""

    job: Job
    #: classified, with the job in it
    snapshot: Snapshot
    #: the daemon's
    memory: Memory
    config: Config
    #: the longest time between two polls, seconds
    wait_s: float
    #: options that neither we nor Slurm's own word count
    uncounted: tuple[str, ...]
    #: its begin time is read by Slurm alone
    begins_by_slurm: bool


def foretell(words: Sequence[str], config: Config, engine: Engine) -> Foretold:
    """Foretell what sbatch would do with these words. Raises SubmissionError, StartError and StoreError."""
    said = read_words("ask", words)
    if without := next((name for name in _NOTHING if name in said.by_name), ""):
        raise SubmissionError(f"--{without}: with it sbatch submits nothing, so there is nothing to say")
    commands = Commands(timeout_s=config.slurm.timeout_s, slurm_conf=config.slurm.conf)
    check_conf(config)
    seen = connect(config).observer.observe()
    if isinstance(seen, Failure):
        raise SubmissionError(f"Slurm cannot be seen: {seen.message}")
    refuse_half_a_view(seen.settings)
    answer = slurms_answer(said, config)
    pretended = pretended_job(said, seen, commands)
    job = pretended.job
    limits = slurm_limits(pretended, said.by_name, answer, seen, commands)
    if isinstance(answer, NotTaken) and (answer.by_limits or not waits_for_nodes(job, seen)):
        raise refusal(said, answer, limits.lines if answer.by_limits else ())
    if limits.reason and job.reason == RESOURCES:
        job = replace(job, reason=limits.reason)
    word = None if isinstance(answer, NotTaken) else answer
    traits = classify(job, config.classes, declared_by(said.by_name, said.text, config.classes))
    snapshot = as_recorded(seen, job, traits, config, engine)
    found = Foretold(
        script=said.where,
        user=job.user,
        partition=",".join(job.partitions),
        job_class=traits.job_class,
        rule=traits.rule,
        not_followed=traits.not_followed,
        at=snapshot.taken_at,
        slurm=word,
        poll_s=config.loop.poll_interval_s,
        slurm_limits=limits.lines,
        slurm_limits_unread=limits.unread,
        notes=[*pretended.notes, *limits.notes],
    )
    if isinstance(answer, NotTaken):
        found.because.append(f"Slurm finds no nodes for it as they are now: {answer.said}")
    elif word is None:
        found.notes.append("what sbatch --test-only says has another form than known: Slurm's own word is not counted")
    elif word.partition not in {"", *job.partitions}:
        text = (
            f"Slurm's own word is for partition {word.partition}: what the site's job_submit plugin changes is not seen"
        )
        found.notes.append(text)
    paused = read.status(engine, cycles=1, deeds=1).paused
    why_paused = f"tesched is {paused}" if paused else ""
    found.mode, found.not_enforced = _enforced(read.daemon(engine), config, why_paused)
    question = _Question(
        job=job,
        snapshot=snapshot,
        memory=read.memory(engine, STATES).without_dry_runs(),
        config=config,
        wait_s=longest_wait_s(config.loop, seen.settings.rate_limit),
        uncounted=pretended.uncounted,
        begins_by_slurm=any(one.startswith("--begin=") for one in pretended.unread),
    )
    if traits.job_class is JobClass.TE:
        _as_te(found, question, pretended.unread, why_paused)
    else:
        _as_other(found, question)
    return found


def _enforced(daemon: DaemonView | None, config: Config, paused: str) -> tuple[str, str]:
    """Return the mode, and why nothing is begun now; empty if it is."""
    mode = daemon.mode if daemon is not None else config.mode.value
    state = state_of(daemon, time.time())
    if mode != Mode.ENFORCE:
        return mode, f"the daemon is in mode {mode}"
    if state is DaemonState.NEVER:
        return mode, "no daemon has run yet"
    if state is not DaemonState.WELL:
        last = "" if daemon is None or daemon.seen_at is None else f" (the last poll was {_ago(daemon.seen_at)} ago)"
        return mode, f"the daemon does not act: {state.value}{last}"
    return mode, paused


def _ago(at: UnixSeconds) -> str:
    return f"{max(time.time() - at, 0):.0f} s"


def _starts_by_slurm(found: Foretold) -> bool:
    return found.slurm is not None and found.slurm.start_at <= found.at + AT_ONCE_S


def _slurm_start(found: Foretold) -> UnixSeconds | None:
    """Time at which Slurm would start it by itself, by running jobs' time limits; None: never, or not known."""
    return found.slurm.start_at if found.slurm is not None and found.slurm.start_at <= found.at + NEVER_S else None


def _ahead(question: _Question) -> list[Job]:
    """Return the pending jobs of its partitions that Slurm would start, were resources free."""
    mine = {*question.job.partitions}
    return [
        one
        for one in question.snapshot.jobs.values()
        if one.job_id != question.job.job_id
        and one.pending
        and not mine.isdisjoint(one.partitions)
        and resources_would_not_help(one) is None
    ]


def _as_other(found: Foretold, question: _Question) -> None:
    """Say when a job starts for which no victim leaves: Slurm alone decides."""
    job = question.job
    why = resources_would_not_help(job) if job.reason != RESOURCES else None
    if why is None:
        _by_slurm_alone(found, question)
        return
    found.reasons.append(Obstacle(code=why[0], text=why[1]))
    found.not_before = job.eligible_time if why[0] is RefusalCode.BEGIN_TIME else None


def _by_slurm_alone(found: Foretold, question: _Question) -> None:
    ahead = _ahead(question)
    if found.slurm is None and not found.because:
        found.verdict = Verdict.UNREAD
    elif not _starts_by_slurm(found):
        text = "resources are not free for it: it waits for them in Slurm's queue"
        if question.begins_by_slurm:
            text = "Slurm starts it later: its begin time has not come, or resources are not free for it"
        # Where Slurm finds no nodes, that is said already.
        found.because = found.because or [text]
        found.not_before = _slurm_start(found)
    elif question.uncounted:
        found.verdict = Verdict.UNSURE
        found.because.append(
            f"not understood here, and not counted in Slurm's own word: {', '.join(question.uncounted)}"
        )
    elif ahead:
        found.verdict = Verdict.BEHIND
        names = ", ".join(one.label for one in ahead[:_NAMED]) + (" and more" if len(ahead) > _NAMED else "")
        found.because.append(f"jobs of its partition that wait for resources, too: {len(ahead)} ({names})")
    else:
        _at_once(found)


def _at_once(found: Foretold) -> None:
    """Take Slurm's word that it starts it now."""
    preempts = found.slurm.preempts if found.slurm is not None else ""
    found.verdict = Verdict.BY_SLURM if preempts else Verdict.FREE
    if preempts:
        found.because.append(f"Slurm itself preempts: job {preempts}")


def _as_te(found: Foretold, question: _Question, unread: Sequence[str], paused: str) -> None:
    """Say what the daemon does for a TE job."""
    job, snapshot, memory = question.job, question.snapshot, question.memory
    found.limits = [*limits_of_user(job, snapshot, question.config.guard, memory)]
    if unread:
        text = "whether victims would leave for it is not said, and Slurm's own word stands"
        found.notes.append(f"not understood here: {', '.join(unread)}; {text}")
        _as_other(found, question)
        return
    # The pause keeps the daemon from acting; what it would do is said all the same.
    after, decision = step(
        memory, snapshot, question.config.policy.entries(), question.config.guard, longest_wait_s=question.wait_s
    )
    new = (one for number, one in after.orders.items() if number not in memory.orders)
    order = next((one for one in new if one.preemptor == job.job_id), None)
    _take_refusals(found, question, decision)
    held = any(one.code in _HELD_FOR for one in found.reasons)
    if paused:
        found.reasons.insert(0, Obstacle(code=RefusalCode.PAUSED, text=paused))
    if job.reason != RESOURCES or (held and not found.not_enforced):
        found.candidates = []
        found.not_before = job.eligible_time if job.reason == "BeginTime" else _first_end(found.reasons)
    elif _starts_by_slurm(found) and not _ahead(question):
        found.candidates = []
        _at_once(found)
        if held:
            found.because.append("were that enforced, it would wait for what is said below")
        else:
            found.reasons = []
    elif order is None or order.waits:
        _without_victims(found, question, order)
    elif order.victims:
        _by_preemption(found, question, order)
    elif found.not_enforced:
        _by_slurm_alone(found, question)
    else:
        found.verdict, found.nodes = Verdict.FREE, order.nodes
        found.because.append("no victim is needed: resources are free, and the daemon puts it first in its queue")


def _without_victims(found: Foretold, question: _Question, order: Order | None) -> None:
    """Say what comes of a TE job for which none leaves now."""
    if order is not None and order.waits_until is not None and not found.not_enforced:
        found.not_before = order.waits_until
        text = "it is put first in its queue, and awaits resources that come free by themselves; then victims leave"
        found.because.append(text)
        return
    _by_slurm_alone(found, question)
    if found.verdict is not Verdict.WAITS:
        return
    if question.config.guard.lever is YieldBy.PLUGIN:
        found.because = ["guard.lever is plugin: Slurm itself preempts marked jobs for it, which its own word counts"]
    ends = (_first_end(found.reasons), _first_end(found.candidates), found.not_before)
    found.not_before = min((at for at in ends if at is not None and at > found.at), default=None)


def _first_end(reasons: Iterable[Obstacle]) -> UnixSeconds | None:
    return min((one.until for one in reasons if one.until is not None), default=None)


def _by_preemption(found: Foretold, question: _Question, order: Order) -> None:
    """Say which jobs leave for it, and what that costs each of them."""
    snapshot, memory, limits = question.snapshot, question.memory, question.config.guard
    columns = columns_of(replace(snapshot, leave_times=memory.leave_times))
    deadlines = Deadlines.of(memory, snapshot, limits, columns.capacity, question.wait_s)
    for victim in order.victims:
        job = snapshot.jobs[victim.job_id]
        left = deadlines.deadline(job) if deadlines is not None else None
        before = memory.job(victim.job_id)
        found.victims.append(
            VictimCost(
                job=job.label,
                name=job.name,
                user=job.user,
                nodes=victim.nodes,
                why=victim.why,
                by_suspending=victim.by_suspending,
                ran_s=max(snapshot.taken_at - victim.started_at, 0.0),
                notice_signal=victim.notice_signal,
                grace_s=float(columns.running.grace_s[columns.running.row_of[victim.job_id]]),
                preempted=before.preemptions,
                most_preempted=snapshot.traits[victim.job_id].may_be_preempted(
                    limits.most_preemptions(
                        gets_notice=snapshot.traits[victim.job_id].gets_notice,
                        preempted=before.preemptions,
                        lost=before.lost_runs,
                    )
                ),
                of_own_user=victim.of_own_user,
                left_of_bound_s=None if left is None else max(left.bound_s - left.delayed_s, 0.0),
            )
        )
    found.nodes = order.nodes
    found.within_s = max(0.0 if one.by_suspending else one.grace_s for one in found.victims)
    found.verdict = Verdict.WOULD if found.not_enforced else Verdict.PREEMPTS
    found.not_before = _slurm_start(found) if found.not_enforced else None


def _take_refusals(found: Foretold, question: _Question, decision: Decision) -> None:
    """Take over the refusals of the job, and those of candidates, one for each code."""
    job, jobs = question.job, question.snapshot.jobs
    groups: dict[RefusalCode, list[Refusal]] = defaultdict(list)
    for one in decision.refusals:
        if one.preemptor != job.job_id or one.code is RefusalCode.NOTE:
            continue
        if one.job_id == job.job_id:
            found.reasons.append(Obstacle(code=one.code, text=one.text, until=_ends(one.code, job, found, question)))
        else:
            groups[one.code].append(one)
    for code, members in groups.items():
        known = [jobs[one.job_id] for one in members if one.job_id in jobs]
        times = [at for one in known if (at := _ends(code, one, found, question)) is not None]
        labels = tuple(one.label for one in known[:_NAMED])
        found.candidates.append(
            Obstacle(code=code, text=members[0].text, jobs=labels, count=len(members), until=min(times, default=None))
        )


def _ends(code: RefusalCode, job: Job, found: Foretold, question: _Question) -> UnixSeconds | None:
    kept = RefusedJob(
        job_id=job.job_id,
        array_job_id=job.array_job_id,
        user=job.user,
        account=job.account,
        nodes=job.nodes,
        started_at=job.start_time if job.on_nodes else None,
        patience_until=patience_ends(job, question.snapshot.traits[job.job_id]),
    )
    return ends_at(code, kept, question.memory, question.config.guard, found.at)
