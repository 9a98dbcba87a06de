"""What a soak shows: a table, and what of it does not hold."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tesched_testcluster.harness.attacks.bench import LONGEST_POLL_S
from tesched_testcluster.harness.attacks.soak import (
    MEMORY_MIB,
    MEMORY_MIB_A_JOB,
    MOST_TIMES,
    RESOLUTION_S,
    STORE_MIB,
    STORE_MIB_A_JOB,
    Sample,
    Soak,
)


def table(soak: Soak) -> Iterator[str]:
    """Yield the lines of the table: what was measured, what may be at most, and whether it holds."""
    plan = soak.plan
    yield (
        f"soak, client {plan.client}, seed {plan.seed}: {plan.quiet_s:.0f} s of the honest user alone, then"
        f" {plan.seconds:.0f} s beside hostile users with {soak.submitted} jobs"
    )
    yield "  " + ", ".join(f"{count} {what}" for what, count in sorted(soak.counts.items()))
    for what, figure, rule, held in _rows(soak):
        yield f"  {what:<28} {figure:<38} {rule:<44} {'held' if held else 'NOT HELD'}"


def holds(soak: Soak) -> bool:
    """Say whether all held."""
    return all(held for *_, held in _rows(soak))


def _rows(soak: Soak) -> Iterator[tuple[str, str, str, bool]]:
    yield "daemon ended", soak.ended or "no", "never; SIGTERM ends it with status 0", not soak.ended
    quiet, beside = soak.quiet, soak.beside
    if quiet is None or beside is None or not soak.samples:
        yield "polls, waits and sizes", "none: it ended too soon", "are measured", False
        return
    yield "hostile jobs", str(soak.submitted), "some", soak.submitted > 0
    polls = f"{beside.polls.longest_s:.2f} s of {beside.polls.count} ({quiet.polls.longest_s:.2f} s quiet)"
    yield "longest poll", polls, f"at most {LONGEST_POLL_S:g} s", 0 < beside.polls.longest_s <= LONGEST_POLL_S
    took_s, request = soak.slowest_request
    yield "slurmctld's slowest request", f"{took_s:.2f} s, {request}", "none: Slurm's own", True
    for share in (0.50, 0.95):
        alone_s, together_s = quiet.wait_s(share), beside.wait_s(share)
        most_s = MOST_TIMES * max(alone_s, RESOLUTION_S)
        rule = f"at most {MOST_TIMES:g} times the quiet, or {MOST_TIMES * RESOLUTION_S:g} s: {most_s:.1f} s"
        figure = f"{alone_s:.1f} s quiet, {together_s:.1f} s beside ({len(beside.waits)} jobs)"
        yield f"honest TE wait, {share:.0%}", figure, rule, together_s <= most_s < math.inf
    begin, middle, end = (soak.samples[place] for place in (0, len(soak.samples) // 2, -1))
    most = max(soak.samples, key=lambda one: one.memory_mib)
    sizes = f"{begin.memory_mib:.0f}, {middle.memory_mib:.0f}, {end.memory_mib:.0f}; most {most.memory_mib:.0f}"
    bound = f"{MEMORY_MIB:g} and {MEMORY_MIB_A_JOB * 1024:g} KiB a job known"
    yield "memory, MiB", sizes, bound, all(_memory_held(one) for one in soak.samples)
    sizes = f"{begin.store_mib:.1f}, {middle.store_mib:.1f}, {end.store_mib:.1f} for {end.jobs} jobs"
    bound = f"{STORE_MIB:g} and {STORE_MIB_A_JOB * 1024:g} KiB a job known"
    yield "store, MiB", sizes, bound, end.store_mib <= STORE_MIB + STORE_MIB_A_JOB * end.jobs
    unread = ", ".join(f"{user} {len(labels)}" for user, labels in sorted(soak.unread.items())) or "none"
    yield (
        "unreadable jobs by user",
        unread,
        f"none of {soak.honest}'s, the honest one",
        not soak.unread.get(soak.honest),
    )


def _memory_held(sample: Sample) -> bool:
    return 0 < sample.memory_mib <= MEMORY_MIB + MEMORY_MIB_A_JOB * sample.jobs
