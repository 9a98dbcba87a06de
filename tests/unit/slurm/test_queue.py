"""Jobs are read as Slurm means them; no text of a user's forges, hides or ends anything."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tesched_core.model.actions import Failure
from tesched_core.model.cluster import Job, JobState
from tesched_db.job_rows import UNCLASSIFIED
from tesched_db.job_values import job_values
from tesched_slurm.columns import COLUMNS, Query, QueueRow, rows_of
from tesched_slurm.job_records import read_job

from tests.unit.slurm.queue_reading import Slurm, only, read, reading
from tests.unit.slurm.squeue_says import PLAIN, scontrol, squeue

#: texts that a user would like to be read as Slurm's
HOSTILE = (
    "two words",
    "x NodeList=n7 JobState=COMPLETED Account=vip",
    "x UserId=bob(1) GroupId=x(1) MCS_label= Priority=5 Command=/x",
    " Network=x NodeList=@x'$(id)'",
    "a\nJobId=99 JobName=b",
    "|#\n",
    "[/x]\x1b[31m\u202e",
    "Ünïcode = '\"",
    "DOMAIN\\user",
    "--all",
    "",
    "x" * 1024,
)


def test_an_ordinary_job_is_read_whole() -> None:
    job = only(PLAIN, scontrol(PLAIN))
    assert (job.job_id, job.name, job.user, job.priority, job.state) == (1, "train", "ada", 100, JobState.RUNNING)
    (share,) = job.allocation
    assert (share.node, share.tres.cpus, share.tres.mem_mib, share.tres.gpus, share.cpu_ids) == (
        "n1",
        2,
        2000,
        1,
        "0,16",
    )
    assert job.request.mem_per_cpu_mib == 1000
    assert job.request.mem_per_node_mib is None
    assert job.request.excluded_nodes == ("n7",)
    assert (job.time_limit_s, job.doubt, job.partly_read) == (3600, "", "")


@pytest.mark.parametrize("state", ["PENDING", "RUNNING", "SUSPENDED"])
def test_a_deadline_is_read_of_jobs_that_wait_too(state: str) -> None:
    row = PLAIN._replace(state=state, deadline="5000", node_list="" if state == "PENDING" else "n1")
    assert only(row, scontrol(row)).deadline == 5000
    none = row._replace(deadline="N/A")
    assert only(none, scontrol(none)).deadline is None


@pytest.mark.parametrize(("word", "nodes"), [("STAGE_OUT", ()), ("COMPLETING", ("n1",)), ("SIGNALING", ("n1",))])
def test_a_job_that_stages_out_has_ended_and_holds_no_node(word: str, nodes: tuple[str, ...]) -> None:
    """Burst buffers write what it has left, after its nodes were given back; Slurm shows the flag for its state."""
    row = PLAIN._replace(state=word)
    job = only(row, scontrol(row))
    assert (job.nodes, job.state is JobState.RUNNING) == (nodes, word == "SIGNALING")
    assert word == "SIGNALING" or word in job.flags


@pytest.mark.parametrize("text", HOSTILE)
def test_a_users_text_is_read_as_it_was_typed_and_forges_nothing(text: str) -> None:
    row = PLAIN._replace(name=text, account=text or "(null)", mcs_label=text or "(null)", comment=text)
    query = Query()
    rows = rows_of(query, squeue(query, [row]))
    assert rows == [row]
    job = only(row, scontrol(row, network=text, comment=text))
    assert (job.name, job.comment, job.account) == (text, text.strip(), text)
    assert (job.user, job.priority, job.state, job.nodes) == ("ada", 100, JobState.RUNNING, ("n1",))
    assert job.doubt == job.partly_read == ""


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\0", codec="utf-8")), min_size=3, max_size=3))
def test_any_text_is_read_as_it_was_typed(texts: list[str]) -> None:
    name, comment, admin_comment = texts
    row = PLAIN._replace(name=name, comment=comment, admin_comment=admin_comment)
    query = Query()
    assert rows_of(query, squeue(query, [row, PLAIN])) == [row, PLAIN]


def test_separators_are_new_for_each_call_and_on_no_command_line() -> None:
    one, other = Query(), Query()
    assert one.environment["SQUEUE_FORMAT2"] != other.environment["SQUEUE_FORMAT2"]
    assert not any(
        word.partition(":")[2] in " ".join(one.argv) for word in one.environment["SQUEUE_FORMAT2"].split(",")
    )


def test_a_name_with_the_separator_of_another_call_is_a_name() -> None:
    before, now = Query(), Query()
    stolen = before.environment["SQUEUE_FORMAT2"].rpartition(":")[2]
    row = PLAIN._replace(name=f"x{stolen}\n2")
    assert rows_of(now, squeue(now, [row])) == [row]


def test_an_answer_of_another_form_is_no_answer() -> None:
    query = Query()
    said = squeue(query, [PLAIN])
    for broken in (
        said[:-20],
        said.replace(b"RUNNING", b"RUNNING" + query.environment["SQUEUE_FORMAT2"].split(",")[0][6:].encode()),
    ):
        assert isinstance(rows_of(query, broken), Failure)
    assert rows_of(query, b"") == []


def test_a_job_of_which_scontrol_says_nothing_is_there_and_its_shares_are_in_doubt() -> None:
    row = PLAIN._replace(node_list="n[1-2]", num_nodes="2", num_cpus="3", tres_alloc="cpu=3,mem=2000M,node=2")
    job = only(row, "")
    assert job.nodes == ("n1", "n2")
    # Rather too much on each node than too little.
    assert [share.tres.cpus for share in job.allocation] == [2, 2]
    assert job.partly_read
    assert not job.doubt


def test_details_of_another_run_are_not_taken_for_this_ones() -> None:
    before = PLAIN._replace(restart_cnt="0", node_list="n3")
    now = PLAIN._replace(restart_cnt="1", node_list="n[1-2]", num_nodes="2")
    job = only(now, scontrol(before, shares="Nodes=n3 CPU_IDs=0-1 Mem=1 GRES="))
    assert job.nodes == ("n1", "n2")
    assert job.partly_read
    assert not job.doubt


def test_a_record_that_cannot_be_read_is_kept_as_last_known_and_the_others_are_read() -> None:
    queue = reading(Slurm())
    other = PLAIN._replace(job_id="2", array_job_id="2")
    read(queue, [PLAIN, other], scontrol(PLAIN) + scontrol(other))
    broken = PLAIN._replace(num_cpus="many")
    jobs = read(queue, [broken, other], scontrol(other))
    assert jobs[1].nodes == ("n1",)
    assert jobs[1].state is JobState.RUNNING
    assert "could not be read" in jobs[1].doubt
    assert jobs[2].doubt == ""
    assert read(queue, [PLAIN, other], scontrol(PLAIN) + scontrol(other))[1].doubt == ""


def test_a_record_that_could_never_be_read_is_no_job_that_is_gone() -> None:
    job = only(PLAIN._replace(node_list="n[1-"), "")
    assert (job.job_id, job.user, job.state) == (1, "ada", JobState.UNKNOWN)
    assert job.doubt


@pytest.mark.parametrize(("typed", "read_as"), [("r,", "r"), (",r", "r"), ("r,r", "r"), ("r,s", "r,s"), ("(null)", "")])
def test_a_list_of_reservations_is_read_as_by_slurm(typed: str, read_as: str) -> None:
    assert read_job(PLAIN._replace(reservation=typed), None).reservation == read_as


@pytest.mark.parametrize(
    ("origin", "viable", "task", "federated"),
    [
        ("NA", "NA", "N/A", False),
        ("", "", "N/A", False),
        ("NA", "NA", "0", False),
        ("one", "one", "N/A", False),
        ("one", "one,two", "N/A", True),
        ("one", "two", "N/A", True),
        ("one", "one", "0", True),
        ("one", "one", "0-3", True),
    ],
)
def test_a_job_that_another_cluster_may_run_is_federated(origin: str, viable: str, task: str, federated: bool) -> None:
    row = PLAIN._replace(origin=origin, siblings_viable=viable, array_task_id=task)
    assert read_job(row, None).federated is federated


@pytest.mark.parametrize(("said", "status", "by_signal"), [("768", 3, 0), ("10", 0, 10), ("3:0", 3, 0), ("0:9", 0, 9)])
def test_how_a_job_ended_is_read_on_every_release(said: str, status: int, by_signal: int) -> None:
    job = read_job(PLAIN._replace(state="FAILED", exit_code=said), None)
    assert (job.exit_status, job.exit_signal) == (status, by_signal)


def test_a_task_that_squeue_hides_behind_its_array_is_queried() -> None:
    array = PLAIN._replace(job_id="3", array_job_id="3", array_task_id="0,2-4", state="PENDING", node_list="")
    alone = array._replace(job_id="6", array_task_id="0", restart_cnt="1")
    rest = [array._replace(array_task_id=str(index)) for index in (2, 3, 4)]
    answer = scontrol(alone, array="ArrayJobId=3 ArrayTaskId=0 ArrayTaskThrottle=2 ") + scontrol(
        array, array="ArrayJobId=3 ArrayTaskId=2-4%2 ArrayTaskThrottle=2 "
    )
    jobs = read(reading(Slurm(rows_by_task=[alone, *rest])), [array], answer)
    assert {job.label for job in jobs.values()} == {"3_0", "3_[2-4%2]"}
    assert jobs[6].restarts == 1
    assert jobs[3].array_throttle == 2


def test_groups_and_users_may_have_blanks_in_their_names() -> None:
    row = PLAIN._replace(user_name="domain user", user_id="1000")
    job = only(row, scontrol(row, group="domain users"))
    assert (job.user, job.partly_read, job.nodes) == ("domain user", "", ("n1",))


def test_every_column_has_a_name_of_squeues() -> None:
    assert len(COLUMNS) == len(QueueRow._fields) == len(set(COLUMNS))


@pytest.mark.parametrize(
    ("said", "column", "most"),
    [
        ("1", "1", 8),  # 22.05, of a job that names no most: squeue guesses
        ("1-1", "1", 1),
        ("2-3", "3", 3),
        ("1-8", "8", 8),  # 26.05
    ],
)
def test_a_job_that_names_no_most_gets_up_to_a_node_a_task(said: str, column: str, most: int) -> None:
    row = PLAIN._replace(state="PENDING", num_tasks="8", max_nodes=column, tres_alloc="cpu=8,mem=800M,node=1,billing=8")
    answer = scontrol(row).replace(" NumNodes=1 ", f" NumNodes={said} ")
    assert only(row, answer).request.max_nodes == most


@pytest.mark.parametrize(
    ("changes", "reckoned"),
    [
        ({}, 2),
        ({"tres_per_job": "N/A"}, 0),
        ({"num_nodes": "1"}, 0),
        ({"num_tasks": "2", "max_nodes": "2"}, 0),
        ({"tres_alloc": "cpu=3,mem=2000M,node=2", "max_nodes": "2", "num_nodes": "3"}, 0),
        ({"state": "RUNNING", "node_list": "n[1-2]"}, 0),
    ],
    ids=["gpus alone", "no gpus", "not considered yet", "of several tasks", "of several nodes", "running"],
)
def test_slurms_reckoning_of_gpus_in_all_alone_is_read_beside_the_request(
    changes: dict[str, str], reckoned: int
) -> None:
    waiting = PLAIN._replace(
        state="PENDING",
        node_list="",
        num_nodes="2",
        num_tasks="1",
        tres_per_job="gres:gpu:4",
        tres_alloc="cpu=3,mem=2000M,node=1,billing=3",
    )._replace(**changes)
    request = read_job(waiting, None).request
    assert request.reckoned_nodes == reckoned
    assert changes or (request.min_nodes, request.max_nodes, request.tasks) == (1, 1, 1)


@pytest.mark.parametrize(
    ("state", "memory", "counted", "read_as"),
    [
        ("PENDING", "0", "1400M", 1400),
        ("PENDING", "0", "8G", 8192),
        ("PENDING", "500M", "500M", None),
        ("RUNNING", "0", "8G", None),
    ],
)
def test_what_slurm_counts_is_read_where_a_waiting_job_has_no_memory_of_its_own(
    state: str, memory: str, counted: str, read_as: int | None
) -> None:
    row = PLAIN._replace(state=state, min_memory=memory, tres_alloc=f"cpu=1,mem={counted},node=1,billing=1")
    assert read_job(row, None).request.mem_counted_mib == read_as


@pytest.mark.parametrize(
    ("said", "memory", "memory_for", "by_node", "by_gpu"),
    [
        ("gres:gpu:600", "0", "MinMemoryNode=0", None, (("gpu", 600),)),  # --mem-per-gpu
        ("gres/gpu:600", "0", "MinMemoryNode=0", None, (("gpu", 600),)),
        ("gres:gpu:a100:600", "0", "MinMemoryNode=0", None, (("gpu:a100", 600),)),
        ("gres:gpu:0", "0", "MinMemoryNode=0", 0, ()),  # --mem-per-gpu=0: as if it said nothing
        ("gres:gpu:0", "500M", "MinMemoryNode=500M", 500, ()),
        ("gpu:700", "500M", "MinMemoryNode=500M", 500, ()),  # --mem=500, and DefMemPerGPU of 22.05
        ("gpu:700", "0", "MinMemoryNode=0", 0, ()),  # nothing, or --mem=0
        ("gpu:700", "700M", "MinMemoryTRES=700M", 0, ()),  # 26.05: it does not say what is requested
    ],
)
def test_a_default_for_each_gpu_is_not_the_jobs_own_request(
    said: str, memory: str, memory_for: str, by_node: int | None, by_gpu: tuple[tuple[str, int], ...]
) -> None:
    row = PLAIN._replace(state="PENDING", mem_per_tres=said, cpus_per_tres=said, min_memory=memory)
    request = only(row, scontrol(row, memory=memory_for)).request
    assert (request.mem_per_node_mib, request.mem_per_cpu_mib, request.mem_per_gres) == (by_node, None, by_gpu)
    assert request.cpus_per_gres == by_gpu


def test_devices_by_node_keep_the_order_of_the_record() -> None:
    row = PLAIN._replace(state="PENDING", tres_per_node="gres:tmp:1,gres:gpu:3", tres_per_job="gres:tmp:1,gres:gpu:3")
    request = only(row, scontrol(row)).request
    assert request.gres_per_node == (("tmp", 1), ("gpu", 3))
    assert request.gres_per_job == (("gpu", 3), ("tmp", 1))


#: columns of numbers that any user may choose, and how a number is written there
CHOSEN = {
    "num_cpus": "{}",
    "num_tasks": "{}",
    "min_cpus": "{}",
    "cpus_per_task": "{}",
    "min_memory": "{}M",
    "tres_per_node": "gres:gpu:{}",
    "tres_per_job": "gres:gpu:{}",
    "tres_per_task": "gres:gpu:{}",
    "tres_per_socket": "gres:gpu:{}",
    "cpus_per_tres": "gres:gpu:{}",
    "mem_per_tres": "gres:gpu:{}",
    "min_tmp_disk": "{}",
    "nt_per_node": "{}",
    "nt_per_core": "{}",
    "sct": "{}:1:1",
    "time_limit": "{}-00:00:00",
    "restart_cnt": "{}",
    "priority_long": "{}",
    "nice": "-{}",
    "submit_time": "{}",
    "eligible_time": "{}",
    "tres_alloc": "cpu=1,mem={}P,node=1",
}


@pytest.mark.parametrize("number", ["9223372036854775807", "18446744073709551614", "9" * 400, "9" * 5000])
@pytest.mark.parametrize("column", CHOSEN)
def test_no_number_of_one_job_is_too_large_for_the_others(column: str, number: str) -> None:
    odd = PLAIN._replace(job_id="2", array_job_id="2", user_name="eve", state="PENDING", node_list="")
    odd = odd._replace(**{column: CHOSEN[column].format(number)})
    jobs = read(reading(Slurm()), [odd, PLAIN], scontrol(odd) + scontrol(PLAIN))
    assert jobs[1].doubt == ""
    assert jobs[2].user == "eve"
    assert jobs[2].doubt or _is_storable(jobs[2]), jobs[2]


def test_what_follows_from_two_numbers_is_bounded_as_they_are() -> None:
    # Each alone fits; --mem-per-gpu times --gpus has not.
    odd = PLAIN._replace(state="PENDING", node_list="", mem_per_tres=f"gres:gpu:{2**50}", tres_per_job="gres:gpu:4096")
    job = only(odd, scontrol(odd))
    assert "the memory that it asks for is out of all bounds" in job.doubt


@pytest.mark.parametrize(
    ("column", "value", "what"),
    [("tres_per_job", f"gres:gpu:{2**53 - 1}", "the GPUs"), ("num_cpus", str(2**53 - 1), "the CPUs")],
)
def test_defaults_out_of_all_bounds_are_doubted(column: str, value: str, what: str) -> None:
    # DefMemPerGPU times so many GPUs does not fit into 64 bits.
    odd = PLAIN._replace(state="PENDING", node_list="", **{column: value})
    assert f"{what} that it asks for is out of all bounds" in only(odd, scontrol(odd)).doubt


def _is_storable(job: Job) -> bool:
    numbers = [value for value in job_values(job, UNCLASSIFIED).values() if isinstance(value, int)]
    return all(-(2**63) <= value < 2**63 for value in numbers)
