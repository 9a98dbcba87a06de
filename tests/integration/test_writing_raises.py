"""An error that a job makes in the store's own code is the job's, and none of a damaged store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import Connection, Engine
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_daemon.settings import Mode
from tesched_db import queries as read
from tesched_db.journal import SqlJournal

from tests.loop_parts import FULL_CLUSTER, TRIAL, VICTIM, Cluster, Notebook, loop_of


def test_a_value_error_of_the_writing_sets_its_job_aside(store: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = SqlJournal._intend

    def fails(journal: SqlJournal, connection: Connection, held: Any, *, snapshot: Snapshot, **more: Any) -> None:
        if any(job.name == "odd" for job in snapshot.jobs.values()):
            raise ValueError("not in range")
        whole(journal, connection, held, snapshot=snapshot, **more)

    monkeypatch.setattr(SqlJournal, "_intend", fails)
    odd = replace(TRIAL, job_id=JobId(9), user="mallory", name="odd")
    seen = replace(FULL_CLUSTER, jobs={job.job_id: job for job in (VICTIM, TRIAL, odd)})
    loop = loop_of(Cluster(seen=seen), Notebook(), Mode.ENFORCE)
    loop.journal = SqlJournal(store)
    assert not loop.turn().trouble
    status = read.status(store)
    assert status.daemon is not None
    assert [(label, "not in range" in why) for label, _, why in status.daemon.doubts] == [("9", True)]
