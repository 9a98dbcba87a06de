"""Words of users that do not count, or not as they were said, and why: in comments, and in jobs' own --signal.

Principle
    A comment is free text, and a word counts wherever it stands in it. That one does *not* count is reported only where
    it was surely said to tesched. A word with the prefix (`tesched:te`) always was. `run=baseline`, `signal=weak` and
    `to be done` are ordinary text: the value that can't be read must resemble one (`run=2h`, `signal=KILL`), and a
    bare word must not stand among others (`_MOST_BESIDE`).

Worked example
    On a site with max_grace_period_s = 600, where `te` is not allowed, `te grace=9999 exit0=agian lr=0.1` has three
    words that do not count as they were said: `te`, `grace=9999` (600 s count) and `exit0=agian`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from signal import Signals
from typing import NamedTuple

from tesched_core.intake.class_rules import UserWord
from tesched_core.intake.matching import unmet
from tesched_core.intake.user_words import BARE, ENDS, PREEMPTED, PREEMPTIONS, PREFIX, READERS, WORD, seconds
from tesched_core.model.cluster import Job
from tesched_core.model.not_followed import LONGEST_SAID, MOST_SAID, About, NotFollowed
from tesched_core.model.notice import NOTICE_SIGNALS, TARGET_WORDS, Declared, ExitZero, Notice, Signal, read_signal
from tesched_core.model.snapshot import JobClass

#: Where a comment's word comes from, and the rule of a job whose class its user's comment gave.
COMMENT, USERS_WORD = "the job's comment", "user's comment"
#: Bare words, and how many words of ordinary text may stand beside one that is surely meant.
_MOST_BESIDE: Mapping[str, int] = {"te": 2, "be": 0, "elastic": 0}
_CLASSES: Mapping[JobClass, str] = {
    JobClass.TE: "trial and error",
    JobClass.BE: "best effort",
    JobClass.EXEMPT: "exempt",
}
_EXIT_0: Mapping[ExitZero, str] = {
    ExitZero.AGAIN: "it is to run again",
    ExitZero.FINISHED: "it has finished",
    ExitZero.SLURM: "what Slurm's own preemption makes of it",
}
_MAY_BE = ", ".join(NOTICE_SIGNALS.values())
_MOST_KEY = "classes.user_word.max_grace_period_s"
#: By key: a value that resembles one that was meant; of a key that is not here, none does without the prefix.
_LOOKS_MEANT: Mapping[str, re.Pattern[str]] = {
    "signal": re.compile(r"(?i:[a-z0-9:]*@\d.*|(b|r|br|rb|full|batch|steps?):.+|(sig)?usr\d)|SIG[A-Z0-9]+|9"),
    "grace": re.compile(r".*"),
    "exit0": re.compile(r".*"),
    "patience": re.compile(r".*"),
    "preemptions": re.compile(r".*"),
    "preempted": re.compile(r"end.*|requeue.*|cancel.*|kill.*|stop.*|no.*", re.IGNORECASE),
    "run": re.compile(r"\d+(\.\d+)?(s|sec|m|min|h|hours?|minutes?|seconds?)|(\d+-)?\d+(:\d+){1,2}", re.IGNORECASE),
}
#: What a comment must have for a word of it to be reported: few have it, and at a start 100,000 comments are read.
_ANY = re.compile(
    rf"{PREFIX}|(?<![^\s,;])(?:(?:{'|'.join(_MOST_BESIDE)})(?![^\s,;])|(?:{'|'.join(_LOOKS_MEANT)})[=:])", re.IGNORECASE
)
#: By key: what would be right.
_RIGHT: Mapping[str, str] = {
    "signal": f"none, or [B:|full:]SIGNAL[@SECONDS] with {_MAY_BE}",
    "grace": "seconds, as in grace=120",
    "exit0": "again, finished or slurm",
    "run": "seconds above 0, as in run=3600",
    "preempted": "end or requeue, in lower case",
    "preemptions": "a whole number, 999999 at most, as in preemptions=1",
    "patience": "seconds, 999999 at most, as in patience=300",
    "workload": "a name",
    "weight": "a number from 0.001 to 1000",
    "slo": "seconds above 0, as in slo=3600",
    "samples": "a number above 0",
    "utility": "insensitive, sensitive or critical",
}


class _Said(NamedTuple):
    """One word of a comment."""

    text: str
    key: str
    #: of a pair
    value: str | None
    #: it has the prefix
    is_sure: bool


def _said(comment: str) -> list[_Said]:
    """Return the words of a comment; none of one that says nothing to tesched."""
    if not _ANY.search(comment):
        return []
    found = []
    for text in WORD.findall(comment):
        key, equals, value = text.partition("=")
        low = key.lower()
        name = low.removeprefix(PREFIX)
        found.append(_Said(text[:LONGEST_SAID], name, value if equals else None, name != low))
    return found


def of_comment(job: Job, word: UserWord, job_class: JobClass, rule: str) -> tuple[NotFollowed, ...]:
    """Return the words of the comment that do not count, but for those on the notice."""
    if not job.comment or not (said := _said(job.comment)):
        return ()
    of_class = _of_class(said, job, word, job_class, rule)
    of_values = (
        *_of_patience(said, job_class, rule),
        *(_of_victims(said) if job_class is not JobClass.BE else (*_of_end(said), *_of_preemptions(said, word))),
    )
    return (*of_class, *of_values, *_of_the_rest(said, job_class))[:MOST_SAID]


def _of_class(said: list[_Said], job: Job, word: UserWord, job_class: JobClass, rule: str) -> Iterator[NotFollowed]:
    beside = sum(one.value is None and not one.is_sure and one.key not in BARE for one in said)
    for one in {one.key: one for one in said if one.value is None and one.key in BARE}.values():
        if not one.is_sure and beside > _MOST_BESIDE[one.key]:
            continue
        if one.key == "elastic":
            if job.array_job_id is None and not job.array_tasks:
                why = "a job array alone is elastic: its tasks are the workers of one training"
                yield _no(About.CLASS, one.text, why, "it is a job as any other")
            elif job_class is not JobClass.BE:
                yield _no(About.RUN, one.text, _FOR_BE, "its tasks run as those of any other array")
        elif one.key != job_class.value:
            why = _why_not(one.key, job, word, job_class, rule)
            yield _no(About.CLASS, one.text, why, f"{_CLASSES[job_class]} (rule: {rule})")


def _why_not(key: str, job: Job, word: UserWord, job_class: JobClass, rule: str) -> str:
    if job_class is JobClass.EXEMPT:
        return f"the job is exempt (rule: {rule}, of classes.rules or classes.default_class), whatever its user says"
    if key == JobClass.BE.value:
        return "te was said, too, and goes first" if rule == USERS_WORD else "classes.user_word.may_say_be = false"
    if not word.may_say_te:
        return "classes.user_word.may_say_te = false"
    return "; ".join(f"classes.user_word.within.{one.in_words}" for one in unmet(job, word.within))


def _of_victims(said: list[_Said]) -> Iterator[NotFollowed]:
    """Yield the words on how a job is preempted, of one that never is."""
    for one in {one.key: one for one in said if one.key in _ON_PREEMPTIONS and one.value is not None}.values():
        if _cannot_be_read(one):
            why = _not_a_notice(one.value or "") if one.key == "signal" else _not_right(one.key)
            yield _no(About.RUN, one.text, why, _NEVER)
        elif READERS[one.key](one.value or "") is not None:
            # It counts once the job outlives its time limit, and is best effort.
            yield _no(About.NOTICE, one.text, _FOR_BE, _NEVER)


def _of_end(said: list[_Said]) -> Iterator[NotFollowed]:
    """Yield the words on what becomes of the job when it is preempted that are not followed: then it is requeued."""
    mine = [one for one in said if one.key == PREEMPTED and one.value is not None]
    instead = "when it is preempted it is put back in the queue"
    for one in mine:
        if _cannot_be_read(one):
            yield _no(About.RUN, one.text, _not_right(one.key), instead)
        elif one.value == ENDS and any(other.value != ENDS for other in mine):
            yield _no(About.RUN, one.text, "another word of the comment contradicts it", instead)


def _of_preemptions(said: list[_Said], word: UserWord) -> Iterator[NotFollowed]:
    """Yield a number of preemptions that does not count as it was said; of two, the last one counts.

    One above the site's is known where the site's limits are.
    """
    one = next((one for one in reversed(said) if one.key == PREEMPTIONS and one.value is not None), None)
    if one is None:
        return
    if _cannot_be_read(one):
        yield _no(About.RUN, one.text, _not_right(one.key), "it is preempted as often as the site allows")
    elif READERS[one.key](one.value or "") == 0 and not word.may_say_no_preemptions:
        yield _no(
            About.RUN, one.text, "classes.user_word.may_say_no_preemptions = false", "it is preempted once at most"
        )


def _of_patience(said: list[_Said], job_class: JobClass, rule: str) -> Iterator[NotFollowed]:
    """Yield a patience that can't be read, or is of a job that has no victims; of two, the last one counts."""
    one = next((one for one in reversed(said) if one.key == "patience" and one.value is not None), None)
    # Trainings have a patience of their own: of a job that is none of TE it is said to tesched beside `te` alone.
    if one is None or not (one.is_sure or job_class is JobClass.TE or any(other.key == "te" for other in said)):
        return
    if job_class is not JobClass.TE:
        why = "it is for trial-and-error jobs: no other job leaves for this one"
        yield _no(About.CLASS, one.text, why, f"{_CLASSES[job_class]} (rule: {rule})")
    elif _cannot_be_read(one):
        yield _no(About.RUN, one.text, _not_right(one.key), "others leave for it as for any other")


