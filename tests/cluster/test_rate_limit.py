"""Under slurmctld's limit on a user's RPCs (rl_enable) a daemon that runs as an Operator serves TE jobs."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.rate_limits import SINCE
from tesched_testcluster.definition import Account, Accounting, ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import TESCHED, write_config
from tesched_testcluster.local import LocalCluster, installed_release
from tesched_testcluster.patience import Patience
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

NODES = 4
WHOLE = ("-c32", "--mem=100", "--output=/dev/null")


@contextmanager
def daemon_of_operator(cluster: LocalCluster, config: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a daemon as the Operator until the block ends."""
    user = pwd.getpwnam(ordinary_user())
    log = cluster.shared / "daemon.log"
    with log.open("wb") as out:
        daemon = subprocess.Popen(
            [str(TESCHED), "daemon", "--config", str(config)],
            env={**os.environ, "HOME": str(cluster.shared)},
            stdout=out,
            stderr=out,
            user=user.pw_uid,
            group=user.pw_gid,
            extra_groups=[],
        )
    try:
        yield daemon
    finally:
        daemon.send_signal(signal.SIGTERM)
        status = daemon.wait(timeout=Patience().limit_s)
        print(log.read_text())  # noqa: T201 - pytest shows it with a failure
    assert status == 0


def status_of(config: Path) -> Any:
    """Return what `tesched status` says; empty until it answers."""
    argv = [str(TESCHED), "status", "--json", "--config", str(config)]
    said = subprocess.run(argv, capture_output=True, text=True, timeout=Patience().limit_s, check=False).stdout
    return json.loads(said) if said.startswith("{") else {}


def test_an_operator_s_daemon_serves_all_that_fit(make_cluster: MakeCluster, one_client: ClientChoice) -> None:
    if installed_release() < SINCE:
        pytest.skip("this release of Slurm limits no user's RPCs")
    operator = ordinary_user()
    accounting = Accounting(
        accounts=(Account(name="lab", users=("root", operator)),), operators=(operator,), enforce=""
    )
    cluster = make_cluster(
        ClusterDefinition(
            groups=(NodeGroup(count=NODES),), accounting=accounting, settings={"SlurmctldParameters": "rl_enable"}
        )
    )
    for _ in range(NODES):
        cluster.wait_state(cluster.sbatch("--job-name=be", *WHOLE, wrap="sleep 1000"), "RUNNING")
    config = write_config(cluster, cluster.shared, one_client, poll_interval_s=2)
    config.chmod(0o644)
    with daemon_of_operator(cluster, config):
        cluster.wait_for(lambda: status_of(config).get("daemon"), "the daemon's first turn")
        te = [cluster.sbatch("--job-name=te", *WHOLE, wrap="sleep 1000") for _ in range(NODES + 2)]
        cluster.wait_for(
            lambda: sum(cluster.state(job_id) == "RUNNING" for job_id in te) == NODES, "all that fit to run"
        )
        daemon = status_of(config)["daemon"]
        assert "limited to 2 RPCs a second, 30 at once (rl_enable)" in daemon["client"]
        assert daemon["failure"] == ""
