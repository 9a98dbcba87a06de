"""Story of one job, as `tesched explain` prints it, with a drawing of its runs."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tesched_core.model.snapshot import JobClass
from tesched_db.timeline import JobRuns, Timeline

from tesched_cli.common import Terminal
from tesched_cli.explain import Explained, explained, story_lines
from tesched_cli.job_columns import state_of
from tesched_cli.web.content import StoreSource
from tesched_cli.web.drawing import Drawing, draw

#: as wide as curves are drawn, letters
_WIDE = 100
#: "  class   best effort …": a key in eight columns, and what it is
_FACT = re.compile(r"  ([a-z][a-z0-9 ]{0,6}) +(\S.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """What is said of one job."""

    state: str
    headline: str
    #: key, lines
    facts: tuple[tuple[str, tuple[str, ...]], ...]
    #: orders, refusals and curves: lines that keep their form
    blocks: tuple[tuple[str, ...], ...]
    drawing: Drawing


def story_of(source: StoreSource, job: str) -> Story | None:
    """Story of the job, named as squeue writes it; None if it was never seen. Raises StoreError."""
    with source.lock:
        found = explained(source.engine, source.config, job, lambda: source.config)
    if found is None:
        return None
    headline, *rest = story_lines(found, Terminal(width=_WIDE))
    facts, blocks = _parted(rest)
    return Story(
        state=state_of(found.story.job.state, forgotten=found.story.job.is_forgotten).lower(),
        headline=headline,
        facts=facts,
        blocks=blocks,
        drawing=_drawing(found),
    )


def _parted(
    lines: Sequence[str],
) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], tuple[tuple[str, ...], ...]]:
    """Return the facts before the first line that is none, and the blocks of lines after, parted by empty lines."""
    facts: list[tuple[str, list[str]]] = []
    blocks: list[list[str]] = [[]]
    for place, line in enumerate(lines):
        matched = _FACT.fullmatch(line)
        if matched is None or line[9:10] != " ":
            blocks = [[]]
            for one in lines[place:]:
                if one:
                    blocks[-1].append(one)
                else:
                    blocks.append([])
            break
        key = matched[1].strip()
        if facts and facts[-1][0] == key:
            facts[-1][1].append(matched[2])
        else:
            facts.append((key, [matched[2]]))
    return tuple((key, tuple(texts)) for key, texts in facts), tuple(tuple(block) for block in blocks if block)


def _drawing(found: Explained) -> Drawing:
    """Return the runs of the job alone, and its preemptions."""
    story, now = found.story, time.time()
    job = story.job
    runs = JobRuns(
        label=job.label,
        job_id=job.job_id,
        name=job.name,
        user=job.user,
        job_class=job.job_class,
        submitted_at=job.first_submit_time,
        waits=not story.runs and not job.gone and job.job_class is JobClass.TE,
        runs=story.runs,
    )
    orders = story.orders_as_victim
    until = now
    if job.gone:
        until = job.last_seen if job.end_time is None else job.end_time
    whole = Timeline(jobs=(runs,), cut=False, orders=orders, waiting=(), waiting_count=0, ended=())
    return draw(whole, job.first_submit_time, until, title=f"Runs of job {job.label}")
