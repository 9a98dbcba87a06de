"""Whether a batch job's work would survive its preemption, as far as its options and its script tell.

Each verdict is what became of such a job on a real Slurm (docs/reference/notice.md, `tesched_testcluster/kinds.py`).
What a program does with a signal is not known: where it counts, the verdict says which program has to save, and when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.notice import TARGET_WORDS, ExitZero, Target
from tesched_core.model.snapshot import JobClass, Traits
from tesched_slurm.shell_script import Handler, How, Program, ShellScript


class Verdict(StrEnum):
    """What becomes of a job that has to make room."""

    #: it may not be requeued, so nothing is asked of it
    KEPT = "never preempted"
    #: its script handles the signal, and the job goes on where it has saved
    SAVES = "saves"
    #: its program gets the signal
    PROGRAM = "saves if its program does"
    #: it has no notice: Slurm's SIGTERM, and KillWait, are all that it gets
    UNDECLARED = "starts over, unless its program saves on SIGTERM"
    #: it runs again from its start
    AGAIN = "starts over"
    #: Slurm takes it for finished
    UNFINISHED = "ends unfinished"


#: the verdicts of a job that loses nothing by its script's fault
GOOD = frozenset({Verdict.KEPT, Verdict.SAVES, Verdict.PROGRAM})


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What is known of a job before it is submitted."""

    traits: Traits
    script: ShellScript
    #: it may be put back in the queue
    requeues: bool
    #: its output file is written on when it runs again
    appends: bool
    settings: SlurmSettings
    #: its script's text, and its name as it was given
    text: str = ""
    where: str = ""
    #: what had to be assumed of the site, in sentences
    assumed: Sequence[str] = ()


@dataclass(slots=True, kw_only=True)
class Judgement:
    """Verdict and what led to it."""

    verdict: Verdict
    #: what happens, step by step, in sentences
    because: list[str] = field(default_factory=list)
    #: what to change, in sentences
    advice: list[str] = field(default_factory=list)
    #: lines for the script's head, such as "#SBATCH --open-mode=append"
    lines: list[str] = field(default_factory=list)


def judge(job: Submission) -> Judgement:
    """Return what becomes of the job."""
    if not job.requeues:
        because = ["it may not be requeued: tesched never preempts it"]
        because += ["Slurm does not run it again after a failed node either"]
        return Judgement(verdict=Verdict.KEPT, because=because)
    if job.traits.job_class is JobClass.EXEMPT:
        return Judgement(verdict=Verdict.KEPT, because=[f"rule {job.traits.rule} exempts it"])
    found = _by_requeue(job) if not job.traits.notice_signal else _by_signal(job)
    if not job.appends:
        found.advice.append("its next run empties its output file: --open-mode=append keeps what stands there")
        found.lines.append("#SBATCH --open-mode=append")
    return found


def _by_requeue(job: Submission) -> Judgement:
    """Return what becomes of a job that has no notice: Slurm's own requeue."""
    wait_s = job.settings.kill_wait_s
    because = [
        f"no signal is declared: it is requeued, by SIGTERM to all its processes, and SIGKILL after {wait_s:g} s"
    ]
    handler, main = job.script.traps.get("TERM"), _main(job.script)
    if handler is not None and not handler.ignores and _is_free(job.script):
        because.append(f"the trap of TERM (line {handler.line}) runs, and has {wait_s:g} s (KillWait)")
        return Judgement(verdict=Verdict.SAVES, because=because)
    because.append(f"{main} has to save on SIGTERM within {wait_s:g} s; else it loses its run")
    advice = [f"declare a signal, and save when it comes (docs/howto/preempted.md): {_pattern(job.script)}"]
    return Judgement(verdict=Verdict.UNDECLARED, because=because, advice=advice)


def _by_signal(job: Submission) -> Judgement:
    traits, script = job.traits, job.script
    signal, target = traits.notice_signal, traits.notice_target
    given = f"it gets SIG{signal} to {TARGET_WORDS[target]}, from {traits.notice_source}"
    because = [f"{given}, and has {traits.grace_period_s:g} s before it is requeued"]
    if target is Target.STEPS:
        return _to_steps(job, because)
    handler, main = script.traps.get(signal), _last(script)
    if main is not None and main.how is How.EXEC:
        handed = "srun hands it on to its tasks, which have" if main.is_step else "the shell is that program: it has"
        because.append(f"{_named(main)}: {handed} to save and to end")
        return _ended_by_program(job, because)
    if handler is None:
        because.append("the script does not trap it: its shell dies of it, and the job is put back in the queue")
        advice = [f"trap it: {_pattern(script, signal)}"]
        return Judgement(verdict=Verdict.AGAIN, because=because, advice=advice)
    if handler.ignores:
        because.append(f"the script ignores it (line {handler.line}): it stays until it is requeued")
        return Judgement(verdict=Verdict.AGAIN, because=because, advice=[f"trap it: {_pattern(script, signal)}"])
    if not _is_free(script):
        where = f"{_named(main)} runs in the foreground" if main is not None else "nothing is waited for"
        if target is Target.FULL and main is not None:
            because.append(f"{where}, gets the signal, too, and has to save and end; then the trap runs")
            return Judgement(verdict=Verdict.PROGRAM, because=because)
        because.append(f"{where}: bash runs the trap (line {handler.line}) only when it has ended, which is too late")
        return Judgement(verdict=Verdict.AGAIN, because=because, advice=[f"run it so: {_pattern(script, signal)}"])
    because.append(f"the trap (line {handler.line}) runs at once: {_after(handler, job)}")
    return _ended_by_trap(handler, job, because)


