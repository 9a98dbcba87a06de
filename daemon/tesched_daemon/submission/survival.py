"""Whether a batch job's work would survive its preemption, as far as its options and its script show.

Each verdict is what became of such a job on a real Slurm (docs/reference/notice.md, `tesched_testcluster/kinds.py`).
What a program does with a signal is not known: where it counts, the verdict names the program that has to save.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tesched_core.model.cluster import SlurmSettings
from tesched_core.model.notice import TARGET_WORDS, ExitZero, Target
from tesched_core.model.snapshot import JobClass, Traits
from tesched_slurm.shell_script import Handler, How, Program, ShellScript, Trap, Wait


class Survival(StrEnum):
    """What becomes of a job that is a victim."""

    #: it is a trial-and-error job, may not be requeued, or is protected
    KEPT = "never preempted"
    #: its owner does not want that it runs again
    ENDS = "ends for good, as its owner says"
    #: its script handles the signal, and the job goes on where it has saved
    SAVES = "saves"
    #: its program gets the signal
    PROGRAM = "saves if its program does"
    #: in one part of the script it saves, in another it does not
    BY_TIME = "saves in a part of its run"
    #: the script does not show it
    UNCLEAR = "not known"
    #: it has no notice: Slurm's SIGTERM, and KillWait, are all that it gets
    UNDECLARED = "starts over, unless its program saves on SIGTERM"
    #: it runs again from its start
    AGAIN = "starts over"
    #: Slurm takes it for finished
    UNFINISHED = "ends unfinished"
    #: its trap submits a job in its place, and it is put back besides
    TWICE = "runs twice"


#: the verdicts of a job that loses nothing by its script's fault
GOOD = frozenset({Survival.KEPT, Survival.ENDS, Survival.SAVES, Survival.PROGRAM, Survival.BY_TIME})


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """What is known of a job before it is submitted."""

    traits: Traits
    script: ShellScript
    #: it may be put back in the queue
    requeues: bool
    #: what the site protects it by, in words; empty if by nothing
    protected: str = ""
    #: its comment says preempted=end, and the site's lever follows that
    ends: bool = False
    #: its output file is written on when it runs again
    appends: bool
    settings: SlurmSettings
    #: its script's text, and its name as it was given
    text: str = ""
    where: str = ""
    #: the script is a file of its own, and its last line that has options, or the first
    is_file: bool = True
    last_option_line: int = 1
    #: what had to be assumed of the site, in sentences
    assumed: Sequence[str] = ()


@dataclass(slots=True, kw_only=True)
class Judgement:
    """Verdict and what led to it."""

    verdict: Survival
    #: what happens, step by step, in sentences
    because: list[str] = field(default_factory=list)
    #: what to change, in sentences
    advice: list[str] = field(default_factory=list)
    #: lines for the script's head, such as "#SBATCH --open-mode=append"
    lines: list[str] = field(default_factory=list)


def judge(job: Submission) -> Judgement:
    """Judge what becomes of the job."""
    if not job.requeues:
        because = ["it may not be requeued: tesched never preempts it"]
        because += ["Slurm does not run it again after a failed node either"]
        return Judgement(verdict=Survival.KEPT, because=because)
    if job.traits.job_class is JobClass.EXEMPT or job.protected:
        return Judgement(verdict=Survival.KEPT, because=[job.protected or f"rule {job.traits.rule} exempts it"])
    if job.traits.job_class is JobClass.TE:
        because = [f"it is trial and error (rule {job.traits.rule}): best-effort jobs alone are preempted"]
        return Judgement(verdict=Survival.KEPT, because=because)
    if job.traits.most_preemptions == 0:
        return Judgement(verdict=Survival.KEPT, because=["its owner says so (preemptions=0)"])
    if job.ends:
        return _for_good(job)
    found = _by_requeue(job) if not job.traits.notice_signal else _by_signal(job)
    for line in job.script.late_options:
        found.advice.append(f"line {line}: sbatch reads no #SBATCH line after the first command")
    if not job.appends:
        found.advice.append("its next run empties its output file: --open-mode=append keeps what stands there")
        found.lines.append("#SBATCH --open-mode=append")
    return found


def _for_good(job: Submission) -> Judgement:
    """Judge what becomes of a job whose owner says preempted=end."""
    traits, wait_s = job.traits, job.settings.kill_wait_s
    notice = []
    if traits.notice_signal:
        given = (
            f"it gets SIG{traits.notice_signal} to {TARGET_WORDS[traits.notice_target]}, from {traits.notice_source}"
        )
        notice = [f"{given}, and has {traits.grace_period_s:g} s before it is cancelled"]
    because = [
        *notice,
        f"preempted=end: it is cancelled (SIGTERM, and SIGKILL after {wait_s:g} s), and does not run again",
    ]
    return Judgement(verdict=Survival.ENDS, because=because)


def _by_requeue(job: Submission) -> Judgement:
    """Judge what becomes of a job that has no notice: Slurm's own requeue."""
    wait_s = job.settings.kill_wait_s
    because = [
        f"no signal is declared: it is requeued, by SIGTERM to all its processes, and SIGKILL after {wait_s:g} s"
    ]
    phases = _phases(job.script, "TERM", wait_s)
    if phases and all(one.handler is not None and not one.handler.ignores and one.is_free for one in phases):
        handler = phases[-1].handler
        because.append(
            f"the trap of TERM (line {handler.line if handler else 0}) runs, and has {wait_s:g} s (KillWait)"
        )
        return Judgement(verdict=Survival.SAVES, because=because)
    because.append(f"{_main(job.script)} has to save on SIGTERM within {wait_s:g} s; else it loses its run")
    advice = [f"declare a signal, and save when it comes (docs/howto/preempted.md): {_pattern(job.script)}"]
    return Judgement(verdict=Survival.UNDECLARED, because=because, advice=advice)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Phase:
    """Part of a script's run."""

    #: what it does then: None where it waits for what runs in the background
    program: Program | None
    line: int
    #: what it does on the signal then
    handler: Handler | None
    #: a trap runs at once
    is_free: bool


