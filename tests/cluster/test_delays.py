"""A TE job delays a best-effort job by the time between its two starts, as Slurm's own record has them."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.attacks.requests import script_file
from tesched_testcluster.harness.daemon_process import (
    TESCHED,
    crashing_daemon,
    daemon_of,
    running_daemon,
    until_killed,
    write_config,
)
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

ONE_NODE = ClusterDefinition(groups=(NodeGroup(count=1, cpus=8),))
WHOLE = ("-c8", "--mem=100", "--output=/dev/null")
#: (1) the intent, (2) the raise, (3) the nodes, (4) the victim's requeue, (5) the conclusion
CONCLUSION = 5


def started(cluster: LocalCluster, job: int) -> float:
    """Return when its present run started, by Slurm's record."""
    return datetime.fromisoformat(cluster.wait_state(job, "RUNNING")["StartTime"]).timestamp()


def ordinary(cluster: LocalCluster, name: str, script: str) -> int:
    """Submit a job of an ordinary user, who knows nothing of tesched, for the whole node."""
    return cluster.sbatch(f"--job-name={name}", *WHOLE, wrap=script, user=ordinary_user())


@pytest.mark.gate
def test_the_delay_is_the_time_between_two_starts_also_after_a_crash(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(ONE_NODE)
    # Nothing of what it says is followed, and explain says so: it changes no step of this.
    script = script_file(cluster, "be.sh", "#!/bin/sh\n#SBATCH --signal=KILL@60\nexec sleep 1000\n")
    be = cluster.sbatch("--job-name=be", "--comment=te grace=9999 exit0=agian", *WHOLE, script=script)
    before = started(cluster, be)
    config = write_config(cluster, tmp_path, one_client)
    with crashing_daemon(config, CONCLUSION) as first:
        te = ordinary(cluster, "te", "sleep 2")
        until_killed(cluster, first)
    with daemon_of(cluster, config) as daemon:
        cluster.wait_state(te, "COMPLETED")
        after = started(cluster, be)
        assert after > before
        cluster.wait_for(lambda: not daemon.json("status")["orders"], "the order to end")
        shown = daemon.json("explain", str(be))["delay"]
        assert shown["delay"]["total_s"] == pytest.approx(after - before)
        assert [(cause["job"], cause["user"]) for cause in shown["causes"]] == [(str(te), ordinary_user())]
        (first_of_all,) = daemon.json("status")["delays"]["jobs"]
        assert (first_of_all["job"], first_of_all["delay"]) == (str(be), shown["delay"])
        assert "delays by TE jobs: 1 job(s)" in daemon.ask("status").stdout
        said = {one["said"]: one for one in daemon.json("explain", str(be))["story"]["job"]["not_followed"]}
        assert said.keys() == {"te", "grace=9999", "exit0=agian", "--signal=KILL@60"}
        assert said["te"]["why"] == "classes.user_word.may_say_te = false"
        assert said["--signal=KILL@60"]["source"] == "its script"
        assert said["--signal=KILL@60"]["why"].startswith("SIGKILL may not be a notice")
        assert "said    te (the job's comment) is not followed: classes" in daemon.ask("explain", str(be)).stdout


@pytest.mark.gate
def test_job_that_waits_while_a_te_job_runs_is_delayed_for_as_long_also_after_a_crash(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(ONE_NODE)
    be = cluster.sbatch("--job-name=be", *WHOLE, wrap="exec sleep 1000")
    cluster.wait_state(be, "RUNNING")
    waits = cluster.sbatch("--job-name=waits", *WHOLE, wrap="exec sleep 1000")
    config, may_end = write_config(cluster, tmp_path, one_client), cluster.shared / "te-may-end"
    with crashing_daemon(config, CONCLUSION) as first:
        # It runs until the daemon has seen who waits for it, however busy the machine is.
        te = ordinary(cluster, "te", f"while [ ! -e {may_end} ]; do sleep 0.2; done")
        until_killed(cluster, first)
    began = started(cluster, te)
    with daemon_of(cluster, config) as daemon:
        cluster.wait_for(
            lambda: daemon.json("explain", str(waits))["delay"]["waits_for"] == [str(te)], "the daemon to see it wait"
        )
        seen = time.time()
        assert f"it waits for job {te} now" in daemon.ask("explain", str(waits)).stdout
        daemon.await_polls(cluster, 8)
        may_end.touch()
        ended = datetime.fromisoformat(cluster.wait_state(te, "COMPLETED")["EndTime"]).timestamp()
        started(cluster, be)
        cluster.wait_for(lambda: not daemon.json("status")["orders"], "the order to end")
        shown = daemon.json("explain", str(waits))["delay"]
        # Slurm's times are whole seconds, and no daemon was there at first.
        assert ended - seen - 2 < shown["delay"]["bystander_s"] <= ended - began + 2
        assert ended - seen > 2, "else this tests nothing"
        assert [(cause["job"], cause["user"]) for cause in shown["causes"]] == [(str(te), ordinary_user())]
        assert daemon.json("explain", str(be))["delay"]["delay"]["bystander_s"] == 0


def test_two_te_jobs_one_after_the_other_add_up(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "twice.toml").write_text("[guard]\nmax_lost_runs_per_job = 2\n")
    cluster = make_cluster(ONE_NODE)
    # Nothing of what it says is followed, and explain says so: it changes no step of this.
    script = script_file(cluster, "be.sh", "#!/bin/sh\n#SBATCH --signal=KILL@60\nexec sleep 1000\n")
    be = cluster.sbatch("--job-name=be", "--comment=te grace=9999 exit0=agian", *WHOLE, script=script)
    before = started(cluster, be)
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        for number in (1, 2):
            te = ordinary(cluster, f"te-{number}", "sleep 1")
            cluster.wait_state(te, "COMPLETED")
            after = started(cluster, be)
            cluster.wait_for(lambda: not daemon.json("status")["orders"], "the order to end")
        shown = daemon.json("explain", str(be))["delay"]
        assert shown["delay"]["total_s"] == pytest.approx(after - before)
        assert len(shown["causes"]) == 2
        cluster.run("scancel", str(be))
        cluster.wait_for(
            lambda: daemon.json("jobs", "--all")["jobs"][0]["state"] == "CANCELLED", "the daemon to see its end"
        )
        (past,) = [line for line in daemon.json("whatif")["lines"] if line["case"] == "as it was" and line["preempted"]]
        assert (past["job_class"], past["delay_mean_s"]) == ("be", pytest.approx(after - before))


def test_what_a_job_has_saved_by_its_own_word_is_not_lost(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(ONE_NODE)
    spool, saved = cluster.shared / "spool", cluster.shared / "saved"
    spool.mkdir(mode=0o1777)
    spool.chmod(0o1777)
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "reports.toml").write_text(f'[reports]\nspool = "{spool}"\n')
    # In its first run alone; the next one would save anew.
    script = f"[ -e {saved} ] || {{ {TESCHED} report --saved --spool {spool} && touch {saved}; }}; exec sleep 1000"
    be = cluster.sbatch("--job-name=be", *WHOLE, wrap=script)
    cluster.wait_for(saved.exists, "the job to have saved")
    (file,) = spool.glob(f"*/{be}.json")
    saved_at = json.loads(file.read_text())["saved_at"]
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        te = ordinary(cluster, "te", "sleep 1")
        cluster.wait_state(te, "COMPLETED")
        after = started(cluster, be)
        cluster.wait_for(lambda: not daemon.json("status")["orders"], "the order to end")
        shown = daemon.json("explain", str(be))["delay"]["delay"]
        assert shown["total_s"] == pytest.approx(after - saved_at, abs=0.1)
