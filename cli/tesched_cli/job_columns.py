"""Fields of `tesched jobs` and `tesched orders`: what of a job, and of an order, can be shown and sorted by."""

from __future__ import annotations

import time

from tesched_core.model.cluster import JobState
from tesched_core.model.order import Ending
from tesched_db.views import JobView, OrderView

from tesched_cli.columns import Field, default_format
from tesched_cli.common import LONGEST_CELL, LONGEST_TEXT, clock, duration, hostlist

#: squeue's compact state codes
SHORT_STATES = {
    JobState.PENDING: "PD",
    JobState.RUNNING: "R",
    JobState.SUSPENDED: "S",
    JobState.COMPLETED: "CD",
    JobState.CANCELLED: "CA",
    JobState.FAILED: "F",
    JobState.TIMEOUT: "TO",
    JobState.NODE_FAIL: "NF",
    JobState.PREEMPTED: "PR",
    JobState.OUT_OF_MEMORY: "OOM",
    JobState.BOOT_FAIL: "BF",
    JobState.DEADLINE: "DL",
}


def _run_time(job: JobView) -> float:
    if job.start_time is None or job.state is JobState.PENDING:
        return 0.0
    return (job.end_time or time.time()) - job.start_time


def _time_left(job: JobView) -> float | None:
    return None if job.time_limit_s is None else max(job.time_limit_s - _run_time(job), 0.0)


def _limit(seconds: float | None) -> str:
    return "UNLIMITED" if seconds is None else duration(seconds)


def _where(job: JobView) -> str:
    return hostlist(job.nodes) or (f"({job.reason})" if job.reason else "")


JOB_FIELDS: tuple[Field[JobView], ...] = (
    Field(names=("jobid",), letter="i", cell=lambda job: job.label, key=lambda job: (job.job_id, job.key), least=10),
    Field(names=("class",), cell=lambda job: job.job_class.upper()),
    Field(names=("partition",), letter="P", cell=lambda job: job.partition, most=LONGEST_CELL, least=6, leave_out=3),
    Field(names=("name",), letter="j", cell=lambda job: job.name, most=LONGEST_CELL, least=8),
    Field(names=("user", "username"), letter="u", cell=lambda job: job.user, most=LONGEST_CELL, least=8),
    Field(names=("account",), letter="a", cell=lambda job: job.account, least=8),
    Field(names=("qos",), letter="q", cell=lambda job: job.qos, least=6),
    Field(names=("st", "statecompact"), letter="t", cell=lambda job: SHORT_STATES.get(job.state, job.state)),
    Field(names=("state",), letter="T", cell=lambda job: job.state),
    Field(names=("time", "timeused"), letter="M", cell=lambda job: duration(_run_time(job)), key=_run_time, right=True),
    Field(
        names=("timelimit",),
        letter="l",
        heading="TIME_LIMIT",
        cell=lambda job: _limit(job.time_limit_s),
        key=lambda job: job.time_limit_s,
        right=True,
    ),
    Field(
        names=("timeleft",),
        letter="L",
        heading="TIME_LEFT",
        cell=lambda job: _limit(_time_left(job)),
        key=_time_left,
        right=True,
    ),
    Field(
        names=("numnodes",),
        letter="D",
        heading="NODES",
        cell=lambda job: str(len(job.nodes) or job.min_nodes),
        key=lambda job: len(job.nodes) or job.min_nodes,
        right=True,
    ),
    Field(names=("cpus", "numcpus"), letter="C", cell=lambda job: str(job.cpus), key=lambda job: job.cpus, right=True),
    Field(names=("gpus",), cell=lambda job: str(job.gpus), key=lambda job: job.gpus, right=True, leave_out=5),
    Field(
        names=("memory",),
        cell=lambda job: f"{job.mem_mib}M",
        key=lambda job: job.mem_mib,
        right=True,
    ),
    Field(
        names=("priority", "prioritylong"),
        letter="Q",
        cell=lambda job: str(job.priority),
        key=lambda job: job.priority,
        right=True,
    ),
    Field(
        names=("nice",), letter="y", cell=lambda job: str(job.nice), key=lambda job: job.nice, right=True, leave_out=6
    ),
    Field(
        names=("preempted",),
        cell=lambda job: str(job.preemptions),
        key=lambda job: job.preemptions,
        right=True,
        leave_out=4,
    ),
    Field(
        names=("restarts", "restartcnt"),
        cell=lambda job: str(job.restarts),
        key=lambda job: job.restarts,
        right=True,
    ),
    Field(names=("rule",), cell=lambda job: job.rule, most=LONGEST_CELL, least=8, leave_out=1),
    Field(names=("signal",), cell=lambda job: job.notice_signal or "none"),
    Field(
        names=("grace",),
        cell=lambda job: duration(job.grace_period_s),
        key=lambda job: job.grace_period_s,
        right=True,
    ),
    Field(
        names=("submittime",),
        letter="V",
        heading="SUBMIT_TIME",
        cell=lambda job: clock(job.first_submit_time),
        key=lambda job: job.first_submit_time,
    ),
    Field(
        names=("starttime",),
        letter="S",
        heading="START_TIME",
        cell=lambda job: clock(job.start_time),
        key=lambda job: job.start_time,
    ),
    Field(
        names=("endtime",),
        letter="e",
        heading="END_TIME",
        cell=lambda job: clock(job.end_time),
        key=lambda job: job.end_time,
    ),
    Field(names=("nodelist",), letter="N", cell=lambda job: hostlist(job.nodes)),
    Field(names=("reason",), letter="r", cell=lambda job: job.reason),
    Field(
        names=("where", "reasonlist"),
        letter="R",
        cell=_where,
        most=LONGEST_TEXT,
        least=12,
    ),
)
JOBS_DEFAULT = default_format(
    JOB_FIELDS,
    ("jobid", "class", "partition", "name", "user", "st", "time", "gpus", "nice", "preempted", "rule", "where"),
)


def _ending(view: OrderView) -> str:
    return (view.order.ending or view.order.state).replace("_", " ")


def _victims(view: OrderView) -> str:
    return ",".join(view.victim_labels)


ORDER_FIELDS: tuple[Field[OrderView], ...] = (
    Field(names=("order",), cell=lambda one: str(one.order.order_id), key=lambda one: one.order.order_id, right=True),
    Field(names=("jobid",), letter="i", cell=lambda one: one.preemptor_label, key=lambda one: one.order.preemptor),
    Field(names=("user", "username"), letter="u", cell=lambda one: one.preemptor_user, least=8),
    Field(names=("state",), letter="T", cell=_ending),
    Field(
        names=("created", "submittime"),
        letter="V",
        cell=lambda one: clock(one.order.created_at),
        key=lambda one: one.order.created_at,
    ),
    Field(
        names=("ended", "endtime"),
        letter="e",
        cell=lambda one: clock(one.order.ended_at),
        key=lambda one: one.order.ended_at,
    ),
    Field(names=("victims",), cell=_victims, key=lambda one: len(one.order.victims), least=8),
    Field(names=("victimusers",), cell=lambda one: ",".join(dict.fromkeys(one.victim_users)), least=8),
    Field(
        names=("lost",),
        heading="LOST_NODE_TIME",
        cell=lambda one: duration(one.lost_node_s),
        key=lambda one: one.lost_node_s,
        right=True,
    ),
    Field(
        names=("shadow",),
        cell=lambda one: "yes" if one.order.ending is Ending.SHADOW else "no",
    ),
    Field(names=("nodelist",), letter="N", cell=lambda one: hostlist(one.order.nodes), least=12),
)
