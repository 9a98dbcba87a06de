"""guard.lever = "plugin": when the last victim of a TE job that came back has left, as the plugin's file says it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import Status
from tesched_core.model.job_memory import Futility, JobMemory
from tesched_core.model.limits import Limits
from tesched_core.model.memory import Memory, TeRun
from tesched_core.model.order import Ending
from tesched_core.model.payment import Paid
from tesched_core.model.resources import JobId
from tesched_core.orders.came_back import waiting_after_return

from tests.builders import NOW, running, share, waiting
from tests.scenarios.driver import BE, TE, Driver
from tests.scenarios.test_came_back import returns, said, site

#: another best-effort job
OTHER = 5


def victim_of(drive: Driver, at_s: float, seen_s: float | None = None) -> None:
    """Let Slurm put the best-effort job back, and the TE job start in its place, seen a second later."""
    drive.says(Status.SENT, *drive.decision.actions)
    drive.requeued(BE)
    drive.change(BE, submit_time=NOW + at_s)
    drive.starts(TE, share("n1", 16, 1), at_s=at_s)
    drive.cycle(at_s + 1 if seen_s is None else seen_s)


def test_when_its_last_victim_in_a_run_that_counts_left_is_said_too() -> None:
    drive = site(waiting(TE, cpus=16), running(OTHER, share("n2", 8)))
    said(drive, 0)
    victim_of(drive, 5)
    drive.requeued(TE)
    drive.change(TE, submit_time=NOW + 8)
    (one,) = said(drive, 9)
    assert (one.restarts, one.victim_left_at) == (0, int(NOW) + 5)
    returns(drive, 400)
    (one,) = said(drive, 401)
    assert one.victim_left_at == int(NOW) + 5, "it came back from free nodes, and the run before counts yet"


def test_a_victim_that_is_seen_late_left_when_slurm_put_it_back() -> None:
    drive = site(waiting(TE, cpus=16), running(OTHER, share("n2", 8)))
    said(drive, 0)
    victim_of(drive, 5, seen_s=30)
    drive.requeued(TE)
    drive.change(TE, submit_time=NOW + 31)
    (one,) = said(drive, 32)
    assert (one.restarts, one.victim_left_at) == (0, int(NOW) + 5), "slurmctld may have been restarted since"


@pytest.mark.parametrize("ahead_s", [0, 40])
def test_by_a_clock_of_slurms_that_is_ahead_no_victim_leaves_after_it_was_seen(ahead_s: int) -> None:
    drive = site(waiting(TE, cpus=16), running(OTHER, share("n2", 8)))
    said(drive, 0)
    victim_of(drive, 5 + ahead_s, seen_s=6)
    assert [one.put_back_at for one in drive.memory.paid] == [NOW + 5 + min(ahead_s, 1)]


@pytest.mark.parametrize(
    ("preemptor", "restarts", "left_at"),
    [(TE, 1, NOW - 5), (TE, 7, NOW - 5), (TE, 0, 0), (TE, None, 0), (OTHER, 1, 0), (None, 1, 0)],
)
def test_a_victim_counts_for_the_job_that_started_in_its_place_in_a_run_that_counts(
    preemptor: int | None, restarts: int | None, left_at: float
) -> None:
    paid = Paid(
        at=NOW - 5,
        job_id=JobId(BE),
        user="ann",
        account="",
        nodes=("n1",),
        node_s=0.0,
        preemptor=None if preemptor is None else JobId(preemptor),
        preemptor_restarts=restarts,
    )
    memory = Memory(
        jobs={
            JobId(TE): JobMemory(futile=Futility(count=1, ending=Ending.CAME_BACK, first_restart=1), retry_at=NOW + 100)
        },
        te_runs={JobId(TE): TeRun(restarts=2, at=NOW)},
        paid=(replace(paid, at=NOW - 50), paid),
    )
    (one,) = waiting_after_return(memory, Limits(), NOW).values()
    assert one.victim_left_at == left_at


def test_a_victim_before_a_useful_run_is_not_said() -> None:
    drive = site(waiting(TE, cpus=16), running(OTHER, share("n2", 8)))
    said(drive, 0)
    victim_of(drive, 5)
    said(drive, 70)
    drive.requeued(TE)
    drive.change(TE, submit_time=NOW + 71)
    said(drive, 72)
    returns(drive, 80)
    (one,) = said(drive, 81)
    assert (one.restarts, one.victim_left_at) == (1, 0)
