"""`tesched check`: what a preemption would do to a job, before it is submitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

import click
from tesched_core.model.not_followed import NotFollowed
from tesched_core.model.snapshot import JobClass
from tesched_daemon.config import Config
from tesched_daemon.config_errors import ConfigError
from tesched_daemon.config_lookup import search
from tesched_daemon.submission.read import read_submission
from tesched_daemon.submission.survival import GOOD, Judgement, Submission, Survival, judge

from tesched_cli.common import configuration, json_option, named_config_option, say, say_lines
from tesched_cli.json_output import document, print_json
from tesched_cli.render.not_followed import not_followed_lines
from tesched_cli.sbatch_words import SBATCH_OPTIONS, say_misplaced, sbatch_words


@document("check")
@dataclass(frozen=True, slots=True, kw_only=True)
class CheckJson:
    """Judgement of one script."""

    #: its path, or what stands for standard input and --wrap
    script: str
    job_class: JobClass
    #: the rule that gives the class
    rule: str
    verdict: Survival
    #: what happens, step by step, and what to change, in sentences
    because: tuple[str, ...]
    advice: tuple[str, ...]
    #: what its user says and does not count, or not as it is said
    not_followed: tuple[NotFollowed, ...]
    #: the lines that its head lacks, as a patch; empty if none
    diff: str
    #: what had to be assumed, in sentences
    notes: tuple[str, ...]


@click.command(context_settings=SBATCH_OPTIONS)
@named_config_option
@json_option
@sbatch_words
@click.pass_context
def check(context: click.Context, config_path: Path | None, *, as_json: bool, words: tuple[str, ...]) -> None:
    """Say whether a job would survive its preemption.

    SCRIPT is a batch script, "-" for one on standard input; what stands before it are options of sbatch's, which go
    before those in the script, and --config and --json come first of all. Nothing is submitted, and nothing of the
    script is run: which signal its processes get, whether it traps that one, and what comes then, as far as its text
    shows. Exit status 0: its work is saved, if its program does its part; 1: it loses its run; 2: an error.
    """
    if words[:1] == ("-h",):
        say_lines(f"{context.get_help()}\n")
        return
    say_misplaced("check", words)
    config, notes = _configured(config_path)
    submission = read_submission(words, config)
    notes += submission.assumed
    found = judge(submission)
    diff, traits = _diff(submission, found), submission.traits
    if as_json:
        print_json(
            CheckJson(
                script=submission.where,
                job_class=traits.job_class,
                rule=traits.rule,
                verdict=found.verdict,
                because=tuple(found.because),
                advice=tuple(found.advice),
                not_followed=tuple(traits.not_followed),
                diff=diff,
                notes=tuple(notes),
            )
        )
    else:
        say(f"{submission.where}: {found.verdict}")
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
    say_lines(diff)


def _configured(path: Path | None) -> tuple[Config, list[str]]:
    """Return the configuration; the defaults, and that it is so, where none is named and the site's can't be read.

    Raises ConfigError.
    """
    if path is not None:
        return configuration(path), []
    try:
        return configuration(search()), []
    except ConfigError as error:
        return Config(), [f"judged by the default configuration: {error}"]


def _diff(submission: Submission, found: Judgement) -> str:
    """Return the lines that the script's head lacks, as a patch; empty if none, or if there is no script's file."""
    where = submission.where
    if not found.lines or not submission.is_file:
        return ""
    # Line feeds alone end a line to sbatch, a shell and patch: a form feed or U+2028 in a comment ends none.
    before = [f"{line}\n" for line in submission.text.removesuffix("\n").split("\n")]
    last = submission.last_option_line
    after = [*before[:last], *(f"{line}\n" for line in found.lines), *before[last:]]
    # patch reads a name up to a tab.
    name = f"{where}\t" if " " in where else where
    return "".join(unified_diff(before, after, name, name, n=1))
