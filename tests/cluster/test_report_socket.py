"""Reports by the socket on a real Slurm, with its own munge: an array's workers, and another user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster import registry
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import Daemon, running_daemon
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.patience import HANG_S

from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

#: each worker reports (task + 1) * 0.64^k, and waits for the file
WORKER = """
import os, pathlib, time, tesched_report
task = int(os.environ["SLURM_ARRAY_TASK_ID"])
for iteration in range({iterations}):
    tesched_report.report(iteration=iteration, loss=(task + 1) * 0.64**iteration, workload="parabola", work=2)
while not pathlib.Path({go!r}).exists():
    time.sleep(0.1)
"""
ITERATIONS = 20
#: what another user's process runs
FORGER = """
import encodings.idna, os, sys, tesched_report.sender as s
os.setuid(65534)
s.send(os.environ["TESCHED_SOCKET"], sys.argv[1], b'{"version":1,"points":[[1,0.001,1.0,null]]}', os.environ)
"""


def points(found: dict[str, Any] | None) -> list[tuple[int, float]]:
    return [(point["iteration"], point["loss"]) for point in (found or {}).get("points", [])]


def told(daemon: Daemon, job: str) -> dict[str, Any]:
    answer = daemon.ask("explain", job, "--json")
    found: dict[str, Any] = json.loads(answer.stdout) if answer.returncode == 0 else {}
    return found


def all_losses(cluster: LocalCluster, daemon: Daemon, job: str) -> list[tuple[int, float]]:
    """Losses that a job reported, once it has reported all of them."""

    def found() -> list[tuple[int, float]]:
        return points(told(daemon, job).get("report"))

    cluster.wait_for(lambda: len(found()) == ITERATIONS, f"the losses of {job}")
    return found()


def port_without_a_daemon(cluster: LocalCluster) -> int:
    """Return slurmdbd's port: it is the cluster's own until its end, and there is no slurmdbd."""
    assert cluster.definition.accounting is None
    return registry.read(cluster.name).first_port + 1


@pytest.mark.gate
def test_an_arrays_workers_report_by_the_socket_and_are_gathered_and_no_other_sender_is_heard(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    if os.geteuid() != 0:
        pytest.fail("only root can be another user: run the tests of the cluster as root")
    cluster = make_cluster(ClusterDefinition(groups=(NodeGroup(count=2),)))
    address = f"127.0.0.1:{port_without_a_daemon(cluster)}"
    munge_socket = cluster.folder / "run" / "munge.sock"
    (tmp_path / "conf.d").mkdir()
    reports = f'[reports]\nsocket = "{address}"\nmunge_socket = "{munge_socket}"\n'
    (tmp_path / "conf.d" / "reports.toml").write_text(reports)
    there = {"TESCHED_SOCKET": address, "TESCHED_MUNGE_SOCKET": str(munge_socket)}
    go, script = cluster.shared / "go", cluster.shared / "worker.py"
    script.write_text(WORKER.format(iterations=ITERATIONS, go=str(go)))
    exported = "".join(f"export {name}={value}\n" for name, value in there.items())
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        findings = {each["check"]: each for each in json.loads(daemon.ask("doctor", "--json").stdout)["findings"]}
        assert findings["report socket"]["level"] == "ok", findings["report socket"]
        output = f"--output={cluster.shared}/%A_%a.out"
        array = cluster.sbatch("--array=0-2", output, "--mem=100M", wrap=f"{exported}{sys.executable} {script}")
        for task in range(3):
            own = all_losses(cluster, daemon, f"{array}_{task}")
            assert [iteration for iteration, _ in own] == list(range(ITERATIONS))
            assert [loss for _, loss in own] == pytest.approx([(task + 1) * 0.64**k for k in range(ITERATIONS)])
        # Another user's reports of it do not count.
        forger = [sys.executable, "-c", FORGER, f"{array}_1"]
        subprocess.run(forger, env={**os.environ, **there}, check=True, timeout=HANG_S)
        said = f"user 65534 has sent one for job {array}_1 of user root"
        cluster.wait_for(lambda: said in daemon.log.read_text(), "the refusal in the log")
        together = told(daemon, f"{array}_1")["array"]
        # The mean of 1, 2 and 3; the work of all three.
        assert [loss for _, loss in points(together)] == pytest.approx([2 * 0.64**k for k in range(ITERATIONS)])
        assert {point["work"] for point in together["points"]} == {6.0}
        (training,) = daemon.json("status")["trainings"]["shown"]
        assert (training["job"], training["tasks"], training["share"]) == (f"{array}_*", 3, {"cpus": 3, "part": 1.0})
        assert training["outlook"]["predicted"]["loss"] == pytest.approx(2 * 0.64**29, rel=0.05)
        page = tmp_path / "state.html"
        assert daemon.ask("status", "--html", str(page)).returncode == 0
        assert f"job {array}_*, parabola of root" in page.read_text()
        go.touch()
        cluster.wait_for(lambda: not daemon.json("status")["trainings"]["shown"], "the end")
        assert [path.read_text() for path in cluster.shared.glob("*.out")] == ["", "", ""]
