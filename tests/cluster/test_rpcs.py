"""RPCs in `tesched status` are those that slurmctld itself counts (sdiag)."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tesched_core.model.actions import Action, Notify, OrderId, Reason, ReasonCode, Requeue, SetField, Status
from tesched_core.model.cluster import Job
from tesched_core.model.field import Field, Nodes
from tesched_core.model.notice import Target
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.clients import Client
from tesched_slurm.cores_as_cpus import CoresAsCpus
from tesched_slurm.resting_observer import BURST, YOUNG_S, JobsObserver, RestingObserver
from tesched_testcluster.harness.daemon_process import TESCHED, write_config
from tesched_testcluster.harness.slurm_clients import Connect, connecting
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


def test_ask_reads_the_partitions_no_more_than_a_poll(
    cluster: LocalCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    client = connecting(one_client)(cluster)
    config = write_config(cluster, tmp_path, one_client)
    cluster.run(str(TESCHED), "db", "upgrade", "--config", str(config))

    def read(call: Callable[[], object]) -> int:
        cluster.run("sdiag", "-r")
        call()
        found = re.search(r"REQUEST_PARTITION_INFO +\( *\d+\) count:(\d+)", cluster.run("sdiag").stdout)
        return int(found[1]) if found else 0

    def ask() -> None:
        cluster.run(str(TESCHED), "ask", "--config", str(config), "--partition=main", "--wrap=true")

    assert read(ask) == read(client.observer.observe) > 0


def test_a_poll_and_a_probe(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    cluster.wait_state(cluster.sbatch(wrap="sleep 100"), "RUNNING")
    job_id = cluster.sbatch("--begin=now+1day", wrap="true")
    # The first poll reads the configuration, too.
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


def test_rpcs_of_actions_are_counted(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    runs = cluster.sbatch("--requeue", wrap="trap '' USR1; sleep 100 & wait")
    waits = cluster.sbatch("--begin=now+1day", wrap="true")
    cluster.wait_state(runs, "RUNNING")
    reason = Reason(code=ReasonCode.NOTICE, text="a test", preemptor=JobId(waits), order_id=OrderId(1))
    actions = (
        SetField(job_id=JobId(waits), reason=reason, field=Field.NICE, value=-5, previous=0),
        SetField(
            job_id=JobId(waits), reason=reason, field=Field.NODES, value=Nodes(names=("n1",)), previous=Nodes(names=())
        ),
        Notify(job_id=JobId(runs), reason=reason, signal="USR1", target=Target.BATCH, restarts=0),
        Requeue(job_id=JobId(runs), reason=reason, restarts=0),
    )
    for action in actions:
        said, had = counted(cluster, client, partial(act, client, action))
        assert had <= said <= had + 2


def poll(client: Client, *, whole: bool = False) -> Snapshot:
    seen = client.observer.observe(whole=whole)
    assert isinstance(seen, Snapshot)
    return seen


def resting(client: Client) -> RestingObserver:
    outer = client.observer
    assert isinstance(outer, CoresAsCpus)
    assert isinstance(outer.observer, RestingObserver)
    return outer.observer


def allowed_poll(client: Client) -> Snapshot:
    """Return a poll that may read jobs, however many did before: on a clock that stands still none is allowed later."""
    resting(client)._left = float(BURST)
    return poll(client)


def settled(cluster: LocalCluster, client: Client) -> RestingObserver:
    """Return the client's observer, which has seen the cluster at rest; its clock stands still."""
    observer = resting(client)
    observer.stopwatch = lambda: 0.0
    cluster.wait_for(lambda: allowed_poll(client).jobs is allowed_poll(client).jobs, "the queue to rest")
    return observer


@pytest.mark.gate
def test_at_rest_a_poll_is_one_rpc(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)

    def ten_polls() -> None:
        for _ in range(10):
            poll(client)

    settled(cluster, client)
    assert counted(cluster, client, ten_polls) == (10, 10), "no job is there"
    runs = cluster.sbatch("--nodelist=n1", wrap="sleep 1000")
    cluster.wait_state(runs, "RUNNING")
    waits = [cluster.sbatch("-N8", "--exclusive", wrap="true"), cluster.sbatch("--begin=now+1day", wrap="true")]
    cluster.wait_for(lambda: cluster.job(waits[0])["Reason"] == "Resources", "Slurm to look at it")
    settled(cluster, client)
    # Slurm's schedulers go over the job that waits all the while.
    cluster.wait_for(lambda: counted(cluster, client, ten_polls) == (10, 10), "ten polls of one RPC each")


