"""Effect of each lever on a job of a real Slurm, and when it is refused.

Over 400 lines: one lever after the other, each by itself.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_core.model.actions import (
    Action,
    FailureKind,
    Notify,
    Reason,
    ReasonCode,
    Requeue,
    Rerun,
    Resume,
    SetField,
    Status,
    Suspend,
    kind_of,
)
from tesched_core.model.field import Field, NodeCount, Nodes, NumberField
from tesched_core.model.notice import Target
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_slurm.clients import Client
from tesched_slurm.commands_actuator import CommandsActuator, DryRunActuator
from tesched_slurm.run_command import Commands
from tesched_testcluster.harness.slurm_clients import Connect
from tesched_testcluster.local import LocalCluster

from tests.builders import hold, node_list, release

pytestmark = [pytest.mark.slurm, pytest.mark.release]

WHY = Reason(code=ReasonCode.ADMIN, text="a test")
SLEEP = "exec sleep 100"


def sent(client: Client, action: Action) -> None:
    outcome = client.actuator.act(action)
    assert outcome.status is Status.SENT, outcome


def refused(client: Client, action: Action) -> FailureKind:
    outcome = client.actuator.act(action)
    assert outcome.status is Status.FAILED
    assert outcome.failure is not None
    assert outcome.failure.message
    return outcome.failure.kind


def running(cluster: LocalCluster, *options: str, wrap: str = SLEEP) -> JobId:
    job_id = JobId(cluster.sbatch(*options, wrap=wrap))
    # squeue, since a forged name must not fool the test itself.
    look_up = ("squeue", "-h", "-j", str(job_id), "-o", "%T")
    cluster.wait_for(lambda: cluster.run(*look_up).stdout == "RUNNING\n", "the job to run")
    return job_id


def pending(cluster: LocalCluster) -> JobId:
    """Return a job that waits for resources and has a priority."""
    running(cluster, "--exclusive", "-N8")
    job_id = JobId(cluster.sbatch(wrap=SLEEP))
    cluster.wait_for(lambda: cluster.job(job_id)["Reason"] in {"Resources", "Priority"}, "the job to wait")
    return job_id


def priority(cluster: LocalCluster, job_id: int) -> int:
    return int(cluster.job(job_id)["Priority"])


def observed(client: Client) -> Snapshot:
    seen = client.observer.observe()
    assert isinstance(seen, Snapshot), seen
    return seen


def number(job_id: JobId, field: NumberField, value: int, previous: int) -> SetField:
    return SetField(job_id=job_id, reason=WHY, field=field, value=value, previous=previous)


def requeue(job_id: int, restarts: int = 0) -> Requeue:
    return Requeue(job_id=JobId(job_id), reason=WHY, restarts=restarts)


@pytest.mark.gate
def test_requeued_job_waits_again(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    job_id = running(cluster)
    sent(client, requeue(job_id))
    seen = cluster.wait_state(job_id, "PENDING")
    assert (seen["Restarts"], seen["Reason"]) == ("1", "BeginTime")
    assert cluster.wait_state(job_id, "RUNNING")["Restarts"] == "1"


@pytest.mark.gate
def test_a_completed_job_is_not_run_again(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    job_id = cluster.sbatch(wrap="true")
    cluster.wait_state(job_id, "COMPLETED")
    assert refused(client, requeue(job_id)) is FailureKind.ALREADY_DONE
    assert (cluster.state(job_id), cluster.job(job_id)["Restarts"]) == ("COMPLETED", "0")


@pytest.mark.gate
def test_a_job_that_ends_after_the_read_is_not_run_again(cluster: LocalCluster, connect: Connect) -> None:
    # What the actuator sends once its query is over: slurmctld itself must leave the job alone.
    client = connect(cluster)
    for wrap, state in (("true", "COMPLETED"), ("false", "FAILED")):
        job_id = running(cluster)
        job = next(job for job in observed(client).jobs.values() if job.job_id == job_id)
        cluster.run("scancel", str(job_id))
        ended = cluster.sbatch(wrap=wrap)
        cluster.wait_state(ended, state)
        commands = CommandsActuator(commands=Commands(slurm_conf=str(cluster.slurm_conf)))
        seen = replace(job, job_id=JobId(ended))
        assert commands.act(requeue(ended), seen=seen).status is Status.SENT
        # A job that was put back would be seen so at once.
        assert (cluster.state(ended), cluster.job(ended)["Restarts"]) == (state, "0")


@pytest.mark.gate
def test_a_job_that_has_failed_is_put_back_once(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    job_id = JobId(cluster.sbatch(wrap='test -n "$SLURM_RESTART_COUNT"'))
    cluster.wait_state(job_id, "FAILED")
    again = Rerun(job_id=job_id, reason=WHY, restarts=0)
    cluster.wait_for(lambda: client.actuator.act(again).status is Status.SENT, "the job to be put back")
    assert cluster.wait_state(job_id, "COMPLETED")["Restarts"] == "1"
    assert refused(client, again) is FailureKind.ALREADY_DONE
    runs = running(cluster)
    assert refused(client, replace(again, job_id=runs)) is FailureKind.ALREADY_DONE


@pytest.mark.gate
def test_another_run_than_the_one_meant_is_left_alone(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    job_id = running(cluster)
    assert refused(client, requeue(job_id, restarts=1)) is FailureKind.ALREADY_DONE
    notify = Notify(job_id=job_id, reason=WHY, signal="TERM", target=Target.BATCH, restarts=1)
    assert refused(client, notify) is FailureKind.ALREADY_DONE
    assert (cluster.state(job_id), cluster.job(job_id)["Restarts"]) == ("RUNNING", "0")


@pytest.mark.gate
def test_a_job_frozen_after_the_read_leaves_the_next_run_alone(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    frozen_once: list[JobId] = []

    def frozen_for(job_id: JobId) -> str:
        """Freeze between poll and command, while another user requeues the job and it runs again."""
        if job_id not in frozen_once:
            frozen_once.append(job_id)
            cluster.run("scontrol", "requeue", str(job_id))
            cluster.wait_for(lambda: cluster.job(job_id)["Restarts"] == "1", "the requeue")
            cluster.wait_state(job_id, "RUNNING")
        return ""

    notice = Notify(job_id=JobId(0), reason=WHY, signal="TERM", target=Target.BATCH, restarts=0)
    for action in (requeue(0), notice):
        job_id = running(cluster)
        outcome = client.actuator.act(replace(action, job_id=job_id), lambda job_id=job_id: frozen_for(job_id))  # type: ignore[misc]
        assert outcome.failure is not None, outcome
        assert outcome.failure.kind is FailureKind.ALREADY_DONE
        assert (cluster.state(job_id), cluster.job(job_id)["Restarts"]) == ("RUNNING", "1")


@pytest.mark.gate
def test_a_job_that_must_not_be_requeued_goes_on(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    job_id = running(cluster, "--no-requeue")
    assert refused(client, requeue(job_id)) is FailureKind.REFUSED
    assert cluster.state(job_id) == "RUNNING"


@pytest.mark.gate
def test_a_pending_job_is_not_requeued(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    assert refused(client, requeue(cluster.sbatch("--hold", wrap=SLEEP))) is FailureKind.ALREADY_DONE


@pytest.mark.gate
def test_a_suspended_job_comes_back_not_held(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    job_id = running(cluster)
    sent(client, Suspend(job_id=job_id, reason=WHY, restarts=0))
    sent(client, requeue(job_id))
    cluster.wait_state(job_id, "PENDING", "RUNNING")
    assert cluster.wait_state(job_id, "RUNNING")["Restarts"] == "1"
    assert priority(cluster, job_id) > 0


@pytest.mark.gate
def test_one_task_of_an_array(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    array = cluster.sbatch("--array=0-1", wrap=SLEEP)

    def tasks() -> dict[str, int]:
        seen = [each for each in cluster.jobs(array) if each["JobState"] == "RUNNING"]
        found = {each["ArrayTaskId"]: int(each["JobId"]) for each in seen}
        return found if len(found) == 2 else {}

    found = cluster.wait_for(tasks, "both tasks to run")
    # The last task's own id is that of the whole array.
    assert found["1"] == array
    sent(client, requeue(array))
    cluster.wait_for(lambda: cluster.job(f"{array}_1")["Restarts"] == "1", "the task to go")
    assert cluster.job(f"{array}_0")["Restarts"] == "0"
    assert cluster.state(f"{array}_0") == "RUNNING"


@pytest.mark.gate
def test_throttle_of_an_array_with_finished_tasks_is_set_and_put_back(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    array = JobId(cluster.sbatch("--array=0-19%2", wrap=SLEEP))

    def tasks() -> list[str]:
        return [each["ArrayTaskId"] for each in cluster.jobs(array) if each["JobState"] == "RUNNING"]

    def throttle() -> int:
        seen = client.observer.observe()
        assert isinstance(seen, Snapshot)
        (found,) = {job.array_throttle for job in seen.jobs.values() if job.array_job_id == array}
        return found

    cluster.wait_for(lambda: len(tasks()) == 2, "two tasks to run")
    assert throttle() == 2
    # Of a finished task scontrol says so, and fails, and has set the throttle all the same.
    cluster.run("scancel", f"{array}_0")
    cluster.wait_for(lambda: cluster.state(f"{array}_0") == "CANCELLED", "one to end")
    sent(client, number(array, Field.THROTTLE, 5, previous=2))
    assert throttle() == 5
    cluster.wait_for(lambda: len(tasks()) == 5, "five tasks to run")
    sent(client, number(array, Field.THROTTLE, 1, previous=5))
    assert throttle() == 1
    assert len(tasks()) == 5, "none is ended"
    sent(client, number(array, Field.THROTTLE, 0, previous=1))
    assert throttle() == 0
    cluster.wait_for(lambda: len(tasks()) == 19, "all tasks to run")


@pytest.mark.gate
def test_tasks_of_an_array_that_has_ended_run_by_the_throttle_that_it_got_then(
    cluster: LocalCluster, connect: Connect
) -> None:
    """Its user may requeue it while Slurm knows it: what tesched has set of it is put back after its end, too."""
    client = connect(cluster)
    # In their second run they stay: else the moment in which one runs and three wait may be over before it is seen.
    array = JobId(cluster.sbatch("--requeue", "--array=0-3%2", wrap='[ -z "$SLURM_RESTART_COUNT" ] || sleep 300'))

    def each(name: str) -> list[str]:
        return [record[name] for record in cluster.jobs(array)]

    cluster.wait_for(lambda: each("JobState") == ["COMPLETED"] * 4, "all tasks to end")
    sent(client, number(array, Field.THROTTLE, 1, previous=2))
    assert each("ArrayTaskThrottle") == ["1"] * 4
    for task in range(4):
        cluster.run("scontrol", "requeue", f"{array}_{task}")
    cluster.wait_for(lambda: each("Reason").count("JobArrayTaskLimit") == 3, "three to wait for one")
    assert refused(client, number(JobId(999_999), Field.THROTTLE, 1, previous=0)) is FailureKind.NOT_FOUND


@pytest.mark.gate
def test_notice_to_the_script(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    told = cluster.shared / "told"
    ready = cluster.shared / "ready"
    job_id = running(cluster, wrap=f"trap 'touch {told}' USR1; touch {ready}; while :; do sleep 0.1; done")
    cluster.wait_for(ready.exists, "the trap to be set")
    sent(client, Notify(job_id=job_id, reason=WHY, signal="USR1", target=Target.BATCH, restarts=0))
    cluster.wait_for(told.exists, "the notice")
    assert cluster.state(job_id) == "RUNNING"


@pytest.mark.gate
def test_notice_to_the_children_too(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    told = cluster.shared / "child_told"
    ready = cluster.shared / "child_ready"
    child = f'trap "touch {told}; exit" USR1; touch {ready}; while :; do sleep 0.1; done'
    job_id = running(cluster, wrap=f"trap : USR1; bash -c '{child}' & wait; wait; exec sleep 100")
    cluster.wait_for(ready.exists, "the child's trap to be set")
    sent(client, Notify(job_id=job_id, reason=WHY, signal="USR1", target=Target.FULL, restarts=0))
    cluster.wait_for(told.exists, "the child's notice")


@pytest.mark.gate
def test_suspended_job_resumes(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    job_id = running(cluster)
    sent(client, Suspend(job_id=job_id, reason=WHY, restarts=0))
    assert cluster.state(job_id) == "SUSPENDED"
    # Slurm takes it a second time, and nothing changes.
    sent(client, Suspend(job_id=job_id, reason=WHY, restarts=0))
    assert cluster.state(job_id) == "SUSPENDED"
    sent(client, Resume(job_id=job_id, reason=WHY))
    assert cluster.state(job_id) == "RUNNING"
    assert refused(client, Resume(job_id=job_id, reason=WHY)) is FailureKind.ALREADY_DONE


@pytest.mark.gate
def test_nice_moves_the_priority_and_is_put_back(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    job_id = pending(cluster)
    before = priority(cluster, job_id)
    sent(client, number(job_id, Field.NICE, -50, previous=0))
    assert (priority(cluster, job_id), cluster.job(job_id)["Nice"]) == (before + 50, "-50")
    sent(client, number(job_id, Field.NICE, 0, previous=-50))
    assert (priority(cluster, job_id), cluster.job(job_id)["Nice"]) == (before, "0")


@pytest.mark.gate
def test_nice_of_a_running_job_is_put_back(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    job_id = running(cluster)
    sent(client, number(job_id, Field.NICE, -50, previous=0))
    assert cluster.job(job_id)["Nice"] == "-50"
    sent(client, number(job_id, Field.NICE, 0, previous=-50))
    assert (cluster.state(job_id), cluster.job(job_id)["Nice"]) == ("RUNNING", "0")


@pytest.mark.gate
def test_after_an_explicit_priority_nice_is_ignored(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    job_id = pending(cluster)
    sent(client, number(job_id, Field.PRIORITY, 1000, previous=priority(cluster, job_id)))
    assert priority(cluster, job_id) == 1000
    client.actuator.act(number(job_id, Field.NICE, -50, previous=0))
    assert priority(cluster, job_id) == 1000


@pytest.mark.gate
def test_nodes_of_a_waiting_job_are_set_and_put_back(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    job_id = pending(cluster)
    node = cluster.definition.node_names[0]
    sent(client, node_list(job_id, WHY, Nodes(names=(node,)), previous=Nodes()))
    assert cluster.job(job_id)["ReqNodeList"] == node
    sent(client, node_list(job_id, WHY, Nodes(), previous=Nodes(names=(node,))))
    assert cluster.job(job_id)["ReqNodeList"] == "(null)"


@pytest.mark.gate
@pytest.mark.parametrize("tasks", [(), ("--ntasks-per-node=1",), ("--ntasks-per-node=2", "--cpus-per-task=2")])
def test_a_range_of_nodes_becomes_a_number_of_certain_ones_and_back(
    cluster: LocalCluster, connect: Connect, tasks: tuple[str, ...]
) -> None:
    client = connect(cluster)
    job_id = JobId(cluster.sbatch("--hold", "-N2-4", "--mem=100M", *tasks, wrap=SLEEP))
    keys = ("NumNodes", "NumTasks", "ReqNodeList")
    before = cluster.job(job_id)
    own = NodeCount(least=2, most=4, tasks=int(before["NumTasks"]), cpus=int(before["NumCPUs"]))
    nodes = cluster.definition.node_names[4:7]
    sent(client, node_list(job_id, WHY, Nodes(names=nodes, count=NodeCount(least=3, most=3)), previous=Nodes()))
    assert cluster.job(job_id)["NumNodes"] == "3-3"
    sent(client, node_list(job_id, WHY, Nodes(names=(), count=own), previous=Nodes(names=nodes)))
    after = cluster.job(job_id)
    assert [after[key] for key in keys] == [before[key] for key in keys]
    # Slurm does not let the CPUs be fewer than what the fewest nodes take.
    assert int(before["NumCPUs"]) <= int(after["NumCPUs"]) <= 4 * int(before["NumTasks"])
    sent(client, node_list(job_id, WHY, Nodes(names=nodes, count=NodeCount(least=3, most=3)), previous=Nodes()))
    cluster.run("scontrol", "release", str(job_id))
    cluster.wait_state(job_id, "RUNNING")
    assert (cluster.job(job_id)["NumNodes"], cluster.job(job_id)["NodeList"]) == ("3", "n[5-7]")


@pytest.mark.gate
def test_nodes_of_a_running_job_are_not_touched(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    action = node_list(running(cluster), WHY, Nodes(names=(cluster.definition.node_names[0],)), previous=Nodes())
    assert refused(client, action) is FailureKind.ALREADY_DONE


@pytest.mark.gate
def test_held_job_is_released(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    job_id = pending(cluster)
    sent(client, hold(job_id, WHY))
    assert priority(cluster, job_id) == 0
    sent(client, release(job_id, WHY))
    assert priority(cluster, job_id) > 0


@pytest.mark.gate
def test_every_action_on_an_unknown_job_fails(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    unknown = JobId(999_999)
    actions: tuple[Action, ...] = (
        requeue(unknown),
        Notify(job_id=unknown, reason=WHY, signal="USR1", target=Target.BATCH, restarts=0),
        Suspend(job_id=unknown, reason=WHY, restarts=0),
        Resume(job_id=unknown, reason=WHY),
        number(unknown, Field.NICE, 1, previous=0),
        number(unknown, Field.PRIORITY, 1, previous=0),
        node_list(unknown, WHY, Nodes(), previous=Nodes()),
        hold(unknown, WHY),
        release(unknown, WHY),
    )
    assert {kind_of(action): refused(client, action) for action in actions} == {
        kind_of(action): FailureKind.NOT_FOUND for action in actions
    }


@pytest.mark.gate
def test_a_job_cannot_hide_behind_its_name(cluster: LocalCluster, connect: Connect) -> None:
    client = connect(cluster)
    forged = "x UserId=bob(1) GroupId=x(1) MCS_label= JobState=COMPLETED Restarts=9 Command=/x"
    job_id = running(cluster, "-J", forged)
    sent(client, requeue(job_id))
    waits = ("squeue", "-h", "-j", str(job_id), "-o", "%T")
    cluster.wait_for(lambda: cluster.run(*waits).stdout == "PENDING\n", "the job to be back in the queue")


@pytest.mark.gate
def test_a_dry_run_does_nothing(cluster: LocalCluster) -> None:
    job_id = running(cluster)
    assert DryRunActuator().act(requeue(job_id)).status is Status.WOULD
    assert (cluster.state(job_id), cluster.job(job_id)["Restarts"]) == ("RUNNING", "0")
