"""`tesched explain JOB`: its class and why; why it waits; its victims, and why not the others; what it lost."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import click
from rich.console import Console
from sqlalchemy import Engine
from tesched_core.intake.job_times import lost_node_s
from tesched_core.model.cluster import JobState
from tesched_core.model.decision import LeftOfBound
from tesched_core.model.limits import TeLimits, YieldBy
from tesched_core.model.notice import TARGET_WORDS, ExitZero, Target
from tesched_core.model.order import Departure, Ending, Victim, VictimState
from tesched_core.model.outlived import Barred
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_daemon.shown_config import ShownConfig
from tesched_db import queries as read
from tesched_db import reports, trainings
from tesched_db.delays import delay_of
from tesched_db.let_through import LetThrough, let_through
from tesched_db.outlived_rows import barred
from tesched_db.trainings import TrainingView
from tesched_db.views import JobStory, OrderView

from tesched_cli.common import (
    capacity_of,
    clock,
    config_option,
    configuration,
    console,
    duration,
    hostlist,
    json_option,
    shown_configuration,
    store_of,
)
from tesched_cli.render import expectation, training
from tesched_cli.render.bound import left_of_bound
from tesched_cli.render.considered import considered
from tesched_cli.render.delays import delay_json, delayed, left
from tesched_cli.render.not_followed import all_not_followed, not_followed_lines, own_most_lines
from tesched_cli.render.remembered import StateTypes, described
from tesched_cli.render.te_users import barred_line
from tesched_cli.render.until import (
    Until,
    bound_ends,
    change_lines,
    grace_ends,
    lost_nodes,
    order_ends,
    until_json,
    until_of,
)

if TYPE_CHECKING:
    from tesched_daemon.config import Config

    from tesched_cli.explain_json import ExplainJson

CLASS_WORDS = {
    JobClass.TE: "trial and error (TE): others step aside for it",
    JobClass.BE: "best effort (BE): it may be preempted",
    JobClass.EXEMPT: "exempt: it neither preempts others nor is preempted",
}
_SHADOW = "mode shadow: recorded, nothing was done"


@click.command()
@config_option
@json_option
@click.argument("job")
def explain(*, config_path: Path, as_json: bool, job: str) -> None:
    """Say what tesched knows of JOB, what it did about it and why. JOB is 123, 120_4 or 130+1."""
    if not (job.isascii() and job[:1].isdecimal()):
        raise click.BadParameter(f"{job!r} is no job: 123, 120_4 (a task of an array) or 130+1", param_hint="JOB")
    config = shown_configuration(config_path)
    with store_of(config) as engine:
        found = explained(engine, config, job, lambda: configuration(config_path))
    if found is None:
        raise click.ClickException(
            f"job {job}: tesched has never seen it; `tesched jobs --all` lists those that it has"
        )
    if as_json:
        from tesched_cli.json_output import print_json  # noqa: PLC0415 - needed for --json alone, as in `_json`

        print_json(_json(found))
        return
    out = console()
    # In a pipe a line is as long as it is.
    is_whole = capacity_of(out) is None
    for line in story_lines(found, out):
        out.print(line, soft_wrap=is_whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """All that `tesched explain` says of one job, as of one moment."""

    story: JobStory
    config: Config | ShownConfig
    #: reads the whole configuration, which few jobs need
    whole: Callable[[], Config]
    until: Until
    expected: expectation.Expected | None
    #: what it reported of itself, and what the tasks of its array did
    reported: reports.ReportView | None
    array: TrainingView | None
    share: trainings.HeldShare | None
    free: LetThrough | None
    misuse: Barred | None
    bound: LeftOfBound | None


def explained(engine: Engine, config: Config | ShownConfig, job: str, whole: Callable[[], Config]) -> Explained | None:
    """Find what is known of the job, which is named as squeue writes it; None if it was never seen."""
    story = read.job_story(engine, job, StateTypes())
    if story is None:
        return None
    expected = expectation.of_job(engine, story.job, learns=config.run_times.learn)
    reported = reports.report(engine, story.job.key)
    until = until_of(engine, story, config.guard, time.time())
    return Explained(
        story=story,
        config=config,
        whole=whole,
        until=until,
        expected=expected,
        reported=reported,
        array=_array_of(engine, story),
        share=trainings.shares(engine).get(story.job.label) if reported else None,
        free=_let_through(engine, story),
        misuse=_barred(engine, story, config.guard.te),
        bound=left_of_bound(read.daemon(engine), story, until.memory, expected),
    )


def _json(found: Explained) -> ExplainJson:
    from tesched_cli.explain_json import ExplainJson  # noqa: PLC0415
    from tesched_cli.training_json import report_json, training_curve_json  # noqa: PLC0415

    story, reported, array = found.story, found.reported, found.array
    ahead = training.outlook_of(reported.curve, reported.target_loss) if reported else None
    together = training.outlook_of(array.curve, array.target_loss) if array else None
    said_in_vain = all_not_followed(story.job, found.config.guard, found.whole)
    return ExplainJson(
        story=replace(story, policy_states={}, job=replace(story.job, not_followed=said_in_vain)),
        policies=tuple(described(story)),
        report=report_json(reported, ahead, found.share) if reported else None,
        array=training_curve_json(array, together) if array else None,
        expected=found.expected,
        delay=delay_json(delay_of(story)),
        bound=found.bound,
        let_through=found.free,
        barred=found.misuse,
        until=tuple(until_json(story, found.until)),
    )


def story_lines(found: Explained, out: Console) -> Iterator[str]:
    """Yield what is said of the job, its curves as wide as this terminal."""
    story, reported, array = found.story, found.reported, found.array
    yield from head(story, found.config.guard.lever)
    yield from own_most_lines(story.job, found.config.guard)
    yield from not_followed_lines(all_not_followed(story.job, found.config.guard, found.whole))
    yield from change_lines(story.job, found.until)
    if found.bound:
        yield f"  bound   {left(found.bound)} (guard.bound){bound_ends(story, found.bound, found.until)}"
    if found.free:
        yield f"  hold    released by another hand at {clock(found.free.at)}: not held again"
    if found.misuse:
        yield f"  user    {barred_line(found.misuse)}"
    if found.expected:
        yield f"  run     {found.expected.said}"
    if reported:
        yield from training.lines(reported, training.outlook_of(reported.curve, reported.target_loss), out)
    if found.share:
        yield training.share_line(found.share)
    if array:
        together = training.outlook_of(array.curve, array.target_loss)
        yield from training.training_lines(array, together, out)
    yield from described(story)
    yield from lines(story, found.until)


def _let_through(engine: Engine, story: JobStory) -> LetThrough | None:
    """Time at which an operator has let the job, or its array, through; None if that was not so."""
    if story.job.gone:
        return None
    return next(iter(let_through(engine, story.job.job_id)), None)


def _barred(engine: Engine, story: JobStory, limits: TeLimits) -> Barred | None:
    """Reason that no TE job of the job's user starts; None: the job is none, or waits no more, or that is not so."""
    job = story.job
    if job.job_class is not JobClass.TE or job.state is not JobState.PENDING or job.gone:
        return None
    return barred(engine, limits, time.time()).get(job.user)


