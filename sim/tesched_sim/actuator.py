"""Actuator of the simulated Slurm: carries out actions as slurmctld would, and answers with outcomes."""

from __future__ import annotations

from tesched_core.model.actions import (
    Action,
    Cancel,
    Failure,
    FailureKind,
    Notify,
    Outcome,
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
from tesched_core.ports import Barred, never_barred

from tesched_sim.slurm import JobPhase, Slurm


class SimulatedActuator:
    """The actuator."""

    def __init__(self, slurm: Slurm) -> None:
        """Act on this cluster."""
        self.slurm = slurm

    def act(self, action: Action, barred: Barred = never_barred) -> Outcome:  # noqa: ARG002 (a virtual clock stands still)
        """Perform the action, at once."""
        kind = self._perform(action)
        failure = None if kind is None else Failure(kind=kind, message=f"job {action.job_id}")
        status = Status.SENT if failure is None else Status.FAILED
        return Outcome(action=action, status=status, at=self.slurm.now, failure=failure)

    def _perform(self, action: Action) -> FailureKind | None:
        if isinstance(action, SetMarks):
            return FailureKind.REFUSED  # the simulated Slurm has no plugin
        slurm, row = self.slurm, action.job_id - 1
        state = slurm.state[row]
        if state is JobPhase.FUTURE:
            return FailureKind.NOT_FOUND
        match action:
            case Notify() | Requeue():
                other_run = slurm.restarts[row] != action.restarts
                if state is not JobPhase.RUNNING or slurm.leaving[row] or other_run:
                    return FailureKind.ALREADY_DONE
                preemptor = (action.reason.preemptor or JobId(0)) - 1
                order_id = action.reason.order_id or 0
                if isinstance(action, Notify):
                    slurm.notify(row, preemptor, order_id)
                else:
                    slurm.requeue(row, preemptor, order_id)
            case Cancel():
                return FailureKind.REFUSED  # no simulated job has a comment that says that it ends
            case SetField():
                return self._set(action)
            case Suspend():
                if state is not JobPhase.RUNNING:
                    return FailureKind.ALREADY_DONE
                slurm.suspend(row)
            case Resume():
                if state is not JobPhase.SUSPENDED:
                    return FailureKind.ALREADY_DONE
                slurm.resume(row)
            case Rerun() | TellUser():
                return FailureKind.REFUSED
        return None

    def _set(self, action: SetField) -> FailureKind | None:
        slurm, row = self.slurm, action.job_id - 1
        pending = slurm.state[row] is JobPhase.PENDING
        match action.field, action.value:
            case Field.NICE, int(nice):
                slurm.set_nice(row, nice)
            case Field.PRIORITY, int(priority):
                slurm.set_priority(row, priority)
            case Field.HOLD | Field.NODES, _ if not pending:
                return FailureKind.ALREADY_DONE
            case Field.NODES, Nodes(names=names, count=None):
                index = {name: node for node, name in enumerate(slurm.workload.machines.names)}
                slurm.bind(row, tuple(index[name] for name in names))
            case _, HoldState.HELD:
                slurm.hold(row)
            case _, HoldState.RELEASED:
                slurm.release(row)
            case _, HoldState.UNMARKED:
                pass  # there is no hook
            case _:
                return FailureKind.REFUSED  # a simulated job has one number of nodes, too
        return None
