"""kill -9 between any two steps of an order, on a real Slurm: a new daemon goes on, or `tesched undo` puts all back.

The order: a victim that works on through its grace period of 3 s, so that every step is there: (1) the intent, (2) the
TE job's raise, (3) its nodes, (4) the notice, (5) the conclusion; (6 to 8) the same of the requeue; (9 to 11) the same
of the nice value that is put back when the TE job has started. A notice that was meant and has no outcome is never sent
again; then the victim is notified by the requeue alone.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from tesched_slurm.client_choice import ClientChoice
from tesched_testcluster.harness.daemon_process import (
    crashing_daemon,
    run_tesched,
    running_daemon,
    until_killed,
    write_config,
)
from tesched_testcluster.load import HOLD, EventName, LoadJob, await_begun, hold, read_events, submit
from tesched_testcluster.local import LocalCluster

from tests.cluster.gate import gated

pytestmark = pytest.mark.slurm

#: of 0.1 s; the jobs are held by files, so more would only take longer
TICKS = 5


def crash(cluster: LocalCluster, config: Path, before_step: int) -> tuple[list[int], int]:
    """Run a daemon that dies before this step of an order; return the best-effort jobs and the TE job."""
    # No job's end frees resources before the test lets it: a victim that ends while it is requeued would run again.
    hold(cluster.shared, "be")
    ids = []
    for number in range(8):
        job = LoadJob(
            name=f"be-{number}",
            kind="be",
            cpus=8,
            gpus=8,
            ticks=TICKS,
            on_notice="stay",
            options=("--comment=grace=3",),
        )
        ids.append(submit(cluster, job, cluster.shared))
    await_begun(cluster, ids, cluster.shared)
    te = submit(cluster, LoadJob(name="te-1", kind="te", cpus=2, gpus=2, ticks=TICKS), cluster.shared)
    with crashing_daemon(config, before_step) as daemon:
        until_killed(cluster, daemon)
    return ids, te


def nobody_was_harmed(cluster: LocalCluster, ids: list[int], te: int, *, victims: int) -> None:
    """Let all jobs end; assert that they ran to it, once, that no job had two notices, and that nothing is left."""
    (cluster.shared / HOLD.format(kind="be")).unlink(missing_ok=True)
    for job_id in (te, *ids):
        cluster.wait_state(job_id, "COMPLETED")
    events = read_events(cluster.shared)
    for job_id in ids:
        seen = Counter(event.name for event in events if event.job_id == job_id)
        assert seen[EventName.NOTICE] <= 1, seen
        assert seen[EventName.RESTART] <= 1, seen
        assert seen[EventName.DONE] == 1, "no finished job runs again"
        fields = cluster.job(job_id)
        assert (fields["Nice"], fields["Priority"] == "0") == ("0", False)
    assert cluster.job(te)["Nice"] == "0"
    assert sum(event.name is EventName.RESTART for event in events) <= victims
    assert sum(event.name is EventName.NOTICE for event in events) <= victims


@pytest.mark.parametrize("step", gated(range(1, 12), 4, 7))
def test_a_new_daemon_goes_on(cluster: LocalCluster, tmp_path: Path, step: int) -> None:
    config = write_config(cluster, tmp_path, ClientChoice.COMMANDS)
    # Of a job that has ended Slurm lets nothing be changed, and a new daemon may come late.
    hold(cluster.shared, "te")
    ids, te = crash(cluster, config, step)
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS) as daemon:
        cluster.wait_state(te, "RUNNING")
        cluster.wait_for(lambda: cluster.job(te)["Nice"] == "0", "its nice value to be put back")
        for kind in ("te", "be"):
            (cluster.shared / HOLD.format(kind=kind)).unlink()
        cluster.wait_for(lambda: not daemon.json("status")["orders"], "the order to end")
        nobody_was_harmed(cluster, ids, te, victims=1)
        (order,) = daemon.json("orders")["orders"]
        assert order["order"]["ending"] == "started_here"


@pytest.mark.parametrize("step", gated([2, 3, 4, 5, 7, 8, 10], 5))
def test_undo_puts_all_back_without_a_daemon(cluster: LocalCluster, tmp_path: Path, step: int) -> None:
    config = write_config(cluster, tmp_path, ClientChoice.COMMANDS)
    # Of a job that has ended Slurm lets nothing be changed.
    hold(cluster.shared, "te")
    ids, te = crash(cluster, config, step)
    said = run_tesched("undo", TESCHED_CONFIG=str(config))
    assert (said.returncode, said.stderr) == (0, ""), said.stdout
    assert said.stdout.rstrip().endswith("nothing is left that tesched has changed")
    nice = {job_id: cluster.job(job_id)["Nice"] for job_id in (te, *ids)}
    assert nice == dict.fromkeys((te, *ids), "0"), f"trial {te}; undo said: {said.stdout}"
    (cluster.shared / HOLD.format(kind="te")).unlink()
    # Slurm lets no user change that of a running job.
    assert cluster.state(te) != "PENDING" or cluster.job(te)["ReqNodeList"] == "(null)"
    again = run_tesched("undo", "--dry-run", TESCHED_CONFIG=str(config))
    assert (again.returncode, again.stdout) == (0, "nothing is left that tesched has changed\n")
    nobody_was_harmed(cluster, ids, te, victims=1)


@pytest.mark.gate
def test_undo_names_a_held_job_and_puts_its_nice_value_back_once_it_is_released(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    config = write_config(cluster, tmp_path, ClientChoice.COMMANDS)
    hold(cluster.shared, "te")
    ids, te = crash(cluster, config, 4)
    raised = cluster.job(te)["Nice"]
    assert int(raised) < 0
    cluster.run("scontrol", "hold", str(te))
    said = run_tesched("undo", TESCHED_CONFIG=str(config))
    assert (said.returncode, said.stderr) == (1, "")
    assert f"job {te} is held, and Slurm would start it" in said.stdout
    assert (cluster.state(te), cluster.job(te)["Nice"]) == ("PENDING", raised)
    cluster.run("scontrol", "release", str(te))
    again = run_tesched("undo", "--json", TESCHED_CONFIG=str(config))
    assert again.returncode == 0, again.stdout
    content = json.loads(again.stdout)
    assert (content["settled"], content["held"]) == (True, [])
    assert cluster.job(te)["Nice"] == "0"
    (cluster.shared / HOLD.format(kind="te")).unlink()
    nobody_was_harmed(cluster, ids, te, victims=1)


def test_undo_does_nothing_while_the_daemon_runs(cluster: LocalCluster, tmp_path: Path) -> None:
    with running_daemon(cluster, tmp_path, ClientChoice.COMMANDS) as daemon:
        said = daemon.ask("undo")
        assert said.returncode == 2
        assert "stop it first" in said.stderr
