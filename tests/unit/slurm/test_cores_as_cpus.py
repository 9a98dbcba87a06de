"""CPUs of jobs on nodes where each core is one CPU, whatever its threads: CPU_IDs counts these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import pytest
from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Job, Node, NodeShare
from tesched_core.model.resources import JobId, Tres
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.cores_as_cpus import CoresAsCpus, SingleCoresAsCpus

from tests.builders import cluster, node, running, waiting

CORES = replace(node("n1", cpus=8), sockets=1, cores_per_socket=8, threads_per_core=2, ids_of_a_cpu=2)
THREADS = replace(node("n2", cpus=16), sockets=1, cores_per_socket=8, threads_per_core=2)


def share(name: str, cpus: int, cpu_ids: str) -> NodeShare:
    return NodeShare(node=name, tres=Tres(cpus=cpus, mem_mib=100), cpu_ids=cpu_ids)


SIX = running(1, share("n1", 12, "4-15"))


@dataclass
class Said:
    """Gives these snapshots, one after the other, and then the last one."""

    seen: list[Snapshot | Failure]

    def observe(self, *, whole: bool = True, ends: bool = False) -> Snapshot | Failure:
        return self.seen.pop(0) if len(self.seen) > 1 else self.seen[0]


def read(*snapshots: Snapshot | Failure) -> list[Snapshot | Failure]:
    """Return as many polls as there are snapshots."""
    observer = CoresAsCpus(observer=Said(list(snapshots)))
    return [observer.observe() for _ in snapshots]


def cpus(job: Job) -> list[int]:
    return [one.tres.cpus for one in job.allocation]


def jobs(seen: Snapshot | Failure) -> dict[JobId, Job]:
    assert isinstance(seen, Snapshot)
    return dict(seen.jobs)


def test_a_job_holds_the_cpus_of_its_cores() -> None:
    both = running(2, share("n1", 4, "0-3"), share("n2", 4, "0-3"))
    (seen,) = read(cluster([CORES, THREADS], [SIX, both, waiting(9)]))
    found = jobs(seen)
    assert cpus(found[JobId(1)]) == [6]
    assert found[JobId(1)].allocation[0].cpu_ids == "4-15"
    assert found[JobId(1)].allocation[0].tres.mem_mib == 100
    assert cpus(found[JobId(2)]) == [2, 4]


def test_cpus_that_slurm_has_counted_itself_are_as_they_are() -> None:
    both = running(2, share("n1", 2, ""), share("n3", 4, "0-3"))
    (seen,) = read(cluster([CORES, replace(CORES, name="n3")], [running(1, share("n1", 6, "")), both]))
    assert cpus(jobs(seen)[JobId(1)]) == [6]
    assert cpus(jobs(seen)[JobId(2)]) == [2, 2]


def test_what_has_not_changed_is_the_same_object() -> None:
    first = cluster([CORES], [SIX, waiting(9)])
    later = replace(first, taken_at=first.taken_at + 1)
    another = running(2, share("n1", 4, "0-3"))
    third = replace(later, jobs=MappingProxyType({**later.jobs, another.job_id: another}))
    one, two, three = map(jobs, read(first, later, third))
    assert one[JobId(1)] is two[JobId(1)] is three[JobId(1)]
    assert one[JobId(9)] is first.jobs[JobId(9)]
    assert cpus(three[JobId(2)]) == [2]


def test_where_no_core_is_one_cpu_a_poll_is_as_it_was_read() -> None:
    plain, gone = cluster([THREADS], [SIX]), Failure(kind=FailureKind.UNREACHABLE, message="no answer")
    assert read(plain, gone) == [plain, gone]
    assert read(plain)[0] is plain


def test_after_a_change_of_slurm_conf_they_are_counted_anew() -> None:
    with_threads = replace(CORES, ids_of_a_cpu=1)
    first = cluster([CORES], [SIX])
    second = replace(first, nodes=MappingProxyType({"n1": with_threads}))
    four = replace(first, nodes=MappingProxyType({"n1": replace(CORES, ids_of_a_cpu=4)}))
    assert [cpus(jobs(one)[JobId(1)]) for one in read(first, second, four)] == [[6], [12], [3]]


@pytest.mark.parametrize("nodes", [{}, {"n1": Node(name="n1", state="UNKNOWN", doubt="its record is odd")}])
def test_on_a_node_that_could_not_be_read_they_are_counted_as_before(nodes: dict[str, Node]) -> None:
    first = cluster([CORES], [SIX])
    one, two = map(jobs, read(first, replace(first, nodes=MappingProxyType(nodes))))
    assert two[JobId(1)] is one[JobId(1)]
    assert cpus(two[JobId(1)]) == [6]


@dataclass
class One:
    """Single reads of one job."""

    found: dict[JobId, Job] | Failure

    def records(self, job_ids: Sequence[JobId], within_s: float) -> Mapping[JobId, Job] | Failure:
        assert (job_ids, within_s) == ([SIX.job_id], 3.0)
        return self.found

    def site(self, last: Snapshot, within_s: float) -> Snapshot | Failure:
        assert within_s == 3.0
        return last


def test_a_job_that_is_read_by_itself_holds_as_much_as_in_the_poll() -> None:
    seen = cluster([CORES], [SIX])
    observer = CoresAsCpus(observer=Said([seen]))
    reads = SingleCoresAsCpus(reads=One({SIX.job_id: SIX}), observer=observer)
    assert reads.records([SIX.job_id], 3.0) == {SIX.job_id: SIX}, "no poll has shown the node"
    polled = jobs(observer.observe())[SIX.job_id]
    assert reads.records([SIX.job_id], 3.0) == {SIX.job_id: polled}
    assert cpus(polled) == [6]
    assert reads.site(seen, 3.0) is seen


@pytest.mark.parametrize("found", [{}, Failure(kind=FailureKind.UNREACHABLE, message="away")])
def test_no_job_and_no_answer_stay_so(found: dict[JobId, Job] | Failure) -> None:
    reads = SingleCoresAsCpus(reads=One(found), observer=CoresAsCpus(observer=Said([])))
    assert reads.records([SIX.job_id], 3.0) == found
