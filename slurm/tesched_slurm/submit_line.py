"""sbatch's command line (SubmitLine): where it is to be had, and which --signal is on it.

Slurm keeps the words that sbatch was called with, joined by blanks and without quotes. `--comment 'a --signal=USR1'`
and `--comment a --signal=USR1` leave the same line, so neither a shell's rules (shlex) nor splitting it at blanks shows
what was typed: an apostrophe in a comment would end the former, a blank in a command to wrap deceives the latter. It is
read as getopt does, word by word up to the script's name, with what is known of sbatch's options (tried on 22.05.8 and
26.05.5). The texts that users type most (comment, job name, the wrapped command) are known from elsewhere, and are
passed over as a whole. Where the line could mean either of two, it declares nothing: such a job is requeued at once.

Slurm 26.05 has the line in `scontrol --json show job`: a structure, so no text in it can pretend to be another field or
another job. Older releases have it in slurmdbd alone; sacct ends each column with a separator that is drawn after the
jobs were submitted. slurmctld sends slurmdbd the jobs that have started every 5 s, or once slurmdbd is back: until then
there is no row, or one without a line that the job's first step has left, as PENDING (22.05.8, tried). Such a line is
awaited. A row that says RUNNING has all that there is: without a line, the job was submitted by no command.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Job, SlurmSettings
from tesched_core.model.not_followed import LONGEST_SAID
from tesched_core.model.notice import Declared, read_signal

from tesched_slurm.run_command import Commands
from tesched_slurm.sbatch_options import (
    LETTER_NAMES,
    LETTERS_STAND_ALONE,
    LETTERS_TAKE_A_WORD,
    LETTERS_WITH_THEIR_WORD,
    long_option,
)
from tesched_slurm.uptime import uptime_s

log = logging.getLogger(__name__)

#: characters of the longest line that is read
MOST_CHARACTERS = 65_536
#: seconds that slurmdbd may take: the loop waits meanwhile
SLURMDBD_TIMEOUT_S = 2.0
#: seconds for which slurmdbd is left alone when it did not answer, the first time, and the most; doubled in between
SLURMDBD_FIRST_PAUSE_S = 5.0
SLURMDBD_PAUSE_S = 60.0
#: seconds after the first question in which a line is expected, and between two questions then
EXPECTED_S = 30.0
EXPECTED_PAUSE_S = 1.0
#: seconds until the next question after that, doubled with each, and the longest such pause: then there is no line
LATE_PAUSE_S = 60.0
LATE_PAUSE_MAX_S = 3600.0

_SOURCE = "--signal on sbatch's command line"
_LINE = "sbatch's command line"
_UNCERTAIN = Declared(
    source="its sbatch command line can be read in two ways",
    where=_LINE,
    not_taken="...",
    why_not="the command line can be read in two ways, as Slurm keeps no quotes; the comment can say it (signal=)",
)
#: the first release with a scontrol that knows --json
_JSON_SINCE = (23, 2)
#: the state of a row that slurmctld has sent with the job's start
_STORED = "RUNNING"


class _TwoWaysError(Exception):
    """The line could mean either of two."""


def declared_on(line: str, texts: Mapping[str, str]) -> Declared | None:
    """Read what a command line of sbatch declares, the last --signal on it; None if it has no --signal.

    `texts` are the values of options, by their long name, that may hold blanks, as they are known from elsewhere; a
    text that is not known is empty.
    """
    if "--si" not in line:
        return None
    if len(line) > MOST_CHARACTERS:
        return _UNCERTAIN
    try:
        values = [*_signal_values(line, texts)]
    except _TwoWaysError:
        return _UNCERTAIN
    if not values:
        return None
    found = read_signal(values[-1])
    if found is None:
        source = f"{_SOURCE} is none that tesched sends"
        return Declared(source=source, where=_LINE, not_taken=values[-1][:LONGEST_SAID])
    return Declared(signal=found, source=_SOURCE, where=_LINE)


def _signal_values(line: str, texts: Mapping[str, str]) -> Iterator[str]:
    """Yield the value of each --signal before the script's name. Raises _TwoWaysError."""
    program_end = _word_end(line, 0)
    if line[:program_end].rpartition("/")[2] != "sbatch":
        raise _TwoWaysError
    position = program_end + 1
    while position < len(line):
        end = _word_end(line, position)
        word = line[position:end]
        if word in {"-", "--"} or not word.startswith("-"):
            return  # the script, and what follows is for it
        name, value_at = _option(line, position, word)
        if value_at is None:
            position = end + 1
            continue
        if value_at > len(line):
            return
        value_end = _value_end(line, value_at, name, texts)
        if name == "signal":
            yield line[value_at:value_end]
        position = value_end + 1


