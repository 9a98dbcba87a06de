"""Holds that others have set between a poll and the command that rests on it: they stay, and stay theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as with_default
from typing import cast

import pytest
from tesched_core.model.actions import Failure, FailureKind, Outcome, Reason, ReasonCode, SetField, Status
from tesched_core.model.field import Field
from tesched_core.model.hook import HOOK_MARK
from tesched_core.model.resources import JobId
from tesched_slurm.columns import QueueRow
from tesched_slurm.commands_actuator import CommandsActuator
from tesched_slurm.pyslurm_client import PyslurmActuator
from tesched_slurm.pyslurm_process import PyslurmProcess
from tesched_slurm.right_before import PRIORITY_TYPE_AGE_S, NiceReleases

from tests.builders import hold, release
from tests.unit.slurm.squeue_says import PLAIN
from tests.unit.slurm.test_pyslurm_actuator import Process
from tests.unit.slurm.test_sluid import Answers

JOB = JobId(1)
WHY = Reason(code=ReasonCode.BACK_TO_THE_HEAD, text="a test")
HOLD, RELEASE = hold(JOB, WHY), release(JOB, WHY)
RAISE = SetField(job_id=JOB, reason=WHY, field=Field.NICE, value=-521, previous=0)
PUT_OFF = SetField(job_id=JOB, reason=WHY, field=Field.BEGIN, value=1_700_000_000, previous=0)
WAITS = PLAIN._replace(state="PENDING", priority_long="100", reason="Resources")
BY_ITS_USER = WAITS._replace(priority_long="0", reason="JobHeldUser")
BY_AN_ADMIN = WAITS._replace(priority_long="0", reason="JobHeldAdmin")
BY_THE_HOOK = BY_ITS_USER._replace(admin_comment=HOOK_MARK)
BY_AN_ADMIN_AFTER_THE_HOOK = BY_AN_ADMIN._replace(admin_comment=HOOK_MARK)
BY_ITS_USER_AFTER_A_RUN = BY_THE_HOOK._replace(restart_cnt="1")
BASIC, MULTIFACTOR = "priority/basic", "priority/multifactor"


@dataclass(frozen=True, kw_only=True)
class WithConfig(Answers):
    """slurmctld has this PriorityType; empty: it does not say."""

    priority_type: str = BASIC
    #: one for each read of it
    reads: list[str] = with_default(default_factory=list)

    def run_bytes(
        self, argv: Sequence[str], variables: Mapping[str, str] | None = None, *, enough: int | None = None
    ) -> bytes | Failure:
        """Return the answer."""
        if tuple(argv) != ("scontrol", "show", "config"):
            return super().run_bytes(argv, variables, enough=enough)
        self.reads.append(self.priority_type)
        if not self.priority_type:
            return Failure(kind=FailureKind.UNREACHABLE, message="no answer")
        return (
            f"PrioritySiteFactorPlugin = (null)\nPriorityType            = {self.priority_type}\nPrologFlags = Alloc\n"
        ).encode()


def acted(action: SetField, row: QueueRow, client: str, priority_type: str = BASIC) -> tuple[Outcome, bool]:
    """Return what became of an action on a job that squeue shows so, and whether Slurm got a command."""
    slurm, process = WithConfig(seen=[row], priority_type=priority_type), Process()
    by_pyslurm = PyslurmActuator(process=cast("PyslurmProcess", process), commands=slurm)
    outcome = (CommandsActuator(commands=slurm) if client == "commands" else by_pyslurm).act(action)
    return outcome, bool(slurm.sent or process.done)


CASES = [
    (HOLD, BY_ITS_USER, False),
    (HOLD, BY_AN_ADMIN, False),
    (HOLD, BY_THE_HOOK, True),
    (HOLD, BY_AN_ADMIN_AFTER_THE_HOOK, False),
    (HOLD, BY_ITS_USER_AFTER_A_RUN, False),
    (HOLD, WAITS, True),
    (RELEASE, BY_ITS_USER, False),
    (RELEASE, BY_AN_ADMIN, True),
    (RELEASE, BY_THE_HOOK, True),
    (RELEASE, BY_AN_ADMIN_AFTER_THE_HOOK, True),
    (RELEASE, BY_ITS_USER_AFTER_A_RUN, False),
    (RAISE, BY_ITS_USER, False),
    (RAISE, BY_AN_ADMIN, False),
    (RAISE, BY_THE_HOOK, False),
    (RAISE, WAITS, True),
    (PUT_OFF, BY_ITS_USER, True),
]


@pytest.mark.parametrize("client", ["commands", "pyslurm"])
@pytest.mark.parametrize(("action", "row", "is_sent"), CASES)
def test_a_hold_that_others_have_set_since_the_poll_stays_theirs(
    action: SetField, row: QueueRow, is_sent: bool, client: str
) -> None:
    outcome, has_sent = acted(action, row, client)
    assert (outcome.status is Status.SENT, has_sent) == (is_sent, is_sent)
    if not is_sent:
        assert outcome.failure == Failure(kind=FailureKind.ALREADY_DONE, message="job 1 is held by now")


@pytest.mark.parametrize("client", ["commands", "pyslurm"])
@pytest.mark.parametrize(("priority_type", "is_sent"), [(MULTIFACTOR, True), ("priority/basic2", True), ("", False)])
def test_a_held_jobs_nice_value_is_set_where_that_does_not_start_it(
    priority_type: str, is_sent: bool, client: str
) -> None:
    outcome, has_sent = acted(RAISE, BY_ITS_USER, client, priority_type)
    assert (outcome.status is Status.SENT, has_sent) == (is_sent, is_sent)


@pytest.mark.parametrize("priority_type", [MULTIFACTOR, ""])
@pytest.mark.parametrize("client", ["commands", "pyslurm", "pyslurm, of an array"])
def test_slurms_priority_type_is_read_once_for_all_held_jobs_of_a_turn(client: str, priority_type: str) -> None:
    # The last task of one goes through the commands.
    row = BY_AN_ADMIN._replace(array_task_id="3") if "array" in client else BY_AN_ADMIN
    slurm, process = WithConfig(seen=[row], priority_type=priority_type), Process()
    actuator = (
        CommandsActuator(commands=slurm)
        if client == "commands"
        else PyslurmActuator(process=cast("PyslurmProcess", process), commands=slurm)
    )
    for _ in range(3):
        actuator.act(RAISE)
    assert len(slurm.reads) == 1


def test_it_is_read_again_in_a_later_turn() -> None:
    slurm, at = WithConfig(seen=[]), [0.0]
    nice_releases = NiceReleases(commands=slurm, stopwatch=lambda: at[0])
    assert [nice_releases.now(), nice_releases.now()] == [True, True]
    at[0] = PRIORITY_TYPE_AGE_S
    nice_releases.now()
    assert len(slurm.reads) == 1
    at[0] += 1
    nice_releases.now()
    assert len(slurm.reads) == 2