def _array_of(engine: Engine, story: JobStory) -> TrainingView | None:
    """Training that the tasks of the job's array reported together; None if it is in none, or they reported nothing."""
    found = re.match(r"\d+(?=_)", story.job.label)
    return trainings.array(engine, JobId(int(found[0]))) if found else None


def head(story: JobStory, lever: YieldBy) -> Iterator[str]:
    """Describe the job, in words that an admin would use, where victims leave by this lever."""
    job = story.job
    where = f" on {hostlist(job.nodes)}" if job.nodes else ""
    reason = f" (Slurm says: {job.reason})" if job.state is JobState.PENDING and job.reason else ""
    gone = "; Slurm no longer knows it" if job.gone else ""
    yield f"job {job.label} {job.name!r} of {job.user}, partition {job.partition}: {job.state}{where}{reason}{gone}"
    yield f"  class   {CLASS_WORDS[job.job_class]} (rule: {job.rule})"
    if job.job_class is JobClass.BE:
        by_slurm = lever is YieldBy.PLUGIN
        yield from _notice(story, ends=job.ends and not by_slurm)
        if job.ends and by_slurm:
            yield (
                '  end     with guard.lever = "plugin" Slurm preempts it, and it runs again: its owner\'s word '
                "(preempted=end) is none of Slurm's"
            )
        elif job.ends:
            yield "  end     when it is preempted it does not run again, by its owner's word (preempted=end)"
    if job.idle_since is not None:
        since = f"idle since {clock(job.idle_since)}, for {duration(time.time() - job.idle_since)}"
        yield f"  idle    {since}: it leaves before busy jobs that would do as well"
    yield f"  time    {_times(story)}"
    if said := delayed(delay_of(story)):
        yield f"  delay   {said}"


