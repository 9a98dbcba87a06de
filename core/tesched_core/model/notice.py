"""Notice signals: what jobs and sites may declare, in sbatch's own words, and what exit 0 after a notice means.

Definitions
    declared signal  what `sbatch --signal=[B:]SIG[@SECONDS]`, a job's comment or the site says that a job expects
                     before its end. Only such a signal is ever sent: a signal that a script does not trap ends it as
                     FAILED, and Slurm does not put a failed job back in the queue.
    target           where it goes, as Slurm sends it: to the job's steps; with `B:` to the batch shell alone; with
                     `full:`, tesched's own word, to the batch shell, its children and the steps.

Worked example: `B:USR1@120` is USR1 to the batch shell, 120 s before the end; `TERM` is TERM to the steps, 60 s before
(sbatch's own default); `full:10` is USR1 to all of the job's processes; `none` is no signal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

#: The signals that may serve as a notice, by number as on every Linux.
NOTICE_SIGNALS: Mapping[int, str] = MappingProxyType(
    {1: "HUP", 2: "INT", 10: "USR1", 12: "USR2", 15: "TERM", 18: "CONT"}
)
#: `sbatch --signal=USR1` without `@SECONDS` means that many (sbatch(1))
SBATCH_SECONDS_S = 60.0
#: the word for "send nothing"
NONE = "none"


class Target(StrEnum):
    """Processes of a job that get its notice."""

    #: the tasks that srun started, where there are any; the batch script's own processes get nothing
    STEPS = "steps"
    #: the batch shell, and none of its children
    BATCH = "batch"
    #: the batch shell, its children and the steps
    FULL = "full"


#: in words
TARGET_WORDS: Mapping[Target, str] = MappingProxyType(
    {Target.STEPS: "its steps", Target.BATCH: "its batch shell", Target.FULL: "all its processes"}
)


class ExitZero(StrEnum):
    """Meaning of an exit status 0 in a job's grace period."""

    #: it has finished, and must not run again
    FINISHED = "finished"
    #: it has saved its work, and is to run again
    AGAIN = "again"
    #: what Slurm's own preemption makes of it, on this release of Slurm
    SLURM = "slurm"

    def runs_again(self, release: str) -> bool:
        """Check whether such a job is to run again, on this release of Slurm ("22.05.8").

        Slurm's own preemption with GraceTime, tried: 22.05 leaves a job that ends in its grace period alone, whatever
        its exit status; 24.11 and 26.05 put it back in the queue, whatever its exit status. Releases before 24.11 are
        taken for 22.05: a job that has finished is then not run twice.
        """
        if self is not ExitZero.SLURM:
            return self is ExitZero.AGAIN
        numbers = re.findall(r"\d+", release)[:2]
        return tuple(int(number) for number in numbers) >= (24, 11)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """A signal as it was declared."""

    #: "USR1", "TERM", …; empty for `none`
    name: str
    #: None where it has no prefix: then to the steps, unless a finer source says otherwise
    target: Target | None = None
    #: None without `@SECONDS`
    seconds_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """Declaration in the options of one run's submission; without a signal, that they declare none."""

    signal: Signal | None = None
    #: where it was found, in words: "its script's --signal"
    source: str = ""
    #: of the texts that the site's notice rules search for, those that are in its script
    script_has: frozenset[str] = frozenset()
    #: whose --signal that is, in words: "its script"
    where: str = ""
    #: the value of a --signal that is none that tesched sends, and, where that is not the value's fault, why
    not_taken: str = ""
    why_not: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Notice of one job, and where it comes from."""

    #: empty for none
    signal: str
    target: Target
    source: str
    grace_period_s: float
    grace_source: str
    exit0: ExitZero


_PREFIXES: Mapping[str, Target | None] = MappingProxyType(
    # R: also allows reservations to overlap, which is nothing to us.
    {"": None, "r:": None, "b:": Target.BATCH, "br:": Target.BATCH, "rb:": Target.BATCH, "full:": Target.FULL}
)
#: characters of a signal's number, which may have zeros before it
_LONGEST_NUMBER = 10
_WRITTEN = re.compile(r"((?:[a-z]{1,4}:)?)(sig)?([a-z]{2,5}[12]?|\d{1,2})(?:@(\d{1,5}))?", re.IGNORECASE)


def signal_name(text: str) -> str | None:
    """Return `USR1` for `usr1`, `SIGUSR1` or `10`; None for what may not serve as a notice."""
    if text.isascii() and text.isdecimal():
        # Python refuses to read a number of thousands of digits.
        return NOTICE_SIGNALS.get(int(text)) if len(text) < _LONGEST_NUMBER else None
    name = text.upper().removeprefix("SIG")
    return name if name in NOTICE_SIGNALS.values() else None


def read_signal(text: str) -> Signal | None:
    """Parse `B:USR1@60`, `full:TERM`, `10` or `none`; None for any other text, and other signals."""
    if text.lower() == NONE:
        return Signal(name="")
    match = _WRITTEN.fullmatch(text)
    if match is None or match[1].lower() not in _PREFIXES:
        return None
    name = signal_name(match[3])
    if name is None:
        return None
    return Signal(
        name=name, target=_PREFIXES[match[1].lower()], seconds_s=None if match[4] is None else float(match[4])
    )


def gets_notice(signal: str, grace_period_s: float) -> bool:
    """Check whether a job that is to leave is sent its signal: one without a grace period is requeued at once."""
    return bool(signal) and grace_period_s > 0
