"""A nice value that its user has given to one task of an array stays, also where the array's is put back by its id."""

from __future__ import annotations

import pytest
from tesched_core.model.actions import Reason, ReasonCode, SetField, Status
from tesched_core.model.field import Field
from tesched_core.model.resources import JobId
from tesched_slurm import waiting_tasks
from tesched_testcluster.harness.slurm_clients import Connect
from tesched_testcluster.local import LocalCluster

pytestmark = [pytest.mark.slurm, pytest.mark.release]


def nice_values(cluster: LocalCluster, array: int) -> dict[str, int]:
    said = cluster.run("squeue", "-h", "-r", "-a", "-j", str(array), "-O", "ArrayTaskID:10,Nice:10").stdout
    return {task: int(nice) for task, nice in map(str.split, said.splitlines())}


@pytest.mark.gate
@pytest.mark.parametrize("longest", [100_000, 1])
def test_what_a_user_has_set_of_one_task_stays(
    cluster: LocalCluster, connect: Connect, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = cluster.sbatch("--begin=now+1day", "--array=0-3", wrap="true")
    actuator = connect(cluster).actuator

    def sets(value: int, previous: int, why: ReasonCode) -> None:
        reason = Reason(code=why, text="a test")
        action = SetField(job_id=JobId(array), reason=reason, field=Field.NICE, value=value, previous=previous)
        assert actuator.act(action).status is Status.SENT

    sets(-500, 0, ReasonCode.MAKE_ROOM_FIRST)
    for task, nice in ((1, 100), (2, 7)):
        cluster.run("scontrol", "update", f"jobid={array}_{task}", f"nice={nice}")
    assert nice_values(cluster, array) == {"0": -500, "1": 100, "2": 7, "3": -500}
    monkeypatch.setattr(waiting_tasks, "_MOST_LIST", longest)
    sets(0, -500, ReasonCode.ORDER_ENDED)
    assert nice_values(cluster, array) == {"0": 0, "1": 100, "2": 7, "3": 0}
