"""Drawing of the timeline: a row for each node, a bar for each run, marks for notices and preemptions.

Definitions
    begin, end   the time that is drawn, Unix seconds; it ends now.
    lane         a part of a node's row: jobs that share a node lie beside each other, each in a lane of its own.
    place        a moment's share of the width, per cent: the drawing is as wide as the page, and its text does not
                 shrink with it.

Nothing is said by colour alone: TE jobs have a heavy outline, a run after a preemption a dashed one, grace periods are
hatched, notices are triangles, and preemptions end in a cross. Times are those that the store keeps.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from tesched_core.model.order import Departure, Victim
from tesched_core.model.snapshot import JobClass
from tesched_db.timeline import JobRuns, Timeline

from tesched_cli.common import clock, duration, natural

#: Nodes and TE jobs with rows of their own, at most.
MOST_NODES, MOST_WAITS = 40, 10
#: Lanes of one node; what would need more is counted.
MOST_LANES = 6
#: heights of a row and of the axis above, pixels
ROW, GAP, AXIS, LINE = 26, 5, 24, 20
#: height of the lowest bar with text in it
_WRITTEN = 13
#: the shortest time that is drawn, seconds
LEAST_S = 30.0
#: distances between two marks of the axis, seconds, and how many there are at most
_STEPS = (5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_MARKS = 6
#: Most of the width by which two runs on one node may seem to overlap, and seconds at least (`_Row.lane`).
_SLACK, _SLACK_S = 0.01, 2.0
#: a job, the number of its run, a node
_Place: TypeAlias = tuple[int, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One run on one node."""

    job: str
    #: what stands in it
    text: str
    #: what it is, in words
    words: str
    kind: str
    x: str
    width: str
    y: float
    height: float
    is_written: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimMark:
    """One moment, or stretch, of a victim on one node: "grace" (hatched), "notice" or "left"."""

    kind: str
    x: str
    width: str
    y: float
    height: float
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TeWait:
    """One TE job that waits, or waited."""

    job: str
    text: str
    words: str
    x: str
    to: str
    y: float
    #: where its text stands: after the line, or before it where that would leave the drawing
    text_x: str
    dx: int
    anchor: str
    #: it waits still
    open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """The whole drawing, for its template."""

    title: str
    description: str
    height: float
    #: the y of the axis' lower end
    bottom: float
    #: place and text
    ticks: tuple[tuple[str, str], ...]
    #: name, y, height
    rows: tuple[tuple[str, float, float], ...]
    bars: tuple[Bar, ...]
    marks: tuple[VictimMark, ...]
    waits: tuple[TeWait, ...]
    #: each preemption, in words, the newest first
    words: tuple[str, ...]
    #: what is not drawn; empty: all is
    left_out: str


@dataclass(slots=True)
class _Row:
    """A node's lanes: until when each is taken, and by which run."""

    until: list[float] = field(default_factory=list)
    by: list[_Place] = field(default_factory=list)

    def lane(self, start: float, end: float, mine: _Place, slack: float) -> tuple[int | None, _Place | None]:
        """Return the first lane that is free then, and take it: None if the row is full.

        A run whose end was seen by a poll seems to last until that poll, though the next one has begun on its node: up
        to `slack` seconds it gives way, and is returned beside.
        """
        for lane, until in enumerate(self.until):
            if until - slack <= start:
                before = self.by[lane] if until > start else None
                self.until[lane], self.by[lane] = end, mine
                return lane, before
        if len(self.until) == MOST_LANES:
            return None, None
        self.until.append(end)
        self.by.append(mine)
        return len(self.until) - 1, None


def draw(found: Timeline, since: float, now: float, *, title: str = "") -> Drawing:
    """Return the drawing of what happened since then; it begins later if all that is known does."""
    return _Drawn(found, since, now).drawing(title)


