"""A victim whose Epilog takes longer than any time-out of tesched's does not leave for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import Daemon, running_daemon
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.patience import HANG_S
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]

WHOLE = ("-c32", "--mem=100", "--output=/dev/null")
#: ends as soon as there is no file `hold` beside it
EPILOG = """#!/bin/sh
while [ -e "${0%/*}/hold" ]; do sleep 0.1; done
"""
#: seconds in which a binding is over and, with KillWait, an order: where no victim takes its time
SHORT_S = 8


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Path]:
    """Give the file for which each Epilog waits; at the end it is gone."""
    hold = tmp_path / "hold"
    hold.touch()
    yield hold
    hold.unlink(missing_ok=True)


def site(folder: Path, nodes: int, *, short_s: int = SHORT_S) -> ClusterDefinition:
    """Return such a cluster; the daemon's time-outs are short."""
    epilog = folder / "epilog"
    epilog.write_text(EPILOG)
    epilog.chmod(0o755)
    (folder / "conf.d").mkdir()
    (folder / "conf.d" / "short.toml").write_text(
        f"[guard]\norder_timeout_s = {short_s}\nbind_for_s = {short_s}\nretry_after_s = 1\n"
    )
    return ClusterDefinition(groups=(NodeGroup(count=nodes),), settings={"Epilog": str(epilog), "KillWait": "1"})


def one_that_dies_of_its_notice(cluster: LocalCluster) -> int:
    """Give a job that runs, and has no trap for the signal that it declares."""
    victim = cluster.sbatch("--job-name=be-1", "--comment=signal=B:USR1", *WHOLE, wrap="sleep 1000")
    cluster.wait_state(victim, "RUNNING")
    return victim


def put_off(daemon: Daemon, short_s: int) -> bool:
    """Return whether the end of the order was put off twice: then the first one, and that of a binding, are past."""
    (one,) = daemon.json("orders")["orders"]
    order = one["order"]
    return bool(order["expires_at"] > order["created_at"] + 2 * short_s)


def grace_is_over(daemon: Daemon) -> bool:
    """Return whether the daemon has polled since the end of the grace period of the only victim."""
    (one,) = daemon.json("orders")["orders"]
    (victim,) = one["order"]["victims"]
    return bool(daemon.json("status")["daemon"]["seen_at"] > victim["noticed_at"] + victim["grace_period_s"])


@pytest.mark.gate
def test_the_te_job_keeps_its_place_and_its_nodes_until_the_epilog_is_over(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, hold: Path
) -> None:
    short_s = SHORT_S // 2
    cluster = make_cluster(site(tmp_path, nodes=1, short_s=short_s))
    victim = cluster.sbatch("--job-name=be-1", *WHOLE, wrap="sleep 1000")
    cluster.wait_state(victim, "RUNNING")
    rival = cluster.sbatch("--job-name=be-2", *WHOLE, wrap="sleep 1000")
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        te = cluster.sbatch("--job-name=te", *WHOLE, wrap="sleep 1000", user=ordinary_user())
        cluster.wait_for(lambda: cluster.job(victim)["JobState"] == "COMPLETING", "the victim's Epilog")
        cluster.wait_for(lambda: put_off(daemon, short_s), "the order to live on")
        daemon.await_polls(cluster)
        waiting = cluster.job(te)
        assert (waiting["ReqNodeList"], waiting["JobState"]) == ("n1", "PENDING")
        assert int(waiting["Priority"]) > int(cluster.job(rival)["Priority"])
        hold.unlink()
        cluster.wait_state(te, "RUNNING")
        daemon.await_polls(cluster)
        assert daemon.json("status")["tally"]["futile"] == 0
        assert cluster.job(rival)["JobState"] == "PENDING"


