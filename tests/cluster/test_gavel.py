"""Gavel's rounds on a real Slurm: jobs get their best type, none is held for ever, and a trial comes first."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.daemon_process import Daemon, run_tesched, running_daemon, write_config
from tesched_testcluster.load import Event, EventName, LoadJob, OnNotice, read_events, submit
from tesched_testcluster.local import LocalCluster

pytestmark = pytest.mark.slurm

SPEEDS = """workload,accelerator,steps_per_s,partner
fits-v,v100,4,
fits-v,k80,1,
any,v100,2,
any,k80,2,
fits-k,v100,1,
fits-k,k80,4,
light,v100,4,
light,k80,1,
light,v100,3,light
light,k80,0.5,light
"""


def two_types(**settings: str) -> ClusterDefinition:
    """Return two nodes of one GPU, of different types; these lines are in slurm.conf besides."""
    return ClusterDefinition(
        groups=tuple(NodeGroup(prefix=f"{kind}-", count=1, gres={f"gpu:{kind}": 1}) for kind in ("v100", "k80")),
        settings=settings,
    )


def training(
    cluster: LocalCluster,
    name: str,
    workload: str,
    *options: str,
    on_notice: OnNotice = "unaware",
    ticks: int = 36_000,
) -> int:
    asks = (f"--comment=workload={workload}", *options)
    job = LoadJob(name=name, kind="be", gpus=1, ticks=ticks, on_notice=on_notice, options=asks)
    return submit(cluster, job, cluster.shared)


def restart_of(cluster: LocalCluster, job_id: int) -> Event | None:
    """Return what the job has written of its second run's beginning."""
    mine = (event for event in read_events(cluster.shared) if event.job_id == job_id)
    return next((event for event in mine if event.name is EventName.RESTART), None)


@contextmanager
def gavel(
    cluster: LocalCluster,
    folder: Path,
    client: ClientChoice,
    *,
    policy: str = "las",
    round_s: float = 4.0,
    guard: str = "",
) -> Iterator[Daemon]:
    """Run a daemon that goes in rounds and knows the speeds."""
    drop_in = folder / "conf.d" / "gavel.toml"
    drop_in.parent.mkdir()
    drop_in.write_text(
        f'[policy]\nbe = "gavel"\n[policy.gavel]\nallocator = "{policy}"\nround_s = {round_s}\n'
        'types = ["v100", "k80"]\n'
        f"[guard]\nmax_slowdown = 1e6\n{guard}"
    )
    config = write_config(cluster, folder, client)
    table = folder / "speeds.csv"
    table.write_text(SPEEDS)
    for argv in (("db", "upgrade"), ("throughputs", "import", str(table))):
        assert run_tesched(*argv, TESCHED_CONFIG=str(config)).returncode == 0
    with running_daemon(cluster, folder, client) as daemon:
        yield daemon


@contextmanager
def frozen(daemon: Daemon) -> Iterator[None]:
    """Let the daemon do nothing until the block ends."""
    daemon.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        daemon.process.send_signal(signal.SIGCONT)


def test_a_training_moves_to_where_it_is_fast_and_goes_on_from_its_checkpoint(
    tmp_path: Path, one_client: ClientChoice
) -> None:
    with LocalCluster(two_types()) as cluster:
        trainings = [training(cluster, f"be-{number}", "any", on_notice="exit") for number in range(2)]
        for job_id in trainings:
            cluster.wait_state(job_id, "RUNNING")
        misplaced = next(job_id for job_id in trainings if cluster.job(job_id)["NodeList"] == "k80-1")
        # The rest of its comment declares the signal that it traps.
        said = cluster.job(misplaced)["Comment"].replace("workload=any", "workload=fits-v")
        cluster.run("scontrol", "update", f"jobid={misplaced}", f"comment={said}")
        with gavel(cluster, tmp_path, one_client) as daemon:
            cluster.wait_for(lambda: cluster.job(misplaced)["NodeList"] == "v100-1", "it to be where it is fast")
            # What it has done so far is not lost: the run on the other node goes on from there.
            again = cluster.wait_for(lambda: restart_of(cluster, misplaced), "it to say that it goes on")
            assert again is not None
            assert again.ticks_done > 0
            said = daemon.ask("explain", str(misplaced)).stdout
            assert "on v100" in said
            assert "its turn is on" in said


