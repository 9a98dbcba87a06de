"""Common parts of the commands that simulate: their options, and the runs that an interrupt leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import click
from tesched_sim.experiment import CONTENDERS, check
from tesched_sim.workload import WorkloadError

from tesched_cli.common import names_in, progress, say

T = TypeVar("T")

seeds_option = click.option(
    "--seeds", type=click.IntRange(1, 1000), default=1, show_default=True, help="How many: 0, 1, and so on."
)
processes_option = click.option("--processes", type=click.IntRange(1, 1024), help="Runs at once. Default: one a core.")


def contenders_in(text: str) -> tuple[str, ...]:
    """Policies that `--policy` names, each once. Raises WorkloadError for one that does not exist, and for none."""
    found = names_in(text)
    if not found:
        raise WorkloadError(f"--policy {text!r} names no policy; there are {', '.join(CONTENDERS)}")
    for contender in found:
        check(contender)
    return found


def pair(word: str, option: str) -> tuple[str, str]:
    """Return the key and the value of one such option. Raises WorkloadError."""
    key, equals, value = word.partition("=")
    if not equals or not key or not value:
        raise WorkloadError(f"{option} {word}: it takes the form key=value")
    return key.strip(), value


def values_of(word: str) -> tuple[str, list[str]]:
    """Return the key and the values of one `--set`, each once. Raises WorkloadError."""
    key, values = pair(word, "--set")
    return key, list(dict.fromkeys(value.strip() for value in values.split(",")))


def refuse_twice(sets: Sequence[str]) -> None:
    """Raise WorkloadError for a key that two `--set` name: one of them would count for nothing."""
    known: set[str] = set()
    for key in (word.partition("=")[0].strip() for word in sets):
        if key in known:
            raise WorkloadError(f"--set {key}: it is set twice")
        known.add(key)


def collected(runs: Iterator[T], total: int) -> list[T]:
    """Collect what the runs give; of those that had finished, after an interrupt. Raises ClickException if none had."""
    done: list[T] = []
    try:
        done.extend(progress(runs, "runs", total=total))
    except KeyboardInterrupt:
        say(f"interrupted: {len(done)} of {total} runs had finished", err=True)
    if not done:
        raise click.ClickException("interrupted before the first run had finished")
    return done
