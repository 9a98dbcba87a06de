"""While the name service is away a job keeps the name of its user; one whose user was never known is in doubt."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from tesched_core.model.payment import Paid
from tesched_core.model.resources import NO_NAME, JobId
from tesched_slurm.pyslurm_client import PyslurmObserver
from tesched_slurm.pyslurm_jobs import pending_job, started_job
from tesched_slurm.pyslurm_process import PyslurmProcess
from tesched_slurm.pyslurm_wire import PolledObjects
from tesched_slurm.run_command import Commands
from tesched_slurm.user_names import NAMELESS, UserNames

from tests.unit.slurm.queue_reading import Slurm, only, read, reading
from tests.unit.slurm.squeue_says import PLAIN, scontrol
from tests.unit.slurm.test_pyslurm_wire import record

AWAY = PLAIN._replace(user_name=NO_NAME)


def test_a_job_keeps_the_name_that_was_last_shown() -> None:
    queue = reading(Slurm())
    read(queue, [PLAIN], scontrol(PLAIN))
    job = read(queue, [AWAY], scontrol(AWAY))[1]
    assert (job.user, job.doubt, job.partly_read) == ("ada", "", "")
    renamed = PLAIN._replace(user_name="eve")
    read(queue, [renamed], scontrol(renamed))
    assert read(queue, [AWAY], scontrol(AWAY))[1].user == "eve"


def test_so_does_another_job_of_that_user() -> None:
    queue = reading(Slurm())
    read(queue, [PLAIN], scontrol(PLAIN))
    another = AWAY._replace(job_id="2", array_job_id="2")
    assert read(queue, [another], scontrol(another))[2].user == "ada"


def test_a_job_of_a_user_never_known_is_in_doubt_until_its_name_is_shown() -> None:
    queue = reading(Slurm())
    job = read(queue, [AWAY], scontrol(AWAY))[1]
    assert job.doubt == NAMELESS
    assert replace(job, doubt="", user="ada") == only(PLAIN, scontrol(PLAIN)), "all else of it is known"
    assert not read(queue, [PLAIN], scontrol(PLAIN))[1].doubt


def test_the_user_of_that_name_is_one_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tesched_slurm.user_names._nobody", lambda: 1000)
    job = read(reading(Slurm()), [AWAY], scontrol(AWAY))[1]
    assert (job.user, job.doubt) == (NO_NAME, "")


def test_numbers_are_not_mistaken_for_one_another() -> None:
    names = UserNames()
    assert names.of(1000, "ada") == "ada"
    assert (names.of(1000, NO_NAME), names.of(1001, NO_NAME)) == ("ada", NO_NAME)


def test_with_pyslurm_it_is_in_doubt_as_well() -> None:
    waits = PLAIN._replace(state="PENDING", node_list="")
    shown = record(1, state="PENDING", user=NO_NAME, user_id=1000, allocated_nodes=None)
    assert pending_job(shown, waits).doubt == NAMELESS
    assert not pending_job(record(1, state="PENDING", user="ada", user_id=1000, allocated_nodes=None), waits).doubt
    runs = only(PLAIN, scontrol(PLAIN))
    assert started_job(record(1, state="RUNNING", user=NO_NAME, user_id=1000), runs).doubt == NAMELESS


def test_with_pyslurm_it_keeps_the_name_as_well() -> None:
    observer = PyslurmObserver(process=cast("PyslurmProcess", None), commands=cast("Commands", None))
    waits = {1: PLAIN._replace(state="PENDING", node_list="")}
    found = []
    for name in (NO_NAME, "ada", NO_NAME):
        seen = record(1, state="PENDING", user=name, user_id=1000, allocated_nodes=None)
        jobs = observer._jobs(PolledObjects(jobs=(seen,)), waits, {})
        assert isinstance(jobs, list)
        found += [(job.user, job.doubt) for job in jobs]
    assert found == [(NO_NAME, NAMELESS), ("ada", ""), ("ada", "")]


@pytest.mark.parametrize(("user", "own"), [("ada", True), (NO_NAME, True), ("", False)])
def test_the_real_user_of_that_name_is_one_like_any_other(user: str, own: bool) -> None:
    paid = Paid(at=0, job_id=JobId(1), user=user, account="", nodes=("n1",), node_s=1, for_user=user)
    assert paid.of_own_user is own
