"""Limits that can't be read are reported, and the daemon goes on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import Account, Accounting, ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import daemon_of, write_config
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

#: what stands in for scontrol and sacctmgr: scontrol answers by a file of its own, sacctmgr not at all
REFUSED = 'case "$*" in *assoc_mgr*) echo "error: Access/permission denied" >&2; exit 1;; *) exec {real} "$@";; esac'
SILENT = "exec sleep 100"


@pytest.mark.gate
def test_limits_that_can_not_be_read_are_shown_and_the_daemon_goes_on(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    user = ordinary_user()
    accounting = Accounting(accounts=(Account(name="lab", users=("root", user)),))
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1),), accounting=accounting))
    whole = ("-c32", "--mem=100", "--output=/dev/null", "--time=60")
    victim = cluster.sbatch("--job-name=be", *whole, wrap="sleep 1000", user=user)
    cluster.wait_state(victim, "RUNNING")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, script in (("scontrol", REFUSED.format(real=shutil.which("scontrol"))), ("sacctmgr", SILENT)):
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    config = write_config(cluster, tmp_path, one_client)
    with daemon_of(cluster, config, {"PATH": f"{programs}:{os.environ['PATH']}"}) as daemon:
        cluster.wait_for(lambda: len(daemon.json("status")["daemon"]["limits_unread"]) == 2, "both to be shown")
        limits, flags = daemon.json("status")["daemon"]["limits_unread"]
        assert (limits["kind"], limits["kept"], flags["kind"]) == ("limits", False, "qos_flags")
        assert "denied" in limits["said"]
        assert limits["since"] > 0
        cluster.wait_for(lambda: daemon.json("status")["daemon"]["seen_at"] > limits["since"], "a later poll")
        shown = daemon.ask("status")
        assert shown.returncode == 0
        assert "LIMITS" in shown.stdout
        assert "a job that a limit would keep waiting for ever may be a victim" in " ".join(shown.stdout.split())
        assert "limits of accounts, users and QOS" in " ".join(daemon.ask("doctor").stdout.split())
        trial = cluster.sbatch("--job-name=te", *whole, wrap="sleep 1000", user=user)
        cluster.wait_state(trial, "RUNNING")
    with daemon_of(cluster, config) as daemon:
        daemon.await_polls(cluster)
        assert daemon.json("status")["daemon"]["limits_unread"] == []
        assert "LIMITS" not in daemon.ask("status").stdout
