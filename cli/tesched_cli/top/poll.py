"""What `tesched top` shows: values of one reading of the state store, and the rows made of them. No terminal in it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tesched_core.model.cluster import JobState
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import JobClass
from tesched_core.model.visible import shortened
from tesched_db.views import JobView, StatusView

from tesched_cli.common import LONGEST_TEXT, clock, duration, hostlist, natural
from tesched_cli.health import Health
from tesched_cli.job_columns import SHORT_STATES
from tesched_cli.status import grace_left, would_have

#: jobs and nodes that a table has at most; the filter reaches the others
MOST_ROWS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """One reading of the state store."""

    #: Unix seconds
    at: float
    health: Health
    #: in words, the gravest first; empty: none
    troubles: tuple[str, ...]
    status: StatusView
    #: pending, running and suspended ones
    jobs: tuple[JobView, ...]


class TableRow(NamedTuple):
    """One line of a table: its cells, and the job whose story it opens."""

    #: names the line from one poll to the next
    key: str
    #: as squeue writes it; empty: none
    job: str
    cells: tuple[str, ...]


JOB_COLUMNS = ("CL", "JOBID", "USER", "NAME", "ST", "TIME", "GPUS", "NODELIST(REASON)")
ORDER_COLUMNS = ("ORDER", "FOR JOB", "STATE", "NODES", "VICTIM", "")
NODE_COLUMNS = ("NODE", "CPUS", "GPUS", "TE JOBS", "BE JOBS", "ORDER")
DECISION_COLUMNS = ("WHEN", "DECISION")


def head_lines(poll: Poll, now: float) -> Iterator[tuple[str, bool]]:
    """Yield the lines above the tables, each with whether it is a trouble: health, counts, the gravest trouble."""
    yield poll.health.line, not poll.health.well
    status, tally = poll.status, poll.status.tally
    parts = [f"{time_of_day(now)} {status.daemon.mode if status.daemon else 'no daemon yet'}"]
    for queue in status.queues:
        if queue.states or queue.job_class is not JobClass.EXEMPT:
            run, wait = (queue.states.get(state, 0) for state in (JobState.RUNNING, JobState.PENDING))
            parts.append(f"{queue.job_class.upper()} {run} R, {wait} PD")
    parts.append(f"{status.window_s / 3600:.0f} h: {tally.orders} orders, {tally.futile} futile, {tally.lost} lost")
    yield "  ".join(parts), bool(tally.futile or tally.lost)
    if poll.troubles:
        more = f" (and {len(poll.troubles) - 1} more: tesched status)" if poll.troubles[1:] else ""
        yield f"{' '.join(poll.troubles[0].split())}{more}", True


def time_of_day(at: float) -> str:
    """Return a time of today."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def job_rows(poll: Poll, now: float, words: str = "") -> list[TableRow]:
    """Return the jobs with each of the words: TE jobs first; of a class those that wait, then those that run.

    Those that have waited longest, and those that started last, stand first.
    """
    found = [job for job in poll.jobs if _matches(_texts(job), words)]
    found.sort(key=_place)
    return [
        TableRow(
            str(job.key),
            job.label,
            (
                job.job_class.upper(),
                job.label,
                shortened(job.user, 10),
                shortened(job.name, 14),
                SHORT_STATES.get(job.state, job.state),
                duration(_time(job, now)),
                str(job.gpus),
                hostlist(job.nodes) if job.nodes else f"({shortened(job.reason or 'None', LONGEST_TEXT)})",
            ),
        )
        for job in found[:MOST_ROWS]
    ]


def _place(job: JobView) -> tuple[bool, bool, float, JobId]:
    waits = job.state is JobState.PENDING
    return (
        job.job_class is not JobClass.TE,
        not waits,
        job.first_submit_time if waits else -(job.start_time or 0),
        job.job_id,
    )


def _time(job: JobView, now: float) -> float | None:
    """Return for how long it has run, or waited since its first submission."""
    if job.state is JobState.PENDING:
        return now - job.first_submit_time
    return None if job.start_time is None else job.run_s(now)


def _texts(job: JobView) -> tuple[str, ...]:
    return (job.job_class, job.label, job.user, job.account, job.name, job.partition, job.state, *job.nodes, job.reason)


def _matches(texts: Sequence[str], words: str) -> bool:
    """Check whether each of the words is in one of the texts, in either case."""
    return all(any(word in text.lower() for text in texts) for word in words.lower().split())


def order_rows(poll: Poll, now: float) -> list[TableRow]:
    """Return the open orders, a line for each victim, with what is left of its grace period."""
    rows = []
    for each in poll.status.open_orders:
        order = each.order
        victims = list(zip(order.victims, each.victim_labels, strict=True))
        shown = (str(order.order_id), each.preemptor_label, order.state.value, hostlist(order.nodes) or "anywhere")
        if not victims:
            said = "waits for resources to be released" if order.waits else "the resources are free"
            rows.append(TableRow(f"{order.order_id}", each.preemptor_label, (*shown, "no victim", said)))
        for place, (victim, label) in enumerate(victims):
            # The order's own cells stand once.
            cells = shown if not place else ("", "", "", "")
            key = f"{order.order_id}/{victim.job_id}"
            rows.append(
                TableRow(key, label if place else each.preemptor_label, (*cells, label, grace_left(victim, now)))
            )
    return rows


def node_rows(poll: Poll, words: str = "") -> list[TableRow]:
    """Return the nodes that jobs are on, by name. A job of several nodes counts for an equal part on each."""
    held: dict[str, list[JobView]] = defaultdict(list)
    for job in poll.jobs:
        for node in job.nodes:
            held[node].append(job)
    orders: dict[str, list[str]] = defaultdict(list)
    for each in poll.status.open_orders:
        for node in each.order.nodes:
            orders[node].append(f"{each.order.order_id} for {each.preemptor_label}")
    rows = []
    for node in sorted(held.keys() | orders.keys(), key=natural):
        here = held[node]
        of = {kind: [job.label for job in here if job.job_class is kind] for kind in JobClass}
        cells = (
            node,
            f"{sum(job.cpus / len(job.nodes) for job in here):.0f}",
            f"{sum(job.gpus / len(job.nodes) for job in here):.0f}",
            shortened(",".join(of[JobClass.TE]), 20),
            shortened(",".join([*of[JobClass.BE], *of[JobClass.EXEMPT]]), 24),
            ", ".join(orders[node]),
        )
        first = next((label for kind in (JobClass.TE, JobClass.BE) for label in of[kind]), "")
        if _matches((*cells, *(text for job in here for text in _texts(job))), words):
            rows.append(TableRow(node, first, cells))
    return rows[:MOST_ROWS]


def decision_rows(poll: Poll) -> list[TableRow]:
    """Return the last cycles with an action, the newest first."""
    return [
        TableRow(
            f"{cycle.last_at}/{cycle.last_cycle}", "", (clock(cycle.last_at), would_have(cycle.mode, cycle.summary))
        )
        for cycle in poll.status.decisions
    ]
