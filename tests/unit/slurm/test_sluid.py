"""Commands that mean one run of a job go by the run's SLUID, where the release's commands take it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from tesched_core.model.actions import (
    Action,
    Cancel,
    Failure,
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
from tesched_slurm.answer_bytes import as_printed
from tesched_slurm.clients import takes_sluids
from tesched_slurm.columns import COLUMNS, QueueRow
from tesched_slurm.commands_actuator import CommandsActuator
from tesched_slurm.errors import failure
from tesched_slurm.run_command import Commands

from tests.unit.slurm.squeue_says import PLAIN

WHY = Reason(code=ReasonCode.NOTICE, text="why")
JOB = JobId(1)
OF_A_RUN: list[tuple[Action, tuple[str, ...]]] = [
    (
        Notify(job_id=JOB, reason=WHY, signal="USR1", target=Target.BATCH, restarts=0),
        ("scancel", "--signal=USR1", "--batch"),
    ),
    (Requeue(job_id=JOB, reason=WHY, restarts=0), ("scontrol", "requeue", "incomplete")),
    (Suspend(job_id=JOB, reason=WHY, restarts=0), ("scontrol", "suspend")),
]
FIRST, SECOND = "s0K9M8AN110R00", "s0K9M8AN17XB00"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers(Commands):
    """squeue says so each time, the last of these for good; each other command fails with this text."""

    seen: list[QueueRow | Failure]
    says: str = ""
    release: str = "slurm 26.05.5\n"
    sent: list[tuple[str, ...]] = field(default_factory=list)

    def run_bytes(
        self, argv: Sequence[str], variables: Mapping[str, str] | None = None, *, enough: int | None = None
    ) -> bytes | Failure:
        """Return the answer."""
        if tuple(argv) == ("scontrol", "--version"):
            return self.release.encode() or failure("scontrol: no such command")
        if argv[0] != "squeue":
            self.sent.append(tuple(argv))
            return failure(self.says) if self.says else b""
        row = self.seen.pop(0) if len(self.seen) > 1 else self.seen[0]
        if isinstance(row, Failure):
            return row
        behind = [word.partition(":")[2] for word in (variables or {})["SQUEUE_FORMAT2"].split(",")]
        assert len(behind) == len(COLUMNS)
        return as_printed("".join(value + after for value, after in zip(row, behind, strict=True)) + "\n")


def run_of(sluid: str, restarts: int = 0) -> QueueRow:
    return PLAIN._replace(sluid=sluid, restart_cnt=str(restarts))


CANCEL = Cancel(job_id=JOB, reason=WHY, restarts=0)


@pytest.mark.parametrize(
    ("by_sluid", "sent"), [(True, ("scancel", FIRST)), (False, ("scancel", "--state=RUNNING", "1"))]
)
def test_a_job_is_cancelled_only_while_its_owner_says_so(by_sluid: bool, sent: tuple[str, ...]) -> None:
    slurm = Answers(seen=[run_of(FIRST)._replace(comment="preempted=end")])
    actuator = CommandsActuator(commands=slurm, by_sluid=by_sluid)
    assert actuator.act(CANCEL).status is Status.SENT
    assert slurm.sent == [sent]
    for comment in ("", "preempted=requeue"):
        slurm.seen[0] = run_of(FIRST)._replace(comment=comment)
        assert actuator.act(CANCEL).status is Status.SKIPPED
    # Nor a later run, whatever its comment says.
    slurm.seen[0] = run_of(SECOND, restarts=1)._replace(comment="preempted=end")
    assert actuator.act(CANCEL).status is Status.FAILED
    assert slurm.sent == [sent]


@pytest.mark.parametrize(("action", "command"), OF_A_RUN)
def test_a_command_of_one_run_names_its_sluid(action: Action, command: tuple[str, ...]) -> None:
    slurm = Answers(seen=[run_of(FIRST)])
    assert CommandsActuator(commands=slurm, by_sluid=True).act(action).status is Status.SENT
    assert slurm.sent == [(*command, FIRST)]


@pytest.mark.parametrize(("action", "command"), OF_A_RUN)
def test_a_release_with_commands_that_take_none_gets_the_job_id(action: Action, command: tuple[str, ...]) -> None:
    slurm = Answers(seen=[run_of(FIRST)])
    assert CommandsActuator(commands=slurm).act(action).status is Status.SENT
    assert slurm.sent == [(*command, "1")]


def test_what_is_changed_of_a_job_and_not_of_a_run_goes_by_its_id() -> None:
    slurm = Answers(seen=[run_of(FIRST)])
    nice = SetField(job_id=JOB, reason=WHY, field=Field.NICE, value=5, previous=0)
    assert CommandsActuator(commands=slurm, by_sluid=True).act(nice).status is Status.SENT
    assert slurm.sent == [("scontrol", "update", "jobid=1", "nice=5")]


@pytest.mark.parametrize(("action", "command"), OF_A_RUN)
@pytest.mark.parametrize(
    "says", [f"Invalid job id specified for job {FIRST}", f"Unexpected message received for job {FIRST}"]
)
def test_a_run_that_is_over_by_then_is_no_error(action: Action, command: tuple[str, ...], says: str) -> None:
    slurm = Answers(seen=[run_of(FIRST), run_of(SECOND, restarts=1)], says=says)
    outcome = CommandsActuator(commands=slurm, by_sluid=True).act(action)
    assert outcome.failure is not None
    assert outcome.failure.kind is FailureKind.ALREADY_DONE
    assert slurm.sent == [(*command, FIRST)], "the next run is sent nothing"


@pytest.mark.parametrize(
    ("then", "kind"),
    [
        (run_of(FIRST), FailureKind.UNKNOWN),
        (Failure(kind=FailureKind.UNREACHABLE, message="timed out"), FailureKind.UNKNOWN),
        (Failure(kind=FailureKind.NOT_FOUND, message="Invalid job id specified"), FailureKind.NOT_FOUND),
    ],
)
def test_another_refusal_stays_what_it_is(then: QueueRow | Failure, kind: FailureKind) -> None:
    slurm = Answers(seen=[run_of(FIRST), then], says="Unexpected message received")
    outcome = CommandsActuator(commands=slurm, by_sluid=True).act(Suspend(job_id=JOB, reason=WHY, restarts=0))
    assert outcome.failure is not None
    assert outcome.failure.kind is kind


@pytest.mark.parametrize(("by_sluid", "status"), [(True, Status.SENT), (False, Status.SKIPPED)])
def test_by_sluid_a_slow_poll_is_enough(by_sluid: bool, status: Status, monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit on RPCs (rl_enable) makes each poll take a second and more."""
    requeue = Requeue(job_id=JOB, reason=WHY, restarts=0)
    slurm = Answers(seen=[run_of(FIRST)])
    monkeypatch.setattr(time, "time", iter(range(100)).__next__)
    assert CommandsActuator(commands=slurm, by_sluid=by_sluid).act(requeue).status is status


