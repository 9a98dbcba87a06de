"""tesched's answer to a request against what a real Slurm does: `python -m benchmarks.placement --cases N --seed S`.

Cases are those of `tesched_testcluster.harness.placement`. Three numbers count:

- futile: victims left and Slurm did not start the job there (the goal is 0);
- missed: refused, though Slurm would have started it (the goal is at most 2 %);
- victims, as a multiple of the fewest with which Slurm starts the job (the goal is at most 1.05), in every other case:
  where by mere sums a smaller set of jobs may be enough, the likeliest one goes first, and Slurm says whether it is.

The last line is a row of the table in docs/reference/slurm-requests.md, with the release and the command.

Every disagreement is printed in full; of a futile one also all jobs and nodes, and what slurmctld logs of it with its
debug flags set (`placement_record.py`), as the case may not come again. A job that Slurm says can't start, whatever
goes (a limit, constraints), is left out of both, as the daemon frees nothing for it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import Event
from multiprocessing.synchronize import Event as EventType
from pathlib import Path

import click
from tesched_testcluster.harness.placement import run_cluster
from tesched_testcluster.harness.placement_outcome import Awaited, Case, Verdict
from tesched_testcluster.local import installed_release


@dataclass(frozen=True, kw_only=True)
class Totals:
    """Figures that are printed at the end."""

    cases: int
    counts: dict[str, int]
    with_victims: int
    #: those in which Slurm's word is awaited before any is notified, by why, and those of them that started without any
    awaited: dict[Awaited, int]
    at_slurms_word: dict[Awaited, int]
    #: parts of the cases that Slurm would have started
    missed: float
    not_modelled: float
    #: cases in which it was tried how few victims are enough; victims there, and the fewest
    least_asked: int
    victims: int
    least: int
    #: those where a smaller set was declined, and another one may be enough
    unsure: int
    seconds: float


def totals(cases: list[Case], seconds: float) -> Totals:
    """Return the sums."""
    counts = Counter(case.verdict.value for case in cases)
    asked = [case for case in cases if case.least is not None and case.verdict is Verdict.STARTED]
    could = sum(
        counts[one.value] for one in Verdict if one not in {Verdict.REFUSED, Verdict.SLURM_SAYS_NO, Verdict.INVALID}
    )
    return Totals(
        cases=len(cases) - counts[Verdict.INVALID],
        counts=dict(sorted(counts.items())),
        with_victims=sum(" go" in case.tesched for case in cases),
        awaited=_by_why(case for case in cases if case.awaited),
        at_slurms_word=_by_why(case for case in cases if case.verdict is Verdict.AT_SLURMS_WORD),
        missed=(counts[Verdict.MISSED] + counts[Verdict.NOT_MODELLED]) / max(could, 1),
        not_modelled=counts[Verdict.NOT_MODELLED] / max(could, 1),
        least_asked=len(asked),
        victims=sum(case.victims for case in asked),
        least=sum(case.least or 0 for case in asked),
        unsure=sum(not case.least_is_sure for case in asked),
        seconds=seconds,
    )


def _by_why(cases: Iterable[Case]) -> dict[Awaited, int]:
    counts = Counter(case.awaited for case in cases)
    return {why: counts[why] for why in (Awaited.SUMS, Awaited.FREE)}


def _in_words(by_why: dict[Awaited, int]) -> str:
    return f"{sum(by_why.values())} ({', '.join(f'{why} {count}' for why, count in by_why.items())})"


def row(sums: Totals, release: tuple[int, int], command: str) -> str:
    """Return the figures as a row of the documentation's table, with the Slurm and the command that they are of."""
    year, month = release
    missed, not_modelled = 100 * sums.missed, 100 * sums.not_modelled
    return (
        f"| {year}.{month:02} (`{command}`) | {sums.cases} | {sums.with_victims} | "
        f"{sums.counts.get(Verdict.FUTILE, 0)} | {missed:.2f} %, of which not modelled {not_modelled:.2f} % | "
        f"{sums.victims / max(sums.least, 1):.3f} ({sums.victims} for {sums.least}, in {sums.least_asked} cases) |"
    )


_REASON = re.compile(r"does not model \((.*)\);", re.DOTALL)


def refused_classes(cases: list[Case]) -> Counter[str]:
    """Return why tesched refused what Slurm would have started: what is not modelled, without numbers; or a code."""
    found: Counter[str] = Counter()
    for case in cases:
        if case.verdict not in {Verdict.MISSED, Verdict.NOT_MODELLED}:
            continue
        named = _REASON.search(case.tesched)
        whats = named[1].split(", ") if named else [case.tesched.removeprefix("refuses: ").partition(":")[0]]
        found.update({re.sub(r"\d+", "N", what) for what in whats})
    return found


