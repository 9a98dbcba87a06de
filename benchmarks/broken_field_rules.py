"""The rules of reconciliation, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_FIELD = "core/tesched_core/fields/reconcile.py"

_RECORD = "            job = self.record(job_id, context)\n            if job is None"

FIELD_MUTATIONS = (
    Mutation(
        "binding: one that may yet arrive",
        "core/tesched_core/fields/node_binding.py",
        "taken_at=None, before=one.before if is_before else one.value)",
        "taken_at=None)",
    ),
    Mutation(
        "binding: the nodes that are shown stay tesched's, however often others are set",
        "core/tesched_core/fields/node_binding.py",
        "one.before if is_before else one.value",
        "one.value",
    ),
    Mutation(
        "binding: one that was certainly not sent again may yet arrive",
        "core/tesched_core/fields/node_binding.py",
        "            return one  # it is set again",
        "            return replace(one, value=one.before, before=None)  # it is set again",
    ),
    Mutation(
        "binding: the nodes that a job's user has set meanwhile",
        "core/tesched_core/fields/node_binding.py",
        "{FieldState.OTHERS, FieldState.PARTLY}",
        "set[FieldState]()",
    ),
    Mutation(
        "binding: those are what the job asks for",
        "core/tesched_core/model/change.py",
        "previous.names) if is_bound else job.request",
        "previous.names)",
    ),
    Mutation(
        "notice: its grace period begins when it was sent",
        "core/tesched_core/orders/notice.py",
        "noticed_at=max(victim.noticed_at, at)",
        "noticed_at=victim.noticed_at",
    ),
    Mutation(
        "simulated plugin: the order of the marks",
        "sim/tesched_sim/slurm_scheduler.py",
        "(slurm.marks[job].order, job)",
        "job",
    ),
    Mutation(
        "simulated plugin: a mark ends",
        "sim/tesched_sim/slurm_scheduler.py",
        "return in_time and slurm.restarts",
        "return slurm.restarts",
    ),
    Mutation(
        "field: one that may yet arrive",
        _FIELD,
        "return one.taken_at is None and abs(now - one.at) <= within_s",
        "return False",
    ),
    Mutation("field: one that was seen is on no way", _FIELD, "return one.taken_at is None and abs(", "return abs("),
    Mutation("field: a clock that was set back", _FIELD, "abs(now - one.at) <= within_s", "now - one.at <= within_s"),
    Mutation("field: what others have set is left", _FIELD, "or where is FieldState.OTHERS:", "or False:"),
    Mutation(
        "field: nothing was set in shadow mode",
        _FIELD,
        "if one.dry or one.restored or where",
        "if one.restored or where",
    ),
    Mutation(
        "field: the value before is tesched's too", _FIELD, "before = shown if where.is_ours else None", "before = None"
    ),
    Mutation(
        "field: what is not tesched's is none of the values before",
        _FIELD,
        "before = shown if where.is_ours else None",
        "before = shown",
    ),
    Mutation(
        "field: nothing to do", _FIELD, "if one.restored or want.value == in_force or on_its_way:", "if one.restored:"
    ),
    Mutation("field: what shadow mode would have set", _FIELD, "one.value if one.dry else shown", "shown"),
    Mutation(
        "field: what is wanted stays",
        _FIELD,
        "context.changes_of(self.name).items() if job_id not in wants}",
        "context.changes_of(self.name).items()}",
    ),
    Mutation(
        "field: one that is not seen is not over",
        _FIELD,
        "            if job_id in context.absent:\n                continue\n" + _RECORD,
        _RECORD,
    ),
    Mutation(
        "field: a refusal", _FIELD, "if context.is_refused(one.field, job.user, puts_back=puts_back):", "if False:"
    ),
    Mutation(
        "field: what is put back is refused apart",
        _FIELD,
        "self._may_send(one, job, context, puts_back=True)",
        "self._may_send(one, job, context)",
    ),
    Mutation("field: most in a poll", _FIELD, "self.most_a_poll == inf or sum(", "True or sum("),
    Mutation("field: certainly not set", _FIELD, "if is_dry or (is_known and certainly_failed(outcome))", "if is_dry"),
    Mutation(
        "field: a change is not over by an answer",
        _FIELD,
        "self._keep(one, self.unsent(one, outcome), context)",
        "self._keep(one, None if certainly_failed(outcome) else self.unsent(one, outcome), context)",
    ),
    Mutation(
        "field: an answer to a command that puts back", _FIELD, " and outcome.action.reason.code not in PUTS_BACK", ""
    ),
    Mutation(
        "nice: a boost that was not made again is in force",
        "core/tesched_core/fields/queue_boost.py",
        "if not is_first:",
        "if False:",
    ),
    Mutation(
        "nice: a held job is put at the head of its queue",
        "core/tesched_core/fields/queue_boost.py",
        " and not jobs[one.job_id].held",
        "",
    ),
    Mutation(
        "nice: what others have undone is counted by purpose",
        "core/tesched_core/fields/nice.py",
        "is_undone(one, job) if one.by is by else 0",
        "is_undone(one, job)",
    ),
    Mutation(
        "field: an array that is not seen is not over",
        "core/tesched_core/orders/missing.py",
        "        _arrays(memory, snapshot),\n",
        "",
    ),
    Mutation(
        "nodes: a binding that was sent again may yet arrive",
        "core/tesched_core/fields/node_binding.py",
        "replace(one, at=context.now, taken_at=None, before=one.before if is_before else one.value)",
        "one",
    ),
    Mutation(
        "undo: a record that could not be read",
        "core/tesched_core/orders/undo.py",
        "frozenset(job.job_id for job in snapshot.jobs.values() if job.doubt)",
        "frozenset()",
    ),
    Mutation(
        "nice: a boost that becomes a raise is one change",
        "core/tesched_core/fields/priority.py",
        "one = None if one is None or one.restored else one",
        "one = one if one is not None and one.by is By.PREEMPTOR else None",
    ),
    Mutation(
        "nice: a boost does not put a raise back",
        "core/tesched_core/fields/nice_rule.py",
        "if one.by is By.QUEUE else one.order_id in here",
        "if True else one.order_id in here",
    ),
)
