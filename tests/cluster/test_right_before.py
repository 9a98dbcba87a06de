"""What users do between a poll and tesched's command, or once their job has ended, and what Slurm makes of it."""

from __future__ import annotations

import pytest
from tesched_core.model.actions import FailureKind, Reason, ReasonCode, SetField, Status
from tesched_core.model.field import Field
from tesched_core.model.resources import JobId
from tesched_testcluster.harness.slurm_clients import Connect
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_users

from tests.builders import hold, release

pytestmark = pytest.mark.slurm

WHY = Reason(code=ReasonCode.ADMIN, text="a test")
WHOLE = ("--exclusive", "--output=/dev/null", "--chdir=/tmp")


@pytest.fixture
def user() -> str:
    (one,) = ordinary_users(1)
    return one


def waiting(cluster: LocalCluster, user: str, *options: str, wrap: str) -> int:
    """Return a job that waits behind one that has all nodes; that is the job before it."""
    first = cluster.sbatch("--exclusive", "-N8", wrap="sleep 1000")
    cluster.wait_state(first, "RUNNING")
    return cluster.sbatch(*WHOLE, *options, wrap=wrap, user=user)


def test_a_hold_that_a_user_has_set_since_the_poll_stays_that_users(
    cluster: LocalCluster, connect: Connect, user: str
) -> None:
    job_id = waiting(cluster, user, wrap="sleep 1000")
    cluster.run("scontrol", "hold", str(job_id), user=user)
    one = JobId(job_id)
    raised = SetField(job_id=one, reason=WHY, field=Field.NICE, value=-521, previous=0)
    for action in (raised, hold(one, WHY), release(one, WHY)):
        outcome = connect(cluster).actuator.act(action)
        assert outcome.status is Status.FAILED, action
        assert outcome.failure is not None
        assert outcome.failure.kind is FailureKind.ALREADY_DONE
    seen = cluster.job(job_id)
    assert (seen["Priority"], seen["Nice"], seen["Reason"]) == ("0", "0", "JobHeldUser")
    cluster.run("scontrol", "release", str(job_id), user=user)
    assert cluster.job(job_id)["Priority"] != "0"


def test_slurm_would_make_it_an_operators(cluster: LocalCluster, user: str) -> None:
    job_id = waiting(cluster, user, wrap="sleep 1000")
    cluster.run("scontrol", "hold", str(job_id), user=user)
    cluster.run("scontrol", "hold", str(job_id))
    cluster.run("scontrol", "release", str(job_id), user=user, check=False)
    seen = cluster.job(job_id)
    assert (seen["Priority"], seen["Reason"]) == ("0", "JobHeldAdmin")


def test_a_job_that_its_user_requeues_after_its_end_has_the_nice_value_and_the_nodes_that_were_set(
    cluster: LocalCluster, user: str
) -> None:
    job_id = waiting(cluster, user, wrap="exit 1")
    cluster.run("scontrol", "update", f"jobid={job_id}", "nice=-521")
    cluster.run("scontrol", "update", f"jobid={job_id}", "reqnodelist=n2")
    cluster.run("scancel", str(job_id - 1))
    cluster.wait_state(job_id, "FAILED")
    for change in ("nice=0", "reqnodelist="):
        assert cluster.run("scontrol", "update", f"jobid={job_id}", change, check=False).returncode != 0
    cluster.run("scontrol", "requeue", str(job_id), user=user)
    seen = cluster.wait_state(job_id, "PENDING")
    assert (seen["Nice"], seen["ReqNodeList"]) == ("-521", "n2")


def test_a_held_job_that_its_user_cancels_and_requeues_is_held_still(cluster: LocalCluster, user: str) -> None:
    job_id = waiting(cluster, user, wrap="exit 1")
    cluster.run("scontrol", "hold", str(job_id))
    cluster.run("scancel", str(job_id), user=user)
    assert cluster.wait_state(job_id, "CANCELLED")["Priority"] == "0"
    cluster.run("scontrol", "requeue", str(job_id), user=user)
    seen = cluster.wait_state(job_id, "PENDING")
    assert (seen["Priority"], seen["Reason"]) == ("0", "JobHeldAdmin")


def test_a_task_that_waits_for_that_of_its_number_waits_on_once_its_dependency_is_written_anew(
    cluster: LocalCluster, connect: Connect
) -> None:
    fails_once = '[ "$SLURM_ARRAY_TASK_ID" = 0 ] || [ "${SLURM_RESTART_COUNT:-0}" = 1 ]'
    first = cluster.sbatch("--array=0-1", "--output=/dev/null", wrap=fails_once)
    second = cluster.sbatch("--array=0-1", "--output=/dev/null", f"--dependency=aftercorr:{first}", wrap="true")
    cluster.wait_state(f"{first}_1", "FAILED")
    cluster.wait_for(lambda: cluster.job(f"{second}_1")["Reason"] == "DependencyNeverSatisfied", "it to be given up")
    seen = cluster.job(f"{second}_1")
    assert seen["Dependency"] == f"aftercorr:{first}_*(failed)"
    cluster.run("scontrol", "requeue", f"{first}_1")
    action = SetField(
        job_id=JobId(int(seen["JobId"])),
        reason=WHY,
        field=Field.DEPENDENCY,
        value=f"aftercorr:{first}_*",
        previous=seen["Dependency"],
    )
    assert connect(cluster).actuator.act(action).status is Status.SENT
    assert cluster.job(f"{second}_1")["Dependency"] == f"aftercorr:{first}_*(unfulfilled)"
    cluster.wait_state(f"{first}_1", "COMPLETED")
    cluster.wait_state(f"{second}_1", "COMPLETED")