def _of_the_rest(said: list[_Said], job_class: JobClass) -> Iterator[NotFollowed]:
    """Yield pairs on the run that can't be read, and words that tesched does not know."""
    for one in said:
        if one.value is not None and one.key in READERS:
            if one.key in _ON_PREEMPTIONS or one.key == "patience":
                continue
            if _cannot_be_read(one):
                yield _no(About.RUN, one.text, _not_right(one.key), "nothing was said of it")
            elif one.is_sure and one.key in _OF_POLICIES and job_class is not JobClass.BE:
                yield _no(About.RUN, one.text, _FOR_BE, "nothing was said of it")
        elif one.is_sure and one.key and one.key not in BARE:
            known = ", ".join([*sorted(BARE), *(f"{key}=" for key in READERS)])
            yield _no(About.UNKNOWN, one.text, f"tesched knows no such word; it knows {known}", "nothing")
        elif (meant := _with_equals(one)) is not None:
            yield _no(About.UNKNOWN, one.text, f"a value stands after an equals sign: {meant}", "nothing")


_OF_NOTICE = frozenset({"signal", "grace", "exit0"})
#: Words on how a job is preempted, and those by which policies for best-effort jobs go.
_ON_PREEMPTIONS = _OF_NOTICE | {PREEMPTED, PREEMPTIONS}
_OF_POLICIES = frozenset({"workload", "weight", "slo", "samples", "utility"})
_FOR_BE, _NEVER = "it is for best-effort jobs", "this job is never preempted"


