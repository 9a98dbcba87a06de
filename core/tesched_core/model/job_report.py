"""Job report: losses and speeds that a job reports, checked here before they are used.

Definitions
    point       (iteration, loss, at, work): a loss, when it was reported (Unix seconds), and the work per core-second,
                NaN where the job does not say.
    curve       a job's points, iterations going up.
    sample      (at, type, steps a second): a measured speed on an accelerator type.
    throughput  what is believed of a speed, from all samples of a type.

Principle
    A job can lie about itself, and harms itself alone. It must not be able to do anything else: the text is bounded
    before it is read, numbers are finite, names are short, and what is not so is refused whole, or dropped point by
    point where the rest still makes sense.
    A report comes again and again, each time with a few losses more. Where it begins with the very bytes of the points
    that were read before, only what follows them is read (`Read`): a tenth of the time.
    Iterations that do not go up: a training goes back to its last checkpoint, and does some iterations again. So of two
    points the later one in the file counts, and whatever it overtakes is dropped.

Worked example
    Iterations 0, 10, 20, 30, 20, 25 in the file's order: 20 and 30 were done again, or will be. The curve is
    0, 10, 20, 25, its 20 the later one.
    Samples of 8, 12 and 13 steps a second on a v100: 8, then (8 + 12) / 2 = 10, then (10 + 13) / 2 = 11.5.

Parameters
    none. `ALPHA`, weight of the newest sample.

Source
    Progress: SLAQ (Zhang et al., SoCC 2017), section 2: jobs report (iteration, loss). Throughputs: Gavel (Narayanan et
    al., OSDI 2020); its physical mode keeps a moving average with a weight of 0.5.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from types import MappingProxyType

from tesched_core.model.arrays import NDArray, np
from tesched_core.model.cluster import Job
from tesched_core.model.resources import UnixSeconds

#: What is understood.
VERSION = 1
#: Limits of one report.
MOST_BYTES = 65_536
MOST_POINTS = 1000
MOST_SAMPLES = 32
LONGEST_NAME = 100
#: The largest iteration: integers up to here are exact as floating-point numbers.
LARGEST_ITERATION = 2**53
#: The largest loss, work and speed, in size: a database's REAL and a square of it stay finite.
LARGEST = 1e100
#: Seconds by which a job's clock may be ahead.
AHEAD_S = 3600.0
#: Weight of the newest sample.
ALPHA = 0.5
#: What JSON's numbers, and null, become. True is none of them.
_OF_POINTS = frozenset({int, float, type(None)})


class ReportError(ValueError):
    """A report cannot be used. The text says what is wrong with it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """A job's losses. All columns are [points], iterations going up; they are read-only."""

    iteration: NDArray[np.int64]
    loss: NDArray[np.float64]
    #: when it was reported, Unix seconds
    at: NDArray[np.float64]
    #: work done per core-second; NaN where the job does not say
    work: NDArray[np.float64]

    def __len__(self) -> int:
        """Return the number of points."""
        return len(self.iteration)

    @property
    def rows(self) -> NDArray[np.float64]:
        """Return the points [points, 4]: iteration, loss, at, work."""
        return np.stack([self.iteration, self.loss, self.at, self.work], axis=1)

    @staticmethod
    def of(rows: NDArray[np.float64] | Sequence[Sequence[float]]) -> Curve:
        """Return the curve of these points [points, 4], which come in any order of iterations: the later one counts."""
        table = np.asarray(rows, dtype=np.float64).reshape(-1, 4)
        iteration = table[:, 0].astype(np.int64)
        # The lowest iteration that comes after each point; a point stays if it is below.
        lowest_after = np.minimum.accumulate(np.append(iteration, np.iinfo(np.int64).max)[::-1])[::-1][1:]
        table, iteration = table[iteration < lowest_after], iteration[iteration < lowest_after]
        columns = (np.ascontiguousarray(table[:, column]) for column in (1, 2, 3))
        loss, at, work = columns
        for column in (iteration, loss, at, work):
            column.flags.writeable = False
        return Curve(iteration=iteration, loss=loss, at=at, work=work)