@pytest.mark.gate
def test_at_rest_each_change_of_a_job_is_seen_by_the_next_poll(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    runs = JobId(cluster.sbatch("--time=60", wrap="sleep 1000"))
    cluster.wait_state(runs, "RUNNING")
    array = JobId(cluster.sbatch("--array=0-9%2", "--begin=now+1day", wrap="true"))
    settled(cluster, client)
    waits = JobId(cluster.sbatch("-N2", "--begin=now+1day", wrap="true"))
    assert poll(client).jobs[waits].pending

    def update(job_id: JobId, what: str) -> Job:
        cluster.run("scontrol", "update", f"jobid={job_id}", what)
        return poll(client).jobs[job_id]

    assert update(waits, "excnodelist=n3").request.excluded_nodes == ("n3",)
    assert update(waits, "timelimit=7").time_limit_s == 420
    assert update(waits, "jobname=te").name == "te"
    assert update(waits, "comment=te").comment == "te"
    assert update(waits, "mincpusnode=2").request.min_cpus_per_node == 2
    assert update(array, "arraytaskthrottle=5").array_throttle == 5
    assert update(runs, "timelimit=30").time_limit_s == 1800
    cluster.run("scontrol", "hold", str(waits))
    assert poll(client).jobs[waits].held
    cluster.run("scancel", str(runs))
    cluster.wait_state(runs, "CANCELLED")
    assert poll(client).jobs[runs].finished
    assert poll(client).jobs == poll(client, whole=True).jobs


def test_at_rest_jobs_that_start_are_read_as_in_a_whole_poll(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    cluster.wait_state(cluster.sbatch("-N2", "-n4", "--gpus-per-node=2", wrap="sleep 1000"), "RUNNING")
    settled(cluster, client)
    for options in (("-N3", "-n6", "--gpus-per-node=1"), ("-n2", "--gpus=2")):
        cluster.wait_state(cluster.sbatch(*options, wrap="sleep 1000"), "RUNNING")
        # A job may have its nodes a moment before it has all else.
        cluster.wait_for(
            lambda: not any(job.partly_read for job in allowed_poll(client).jobs.values()), "all to be read"
        )
        jobs = poll(client).jobs
        assert jobs is poll(client).jobs
        assert jobs == poll(client, whole=True).jobs
        settled(cluster, client)


def test_at_rest_a_job_that_comes_costs_two_rpcs_more(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    cluster.wait_state(cluster.sbatch("-n2", wrap="sleep 1000"), "RUNNING")
    observer = settled(cluster, client)
    cluster.sbatch("--begin=now+1day", wrap="true")
    said, had = counted(cluster, client, lambda: poll(client))
    if isinstance(observer.observer, JobsObserver):
        assert said == had == 3
    else:
        assert had <= said, "everything is read"


def test_at_rest_what_no_job_shows_is_seen_in_time_and_at_once_in_a_whole_poll(
    cluster: LocalCluster, connect: Connect
) -> None:
    client = connect(cluster)
    cluster.wait_state(cluster.sbatch("--nodelist=n1", wrap="sleep 1000"), "RUNNING")
    observer = settled(cluster, client)
    cluster.run("scontrol", "update", "nodename=n1", "state=drain", "reason=test")
    reserve = ("reservationname=later", "nodes=n2", "users=root", "starttime=now+1hour", "duration=10")
    cluster.run("scontrol", "create", "reservation", *reserve)
    observer.stopwatch = lambda: YOUNG_S - 1
    assert "DRAIN" not in poll(client).nodes["n1"].flags
    observer.stopwatch = lambda: YOUNG_S
    seen = poll(client)
    assert "DRAIN" in seen.nodes["n1"].flags
    assert seen.reservations.keys() == {"later"}
    cluster.resume_node("n1")
    assert "DRAIN" not in poll(client, whole=True).nodes["n1"].flags