def _to_steps(job: Submission, because: list[str]) -> Judgement:
    steps = [one for one in job.script.programs if one.is_step]
    if not steps:
        because.append("no srun starts a step: nothing gets the signal, and it stays until it is requeued")
        advice = ["let the signal go to the shell (--signal=B:...), and trap it there; or start the program by srun"]
        return Judgement(verdict=Verdict.AGAIN, because=because, advice=advice)
    because.append(f"{_named(steps[-1])}: its tasks have to save and to end")
    return _ended_by_program(job, because)


def _ended_by_program(job: Submission, because: list[str]) -> Judgement:
    """Return the verdict on a job that ends as its program does."""
    if job.traits.exit0.runs_again(job.settings.release):
        return Judgement(verdict=Verdict.PROGRAM, because=because)
    because.append(f"with exit status 0 it has finished ({_why_finished(job)}); with any other it runs again")
    advice = ["if the program exits with 0 once it has saved, say --comment=exit0=again"]
    return Judgement(verdict=Verdict.PROGRAM, because=because, advice=advice)


def _ended_by_trap(handler: Handler, job: Submission, because: list[str]) -> Judgement:
    if handler.requeues or handler.exits != 0:
        return Judgement(verdict=Verdict.SAVES, because=because)
    if job.traits.exit0.runs_again(job.settings.release):
        return Judgement(verdict=Verdict.SAVES, because=because)
    back = "let the trap put the job back in the queue (scontrol requeue $SLURM_JOB_ID)"
    advice = [f"{back}, or say --comment=exit0=again: exit 0 means saved, run me again"]
    return Judgement(verdict=Verdict.UNFINISHED, because=because, advice=advice)


def _after(handler: Handler, job: Submission) -> str:
    settings = job.settings
    if handler.requeues:
        return "it puts the job back in the queue"
    if handler.exits is None:
        return "it does not say how the job ends; by an exit status other than 0 it runs again"
    if handler.exits == 0:
        again = job.traits.exit0.runs_again(settings.release)
        return (
            "exit 0 means that it runs again" if again else f"exit 0 means that it has finished ({_why_finished(job)})"
        )
    if handler.exits in settings.requeue_exit_hold:
        return f"exit {handler.exits} is of RequeueExitHold: it is put back, and held"
    if handler.exits in settings.requeue_exit:
        return f"exit {handler.exits} is of RequeueExit: Slurm puts it back in the queue"
    return f"exit {handler.exits} is not of RequeueExit: tesched puts it back, and for a moment it has failed"


def _why_finished(job: Submission) -> str:
    if job.traits.exit0 is not ExitZero.SLURM:
        return "as its comment or a rule says"
    return f"Slurm {job.settings.release or 'before 24.11'}"


def _last(script: ShellScript) -> Program | None:
    return script.programs[-1] if script.programs else None


def _main(script: ShellScript) -> str:
    """Return the program that counts, in words: the last one."""
    main = _last(script)
    return "its script" if main is None else _named(main)


#: characters of a program that are shown
_LONGEST = 50


def _named(program: Program) -> str:
    text = program.text if len(program.text) <= _LONGEST else f"{program.text[: _LONGEST - 1]}…"
    return f"`{text}` (line {program.line})"


def _is_free(script: ShellScript) -> bool:
    """Check whether a trap runs at once while the last program runs."""
    main = _last(script)
    return script.waits and main is not None and main.how is How.BACKGROUND


def _pattern(script: ShellScript, signal: str = "") -> str:
    """Return how the script's program is run so that it saves; of a signal that is declared already, the trap alone."""
    main, name = _last(script), signal or "USR1"
    if main is not None and main.is_step and not signal:
        return "#SBATCH --signal=USR1@120 sends it to the tasks of srun, where the program saves and ends"
    trap = f"trap 'kill -{name} $!; wait $!; scontrol requeue $SLURM_JOB_ID' {name}"
    behind = f"the program in the background (`... &`), then `{trap}` and `wait $!`"
    return behind if signal else f"#SBATCH --signal=B:USR1@120, {behind}"
