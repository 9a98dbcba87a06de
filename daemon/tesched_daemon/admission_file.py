"""Admission file: until when TE jobs may start by themselves, for the submission hook (systemd/job_submit.lua).

Principle
    The hook holds a TE job at its submission unless the file lets it start, and a living daemon takes its poke. What
    the file says holds for a while only: a daemon that hangs, or can't see Slurm, keeps no job from starting for
    longer. Without the file nothing is held.

Source
    tesched's own; `guard.bound`, docs/howto/bound.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from math import isinf
from pathlib import Path
from urllib.parse import quote

from tesched_core.intake.class_rules import Classification
from tesched_core.model.decision import Admission, SubmittedTe

from tesched_daemon.admission_rules import TEXTS, UNKNOWN, lines_of
from tesched_daemon.own_file import OwnFile

#: The file's first line; the hook reads no other form.
WORD = "tesched-admission"
FORM = f"{WORD} 1"
#: Seconds for which the file holds, beside two of the longest waits between polls.
HOLDS_S = 60.0
#: Longest text; the hook reads it at each submission.
MOST_BYTES = 65_536
#: Users whose TE jobs are counted there.
MOST_USERS = 500
#: The part of what is left of a time after which the file is written anew.
PART = 0.25

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class _WrittenFile:
    """State of the file when it was written."""

    at: float
    until: float
    valid: float
    most_s: float
    classes: Classification
    is_counted: bool
    #: inode, change time, size
    stat: tuple[int, int, int] | None


@dataclass(kw_only=True)
class AdmissionFile:
    """The file, and what this process has written there last."""

    path: Path
    #: says whose changes of jobs the hook leaves alone: the daemon's own user, and SlurmUser once that is known
    uids: Callable[[], Collection[int]] = tuple
    #: why the last try to write or to remove it failed, or what it can't say
    failure: str = ""
    _written: _WrittenFile | None = field(default=None)
    #: the last try has failed
    _again: bool = field(default=False)
    _own: OwnFile = field(init=False)

    def __post_init__(self) -> None:
        """Keep no other file at this path."""
        self._own = OwnFile(path=self.path, key="slurm.admission", word=WORD)

    def follow(
        self, admission: Admission | None, classes: Classification, *, now: float, longest_wait_s: float
    ) -> None:
        """Let the file say this, and write it where it does not yet; None: nothing is held, and there is no file.

        `now` is in Unix seconds, and the next call comes within `longest_wait_s`. Never raises for the file's sake.
        """
        if admission is None:
            self.withdraw()
            return
        valid = now + HOLDS_S + 2 * longest_wait_s
        if not self._is_due(admission, classes, valid, now):
            return
        try:
            text, unknown = _shortened(text_of(admission, classes, valid, self.uids(), now=now))
            self._own.replace(text)
        except (OSError, ValueError) as error:
            self._failed("written", error)
            return
        self._again = False
        self._say(
            f"the admission file takes {MOST_BYTES} bytes, and the rules are longer: the hook counts {unknown} of "
            "their conditions as met, and holds more jobs until they are admitted"
            if unknown
            else ""
        )
        self._written = _WrittenFile(
            at=now,
            until=admission.until,
            valid=valid,
            most_s=admission.most_s,
            classes=classes,
            is_counted=admission.submitted is not None,
            stat=self._stat(),
        )

    @property
    def is_there(self) -> bool:
        """Check whether there is a file at its path."""
        return self._stat() is not None

    def withdraw(self) -> None:
        """Remove it, whichever process has written it."""
        self._written = None
        try:
            self._own.remove()
        except NotADirectoryError:
            pass
        except OSError as error:
            self._failed("removed", error)
            return
        self.failure, self._again = "", False

    @property
    def unwritten(self) -> str:
        """Reason that the file does not say what it should; empty if it does."""
        return self.failure if self._again else ""

    def leave(self) -> None:
        """Remove it, if this process has written it: another daemon leads, or this one ends."""
        if self._written is not None:
            self.withdraw()

    def _is_due(self, admission: Admission, classes: Classification, valid: float, now: float) -> bool:
        one, is_counted = self._written, admission.submitted is not None
        if one is None or self._again or one.stat != self._stat():
            return True
        # The hook adds what has come since the count.
        if is_counted or one.is_counted:
            return True
        if admission.most_s != one.most_s or classes != one.classes or valid < one.valid or now < one.at:
            return True
        if _is_used(one.at, one.valid, now) or now < one.until > admission.until:
            return True
        return admission.until > max(one.until, now) and _is_used(one.at, one.until, now)

    def _stat(self) -> tuple[int, int, int] | None:
        try:
            seen = self.path.lstat()
        except OSError:
            return None
        return seen.st_ino, seen.st_mtime_ns, seen.st_size

    def _failed(self, what: str, error: OSError | ValueError) -> None:
        self._again = True
        why = error.strerror if isinstance(error, OSError) else error
        self._say(f"the admission file cannot be {what}: {self.path}: {why}")

    def _say(self, failure: str) -> None:
        if failure and failure != self.failure:
            log.warning("%s", failure)
        self.failure = failure


def _is_used(since: float, until: float, now: float) -> bool:
    """Check whether a quarter of this time has passed; of a time that was over from the start, that is so."""
    return now - since >= PART * max(until - since, 0.0)


def _shortened(text: str) -> tuple[str, int]:
    """Return the text in at most `MOST_BYTES`, and how many conditions are unknown then. Raises ValueError."""
    lines, over, unknown = text.split("\n"), len(text) - MOST_BYTES, 0
    for at in sorted(range(len(lines)), key=lambda at: -len(lines[at])):
        name = lines[at].partition(" ")[0]
        short = f"{name} {UNKNOWN}"
        if over <= 0 or len(lines[at]) <= len(short):
            break
        if name in TEXTS:
            over -= len(lines[at]) - len(short)
            lines[at], unknown = short, unknown + 1
    if over > 0:
        raise ValueError(f"the rules are longer than the {MOST_BYTES} bytes that the file may have")
    return "\n".join(lines), unknown


def text_of(
    admission: Admission, classes: Classification, valid: float, uids: Collection[int] = (), *, now: float = 0.0
) -> str:
    """Return the file's text; nothing of it holds after `valid`. Times are Unix seconds.

    Changes of jobs by the users `uids` are left alone, as root's are. What has come since `now` is not counted yet.
    """
    window = [f"until {admission.until:.3f}", f"most {admission.most_s:.3f}"]
    return "\n".join(
        [
            FORM,
            f"valid {valid:.3f}",
            *(["open"] if isinf(admission.until) else window),
            *(_counts(admission.submitted, now) if admission.submitted is not None else ()),
            *(f"uid {uid}" for uid in sorted(uids)),
            *lines_of(classes),
            "end",
            "",
        ]
    )


def _counts(submitted: SubmittedTe, now: float) -> Iterator[str]:
    """Yield how many TE jobs a user may have, when they were counted, and those who have the most."""
    yield f"submitted_most {submitted.most}"
    yield f"counted {now:.6f}"
    for user, count in sorted(submitted.by_user.items(), key=lambda one: (-one[1], one[0]))[:MOST_USERS]:
        yield f"submitted {quote(user, safe='')} {count}"
