"""A job before it is submitted: sbatch's options, its script, and what the site is set to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tesched_core.guard.eligibility import protected
from tesched_core.intake.class_rules import Classification
from tesched_core.intake.classify import classify
from tesched_core.intake.ends_for_good import ends_when_preempted
from tesched_core.model.actions import Failure
from tesched_core.model.cluster import Job, JobState, Request, SlurmSettings
from tesched_core.model.limits import YieldBy
from tesched_core.model.not_followed import LONGEST_SAID
from tesched_core.model.notice import Declared, Target, read_signal
from tesched_core.model.resources import JobId
from tesched_core.model.visible import shortened
from tesched_slurm.run_command import Commands
from tesched_slurm.sbatch_options import SbatchOption, option_lines
from tesched_slurm.scontrol_cluster import read_settings
from tesched_slurm.shell_script import ScriptError, read_script
from tesched_slurm.slurm_formats import in_order, seconds

from tesched_daemon.config import Config
from tesched_daemon.plugin_fit import user_name
from tesched_daemon.submission.sources import STDIN, WRAP, SubmissionError, Words, read_words
from tesched_daemon.submission.survival import Submission

#: characters of a script that a site's rules search (`classes.notice_rules`)
_SEARCHED = 65_536
#: partitions of Slurm's that are named
_MOST_NAMED = 12
#: seconds of the longest time that sbatch takes in --signal
_MOST_SIGNAL_S = 65_535
#: of a kind of GPU, at its end
_COUNT = re.compile(r"(?:^|[:=])(\d{1,6})$")


def read_submission(words: Sequence[str], config: Config) -> Submission:
    """Return the job that sbatch would make of these words, the last of which name its script.

    The script `-` is standard input. Raises SubmissionError.
    """
    read = read_words("check", words)
    text, where, declared = read.text, read.where, read.by_name
    commands = Commands(timeout_s=config.slurm.timeout_s, slurm_conf=config.slurm.conf)
    settings, appends_all, assumed = _slurm_settings(commands)
    job = job_of(read)
    assumed += filter(None, (read.unknown_note, _no_partition(job, commands), read.pbs_note))
    traits = classify(job, config.classes, declared_by(declared, text, config.classes))
    try:
        script = read_script(text)
    except ScriptError as error:
        raise SubmissionError(f"{where}: {error}") from error
    return Submission(
        traits=traits,
        protected="the site protects it (guard.protected_...)" if protected(job, config.guard) else "",
        script=script,
        where=where,
        text=text,
        is_file=read.is_file,
        last_option_line=max((line for line, _ in option_lines(text)), default=1),
        assumed=assumed,
        requeues=may_requeue(read.options, settings),
        ends=ends_when_preempted(job.comment) and config.guard.lever is not YieldBy.PLUGIN,
        appends=appends_all or (_value(declared, "open-mode") or "").startswith("a"),
        settings=settings,
    )


def _no_partition(job: Job, commands: Commands) -> str:
    """Note on a partition that Slurm does not have; empty if it has it, or does not say."""
    # Hidden ones, too: sbatch takes them.
    answer = commands.run(("scontrol", "--all", "--oneliner", "show", "partitions")) if job.partitions else ""
    known = [] if isinstance(answer, Failure) else re.findall(r"^PartitionName=(\S+)", answer, re.MULTILINE)
    unknown = [name for name in job.partitions if name not in known] if known else []
    if not unknown:
        return ""
    has = f"Slurm has {', '.join(known[:_MOST_NAMED])}{' and more' if len(known) > _MOST_NAMED else ''}"
    what = f"invalid partition {', '.join(unknown)}; {has}"
    return f"sbatch refuses it, unless the site's job_submit plugin changes its partition: {what}"


def _slurm_settings(commands: Commands) -> tuple[SlurmSettings, bool, list[str]]:
    """Settings in slurm.conf, whether all output files are written on, and what had to be assumed."""
    answer = commands.run(("scontrol", "show", "config"))
    why = answer.message if isinstance(answer, Failure) else ""
    try:
        if not isinstance(answer, Failure):
            appends = re.search(r"^JobFileAppend\s*=\s*1\b", answer, re.MULTILINE) is not None
            return read_settings(answer), appends, []
    except (KeyError, ValueError) as error:
        why = f"its answer has another form than known: {error}"
    assumed = "KillWait 30 s, JobRequeue=1, no RequeueExit and a release before 24.11 are assumed"
    return SlurmSettings(), False, [f"Slurm does not say what it is set to ({why}): {assumed}"]


def may_requeue(options: Iterable[SbatchOption], settings: SlurmSettings) -> bool:
    """Check whether the job may be put back in the queue: by its last word on that, else as the site has it."""
    said = [option.name == "requeue" for option in options if option.name in {"requeue", "no-requeue"}]
    return said[-1] if said else settings.job_requeue


def _value(options: Mapping[str, SbatchOption], name: str) -> str | None:
    option = options.get(name)
    return option.value if option is not None else None


def job_of(read: Words) -> Job:
    """Job that the options describe, for the conditions of the site's rules."""
    options = read.by_name
    nodes = _first_number(_value(options, "nodes"), 1)
    tasks = _first_number(_value(options, "ntasks"), nodes)
    each = _first_number(_value(options, "cpus-per-task"), 1)
    array = _value(options, "array")
    gpus = _gpus(options)
    # As sbatch names it by itself.
    usual = {WRAP: "wrap", STDIN: "sbatch"}.get(read.where) or Path(read.where).name
    return Job(
        job_id=JobId(1),
        array_job_id=JobId(1) if array else None,
        array_tasks=array or "",
        array_throttle=_first_number((array or "").partition("%")[2], 0),
        state=JobState.PENDING,
        name=_value(options, "job-name") or usual,
        user=user_name(),
        # Slurm records both in small letters.
        account=(_value(options, "account") or "").lower(),
        partitions=in_order(_value(options, "partition") or ""),
        qos=(_value(options, "qos") or "").lower(),
        reservation=",".join(in_order(_value(options, "reservation") or "")),
        dependency=_value(options, "dependency") or "",
        licenses=_value(options, "licenses") or "",
        comment=_value(options, "comment") or "",
        time_limit_s=time_limit_s(_value(options, "time")),
        request=Request(
            cpus=tasks * each,
            tasks=tasks,
            cpus_per_task=each,
            min_nodes=nodes,
            max_nodes=nodes,
            gres_per_job=(("gpu", gpus),) if gpus else (),
        ),
    )


