"""Jobs that the store knows, and what a new snapshot changes: only changed jobs are written."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, Row, select
from tesched_core.intake.classify import Question
from tesched_core.intake.job_times import last_run_s, times
from tesched_core.model.cluster import Job
from tesched_core.model.decision import Decision
from tesched_core.model.other_objects import other_objects
from tesched_core.model.resources import JobId, Tres, UnixSeconds
from tesched_core.model.snapshot import JobClass, Snapshot, Traits

from tesched_db.history_rows import changes_of
from tesched_db.job_values import another_job, changed_values, job_values
from tesched_db.many_rows import insert_rows, update_rows
from tesched_db.rows import CHUNK, IN_PARTS, Values
from tesched_db.tables import HistoryRow, JobRow
from tesched_db.user_text import storable

#: Jobs whose rows are made before they are written: all of a large site's first poll would be 200 MB, and PostgreSQL
#: ends a transaction of ours that is idle for 5 s meanwhile.
MOST_AT_ONCE = 1000

#: Traits of a job that was not classified.
UNCLASSIFIED = Traits(job_class=JobClass.EXEMPT, rule="", grace_period_s=0.0, grace_source="")

#: Reasons between which a waiting job goes back and forth; that is no news.
_QUEUED = frozenset({"", "None", "Priority", "Resources"})

#: The columns without a change of which a job has come to no milestone.
_MILESTONES = frozenset({"state", "flags", "restarts", "nodes", "start_time", "reason"})

#: The columns of a job that the next poll may change.
_CHANGING = (
    *("submit_time", "array_job_id", "array_task_id", "het_job_id", "het_offset", "label", "name", "user", "account"),
    *("partition", "qos", "job_class", "rule", "grace_period_s", "grace_source", "notice_signal", "notice_target"),
    *("notice_source", "exit0", "elastic", "ends", "most_preemptions", "not_followed"),
    *("cpus", "mem_mib", "gpus", "min_nodes", "state", "flags", "reason", "priority", "nice", "restarts"),
    *("start_time", "end_time", "time_limit_s", "run_time_s", "patience_s", "patience_until", "idle_since", "nodes"),
    "question",
)

#: What is read of a row: its key, and the values that are compared with those of the next poll.
_KNOWN_NAMES = ("job_id", *_CHANGING)
_KNOWN = (JobRow.key, *(getattr(JobRow, name) for name in _KNOWN_NAMES))


@dataclass(slots=True)
class Known:
    """One job that the store holds as present."""

    key: int
    #: as last seen and written; None after a start
    job: Job | None = None
    traits: Traits | None = None
    idle_since: UnixSeconds | None = None
    question: Values | None = None
    #: after a start, as it stands in the store; else it is worked out where it is needed: it would be 1.5 kB a job
    stored: Values | None = None

    @property
    def values(self) -> Values:
        """What was last written, by column; nothing of a new job."""
        if self.job is None or self.traits is None:
            return self.stored or {}
        return {**job_values(self.job, self.traits, self.idle_since), "question": self.question}

    @property
    def kind(self) -> tuple[str, str]:
        """Class and state, as last written."""
        if self.job is None or self.traits is None:
            stored = self.stored or {}
            return stored["job_class"], stored["state"]
        return self.traits.job_class, self.job.state

    def is_another(self, job: Job) -> bool:
        """Check whether `job` merely has the id of this one."""
        one = self.job
        if one is None:
            return another_job(self.values, job)
        if one.submit_time == job.submit_time:
            return False
        return another_job({"submit_time": one.submit_time, "restarts": one.restarts, "user": storable(one.user)}, job)

    def changes(self, job: Job, traits: Traits, idle_since: UnixSeconds | None) -> tuple[bool, Values]:
        """Find out whether the job as it is now is news for its history, and which values have changed."""
        if self.job is not None and self.traits is not None:
            values = changed_values((self.job, self.traits, self.idle_since), (job, traits, idle_since))
            perhaps = not _MILESTONES.isdisjoint(values)
            return perhaps and _milestone_of(self.job) != _milestone_of(job), values
        before, now = self.values, job_values(job, traits, idle_since)
        changed = {name: value for name, value in now.items() if value != before[name]}
        return _milestone(before) != _milestone(now), changed


@dataclass
class PresentJobs:
    """The jobs that the store holds as present, and the next free key."""

    jobs: dict[JobId, Known] = field(default_factory=dict)
    next_key: int = 1
    #: the jobs that the last write saw to have ended, each with how long its last run ran, seconds
    ended: list[tuple[Job, float]] = field(default_factory=list)
    #: the snapshot of the last write; None after a start. What is the same object there was compared then.
    _last: Snapshot | None = None
    #: how many present jobs are of each class and state, as written
    _count: Counter[tuple[str, str]] = field(default_factory=Counter)

    @staticmethod
    def load(connection: Connection) -> PresentJobs:
        """Load the present jobs that the store holds."""
        last = connection.scalar(select(JobRow.key).order_by(JobRow.key.desc()).limit(1))
        present = connection.execute(select(*_KNOWN).where(JobRow.last_seen.is_(None)), execution_options=IN_PARTS)
        jobs = {JobId(row.job_id): _known(row) for row in present}
        count = Counter(known.kind for known in jobs.values())
        return PresentJobs(jobs=jobs, next_key=(last or 0) + 1, _count=count)

    def counts(self) -> dict[str, dict[str, int]]:
        """Number of present jobs by class and state."""
        counts: dict[str, dict[str, int]] = {}
        for (job_class, state), number in sorted((+self._count).items()):
            counts.setdefault(str(job_class), {})[str(state)] = number
        return counts

    def key_of(self, job_id: JobId) -> int | None:
        """Return our key of the job that Slurm now knows by this id; None if there is none."""
        known = self.jobs.get(job_id)
        return known.key if known else None

    def questions(self) -> Mapping[JobId, Question]:
        """Questions of the jobs that hold nodes: their own data when their runs began."""
        return {
            job_id: Question(**{**said, "partitions": tuple(said["partitions"])})
            for job_id, known in self.jobs.items()
            if (said := known.question) is not None
        }

    def write(self, connection: Connection, snapshot: Snapshot, seen_before: UnixSeconds | None) -> None:
        """Write what the snapshot changes. `seen_before` is the time of the snapshot before it."""
        self.ended = []
        changed = [
            (snapshot.jobs[job_id], traits)
            for job_id in _perhaps_changed(snapshot, self._last)
            if not self._same(
                snapshot.jobs[job_id],
                traits := snapshot.traits.get(job_id) or UNCLASSIFIED,
                snapshot.idle_since.get(job_id),
            )
        ]
        new = sum(job.job_id not in self.jobs for job, _ in changed)
        if len(self.jobs) + new > len(snapshot.jobs):
            gone = [self.jobs.pop(job_id) for job_id in [one for one in self.jobs if one not in snapshot.jobs]]
            self._mark_gone(connection, gone, seen_before if seen_before is not None else snapshot.taken_at)
            self._count.subtract(known.kind for known in gone)
        for start in range(0, len(changed), MOST_AT_ONCE):
            self._renew(connection, changed[start : start + MOST_AT_ONCE], snapshot, seen_before)
        self._last = snapshot

    def _same(self, job: Job, traits: Traits, idle_since: UnixSeconds | None) -> bool:
        known = self.jobs.get(job.job_id)
        if known is None or known.idle_since != idle_since:
            return False
        return (known.traits is traits or known.traits == traits) and known.job == job

    def _mark_gone(self, connection: Connection, gone: Sequence[Known], last_seen: UnixSeconds) -> None:
        """Write that Slurm no longer knows these jobs; their last known state stays."""
        update_rows(connection, JobRow, [{"key": known.key, "last_seen": last_seen} for known in gone])

    def _renew(
        self,
        connection: Connection,
        changed: Sequence[tuple[Job, Traits]],
        snapshot: Snapshot,
        seen_before: UnixSeconds | None,
    ) -> None:
        at = snapshot.taken_at
        self._find_again(connection, [job for job, _ in changed if job.job_id not in self.jobs])
        new: list[Values] = []
        #: by the columns that change, which are few, and the same ones for most jobs
        altered: defaultdict[tuple[str, ...], list[Values]] = defaultdict(list)
        history: list[Values] = []
        ended: dict[int, Job] = {}
        parted: list[Known] = []
        for job, traits in changed:
            known = self.jobs.get(job.job_id)
            idle_since = snapshot.idle_since.get(job.job_id)
            if known is not None:
                self._count[known.kind] -= 1
                if known.is_another(job):
                    parted.append(known)
                    known = None
            self._count[traits.job_class, job.state] += 1  # members of enums, which are equal to their words
            question = _question(job, traits, known.question if known is not None else None)
            if known is None:
                known = Known(key=self.next_key)
                self.next_key += 1
                values = {**job_values(job, traits, idle_since), "question": question}
                new.append({**values, "key": known.key, "first_submit_time": job.submit_time, "first_seen": at})
                is_news = True
            else:
                is_news, values = known.changes(job, traits, idle_since)
                if question != known.question:
                    values["question"] = question
                if values:
                    altered[tuple(values)].append({**values, "key": known.key})
            if is_news:
                history.append(_history_values(known.key, job, at))
                if job.finished:
                    ended[known.key] = job
            known.job, known.traits, known.stored = job, traits, None
            known.idle_since, known.question = idle_since, question
            self.jobs[job.job_id] = known
        if parted:
            self._mark_gone(connection, parted, seen_before if seen_before is not None else at)
        if new:
            insert_rows(connection, JobRow, new)
        for rows in altered.values():
            update_rows(connection, JobRow, rows)
        if history:
            insert_rows(connection, HistoryRow, history)
        if ended:
            self._sum_up(connection, ended)

    def _find_again(self, connection: Connection, jobs: Sequence[Job]) -> None:
        """Take back in the jobs that were marked gone and are seen again."""
        latest: dict[int, Row[Any]] = {}
        for start in range(0, len(jobs), CHUNK):
            some = [job.job_id for job in jobs[start : start + CHUNK]]
            rows = connection.execute(select(*_KNOWN).where(JobRow.job_id.in_(some)).order_by(JobRow.key))
            latest.update({row.job_id: row for row in rows})
        found = {job.job_id: (job, _known(latest[job.job_id])) for job in jobs if job.job_id in latest}
        back = {job_id: known for job_id, (job, known) in found.items() if not known.is_another(job)}
        if back:
            update_rows(connection, JobRow, [{"key": known.key, "last_seen": None} for known in back.values()])
            self.jobs.update(back)
            self._count.update(known.kind for known in back.values())

    def _sum_up(self, connection: Connection, jobs: Mapping[int, Job]) -> None:
        """Write how long the jobs that have just ended waited and ran, given by key."""
        sums: list[Values] = []
        keys = list(jobs)
        for start in range(0, len(keys), CHUNK):
            for key, changes in changes_of(connection, keys[start : start + CHUNK]).items():
                spent = times(changes, now=changes[-1].at)
                self.ended.append((jobs[key], last_run_s(changes)))
                if spent.whole:
                    sums.append({"key": key, "waited_s": spent.waited_s, "ran_s": spent.ran_s})
        if sums:
            update_rows(connection, JobRow, sums)


def _perhaps_changed(snapshot: Snapshot, before: Snapshot | None) -> Iterable[JobId]:
    """Return the jobs that are not, with all that is written of them, the very objects of the snapshot before."""
    if before is None:
        return snapshot.jobs
    found = dict.fromkeys(_others(snapshot.jobs, before.jobs))
    found |= dict.fromkeys(_others(snapshot.traits, before.traits))
    found |= dict.fromkeys(job_id for job_id, _ in snapshot.idle_since.items() ^ before.idle_since.items())
    return [job_id for job_id in found if job_id in snapshot.jobs]


def _others(now: Mapping[JobId, object], then: Mapping[JobId, object]) -> list[JobId]:
    """Find the jobs for which the two do not have the very same object. It is done at each poll for each job."""
    return other_objects(now, then) + ([] if then.keys() <= now.keys() else [one for one in then if one not in now])


def of_te(snapshot: Snapshot, decision: Decision) -> Values:
    """Values of the daemon's row on TE jobs: what they hold, and by how much they may delay others."""
    bound = decision.bound
    if bound is not None:
        bound = replace(bound, jobs=tuple(replace(one, user=storable(one.user)) for one in bound.jobs))
    return {"held": _held_by_te(snapshot), "bound": asdict(bound) if bound is not None else {}}


