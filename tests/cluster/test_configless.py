"""Hosts without a slurm.conf: their clients are given it by slurmctld, which SLURM_CONF_SERVER names."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.patience import HANG_S

from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

CONFIGLESS = ClusterDefinition(groups=(NodeGroup(count=1),), settings={"SlurmctldParameters": "enable_configless"})
#: Without slurm.conf a command believes that munged is at its usual place: it is put there, and a slurm.conf of this
#: host hidden, in a space of mounts that ends with the shell.
ELSEWHERE = """
set -e
[ ! -d /etc/slurm ] || mount -t tmpfs tmpfs /etc/slurm
mount -t tmpfs tmpfs /run
mkdir /run/munge
ln -s "$1" /run/munge/munge.socket.2
shift
exec "$@"
"""
NODES = """
from tesched_slurm.client_choice import ClientChoice
from tesched_slurm.clients import choose
from tesched_slurm.run_command import Commands
print(*choose(ClientChoice("{client}"), Commands(timeout_s=10)).observer.observe().nodes)
"""


def test_slurm_is_seen_where_slurmctld_gives_the_configuration(
    make_cluster: MakeCluster, client_choice: ClientChoice
) -> None:
    cluster = make_cluster(CONFIGLESS)
    conf = dict(re.findall(r"^(\w+)=(.*)$", cluster.slurm_conf.read_text(), re.MULTILINE))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    server = f"{conf['SlurmctldHost'].partition('(')[0]}:{conf['SlurmctldPort']}"
    munged = str(cluster.folder / "run" / "munge.sock")
    poll = (sys.executable, "-c", NODES.format(client=client_choice))
    seen = subprocess.run(
        ("unshare", "--mount", "sh", "-c", ELSEWHERE, "sh", munged, *poll),
        env=environment | {"SLURM_CONF_SERVER": server},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert (seen.stdout, seen.stderr) == ("n1\n", "")