def _phases(script: ShellScript, signal: str, grace_s: float) -> list[_Phase]:
    """Return the parts of the script's run that may take long."""
    handler: Handler | None = None
    behind = False
    found: list[_Phase] = []
    for one in script.events:
        if isinstance(one, Trap):
            handler = one.handler if one.signal == signal else handler
        elif isinstance(one, Wait):
            if behind:
                found.append(_Phase(program=None, line=one.line, handler=handler, is_free=True))
        elif one.how is How.BACKGROUND:
            behind = True
        elif one.sleeps_s is not None and one.sleeps_s < grace_s:
            if behind:
                found.append(_Phase(program=None, line=one.line, handler=handler, is_free=True))
        else:
            found.append(_Phase(program=one, line=one.line, handler=handler, is_free=False))
    return found


def _by_signal(job: Submission) -> Judgement:
    traits = job.traits
    signal, target = traits.notice_signal, traits.notice_target
    given = f"it gets SIG{signal} to {TARGET_WORDS[target]}, from {traits.notice_source}"
    because = [f"{given}, and has {traits.grace_period_s:g} s before it is requeued"]
    if target is Target.STEPS:
        return _to_steps(job, because)
    phases = _phases(job.script, signal, traits.grace_period_s)
    if not phases:
        because.append("nothing in the script takes long, or it does not wait for what runs in the background")
        return Judgement(
            verdict=Survival.UNCLEAR, because=because, advice=[f"run it so: {_pattern(job.script, signal)}"]
        )
    judged = [_in_phase(one, job) for one in phases]
    if len({one.verdict for one in judged}) == 1:
        return _joined(judged[-1:], because)
    found = _joined(judged, because)
    if any(one.verdict in GOOD for one in judged):
        found.verdict = Survival.BY_TIME
    elif found.verdict is not Survival.AGAIN:
        found.verdict = Survival.UNCLEAR
    return found


def _joined(judged: Sequence[Judgement], because: list[str]) -> Judgement:
    advice = [line for one in judged for line in one.advice]
    said = [line for one in judged for line in one.because]
    return Judgement(verdict=judged[-1].verdict, because=[*because, *said], advice=[*dict.fromkeys(advice)])


def _in_phase(phase: _Phase, job: Submission) -> Judgement:
    """Judge what becomes of the job if the signal comes in this part of its run."""
    signal, script, program, handler = job.traits.notice_signal, job.script, phase.program, phase.handler
    while_ = f"while {_named(program)} runs" if program is not None else f"while it waits (line {phase.line})"
    if program is not None and program.how is How.EXEC:
        handed = "srun hands it on to its tasks, which have" if program.is_step else "the shell is that program: it has"
        return _ended_by_program(job, [f"{_named(program)}: {handed} to save and to end"])
    if handler is None:
        if any(isinstance(one, Trap) and one.signal is None for one in script.events):
            because = [
                f"{while_}: a trap names its signal by a variable, or as not every sh knows it (SIGUSR1 for USR1)"
            ]
            return Judgement(verdict=Survival.UNCLEAR, because=because)
        because = [f"{while_}: no trap is set for it, its shell dies of it, and the job is put back in the queue"]
        return Judgement(verdict=Survival.AGAIN, because=because, advice=[f"trap it: {_pattern(script, signal)}"])
    if handler.ignores:
        because = [f"the script ignores it (line {handler.line}): it stays until it is requeued"]
        return Judgement(verdict=Survival.AGAIN, because=because, advice=[f"trap it: {_pattern(script, signal)}"])
    if phase.is_free:
        return _by_trap(handler, job, while_)
    if job.traits.notice_target is Target.FULL:
        because = [f"{while_}: it gets the signal, too, and has to save and end; then the trap runs"]
        return Judgement(verdict=Survival.PROGRAM, because=because)
    because = [f"{while_}: bash runs the trap (line {handler.line}) only when that has ended, which is too late"]
    return Judgement(verdict=Survival.AGAIN, because=because, advice=[f"run it so: {_pattern(script, signal)}"])


