"""The signal that a job's own options declare: `sbatch --signal=[{R|B}:]SIG[@SECONDS]`.

Slurm keeps it and shows it nowhere: not in scontrol, squeue or pyslurm. What can be had is sbatch's command line, on
some sites (`submit_line.py`), and the batch script (`scontrol write batch_script ID -`, which needs Operator) with the
`#SBATCH` lines sbatch has read. As for sbatch, the command line goes before the script. SBATCH_SIGNAL in sbatch's
environment goes between the two, and can't be seen.

The script is its user's text: it is read as sbatch reads it, line by line up to the first command, bounded in length,
and nothing in it is ever run or expanded. What cannot be read declares nothing; then no signal is sent, and the job is
requeued at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Job, SlurmSettings
from tesched_core.model.not_followed import LONGEST_SAID
from tesched_core.model.notice import Declared, read_signal
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass, Snapshot

from tesched_slurm.run_command import Commands
from tesched_slurm.sbatch_options import option_lines, read_options
from tesched_slurm.submit_line import NoLine, SubmitLines, declared_on, known_texts
from tesched_slurm.uptime import uptime_s
from tesched_slurm.user_turns import in_turn

log = logging.getLogger(__name__)

#: what jobs with one script have in common
_Script: TypeAlias = tuple[JobId, str, float]

#: scripts read in one poll, and the seconds that this may take: a poll after a restart of the daemon finds all of them
#: unread, and a job with an unread script is no victim yet
MOST_SCRIPTS = 50
MOST_S = 0.5
#: characters of a script that are read: the options stand at its beginning
MOST_CHARACTERS = 65_536
#: bytes of a script that are read: all of what sbatch was to wrap on a command line that is read (`submit_line.py`)
MOST_BYTES = 4 * MOST_CHARACTERS + 4096

_SCRIPT = "its script"
_OPTION = "signal"
_NOTHING = Declared(source="no --signal in its script")
#: what is said of the command line where neither declares any
_ENDS: Mapping[str | NoLine, str] = {
    NoLine.NONE: ", and its command line can't be seen",
    NoLine.LATE: ", and slurmdbd does not have its command line yet",
}
_UNREADABLE = Declared(source="its script could not be read")


def declared_in(script: str) -> Declared:
    """Read what the `#SBATCH` lines of a batch script declare; the last --signal counts, as for sbatch."""
    arguments = [*_signal_arguments(script[:MOST_CHARACTERS])]
    if not arguments:
        return _NOTHING
    found = read_signal(arguments[-1])
    if found is None:
        source = "its script's --signal is none that tesched sends"
        return Declared(source=source, where=_SCRIPT, not_taken=arguments[-1][:LONGEST_SAID])
    return Declared(signal=found, source="its script's --signal", where=_SCRIPT)


def _signal_arguments(script: str) -> Iterator[str]:
    """Yield the value of each --signal option, in their order.

    sbatch reads the words of all lines as one command line: at the end of a line, too, `-J` takes the next word. A
    signal that the job has not declared would end it; one that is not found costs it its grace period alone.
    """
    words = [word for _, of_line in option_lines(script) for word in of_line]
    options, _ = read_options(words, taken=True)
    return (option.value for option in options if option.name == _OPTION and option.value is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadSignal:
    """Knowledge of one job."""

    #: restarts and submission
    run: tuple[int, float]
    declared: Declared
    #: its command line should be in slurmdbd, and was not there yet
    without_line: bool

    @property
    def is_whole(self) -> bool:
        """Check whether all that there is to be read was read."""
        return not self.without_line and self.declared is not _UNREADABLE

    def is_of(self, job: Job | None) -> bool:
        """Check whether it was read of this job, or of an earlier run of it."""
        # A requeued job has the script that it had; another job of the same id begins at no restarts.
        return job is not None and (self.run == (job.restarts, job.submit_time) or job.restarts > self.run[0])


@dataclass(kw_only=True)
class ScriptDeclarations:
    """Reads scripts and command lines of running best-effort jobs, a bounded number at a time.

    Each is read once, that of an array once for all its tasks. Users are served in turn: a thousand unread jobs of one
    user put another's off by one script. A job whose command line is expected within seconds is not read yet; one whose
    line does not come has what its script declares, and is read anew once the line is there.
    """

    commands: Commands
    stopwatch: Callable[[], float] = uptime_s
    _lines: SubmitLines = field(init=False)
    #: by job id, as the run was last
    _known: dict[JobId, _ReadSignal] = field(default_factory=dict)
    #: what the scripts were searched for
    _patterns: tuple[str, ...] = ()
    #: the user who was served last
    _last_user: str = ""

    def __post_init__(self) -> None:
        """Take what asks for command lines, by the same clock."""
        self._lines = SubmitLines(commands=self.commands, stopwatch=self.stopwatch)

    def read(self, snapshot: Snapshot, patterns: tuple[str, ...] = ()) -> Mapping[JobId, Declared]:
        """Read what the options of the running best-effort batch jobs declare, as far as their scripts were read.

        `patterns` are the texts to search the scripts for.
        """
        if patterns != self._patterns:
            # Scripts are not kept, so they are read anew.
            self._known, self._patterns = {}, patterns
        known: dict[JobId, _ReadSignal] = {}
        unread: dict[str, list[Job]] = {}
        awaits: set[_Script] = set()
        for job_id, job in snapshot.jobs.items():
            run = (job.restarts, job.submit_time)
            before = self._known.get(job_id)
            if before is not None and before.is_of(job):
                known[job_id] = replace(before, run=run) if before.run != run else before
                if not before.without_line:
                    continue
            if not job.on_nodes or not job.batch or snapshot.job_class(job_id) is not JobClass.BE:
                continue
            awaits.add(_script(job))
            if self._lines.is_due(_script(job)) or not (job_id in known or self._lines.is_expected(_script(job))):
                unread.setdefault(job.user, []).append(job)
        self._lines.keep(awaits)
        for jobs in unread.values():
            # A line that is awaited holds up no job of its user that was not queried yet.
            jobs.sort(key=lambda job: self._lines.again_at_s(_script(job)))
        self._read_some(unread, snapshot, known)
        self._known = known
        return {job_id: found.declared for job_id, found in known.items()}

    def known(self, snapshot: Snapshot) -> Mapping[JobId, Declared]:
        """Declared signals of these jobs that were read before: calls nothing."""
        jobs, known = snapshot.jobs, self._known
        return {job_id: found.declared for job_id, found in known.items() if found.is_of(jobs.get(job_id))}

    def _read_some(
        self, unread: Mapping[str, Sequence[Job]], snapshot: Snapshot, known: dict[JobId, _ReadSignal]
    ) -> None:
        """Add what is declared by as many of these jobs, by user, as there is time for."""
        until = self.stopwatch() + MOST_S
        left = MOST_SCRIPTS
        answers = True
        expected: set[_Script] = set()
        by_script = self._shared(snapshot, known)
        own = _with_own_ids(snapshot) if unread else {}
        for user, job in in_turn(unread, self._last_user):
            name = _script(job)
            found = by_script.get(name)
            if found is None:
                if not answers or left == 0 or name in expected or self.stopwatch() >= until:
                    continue
                left -= 1
                self._last_user = user
                answer = self._declared(job, own.get(name, job), snapshot.settings, known.get(job.job_id))
                if answer is None:
                    answers = False  # slurmctld is down or busy: the next poll tries again
                    continue
                if isinstance(answer, NoLine):
                    expected.add(name)
                    continue
                found = answer
                if found.declared is not _UNREADABLE:
                    by_script[name] = found
            known[job.job_id] = replace(found, run=(job.restarts, job.submit_time))

    def _shared(self, snapshot: Snapshot, known: Mapping[JobId, _ReadSignal]) -> dict[_Script, _ReadSignal]:
        """Find what is known of whole arrays by one of their tasks, but for lines that are due to be queried."""
        found: dict[_Script, _ReadSignal] = {}
        for job_id, each in known.items():
            name = _script(snapshot.jobs[job_id])
            if each.is_whole or (each.without_line and name not in found and not self._lines.is_due(name)):
                found[name] = each
        return found

    def _declared(
        self, job: Job, twin: Job, settings: SlurmSettings, before: _ReadSignal | None
    ) -> _ReadSignal | Literal[NoLine.EXPECTED] | None:
        """Read what the job's options declare; None if slurmctld did not answer.

        `twin` was submitted by the same command line, and may be the job itself. `before` is what is known without it.
        """
        line = self._lines.read(_script(twin), twin, settings)
        if line is None or line is NoLine.EXPECTED:
            return line
        if line is NoLine.LATE and before is not None:
            return before
        run = (job.restarts, job.submit_time)
        # The tasks of an array share one script, so a task's own id does as well.
        argv = ("scontrol", "write", "batch_script", str(job.job_id), "-")
        script = self.commands.run(argv, enough=MOST_BYTES)
        if isinstance(script, Failure):
            if script.kind in {FailureKind.UNREACHABLE, FailureKind.BUSY}:
                return None
            log.warning("the script of job %s could not be read, so it gets no signal: %s", job.job_id, script.message)
            return _ReadSignal(run=run, declared=_UNREADABLE, without_line=False)
        found = declared_in(script)
        if isinstance(line, str):
            found = declared_on(line, known_texts(job, script)) or found
        if found is _NOTHING:
            end = _ENDS.get(line, " or on its command line")
            found = Declared(source=_NOTHING.source + end)
        begin = script[:MOST_CHARACTERS]
        found = replace(found, script_has=frozenset(text for text in self._patterns if text in begin))
        return _ReadSignal(run=run, declared=found, without_line=line is NoLine.LATE)


def _script(job: Job) -> _Script:
    """Key that jobs with one script have in common: an array's tasks were submitted together."""
    return job.array_job_id or job.job_id, job.user, job.submit_time


def _with_own_ids(snapshot: Snapshot) -> dict[_Script, Job]:
    """Return a task of each array that has an id of its own, one that runs rather than one that has ended.

    The last task of an array bears the array's id, and Slurm answers to that with a record for each of its tasks. Of
    several the first is taken, of which slurmdbd hears first.
    """
    found: dict[_Script, Job] = {}
    for job in snapshot.jobs.values():
        if job.array_job_id not in {None, job.job_id}:
            before = found.get(_script(job))
            if before is None or (job.on_nodes and not before.on_nodes):
                found[_script(job)] = job
    return found
