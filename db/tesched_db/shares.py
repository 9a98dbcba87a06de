"""The memory of a policy that shares workers among trainings, as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.orm import Session
from tesched_core.model.resources import JobId
from tesched_core.model.share_state import ShareState, Throttled, Training

from tesched_db.tables import SharesRow

_SCALARS = ("counted_at", "allocated_at", "next_at", "first", "first_at")


def load(session: Session) -> ShareState | None:
    """Return what the store holds."""
    found = session.execute(select(SharesRow.state)).scalar()
    return None if found is None else _read(found)


def write(connection: Connection, state: ShareState | None) -> None:
    """Put this in the place of what the store holds."""
    connection.execute(delete(SharesRow))
    if state is not None:
        connection.execute(insert(SharesRow).values(key=1, state=_written(state)))


def _written(state: ShareState) -> dict[str, Any]:
    return {
        **{name: getattr(state, name) for name in _SCALARS},
        "trainings": {str(job_id): asdict(one) for job_id, one in state.trainings.items()},
        "shares": {str(job_id): workers for job_id, workers in state.shares.items()},
        "throttled": {str(job_id): asdict(one) for job_id, one in state.throttled.items()},
        "said": {str(job_id): text for job_id, text in state.said.items()},
    }


def _read(found: dict[str, Any]) -> ShareState:
    return ShareState(
        **{name: found[name] for name in _SCALARS},
        trainings={JobId(int(job_id)): Training(**one) for job_id, one in found["trainings"].items()},
        shares={JobId(int(job_id)): workers for job_id, workers in found["shares"].items()},
        throttled={JobId(int(job_id)): Throttled(**one) for job_id, one in found["throttled"].items()},
        said={JobId(int(job_id)): text for job_id, text in found["said"].items()},
    )