class _Drawn:
    def __init__(self, found: Timeline, since: float, now: float) -> None:
        self.found = found
        self.now = now
        first = min((run.start for job in found.jobs for run in job.runs), default=since)
        # A little before, so that the first bar is seen to begin.
        self.begin = min(max(since, first - 0.02 * (now - first)), now - LEAST_S)
        self.span = now - self.begin
        self.nodes, self.more = self._nodes()
        self.crowded = 0
        self.lanes: dict[_Place, int] = {}
        #: ends that give way to the next run
        self.ends: dict[_Place, float] = {}
        self.rows = self._rows()

    def _x(self, at: float) -> float:
        return 100 * min(max(at - self.begin, 0.0), self.span) / self.span

    def _stretch(self, start: float, end: float) -> tuple[str, str]:
        """Return place and width; at least a hair's."""
        x = self._x(start)
        return f"{x:.3f}%", f"{max(self._x(end) - x, 0.15):.3f}%"

    def _runs(self) -> Iterator[tuple[JobRuns, int, float, float, tuple[str, ...]]]:
        """Yield each run that reaches into the drawing: job, its number, start, end, nodes."""
        for job in self.found.jobs:
            for number, run in enumerate(job.runs):
                end = self.now if run.end is None else run.end
                if end >= self.begin:
                    yield job, number, run.start, end, run.nodes

    def _nodes(self) -> tuple[list[str], int]:
        """Return the nodes that are drawn, those with preemptions before others, and how many are not."""
        busy = Counter(node for _, _, _, _, nodes in self._runs() for node in nodes)
        preempted = Counter(node for victim, *_ in self._victims() for node in victim.nodes if node in busy)
        ranked = sorted(busy, key=lambda node: (-preempted[node], -busy[node], natural(node)))
        return sorted(ranked[:MOST_NODES], key=natural), max(len(ranked) - MOST_NODES, 0)

    def _victims(self) -> Iterator[tuple[Victim, str, str]]:
        """Yield each victim that has left, or is to, its label, and that of the TE job that it leaves for."""
        for view in self.found.orders:
            for victim, label in zip(view.order.victims, view.victim_labels, strict=True):
                # Of one that is suspended the bar itself shows it: it ends.
                if not victim.by_suspending and (victim.noticed_at is not None or victim.left_at is not None):
                    yield victim, label, view.preemptor_label

    def _rows(self) -> dict[str, tuple[float, int]]:
        """Return of each node its y and its number of lanes, and give each run its lane."""
        rows = {node: _Row() for node in self.nodes}
        for job, number, start, end, nodes in sorted(self._runs(), key=lambda one: one[2]):
            for node in nodes:
                if node in rows:
                    mine = (job.job_id, number, node)
                    slack = max(_SLACK * self.span, _SLACK_S)
                    lane, before = rows[node].lane(start, end, mine, slack)
                    if lane is None:
                        self.crowded += 1
                        continue
                    self.lanes[mine] = lane
                    if before is not None:
                        self.ends[before] = start
        return {
            node: (AXIS + index * (ROW + GAP), max(len(row.until), 1)) for index, (node, row) in enumerate(rows.items())
        }

    def drawing(self, title: str) -> Drawing:
        """Return it."""
        bottom = AXIS + len(self.nodes) * (ROW + GAP)
        waits = tuple(self._waits(bottom + 4))
        words = tuple(self._words())
        jobs = {job.label for job, *_ in self._runs()}
        said = f"{len(jobs)} job(s) on {len(self.nodes)} node(s) from {clock(self.begin)} to {clock(self.now)}."
        return Drawing(
            title=title or f"Nodes in the last {duration(self.span)}",
            description=" ".join([said, *words[:5]]),
            height=bottom + 4 + len(waits) * LINE + 4,
            bottom=bottom,
            ticks=tuple(self._ticks()),
            rows=tuple((node, y, ROW) for node, (y, _) in self.rows.items()),
            bars=tuple(self._bars()),
            marks=tuple(self._marks()),
            waits=waits,
            words=words,
            left_out=self._left_out(),
        )

    def _left_out(self) -> str:
        parts = [f"{self.more} more node(s) ran jobs"] if self.more else []
        parts += [f"{self.crowded} run(s) share a node with more than {MOST_LANES - 1} others"] if self.crowded else []
        parts += ["older jobs than the newest are missing"] if self.found.cut else []
        return f"Not drawn: {'; '.join(parts)}." if parts else ""

    def _ticks(self) -> Iterator[tuple[str, str]]:
        step = next((one for one in _STEPS if self.span / one <= _MARKS), _STEPS[-1])
        offset = time.localtime(self.now).tm_gmtoff
        form = "%H:%M:%S" if step < 60 else "%H:%M" if step < 86400 else "%m-%d"
        at = (self.begin + offset) // step * step + step - offset
        while at < self.now:
            # Nearer to an edge its text would be cut off on a phone.
            if 9 < self._x(at) < 91:
                yield f"{self._x(at):.3f}%", time.strftime(form, time.localtime(at))
            at += step

    def _lane(self, node: str, lane: int) -> tuple[float, float]:
        """Return y and height of a lane."""
        y, lanes = self.rows[node]
        height = ROW / lanes
        return round(y + lane * height + 0.5, 1), round(height - 1, 1)

    def _bars(self) -> Iterator[Bar]:
        preempted = {(victim.job_id, victim.restarts) for victim, *_ in self._victims() if victim.left_at is not None}
        for job, number, start, end, nodes in self._runs():
            again = number > 0 and any((job.job_id, run.restarts) in preempted for run in job.runs[:number])
            kind = "te" if job.job_class is JobClass.TE else "be again" if again else "be"
            kind = "exempt" if job.job_class is JobClass.EXEMPT else kind
            until = "until now" if job.runs[number].end is None else f"to {clock(end)}"
            words = f"{job.job_class.upper()} job {job.label} {job.name} of {job.user}: {clock(start)} {until}"
            for node in nodes:
                lane = self.lanes.get((job.job_id, number, node))
                if lane is None:
                    continue
                x, width = self._stretch(start, self.ends.get((job.job_id, number, node), end))
                y, height = self._lane(node, lane)
                yield Bar(
                    job=job.label,
                    text=job.name or job.label,
                    words=f"{words}, {'again ' if again else ''}on {node}",
                    kind=kind,
                    x=x,
                    width=width,
                    y=y,
                    height=height,
                    is_written=height >= _WRITTEN,
                )

    def _marks(self) -> Iterator[VictimMark]:
        by_run: dict[tuple[int, int], tuple[int, float]] = {}
        for job, number, _, end, _ in self._runs():
            by_run[job.job_id, job.runs[number].restarts] = number, end
        for victim, label, preemptor in self._victims():
            number, end = by_run.get((victim.job_id, victim.restarts), (-1, 0.0))
            for node in victim.nodes:
                mine = (victim.job_id, number, node)
                if mine in self.lanes:
                    ended = self.ends.get(mine, end)
                    yield from self._of_victim(victim, label, preemptor, ended, self._lane(node, self.lanes[mine]))

    def _of_victim(
        self, victim: Victim, label: str, preemptor: str, end: float, lane: tuple[float, float]
    ) -> Iterator[VictimMark]:
        """Yield the marks of a victim with a run that ended then, by Slurm's word; a poll sees it leave later."""
        y, height = lane
        noticed, left = victim.noticed_at, None if victim.left_at is None else min(victim.left_at, end)
        if noticed is not None and left is not None:
            # Slurm's times have whole seconds.
            left = max(noticed, left)
        ends = min(self.now, victim.deadline or self.now) if left is None else left
        if noticed is not None and ends >= self.begin:
            x, width = self._stretch(noticed, ends)
            said = f"grace period of job {label}, for job {preemptor}"
            yield VictimMark(kind="grace", x=x, width=width, y=y, height=height, words=said)
        if noticed is not None and noticed >= self.begin and victim.gets_notice:
            said = f"job {label} is notified at {clock(noticed)}, for job {preemptor}"
            yield VictimMark(kind="notice", x=f"{self._x(noticed):.3f}%", width="0", y=y, height=height, words=said)
        # One that ended its work in its grace period was not preempted.
        if left is not None and left >= self.begin and victim.departure is not Departure.FINISHED:
            said = f"job {label} leaves at {clock(left)} for job {preemptor}"
            yield VictimMark(kind="left", x=f"{self._x(left):.3f}%", width="0", y=y, height=height, words=said)

    def _waits(self, top: float) -> Iterator[TeWait]:
        """Yield the TE jobs that waited: those that wait now first, then the longest waits."""
        found: list[tuple[bool, float, float, JobRuns]] = []
        for job in self.found.jobs:
            start = job.runs[0].start if job.runs else self.now
            if job.job_class is JobClass.TE and (job.runs or job.waits) and start >= self.begin:
                found.append((job.waits, job.submitted_at, start, job))
        ranked = sorted(found, key=lambda one: (not one[0], one[1] - one[2], one[3].job_id))[:MOST_WAITS]
        for index, (waits, submitted, start, job) in enumerate(sorted(ranked, key=lambda one: (one[1], one[3].job_id))):
            x, to = self._x(submitted), self._x(start)
            how = "waits" if waits else "waited"
            # Beside its line, where nearly half of the width, enough on a phone, is left for its text; else on it.
            place, dx, anchor = (to, 8, "start") if to <= 55 else (x, -8, "end") if x >= 45 else (to, -8, "end")
            yield TeWait(
                job=job.label,
                text=f"{job.name or job.label} {how} {duration(start - submitted)}",
                words=f"TE job {job.label} {job.name} of {job.user} {how} {duration(start - submitted)}",
                x=f"{x:.3f}%",
                to=f"{to:.3f}%",
                y=top + index * LINE,
                text_x=f"{place:.3f}%",
                dx=dx,
                anchor=anchor,
                open=waits,
            )

    def _words(self) -> Iterator[str]:
        for view in sorted(self.found.orders, key=lambda one: -one.order.created_at):
            pairs = zip(view.order.victims, view.victim_labels, strict=True)
            for victim, label in pairs:
                if victim.noticed_at is None and victim.left_at is None:
                    continue
                at = victim.noticed_at if victim.noticed_at is not None else victim.left_at
                gone = f"left at {clock(victim.left_at)}" if victim.left_at is not None else victim.state.value
                back = f", ran again at {clock(victim.back_at)}" if victim.back_at is not None else ""
                yield (
                    f"{clock(at)}: job {label} of {victim.user or 'an unknown user'} for job {view.preemptor_label} of "
                    f"{view.preemptor_user or 'an unknown user'} (order {view.order.order_id}): {gone}{back}."
                )
