"""The rules of the bound on delays by TE jobs, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_DEADLINES, _ADMISSION = "core/tesched_core/placement/deadlines.py", "core/tesched_core/guard/admission.py"
_PLACES, _ANSWERS = "core/tesched_core/placement/places.py", "core/tesched_core/model/site_answers.py"
_CLASSIFY, _TE_QUEUE = "core/tesched_core/intake/classify.py", "core/tesched_core/orders/te_queue.py"
_DEMAND = "core/tesched_core/placement/demand.py"
_BOUNDS = "core/tesched_core/intake/bounds.py"
_SETTLED, _ADVANCE, _UNDO = (f"core/tesched_core/orders/{name}.py" for name in ("settled", "advance", "undo"))
_POLICY, _MARKING = "core/tesched_core/placement/eligibility.py", "core/tesched_core/orders/marking.py"
_IN_ITS_WAY = "core/tesched_core/orders/te_in_its_way.py"
_REASONS = "core/tesched_core/intake/pending_reason.py"
_HOLD = "core/tesched_core/fields/hold.py"
_BYSTANDERS, _TE_RUNS = "core/tesched_core/orders/bystanders.py", "core/tesched_core/placement/te_runs.py"

_SIMULATED = "sim/tesched_sim/observer.py"
_MISUSE = "core/tesched_core/guard/misuse.py"
_TE_LIMITS, _STEP = "core/tesched_core/guard/te_limits.py", "core/tesched_core/step.py"

BOUND_MUTATIONS = (
    Mutation("bound: one that tesched has put off", _DEADLINES, "if job.job_id in self.put_off:", "if False:"),
    Mutation("bound: a victim that is held", _DEADLINES, "starts_by_itself(job, self.now, delay_s)", "True"),
    Mutation("bound: one that never fits", _DEADLINES, "and self.places.of(job).can_start", ""),
    Mutation(
        "bound: no excuse of tesched's own", _SETTLED, "within_s = inf if victim.job_id in put_off else", "within_s ="
    ),
    Mutation("bound: as if it were free", _DEADLINES, "if self.memory.is_bound(te.job_id):", "if False:"),
    Mutation(
        "bound: where it is bound to",
        _DEADLINES,
        "required_nodes=on) if on else own",
        "required_nodes=on) if False else own",
    ),
    Mutation(
        "bound: not moved into the way",
        "core/tesched_core/orders/reinforce.py",
        " and not _in_the_way(elsewhere, trial, context)",
        "",
    ),
    Mutation("bound: none is excused for a round", _SETTLED, "if not victim.is_limited or", "if victim.of_own_user or"),
    Mutation("bound: held for its turn", _SETTLED, "if is_held_by_us(job, context) and", "if False and"),
    Mutation("bound: held, and put off by its user", _SETTLED, "and begins_within(job, now, within_s):", "and True:"),
    Mutation("bound: held beside a TE job", _SETTLED, "if in_its_way.meets(job):", "if True:"),
    Mutation(
        "bound: held beside its own user's", _IN_ITS_WAY, "self.user != self.users.get(own.user, -1)", "self.user >= 0"
    ),
    Mutation(
        "bound: held between polls", _IN_ITS_WAY, "for job in left_since(last, held, snapshot)]", "for job in ()]"
    ),
    Mutation("bound: held by another hand", _REASONS, "OF_A_HOLD.search(job.reason) is not None or", "False or"),
    Mutation(
        "bound: held, with its last reason",
        _REASONS,
        "job.held and (job.reason == HELD_BY_US or not another)",
        "job.reason == HELD_BY_US",
    ),
    Mutation("bound: held by Slurm, as it never starts", _REASONS, " or starts_no_more(job.reason)", ""),
    Mutation("bound: held, and not large enough", _IN_ITS_WAY, "one.fits_into(capacity.total) |", "True |"),
    Mutation("bound: TE jobs wait for a held one", _DEADLINES, "starts = in_turn or starts", "starts = starts"),
    Mutation("bound: held no more", _STEP, "isinstance(one, HoldJob) and one.job_id in due", "False"),
    Mutation("bound: excused by its user's begin time", _SETTLED, "if not one.restored}", "}"),
    Mutation("bound: excused", _SETTLED, "excused_s=past.excused_s + since_s", "excused_s=0.0"),
    Mutation("bound: excused is no delay", _BOUNDS, "past.delayed_s - past.excused_s", "past.delayed_s"),
    Mutation("bound: of a suspended victim, undone", _UNDO, "(now.settled or after", "(False or after"),
    Mutation("bound: a boost stays", _STEP, "[*context.deadlines.due, *boosted]", "context.deadlines.due"),
    Mutation("misuse: what counts", _MISUSE, "if traits.rule == OUTLIVED and", "if False and"),
    Mutation(
        "bound: alike, with reservations",
        "core/tesched_core/placement/alike.py",
        "barred_by(job, snapshot)",
        "()",
    ),
    Mutation(
        "bound: alike, whatever their limits",
        "core/tesched_core/placement/alike.py",
        "barred_by(job, snapshot)",
        "(barred_by(job, snapshot), job.time_limit_s if snapshot.reservations else None)",
    ),
    Mutation("bound: other jobs may leave", _PLACES, "replace(self.snapshot, jobs={})", "self.snapshot"),
    Mutation("bound: a user's nodes may be given back", _PLACES, "replace(self.capacity, kept_by=())", "self.capacity"),
    Mutation(
        "bound: tasks have waited before all", _STEP, "with_tasks(memory, context) if counts_b", "memory if counts_b"
    ),
    Mutation(
        "bound: a task that is changed alone", _BYSTANDERS, "    if task.pending:\n", "    if task.pending and False:\n"
    ),
    Mutation("bound: not one that was held apart", _BYSTANDERS, "task.eligible_time == array.eligible_time and", ""),
    Mutation(
        "bound: a release is that of all components",
        _TE_QUEUE,
        "if job.held else None",
        "if False else None",
    ),
    Mutation("bound: but of what is let through", _TE_QUEUE, "in bound and not memory.is_let_through(job)", "in bound"),
    Mutation(
        "bound: asked once", _TE_QUEUE, "if job.job_id not in above_limits or job.het_job_id in held:", "if True:"
    ),
    Mutation("bound: of a part above limits", _TE_QUEUE, "above_limits or job.het_job_id in held", "above_limits"),
    Mutation("bound: due to none above limits", _TE_QUEUE, "counts=job.job_id not in above_limits", "counts=True"),
    Mutation(
        "bound: not of an array",
        _TE_QUEUE,
        "of_parts = {job.het_job_id:",
        "of_parts = {job.array_job_id or job.het_job_id:",
    ),
    Mutation(
        "bound: components are released",
        "core/tesched_core/fields/other_hand.py",
        "if one.het_job_id == job_id and one is not job]",
        "if False]",
    ),
    Mutation("bound: one that is not held need not wait", _TE_QUEUE, "if job.held else None", "if True else None"),
    Mutation(
        "bound: nodes of one user, between polls", _BYSTANDERS, "anew.demands(alike[0], demands, gone_ids)", "demands"
    ),
    Mutation("misuse: only where it is set", _MISUSE, "if limits.max_outlived_per_user_day:", "if True:"),
    Mutation("misuse: for a day", _MISUSE, "if most and now - one.at < DAY_S:", "if most:"),
    Mutation(
        "misuse: when it outlived", _MISUSE, "at = job.start_time + traits.time_limit_s", "at = snapshot.taken_at"
    ),
    Mutation("misuse: seen first", _MISUSE, "if first is None or first.user == NO_NAME:", "if True:"),
    Mutation("misuse: a user without a name", _MISUSE, " or first.user == NO_NAME", ""),
    Mutation("misuse: of old ones none", _MISUSE, "if one.at > snapshot.taken_at - DAY_S", ""),
    Mutation("misuse: so many", _MISUSE, "if len(ats) >= most", "if len(ats) > most"),
    Mutation("misuse: until there are fewer", _MISUSE, "ats[len(ats) - most] + DAY_S", "ats[-1] + DAY_S"),
    Mutation("misuse: they wait", _TE_LIMITS, "if job.user in barred:", "if False:"),
    Mutation("misuse: the hook", _STEP, "limits.te.counts_what_starts or bool(barred)", "limits.te.counts_what_starts"),
    Mutation("misuse: nobody else", _STEP, "limits.te.counts_what_starts or bool(barred)", "limits.te.is_set"),
    Mutation("misuse: the plugin", _MARKING, "*barred_users(memory.outlived, limits.te, context.now)", ""),
    Mutation("te limits: running jobs", _TE_LIMITS, "running > limits.max_running_per_user", "False"),
    Mutation("te limits: near begin times", _TE_LIMITS, "snapshot.taken_at, 2 * poll_s)", "snapshot.taken_at, 0.0)"),
    Mutation("te limits: node-minutes", _TE_LIMITS, "minutes > most_minutes", "minutes >= most_minutes"),
    Mutation("te limits: the nodes", _TE_LIMITS, "_nodes(job) * most_run_s", "most_run_s"),
    Mutation("te limits: the share", _TE_LIMITS, "amount > limits.max_cluster_share * total", "False"),
    Mutation("te limits: whole nodes", _TE_LIMITS, "max(known) if known else job", "max(known) if False else job"),
    Mutation("te limits: one that may start counts", _TE_LIMITS, "held.add(wanted)", "pass"),
    Mutation(
        "te limits: not one that can't",
        _TE_LIMITS,
        "if starts[job.job_id] or _may_be_freed(job)",
        "if True",
    ),
    Mutation("te limits: one that we hold", _TE_LIMITS, "one.job_id in ours or starts_by", "starts_by"),
    Mutation(
        "te limits: first come",
        _TE_LIMITS,
        "let_through, job.submit_time, job.job_id",
        "let_through, 0.0, job.job_id",
    ),
    Mutation(
        "te limits: an array's throttle", _TE_LIMITS, "min(tasks, max(job.array_throttle - running_tasks, 0))", "tasks"
    ),
    Mutation("te limits: no window", _STEP, "if is_counted:", "if False:"),
    Mutation(
        "bound: a TE run between two polls", _BYSTANDERS, "found |= _unseen(found, known, te, memory, context)", "pass"
    ),
    Mutation("bound: until its nodes are free", _TE_RUNS, "is JobState.COMPLETED else kill_wait_s", "is None else 0.0"),
    Mutation("bound: only if it began since", _TE_RUNS, "if start >= eligible and min", "if min"),
    Mutation("bound: what started in its place", _TE_RUNS, "gone | {job.job_id: job for job in started}", "gone"),
    Mutation("bound: own TE jobs take no part", _BYSTANDERS, "for run in te if run.user != job.user", "for run in ()"),
    Mutation("bound: away for its own user", _BYSTANDERS, "_away(memory, of_own_user=False)", "_away(memory)"),
    Mutation("bound: victims that save their work", _DEADLINES, "victim.state in HOLDS_RESOURCES and", "False and"),
    Mutation("bound: victims of this cycle", _ADMISSION, "        _note_victims(plan, view, deadlines)\n", ""),
    Mutation(
        "bound: held before a victim leaves",
        _STEP,
        "    intents += _too_late_now(columns.trials, late, memory, context)\n",
        "",
    ),
    Mutation(
        "bound: holds first",
        _STEP,
        "if context.deadlines is not None and (raises or holds(one)):",
        "if False:",
    ),
    Mutation("bound: a victim's lost run", _DEADLINES, "0.0 if of_own_user else self._lost_s(job)", "0.0"),
    Mutation(
        "bound: it has no victim", _HOLD, "return is_te and not order.victims", "return False and not order.victims"
    ),
    Mutation("bound: run until its notice", _ADVANCE, "min(stops, default=context.now)", "context.now"),
    Mutation("bound: B", _BOUNDS, "(slowdown - 1) * run_s", "slowdown * run_s"),
    Mutation("bound: T", _BOUNDS, "run_s, te_time_limit_s + costs_s)", "run_s, 0.0)"),
    Mutation(
        "bound: what was delayed", _DEADLINES, "self.bound_s(job) - self.delayed.get(", "self.bound_s(job) - {}.get("
    ),
    Mutation("bound: the lost run", _DEADLINES, "left_s - self._lost_s(job) -", "left_s -"),
    Mutation("bound: what a preemption costs", _DEADLINES, " - self._costs_s(job.job_id) - 2", " - 2"),
    Mutation("bound: the longest run", _BOUNDS, "past.longest_run_s, expected_s", "0.0, expected_s"),
    Mutation("bound: what it has run", _DEADLINES, "runs_for_s=ran_s", "runs_for_s=0.0"),
    Mutation("bound: what is expected", _DEADLINES, "expected.low_s if expected else 0.0", "0.0"),
    Mutation("bound: the time limit", _DEADLINES, "2 * self.poll_s + most_run_s(te) +", "2 * self.poll_s +"),
    Mutation("bound: after the time limit", _DEADLINES, "most_run_s(te) + self._ends_within_s", "most_run_s(te)"),
    Mutation("bound: its own user", _DEADLINES, "if one.job.user == te.user:", "if False:"),
    Mutation("bound: other nodes", _PLACES, "bool((mine.nodes & its.nodes).any())", "True"),
    Mutation("answers: of another site", _ANSWERS, "and not self._is_same_site(self.before)", "and False"),
    Mutation("answers: not by whose jobs are where", _DEMAND, "one.exclusive_user or one.def_mem_per_gpu_mib", "False"),
    Mutation("answers: not for a user's own nodes", _DEMAND, 'job.request.sharing == "USER"', "False"),
    Mutation("bound: the first deadline", _DEADLINES, "min(until, self.waiting[0].at", "max(until, self.waiting[0].at"),
    Mutation("bound: marks end", _DEADLINES, "return self.now + spare_s\n        if", "return None\n        if"),
    Mutation(
        "bound: of victims away",
        _BOUNDS,
        "found[job_id] = found.get(job_id, 0.0) + seconds\n    for job_id, one in",
        "pass\n    for job_id, one in",
    ),
    Mutation(
        "bound: the longest grace period",
        _ADMISSION,
        "_ineligible(plan, view) or _too_late(plan, view, deadlines)",
        "_ineligible(plan, view)",
    ),
    Mutation("bound: of this TE job", _POLICY, "return found.for_te_of(most_run_s(te), te.user)", "return found"),
    Mutation("bound: of its own user no victim", _POLICY, "if self.users[row] != user", ""),
    Mutation("bound: no marks", _MARKING, "eligible = eligible.for_te_of(deadlines.te_time_limit_s)", "pass"),
    Mutation(
        "bound: no hold under notice", _TE_QUEUE, "late is not None and job_id not in pressing", "late is not None"
    ),
    Mutation("bound: a preemption that is over", _ADVANCE, "add_delay(after, context)", "pass"),
    Mutation("bound: not its own user's", _SETTLED, "seconds > 0 and not victim.of_own_user", "seconds > 0"),
    Mutation("bound: undone", _UNDO, "add_delay(now, context)", "pass"),
    Mutation(
        "bound: grace periods, not of exempt jobs",
        "core/tesched_core/intake/class_rules.py",
        "rule.job_class is JobClass.EXEMPT",
        "False",
    ),
    Mutation(
        "bound: grace periods, of TE rules too",
        "core/tesched_core/intake/class_rules.py",
        "rule.job_class is JobClass.EXEMPT",
        "rule.job_class is not JobClass.BE",
    ),
    Mutation("bound: outlived", _CLASSIFY, "JobClass.TE and _outlives(", "JobClass.TE and False and _outlives("),
    Mutation("bound: raised alone", _CLASSIFY, "return is_raised and now", "return now"),
    Mutation("bound, simulated: since when it waits", _SIMULATED, "eligible_time=self._eligible_s(row),", ""),
    Mutation("bound, simulated: where it ran", _SIMULATED, "for node in slurm.ran_on[row])", "for node in ())"),
    Mutation("bound, simulated: run times", _SIMULATED, "expected=self._expected,", ""),
    Mutation("bound, simulated: users", _SIMULATED, "if self.users_differ else", "if False else"),
)
