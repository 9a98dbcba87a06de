"""Calls to a slurmctld that does not answer: each is given up after its time-out, and none is made again.

How long that takes is counted in calls: none of a kind is made more often than where Slurm answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from tesched_core.model.actions import Failure, FailureKind, Reason, ReasonCode, Resume, Suspend
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.clients import Client
from tesched_testcluster.harness.slurm_clients import Connect, hanging
from tesched_testcluster.local import LocalCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

WHY = Reason(code=ReasonCode.ADMIN, text="a test")
#: seconds after which a call is given up here; where Slurm answers there is time, however busy the machine is
TIMEOUT_S = 2


Silence = Callable[[LocalCluster], AbstractContextManager[None]]


@contextmanager
def stopped(cluster: LocalCluster) -> Iterator[None]:
    """Let no slurmctld run until the block ends."""
    cluster.stop_slurmctld()
    try:
        yield
    finally:
        cluster.start_slurmctld()


@pytest.fixture(params=[stopped, hanging])
def silent(request: pytest.FixtureRequest) -> Silence:
    """Give what keeps a cluster's slurmctld from answering: none runs, or it takes connections and says nothing."""
    how: Silence = request.param
    return how


def calls_of(client: Client, ask: Callable[[], object]) -> Counter[str]:
    """Return what Slurm is called for by this question, by kind."""
    before = Counter(client.calls)
    ask()
    return Counter(client.calls) - before


def assert_given_up(failure: Snapshot | Failure | None, silent: Silence) -> None:
    """Assert that it is a failure, and where connections are taken, by the client's own time-out."""
    assert isinstance(failure, Failure)
    assert failure.kind is FailureKind.UNREACHABLE, failure
    assert silent is stopped or f" {TIMEOUT_S} s" in failure.message


def test_an_action_is_given_up_and_goes_through_later(cluster: LocalCluster, connect: Connect, silent: Silence) -> None:
    patient, hasty = connect(cluster, timeout_s=600), connect(cluster, timeout_s=TIMEOUT_S)
    job_id = JobId(cluster.sbatch(wrap="exec sleep 1000"))
    cluster.wait_state(job_id, "RUNNING")
    suspend, resume = Suspend(job_id=job_id, reason=WHY, restarts=0), Resume(job_id=job_id, reason=WHY)
    patient.actuator.act(suspend)
    answered = calls_of(patient, lambda: patient.actuator.act(resume))
    patient.actuator.act(suspend)
    assert cluster.state(job_id) == "SUSPENDED"
    outcomes = []
    with silent(cluster):
        made = calls_of(hasty, lambda: outcomes.append(hasty.actuator.act(resume)))
    assert made <= answered
    assert_given_up(outcomes[0].failure, silent)
    assert cluster.state(job_id) == "SUSPENDED"
    patient.actuator.act(resume)
    assert cluster.state(job_id) == "RUNNING"


def test_a_poll_is_given_up_and_a_later_one_sees_all(cluster: LocalCluster, connect: Connect, silent: Silence) -> None:
    patient, hasty = connect(cluster, timeout_s=600), connect(cluster, timeout_s=TIMEOUT_S)
    answered = calls_of(patient, patient.observer.observe)
    seen: list[Snapshot | Failure] = []
    with silent(cluster):
        made = calls_of(hasty, lambda: seen.append(hasty.observer.observe()))
    assert made <= answered
    assert_given_up(seen[0], silent)
    assert isinstance(patient.observer.observe(), Snapshot)
