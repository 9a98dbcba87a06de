"""Picture of a demo, as SVG: a row for each node, a line for each job that waits, time from left to right.

It is an image on a page that is light or dark: its colours follow `prefers-color-scheme`, and it has a background of
its own, since that may differ from the page's. It has no custom properties (`var()`), which not every viewer knows.
Nothing is said by colour alone: TE jobs have a heavy outline, saving is hatched, and each bar names its job.

Jobs' names are users' text: they are made visible (`tesched_core.model.visible`), escaped by the XML writer, and cut
where a bar is too short. Each bar has a `<title>` with what it shows in words.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterable
from math import ceil, floor

from tesched_core.model.visible import shortened, visible

from tesched_testcluster.demo_record import DemoRecord, Run, Wait, runs, waits

#: as wide as GitHub shows a README; all lengths are in its pixels
WIDTH = 830
_LEFT, _RIGHT = 46, 14
_TOP = 98
_ROW, _GAP = 32, 4
_LINE = 19
#: of a letter of the bars' text, on average; larger than most fonts have it
_LETTER = 6.7
#: height of the lowest bar that has text in it
_WRITTEN = 12
#: seconds that are shown before the TE jobs come
_BEFORE_S = 2.5
#: seconds; a shorter wait of a best-effort job is Slurm's own pass, and no line is drawn for it
_SHORT_S = 0.5
_LEAST = 1.0

#: class: its colours on a light page, and on a dark one
_COLOURS: tuple[tuple[str, str, str], ...] = (
    (".page", "fill:#ffffff", "fill:#0d1117"),
    (".row", "fill:#f4f6f8", "fill:#171c23"),
    (".grid", "stroke:#d5d9de", "stroke:#343b45"),
    (".come", "stroke:#a34400", "stroke:#ff9a57"),
    ("text", "fill:#1a1d21", "fill:#e6e9ec"),
    (".soft", "fill:#555b61", "fill:#a8b0b9"),
    (".be", "fill:#d3e5f3;stroke:#2b6d9e", "fill:#17364d;stroke:#5aa5dc"),
    (".again", "fill:#e9f2f9;stroke:#2b6d9e", "fill:#112535;stroke:#5aa5dc"),
    (".te", "fill:#ffd9b8;stroke:#b34a00", "fill:#5c2c08;stroke:#ff9a57"),
    (".hatch", "stroke:#2b6d9e", "stroke:#8cc8f5"),
    (".notice", "fill:#1a1d21;stroke:#ffffff", "fill:#ffffff;stroke:#0d1117"),
    (".wait", "stroke:#2b6d9e", "stroke:#5aa5dc"),
    (".waits", "stroke:#b34a00", "stroke:#ff9a57"),
)
_STYLE = """\
text{font:12px system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}
.head{font-size:14px;font-weight:600}
.be,.again{stroke-width:1}
.te{stroke-width:2}
.again{stroke-dasharray:4 2}
.wait,.waits{stroke-width:2;stroke-dasharray:2 3}
.hatch,.come{stroke-width:1.5}
"""


def draw(record: DemoRecord) -> str:
    """Return the picture, a whole SVG document. ValueError if no TE job ran."""
    if not any(run.job.kind == "te" for run in runs(record)):
        raise ValueError("the record has no run of a TE job: there is nothing to draw")
    return ET.tostring(_Picture(record).svg, encoding="unicode") + "\n"


class _Picture:
    """One drawing under way."""

    def __init__(self, record: DemoRecord) -> None:
        self.record = record
        self.runs = runs(record)
        self.zero = record.te_submitted_at
        self.begin = max(min(run.start for run in self.runs), self.zero - _BEFORE_S)
        self.end = max(run.end for run in self.runs)
        self.waits = [wait for wait in waits(record) if self._is_drawn(wait)]
        self.bottom = _TOP + len(record.nodes) * (_ROW + _GAP)
        self.height = self.bottom + 34 + len(self.waits) * _LINE + 8
        self.svg = ET.Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "viewBox": f"0 0 {WIDTH} {self.height}",
                "width": str(WIDTH),
                "height": str(self.height),
                "role": "img",
            },
        )
        self._head()
        self._axis()
        for row, node in enumerate(record.nodes):
            self._node(row, node)
        self._queue()

    def _is_drawn(self, wait: Wait) -> bool:
        return wait.end > self.begin and (wait.job.kind == "te" or wait.end - wait.start > _SHORT_S)

    def _x(self, moment: float) -> float:
        share = (max(moment, self.begin) - self.begin) / (self.end - self.begin)
        return _LEFT + share * (WIDTH - _LEFT - _RIGHT)

    def _s(self, moment: float) -> str:
        """Return a moment in seconds since the TE jobs came."""
        return f"{moment - self.zero:.1f} s"

    def _add(self, name: str, **attributes: str | float) -> ET.Element:
        shown = {
            key.rstrip("_").replace("_", "-"): value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")
            for key, value in attributes.items()
        }
        return ET.SubElement(self.svg, name, shown)

    def _text(self, text: str, x: float, y: float, class_: str = "", anchor: str = "start") -> None:
        look = {"class": class_} if class_ else {}
        place = {} if anchor == "start" else {"text_anchor": anchor}
        self._add("text", x=x, y=y, **look, **place).text = text

    def _head(self) -> None:
        record, te = self.record, [job for job in self.record.jobs if job.kind == "te"]
        head = (
            f"A real Slurm {visible(record.slurm.split()[-1])}: {len(record.nodes)} nodes of {record.gpus} GPUs, full. "
            f"{len(te)} trial-and-error (TE) jobs come."
        )
        ET.SubElement(self.svg, "title").text = head
        ET.SubElement(self.svg, "desc").text = "\n".join(self._in_words())
        style = ET.SubElement(self.svg, "style")
        light = "".join(f"{name}{{{look}}}" for name, look, _ in _COLOURS)
        dark = "".join(f"{name}{{{look}}}" for name, _, look in _COLOURS)
        style.text = f"{_STYLE}{light}\n@media (prefers-color-scheme:dark){{{dark}}}"
        pattern = ET.SubElement(
            ET.SubElement(self.svg, "defs"),
            "pattern",
            {"id": "saving", "width": "5", "height": "5", "patternUnits": "userSpaceOnUse"},
        )
        ET.SubElement(pattern, "path", {"d": "M0 5L5 0", "class": "hatch"})
        self._add("rect", class_="page", width=WIDTH, height=self.height)
        self._text(head, 12, 22, "head")
        self._legend()

    def _legend(self) -> None:
        x, y = 12.0, 36
        for class_, text in (
            ("be", "best-effort (BE) job"),
            ("te", "TE job"),
            ("again", "BE job again"),
            ("", "saves"),
        ):
            self._add("rect", class_=class_ or "be", x=x, y=y, width=22, height=12)
            if not class_:
                self._add("rect", fill="url(#saving)", x=x, y=y, width=22, height=12)
            self._text(text, x + 28, y + 10.5)
            x += 28 + len(text) * _LETTER + 16
        self._notice(x + 5, y + 1)
        self._text("signal, or requeue", x + 15, y + 10.5)
        x += 15 + 18 * _LETTER + 16
        self._add("path", class_="wait", d=f"M{x:.1f} {y + 6}h22")
        self._text("waits in the queue", x + 28, y + 10.5)

    def _axis(self) -> None:
        span = self.end - self.begin
        step = next((one for one in (1, 2, 5, 10, 20, 60, 120) if span / one <= 16), 600)
        low = self.height - 8
        for number in range(ceil((self.begin - self.zero) / step), floor((self.end - self.zero) / step) + 1):
            x = self._x(self.zero + number * step)
            self._add("path", class_="grid" if number else "come", d=f"M{x:.1f} {_TOP - 6}V{low}")
            self._text(f"{number * step} s", x, _TOP - 11, "soft", "middle")
        self._text("TE jobs are submitted", self._x(self.zero), _TOP - 26, anchor="middle")

    def _node(self, row: int, node: str) -> None:
        top = _TOP + row * (_ROW + _GAP)
        self._add("rect", class_="row", x=_LEFT, y=top, width=WIDTH - _LEFT - _RIGHT, height=_ROW)
        self._text(shortened(node, 6), _LEFT - 8, top + _ROW / 2 + 4, anchor="end")
        mine = [run for run in self.runs if run.node == node]
        for run, first_gpu in _stacked(mine, self.record.gpus):
            self._run(run, top + first_gpu * _ROW / self.record.gpus)

    def _run(self, run: Run, top: float) -> None:
        left, right = self._x(run.start), self._x(run.end)
        if right <= _LEFT:
            return
        height = run.job.gpus * _ROW / self.record.gpus
        class_ = "te" if run.job.kind == "te" else "again" if run.number else "be"
        bar = self._add("rect", class_=class_, x=left, y=top, width=max(right - left, _LEAST), height=height)
        ET.SubElement(bar, "title").text = self._words(run)
        if run.saving is not None:
            from_x, to_x = map(self._x, run.saving)
            self._add("rect", fill="url(#saving)", x=from_x, y=top, width=max(to_x - from_x, _LEAST), height=height)
        if height >= _WRITTEN:
            self._text(_fitting(self._captions(run), right - left - 10), left + 6, top + height / 2 + 4.2)
        if run.preemption is not None and run.preemption.noticed_at is not None:
            self._notice(self._x(run.preemption.noticed_at), top)

    def _notice(self, x: float, y: float) -> None:
        self._add("path", class_="notice", d=f"M{x - 5:.1f} {y - 3:.1f}h10l-5 10z")

    def _captions(self, run: Run) -> Iterable[Callable[[int], str]]:
        """Yield what can be written into a run's bar, the longest first, each by the letters that a name may have."""
        name = run.job.name
        if run.job.kind == "te":
            waited = f"{run.start - run.job.submitted_at:.1f} s"
            yield lambda most: f"{shortened(name, most)}: runs {waited} after sbatch"
            yield lambda most: f"{shortened(name, most)}: {waited}"
        elif run.number:
            where = "checkpoint" if run.resumed_ticks else "beginning"
            yield lambda most: f"{shortened(name, most)}, again from its {where}"
            yield lambda most: f"{shortened(name, most)}, from its {where}"
            yield lambda most: f"{shortened(name, most)} again"
        yield lambda most: shortened(name, most)

    def _words(self, run: Run) -> str:
        """Return a run in words."""
        text = f"{visible(run.job.name)} on {visible(run.node)} from {self._s(run.start)} to {self._s(run.end)}"
        if run.number:
            text += ", again from its checkpoint" if run.resumed_ticks else ", again from its beginning"
        if run.preemption is not None and run.preemption.noticed_at is not None:
            at, how = self._s(run.preemption.noticed_at), run.preemption.how.replace("_", " ")
            signal = run.preemption.signal
            text += f"; SIG{visible(signal)} at {at}, {how}" if signal else f"; {how} at {at}"
        if run.saving is not None:
            text += f", saved at {self._s(run.saving[1])}"
        return text

    def _in_words(self) -> Iterable[str]:
        yield from map(self._words, self.runs)
        yield from map(self._waiting, self.waits)

    def _waiting(self, wait: Wait) -> str:
        what = "requeued, waits" if wait.requeued else "waits"
        return f"{visible(wait.job.name)} {what} {wait.end - wait.start:.1f} s"

    def _queue(self) -> None:
        top = self.bottom + 14
        self._text("The queue", 12, top + 4, "head")
        for number, wait in enumerate(self.waits):
            y = top + 18 + number * _LINE
            left, right = self._x(wait.start), self._x(wait.end)
            class_ = "waits" if wait.job.kind == "te" else "wait"
            line = self._add("path", class_=class_, d=f"M{left:.1f} {y}H{right:.1f}")
            text = self._waiting(wait)
            ET.SubElement(line, "title").text = text
            what = text.removeprefix(visible(wait.job.name))
            before, behind = left - 8, WIDTH - _RIGHT - right - 8
            after = behind >= min(before, (24 + len(what)) * _LETTER)
            letters = int((behind if after else before) / _LETTER) - len(what)
            shown = f"{shortened(wait.job.name, max(min(letters, 24), 3))}{what}"
            self._text(shown, right + 8 if after else before, y + 4, anchor="start" if after else "end")


def _fitting(captions: Iterable[Callable[[int], str]], width: float) -> str:
    """Return the first caption that fits into so many pixels with the whole name, or the last with the name cut."""
    letters = int(width / _LETTER)
    last = None
    for last in captions:
        whole = last(1000)
        if len(whole) <= letters:
            return whole
    return last(letters) if last is not None and letters >= 4 else ""


def _stacked(mine: Iterable[Run], gpus: int) -> Iterable[tuple[Run, int]]:
    """Yield each run of a node with the lowest of its GPUs where it overlaps no run that began before it."""
    placed: list[tuple[Run, int]] = []
    for run in mine:
        taken: Counter[int] = Counter()
        for other, first in placed:
            if other.end > run.start:
                taken.update(range(first, first + other.job.gpus))
        last = max(gpus - run.job.gpus, 0)
        free = (one for one in range(last + 1) if not any(taken[place] for place in range(one, one + run.job.gpus)))
        placed.append((run, next(free, last)))
        yield placed[-1]
