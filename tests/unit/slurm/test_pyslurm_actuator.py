"""Actions through pyslurm on a job that pyslurm can't read: any user may write such a number into a job."""

from __future__ import annotations

from typing import cast

import pytest
from tesched_core.model.actions import (
    Action,
    FailureKind,
    Notify,
    Reason,
    ReasonCode,
    Requeue,
    SetField,
    Status,
    Suspend,
)
from tesched_core.model.field import Field
from tesched_core.model.notice import Target
from tesched_core.model.resources import JobId
from tesched_slurm.pyslurm_client import PyslurmActuator
from tesched_slurm.pyslurm_process import PyslurmProcess
from tesched_slurm.pyslurm_wire import Do, Done, LookAtJob, PolledObjects, Question

from tests.unit.slurm.queue_reading import Answering, Slurm
from tests.unit.slurm.squeue_says import PLAIN

WHY = Reason(code=ReasonCode.NOTICE, text="why")
JOB = JobId(1)


class Process:
    """A process whose pyslurm can't read job 1, and can act on it."""

    def __init__(self) -> None:
        """Begin with nothing done."""
        self.done: list[Do] = []

    def ask(self, question: Question) -> PolledObjects | Done:
        if isinstance(question, LookAtJob):
            return PolledObjects(unread=(question.job_id,))
        assert isinstance(question, Do)
        self.done.append(question)
        return Done()


@pytest.mark.parametrize(
    ("action", "command"),
    [
        (Notify(job_id=JOB, reason=WHY, signal="USR1", target=Target.BATCH, restarts=0), "scancel"),
        (Requeue(job_id=JOB, reason=WHY, restarts=0), "scontrol"),
        (Suspend(job_id=JOB, reason=WHY, restarts=0), ""),
        (SetField(job_id=JOB, reason=WHY, field=Field.NICE, value=5, previous=0), ""),
    ],
)
def test_it_is_acted_on_as_squeue_shows_it(action: Action, command: str) -> None:
    slurm, process, commands = Slurm(rows_by_task=[PLAIN]), Process(), Answering()
    object.__setattr__(commands, "slurm", slurm)
    actuator = PyslurmActuator(process=cast("PyslurmProcess", process), commands=commands)
    assert actuator.act(action).status is Status.SENT
    sent = [argv[0] for argv in slurm.asked if argv[0] != "squeue"]
    assert sent == ([command] if command else [])
    assert len(process.done) == (0 if command else 1)


def test_a_later_run_is_not_suspended() -> None:
    process, commands = Process(), Answering()
    object.__setattr__(commands, "slurm", Slurm(rows_by_task=[PLAIN._replace(restart_cnt="1")]))
    actuator = PyslurmActuator(process=cast("PyslurmProcess", process), commands=commands)
    outcome = actuator.act(Suspend(job_id=JOB, reason=WHY, restarts=0))
    assert outcome.failure is not None
    assert (outcome.failure.kind, process.done) == (FailureKind.ALREADY_DONE, [])


def test_one_that_squeue_does_not_know_is_unknown() -> None:
    commands = Answering()
    object.__setattr__(commands, "slurm", Slurm())
    actuator = PyslurmActuator(process=cast("PyslurmProcess", Process()), commands=commands)
    outcome = actuator.act(Suspend(job_id=JOB, reason=WHY, restarts=0))
    assert outcome.failure is not None
    assert "is unknown to Slurm" in outcome.failure.message
