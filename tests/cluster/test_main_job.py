"""The main job on a real Slurm: full of best-effort jobs, a trial-and-error job starts on a victim's resources."""

from __future__ import annotations

from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.harness.daemon_process import running_daemon
from tesched_testcluster.load import (
    EVENTS,
    HOLD,
    EventName,
    LoadJob,
    OnNotice,
    await_begun,
    hold,
    read_events,
    scripts_in,
    submit,
)
from tesched_testcluster.local import LocalCluster
from tesched_testcluster.users import ordinary_user

pytestmark = [pytest.mark.slurm, pytest.mark.release]

#: of 0.1 s; jobs that must not end yet are held by files
TICKS = 10


def fill(
    cluster: LocalCluster, on_notice: OnNotice = "unaware", *, checkpoint_s: float = 0.0, options: tuple[str, ...] = ()
) -> list[int]:
    """Fill the eight nodes with 8-GPU best-effort jobs and wait until all run. They are held."""
    hold(cluster.shared, "be")
    ids = [
        submit(
            cluster,
            LoadJob(
                name=f"be-{number}",
                kind="be",
                cpus=8,
                gpus=8,
                ticks=TICKS,
                on_notice=on_notice,
                checkpoint_s=checkpoint_s,
                options=options,
            ),
            cluster.shared,
        )
        for number in range(1, 9)
    ]
    await_begun(cluster, ids, cluster.shared)
    return ids


def seconds_waited(cluster: LocalCluster, job_id: int) -> float:
    """Return the whole seconds, by Slurm's own clock, between submission and start."""
    waited = cluster.run("squeue", "-h", "-t", "all", "-j", str(job_id), "-O", "PendingTime").stdout.strip()
    return float(waited)


@pytest.mark.gate
def test_a_te_job_starts_on_the_resources_of_one_victim_which_goes_on_from_its_checkpoint(
    cluster: LocalCluster, tmp_path: Path, client_choice: ClientChoice
) -> None:
    # However long it takes to save its work, its grace period is not over before.
    victims = fill(cluster, "exit", checkpoint_s=1.0, options=("--comment=grace=86400",))
    trials_end = hold(cluster.shared, "te")
    # Waits before the TE job, fits on the victim's nodes as well, and must not get it: a whole node.
    rival = submit(cluster, LoadJob(name="be-rival", kind="be", cpus=8, gpus=8, ticks=TICKS), cluster.shared)
    before = {job_id: cluster.job(job_id)["Priority"] for job_id in [*victims, rival]}
    with running_daemon(cluster, tmp_path, client_choice) as daemon:
        # Of another user than its victim, which has a claim to be ahead then; both write to the same file.
        (cluster.shared / EVENTS).chmod(0o666)
        load = LoadJob(name="te-1", kind="te", cpus=2, gpus=2, ticks=TICKS)
        te = submit(cluster, load, cluster.shared, script=scripts_in(cluster.shared), user=ordinary_user())
        first = cluster.job(te)["Priority"]
        cluster.wait_state(te, "RUNNING")
        assert cluster.state(rival) == "PENDING"
        paid = [event.job_id for event in read_events(cluster.shared) if event.name is EventName.NOTICE]
        assert len(paid) == 1
        assert paid[0] in victims
        cluster.wait_for(lambda: cluster.job(te)["Nice"] == "0", "the TE job's nice value to be put back")
        assert cluster.job(te)["Priority"] == first
        cluster.wait_for(
            lambda: int(cluster.job(paid[0])["Priority"]) > int(cluster.job(rival)["Priority"]),
            "the victim to be ahead of who waited before it",
        )
        # Slurm lets a requeued job wait for some seconds, in which one behind it would be started.
        cluster.wait_for(
            lambda: cluster.job(paid[0])["Reason"] in {"Resources", "Priority"}, "the victim to wait for a node alone"
        )
        trials_end.unlink()
        # Of a job that has ended Slurm lets nothing be changed.
        cluster.wait_state(paid[0], "RUNNING")
        cluster.wait_for(lambda: cluster.job(paid[0])["Nice"] == "0", "the victim's nice value to be put back")
        (cluster.shared / HOLD.format(kind="be")).unlink()
        cluster.wait_state(paid[0], "COMPLETED")
        cluster.wait_for(lambda: not daemon.json("status")["orders"], "the order to end once its victim is back")
        for job_id in victims:
            cluster.wait_state(job_id, "COMPLETED")
        for job_id, priority in before.items():
            seen = cluster.job(job_id)
            assert seen["Nice"] == "0", job_id
            # A requeue leaves a job its priority on 22.05, and gives it a new one on 26.05.
            if job_id != paid[0]:
                assert seen["Priority"] == priority, job_id

        story = [event for event in read_events(cluster.shared) if event.job_id == paid[0]]
        assert [event.name for event in story] == [
            EventName.START,
            EventName.NOTICE,
            EventName.CHECKPOINT,
            EventName.LEAVE,
            EventName.RESTART,
            EventName.DONE,
        ]
        saved, restart, done = story[2], story[4], story[5]
        assert (restart.restarts, restart.ticks_done) == (1, saved.ticks_done)
        assert done.ticks_done == TICKS

        for job_id in (te, paid[0], next(job_id for job_id in victims if job_id != paid[0])):
            answer = daemon.ask("explain", str(job_id))
            assert answer.returncode == 0, answer.stderr
            assert str(te) in answer.stdout, answer.stdout
        assert daemon.ask("status").returncode == 0
        assert daemon.json("status")["daemon"]["client"].startswith(client_choice)


