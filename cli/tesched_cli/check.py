"""`tesched check`: what a preemption would do to a job, before it is submitted."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from difflib import unified_diff
from pathlib import Path

import click
from tesched_core.intake.class_rules import Classification
from tesched_core.intake.classify import classify
from tesched_core.model.actions import Failure
from tesched_core.model.cluster import Job, JobState, SlurmSettings
from tesched_core.model.not_followed import LONGEST_SAID
from tesched_core.model.notice import Declared, read_signal
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.model.told_error import ToldError
from tesched_daemon.config import Config
from tesched_daemon.config_errors import ConfigError
from tesched_daemon.config_lookup import search
from tesched_daemon.plugin_fit import user_name
from tesched_slurm.run_command import Commands
from tesched_slurm.sbatch_options import Option, UnknownOptionError, options_in, read_options
from tesched_slurm.scontrol_cluster import read_settings
from tesched_slurm.shell_script import ScriptError, read_script
from tesched_slurm.slurm_formats import seconds

from tesched_cli.common import configuration, json_option, named_config_option, print_json, say
from tesched_cli.render.not_followed import not_followed_lines
from tesched_cli.survival import GOOD, Judgement, Submission, judge

#: characters of a script's texts that a site's rules look into (`classes.notice_rules`)
_SEARCHED = 65_536


class CheckError(ToldError):
    """The job cannot be judged. The text says why, and what would be right."""


@click.command(
    context_settings={
        "ignore_unknown_options": True,
        "allow_interspersed_args": False,
        # Of sbatch's -pother click would take the h.
        "help_option_names": ["--help"],
    }
)
@named_config_option
@json_option
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[SBATCH_OPTION]... SCRIPT")
@click.pass_context
def check(context: click.Context, config_path: Path | None, *, as_json: bool, words: tuple[str, ...]) -> None:
    """Say whether a job would survive its preemption.

    SCRIPT is a batch script, "-" for one on standard input; what stands before it are options of sbatch's, which go
    before those in the script, and --config and --json come first of all. Nothing is submitted, and nothing of the
    script is run: which signal its processes get, whether it traps that one, and what comes then is told as far as its
    text tells. Exit status 0: its work is saved, if its program does its part; 1: it loses its run; 2: an error.
    """
    if words[:1] == ("-h",):
        click.echo(context.get_help())
        return
    text, where, options = _read(words)
    config, notes = _configured(config_path)
    settings, appends_all, unasked = _asked(config)
    notes += unasked
    declared = {option.name: option for option in options}
    job = _job(declared)
    traits = classify(job, config.classes, _declared(declared, text, config.classes))
    requeues = [option.name == "requeue" for option in options if option.name in {"requeue", "no-requeue"}]
    try:
        script = read_script(text)
    except ScriptError as error:
        raise CheckError(f"{where}: {error}") from error
    submission = Submission(
        traits=traits,
        script=script,
        requeues=requeues[-1] if requeues else settings.job_requeue,
        appends=appends_all or (_value(declared, "open-mode") or "").startswith("a"),
        settings=settings,
    )
    found = judge(submission)
    diff = _diff(text, where, found)
    if as_json:
        data = {
            "script": where,
            "class": traits.job_class,
            "rule": traits.rule,
            "verdict": found.verdict,
            "because": found.because,
            "advice": found.advice,
            "not_followed": traits.not_followed,
            "diff": diff,
            "notes": notes,
        }
        print_json("check", data)
    else:
        say(f"{where}: {found.verdict}")
        if traits.job_class is JobClass.TE:
            say(f"  by its options it is trial and error (rule {traits.rule}): best-effort jobs alone are preempted")
        _print(
            found,
            diff,
            [*map(str.strip, not_followed_lines(traits.not_followed)), *(f"note: {line}" for line in notes)],
        )
    context.exit(0 if found.verdict in GOOD else 1)


def _print(found: Judgement, diff: str, more: Sequence[str]) -> None:
    for line in found.because:
        say(f"  {line}")
    for line in found.advice:
        say(f"  to do: {line}")
    for line in more:
        say(f"  {line}")
    for line in diff.splitlines():
        say(line)


def _read(words: Sequence[str]) -> tuple[str, str, tuple[Option, ...]]:
    """Return the script, its name, and sbatch's options, the command line's last. Raises CheckError."""
    try:
        given, rest = read_options(words)
    except UnknownOptionError as error:
        raise CheckError(str(error)) from error
    wrapped = next((option.value for option in given if option.name == "wrap"), None)
    if wrapped is not None:
        if rest:
            raise CheckError(f"--wrap and a script, {rest[0]}: name one of them, as for sbatch")
        return f"#!/bin/sh\n{wrapped}\n", "--wrap", given
    if not rest:
        raise CheckError("no script is named: tesched check [SBATCH_OPTION]... SCRIPT, or - for standard input")
    text = _script(rest[0])
    try:
        written = options_in(text)
    except UnknownOptionError as error:
        raise CheckError(f"{rest[0]}: {error}") from error
    return text, "standard input" if rest[0] == "-" else rest[0], (*written, *given)


def _script(name: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise CheckError(f"{name}: {error.strerror}") from error
    if not raw.startswith(b"#!"):
        raise CheckError(f'{name}: line 1: sbatch takes a script that begins with "#!", such as #!/bin/bash')
    if b"\0" in raw:
        raise CheckError(f"{name}: it is no text: sbatch takes a script")
    return raw.decode(errors="replace")


def _configured(path: Path | None) -> tuple[Config, list[str]]:
    """Return the site's configuration; the defaults, and that it is so, where the caller has none."""
    try:
        return configuration(path or search()), []
    except ConfigError as error:
        return Config(), [f"judged by the default configuration: {error}"]


