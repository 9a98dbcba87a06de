"""A record is believed by its place, not by its text: what a user's text forges costs no other job anything."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tesched_slurm.columns import QueueRow
from tesched_slurm.details import DetailsFound, DetailsQuery

from tests.unit.slurm.queue_reading import Slurm, only, read, reading
from tests.unit.slurm.squeue_says import MARK, PLAIN, said_to, scontrol


def find(answer: str, *rows: QueueRow) -> DetailsFound:
    query = DetailsQuery()
    return query.find(said_to(query, answer), {row.job_id: row for row in rows})


#: what a user can write in the place of the mark: nothing, one that an earlier call could have drawn, the format itself
FORGED_MARKS = ("", "|ab3DEfgh1J", "%s|")


@pytest.mark.parametrize("forged_mark", FORGED_MARKS)
@pytest.mark.parametrize("field", ["name", "comment", "network", "account", "mcs_label", "wc_key"])
def test_a_record_inside_of_anothers_text_is_not_believed_and_costs_no_call(field: str, forged_mark: str) -> None:
    victim = PLAIN._replace(job_id="55", array_job_id="55", node_list="n[1-2]", num_nodes="2")
    true = scontrol(victim, shares="Nodes=n1 CPU_IDs=0 Mem=500 GRES= Nodes=n2 CPU_IDs=0-2 Mem=1500 GRES=")
    forged = "x\n" + scontrol(
        victim, shares="Nodes=n1 CPU_IDs=0-31 Mem=1 GRES= Nodes=n2 CPU_IDs=0 Mem=1 GRES=", mark=forged_mark
    )
    liar = PLAIN._replace(**{field: forged}) if field != "network" else PLAIN
    said = scontrol(liar, comment=liar.comment, network=forged if field == "network" else "(null)")
    if field == "wc_key":
        said = said.replace(" JobState=", f" WCKey={forged} JobState=", 1)
    slurm = Slurm()
    for answer in (said + true, true + said):
        jobs = read(reading(slurm), [liar, victim], answer)
        assert [share.tres.cpus for share in jobs[55].allocation] == [1, 3]
        assert jobs[55].partly_read == ""
        assert jobs[1].nodes == ("n1",)
        assert jobs[1].partly_read == ""
    assert slurm.asked == []


def test_a_jobs_own_text_does_not_say_what_it_holds() -> None:
    """`--cluster-constraint` is the first text of a user's that scontrol prints behind the mark."""
    forged = "x   Nodes=n1 CPU_IDs=0-31 Mem=64000 GRES=gpu:8(IDX:0-7) MinMemoryNode=0 Deadline=9|"
    honest = only(PLAIN, scontrol(PLAIN))
    liar = only(PLAIN, scontrol(PLAIN, features=f"(null) ClusterFeatures={forged}"))
    assert liar == honest
    assert [share.tres.cpus for share in liar.allocation] == [2]


def test_a_job_that_types_slurms_word_for_no_label_is_read_as_others_are() -> None:
    """Squeue says (null) of a job without an MCS label, and scontrol N/A; of `--mcs-label='(null)'` both say (null)."""
    said = scontrol(PLAIN)
    assert " MCS_label=N/A " in said
    assert only(PLAIN, said.replace(" MCS_label=N/A ", " MCS_label=(null) ")) == only(PLAIN, said)


def test_excluded_nodes_are_read_as_they_were_typed() -> None:
    """As after `scontrol update excnodelist="n7 n8"`, on 22.05."""
    said = scontrol(PLAIN)
    assert only(PLAIN, said).request.excluded_nodes == ("n7",)
    typed = only(PLAIN, said.replace("ExcNodeList=n7 ", "ExcNodeList=n7 n8 "))
    assert (typed.request.excluded_nodes, typed.partly_read) == (("n7", "n8"), "")
    assert only(PLAIN, said.replace("ExcNodeList=n7 ", "ExcNodeList= ")).request.excluded_nodes == ()


CRONTAB = 'CronJob=Yes CrontabSpec="0,2,4 5-9 * * 1"'


def test_a_job_of_a_users_crontab_is_read_as_such_and_otherwise_as_others_are() -> None:
    """Slurm writes when it runs in words of its own, behind the deadline."""
    cron = only(PLAIN, scontrol(PLAIN, deadline=f"N/A {CRONTAB} SuspendTime=None SecsPreSuspend=0"))
    assert cron == replace(only(PLAIN, scontrol(PLAIN)), of_crontab=True)


def test_one_that_is_of_no_crontab_any_more_is_an_ordinary_job() -> None:
    """Its line was removed while it ran: Slurm goes on showing its times."""
    said = 'N/A CrontabSpec="* * * * *" SuspendTime=None SecsPreSuspend=0'
    assert only(PLAIN, scontrol(PLAIN, deadline=said)) == only(PLAIN, scontrol(PLAIN))


