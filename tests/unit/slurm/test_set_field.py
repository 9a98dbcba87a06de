"""The command that scontrol gets for each field of a job, word for word."""

from __future__ import annotations

import pytest
from tesched_core.model.actions import Reason, ReasonCode, SetField, Status
from tesched_core.model.field import Field, HoldState, NodeCount, Nodes
from tesched_core.model.resources import JobId
from tesched_slurm.commands_actuator import CommandsActuator

from tests.builders import hold, release
from tests.unit.slurm.squeue_says import PLAIN
from tests.unit.slurm.test_sluid import Answers

JOB = JobId(1)
WHY = Reason(code=ReasonCode.ADMIN, text="a test")
ON_TWO = Nodes(names=("n1", "n2"), count=NodeCount(least=2, most=2))
ITS_OWN = Nodes(count=NodeCount(least=1, most=4, tasks=4, cpus=8))
WAITS = PLAIN._replace(state="PENDING")
COMMANDS = [
    (SetField(job_id=JOB, reason=WHY, field=Field.NICE, value=-5, previous=0), "scontrol update jobid=1 nice=-5"),
    (SetField(job_id=JOB, reason=WHY, field=Field.PRIORITY, value=7, previous=1), "scontrol update jobid=1 priority=7"),
    (
        SetField(job_id=JOB, reason=WHY, field=Field.BEGIN, value=1_700_000_000, previous=0),
        "scontrol update jobid=1 starttime=uts1700000000",
    ),
    (
        SetField(job_id=JOB, reason=WHY, field=Field.THROTTLE, value=3, previous=0),
        "scontrol update jobid=1 arraytaskthrottle=3",
    ),
    (
        SetField(job_id=JOB, reason=WHY, field=Field.DEPENDENCY, value="afterok:7", previous=""),
        "scontrol update jobid=1 dependency=afterok:7",
    ),
    (
        SetField(job_id=JOB, reason=WHY, field=Field.NODES, value=Nodes(names=("n1",)), previous=Nodes()),
        "scontrol update jobid=1 reqnodelist=n1",
    ),
    (
        SetField(job_id=JOB, reason=WHY, field=Field.NODES, value=ON_TWO, previous=ITS_OWN),
        "scontrol update jobid=1 numnodes=2-2 reqnodelist=n1,n2",
    ),
    (
        SetField(job_id=JOB, reason=WHY, field=Field.NODES, value=ITS_OWN, previous=ON_TWO),
        "scontrol update jobid=1 numtasks=4 numnodes=1-4 numcpus=8 reqnodelist=",
    ),
    (hold(JOB, WHY), "scontrol hold 1"),
    (release(JOB, WHY), "scontrol release 1"),
]


@pytest.mark.parametrize(("action", "command"), COMMANDS, ids=lambda one: one if isinstance(one, str) else "")
def test_a_field_is_set_by_this_command(action: SetField, command: str) -> None:
    slurm = Answers(seen=[WAITS])
    assert CommandsActuator(commands=slurm).act(action).status is Status.SENT
    assert [" ".join(argv) for argv in slurm.sent] == [command]


def test_a_hold_that_is_over_gets_no_release() -> None:
    slurm = Answers(seen=[WAITS])
    over = SetField(job_id=JOB, reason=WHY, field=Field.HOLD, value=HoldState.UNMARKED, previous=HoldState.HELD)
    assert CommandsActuator(commands=slurm).act(over).status is Status.SENT
    assert slurm.sent == []


@pytest.mark.parametrize("action", [action for action, _ in COMMANDS if action.field in {Field.NODES, Field.HOLD}])
def test_a_job_that_runs_by_then_is_not_bound_and_not_held(action: SetField) -> None:
    slurm = Answers(seen=[PLAIN._replace(state="RUNNING")])
    failed = CommandsActuator(commands=slurm).act(action).status is Status.FAILED
    assert failed is (action.value is not HoldState.RELEASED)
