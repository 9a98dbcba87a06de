"""preempt/tesched on a real Slurm: a TE job in the other jobs' partition, behind more of them than a pass tests.

Slurm gathers victims only for a job that it tests: such a TE job is served if the plugin puts it first in the queue. No
daemon runs here: the tests write the marks.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest
from tesched_testcluster.definition import NativePreemption, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.plugin_marks import Mark, put_marks
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster
from tests.cluster.test_plugin import DEFINITION, best_effort, build_plugin, let_it_look, trial, untouched

pytestmark = pytest.mark.slurm

#: so many jobs each pass of the backfill scheduler tests; the main one tests the first of a partition that is full
TESTED = 5
SHORT_PASSES = replace(
    DEFINITION,
    groups=(NodeGroup(count=2),),
    partitions=(PartitionDefinition(name="main", default=True),),
    preemption=NativePreemption(kind="tesched"),
    settings={"SchedulerParameters": f"sched_interval=1,sched_min_interval=0,bf_interval=2,bf_max_job_test={TESTED}"},
)
PATIENCE_S = 3


@pytest.fixture(scope="module", autouse=True)
def plugin() -> None:
    """Build it before a cluster is made."""
    build_plugin()


def behind_a_queue(cluster: LocalCluster, *options: str) -> tuple[list[int], int]:
    """Fill the nodes with marked jobs; submit more than a pass tests, then a TE job. Return the marked ones and it."""
    marked = [best_effort(cluster) for _ in range(2)]
    put_marks(cluster, *(Mark(job_id=job_id, prio=place) for place, job_id in enumerate(marked)))
    for _ in range(TESTED + 3):
        cluster.sbatch("--gres=gpu:8", "--output=/dev/null", wrap="sleep 300")
    te = trial(cluster, "--partition=main", *options)
    cluster.run("scontrol", "update", f"JobId={te}", "AdminComment=tesched:te")
    return marked, te


def seconds_waited(job: dict[str, str]) -> float:
    """Return how long a running job waited since it became eligible, by Slurm's own times."""
    return (datetime.fromisoformat(job["StartTime"]) - datetime.fromisoformat(job["EligibleTime"])).total_seconds()


@pytest.mark.gate
def test_te_job_that_says_nothing_is_served_by_a_slurmctld_that_has_just_started(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(SHORT_PASSES)
    marked, te = behind_a_queue(cluster)
    cluster.wait_state(te, "RUNNING")
    assert cluster.put_back(marked) == [marked[0]]
    # And so is the next, which is younger than all that Slurm has called the plugin for.
    _, *rest = marked
    put_marks(cluster, *(Mark(job_id=job_id) for job_id in rest))
    later = trial(cluster, "--partition=main")
    cluster.run("scontrol", "update", f"JobId={later}", "AdminComment=tesched:te")
    cluster.wait_state(later, "RUNNING")
    assert sorted(cluster.put_back(marked)) == marked


@pytest.mark.gate
def test_patient_te_job_is_served_once_its_patience_is_over(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(SHORT_PASSES)
    marked, te = behind_a_queue(cluster, f"--comment=patience={PATIENCE_S}")
    job = cluster.wait_state(te, "RUNNING")
    assert seconds_waited(job) >= PATIENCE_S
    assert cluster.put_back(marked) == [marked[0]]


@pytest.mark.gate
def test_patient_te_job_keeps_its_place_behind_the_others_until_then(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(SHORT_PASSES)
    marked, te = behind_a_queue(cluster, "--comment=patience=99999")
    let_it_look(cluster)
    untouched(cluster, marked)
    # A node that comes free by itself is the first waiting job's, not its.
    first = marked[-1] + 1
    cluster.run("scancel", str(marked[0]))
    cluster.wait_state(first, "RUNNING")
    assert cluster.state(te) == "PENDING"
