"""Fields of `tesched jobs` and `tesched orders`: what of a job, and of an order, can be shown and sorted by."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tesched_core.model.cluster import JobState
from tesched_core.model.order import Ending
from tesched_db.views import JobView, OrderView

from tesched_cli.columns import ColumnField, default_format
from tesched_cli.common import LONGEST_CELL, LONGEST_TEXT, clock, duration, hostlist

R = TypeVar("R")

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
#: In the place of the state of a job that Slurm forgot before its end was seen; no state of Slurm's.
GONE = "GONE"
_NOT_KNOWN = "(Slurm no longer knows it)"


def state_of(state: JobState, *, forgotten: bool) -> str:
    """State of a job, in a word: whether one that Slurm has forgotten runs or waits is not known."""
    return GONE if forgotten else state.value


def place_of(nodes: Sequence[str], reason: str, *, forgotten: bool) -> str:
    """Nodes of a job, or why it waits; of one that Slurm has forgotten those that it was last seen on."""
    if forgotten:
        return f"{hostlist(nodes)} {_NOT_KNOWN}".lstrip()
    return hostlist(nodes) or (f"({reason})" if reason else "")


def _run_time(job: JobView) -> float:
    return job.run_s(time.time())


def _time_left(job: JobView) -> float | None:
    return None if job.time_limit_s is None else max(job.time_limit_s - _run_time(job), 0.0)


def _idle(job: JobView) -> float | None:
    return None if job.idle_since is None else max(time.time() - job.idle_since, 0.0)


def _limit(seconds: float | None) -> str:
    return "UNLIMITED" if seconds is None else duration(seconds)


def _short_state(job: JobView) -> str:
    return GONE if job.is_forgotten else SHORT_STATES.get(job.state, job.state)


def _where(job: JobView) -> str:
    return place_of(job.nodes, job.reason, forgotten=job.is_forgotten)


def _number(value: Callable[[R], float], **more: Any) -> ColumnField[R]:
    """Return the field of a number."""
    return ColumnField(cell=lambda row: str(value(row)), key=value, right=True, **more)


def _moment(value: Callable[[R], float | None], **more: Any) -> ColumnField[R]:
    """Return the field of a time."""
    return ColumnField(cell=lambda row: clock(value(row)), key=value, **more)


def _seconds(value: Callable[[R], float], **more: Any) -> ColumnField[R]:
    """Return the field of a duration."""
    return ColumnField(cell=lambda row: duration(value(row)), key=value, right=True, **more)


def _left(value: Callable[[R], float | None], **more: Any) -> ColumnField[R]:
    """Return the field of a limit, or of what is left of it."""
    return ColumnField(cell=lambda row: _limit(value(row)), key=value, right=True, **more)


JOB_FIELDS: tuple[ColumnField[JobView], ...] = (
    ColumnField(
        names=("jobid",), letter="i", cell=lambda job: job.label, key=lambda job: (job.job_id, job.key), least=10
    ),
    ColumnField(names=("class",), cell=lambda job: job.job_class.upper()),
    ColumnField(
        names=("partition",), letter="P", cell=lambda job: job.partition, most=LONGEST_CELL, least=6, leave_out=3
    ),
    ColumnField(names=("name",), letter="j", cell=lambda job: job.name, most=LONGEST_CELL, least=8),
    ColumnField(names=("user", "username"), letter="u", cell=lambda job: job.user, most=LONGEST_CELL, least=8),
    ColumnField(names=("account",), letter="a", cell=lambda job: job.account, least=8),
    ColumnField(names=("qos",), letter="q", cell=lambda job: job.qos, least=6),
    ColumnField(names=("st", "statecompact"), letter="t", cell=_short_state),
    ColumnField(names=("state",), letter="T", cell=lambda job: state_of(job.state, forgotten=job.is_forgotten)),
    _seconds(_run_time, names=("time", "timeused"), letter="M"),
    _left(lambda job: job.time_limit_s, names=("timelimit",), letter="l", heading="TIME_LIMIT"),
    _left(_time_left, names=("timeleft",), letter="L", heading="TIME_LEFT"),
    _number(lambda job: len(job.nodes) or job.min_nodes, names=("numnodes",), letter="D", heading="NODES"),
    _number(lambda job: job.cpus, names=("cpus", "numcpus"), letter="C"),
    _number(lambda job: job.gpus, names=("gpus",), leave_out=5),
    ColumnField(
        names=("memory",),
        cell=lambda job: f"{job.mem_mib}M",
        key=lambda job: job.mem_mib,
        right=True,
    ),
    _number(lambda job: job.priority, names=("priority", "prioritylong"), letter="Q"),
    _number(lambda job: job.nice, names=("nice",), letter="y", leave_out=6),
    _number(lambda job: job.preemptions, names=("preempted",), leave_out=4),
    ColumnField(
        names=("idle",),
        cell=lambda job: "" if (idle_s := _idle(job)) is None else duration(idle_s),
        key=lambda job: _idle(job) or 0.0,
        right=True,
    ),
    _number(lambda job: job.restarts, names=("restarts", "restartcnt")),
    ColumnField(names=("rule",), cell=lambda job: job.rule, most=LONGEST_CELL, least=8, leave_out=1),
    ColumnField(names=("signal",), cell=lambda job: job.notice_signal or "none"),
    _seconds(lambda job: job.grace_period_s, names=("grace",)),
    _moment(lambda job: job.first_submit_time, names=("submittime",), letter="V", heading="SUBMIT_TIME"),
    _moment(lambda job: job.start_time, names=("starttime",), letter="S", heading="START_TIME"),
    _moment(lambda job: job.end_time, names=("endtime",), letter="e", heading="END_TIME"),
    ColumnField(names=("nodelist",), letter="N", cell=lambda job: hostlist(job.nodes)),
    ColumnField(names=("reason",), letter="r", cell=lambda job: job.reason),
    ColumnField(
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


ORDER_FIELDS: tuple[ColumnField[OrderView], ...] = (
    _number(lambda one: one.order.order_id, names=("order",)),
    ColumnField(
        names=("jobid",), letter="i", cell=lambda one: one.preemptor_label, key=lambda one: one.order.preemptor
    ),
    ColumnField(names=("user", "username"), letter="u", cell=lambda one: one.preemptor_user, least=8),
    ColumnField(names=("state",), letter="T", cell=_ending),
    _moment(lambda one: one.order.created_at, names=("created", "submittime"), letter="V"),
    _moment(lambda one: one.order.ended_at, names=("ended", "endtime"), letter="e"),
    ColumnField(names=("victims",), cell=_victims, key=lambda one: len(one.order.victims), least=8),
    ColumnField(names=("victimusers",), cell=lambda one: ",".join(dict.fromkeys(one.victim_users)), least=8),
    _seconds(lambda one: one.lost_node_s, names=("lost",), heading="LOST_NODE_TIME"),
    ColumnField(
        names=("shadow",),
        cell=lambda one: "yes" if one.order.ending is Ending.SHADOW else "no",
    ),
    ColumnField(names=("nodelist",), letter="N", cell=lambda one: hostlist(one.order.nodes), least=12),
)
