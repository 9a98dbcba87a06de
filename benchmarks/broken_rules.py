"""The rules that `python -m benchmarks.mutations` breaks, one after the other: where each is, and how it is broken.

Over 400 lines: it is a list, one entry a rule.
"""

from __future__ import annotations

from benchmarks.broken_admission_rules import ADMISSION_MUTATIONS
from benchmarks.broken_at_once_rules import AT_ONCE_MUTATIONS
from benchmarks.broken_begin_rules import BEGIN_MUTATIONS
from benchmarks.broken_bound_rules import BOUND_MUTATIONS
from benchmarks.broken_bystander_rules import BYSTANDER_MUTATIONS
from benchmarks.broken_delay_rules import DELAY_MUTATIONS
from benchmarks.broken_early_rules import EARLY_MUTATIONS
from benchmarks.broken_edge_rules import EDGE_MUTATIONS
from benchmarks.broken_ending_rules import ENDING_MUTATIONS
from benchmarks.broken_field_rules import FIELD_MUTATIONS
from benchmarks.broken_fill_rules import FILL_MUTATIONS
from benchmarks.broken_futility_rules import FUTILITY_MUTATIONS
from benchmarks.broken_kept_rules import KEPT_MUTATIONS
from benchmarks.broken_learn_rules import LEARN_MUTATIONS
from benchmarks.broken_lease_rules import LEASE_MUTATIONS
from benchmarks.broken_marking_rules import MARKING_MUTATIONS
from benchmarks.broken_memory_rules import MEMORY_MUTATIONS
from benchmarks.broken_metrics_rules import METRICS_MUTATIONS
from benchmarks.broken_outage_rules import OUTAGE_MUTATIONS
from benchmarks.broken_own_user_rules import OWN_USER_MUTATIONS
from benchmarks.broken_raise_rules import RAISE_MUTATIONS
from benchmarks.broken_record_rules import RECORD_MUTATIONS
from benchmarks.broken_refused_rules import REFUSED_MUTATIONS
from benchmarks.broken_release_rules import RELEASE_MUTATIONS
from benchmarks.broken_report_rules import REPORT_MUTATIONS
from benchmarks.broken_request_rules import REQUEST_MUTATIONS
from benchmarks.broken_rest_rules import REST_MUTATIONS
from benchmarks.broken_return_rules import RETURN_MUTATIONS
from benchmarks.broken_run_time_rules import RUN_TIME_MUTATIONS
from benchmarks.broken_service_rules import SERVICE_MUTATIONS
from benchmarks.broken_shard_rules import SHARD_MUTATIONS
from benchmarks.broken_shown_rules import SHOWN_MUTATIONS
from benchmarks.broken_spread_rules import SPREAD_MUTATIONS
from benchmarks.broken_store_rules import STORE_MUTATIONS
from benchmarks.broken_trace_rules import TRACE_MUTATIONS
from benchmarks.broken_turn_rules import TURN_MUTATIONS
from benchmarks.broken_twin_rules import TWIN_MUTATIONS
from benchmarks.broken_web_rules import WEB_MUTATIONS
from benchmarks.broken_window_rules import WINDOW_MUTATIONS
from benchmarks.broken_word_rules import WORD_MUTATIONS
from benchmarks.mutation import Mutation

_SLURM, _ENGINE = "sim/tesched_sim/slurm.py", "sim/tesched_sim/engine.py"
_FITGPP, _PATIENT = "policies/tesched_policies/fitgpp.py", "policies/tesched_policies/patient.py"
_CLASSIFY, _CLASS_RULES = (f"core/tesched_core/intake/{name}.py" for name in ("classify", "class_rules"))
_DECLARED = "slurm/tesched_slurm/declared_signal.py"
_LINE = "slurm/tesched_slurm/submit_line.py"
_DETAILS = "slurm/tesched_slurm/details.py"
_SCONTROL, _BOUNDS = "slurm/tesched_slurm/scontrol_cluster.py", "slurm/tesched_slurm/cluster_bounds.py"
_CORES = "slurm/tesched_slurm/cores_as_cpus.py"
_HIDDEN, _TURNS, _QUEUE = (f"slurm/tesched_slurm/{name}.py" for name in ("hidden_tasks", "user_turns", "queue"))
_PAID, _COUNTS = "core/tesched_core/guard/budget.py", "core/tesched_core/guard/count_limits.py"
_ROBBED = "core/tesched_core/orders/reinforce.py"
_SHADOW = "core/tesched_core/placement/shadow_time.py"
_LOOP, _DOUBT = "daemon/tesched_daemon/loop.py", "daemon/tesched_daemon/plausibility.py"
_VISIBLE, _COMMON = "core/tesched_core/model/visible.py", "cli/tesched_cli/common.py"
_LOG_LINES, _NOTIFY = "daemon/tesched_daemon/log_lines.py", "daemon/tesched_daemon/sdnotify.py"
_PERFORMING = "daemon/tesched_daemon/performing.py"
_SET_ASIDE, _BISECTION = "daemon/tesched_daemon/set_aside.py", "daemon/tesched_daemon/bisection.py"
_RATES, _INBOX = "daemon/tesched_daemon/rates.py", "daemon/tesched_daemon/job_reports/inbox.py"
_JOURNAL, _LEASE = "db/tesched_db/journal.py", "db/tesched_db/lease.py"
_FILE, _ENGINE_DB, _PROCESS, _LIVENESS = (
    f"db/tesched_db/{name}.py" for name in ("store_file", "engine", "process", "liveness")
)

