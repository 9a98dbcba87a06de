"""The rules of own preemptions and of growth that `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_ADVANCE, _ORDER = "core/tesched_core/orders/advance.py", "core/tesched_core/model/order.py"
_BUDGET, _SIZE = "core/tesched_core/guard/budget.py", "core/tesched_core/model/size.py"
_BOOST, _SUSPEND = "core/tesched_core/fields/victim_boost.py", "core/tesched_core/orders/suspend.py"
_OF_ORDERS = "core/tesched_core/fields/of_orders.py"
_OWN = "victim.of_own_user"
_EQUALS, _CHEAPEST = (f"policies/tesched_policies/{name}.py" for name in ("among_equals", "cheapest"))
_CHANGED = "core/tesched_core/orders/changed_request.py"
_IDLE = "daemon/tesched_daemon/idle_file.py"
_FEWEST = "core/tesched_core/placement/fewest.py"

OWN_USER_MUTATIONS = (
    Mutation("own: users that are not known", _ORDER, "bool(self.user) and self.user ==", "self.user =="),
    Mutation("own: no P, no cool-down", _ORDER, "Purpose.TE and not self.of_own_user", "Purpose.TE"),
    Mutation("own: nor for a turn", _ORDER, "self.purpose is Purpose.TE and not", "not"),
    Mutation("grown: it is said why", "core/tesched_core/fields/nice.py", 'f": {why}" if why else ""', '""'),
    Mutation(
        "own: its wait is none of its slowdown",
        "core/tesched_core/orders/settled.py",
        f"if {_OWN} and past is not None:",
        "if False:",
    ),
    Mutation("own: no place", _BOOST, f"if {_OWN}:", "if False:"),
    Mutation("own: not one of those it is compared with", _BOOST, "if not why_not(other, context)}", "}"),
    Mutation("own: none that returns", _OF_ORDERS, "LEFT and not victim_boost.why_not(victim, context)", "LEFT"),
    Mutation(
        "changed: other nodes", _CHANGED, 'if why := next(_why_not_there(order, job, context), ""):', 'if why := "":'
    ),
    Mutation("changed: a binding that was to be forgotten", _CHANGED, "and one.restored and", "and False and"),
    Mutation(
        "changed: one that Slurm holds for that",
        "core/tesched_core/orders/advance.py",
        "elif why := changed(order, job, context):",
        "elif not job.held and (why := changed(order, job, context)):",
    ),
    Mutation(
        "changed: no TE job any more",
        "core/tesched_core/orders/advance.py",
        "elif _is_for_te(order) and job.pending and",
        "elif order.waits and job.pending and",
    ),
    Mutation(
        "changed: no TE job any more, before it has victims",
        "core/tesched_core/orders/advance.py",
        "return order.made_for_te or order.for_te or order.waits",
        "return order.made_for_te and not order.waits",
    ),
    Mutation(
        "changed: an order without victims ends, too",
        "core/tesched_core/orders/advance.py",
        "return order.made_for_te or order.for_te or order.waits",
        "return order.for_te or order.waits",
    ),
    Mutation(
        "changed: a turn without victims goes on",
        "core/tesched_core/orders/open.py",
        "made_for_te=purpose is Purpose.TE",
        "made_for_te=True",
    ),
    Mutation(
        "changed: a victim that a reload protects",
        "core/tesched_core/orders/withheld.py",
        "if protected(job, context.limits) or",
        "if",
    ),
    Mutation(
        "useful: a run that is best effort by then",
        "core/tesched_core/orders/useful_run.py",
        "if not order.for_te:",
        "if not order.for_te or context.snapshot.job_class(run.job_id).value != 'te':",
    ),
    Mutation(
        "config: a place in the queue without limits",
        "daemon/tesched_daemon/config_checks.py",
        "if rule.match.partitions or rule.match.qos), ",
        "if rule.match.partitions), ",
    ),
    Mutation(
        "useful: a run that ended held",
        "core/tesched_core/orders/advance.py",
        "is not None and not _moves(order):",
        "is not None and not _moves(order) and not job.held:",
    ),
    Mutation("changed: features by a reboot", _CHANGED, "nodes[name].features | nowhere", "nodes[name].features"),
    Mutation("changed: less", _CHANGED, "if order.size is None or in_round or not is_less", "if True or not is_less"),
    Mutation("changed: less, once a victim leaves", _CHANGED, "if any(_leaves(", "if False and any(_leaves("),
    Mutation("changed: a victim that is ending", _CHANGED, "or job.completing or", "or"),
    Mutation("changed: a victim that may have left", _CHANGED, "any(has_not_reported(name,", "any(False and (name,"),
    Mutation(
        "changed: all victims are needed still",
        _CHANGED,
        "one for one in may_stay if _fits_beside",
        "one for one in may_stay if True or _fits_beside",
    ),
    Mutation(
        "changed: tried at once, once",
        "core/tesched_core/orders/futility.py",
        "not in {Ending.NODE_GONE, Ending.CHANGED}:",
        "is not Ending.NODE_GONE:",
    ),
    Mutation(
        "suspended: it pays once", _ADVANCE, "if victim.suspended_at is None and (victim.noticed", "if (victim.noticed"
    ),
    Mutation("own: suspended, no cool-down", _SUSPEND, f"if not {_OWN}:", "if True:"),
    Mutation("own: suspended, no wait", _SUSPEND, f"    if {_OWN}:\n        return", "    if False:\n        return"),
    Mutation(
        "own: no limit of others",
        _BUDGET,
        "if not one.of_own_user:\n        yield CountedBy.ALL",
        "if True:\n        yield CountedBy.ALL",
    ),
    Mutation(
        "own: the user's own limit",
        _BUDGET,
        "yield CountedBy.TE_USER, one.for_user",
        "pass",
    ),
    Mutation(
        "own: the note to its user",
        "core/tesched_core/orders/tell_users.py",
        "if victim.is_limited else 0",
        "if victim.purpose is Purpose.TE else 0",
    ),
    Mutation(
        "own: Slurm's choice by its mark",
        "core/tesched_core/orders/marking.py",
        "(other.user != job.user, *_first_started(other))",
        "_first_started(other)",
    ),
    Mutation(
        "withdrawn: it has paid nothing", _BUDGET, "if one.withdrawn:\n        return", "if False:\n        return"
    ),
    Mutation(
        "withdrawn: by its user alone",
        "core/tesched_core/guard/eligibility.py",
        "found.setdefault(one.for_user, [])",
        'found.setdefault("", [])',
    ),
    Mutation(
        "withdrawn: no plan of any policy",
        "core/tesched_core/guard/admission.py",
        "eligibility = eligibility.by(trial)",
        "pass",
    ),
    Mutation(
        "withdrawn: not hopeless for others",
        _CHEAPEST,
        "hopeless[asker] = None",
        'hopeless[""] = None',
    ),
    Mutation("grown: a victim", _BOOST, 'return f"it asks for {grown}" if grown else ""', 'return ""'),
    Mutation("grown: not by a policy's move", _BOOST, "size_of(job, context.own_request(job))", "size_of(job)"),
    Mutation("grown: not by a record that is not read", _BOOST, " or job.partly_read", ""),
    Mutation("grown: a TE job", _ADVANCE, "elif grown := _grown(order, job, context):", 'elif grown := "":'),
    Mutation("grown: not by tesched's own binding", _ADVANCE, "size_of(job, context.own_request(job))", "size_of(job)"),
    Mutation(
        "grown: it is not tried again at once", "core/tesched_core/orders/futility.py", "        Ending.GROWN,\n", ""
    ),
    Mutation("grown: nodes", _SIZE, "if now.nodes > before.nodes:", "if False:"),
    Mutation("grown: its time limit", _SIZE, "if _limit(now) > _limit(before):", "if False:"),
    Mutation(
        "grown: what it holds counts",
        _SIZE,
        "held = sum((share.tres for share in job.allocation), Tres())",
        "held = Tres()",
    ),
    Mutation("grown: partitions, once seen", _SIZE, "if self.seen_waiting or", "if"),
    Mutation("equals: own user's first", _EQUALS, "if te.user and owner.user == te.user", "if False"),
    Mutation("equals: then own account's", _EQUALS, "if te.account and owner.account == te.account", "if False"),
    Mutation("equals: no user is no own one", _EQUALS, "if te.user and owner.user", "if owner.user"),
    Mutation("equals: the key", _EQUALS, "if not by_owner:", "if False:"),
    Mutation("idle: first among equals", _EQUALS, "steps - _IDLE, steps)", "steps, steps)"),
    Mutation("idle: before own ones", _EQUALS, "_IDLE = 3", "_IDLE = 1"),
    Mutation("idle: said only where it decided", _EQUALS, "(self.idle_s[behind] == 0).any()", "True"),
    Mutation("idle: for so long", _IDLE, "if now - at >= self.config.after_s:", "if True:"),
    Mutation("idle: in its present run", _IDLE, "now if job.start_time is None else job.start_time", "0.0"),
    Mutation("idle: no old file", _IDLE, "if age_s > self.config.stale_s:", "if False:"),
    Mutation("idle: no file of the future", _IDLE, "if age_s < -AHEAD_S:", "if False:"),
    Mutation("idle: no file of another user", _IDLE, "if why := distrusted(status, os.geteuid()):", 'if why := "":'),
    Mutation("idle: a job that stands twice", _IDLE, "max(float(match[2]), found.get(job_id, 0.0))", "float(match[2])"),
    Mutation("idle: running best-effort jobs", _IDLE, "job.state is not JobState.RUNNING or", ""),
    Mutation("idle: no FIFO", "daemon/tesched_daemon/own_file.py", "if not stat.S_ISREG(found):", "if False:"),
    Mutation("idle: no more lines than that", _IDLE, "if len(lines) > MOST_LINES:", "if False:"),
    Mutation("equals: the site's margin", _EQUALS, "max(view.limits.equal_within, _LEAST)", "0.01"),
    Mutation("equals: a price, not its place", _EQUALS, "score + steps * (margin * size + least)", "score + steps"),
    Mutation(
        "equals: no more victims", _CHEAPEST, "if prices.steps is None or not (may_shrink", "if True or not (may_shrink"
    ),
    Mutation("equals: it is seen where fewer may be", _CHEAPEST, "min(least) < count)", "min(least) > count)"),
    Mutation("equals: of the largest of a node", _FEWEST, "np.lexsort((-frees_of_each", "np.lexsort((frees_of_each"),
    Mutation("equals: below zero as above", _EQUALS, "size = np.abs(score)", "size = score"),
    Mutation(
        "equals: where nothing has a price",
        _EQUALS,
        "(float(size.max(initial=0.0)) or 1.0)",
        "float(size.max(initial=0.0))",
    ),
    Mutation("equals: a draw is no price", _EQUALS, "if drawn:", "if False:"),
    Mutation(
        "equals: the reason only where it decided",
        _EQUALS,
        "behind = before & (steps > steps[row])",
        "behind = np.ones_like(before)",
    ),
    Mutation(
        "equals: one that stays is not called dearer",
        "policies/tesched_policies/passed_over.py",
        "why[(why == 2) & (score <= dearest)] = 4",
        "pass",
    ),
)