def _asked(config: Config) -> tuple[SlurmSettings, bool, list[str]]:
    """Return what slurm.conf says, whether all output files are written on, and what had to be assumed."""
    answer = Commands(timeout_s=config.slurm.timeout_s, slurm_conf=config.slurm.conf).run(
        ("scontrol", "show", "config")
    )
    why = answer.message if isinstance(answer, Failure) else ""
    try:
        if not isinstance(answer, Failure):
            appends = re.search(r"^JobFileAppend\s*=\s*1\b", answer, re.MULTILINE) is not None
            return read_settings(answer), appends, []
    except (KeyError, ValueError) as error:
        why = f"its answer has another form than known: {error}"
    assumed = "KillWait 30 s, JobRequeue=1, no RequeueExit and a release before 24.11 are assumed"
    return SlurmSettings(), False, [f"Slurm does not say what it is set to ({why}): {assumed}"]


def _value(options: dict[str, Option], name: str) -> str | None:
    option = options.get(name)
    return option.value if option is not None else None


def _job(options: dict[str, Option]) -> Job:
    """Return what the options say of the job, for the conditions of the site's rules."""
    partitions = _value(options, "partition")
    return Job(
        job_id=JobId(0),
        state=JobState.PENDING,
        name=_value(options, "job-name") or "",
        user=user_name(),
        account=_value(options, "account") or _value(options, "A") or "",
        partitions=tuple(partitions.split(",")) if partitions else (),
        qos=_value(options, "qos") or "",
        comment=_value(options, "comment") or "",
        time_limit_s=_time_limit_s(_value(options, "time")),
    )


def _time_limit_s(text: str | None) -> int | None:
    """Return the seconds of `30` (minutes), `30:00`, `1:00:00`, `2-12` (days, hours) and `2-12:30`."""
    if text is None:
        return None
    days, dash, rest = text.rpartition("-")
    if dash and days.isdecimal() and re.fullmatch(r"\d+(:\d+){0,2}", rest):
        parts = [int(part) for part in rest.split(":")] + [0, 0]
        return ((int(days) * 24 + parts[0]) * 60 + parts[1]) * 60 + parts[2]
    return int(text) * 60 if text.isdecimal() else seconds(text)


def _declared(options: dict[str, Option], text: str, classes: Classification) -> Declared:
    """Return what the job declares itself, and which texts of the site's its script has."""
    patterns = frozenset(one for one in classes.script_patterns if one in text[:_SEARCHED])
    option = options.get("signal")
    if option is None:
        return Declared(source="it has no --signal", script_has=patterns)
    place = "on the command line" if option.line is None else f"in line {option.line}"
    signal = read_signal(option.value or "")
    if signal is None:
        said = (option.value or "")[:LONGEST_SAID]
        source = f"--signal={said} {place} is none that tesched sends"
        return Declared(source=source, where=place, not_taken=said, script_has=patterns)
    return Declared(signal=signal, source=f"--signal {place}", where=place, script_has=patterns)


def _diff(text: str, where: str, found: Judgement) -> str:
    """Return the lines that the script's head lacks, as a patch; empty if none, or if there is no script's file."""
    if not found.lines or where == "--wrap":
        return ""
    before = text.splitlines(keepends=True)
    last = max((at for at, line in enumerate(before) if line.startswith("#SBATCH")), default=0)
    if not before[last].endswith("\n"):
        before[last] += "\n"
    after = [*before[: last + 1], *(f"{line}\n" for line in found.lines), *before[last + 1 :]]
    name = shlex.quote(where) if " " in where else where
    return "".join(unified_diff(before, after, f"a/{name}", f"b/{name}", n=1))
