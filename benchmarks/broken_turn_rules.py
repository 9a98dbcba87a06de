"""The rules of turns of jobs that are back in the queue, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_OVERTAKEN = "core/tesched_core/orders/overtaken.py"
_ADVANCE = "core/tesched_core/orders/advance.py"
_JOBS, _PUT_OFF = "policies/tesched_policies/gavel/jobs.py", "policies/tesched_policies/put_off.py"
_PDORS, _PDORS_TURN = "policies/tesched_policies/pdors/jobs.py", "policies/tesched_policies/pdors/turn.py"
_LOOK = "core/tesched_core/orders/first_look.py"
_TURN = "policies/tesched_policies/gavel/turn.py"
_STEP = "core/tesched_core/step.py"
_TE_FIRST = "core/tesched_core/orders/te_first.py"
_BASIS, _STATE = (f"policies/tesched_policies/gavel/{name}.py" for name in ("basis", "state"))

TURN_MUTATIONS = (
    Mutation(
        "basis: another one divides time anew", _TURN, "changed or is_another(", "changed or False and is_another("
    ),
    Mutation(
        "basis: what holds for all jobs", _BASIS, "if state.rests_on != _digest(parameters, view, kinds):", "if False:"
    ),
    Mutation("basis: the allocator", _BASIS, "        parameters.allocator,\n", ""),
    Mutation("basis: speeds in pairs", _BASIS, "if parameters.shares else {}", "if False else {}"),
    Mutation("basis: prices", _BASIS, "        parameters.prices_of(kinds.names),\n", ""),
    Mutation("basis: weights of entities", _BASIS, "        sorted(standing.entity_weights.items()),\n", ""),
    Mutation("basis: how a job counts", _BASIS, "if known.counts != counts or", "if"),
    Mutation("basis: a speed that is as good as the same", _BASIS, "> ALIKE * max(one, other)", "> 0"),
    Mutation("basis: another speed", _BASIS, "> ALIKE * max(one, other)", "> max(one, other)"),
    Mutation("basis: a shorter round", _STATE, "min(self.ends_at, self.began_at + round_s)", "self.ends_at"),
    Mutation(
        "basis: a shorter epoch",
        "policies/tesched_policies/slaq/state.py",
        "min(self.next_at, self.allocated_at + epoch_s)",
        "self.next_at",
    ),
    Mutation(
        "slaq: no share above the limit that its user has just set",
        "policies/tesched_policies/slaq/policy.py",
        "min(share, own) if own else share",
        "share",
    ),
    Mutation(
        "turn: a hold of tesched's own ends no move", _ADVANCE, "order.victims and is_held_by_us(job", "False and (job"
    ),
    Mutation("turn: others on its nodes", _ADVANCE, "elif why := overtaken(order, job, context):", 'elif why := "":'),
    Mutation("turn: others on what it lacks", _OVERTAKEN, "freed_by(job, share, capacity)[lacks[row]] > 0", "1 > 0"),
    Mutation(
        "turn: its own start there",
        _OVERTAKEN,
        "capacity_after_orders(before, context.snapshot, context.capacity_by_jobs)",
        "capacity_after_orders(before, context.snapshot, context.columns.capacity)",
    ),
    Mutation(
        "turn: by the jobs' own columns",
        _OVERTAKEN,
        "demand_there(order, job, snapshot, capacity) if",
        "demand_there(order, job, snapshot, context.columns.capacity) if",
    ),
    Mutation("turn: kept for another user", _OVERTAKEN, "(apart or keeps(one))", "apart"),
    Mutation("turn: not by its own user's", _OVERTAKEN, "(one.user != job.user and (", "(True and ("),
    Mutation("turn: to be its own user's alone", _OVERTAKEN, "(apart or keeps(one))", "keeps(one)"),
    Mutation("turn: where it is not known", _OVERTAKEN, "        return there\n", "        return []\n"),
    Mutation("turn: clocks that differ", _OVERTAKEN, "_CLOCKS_DIFFER_S = 2.0", "_CLOCKS_DIFFER_S = 1.0"),
    Mutation(
        "turn: others have left for it",
        "core/tesched_core/orders/futility.py",
        "any(was_asked(victim) for victim in others)",
        "False",
    ),
    Mutation(
        "turn: it alone has left",
        "core/tesched_core/orders/futility.py",
        "if victim.job_id != order.preemptor)\n    return order.ending is Ending.OVERTAKEN",
        ")\n    return order.ending is Ending.OVERTAKEN",
    ),
    Mutation(
        "turn: at a limit it is tried later",
        "core/tesched_core/orders/futility.py",
        " or _is_blocked_turn(order, context):",
        ":",
    ),
    Mutation(
        "turn: pdors plans none that is left alone", _PDORS, "seen.pending and not left_alone and", "seen.pending and"
    ),
    Mutation("turn: nor keeps it nodes", _PDORS_TURN, "or plan.started or member.left_alone:", "or plan.started:"),
    Mutation(
        "turn: no victim before Slurm's word",
        _ADVANCE,
        "if is_early(victim, job, order, context) or awaits_look(order, context):",
        "if is_early(victim, job, order, context):",
    ),
    Mutation("turn: Slurm's word has its time", _ADVANCE, "return with_time_to_leave(order, context)", "return order"),
    Mutation("turn: nor after a notice", _LOOK, "or any(map(was_asked, order.victims)):", ":"),
    Mutation(
        "turn: of one with shards none is awaited",
        _LOOK,
        "if _wants_shards(job) and any(",
        "if False and any(",
    ),
    Mutation(
        "turn: nor without limits", _LOOK, "return is_unclear or not waits_for_resources_alone(", "return True or ("
    ),
    Mutation(
        "turn: another reason is a word",
        _LOOK,
        'is_unclear = has_reason(job.reason) and job.reason != "Priority"',
        "is_unclear = False",
    ),
    Mutation(
        "turn: the word comes in time",
        _LOOK,
        "return context.now > order.created_at + max(LOOK_WITHIN_S, _POLLS * context.longest_wait_s)",
        "return False",
    ),
    Mutation(
        "turn: what was said at its submission",
        "core/tesched_core/fields/priority.py",
        "if (order.waits or (in_round and order.victims)) and",
        "if order.waits and",
    ),
    Mutation("turn: long polls leave time for the word", _LOOK, "_POLLS = 3", "_POLLS = 0"),
    Mutation(
        "turn: beside a victim without shards it cannot start",
        _LOOK,
        " and any(_wants_shards(context.snapshot.jobs.get(one.job_id)) for one in order.victims):",
        ":",
    ),
    Mutation(
        "turn: what was free is taken before a notice",
        _OVERTAKEN,
        "or (leaving and any(map(was_asked, order.victims))):",
        "or leaving:",
    ),
    Mutation(
        "turn: of two that lack one place the first keeps it",
        _OVERTAKEN,
        "if one.order_id < order.order_id or any(map(was_asked, one.victims))",
        "if False",
    ),
    Mutation(
        "turn: its own job is not there yet",
        _OVERTAKEN,
        "if one.order_id < order.order_id or any(map(was_asked, one.victims))",
        "if True",
    ),
    Mutation("turn: a victim that ends by itself", _OVERTAKEN, "if job_id not in leave]", "]"),
    Mutation(
        "turn: nodes are down, and a licence is lacking",
        "core/tesched_core/intake/pending_reason.py",
        'return bool(job.licenses) and job.reason != "Resources"',
        "return False",
    ),
    Mutation(
        "turn: licences are another matter where Slurm says Resources",
        "core/tesched_core/intake/pending_reason.py",
        'return bool(job.licenses) and job.reason != "Resources"',
        "return bool(job.licenses)",
    ),
    Mutation(
        "turn: a raise that is not sent before a TE job has its victims",
        _TE_FIRST,
        "if not (isinstance(one, SetField) and _is_for(one, turn))",
        "if True",
    ),
    Mutation(
        "pdors: a plan without victims that is overtaken",
        "policies/tesched_policies/pdors/give_up.py",
        "if ending is Ending.OVERTAKEN and order.victims and",
        "if ending is Ending.OVERTAKEN and",
    ),
    Mutation(
        "turn: a TE job with licences is served while a node is away",
        "core/tesched_core/intake/pending_reason.py",
        'return job.reason in WAITS_FOR_RESOURCES and job.reason != "Priority"',
        'return job.reason in WAITS_FOR_RESOURCES and job.reason != "Priority" and not may_lack_a_licence(job)',
    ),
    Mutation(
        "turn: a TE job is planned as if it were none", _TE_FIRST, "if not _waits(one, context)}", "if one is not None}"
    ),
    Mutation("turn: a TE job has its victims", _TE_FIRST, "if any(victim.job_id in chosen", "if any(False"),
    Mutation("turn: a TE job has its place", _TE_FIRST, "and _is_short(turn, memory, context)", "and False"),
    Mutation("turn: a TE job leaves it enough", _TE_FIRST, "and _is_short(turn, memory, context)", "and True"),
    Mutation(
        "turn: pdors: what it has done while it was left alone",
        _PDORS_TURN,
        "            rest = self._left(member, plan)  #",
        "            pass  #",
    ),
    Mutation(
        "turn: pdors: overtaken before a notice it has not failed",
        "policies/tesched_policies/pdors/give_up.py",
        "if ending is Ending.OVERTAKEN and",
        "if False and",
    ),
    Mutation("turn: shards of its GPU", _OVERTAKEN, "columns[devices] = True", "pass"),
    Mutation("turn: of what only completes there", _OVERTAKEN, "if any(one.completing for one in there):", "if False:"),
    Mutation("turn: held while Slurm keeps it back", _TURN, "hold |= managed.away & ~managed.served", "pass"),
    Mutation("turn: a reason of its last run", _JOBS, "or (is_away(job, view.snapshot) and not job.held)", ""),
    Mutation("turn: not planned while it is away", _JOBS, "job.pending and not off and", "job.pending and"),
    Mutation("turn: a begin time of its user's", _JOBS, "<= snapshot.settings.requeue_delay_s + _WHOLE_S", "<= 1e9"),
    Mutation("turn: put off by its user", _JOBS, "or is_put_off(job, view) or", "or"),
    Mutation("turn: held by its user", _PUT_OFF, "if job.held and not ours:", "if False:"),
    Mutation("turn: put off by tesched", _PUT_OFF, "and (begin is None or begin.restored)", ""),
    Mutation(
        "turn: put off by its requeue",
        _PUT_OFF,
        "requeue_delay_s if job.restarts else",
        "requeue_delay_s if False else",
    ),
    Mutation("turn: pdors: put off by its user", _PDORS, "if is_put_off(job, view):", "if False:"),
    Mutation("turn: Slurm's clock is ahead", _PUT_OFF, "_CLOCKS_DIFFER_S = 10.0", "_CLOCKS_DIFFER_S = 4.0"),
    Mutation("turn: another type where others have come", _TURN, "        self._give_up_taken()\n", ""),
    Mutation(
        "turn: another one's node is a word",
        "core/tesched_core/orders/first_look.py",
        "    if _stands_behind_another_turn(order, job, context):\n        return False\n",
        "",
    ),
    Mutation(
        "turn: a reservation's node is none",
        "core/tesched_core/orders/first_look.py",
        "[ _]UnavailableNodes:",
        "",
    ),
    Mutation(
        "turn: a node without another one's turn is none",
        "core/tesched_core/orders/first_look.py",
        "if preemptor is not None and preemptor.pending and not other.waits:",
        "if True:",
    ),
    Mutation(
        "turn: looked at when it may start",
        _TURN,
        "min([self.state.due_at(self.parameters.round_s), *over])",
        "self.state.due_at(self.parameters.round_s)",
    ),
    Mutation("turn: bound late before all else", _STEP, "snapshot.taken_at - _STARTED_WITHIN_S", "snapshot.taken_at"),
    Mutation("turn: bound late, for so long", _STEP, "_STARTED_WITHIN_S = 10.0", "_STARTED_WITHIN_S = 100.0"),
    Mutation("turn: bound before all else", _STEP, "return 2 if soon else 3", "return 3"),
    Mutation(
        "turn: one that finishes has not paid",
        "core/tesched_core/model/order.py",
        "and not (victim.job_id == self.preemptor and victim.departure is Departure.FINISHED)",
        "",
    ),
    Mutation("gavel: a second on a slow type", _TURN, "whole_s - (ran_s - float(slower_s[row]))", "whole_s - ran_s"),
    Mutation("gavel: slower in the allocations before", _TURN, "self._known(row).slower_s + lag", "lag"),
    Mutation(
        "gavel: what a type costs",
        _TURN,
        "np.array(parameters.prices_of(self.kinds.names), dtype=np.float64)",
        "np.ones(2)",
    ),
)
