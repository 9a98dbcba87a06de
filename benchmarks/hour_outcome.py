"""Outcome of `benchmarks.hour`: by the state store, by Slurm's records, and by what the jobs wrote themselves.

Which victim left for which TE job is known to tesched alone. What came of it is reckoned a second time, from the jobs'
own words and the Prolog's: a victim has left for nothing unless its TE job began on its node next, and that run reached
its end or lasted `useful_s`. And each run of a best-effort job that was cut short, by its own words and by Slurm's
count of restarts, must be that of a victim.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np
from tesched_testcluster.load import Event, EventName

from benchmarks.hour_site import Part

#: departures after which a job is to run again
AWAY = frozenset({"requeued", "requeued_itself", "died_of_notice", "saved"})


@dataclass(kw_only=True)
class Run:
    """One start of a job."""

    at: float
    node: str
    restarts: int
    #: how it ended by its own word; None: it was cut short, or its Prolog failed
    done_at: float | None = None
    left_at: float | None = None

    def served(self, useful_s: float) -> bool:
        """Check whether a preemption for it was of use."""
        return self.done_at is not None or (self.left_at is not None and self.left_at - self.at >= useful_s)


@dataclass(frozen=True, kw_only=True)
class Seen:
    """All that is known after the run."""

    parts: Mapping[str, Part]
    ids: Mapping[str, int]
    #: seconds since 1970 before its sbatch
    submitted: Mapping[int, float]
    events: Sequence[Event]
    failed_starts: Mapping[int, Sequence[tuple[float, str]]]
    #: Slurm's last record of each job
    records: Mapping[int, Mapping[str, str]]
    #: of the store, as `tesched orders --json` prints them
    orders: Sequence[Mapping[str, Any]]
    #: orders that came to nothing, by the daemon's tally
    tally_futile: int
    useful_s: float
    #: orders of one TE job that may come to nothing (guard.max_futile_orders_per_job)
    bound: int
    runs: Mapping[int, list[Run]] = field(init=False)

    def __post_init__(self) -> None:
        """Sort what the jobs wrote into runs."""
        object.__setattr__(self, "runs", _runs(self.events))

    def part(self, job_id: int) -> Part:
        """Return the part of a job."""
        return self.by_id.get(job_id, "be")

    @property
    def by_id(self) -> Mapping[int, Part]:
        """Return the part of each job by its id."""
        return {job_id: self.parts[name] for name, job_id in self.ids.items()}


def _runs(events: Sequence[Event]) -> dict[int, list[Run]]:
    runs: dict[int, list[Run]] = defaultdict(list)
    for event in events:
        if event.name in {EventName.START, EventName.RESTART}:
            runs[event.job_id].append(Run(at=event.time, node=event.node, restarts=event.restarts))
        elif event.name is EventName.DONE:
            runs[event.job_id][-1].done_at = event.time
        elif event.name is EventName.LEAVE:
            runs[event.job_id][-1].left_at = event.time
    return runs


def left_for_nothing(seen: Seen) -> list[tuple[int, int, Part]]:
    """Return each victim that left because it was notified, and for nothing by the jobs' own words.

    As its id, its TE job's, and the part of that.
    """
    found = []
    made: dict[int, list[float]] = defaultdict(list)
    for order in seen.orders:
        made[order["preemptor"]].append(order["created_at"])
    for order in seen.orders:
        te, begin = order["preemptor"], order["created_at"]
        end = min((at for at in made[te] if at > begin), default=inf)
        failed = [Run(at=at, node=node, restarts=0) for at, node in seen.failed_starts.get(te, ())]
        starts = sorted([*seen.runs.get(te, ()), *failed], key=lambda run: run.at)
        start = next((run for run in starts if begin <= run.at < end), None)
        for victim in order["victims"]:
            if victim["left_at"] is None or victim["noticed_at"] is None:
                continue
            if start is None or start.node not in victim["nodes"] or not start.served(seen.useful_s):
                found.append((victim["job_id"], te, seen.part(te)))
    return found


def cut_short(seen: Seen) -> set[tuple[int, int]]:
    """Return the runs of best-effort jobs after which another one came, though they had not reached their end."""
    return {
        (job_id, run.restarts)
        for job_id, runs in seen.runs.items()
        if seen.part(job_id) == "be"
        for run in runs[:-1]
        if run.done_at is None
    }


def report(seen: Seen) -> bool:
    """Print it; return whether all is well."""
    victims = [victim for order in seen.orders for victim in order["victims"]]
    states = Counter(seen.records.get(one, {}).get("JobState", "unknown") for one in seen.ids.values())
    parts = Counter(seen.parts.values())
    print(f"{len(seen.ids)} jobs: {dict(parts)}; states at the end: {dict(states)}")
    print(f"orders {len(seen.orders)}: {dict(Counter(order['ending'] for order in seen.orders))}")
    print(f"victims {len(victims)}: {dict(Counter(one['departure'] or one['state'] for one in victims))}")
    _print_waits(seen)
    good = _futility(seen)
    return _runs_add_up(seen, victims) and good and set(states) == {"COMPLETED"}


def _print_waits(seen: Seen) -> None:
    waits = [
        seen.runs[job_id][0].at - seen.submitted[job_id]
        for name, job_id in seen.ids.items()
        if seen.parts[name] == "ordinary" and seen.runs.get(job_id)
    ]
    median, most, longest = np.percentile(waits, (50, 95, 100)) if waits else (np.nan,) * 3
    print(
        "seconds from submission to start, ordinary TE jobs: "
        f"median {median:.1f}, 95 % {most:.1f}, longest {longest:.1f}"
    )


def _futility(seen: Seen) -> bool:
    """Print what left for nothing; return whether nothing did for ordinary TE jobs, and others kept to the bound."""
    own = Counter(part for _, _, part in left_for_nothing(seen))
    futile = Counter[int](order["preemptor"] for order in seen.orders if came_to_nothing(order))
    by_part = Counter[str]()
    for te, count in futile.items():
        by_part[seen.part(te)] += count
    print(
        f"futile orders by the daemon's tally: {seen.tally_futile}, of which for ordinary TE jobs {by_part['ordinary']}"
    )
    print(f"victims that left for nothing, by the jobs' own words, for ordinary TE jobs: {own['ordinary']}")
    for part in ("requeueing", "prolog"):
        those = [job_id for job_id, one in seen.by_id.items() if one == part]
        if not those:
            continue
        most = max(futile[one] for one in those)
        print(
            f"TE jobs of the part {part}: {len(those)}; orders for nothing {by_part[part]}, "
            f"at most {most} for one (bound {seen.bound}); victims that left for nothing, by the jobs' own words: "
            f"{own[part]}; restarts by Slurm's count: {sum(_restarts(seen, one) for one in those)}"
        )
    for victim, te, part in left_for_nothing(seen):
        if part == "ordinary":
            print(f"  job {victim} for job {te}")
    in_bound = all(count <= seen.bound for te, count in futile.items() if seen.part(te) != "ordinary")
    return in_bound and not by_part["ordinary"] and not own["ordinary"] and sum(futile.values()) == seen.tally_futile


def came_to_nothing(order: Mapping[str, Any]) -> bool:
    """Return whether the daemon counts an order as futile."""
    left = any(victim["left_at"] is not None and victim["noticed_at"] is not None for victim in order["victims"])
    return left and order["ending"] != "started_here"


def _runs_add_up(seen: Seen, victims: Sequence[Mapping[str, Any]]) -> bool:
    finished = {victim["job_id"] for victim in victims if victim["departure"] == "finished"}
    done = Counter({one: sum(run.done_at is not None for run in runs) for one, runs in seen.runs.items()})
    lost = [one for one in seen.ids.values() if not done[one] and one not in finished]
    twice = [
        one for one, runs in seen.runs.items() if done[one] > 1 or any(run.done_at is not None for run in runs[:-1])
    ]
    away = [one["job_id"] for one in victims if one["departure"] in AWAY and one["back_at"] is None]
    left = {(one["job_id"], one["restarts"]) for one in victims if one["departure"] in AWAY}
    cut = cut_short(seen)
    restarts = sum(_restarts(seen, one) for one, part in seen.by_id.items() if part == "be")
    notices = Counter((one.job_id, one.restarts) for one in seen.events if one.name is EventName.NOTICE)
    doubled = sum(count > 1 for count in notices.values())
    nice = [one for one, record in seen.records.items() if record["Nice"] != "0"]
    print(f"lost (jobs that did not run to their end): {len(lost)} {lost[:5]}")
    print(f"twice (finished runs that were run again): {len(twice)} {twice[:5]}")
    print(f"victims that did not run again: {len(away)} {away[:5]}")
    print(
        f"best-effort runs cut short: {len(cut)} by their own words, {restarts} by Slurm's count of restarts, "
        f"{len(left)} by the store; of no order: {sorted(cut - left)[:5]}"
    )
    print(f"runs with two notices: {doubled}")
    print(f"jobs with a nice value that is not their own: {len(nice)} {nice[:5]}")
    return not (lost or twice or away or doubled or cut - left) and restarts == len(left)


def _restarts(seen: Seen, job_id: int) -> int:
    return int(seen.records.get(job_id, {}).get("Restarts", 0))
