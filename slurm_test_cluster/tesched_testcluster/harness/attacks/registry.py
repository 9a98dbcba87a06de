"""The list of attacks: each is a row of what `python -m benchmarks.hostile --rows` prints.

A new one is a function of a `Bench` in a module that `rows.py` imports:

    @attack("own-te-job", "a user preempts the own BE job and lets it grow", DEFINITION)
    def own_te_job(bench: Bench) -> Result:
        ...
        return Result(figure="ran after 12 s, as without it", held=True)
"""

from __future__ import annotations

import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tesched_slurm.client_choice import ClientChoice

from tesched_testcluster.cluster import ClusterError
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.attacks.bench import Bench
from tesched_testcluster.harness.attacks.raw_rpc import RawSubmissionError
from tesched_testcluster.local import LocalCluster

#: eight GPUs on each of four nodes
PLAIN = ClusterDefinition(groups=(NodeGroup(count=4),))


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Outcome of an attack: what was measured, and whether the daemon held."""

    figure: str
    held: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """One attack on a cluster of its own."""

    name: str
    tried: str
    definition: Callable[[], ClusterDefinition]
    run: Callable[[Bench], Result]
    #: why it cannot be tried here; empty if it can
    lacking: Callable[[], str]


ATTACKS: dict[str, Attack] = {}


def attack(
    name: str,
    tried: str,
    definition: ClusterDefinition | Callable[[], ClusterDefinition] = PLAIN,
    lacking: Callable[[], str] = str,
) -> Callable[[Callable[[Bench], Result]], Callable[[Bench], Result]]:
    """Add the decorated function to the list; its cluster may depend on this machine's users."""
    make = definition if not isinstance(definition, ClusterDefinition) else lambda: definition

    def added(run: Callable[[Bench], Result]) -> Callable[[Bench], Result]:
        if name in ATTACKS:
            raise ValueError(f"two attacks have the name {name}")
        ATTACKS[name] = Attack(name=name, tried=tried, definition=make, run=run, lacking=lacking)
        return run

    return added


def run_attacks(names: Sequence[str], client: ClientChoice, say: Callable[[str], object]) -> Iterator[bool]:
    """Run these attacks, all if none is named; say a line of each, and yield whether it held.

    One that is named and can't be tried here has not held.
    """
    for name in names or ATTACKS:
        one = ATTACKS[name]
        if why := one.lacking():
            say(f"{name:<16} {client:<9} not tried: {why}")
            yield not names
            continue
        result = _result(one, client)
        verdict = "held" if result.held else "NOT HELD"
        say(f"{name:<16} {client:<9} {verdict:<8}  {one.tried}: {result.figure}")
        yield result.held


def _result(one: Attack, client: ClientChoice) -> Result:
    """Run one attack; what fails meanwhile, or ends the daemon, is no success."""
    try:
        with tempfile.TemporaryDirectory(prefix="tesched-attack-") as folder, LocalCluster(one.definition()) as cluster:
            return one.run(Bench(cluster=cluster, client=client, folder=Path(folder)))
    except (AssertionError, ClusterError, RawSubmissionError, subprocess.TimeoutExpired, sqlite3.Error) as error:
        said = str(error).strip().splitlines() or [type(error).__name__]
        return Result(figure=said[-1][:300], held=False)
