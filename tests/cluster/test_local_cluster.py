"""The local test cluster is a real Slurm that comes up whole and goes away whole."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tesched_testcluster import processes, registry
from tesched_testcluster.cluster import ClusterError, WaitTimeoutError
from tesched_testcluster.definition import ClusterDefinition, NodeGroup, PartitionDefinition
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.patience import HANG_S, slowness

pytestmark = pytest.mark.slurm

MakeCluster = Callable[[ClusterDefinition | None], LocalCluster]

SMALL = ClusterDefinition(groups=(NodeGroup(count=2),))


def nothing_left(cluster: LocalCluster) -> bool:
    """Return whether neither a process nor a file of a cluster is there."""
    return not cluster.folder.exists() and processes.find_processes(cluster.folder) == ()


def assert_no_start(cluster: LocalCluster, message: str, *, timeout_s: float | None = None) -> None:
    """Assert that the start fails with this message and leaves nothing; a cluster that starts all the same is ended."""
    try:
        with pytest.raises(ClusterError, match=message):
            cluster.up(timeout_s=timeout_s)
        assert nothing_left(cluster)
    finally:
        cluster.down()


def test_what_was_put_back_is_read_past_the_lines_that_a_job_forges(cluster: LocalCluster) -> None:
    forged = cluster.sbatch("--hold", "--comment=x\nJobId=999999 JobName=forged", "--job-name=a b", wrap="sleep 300")
    again = cluster.sbatch("--requeue", wrap="sleep 300")
    cluster.wait_state(again, "RUNNING")
    cluster.run("scontrol", "requeue", str(again))
    # Among these alone: the cluster still knows the jobs of earlier tests, and some of them were put back, too.
    cluster.wait_for(lambda: cluster.put_back({forged, again, 999999}) == [again], "the job that was put back")


@pytest.mark.gate
def test_comes_up_with_every_node_idle_and_as_large_as_defined(cluster: LocalCluster) -> None:
    assert cluster.node_states() == {f"n{number}": "idle" for number in range(1, 9)}
    node = cluster.node("n8")
    assert (node["CPUTot"], node["RealMemory"], node["Gres"]) == ("32", "256000", "gpu:8")


def test_settings_of_the_definition_are_slurms_own(cluster: LocalCluster) -> None:
    said = cluster.run("scontrol", "show", "config").stdout
    config = {name.strip(): value.strip() for name, _, value in (line.partition("=") for line in said.splitlines())}
    assert config["KillWait"] == "2 sec"
    assert config["MinJobAge"] == "300 sec"
    assert config["RequeueExit"] == "99"
    assert "cred_expire=5" in config["AuthInfo"]


@pytest.mark.parametrize("partition", ["main", "debug"])
def test_a_job_sees_its_gpus(cluster: LocalCluster, partition: str) -> None:
    job_id = cluster.sbatch(f"--partition={partition}", "--gres=gpu:2", "--output=out", wrap="env")
    cluster.wait_state(job_id, "COMPLETED")
    env = (cluster.shared / "out").read_text().splitlines()
    assert "SLURM_GPUS_ON_NODE=2" in env
    # Only root can make the devices from which Slurm sets this.
    assert ("CUDA_VISIBLE_DEVICES=0,1" in env) == (os.geteuid() == 0)


def test_typed_gpus_are_given_by_type(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=1, gres={"gpu:a100": 2, "gpu:v100": 4}),)))
    job_id = cluster.sbatch("--gres=gpu:v100:3", wrap="sleep 60")
    other = cluster.sbatch("--gres=gpu:a100:2", wrap="sleep 60")
    too_many = cluster.sbatch("--gres=gpu:v100:2", wrap="sleep 60")
    cluster.wait_state(job_id, "RUNNING")
    cluster.wait_state(other, "RUNNING")
    cluster.wait_for(lambda: cluster.job(too_many)["Reason"] == "Resources", "the third to find no free resources")


@pytest.mark.gate
def test_down_leaves_no_process_and_no_folder() -> None:
    with LocalCluster(SMALL) as cluster:
        # One that ignores TERM, and one with processes that hide behind an empty environment.
        stubborn = cluster.sbatch(wrap="trap '' TERM; sleep 600 & while :; do wait; done")
        hidden = cluster.sbatch(wrap="env -i sleep 601")
        cluster.wait_state(stubborn, "RUNNING")
        cluster.wait_state(hidden, "RUNNING")
        before = processes.find_processes(cluster.folder)
        assert len(before) > 6
    assert nothing_left(cluster)
    assert [pid for pid in before if is_alive(pid)] == []


def test_down_does_not_need_a_living_slurmctld() -> None:
    with LocalCluster(SMALL) as cluster:
        job_id = cluster.sbatch(wrap="sleep 600")
        cluster.wait_state(job_id, "RUNNING")
        before = processes.find_processes(cluster.folder)
        processes.send(processes.find_processes(cluster.folder, "slurmctld"), signal.SIGKILL)
    assert nothing_left(cluster)
    assert [pid for pid in before if is_alive(pid)] == []


def test_down_twice_is_no_error() -> None:
    cluster = LocalCluster(SMALL)
    cluster.down()
    with cluster:
        cluster.down()
    assert nothing_left(cluster)


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        # slurmctld dies of it
        (ClusterDefinition(settings={"AccountingStorageTRES": "gres/gpu"}), "fatal: slurmdbd is required"),
        # every daemon and client dies of it
        (
            ClusterDefinition(partitions=(PartitionDefinition(name="a", nodes="x9"),)),
            "fatal: Invalid node names in partition a",
        ),
        (ClusterDefinition(settings={"SelectType": "select/none_such"}), "fatal: "),
    ],
)
def test_a_failed_start_quotes_slurms_fatal_line_and_leaves_nothing(
    definition: ClusterDefinition, message: str
) -> None:
    assert_no_start(LocalCluster(definition), message)


def test_a_start_that_takes_too_long_says_so_and_leaves_nothing() -> None:
    # A drained node is never idle, however long a query of it takes.
    drained = replace(SMALL, extra_lines=("DownNodes=n1 State=DRAIN Reason=test",))
    assert_no_start(LocalCluster(drained), "did not start in time", timeout_s=0)


def test_a_host_without_an_address_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "no-such-host.invalid")
    assert_no_start(LocalCluster(SMALL), r"no-such-host\.invalid, has no address; add a line")


def test_a_missing_slurm_is_an_error_that_names_the_script_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tesched_testcluster.local._path", lambda: str(tmp_path))
    assert_no_start(LocalCluster(SMALL), r"slurmctld.*install-slurm\.sh")


def test_two_clusters_side_by_side_do_not_see_each_other(cluster: LocalCluster, make_cluster: MakeCluster) -> None:
    other = make_cluster(SMALL)
    mine = cluster.sbatch("--job-name=mine", wrap="sleep 60")
    cluster.wait_state(mine, "RUNNING")
    assert other.jobs() == []
    theirs = other.sbatch("--job-name=theirs", wrap="sleep 60")
    other.wait_state(theirs, "RUNNING")
    other.down()
    assert cluster.run("squeue", "-h", "-t", "RUNNING", "-o", "%j").stdout.split() == ["mine"]
    assert set(cluster.node_states()) == {f"n{number}" for number in range(1, 9)}


def test_clusters_that_start_at_one_moment_get_ports_of_their_own() -> None:
    clusters = [LocalCluster(SMALL) for _ in range(4)]
    try:
        with ThreadPoolExecutor(len(clusters)) as pool:
            list(pool.map(LocalCluster.up, clusters))
        ports = {registry.read(cluster.name).first_port for cluster in clusters}
        assert len(ports) == len(clusters)
        assert all(set(cluster.node_states().values()) == {"idle"} for cluster in clusters)
    finally:
        for cluster in clusters:
            cluster.down()


def test_the_command_line_starts_a_cluster_that_other_processes_use_and_end() -> None:
    name = f"cli{os.getpid()}"

    def tesched_testcluster(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tesched_testcluster", *args],
            capture_output=True,
            text=True,
            timeout=HANG_S * slowness(),
            check=False,
        )

    up = tesched_testcluster("up", "--name", name, "--nodes", "2", "--gpus", "4")
    try:
        assert (up.returncode, up.stderr) == (0, "")
        again = tesched_testcluster("up", "--name", name)
        assert again.returncode == 1
        assert "exists already" in again.stderr
        cluster = LocalCluster.attach(name)
        assert cluster.definition.groups[0].gres == {"gpu": 4}
        assert tesched_testcluster("env", name).stdout == f"export SLURM_CONF={cluster.slurm_conf}\n"
        assert "nodes: 2 idle" in tesched_testcluster("status", name).stdout
        few = ("--be", "0", "--te", "2", "--over", "0")
        load = tesched_testcluster("load", "--name", name, "--seed", "1", *few, "--wait", str(HANG_S))
        assert (load.returncode, load.stderr) == (0, "")
        assert "2 done" in load.stdout
    finally:
        down = tesched_testcluster("down", name)
    assert (down.returncode, down.stdout) == (0, f"{name} is down\n")
    assert nothing_left(cluster)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("env", "none-such"), "no cluster is named none-such"),
        (("down", "none-such"), "no cluster is named none-such"),
        (("up", "--name", "../up"), "a cluster is named by"),
        (("up", "--name", "odd", "--cpus", "3"), "3 CPUs"),
        (("up", "--nodes", "0"), "--nodes"),
        (("load",), "--seed"),
        (("down", "--all", "x"), "either a name or --all"),
    ],
)
def test_bad_input_to_the_command_line_is_named_and_ends_with_2(args: tuple[str, ...], message: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tesched_testcluster", *args],
        capture_output=True,
        text=True,
        timeout=HANG_S * slowness(),
        check=False,
    )
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_killed_node_comes_back_and_its_job_runs_again(cluster: LocalCluster) -> None:
    job_id = cluster.sbatch("--nodelist=n3", "--requeue", wrap="sleep 600")
    cluster.wait_state(job_id, "RUNNING")
    cluster.kill_node("n3")
    assert processes.find_processes(cluster.folder, "n3") == ()
    assert cluster.node_states()["n3"].startswith("down")
    cluster.wait_state(job_id, "PENDING")
    cluster.revive_node("n3")
    fields = cluster.wait_state(job_id, "RUNNING")
    assert (fields["NodeList"], fields["Restarts"]) == ("n3", "1")


def test_slurmctld_stops_and_starts_and_still_knows_its_jobs(cluster: LocalCluster) -> None:
    running = cluster.sbatch(wrap="sleep 600")
    waiting = cluster.sbatch("--hold", wrap="true")
    cluster.wait_state(running, "RUNNING")
    cluster.stop_slurmctld()
    assert not cluster.is_answering()
    cluster.start_slurmctld()
    assert cluster.state(running) == "RUNNING"
    assert cluster.state(waiting) == "PENDING"
    cluster.run("scontrol", "release", str(waiting))
    cluster.wait_state(waiting, "COMPLETED")


@pytest.mark.gate
def test_reset_puts_back_whatever_a_test_did(cluster: LocalCluster) -> None:
    for _ in range(3):
        cluster.sbatch("--gres=gpu:8", wrap="trap '' TERM; while :; do sleep 1; done")
    suspended = cluster.sbatch("--gres=gpu:8", wrap="sleep 600")
    cluster.wait_state(suspended, "RUNNING")
    cluster.run("scontrol", "suspend", str(suspended))
    cluster.sbatch("--hold", wrap="true")
    cluster.sbatch("--array=0-9%2", "--begin=now+1hour", wrap="true")
    cluster.drain_node("n7")
    cluster.kill_node("n8")
    cluster.create_reservation("maintenance", nodes="n6", flags="maint")
    cluster.run("scontrol", "update", "partitionname=debug", "state=down")
    cluster.reset()
    assert cluster.run("squeue", "-h").stdout == ""
    assert set(cluster.node_states().values()) == {"idle"}
    assert cluster.run("scontrol", "-o", "show", "reservation").stdout.strip() == "No reservations in the system"
    assert "State=UP" in cluster.run("scontrol", "-o", "show", "partition", "debug").stdout
    assert list(cluster.shared.iterdir()) == []


def test_reset_starts_a_stopped_slurmctld(cluster: LocalCluster) -> None:
    cluster.sbatch("--hold", wrap="true")
    cluster.stop_slurmctld()
    cluster.reset()
    assert cluster.run("squeue", "-h").stdout == ""
    assert set(cluster.node_states().values()) == {"idle"}


def test_other_users_may_submit_jobs(cluster: LocalCluster) -> None:
    if os.geteuid() != 0:
        pytest.xfail("only root can submit as somebody else")
    nobody = pwd.getpwnam("nobody")
    job_id = cluster.sbatch("--output=nobodys", wrap="id -u", user="nobody")
    fields = cluster.wait_state(job_id, "COMPLETED")
    assert fields["UserId"] == f"nobody({nobody.pw_uid})"
    assert (cluster.shared / "nobodys").read_text() == f"{nobody.pw_uid}\n"
    mine = cluster.sbatch("--hold", wrap="true")
    with pytest.raises(ClusterError, match=r"denied|Invalid user id"):
        cluster.run("scontrol", "update", f"jobid={mine}", "priority=5", user="nobody")


def test_a_command_that_hangs_is_ended_and_named(cluster: LocalCluster) -> None:
    with pytest.raises(ClusterError, match=r"sleep 60 took longer than 0\.1 s"):
        cluster.run("sleep", "60", timeout_s=0.1)


def test_waiting_in_vain_says_what_was_seen_last(cluster: LocalCluster) -> None:
    job_id = cluster.sbatch("--hold", wrap="true")
    with pytest.raises(WaitTimeoutError, match="JobState=PENDING Reason=JobHeldUser"):
        cluster.wait_state(job_id, "RUNNING", timeout_s=0.2)
    with pytest.raises(WaitTimeoutError, match=rf"(?m)^{job_id} +PENDING +JobHeldUser "):
        cluster.wait_for(lambda: cluster.state(job_id) == "RUNNING", "it to run", timeout_s=0.2)


def is_alive(pid: int) -> bool:
    """Return whether a process still runs; one that merely waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.gate
def test_a_program_that_is_ended_by_sigterm_leaves_no_cluster() -> None:
    name = registry.fresh_name()
    program = f"""
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.local import LocalCluster
with LocalCluster(ClusterDefinition(groups=(NodeGroup(count=1),)), name={name!r}) as cluster:
    cluster.sbatch(wrap="sleep 300")
    print("up", flush=True)
    cluster.wait_for(lambda: False, "a signal")
"""
    cluster = LocalCluster(name=name)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            assert processes.find_processes(cluster.folder, "slurmctld")
            process.terminate()
            assert process.wait(HANG_S) == 128 + signal.SIGTERM
            assert nothing_left(cluster)
        finally:
            process.kill()
            processes.end_processes(cluster.folder)