def _with_equals(one: _Said) -> str | None:
    """Correct `signal:USR1` to what was surely meant; None for any other word."""
    key, _, value = one.text.partition(":")
    key = key.lower()
    is_one = one.value is None and key in _OF_NOTICE and READERS[key](value) is not None
    return f"{key}={value}" if is_one else None


def _cannot_be_read(one: _Said) -> bool:
    """Check whether a pair has a value that its reader does not take, and was surely said to tesched."""
    if one.value is None or READERS[one.key](one.value) is not None:
        return False
    looks = _LOOKS_MEANT.get(one.key)
    return one.is_sure or (looks is not None and looks.fullmatch(one.value) is not None) or _names_a_signal(one)


def _names_a_signal(one: _Said) -> bool:
    name = (one.value or "").upper().removeprefix("SIG")
    return one.key == "signal" and f"SIG{name}" in Signals.__members__


def _not_right(key: str) -> str:
    return f"its value can't be read; right is {_RIGHT[key]}"


def _not_a_notice(argument: str) -> str:
    """Reason that this is no signal that is sent: it is another one, or can't be read."""
    found = re.fullmatch(r"(?:[a-z]{1,4}:)?(?:sig)?([a-z]+\d?|\d{1,2})(?:@\d+)?", argument, re.IGNORECASE)
    name = found[1].upper() if found else ""
    if name.isascii() and name.isdecimal() and int(name) in set(Signals):
        name = Signals(int(name)).name.removeprefix("SIG")
    if f"SIG{name}" in Signals.__members__ and name not in NOTICE_SIGNALS.values():
        return f"SIG{name} may not be a notice; {_MAY_BE} may"
    return _not_right("signal")


class _OfNotice(NamedTuple):
    """All that is said of a job's notice, by key."""

    job: Job
    declared: Declared | None
    notice: Notice
    most_grace_s: float
    said: Mapping[str, _Said]
    #: those of them that can be read
    read: Mapping[str, _Said]

    @property
    def comments_signal(self) -> Signal | None:
        return read_signal(self.read["signal"].value or "") if "signal" in self.read else None

    def misread(self, key: str) -> _Said | None:
        """Words with this key in the comment, if they can't be read and were surely said to tesched."""
        one = self.said.get(key)
        return one if one is not None and key not in self.read and _cannot_be_read(one) else None


