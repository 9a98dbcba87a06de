"""Jobs as strangers write them, beside a daemon with the shipped defaults: each is preempted, comes back, ends once.

The jobs are those of `tesched_testcluster.kinds`; each has a node of its own, and a trial-and-error job asks for it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tesched_daemon.submission.survival import Survival
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import run_tesched, running_daemon
from tesched_testcluster.kinds import ARRAY, CLIENTS, NEVER, SCRIPTS, Kind
from tesched_testcluster.kinds_stage import KindsOnStage, Outcome
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.patience import HANG_S

from tests.cluster.conftest import MakeCluster
from tests.unit.cli.checking import AGREES

pytestmark = [pytest.mark.slurm, pytest.mark.release]


def definition(*kinds: Kind, kill_wait_s: int = 2) -> ClusterDefinition:
    """Return a cluster with a node for each job, one for what waits, and one more."""
    nodes = sum(len(kind.parts) for kind in kinds) + 2
    return ClusterDefinition(name="kinds", groups=(NodeGroup(count=nodes, cpus=4),), kill_wait_s=kill_wait_s)


def give_time(folder: Path) -> None:
    """Write a drop-in with a grace period in which any machine saves; a job that says seconds of its own has those."""
    (folder / "conf.d").mkdir()
    (folder / "conf.d" / "grace.toml").write_text("[classes]\ndefault_grace_period_s = 600\n")


def foretold(outcome: Outcome, cluster: LocalCluster, folder: Path) -> bool:
    """Return whether `tesched check` had said so of a batch job; a client's script is not checked."""
    kind = outcome.kind
    if kind.how != "batch":
        return True
    script = folder / f"{kind.name}.sh"
    script.write_text(kind.script)
    said = run_tesched("check", "--json", *kind.options, str(script), SLURM_CONF=str(cluster.slurm_conf))
    verdict = Survival(json.loads(said.stdout)["verdict"])
    return all(verdict in AGREES[ending] for ending in outcome.happened.values())


def test_every_kind_of_script_comes_back_and_ends_once(
    make_cluster: MakeCluster, tmp_path: Path, client_choice: ClientChoice
) -> None:
    kinds = (*SCRIPTS, *NEVER, ARRAY)
    # Those that save on SIGTERM may take as long as they need.
    cluster = make_cluster(definition(*kinds, kill_wait_s=round(HANG_S)))
    give_time(tmp_path)
    with KindsOnStage(cluster, kinds) as stage:
        waits = f"--dependency=afterok:{stage.jobs('dies')[0]}"
        dependent = cluster.sbatch("-N1", "--mem=10", waits, wrap="true")
        stage.await_begun()
        with running_daemon(cluster, tmp_path, client_choice) as daemon:
            stage.preempt()
            stage.await_end()
            cluster.wait_state(dependent, "COMPLETED")
            cluster.wait_for(lambda: not daemon.json("status")["orders"], "the orders to end")
            outcomes = stage.outcomes(lambda job: daemon.ask("explain", job).stdout)
            tally = daemon.json("status")["tally"]
        assert [outcome.wrong for outcome in outcomes if outcome.wrong] == []
        assert [outcome.kind.name for outcome in outcomes if not foretold(outcome, cluster, tmp_path)] == []
        assert not (stage.folder / "trapped").exists()
        assert {cluster.state(te) for kind in NEVER for te in stage.trials(kind.name)} == {"PENDING"}
        assert (tally["lost"], tally["futile"], tally["died_of_notice"]) == (0, 0, 1)


@pytest.mark.parametrize("kind", CLIENTS, ids=lambda kind: kind.name)
def test_clients_run_again_unchanged(
    kind: Kind, make_cluster: MakeCluster, tmp_path: Path, client_choice: ClientChoice
) -> None:
    """The script of submitit says `--signal=USR2@90` and starts the function by srun; dask-jobqueue's says nothing."""
    cluster = make_cluster(definition(kind))
    give_time(tmp_path)
    with KindsOnStage(cluster, (kind,)) as stage:
        stage.await_begun()
        with running_daemon(cluster, tmp_path, client_choice) as daemon:
            stage.preempt()
            stage.await_end()
            (outcome,) = stage.outcomes(lambda job: daemon.ask("explain", job).stdout)
        assert outcome.wrong == ""
