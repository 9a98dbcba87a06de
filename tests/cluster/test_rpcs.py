"""RPCs in `tesched status` are those that slurmctld itself counts (sdiag)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest
from tesched_core.model.actions import Action, Notify, OrderId, Reason, ReasonCode, Requeue, SetNice, SetNodes, Status
from tesched_core.model.notice import Target
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.clients import Client
from tesched_testcluster.harness.slurm_clients import Connect
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

#: what slurmd and the end of a job send, and sdiag's own question
OTHERS = {
    "REQUEST_STATS_INFO",
    "REQUEST_COMPLETE_BATCH_SCRIPT",
    "MESSAGE_NODE_REGISTRATION_STATUS",
    "MESSAGE_EPILOG_COMPLETE",
    "REQUEST_COMPLETE_PROLOG",
    "REQUEST_STEP_COMPLETE",
}


@pytest.fixture
def cluster(make_cluster: MakeCluster) -> LocalCluster:
    """Give a cluster of its own: what the jobs of other tests leave behind would be counted."""
    return make_cluster(None)


def counted(cluster: LocalCluster, client: Client, call: Callable[[], object]) -> tuple[int, int]:
    """Return how many RPCs the client says the call was, and how many slurmctld had."""
    cluster.run("sdiag", "-r")
    before = sum(client.calls.values())
    call()
    said = cluster.run("sdiag").stdout
    by_type = said[said.index("by message type") : said.index("by user")]
    found = re.findall(r"(\w+) +\( *\d+\) count:(\d+)", by_type)
    return sum(client.calls.values()) - before, sum(int(count) for name, count in found if name not in OTHERS)


def test_a_look_and_a_glance(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    cluster.wait_state(cluster.sbatch(wrap="sleep 100"), "RUNNING")
    job_id = cluster.sbatch("--begin=now+1day", wrap="true")
    # The first look asks for the configuration, too.
    assert isinstance(client.observer.observe(), Snapshot)

    def look() -> None:
        for _ in range(3):
            assert isinstance(client.observer.observe(), Snapshot)

    said, had = counted(cluster, client, look)
    assert said == had
    said, had = counted(cluster, client, partial(client.watcher.looked_at, JobId(job_id)))
    assert had <= said <= had + 2


def act(client: Client, action: Action) -> None:
    assert client.actuator.act(action).status is Status.SENT


def test_actions(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    runs = cluster.sbatch("--requeue", wrap="trap '' USR1; sleep 100 & wait")
    waits = cluster.sbatch("--begin=now+1day", wrap="true")
    cluster.wait_state(runs, "RUNNING")
    reason = Reason(code=ReasonCode.NOTICE, text="a test", preemptor=JobId(waits), order_id=OrderId(1))
    actions = (
        SetNice(job_id=JobId(waits), reason=reason, nice=-5, previous=0),
        SetNodes(job_id=JobId(waits), reason=reason, nodes=("n1",), previous=()),
        Notify(job_id=JobId(runs), reason=reason, signal="USR1", target=Target.BATCH, restarts=0),
        Requeue(job_id=JobId(runs), reason=reason, restarts=0),
    )
    for action in actions:
        said, had = counted(cluster, client, partial(act, client, action))
        assert had <= said <= had + 2