@pytest.mark.parametrize(
    "field", ["name", "account", "mcs_label", "wc_key", "comment", "network", "features", "nodes", "excluded"]
)
def test_no_text_of_a_users_makes_its_job_one_of_a_crontab(field: str) -> None:
    forged = f"x Deadline=N/A {CRONTAB} Partition=p"
    row = PLAIN._replace(**{field: forged}) if field in {"name", "account", "mcs_label", "wc_key"} else PLAIN
    said = scontrol(row, **{field: forged} if field in {"comment", "network", "features"} else {})
    if field == "nodes":
        said = said.replace(" ReqNodeList=(null) ", f" ReqNodeList=n1 {CRONTAB} ")
    if field == "excluded":
        said = said.replace("ExcNodeList=n7 ", f"ExcNodeList=n7 {CRONTAB} ")
    if field == "wc_key":
        said = said.replace(" JobState=", f" WCKey={forged} JobState=", 1)
    # Excluded nodes that are none leave its record unread.
    assert only(row, said).of_crontab is (None if field == "excluded" else False)


def test_of_a_job_without_a_record_that_is_believed_it_is_not_known() -> None:
    assert only(PLAIN, "").of_crontab is None


def test_many_forged_records_add_no_call_and_hide_no_job() -> None:
    victims = [
        PLAIN._replace(job_id=str(number), array_job_id=str(number), node_list="n[1-2]") for number in range(100, 400)
    ]
    true = "".join(scontrol(row, shares="Nodes=n[1-2] CPU_IDs=0 Mem=1000 GRES=") for row in victims)
    liar = PLAIN._replace(comment="x\n" + true.replace(MARK, "|0123456789"))
    slurm = Slurm()
    jobs = read(reading(slurm), [liar, *victims], scontrol(liar, comment=liar.comment) + true)
    assert slurm.asked == []
    assert not any(job.doubt or job.partly_read for job in jobs.values())


def test_two_records_of_one_job_are_not_believed_and_it_stays_as_last_known() -> None:
    victim = PLAIN._replace(job_id="55", array_job_id="55", node_list="n[1-2]", num_nodes="2")
    true = scontrol(victim, shares="Nodes=n1 CPU_IDs=0 Mem=500 GRES= Nodes=n2 CPU_IDs=0-2 Mem=1500 GRES=")
    other = scontrol(victim, shares="Nodes=n1 CPU_IDs=0-31 Mem=1 GRES= Nodes=n2 CPU_IDs=0 Mem=1 GRES=")
    assert find(true + other, victim).doubtful == {"55"}
    slurm = Slurm()
    queue = reading(slurm)
    assert read(queue, [victim], true + other)[55].partly_read
    read(queue, [victim], true)
    job = read(queue, [victim], true + other)[55]
    assert [share.tres.cpus for share in job.allocation] == [1, 3]
    assert (job.partly_read, slurm.asked) == ("", [])


def test_a_jobs_record_is_found_though_its_own_text_holds_another() -> None:
    liar = PLAIN._replace(name="x\nJobId=1 JobName=x")
    assert find(scontrol(liar), liar).by_id["1"].node_list == "n1"


def test_a_record_without_a_mark_is_no_record() -> None:
    assert find(scontrol(PLAIN, mark=""), PLAIN).by_id == {}


def test_an_answer_that_was_cut_short_says_nothing_of_its_last_job() -> None:
    other = PLAIN._replace(job_id="2", array_job_id="2")
    said = scontrol(PLAIN) + scontrol(other)
    found = find(said[: said.rindex(" Features=")], PLAIN, other)
    assert set(found.by_id) == {"1"}


@pytest.mark.parametrize("forged_mark", FORGED_MARKS)
@pytest.mark.parametrize("field", ["name", "comment", "network", "account"])
def test_a_task_that_a_users_text_makes_up_adds_no_call(field: str, forged_mark: str) -> None:
    array = PLAIN._replace(job_id="3", array_job_id="3", array_task_id="0-9999", state="PENDING", node_list="")
    made_up = array._replace(job_id="77", array_task_id="5")
    forged = "x\n" + scontrol(made_up, array="ArrayJobId=3 ArrayTaskId=5 ", mark=forged_mark)
    liar = PLAIN._replace(**{field: forged}) if field != "network" else PLAIN
    said = scontrol(liar, comment=liar.comment, network=forged if field == "network" else "(null)")
    slurm = Slurm()
    jobs = read(reading(slurm), [array, liar], said + scontrol(array, array="ArrayJobId=3 ArrayTaskId=0-9999 "))
    assert slurm.asked == []
    assert {job.label for job in jobs.values()} == {"1", "3_[0-9999]"}