MUTATIONS = (
    Mutation("a requeue counts", _SLURM, "self.restarts[row] += 1", "pass"),
    Mutation("work of earlier runs is kept", _SLURM, "worked_s = before_s + max(until", "worked_s = max(until"),
    Mutation("a checkpoint is kept", _SLURM, "self.saved_s[row] = kept_s", "self.saved_s[row] = 0.0"),
    Mutation("back at the head of the queue", _SLURM, "if to is RequeuedTo.HEAD:", "if False:"),
    Mutation("KillWait", _SLURM, "wait_s = grace_s + self.behaviour.kill_wait_s", "wait_s = grace_s"),
    Mutation(
        "resources stay reserved",
        "sim/tesched_sim/slurm_scheduler.py",
        "free = self.slurm.free - self.kept",
        "free = self.slurm.free.copy()",
    ),
    Mutation(
        "backfill does not delay the first",
        "sim/tesched_sim/slurm_scheduler.py",
        "> shadow.at\n",
        "> shadow.at + 1e9\n",
    ),
    Mutation(
        "no account is none", "core/tesched_core/guard/budget.py", "        if one.account:\n", "        if True:\n"
    ),
    Mutation(
        "resources reserved where they are free start a job",
        "sim/tesched_sim/slurm_scheduler.py",
        "if self._fits_on(row, nodes):\n            slurm.stirred",
        "if False:\n            slurm.stirred",
    ),
    Mutation(
        "spare resources are spare once", "sim/tesched_sim/slurm_scheduler.py", "shadow.take(nodes, demand)", "pass"
    ),
    Mutation("a job that ends by then frees resources", _SHADOW, "then[place] += self", "then[place] += 0 * self"),
    Mutation(
        "the queue waits for its pass",
        "sim/tesched_sim/slurm_scheduler.py",
        "if now == self._next_pass > self._passed_s:",
        "if True:",
    ),
    Mutation(
        "there is one pass at an instant",
        "sim/tesched_sim/slurm_scheduler.py",
        "if now == self._next_pass > self._passed_s:",
        "if now == self._next_pass:",
    ),
    Mutation(
        "a pass without backfill owes one",
        "sim/tesched_sim/slurm_scheduler.py",
        "self._owes_backfill = True",
        "slurm.stirred = True",
    ),
    Mutation(
        "a throttle counts the tasks that run", _SLURM, "left = most - self.arrays.running[array] if", "left = most if"
    ),
    Mutation("an explicit priority survives a requeue", _SLURM, "if row in self.fixed:", "if row in ():"),
    Mutation(
        "a later begin time counts", _SLURM, "and self.eligible_s[row] <= self.now:", "and self.eligible_s[row] >= 0:"
    ),
    Mutation("whom an order serves is not served twice", _ENGINE, "served.add(preemptor)", "pass"),
    Mutation("deadlines are kept", _ENGINE, "slurm.push(slurm.now + victim.grace_period_s, Event.WAKE, 0)", "pass"),
    Mutation("the load is held", _ENGINE, "self._load < self.hold_load", "self._load <= self.hold_load"),
    Mutation(
        "P",
        "core/tesched_core/guard/eligibility.py",
        "if one.preemptions >= limits.max_preemptions_per_job:",
        "if one.preemptions > limits.max_preemptions_per_job:",
    ),
    Mutation(
        "least run time",
        "core/tesched_core/guard/eligibility.py",
        "now - running.started < seconds",
        "now - running.started <= seconds",
    ),
    Mutation("cool-down", "core/tesched_core/guard/eligibility.py", "and now - at < seconds", "and now - at < 0"),
    Mutation(
        "a plan that a limit refuses frees nothing for the next",
        "policies/tesched_policies/victim_search.py",
        "if tried.is_planned:",
        "if True:",
    ),
    Mutation(
        "one that waits by an order goes on where no more may be opened",
        "policies/tesched_policies/victim_search.py",
        "(victims or self.guard.waits(job.job_id))",
        "victims",
    ),
    Mutation(
        "a patient one waits where no victim may leave",
        "policies/tesched_policies/victim_search.py",
        "(victims or self.guard.waits(job.job_id))",
        "self.guard.waits(job.job_id)",
    ),
    Mutation("no superfluous victim", "policies/tesched_policies/victim_search.py", "if without is None:", "if True:"),
    Mutation(
        "jobs that span nodes are weighed on all of them",
        "policies/tesched_policies/victim_search.py",
        "    return _fewer_that_span(question, found)",
        "    return found",
    ),
    Mutation(
        "of those that span nodes and are enough the cheapest goes",
        "core/tesched_core/placement/spanning.py",
        "in_order = np.lexsort((running.job_id[singles], score[singles]))",
        "in_order = np.lexsort((running.job_id[singles], -score[singles]))",
    ),
    Mutation(
        "a victim is taken once",
        "policies/tesched_policies/ground.py",
        "pool[victims] = False",
        "pass",
    ),
    Mutation(
        "the cheapest on a node",
        "core/tesched_core/placement/node_prices.py",
        "self._single[where[::-1]] = jobs[::-1]",
        "self._single[where] = jobs",
    ),
    Mutation(
        "a plan counts for what is kept of single victims",
        "policies/tesched_policies/ground.py",
        "found[shares] = fit_alone(demand, running, free, shares)",
        "pass",
    ),
    Mutation("what is lost is weighed against the longest", _FITGPP, "s * lost_s / longest", "s * lost_s"),
    Mutation(
        "fitgpp: one that is sent no signal pays with its run",
        _FITGPP,
        "weighed_loss_s(view.running, view.now)",
        "view.running.grace_s",
    ),
    Mutation(
        "loss: runs of about the same length are equal",
        "policies/tesched_policies/loss.py",
        "np.floor(np.log2(ran_min))",
        "np.log2(ran_min)",
    ),
    Mutation("loss: a longer run is worth more", "policies/tesched_policies/loss.py", "0.0, lost)", "0.0, MINUTE_S)"),
    Mutation("fitgpp: runs are weighed against grace periods", _FITGPP, "saving if len(saving) else lost_s", "lost_s"),
    Mutation(
        "workload: without a signal a run is lost",
        "sim/tesched_sim/workloads/beyond.py",
        "workload.saves_on_notice & ~lost",
        "workload.saves_on_notice",
    ),
    Mutation(
        "workload: one that saves at once declares a grace period",
        "sim/tesched_sim/workloads/beyond.py",
        "np.maximum(workload.grace_s, LEAST_GRACE_S)",
        "workload.grace_s",
    ),
    Mutation(
        "patient: one that is sent no signal pays with its run",
        _PATIENT,
        "weighed_loss_s(view.running, view.now)",
        "view.running.grace_s",
    ),
    Mutation("sizes are weighed against the largest", _FITGPP, "running.size / largest", "running.size"),
    Mutation(
        "a preemption is remembered",
        "core/tesched_core/orders/advance.py",
        "preemptions=times, lost_runs=lost, last_preempted=context.now)",
        "preemptions=times, lost_runs=lost)",
    ),
    Mutation(
        "who leaves after all has paid",
        "core/tesched_core/orders/advance.py",
        "return victim if leaves else",
        "return",
    ),
    Mutation(
        "reserved resources are taken",
        "core/tesched_core/placement/reserved.py",
        "        capacity = _changed(capacity, list(_coming(order, snapshot, capacity)))\n    return capacity",
        "        pass\n    return capacity",
    ),
    Mutation(
        "ahead of all others", "core/tesched_core/fields/priority.py", "return 1 + max(paying,", "return max(paying,"
    ),
    Mutation("patience", _PATIENT, "return since + self.patience_s", "return since + 2 * self.patience_s"),
    Mutation(
        "fill: a job that outlasts the shadow leaves the first its resources",
        "policies/tesched_policies/fill.py",
        "among &= shadow.spared(len(free), wanted.each)",
        "pass",
    ),
    Mutation(
        "fill: who ends before the shadow delays nobody",
        "policies/tesched_policies/fill.py",
        "shadow is not None and shadow.is_met_by(ends_at)]",
        "shadow is not None]",
    ),
    Mutation(
        "fill: the highest response ratio is next",
        "policies/tesched_policies/fill.py",
        'np.argsort(-ratio, kind="stable")',
        'np.argsort(ratio, kind="stable")',
    ),
    Mutation(
        "fill: what a shadow spares is spared once",
        "policies/tesched_policies/fill.py",
        "shadow.take(nodes, wanted.each)",
        "pass",
    ),
    Mutation(
        "fill: trials that wait for such resources are not delayed",
        "policies/tesched_policies/fill.py",
        "weighed, trials = heads[:MOST_WEIGHED], trials_of(view)",
        "weighed, trials = heads[:MOST_WEIGHED], ()",
    ),
    Mutation(
        "fill: a job that was helped has its resources",
        "policies/tesched_policies/queue_heads.py",
        "helped = job_id in boosted",
        "helped = False",
    ),
    Mutation(
        "fill: resources of one job are not another's",
        "policies/tesched_policies/fill.py",
        "            wanted.take(nodes, free)\n            queue",
        "            queue",
    ),
    Mutation(
        "forwarded: put back when he has not started in time",
        "core/tesched_core/fields/queue_boost.py",
        "job.pending and (one.job_id in stays or context.now - one.at <= LASTS_S)",
        "job.pending",
    ),
    Mutation(
        "forwarded: believed to be back when that is seen",
        "core/tesched_core/fields/nice_rule.py",
        "if one.restored or put_back(one, in_order, preemptor, context, why, most):",
        "if one.restored or put_back(one, in_order, preemptor, context, why) or one.by is By.QUEUE:",
    ),
    Mutation(
        "forwarded: who certainly was not is forgotten",
        "core/tesched_core/fields/queue_boost.py",
        "return _nothing_to_put_back(one, dry=True) if is_dry else None",
        "return _nothing_to_put_back(one, dry=True) if is_dry else one",
    ),
    Mutation(
        "forwarded: what may have arrived is remembered",
        "core/tesched_core/fields/contract.py",
        " and kind not in MAY_HAVE_ARRIVED\n",
        "\n",
    ),
    Mutation("guard: a limit of an hour", _COUNTS, "count > max(most, ", "count > 1 + max(most, "),
    Mutation(
        "guard: an hour",
        "core/tesched_core/guard/eligibility.py",
        'if over := reached(tally, (CountedBy.ALL, ""), limits):',
        "if over := None:",
    ),
    Mutation("guard: a user's hour", _PAID, "yield CountedBy.USER, one.user", "pass"),
    Mutation("guard: an account's hour", _PAID, "yield CountedBy.ACCOUNT, one.account", "pass"),
    Mutation("guard: a node's hour", _PAID, "yield CountedBy.NODE, node", "pass"),
    Mutation("guard: the day's budget", _COUNTS, "and tally.node_s >= most * HOUR_S", "and False"),
    Mutation(
        "guard: one plan does not pass an hour's limit", _COUNTS, "counts.get(by, 0) + number", "counts.get(by, 0)"
    ),
    Mutation("guard: one plan does not pass the day's budget", _COUNTS, "and node_s > most * HOUR_S", "and False"),
    Mutation(
        "guard: plans of one cycle count together",
        "core/tesched_core/guard/admission.py",
        "            self._tally.add(one, view.now)\n",
        "            pass\n",
    ),
    Mutation(
        "guard: victims of one cycle", "core/tesched_core/guard/admission.py", "self._victims += len(chosen)", "pass"
    ),
    Mutation(
        "guard: orders under way",
        "core/tesched_core/guard/admission.py",
        "elif victims and self._victims + victims > most:",
        "elif victims and self._victims + victims > 1 + most:",
    ),
    Mutation(
        "guard: open orders",
        "core/tesched_core/guard/admission.py",
        "if self._orders >= self._limits.max_open_orders:",
        "if self._orders > self._limits.max_open_orders:",
    ),
    Mutation(
        "guard: slowdown",
        "core/tesched_core/guard/eligibility.py",
        "slowdowns(running, memory) > limits.max_slowdown",
        "slowdowns(running, memory) > 2 * limits.max_slowdown",
    ),
    Mutation(
        "guard: slowdown, without what its own user has let it wait",
        "core/tesched_core/guard/eligibility.py",
        "running.queued if memory.policies_hold else running.eligible",
        "running.queued",
    ),
    Mutation(
        "guard: slowdown, with what a policy has let it wait",
        "core/tesched_core/guard/eligibility.py",
        "running.queued if memory.policies_hold else running.eligible",
        "running.eligible",
    ),
    Mutation(
        "guard: slowdown, over all runs of a victim without its own waits",
        "core/tesched_core/orders/open.py",
        "queued_at=job.submit_time if memory.policies_hold else eligible_since(job)",
        "queued_at=job.submit_time",
    ),
    Mutation("own waits: Slurm's delay is none", "core/tesched_core/intake/own_waits.py", "if job.restarts or", "if"),
    Mutation(
        "own waits: none after its start",
        "core/tesched_core/intake/own_waits.py",
        "if job.start_time is None else min(job.eligible_time, job.start_time)",
        "",
    ),
    Mutation(
        "own waits: none before it came",
        "core/tesched_core/intake/own_waits.py",
        "return max(job.submit_time, at)",
        "return at",
    ),
    Mutation(
        "guard: slowdown is over all runs",
        "core/tesched_core/guard/eligibility.py",
        "queued[row], ran_s[row], suspended_s[row] = past.submitted_at, past.ran_s, past.suspended_s",
        "pass",
    ),
    Mutation(
        "guard: protected names",
        "core/tesched_core/guard/eligibility.py",
        "if any(fnmatchcase(name, glob) for glob in limits.protected_names):",
        "if False:",
    ),
    Mutation(
        "guard: protected users",
        "core/tesched_core/guard/eligibility.py",
        '"protected_users", (owner.user,)',
        '"protected_users", ()',
    ),
    Mutation(
        "demand: several reservations",
        "core/tesched_core/placement/modelled.py",
        'if "," in job.reservation:',
        "if False:",
    ),
    Mutation(
        "guard: each of several reservations protects",
        "core/tesched_core/guard/eligibility.py",
        'owner.reservation.split(",")',
        "(owner.reservation,)",
    ),
    Mutation(
        "guard: who yields already is not asked again",
        "core/tesched_core/guard/eligibility.py",
        "excuse_jobs(dict.fromkeys(leaving, _LEAVING))",
        "pass",
    ),
    Mutation(
        "guard: so often a run may be lost",
        "core/tesched_core/guard/eligibility.py",
        "if one.lost_runs >= max(",
        "if one.lost_runs >= 16 + max(",
    ),
    Mutation(
        "guard: one that died of its notice has lost its run",
        "core/tesched_core/model/order.py",
        "not self.gets_notice or self.departure in",
        "not self.gets_notice and self.departure in",
    ),
    Mutation(
        "guard: one that is sent no signal may never be preempted",
        "core/tesched_core/guard/eligibility.py",
        "limits.max_lost_runs_per_job <= 0:",
        "False:",
    ),
    Mutation(
        "guard: an order has one run of a job",
        "core/tesched_core/guard/eligibility.py",
        "excuse_jobs(dict.fromkeys(asked, _WAS_ASKED))",
        "pass",
    ),
    Mutation(
        "budget: who is asked counts",
        "core/tesched_core/guard/budget.py",
        "if victim.state in HOLDS_RESOURCES or asked:",
        "if asked:",
    ),
    Mutation(
        "budget: an hour is an hour",
        "core/tesched_core/guard/budget.py",
        "if now - one.at < HOUR_S:",
        "if now - one.at < DAY_S:",
    ),
    Mutation(
        "budget: node-seconds are of all nodes",
        "core/tesched_core/guard/budget.py",
        "else len(victim.nodes) * float",
        "else float",
    ),
    Mutation(
        "budget: a run that dies of its notice has saved nothing", _PAID, "saves=not victim.loses_run", "saves=True"
    ),
    Mutation(
        "budget: a run that saves costs its grace period",
        "core/tesched_core/model/payment.py",
        "np.where(saves, 0.0",
        "np.where(False, 0.0",
    ),
    Mutation(
        "budget: one that may lose more than is left is no victim",
        "core/tesched_core/guard/eligibility.py",
        "    if len(dear):\n",
        "    if False:\n",
    ),
    Mutation(
        "budget: its own user's TE jobs may have it all the same",
        "core/tesched_core/placement/eligibility.py",
        "why[list(own)] = -1",
        "pass",
    ),
    Mutation(
        "budget: one without a grace period has saved nothing",
        "core/tesched_core/model/notice.py",
        "and grace_period_s > 0",
        "",
    ),
    Mutation("budget: of one that has left the time is known", _PAID, "if victim.departure is None else 0.0", ""),
    Mutation(
        "budget: who has paid has paid",
        "core/tesched_core/orders/advance.py",
        "context.draft.paid.append(paying(victim, context.now, order.preemptor))",
        "pass",
    ),
    Mutation(
        "order: BLOCKED",
        "core/tesched_core/intake/pending_reason.py",
        'return why[1] if why[0] in _FIRM else ""',
        'return ""',
    ),
    Mutation(
        "order: blocked by what is certain alone",
        "core/tesched_core/intake/pending_reason.py",
        "return why[1] if why[0] in _FIRM else",
        "return why[1] if why else",
    ),
    Mutation(
        "order: NODE_GONE",
        "core/tesched_core/placement/lost_nodes.py",
        "gone = [name for name in order.nodes if name not in capacity.index or",
        "gone = [name for name in order.nodes if False and",
    ),
    Mutation(
        "order: a cool-down after a requeue that Slurm refused",
        "core/tesched_core/orders/requeue.py",
        "context.draft.update(job_id, last_preempted=context.now)",
        "pass",
    ),
    Mutation(
        "order: a preemptor that is held",
        "core/tesched_core/orders/advance.py",
        "elif job.held and not",
        "elif False and not",
    ),
    Mutation(
        "order: a cool-down after a notice in vain",
        "core/tesched_core/orders/advance.py",
        "context.draft.paid.append(paying(victim, context.now, order.preemptor, withdrawn=True))",
        "pass",
    ),
    Mutation(
        "order: a victim left held is released",
        "core/tesched_core/fields/left_held.py",
        "if job is None or not job.held or",
        "if True or job is None or not job.held or",
    ),
    Mutation(
        "order: a hold that the job asked for stays",
        "core/tesched_core/fields/left_held.py",
        '("REQUEUE_HOLD" in job.flags) is not failed',
        "False",
    ),
    Mutation(
        "order: who was left held is then brought forward",
        "core/tesched_core/fields/left_held.py",
        "return victim.job_id in context.changes_of(self.name)",
        "return True",
    ),
    Mutation(
        "order: a run is looked at before it is asked",
        "core/tesched_core/orders/advance.py",
        "if job.completing or job.state is not JobState.RUNNING:",
        "if job.completing:",
    ),
    Mutation(
        "order: a lost requeue is sent again",
        "core/tesched_core/orders/advance.py",
        "if context.now - victim.requeue_sent_at > patience_s:",
        "if False:",
    ),
    Mutation(
        "order: a finished job does not count as preempted",
        "core/tesched_core/orders/advance.py",
        "if departure in PREEMPTED:\n        if victim.is_limited",
        "if True:\n        if victim.is_limited",
    ),
    Mutation(
        "notice: no signal that nothing declared",
        "core/tesched_core/model/notice.py",
        "return bool(signal) and",
        "return",
    ),
    Mutation(
        "notice: a signal goes where it was declared to",
        _CLASSIFY,
        "target=signal.target or Target.STEPS,",
        "target=Target.STEPS,",
    ),
    Mutation(
        "notice: ships as none",
        _CLASS_RULES,
        "default_notice_signal: NoticeSignal = NONE",
        'default_notice_signal: NoticeSignal = "USR1"',
    ),
    Mutation("notice: the comment goes before the script", _CLASSIFY, "if said is not None:", "if False:"),
    Mutation("notice: a declared time is bounded", _CLASSIFY, "min(seconds_s, most_s)", "seconds_s"),
    Mutation(
        "notice: an unread script's job is no victim",
        "core/tesched_core/placement/read_jobs.py",
        "return 8 if traits.unread else 0",
        "return 0",
    ),
    Mutation(
        "notice: KillWait counts where nothing is declared",
        "core/tesched_core/placement/columns_of.py",
        "np.where(bare, kill_wait_s, declared)",
        "np.where(bare, 0.0, declared)",
    ),
    Mutation(
        "notice: options end at the first command",
        "slurm/tesched_slurm/sbatch_options.py",
        "            return\n        yield number, line",
        "            pass\n        yield number, line",
    ),
    Mutation(
        "ending: a victim that died of the notice runs again",
        "core/tesched_core/orders/departures.py",
        "return Departure.ENDED if ends else Departure.DIED_OF_NOTICE",
        "return Departure.DIED",
    ),
    Mutation(
        "ending: a job that failed without a notice does not",
        "core/tesched_core/orders/departures.py",
        "return victim.gets_notice and",
        "return",
    ),
    Mutation(
        "ending: a rerun is asked for again",
        "core/tesched_core/orders/advance.py",
        "context.now - sent_at > RESEND_AFTER_S",
        "False",
    ),
    Mutation(
        "ending: a forgotten one is lost",
        "core/tesched_core/orders/advance.py",
        "            return lost(victim, why=why, order=order, context=context)\n        if owes_rerun",
        "            return victim\n        if owes_rerun",
    ),
    Mutation(
        "ending: dependents are mended",
        "core/tesched_core/orders/advance.py",
        "mend_dependents(victim, job, order, context)",
        "pass",
    ),
    Mutation("guard: what a TE job causes", _PAID, "yield CountedBy.TE_JOB, one.preemptor", "pass"),
    Mutation(
        "queue: what somebody else has set is left",
        "core/tesched_core/fields/nice.py",
        "shown != one.previous and min(one.value, one.previous) <= shown",
        "shown != one.previous or shown",
    ),
    Mutation(
        "queue: what a user sets meanwhile is put back to",
        "core/tesched_core/fields/priority.py",
        "        one = None  # others have",
        "        pass  # others have",
    ),
    Mutation(
        "bound: before the notice",
        "core/tesched_core/fields/of_orders.py",
        "= (NICE_RULE, NODE_BINDING_RULE)",
        "= (NICE_RULE,)",
    ),
    Mutation(
        "bound: set free when the order is over",
        "core/tesched_core/fields/node_binding.py",
        "order is None or _needs_none(job_id, order, context)",
        "order is not None and _needs_none(job_id, order, context)",
    ),
    Mutation(
        "undo: the preemptor's raise",
        "core/tesched_core/fields/nice_rule.py",
        "self._put_back_all(lambda _: False, orders, context, most=None)",
        "self._put_back_all(lambda one: one.by is By.PREEMPTOR, orders, context)",
    ),
    Mutation(
        "undo: the victims' raises",
        "core/tesched_core/fields/nice_rule.py",
        "self._put_back_all(lambda _: False, orders, context, most=None)",
        "self._put_back_all(lambda one: one.by is By.VICTIM, orders, context)",
    ),
    Mutation(
        "undo: who was brought forward",
        "core/tesched_core/fields/nice_rule.py",
        "self._put_back_all(lambda _: False, orders, context, most=None)",
        "self._put_back_all(lambda one: one.by is By.QUEUE, orders, context)",
    ),
    Mutation(
        "undo: who is bound", "core/tesched_core/fields/node_binding.py", "super().restore(orders, context)", "pass"
    ),
    Mutation(
        "bound: not for ever",
        "core/tesched_core/fields/node_binding.py",
        "return context.now - since > most_s",
        "return False",
    ),
    Mutation(
        "undo: the cool-down",
        "core/tesched_core/orders/undo.py",
        "context.draft.update(victim.job_id, last_preempted=context.now)",
        "pass",
    ),
    Mutation(
        "undo: a victim left held",
        "core/tesched_core/orders/undo.py",
        "        return after\n",
        "        pass\n",
    ),
    Mutation(
        "undo: an order ends when all is seen to be back",
        "core/tesched_core/orders/settled.py",
        "if not settled or has_changes(order, context):",
        "if not settled:",
    ),
    Mutation(
        "paused: nothing new",
        "core/tesched_core/step.py",
        "for entry in () if paused else policies:",
        "for entry in policies:",
    ),
    Mutation("loop: no command once the lease may have run out", _LOOP, "if since_s > ACT_WITHIN_S:", "if False:"),
    Mutation("loop: no command once the store is lost", _LOOP, "return self.journal.lost()\n", 'return ""\n'),
    Mutation("loop: asked again before the command", _PERFORMING, "act(action, barred)", "act(action)"),
    Mutation(
        "loop: a running job's class outlives the daemon",
        _LOOP,
        "classified(seen, self.classes, self._last, questions)",
        "classified(seen, self.classes, self._last)",
    ),
    Mutation(
        "loop: the rest of an order waits after a failure", _PERFORMING, "failed.add(action.reason.order_id)", "pass"
    ),
    Mutation("loop: a set clock", _LOOP, "return shift_times(memory, by_s)", "return memory"),
    Mutation("loop: a set clock counts once", _LOOP, "self._perhaps = memory.cycle, clocks", "pass"),
    Mutation(
        "loop: undo is done when nothing is left",
        _LOOP,
        "settled=not left",
        "settled=True",
    ),
    Mutation("doubt: half of the jobs are gone", _DOUBT, "if lost and 2 * lost >= of:", "if False:"),
    Mutation("doubt: no jobs after a start", _DOUBT, "elif not snapshot.jobs and _jobs_of(memory):", "elif False:"),
    Mutation("doubt: no nodes", _DOUBT, "if not snapshot.nodes or not snapshot.partitions:", "if False:"),
    Mutation(
        "doubt: a job of the same id",
        _DOUBT,
        "return job is not None and not job.doubt and not job.completing and job.restarts < times",
        "return False",
    ),
    Mutation(
        "lease: who does not lead writes nothing",
        _JOURNAL,
        "if there is not None and (leader := leader_of(there, self._watch.left_s(there, now), self._ours)):",
        'if False and (leader := ""):',
    ),
    Mutation(
        "lease: nobody writes over what he has not read",
        _JOURNAL,
        "if (there.revision if there else None) != held.revision:",
        "if False:",
    ),
    Mutation("lease: each write renews it", _JOURNAL, "_next_in_s + self._polls.lease_s()", "_next_in_s"),
    Mutation("lease: it lasts for the announced turn, too", _JOURNAL, "max(report.next_in_s, 0.0)", "0.0"),
    Mutation(
        "lease: and so from the end of the actions",
        _JOURNAL,
        "until = now + self._next_in_s",
        "until = now + (self._next_in_s if report is not None else 0.0)",
    ),
    Mutation(
        "lease: the token counts up",
        _JOURNAL,
        "(there.lease_token if there else 0) + 1",
        "(there.lease_token if there else 0) + 0",
    ),
    Mutation("lease: longer after long polls", _LEASE, "max(2.0 * longest_s - LEASE_S, 0.0)", "0.0"),
    Mutation(
        "lease: undo waits for it, too",
        _JOURNAL,
        "if there is not None and (leader :=",
        "if there is not None and not self._takes_over and (leader :=",
    ),
    Mutation(
        "lease: it says that a daemon is late", "db/tesched_db/view_builders.py", "row.stopped_at is None", "False"
    ),
    Mutation(
        "lease: it runs out",
        _LEASE,
        "if holder == ours or left_s <= 0.0 or holder.dead:",
        "if holder == ours or holder.dead:",
    ),
    Mutation(
        "lease: the dead lead nobody",
        _LEASE,
        "if holder == ours or left_s <= 0.0 or holder.dead:",
        "if holder == ours or left_s <= 0.0:",
    ),
    Mutation(
        "lease: given up at a stop", _LEASE, ".values(lease_until=0.0, ", ".values(lease_until=DaemonRow.lease_until, "
    ),
    Mutation("lease: a pid is another process's by now", _PROCESS, "or now == ticks", "or now != -1"),
    Mutation("store: another file in its place", _FILE, "if now != self._identity:", "if False:"),
    Mutation("store: its log is gone", _FILE, "elif log != self._log_identity:", "elif False:"),
    Mutation("store: the log goes with the last connection", _FILE, "if self._connections <= 0:", "if False:"),
    Mutation("store: another user writes nothing", _FILE, "if os.geteuid() not in {0, owner}:", "if False:"),
    Mutation("store: root makes it for the directory's owner", _FILE, "        if theirs:\n", "        if False:\n"),
    Mutation(
        "store: a PostgreSQL whose packets are lost is known to be dead",
        _ENGINE_DB,
        '"tcp_user_timeout": PROBE_S * (PROBES + 1) * 1000,',
        "",
    ),
    Mutation(
        "store: the URL's own bounds hold",
        _ENGINE_DB,
        "for name, value in arguments.items() if name not in url.query}",
        "for name, value in arguments.items()}",
    ),
    Mutation(
        "store: an answer that still comes is awaited",
        "db/tesched_db/answering.py",
        "until = now + answer_s",
        "pass",
    ),
    Mutation("store: a reader makes no file", _ENGINE_DB, "if create:", "if True:"),
    Mutation("status: stopped", _LIVENESS, "if daemon.stopped_at is not None:", "if False:"),
    Mutation("status: undo is no daemon", _LIVENESS, "if daemon.role != DAEMON:", "if False:"),
    Mutation("status: dead", _LIVENESS, "if there is False:", "if False:"),
    Mutation(
        "what a job said at its start stays", "db/tesched_db/job_rows.py", "        return before\n", "        pass\n"
    ),
    Mutation("inbox: a share for each", _INBOX, "if theirs <= mine:", "if True:"),
    Mutation(
        "a job that takes an order's resources has no least run time", _ROBBED, "newcomers=newcomers", "newcomers=()"
    ),
    Mutation(
        "robbed: by the jobs that hold its nodes",
        _ROBBED,
        "return bool((unseen > own)",
        "return True or bool((unseen > own)",
    ),
    Mutation(
        "robbed: its own job's tasks are spread over what was free",
        _ROBBED,
        "order, preemptor=_NOBODY)], snapshot, by_jobs)",
        "order, preemptor=_NOBODY)], snapshot, capacity)",
    ),
    Mutation("robbed: by what nodes hold beside its own job", _ROBBED, "(unseen > own).any() or ", ""),
    Mutation("a job that took the resources and leaves is awaited", _ROBBED, "job.completing and", "False and"),
    Mutation(
        "resources are taken back while the trial is bound",
        _ROBBED,
        "(context.now - _first_asked(order, context.now) <= context.limits.bind_for_s or context.is_awaited(order))",
        "True",
    ),
    Mutation("who is asked besides counts in the cycle", _ROBBED, "asked += len(plan.victims)", "pass"),
    Mutation(
        "exit 0 means saved in the grace period alone",
        "core/tesched_core/orders/departures.py",
        "victim.exit0 is not ExitZero.SLURM or _in_its_grace_period(victim, job, now)",
        "True",
    ),
    *BYSTANDER_MUTATIONS,
    *LEARN_MUTATIONS,
    *LEASE_MUTATIONS,
    *DELAY_MUTATIONS,
    *OUTAGE_MUTATIONS,
    *ADMISSION_MUTATIONS,
    *BOUND_MUTATIONS,
    *EARLY_MUTATIONS,
    *ENDING_MUTATIONS,
    *FUTILITY_MUTATIONS,
    *AT_ONCE_MUTATIONS,
    *BEGIN_MUTATIONS,
    *FILL_MUTATIONS,
    *TURN_MUTATIONS,
    *STORE_MUTATIONS,
    *TRACE_MUTATIONS,
    *FIELD_MUTATIONS,
    *RETURN_MUTATIONS,
    *RECORD_MUTATIONS,
    *RUN_TIME_MUTATIONS,
    *KEPT_MUTATIONS,
    *MARKING_MUTATIONS,
    *OWN_USER_MUTATIONS,
    *RAISE_MUTATIONS,
    *REFUSED_MUTATIONS,
    *METRICS_MUTATIONS,
    *REPORT_MUTATIONS,
    *WEB_MUTATIONS,
    *REST_MUTATIONS,
    *RELEASE_MUTATIONS,
    *REQUEST_MUTATIONS,
    *SERVICE_MUTATIONS,
    *SHARD_MUTATIONS,
    *SHOWN_MUTATIONS,
    *TWIN_MUTATIONS,
    *SPREAD_MUTATIONS,
    *EDGE_MUTATIONS,
    *MEMORY_MUTATIONS,
    *WINDOW_MUTATIONS,
    *WORD_MUTATIONS,
    Mutation("text: letters that are drawn as nothing are escaped", _VISIBLE, " and not _BLANKS.match(character)", ""),
    Mutation("text: what is not printable is escaped", _VISIBLE, "return _escape(character)\n", "return character\n"),
    Mutation("text: marks do not stack", _VISIBLE, '"".join(map(_escape, found[2]))', "found[2]"),
    Mutation("text: no markup on a terminal", _COMMON, "markup=False", "markup=True"),
    Mutation("text: no emoji codes on a terminal", _COMMON, "emoji=False", "emoji=True"),
    Mutation("text: a cell is one line", _COMMON, "super().render_str(visible(text), ", "super().render_str(text, "),
    Mutation("text: a styled text, too", _COMMON, "if visible(text.plain) == text.plain:", "if True:"),
    Mutation("text: a name is bounded in a table", _COMMON, "if bound and isinstance(one, str)", "if False"),
    Mutation(
        "text: what is no node's name is not unfolded", _COMMON, "if not all(map(_NODE.fullmatch, nodes)):", "if False:"
    ),
    Mutation(
        "text: a message is one line of the log", _LOG_LINES, "visible(record.getMessage())", "record.getMessage()"
    ),
    Mutation("text: a traceback's lines are no messages", _LOG_LINES, '.replace("\\n", _CONTINUED)', ""),
    Mutation("text: one field for systemd", _NOTIFY, "{key}={visible(value)}", "{key}={value}"),
    Mutation(
        "pokes: polls for all of them are bounded", "daemon/tesched_daemon/wakeup.py", "self._polls.take(at)", "pass"
    ),
    Mutation(
        "pokes: a look that may not be yet waits",
        "daemon/tesched_daemon/wakeup.py",
        "max(wanted, at + self._polls.wait_s(at))",
        "wanted",
    ),
    Mutation(
        "pokes: a poll is no look for a poke", "daemon/tesched_daemon/wakeup.py", "if at < self._poll_at:", "if True:"
    ),
    Mutation(
        "pokes: a full queue is one",
        "daemon/tesched_daemon/wakeup.py",
        "len(served) >= _FULL and shares.turned_away()",
        "False",
    ),
    Mutation(
        "pokes: above a share none is served", "daemon/tesched_daemon/wakeup.py", "if any(served) or", "if served or"
    ),
    Mutation(
        "pokes: nobody but the hook names a user",
        "daemon/tesched_daemon/wakeup_shares.py",
        "_SUBMITTED.fullmatch(said) if sender in self._hooks else None",
        "_SUBMITTED.fullmatch(said)",
    ),
    Mutation(
        "pokes: each user's own share",
        "daemon/tesched_daemon/wakeup_shares.py",
        '("submission", int(named[1]))',
        '("submission", 0)',
    ),
    Mutation(
        "pokes: shares at rest are forgotten",
        "daemon/tesched_daemon/wakeup_shares.py",
        "if not kept.rested(now)",
        "if True",
    ),
    Mutation("pokes: a bucket is never above its burst", _RATES, "float(self.allowance.burst))", "1e9)"),
    Mutation(
        "a job that makes a turn raise is set aside",
        _SET_ASIDE,
        "found = self.find(seen, raised_with, is_over=lambda: stopwatch() >= until)",
        "found = Found.NO_JOBS",
    ),
    Mutation(
        "an error of no job's is searched for once in a turn",
        _SET_ASIDE,
        " or (found is Found.NOTHING and passed)",
        "",
    ),
    Mutation(
        "the last job is not to blame for what has passed",
        _BISECTION,
        "or (self.bad == len(self.ids) and not self.has_tried_all)",
        "",
    ),
    Mutation(
        "store: a damaged record is no traceback",
        "db/tesched_db/errors.py",
        "except ValueError as error:",
        "except BlockingIOError as error:",
    ),
    Mutation(
        "store: JSON of another shape is no traceback",
        "db/tesched_db/checked.py",
        "msgspec.convert((value,), holds)",
        "pass",
    ),
    Mutation(
        "store: a size of another shape is named", "db/tesched_db/tables.py", "    tres: TresRecord", "    tres: Any"
    ),
    Mutation("store: None is no JSON", "db/tesched_db/declared.py", "JSON(none_as_null=True)", "JSON()"),
    Mutation(
        "store: a word for a number is no traceback", "db/tesched_db/checked.py", "if type(value) in kinds:", "if True:"
    ),
    Mutation(
        "the store's refusal of a value is no outage",
        "db/tesched_db/errors.py",
        "kind = RowError if _is_of_a_value(error) else StoreError",
        "kind = StoreError",
    ),
    Mutation("a rehearsal is taken back", _JOURNAL, "raise _TakenBackError", "return"),
    Mutation("a job that could not be read is no other one", _DOUBT, "not job.doubt and ", ""),
    Mutation("a job stays set aside", _SET_ASIDE, "self._jobs[job.job_id] = job.user, why", "return"),
    Mutation("the first job that raises is found", _SET_ASIDE, "ids[search.bad - 1]", "ids[search.good - 1]"),
    Mutation(
        "one user's jobs are set aside together after a few",
        _SET_ASIDE,
        ">= MOST_OF_A_USER:",
        ">= 10**9:",
    ),
    Mutation("a job's own text says nothing of what it holds", _DETAILS, '_END = b" Features="', '_END = b" Network="'),
    Mutation("a record is believed by its mark", _DETAILS, "marked[1] != as_printed(row.submit_time) + mark", "False"),
    Mutation(
        "a record that has grown is read again",
        _DETAILS,
        "if not is_whole or _content(",
        "if _content(",
    ),
    Mutation("a known record still is what squeue says", _DETAILS, "hash(_COMPARED(row)) != known.compared", "False"),
    Mutation(
        "a record stands for its own mark alone",
        _DETAILS,
        "bytes(answer[start:end]).replace(mark, self.mark)",
        "bytes(answer[start:end])",
    ),
    Mutation("a hidden task is one by its mark", _DETAILS, "marked[1].endswith(self._mark)", "True"),
    Mutation("hidden tasks: so many in a poll", _HIDDEN, "self._last_user), MOST_TASKS)", "self._last_user), 10**9)"),
    Mutation("hidden tasks: users are served in turn", _HIDDEN, "setdefault(task.user, [])", 'setdefault("", [])'),
    Mutation("hidden tasks: a row holds for its record alone", _HIDDEN, " or known[job_id].record != task.record", ""),
    Mutation("hidden tasks: a late one is in doubt", _QUEUE, "self._doubted(row, LATE)", "read_job(row, None)"),
    Mutation(
        "cores as CPUs: of so many nodes", _SCONTROL, "return threads if 0 < cpus <= cores and", "return threads if"
    ),
    Mutation("cores as CPUs: CPUs of cores", _CORES, "-(-share.tres.cpus // ids)", "share.tres.cpus"),
    Mutation("cores as CPUs: but those of Slurm's count", _CORES, "1) if share.cpu_ids else 1", "1)"),
    Mutation(
        "cores as CPUs: a core at a time",
        "core/tesched_core/model/cluster.py",
        "max(self.threads_per_core // self.ids_of_a_cpu, 1)",
        "max(self.threads_per_core, 1)",
    ),
    Mutation(
        "cores as CPUs: also of a node that was not read",
        _CORES,
        "return node is None or bool(node.doubt)",
        "return False",
    ),
    Mutation(
        "cores as CPUs: by all CPUs",
        "slurm/tesched_slurm/pyslurm_jobs.py",
        "ids_of_a_cpu(record.total_cpus,",
        "ids_of_a_cpu(record.effective_cpus,",
    ),
    Mutation("cores as CPUs: the same job", _CORES, "if self._read.get(job.job_id) is job else", "if False else"),
    Mutation(
        "cores as CPUs: anew after a change", _CORES, "if ids != self._ids_of_a_cpu:", "if not self._ids_of_a_cpu:"
    ),
    Mutation("a node goes through its door", _SCONTROL, "return node_within_bounds(node, nodes)", "return node"),
    Mutation(
        "a partition goes through its door", _SCONTROL, "return partition_within_bounds(", "return (lambda one: one)("
    ),
    Mutation(
        "one unreadable node or partition is its own",
        _BOUNDS,
        "except UNREADABLE as error:",
        "except OSError as error:",
    ),
    Mutation("a node with two records is in doubt", _BOUNDS, "if name in by_name else", "if False else"),
    Mutation(
        "an Operator's text is no word of Slurm's", _SCONTROL, "pairs.setdefault(name, value)", "pairs[name] = value"
    ),
    Mutation("of two records neither is believed", _DETAILS, "self._doubtful.add(row.job_id)", "pass"),
    Mutation("scripts: users are served in turn", _TURNS, "*users[first:], *users[:first]", "*users,"),
    Mutation("scripts: an array's is read once", _DECLARED, "by_script[name] = found", "pass"),
    Mutation(
        "command line: one that slurmdbd does not have yet is awaited",
        _LINE,
        "return line if line or state == _STORED else NoLine.EXPECTED",
        "return line",
    ),
    Mutation(
        "command line: one that does not come is given up",
        _LINE,
        "return self.pause_s > LATE_PAUSE_MAX_S",
        "return False",
    ),
    Mutation(
        "command line: its job is no victim while it is expected",
        _LINE,
        "return NoLine.EXPECTED if now < awaited.since_s + EXPECTED_S else NoLine.LATE",
        "return NoLine.LATE",
    ),
    Mutation(
        "command line: one that is awaited holds up no other",
        _DECLARED,
        "jobs.sort(key=lambda job: self._lines.again_at_s(_script(job)))",
        "pass",
    ),
    Mutation(
        "scripts: one user's are not read first",
        _TURNS,
        "for each in zip_longest(",
        "for each in (lambda *all_: all_)(",
    ),
)
