"""Jobs of users' crontabs (scrontab) are left alone: a signal to one ends its series, and Slurm refuses to change one.

Debian 12 has no scrontab: there it is built from the source of Slurm that the plugin was built with (`make plugin`).
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.harness.slurm_clients import Connect
from tesched_testcluster.local import PLUGIN_FOLDER, LocalCluster
from tesched_testcluster.users import ordinary_user

from tests.cluster.admission_site import DEBUG, Site
from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

#: of sbatch, too
WHERE = ("--output=/dev/null", "--chdir=/tmp", "--time=5")


def scrontab(cluster: LocalCluster) -> Path:
    """Return the command."""
    found = shutil.which("scrontab")
    if found is not None:
        return Path(found)
    built = cluster.shared / "scrontab"
    source = Path((PLUGIN_FOLDER / "source").read_text().strip()) / "src" / "scrontab"
    texts: list[Path] = []
    for name in ("usage", "default_crontab"):
        texts.append(cluster.folder / f"{name}.o")
        subprocess.run(["ld", "-r", "-b", "binary", "-o", texts[-1], f"{name}.txt"], cwd=source, check=True)
    folder = next(Path("/usr/lib").glob("*/slurm-wlm/libslurmfull.so")).parent
    libraries = (f"-L{folder}", "-lslurmfull", f"-Wl,-rpath,{folder}", "-Wl,-z,noexecstack")
    files = map(str, (*source.glob("*.c"), *texts))
    subprocess.run(["gcc", "-w", "-std=gnu99", f"-I{source.parents[1]}", "-o", built, *files, *libraries], check=True)
    return built


def with_crontab(cluster: LocalCluster, *options: str, user: str) -> int:
    """Give a user a crontab of one long job, which may start each minute; return the job."""
    table = cluster.shared / "table"
    table.write_text(f"#SCRON {' '.join((*WHERE, *options))}\n* * * * * sleep 1000\n")
    table.chmod(0o644)
    cluster.run(str(scrontab(cluster)), str(table), user=user)
    (job,) = cluster.run("squeue", "-h", "-a", "-u", user, "-o", "%i").stdout.split()
    return int(job)


@pytest.mark.gate
@pytest.mark.usefixtures("listener")
def test_it_is_read_as_such_and_not_held_by_the_submission_hook(site: Site, connect: Connect) -> None:
    with site.cluster.slurm_conf.open("a") as conf:
        conf.write("ScronParameters=enable\n")
    site.cluster.run("scontrol", "reconfigure")
    site.says(DEBUG)
    job = with_crontab(site.cluster, "--partition=debug", user=site.be_user)
    other = site.submit(*WHERE, "--partition=debug", "--begin=now+1hour")
    seen = connect(site.cluster).observer.observe()
    assert isinstance(seen, Snapshot)
    found = [(one.job_id, one.of_crontab, one.held) for one in seen.jobs.values()]
    assert found == [(job, True, False), (other, False, True)]


def test_one_that_runs_is_no_victim_and_its_series_goes_on(
    make_cluster: MakeCluster, tmp_path: Path, client_choice: ClientChoice
) -> None:
    """It starts with a minute of the clock; the TE job gets the node of an ordinary job, and none beside that."""
    user = ordinary_user()
    definition = ClusterDefinition(groups=(NodeGroup(count=2),), settings={"ScronParameters": "enable"})
    cluster = make_cluster(definition)
    job = with_crontab(cluster, "-c32", "--mem=100", "--job-name=be", "--comment=signal=B:USR1", user=user)
    ordinary = cluster.sbatch("--job-name=be", "-c32", "--mem=100", *WHERE, wrap="sleep 1000")
    for job_id in (job, ordinary):
        cluster.wait_state(job_id, "RUNNING", timeout_s=100)
    with running_daemon(cluster, tmp_path, client_choice) as daemon:
        trials = [
            cluster.sbatch("--job-name=te", "-c32", "--mem=100", *WHERE, wrap="sleep 1000", user=user) for _ in range(2)
        ]
        started = cluster.wait_for(lambda: [one for one in trials if cluster.state(one) == "RUNNING"], "one to start")
        (waits,) = set(trials) - set(started)
        cluster.wait_for(lambda: "cron_job" in daemon.ask("explain", str(waits), "--json").stdout, "its answer")
        daemon.await_polls(cluster)
        assert cluster.put_back() == [ordinary]
        assert "scrontab" in daemon.ask("explain", str(job)).stdout
    # Slurm writes #DISABLED before a line of which a job had a signal.
    table = cluster.run(str(scrontab(cluster)), "-l", user=user).stdout
    assert "sleep 1000" in table
    assert "DISABLED" not in table