def _option(line: str, position: int, word: str) -> tuple[str, int | None]:
    """Return the long name of the option at `position`, and where its value begins; None if it has none.

    The name is empty where it does not matter. Raises _TwoWaysError for an option that may or may not take a word.
    """
    after = position + len(word) + 1
    if not word.startswith("--"):
        for place, letter in enumerate(word[1:], 1):
            if letter in LETTERS_TAKE_A_WORD:
                value_at = position + place + 1 if place + 1 < len(word) else after
                return LETTER_NAMES.get(letter, ""), value_at
            if letter in LETTERS_WITH_THEIR_WORD:
                return "", None
            if letter not in LETTERS_STAND_ALONE:
                raise _TwoWaysError
        return "", None
    given, equals, _ = word[2:].partition("=")
    name, takes_a_word = long_option(given)
    if equals:
        return name, position + 2 + len(given) + 1
    if takes_a_word is None:  # an option of a plugin's: is the next word its value, or the script?
        if line[after : after + 1] not in {"", "-"}:
            raise _TwoWaysError
        return "", None
    return name, after if takes_a_word else None


def _value_end(line: str, start: int, name: str, texts: Mapping[str, str]) -> int:
    """Position where an option's value ends. Raises _TwoWaysError where a --signal may be a part of it."""
    end = _word_end(line, start)
    if name not in texts or start == end:
        return end
    known = start + len(texts[name])
    if texts[name] and line.startswith(texts[name], start) and line[known : known + 1] in {"", " "}:
        return known
    if line.startswith("--si", end + 1):
        raise _TwoWaysError
    return end


def _word_end(line: str, start: int) -> int:
    end = line.find(" ", start)
    return len(line) if end < 0 else end


_WRAPPED = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n"


def known_texts(job: Job, script: str) -> Mapping[str, str]:
    """Return the texts of the job's user that may hold blanks, by the option that gives them."""
    # No expression: a lazy group before `\n*\Z` takes the square of the newlines' number.
    wrapped = script.removeprefix(_WRAPPED).rstrip("\n") if script.startswith(_WRAPPED) else ""
    return {"comment": job.comment, "job-name": job.name, "wrap": wrapped}


class NoLine(Enum):
    """Reasons for which a job's command line is not known."""

    #: there is none, or it is not to be had
    NONE = auto()
    #: slurmdbd does not have it yet, or did not answer; it is expected within seconds
    EXPECTED = auto()
    #: it was expected, and has not come; it is queried again now and then
    LATE = auto()


@dataclass(slots=True, kw_only=True)
class _Awaited:
    """One command line that slurmdbd did not have."""

    #: when it was first queried
    since_s: float
    again_at_s: float
    #: seconds of the last pause of a line that is late
    pause_s: float = 0.0

    @property
    def is_given_up(self) -> bool:
        return self.pause_s > LATE_PAUSE_MAX_S


