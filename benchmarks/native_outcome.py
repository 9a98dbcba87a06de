"""Outcomes of `python -m benchmarks.native`, and the tables of them: text, and README's in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import msgspec

Way = Literal["grace 0", "signal", "one partition", "tiers", "plugin"]
WAYS: tuple[Way, ...] = get_args(Way)
#: ways without tesched
NATIVE: tuple[Way, ...] = ("grace 0", "signal")
#: seconds that a victim has, in every way that gives it a notice
GRACE_S = 18
#: the ways in README's words
NAMES: Mapping[Way, str] = {
    "grace 0": "Slurm alone, `PreemptMode=REQUEUE`",
    "signal": f"Slurm alone, `GraceTime={GRACE_S}` and user signal",
    "one partition": "tesched, one partition",
    "tiers": "tesched, TE jobs in a partition of higher PriorityTier",
    "plugin": "tesched with its plugin for slurmctld",
}


@dataclass(frozen=True, kw_only=True)
class Trace:
    """The trace of one run of the benchmark, and what it ran on."""

    be: int
    te: int
    nodes: int
    save_s: float
    seed: int
    scheduling: str
    slurm: str

    def __str__(self) -> str:
        """Return it in a line."""
        return (
            f"{self.be} BE, {self.te} TE jobs, {self.nodes} nodes, Slurm {self.slurm}; {self.save_s:g} s to save; "
            f"seed {self.seed}; {self.scheduling}"
        )


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of one way on the trace."""

    way: Way
    te_wait_p50_s: float
    te_wait_p95_s: float
    te_wait_max_s: float
    #: runs that were cut short, and how many jobs these were
    victims: int
    victim_jobs: int
    #: preemptions of the job that had the most
    most_of_one: int
    lost_node_s: float
    be_completion_mean_s: float
    #: victims that left although the TE job started elsewhere; not known of Slurm
    futile: int | None
    #: the same by slurmctld's log, where Slurm preempts without GraceTime; it logs no other preemption
    elsewhere: int | None
    #: jobs that did not run to their end, and those that did so more than once
    lost: int
    twice: int
    #: seconds from the first submission to the last end, and the machine's mean load
    took_s: float
    load: float
    te_waits_s: tuple[float, ...]


ROWS: tuple[tuple[str, Callable[[Outcome], str]], ...] = (
    ("TE wait p50, s", lambda one: f"{one.te_wait_p50_s:.2f}"),
    ("TE wait p95, s", lambda one: f"{one.te_wait_p95_s:.2f}"),
    ("TE wait max, s", lambda one: f"{one.te_wait_max_s:.2f}"),
    ("victims (jobs)", lambda one: f"{one.victims} ({one.victim_jobs})"),
    ("most preemptions of one job", lambda one: f"{one.most_of_one}"),
    ("lost node-seconds", lambda one: f"{one.lost_node_s:.0f}"),
    ("BE mean completion, s", lambda one: f"{one.be_completion_mean_s:.1f}"),
    ("futile", lambda one: "-" if one.futile is None else f"{one.futile}"),
    ("for a TE job elsewhere", lambda one: "-" if one.elsewhere is None else f"{one.elsewhere}"),
    ("jobs lost, run twice", lambda one: f"{one.lost}, {one.twice}"),
    ("whole trace, s", lambda one: f"{one.took_s:.0f}"),
    ("machine's load", lambda one: f"{one.load:.1f}"),
)


def ratios(outcomes: Mapping[Way, Outcome]) -> dict[str, dict[str, float]]:
    """Return each of tesched's ways by what it is compared with."""
    found: dict[str, dict[str, float]] = {}
    for way, one in outcomes.items():
        if way in NATIVE:
            continue
        mine = found[way] = {}
        if signal := outcomes.get("signal"):
            mine["victims / signal's"] = one.victims / max(signal.victims, 1)
            mine["TE wait p95 / signal's"] = one.te_wait_p95_s / signal.te_wait_p95_s
            mine["BE mean completion / signal's"] = one.be_completion_mean_s / signal.be_completion_mean_s
        if at_once := outcomes.get("grace 0"):
            mine["victims / grace 0's"] = one.victims / max(at_once.victims, 1)
            mine["lost node-seconds / grace 0's"] = one.lost_node_s / max(at_once.lost_node_s, 1e-9)
            mine["BE mean completion / grace 0's"] = one.be_completion_mean_s / at_once.be_completion_mean_s
    return found


def from_json(text: str) -> tuple[Trace, dict[Way, Outcome]]:
    """Return what `--json` has printed. ValueError for any other text."""
    found = msgspec.json.decode(text, type=_Printed)
    return found.trace, {one.way: one for one in found.ways}


def headline(trace: Trace, outcomes: Mapping[Way, Outcome]) -> str:
    """Return README's table in Markdown: a row for each way."""
    rows = [
        ["", "TE wait, median", "95th percentile", "victims", "lost node-seconds"],
        ["---", *["---:"] * 4],
        *(
            [
                NAMES[way],
                f"{one.te_wait_p50_s:.2f} s",
                f"{one.te_wait_p95_s:.2f} s",
                f"{one.victims}",
                f"{one.lost_node_s:.0f}",
            ]
            for way, one in outcomes.items()
        ),
    ]
    loads = [one.load for one in outcomes.values()]
    below = (
        f"{trace.be} BE and {trace.te} TE jobs on {trace.nodes} nodes of Slurm {trace.slurm} on one machine, "
        f"seed {trace.seed}; the machine's mean load was {min(loads):.1f} to {max(loads):.1f}."
    )
    return "\n".join([*(f"| {' | '.join(row)} |" for row in rows), "", below])


def text_table(outcomes: Mapping[Way, Outcome]) -> str:
    """Return the table for a terminal: a column for each way."""
    lines = [f"{'':<32}" + "".join(f"{way:>15}" for way in outcomes)]
    lines += [f"{name:<32}" + "".join(f"{shown(one):>15}" for one in outcomes.values()) for name, shown in ROWS]
    found = ratios(outcomes)
    for name in next(iter(found.values()), {}):
        values = (f"{found[way][name]:.2f}" if way in found else "" for way in outcomes)
        lines.append(f"{name:<32}" + "".join(f"{value:>15}" for value in values))
    return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class _Printed:
    """What `--json` prints, less what is computed from it."""

    trace: Trace
    ways: tuple[Outcome, ...]
