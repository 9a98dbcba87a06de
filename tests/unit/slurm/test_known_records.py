"""A record of scontrol's that has not changed is not read again, and one that has is: whatever stands in its text."""

from __future__ import annotations

import pytest
import tesched_slurm.details
from hypothesis import given
from hypothesis import strategies as st
from tesched_core.model.cluster import Job
from tesched_slurm.columns import QueueRow
from tesched_slurm.details import DetailsFound, DetailsQuery, KnownRecords
from tesched_slurm.job_bounds import MOST

from tests.unit.slurm.queue_reading import Slurm, read, reading
from tests.unit.slurm.squeue_says import MARK, PLAIN, said_to, scontrol


def rows(count: int) -> list[QueueRow]:
    return [PLAIN._replace(job_id=str(number), array_job_id=str(number)) for number in range(1, count + 1)]


def find(answer: str, jobs: list[QueueRow], known: KnownRecords | None = None) -> DetailsFound:
    query = DetailsQuery()
    return query.find(said_to(query, answer), {row.job_id: row for row in jobs}, known)


def test_a_record_with_another_mark_alone_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    known, jobs = KnownRecords(), rows(3)
    said = "".join(map(scontrol, jobs))
    first = find(said, jobs, known)
    monkeypatch.setattr(tesched_slurm.details, "read_details", None)
    again = find(said, jobs, known)
    assert first == again
    assert set(again.by_id) == {"1", "2", "3"}


def test_a_record_that_has_grown_behind_its_old_end_is_read_again() -> None:
    known, (job,) = KnownRecords(), rows(1)
    short = scontrol(job, comment="x")
    find(short, [job], known)
    # As an ordinary user's text may: the old record is the beginning of the new one.
    longer = short + "y GresEnforceBind=Yes \n"
    assert find(longer, [job], known).by_id["1"].enforces_binding


def test_a_record_that_squeue_contradicts_is_not_believed_though_it_was_known() -> None:
    known, (job,) = KnownRecords(), rows(1)
    said = scontrol(job)
    assert find(said, [job], known).by_id
    assert not find(said, [job._replace(account="other")], known).by_id
    assert not find(said, [job._replace(user_id="1001")], known).by_id


def test_a_second_record_of_a_known_job_is_still_a_doubt() -> None:
    known, (job,) = KnownRecords(), rows(1)
    true, other = scontrol(job), scontrol(job, shares="Nodes=n1 CPU_IDs=0-31 Mem=1 GRES=")
    find(true, [job], known)
    for _ in range(2):
        assert find(true + other, [job], known).doubtful == {"1"}


def test_a_forged_mark_does_not_pass_for_the_one_that_lasts() -> None:
    liar, victim = rows(2)
    known = KnownRecords()
    true = scontrol(victim)
    forged = scontrol(victim, shares="Nodes=n1 CPU_IDs=0-31 Mem=1 GRES=", mark="|ab3DEfgh1J")
    for text in (forged, forged.replace("|ab3DEfgh1J", "")):
        found = find(scontrol(liar, comment=f"x\n{text}") + true, [liar, victim], known)
        assert found.by_id["2"].shares == (("n1", "0,16", "2000", "gpu:1(IDX:0)"),)
        assert not found.doubtful


def test_a_job_that_is_gone_is_forgotten() -> None:
    queue = reading(Slurm())
    jobs = rows(3)
    read(queue, jobs, "".join(map(scontrol, jobs)))
    read(queue, jobs[:1], scontrol(jobs[0]))
    assert set(queue._records._by_id) == {"1"}


_CHANGES = st.fixed_dictionaries(
    {
        "comment": st.sampled_from(
            ["", "x", "x\nJobId=2 JobName=train", " GresEnforceBind=Yes", f"\n{scontrol(PLAIN)}"]
        ),
        "shares": st.sampled_from(
            ["Nodes=n1 CPU_IDs=0 Mem=1 GRES=", "Nodes=n1 CPU_IDs=0,16 Mem=2000 GRES=gpu:1(IDX:0)"]
        ),
        "memory": st.sampled_from(["MinMemoryCPU=1000M", "MinMemoryNode=1G"]),
        "mark": st.sampled_from([MARK, MARK, MARK, ""]),
    }
)
_POLLS = st.lists(st.lists(st.tuples(st.integers(1, 3), _CHANGES), max_size=5), min_size=2, max_size=5)


@given(_POLLS)
def test_records_known_before_change_nothing_of_what_is_found(polls: list[list[tuple[int, dict[str, str]]]]) -> None:
    known, jobs = KnownRecords(), rows(3)
    for poll in polls:
        said = "".join(scontrol(jobs[number - 1], **changes) for number, changes in poll)
        assert find(said, jobs, known) == find(said, jobs)


def test_jobs_that_ask_for_the_same_share_one_request_and_an_excessive_one_is_refused_each_time() -> None:
    jobs = rows(4)
    jobs[2] = jobs[2]._replace(min_cpus=str(MOST + 1))
    jobs[3] = jobs[3]._replace(min_cpus=str(MOST + 1))
    found: dict[int, Job] = read(reading(Slurm()), jobs, "".join(map(scontrol, jobs)))
    assert found[1].request is found[2].request
    assert "min_cpus_per_node is out of all bounds" in found[3].doubt
    assert found[3].doubt == found[4].doubt


def test_a_request_is_kept_by_all_that_it_is_read_from() -> None:
    (job,) = rows(1)
    job = job._replace(state="PENDING", tres_alloc="cpu=2,mem=2000M,node=1,billing=2", node_list="")
    by_cpu, by_node = (
        read(reading(Slurm()), [job], scontrol(job, memory=memory))[1].request
        for memory in ("MinMemoryCPU=1000M", "MinMemoryNode=1000M")
    )
    assert (by_cpu.mem_per_cpu_mib, by_cpu.mem_per_node_mib) == (1000, None)
    assert (by_node.mem_per_cpu_mib, by_node.mem_per_node_mib) == (None, 1000)
    running = job._replace(state="RUNNING", num_nodes="3", node_list="n[1-3]")
    waiting = read(reading(Slurm()), [job._replace(num_nodes="3")], scontrol(job))[1].request
    assert waiting.min_nodes == 1
    assert read(reading(Slurm()), [running], scontrol(running))[1].request.min_nodes == 3
