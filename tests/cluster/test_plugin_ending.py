"""preempt/tesched while a victim ends: for the TE job that gets its node soon no other job is preempted.

The epilog takes as long as a test says. Slurm itself would preempt the next marked job each time that KillWait and
MessageTimeout have passed, until a node is free.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tesched_testcluster.definition import ClusterDefinition
from tesched_testcluster.harness.plugin_marks import Mark, put_marks
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster
from tests.cluster.test_plugin import DEFINITION, build_plugin, full, let_it_try_again, trial, untouched

pytestmark = pytest.mark.slurm

#: ends as soon as there is no file of the job's id beside it
EPILOG = """#!/bin/sh
while [ -e "${0%/*}/$SLURM_JOB_ID" ]; do sleep 0.1; done
"""


def definition_with_epilog(folder: Path) -> ClusterDefinition:
    """Return four nodes whose epilog for a job ends when the folder has no file with the job's id."""
    epilog = folder / "epilog"
    epilog.write_text(EPILOG)
    epilog.chmod(0o755)
    return replace(DEFINITION, settings={"Epilog": str(epilog)})


@pytest.fixture(scope="module")
def epilogs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of the epilog."""
    return tmp_path_factory.mktemp("epilogs")


@pytest.fixture(scope="module")
def shared(epilogs: Path) -> Iterator[LocalCluster]:
    """Give the nodes that these tests share."""
    build_plugin()
    with LocalCluster(definition_with_epilog(epilogs)) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: LocalCluster) -> LocalCluster:
    """Give them idle, with a marks file that has no mark."""
    shared.reset()
    put_marks(shared)
    return shared


def one_that_ends(cluster: LocalCluster, epilogs: Path) -> tuple[int, list[int], int]:
    """Fill the cluster and submit a TE job. Return its victim, whose epilog runs, the other marked jobs, and it."""
    jobs = full(cluster)
    (epilogs / str(jobs[0])).touch()
    put_marks(cluster, *(Mark(job_id=job_id, prio=place) for place, job_id in enumerate(jobs)))
    te = trial(cluster)
    cluster.wait_state(jobs[0], "COMPLETING")
    return jobs[0], jobs[1:], te


@pytest.mark.gate
def test_no_other_job_is_preempted_however_long_the_victim_takes_to_end(cluster: LocalCluster, epilogs: Path) -> None:
    victim, others, te = one_that_ends(cluster, epilogs)
    let_it_try_again(cluster)
    untouched(cluster, others)
    assert (cluster.state(victim), cluster.state(te)) == ("COMPLETING", "PENDING")
    (epilogs / str(victim)).unlink()
    cluster.wait_state(te, "RUNNING")
    assert cluster.put_back([victim, *others]) == [victim]
    untouched(cluster, others)


def test_another_te_job_has_a_victim_of_its_own_meanwhile(cluster: LocalCluster, epilogs: Path) -> None:
    victim, others, te = one_that_ends(cluster, epilogs)
    another = trial(cluster)
    # The first in line takes what the second victim leaves. The first victim's node is the other one's then.
    cluster.wait_for(lambda: "RUNNING" in {cluster.state(te), cluster.state(another)}, "one of them to run")
    let_it_try_again(cluster)
    untouched(cluster, others[1:])
    (epilogs / str(victim)).unlink()
    cluster.wait_state(te, "RUNNING")
    cluster.wait_state(another, "RUNNING")
    assert sorted(cluster.put_back([victim, *others])) == [victim, others[0]]
    untouched(cluster, others[1:])


def test_a_victim_that_ends_on_a_drained_node_keeps_no_other_from_being_preempted(
    cluster: LocalCluster, epilogs: Path
) -> None:
    victim, others, te = one_that_ends(cluster, epilogs)
    (node,) = [name for name, state in cluster.node_states().items() if "comp" in state]
    cluster.drain_node(node)
    cluster.wait_state(te, "RUNNING")
    assert cluster.state(victim) == "COMPLETING"
    assert sorted(cluster.put_back([victim, *others])) == [victim, others[0]]
    (epilogs / str(victim)).unlink()


def test_a_victim_that_ends_more_slowly_than_slurmd_may_be_silent_keeps_no_other_either(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    cluster = make_cluster(replace(definition_with_epilog(tmp_path), slurmd_timeout_s=30))
    put_marks(cluster)
    victim, others, te = one_that_ends(cluster, tmp_path)
    cluster.wait_state(te, "RUNNING")
    assert cluster.state(victim) == "COMPLETING"
    assert sorted(cluster.put_back([victim, *others])) == [victim, others[0]]
    (tmp_path / str(victim)).unlink()