@pytest.mark.gate
def test_what_depends_on_a_victim_that_dies_of_its_notice_never_sees_it_fail(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, hold: Path
) -> None:
    cluster = make_cluster(site(tmp_path, nodes=1))
    victim = one_that_dies_of_its_notice(cluster)
    after = cluster.sbatch(f"--dependency=afterok:{victim}", "--kill-on-invalid-dep=yes", *WHOLE, wrap="true")
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        te = cluster.sbatch("--job-name=te", *WHOLE, wrap="sleep 1000", user=ordinary_user())

        def is_back() -> bool:
            job = cluster.job(victim)
            assert job["JobState"] in {"RUNNING", "COMPLETING"}
            return job["Restarts"] == "1"

        cluster.wait_for(is_back, "it to be put back in the queue while its Epilog runs")
        hold.unlink()
        # Before it starts a job Slurm checks dependencies: by then one that can't be met has ended what waits.
        cluster.wait_state(te, "RUNNING")
        assert (cluster.job(victim)["JobState"], cluster.job(after)["JobState"]) == ("PENDING", "PENDING")
        cluster.wait_for(lambda: "died of its notice" in daemon.ask("explain", str(victim)).stdout, "what it died of")
        assert daemon.json("status")["tally"]["lost"] == 0


def test_one_that_dies_of_its_notice_runs_again_though_the_te_job_was_cancelled_in_its_epilog(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, hold: Path
) -> None:
    cluster = make_cluster(site(tmp_path, nodes=1))
    victim = one_that_dies_of_its_notice(cluster)
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        te = cluster.sbatch("--job-name=te", *WHOLE, wrap="sleep 1000", user=ordinary_user())
        cluster.wait_for(lambda: "COMPLETING" in cluster.job(victim)["JobState"], "the victim's Epilog")
        cluster.run("scancel", str(te))
        cluster.wait_for(lambda: grace_is_over(daemon), "its grace period to be over")
        hold.unlink()
        cluster.wait_for(lambda: cluster.put_back([victim]) == [victim], "it to be put back in the queue")
        cluster.wait_for(lambda: "died of its notice" in daemon.ask("explain", str(victim)).stdout, "what it died of")
        assert daemon.json("status")["tally"]["lost"] == 0


def judges_runs(folder: Path) -> None:
    """Ask for a useful run of the site's default length."""
    (folder / "conf.d" / "run.toml").write_text("[guard]\nuseful_run_s = 60\n")


def with_a_victim_that_left(cluster: LocalCluster, hold: Path, wrap: str) -> int:
    """Give a TE job that runs where a victim has left; each Epilog from now on waits."""
    hold.unlink()
    victim = cluster.sbatch("--job-name=be-1", *WHOLE, wrap="sleep 1000")
    cluster.wait_state(victim, "RUNNING")
    te = cluster.sbatch("--job-name=te", *WHOLE, wrap=wrap, user=ordinary_user())
    cluster.wait_for(lambda: cluster.put_back([victim]) == [victim], "the victim to leave")
    return te


@pytest.mark.gate
@pytest.mark.parametrize("again", ["exit", "scontrol requeue"])
def test_the_epilog_of_a_te_job_that_requeues_itself_is_no_part_of_its_run(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, hold: Path, again: str
) -> None:
    cluster = make_cluster(site(tmp_path, nodes=1))
    judges_runs(tmp_path)
    go = cluster.shared / "go"
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        what = cluster.definition.requeue_exit if again == "exit" else "$SLURM_JOB_ID; sleep 1000"
        script = f"while [ ! -e {go} ]; do sleep 0.1; done; {again} {what}"
        te = with_a_victim_that_left(cluster, hold, script)
        cluster.wait_for(lambda: "started on n1" in daemon.ask("explain", str(te)).stdout, "its start to be seen")
        hold.touch()
        go.touch()
        cluster.wait_for(lambda: daemon.json("status")["tally"]["futile"] == 1, "its victim to have left for nothing")
        assert cluster.job(te)["JobState"] == "COMPLETING"
        said = "goes back to the queue" if again == "exit" else "is back in the queue"
        assert said in daemon.ask("explain", str(te)).stdout