def _held_by_te(snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """Amounts of CPUs and GPUs that TE jobs hold, and that all nodes have."""
    jobs, wanted = snapshot.jobs, JobClass.TE
    of_te = [job_id for job_id, traits in snapshot.traits.items() if traits.job_class is wanted]
    te = (share.tres for job_id in of_te if job_id in jobs for share in jobs[job_id].allocation)
    return {"te": _cpus_and_gpus(te), "all": _cpus_and_gpus(node.total for node in snapshot.nodes.values())}


def _cpus_and_gpus(amounts: Iterable[Tres]) -> dict[str, int]:
    cpus = gpus = 0
    for tres in amounts:
        cpus += tres.cpus
        gpus += dict(tres.gres).get("gpu", 0)
    return {"cpu": cpus, "gpu": gpus}


def _question(job: Job, traits: Traits, before: Values | None) -> Values | None:
    """Question of the job: its own data when its run began, as written `before`, or as it is now.

    Its time limit is the one by which it got its class: Slurm may have lowered it since.
    """
    if not job.on_nodes:
        return None
    if before is not None and (before["restarts"], before["submit_time"]) == (job.restarts, job.submit_time):
        return before
    limit_s = job.time_limit_s if traits is UNCLASSIFIED else traits.time_limit_s
    return {**asdict(Question.of(job)), "partitions": list(job.partitions), "time_limit_s": limit_s}


def _known(row: Row[Any]) -> Known:
    stored: Values = dict(zip(_KNOWN_NAMES, row[1:], strict=True))
    return Known(key=row.key, stored=stored, idle_since=row.idle_since, question=row.question)


def _milestone(values: Values) -> tuple[Any, ...]:
    """Values of a job whose change makes a new line in its history."""
    reason = "" if values["reason"] in _QUEUED else values["reason"]
    completing = "COMPLETING" in values["flags"].split(",")
    return values["state"], completing, values["restarts"], values["nodes"], values["start_time"], reason


def _milestone_of(job: Job) -> tuple[Any, ...]:
    """Return the same as `_milestone` for two records of a job, or not, without making their values."""
    reason = "" if job.reason in _QUEUED else storable(job.reason)
    return job.state, job.completing, job.restarts, job.allocation and job.nodes, job.start_time, reason


def _history_values(key: int, job: Job, at: UnixSeconds) -> Values:
    return {
        "job_key": key,
        "at": at,
        "state": str(job.state),
        "completing": job.completing,
        "reason": storable(job.reason),
        "restarts": job.restarts,
        "submit_time": job.submit_time,
        "start_time": job.start_time,
        "end_time": job.end_time,
        "nodes": list(job.nodes),
    }
