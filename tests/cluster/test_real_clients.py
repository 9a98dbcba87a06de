"""Lightning and Transformers, as their documentation says, preempted by tesched: each comes back and ends once.

`make test-clients` installs them and runs this, on this host's Slurm and on 26.05.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.kinds import TORCH
from tesched_testcluster.kinds_stage import KindsOnStage, torch_bin

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.clients]


def test_trainings_run_again_unchanged(make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice) -> None:
    python = torch_bin()
    assert python is not None, "torch is not installed for jobs: run `make test-clients`"
    # KillWait as an untouched slurm.conf has it: it is all the time that a job has which declares no signal.
    group = NodeGroup(count=len(TORCH) + 2, cpus=4)
    cluster = make_cluster(ClusterDefinition(name="clients", groups=(group,), kill_wait_s=30))
    with KindsOnStage(cluster, TORCH, python) as stage:
        stage.await_begun()
        with running_daemon(cluster, tmp_path, one_client) as daemon:
            stage.preempt()
            stage.await_end()
            outcomes = stage.outcomes(lambda job: daemon.ask("explain", job).stdout)
    assert [outcome.wrong for outcome in outcomes if outcome.wrong] == []
