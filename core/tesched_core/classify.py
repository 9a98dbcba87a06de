"""Who is trial and error, who is best effort: an ordered list of rules, of which the first that matches wins.

A rule looks at what Slurm says of a job and at nothing else, so an admin can read the list and know the answer. The
rule that matched is kept with the job. A user's own word (`sbatch --comment=te`) counts only where the site allows it,
and only for a job inside the site's bounds; otherwise anybody could call a week-long training a quick try.

Grace period and notice signal come from, in this order: the job's comment (`--comment="te grace=120 signal=TERM"`), its
`--signal=B:USR1@120` where Slurm shows it, the rule that matched, the site's default. How long a job is expected to run
is its owner's word too (`--comment="run=3600"`): its time limit may be safe, and its expectation honest. So is the name
of what it trains (`--comment="workload=resnet50"`), and that an array's tasks are workers of one training, of which
any number may run (`--comment="elastic"`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from types import MappingProxyType

from tesched_core.cluster import Job
from tesched_core.fit import requested_gpus
from tesched_core.report import LONGEST_NAME
from tesched_core.resources import JobId
from tesched_core.snapshot import JobClass, Snapshot, Traits

#: What a job may say of how much time matters to it (`pdors.workload.Urgency`).
UTILITIES = ("insensitive", "sensitive", "critical")
#: The signals that may serve as a notice, by number as on every Linux.
NOTICE_SIGNALS: Mapping[int, str] = MappingProxyType(
    {1: "HUP", 2: "INT", 10: "USR1", 12: "USR2", 15: "TERM", 18: "CONT"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Conditions on a job; all that are given must hold. Texts are shell globs (`debug*`), any of which may match."""

    partitions: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    #: True: salloc and srun; False: sbatch
    interactive: bool | None = None
    #: bounds, each inclusive; a job without a time limit is above every `max_time_limit_s`
    min_time_limit_s: int | None = None
    max_time_limit_s: int | None = None
    min_nodes: int | None = None
    max_nodes: int | None = None
    min_cpus: int | None = None
    max_cpus: int | None = None
    min_gpus: int | None = None
    max_gpus: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of the list."""

    name: str
    job_class: JobClass
    match: Match = Match()
    grace_period_s: float | None = None
    notice_signal: str | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a grace period, a signal or bounds that cannot be."""
        if not self.name:
            raise ValueError("name: a rule needs a name that is not empty")
        _check_grace("grace_period_s", self.grace_period_s or 0.0)
        _check_signal("notice_signal", "USR1" if self.notice_signal is None else self.notice_signal)
        _check_bounds("match", self.match)


def _check_grace(key: str, grace_period_s: float) -> None:
    if not 0 <= grace_period_s <= 86400:
        raise ValueError(f"{key}: a grace period must be between 0 and 86400 seconds")


def _check_signal(key: str, notice_signal: str) -> None:
    if notice_signal not in NOTICE_SIGNALS.values():
        raise ValueError(f"{key}: a notice signal must be one of {', '.join(NOTICE_SIGNALS.values())}")


def _check_bounds(key: str, match: Match) -> None:
    """Raise ValueError for bounds that no job can meet; such a rule would be there and never match."""
    for what in ("time_limit_s", "nodes", "cpus", "gpus"):
        low, high = getattr(match, f"min_{what}"), getattr(match, f"max_{what}")
        for bound, value in (("min", low), ("max", high)):
            if value is not None and value < 0:
                raise ValueError(f"{key}.{bound}_{what} must be a whole number of at least 0")
        if low is not None and high is not None and low > high:
            raise ValueError(f"{key}.max_{what} must be at least {key}.min_{what}, {low}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserWord:
    """What a user may say of his own job in its comment."""

    #: whether `te` in a comment counts at all
    may_say_te: bool = False
    #: the job must be inside these bounds for it to count
    within: Match = Match()
    #: whether `be` counts: nobody is harmed by a job that offers itself
    may_say_be: bool = True
    #: the longest grace period that a job may ask for, seconds
    max_grace_period_s: float = 600.0

    def __post_init__(self) -> None:
        """Raise ValueError for a bound that cannot be kept."""
        _check_grace("max_grace_period_s", self.max_grace_period_s)
        _check_bounds("within", self.within)


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """The whole list."""

    rules: tuple[Rule, ...] = ()
    default_class: JobClass = JobClass.BE
    user_word: UserWord = UserWord()
    default_grace_period_s: float = 30.0
    default_notice_signal: str = "USR1"

    def __post_init__(self) -> None:
        """Raise ValueError for a grace period or a signal that cannot be given, or two rules of one name."""
        _check_grace("default_grace_period_s", self.default_grace_period_s)
        _check_signal("default_notice_signal", self.default_notice_signal)
        names = [rule.name for rule in self.rules]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"rules: two rules are named {twice[0]!r}; each needs a name of its own")


def matches(job: Job, match: Match) -> bool:
    """Return whether every condition that `match` gives holds for the job."""
    return all(_conditions(job, match))


