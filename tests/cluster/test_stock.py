"""Ordinary scripts on a cluster as sites have it: stock intervals of slurm.conf, slurmdbd, limits enforced.

Here a requeued job is not eligible for two minutes, so this takes some three.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import stock_definition
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.load import HOLD, EventName, LoadJob, read_events, submit
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

NODES = 4
LAB = ("--account=lab",)
#: it lives until KillWait is over
STUBBORN = """
trap '' TERM
echo begun >>stubborn
for _ in $(seq 600); do
    [ -n "$SLURM_RESTART_COUNT" ] && exit
    sleep 1
done
"""


def trial(cluster: LocalCluster, number: int, options: tuple[str, ...]) -> int:
    """Submit a trial-and-error job that takes a whole node."""
    return submit(cluster, LoadJob(name=f"te-{number}", kind="te", gpus=8, ticks=20, options=options), cluster.shared)


def test_a_full_cluster_of_ordinary_scripts_frees_resources_and_each_script_ends_once(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(stock_definition(NODES))
    config = cluster.run("scontrol", "show", "config").stdout
    for key, value in (("KillWait", "30 sec"), ("MinJobAge", "300 sec"), ("AccountingStorageEnforce", "associations")):
        assert any(line.startswith(key) and value in line for line in config.splitlines()), key
    # No job's end frees resources before the test lets it.
    holds = [cluster.shared / HOLD.format(kind=kind) for kind in ("be", "te")]
    for hold in holds:
        hold.touch()
    ordinary = [
        submit(cluster, LoadJob(name=f"be-{number}", kind="be", cpus=8, gpus=8, ticks=50, options=LAB), cluster.shared)
        for number in range(NODES - 1)
    ]
    options = (*LAB, "--job-name=be-stubborn", "--gres=gpu:8", "--mem=1000M", "--output=/dev/null")
    stubborn = cluster.sbatch(*options, wrap=STUBBORN)
    for job_id in (*ordinary, stubborn):
        cluster.wait_state(job_id, "RUNNING")
    cluster.wait_for((cluster.shared / "stubborn").exists, "its first word")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        # The first, on the stubborn one's node, waits for its KillWait; two more need a node each.
        there = (*LAB, f"--nodelist={cluster.job(stubborn)['NodeList']}")
        trials = [trial(cluster, 0, there)]
        # Else one of the others might ask for that node.
        cluster.wait_for(lambda: daemon.json("status")["orders"], "resources to be freed")
        trials += [trial(cluster, number, LAB) for number in (1, 2)]
        for job_id in trials:
            cluster.wait_state(job_id, "RUNNING")
        for hold in holds:
            hold.unlink()
        for job_id in (*trials, *ordinary, stubborn):
            cluster.wait_state(job_id, "COMPLETED", timeout_s=300)
        cluster.wait_for(lambda: not daemon.json("status")["orders"], "the orders to end")
        tally = daemon.json("status")["tally"]
        assert (tally["lost"], tally["futile"]) == (0, 0)
    put_back = cluster.put_back()
    assert stubborn in put_back
    assert len(put_back) == len(set(put_back)) == len(trials), "one victim for each, and none twice"
    done = Counter(event.job_id for event in read_events(cluster.shared) if event.name is EventName.DONE)
    assert done == Counter((*trials, *ordinary)), "each ran to its end once"
    assert (cluster.shared / "stubborn").read_text().split() == ["begun", "begun"]
    assert {cluster.job(job_id)["Nice"] for job_id in (*trials, *ordinary, stubborn)} == {"0"}
