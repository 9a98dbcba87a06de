"""Everything that sbatch, scontrol and Slurm's library take of a user, drawn at random: extremes of every field.

An action is data: `{own}` in it stands for a job of the user's, `{other}` for a job of any user's, which are known only
when it is done. The same seed draws the same actions.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tesched_testcluster.harness.attacks import raw_rpc
from tesched_testcluster.harness.attacks.fields import COMMANDS, FLAGS, NUMBERS, OPTIONS, SCRIPTS, UPDATES

#: of heterogeneous jobs: slurmctld 22.05 stands still for six seconds, for all users, at each one whose script has half
#: a million lines
SHORT_SCRIPTS = sorted(name for name, text in SCRIPTS.items() if text.count("\n") < 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One call of sbatch: the options of each component, more than one for a heterogeneous job, and the script."""

    components: tuple[tuple[str, ...], ...]
    script: str
    #: all drawn fields, by name
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RawSubmission:
    """One submission by Slurm's library."""

    numbers: Mapping[str, int]
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command of Slurm's."""

    argv: tuple[str, ...]
    fields: tuple[str, ...] = ()


Action: TypeAlias = Submission | RawSubmission | Command


def actions(rng: random.Random) -> Iterator[Action]:
    """Draw without end."""
    while True:
        kind = rng.random()
        if kind < 0.55:
            yield _submission(rng)
        elif kind < 0.65:
            yield _raw(rng)
        elif kind < 0.85:
            names = tuple(rng.sample(sorted(UPDATES), rng.randint(1, 3)))
            drawn = (f"{name}={UPDATES[name](rng)}" for name in names)
            yield Command(argv=("scontrol", "update", "jobid={own}", *drawn), fields=names)
        else:
            name = rng.choice(sorted(COMMANDS))
            yield Command(argv=COMMANDS[name], fields=(name,))


def _submission(rng: random.Random) -> Submission:
    count = 1 if rng.random() < 0.95 else rng.randint(2, 4)
    components, fields = [], []
    for _ in range(count):
        options = _plain(rng)
        for name in rng.sample(sorted(OPTIONS), rng.choice((0, 1, 1, 2, 3, 5))):
            options.append(f"--{name}={OPTIONS[name](rng)}")
            fields.append(name)
        for flag in rng.sample(FLAGS, rng.choice((0, 0, 0, 1, 2))):
            options.append(flag)
            fields.append(flag)
        components.append(tuple(options))
    script = rng.choice(sorted(SCRIPTS) if count == 1 else SHORT_SCRIPTS)
    return Submission(components=tuple(components), script=script, fields=(*fields, script))


def _plain(rng: random.Random) -> list[str]:
    """Draw what makes most jobs such as can run; an extreme that follows goes before it."""
    partition = rng.choice(("main", "main", "debug"))
    minutes = rng.choice((1, 1, 5)) if partition == "debug" else rng.choice((1, 5, 600))
    options = [f"--partition={partition}", f"--time={minutes}", "--mem=100", "--output=/dev/null"]
    return options + (["--gres=gpu:1"] if rng.random() < 0.5 else [])


def _raw(rng: random.Random) -> RawSubmission:
    names = tuple(rng.sample(sorted(raw_rpc.NUMBERS), rng.choice((1, 1, 2, 4))))
    numbers: dict[str, int] = {}
    for name in names:
        bits = 8 * raw_rpc.NUMBERS[name][0]
        # Slurm's own words for no value and for infinite are the last of each width.
        ends = (0, 1, 2 ** (bits - 1) - 1, 2 ** (bits - 1), *range(2**bits - 4, 2**bits))
        within = [number for number in NUMBERS if number < 2**bits]
        numbers[name] = rng.choice((rng.choice(ends), rng.choice(within), rng.getrandbits(bits)))
    return RawSubmission(numbers=numbers, fields=names)


def every_field() -> set[str]:
    """Return the names of all fields that may be drawn."""
    return {*OPTIONS, *UPDATES, *COMMANDS, *SCRIPTS, *FLAGS, *raw_rpc.NUMBERS}
