"""Nice and Priority of a job apart: a raise that backfill undoes (bf_continue), a hold that a change of nice lifts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.daemon_process import Daemon, running_daemon
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

#: jobs before the TE job in the queue
AHEAD = 5
#: With each job backfill yields its locks twice, for a second, and has read all priorities when it began.
PARAMETERS = (
    "bf_continue",
    "bf_interval=1",
    "bf_max_time=600",
    "bf_yield_interval=1",
    "bf_yield_sleep=1000000",
    "sched_min_interval=0",
    "batch_sched_delay=0",
)
WHOLE = ("--exclusive", "--mem=100", "--time=60", "--output=/dev/null")
#: it leaves, to be put back in the queue, once there is a file `leave`
VICTIM = """
trap 'while [ ! -e leave ]; do sleep 0.1; done; exit 99' USR1
sleep 1000 & wait
"""


def begun(cluster: LocalCluster) -> int:
    """Return how many backfill cycles have begun."""
    return cluster.slurmctld_log.read_text().count("_attempt_backfill: beginning")


def said(daemon: Daemon, job_id: int, text: str) -> bool:
    """Return whether `tesched explain` says this of a job."""
    return text in " ".join(daemon.ask("explain", str(job_id)).stdout.split())


@pytest.mark.gate
def test_a_change_of_nice_lifts_a_hold(cluster: LocalCluster) -> None:
    """With priority/basic: so tesched puts no nice value back while its job is held."""
    job_id = cluster.sbatch("--job-name=be-held", "--hold", wrap="sleep 1000")
    assert cluster.job(job_id)["Priority"] == "0"
    cluster.run("scontrol", "update", f"jobid={job_id}", "nice=-1001")
    cluster.wait_state(job_id, "RUNNING")


@pytest.mark.parametrize("priority_type", ["priority/basic", "priority/multifactor"])
def test_a_raise_that_backfill_undoes_is_made_again_and_the_job_has_its_own_priority_afterwards(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, priority_type: str
) -> None:
    settings = {
        "SchedulerParameters": ",".join(PARAMETERS),
        "PriorityType": priority_type,
        "SlurmctldDebug": "debug",
        "DebugFlags": "Backfill",
    }
    partitions = (PartitionDefinition(name="main", default=True),)
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),), partitions=partitions, settings=settings))
    options = (*WHOLE, "--comment=signal=B:USR1 grace=3000", f"--chdir={tmp_path}")
    victim = cluster.sbatch("--job-name=be-victim", *options, wrap=VICTIM)
    cluster.wait_state(victim, "RUNNING")
    for number in range(AHEAD):
        cluster.sbatch(f"--job-name=be-{number}", *WHOLE, wrap="sleep 1000")
    te = cluster.sbatch("--job-name=te", *WHOLE, wrap="sleep 1000")
    own = cluster.job(te)["Priority"]
    seen = begun(cluster)
    # Two, as the first may have begun before the TE job came.
    cluster.wait_for(lambda: begun(cluster) >= seen + 2, "a backfill cycle to begin")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        undone = f"its priority is {own} again though its nice value stays"
        cluster.wait_for(lambda: said(daemon, te, undone), "backfill to undo the raise, and the daemon to see it")
        daemon.await_polls(cluster)
        first = max(int(cluster.job(job_id)["Priority"]) for job_id in range(victim, te))
        assert int(cluster.job(te)["Priority"]) > first, "it is first in the queue again"
        (tmp_path / "leave").touch()
        cluster.wait_state(te, "RUNNING")
        # Also the victim, and every job ahead of it.
        cluster.wait_for(lambda: cluster.job(te)["Nice"] == "0", "its nice value to be put back")
        daemon.await_polls(cluster)
        assert cluster.job(te)["Priority"] == own or priority_type != "priority/basic"
        assert daemon.json("status")["tally"]["futile"] == 0
