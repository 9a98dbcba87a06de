"""Resources that jobs hold now, by class: sums, without a view of each job."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Engine, select
from tesched_core.model.cluster import JobState
from tesched_core.model.snapshot import JobClass

from tesched_db.engine import reader
from tesched_db.tables import JobRow

_HOLD = [JobState.RUNNING.value, JobState.SUSPENDED.value]


def use(engine: Engine) -> Mapping[str, Mapping[str, int]]:
    """Amounts that the running jobs of each class hold: jobs, CPUs, GPUs, nodes that they are on. Raises StoreError."""
    query = select(JobRow.job_class, JobRow.cpus, JobRow.gpus, JobRow.nodes)
    with reader(engine) as connection:
        rows = connection.execute(query.where(JobRow.state.in_(_HOLD), JobRow.last_seen.is_(None))).all()
    found: dict[str, dict[str, int]] = {}
    for job_class in JobClass:
        mine = [row for row in rows if row.job_class == job_class.value]
        found[job_class.value] = {
            "jobs": len(mine),
            "cpus": sum(row.cpus for row in mine),
            "gpus": sum(row.gpus for row in mine),
            "nodes": len({node for row in mine for node in row.nodes}),
        }
    return found