@pytest.mark.gate
def test_a_short_te_job_that_ends_with_success_has_served_though_its_epilog_hides_that(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, hold: Path
) -> None:
    cluster = make_cluster(site(tmp_path, nodes=1))
    judges_runs(tmp_path)
    go = cluster.shared / "go"
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        te = with_a_victim_that_left(cluster, hold, f"while [ ! -e {go} ]; do sleep 0.1; done")
        cluster.wait_for(lambda: "started on n1" in daemon.ask("explain", str(te)).stdout, "its start to be seen")
        hold.touch()
        go.touch()
        cluster.wait_for(lambda: cluster.job(te)["JobState"] == "COMPLETING", "its Epilog")
        daemon.await_polls(cluster)
        assert daemon.json("status")["tally"]["futile"] == 0
        hold.unlink()
        cluster.wait_state(te, "COMPLETED")
        daemon.await_polls(cluster)
        assert daemon.json("status")["tally"]["futile"] == 0
        assert "for nothing" not in daemon.ask("explain", str(te)).stdout


@pytest.mark.gate
def test_a_te_job_that_slurm_holds_for_its_prolog_while_its_epilog_runs_stays_held(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, hold: Path
) -> None:
    """With priority/basic a change of its nice value would release it, as the last in the queue."""
    prolog = tmp_path / "prolog"
    prolog.write_text(
        f"#!/bin/bash\n[[ $SLURM_JOB_USER != {ordinary_user()} ]] && exit 0\n: >{hold}; [[ -e {tmp_path}/mended ]]\n"
    )
    prolog.chmod(0o755)
    made = site(tmp_path, nodes=1)
    judges_runs(tmp_path)
    settings = {**made.settings, "Prolog": str(prolog), "PrologFlags": "Alloc"}
    cluster = make_cluster(replace(made, settings=settings))
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        te = with_a_victim_that_left(cluster, hold, "sleep 1000")
        cluster.wait_for(lambda: daemon.json("status")["tally"]["futile"] == 1, "its Prolog to have failed")
        daemon.await_polls(cluster)
        assert cluster.job(te)["Priority"] == "0"
        hold.unlink()
        cluster.wait_for(lambda: "held" in cluster.job(te)["Reason"].lower(), "it to be back in the queue")
        daemon.await_polls(cluster)
        assert cluster.job(te)["Priority"] == "0"
        (tmp_path / "mended").touch()
        cluster.resume_node("n1")
        cluster.run("scontrol", "release", str(te))
        cluster.wait_for(lambda: cluster.job(te)["Nice"] == "0", "its nice value to be put back")


@pytest.mark.gate
def test_a_node_that_is_out_of_service_for_a_moment_costs_no_victim_more(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, hold: Path
) -> None:
    """As where the Prolog of another job fails there, and the site's health check resumes the node."""
    cluster = make_cluster(site(tmp_path, nodes=1, short_s=int(HANG_S)))
    victim = cluster.sbatch("--job-name=be-1", *WHOLE, wrap="sleep 1000")
    cluster.wait_state(victim, "RUNNING")
    with running_daemon(cluster, tmp_path, one_client, poll_interval_s=0.2) as daemon:
        te = cluster.sbatch("--job-name=te", *WHOLE, wrap="sleep 1000", user=ordinary_user())
        cluster.wait_for(lambda: cluster.job(te)["ReqNodeList"] == "n1", "it to be bound to the victim's node")
        cluster.wait_for(lambda: cluster.job(victim)["JobState"] == "COMPLETING", "the victim's Epilog")
        cluster.drain_node("n1")
        cluster.wait_for(lambda: cluster.job(te)["ReqNodeList"] == "(null)", "it to be bound to no node")
        hold.unlink()
        cluster.wait_for(lambda: cluster.job(victim)["JobState"] == "PENDING", "the victim to have left")
        daemon.await_polls(cluster)
        said = " ".join(daemon.ask("explain", str(te)).stdout.split())
        assert "+DRAIN: test" in said
        assert "is out of service: the job is bound to no nodes meanwhile; awaited until" in said
        cluster.resume_node("n1")
        cluster.wait_state(te, "RUNNING")
        daemon.await_polls(cluster)
        assert daemon.json("status")["tally"]["futile"] == 0
        (one,) = daemon.json("orders")["orders"]
        assert one["order"]["ending"] == "started_here"