@cache
def no_curve() -> Curve:
    """Return the curve without a point."""
    return Curve.of([])


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measured speed."""

    at: UnixSeconds
    #: the accelerator's type; empty: the job does not say, and means the one that Slurm gave it
    accelerator: str
    steps_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """Knowledge of one job from its own reports."""

    curve: Curve = field(default_factory=no_curve, compare=False)
    samples: tuple[Sample, ...] = ()
    #: steps a second by accelerator type, learned from this job's samples
    throughputs: Mapping[str, float] = field(default_factory=dict)
    #: what it trains, in its own word; empty: it does not say
    workload: str = ""
    #: the loss at which it is done, if it says so
    target_loss: float | None = None
    #: up to when its work is saved, by its own word, Unix seconds; None if it does not say
    saved_at: UnixSeconds | None = None
    #: points that were dropped: not finite, of the future, or done again since
    dropped: int = 0
    #: why its newest report is not used; empty if it is
    refused: str = ""


def thinned(count: int) -> NDArray[np.int64]:
    """Thin so many points, oldest first, to at most MOST_POINTS: the rows that are kept.

    The newest half is kept whole; of the others evenly many, the first among them.
    """
    if count <= MOST_POINTS:
        return np.arange(count)
    newest = MOST_POINTS // 2
    older = np.linspace(0, count - newest - 1, MOST_POINTS - newest).astype(np.int64)
    return np.concatenate([older, np.arange(count - newest, count)])


def continued(before: Curve, after: Curve) -> Curve:
    """Return a curve that goes on with the points of another one: what its first iteration overtakes is dropped."""
    if not len(after) or not len(before) or before.iteration[0] >= after.iteration[0]:
        return after if len(after) else before
    rows = np.concatenate([before.rows[before.iteration < after.iteration[0]], after.rows])
    return Curve.of(rows[thinned(len(rows))])


def resumed(before: Reported, after: Reported) -> Reported:
    """Return a report that goes on where another one was: of a process that knows nothing of those before it.

    What it does not say stays. So does what an earlier run of a requeued job has said: the losses up to where it begins
    again, as in a file that it goes on with; a time of saving, which saves nothing of a run that began later.
    """
    again = {(sample.at, sample.steps_per_s) for sample in after.samples}
    earlier = [sample for sample in before.samples if (sample.at, sample.steps_per_s) not in again]
    samples = tuple(sorted([*earlier, *after.samples], key=lambda sample: sample.at)[-MOST_SAMPLES:])
    saved = [at for at in (before.saved_at, after.saved_at) if at is not None]
    return replace(
        after,
        curve=continued(before.curve, after.curve),
        samples=samples,
        throughputs=MappingProxyType(learned(samples)),
        workload=after.workload or before.workload,
        target_loss=before.target_loss if after.target_loss is None else after.target_loss,
        saved_at=max(saved, default=None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Part of a report that was read before: its points, and which bytes they were."""

    curve: Curve
    dropped: int
    #: of the text, up to the end of its last point
    length: int
    digest: bytes


#: How the writer's text begins, and what follows its points.
_BEGINS, _FOLLOWS = b'{"version":1,"points":[', b']],"samples":'


def goes_on(before: bytes, after: bytes) -> bool:
    """Check whether a report begins with another one's points: its process sent that, too, and says all of it again."""
    end = before.find(_FOLLOWS) + 1
    return end > 0 and after.startswith(before[:end])


def parse_on(
    data: bytes, read: Read | None, *, now: UnixSeconds, accelerator: str = ""
) -> tuple[Reported, Read | None]:
    """Parse a report as `parse` does, going on with `read`; also what to give here with the next one of the same job.

    `read` is what was read before; where the report goes on with it, its points are not read again. Raises ReportError.
    """
    begun = read.length if read is not None and len(data) <= MOST_BYTES else 0
    told = hashlib.sha256(data[:begun])
    if read is not None and begun and told.digest() == read.digest:
        # They stood in the very same place in a report that was good: what comes here is the rest of a list.
        more = parse(_BEGINS + data[begun:].removeprefix(b","), now=now, accelerator=accelerator)
        rows = np.concatenate([read.curve.rows, more.curve.rows])
        curve = Curve.of(rows)
        dropped = read.dropped + more.dropped + len(rows) - len(curve)
        if len(curve) + dropped > MOST_POINTS:
            raise ReportError(f"it has more than {MOST_POINTS} points")
        found = replace(more, curve=curve, dropped=dropped)
    else:
        found = parse(data, now=now, accelerator=accelerator)
        begun, told = 0, hashlib.sha256()
    end = data.find(_FOLLOWS, max(begun - 1, 0)) + 1
    if not end or not data.startswith(_BEGINS):
        return found, None
    told.update(data[begun:end])
    return found, Read(curve=found.curve, dropped=found.dropped, length=end, digest=told.digest())