@pytest.mark.gate
def test_a_waiting_job_is_held_has_its_turn_and_is_released_by_undo(tmp_path: Path, one_client: ClientChoice) -> None:
    with LocalCluster(two_types()) as cluster:
        running = [training(cluster, f"be-{number}", "any") for number in range(2)]
        for job_id in running:
            cluster.wait_state(job_id, "RUNNING")
        late = training(cluster, "be-late", "any")
        with gavel(cluster, tmp_path, one_client) as daemon:
            # It may be its turn a moment later; what was done to it is in the log.
            cluster.wait_for(lambda: f"hold job {late}: sent" in daemon.log.read_text(), "it to be held")
            cluster.wait_state(late, "RUNNING")
            cluster.wait_for(
                lambda: any(cluster.state(job_id) == "PENDING" for job_id in running), "one of the others to wait"
            )
            config = daemon.config
        undo = run_tesched("undo", TESCHED_CONFIG=str(config))
        assert undo.returncode == 0, undo.stdout + undo.stderr
        for job_id in (*running, late):
            fields = cluster.job(job_id)
            assert (fields["Nice"], fields["Priority"] == "0") == ("0", False)
            assert fields["JobState"] == "RUNNING" or fields["ReqNodeList"] == "(null)"


@pytest.mark.gate
def test_no_training_leaves_for_a_held_one_that_lacks_a_licence(tmp_path: Path, one_client: ClientChoice) -> None:
    with LocalCluster(two_types(Licenses="matlab:1")) as cluster:
        running = [training(cluster, f"be-{number}", "any") for number in range(2)]
        for job_id in running:
            cluster.wait_state(job_id, "RUNNING")
        late = training(cluster, "be-late", "any", "--licenses=matlab:1")
        # Long rounds: the licence is gone before the turn comes.
        with gavel(cluster, tmp_path, one_client, round_s=20.0, guard="retry_after_s = 5\n") as daemon:
            cluster.wait_for(lambda: cluster.job(late)["Priority"] == "0", "it to be held")
            with frozen(daemon):
                taker = cluster.sbatch("--licenses=matlab:1", wrap="exec sleep 1000")
                cluster.wait_state(taker, "RUNNING")

            def endings() -> list[str | None]:
                return [story["order"]["ending"] for story in daemon.json("orders")["orders"]]

            cluster.wait_for(lambda: "blocked" in endings(), "Slurm to say what it waits for")
            assert [cluster.job(job_id)["Restarts"] for job_id in running] == ["0", "0"]
            assert daemon.json("status")["tally"]["futile"] == 0
            # With the licence it waits for a GPU alone: one of the others leaves, once Slurm says so.
            cluster.run("scancel", str(taker))
            cluster.wait_state(late, "RUNNING")
            assert sorted(cluster.job(job_id)["Restarts"] for job_id in running) == ["0", "1"]


def test_a_trial_comes_before_the_rounds(tmp_path: Path, one_client: ClientChoice) -> None:
    with LocalCluster(two_types()) as cluster:
        trainings = [training(cluster, f"be-{number}", "any") for number in range(3)]
        for job_id in trainings[:2]:
            cluster.wait_state(job_id, "RUNNING")
        with gavel(cluster, tmp_path, one_client):
            trial = submit(cluster, LoadJob(name="te-1", kind="te", gpus=1, ticks=100), cluster.shared)
            cluster.wait_state(trial, "COMPLETED")
            assert cluster.job(trial)["Restarts"] == "0"
            cluster.wait_for(
                lambda: sum(cluster.state(job_id) == "RUNNING" for job_id in trainings) == 2,
                "two trainings to have the two GPUs again",
            )


