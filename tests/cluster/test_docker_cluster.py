"""The Docker cluster is a real Slurm with nodes, users, accounting and PostgreSQL of its own, and goes away whole."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tesched_sim.traces import read
from tesched_testcluster import docker
from tesched_testcluster.cluster import ClusterError
from tesched_testcluster.docker import SHARED, DockerCluster
from tesched_testcluster.docker_image import run_in_image
from tesched_testcluster.docker_service import docker_definition
from tesched_testcluster.load import HOLD, LoadJob
from tesched_testcluster.registry import UnknownClusterError
from tesched_testcluster.stage import DockerStage

pytestmark = pytest.mark.docker

#: nodes of the cluster that these tests share; each test breaks another one
NODES = 3
#: seconds after which a command hangs, on any machine
LONGEST_S = 1800

#: what is tried on a live cluster by pyslurm, inside the image
PYSLURM = """
import os
from tesched_testcluster.local import LocalCluster

with LocalCluster() as cluster:
    os.environ["SLURM_CONF"] = str(cluster.slurm_conf)  # without it pyslurm ends the process when it is imported
    import pyslurm

    job_id = cluster.sbatch("--gres=gpu:2", "--requeue", wrap="sleep 600")
    held = cluster.sbatch("--hold", wrap="true")
    cluster.wait_state(job_id, "RUNNING")
    cluster.create_reservation("maintenance", nodes="n8", flags="maint")
    jobs = pyslurm.Jobs.load()
    assert set(jobs) == {job_id, held}, jobs
    assert jobs[job_id].state == "RUNNING"
    assert jobs[job_id].gres_per_node == {"gres/gpu": 2}
    assert len(pyslurm.Nodes.load()) == 8
    assert set(pyslurm.Partitions.load()) == {"main", "debug"}
    assert set(pyslurm.Reservations.load()) == {"maintenance"}
    job = pyslurm.Job(job_id)
    job.suspend()
    assert cluster.state(job_id) == "SUSPENDED"
    job.unsuspend()
    assert cluster.state(job_id) == "RUNNING"
    waiting = cluster.sbatch("--begin=now+1hour", wrap="true")
    before = pyslurm.Job.load(waiting).priority
    pyslurm.Job(waiting).modify(pyslurm.JobSubmitDescription(nice=50))
    assert pyslurm.Job.load(waiting).priority == before - 50
    pyslurm.Job(waiting).modify(pyslurm.JobSubmitDescription(priority=77))
    assert cluster.job(waiting)["Priority"] == "77"
    job.requeue()
    assert cluster.job(job_id)["Restarts"] == "1"
    cluster.wait_state(job_id, "RUNNING")
    try:
        pyslurm.Job(99999).requeue()
    except pyslurm.RPCError as error:
        assert str(error) == "Invalid job id specified", error
    else:
        raise AssertionError("an unknown job was requeued")
