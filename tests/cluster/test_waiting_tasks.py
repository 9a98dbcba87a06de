"""What is set of an array's waiting tasks is set of them alone: not of tasks that run, have ended or are held apart."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime

import pytest
from tesched_core.model.actions import ReasonCode, Status
from tesched_core.model.field import Field
from tesched_core.model.resources import JobId
from tesched_core.model.snapshot import Snapshot
from tesched_slurm import waiting_tasks
from tesched_slurm.commands_actuator import CommandsActuator
from tesched_slurm.run_command import Commands
from tesched_testcluster.definition import ClusterDefinition, NodeGroup
from tesched_testcluster.harness.slurm_clients import Connect
from tesched_testcluster.local import LocalCluster

from tests.builders import hold, release
from tests.cluster.conftest import MakeCluster
from tests.cluster.test_actuator import WHY, number, sent

pytestmark = [pytest.mark.slurm, pytest.mark.release]

ONE_NODE = ClusterDefinition(groups=(NodeGroup(count=1, cpus=2),))
#: task 0 ends at once
TASK = '[ "$SLURM_ARRAY_TASK_ID" = 0 ] || exec sleep 1000'
#: of each record of the array: its tasks, then what must stay as it is
_KEPT = ("JobState", "Reason", "Priority", "Nice", "Comment")


def an_array(cluster: LocalCluster, tasks: str = "0-9") -> JobId:
    """Submit an array of which task 0 has ended, two tasks run, and task 7 is held by an administrator."""
    array = JobId(cluster.sbatch(f"--array={tasks}%5", "-c1", "--mem=10", "--output=/dev/null", "--hold", wrap=TASK))
    cluster.run("scontrol", "hold", f"{array}_7")
    cluster.run("scontrol", "release", f"{array}_[{tasks.replace('0-9', '0-6,8-9')}]")
    cluster.wait_for(lambda: states(cluster, array).count("RUNNING") == 2, "two tasks to run")
    cluster.wait_for(lambda: states(cluster, array).count("COMPLETED") == 1, "one task to have ended")
    cluster.wait_for(lambda: cluster.job(array)["JobState"] == "PENDING", "the others to wait")
    return array


def states(cluster: LocalCluster, array: JobId) -> list[str]:
    return [record["JobState"] for record in cluster.jobs(array)]


def others(cluster: LocalCluster, array: JobId) -> dict[str, list[str | None]]:
    """Return what Slurm says of the array's tasks with records of their own."""
    records = cluster.jobs(array)
    return {one["JobId"]: [one.get(key) for key in _KEPT] for one in records if one["JobId"] != str(array)}


def waiting(cluster: LocalCluster, array: JobId) -> dict[str, str]:
    """Return the record of the tasks that wait as one."""
    (found,) = [record for record in cluster.jobs(array) if record["JobId"] == str(array)]
    return found


@pytest.mark.gate
def test_waiting_tasks_are_raised_held_and_released_alone(make_cluster: MakeCluster, connect: Connect) -> None:
    cluster = make_cluster(ONE_NODE)
    client = connect(cluster)
    array = an_array(cluster)
    before = others(cluster, array)
    assert {state for state, *_ in before.values()} == {"COMPLETED", "RUNNING", "PENDING"}
    tasks = waiting(cluster, array)["ArrayTaskId"]

    sent(client, number(array, Field.NICE, -50, previous=0))
    assert waiting(cluster, array)["Nice"] == "-50"
    sent(client, number(array, Field.PRIORITY, 4711, previous=1))
    assert waiting(cluster, array)["Priority"] == "4711"
    sent(client, hold(array, WHY))
    assert (waiting(cluster, array)["Priority"], waiting(cluster, array)["Reason"]) == ("0", "JobHeldAdmin")
    sent(client, release(array, WHY))
    assert waiting(cluster, array)["Priority"] != "0"
    later = int(time.time()) + 1000
    sent(client, number(array, Field.BEGIN, later, previous=0))
    assert waiting(cluster, array)["EligibleTime"] == datetime.fromtimestamp(later).isoformat()  # noqa: DTZ006 - Slurm's
    assert others(cluster, array) == before
    # They wait as one still: Slurm would have to keep thousands of records else.
    assert waiting(cluster, array)["ArrayTaskId"] == tasks


