"""The memory of a policy that goes in rounds, as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, delete, insert, select
from sqlalchemy.orm import Session
from tesched_core.model.resources import JobId
from tesched_core.model.round_state import JobPlan, JobRounds, Option, PairRounds, RoundState

from tesched_db.tables import RoundsRow

_SCALARS = ("began_at", "ends_at", "counted_at", "solved_at", "solved_jobs", "changed", "fallback")
_BY_TYPE = ("share", "received_s", "deficit_s")
_BY_JOB = ("kind", "partner", "isolated_s", "isolated_speed")


def load(session: Session) -> RoundState | None:
    """Return what the store holds."""
    found = session.execute(select(RoundsRow.state)).scalar()
    return None if found is None else _read(found)


def write(connection: Connection, state: RoundState | None) -> None:
    """Put this in the place of what the store holds."""
    connection.execute(delete(RoundsRow))
    if state is not None:
        connection.execute(insert(RoundsRow).values(key=1, state=_written(state)))


def _written(state: RoundState) -> dict[str, Any]:
    return {
        **{name: getattr(state, name) for name in _SCALARS},
        "types": list(state.types),
        "given_s": list(state.given_s),
        "solved_gpus": list(state.solved_gpus),
        "jobs": {
            str(job_id): {
                **{name: list(getattr(one, name)) for name in _BY_TYPE},
                **{name: getattr(one, name) for name in _BY_JOB},
            }
            for job_id, one in state.jobs.items()
        },
        "pairs": [[*pair, {name: list(getattr(one, name)) for name in _BY_TYPE}] for pair, one in state.pairs.items()],
        "plans": {str(job_id): asdict(plan) for job_id, plan in state.plans.items()},
        "held": {str(job_id): at for job_id, at in state.held.items()},
    }


def _read(found: dict[str, Any]) -> RoundState:
    return RoundState(
        **{name: found[name] for name in _SCALARS},
        types=tuple(found["types"]),
        given_s=tuple(found["given_s"]),
        solved_gpus=tuple(found.get("solved_gpus", ())),
        jobs={
            JobId(int(job_id)): JobRounds(**{**one, **{name: tuple(one[name]) for name in _BY_TYPE}})
            for job_id, one in found["jobs"].items()
        },
        # A state of before there were any has none.
        pairs={
            (JobId(first), JobId(second)): PairRounds(**{name: tuple(one[name]) for name in _BY_TYPE})
            for first, second, one in found.get("pairs", [])
        },
        plans={JobId(int(job_id)): _plan(one) for job_id, one in found.get("plans", {}).items()},
        held={JobId(int(job_id)): at for job_id, at in found["held"].items()},
    )


def _plan(found: dict[str, Any]) -> JobPlan:
    options = {name: Option(**found[name]) if found[name] else None for name in ("option", "next_best")}
    return JobPlan(**{**found, **options, "nodes": tuple(found["nodes"])})
