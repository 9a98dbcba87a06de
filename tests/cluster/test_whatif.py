"""The last days again, from the store and the nodes of a real Slurm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import Account, Accounting, ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import run_tesched, running_daemon, write_config
from tesched_testcluster.load import LoadJob, submit

from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm


def test_what_was_stands_beside_what_would_have_been(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(None)  # of its own: Slurm remembers no other test's jobs
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        ids = [
            submit(cluster, LoadJob(name=f"be-{number}", kind="be", cpus=8, gpus=8, ticks=30), cluster.shared)
            for number in range(3)
        ]
        ids.append(submit(cluster, LoadJob(name="te-1", kind="te", cpus=2, gpus=2, ticks=20), cluster.shared))
        for job_id in ids:
            cluster.wait_state(job_id, "COMPLETED")
        cluster.wait_for(
            lambda: sum(queue["slowdown"]["count"] for queue in daemon.json("status")["queues"]) == len(ids),
            "the daemon to see all jobs end",
        )
        found = daemon.json("whatif", "--policy", "fifo,fitgpp,patient")
        assert (found["jobs"], found["left_out"]) == (4, 0)
        lines = {(line["case"], line["job_class"]): line for line in found["lines"]}
        assert [case for case, _ in lines] == [
            case for case in ("as it was", "fifo", "fitgpp", "patient") for _ in ("te", "be")
        ]
        # Eight nodes, four jobs: no job waits in the simulation, and none is preempted.
        for case in ("fifo", "fitgpp", "patient"):
            assert (lines[case, "te"]["jobs"], lines[case, "be"]["jobs"]) == (1, 3)
            assert lines[case, "te"]["wait_p95_s"] < 0.001
            assert lines[case, "be"]["preempted"] == 0
        assert daemon.ask("whatif").returncode == 0


def test_a_site_without_a_state_store_takes_what_sacct_printed(make_cluster: MakeCluster, tmp_path: Path) -> None:
    cluster = make_cluster(None)
    config = write_config(cluster, tmp_path, ClientChoice.COMMANDS)
    trace = tmp_path / "history.txt"
    trace.write_text(
        "JobID|User|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|ReqMem|AllocTRES|State\n"
        + "".join(
            f"{number}|ann|2026-11-20T10:00:0{number}|2026-11-20T10:00:{10 + number}|x|7200|240|1|8|8G|"
            "cpu=8,gres/gpu=8,mem=8G,node=1|COMPLETED\n"
            for number in range(1, 9)
        )
        + "9|bob|2026-11-20T10:30:00|2026-11-20T11:30:00|x|600|60|1|1|1G|cpu=1,gres/gpu=1,mem=1G,node=1|COMPLETED\n"
    )
    asked = ("whatif", "--trace", str(trace), "--policy", "fifo,fitgpp", "--set", "guard.min_run_time_s=0")
    said = run_tesched(*asked, "--json", TESCHED_CONFIG=str(config))
    assert (said.returncode, said.stderr) == (0, "")
    lines = {(line["case"], line["job_class"]): line for line in json.loads(said.stdout)["lines"]}
    assert [(line["jobs"], line["wait_p50_s"]) for line in (lines["as it was", "te"], lines["as it was", "be"])] == [
        (1, 3600),
        (8, 10),
    ]
    # Eight nodes are full for two hours: the trial waits for their end, or for one of them to yield.
    assert lines["fifo", "te"]["wait_p50_s"] > 5000
    assert lines["fitgpp", "te"]["wait_p50_s"] < 1300
    assert lines["fitgpp", "be"]["preempted"] == 1
    assert run_tesched(*asked, TESCHED_CONFIG=str(config)).returncode == 0

    trace.write_text(trace.read_text() + "10|bob|yesterday|x|x|1|1|1|1|1G||COMPLETED\n")
    bad = run_tesched(*asked, TESCHED_CONFIG=str(config))
    assert bad.returncode == 2
    assert "history.txt:11: Submit is 'yesterday'; it must be a time such as" in bad.stderr


def test_a_site_that_has_never_run_tesched_is_advised_by_its_accounting(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    cluster = make_cluster(
        ClusterDefinition(groups=(NodeGroup(count=1),), accounting=Accounting(accounts=(Account(name="lab"),)))
    )
    config = write_config(cluster, tmp_path, ClientChoice.COMMANDS)
    ids = [cluster.sbatch("-c1", "--mem=10", "--output=/dev/null", "--time=5", wrap="sleep 2") for _ in range(2)]
    for job_id in ids:
        cluster.wait_state(job_id, "COMPLETED")

    def accounted() -> bool:
        words = ("sacct", "-Xn", "-s", "CD", "-S", "now-1hours", "-E", "now", "-o", "JobID")
        return len(cluster.run(*words).stdout.split()) == len(ids)

    cluster.wait_for(accounted, "slurmdbd to have the jobs that have ended")
    # One that holds the node, and one that waits for it, one that did, and one that was held.
    words = ("--mem=10", "--output=/dev/null")
    cluster.wait_state(cluster.sbatch("--exclusive", *words, wrap="sleep 600"), "RUNNING")
    short = ("-c1", "--time=5", *words)
    cluster.sbatch(*short, wrap="true")
    cluster.run("scancel", *(str(cluster.sbatch(*short, *more, wrap="true")) for more in ((), ("--hold",))))

    def waits() -> bool:
        found = cluster.run("sacct", "-XnP", "-s", "CA,PD,R", "-S", "now-1hours", "-E", "now", "-o", "State").stdout
        states = [line.split()[0] for line in found.splitlines()]
        return (states.count("CANCELLED"), "PENDING" in states, "RUNNING" in states) == (2, True, True)

    cluster.wait_for(waits, "slurmdbd to have the jobs that wait, or did")
    said = run_tesched("advise", "--days", "1", "--json", TESCHED_CONFIG=str(config))
    assert said.returncode == 0, said.stderr
    assert "read from sacct: 3 jobs of 1 user(s), of the last 1 days" in said.stderr.splitlines()[0]
    found = json.loads(said.stdout)
    assert (found["jobs"], found["left_out"], found["chosen"]) == (3, 0, "")
    assert [(one["state"], one["job_class"], one["jobs"], one["not_for_resources"]) for one in found["not_run"]] == [
        ("waiting", "te", 1, 0),
        ("cancelled", "te", 2, 1),
    ]
    # Jobs of seconds on one CPU are TE jobs, and started at once.
    assert found["tried"][0]["te_wait_p95_s"] < 60
