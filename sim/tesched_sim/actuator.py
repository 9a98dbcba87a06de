"""Actuator of the simulated Slurm: carries out actions as slurmctld would, and answers with outcomes.

What the actuators of a real Slurm check right before they act is checked here, too (`tesched_slurm.commands_actuator`).
"""

from __future__ import annotations

from typing import assert_never

from tesched_core.model.actions import (
    Action,
    Cancel,
    Failure,
    FailureKind,
    Notify,
    Outcome,
    Record,
    Requeue,
    Rerun,
    Resume,
    SetField,
    SetMarks,
    Status,
    Suspend,
    TellUser,
)
from tesched_core.model.field import Field, HoldState, Nodes
from tesched_core.model.resources import JobId
from tesched_core.orders.tell_users import note
from tesched_core.ports import Barred, never_barred

from tesched_sim import job_record
from tesched_sim.slurm import JobPhase, Slurm


class SimulatedActuator:
    """The actuator."""

    def __init__(self, slurm: Slurm) -> None:
        """Act on this cluster."""
        self.slurm = slurm

    def act(self, action: Action, barred: Barred = never_barred) -> Outcome:  # noqa: ARG002 (a virtual clock stands still)
        """Perform the action, at once."""
        if isinstance(action, Cancel):
            # As on a real Slurm: no simulated job's comment says that it ends when it is preempted.
            return Outcome(action=action, status=Status.SKIPPED, at=self.slurm.now)
        kind = self._perform(action)
        failure = None if kind is None else Failure(kind=kind, message=f"job {action.job_id}")
        status = Status.SENT if failure is None else Status.FAILED
        return Outcome(action=action, status=status, at=self.slurm.now, failure=failure)

    def _perform(self, action: Action) -> FailureKind | None:
        if isinstance(action, SetMarks):
            job_record.set_marks(self.slurm, action)
            return None
        row = action.job_id - 1
        if row not in self.slurm.known:
            return FailureKind.NOT_FOUND
        match action:
            case Notify() | Requeue() | Rerun() | Cancel():
                return self._do_to_run(action, row)
            case SetField():
                return self._set(action, row)
            case Suspend() | Resume():
                return self._stop_or_go_on(action, row)
            case TellUser():
                return self._tell(action, row)
            case _:
                assert_never(action)

    def _do_to_run(self, action: Notify | Requeue | Rerun | Cancel, row: int) -> FailureKind | None:
        slurm = self.slurm
        ended = slurm.state[row] is JobPhase.DONE and row not in slurm.cancelled
        runs = slurm.state[row] in {JobPhase.RUNNING, JobPhase.SUSPENDED} and not slurm.leaving[row]
        if slurm.restarts[row] != action.restarts or not (ended if isinstance(action, Rerun) else runs):
            return FailureKind.ALREADY_DONE
        preemptor, order_id = (action.reason.preemptor or JobId(0)) - 1, action.reason.order_id or 0
        if isinstance(action, Notify):
            slurm.notify(row, preemptor, order_id)
        elif isinstance(action, Requeue):
            slurm.requeue(row, preemptor, order_id)
        else:
            job_record.rerun(slurm, row)
        return None

    def _stop_or_go_on(self, action: Suspend | Resume, row: int) -> FailureKind | None:
        slurm, state = self.slurm, self.slurm.state[row]
        if isinstance(action, Resume):
            if state is not JobPhase.SUSPENDED:
                return FailureKind.ALREADY_DONE
            slurm.resume(row)
        elif slurm.restarts[row] != action.restarts:
            return FailureKind.ALREADY_DONE
        elif state is JobPhase.RUNNING and not slurm.leaving[row]:
            slurm.suspend(row)
        elif state is not JobPhase.SUSPENDED:  # a second time changes nothing
            return FailureKind.ALREADY_DONE
        return None

    def _set(self, action: SetField, row: int) -> FailureKind | None:
        slurm, pending = self.slurm, self.slurm.state[row] is JobPhase.PENDING
        match action.field, action.value:
            case (Field.HOLD, HoldState.HELD) | (Field.NODES, _) if not pending:
                return FailureKind.ALREADY_DONE
            case _ if row in slurm.held and self._leaves_held(action, row):
                return FailureKind.ALREADY_DONE
            case Field.NODES, Nodes() as nodes:
                job_record.set_nodes(slurm, row, nodes)
            case _, HoldState.HELD:
                job_record.hold(slurm, row)
            case _, HoldState.RELEASED if pending:
                job_record.release(slurm, row)
            case _, HoldState():
                pass  # there is no hook's mark to be removed
            case Field.NICE, int(nice):
                job_record.set_nice(slurm, row, nice)
            case Field.PRIORITY, int(priority):
                return job_record.set_priority(slurm, row, priority)
            case Field.THROTTLE, int(tasks):
                job_record.set_throttle(slurm, row, tasks)
            case Field.BEGIN, int(begin) if pending:
                job_record.set_begin(slurm, row, float(begin))
            case Field.DEPENDENCY, str(text) if pending:
                job_record.set_dependency(slurm, row, text)
            case _:
                return FailureKind.ALREADY_DONE  # Slurm changes neither of a job that waits no more
        return None

    def _leaves_held(self, action: SetField, row: int) -> bool:
        """Check whether the clients leave a held job as it is: others hold it, or it would start by its nice value."""
        by_hook = row in self.slurm.held_by_hook
        if action.value is HoldState.HELD:
            return not by_hook
        if action.value is HoldState.RELEASED:
            return row in self.slurm.held_by_user and not by_hook
        return action.field is Field.NICE

    def _tell(self, action: TellUser, row: int) -> FailureKind | None:
        if action.record is Record.NONE:
            return None
        if self.slurm.state[row] is JobPhase.DONE:
            return FailureKind.ALREADY_DONE
        self.slurm.notes[row] = note(action, f"{action.at:.0f}")
        return None
