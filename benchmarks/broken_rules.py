"""The rules that `python -m benchmarks.mutations` breaks, one after the other: where each is, and how it is broken."""

from __future__ import annotations

from benchmarks.broken_futility_rules import FUTILITY_MUTATIONS
from benchmarks.mutation import Mutation

_SLURM, _PASS, _ENGINE = (f"sim/tesched_sim/{name}.py" for name in ("slurm", "scheduling", "engine"))
_GUARD, _PLAN, _TRIAL, _STEP = (f"core/tesched_core/{name}.py" for name in ("guard", "planning", "trial", "step"))
_ADVANCE, _QUEUE, _WAITING = (f"core/tesched_core/{name}.py" for name in ("advance", "queue_order", "waiting"))
_FITGPP, _PATIENT = "policies/tesched_policies/fitgpp.py", "policies/tesched_policies/patient.py"
_FILL, _FORWARD, _BUDGET, _UNDO, _BIND = (
    f"core/tesched_core/{name}.py" for name in ("fill", "forwarding", "budget", "undo", "binding")
)
_CLASSIFY, _OVERVIEW = "core/tesched_core/intake/classify.py", "core/tesched_core/model/columns.py"
_DECLARED = "slurm/tesched_slurm/declared_signal.py"
_ROBBED = "core/tesched_core/orders/reinforce.py"
_SHADOW = "core/tesched_core/placement/shadow_time.py"
_LOOP, _DOUBT = "daemon/tesched_daemon/loop.py", "daemon/tesched_daemon/plausibility.py"
_VISIBLE, _COMMON = "core/tesched_core/model/visible.py", "cli/tesched_cli/common.py"
_LOG_LINES, _NOTIFY = "daemon/tesched_daemon/log_lines.py", "daemon/tesched_daemon/sdnotify.py"
_POKE, _SHARES, _RATES = (f"daemon/tesched_daemon/{name}.py" for name in ("poke", "poke_shares", "rates"))
_JOURNAL, _LEASE = "db/tesched_db/journal.py", "db/tesched_db/lease.py"
_FILE, _ENGINE_DB, _PROCESS, _LIVENESS, _SEEN = (
    f"db/tesched_db/{name}.py" for name in ("store_file", "engine", "process", "liveness", "seen")
)
_INBOX = "daemon/tesched_daemon/job_reports/inbox.py"