@pytest.mark.gate
def test_an_ordinary_victim_is_requeued_at_once_and_ends_once(
    cluster: LocalCluster, tmp_path: Path, client_choice: ClientChoice
) -> None:
    victims = fill(cluster)
    with running_daemon(cluster, tmp_path, client_choice) as daemon:
        te = submit(cluster, LoadJob(name="te-1", kind="te", cpus=2, gpus=2, ticks=TICKS), cluster.shared)
        cluster.wait_state(te, "RUNNING", "COMPLETED")
        (paid,) = cluster.put_back(victims)
        assert paid in victims
        (cluster.shared / HOLD.format(kind="be")).unlink()
        for job_id in (te, *victims):
            cluster.wait_state(job_id, "COMPLETED")
        cluster.wait_for(lambda: not daemon.json("status")["orders"], "the order to end")
        done = [event.job_id for event in read_events(cluster.shared) if event.name is EventName.DONE]
        assert sorted(done) == sorted([te, *victims])
        story = [event for event in read_events(cluster.shared) if event.job_id == paid]
        assert [(event.name, event.ticks_done) for event in story] == [
            (EventName.START, 0),
            (EventName.RESTART, 0),
            (EventName.DONE, TICKS),
        ]
        tally = daemon.json("status")["tally"]
        assert (tally["lost"], tally["futile"]) == (0, 0)


@pytest.mark.gate
def test_shadow_mode_decides_and_touches_nothing(
    cluster: LocalCluster, tmp_path: Path, client_choice: ClientChoice
) -> None:
    victims = fill(cluster)
    with running_daemon(cluster, tmp_path, client_choice, mode="shadow") as daemon:
        te = submit(cluster, LoadJob(name="te-1", kind="te", cpus=2, gpus=2, ticks=TICKS), cluster.shared)
        cluster.wait_for(lambda: f"resources for job {te}" in daemon.log.read_text(), "a shadow decision")
        assert cluster.put_back(victims) == []
        assert cluster.job(te)["Nice"] == "0"
        assert cluster.state(te) == "PENDING"


def test_a_victim_that_ignores_its_notice_is_requeued_when_its_grace_is_over(
    cluster: LocalCluster, tmp_path: Path, client_choice: ClientChoice
) -> None:
    victims = fill(cluster, "ignore")
    with running_daemon(cluster, tmp_path, client_choice):
        te = submit(cluster, LoadJob(name="te-1", kind="te", cpus=2, gpus=2, ticks=TICKS), cluster.shared)
        cluster.wait_state(te, "RUNNING", "COMPLETED")
        # The poll before the end of the grace period may come half a second early. That the victim was put back, and
        # did not end by itself, says that the notice alone did not do.
        assert seconds_waited(cluster, te) >= 9
        assert sum(int(cluster.job(job_id)["Restarts"]) for job_id in victims) == 1


@pytest.mark.gate
def test_a_te_job_that_is_held_or_waits_for_another_preempts_no_job(
    cluster: LocalCluster, tmp_path: Path, client_choice: ClientChoice
) -> None:
    victims = fill(cluster)
    with running_daemon(cluster, tmp_path, client_choice) as daemon:
        held = submit(
            cluster, LoadJob(name="te-held", kind="te", cpus=2, gpus=2, ticks=1, options=("--hold",)), cluster.shared
        )
        after = submit(
            cluster,
            LoadJob(name="te-after", kind="te", cpus=2, gpus=2, ticks=1, options=(f"--dependency=afterok:{held}",)),
            cluster.shared,
        )
        for job_id, word in ((held, "held"), (after, "dependency")):
            cluster.wait_for(
                lambda job_id=job_id, word=word: word in daemon.ask("explain", str(job_id)).stdout,  # type: ignore[misc]
                f"an explanation of job {job_id}",
            )
        assert cluster.put_back(victims) == []
        assert {cluster.state(job_id) for job_id in victims} == {"RUNNING"}


@pytest.mark.gate
def test_patient_lets_a_te_job_take_the_resources_of_a_job_that_ends_by_itself(
    cluster: LocalCluster, tmp_path: Path, client_choice: ClientChoice
) -> None:
    victims = fill(cluster)
    for kind in ("rival", "te"):
        hold(cluster.shared, kind)
    # They wait before the TE job, and fit on the nodes of the job that ends first: a whole node each.
    rivals = [
        submit(cluster, LoadJob(name=f"rival-{number}", kind="be", cpus=8, gpus=8, ticks=TICKS), cluster.shared)
        for number in range(8)
    ]
    with running_daemon(cluster, tmp_path, client_choice, policy="patient") as daemon:
        te = submit(cluster, LoadJob(name="te-1", kind="te", cpus=2, gpus=2, ticks=TICKS), cluster.shared)
        cluster.wait_for(
            lambda: "first in the queue, waiting for resources to be released" in daemon.ask("explain", str(te)).stdout,
            "an explanation of its patience",
        )
        (cluster.shared / HOLD.format(kind="be")).unlink()
        cluster.wait_state(te, "RUNNING")
        # It did not wait behind them: they have seven nodes, and the TE job has some of the eighth until it is let end.
        assert [job_id for job_id in rivals if cluster.state(job_id) == "PENDING"]
        assert cluster.put_back(victims) == []
        cluster.wait_for(lambda: cluster.job(te)["Nice"] == "0", "the TE job's nice value to be put back")