@pytest.mark.parametrize("none", ["", "N/A", "(null)", "None", "s", "s0000000000000", "1"])
@pytest.mark.parametrize(("action", "command"), OF_A_RUN)
def test_without_a_sluid_the_job_id_goes_with_a_fresh_read_alone(
    action: Action, command: tuple[str, ...], none: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slurm = Answers(seen=[run_of(none)])
    actuator = CommandsActuator(commands=slurm, by_sluid=True)
    assert actuator.act(action).status is Status.SENT
    assert slurm.sent == [(*command, "1")]
    slurm.sent.clear()
    monkeypatch.setattr(time, "time", iter(range(100)).__next__)
    assert actuator.act(action).status is Status.SKIPPED
    assert not slurm.sent


@pytest.mark.parametrize("by_sluid", [True, False])
@pytest.mark.parametrize(
    "seen", [run_of(SECOND, restarts=1), run_of(FIRST)._replace(state="COMPLETED"), run_of("", restarts=1)]
)
@pytest.mark.parametrize("action", [action for action, _ in OF_A_RUN])
def test_another_run_is_left_alone(action: Action, seen: QueueRow, by_sluid: bool) -> None:
    slurm = Answers(seen=[seen])
    outcome = CommandsActuator(commands=slurm, by_sluid=by_sluid).act(action)
    assert outcome.failure is not None
    assert (outcome.failure.kind, slurm.sent) == (FailureKind.ALREADY_DONE, [])


@pytest.mark.parametrize(
    ("slurmctld", "commands", "expected"),
    [
        ("26.05.5", "slurm 26.05.5\n", True),
        ("26.05.5", "slurm-wlm 26.11.0\n", True),
        ("26.05.5", "slurm 25.11.3\n", False),
        ("25.11.3", "slurm 26.05.5\n", False),
        ("26.05.5", "", False),
        ("26.05.5", "slurm\n", False),
        ("", "slurm 26.05.5\n", False),
    ],
)
def test_sluids_are_used_where_slurmctld_and_the_commands_take_them(
    slurmctld: str, commands: str, expected: bool
) -> None:
    """At an upgrade slurmctld comes first; the commands of 25.11 show SLUIDs and take none."""
    assert takes_sluids(Answers(seen=[], release=commands), slurmctld) is expected
