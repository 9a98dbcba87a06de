"""`tesched ask` beside a real Slurm: the same job is submitted then, and what was foretold happens."""

from __future__ import annotations

import json
import pwd
from pathlib import Path
from typing import Any

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NativePreemption, NodeGroup, PartitionDefinition
from tesched_testcluster.harness.daemon_process import (
    TESCHED,
    Daemon,
    daemon_of,
    run_tesched,
    running_daemon,
    write_config,
)
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_user

from tests.cluster.conftest import MakeCluster

pytestmark = pytest.mark.slurm

SLEEP = "exec sleep 1000"
TWO_NODES = ClusterDefinition(groups=(NodeGroup(count=2),))
#: jobs that fill them, of different sizes
FILLERS = (
    ("be-half", "-c16", "--gres=gpu:4"),
    ("be-other", "-c16", "--gres=gpu:4"),
    ("be-whole", "-c32", "--gres=gpu:8"),
)
TE = ("--job-name=te-1", "--gpus=2", "--time=5")


def asked(daemon: Daemon, *words: str, **variables: str) -> tuple[int, dict[str, Any]]:
    """Return the exit status of `tesched ask`, and what it foretells. The Slurm is the one that the daemon sees."""
    said = run_tesched("ask", "--json", *words, TESCHED_CONFIG=str(daemon.config), **variables)
    assert said.returncode in {0, 1}, said.stderr
    answer = json.loads(said.stdout)
    assert answer["starts"] is (said.returncode == 0)
    return said.returncode, answer["foretold"]


