"""Columns that are kept from poll to poll: whatever changes between two, they are those of the snapshot read anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tesched_core.model.access import PartitionAccess
from tesched_core.model.cluster import Job, JobState, NodeShare, Partition, Request, Reservation, SlurmSettings
from tesched_core.model.columns import Running
from tesched_core.model.hook import HOOK_MARK
from tesched_core.model.known_jobs import KnownCluster
from tesched_core.model.resources import JobId, Tres
from tesched_core.model.slurm_limits import SlurmLimits
from tesched_core.model.snapshot import ExpectedRun, JobClass, Snapshot, Traits
from tesched_core.placement import read_jobs
from tesched_core.placement.capacity_of import capacity_of
from tesched_core.placement.columns_of import SnapshotColumns, columns_of

from tests.builders import NOW, cluster, node, running, share, traits, waiting
from tests.examples import examples

NODES = ("n1", "n2", "n3", "n4")
PARTITIONS = ("p", "q")
USERS = ("ada", "eve", "bob")
PARTS = ("capacity", "running", "trials", "waiting", "ends", "doubted", "hook_marked", "tasks", "_queue")


def plain(value: Any) -> Any:
    """Columns as values that can be compared: arrays with their types, and what a NaN is equal to."""
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, [repr(one) for one in value.ravel().tolist()]
    if is_dataclass(value) and not isinstance(value, (type, Job)):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value) if one.init}
    if isinstance(value, Mapping):
        return [(key, plain(one)) for key, one in value.items()]
    return value


def whole(columns: SnapshotColumns) -> dict[str, Any]:
    """Every part of an overview."""
    return {name: plain(getattr(columns, name)) for name in PARTS}


class Polls:
    """A site and its jobs, from one poll to the next."""

    def __init__(self, random: Random) -> None:
        """Begin with a few jobs."""
        self.random = random
        self.at = NOW
        self.numbers = iter(range(1, 10_000))
        self.nodes = [replace(node(name, cpus=8), held=self.held()) for name in NODES]
        self.partitions = [Partition(name=name, nodes=frozenset(NODES)) for name in PARTITIONS]
        self.settings = SlurmSettings(enforced=frozenset({"qos"}))
        self.limits = SlurmLimits()
        self.reservations = [Reservation(name="r", start_time=0.0, end_time=NOW + 60)]
        self.jobs = [self.new_job() for _ in range(random.randrange(8))]
        self.traits = {job.job_id: self.new_traits() for job in self.jobs}
        self.expected: dict[JobId, ExpectedRun] = {}
        self.leave_times: dict[tuple[str, str], tuple[float, ...]] = {}

    def one(self, *several: Any) -> Any:
        return self.random.choice(several)

    def seldom(self, usual: Any, other: Any) -> Any:
        """Return one of these; most jobs are of the usual kind in most ways."""
        return other if self.random.random() < 0.1 else usual

    def held(self) -> Tres | None:
        found: Tres | None = self.one(None, Tres(cpus=8), Tres(cpus=2, mem_mib=100))
        return found

    def new_job(self) -> Job:
        """Return a job with an id of its own; of any kind of record."""
        random, one, seldom = self.random, self.one, self.seldom
        places = random.sample(seldom(NODES, ("gone",)), one(0, 1, 1, 1))
        places += [name for name in NODES[:2] if places and name not in places and one(True, False)]
        return Job(
            job_id=JobId(next(self.numbers) if one(True, True, False) else 5000 - next(self.numbers)),
            name=one("a", "b"),
            array_job_id=seldom(None, JobId(one(7, 8))),
            user=one(*USERS),
            partitions=one(("p",), ("q",), ("q", "p")),
            qos=seldom("normal", ""),
            state=seldom(JobState.RUNNING, one(JobState.SUSPENDED, JobState.COMPLETED)) if places else JobState.PENDING,
            flags=seldom(frozenset(), frozenset({"COMPLETING"})),
            reason=one("Resources", "Priority", ""),
            priority=random.randrange(5),
            batch=seldom(True, False),
            restarts=seldom(0, 70_000),
            submit_time=float(random.randrange(9)),
            start_time=one(None, NOW - 50.5, NOW),
            time_limit_s=one(None, 60, 3600),
            request=seldom(
                Request(cpus=1, mem_per_node_mib=1), one(Request(cpus=2, sharing="USER"), Request(features="f"))
            ),
            allocation=tuple(NodeShare(node=name, tres=Tres(cpus=one(1, 2), mem_mib=9)) for name in places),
            reservation=one("", "", "r"),
            admin_comment=one("", HOOK_MARK),
            doubt=seldom("", "torn"),
        )

    def new_traits(self) -> Traits:
        one = self.one
        return replace(
            traits(one(JobClass.BE, *JobClass), one(10.0, 20.0)),
            notice_signal=one("", "USR1"),
            run_time_s=one(None, None, 30.0),
            unread=self.seldom(False, True),
            most_preemptions=one(None, 1),
            most_said=one(None, 7),
        )

    def add(self) -> None:
        job = self.new_job()
        if job.job_id not in self.traits:
            self.jobs.insert(self.random.randrange(len(self.jobs) + 1), job)
            self.traits[job.job_id] = self.new_traits()

    def drop(self) -> None:
        if self.jobs:
            job = self.jobs.pop(self.random.randrange(len(self.jobs)))
            del self.traits[job.job_id]

    def change(self) -> None:
        """Another record of one job, which may be equal to the one before, and is another object."""
        if self.jobs:
            row = self.random.randrange(len(self.jobs))
            job_id = self.jobs[row].job_id
            self.jobs[row] = replace(self.one(self.jobs[row], self.new_job()), job_id=job_id)

    def reclassify(self) -> None:
        """Other traits of one job, or none of it; its record stays."""
        if self.jobs:
            self.traits[self.one(*self.jobs).job_id] = self.new_traits()

    def reorder(self) -> None:
        self.random.shuffle(self.jobs)

    def learn(self) -> None:
        if self.jobs:
            low_s = float(self.random.randrange(100))
            one = ExpectedRun(low_s=low_s, median_s=low_s + 30, high_s=low_s + 90, learned=self.one(True, False))
            self.expected[self.one(*self.jobs).job_id] = one
            self.expected.pop(self.one(*self.jobs).job_id, None)

    def change_a_node(self) -> None:
        row, one = self.random.randrange(len(self.nodes)), self.one
        self.nodes[row] = replace(
            self.nodes[row],
            **one(
                {"state": one("DOWN", "MIXED"), "held": self.held()},
                {"held": self.held()},
                {"held": self.held()},
                {"features": frozenset({one("f", "g")})},
                {"total": Tres(cpus=one(8, 16), mem_mib=one(1000, 64_000))},
                {"threads_per_core": one(1, 2), "sockets": 1, "cores_per_socket": 4},
            ),
        )

    def change_a_partition(self) -> None:
        """Another partition, or an equal one that is another object."""
        row, one = self.random.randrange(len(self.partitions)), self.one
        self.partitions[row] = replace(
            self.partitions[row],
            **one(
                {},
                {"state": one("UP", "DOWN")},
                {"exclusive_user": one(True, False)},
                {"max_cpus_per_node": one(None, 3)},
                {"oversubscribe": one("NO", "FORCE:4")},
                {"access": PartitionAccess(deny_qos=frozenset({one("", "normal")}))},
                {"max_time_s": one(None, 600)},
            ),
        )

    def change_the_settings(self) -> None:
        one = self.one
        self.settings = replace(self.settings, kill_wait_s=one(30, 60), enforced=frozenset({one("qos", "limits")}))

    def change_the_limits(self) -> None:
        self.limits = SlurmLimits(qos={"normal": self.one({}, {("MaxWallPJ", ""): 5})})

    def change_a_reservation(self) -> None:
        self.reservations = [Reservation(name="r", start_time=0.0, end_time=self.at + self.one(-1, 1, 60))]

    def learn_leaving(self) -> None:
        self.leave_times = {**self.leave_times, (self.one(*USERS), self.one("a", "b")): (self.one(3.0, 7.0, 500.0),)}

    def next(self) -> Snapshot:
        """Change some, and poll."""
        changes: Sequence[Callable[[], None]] = (
            *(self.add, self.add, self.drop, self.change, self.change, self.reclassify, self.reorder),
            *(self.learn, self.learn_leaving, self.change_a_node, self.change_a_node, self.change_a_partition),
            *(self.change_the_settings, self.change_the_limits, self.change_a_reservation),
        )
        for _ in range(self.one(0, 1, 1, 2, 4)):
            self.one(*changes)()
        self.at += self.one(0.0, 1.0, 40.0)
        seen = Snapshot.of(
            self.at,
            jobs=self.jobs,
            nodes=self.seldom(self.nodes, self.nodes[:-1]),
            partitions=self.partitions,
            reservations=self.reservations,
            settings=self.settings,
            limits=self.limits,
            traits=self.traits,
        )
        return replace(seen, expected=dict(self.expected), leave_times=self.leave_times)


@settings(max_examples=examples(150))
@given(st.randoms(use_true_random=True))
def test_kept_columns_are_those_that_are_read_anew(random: Random) -> None:
    polls, known = Polls(random), None
    for _ in range(8):
        seen = polls.next()
        kept = columns_of(seen, known)
        known = kept.known
        assert whole(kept) == whole(columns_of(seen))
        assert plain(kept.capacity) == plain(capacity_of(seen))


class Counted(NamedTuple):
    """What was read anew."""

    known: KnownCluster
    read: list[JobId]


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Callable[[Snapshot, KnownCluster | None], Counted]:
    """Give a function that reads a snapshot, and says which jobs it had to read."""
    entry, found = read_jobs._job_entry, []

    def counted(job: Job, of: Traits | None) -> tuple[Any, ...]:
        found.append(job.job_id)
        return entry(job, of)

    monkeypatch.setattr(read_jobs, "_job_entry", counted)

    def read(seen: Snapshot, before: KnownCluster | None = None) -> Counted:
        found.clear()
        return Counted(read_jobs.read(seen, before), [*found])

    return read


def test_only_jobs_that_have_changed_are_read(count: Callable[..., Counted]) -> None:
    jobs = [running(number, share("n1", 1)) for number in (1, 2, 3)]
    first = cluster([node("n1")], jobs)
    known, read = count(first)
    assert read == [1, 2, 3]
    other, new = replace(jobs[1], time_limit_s=5), waiting(4)
    second = replace(first, jobs={one.job_id: one for one in (new, jobs[2], other, jobs[0])}, taken_at=NOW + 1)
    assert count(second, known).read == [4, 2]
    lacking = replace(first, jobs={JobId(3): jobs[2]})
    assert count(lacking, known).read == []
    assert columns_of(lacking, known).running.job_id.tolist() == [3]


def test_a_site_that_has_changed_has_all_jobs_read(count: Callable[..., Counted]) -> None:
    first = cluster([node("n1")], [running(1, share("n1", 1))])
    known = count(first).known
    drained = replace(first, nodes={"n1": replace(node("n1"), state="DOWN", held=Tres(cpus=3))})
    assert count(drained, known).read == [], "jobs hold what they held, whatever state a node is in"
    smaller = replace(first, nodes={"n1": node("n1", cpus=2)})
    assert count(smaller, known).read == [1]


def test_a_new_object_where_a_dead_one_was_is_read() -> None:
    """Python gives the id of an object that is gone to the next one; what is known holds on to its own."""
    known, ids = None, set()
    for cpus in range(1, 30):
        seen = cluster([node("n1")], [running(1, share("n1", cpus))])
        columns: Running = columns_of(seen, known).running
        known = columns_of(seen, known).known
        ids.add(id(seen.jobs[JobId(1)]))
        assert columns.frees[:, 0].tolist() == [cpus]
        del seen
    assert len(ids) < 29, "an id came back, or this test says nothing"
