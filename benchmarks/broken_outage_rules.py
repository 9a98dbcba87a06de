"""The rules of outages, set clocks and late commands, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_JUMP, _LATELY = "core/tesched_core/orders/clock_jump.py", "core/tesched_core/fields/put_back_lately.py"
_PRIORITY, _THROTTLE = "core/tesched_core/fields/priority.py", "core/tesched_core/fields/throttle.py"
_OUT_OF_SERVICE = "core/tesched_core/orders/out_of_service.py"
_SLURM = "sim/tesched_sim/slurm.py"
_ADVANCE, _LOST = "core/tesched_core/orders/advance.py", "core/tesched_core/placement/lost_nodes.py"
_CONTROLLER, _CLOCKS = "sim/tesched_sim/controller_faults.py", "sim/tesched_sim/clock_faults.py"

_NAMES = "slurm/tesched_slurm/user_names.py"

OUTAGE_MUTATIONS = (
    Mutation("name service: the last known name", _NAMES, "self._known.get(user_id, shown)", "shown"),
    Mutation("name service: nobody is a user", _NAMES, "name == NO_NAME and user_id != _nobody()", "name == NO_NAME"),
    Mutation(
        "name service: no name known",
        _NAMES,
        "is_nameless(job.user, user_id) and not job.doubt",
        "False and not job.doubt",
    ),
    Mutation(
        "name service: by pyslurm",
        "slurm/tesched_slurm/pyslurm_client.py",
        "named = [self._named(record) for record in seen.jobs]",
        "named = list(seen.jobs)",
    ),
    Mutation(
        "lost nodes: until when",
        "cli/tesched_cli/render/until.py",
        "left_at + until.limits.order_timeout_s",
        "order.expires_at",
    ),
    Mutation("lost nodes: said once", _OUT_OF_SERVICE, "if one.name not in before", "if True"),
    Mutation(
        "lost nodes: an order that is over awaits none", _ADVANCE, "ending=ending, lost_nodes=())", "ending=ending)"
    ),
    Mutation(
        "lost nodes: nor is one said of it",
        "cli/tesched_cli/render/until.py",
        "return order.lost_nodes if order.state is OrderState.OPEN else ()",
        "return order.lost_nodes",
    ),
    Mutation(
        "lost nodes: not of a job that is not seen",
        _OUT_OF_SERVICE,
        " or order.preemptor in context.absent:",
        ":",
    ),
    Mutation(
        "silent node: its victim is followed",
        "core/tesched_core/orders/departures.py",
        "if any(has_not_reported(name, snapshot) for name in victim.nodes):",
        "if False:",
    ),
    Mutation("silent node: one that has not reported", _LOST, "return has_not_reported(name, snapshot) or", "return"),
    Mutation(
        "lost node: awaited once its victims have left", _LOST, "return left_at is not None and", "return False and"
    ),
    Mutation(
        "lost node: and as they leave", _LOST, "return awaited or snapshot.taken_at <= order.expires_at", "return False"
    ),
    Mutation(
        "lost node: for as long as they may take",
        _LOST,
        "return awaited or snapshot.taken_at <= order.expires_at",
        "return True",
    ),
    Mutation(
        "lost node: as long as an Epilog takes",
        _LOST,
        "return awaited or snapshot.taken_at <= order.expires_at",
        "return snapshot.taken_at <= order.expires_at",
    ),
    Mutation(
        "lost node: time to start once it is back",
        _ADVANCE,
        "max(order.expires_at, context.now + context.limits.order_timeout_s / 2)",
        "order.expires_at",
    ),
    Mutation("lost node: not before", _LOST, "or not states.isdisjoint(_MAY_BE_LET_GO)", ""),
    Mutation("lost node: for a short while", _LOST, "- left_at <= limits.order_timeout_s", "- left_at <= 1e9"),
    Mutation("lost node: a BE job's turn awaits none", _LOST, "is not JobClass.TE or", "is None or"),
    Mutation(
        "lost node: bound to none meanwhile",
        "core/tesched_core/fields/node_binding.py",
        "return bool(gone) or _long_enough",
        "return _long_enough",
    ),
    Mutation(
        "clock: what has happened in the future shows one that was set back",
        "core/tesched_core/step.py",
        "if memory.answers is None:  # the",
        "if False:  # the",
    ),
    Mutation("clock: no more than it is ahead", _JUMP, "if ahead_s > JUMP_S else memory", "if ahead_s > 0 else memory"),
    Mutation(
        "clock: what has happened, not what is to", _JUMP, "one.last_preempted, one.missing_since", "one.retry_at,"
    ),
    Mutation(
        "loop: a clock that is set during a poll",
        "daemon/tesched_daemon/loop.py",
        "replace(seen, taken_at=seen.taken_at + by_s, jobs_at=jobs_at)",
        "seen",
    ),
    Mutation(
        "raise: a repetition that was not sent says nothing of the first",
        "core/tesched_core/fields/nice_rule.py",
        " and (one.at == one.since or final(outcome))",
        "",
    ),
    Mutation(
        "field: a repetition that was not sent says nothing of the first",
        "core/tesched_core/fields/reconcile.py",
        "is_known = one.at == one.since or one.before is not None or final(outcome)",
        "is_known = True",
    ),
    Mutation("back again: it is put back again", _LATELY, "mine[one.job_id] = one", "pass"),
    Mutation("back again: the very value alone", _LATELY, "return bool(job.nice == one.value)", "return job.nice != 0"),
    Mutation("back again: not for long", _LATELY, "0 <= now - each[1] <= WRITTEN_WITHIN_S", "True"),
    Mutation("back again: by a clock that is set", _JUMP, "(one, at + by_s) for one, at", "(one, at) for one, at"),
    Mutation(
        "back again: a hold, too",
        _LATELY,
        "if one.field is Field.HOLD and _is_held_again",
        "if False and _is_held_again",
    ),
    Mutation(
        "back again: an admin's hold is left",
        _LATELY,
        "job is not None and job.held != snapshot.controller_is_new",
        "False",
    ),
    Mutation(
        "back again: a hold that was there before slurmctld was started is left",
        _LATELY,
        "job.held != snapshot.controller_is_new",
        "not job.held and snapshot.controller_is_new",
    ),
    Mutation(
        "back again: a hold that came after the new slurmctld had the release is left",
        _LATELY,
        "job.held != snapshot.controller_is_new",
        "job.held and not snapshot.controller_is_new",
    ),
    Mutation(
        "backup: its nodes have yet to report",
        "core/tesched_core/model/cluster.py",
        "(self.unreported and self.flags <= _PRESENT)",
        "False",
    ),
    Mutation(
        "backup: a node that is off is no sign of one",
        "core/tesched_core/model/cluster.py",
        "(self.unreported and self.flags <= _PRESENT)",
        "self.unreported",
    ),
    Mutation(
        "backup: nor one that can't be read",
        "core/tesched_core/model/cluster.py",
        "return not self.doubt and (self.state",
        "return (self.state",
    ),
    Mutation(
        "backup: another process", "core/tesched_core/model/snapshot.py", "return self.controller_changed or", "return"
    ),
    Mutation(
        "backup: another host, too",
        "slurm/tesched_slurm/commands_observer.py",
        "started != self._started or host != self._host",
        "started != self._started",
    ),
    Mutation(
        "backup: a ping that failed is no other host",
        "slurm/tesched_slurm/commands_observer.py",
        "_found(_FIRST_UP, config) or self._host",
        "_found(_FIRST_UP, config)",
    ),
    Mutation(
        "backup: a node that misses its ping has not reported either",
        _LOST,
        "node.if_it_responds.has_not_reported",
        "node.has_not_reported",
    ),
    Mutation(
        "silent node: one whose record cannot be read in one answer",
        _LOST,
        '(node.state == "UNKNOWN" or node.if_it_responds.has_not_reported)',
        "node.if_it_responds.has_not_reported",
    ),
    Mutation(
        "backup: where nodes never report none is awaited",
        "slurm/tesched_slurm/commands_observer.py",
        "if not seen.settings.nodes_report and any",
        "if False and any",
    ),
    Mutation(
        "backup: after a silence alone",
        "slurm/tesched_slurm/commands_observer.py",
        "if unanswered != self._unanswered and self._read is not None",
        "if self._read is not None",
    ),
    Mutation(
        "backup: polls are whole until it shows",
        "daemon/tesched_daemon/rest.py",
        "memory.newly_lost or memory.put_back",
        "memory.newly_lost",
    ),
    Mutation(
        "raise: one that changed nothing once is not ignored",
        _PRIORITY,
        "return one.at > one.taken_at and context.now",
        "return context.now",
    ),
    Mutation(
        "raise: one that may be lost is not ignored",
        _PRIORITY,
        "_is_unchanged(one, job) and context.snapshot.controller_is_new",
        "False",
    ),
    Mutation(
        "throttle: put back after the array's end",
        _THROTTLE,
        "next(iter(tasks), None))",
        "None)",
    ),
    Mutation("throttle: read of a task that has not ended", _THROTTLE, "if not task.finished", ""),
    Mutation(
        "throttle: undo, too",
        _THROTTLE,
        "job in snapshot.jobs.values()}",
        "job in snapshot.jobs.values() if not job.finished}",
    ),
    Mutation(
        "throttle: none is sent for ever of an array that has ended",
        _THROTTLE,
        "if is_over and sets(outcome.action, self.field)",
        "if False and sets(outcome.action, self.field)",
    ),
    Mutation("simulated time goes on", _SLURM, "at_s = max(at_s, self.now)", "pass"),
    Mutation(
        "simulated outage: what ended is known for a while",
        _CONTROLLER,
        "self.slurm.forgets_from = self.slurm.now + FORGETS_AFTER_S",
        "pass",
    ),
    Mutation(
        "simulated outage: all nodes report to each slurmctld",
        _CONTROLLER,
        "slurm.up[node] or node in",
        "slurm.up[node] and node not in",
    ),
    Mutation(
        "simulated array: its record is known with its tasks",
        _SLURM,
        "if self._is_old(row) and not self._stands_for_others(row):",
        "if self._is_old(row):",
    ),
    Mutation(
        "simulated poll: a late answer is there when it comes",
        "sim/tesched_sim/engine.py",
        "self._look_again(AGAIN_S if at is None else",
        "self._look_again(AGAIN_S if True else",
    ),
    Mutation("simulated outage: nothing starts", "sim/tesched_sim/slurm_scheduler.py", "slurm.is_away or not", "not"),
    Mutation(
        "simulated outage: a late command is lost",
        _CONTROLLER,
        "if starts == self.starts and not self.is_away:\n                call",
        "if True:\n                call",
    ),
    Mutation("simulated fail-over: what was set is older", _CONTROLLER, "self._set_back(row, one)", "pass"),
    Mutation("simulated fail-over: what has started waits", _CONTROLLER, "self._waits_again(row)", "pass"),
    Mutation(
        "simulated fail-over: what has left is shown", _CONTROLLER, "self._is_shown_to_run(row, one, dice)", "pass"
    ),
    Mutation(
        "simulated clock: a record keeps its time",
        _CLOCKS,
        "at_s + self.slurms_ahead_s(at_s)",
        "at_s + self.slurms_ahead_s()",
    ),
    Mutation(
        "simulated store: nothing without an intent",
        "sim/tesched_sim/engine.py",
        "if failing is Failing.INTENT:",
        "if False:",
    ),
)
