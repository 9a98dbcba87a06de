"""Classes of jobs, trial and error or best effort: an ordered list of rules, of which the first that matches wins.

A rule reads what Slurm says of a job and nothing else, so an admin can read the list and know the answer. The
rule that matched is kept with the job. A user's own word (`sbatch --comment=te`) counts only where the site allows it,
and only for a job inside the site's bounds; otherwise any user could call a week-long training a quick try.
A TE job that outlives the time limit with which it started (an admin may raise it) is BE from that moment on.

A notice signal is sent only to a job for which one was declared (`notice.py`). Signal and grace period come from, in
this order: the job's comment (`--comment="signal=B:TERM grace=120"`), its own `sbatch --signal=[B:]SIG[@SECONDS]`, the
site's notice rules, the rule that gave its class, the site's default, which is no signal. A job without a signal is
requeued without a notice: Slurm's own SIGTERM and KillWait are its grace period. What exit 0 after a notice means comes
from the comment (`exit0=again`), the rules and the site's default.

A notice rule may search for a text in the job's script (`script_contains = ["submitit"]`). It is a plain text and not a
regular expression: the script is its user's, and Python's expressions can take exponential time on a text that is made
for that; a search for a plain text cannot. Classes have no such condition: they are known before any script is read.

How long a job is expected to run
is its owner's word too (`--comment="run=3600"`): its time limit may be safe, and its expectation honest. So is the name
of what it trains (`--comment="workload=resnet50"`), and that an array's tasks are workers of one training, of which
any number may run (`--comment="elastic"`). The owner of a TE job may say for how long no other job is to leave for it
(`--comment="te patience=300"`, `intake/patience.py`), that of a BE job how often it may be preempted
(`--comment="preemptions=1"`): fewer times than the site's limit, never more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from tesched_core.intake.class_rules import Classification, NoticeRule, Rule, UserWord
from tesched_core.intake.matching import matches
from tesched_core.intake.not_followed import COMMENT, USERS_WORD, of_comment, of_notice
from tesched_core.intake.user_words import amount, count, exit_zero, seconds, utility, weight, words
from tesched_core.model.cluster import Job
from tesched_core.model.job_report import LONGEST_NAME
from tesched_core.model.not_followed import About
from tesched_core.model.notice import (
    SBATCH_SECONDS_S,
    Declared,
    Notice,
    Signal,
    Target,
    read_signal,
)
from tesched_core.model.other_objects import other_objects
from tesched_core.model.outlived import OUTLIVED
from tesched_core.model.resources import JobId, UnixSeconds
from tesched_core.model.snapshot import JobClass, Snapshot, Traits


def _notice(
    job: Job, pairs: Mapping[str, str], rule: Rule | None, how: Classification, declared: Declared | None
) -> Notice:
    """Return the job's notice: of each part, the first source that speaks."""
    found_in = declared.script_has if declared is not None else frozenset()
    own_rule = next((one for one in how.notice_rules if _notice_rule_matches(job, one, found_in)), None)
    most_s = how.user_word.max_grace_period_s
    said = read_signal(pairs.get("signal", ""))
    own = declared.signal if declared is not None else None
    signal, source, grace_s, grace_source = _site_notice(own_rule, rule, how)
    if own is not None and declared is not None:
        signal, source = own, declared.source
        seconds_s = SBATCH_SECONDS_S if own.seconds_s is None else own.seconds_s
        grace_s, grace_source = min(seconds_s, most_s), declared.source
    if said is not None:
        # Its comment names the signal, its options the processes: what has no prefix goes where they say.
        target = said.target or (own.target if own is not None else None)
        signal, source = replace(said, target=target), COMMENT
    if said is not None and said.seconds_s is not None:
        grace_s, grace_source = min(said.seconds_s, most_s), COMMENT
    asked = seconds(pairs.get("grace", ""))
    if asked is not None:
        grace_s, grace_source = min(asked, most_s), COMMENT
    if not signal.name:
        grace_s, grace_source = 0.0, "no signal was declared"
        if said is None and own is None and declared is not None and declared.source:
            source = f"{declared.source}; {source}"
    exit0 = (own_rule.exit0 if own_rule else None) or (rule.exit0 if rule else None) or how.default_exit0
    return Notice(
        signal=signal.name,
        target=signal.target or Target.STEPS,
        source=source,
        grace_period_s=grace_s,
        grace_source=grace_source,
        exit0=exit_zero(pairs.get("exit0", "")) or exit0,
    )


def _own_most(pairs: Mapping[str, str], word: UserWord) -> int | None:
    """Preemptions that the job allows at most, by its owner's word; None: it says nothing of that."""
    said = count(pairs.get("preemptions", ""))
    return 1 if said == 0 and not word.may_say_no_preemptions else said