def _notice(story: JobStory, *, ends: bool) -> Iterator[str]:
    """Yield the notice that it gets before it is requeued, or `ends` for good, and where that was set."""
    job = story.job
    end, ended = ("end", "cancelled") if ends else ("requeue", "requeued")
    # Scripts of waiting jobs are not read: there may be a hundred thousand.
    if job.state is JobState.PENDING and not job.restarts and not job.gone:
        yield "  notice  its own --signal, if it has one, is read when it runs; without one:"
    if not job.gets_notice:
        none = f"no signal ({job.notice_source})"
        if job.notice_signal:
            none = f"no grace period ({job.grace_source}), so that SIG{job.notice_signal} is not sent"
        yield (
            f"  notice  {none}: it is {ended} without a notice, and has Slurm's SIGTERM and KillWait to save its work"
        )
        yield f"  grace   {_leaving(story.leave_times)}"
        return
    target = TARGET_WORDS[job.notice_target]
    yield f"  notice  SIG{job.notice_signal} to {target}, from {job.notice_source}"
    if job.notice_target is Target.STEPS:
        yield f"  notice  its steps are what srun started: a trap of its batch script takes B:{job.notice_signal}"
    yield f"  grace   {job.grace_period_s:.0f} s between notice and {end}, from {job.grace_source}"
    if job.exit0 is not ExitZero.SLURM:
        meaning = "is to run again" if job.exit0 is ExitZero.AGAIN else "has finished"
        yield f"  exit 0  in its grace period means that it {meaning}"


def _leaving(times: Sequence[float]) -> str:
    """Time that the victim is expected to take to leave, in words."""
    if not times:
        return "no job of the same user and name was requeued so yet: it is expected to take KillWait to leave"
    usual_s = median(times)
    usual = f"{usual_s:.0f}" if usual_s >= 10 else f"{usual_s:.1f}"
    jobs = "1 job" if len(times) == 1 else f"{len(times)} jobs"
    return f"leaves in about {usual} s (learned from {jobs} of the same user and name), at most KillWait"


def lines(story: JobStory, until: Until) -> Iterator[str]:
    """Describe what was done about it, and why."""
    job = story.job
    for view in story.orders_as_preemptor:
        yield ""
        yield from _as_preemptor(view, until)
    for view in story.orders_as_victim:
        yield ""
        yield from _as_victim(view, job.job_id, until)
    yield from considered(story, until)


def _times(story: JobStory) -> str:
    times = story.times
    slowdown = f", slowdown {times.slowdown:.2f}" if times.slowdown is not None else ""
    runs = f" in {len(story.runs)} runs" if len(story.runs) > 1 else ""
    said = f"waited {duration(times.waited_s)}, ran {duration(times.ran_s)}{runs}{slowdown}"
    return said if times.whole else f"{said} (first seen after it had begun)"


def _as_preemptor(view: OrderView, until: Until) -> Iterator[str]:
    order = view.order
    ending = order.ending.replace("_", " ") if order.ending else f"under way{order_ends(order, until)}"
    if not order.nodes:
        shadow = order.ending is Ending.SHADOW
        first, ending = ("would be", _SHADOW) if shadow else ("is", ending)
        yield f"order {order.order_id}: it {first} first in the queue, waiting for resources to be released ({ending})"
        if shadow:
            return
        yield from _steps(view)
        return
    if order.ending is Ending.SHADOW:
        yield f"order {order.order_id}: resources would have been freed for it on {hostlist(order.nodes)} ({_SHADOW})"
        for victim, label in zip(order.victims, view.victim_labels, strict=True):
            asked = "have been suspended" if victim.by_suspending else "have been preempted"
            yield f"  job {label} would {asked}: {victim.why}"
        return
    yield f"order {order.order_id}: resources were freed for it on {hostlist(order.nodes)} ({ending})"
    yield from lost_nodes(order, until)
    for victim, label in zip(order.victims, view.victim_labels, strict=True):
        yield f"  job {label} {_state_in_words(victim)}: {victim.why}"
    if not order.victims:
        yield "  no victim was needed: resources were free, and only the queue order blocked the job"
    yield from _steps(view)


