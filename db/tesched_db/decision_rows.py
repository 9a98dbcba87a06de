"""A decision's actions, their outcomes and the transitions of orders, to rows."""

from __future__ import annotations

from tesched_core.model.actions import Action, Cancel, Notify, Outcome, Requeue, Rerun, SetField, Suspend, kind_of
from tesched_core.model.field import FieldValue
from tesched_core.model.order import Transition

from tesched_db.job_rows import PresentJobs
from tesched_db.rows import Values


def action_values(action: Action, seen: PresentJobs) -> Values:
    """Values that are written of an action before it is tried."""
    notify = action if isinstance(action, Notify) else None
    field = action if isinstance(action, SetField) else None
    return {
        "kind": kind_of(action),
        "job_id": action.job_id,
        "job_key": seen.key_of(action.job_id),
        "reason": action.reason.code.value,
        "text": action.reason.text,
        "preemptor": action.reason.preemptor,
        "order_id": action.reason.order_id,
        "signal": notify.signal if notify else None,
        "target": notify.target.value if notify else None,
        "restarts": action.restarts if isinstance(action, Notify | Requeue | Cancel | Rerun | Suspend) else None,
        "value": _number(field.value) if field else None,
        "previous": _number(field.previous) if field else None,
    }


def _number(value: FieldValue) -> int | None:
    return value if isinstance(value, int) else None


def outcome_values(outcome: Outcome) -> Values:
    """Values that are written of an action's outcome."""
    return {
        "status": outcome.status.value,
        "at": outcome.at,
        "took_s": outcome.took_s,
        "failure_kind": outcome.failure.kind.value if outcome.failure else None,
        "failure": outcome.failure.message if outcome.failure else None,
    }


def transition_values(transition: Transition) -> Values:
    """Values that are written of a transition."""
    return {
        "order_id": transition.order_id,
        "at": transition.at,
        "job_id": transition.job_id,
        "before": transition.before,
        "after": transition.after,
        "text": transition.text,
    }