def _to_steps(job: Submission, because: list[str]) -> Judgement:
    steps = [one for one in job.script.programs if one.is_step]
    if steps:
        named = _named(steps[-1])
        is_srun = "srun" in steps[-1].text
        because.append(f"{named}: its tasks have to save and to end{'' if is_srun else ', if it starts them as steps'}")
        return _ended_by_program(job, because)
    if job.script.is_other or any(one.is_unclear for one in job.script.programs):
        because.append("no srun is seen here; whether another command starts a step is not known")
        return Judgement(verdict=Survival.UNCLEAR, because=because)
    because.append("no srun is seen: unless a program starts a step, nothing gets the signal, and it stays until then")
    advice = ["let the signal go to the shell (--signal=B:...), and trap it there; or start the program by srun"]
    return Judgement(verdict=Survival.AGAIN, because=because, advice=advice)


def _ended_by_program(job: Submission, because: list[str]) -> Judgement:
    """Return the verdict on a job that ends as its program does, or as what its script does after that."""
    if job.traits.exit0.runs_again(job.settings.release):
        return Judgement(verdict=Survival.PROGRAM, because=because)
    because.append(
        f"if the job then ends with exit status 0, it has finished ({_why_finished(job)}); else it runs again"
    )
    advice = ["if it ends with 0 once it has saved, say --comment=exit0=again"]
    return Judgement(verdict=Survival.PROGRAM, because=because, advice=advice)


def _by_trap(handler: Handler, job: Submission, while_: str) -> Judgement:
    """Judge what becomes of the job once its trap runs."""
    settings, again = job.settings, job.traits.exit0.runs_again(job.settings.release)
    runs = f"{while_}: the trap (line {handler.line}) runs at once"
    back = "let the trap end by scontrol requeue $SLURM_JOB_ID"
    if handler.cancels:
        return Judgement(verdict=Survival.UNFINISHED, because=[f"{runs}, and cancels its own job"], advice=[back])
    if handler.requeues:
        if handler.submits:
            because = [f"{runs}, submits another job, and puts its own back in the queue"]
            return Judgement(verdict=Survival.TWICE, because=because, advice=["do one of both"])
        return Judgement(verdict=Survival.SAVES, because=[f"{runs}: it puts the job back in the queue"])
    if not handler.exits:
        said = f"{runs}, and does not end the script: what comes after that says how the job ends"
        if again:
            return Judgement(verdict=Survival.SAVES, because=[said])
        because = [f"{said}; with exit status 0 it has finished ({_why_finished(job)})"]
        return Judgement(verdict=Survival.UNCLEAR, because=because, advice=[back])
    if handler.submits:
        finished = handler.exits == {0} and not again
        verdict = Survival.SAVES if finished else Survival.TWICE
        because = [
            f"{runs}, and submits another job; {'its own has finished' if finished else 'its own runs again, too'}"
        ]
        return Judgement(verdict=verdict, because=because, advice=[] if finished else [f"{back}, and submit none"])
    if handler.exits == {0}:
        if again:
            return Judgement(verdict=Survival.SAVES, because=[f"{runs}: exit 0 means that it runs again"])
        because = [f"{runs}: exit 0 means that it has finished ({_why_finished(job)})"]
        advice = [f"{back}, or say --comment=exit0=again: exit 0 means saved, run me again"]
        return Judgement(verdict=Survival.UNFINISHED, because=because, advice=advice)
    if not again and handler.exits & {0, None}:
        because = [f"{runs}: with exit status 0 it has finished ({_why_finished(job)}), with another it runs again"]
        return Judgement(verdict=Survival.UNCLEAR, because=because, advice=[back])
    means = [_meaning(code, settings) for code in sorted(code for code in handler.exits if code)]
    return Judgement(verdict=Survival.SAVES, because=[f"{runs}: {'; '.join(means) or 'it ends the script'}"])


def _meaning(code: int, settings: SlurmSettings) -> str:
    if code in settings.requeue_exit_hold:
        return f"exit {code} is of RequeueExitHold: it is put back, and held"
    if code in settings.requeue_exit:
        return f"exit {code} is of RequeueExit: Slurm puts it back in the queue"
    return f"exit {code} is not of RequeueExit: tesched puts it back, and for a moment it has failed"


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


def _pattern(script: ShellScript, signal: str = "") -> str:
    """Pattern by which the script's program is run so that it saves; of a signal declared already, the trap alone."""
    main, name = _last(script), signal or "USR1"
    if main is not None and main.is_step and not signal:
        return "#SBATCH --signal=USR1@120 sends it to the tasks of srun, where the program saves and ends"
    trap = f"trap 'kill -{name} $!; wait $!; scontrol requeue $SLURM_JOB_ID' {name}"
    behind = f"the program in the background (`... &`), then `{trap}` and `wait $!`"
    return behind if signal else f"#SBATCH --signal=B:USR1@120, {behind}"
