"""The store is restored from a copy of a while ago: what has happened since is not done a second time."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon

from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

WHOLE = ("--exclusive", "-N1")
#: A job that notes each notice, ends with status 0 once it may, and so has finished.
VICTIM = "trap 'echo x >> {notices}; until test -e {go}; do sleep 0.1; done; exit 0' USR1; while :; do sleep 0.2; done"


def copied(store: Path, copy: Path) -> None:
    """Copy a SQLite store in use, as `sqlite3 FILE '.backup COPY'` does."""
    with closing(sqlite3.connect(store)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)


@pytest.mark.gate
def test_an_order_that_is_under_way_in_the_copy_and_long_over_is_not_carried_out_again(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),)))
    notices, go, end = (cluster.shared / name for name in ("notices", "go", "end"))
    store, copy = tmp_path / "tesched.sqlite", tmp_path / "copy.sqlite"
    script = VICTIM.format(notices=notices, go=go)
    victim = cluster.sbatch(*WHOLE, "--requeue", "--comment=signal=B:USR1 grace=86400", wrap=script)
    cluster.wait_state(victim, "RUNNING")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        trial = cluster.sbatch(*WHOLE, "--job-name=te", "--time=10", wrap=f"until test -e {end}; do sleep 0.1; done")
        cluster.wait_for(notices.exists, "the notice")
        daemon.await_polls(cluster)
        copied(store, copy)
        go.touch()
        cluster.wait_state(trial, "RUNNING")
        cluster.wait_for(lambda: cluster.job(trial)["Nice"] == "0", "its nice value to be put back")
    for name in (store.name, f"{store.name}-wal", f"{store.name}-shm"):
        store.with_name(name).unlink(missing_ok=True)
    copy.rename(store)
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        cluster.wait_for(lambda: not daemon.json("status")["orders"], "the order to be known as over")
        daemon.await_polls(cluster)
        assert notices.read_text() == "x\n"
        assert (cluster.state(victim), cluster.job(victim)["Restarts"]) == ("COMPLETED", "0")
        assert (cluster.state(trial), cluster.job(trial)["Nice"]) == ("RUNNING", "0")
        end.touch()
        cluster.wait_state(trial, "COMPLETED")
