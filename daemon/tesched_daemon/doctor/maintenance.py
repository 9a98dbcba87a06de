"""Findings on coming reservations of whole partitions: of whose jobs none is a victim until they are over.

Slurm starts no job that could not end before a reservation of its nodes, and takes one without a time limit to run for
a year. So a job that runs now would wait for the reservation's end, if it were requeued, and tesched lets it run
(`placement/awaits_reservation.py`). Where a partition's jobs have no limit as a rule, that is said of all of them, and
an announced maintenance ends all preemption there, though nothing is out of order.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence

from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Partition, Reservation
from tesched_core.model.resources import UnixSeconds
from tesched_core.placement.latest_start import YEAR_S
from tesched_slurm.columns import strange
from tesched_slurm.run_command import Commands
from tesched_slurm.scontrol_cluster import read_reservations

from tesched_daemon.doctor.finding import Finding, warn

CHECK = "reservations"


def maintenance(commands: Commands, partitions: Sequence[Partition]) -> Iterator[Finding]:
    """Yield what coming reservations mean for each partition; nothing where they may not be seen."""
    said = commands.run(("scontrol", "-o", "show", "reservation"))
    if isinstance(said, Failure) and said.kind is FailureKind.DENIED:
        return  # PrivateData: the rights are a check of their own
    try:
        seen = said if isinstance(said, Failure) else read_reservations(said)
    except (KeyError, ValueError) as error:
        seen = strange("scontrol show reservation", error)
    if isinstance(seen, Failure):
        yield warn(CHECK, f"they cannot be seen: {seen.message}", "ask again")
    else:
        yield from without_victims(partitions, seen, time.time())


def without_victims(
    partitions: Sequence[Partition], reservations: Iterable[Reservation], now: UnixSeconds
) -> Iterator[Finding]:
    """Yield each partition of whose jobs, with its default time limit, none is a victim until a reservation is over."""
    ahead = sorted(reservations, key=lambda one: (one.start_time, one.name))
    for partition in partitions:
        limit_s = partition.max_time_s if partition.default_time_s is None else partition.default_time_s
        run_s = YEAR_S if limit_s is None else limit_s
        found = next((one for one in ahead if _awaited(one, partition, run_s, now)), None)
        if partition.state != "UP" or not partition.nodes or found is None:
            continue
        length = "no time limit" if limit_s is None else f"the default time limit of {limit_s / 3600:.4g} h"
        text = (
            f"{found.name}, from {_date(found.start_time)} to {_date(found.end_time)}, has all nodes of the partition "
            f"{partition.name}: until then no job there with {length} is a victim, but in a reservation, as Slurm "
            "would not start it again before"
        )
        advice = (
            "jobs with a limit by which they end before it (--time, or the partition's DefaultTime) still are; "
            "`tesched explain JOB` names the reservation beside each job that is none"
        )
        yield warn(CHECK, text, advice)


def _awaited(one: Reservation, partition: Partition, run_s: float, now: UnixSeconds) -> bool:
    """Check whether a job that runs so long starts on none of the partition's nodes before the reservation is over."""
    is_whole = not one.doubt and not one.cores and "MAGNETIC" not in one.flags and partition.nodes <= one.nodes
    return is_whole and now < one.start_time < now + run_s


def _date(at: UnixSeconds) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
