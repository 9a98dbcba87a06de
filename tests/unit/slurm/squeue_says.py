"""Answers as squeue and scontrol print them, of jobs that a test makes up: for tests of what reads them."""

from __future__ import annotations

from collections.abc import Iterable

from tesched_slurm.answer_bytes import as_printed
from tesched_slurm.columns import COLUMNS, Query, QueueRow
from tesched_slurm.details import DetailsQuery

#: stands in `scontrol` for what a call has drawn to stand behind times; no user can know that
MARK = "<drawn for this call>"

#: an ordinary running job, in squeue's words
PLAIN = QueueRow(
    **{
        **dict.fromkeys(QueueRow._fields, "(null)"),
        "job_id": "1",
        "array_job_id": "1",
        "array_task_id": "N/A",
        "het_job_id": "N/A",
        "het_job_offset": "N/A",
        "origin": "NA",
        "siblings_viable": "NA",
        "user_name": "ada",
        "user_id": "1000",
        "partition": "main",
        "state": "RUNNING",
        "reason": "None",
        "priority_long": "100",
        "nice": "0",
        "batch_flag": "1",
        "requeue": "1",
        "restart_cnt": "0",
        "submit_time": "1000",
        "eligible_time": "1000",
        "start_time": "1010",
        "end_time": "4610",
        "time_limit": "1:00:00",
        "num_nodes": "1",
        "max_nodes": "1",
        "num_cpus": "2",
        "num_tasks": "1",
        "min_cpus": "1",
        "cpus_per_task": "1",
        "min_memory": "1000M",
        "over_subscribe": "OK",
        "exclusive": "",
        "req_nodes": "",
        "exc_nodes": "",
        "node_list": "n1",
        "exit_code": "0",
        "tres_alloc": "cpu=2,mem=2000M,node=1,billing=2",
        "tres_per_node": "gres:gpu:1",
        "tres_per_job": "N/A",
        "tres_per_task": "N/A",
        "tres_per_socket": "N/A",
        "cpus_per_tres": "N/A",
        "mem_per_tres": "N/A",
        "min_tmp_disk": "0",
        "contiguous": "0",
        "req_switch": "0",
        "core_spec": "N/A",
        "nt_per_node": "0",
        "nt_per_socket": "N/A",
        "nt_per_core": "N/A",
        "sct": "*:*:*",
        "name": "train",
    }
)


def squeue(query: Query, rows: Iterable[QueueRow]) -> bytes:
    """Return what squeue answers: each value, and behind it the separator that was given."""
    asked = query.environment["SQUEUE_FORMAT2"].split(",")
    behind = [word.partition(":")[2] for word in asked]
    assert [word.partition(":")[0] for word in asked] == list(COLUMNS)
    lines = ("".join(value + after for value, after in zip(row, behind, strict=True)) for row in rows)
    return as_printed("".join(f"{line}\n" for line in lines))


def scontrol(
    row: QueueRow,
    *,
    features: str = "(null)",
    network: str = "(null)",
    comment: str = "",
    shares: str = "Nodes=n1 CPU_IDs=0,16 Mem=2000 GRES=gpu:1(IDX:0)",
    memory: str = "MinMemoryCPU=1000M",
    array: str = "",
    between: str = "",
    group: str = "ada",
    deadline: str = "N/A",
    mark: str = MARK,
) -> str:
    """Return a record as `scontrol -d -o show job` prints it; `said_to` puts in what was drawn."""
    mcs = "N/A" if row.mcs_label == "(null)" else row.mcs_label
    return (
        f"JobId={row.job_id} {array}JobName={row.name}{between} UserId={row.user_name}({row.user_id})"
        f" GroupId={group}(1000) MCS_label={mcs} Priority={row.priority_long} Nice={row.nice} Account={row.account}"
        f" QOS={row.qos} JobState={row.state} Reason=None Dependency=(null) Requeue=1 Restarts={row.restart_cnt}"
        f" BatchFlag=1 Reboot=0 ExitCode=0:0 DerivedExitCode=0:0 RunTime=00:00:00 TimeLimit=01:00:00 TimeMin=N/A"
        f" SubmitTime={row.submit_time}{mark} EligibleTime={row.eligible_time}{mark} Deadline={deadline}"
        f" Partition=main ReqNodeList=(null) ExcNodeList=n7 NodeList={row.node_list}"
        f" NumNodes=1 NumCPUs={row.num_cpus} NumTasks=1 ReqB:S:C:T=0:0:*:*   {shares} MinCPUsNode=1 {memory}"
        f" Features={features} DelayBoot=00:00:00 OverSubscribe=OK Contiguous=0 Licenses=(null) Network={network}"
        f" Command=/job.sh WorkDir=/work Comment={comment} StdErr=/e StdIn=/i StdOut=/o Power= \n"
    )


def said_to(query: DetailsQuery, answer: str) -> bytes:
    """Return what scontrol answers to this call."""
    return as_printed(answer.replace(MARK, query.environment["SLURM_TIME_FORMAT"].removeprefix("%s")))