def as_user(name: str) -> tuple[str, ...]:
    """Return what runs a command as this user, to Slurm too; it may read a Python that stands in root's folder."""
    account, reads = pwd.getpwnam(name), "+dac_read_search"
    ids = (f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups")
    return ("setpriv", *ids, f"--inh-caps={reads}", f"--ambient-caps={reads}")


def fill(cluster: LocalCluster, *options: str, user: str | None = None) -> list[int]:
    """Fill two nodes with three best-effort jobs."""
    found = []
    for name, *amounts in FILLERS:
        found.append(cluster.sbatch(f"--job-name={name}", "--time=60", *amounts, *options, wrap=SLEEP, user=user))
        cluster.wait_state(found[-1], "RUNNING")
    return found


def codes(reasons: list[dict[str, Any]]) -> set[str]:
    return {reason["code"] for reason in reasons}


def refused(daemon: Daemon, job: int) -> set[str]:
    """Return the codes of what `tesched explain` says of a waiting job itself."""
    story = daemon.json("explain", str(job))["story"]
    return {one["code"] for one in story["refusals_as_preemptor"] if one["job_id"] == job}


@pytest.mark.gate
def test_it_starts_as_foretold_and_the_same_victim_leaves(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(TWO_NODES)
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        status, free = asked(daemon, *TE, f"--wrap={SLEEP}")
        assert (status, free["verdict"], free["job_class"]) == (0, "starts at once, on free resources", "te")
        before = set(cluster.run("squeue", "-h", "-o", "%i").stdout.split())
        assert before == set(), "asking has submitted something"
        fill(cluster)
        daemon.await_polls(cluster)
        status, full = asked(daemon, *TE, f"--wrap={SLEEP}")
        assert (status, full["verdict"]) == (0, "starts by a preemption")
        assert (full["rule"], full["mode"], full["not_enforced"]) == ("trials", "enforce", "")
        (victim,) = full["victims"]
        assert (victim["of_own_user"], victim["notice_signal"], victim["name"]) == (True, "", "be-half")
        assert victim["ran_s"] > 0
        status, best_effort = asked(daemon, "--job-name=be", "--gpus=2", "--time=5", f"--wrap={SLEEP}")
        assert (status, best_effort["verdict"], best_effort["job_class"]) == (1, "waits", "be")
        assert best_effort["victims"] == []
        later = cluster.sbatch("--job-name=be", "--gpus=2", "--time=5", wrap=SLEEP)
        daemon.await_polls(cluster)
        assert cluster.state(later) == "PENDING"
        te = cluster.sbatch(*TE, wrap=SLEEP)
        cluster.wait_state(te, "RUNNING")
        orders = daemon.json("explain", str(te))["story"]["orders_as_preemptor"]
        assert [order["victim_labels"] for order in orders] == [[victim["job"]]]
        assert [order["order"]["nodes"] for order in orders] == [full["nodes"]]
        assert cluster.job(int(victim["job"]))["Restarts"] == "1"


def test_an_ordinary_user_sees_what_a_preemption_costs_others(
    make_cluster: MakeCluster, one_client: ClientChoice
) -> None:
    cluster = make_cluster(TWO_NODES)
    folder = cluster.shared / "site"
    folder.mkdir()
    config = write_config(cluster, folder, one_client)
    config.write_text(f"{config.read_text()}\n[classes.user_word]\nmay_say_te = true\n")
    with daemon_of(cluster, config) as daemon:
        fill(cluster, "--comment=signal=B:USR1 grace=7")
        daemon.await_polls(cluster)
        words = ("--comment=te", "--gpus=2", "--time=5", f"--wrap={SLEEP}")
        argv = (str(TESCHED), "ask", "--config", str(config), *words)
        said = cluster.run(*as_user(ordinary_user()), *argv, check=False)
        assert said.returncode == 0, said.stderr
        assert "(rule: user's comment)" in said.stdout
        assert "SIGUSR1, and 7 s to save; preempted 0 times before, of 16" in said.stdout
        te = cluster.sbatch(*words[:-1], wrap=SLEEP, user=ordinary_user())
        cluster.wait_state(te, "RUNNING")
        (order,) = daemon.json("explain", str(te))["story"]["orders_as_preemptor"]
        assert f"victim  job {order['victim_labels'][0]} " in said.stdout


#: what is added to the configuration, options of the job, and the codes that stand in its way: its own, its candidates'
IN_THE_WAY: dict[str, tuple[str, tuple[str, ...], set[str], set[str]]] = {
    "protected": ('[guard]\nprotected_names = ["be*"]\n', TE, {"no_victim"}, {"protected_name"}),
    "too short a run": ("[guard]\nmin_run_time_s = 3600\n", TE, {"no_victim"}, {"min_run_time"}),
    # Each second that a job runs for is one that it would lose.
    "bounded": (
        "[loop]\nbackoff_max_s = 1\n[guard.bound]\nslowdown = 1.01\nte_time_limit_s = 300\n",
        TE,
        {"no_victim"},
        {"bound"},
    ),
    "a limit of the user's": ("[guard.te]\nmax_node_minutes_per_user = 4\n", TE, {"te_limit"}, set()),
    "a dependency": ("", (*TE, "--dependency=singleton"), {"dependency"}, set()),
    "a begin time": ("", (*TE, "--begin=now+1hour"), {"begin_time"}, set()),
    "held by its user": ("", (*TE, "--hold"), {"held"}, set()),
}


@pytest.mark.parametrize("case", IN_THE_WAY)
def test_it_waits_for_what_was_foretold(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, case: str
) -> None:
    more, words, own, of_candidates = IN_THE_WAY[case]
    cluster = make_cluster(TWO_NODES)
    config = write_config(cluster, tmp_path, one_client)
    text = config.read_text()
    config.write_text(text.replace('names = ["te*"]', 'names = ["te*"], max_time_limit_s = 300'))
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "more.toml").write_text(more)
    with daemon_of(cluster, config) as daemon:
        # What a user's own jobs cost counts for nothing.
        fill(cluster, user=ordinary_user())
        if case == "a dependency":
            cluster.sbatch(TE[0], "--hold", wrap=SLEEP)
        # So long have the last ones run that they would lose more than the bound leaves.
        daemon.await_polls(cluster, 8 if case == "bounded" else 2)
        status, found = asked(daemon, *words, f"--wrap={SLEEP}")
        assert (status, found["verdict"]) == (1, "waits")
        assert codes(found["reasons"]) == own, found
        assert of_candidates <= codes(found["candidates"])
        te = cluster.sbatch(*words, wrap=SLEEP)
        # Before its first poll with the job the daemon knows nothing of it.
        daemon.await_polls(cluster)
        cluster.wait_for(lambda: refused(daemon, te) >= own, f"the same refusal; it is {refused(daemon, te)}")
        assert cluster.state(te) == "PENDING"
        assert daemon.json("explain", str(te))["story"]["orders_as_preemptor"] == []


@pytest.mark.parametrize("mode", ["shadow", "observe"])
def test_what_is_not_enforced_is_said_to_be_so(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, mode: str
) -> None:
    cluster = make_cluster(TWO_NODES)
    with running_daemon(cluster, tmp_path, one_client, mode) as daemon:
        seen = fill(cluster)
        cluster.wait_for(lambda: len(daemon.json("jobs")["jobs"]) == len(seen), "the daemon to see them")
        status, found = asked(daemon, *TE, f"--wrap={SLEEP}")
        assert (status, found["verdict"]) == (1, "waits; it would start by a preemption, were that enforced")
        assert found["not_enforced"] == f"the daemon is in mode {mode}"
        assert [victim["name"] for victim in found["victims"]] == ["be-half"]
        te = cluster.sbatch(*TE, wrap=SLEEP)
        cluster.wait_for(lambda: len(daemon.json("jobs")["jobs"]) > len(seen), "the daemon to see it")
        assert cluster.state(te) == "PENDING"


def test_a_pause_and_a_daemon_that_was_stopped_are_named(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(TWO_NODES)
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        fill(cluster)
        daemon.await_polls(cluster)
        assert daemon.ask("pause", "--reason=maintenance").returncode == 0
        status, found = asked(daemon, *TE, f"--wrap={SLEEP}")
        assert (status, codes(found["reasons"])) == (1, {"paused"})
        assert "maintenance" in found["not_enforced"]
        assert daemon.ask("unpause").returncode == 0
    status, found = asked(daemon, *TE, f"--wrap={SLEEP}")
    assert (status, found["not_enforced"][:35]) == (1, "the daemon does not act: stopped (t")


def test_users_words_and_the_environment_count_as_for_sbatch(
    cluster: LocalCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        status, found = asked(daemon, "--comment=te", "--wrap=true", SBATCH_PARTITION="debug")
        assert (status, found["job_class"], found["partition"]) == (0, "be", "debug")
        assert [one["said"] for one in found["not_followed"]] == ["te"]
        script = tmp_path / "te.sh"
        script.write_text("#!/bin/bash\n#SBATCH --partition=main --time=7\ntrue\n")
        assert asked(daemon, str(script))[1]["partition"] == "main"
        assert asked(daemon, str(script), SBATCH_PARTITION="debug")[1]["partition"] == "debug"
        _, found = asked(daemon, "--partition=main", str(script), SBATCH_PARTITION="debug")
        # A job without a name has that of its script.
        assert (found["partition"], found["job_class"], found["rule"]) == ("main", "te", "trials")
        for words, text in (
            (("--partition=nope", str(script)), "invalid partition specified: nope"),
            (("--nonsense=1", str(script)), "unrecognized option '--nonsense=1'"),
            (("--gpus=99", str(script)), "Requested node configuration is not available"),
            (("--clusters=other", str(script)), "other"),
        ):
            said = daemon.ask("ask", *words)
            assert (said.returncode, said.stdout) == (2, ""), said
            assert text in said.stderr
            assert said.stderr.startswith("Error: ")
        cluster.stop_slurmctld()
        try:
            said = daemon.ask("ask", str(script))
        finally:
            cluster.start_slurmctld()
        assert said.returncode == 2
        assert said.stderr.startswith("Error: Slurm ")


def test_what_is_not_understood_is_named_and_slurms_word_stands(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(TWO_NODES)
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        fill(cluster)
        daemon.await_polls(cluster)
        for words, named in (
            (("--switches=1",), "--switches=1"),
            (("--ntasks-per-gpu=1",), "--ntasks-per-gpu=1"),
            (("--gpus-per-node=2",), "several of --gpus"),
        ):
            status, found = asked(daemon, *TE, *words, f"--wrap={SLEEP}")
            assert (status, found["victims"]) == (1, [])
            assert named in found["notes"][-1]
            assert found["slurm"]["start_at"] > found["at"] + 60
        status, found = asked(daemon, *TE, f"--wrap={SLEEP}", ":", "-n2")
        assert (status, codes(found["reasons"])) == (1, {"unsupported"})


def test_a_preemption_of_slurms_own_is_named(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(
        ClusterDefinition(
            groups=(NodeGroup(count=1),),
            partitions=(
                PartitionDefinition(name="main", default=True),
                PartitionDefinition(name="debug", settings={"PriorityTier": "10"}),
            ),
            preemption=NativePreemption(),
        )
    )
    victim = cluster.sbatch("--exclusive", "--time=60", wrap=SLEEP)
    cluster.wait_state(victim, "RUNNING")
    with running_daemon(cluster, tmp_path, one_client, "shadow") as daemon:
        status, found = asked(daemon, "--partition=debug", "--time=5", f"--wrap={SLEEP}")
        assert (status, found["verdict"]) == (0, "starts by a preemption of Slurm's own")
        assert found["slurm"]["preempts"] == str(victim)


#: what is set, options of the job, and what is foretold: the code of the reason, or a part of why it waits
OF_PARTITIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "its time limit is longer": (("partitionname=main", "maxtime=2"), ("--time=5",), "limit"),
    "it wants more nodes": (("partitionname=main", "maxnodes=1"), ("--nodes=2",), "limit"),
    "the partition is down": (("partitionname=main", "state=down"), (), "partition_down"),
    "its nodes are drained": (("nodename=n1,n2", "state=drain", "reason=x"), (), ""),
}


@pytest.mark.parametrize("case", OF_PARTITIONS)
@pytest.mark.parametrize("name", ["te-1", "be-1"])
def test_an_idle_partition_that_does_not_start_the_job_is_named(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice, case: str, name: str
) -> None:
    change, words, code = OF_PARTITIONS[case]
    cluster = make_cluster(TWO_NODES)
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        daemon.await_polls(cluster)
        cluster.run("scontrol", "update", *change)
        status, found = asked(daemon, f"--job-name={name}", *words, f"--wrap={SLEEP}")
        assert (status, found["verdict"], found["victims"]) == (1, "waits", []), found
        if code:
            assert codes(found["reasons"]) == {code}, found
        else:
            assert "Slurm finds no nodes for it as they are now" in found["because"][0]
        job = cluster.sbatch(f"--job-name={name}", *words, wrap=SLEEP)
        cluster.wait_for(lambda: cluster.job(job)["Reason"] not in {"None", "Resources"}, "Slurm's reason")
        assert cluster.state(job) == "PENDING"


def test_begin_times_and_dependencies_are_foretold_as_slurm_has_them(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(TWO_NODES)
    first = cluster.sbatch("--time=60", wrap=SLEEP)
    cluster.wait_state(first, "RUNNING")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        daemon.await_polls(cluster)
        for name in ("te-1", "be-1"):
            status, found = asked(daemon, f"--job-name={name}", "--begin=tomorrow", f"--wrap={SLEEP}")
            assert (status, found["verdict"], found["victims"]) == (1, "waits", [])
            assert found["not_before"] == found["slurm"]["start_at"] > found["at"]
            assert "--begin=tomorrow" in found["notes"][0]
            for dependency, verdict in (
                (f"after:{first}", "starts at once, on free resources"),
                (f"after:{first}+5", "waits"),
                (f"afterok:{first}?after:{first}", "starts at once, on free resources"),
                (f"aftercorr:{first}", "may start at once, or wait: whether its dependency is fulfilled is not known"),
            ):
                words = (f"--job-name={name}", f"--dependency={dependency}", "--time=5")
                status, found = asked(daemon, *words, f"--wrap={SLEEP}")
                assert found["verdict"] == verdict, found
                if not verdict.startswith("may"):
                    job = cluster.sbatch(*words, wrap=SLEEP)
                    wanted = "PENDING" if verdict == "waits" else "RUNNING"
                    cluster.wait_state(job, wanted)
                    cluster.run("scancel", str(job))


def test_quiet_and_heterogeneous_scripts_start_on_free_resources(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(TWO_NODES)
    script = tmp_path / "het.sh"
    script.write_text(f"#!/bin/bash\n#SBATCH --time=5\n#SBATCH hetjob\n#SBATCH --nodes=1\n{SLEEP}\n")
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        daemon.await_polls(cluster)
        inside = tmp_path / "quiet.sh"
        inside.write_text(f"#!/bin/bash\n#SBATCH --quiet\n{SLEEP}\n")
        for words in (("-Q", f"--wrap={SLEEP}"), ("--quiet", str(script)), (str(script),), (str(inside),)):
            status, found = asked(daemon, "--job-name=be-1", "--time=5", *words)
            assert (status, found["verdict"]) == (0, "starts at once, on free resources"), found
            assert not any("Slurm's own word" in one for one in found["notes"])
        fill(cluster, user=ordinary_user())
        daemon.await_polls(cluster)
        for words in (("-Q", f"--wrap={SLEEP}"), (str(script),)):
            status, found = asked(daemon, "--job-name=be-1", "--time=5", *words)
            assert (status, found["verdict"]) == (1, "waits"), found


def test_the_owners_patience_is_the_time_before_which_it_does_not_start(
    make_cluster: MakeCluster, tmp_path: Path, one_client: ClientChoice
) -> None:
    cluster = make_cluster(TWO_NODES)
    with running_daemon(cluster, tmp_path, one_client) as daemon:
        fill(cluster, user=ordinary_user())
        daemon.await_polls(cluster)
        status, found = asked(daemon, *TE, "--comment=te patience=20", f"--wrap={SLEEP}")
        assert (status, codes(found["reasons"])) == (1, {"patience"}), found
        assert found["not_before"] == pytest.approx(found["at"] + 20)
