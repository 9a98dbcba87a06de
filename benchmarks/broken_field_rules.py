"""The rules of reconciliation, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_FIELD = "core/tesched_core/fields/reconcile.py"
_NICE, _BEFORE = "core/tesched_core/fields/nice.py", "slurm/tesched_slurm/right_before.py"
_REST, _DEPENDS = "daemon/tesched_daemon/rest.py", "core/tesched_core/orders/requeue.py"
_GUARD, _HOLD = "core/tesched_core/guard/admission.py", "core/tesched_core/fields/hold.py"

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
    Mutation(
        "ended: nodes of a job that its user may requeue",
        "core/tesched_core/fields/node_binding.py",
        "return None if job is None or one.restored else",
        "return None if job is None or job.finished or one.restored else",
    ),
    Mutation(
        "ended: the hold of a job that its user may requeue",
        "core/tesched_core/fields/hold.py",
        "return job.priority == 0 or (on_its_way and not job.finished)",
        "return not job.finished and (job.priority == 0 or on_its_way)",
    ),
    Mutation(
        "ended: the nice value of a job that its user may requeue",
        _NICE,
        "if any(job.finished and is_ours(job, one) for job in records):",
        "if False:",
    ),
    Mutation("ended: not of one that shows none", _NICE, "job.finished and is_ours(job, one) for", "job.finished for"),
    Mutation(
        "ended: its order does not wait for that",
        _NICE,
        "replace(one, order_id=None, since=None)",
        "replace(one, since=None)",
    ),
    Mutation("ended: an undo does not wait for that", _NICE, "        return job.finished\n", "        return False\n"),
    Mutation(
        "ended: a requeued one is put back by an undo", _NICE, "        return job.finished\n", "        return True\n"
    ),
    Mutation("ended: tasks that run", _NICE, "if not task.finished)", "if task.finished)"),
    Mutation("ended: polls at rest", _REST, "return outlasts_its_job(change, there) or", "return"),
    Mutation("ended: nodes and a hold at rest", _REST, "job.finished and change.field in", "False and change.field in"),
    Mutation(
        "ended: the jobs are gone through once for all arrays",
        "core/tesched_core/placement/jobs_there.py",
        "    @cached_property\n    def _by_array",
        "    @property\n    def _by_array",
    ),
    Mutation(
        "ended: of an array that is requeued it is put back",
        "core/tesched_core/fields/nice.py",
        "for task in there.of(one.job_id) if not task.finished)",
        "for task in there.of(one.job_id) if False)",
    ),
    Mutation("ended: a throttle is put back", _REST, "{Field.NODES, Field.HOLD}", "set(Field)"),
    Mutation(
        "before: a job that waits no more is neither bound nor held",
        _BEFORE,
        "is HoldState.HELD) and not job.pending",
        "is HoldState.HELD) and False",
    ),
    Mutation(
        "before: a user's hold is not made an operator's",
        _BEFORE,
        "return not (is_held_by_hook(job) and job.reason == HELD_BY_ITS_USER)",
        "return False",
    ),
    Mutation(
        "before: the hook's is",
        _BEFORE,
        "return not (is_held_by_hook(job) and job.reason",
        "return not (job.reason",
    ),
    Mutation(
        "before: an operator's hold after the hook's is left",
        _BEFORE,
        "return not (is_held_by_hook(job) and job.reason == HELD_BY_ITS_USER)",
        "return not is_held_by_hook(job)",
    ),
    Mutation(
        "hold: one that was not sent is not believed when an operator's is seen",
        _HOLD,
        "one.at == one.since and certainly_failed(outcome)",
        "False",
    ),
    Mutation(
        "hold: a second one may find the first, which got no answer",
        _HOLD,
        "one.at == one.since and certainly_failed(outcome)",
        "certainly_failed(outcome)",
    ),
    Mutation(
        "hold: the hook's is in place where another one was not sent",
        _HOLD,
        "if one.before == HELD and not _is_as_wanted(outcome):",
        "if False:",
    ),
    Mutation(
        "hold: an operator's after the hook's is left",
        _HOLD,
        "if one.before == HELD and not _is_as_wanted(outcome):",
        "if one.before == HELD:",
    ),
    Mutation(
        "hold: where the mark stays an operator's is left",
        _HOLD,
        "if one.before == HELD and not _is_as_wanted(outcome):",
        "if not _is_as_wanted(outcome):",
    ),
    Mutation(
        "before: a user's hold is not ended", _BEFORE, "return job.reason == HELD_BY_ITS_USER and", "return False and"
    ),
    Mutation("before: an operator's hold is ended", _BEFORE, "return job.reason == HELD_BY_ITS_USER and", "return"),
    Mutation(
        "before: the hook's hold is ended",
        _BEFORE,
        "HELD_BY_ITS_USER and not is_held_by_hook(job)",
        "HELD_BY_ITS_USER",
    ),
    Mutation(
        "before: a nice value does not end a hold",
        _BEFORE,
        "action.field is Field.NICE and nice_releases.now()",
        "False",
    ),
    Mutation("before: it is set where it ends none", _BEFORE, "Field.NICE and nice_releases.now()", "Field.NICE"),
    Mutation(
        "before: not where that is unknown",
        _BEFORE,
        "releases = isinstance(config, Failure) or",
        "releases = not isinstance(config, Failure) and",
    ),
    Mutation("before: read once a turn", _BEFORE, "if self._known is None or self", "if True or self"),
    Mutation(
        "before: read anew in a later turn", _BEFORE, "self._known[0] > PRIORITY_TYPE_AGE_S", "self._known[0] < 0"
    ),
    Mutation(
        "before: by pyslurm and the commands together",
        "slurm/tesched_slurm/pyslurm_client.py",
        ", nice_releases=nice)",
        ")",
    ),
    Mutation(
        "before: by pyslurm, too",
        "slurm/tesched_slurm/pyslurm_client.py",
        "return not_to_be_set(action, seen, nice) or self._set(action, seen)",
        "return self._set(action, seen)",
    ),
    Mutation("depends: a task that waits for that of its number", _DEPENDS, 'names.append(rf"', '_ = (rf"'),
    Mutation(
        "depends: no task of another number", _DEPENDS, "and job.array_task_id == waits.array_task_id:", "and True:"
    ),
    Mutation("plans: no job has two orders", _GUARD, "if plan.preemptor in self._served:", "if False:"),
    Mutation(
        "plans: nor one beside that of before",
        _GUARD,
        "for order in view.reserving if order.frees",
        "for order in () if order.frees",
    ),
    Mutation(
        "plans: nor two in a cycle",
        _GUARD,
        "        self._served.add(plan.preemptor)\n        self._leaving",
        "        self._leaving",
    ),
    Mutation(
        "plans: an order that is to have more victims",
        _GUARD,
        "in view.reserving if",
        "in view.memory.open_orders() if",
    ),
    Mutation("plans: none without nodes", _GUARD, "if not names or len(names)", "if len(names)"),
    Mutation("plans: no node twice", _GUARD, "or len(names) < len(plan.nodes) or", "or"),
    Mutation("plans: no unknown node", _GUARD, "or not names <= known.keys()", ""),
    Mutation("plans: no victim of two plans", _GUARD, "if job_id in self._leaving or", "if"),
    Mutation("plans: none twice", _GUARD, "self._leaving or times > 1:", "self._leaving:"),
    *(
        Mutation(
            f"suspended: {what} age on a suspended host, too",
            f"slurm/tesched_slurm/{file}.py",
            "stopwatch: Callable[[], float] = uptime_s",
            "stopwatch: Callable[[], float] = time.monotonic",
        )
        for file, what in {
            "resting_observer": "polls",
            "scontrol_limits": "limits",
            "sacctmgr_qos": "QOS",
            "commands_observer": "settings",
        }.items()
    ),
    Mutation(
        "suspended: no part of a run under way",
        "daemon/tesched_daemon/run_time_source.py",
        "now - job.start_time - suspended_s, 0.0)",
        "now - job.start_time, 0.0)",
    ),
    Mutation(
        "suspended: one that goes on counts",
        "daemon/tesched_daemon/run_time_source.py",
        "one.past_s + still_s,",
        "one.past_s,",
    ),
    Mutation(
        "suspended: of this run alone",
        "db/tesched_db/history_rows.py",
        "(JobId(row.job_id), row.restarts) for row",
        "(JobId(row.job_id), 1) for row",
    ),
    Mutation(
        "suspended: the run ends as much later",
        "core/tesched_core/placement/read_jobs.py",
        "one.median_s + late_s)",
        "one.median_s)",
    ),
    Mutation(
        "suspended: the command line counts alike",
        "cli/tesched_cli/render/expectation.py",
        "runs_for_s = job.run_s(time.time())",
        "runs_for_s = time.time() - (job.start_time or 0)",
    ),
)