MUTATIONS = (
    Mutation("a requeue counts", _SLURM, "self.restarts[row] += 1", "pass"),
    Mutation("work of earlier runs is kept", _SLURM, "worked_s = before_s + max(until", "worked_s = max(until"),
    Mutation("a checkpoint is kept", _SLURM, "self.saved_s[row] = kept_s", "self.saved_s[row] = 0.0"),
    Mutation("back at the head of the queue", _SLURM, "if to is RequeuedTo.HEAD:", "if False:"),
    Mutation("KillWait", _SLURM, "wait_s = grace_s + self.behaviour.kill_wait_s", "wait_s = grace_s"),
    Mutation(
        "room is kept",
        _PASS,
        "return self.slurm.free - self.kept if self.reserved else self.slurm.free",
        "return self.slurm.free",
    ),
    Mutation("backfill does not delay the first", _PASS, "> shadow.at\n", "> shadow.at + 1e9\n"),
    Mutation("spare room is spare once", _PASS, "shadow.take(nodes, demand)", "pass"),
    Mutation("who ends by then makes room", _SHADOW, "then[place] += frees", "then[place] += 0 * frees"),
    Mutation("the queue waits for its pass", _PASS, "if now == self._next_pass:", "if True:"),
    Mutation("whom an order serves is not served twice", _ENGINE, "served.add(preemptor)", "pass"),
    Mutation("deadlines are kept", _ENGINE, "slurm.push(slurm.now + victim.grace_period_s, Event.WAKE, 0)", "pass"),
    Mutation("the load is held", _ENGINE, "self._load < self.hold_load", "self._load <= self.hold_load"),
    Mutation("P", _GUARD, "if count >= limits.max_preemptions_per_job", "if count > limits.max_preemptions_per_job"),
    Mutation("least run time", _GUARD, "now - running.started < seconds", "now - running.started <= seconds"),
    Mutation("cool-down", _GUARD, "if now - at < seconds", "if now - at < 0"),
    Mutation("nobody pays in vain", _PLAN, "if without is None:", "if True:"),
    Mutation("a victim is taken once", _PLAN, "pool[list(found.victims)] = False", "pass"),
    Mutation("the cheapest on a node", _TRIAL, "self.score[jobs]))[::-1]", "self.score[jobs]))"),
    Mutation("grace periods are weighed against the longest", _FITGPP, "running.grace_s / longest", "running.grace_s"),
    Mutation("sizes are weighed against the largest", _FITGPP, "running.size / largest", "running.size"),
    Mutation(
        "a preemption is remembered",
        _ADVANCE,
        "            work.last_preempted[victim.job_id] = work.now\n        before",
        "        before",
    ),
    Mutation("who leaves after all has paid", _ADVANCE, "return victim if may_leave else", "return"),
    Mutation(
        "room that is promised is taken",
        "core/tesched_core/placement/reserved.py",
        "        room = _changed(room, list(_coming(order, snapshot, room)))\n    return room",
        "        pass\n    return room",
    ),
    Mutation("ahead of all others", _QUEUE, "return 1 + max(paying,", "return max(paying,"),
    Mutation("patience", _PATIENT, "return since + self.patience_s", "return since + 2 * self.patience_s"),
    Mutation(
        "fill: who outlasts the shadow leaves the first its room",
        _FILL,
        "among &= shadow.spared(len(free), demand)",
        "pass",
    ),
    Mutation(
        "fill: who ends before the shadow delays nobody",
        _FILL,
        "if not view.now + waiting.run_s[row] <= shadow.at]",
        "]",
    ),
    Mutation(
        "fill: the highest response ratio is next",
        _FILL,
        'np.argsort(-ratio, kind="stable")',
        'np.argsort(ratio, kind="stable")',
    ),
    Mutation("fill: what a shadow spares is spared once", _FILL, "shadow.take(nodes, demand)", "pass"),
    Mutation(
        "fill: trials that wait for such room are not delayed",
        _FILL,
        "[_shadow(view, first, free), *_shadows_ahead(view, free)]",
        "[_shadow(view, first, free)]",
    ),
    Mutation("fill: who was helped has his room", _FILL, "helped = job_id in view.forwarded", "helped = False"),
    Mutation(
        "fill: the room of one is not another's",
        _FILL,
        "            free[list(nodes)] -= waiting.demand[row]\n            forward",
        "            forward",
    ),
    Mutation(
        "forwarded: put back when he has not started in time",
        _FORWARD,
        "if job.pending and (stays or work.now - one.at <= lasts_s):",
        "if job.pending:",
    ),
    Mutation(
        "forwarded: believed to be back when that is seen",
        _FORWARD,
        "            kept[job_id] = one\n            reason = ",
        "            reason = ",
    ),
    Mutation(
        "forwarded: what somebody else has set is left",
        _FORWARD,
        "one.raised.value <= job.nice < one.raised.previous",
        "job.nice < one.raised.previous",
    ),
    Mutation("forwarded: who certainly was not is forgotten", _FORWARD, "del forwarded[action.job_id]", "pass"),
    Mutation(
        "forwarded: what may have arrived is remembered",
        _FORWARD,
        "if kind not in {FailureKind.UNREACHABLE, FailureKind.UNKNOWN}:",
        "if True:",
    ),
    Mutation(
        "guard: an hour",
        _GUARD,
        "if tally.count >= limits.max_preemptions_per_hour",
        "if tally.count > limits.max_preemptions_per_hour",
    ),
    Mutation(
        "guard: a user's hour",
        _GUARD,
        "tally.by_user[owner.user] >= limits.max",
        "tally.by_user[owner.user] > limits.max",
    ),
    Mutation(
        "guard: an account's hour",
        _GUARD,
        "tally.by_account[owner.account] >= limits.max",
        "tally.by_account[owner.account] > limits.max",
    ),
    Mutation(
        "guard: a node's hour",
        _GUARD,
        "if count >= limits.max_preemptions_per_node_hour",
        "if count > limits.max_preemptions_per_node_hour",
    ),
    Mutation("guard: the day's budget", _GUARD, "if hours >= limits.max_lost_node_hours_per_day:", "if False:"),
    Mutation(
        "guard: one plan does not pass an hour's limit",
        _GUARD,
        "if count > getattr(limits, setting):",
        "if count > 1 + getattr(limits, setting):",
    ),
    Mutation(
        "guard: one plan does not pass the day's budget",
        _GUARD,
        "if hours > limits.max_lost_node_hours_per_day:",
        "if False:",
    ),
    Mutation(
        "guard: plans of one cycle count together",
        _GUARD,
        "                tally.add(one, now)\n            continue",
        "                pass\n            continue",
    ),
    Mutation("guard: victims of one cycle", _GUARD, "victims += len(plan.victims)", "pass"),
    Mutation(
        "guard: orders under way",
        _GUARD,
        "elif plan.victims and victims + len(plan.victims) > limits",
        "elif plan.victims and victims + len(plan.victims) > 1 + limits",
    ),
    Mutation(
        "guard: open orders",
        _GUARD,
        "if under_way + len(kept) >= limits.max_open_orders:",
        "if under_way + len(kept) > limits.max_open_orders:",
    ),
    Mutation(
        "guard: slowdown",
        _GUARD,
        "slowdowns(running, memory) > limits.max_slowdown",
        "slowdowns(running, memory) > 2 * limits.max_slowdown",
    ),
    Mutation(
        "guard: slowdown is over all runs",
        _GUARD,
        "queued[row], ran_s[row], suspended_s[row] = past.submitted_at, past.ran_s, past.suspended_s",
        "pass",
    ),
    Mutation(
        "guard: protected names",
        _GUARD,
        "if any(fnmatchcase(name, glob) for glob in limits.protected_names):",
        "if False:",
    ),
    Mutation("guard: protected users", _GUARD, '"protected_users", (owner.user,)', '"protected_users", ()'),
    Mutation(
        "guard: who yields already is not asked again", _GUARD, "excuse_jobs(dict.fromkeys(leaving, _LEAVING))", "pass"
    ),
    Mutation("budget: who is asked counts", _BUDGET, "if victim.state in HOLDS_ROOM or asked:", "if asked:"),
    Mutation("budget: an hour is an hour", _BUDGET, "if now - one.at < HOUR_S:", "if now - one.at < DAY_S:"),
    Mutation("budget: node-seconds are of all nodes", _BUDGET, "else len(victim.nodes) * max", "else max"),
    Mutation(
        "budget: who has paid has paid",
        _ADVANCE,
        "work.paid.append(paying(victim, work.now, order.preemptor))",
        "pass",
    ),
    Mutation("order: BLOCKED", _WAITING, 'return why[1] if why[0] in _FIRM else ""', 'return ""'),
    Mutation(
        "order: blocked by what is certain alone",
        _WAITING,
        "return why[1] if why[0] in _FIRM else",
        "return why[1] if why else",
    ),
    Mutation(
        "order: NODE_GONE",
        _ADVANCE,
        "gone = [name for name in order.nodes if name not in room.index or",
        "gone = [name for name in order.nodes if False and",
    ),
    Mutation(
        "order: a cool-down after a requeue that Slurm refused",
        _STEP,
        "work.last_preempted[action.job_id] = work.now",
        "pass",
    ),
    Mutation("order: a preemptor that is held", _ADVANCE, "elif job.held:", "elif False:"),
    Mutation(
        "order: a cool-down after a notice in vain",
        _ADVANCE,
        "work.last_preempted[victim.job_id] = work.now  # it has saved",
        "pass  # it has saved",
    ),
    Mutation(
        "order: a victim left held is released",
        _QUEUE,
        "return Raise(lever=Lever.HOLD, previous=0, value=1)",
        "return None",
    ),
    Mutation(
        "order: a hold that the job asked for stays", _QUEUE, ' or job.flags & {"SPECIAL_EXIT", "REQUEUE_HOLD"}:', ":"
    ),
    Mutation(
        "order: who was left held is then brought forward",
        _ADVANCE,
        "return replace(victim, raised=None) if victim.raised and victim.raised.restored else victim",
        "return victim",
    ),
    Mutation(
        "order: a run is looked at before it is asked",
        _ADVANCE,
        "if job.completing or job.state is not JobState.RUNNING:",
        "if job.completing:",
    ),
    Mutation(
        "order: a lost requeue is sent again",
        _ADVANCE,
        "if work.now - victim.requeue_sent_at > patience_s:",
        "if False:",
    ),
    Mutation(
        "order: a finished job does not count as preempted",
        _ADVANCE,
        "if departure in PREEMPTED:\n        if victim.purpose",
        "if True:\n        if victim.purpose",
    ),
    Mutation(
        "notice: no signal that nothing declared",
        _ADVANCE,
        "if not victim.notice_signal or victim.grace_period_s <= 0:",
        "if victim.grace_period_s < 0:",
    ),
    Mutation(
        "notice: a signal goes where it was declared to",
        _CLASSIFY,
        "target=signal.target or Target.STEPS,",
        "target=Target.STEPS,",
    ),
    Mutation(
        "notice: ships as none", _CLASSIFY, "default_notice_signal: str = NONE", 'default_notice_signal: str = "USR1"'
    ),
    Mutation("notice: the comment goes before the script", _CLASSIFY, "if said is not None:", "if False:"),
    Mutation("notice: a declared time is bounded", _CLASSIFY, "min(seconds_s, most_s)", "seconds_s"),
    Mutation("notice: an unread script's job is no victim", _OVERVIEW, "return 8 if traits.unread else 0", "return 0"),
    Mutation(
        "notice: KillWait counts where nothing is declared",
        _OVERVIEW,
        "return expected_leave_s(snapshot.leave_times, (job.user, job.name), float(snapshot.settings.kill_wait_s))",
        "return traits.grace_period_s",
    ),
    Mutation(
        "notice: options end at the first command",
        _DECLARED,
        "return  # the first command: sbatch looks no further",
        "pass",
    ),
    Mutation(
        "ending: a victim that died of the notice runs again",
        _ADVANCE,
        "return Departure.DIED_OF_NOTICE if had_its_notice and job.state is JobState.FAILED else Departure.DIED",
        "return Departure.DIED",
    ),
    Mutation(
        "ending: a job that failed without a notice does not",
        _ADVANCE,
        "had_its_notice = bool(victim.notice_signal) and",
        "had_its_notice =",
    ),
    Mutation("ending: a rerun is asked for again", _ADVANCE, "work.now - sent_at > RESEND_AFTER_S", "False"),
    Mutation(
        "ending: a forgotten one is lost",
        _ADVANCE,
        'return lost(victim, "Slurm has forgotten it before it was back in the queue", order, work)',
        "return victim",
    ),
    Mutation("ending: dependents are mended", _ADVANCE, "mend_dependents(victim, job, order, work)", "pass"),
    Mutation("guard: what a TE job causes", _GUARD, "        if count > most:", "        if False:"),
    Mutation(
        "queue: what somebody else has set is left",
        _QUEUE,
        "return raised.value <= job.nice < raised.previous",
        "return job.nice != raised.previous",
    ),
    Mutation(
        "queue: what a user sets meanwhile is put back to",
        _QUEUE,
        "        raised = None  # somebody else",
        "        pass  # somebody else",
    ),
    Mutation(
        "bound: before the notice",
        _BIND,
        "work.actions.append("
        "SetNodes(job_id=job.job_id, reason=reason, nodes=nodes, previous=one.previous, count=count))",
        "pass",
    ),
    Mutation(
        "bound: set free when the order is over",
        _BIND,
        "all_of_them or one.order_id not in holding or",
        "all_of_them or",
    ),
    Mutation("undo: the preemptor's raise", _UNDO, "order = put_back(order, work)", "pass"),
    Mutation(
        "undo: the victims' raises",
        _UNDO,
        "(let_back(_let_go(victim, order, work), order, work) for",
        "(_let_go(victim, order, work) for",
    ),
    Mutation(
        "undo: who was brought forward", _UNDO, "bring_back(memory, work, lasts_s=-1)", "bring_back(memory, work)"
    ),
    Mutation(
        "undo: who is bound",
        _UNDO,
        "set_free(bring_back(memory, work, lasts_s=-1), work, all_of_them=True)",
        "bring_back(memory, work, lasts_s=-1)",
    ),
    Mutation("bound: not for ever", _BIND, "or work.now - since > work.limits.bind_for_s", ""),
    Mutation("undo: the cool-down", _UNDO, "work.last_preempted[victim.job_id] = work.now", "pass"),
    Mutation("undo: a victim left held", _UNDO, "return leave(victim, departure, order, work)", "pass"),
    Mutation(
        "undo: an order ends when all is seen to be back",
        _UNDO,
        "if not suspended and all(raised is None or raised.restored for raised in raises):",
        "if True:",
    ),
    Mutation("paused: nothing new", _STEP, "if waiting and paused:", "if False:"),
    Mutation("loop: no command once the lease may have run out", _LOOP, "if since_s > ACT_WITHIN_S:", "if False:"),
    Mutation("loop: no command once the store is lost", _LOOP, "return self.journal.lost()\n", 'return ""\n'),
    Mutation("loop: asked again before the command", _LOOP, "act(action, self._barred)", "act(action)"),
    Mutation(
        "loop: a running job's class outlives the daemon",
        _LOOP,
        "classified(seen, self.classes, self._last, questions)",
        "classified(seen, self.classes, self._last)",
    ),
    Mutation("loop: the rest of an order waits after a failure", _LOOP, "failed.add(action.reason.order_id)", "pass"),
    Mutation("loop: a set clock", _LOOP, "return shifted(memory, jumped_s)", "return memory"),
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
        "return job is not None and not job.completing and job.restarts < times",
        "return False",
    ),
    Mutation(
        "lease: who does not lead writes nothing",
        _JOURNAL,
        "            if leader:\n                raise LeaseError",
        "            if False:\n                raise LeaseError",
    ),
    Mutation(
        "lease: nobody writes over what he has not read",
        _JOURNAL,
        "if (there.revision if there else None) != held.revision:",
        "if False:",
    ),
    Mutation("lease: each write renews it", _JOURNAL, "until = now + lasts_s if", "until = now if"),
    Mutation(
        "lease: it lasts for the announced turn, too",
        _JOURNAL,
        'lasts_s = LEASE_S + max(values.get("next_at", 0.0) - values.get("reported_at", 0.0), 0.0)',
        "lasts_s = LEASE_S",
    ),
    Mutation(
        "lease: the token counts up",
        _JOURNAL,
        "(there.lease_token if there else 0) + 1",
        "(there.lease_token if there else 0) + 0",
    ),
    Mutation(
        "lease: it runs out",
        _LEASE,
        "if holder == ours or row.lease_until <= now or holder.dead:",
        "if holder == ours or holder.dead:",
    ),
    Mutation(
        "lease: the dead lead nobody",
        _LEASE,
        "if holder == ours or row.lease_until <= now or holder.dead:",
        "if holder == ours or row.lease_until <= now:",
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
    Mutation("store: a reader makes no file", _ENGINE_DB, "if create:", "if True:"),
    Mutation("status: stopped", _LIVENESS, "if daemon.stopped_at is not None:", "if False:"),
    Mutation("status: undo is no daemon", _LIVENESS, "if daemon.role != DAEMON:", "if False:"),
    Mutation("status: dead", _LIVENESS, "if there is False:", "if False:"),
    Mutation("what a job said at its start stays", _SEEN, "        return before\n", "        pass\n"),
    Mutation("inbox: a share for each", _INBOX, "if theirs <= mine:", "if True:"),
    Mutation("who takes an order's room has no least run time", _ROBBED, "newcomers=newcomers", "newcomers=()"),
    Mutation("who took the room and leaves is awaited", _ROBBED, "job.completing and", "False and"),
    Mutation(
        "room is fought for while the trial is bound",
        _ROBBED,
        "work.now - _first_asked(order, work.now) <= work.limits.bind_for_s",
        "True",
    ),
    Mutation("who is asked besides counts in the cycle", _ROBBED, "asked += len(plan.victims)", "pass"),
    Mutation(
        "exit 0 means saved in the grace period alone",
        _ADVANCE,
        "victim.exit0 is not ExitZero.SLURM or _in_its_grace_period(victim, job, now)",
        "True",
    ),
    *FUTILITY_MUTATIONS,
    Mutation("text: letters that are drawn as nothing are escaped", _VISIBLE, " and not _BLANKS.match(character)", ""),
    Mutation("text: what is not printable is escaped", _VISIBLE, "return _escape(character)\n", "return character\n"),
    Mutation("text: marks do not stack", _VISIBLE, '"".join(map(_escape, found[2]))', "found[2]"),
    Mutation("text: no tags on a page", _VISIBLE, "html.escape(visible(text))", "visible(text)"),
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
    Mutation("pokes: looks for all of them are bounded", _POKE, "self._looks.take(at)", "pass"),
    Mutation("pokes: a look that may not be yet waits", _POKE, "max(wanted, at + self._looks.wait_s(at))", "wanted"),
    Mutation("pokes: a poll is no look for a poke", _POKE, "if at < self._poll_at:", "if True:"),
    Mutation("pokes: a full queue is one", _POKE, "len(served) >= _FULL and shares.turned_away()", "False"),
    Mutation("pokes: above a share none is served", _POKE, "if any(served) or", "if served or"),
    Mutation(
        "pokes: nobody but the hook names a user",
        _SHARES,
        "_SUBMITTED.fullmatch(said) if sender in self._hooks else None",
        "_SUBMITTED.fullmatch(said)",
    ),
    Mutation("pokes: each user's own share", _SHARES, '("submission", int(named[1]))', '("submission", 0)'),
    Mutation("pokes: shares at rest are forgotten", _SHARES, "if not kept.rested(now)", "if True"),
    Mutation("pokes: a bucket is never above its burst", _RATES, "float(self.allowance.burst))", "1e9)"),
    Mutation("glances at new jobs are bounded", _LOOP, "if not self._glances.take(self.stopwatch()):", "if False:"),
)