def of_notice(job: Job, declared: Declared | None, word: UserWord, notice: Notice) -> tuple[NotFollowed, ...]:
    """Words on the notice, in the comment and the job's own --signal, that do not count as they were said."""
    has_words = bool(job.comment) and _ANY.search(job.comment) is not None
    if not has_words and (declared is None or not (declared.not_taken or declared.signal)):
        return ()
    said = {one.key: one for one in _said(job.comment) if one.value is not None and one.key in _OF_NOTICE}
    read = {key: one for key, one in said.items() if READERS[key](one.value or "") is not None}
    every = _OfNotice(job, declared, notice, word.max_grace_period_s, said, read)
    return (*_of_signal(every), *_of_grace(every), *_of_exit_0(every))[:MOST_SAID]


def _of_signal(every: _OfNotice) -> Iterator[NotFollowed]:
    declared, instead = every.declared, _signal_in_words(every.notice)
    if (one := every.misread("signal")) is not None:
        yield _no(About.NOTICE, one.text, _not_a_notice(one.value or ""), instead)
    if declared is None:
        return
    if declared.not_taken:
        why = declared.why_not or _not_a_notice(declared.not_taken)
        option = f"--signal={declared.not_taken}"[:LONGEST_SAID]
        yield _no(About.NOTICE, option, why, instead, source=declared.where)
    own, comments = declared.signal, every.comments_signal
    if own is not None and comments is not None and own.name != comments.name:
        option = f"--signal={_written(own)}"
        yield _no(About.NOTICE, option, f"{COMMENT} goes first", instead, source=declared.where)


def _of_grace(every: _OfNotice) -> Iterator[NotFollowed]:
    notice, grace = every.notice, every.read.get("grace")
    if not notice.signal:
        is_final = every.declared is not None or not every.job.batch or every.comments_signal is not None
        if grace is not None and is_final:
            why = "no signal is declared, so nothing would notify the job of a grace period"
            yield _no(About.NOTICE, grace.text, why, _signal_in_words(notice))
    instead = f"{notice.grace_period_s:g} s, from {notice.grace_source}" if notice.signal else _signal_in_words(notice)
    if (one := every.misread("grace")) is not None:
        yield _no(About.NOTICE, one.text, _not_right("grace"), instead)
    text, source, asked_s = _asked_grace(every)
    if notice.signal and asked_s is not None and asked_s > every.most_grace_s:
        yield _no(About.NOTICE, text, f"{_MOST_KEY} = {every.most_grace_s:g}", instead, source=source)


def _asked_grace(every: _OfNotice) -> tuple[str, str, float | None]:
    """Return the word that names a grace period, where it was said, and the seconds, as the first source has them."""
    comments, declared = every.comments_signal, every.declared
    if (grace := every.read.get("grace")) is not None:
        return grace.text, COMMENT, seconds(grace.value or "")
    if comments is not None and comments.seconds_s is not None:
        return every.read["signal"].text, COMMENT, comments.seconds_s
    if declared is not None and declared.signal is not None:
        return f"--signal={_written(declared.signal)}", declared.where, declared.signal.seconds_s
    return "", "", None


def _of_exit_0(every: _OfNotice) -> Iterator[NotFollowed]:
    if (one := every.misread("exit0")) is not None:
        meaning = f"exit 0 in its grace period means {_EXIT_0[every.notice.exit0]}"
        yield _no(About.NOTICE, one.text, _not_right("exit0"), meaning)


def _written(signal: Signal) -> str:
    """Return a signal as sbatch has it."""
    seconds_said = "" if signal.seconds_s is None else f"@{signal.seconds_s:g}"
    prefix = {"batch": "B:", "full": "full:"}.get(signal.target or "", "")
    return f"{prefix}{signal.name or 'none'}{seconds_said}"


def _signal_in_words(notice: Notice) -> str:
    if not notice.signal:
        return "no signal: it is requeued without a notice"
    return f"SIG{notice.signal} to {TARGET_WORDS[notice.target]}, from {notice.source}"


def _no(about: About, said: str, why: str, instead: str, *, source: str = COMMENT) -> NotFollowed:
    return NotFollowed(about=about, said=said, source=source, why=why, instead=instead)