def _notice_rule_matches(job: Job, rule: NoticeRule, script_has: frozenset[str]) -> bool:
    in_script = not rule.script_contains or not script_has.isdisjoint(rule.script_contains)
    return in_script and matches(job, rule.match)


def _site_notice(own_rule: NoticeRule | None, rule: Rule | None, how: Classification) -> tuple[Signal, str, float, str]:
    """Return the signal and the grace period that the site gives, each with its source: of two rules, the first."""
    signal, source = how.default_notice_signal, "the site's default"
    grace_s, grace_source = how.default_grace_period_s, "the site's default"
    for said, kind in ((rule, "rule"), (own_rule, "notice rule")):
        if said and said.notice_signal is not None:
            signal, source = said.notice_signal, f"{kind} {said.name}"
        if said and said.grace_period_s is not None:
            grace_s, grace_source = said.grace_period_s, f"{kind} {said.name}"
    return read_signal(signal) or Signal(name=""), source, grace_s, grace_source


def classify(job: Job, how: Classification, declared: Declared | None = None) -> Traits:
    """Return the job's class, the rule that gave it, and its notice; `declared` is what its own options declare."""
    rule = next((rule for rule in how.rules if matches(job, rule.match)), None)
    job_class = rule.job_class if rule else how.default_class
    name = rule.name if rule else "default"
    bare, pairs = words(job.comment)
    word = how.user_word
    if job_class is not JobClass.EXEMPT:
        # A protected job stays protected whatever its owner says; for the others the owner's word is the finer one.
        if "te" in bare and word.may_say_te and matches(job, word.within):
            job_class, name = JobClass.TE, USERS_WORD
        elif "be" in bare and word.may_say_be:
            job_class, name = JobClass.BE, USERS_WORD

    notice = _notice(job, pairs, rule, how, declared)
    traits = Traits(
        job_class=job_class,
        rule=name,
        grace_period_s=notice.grace_period_s,
        grace_source=notice.grace_source,
        elastic="elastic" in bare,
        time_limit_s=job.time_limit_s,
        run_time_s=seconds(pairs.get("run", "")) or None,
        patience_s=(seconds(pairs.get("patience", "")) or 0.0) if job_class is JobClass.TE else 0.0,
        most_preemptions=_own_most(pairs, word) if job_class is JobClass.BE else None,
        most_said=said if (said := count(pairs.get("preemptions", ""))) != _own_most(pairs, word) else None,
        workload=pairs.get("workload", "")[:LONGEST_NAME],
        weight=weight(pairs.get("weight", "")),
        slo_s=seconds(pairs.get("slo", "")) or None,
        samples=amount(pairs.get("samples", "")),
        utility=utility(pairs.get("utility", "")),
        not_followed=(
            *of_comment(job, word, job_class, name),
            *(of_notice(job, declared, word, notice) if job_class is JobClass.BE else ()),
        ),
    )
    return _with_notice(traits, notice, declared)