def _first_number(text: str | None, default: int) -> int:
    found = re.match(r"\d{1,9}", text or "")
    return max(int(found[0]), 1) if found else default


def _gpus(options: Mapping[str, SbatchOption]) -> int:
    """Count the GPUs that the options name; by node, task or socket, for each node as if there were one of these.

    Of a kind that an option names twice the last counts, as in Slurm.
    """
    nodes = _first_number(_value(options, "nodes"), 1)
    most = 0
    for name in ("gpus", "gres", "gpus-per-node", "gpus-per-task", "gpus-per-socket"):
        parts = [part for part in (_value(options, name) or "").split(",") if name != "gres" or part.startswith("gpu")]
        counts = {
            _COUNT.sub("", part): int(found[1]) if (found := _COUNT.search(part)) else 1 for part in parts if part
        }
        count = sum(counts.values())
        most = max(most, count if name == "gpus" else count * nodes)
    return most


def time_limit_s(text: str | None) -> int | None:
    """Return the seconds of `30` (minutes), `30:00`, `1:00:00`, `2-12` (days, hours), `2-12:30`; None: no limit.

    Raises SubmissionError for a number of more digits than sbatch takes.
    """
    if text is None:
        return None
    if re.search(r"\d{11}", text):
        raise SubmissionError(f"--time={shortened(text, LONGEST_SAID)}: a number in it has too many digits")
    days, dash, rest = text.rpartition("-")
    if dash and days.isdecimal() and re.fullmatch(r"\d+(:\d+){0,2}", rest):
        parts = [int(part) for part in rest.split(":")] + [0, 0]
        return ((int(days) * 24 + parts[0]) * 60 + parts[1]) * 60 + parts[2]
    return int(text) * 60 or None if text.isdecimal() else seconds(text)


def declared_by(options: Mapping[str, SbatchOption], text: str, classes: Classification) -> Declared:
    """Read what the job declares itself, and which texts of the site's its script has."""
    patterns = frozenset(one for one in classes.script_patterns if one in text[:_SEARCHED])
    option = options.get("signal")
    if option is None:
        return Declared(source="it has no --signal", script_has=patterns)
    place = option.place
    signal = read_signal(option.value or "")
    if signal is not None and (signal.target is Target.FULL or (signal.seconds_s or 0) > _MOST_SIGNAL_S):
        raise SubmissionError(
            f"--signal={option.value} {place}: sbatch takes [R][B]:SIG[@SECONDS], of {_MOST_SIGNAL_S} s at most"
        )
    if signal is None:
        said = (option.value or "")[:LONGEST_SAID]
        source = f"--signal={said} {place} is none that tesched sends"
        return Declared(source=source, where=place, not_taken=said, script_has=patterns)
    return Declared(signal=signal, source=f"--signal {place}", where=place, script_has=patterns)