def parse(data: bytes, *, now: UnixSeconds, accelerator: str = "") -> Reported:
    """Parse a report. `accelerator` is the type that the job has, if Slurm shows it.

    Raises ReportError for whatever is no report.
    """
    if len(data) > MOST_BYTES:
        raise ReportError(f"it is longer than {MOST_BYTES} bytes")
    try:
        found = json.loads(data)
    except RecursionError:
        raise ReportError("it is nested too deeply") from None
    except ValueError:
        raise ReportError("it is no JSON") from None
    if not isinstance(found, dict):
        raise ReportError("it is no JSON object")
    version = found.get("version")
    if not _is_number(version) or version != VERSION:
        raise ReportError(f"its version is {_shown(version)}, not {VERSION}")
    curve, dropped = _curve(found.get("points", []), now)
    samples = tuple(_samples(found.get("samples", []), now, accelerator))
    return Reported(
        curve=curve,
        samples=samples,
        throughputs=MappingProxyType(learned(samples)),
        workload=_name("workload", found.get("workload", "")),
        target_loss=_target(found.get("target_loss")),
        saved_at=_saved_at(found.get("saved_at"), now),
        dropped=dropped,
    )


def _curve(points: object, now: UnixSeconds) -> tuple[Curve, int]:
    if not isinstance(points, list) or not all(isinstance(point, list) and len(point) == 4 for point in points):
        raise ReportError("its points are no list of [iteration, loss, at, work]")
    if len(points) > MOST_POINTS:
        raise ReportError(f"it has more than {MOST_POINTS} points")
    # Before numpy sees them: it takes lists for one more dimension, and texts and truth values for numbers.
    if not _OF_POINTS.issuperset(map(type, chain.from_iterable(points))):
        raise ReportError("one of its points is not of numbers")
    try:
        # null becomes NaN.
        table = np.array(points, dtype=np.float64).reshape(-1, 4)
    except OverflowError:
        raise ReportError("one of its points is not of numbers") from None
    iteration, loss, at, work = table.T
    # Comparisons with NaN are false.
    good = (iteration >= 0) & (iteration <= LARGEST_ITERATION) & (np.abs(loss) <= LARGEST)
    good &= (at >= 0) & (at <= now + AHEAD_S) & (np.isnan(work) | (np.abs(work) <= LARGEST))
    curve = Curve.of(table[good])
    return curve, len(points) - len(curve)


def _samples(samples: object, now: UnixSeconds, accelerator: str) -> Iterable[Sample]:
    if not isinstance(samples, list) or len(samples) > MOST_SAMPLES:
        raise ReportError(f"its samples are no list of at most {MOST_SAMPLES}")
    for sample in samples:
        if not isinstance(sample, list) or len(sample) != 3:
            raise ReportError("its samples are no list of [at, type, steps_per_s]")
        at, name, speed = sample
        if not _is_number(at) or not _is_number(speed):
            raise ReportError("one of its samples has no numbers")
        if 0 <= at <= now + AHEAD_S and 0 <= speed <= LARGEST:
            yield Sample(at=float(at), accelerator=_name("type", name) or accelerator, steps_per_s=float(speed))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _name(what: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_NAME or not value.isprintable():
        raise ReportError(f"its {what} is no text of at most {LONGEST_NAME} printable characters")
    return value


def _target(value: object) -> float | None:
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= LARGEST:
        raise ReportError("its target_loss is no number")
    return float(value)


def _saved_at(value: object, now: UnixSeconds) -> UnixSeconds | None:
    """Return a time in the past; what is none says nothing, and the rest of the report counts."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= now + AHEAD_S
    return float(value) if known else None  # type: ignore[arg-type] # it is a number


def _shown(value: object) -> str:
    return repr(value)[:20] if isinstance(value, int | float | str) else "missing"


def moved(known: float | None, steps_per_s: float, alpha: float = ALPHA) -> float:
    """Estimate a speed (steps a second) after one more sample of it."""
    return steps_per_s if known is None else (1 - alpha) * known + alpha * steps_per_s


def learned(samples: Iterable[Sample]) -> dict[str, float]:
    """Return the throughput by type after these samples, oldest first; those of no type are left out."""
    believed: dict[str, float] = {}
    for sample in samples:
        if sample.accelerator:
            believed[sample.accelerator] = moved(believed.get(sample.accelerator), sample.steps_per_s)
    return believed


def accelerator_of(job: Job) -> str:
    """Return the type of the GPUs that the job holds, as Slurm's GRES say it; empty if there is none, or several."""
    types = {
        name.partition(":")[2] for share in job.allocation for name, _ in share.tres.gres if name.startswith("gpu:")
    }
    return types.pop() if len(types) == 1 else ""
