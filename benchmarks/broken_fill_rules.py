"""The rules of fill's heads of the queue, and of gavel's reach, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_FILL = "policies/tesched_policies/fill.py"
_HEADS = "policies/tesched_policies/queue_heads.py"
_COLUMNS = "core/tesched_core/placement/columns_of.py"
_SHADOW = "core/tesched_core/placement/shadow_time.py"

_TURN = "policies/tesched_policies/gavel/turn.py"

FILL_MUTATIONS = (
    Mutation(
        "gavel: GPUs that no managed job may have",
        _TURN,
        "self.managed.may_have(capacity.available & (self.kinds.of_node != NOWHERE))",
        "capacity.available & (self.kinds.of_node != NOWHERE)",
    ),
    Mutation("gavel: a turn without a place", _TURN, "        self._make_places()\n", ""),
    Mutation(
        "gavel: who does not leave keeps its turn",
        _TURN,
        "if managed.jobs[other].job_id not in leave:",
        "if False:",
    ),
    Mutation("fill: what is not weighed is in the queue", _COLUMNS, "others.append((len(jobs), job.job_id))", "pass"),
    Mutation(
        "fill: exempt jobs are in the queue",
        _COLUMNS,
        "snapshot.job_class(job.job_id) is JobClass.TE or not starts",
        "snapshot.job_class(job.job_id) is not JobClass.BE or not starts",
    ),
    Mutation(
        "fill: who would not start delays nobody", _COLUMNS, "or not starts_by_itself(job, snapshot.taken_at, 0)", ""
    ),
    Mutation("fill: each node has a first", _HEADS, "clear &= ~wanted.allowed", "clear[:] = False"),
    Mutation(
        "fill: what fits where no job waits starts", _HEADS, "free, None if helped else clear", "free, clear & False"
    ),
    Mutation("fill: who fits nowhere is no first", _HEADS, "wanted.place(total) is None", "False"),
    Mutation("fill: of an array all tasks", _HEADS, "tasks_in(job) if job.array_tasks else 1", "1"),
    Mutation(
        "fill: of an array those that may run", _HEADS, "tasks=min(wanted.tasks, may_start)", "tasks=wanted.tasks"
    ),
    Mutation("fill: tasks that run count", _HEADS, "- sum(one.on_nodes and not one.finished for one in tasks)", ""),
    Mutation("fill: tasks that have ended do not", _HEADS, "one.on_nodes and not one.finished for", "one.on_nodes for"),
    Mutation("fill: records share a throttle", _HEADS, "throttles.take(job, placed)", "pass"),
    Mutation("fill: no more are brought forward", _FILL, "queue.throttles.left(job) == 0 or", ""),
    Mutation(
        "fill: what fits on as many nodes", _FILL, "axis=1) >= waiting.nodes[rows]", "axis=1) > waiting.nodes[rows]"
    ),
    Mutation(
        "fill: what fits where it may run",
        _FILL,
        "fits = waiting.allowed[waiting.kind[rows]]",
        "fits = waiting.allowed[waiting.kind[rows]] | True",
    ),
    Mutation("fill: nor several", _FILL, "queue.throttles.take(job, 1)", "pass"),
    Mutation("fill: trials that want the same are weighed once", _HEADS, "{kind_of(job, ", "{(job.job_id, "),
    Mutation("fill: few kinds of trials are weighed", _HEADS, "if number < MOST_KINDS else", "if True else"),
    Mutation("fill: what starts now ends", _HEADS, "for one in self.starts]", "for one in ()]"),
    Mutation("fill: what is not weighed keeps its nodes", _FILL, "among &= ~one.allowed", "pass"),
    Mutation("fill: a start that is not known", _SHADOW, "if needed > 0 else self.now", "if needed > 0 else inf"),
    Mutation("fill: nodes that may be free at once", _SHADOW, "known[needed - 1]", "known[-1]"),
    Mutation("fill: trials that are new", _HEADS, "(*view.ahead, *new)", "view.ahead"),
    Mutation(
        "fill: all that a trial takes of a node",
        _HEADS,
        "np.maximum(demand.takes, 0) if demand.takes.strides[0] else demand.per_node",
        "demand.per_node",
    ),
    Mutation("fill: of many first jobs some are weighed", _FILL, "one in heads[MOST_WEIGHED:]", "one in ()"),
    Mutation("fill: no more tasks than wait", _HEADS, "np.clip(wanted.tasks - before, 0, fit)", "fit"),
    Mutation(
        "fill: tasks that wait together are one record",
        "sim/tesched_sim/observer.py",
        "(row if row in arrays.started else arrays.record_of(row)) + 1",
        "row + 1",
    ),
)
