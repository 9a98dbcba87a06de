"""Reports of jobs on themselves: written with each cycle, read by people and by programs that learn from them.

The store holds of a job what its last report held: losses that were done again, or thinned, are deleted. So a job has
at most `report.MOST_POINTS` rows, however long it runs.

Speeds are kept by user and workload. What a user's jobs report counts for that user's jobs alone; what holds for
all users comes from an admin's file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from sqlalchemy import Connection, Engine, bindparam, delete, insert, select, tuple_, update
from tesched_core.model.arrays import NDArray, np
from tesched_core.model.job_report import Curve, Reported, Sample, moved, no_curve
from tesched_core.model.request import requested_gpus
from tesched_core.model.resources import UnixSeconds

from tesched_db.engine import reader, writing
from tesched_db.errors import store_errors
from tesched_db.job_values import another_job
from tesched_db.rows import CHUNK, Values, row_by_key, rows_of
from tesched_db.tables import JobRow, ProgressRow, ReportRow, ThroughputRow
from tesched_db.upsert import upsert
from tesched_db.user_text import storable

if TYPE_CHECKING:
    from tesched_core.model.cluster import Job
    from tesched_core.model.snapshot import Snapshot

    from tesched_db.job_rows import PresentJobs

#: user, workload, scale, accelerator: what a user's jobs have in common
_Group: TypeAlias = tuple[str, str, int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportView:
    """Report of one job, as it was written last."""

    curve: Curve
    #: when it reported its newest loss or speed, by its own clock; None if it reported none
    at: UnixSeconds | None
    workload: str
    target_loss: float | None
    #: why its newest report is not used; empty if it is
    refused: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Speed of a workload on a type of accelerator."""

    #: empty: it holds for all users
    user: str = ""
    workload: str
    #: on how many accelerators
    scale: int = 1
    accelerator: str
    #: the workload that shares the accelerators, and on how many it runs; empty and 0: none
    partner: str = ""
    partner_scale: int = 0
    steps_per_s: float
    #: how many measurements are in it
    samples: int = 1
    #: of the newest
    at: UnixSeconds


@dataclass(slots=True)
class _Last:
    """Content of the store for one job."""

    #: as it was given; None after a start
    reported: Reported | None
    curve: Curve
    workload: str
    target_loss: float | None
    saved_at: UnixSeconds | None
    sampled_at: float
    #: it has a row in `reports`
    there: bool