"""


@pytest.fixture(scope="module")
def module_cluster() -> Iterator[DockerCluster]:
    """Give the cluster that the tests of this file share. Tests take `cluster`, which is the same one, clean."""
    with DockerCluster(docker_definition(NODES)) as cluster:
        yield cluster


@pytest.fixture
def cluster(module_cluster: DockerCluster) -> DockerCluster:
    """Give a cluster of idle nodes without jobs, whatever the test before did to it."""
    module_cluster.reset()
    return module_cluster


def run_job(cluster: DockerCluster, *options: str, user: str = "alice") -> int:
    """Submit a long job and wait until it runs."""
    job_id = cluster.sbatch("--requeue", *options, wrap="sleep 600", user=user)
    cluster.wait_state(job_id, "RUNNING")
    return job_id


def test_every_node_is_a_container_with_its_own_name_and_the_gpus_of_the_definition(cluster: DockerCluster) -> None:
    assert cluster.node_states() == {"n1": "idle", "n2": "idle", "n3": "idle"}
    assert cluster.exec("n2", "hostname").stdout == "n2\n"
    node = cluster.node("n2")
    assert (node["CPUTot"], node["RealMemory"], node["Gres"]) == ("32", "256000", "gpu:8")


def test_a_job_of_an_ordinary_user_runs_on_a_node_and_is_accounted(cluster: DockerCluster) -> None:
    job_id = cluster.sbatch(
        "--qos=te", "--gres=gpu:2", "--nodelist=n2", "--output=out", wrap="hostname; id -un; env", user="alice"
    )
    cluster.wait_state(job_id, "COMPLETED")
    out = cluster.exec("n1", "cat", "out").stdout.splitlines()
    assert out[:2] == ["n2", "alice"]
    assert "CUDA_VISIBLE_DEVICES=0,1" in out

    def accounted() -> bool:
        said = cluster.run("sacct", "-nPX", "-j", str(job_id), "-o", "user,account,qos,state,nodelist").stdout
        return said == "alice|research|te|COMPLETED|n2\n"

    cluster.wait_for(accounted, f"sacct to know job {job_id}")


def test_a_job_that_needs_its_environment_made_by_slurmd_runs(cluster: DockerCluster) -> None:
    job_id = cluster.sbatch("--export=NONE", wrap="true", user="bob")
    cluster.wait_state(job_id, "COMPLETED")


def test_an_operator_requeues_anybodys_job_and_an_ordinary_user_does_not(cluster: DockerCluster) -> None:
    job_id = run_job(cluster)
    with pytest.raises(ClusterError, match="Access/permission denied"):
        cluster.run("scontrol", "requeue", str(job_id), user="bob")
    assert cluster.job(job_id)["Restarts"] == "0"
    cluster.run("scontrol", "requeue", str(job_id), user="tesched")
    assert cluster.job(job_id)["Restarts"] == "1"
    cluster.wait_state(job_id, "RUNNING")


def test_qos_and_users_are_those_of_the_definition(cluster: DockerCluster) -> None:
    qos = cluster.run("sacctmgr", "-nP", "list", "qos", "format=name,priority").stdout.splitlines()
    assert {"be|0", "te|100"} <= set(qos)
    users = cluster.run("sacctmgr", "-nP", "list", "user", "format=user,adminlevel", user="alice").stdout.splitlines()
    assert {"tesched|Operator", "alice|None", "bob|None"} <= set(users)


def test_tesched_as_an_operator_preempts_any_users_job_and_remembers_it_in_postgresql(
    cluster: DockerCluster,
) -> None:
    stage = DockerStage(cluster=cluster)
    # None frees resources by its own end, however long a busy machine takes to start the daemon.
    hold = f"{SHARED}/{HOLD.format(kind='be')}"
    cluster.exec("slurmctld", "touch", hold)
    victims = [
        stage.submit(LoadJob(name=f"be-{number}", kind="be", cpus=8, gpus=8, ticks=20)) for number in range(NODES)
    ]
    for job_id in victims:
        cluster.wait_state(job_id, "RUNNING")
    with stage.daemon():
        te = cluster.sbatch("--qos=te", "--gres=gpu:2", "--mem=1000M", wrap="sleep 5", user="bob")
        cluster.wait_state(te, "RUNNING")
        (order,) = json.loads(stage.tesched("orders", "--json"))["orders"]
        (paid,) = order["order"]["victims"]
        assert paid["job_id"] in victims
        assert cluster.job(paid["job_id"])["Restarts"] == "1"
        assert "trial and error (TE)" in stage.tesched("explain", str(te))
        cluster.exec("slurmctld", "rm", hold)
        cluster.wait_state(paid["job_id"], "COMPLETED")
        cluster.wait_for(lambda: "no order is under way" in stage.tesched("status"), "the order to end")
        assert {cluster.job(job_id)["Nice"] for job_id in [*victims, te]} == {"0"}


def test_sacct_s_output_is_a_workload_for_the_simulator(cluster: DockerCluster, tmp_path: Path) -> None:
    options = ("--gres=gpu:2", "--mem=3000M", "--cpus-per-task=4", "--time=7", "--nodes=2", "--ntasks=2")
    job_id = cluster.sbatch(*options, wrap="sleep 2", user="alice")
    cluster.wait_state(job_id, "COMPLETED")
    columns = "JobID,User,Submit,Start,End,ElapsedRaw,TimelimitRaw,NNodes,NCPUS,ReqMem,AllocTRES,State"

    def history() -> str:
        span = ("--starttime", "now-1days", "--endtime", "now")
        which = ("--allusers", "--allocations", "-j", str(job_id), "--state", "CD,F,TO,CA,NF,PR,OOM,DL,BF,R,S")
        said = cluster.run("sacct", *span, *which, "--parsable2", "--format", columns).stdout
        return said if "COMPLETED" in said else ""

    path = tmp_path / "history.txt"
    path.write_text(cluster.wait_for(history, "sacct to know that the job has ended"))
    found = read(path)
    assert (found.nodes.tolist(), found.cpus.tolist(), found.gpus.tolist()) == ([2], [8], [4])
    assert (found.mem_mib.tolist(), found.limit_s.tolist(), found.users) == ([6000], [420], ("alice",))
    assert found.run_s[0] >= 2


def test_a_killed_node_is_down_and_comes_back_with_its_job(cluster: DockerCluster) -> None:
    job_id = run_job(cluster, "--nodelist=n1")
    cluster.kill_node("n1")
    assert cluster.node_states()["n1"].startswith("down")
    cluster.wait_state(job_id, "PENDING")
    cluster.revive_node("n1")
    fields = cluster.wait_state(job_id, "RUNNING")
    assert (fields["NodeList"], fields["Restarts"]) == ("n1", "1")


def test_a_node_without_network_is_missed_and_comes_back(cluster: DockerCluster) -> None:
    job_id = run_job(cluster, "--nodelist=n3")
    cluster.cut_network("n3")
    cluster.wait_for(lambda: cluster.node_states()["n3"] == "down*", "n3 to be missed")
    assert set(cluster.node_states().values()) == {"idle", "down*"}
    cluster.wait_state(job_id, "PENDING")
    cluster.restore_network("n3")
    fields = cluster.wait_state(job_id, "RUNNING")
    assert (fields["NodeList"], fields["Restarts"]) == ("n3", "1")


def test_slurmctld_stops_and_starts_and_still_knows_its_jobs(cluster: DockerCluster) -> None:
    job_id = run_job(cluster)
    cluster.stop_slurmctld()
    assert not cluster.is_answering()
    cluster.start_slurmctld()
    assert cluster.state(job_id) == "RUNNING"
    # The nodes find it again by themselves.
    cluster.wait_state(cluster.sbatch(wrap="true", user="bob"), "COMPLETED")


def test_postgresql_takes_tesched_with_its_password_and_no_client_without(cluster: DockerCluster) -> None:
    address = "host=postgresql user=tesched dbname=tesched"
    query = f"import psycopg; print(psycopg.connect('{address}' + PASSWORD).execute('select 1').fetchone())"
    password = cluster.exec("postgresql", "cat", "/etc/slurm/postgresql.password").stdout

    def ask(password: str) -> subprocess.CompletedProcess[str]:
        return cluster.exec("slurmctld", "python", "-c", f"PASSWORD = {password!r}; {query}")

    assert ask(f" password={password}").stdout == "(1,)\n"
    assert "no password supplied" in ask("").stderr
    cluster.restart_postgresql()
    assert ask(f" password={password}").stdout == "(1,)\n"


def test_secrets_belong_to_root(cluster: DockerCluster) -> None:
    for secret in ("munge.key", "slurmdbd.conf", "mariadb.password", "postgresql.password"):
        assert cluster.exec("n1", "cat", f"/etc/slurm/{secret}", user="alice").returncode == 1


def test_a_command_that_hangs_is_ended_and_named(cluster: DockerCluster) -> None:
    with pytest.raises(ClusterError, match=r"sleep 60 took longer than 0\.5 s"):
        cluster.run("sleep", "60", timeout_s=0.5)


def test_another_process_attaches_to_a_cluster(cluster: DockerCluster) -> None:
    other = DockerCluster.attach(cluster.name)
    assert other.definition == cluster.definition
    assert other.is_answering()
    with pytest.raises(UnknownClusterError):
        DockerCluster.attach("none-such")


def test_the_command_line_starts_a_cluster_and_ends_it_and_leaves_nothing() -> None:
    name = f"cli{os.getpid()}"

    def tesched_testcluster(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tesched_testcluster", "docker", *args],
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )

    up = tesched_testcluster("up", "--name", name, "--nodes", "1")
    try:
        assert (up.returncode, up.stderr) == (0, "")
        cluster = DockerCluster.attach(name)
        assert cluster.node_states() == {"n1": "idle"}
        again = tesched_testcluster("up", "--name", name)
        assert again.returncode == 1
        assert "exists already" in again.stderr
    finally:
        down = tesched_testcluster("down", name)
    assert (down.returncode, down.stdout) == (0, f"{name} is down\n")
    assert DockerCluster(name=name).leftovers() == []
    assert name not in docker.names()
    unknown = tesched_testcluster("down", name)
    assert unknown.returncode == 2
    assert "no Docker cluster is named" in unknown.stderr


def test_a_failed_start_says_why_and_leaves_nothing() -> None:
    cluster = DockerCluster(replace(docker_definition(1), extra_lines=("PartitionName=odd Nodes=none-such",)))
    with pytest.raises(ClusterError, match=r"did not start.*fatal: Invalid node names in partition odd"):
        cluster.up()
    assert cluster.leftovers() == []


def test_a_missing_image_is_named() -> None:
    cluster = DockerCluster(image="tesched-none-such:0")
    with pytest.raises(ClusterError, match="there is no image tesched-none-such:0"):
        cluster.up()
    assert cluster.leftovers() == []


def test_pyslurm_reads_and_moves_a_live_cluster_inside_the_image() -> None:
    assert run_in_image("python", "-c", PYSLURM, timeout_s=LONGEST_S) == 0
