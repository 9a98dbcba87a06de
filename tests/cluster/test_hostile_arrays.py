"""One user's arrays cost a poll no more than as many jobs do, and delay no other user's, on a real Slurm."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from tesched_core.intake.class_rules import Classification
from tesched_core.intake.classify import classified
from tesched_core.model.actions import Failure
from tesched_core.model.cluster import Job
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_slurm import hidden_tasks
from tesched_slurm.answer_bytes import Answer
from tesched_slurm.columns import KnownRows, Query, QueueRow
from tesched_slurm.run_command import Commands
from tesched_testcluster.harness.attacks.requests import script_file, with_slurmdbd
from tesched_testcluster.harness.slurm_clients import Connect
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

TASKS, OWN = 1000, 300


@dataclass
class Cost:
    """Queries of Slurm since it was last reset."""

    #: rows that squeue printed of jobs that were queried by their ids, and commands
    rows: int = 0
    commands: list[Sequence[str]] = field(default_factory=list)

    def reset(self) -> None:
        self.rows = 0
        self.commands.clear()


@pytest.fixture
def cost(monkeypatch: pytest.MonkeyPatch) -> Cost:
    """Count the rows that squeue prints, and the commands."""
    counted, rows, answer = Cost(), Query.rows, Commands._answer

    def counting_rows(query: Query, said: Answer, known: KnownRows | None = None) -> list[QueueRow]:
        found = rows(query, said, known)
        counted.rows += len(found) if "-j" in query.argv else 0
        return found

    def counting(commands: Commands, argv: Sequence[str], *rest: object) -> object:
        counted.commands.append(argv)
        return answer(commands, argv, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Query, "rows", counting_rows)
    monkeypatch.setattr(Commands, "_answer", counting)
    return counted


def seen_by(connect: Connect, cluster: LocalCluster) -> dict[JobId, Job]:
    seen = connect(cluster).observer.observe()
    assert isinstance(seen, Snapshot), seen
    return dict(seen.jobs)


def array_with_own_records(cluster: LocalCluster, tasks: int = TASKS, own: int = OWN) -> int:
    """Submit an array as an ordinary user, who then changes every other task of it; return its id."""
    user = ordinary_user()
    array = cluster.sbatch(f"--array=0-{tasks - 1}", "--begin=now+1hour", "-Ja\nb", wrap="true", user=user)
    changed = ",".join(f"{array}_{2 * number}" for number in range(own))
    cluster.run("scontrol", "update", f"jobid={changed}", "nice=5", user=user)
    return array


@pytest.mark.gate
def test_a_users_array_is_read_by_its_records_and_not_by_its_tasks(
    cluster: LocalCluster, connect: Connect, cost: Cost
) -> None:
    seen_by(connect, cluster)
    cost.reset()
    seen_by(connect, cluster)
    plain = len(cost.commands)
    array = array_with_own_records(cluster)
    cost.reset()
    jobs = [job for job in seen_by(connect, cluster).values() if job.array_job_id == array]
    assert len(jobs) == OWN + 1
    assert {job.nice for job in jobs if job.job_id != array} == {5}
    assert not any(job.doubt or job.partly_read for job in jobs)
    assert cost.rows <= OWN
    assert len(cost.commands) <= plain + 1


@pytest.mark.gate
def test_more_such_tasks_than_a_poll_reads_put_off_no_task_of_another_user(
    cluster: LocalCluster, connect: Connect, cost: Cost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hidden_tasks, "MOST_TASKS", 10)
    seen_by(connect, cluster)
    flood = array_with_own_records(cluster, tasks=100, own=40)
    cost.reset()
    honest = cluster.sbatch("--array=0-3", "-Jte", "--begin=now+1hour", wrap="true")
    cluster.run("scontrol", "update", f"jobid={honest}_2", "nice=7")
    jobs = seen_by(connect, cluster)
    (task,) = (job for job in jobs.values() if (job.array_job_id, job.array_task_id) == (honest, 2))
    assert (task.nice, task.doubt) == (7, "")
    doubtful = [job for job in jobs.values() if job.doubt]
    assert {job.user for job in doubtful} <= {ordinary_user()}
    if cluster.release >= (26, 0):
        assert len(doubtful) == 31
        assert cost.rows == 10

    def asks_for_none() -> bool:
        """Slurm changes a record for a while: it says why the job waits."""
        cost.reset()
        jobs.clear()
        jobs.update(seen_by(connect, cluster))
        return cost.rows == 0

    cluster.wait_for(asks_for_none, "a poll for which all records are as they were")
    assert len([job for job in jobs.values() if job.array_job_id == flood]) == 41
    assert not any(job.doubt for job in jobs.values())


@pytest.mark.gate
def test_an_arrays_command_line_is_read_from_one_record(
    make_cluster: MakeCluster, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of its last task, which bears the array's id. Releases before 23.02 have it in slurmdbd alone."""
    cluster = make_cluster(with_slurmdbd(1))
    by_sacct = cluster.release < (23, 2)
    answers: list[Answer] = []
    answer = Commands._answer

    def keeping(commands: Commands, argv: Sequence[str], *rest: object) -> object:
        said = answer(commands, argv, *rest)  # type: ignore[arg-type]
        if argv[0] == "sacct" if by_sacct else "--json" in argv:
            assert not isinstance(said, Failure)
            answers.append(said)
        return said

    monkeypatch.setattr(Commands, "_answer", keeping)
    script = script_file(cluster, "job.sh", "#!/bin/sh\nexec sleep 1000\n")
    options = ("--array=0-19", "-n1", "--mem=10", "--signal=USR1@60", "--output=/dev/null")
    array = cluster.sbatch(*options, script=script)
    cluster.wait_for(lambda: [job["JobState"] for job in cluster.jobs(array)] == ["RUNNING"] * 20, "all tasks to run")
    sacct = ("sacct", "-n", "-X", "-P", "-o", "SubmitLine", "-j", str(array))
    cluster.wait_for(lambda: cluster.run(*sacct).stdout.count("sbatch") == 20, "their command lines in slurmdbd")
    client = connect(cluster)
    seen = client.observer.observe()
    assert isinstance(seen, Snapshot)
    found = client.declarations.read(classified(seen, Classification()))
    signals = [found[job.job_id].signal for job in seen.jobs.values() if job.array_job_id == array]
    assert [signal.name for signal in signals if signal] == ["USR1"] * 20
    (said,) = answers
    assert by_sacct or len(json.loads(said)["jobs"]) == 1


@pytest.mark.gate
def test_unreadable_jobs_of_one_user_are_not_queried_one_by_one(
    make_cluster: MakeCluster, connect: Connect, cost: Cost
) -> None:
    cluster = make_cluster(None)
    for _ in range(2):
        cost.reset()
        seen_by(connect, cluster)
    plain = len(cost.commands)
    options = ("-H", "--mem-per-gpu=9223372036854775807", "--gpus=2")
    for array in ((), (f"--array=0-{TASKS - 1}",), (), ()):
        cluster.sbatch(*array, *options, wrap="true", user=ordinary_user())
    for _ in range(2):
        cost.reset()
        jobs = seen_by(connect, cluster)
    assert sum(bool(job.doubt) for job in jobs.values()) == 4
    assert (len(cost.commands), cost.rows) == (plain, 0)