def _as_victim(view: OrderView, job_id: int, until: Until) -> Iterator[str]:
    order = view.order
    victim = next(victim for victim in order.victims if victim.job_id == job_id)
    to = f"job {view.preemptor_label} of {view.preemptor_user}"
    if order.ending is Ending.SHADOW:
        yield f"order {order.order_id}: it would have been preempted for {to} ({_SHADOW})"
        return
    if victim.by_slurm:
        yield f"order {order.order_id}: {victim.why}, for {to}"
    else:
        yield f"order {order.order_id}: it {_state_in_words(victim)}, for {to}"
    if victim.suspended_at is not None:
        back_at = victim.back_at if victim.back_at is not None else victim.left_at
        for_s = "is suspended" if back_at is None else f"was suspended for {duration(back_at - victim.suspended_at)}"
        yield f"  {for_s}; it lost nothing of its work by that"
    elif victim.noticed_at is not None and victim.left_at is not None:
        used_s = victim.left_at - victim.noticed_at
        yield f"  {_what_it_did(victim, used_s)}"
    yield from grace_ends(victim, until)
    if victim.left_at is not None and victim.back_at is not None:
        yield f"  was away for {duration(victim.back_at - victim.left_at)}"
    lost = lost_node_s(victim)
    if lost:
        yield f"  its run was ended after {duration(lost / max(len(victim.nodes), 1))}; what it had saved is not lost"
    yield from _steps(view)


def _state_in_words(victim: Victim) -> str:
    """How far a victim got; one that is sent no signal leaves after the others of its order."""
    if victim.by_suspending and victim.noticed_at is not None:
        return f"was {'' if victim.suspended_at is not None else 'to be '}suspended, since its CPUs are enough"
    if victim.state is VictimState.PLANNED:
        return "is preempted once the other victims of the order have left"
    never = victim.state in {VictimState.SPARED, VictimState.LEFT} and victim.noticed_at is None
    if never and not victim.by_slurm:
        return "was selected and not notified"
    if victim.by_slurm or victim.left_at is not None:
        return "was preempted"
    return "was notified" if victim.gets_notice else f"was to be {'cancelled' if victim.ends else 'requeued'}"


_DID: Mapping[Departure, str] = {
    Departure.REQUEUED_ITSELF: "left by itself and put itself back in the queue",
    Departure.FINISHED: "finished; it does not run again",
    Departure.DIED_OF_NOTICE: "died of the signal; it was put back in the queue",
    Departure.SAVED: "ended with exit status 0, which for it means that it has saved its work; it was put back",
    Departure.ENDED: "ended; it does not run again, as its owner has said (preempted=end)",
    Departure.DIED: "was cancelled or ended by Slurm",
    Departure.VANISHED: "is unknown to Slurm since",
    Departure.LOST: "could not be put back, or its deadline passed in the queue: LOST, it must be submitted again",
}


def _what_it_did(victim: Victim, used_s: float) -> str:
    """Describe what the job did with its notice."""
    if not victim.gets_notice:
        how = (
            "" if victim.departure is Departure.REQUEUED or victim.departure is None else f": {_DID[victim.departure]}"
        )
        if victim.departure is Departure.ENDED:
            return f"was cancelled without a signal, and had left {used_s:.1f} s later{how}"
        return f"was requeued without a signal, and had left {used_s:.1f} s later{how}"
    target = TARGET_WORDS[victim.notice_target]
    told = f"SIG{victim.notice_signal} was sent to {target}"
    grace = f"{used_s:.1f} s of its {victim.grace_period_s:.0f} s of grace"
    if victim.departure is Departure.REQUEUED or victim.departure is None:
        return f"{told}; it stayed until it was requeued, {used_s:.1f} s later: it may not have saved its work"
    return f"{told}; it used {grace} and {_DID[victim.departure]}"


def _steps(view: OrderView) -> Iterator[str]:
    for step in view.transitions:
        who = f"job {step.job_id}: " if step.job_id else ""
        yield f"    {clock(step.at)}  {who}{step.text}"
