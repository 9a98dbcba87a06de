"""A job is read by its id alone as a poll reads it, and nodes without any job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import Job, JobState, SlurmSettings
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.answer_bytes import Answer
from tesched_slurm.columns import QueueRow
from tesched_slurm.run_command import Call, Commands
from tesched_slurm.single_reads import CommandsSingleReads

from tests.unit.slurm.queue_reading import Answering, Slurm, only
from tests.unit.slurm.squeue_says import PLAIN, scontrol

GONE = Failure(kind=FailureKind.NOT_FOUND, message="Invalid job id specified")
AWAY = Failure(kind=FailureKind.UNREACHABLE, message="slurmctld does not answer")
SITE = (
    b"NodeName=n1 CPUAlloc=2 CPUTot=8 RealMemory=8000 AllocMem=2000 State=MIXED Partitions=main \n",
    (
        b"PartitionName=main State=UP Nodes=n1 PriorityTier=1 PreemptMode=OFF "
        b"GraceTime=0 MaxTime=UNLIMITED MaxNodes=UNLIMITED Default=YES \n"
    ),
    b"No reservations in the system\n",
)


@dataclass(frozen=True, kw_only=True)
class Saying(Answering):
    """Commands that a test answers, and that note what time each was given."""

    slurm: Slurm = field(default_factory=Slurm)
    fails: Failure | None = None
    site: tuple[bytes, ...] | Failure = SITE
    given_s: list[float] = field(default_factory=list)
    at_once: list[int] = field(default_factory=list)

    def run_bytes(
        self, argv: Sequence[str], variables: Mapping[str, str] | None = None, *, enough: int | None = None
    ) -> Answer | Failure:
        self.given_s.append(self.timeout_s)
        return self.fails or super().run_bytes(argv, variables, enough=enough)

    def run_each(self, *calls: Call) -> list[Answer | Failure]:
        self.at_once.append(len(calls))
        return [self.run_bytes(call.argv, call.variables) for call in calls]

    def run_together(self, *calls: Call) -> list[bytes] | Failure:  # type: ignore[override]
        self.given_s.append(self.timeout_s)
        assert not any("job" in call.argv or call.argv[0] == "squeue" for call in calls)
        return self.site if isinstance(self.site, Failure) else list(self.site)


def as_last(last: Snapshot, within_s: float) -> Snapshot:
    assert within_s == 3.0
    return last


def reads_of(commands: Commands) -> CommandsSingleReads:
    return CommandsSingleReads(commands=commands, standing=as_last, stopwatch=lambda: 0.0)


def read(commands: Commands, job_id: int = 1) -> Job | Failure | None:
    found = reads_of(commands).records([JobId(job_id)], within_s=3.0)
    return found if isinstance(found, Failure) else found.get(JobId(job_id))


def test_a_job_read_alone_is_as_a_poll_reads_it() -> None:
    slurm = Slurm(rows_by_task=[PLAIN], alone={"1": scontrol(PLAIN)})
    assert read(Saying(slurm=slurm)) == only(PLAIN, scontrol(PLAIN))
    assert [words[-1] for words in slurm.asked] == ["1", "1"], "of one id alone Slurm loads no queue"


def of_array(job_id: str, task: str) -> QueueRow:
    return PLAIN._replace(job_id=job_id, array_job_id="1", array_task_id=task)


def test_with_an_arrays_id_come_its_tasks_that_have_records_of_their_own() -> None:
    rows = [of_array("1", "2-9"), of_array("5", "0"), of_array("6", "1"), of_array("1", "3")]
    records = "".join(map(scontrol, (rows[0], rows[1])))
    slurm = Slurm(rows_by_task=rows, alone={"1": records})
    found = reads_of(Saying(slurm=slurm)).records([JobId(1)], within_s=3.0)
    assert isinstance(found, dict)
    assert {job_id: (job.array_tasks, job.array_task_id) for job_id, job in found.items()} == {
        1: ("2-9", None),
        5: ("", 0),
    }, "of task 6 scontrol has said nothing"


def test_a_few_are_read_at_the_same_time_and_none_once_one_has_failed() -> None:
    commands = Saying(slurm=Slurm())
    assert reads_of(commands).records([JobId(number) for number in range(10)], within_s=3.0) == {}
    assert commands.at_once == [4, 0, 4, 0, 2, 0]
    commands = Saying(fails=AWAY)
    assert reads_of(commands).records([JobId(number) for number in range(10)], within_s=3.0) == AWAY
    assert commands.at_once == [4]


def test_none_is_read_once_the_time_is_over() -> None:
    times = iter((0.0, 0.0, 3.0))
    reads = CommandsSingleReads(commands=Saying(), standing=as_last, stopwatch=lambda: next(times))
    assert isinstance(reads.records([JobId(number) for number in range(10)], within_s=3.0), Failure)
    assert next(times, None) is None


def test_a_job_that_slurm_does_not_know_is_none_and_one_that_it_does_not_answer_for_a_failure() -> None:
    assert read(Saying(fails=GONE)) is None
    assert read(Saying(slurm=Slurm(rows_by_task=[PLAIN])), 2) is None, "squeue shows another one"
    assert read(Saying(fails=AWAY)) == AWAY


def test_a_record_that_cannot_be_read_is_a_failure() -> None:
    strange = PLAIN._replace(num_cpus="many")
    found = read(Saying(slurm=Slurm(rows_by_task=[strange], alone={"1": scontrol(strange)})))
    assert isinstance(found, Failure)


@pytest.mark.parametrize(("timeout_s", "given_s"), [(10.0, 3.0), (2.0, 2.0)])
def test_each_call_has_the_time_that_is_left(timeout_s: float, given_s: float) -> None:
    commands = Saying(slurm=Slurm(rows_by_task=[PLAIN], alone={"1": scontrol(PLAIN)}), timeout_s=timeout_s)
    reads = reads_of(commands)
    reads.records([JobId(1)], within_s=3.0)
    reads.site(Snapshot.of(1000.0), within_s=3.0)
    assert commands.given_s == [given_s] * 3
    assert commands.calls["squeue"] > 0, "counted with all others"


def test_nodes_and_partitions_are_read_and_jobs_stay() -> None:
    job = Job(job_id=JobId(1), state=JobState.PENDING)
    last = Snapshot.of(1000.0, jobs=[job])
    seen = reads_of(Saying()).site(last, within_s=3.0)
    assert isinstance(seen, Snapshot)
    assert seen.jobs is last.jobs
    held = seen.nodes["n1"].held
    assert held is not None
    assert (held.cpus, held.mem_mib) == (2, 2000)
    assert seen.partitions["main"].nodes == {"n1"}


def test_a_site_that_cannot_be_read_is_a_failure() -> None:
    assert reads_of(Saying(site=AWAY)).site(Snapshot.of(1000.0), within_s=3.0) == AWAY
    strange = reads_of(Saying(site=(*SITE[:1], b"PartitionName=main State=UP\n", SITE[2])))
    found = strange.site(Snapshot.of(1000.0), within_s=3.0)
    assert isinstance(found, Failure)


def test_what_polls_alone_read_is_as_new_as_in_a_poll_or_nothing_is_read() -> None:
    newer = replace(Snapshot.of(1000.0), settings=SlurmSettings(cluster_name="another"))
    reads = CommandsSingleReads(commands=Saying(), standing=lambda _last, _within_s: newer)
    seen = reads.site(Snapshot.of(1000.0), within_s=3.0)
    assert isinstance(seen, Snapshot)
    assert seen.settings is newer.settings
    commands = Saying()
    reads = CommandsSingleReads(commands=commands, standing=lambda _last, _within_s: AWAY)
    assert reads.site(Snapshot.of(1000.0), within_s=3.0) == AWAY
    assert commands.given_s == []