@dataclass(kw_only=True)
class SubmitLines:
    """Asks for the command lines of jobs, one at a time, and remembers which are awaited.

    A line is named by what the jobs that were submitted by it have in common, as the caller has it.
    """

    commands: Commands
    stopwatch: Callable[[], float] = uptime_s
    #: a text that no user can have known when its job was submitted
    draw: Callable[[], str] = secrets.token_hex
    _awaited: dict[Hashable, _Awaited] = field(default_factory=dict)
    _not_before: float = float("-inf")
    _pause_s: float = 0.0

    def keep(self, names: Collection[Hashable]) -> None:
        """Forget the lines that are awaited under any other name."""
        for name in self._awaited.keys() - names:
            del self._awaited[name]

    def again_at_s(self, name: Hashable) -> float:
        """Time from which a line is queried again, by the stopwatch; -inf for one that was not queried yet."""
        found = self._awaited.get(name)
        return max(found.again_at_s, self._not_before) if found else float("-inf")

    def is_due(self, name: Hashable) -> bool:
        """Check whether `read` would query a line now."""
        return name not in self._awaited or self.again_at_s(name) <= self.stopwatch()

    def is_expected(self, name: Hashable) -> bool:
        """Check whether a line was queried, and may still come within seconds."""
        found = self._awaited.get(name)
        return found is not None and self.stopwatch() < found.since_s + EXPECTED_S

    def read(self, name: Hashable, job: Job, settings: SlurmSettings) -> str | NoLine | None:
        """Return the command line of a job; None if slurmctld did not answer.

        It is queried by the job's own id: by its label Slurm 26.05 answers with every record of its array.
        """
        if tuple(int(part) for part in re.findall(r"\d+", settings.release)[:2]) >= _JSON_SINCE:
            answer = self.commands.run(("scontrol", "--json", "show", "job", str(job.job_id)))
            if isinstance(answer, Failure):
                if answer.kind in {FailureKind.UNREACHABLE, FailureKind.BUSY}:
                    return None
                log.debug("scontrol --json does not show job %s: %s", job.job_id, answer.message)
            elif (text := _from_json(answer, job)) is not None:
                return text or NoLine.NONE
        return self._awaiting(name, job) if settings.has_slurmdbd else NoLine.NONE

    def _awaiting(self, name: Hashable, job: Job) -> str | NoLine:
        """Read the line that slurmdbd has, or how long it is awaited already."""
        now = self.stopwatch()
        awaited = self._awaited.setdefault(name, _Awaited(since_s=now, again_at_s=now))
        if not awaited.is_given_up and now >= self.again_at_s(name):
            found = self._from_slurmdbd(job)
            if isinstance(found, str):
                del self._awaited[name]
                return found or NoLine.NONE
            if found is not None:
                self._put_off(awaited, now)
        if awaited.is_given_up:
            return NoLine.NONE
        return NoLine.EXPECTED if now < awaited.since_s + EXPECTED_S else NoLine.LATE

    @staticmethod
    def _put_off(awaited: _Awaited, now: float) -> None:
        pause_s = EXPECTED_PAUSE_S
        if now >= awaited.since_s + EXPECTED_S:
            awaited.pause_s = pause_s = max(2 * awaited.pause_s, LATE_PAUSE_S)
        awaited.again_at_s = now + pause_s

    def _from_slurmdbd(self, job: Job) -> str | NoLine | None:
        """Return the line, empty where the job has none; None if slurmdbd did not answer."""
        separator = self.draw()
        columns = ("-n", "-X", "-p", f"--delimiter={separator}", "-o", "JobIDRaw,State,SubmitLine")
        # The loop waits for the answer. It is no RPC of slurmctld's.
        patient = replace(self.commands, timeout_s=min(self.commands.timeout_s, SLURMDBD_TIMEOUT_S), calls=Counter())
        answer = patient.run(("sacct", *columns, "-j", str(job.job_id)))
        if isinstance(answer, Failure):
            log.warning("sacct does not say how job %s was submitted: %s", job.job_id, answer.message)
            self._pause_s = min(max(2 * self._pause_s, SLURMDBD_FIRST_PAUSE_S), SLURMDBD_PAUSE_S)
            self._not_before = self.stopwatch() + self._pause_s
            return None
        self._pause_s = 0.0
        fields = answer.split(separator)
        rows = [
            (state, line)
            for number, state, line in zip(fields[::3], fields[1::3], fields[2::3], strict=False)
            if number.strip() == str(job.job_id)
        ]
        state, line = rows[-1] if rows else ("", "")
        return line if line or state == _STORED else NoLine.EXPECTED


def _from_json(answer: str, job: Job) -> str | None:
    """Return the job's command line, empty where it has none; None where the answer does not say."""
    try:
        for record in json.loads(answer)["jobs"]:
            if record["job_id"] == job.job_id:
                line = record.get("submit_line")
                return line if isinstance(line, str) else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        log.warning("scontrol --json answers in a form that is not known, so job %s is read without", job.job_id)
    return None
