"""The commands client on a real Slurm: what it sees is what was asked for, and what each lever does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tesched_core.actions import (
    Action,
    Failure,
    FailureKind,
    Hold,
    Notify,
    Outcome,
    Reason,
    ReasonCode,
    Release,
    Requeue,
    Resume,
    SetNice,
    SetPriority,
    Status,
    Suspend,
)
from tesched_core.cluster import Job, JobState
from tesched_core.resources import JobId
from tesched_core.snapshot import Snapshot
from tesched_slurm.command import Commands
from tesched_slurm.commands import CommandsActuator, CommandsObserver
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.local import LocalCluster

pytestmark = pytest.mark.slurm

WHY = Reason(code=ReasonCode.ADMIN, text="a test")
#: A user's attempt to be another job of another user.
FORGED = "x Priority=5 UserId=bob(1) GroupId=bob(1) MCS_label=N/A Priority=7 JobState=COMPLETED Command=/bin/true"


def see(cluster: LocalCluster) -> Snapshot:
    """Return what the observer sees now."""
    seen = CommandsObserver(commands=Commands(slurm_conf=str(cluster.slurm_conf))).observe()
    assert not isinstance(seen, Failure), seen
    return seen


def see_job(cluster: LocalCluster, job_id: int) -> Job:
    """Return one job as the observer sees it now."""
    return see(cluster).jobs[JobId(job_id)]


def act(cluster: LocalCluster, action: Action, timeout_s: float = 10.0) -> Outcome:
    """Perform the action."""
    return CommandsActuator(commands=Commands(slurm_conf=str(cluster.slurm_conf), timeout_s=timeout_s)).act(action)


def kind(outcome: Outcome) -> FailureKind | None:
    """Return why the action failed, None if it was sent."""
    assert (outcome.status is Status.FAILED) == (outcome.failure is not None)
    return outcome.failure.kind if outcome.failure else None


def test_a_job_on_several_nodes_holds_what_slurm_gave_it_on_each(cluster: LocalCluster) -> None:
    job_id = cluster.sbatch("-N2", "-n6", "--mem-per-cpu=100", "--gpus=4", wrap="sleep 60")
    cluster.wait_state(job_id, "RUNNING")
    job = see_job(cluster, job_id)
    assert len(job.allocation) == 2
    assert sum(share.tres.gpus for share in job.allocation) == 4
    # Six tasks of one CPU on cores of one thread: what one node has more, the other has less.
    assert sum(share.tres.mem_mib for share in job.allocation) >= 600
    assert job.request.gres_per_job == (("gpu", 4),)
    assert (job.request.min_nodes, job.request.cpus, job.request.mem_per_cpu_mib) == (2, 6, 100)


def test_what_was_asked_for_is_seen(cluster: LocalCluster) -> None:
    held = cluster.sbatch(
        "--hold",
        "-J",
        "a name|with = odd things",
        "--comment=te grace=7",
        "-w",
        "n1",
        "-x",
        "n[3-4]",
        "-N1-3",
        "--mem=5000",
        "--gres=gpu:2",
        "--cpus-per-task=3",
        "--time=1-02:03",
        "--no-requeue",
        "--exclusive",
        wrap="true",
    )
    job = see_job(cluster, held)
    assert (job.name, job.comment, job.user) == ("a name|with = odd things", "te grace=7", "root")
    assert (job.held, job.requeueable, job.batch, job.state) == (True, False, True, JobState.PENDING)
    assert job.time_limit_s == ((24 + 2) * 60 + 3) * 60
    request = job.request
    assert (request.required_nodes, request.excluded_nodes) == (("n1",), ("n3", "n4"))
    assert (request.min_nodes, request.max_nodes, request.exclusive) == (1, 3, True)
    assert (request.mem_per_node_mib, request.cpus_per_task, request.gres_per_node) == (5000, 3, (("gpu", 2),))
    after = see_job(cluster, cluster.sbatch(f"--dependency=afterok:{held}", "--begin=now+1hour", wrap="true"))
    assert after.dependency.startswith(f"afterok:{held}")
    assert after.reason in {"Dependency", "BeginTime"}


def test_a_job_array_is_one_record_until_its_tasks_start(cluster: LocalCluster) -> None:
    array = cluster.sbatch("--array=0-5%2", wrap="sleep 60")
    cluster.wait_for(lambda: sum(job.on_nodes for job in see(cluster).jobs.values()) == 2, "two tasks to run")
    jobs = see(cluster).jobs
    running = sorted(job.array_task_id for job in jobs.values() if job.on_nodes and job.array_task_id is not None)
    (waiting,) = [job for job in jobs.values() if job.pending]
    assert running == [0, 1]
    assert (waiting.array_job_id, waiting.array_task_id, waiting.array_tasks) == (array, None, "2-5%2")


def test_a_name_forges_nothing(cluster: LocalCluster) -> None:
    forged = cluster.sbatch("--hold", "-J", FORGED, "--comment", FORGED, wrap="true")
    honest = cluster.sbatch("--hold", wrap="true")
    jobs = see(cluster).jobs
    job = jobs[JobId(forged)]
    assert (job.name, job.user, job.state, job.priority) == (FORGED, "root", JobState.PENDING, 0)
    assert jobs[JobId(honest)].state is JobState.PENDING


def test_nodes_that_start_no_jobs_are_not_available(cluster: LocalCluster) -> None:
    cluster.drain_node("n2")
    nodes = see(cluster).nodes
    assert not nodes["n2"].available
    assert nodes["n1"].available
    assert nodes["n1"].total.gpus == 8


def test_typed_gpus_are_counted_under_both_names(
    make_cluster: Callable[[ClusterDefinition | None], LocalCluster],
) -> None:
    group = NodeGroup(count=1, gres={"gpu:a100": 4, "gpu:v100": 2})
    cluster = make_cluster(ClusterDefinition(groups=(group,)))
    job_id = cluster.sbatch("--gres=gpu:a100:3", wrap="sleep 60")
    cluster.wait_state(job_id, "RUNNING")
    seen = see(cluster)
    (node,) = seen.nodes.values()
    assert dict(node.total.gres) == {"gpu": 6, "gpu:a100": 4, "gpu:v100": 2}
    (share,) = seen.jobs[JobId(job_id)].allocation
    assert dict(share.tres.gres) == {"gpu": 3, "gpu:a100": 3}


def test_a_finished_job_is_never_requeued(cluster: LocalCluster) -> None:
    job_id = cluster.sbatch(wrap="true")
    cluster.wait_state(job_id, "COMPLETED")
    assert kind(act(cluster, Requeue(job_id=JobId(job_id), reason=WHY, restarts=0))) is FailureKind.ALREADY_DONE
    assert cluster.state(job_id) == "COMPLETED"


def test_only_the_run_that_was_meant_is_requeued(cluster: LocalCluster) -> None:
    job_id = cluster.sbatch(wrap="sleep 60")
    cluster.wait_state(job_id, "RUNNING")
    assert kind(act(cluster, Requeue(job_id=JobId(job_id), reason=WHY, restarts=1))) is FailureKind.ALREADY_DONE
    assert kind(act(cluster, Requeue(job_id=JobId(job_id), reason=WHY, restarts=0))) is None
    cluster.wait_for(lambda: see_job(cluster, job_id).restarts == 1, "the requeue")


def test_a_job_that_may_not_be_requeued_is_left_as_it_is(cluster: LocalCluster) -> None:
    job_id = cluster.sbatch("--no-requeue", wrap="sleep 60")
    cluster.wait_state(job_id, "RUNNING")
    assert kind(act(cluster, Requeue(job_id=JobId(job_id), reason=WHY, restarts=0))) is FailureKind.REFUSED
    assert cluster.state(job_id) == "RUNNING"


def test_a_suspended_job_that_is_requeued_does_not_stay_held(cluster: LocalCluster) -> None:
    job_id = cluster.sbatch(wrap="sleep 60")
    cluster.wait_state(job_id, "RUNNING")
    assert kind(act(cluster, Suspend(job_id=JobId(job_id), reason=WHY))) is None
    assert see_job(cluster, job_id).state is JobState.SUSPENDED
    assert kind(act(cluster, Requeue(job_id=JobId(job_id), reason=WHY, restarts=0))) is None
    cluster.wait_for(lambda: see_job(cluster, job_id).pending, "the job to be back in the queue")
    assert not see_job(cluster, job_id).held


def test_suspend_and_resume(cluster: LocalCluster) -> None:
    job_id = cluster.sbatch(wrap="sleep 60")
    cluster.wait_state(job_id, "RUNNING")
    assert kind(act(cluster, Resume(job_id=JobId(job_id), reason=WHY))) is FailureKind.ALREADY_DONE
    assert kind(act(cluster, Suspend(job_id=JobId(job_id), reason=WHY))) is None
    assert kind(act(cluster, Resume(job_id=JobId(job_id), reason=WHY))) is None
    assert see_job(cluster, job_id).state is JobState.RUNNING


def test_nice_is_put_back_without_a_scar_and_an_explicit_priority_makes_it_void(cluster: LocalCluster) -> None:
    job_id = cluster.sbatch("--begin=now+1hour", wrap="true")
    before = see_job(cluster, job_id)
    assert kind(act(cluster, SetNice(job_id=JobId(job_id), reason=WHY, nice=-50, previous=0))) is None
    raised = see_job(cluster, job_id)
    assert (raised.nice, raised.priority) == (-50, before.priority + 50)
    assert kind(act(cluster, SetNice(job_id=JobId(job_id), reason=WHY, nice=0, previous=-50))) is None
    after = see_job(cluster, job_id)
    assert (after.nice, after.priority) == (before.nice, before.priority)
    assert kind(act(cluster, SetPriority(job_id=JobId(job_id), reason=WHY, priority=777, previous=0))) is None
    assert kind(act(cluster, SetNice(job_id=JobId(job_id), reason=WHY, nice=-50, previous=0))) is None
    void = see_job(cluster, job_id)
    assert (void.nice, void.priority) == (0, 777)


def test_hold_and_release(cluster: LocalCluster) -> None:
    job_id = cluster.sbatch("--begin=now+1hour", wrap="true")
    assert kind(act(cluster, Hold(job_id=JobId(job_id), reason=WHY))) is None
    assert see_job(cluster, job_id).held
    assert kind(act(cluster, Release(job_id=JobId(job_id), reason=WHY))) is None
    assert not see_job(cluster, job_id).held


def test_an_unknown_job_is_not_found(cluster: LocalCluster) -> None:
    for action in (
        Notify(job_id=JobId(999999), reason=WHY, signal="USR1", batch_only=True, restarts=0),
        Requeue(job_id=JobId(999999), reason=WHY, restarts=0),
        SetNice(job_id=JobId(999999), reason=WHY, nice=1, previous=0),
    ):
        assert kind(act(cluster, action)) is FailureKind.NOT_FOUND, action


def test_a_slurmctld_that_is_down_is_unreachable_and_a_failed_look_is_a_failure(
    make_cluster: Callable[[ClusterDefinition | None], LocalCluster],
) -> None:
    cluster = make_cluster(None)
    cluster.stop_slurmctld()
    commands = Commands(slurm_conf=str(cluster.slurm_conf), timeout_s=2.0)
    seen = CommandsObserver(commands=commands).observe()
    assert isinstance(seen, Failure)
    assert seen.kind is FailureKind.UNREACHABLE
    action = SetNice(job_id=JobId(1), reason=WHY, nice=1, previous=0)
    outcome = act(cluster, action, timeout_s=2.0)
    assert kind(outcome) is FailureKind.UNREACHABLE
    assert outcome.took_s < 10