@pytest.mark.gate
def test_a_task_that_has_ended_since_the_list_was_read_does_not_hide_what_was_set(
    make_cluster: MakeCluster, connect: Connect
) -> None:
    cluster = make_cluster(ONE_NODE)
    array = an_array(cluster)
    snapshot = connect(cluster).observer.observe()
    assert isinstance(snapshot, Snapshot)
    actuator = CommandsActuator(commands=Commands(slurm_conf=str(cluster.slurm_conf)))
    late = replace(snapshot.jobs[array], array_tasks="0-6,8-9")

    outcome = actuator.act(number(array, Field.NICE, -50, previous=0), seen=late)
    assert waiting(cluster, array)["Nice"] == "-50"
    assert outcome.status is Status.SENT, outcome
    # Where nothing is set Slurm's answer stands.
    cluster.run("scancel", "--state=PENDING", str(array))
    assert actuator.act(number(array, Field.NICE, -70, previous=-50), seen=late).status is Status.FAILED


@pytest.mark.gate
def test_a_long_list_of_tasks_is_read_whole(make_cluster: MakeCluster, connect: Connect) -> None:
    cluster = make_cluster(ONE_NODE)
    client = connect(cluster)
    array = JobId(cluster.sbatch("--array=0-2999", "--begin=now+1day", "--output=/dev/null", wrap="true"))
    # Slurm takes no list of more than 4 KiB at submission; its user cancels tasks here and there.
    gone = sorted({*range(1, 3000, 2), *range(0, 3000, 14)})
    cluster.run("scancel", f"{array}_[{','.join(map(str, gone))}]")
    cluster.run("scontrol", "hold", f"{array}_2")
    before = others(cluster, array)
    assert "PENDING" in {state for state, *_ in before.values()}
    sent(client, hold(array, WHY))
    assert waiting(cluster, array)["Reason"] == "JobHeldAdmin"
    sent(client, release(array, WHY))
    assert waiting(cluster, array)["Priority"] != "0"
    sent(client, number(array, Field.NICE, -50, previous=0))
    assert others(cluster, array) == before


@pytest.mark.gate
def test_a_list_longer_than_a_command_takes_is_shortened_and_others_stay_as_they_are(
    make_cluster: MakeCluster, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = make_cluster(ONE_NODE)
    client = connect(cluster)
    array = JobId(cluster.sbatch("--array=0-19", "--begin=now+1day", "--output=/dev/null", wrap="true"))
    # Its user cancels three tasks, holds another one, and sets the nice value of a third, which has a name of its own.
    cluster.run("scancel", f"{array}_[1,3,5]")
    cluster.run("scontrol", "uhold", f"{array}_10")
    cluster.run("scontrol", "update", f"jobid={array}_12", "nice=77", "name=other")

    def apart() -> set[tuple[str, str, bool]]:
        """Return what its user has set of the tasks with records of their own: Slurm may yet say why they wait."""
        records = (one for one in cluster.jobs(array) if one["JobId"] != str(array) and one["JobState"] == "PENDING")
        return {(one["ArrayTaskId"], one["Nice"], one["Priority"] == "0") for one in records}

    assert apart() == {("10", "0", True), ("12", "77", False)}
    listed = waiting(cluster, array)["ArrayTaskId"]
    assert listed == "0,2,4,6-9,11,13-19"
    monkeypatch.setattr(waiting_tasks, "_MOST_LIST", len(listed) - 1)

    sent(client, hold(array, WHY))
    assert waiting(cluster, array)["Reason"] == "JobHeldAdmin"
    sent(client, release(array, WHY))
    assert waiting(cluster, array)["Priority"] != "0"
    sent(client, number(array, Field.NICE, -50, previous=0))
    assert waiting(cluster, array)["Nice"] == "-50"
    sent(client, replace(number(array, Field.NICE, 0, previous=-50), reason=replace(WHY, code=ReasonCode.ORDER_ENDED)))
    assert waiting(cluster, array)["Nice"] == "0"
    assert apart() == {("10", "0", True), ("12", "77", False)}
    assert waiting(cluster, array)["ArrayTaskId"] == listed


@pytest.mark.gate
def test_tasks_in_steps_are_named_as_slurm_writes_them(make_cluster: MakeCluster, connect: Connect) -> None:
    cluster = make_cluster(ONE_NODE)
    client = connect(cluster)
    array = JobId(cluster.sbatch("--array=0-400:4%2", "--begin=now+1day", "--output=/dev/null", wrap="true"))
    cluster.run("scontrol", "hold", f"{array}_4")
    before = others(cluster, array)
    assert len(before) == 1
    sent(client, number(array, Field.NICE, -50, previous=0))
    assert waiting(cluster, array)["Nice"] == "-50"
    assert others(cluster, array) == before
