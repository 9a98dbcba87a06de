"""A command that comes late meets no later run of its job, where Slurm's commands take SLUIDs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from tesched_core.model.actions import (
    Action,
    Failure,
    FailureKind,
    Notify,
    Reason,
    ReasonCode,
    Requeue,
    Status,
    Suspend,
)
from tesched_core.model.notice import Target
from tesched_core.model.resources import JobId
from tesched_slurm.clients import BY_SLUID
from tesched_slurm.commands_actuator import CommandsActuator
from tesched_slurm.run_command import Commands
from tesched_testcluster.harness.slurm_clients import Connect
from tesched_testcluster.local import LocalCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

WHY = Reason(code=ReasonCode.ADMIN, text="a test")


@dataclass(frozen=True, slots=True, kw_only=True)
class Late(Commands):
    """Runs commands, but for squeue each of them late: another change comes first."""

    first: Callable[[], None]

    def run(
        self, argv: Sequence[str], variables: Mapping[str, str] | None = None, *, enough: int | None = None
    ) -> str | Failure:
        """Return what the command printed."""
        if argv[0] != "squeue":
            self.first()
        return Commands.run(self, argv, variables, enough=enough)


def second_run(cluster: LocalCluster, job_id: int) -> None:
    """Let a job run anew, which an admin does."""
    cluster.run("scontrol", "requeue", str(job_id))
    cluster.wait_for(lambda: cluster.job(job_id)["Restarts"] == "1", "the requeue")
    cluster.wait_state(job_id, "RUNNING")


@pytest.mark.gate
@pytest.mark.parametrize(
    "action",
    [
        Requeue(job_id=JobId(0), reason=WHY, restarts=0),
        Notify(job_id=JobId(0), reason=WHY, signal="TERM", target=Target.FULL, restarts=0),
        Suspend(job_id=JobId(0), reason=WHY, restarts=0),
    ],
    ids=["requeue", "notify", "suspend"],
)
@pytest.mark.parametrize("array", [(), ("--array=7",)], ids=["job", "task"])
def test_a_late_command_meets_no_later_run(cluster: LocalCluster, action: Action, array: tuple[str, ...]) -> None:
    job_id = JobId(cluster.sbatch(*array, wrap="exec sleep 100"))
    cluster.wait_state(job_id, "RUNNING")
    late = Late(slurm_conf=str(cluster.slurm_conf), first=lambda: second_run(cluster, job_id))
    by_sluid = cluster.release >= BY_SLUID
    outcome = CommandsActuator(commands=late, by_sluid=by_sluid).act(replace(action, job_id=job_id))
    if by_sluid:
        assert outcome.failure is not None, outcome
        assert outcome.failure.kind is FailureKind.ALREADY_DONE, outcome
        assert (cluster.state(job_id), cluster.job(job_id)["Restarts"]) == ("RUNNING", "1")
    else:  # what the SLUID is for: by the job's id it does, and a query right before is all that can be done
        assert outcome.status is Status.SENT, outcome
        cluster.wait_for(lambda: cluster.state(job_id) != "RUNNING", "the second run to be met")


@pytest.mark.gate
def test_a_command_by_sluid_reaches_its_run(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    job_id = JobId(cluster.sbatch("--array=7", wrap="exec sleep 100"))
    cluster.wait_state(job_id, "RUNNING")
    assert client.actuator.by_sluid is (cluster.release >= BY_SLUID)  # type: ignore[attr-defined]
    assert client.actuator.act(Suspend(job_id=job_id, reason=WHY, restarts=0)).status is Status.SENT
    assert cluster.state(job_id) == "SUSPENDED"
    assert client.actuator.act(Requeue(job_id=job_id, reason=WHY, restarts=0)).status is Status.SENT
    assert cluster.wait_state(job_id, "PENDING", "RUNNING")["Restarts"] == "1"