_stopped: list[EventType] = []


def _stops_at(stop: EventType) -> None:
    """Let this process begin no cluster any more once `stop` is set."""
    _stopped.append(stop)


def _unless_stopped(seed: int, number: int, *, count: int, only: tuple[str, ...], on: tuple[str, ...]) -> list[Case]:
    (stop,) = _stopped
    try:
        return [] if stop.is_set() else run_cluster(seed, number, count, only, on)
    except KeyboardInterrupt:
        stop.set()
        return []
    except SystemExit:
        # Of SIGTERM, by which the pool ends its workers once one of them has died. It would take this for the task's
        # own error, and the worker would wait for the next one for ever, on a lock that the dead one holds.
        os._exit(128 + signal.SIGTERM)


@contextmanager
def _stopping(stop: EventType) -> Iterator[None]:
    """Let one SIGINT end it with the figures so far: what has been handed to a process can't be taken back."""
    try:
        yield
    except KeyboardInterrupt:
        stop.set()


BAD = {Verdict.FUTILE, Verdict.NOT_FREE, Verdict.NEEDLESS, Verdict.MISSED, Verdict.NOT_MODELLED}


#: requests a cluster, where no number is given
EACH = 40


@click.command()
@click.option("--cases", type=click.IntRange(1), default=200, show_default=True)
@click.option("--seed", type=int, default=0, show_default=True)
@click.option("--each", type=click.IntRange(1), default=EACH, show_default=True, help="Requests a cluster.")
@click.option("--at-once", type=click.IntRange(1, 16), default=2, show_default=True, help="Clusters side by side.")
@click.option("--first", type=int, default=0, show_default=True, help="Number of the first cluster.")
@click.option("--record", type=click.Path(path_type=Path), help="Write every case there, a line of JSON each.")
@click.option("--only", multiple=True, help="Words that each request must have (--only threads-per-core).")
@click.option("--on", multiple=True, help="Words that each cluster must have (--on DefCpuPerGPU).")
def main(
    *,
    cases: int,
    seed: int,
    each: int,
    at_once: int,
    first: int,
    record: Path | None,
    only: tuple[str, ...],
    on: tuple[str, ...],
) -> None:
    """Print each disagreement, and the sums."""
    # A shell lets what it starts in the background ignore SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    began = time.monotonic()
    numbers = range(first, first + -(-cases // each))
    found: list[Case] = []
    stop = Event()
    one = partial(_unless_stopped, seed, count=each, only=only, on=on)
    with ProcessPoolExecutor(at_once, initializer=_stops_at, initargs=(stop,)) as pool, _stopping(stop):
        for some in pool.map(one, numbers):
            found += some
            for case in some:
                if case.verdict in BAD or case.took_more or case.victims > (case.least or case.victims):
                    _tell(case)
                if record is not None:
                    with record.open("a") as sink:
                        sink.write(json.dumps(asdict(case)) + "\n")
            print(f"{len(found)} cases, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    sums = totals(found, time.monotonic() - began)
    print(f"{sums.cases} cases in {sums.seconds:.0f} s, {sums.with_victims} of them with victims: {sums.counts}")
    print(
        f"needless: {sums.counts.get(Verdict.NEEDLESS, 0)} (goal 0); of {_in_words(sums.awaited)} Slurm's word is "
        f"awaited, and {_in_words(sums.at_slurms_word)} of these started without a victim"
    )
    print(f"futile: {sums.counts.get(Verdict.FUTILE, 0)} (goal 0)")
    for what, count in refused_classes(found).most_common():
        print(f"    {count} times: {what}")
    print(f"missed: {sums.missed:.2%} (goal at most 2 %), of which not modelled {sums.not_modelled:.2%}")
    print(
        f"victims in {sums.least_asked} cases: {sums.victims}, {sums.victims / max(sums.least, 1):.3f} times the "
        f"{sums.least} that Slurm needs (goal at most 1.05); in {sums.unsure} cases it may need fewer"
    )
    command = f"--cases {cases} --seed {seed}{f' --each {each}' if each != EACH else ''} --at-once {at_once}"
    command += "".join(f" --only {word}" for word in only)
    print(row(sums, installed_release(), command + "".join(f" --on {word}" for word in on)))


def _tell(case: Case) -> None:
    print(f"{case.verdict}{'' if not case.took_more else ' TOOK MORE'}: sbatch {case.options}")
    print(
        f"    cluster {case.cluster}\n    tesched {case.tesched}\n    Slurm   {case.slurm} {case.took_more}", flush=True
    )
    if case.record:
        print(textwrap.indent(case.record, " " * 8), flush=True)


if __name__ == "__main__":
    main()
