"""`tesched ask`: what would happen to a job if it were submitted now."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
from tesched_daemon.submission.asking import AT_ONCE_S, foretell
from tesched_daemon.submission.foretold import Foretold, Obstacle, Verdict, VictimCost

from tesched_cli.common import (
    clock,
    config_option,
    configuration,
    duration,
    hostlist,
    json_option,
    say,
    say_lines,
    store,
)
from tesched_cli.explain import CLASS_WORDS
from tesched_cli.json_output import document, print_json
from tesched_cli.render.not_followed import not_followed_lines
from tesched_cli.sbatch_words import SBATCH_OPTIONS, say_misplaced, sbatch_words


@document("ask")
@dataclass(frozen=True, slots=True, kw_only=True)
class AskJson:
    """What would happen if a job were submitted now."""

    foretold: Foretold
    #: it starts now, or as soon as its victims have left
    starts: bool


@click.command(context_settings=SBATCH_OPTIONS)
@config_option
@json_option
@sbatch_words
@click.pass_context
def ask(context: click.Context, config_path: Path, *, as_json: bool, words: tuple[str, ...]) -> None:
    """Say what would happen if a job were submitted now.

    SCRIPT is a batch script, "-" for one on standard input; what stands before it are options of sbatch's, such as
    --comment=te or --wrap=..., and --config and --json come first of all. Nothing is submitted: its class and the rule
    that gives it, whether it starts now, which jobs would be preempted and what that costs them, and which limit stands
    in the way. Exit status 0: it starts now, or as soon as its victims have left; 1: it waits; 2: an error.
    """
    if words[:1] == ("-h",):
        say_lines(f"{context.get_help()}\n")
        return
    say_misplaced("ask", words)
    with store(config_path) as engine:
        found = foretell(words, configuration(config_path), engine)
    if as_json:
        print_json(AskJson(foretold=found, starts=found.starts))
    else:
        for line in lines(found):
            say(line)
    context.exit(0 if found.starts else 1)


def lines(found: Foretold) -> Iterator[str]:
    """Yield the answer."""
    yield f"{found.script}: {found.verdict}"
    yield f"  class   {CLASS_WORDS[found.job_class]} (rule: {found.rule})"
    yield from not_followed_lines(found.not_followed)
    if found.within_s is not None:
        yield from _preemption(found)
    for line in found.because:
        yield f"  why     {line}"
    if found.not_before is not None:
        yield f"  start   not before {clock(found.not_before)}, as far as can be known"
    if found.not_enforced:
        yield f"  daemon  {found.not_enforced}: no job is preempted"
    for line in found.limits:
        yield f"  limit   {line}"
    for line in found.slurm_limits:
        yield f"  limit   {line}"
    if found.slurm_limits_unread:
        yield f"  limits  of accounts, users and QOS: {found.slurm_limits_unread}"
    if found.slurm is not None:
        word = found.slurm
        at = "at once" if word.start_at <= found.at + AT_ONCE_S else f"at {clock(word.start_at)}"
        yield (
            f"  slurm   by itself {at}, {word.cpus} CPUs on {word.nodes}, partition {word.partition} "
            "(sbatch --test-only: waiting jobs, holds, dependencies, limits and a partition's state apart)"
        )
    for line in found.notes:
        yield f"  note    {line}"
    for reason in found.reasons:
        yield ""
        yield f"no victim is selected for it: {reason.text}{_until(reason)}  [{reason.code}]"
    if found.candidates:
        yield ""
        yield "candidates considered for it and not selected:"
        for reason in found.candidates:
            more = f" and {reason.count - len(reason.jobs)} more" if reason.count > len(reason.jobs) else ""
            yield f"  job {', '.join(reason.jobs)}{more}: {reason.text}{_until(reason)}  [{reason.code}]"


def _preemption(found: Foretold) -> Iterator[str]:
    would = "would leave" if found.verdict is Verdict.WOULD else "leave"
    jobs = "1 job" if len(found.victims) == 1 else f"{len(found.victims)} jobs"
    verb = would if len(found.victims) != 1 else ("would leave" if would != "leave" else "leaves")
    yield (
        f"  start   on {hostlist(found.nodes)}, once {jobs} {verb}: at most {found.within_s or 0:.0f} s, and a poll "
        f"(each {found.poll_s:g} s)"
    )
    for one in found.victims:
        yield f"  victim  job {one.job} {one.name!r} of {one.user} on {hostlist(one.nodes)}: {one.why}"
        yield f"  cost    {'; '.join(_cost(one))}"


def _cost(one: VictimCost) -> Iterator[str]:
    if one.by_suspending:
        yield "it is suspended, and loses nothing of its work"
    else:
        yield f"it has run for {duration(one.ran_s)}: what it has not saved is lost"
        if one.notice_signal and one.grace_s > 0:
            yield f"SIG{one.notice_signal}, and {one.grace_s:.0f} s to save"
        else:
            yield f"it is sent no signal: it is requeued, and has left in about {one.grace_s:.0f} s"
    if one.of_own_user:
        yield "a job of your own: it counts for nothing"
    else:
        yield f"preempted {one.preempted} times before, of {one.most_preempted}"
    if one.left_of_bound_s is not None:
        yield f"TE jobs may delay it by {duration(one.left_of_bound_s)} more (guard.bound)"


def _until(reason: Obstacle) -> str:
    return "" if reason.until is None else f" (until {clock(reason.until)})"
