"""`tesched ask` and `tesched check` on each kind of script that people submit, and the same script submitted then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tesched_daemon.submission.survival import Survival
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.kinds import ARRAY, CLIENTS, NEVER, SCRIPTS, TORCH, Kind
from tesched_testcluster.kinds_stage import KindsOnStage

from tests.cluster.conftest import MakeCluster
from tests.cluster.gate import gated
from tests.unit.cli.checking import AGREES

pytestmark = pytest.mark.slurm

BATCH = {kind.name: kind for kind in (*SCRIPTS, *NEVER, ARRAY, *TORCH) if kind.how == "batch"}
ONE_NODE = ClusterDefinition(groups=(NodeGroup(count=1, cpus=4),))
ALONE = ("--exclusive", "--mem=100")


@pytest.mark.parametrize("name", gated(BATCH, "plain"))
def test_a_kind_of_script_starts_or_waits_as_foretold(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, name: str
) -> None:
    kind = BATCH[name]
    cluster = make_cluster(ONE_NODE)
    # The script names the job, and jobs named te* are TE jobs here.
    script = tmp_path / f"be-{name}.sh"
    script.write_text(kind.script)
    words = (*ALONE, "--output=/dev/null", *kind.options, str(script))
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        free = daemon.ask("ask", "--json", *words)
        assert free.returncode == 0, free
        foretold = json.loads(free.stdout)["foretold"]
        assert (foretold["job_class"], foretold["rule"]) == ("be", "default")
        assert foretold["verdict"] == "starts at once, on free resources"
        assert foretold["notes"] == []
        # The work is not what matters here: it only has to hold the node.
        holder = cluster.sbatch("--job-name=be", "--no-requeue", *ALONE, wrap="exec sleep 1000")
        cluster.wait_state(holder, "RUNNING")
        daemon.await_polls(cluster)
        full = daemon.ask("ask", "--json", *words)
        assert (full.returncode, json.loads(full.stdout)["foretold"]["verdict"]) == (1, "waits")
        te = daemon.ask("ask", "--json", "--job-name=te", *words)
        foretold = json.loads(te.stdout)["foretold"]
        assert (te.returncode, foretold["job_class"]) == (1, "te")
        assert {one["code"] for one in foretold["candidates"]} == {"not_requeueable"}
        job = cluster.sbatch(*words[:-1], script=script)
        daemon.await_polls(cluster)
        assert cluster.state(job) == "PENDING"
        cluster.run("scancel", str(holder))
        cluster.wait_for(lambda: any(one["JobState"] != "PENDING" for one in cluster.jobs(job)), "it to start")
        said = daemon.ask("check", "--json", *words)
        verdict = Survival(json.loads(said.stdout)["verdict"])
        assert any(verdict in AGREES[ending] for ending in kind.parts.values() if ending in AGREES)


@pytest.mark.parametrize("kind", [one for one in CLIENTS if not one.torch], ids=lambda kind: kind.name)
def test_scripts_that_clients_write_are_read(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, kind: Kind
) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=len(kind.parts) + 2, cpus=4),)))
    with KindsOnStage(cluster, (kind,)) as stage:
        stage.await_begun()
        job = stage.jobs(kind.name)[0]
        script = tmp_path / "written.sh"
        cluster.run("scontrol", "write", "batch_script", job.partition("_")[0], str(script))
        with running_daemon(cluster, tmp_path, one_client) as daemon:
            asked = daemon.ask("ask", "--json", "--nodes=1", str(script))
            assert asked.returncode == 0, asked
            foretold = json.loads(asked.stdout)["foretold"]
            assert (foretold["job_class"], foretold["notes"]) == ("be", [])
            checked = daemon.ask("check", "--json", str(script))
            verdict = Survival(json.loads(checked.stdout)["verdict"])
            assert any(verdict in AGREES[ending] for ending in kind.parts.values() if ending in AGREES)
