"""The daemon learns how long jobs run from those that end, keeps it, and the guard's bound counts by it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tesched_db.engine import open_store
from tesched_db.finished_runs import LearnedRun, add
from tesched_predict.history import FinishedRun
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import Account, Accounting, ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import daemon_of, run_tesched, write_config
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm]

WHOLE = ("-c32", "--mem=100", "--output=/dev/null", "--time=1-0")
PART = ("-c1", "--mem=10", "--output=/dev/null", "--time=1-0")
ONE_NODE = ClusterDefinition(groups=(NodeGroup(count=1),))


class KilledError(Exception):
    """Ends a block in which a daemon runs, and the daemon with it, by SIGKILL."""


def ended(cluster: LocalCluster, number: int, wrap: str = "true") -> int:
    """Run a job named be-train_NUMBER to its end."""
    return cluster.sbatch(f"--job-name=be-train_{number}", *PART, wrap=wrap, user=ordinary_user())


def learned_until_killed(cluster: LocalCluster, config: Path) -> None:
    """Let jobs be-train_1 to 4 end beside a daemon, and be-train_5 wait and start; then raise KilledError."""
    with daemon_of(cluster, config) as daemon:
        jobs = [ended(cluster, 1), ended(cluster, 2), ended(cluster, 3, "exit 1")]
        cut_short = ended(cluster, 4, "sleep 1000")
        for job_id, state in zip(jobs, ("COMPLETED", "COMPLETED", "FAILED"), strict=True):
            cluster.wait_state(job_id, state)
        cluster.wait_state(cut_short, "RUNNING")
        cluster.run("scancel", str(cut_short))
        cluster.wait_state(cut_short, "CANCELLED")
        blocker = cluster.sbatch("--job-name=be-other", *WHOLE, wrap="sleep 1000")
        cluster.wait_state(blocker, "RUNNING")
        be = cluster.sbatch("--job-name=be-train_5", *PART[1:], "-c32", wrap="sleep 1000", user=ordinary_user())
        submitted_at = time.time()
        cluster.wait_for(lambda: be in [job["job_id"] for job in daemon.json("jobs")["jobs"]], "the daemon to see it")
        cluster.wait_for(
            lambda: daemon.json("explain", str(be))["expected"]["runs"] == 3, "three runs like it to be learned"
        )
        assert "of 3 jobs of its user with such a name ran less" in daemon.ask("explain", str(be)).stdout
        cluster.wait_for(lambda: time.time() - submitted_at > 2, "it to have waited for two seconds")
        cluster.run("scancel", str(blocker))
        cluster.wait_state(be, "RUNNING")
        raise KilledError


@pytest.mark.gate
def test_run_times_are_learned_kept_over_a_kill_and_counted_by_the_bound(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "bound.toml").write_text("[guard]\nmax_slowdown = 1.01\n")
    cluster = make_cluster(ONE_NODE)
    config = write_config(cluster, tmp_path, one_client, poll_interval_s=0.2)
    with pytest.raises(KilledError):
        learned_until_killed(cluster, config)
    be = int(cluster.run("squeue", "-h", "-n", "be-train_5", "-o", "%A").stdout)
    with daemon_of(cluster, config) as daemon:
        te = cluster.sbatch("--job-name=te", *WHOLE, wrap="sleep 1000")

        def spared() -> bool:
            return "guard.max_slowdown" in daemon.ask("explain", str(te)).stdout

        # By its time limit of a day its slowdown would be 1.00002.
        cluster.wait_for(spared, "the job that waited as long as it is expected to run to be no victim")
        expected = daemon.json("explain", str(be))["expected"]
        # It has run for longer than those that have ended.
        assert (expected["source"], expected["likeness"]) == ("learned", "of its user with such a name")
        assert expected["ran_s"] > 0
        assert cluster.job(be)["JobState"] == "RUNNING"


def test_accounting_teaches_what_ran_before_whatever_its_users_called_it(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(
        ClusterDefinition(groups=(NodeGroup(count=1),), accounting=Accounting(accounts=(Account(name="lab"),)))
    )
    config = write_config(cluster, tmp_path, one_client)
    forged = "be|x\n1|cluster|root|root|debug|be|0|1|2|3|1|1|cpu=1|COMPLETED\nbe|y"
    names = ["be-plain", "be-plain", forged]
    for name in names:
        # A trace's runs of less than a second count as none.
        cluster.sbatch(f"--job-name={name}", *PART, wrap="sleep 2")
    cut_short = cluster.sbatch("--job-name=be-plain", *PART, wrap="sleep 1000")
    cluster.wait_state(cut_short, "RUNNING")
    cluster.run("scancel", str(cut_short))

    def tesched(*argv: str) -> Any:
        done = run_tesched(*argv, TESCHED_CONFIG=str(config), SLURM_CONF=str(cluster.slurm_conf))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if "--json" in argv else done.stdout

    def accounted() -> bool:
        words = ("sacct", "-Xn", "-s", "CD", "-S", "now-1hours", "-E", "now", "-o", "JobID")
        return len(cluster.run(*words).stdout.split()) == 3

    cluster.wait_for(accounted, "slurmdbd to have the jobs that have ended")
    tesched("db", "upgrade")
    first, again = tesched("learn", "--since", "1h", "--json"), tesched("learn", "--since", "999999999d", "--json")
    assert (first["runs"], first["new"], again["new"]) == (3, 3, 0)
    # A table that sacct prints with a drawn separator has the same runs.
    table = cluster.run(
        *("sacct", "-aXP", "--delimiter=<4f2a91c07b3e>", "-S", "now-1hours", "-E", "now", "-s", "CD,F,TO,OOM", "-o"),
        "JobID,Cluster,User,Account,Partition,JobName,Submit,Start,End,ElapsedRaw,TimelimitRaw,NNodes,NCPUS,ReqCPUS,"
        "ReqTRES,State",
    ).stdout
    (tmp_path / "runs.txt").write_text(table)
    traced = tesched("learn", "--trace", str(tmp_path / "runs.txt"), "--json")
    assert (traced["runs"], traced["new"], traced["left_out"]) == (3, 0, {})
    # The daemon saw none of them run, and Slurm remembers them: they are the same runs.
    with daemon_of(cluster, config) as daemon:
        be = cluster.sbatch("--job-name=be-plain", "--hold", *PART, wrap="true")
        daemon.await_polls(cluster)
        assert daemon.json("explain", str(be))["expected"]["source"] == "learned"
        assert len(daemon.json("jobs", "--all")["jobs"]) == 5
        assert daemon.json("learn", "--since", "1h")["kept"] == 3
    config.write_text(config.read_text().replace("tesched.sqlite", "other.sqlite"))
    tesched("db", "upgrade")
    engine = open_store(f"sqlite:///{tmp_path}/other.sqlite")
    run = FinishedRun(user="ada", job_name="be-plain", run_s=60.0, end_s=time.time())
    add(engine, [[LearnedRun(run=run, name="1@1", cluster="elsewhere", source="sacct")]])
    engine.dispose()
    refused = run_tesched("learn", "--since", "1h", TESCHED_CONFIG=str(config), SLURM_CONF=str(cluster.slurm_conf))
    assert refused.returncode == 2
    assert f"{config}: store.url: the finished runs in sqlite:///{tmp_path}/other.sqlite are of cluster elsewhere" in (
        refused.stderr
    )
