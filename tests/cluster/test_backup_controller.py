"""A backup slurmctld takes over: what tesched sees of it, and that it leaves no hold of its own behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.backup_controller import with_backup
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import Daemon, daemon_of, write_config
from tesched_testcluster.harness.slurm_clients import Connect
from tesched_testcluster.local import LocalCluster

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

TIMEOUT_S = 3
ONE_NODE = with_backup(ClusterDefinition(groups=(NodeGroup(count=1),)), timeout_s=TIMEOUT_S)
WHOLE = ("--exclusive", "-N1")
#: A site's policy that holds each job of this name while its file is there.
POLICY = """
from dataclasses import dataclass
from pathlib import Path
from tesched_core.policy import HoldJob, Policy, Proposal

@dataclass(frozen=True, kw_only=True)
class Holds(Policy[None]):
    name = "holds"

    def propose(self, view, state):
        if not Path("{file}").exists():
            return Proposal()
        held = [job.job_id for job in view.snapshot.jobs.values() if job.name == "be-held"]
        return Proposal(intents=tuple(HoldJob(job_id=one, why="a test") for one in held))
"""


@pytest.fixture(name="holds")
def fixture_holds(tmp_path: Path) -> Path:
    """Install the policy where this test's programs find it, and return its file."""
    folder, file = tmp_path / "installed", tmp_path / "hold"
    about = folder / "holds-1.dist-info"
    about.mkdir(parents=True)
    (folder / "holds.py").write_text(POLICY.format(file=file))
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: holds\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[tesched.policies]\nholds = holds:Holds\n")
    file.touch()
    return file


@contextmanager
def running(cluster: LocalCluster, folder: Path, client: ClientChoice, holds: Path) -> Iterator[Daemon]:
    """Run a daemon with that policy; this process, which reads the store, does not have it."""
    config, readers = write_config(cluster, folder, client, policy="fitgpp+holds"), folder / "reader.toml"
    readers.write_text(config.read_text().replace('"holds"', '"none"'))
    with daemon_of(cluster, config, {"PYTHONPATH": str(holds.with_name("installed"))}) as daemon:
        yield replace(daemon, config=readers)


def site(make_cluster: MakeCluster) -> LocalCluster:
    cluster = make_cluster(ONE_NODE)
    cluster.start_backup()
    cluster.wait_state(cluster.sbatch(*WHOLE, "--no-requeue", wrap="sleep 1000"), "RUNNING")
    return cluster


def is_held(cluster: LocalCluster, job: int) -> bool:
    return cluster.job(job)["Priority"] == "0"


def answers_again(cluster: LocalCluster) -> bool:
    return cluster.run("squeue", check=False).returncode == 0


@pytest.mark.gate
def test_a_hold_that_comes_back_as_a_backup_takes_over_is_released_again(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, holds: Path
) -> None:
    cluster = site(make_cluster)
    job = cluster.sbatch(*WHOLE, "--job-name=be-held", wrap="sleep 1000")
    with running(cluster, tmp_path, one_client, holds) as daemon:
        cluster.wait_for(lambda: is_held(cluster, job), "the hold")
        with_hold = cluster.written_state(job)
        holds.unlink()
        cluster.wait_for(lambda: not is_held(cluster, job), "the release")
        daemon.await_polls(cluster)
        before = released(daemon)
        cluster.kill_slurmctld(with_hold)
        cluster.wait_for(lambda: answers_again(cluster), "the backup to take over")
        cluster.wait_for(lambda: released(daemon) > before, "the hold that came back to be released")
        cluster.wait_for(lambda: not is_held(cluster, job), "the job to be free again")
        daemon.await_polls(cluster)
        assert not is_held(cluster, job)
        # It says nothing untrue of a cluster that its backup leads.
        assert daemon.ask("status").returncode == 0


def released(daemon: Daemon) -> int:
    return daemon.log.read_text().count("release")


@pytest.mark.gate
def test_an_admins_hold_stays_as_a_backup_takes_over(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, holds: Path
) -> None:
    cluster = site(make_cluster)
    job = cluster.sbatch(*WHOLE, "--job-name=be-held", wrap="sleep 1000")
    with running(cluster, tmp_path, one_client, holds) as daemon:
        cluster.wait_for(lambda: is_held(cluster, job), "the hold")
        holds.unlink()
        cluster.wait_for(lambda: not is_held(cluster, job), "the release")
        daemon.await_polls(cluster)
        cluster.run("scontrol", "takeover")
        cluster.wait_for(lambda: answers_again(cluster), "the backup to take over")
        daemon.await_polls(cluster)
        # The primary one has written its state as it ended in good order.
        assert not is_held(cluster, job)
        cluster.run("scontrol", "hold", str(job))
        daemon.await_polls(cluster, more=4)
        assert is_held(cluster, job)


def test_no_node_is_unknown_then_and_the_change_is_seen_all_the_same(
    make_cluster: MakeCluster, connect: Connect
) -> None:
    """By the clients that can run here: while it was awaited, some questions had no answer."""
    cluster = site(make_cluster)
    client = connect(cluster)

    def seen() -> Snapshot | None:
        found = client.observer.observe()
        return found if isinstance(found, Snapshot) else None

    first = seen()
    assert first is not None
    assert not first.controller_is_new
    # Without that file a backup shows each node as UNKNOWN.
    cluster.wait_for((cluster.folder / "state" / "node_state").exists, "the nodes' states to be written")
    cluster.kill_slurmctld()
    taken = cluster.wait_for(seen, "the backup's first answer")
    assert taken is not None
    assert {node.state for node in taken.nodes.values()} <= {"IDLE", "MIXED", "ALLOCATED"}
    assert taken.controller_is_new
    cluster.wait_for(lambda: not (seen() or taken).controller_is_new, "its nodes to report")
    cluster.start_slurmctld()
    cluster.wait_for(lambda: (seen() or first).controller_is_new, "the primary one to be seen in its place")
