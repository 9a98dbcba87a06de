"""More rules that `python -m benchmarks.mutations` breaks: futility, the pass at the head, what is found and left."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_RUN, _FUTILITY = "core/tesched_core/orders/useful_run.py", "core/tesched_core/orders/futility.py"

_NO_PLAN = "core/tesched_core/orders/no_plan.py"
_CONTEXT, _BINDING = "core/tesched_core/context.py", "core/tesched_core/fields/node_binding.py"
_ADVANCE, _TIMES = "core/tesched_core/orders/advance.py", "core/tesched_core/intake/leave_times.py"

_TOGETHER = "core/tesched_core/orders/leave_together.py"

FUTILITY_MUTATIONS = (
    Mutation("back: a deadline that passed is a loss", _ADVANCE, "if job.state is JobState.DEADLINE:", "if False:"),
    Mutation(
        "together: the quick one waits",
        _TOGETHER,
        "    return any(_saves_for_s",
        "    return False and any(_saves_for_s",
    ),
    Mutation("together: not for one that has left", _TOGETHER, "if not job.on_nodes:", "if False:"),
    Mutation(
        "together: one not seen has not left", _TOGETHER, "left_s if victim.job_id in context.absent else 0.0", "0.0"
    ),
    Mutation("together: a long Epilog", _TOGETHER, "return max(since + longest_s - context.now, 0.0)", "return 0.0"),
    Mutation(
        "together: one that is suspended", _TOGETHER, "inf if job.state is JobState.SUSPENDED else left_s", "left_s"
    ),
    Mutation(
        "together: requeued by others",
        _ADVANCE,
        "departure is Departure.REQUEUED_ITSELF and victim.state is",
        "False and victim.state is",
    ),
    Mutation(
        "together: asked late, it can come back",
        "core/tesched_core/orders/withheld.py",
        "if not victim.by_suspending and (not job.requeueable",
        "if False and (not job.requeueable",
    ),
    Mutation(
        "together: of those that come later",
        "core/tesched_core/orders/reinforce.py",
        "victims=(*before, *more))",
        "victims=before)",
    ),
    Mutation(
        "leaving: one in its Epilog does not go on",
        "core/tesched_core/orders/departures.py",
        "if job is not None and job.completing:",
        "if False:",
    ),
    Mutation(
        "leaving: one that is not seen",
        _CONTEXT,
        "return since is not None and self._is_patient(victim.nodes, since)",
        "return False",
    ),
    Mutation(
        "leaving: from when it was seen to end", _ADVANCE, "victim = replace(victim, ending_since=context.now)", "pass"
    ),
    Mutation("leaving: what fits awaits nothing", _CONTEXT, " and not self.fits(order)", ""),
    Mutation(
        "together: no sooner than it could be back",
        _TOGETHER,
        "min(known, float(context.snapshot.settings.requeue_delay_s))",
        "known",
    ),
    Mutation(
        "together: as jobs like it", _TOGETHER, "min(known, float(context.snapshot.settings.requeue_delay_s))", "0.0"
    ),
    Mutation(
        "together: those that save are asked at once", _TOGETHER, "    if not is_quick(victim):\n", "    if False:\n"
    ),
    Mutation("leaving: its order lives", _ADVANCE, "context.is_awaited(order) or awaits_others", "awaits_others"),
    Mutation("leaving: half of its time is left", _ADVANCE, "< context.limits.order_timeout_s / 2", "< 0"),
    Mutation("leaving: what hangs is named", _ADVANCE, 'text += f"; {hanging}"', "pass"),
    Mutation("leaving: its nodes are the TE job's", _BINDING, "if context.is_awaited(order):", "if False:"),
    Mutation(
        "leaving: and for a while after it",
        _BINDING,
        "since = left_at if left_at - since > most_s",
        "since = since if True",
    ),
    Mutation(
        "leaving: not for ever",
        _CONTEXT,
        "return self.now - since <= patience_s(self.known_ending_times, nodes)",
        "return True",
    ),
    Mutation("leaving: a victim of another order", _CONTEXT, "return self._ends_on(order)", "return False"),
    Mutation("leaving: only what it asked", _CONTEXT, "if not order.victims:", "if True:"),
    Mutation("leaving: by node first", _TIMES, "[max(known[name]) for name in nodes if name in known] or", "[] or"),
    Mutation("leaving: then by site", _TIMES, "or [max(times) for times in known.values()]", ""),
    Mutation(
        "leaving: what hung teaches nothing",
        _TIMES,
        "if took_s <= patience_s(times, nodes):",
        "if True:",
    ),
    Mutation(
        "leaving: a new daemon knows", "db/tesched_db/held.py", "            ending_times=self.ending_times,\n", ""
    ),
    Mutation(
        "leaving: resources fought for",
        "core/tesched_core/orders/reinforce.py",
        "or context.is_awaited(order))",
        ")",
    ),
    Mutation("run: a start is none yet", _RUN, "if ran_s >= enough_s or", "if True or"),
    Mutation("run: success is one", _RUN, "(not back and job.state is JobState.COMPLETED)", "False"),
    Mutation("run: of the time before its requeue", _RUN, "max(job.submit_time - order.started_at, 0.0) if", "0.0 if"),
    Mutation("run: what happened between two polls", _RUN, "job.restarts > order.restarts", "False"),
    Mutation("run: not while nodes boot", _RUN, 'if "CONFIGURING" in job.flags:', "if False:"),
    Mutation("run: by this host's clock", _RUN, "context.now - seen_at)", "context.now - (job.start_time or 0.0))"),
    Mutation("run: a missing record says nothing", _RUN, "or order.run_id in context.absent:", "or False:"),
    Mutation("run: who comes back waits", _FUTILITY, "        Ending.NO_RUN,\n", ""),
    Mutation("run: a tenth of the time limit", _FUTILITY, "job.time_limit_s * PART", "inf"),
    Mutation("run: ten seconds at least", _FUTILITY, "max(part_s, LEAST_S)", "part_s"),
    Mutation(
        "run: a start alone does not make it forget",
        _FUTILITY,
        "(job.job_id in on_trial or _is_starting(job, one, context)):",
        "False:",
    ),
    Mutation(
        "run: a drained node is no change",
        _FUTILITY,
        'basis_of(job, "" if one.by_itself else nodes',
        "basis_of(job, nodes",
    ),
    Mutation("run: Slurm's word is no change", _FUTILITY, "!= one.said and not one.by_itself", "!= one.said"),
    Mutation(
        "run: an order lasts until it is known",
        "core/tesched_core/orders/settled.py",
        "order.run_seen_at is None and",
        "",
    ),
    Mutation(
        "run: futile as soon as it is known",
        "db/tesched_db/queries.py",
        "futile=sum(order.futile for order in known)",
        "futile=sum(order.futile for order in every)",
    ),
    Mutation("futile: the wait doubles", "core/tesched_core/orders/futility.py", "2.0 ** min(count - 1, 30)", "1.0"),
    Mutation(
        "futile: left alone after two",
        "core/tesched_core/orders/futility.py",
        "one.count >= limits.max_futile_orders_per_job and",
        "False and",
    ),
    Mutation(
        "futile: until something changes", "core/tesched_core/orders/futility.py", "and not one.changed:", "and True:"
    ),
    Mutation(
        "futile: what it asks for and its nodes count as a change",
        "core/tesched_core/orders/futility.py",
        'or one.basis not in {"", basis}',
        "",
    ),
    Mutation(
        "futile: so does a job that has ended where there is a limit",
        "core/tesched_core/orders/futility.py",
        "or fellows < one.fellows",
        "",
    ),
    Mutation(
        "futile: so does what Slurm says",
        "core/tesched_core/orders/futility.py",
        "changed = one.changed or said or",
        "changed = one.changed or",
    ),
    Mutation(
        "futile: tesched's own binding is no change",
        "core/tesched_core/orders/futility.py",
        "astuple(context.own_request(job))",
        "astuple(job.request)",
    ),
    Mutation(
        "futile: forgotten when the job starts",
        "core/tesched_core/orders/futility.py",
        "        if job is None or not job.pending:\n            continue\n",
        "",
    ),
    Mutation(
        "futile: an array counts as one",
        "core/tesched_core/orders/futility.py",
        "return job.array_job_id if job is not None and",
        "return job_id if True or",
    ),
    Mutation(
        "futile: only if victims were asked",
        "core/tesched_core/orders/futility.py",
        "    if asked and order.ending",
        "    if order.ending",
    ),
    Mutation("no plan: its owner's patience", _NO_PLAN, "or patience is not None", "or False"),
    Mutation("no plan: it ends", _NO_PLAN, "if is_awaited or not was_considered or", "if True or"),
    Mutation("no plan: Slurm has considered it", _NO_PLAN, "or not was_considered or", "or"),
    Mutation("no plan: silent nodes", _NO_PLAN, "(was_considered and _is_unclear(job, context))", "False"),
    Mutation("no plan: nodes that it excludes", _NO_PLAN, ".difference(job.request.excluded_nodes)", ""),
    Mutation("no plan: at a limit its time does not run", _NO_PLAN, "replace(order, waits_until=context.now)", "order"),
    Mutation(
        "no plan: while policies propose",
        "core/tesched_core/step.py",
        "served.memory if paused else without_plan",
        "without_plan",
    ),
    Mutation(
        "futile: a node that went before its victims left, once",
        "core/tesched_core/orders/futility.py",
        "if left or count > 1 or order.ending not in {Ending.NODE_GONE, Ending.CHANGED}:",
        "if True:",
    ),
    Mutation(
        "look: no victim before it",
        "core/tesched_core/orders/first_look.py",
        "            or not plan.victims\n            or considered",
        "            or True\n            or considered",
    ),
    Mutation(
        "look: the site may say that it has no limits",
        "core/tesched_core/orders/first_look.py",
        "    if said is False:\n        return True",
        "    if said is False:\n        return False",
    ),
    Mutation(
        "look: it ends in time",
        "core/tesched_core/orders/first_look.py",
        "overdue = context.now > order.waits_until + LOOK_WITHIN_S",
        "overdue = False",
    ),
    Mutation(
        "look: but not while another is ahead",
        "core/tesched_core/orders/first_look.py",
        "and not _behind_another(order, job, context)",
        "",
    ),
    Mutation(
        "look: Priority is none",
        "core/tesched_core/intake/pending_reason.py",
        'job.reason in WAITS_FOR_RESOURCES and job.reason != "Priority"',
        "job.reason in WAITS_FOR_RESOURCES",
    ),
    Mutation(
        "look: a limit keeps it at the head",
        "core/tesched_core/intake/pending_reason.py",
        "(at_the_head and waits_at_the_head(job))",
        "False",
    ),
    Mutation(
        "look: the daemon watches for it",
        "core/tesched_core/intake/pending_reason.py",
        "for order in memory.open_orders() if memory else ():",
        "for order in ():",
    ),
    Mutation(
        "missing: kept for MinJobAge", "core/tesched_core/orders/missing.py", "if now - at < most_s}", "if False}"
    ),
    Mutation("missing: and no longer", "core/tesched_core/orders/missing.py", "if now - at < most_s}", "if True}"),
    Mutation(
        "missing: a victim",
        "core/tesched_core/orders/advance.py",
        "    if victim.job_id in context.absent:\n        return victim\n",
        "",
    ),
    Mutation(
        "missing: the preemptor",
        "core/tesched_core/orders/advance.py",
        "if run is None and order.preemptor in context.absent:",
        "if False:",
    ),
    Mutation(
        "missing: no victim is pressed for it",
        "core/tesched_core/orders/advance.py",
        "return order.state is OrderState.OPEN and (absent or",
        "return order.state is OrderState.OPEN and (False or",
    ),
    Mutation(
        "missing: a priority is put back later",
        "core/tesched_core/fields/nice_rule.py",
        "        if one.job_id in context.absent:\n            return\n",
        "",
    ),
    Mutation(
        "missing: a binding",
        "core/tesched_core/fields/node_binding.py",
        "return None if job is None or one.restored else",
        "return None if True else",
    ),
    Mutation(
        "silent: one missed ping is no end",
        "core/tesched_core/placement/lost_nodes.py",
        "return [name for name in gone if not is_silent(name, snapshot)]",
        "return gone",
    ),
    Mutation(
        "silent: no victim is pressed",
        "core/tesched_core/orders/advance.py",
        "(absent or any(is_silent(name, context.snapshot) for name in order.nodes))",
        "absent",
    ),
    Mutation(
        "a hold of somebody else stays",
        "core/tesched_core/fields/left_held.py",
        "or victim.held_before or",
        "or",
    ),
    Mutation(
        "a hold that comes in the grace period, too",
        "core/tesched_core/orders/advance.py",
        "victim = replace(victim, held_before=True)",
        "pass",
    ),
    Mutation(
        "all tasks that started are put back",
        "core/tesched_core/fields/nice_rule.py",
        "jobs |= {task.job_id: task for task in context.tasks_of(one.job_id) if task.job_id not in others}",
        "pass",
    ),
    Mutation(
        "victims that wait to run again stop nothing",
        "core/tesched_core/guard/admission.py",
        "order.frees_resources and (snapshot.job_class",
        "(snapshot.job_class",
    ),
    Mutation(
        "turns use up nothing of what TE jobs may cause",
        "core/tesched_core/guard/budget.py",
        "if one.purpose is purpose:",
        "if True:",
    ),
    Mutation(
        "bind_for_s counts from the first binding",
        "core/tesched_core/fields/node_binding.py",
        "since=context.now if since is None else since,",
        "since=context.now,",
    ),
    Mutation(
        "a binding that did not arrive does not count",
        "core/tesched_core/fields/node_binding.py",
        "None if one.since == one.at else",
        "None if False else",
    ),
    Mutation(
        "no clocks are compared",
        "core/tesched_core/orders/started.py",
        "if job.start_time is None or job.state in",
        "if job.start_time is None or job.start_time < 9999 or job.state in",
    ),
    Mutation(
        "a task that ran before is none",
        "core/tesched_core/orders/started.py",
        "if task.job_id > since and _has_started(task)",
        "if _has_started(task)",
    ),
    Mutation(
        "partitions over the same nodes",
        "core/tesched_core/context.py",
        "if partition.priority_tier in tiers",
        "if False",
    ),
    Mutation(
        "but only of the same tier",
        "core/tesched_core/context.py",
        "if partition.priority_tier in tiers",
        "if True",
    ),
    Mutation(
        "a nice value without an answer is not taken for ignored",
        "core/tesched_core/fields/priority.py",
        "if not _is_unchanged(one, job) or one.taken_at is None:\n        return False",
        "if not _is_unchanged(one, job):\n        return False\n    if one.taken_at is None:\n        return True",
    ),
    Mutation(
        "no nice value that Slurm cannot have",
        "core/tesched_core/fields/priority.py",
        "max(job.nice - missing - PRIORITY_MARGIN, MIN_NICE)",
        "job.nice - missing - PRIORITY_MARGIN",
    ),
    Mutation(
        "hold: one on its way is remembered",
        "core/tesched_core/fields/hold.py",
        "job.priority == 0 or (on_its_way and not job.finished)",
        "job.priority == 0",
    ),
    Mutation(
        "shadow: records again only later",
        "core/tesched_core/orders/outcomes.py",
        "context.draft.update(order.preemptor, shadowed_until=at + limits.retry_after_s)",
        "pass",
    ),
)
