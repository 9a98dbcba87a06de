"""Actuator of the simulated Slurm: carries out actions as slurmctld would, and answers with outcomes."""

from __future__ import annotations

from tesched_core.model.actions import (
    Action,
    Cancel,
    Failure,
    FailureKind,
    Hold,
    Notify,
    Outcome,
    Release,
    Requeue,
    Rerun,
    Resume,
    SetBegin,
    SetDependency,
    SetMarks,
    SetNice,
    SetNodes,
    SetPriority,
    SetThrottle,
    Status,
    Suspend,
    TellUser,
)
from tesched_core.model.resources import JobId
from tesched_core.ports import Barred, never_barred

from tesched_sim.slurm import Slurm, State


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
        if state is State.FUTURE:
            return FailureKind.NOT_FOUND
        match action:
            case Notify() | Requeue():
                other_run = slurm.restarts[row] != action.restarts
                if state is not State.RUNNING or slurm.leaving[row] or other_run:
                    return FailureKind.ALREADY_DONE
                preemptor = (action.reason.preemptor or JobId(0)) - 1
                order_id = action.reason.order_id or 0
                if isinstance(action, Notify):
                    slurm.notify(row, preemptor, order_id)
                else:
                    slurm.requeue(row, preemptor, order_id)
            case Cancel():
                return FailureKind.REFUSED  # no simulated job has a comment that says that it ends
            case SetNice():
                slurm.set_nice(row, action.nice)
            case SetPriority():
                slurm.set_priority(row, action.priority)
            case SetNodes():
                if state is not State.PENDING:
                    return FailureKind.ALREADY_DONE
                if action.count is not None:
                    return FailureKind.REFUSED  # a simulated job has one number of nodes
                index = {name: node for node, name in enumerate(slurm.workload.machines.names)}
                slurm.bind(row, tuple(index[name] for name in action.nodes))
            case Suspend():
                if state is not State.RUNNING:
                    return FailureKind.ALREADY_DONE
                slurm.suspend(row)
            case Resume():
                if state is not State.SUSPENDED:
                    return FailureKind.ALREADY_DONE
                slurm.resume(row)
            case Hold() | Release() if state is not State.PENDING:
                return FailureKind.ALREADY_DONE
            case Hold():
                slurm.hold(row)
            case Release():
                if not action.mark_only:
                    slurm.release(row)
            case SetThrottle() | SetBegin() | Rerun() | SetDependency() | TellUser():
                return FailureKind.REFUSED
        return None