def test_two_jobs_that_ask_for_shards_share_the_gpu_on_which_they_are_fast(
    tmp_path: Path, one_client: ClientChoice
) -> None:
    groups = (("k80", {"gpu:k80": 1, "shard": 2}), ("v100", {"gpu:v100": 1, "shard": 2}))
    definition = ClusterDefinition(
        groups=tuple(NodeGroup(prefix=f"{kind}-", count=1, gres=gres) for kind, gres in groups)
    )
    with LocalCluster(definition) as cluster:
        asks = ("--gres=shard:1", "--comment=workload=light")
        pair = [
            submit(cluster, LoadJob(name=f"be-{number}", kind="be", ticks=36_000, options=asks), cluster.shared)
            for number in range(2)
        ]
        for job_id in pair:
            cluster.wait_state(job_id, "RUNNING")
        # Slurm itself puts them on one GPU of the first node, which is the slow one.
        assert {cluster.job(job_id)["NodeList"] for job_id in pair} == {"k80-1"}
        with gavel(cluster, tmp_path, one_client, policy="las-sharing") as daemon:
            cluster.wait_for(
                lambda: {cluster.job(job_id)["NodeList"] for job_id in pair} == {"v100-1"},
                "both to be on the fast GPU",
            )
            # While one of them is on its way, a round may have been made without it.
            cluster.wait_for(
                lambda: f"on one GPU with job {pair[1]}" in daemon.ask("explain", str(pair[0])).stdout,
                "explain to name the partner",
            )
            whole = training(cluster, "be-whole", "fits-k", ticks=100)
            cluster.wait_state(whole, "RUNNING")
            assert "shares GPUs of v100 (2 a GPU), k80 (2 a GPU)" in daemon.ask("doctor").stdout


@pytest.mark.gate
def test_a_hold_that_came_as_a_job_started_does_not_make_its_move_futile(
    tmp_path: Path, one_client: ClientChoice
) -> None:
    with LocalCluster(two_types()) as cluster:
        # No round moves these: whichever turn it would be, the other one has no place, and is held for certain.
        running = [training(cluster, f"be-{number}", "any", "--no-requeue") for number in range(2)]
        for job_id in running:
            cluster.wait_state(job_id, "RUNNING")
        on_v, on_k = sorted(running, key=lambda job_id: cluster.job(job_id)["NodeList"] == "k80-1")
        late = training(cluster, "be-late", "fits-v", on_notice="exit")
        with gavel(cluster, tmp_path, one_client) as daemon:
            cluster.wait_for(lambda: cluster.job(late)["Priority"] == "0", "it to be held")
            # As if the command had been on its way while Slurm started the job.
            with frozen(daemon):
                cluster.run("scancel", str(on_k))
                cluster.run("scontrol", "release", str(late))
                cluster.wait_state(late, "RUNNING")
                cluster.run("scontrol", "hold", str(late))
            assert cluster.job(late)["NodeList"] == "k80-1"
            cluster.run("scancel", str(on_v))
            cluster.wait_for(lambda: cluster.job(late)["NodeList"] == "v100-1", "it to be where it is fast")
            assert daemon.json("status")["tally"]["futile"] == 0


@pytest.mark.gate
def test_one_gets_other_nodes_where_a_trial_has_taken_its_own(tmp_path: Path, one_client: ClientChoice) -> None:
    with LocalCluster(two_types()) as cluster:
        running = [training(cluster, f"be-{number}", "any", on_notice="exit") for number in range(2)]
        for job_id in running:
            cluster.wait_state(job_id, "RUNNING")
        on_v, moves = sorted(running, key=lambda job_id: cluster.job(job_id)["NodeList"] == "k80-1")
        said = cluster.job(moves)["Comment"].replace("workload=any", "workload=fits-v")
        cluster.run("scontrol", "update", f"jobid={moves}", f"comment={said}")
        cluster.run("scancel", str(on_v))
        with gavel(cluster, tmp_path, one_client) as daemon:
            cluster.wait_for(
                lambda: cluster.job(moves)["ReqNodeList"] == "v100-1", "it to be bound to where it is fast"
            )
            # Slurm does not start it again yet, and v100-1 is free until then.
            typed = ("--gres=gpu:v100:1",)
            trial = submit(cluster, LoadJob(name="te-1", kind="te", ticks=36_000, options=typed), cluster.shared)
            cluster.wait_state(trial, "RUNNING")
            cluster.wait_for(lambda: cluster.job(moves)["NodeList"] == "k80-1", "it to have its turn elsewhere")
            endings = [story["order"]["ending"] for story in daemon.json("orders")["orders"]]
            assert "overtaken" in endings