@dataclass
class Told:
    """Reports in the store, as far as the next cycle needs them."""

    #: by job key
    last: dict[int, _Last] = field(default_factory=dict)

    def write(self, connection: Connection, snapshot: Snapshot, seen: PresentJobs) -> None:
        """Write what is new in the snapshot's reports."""
        now: dict[int, tuple[Job, Reported]] = {}
        for job_id, reported in snapshot.reported.items():
            key = seen.key_of(job_id)
            if key is not None and job_id in snapshot.jobs:
                now[key] = (snapshot.jobs[job_id], reported)
        for gone in self.last.keys() - now.keys():
            del self.last[gone]
        self._load(connection, [key for key in now if key not in self.last])
        # The reader gives the same object for as long as nothing has changed.
        changed = {key: pair for key, pair in now.items() if self.last[key].reported is not pair[1]}
        if changed:
            told = {key: (job, self._kept(key, reported)) for key, (job, reported) in changed.items()}
            self._learn(connection, told)
            self._write_reports(connection, told)
            self._write_curves(connection, told)
            for key, (_, reported) in told.items():
                last = self.last[key]
                last.reported, last.curve, last.there = changed[key][1], reported.curve, True
                last.workload, last.target_loss = reported.workload, reported.target_loss
                last.saved_at = reported.saved_at

    def _kept(self, key: int, reported: Reported) -> Reported:
        """Work out what is written: what the job reported before stays if all that is known is that it is refused."""
        if not reported.refused or len(reported.curve) or reported.samples:
            return reported
        last = self.last[key]
        return replace(
            reported,
            curve=last.curve,
            workload=last.workload,
            target_loss=last.target_loss,
            saved_at=last.saved_at,
        )

    def _load(self, connection: Connection, keys: Sequence[int]) -> None:
        """Read what the store holds of these jobs."""
        for start in range(0, len(keys), CHUNK):
            some = keys[start : start + CHUNK]
            curves = curves_of(connection, some)
            rows = rows_of(connection, select(ReportRow).where(ReportRow.job_key.in_(some)))
            there = {row.job_key: row for row in rows}
            for key in some:
                row = there.get(key)
                self.last[key] = _Last(
                    reported=None,
                    curve=curves.get(key, no_curve()),
                    workload=row.workload if row else "",
                    target_loss=row.target_loss if row else None,
                    saved_at=row.saved_at if row else None,
                    sampled_at=row.sampled_at if row else 0.0,
                    there=row is not None,
                )

    def _write_reports(self, connection: Connection, changed: Mapping[int, tuple[Job, Reported]]) -> None:
        rows = [{"job_key": key, **_values(reported, self.last[key])} for key, (_, reported) in changed.items()]
        new = [row for row in rows if not self.last[row["job_key"]].there]
        if new:
            connection.execute(insert(ReportRow), new)
        altered = [
            {f"b_{name}": value for name, value in row.items()} for row in rows if self.last[row["job_key"]].there
        ]
        if altered:
            this = ReportRow.job_key == bindparam("b_job_key")
            columns = [name for name in rows[0] if name != "job_key"]
            done = update(ReportRow).where(this).values({name: bindparam(f"b_{name}") for name in columns})
            connection.execute(done, altered)

    def _write_curves(self, connection: Connection, changed: Mapping[int, tuple[Job, Reported]]) -> None:
        dropped: list[Values] = []
        added: list[Values] = []
        for key, (_, reported) in changed.items():
            before, after = self.last[key].curve, reported.curve
            stays_before, stays_after = _common(before, after)
            overtaken = before.iteration[~stays_before].tolist()
            dropped += [{"b_job_key": key, "b_iteration": iteration} for iteration in overtaken]
            rows = (after.iteration, after.at, after.loss, after.work)
            for iteration, at, loss, work in zip(*(column[~stays_after].tolist() for column in rows), strict=True):
                told = None if np.isnan(work) else work
                added.append({"job_key": key, "iteration": iteration, "at": at, "loss": loss, "work": told})
        if dropped:
            this = (ProgressRow.job_key == bindparam("b_job_key")) & (ProgressRow.iteration == bindparam("b_iteration"))
            connection.execute(delete(ProgressRow).where(this), dropped)
        if added:
            connection.execute(insert(ProgressRow), added)

    def _learn(self, connection: Connection, changed: Mapping[int, tuple[Job, Reported]]) -> None:
        """Count the samples that are new."""
        new: dict[_Group, list[Sample]] = {}
        for key, (job, reported) in changed.items():
            last = self.last[key]
            for sample in reported.samples:
                if sample.accelerator and sample.at > last.sampled_at:
                    new.setdefault(_group(job, reported, sample), []).append(sample)
            last.sampled_at = max([last.sampled_at, *(sample.at for sample in reported.samples)])
        if not new:
            return
        # Read each time: what was forgotten meanwhile (`tesched db prune`) counts no more.
        known = _speeds(connection, list(new))
        rows: list[Values] = []
        for group, samples in new.items():
            speed, count = known.get(group, (None, 0))
            for sample in sorted(samples, key=lambda each: each.at):
                speed, count = moved(speed, sample.steps_per_s), count + 1
            user, workload, scale, accelerator = group
            rows.append(
                {
                    **_ALONE,
                    "user": user,
                    "workload": workload,
                    "scale": scale,
                    "accelerator": accelerator,
                    "steps_per_s": speed,
                    "samples": count,
                    "at": max(sample.at for sample in samples),
                }
            )
        upsert(connection, ThroughputRow, rows)


#: of a workload that shares its accelerators with no other
_ALONE: Values = {"partner": "", "partner_scale": 0}
_IDENTITY = ("user", "workload", "scale", "accelerator", "partner", "partner_scale")
_MEASURED = ("steps_per_s", "samples", "at")


