"""Count of the victims that finish in the moment of their requeue and run twice: `python -m benchmarks.double_run`.

The ways, and what is counted, are those of `tesched_testcluster.harness.double_run`. Printed of each way: victims that
ended within ±50 ms of their requeue, and how many of them ran twice. The others are not counted: --victims is how many
must be in that window. Slurm's passes are not met as well as the moment of a command, so ways are compared by their
share at 10 distances, of 10 ms each, with the same weight ("even"). `--busy N` keeps N processes busy besides. Exit
status 1 if a client's even share is larger than that of Slurm's own preemption by more than chance explains (one-sided,
1 %).
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import get_args

import click
from tesched_testcluster.harness.double_run import NODES, Counts, Way, bench_of
from tesched_testcluster.local import plugin_is_built

#: batches more than would do, before a way is given up because its requeues miss the window
PATIENCE = 4
HEADER = f"{'way':9} window  twice          even  % by ms from the end to the requeue, -50 to 50  outside   load"


def measure(way: Way, victims: int, seed: int) -> Counts:
    """Run one way until so many victims were in the window, on a cluster of its own."""
    with bench_of(way, seed) as bench:
        counts = bench.counts
        # One batch, not counted, to learn how long a call takes.
        bench.batch()
        counts.seen.clear()
        counts.outside = 0
        for _ in range(PATIENCE * math.ceil(victims / NODES)):
            bench.batch()
            if sys.stderr.isatty():
                print(f"\r{counts}", end="", file=sys.stderr, flush=True)
            if len(counts.seen) >= victims:
                break
    return counts


def more_than_chance(ours: Counts, theirs: Counts) -> bool:
    """Return whether our share is larger than theirs, and chance would make it so in less than 1 % of cases."""
    return ours.share - theirs.share > statistics.NormalDist().inv_cdf(0.99) * math.hypot(ours.error, theirs.error)


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep so many processes busy until the block ends."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@click.command()
@click.option("--victims", type=click.IntRange(1), default=2000, show_default=True, help="Of each way, in the window.")
@click.option("--way", "ways", type=click.Choice(get_args(Way)), multiple=True, help="[default: all that there are]")
@click.option("--busy", "extra", type=click.IntRange(0), default=0, show_default=True, help="Processes kept busy.")
@click.option("--seed", type=int, default=0, show_default=True)
def main(*, victims: int, ways: tuple[Way, ...], extra: int, seed: int) -> None:
    """Measure each way and compare them."""
    lacking = {"pyslurm": not find_spec("pyslurm"), "plugin": not plugin_is_built()}
    chosen = ways or tuple(way for way in get_args(Way) if not lacking.get(way))
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the start, {extra} processes kept busy")
    print(HEADER)
    measured: dict[Way, Counts] = {}
    with busy(extra):
        for way in chosen:
            measured[way] = measure(way, victims, seed)
            print(measured[way], flush=True)
    theirs = measured.get("slurm")
    worse = [
        way
        for way, counts in measured.items()
        if theirs is not None and way in {"commands", "pyslurm"} and more_than_chance(counts, theirs)
    ]
    if worse:
        print(f"more often than with Slurm's own preemption: {', '.join(worse)}")
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