def _with_notice(traits: Traits, notice: Notice, declared: Declared | None) -> Traits:
    return replace(
        traits,
        grace_period_s=notice.grace_period_s,
        grace_source=notice.grace_source,
        notice_signal=notice.signal,
        notice_target=notice.target,
        notice_source=notice.source,
        exit0=notice.exit0,
        declared=declared,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A job's own data that decides its class, as it was when its run began: later changes do not change the class."""

    submit_time: float
    restarts: int
    name: str
    comment: str
    partitions: tuple[str, ...]
    qos: str
    account: str
    time_limit_s: int | None

    @staticmethod
    def of(job: Job) -> Question:
        """Question that the job's present record puts."""
        return Question(
            submit_time=job.submit_time,
            restarts=job.restarts,
            name=job.name,
            comment=job.comment,
            partitions=job.partitions,
            qos=job.qos,
            account=job.account,
            time_limit_s=job.time_limit_s,
        )

    def asked_by(self, job: Job) -> Job:
        """Return the job as it was when this run began; as it is if this is another run."""
        if not job.on_nodes or (job.restarts, job.submit_time) != (self.restarts, self.submit_time):
            return job
        return replace(
            job,
            name=self.name,
            comment=self.comment,
            partitions=self.partitions,
            qos=self.qos,
            account=self.account,
            time_limit_s=self.time_limit_s,
        )


def classified(
    snapshot: Snapshot,
    how: Classification,
    known: Snapshot | None = None,
    questions: Mapping[JobId, Question] = MappingProxyType({}),
) -> Snapshot:
    """Return the snapshot with every job's traits.

    `known` is an earlier classified snapshot under the same rules: what it says of a job that has not changed is kept,
    so that a queue of 100,000 jobs is not matched anew each second. `questions` are those of running jobs, for when
    there is none: after a restart, or under new rules.
    """
    jobs = snapshot.jobs
    jobs_before, traits_before = (known.jobs, known.traits) if known else ({}, {})
    # Of 100,000 jobs most are those of `known`, which is found in the quickest way that there is.
    traits: dict[JobId, Any] = dict(zip(jobs, map(traits_before.get, jobs), strict=True))
    trial = JobClass.TE
    perhaps = other_objects(jobs, jobs_before)
    perhaps += [job_id for job_id, one in traits.items() if one is not None and one.job_class is trial]
    for job_id in perhaps:
        job, before = jobs[job_id], jobs_before.get(job_id)
        asked = job if before is None else _before_its_limit_fell(before, job)
        if before is not None and (before is job or _same_question(before, asked)):
            found = traits_before[job_id]
        else:
            # Requeued or changed, it has the options that it had; another job of the same id begins at no restarts.
            same = before is not None and (job.restarts > before.restarts or job.submit_time == before.submit_time)
            declared = traits_before[job_id].declared if same else None
            question = questions.get(job_id)
            found = classify(question.asked_by(asked) if question else asked, how, declared)
        if found.job_class is JobClass.TE and _outlives(job, found, snapshot.taken_at):
            kept = tuple(one for one in found.not_followed if one.about is not About.NOTICE)
            found = replace(
                found,
                job_class=JobClass.BE,
                rule=OUTLIVED,
                most_preemptions=_own_most(words(job.comment)[1], how.user_word),
                not_followed=kept,
            )
        traits[job_id] = found
    return snapshot.with_traits(MappingProxyType(traits))


def _outlives(job: Job, traits: Traits, now: UnixSeconds) -> bool:
    """Check whether a TE job runs for longer than the time limit by which it got its class."""
    limit_s = traits.time_limit_s
    if limit_s is None or not job.on_nodes or job.completing or job.start_time is None:
        return False
    is_raised = job.time_limit_s is None or job.time_limit_s > limit_s
    # Else Slurm ends it; what it runs over by then is the site's (OverTimeLimit), or was no run time (suspended).
    return is_raised and now - job.start_time > limit_s


def with_declared(snapshot: Snapshot, how: Classification, declared: Mapping[JobId, Declared]) -> Snapshot:
    """Return the snapshot with what the running BE jobs' own options declare; what is not there is yet to be read.

    The class of a running job stays what it was; only its notice is worked out anew, when its options become known.
    """
    changed: dict[JobId, Traits] = {}
    for job_id, job in [one for one in snapshot.jobs.items() if one[1].allocation and one[1].batch]:
        traits, found = snapshot.traits[job_id], declared.get(job_id)
        if traits.job_class is not JobClass.BE or (found is not None and traits.declared == found):
            continue
        if found is None:
            if not traits.unread:
                source = f"its script is yet to be read; {traits.notice_source}"
                changed[job_id] = replace(traits, unread=True, notice_source=source)
            continue
        rule = next((rule for rule in how.rules if matches(job, rule.match)), None)
        notice = _notice(job, words(job.comment)[1], rule, how, found)
        changed[job_id] = replace(
            _with_notice(traits, notice, found),
            unread=False,
            not_followed=(
                *(one for one in traits.not_followed if one.about is not About.NOTICE),
                *of_notice(job, found, how.user_word, notice),
            ),
        )
    return snapshot.with_traits(MappingProxyType({**snapshot.traits, **changed})) if changed else snapshot


def _before_its_limit_fell(before: Job, now: Job) -> Job:
    """Return the job with the time limit that it had while it waited: Slurm lowers one of --time-min as it starts."""
    is_new_run = before.pending and now.on_nodes and before.restarts == now.restarts
    if not is_new_run or before.submit_time != now.submit_time or now.time_limit_s is None:
        return now
    fell = before.time_limit_s is None or now.time_limit_s < before.time_limit_s
    return replace(now, time_limit_s=before.time_limit_s) if fell else now


def _same_question(before: Job, now: Job) -> bool:
    # A running job's class must not change because its owner has just given it another name.
    if now.on_nodes and before.on_nodes and before.restarts == now.restarts:
        return before.submit_time == now.submit_time
    return (
        before.submit_time == now.submit_time
        and before.name == now.name
        and before.partitions == now.partitions
        and before.qos == now.qos
        and before.account == now.account
        and before.comment == now.comment
        and before.time_limit_s == now.time_limit_s
        and before.request == now.request
    )