def _speeds(connection: Connection, groups: Sequence[_Group]) -> dict[_Group, tuple[float, int]]:
    """Read the steps a second of these groups, and of how many samples, as far as the store has them."""
    found: dict[_Group, tuple[float, int]] = {}
    columns = (ThroughputRow.user, ThroughputRow.workload, ThroughputRow.scale, ThroughputRow.accelerator)
    for start in range(0, len(groups), CHUNK // 4):
        some = groups[start : start + CHUNK // 4]
        query = select(*columns, ThroughputRow.steps_per_s, ThroughputRow.samples).where(
            tuple_(*columns).in_(some), ThroughputRow.partner == ""
        )
        for user, workload, scale, accelerator, speed, samples in connection.execute(query):
            found[user, workload, scale, accelerator] = (speed, samples)
    return found


def _group(job: Job, reported: Reported, sample: Sample) -> _Group:
    workload = storable(reported.workload or job.name)
    return storable(job.user), workload, max(requested_gpus(job.request), 1), storable(sample.accelerator)


def _values(reported: Reported, last: _Last) -> Values:
    # Of an earlier daemon's speeds it is known when the newest was measured.
    told = [last.sampled_at] * (last.sampled_at > 0) + reported.curve.at.tolist()[-1:]
    return {
        "at": max(told, default=None),
        "workload": reported.workload,
        "target_loss": reported.target_loss,
        "saved_at": reported.saved_at,
        "refused": reported.refused,
        "sampled_at": last.sampled_at,
    }


def _common(before: Curve, after: Curve) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Find which points of each are in the other one, too."""
    in_before, in_after = np.zeros(len(before), dtype=np.bool_), np.zeros(len(after), dtype=np.bool_)
    if len(before) and len(after):
        place = np.minimum(np.searchsorted(before.iteration, after.iteration), len(before) - 1)
        in_after = (before.iteration[place] == after.iteration) & (before.loss[place] == after.loss)
        in_after &= before.at[place] == after.at
        in_before[place[in_after]] = True
    return in_before, in_after


def curves_of(connection: Connection, keys: Sequence[int]) -> dict[int, Curve]:
    """Return the curves of these jobs that have one, by key."""
    query = select(ProgressRow.job_key, ProgressRow.iteration, ProgressRow.loss, ProgressRow.at, ProgressRow.work)
    query = query.order_by(ProgressRow.job_key, ProgressRow.iteration)
    rows: dict[int, list[tuple[float, float, float, float]]] = {}
    for start in range(0, len(keys), CHUNK):
        mine = query.where(ProgressRow.job_key.in_(keys[start : start + CHUNK]))
        for key, iteration, loss, at, work in connection.execute(
            mine.order_by(ProgressRow.job_key, ProgressRow.iteration)
        ):
            rows.setdefault(key, []).append((iteration, loss, at, np.nan if work is None else work))
    return {key: Curve.of(found) for key, found in rows.items()}


def report(engine: Engine, job_key: int) -> ReportView | None:
    """Read what a job reported; None if it reported nothing. Raises StoreError."""
    with reader(engine) as connection:
        row = row_by_key(connection, ReportRow, job_key)
        if row is None:
            return None
        return ReportView(
            curve=curves_of(connection, [job_key]).get(job_key, no_curve()),
            at=row.at,
            workload=row.workload,
            target_loss=row.target_loss,
            refused=row.refused,
        )


def stored(engine: Engine, job: Job) -> Reported | None:
    """Read what a job had reported when it was written last, but for its speeds; None if nothing. Raises StoreError.

    An earlier job of its id is another one.
    """
    with reader(engine) as connection:
        newest = select(JobRow.key, JobRow.submit_time, JobRow.restarts, JobRow.user)
        newest = newest.where(JobRow.job_id == job.job_id).order_by(JobRow.key.desc()).limit(1)
        known = connection.execute(newest).first()
        if known is None:
            return None
        key, *written = known
        if another_job(dict(zip(("submit_time", "restarts", "user"), written, strict=True)), job):
            return None
        row = row_by_key(connection, ReportRow, key)
        if row is None:
            return None
        return Reported(
            curve=curves_of(connection, [key]).get(key, no_curve()),
            workload=row.workload,
            target_loss=row.target_loss,
            saved_at=row.saved_at,
            refused=row.refused,
        )


def throughputs(engine: Engine, *, user: str | None = None) -> tuple[Throughput, ...]:
    """Return all speeds that are known, or one user's (empty: those of an admin's files). Raises StoreError."""
    query = select(ThroughputRow).order_by(*(getattr(ThroughputRow, name) for name in _IDENTITY))
    if user is not None:
        query = query.where(ThroughputRow.user == user)
    with reader(engine) as connection:
        return tuple(
            Throughput(**{name: getattr(row, name) for name in (*_IDENTITY, *_MEASURED)})
            for row in rows_of(connection, query)
        )


def replace_throughputs(engine: Engine, speeds: Iterable[Throughput]) -> None:
    """Put these speeds, which hold for all users, in the place of all that hold for all users. Raises StoreError.

    What jobs have reported stays. May run beside the daemon.
    """
    rows = [{name: getattr(speed, name) for name in (*_IDENTITY, *_MEASURED)} | {"user": ""} for speed in speeds]
    with store_errors("write to the state store"), writing(engine).begin() as connection:
        connection.execute(delete(ThroughputRow).where(ThroughputRow.user == ""))
        if rows:
            connection.execute(insert(ThroughputRow), rows)


def forget_throughputs(connection: Connection, before: UnixSeconds) -> int:
    """Forget what users' jobs reported before that time; the number of speeds.

    The transaction holds the daemon's row, as the journal's: that learns from what it has read in the same one.
    """
    old = delete(ThroughputRow).where(ThroughputRow.user != "", ThroughputRow.at < before)
    return connection.execute(old).rowcount
