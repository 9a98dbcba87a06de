"""Tasks that squeue shows as one with their array: read by their own ids, with a bound, for users in turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest
from tesched_core.model.actions import Failure, FailureKind
from tesched_core.model.cluster import JobState
from tesched_slurm import hidden_tasks
from tesched_slurm.columns import QueueRow
from tesched_slurm.hidden_tasks import HiddenTask, HiddenTasks, TaskRows, arrays_of
from tesched_slurm.user_turns import in_turn

from tests.unit.slurm.queue_reading import Answering, Slurm, read, reading
from tests.unit.slurm.squeue_says import PLAIN, scontrol

ARRAY = PLAIN._replace(job_id="3", array_job_id="3", array_task_id="0-999", state="PENDING", node_list="")


def array(job_id: int, user: str) -> QueueRow:
    return ARRAY._replace(job_id=str(job_id), array_job_id=str(job_id), user_name=user)


def task(of: QueueRow, job_id: int, index: int, **changes: str) -> QueueRow:
    return of._replace(job_id=str(job_id), array_task_id=str(index), restart_cnt="1", **changes)


def records(*tasks: QueueRow) -> dict[str, HiddenTask]:
    """Return these tasks as a client finds them; a record changes with its nice value."""
    return {
        row.job_id: HiddenTask(
            array_id=row.array_job_id, task=row.array_task_id, user=row.user_name, record=(row.job_id, row.nice)
        )
        for row in tasks
    }


def hiding(rows: Iterable[QueueRow] = ()) -> tuple[HiddenTasks, Slurm]:
    slurm = Slurm(rows_by_task=list(rows))
    commands = Answering()
    object.__setattr__(commands, "slurm", slurm)
    return HiddenTasks(commands=commands), slurm


def shown(reader: HiddenTasks, tasks: Iterable[QueueRow], arrays: Mapping[str, QueueRow]) -> TaskRows:
    found = reader.read(records(*tasks), arrays)
    assert not isinstance(found, Failure)
    return found


def asked(slurm: Slurm) -> list[list[str]]:
    """Return the ids that each call was for."""
    return [argv[-1].split(",") for argv in slurm.asked]


def test_the_tasks_alone_are_queried_in_one_call_and_again_when_their_record_has_changed() -> None:
    tasks = [task(ARRAY, 10 + number, 2 * number) for number in range(4)]
    reader, slurm = hiding(tasks)
    assert dict(shown(reader, tasks, {"3": ARRAY}).rows) == {row.job_id: row for row in tasks}
    assert dict(shown(reader, tasks, {"3": ARRAY}).rows) == {row.job_id: row for row in tasks}
    assert asked(slurm) == [["10", "11", "12", "13"]]
    assert "-r" not in slurm.asked[0]
    slurm.rows_by_task[1] = changed = tasks[1]._replace(nice="5")
    assert shown(reader, [tasks[0], changed, *tasks[2:]], {"3": ARRAY}).rows["11"].nice == "5"
    assert asked(slurm)[1:] == [["11"]]


def test_a_task_that_squeue_no_longer_knows_is_gone_and_no_call_is_made_for_none() -> None:
    reader, slurm = hiding([task(ARRAY, 10, 0)])
    both = [task(ARRAY, 10, 0), task(ARRAY, 11, 1)]
    found = shown(reader, both, {"3": ARRAY})
    assert (set(found.rows), set(found.late)) == ({"10"}, set())
    assert (shown(reader, [], {}).rows, len(slurm.asked)) == ({}, 1)


def test_what_a_poll_does_not_read_is_late_and_each_user_has_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_tasks, "MOST_TASKS", 4)
    eve, ada = array(3, "eve"), array(4, "ada")
    flood = [task(eve, 10 + number, number) for number in range(6)]
    honest = task(ada, 50, 7)
    reader, slurm = hiding([*flood, honest])
    arrays = {"3": eve, "4": ada}
    first = shown(reader, [*flood, honest], arrays)
    assert set(first.rows) == {"50", "10", "11", "12"}
    assert {job_id: (row.user_name, row.array_task_id) for job_id, row in first.late.items()} == {
        "13": ("eve", "3"),
        "14": ("eve", "4"),
        "15": ("eve", "5"),
    }
    assert shown(reader, [*flood, honest], arrays).late == {}
    assert asked(slurm)[1:] == [["13", "14", "15"]]


def test_a_record_that_changes_in_each_poll_puts_off_no_other_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_tasks, "MOST_TASKS", 2)
    reader, slurm = hiding(task(ARRAY, 10 + number, number) for number in range(5))
    for poll in range(5):
        changing = [task(ARRAY, 10 + number, number, nice=str(poll)) for number in range(5)]
        found = shown(reader, changing, {"3": ARRAY})
        assert len(found.rows) == 2
    assert asked(slurm) == [["10", "11"], ["12", "13"], ["14", "10"], ["11", "12"], ["13", "10"]]


def test_a_call_that_fails_is_a_poll_that_fails() -> None:
    class Away(Answering):
        def _answer(self, *_: object) -> Failure:
            return Failure(kind=FailureKind.UNREACHABLE, message="")

    assert isinstance(HiddenTasks(commands=Away()).read(records(task(ARRAY, 10, 0)), {"3": ARRAY}), Failure)


def test_an_array_without_a_record_of_its_waiting_tasks_hides_none() -> None:
    rows = {row.job_id: row for row in (ARRAY, PLAIN, task(array(7, "ada"), 7, 4), task(array(8, "ada"), 9, 1))}
    assert set(arrays_of(rows)) == {"3"}


def _answer(*tasks: QueueRow, rest: str) -> str:
    own = (scontrol(row, array=f"ArrayJobId=3 ArrayTaskId={row.array_task_id} ") for row in tasks)
    return "".join(own) + scontrol(ARRAY, array=f"ArrayJobId=3 ArrayTaskId={rest} ")


def test_a_late_task_is_in_doubt_with_its_user_and_then_as_last_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden_tasks, "MOST_TASKS", 1)
    tasks = [task(ARRAY, 10, 0), task(ARRAY, 11, 1)]
    queue = reading(Slurm(rows_by_task=tasks))
    jobs = read(queue, [ARRAY], _answer(*tasks, rest="2-999%5"))
    assert (jobs[10].label, jobs[10].doubt) == ("3_0", "")
    assert (jobs[11].user, jobs[11].state, jobs[11].doubt) == ("ada", JobState.UNKNOWN, hidden_tasks.LATE)
    assert jobs[3].array_tasks == "2-999"
    assert read(queue, [ARRAY], _answer(*tasks, rest="2-999"))[11].doubt == ""
    # Both change, and one is read: the other one is as last known.
    changed = [row._replace(nice="5") for row in tasks]
    jobs = read(queue, [ARRAY], _answer(*changed, rest="2-999"))
    assert (jobs[11].label, jobs[11].doubt) == ("3_1", hidden_tasks.LATE)
    assert read(queue, [ARRAY], _answer(*changed, rest="2-999"))[11].doubt == ""


def test_a_turn_of_the_scheduler_is_no_change_of_a_record() -> None:
    slurm = Slurm(rows_by_task=[task(ARRAY, 10, 0)])
    queue = reading(slurm)
    for time in ("1000", "2000"):
        answer = _answer(slurm.rows_by_task[0], rest="1-999").replace(" NumNodes=", f" LastSchedEval={time} NumNodes=")
        assert read(queue, [ARRAY], answer)[10].array_task_id == 0
    assert len(slurm.asked) == 1


@pytest.mark.parametrize("name", ["a\nb", "x\nJobId=10 ArrayJobId=3 ArrayTaskId=0 JobName=x", "\n"])
def test_no_name_of_an_array_hides_a_task_of_it(name: str) -> None:
    named = ARRAY._replace(name=name)
    own = task(named, 10, 0)
    answer = scontrol(own, array="ArrayJobId=3 ArrayTaskId=0 ") + scontrol(
        named, array="ArrayJobId=3 ArrayTaskId=1-999 "
    )
    jobs = read(reading(Slurm(rows_by_task=[own])), [named], answer)
    assert {job.label for job in jobs.values()} == {"3_0", "3_[1-999]"}


def test_each_user_has_a_turn_before_any_has_a_second_one() -> None:
    by_user = {"ada": [1, 2, 3], "bob": [4], "eve": [5, 6]}
    turns = [("bob", 4), ("eve", 5), ("ada", 1), ("eve", 6), ("ada", 2), ("ada", 3)]
    assert list(in_turn(by_user, "ada")) == turns
    assert list(in_turn({}, "ada")) == []


def test_of_a_few_jobs_squeue_is_queried_for_those_without_a_row_and_scontrol_for_those_that_are_readable() -> None:
    waits = PLAIN._replace(job_id="2", array_job_id="2", state="PENDING", node_list="")
    odd = waits._replace(job_id="4", array_job_id="4", num_cpus=str(2**60))
    slurm = Slurm(rows_by_task=[PLAIN], alone={"1": scontrol(PLAIN), "2": scontrol(waits)})
    jobs = reading(slurm).read_few({1, 2, 4}, {2: waits, 4: odd})
    assert not isinstance(jobs, Failure)
    assert {job.job_id: bool(job.doubt) for job in jobs} == {1: False, 2: False, 4: True}
    said = [(argv[0], argv[-1]) for argv in slurm.asked]
    assert said == [("squeue", "1"), ("scontrol", "2"), ("scontrol", "1")]


def test_a_task_is_read_that_is_queried_beside_its_array() -> None:
    own = task(ARRAY, 10, 0)
    alone = {
        "3": scontrol(ARRAY, array="ArrayJobId=3 ArrayTaskId=1-999 "),
        "10": scontrol(own, array="ArrayJobId=3 ArrayTaskId=0 "),
    }
    slurm = Slurm(rows_by_task=[ARRAY, own], alone=alone, folds=True)
    jobs = reading(slurm).read_few({3, 10, 11})
    assert not isinstance(jobs, Failure)
    assert [job.label for job in jobs] == ["3_[1-999]", "3_0"]
    squeues = [argv[-1] for argv in slurm.asked if argv[0] == "squeue"]
    assert squeues == ["3,10,11", "10,11"]


def test_no_other_users_name_is_the_record_of_a_task() -> None:
    own = task(ARRAY, 10, 0)
    forged = "x\nJobId={} ArrayJobId=3 ArrayTaskId=0 JobName=train"
    slurm = Slurm(rows_by_task=[own, task(ARRAY, 4000, 7)])
    queue, plain = reading(slurm), _answer(own, rest="1-999")
    eve = PLAIN._replace(job_id="77", array_job_id="77", user_name="eve", user_id="6666", state="PENDING", node_list="")
    for number in (4000, 10):
        liar = eve._replace(name=forged.format(number))
        assert read(queue, [ARRAY], plain + scontrol(liar)).keys() == {3, 10}
    assert len(slurm.asked) == 1, "the record of the task is as it was"


def test_of_many_jobs_the_wanted_tasks_are_queried_alone() -> None:
    tasks = [task(ARRAY, 10 + number, number) for number in range(3)]
    slurm = Slurm(rows_by_task=tasks, folds=True, all_rows=[ARRAY], all_records=_answer(*tasks, rest="3-999"))
    read_all = reading(slurm).query(wanted={3, 11})
    assert not isinstance(read_all, Failure)
    assert {job.job_id for job in read_all[0]} == {3, 11}
    assert [ids for ids in asked(slurm) if ids not in (["all"], ["job"])] == [["11"]]