def _conditions(job: Job, match: Match) -> Iterator[bool]:
    for globs, values in (
        (match.partitions, job.partitions),
        (match.qos, (job.qos,)),
        (match.accounts, (job.account,)),
        (match.users, (job.user,)),
        (match.names, (job.name,)),
        (match.comments, (job.comment,)),
    ):
        if globs:
            yield any(fnmatchcase(value, glob) for value in values for glob in globs)
    if match.interactive is not None:
        yield job.batch is not match.interactive
    for low, high, amount in (
        (match.min_time_limit_s, match.max_time_limit_s, job.time_limit_s),
        (match.min_nodes, match.max_nodes, job.request.min_nodes),
        (match.min_cpus, match.max_cpus, job.request.cpus),
        (match.min_gpus, match.max_gpus, requested_gpus(job)),
    ):
        if low is not None:
            yield amount is None or amount >= low
        if high is not None:
            yield amount is not None and amount <= high


_WORD = re.compile(r"[^\s,;]+")


def _words(comment: str) -> tuple[frozenset[str], Mapping[str, str]]:
    """Return a comment's bare words and its key=value pairs, in lower case."""
    bare: set[str] = set()
    pairs: dict[str, str] = {}
    for word in _WORD.findall(comment):
        key, equals, value = word.partition("=")
        if equals:
            pairs[key.lower().removeprefix("tesched:")] = value
        else:
            bare.add(word.lower().removeprefix("tesched:"))
    return frozenset(bare), pairs


def signal_name(text: str) -> str | None:
    """Return `USR1` for `usr1`, `SIGUSR1` or `10`; None for what may not serve as a notice."""
    if text.isdecimal():
        return NOTICE_SIGNALS.get(int(text))
    name = text.upper().removeprefix("SIG")
    return name if name in NOTICE_SIGNALS.values() else None


def _seconds(text: str) -> float | None:
    # No float(): it would take "inf" and "nan" from a user's comment.
    return float(text) if re.fullmatch(r"\d{1,6}(\.\d{1,3})?", text) else None


def _amount(text: str) -> float | None:
    """Return what `20000` or `2.5e6` says, if it is above 0."""
    return (float(text) or None) if re.fullmatch(r"\d{1,15}(\.\d{1,6})?(e\d{1,2})?", text) else None


def _weight(text: str) -> float | None:
    value = float(text) if re.fullmatch(r"\d{1,4}(\.\d{1,6})?", text) else 0.0
    # Beyond that it is as good as none, or all, and a program with it hard to solve.
    return value if 0.001 <= value <= 1000 else None


def classify(job: Job, how: Classification) -> Traits:
    """Return the job's class, the rule that gave it, its grace period and its notice signal."""
    rule = next((rule for rule in how.rules if matches(job, rule.match)), None)
    job_class = rule.job_class if rule else how.default_class
    name = rule.name if rule else "default"
    bare, pairs = _words(job.comment)
    word = how.user_word
    if job_class is not JobClass.EXEMPT:
        # A protected job stays protected whatever its owner says; for the others his word is the finer one.
        if "te" in bare and word.may_say_te and matches(job, word.within):
            job_class, name = JobClass.TE, "user's comment"
        elif "be" in bare and word.may_say_be:
            job_class, name = JobClass.BE, "user's comment"

    grace_s, source = how.default_grace_period_s, "the site's default"
    signal, batch_only = how.default_notice_signal, True
    if rule and rule.grace_period_s is not None:
        grace_s, source = rule.grace_period_s, f"rule {rule.name}"
    if rule and rule.notice_signal is not None:
        signal = rule.notice_signal
    if job.warn_time_s is not None and job.warn_signal is not None and job.warn_signal in NOTICE_SIGNALS:
        grace_s, source = min(float(job.warn_time_s), word.max_grace_period_s), "the job's --signal"
        signal, batch_only = NOTICE_SIGNALS[job.warn_signal], job.warn_batch
    asked = _seconds(pairs.get("grace", ""))
    if asked is not None:
        grace_s, source = min(asked, word.max_grace_period_s), "the job's comment"
    signal = signal_name(pairs.get("signal", "")) or signal
    return Traits(
        job_class=job_class,
        rule=name,
        grace_period_s=grace_s,
        grace_source=source,
        notice_signal=signal,
        notice_batch_only=batch_only,
        elastic="elastic" in bare,
        run_time_s=_seconds(pairs.get("run", "")) or None,
        workload=pairs.get("workload", "")[:LONGEST_NAME],
        weight=_weight(pairs.get("weight", "")),
        slo_s=_seconds(pairs.get("slo", "")) or None,
        samples=_amount(pairs.get("samples", "")),
        utility=utility if (utility := pairs.get("utility", "").lower()) in UTILITIES else "",
    )


def classified(snapshot: Snapshot, how: Classification, known: Snapshot | None = None) -> Snapshot:
    """Return the snapshot with every job's traits.

    `known` is an earlier classified snapshot under the same rules: what it says of a job that has not changed is kept,
    so that a queue of 100,000 jobs is not matched anew each second.
    """
    traits: dict[JobId, Traits] = {}
    for job_id, job in snapshot.jobs.items():
        before = known.jobs.get(job_id) if known else None
        if known and before is not None and _same_question(before, job):
            traits[job_id] = known.traits[job_id]
        else:
            traits[job_id] = classify(job, how)
    return snapshot.with_traits(MappingProxyType(traits))


def _same_question(before: Job, now: Job) -> bool:
    if before is now:
        return True
    # A running job's class must not change because its owner has just called it something else.
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
