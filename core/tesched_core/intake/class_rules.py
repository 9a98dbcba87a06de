"""Rules of classes and notices: the tables [classes] of the configuration, and what makes no rule (classify.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tesched_core.model.notice import NONE, NOTICE_SIGNALS, ExitZero
from tesched_core.model.ranges import Count, Form, SecondsOfADay, WholeSeconds, check_ranges
from tesched_core.model.snapshot import JobClass

_SIGNALS = tuple(NOTICE_SIGNALS.values())
#: characters of the longest text that a script is searched for, and how many texts there may be
LONGEST_PATTERN = 200
MOST_PATTERNS = 50

#: Seconds between a victim's notice and its requeue.
GracePeriod = SecondsOfADay
#: "none", or a signal as sbatch --signal has it: "USR1" (to the steps), "B:USR1" (to the batch shell), "full:USR1"
NoticeSignal = Annotated[
    str,
    Form(
        pattern=f"{NONE}|(?:(?:B|full):)?(?:{'|'.join(_SIGNALS)})",
        said=f": a notice signal must be none or one of {', '.join(_SIGNALS)}, alone or after B: or full:",
    ),
]
RuleName = Annotated[str, Form(pattern=r"[\s\S]+", said=": a rule needs a name that is not empty")]
SearchedText = Annotated[
    str,
    Form(pattern=rf"[\s\S]{{1,{LONGEST_PATTERN}}}", said=f": each text must have 1 to {LONGEST_PATTERN} characters"),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """Conditions on a job; all that are given must hold. Texts are shell globs (`debug*`), any of which may match."""

    #: partitions of the job
    partitions: tuple[str, ...] = ()
    #: its QOS
    qos: tuple[str, ...] = ()
    #: its account
    accounts: tuple[str, ...] = ()
    #: its user
    users: tuple[str, ...] = ()
    #: its name
    names: tuple[str, ...] = ()
    #: its comment
    comments: tuple[str, ...] = ()
    #: True: salloc and srun; False: sbatch
    interactive: bool | None = None
    #: bounds, each inclusive; a job without a time limit is above every `max_time_limit_s`
    min_time_limit_s: WholeSeconds | None = None
    max_time_limit_s: WholeSeconds | None = None
    min_nodes: Count | None = None
    max_nodes: Count | None = None
    min_cpus: Count | None = None
    max_cpus: Count | None = None
    min_gpus: Count | None = None
    max_gpus: Count | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One line of the list."""

    #: what `tesched jobs` and `explain` call it
    name: RuleName
    #: the class of the jobs that it matches
    job_class: JobClass
    #: the conditions; without any it matches each job
    match: Match = Match()
    #: seconds between a victim's notice and its requeue
    grace_period_s: GracePeriod | None = None
    #: "none", or a signal as sbatch --signal has it: "USR1" (to the steps), "B:USR1" (to the batch shell), "full:USR1"
    notice_signal: NoticeSignal | None = None
    #: what exit 0 after a notice means
    exit0: ExitZero | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a grace period, a signal or bounds that cannot be."""
        check_ranges(self)
        _check_bounds("match", self.match)


def _check_bounds(key: str, match: Match) -> None:
    """Raise ValueError for bounds that no job can meet; such a rule would be there and never match."""
    check_ranges(match, f"{key}.")
    for what in ("time_limit_s", "nodes", "cpus", "gpus"):
        low, high = getattr(match, f"min_{what}"), getattr(match, f"max_{what}")
        if low is not None and high is not None and low > high:
            raise ValueError(f"{key}.max_{what} must be at least {key}.min_{what}, {low}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoticeRule:
    """One line of the list that says which jobs get which notice; it does not change their class."""

    #: what `tesched jobs` and `explain` call it
    name: RuleName
    #: the conditions; without any it matches each job
    match: Match = Match()
    #: texts, any of which must stand in the batch script's first 64 KiB, letter by letter; without any, the script is
    #: not read
    script_contains: tuple[SearchedText, ...] = ()
    #: as those of `Rule`; what is not given comes from the next source
    grace_period_s: GracePeriod | None = None
    notice_signal: NoticeSignal | None = None
    exit0: ExitZero | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a grace period, a signal, a text or bounds that cannot be."""
        check_ranges(self)
        _check_bounds("match", self.match)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserWord:
    """Words that a user may put into a job's comment."""

    #: whether `te` in a comment counts at all
    may_say_te: bool = False
    #: the job must be inside these bounds for it to count
    within: Match = Match()
    #: whether `be` counts: a job that offers itself harms no other
    may_say_be: bool = True
    #: whether a job may say that it is no victim at all (`preemptions=0`); else 1 is the least that counts
    may_say_no_preemptions: bool = False
    #: the longest grace period that a job may ask for, seconds
    max_grace_period_s: GracePeriod = 600.0

    def __post_init__(self) -> None:
        """Raise ValueError for a bound that cannot be kept."""
        check_ranges(self)
        _check_bounds("within", self.within)


@dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """The whole list."""

    #: the first that matches gives a job its class
    rules: tuple[Rule, ...] = ()
    #: the first that matches says what it gives
    notice_rules: tuple[NoticeRule, ...] = ()
    default_class: JobClass = JobClass.BE
    user_word: UserWord = UserWord()
    default_grace_period_s: GracePeriod = 30.0
    #: as `Rule.notice_signal`; a signal here reaches jobs that know nothing of it, and ends those that do not trap it
    default_notice_signal: NoticeSignal = NONE
    #: what exit 0 after a notice means
    default_exit0: ExitZero = ExitZero.SLURM

    def __post_init__(self) -> None:
        """Raise ValueError for a grace period or a signal that cannot be given, or two rules of one name."""
        check_ranges(self)
        for key, names in (
            ("rules", [rule.name for rule in self.rules]),
            ("notice_rules", [rule.name for rule in self.notice_rules]),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{key}: two rules are named {twice[0]!r}; each needs a name of its own")
        if len(self.script_patterns) > MOST_PATTERNS:
            raise ValueError(f"notice_rules: all script_contains together must be at most {MOST_PATTERNS} texts")

    @property
    def makes_te(self) -> bool:
        """Check whether any job can be trial and error."""
        classes = {self.default_class, *(rule.job_class for rule in self.rules)}
        return JobClass.TE in classes or self.user_word.may_say_te

    def longest_grace_period(self) -> tuple[str, float]:
        """Return the key that gives a victim the longest grace period, and that, seconds; of equal ones the first.

        No exempt job is a victim, whatever it says. One of a rule of TE jobs is, with the rule's grace period, once it
        says `be` or outlives its time limit.
        """
        given = {
            "classes.default_grace_period_s": self.default_grace_period_s,
            "classes.user_word.max_grace_period_s": self.user_word.max_grace_period_s,
        }
        rules: dict[str, tuple[Rule | NoticeRule, ...]] = {
            "classes.rules": self.rules,
            "classes.notice_rules": self.notice_rules,
        }
        for key, listed in rules.items():
            for place, rule in enumerate(listed):
                exempt = isinstance(rule, Rule) and rule.job_class is JobClass.EXEMPT
                if rule.grace_period_s is not None and not exempt:
                    given[f"{key}[{place}].grace_period_s"] = rule.grace_period_s
        return max(given.items(), key=lambda one: one[1])

    def te_longer_than(self, time_limit_s: float) -> str:
        """Advice which key must change so that no TE job has a time limit above this one, seconds; empty if none."""
        if self.default_class is JobClass.TE:
            return "classes.default_class must not be te where guard.bound is set: a rule bounds time limits"
        bounds = {
            f"classes.rules[{place}].match": rule.match
            for place, rule in enumerate(self.rules)
            if rule.job_class is JobClass.TE
        }
        if self.user_word.may_say_te:
            bounds["classes.user_word.within"] = self.user_word.within
        for key, match in bounds.items():
            if match.max_time_limit_s is None or match.max_time_limit_s > time_limit_s:
                return f"{key}.max_time_limit_s must be set, to at most guard.bound.te_time_limit_s, {time_limit_s:g}"
        return ""

    @property
    def script_patterns(self) -> tuple[str, ...]:
        """Return the texts that scripts are searched for."""
        return tuple(dict.fromkeys(text for rule in self.notice_rules for text in rule.script_contains))
