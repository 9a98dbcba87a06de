"""The rules of coming reservations and deadlines, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_SEARCH = "policies/tesched_policies/victim_search.py"
_LATEST, _IN_TIME = "core/tesched_core/placement/latest_start.py", "core/tesched_core/orders/in_time.py"
_ADMISSION = "core/tesched_core/guard/admission.py"
_ELIGIBLE, _BY = "core/tesched_core/guard/eligibility.py", "core/tesched_core/placement/eligibility.py"
_AHEAD = "daemon/tesched_daemon/doctor/maintenance.py"
_AWAITS = "core/tesched_core/placement/awaits_reservation.py"

WINDOW_MUTATIONS = (
    Mutation("awaits: at all", _ELIGIBLE, "for job_id, name in running.awaits.items()})", "for job_id, name in ()})"),
    Mutation("awaits: its limit", _AWAITS, "at + delay_s + run_s", "at + delay_s"),
    Mutation("awaits: one that floats", _AWAITS, " and not floats_clear_of(one, run_s, at)", ""),
    Mutation("in time: one that floats", _LATEST, "if floats_clear_of(one, run_s, snapshot.taken_at):", "if False:"),
    Mutation(
        "in time: one that floats too near", _LATEST, "reservation.start_time - run_s >= math.floor", "0 <= math.floor"
    ),
    Mutation("in time: one that floats, in whole seconds", _LATEST, ">= math.floor(taken_at)", ">= taken_at"),
    Mutation("awaits: the way back", _AWAITS, "leaves_within_s + self.snapshot.settings.requeue_delay_s", "0"),
    Mutation("awaits: one that is over", _AWAITS, "one.end_time > snapshot.taken_at and ", ""),
    Mutation("awaits: some cores", _AWAITS, "and not one.cores ", ""),
    Mutation("awaits: MAGNETIC", _AWAITS, ' and "MAGNETIC" not in one.flags', ""),
    Mutation("awaits: its own", _AWAITS, "        if job.reservation:\n", "        if False:\n"),
    Mutation("awaits: other nodes", _AWAITS, "if here and not self._has_others(job, in_its_way)", "if here"),
    Mutation(
        "awaits: nodes that it names",
        _AWAITS,
        "if any(not one.nodes.isdisjoint(request.required_nodes) for one in in_its_way):",
        "if False:",
    ),
    Mutation("awaits: nodes that are too small", _AWAITS, "if total.cpus < least.cpus or", "if"),
    Mutation(
        "awaits: a feature",
        _AWAITS,
        "not job.request.features or has_features(job.request.features, node.features)",
        "True",
    ),
    Mutation("awaits: how many nodes", _AWAITS, "wanted = max(job.request.min_nodes, 1)", "wanted = 1"),
    Mutation("awaits: nodes that it excludes", _AWAITS, "one not in excluded and ", ""),
    Mutation("awaits: so many shapes", _AWAITS, "if len(self._enough) >= MOST_SHAPES:", "if False:"),
    Mutation(
        "awaits: again before a notice",
        "core/tesched_core/orders/withheld.py",
        "bool(why_it_cannot_return(job, context.snapshot)) or job.job_id in context.columns.running.awaits",
        "bool(why_it_cannot_return(job, context.snapshot))",
    ),
    Mutation("in time: the grace period", _LATEST, "victim.grace_period_s if victim.gets_notice else 0.0", "0.0"),
    Mutation(
        "in time: a deadline", _LATEST, "if job.deadline is not None and job.time_limit_s is not None:", "if False:"
    ),
    Mutation("in time: a deadline of each", _LATEST, "np.flatnonzero(leaves_s > left_s)", "np.arange(0)"),
    Mutation("in time: of its own deadline", _BY, "te.reservation, te.deadline", "te.reservation, None"),
    Mutation(
        "in time: no hold",
        "core/tesched_core/orders/serve.py",
        "any(job.deadline is not None for job in jobs):",
        "False:",
    ),
    Mutation(
        "in time: a waiting job's deadline",
        "slurm/tesched_slurm/job_records.py",
        "deadline=words.moment(row.deadline),",
        "deadline=None,",
    ),
    Mutation("in time: KillWait", _LATEST, "else 0.0) + kill_wait_s", "else 0.0)"),
    Mutation(
        "in time: KillWait of each",
        _LATEST,
        "running.grace_s, 0.0) + snapshot.settings.kill_wait_s",
        "running.grace_s, 0.0)",
    ),
    Mutation("in time: its own reservation", _LATEST, "one.name != job.reservation and ", ""),
    Mutation("in time: one that is over", _LATEST, " and one.end_time > snapshot.taken_at", ""),
    Mutation("in time: elsewhere", _LATEST, " and (one.nodes is None or not nodes.isdisjoint(one.nodes))", ""),
    Mutation("in time: a quicker victim", _LATEST, "leaves_s[jobs] > left_of_node[where]", "leaves_s[jobs] < 0"),
    Mutation("in time: victims elsewhere", _LATEST, "> left_of_node[where]", "> left_of_node.min()"),
    Mutation("in time: a victim on several nodes", _LATEST, "        which[jobs[~is_late]] = -1\n", ""),
    Mutation("in time: reserved already", _LATEST, "elif left_s >= 0:", "else:"),
    Mutation("in time: a year", _LATEST, "365 * 86400", "10**9"),
    Mutation(
        "in time: the guard",
        _ADMISSION,
        "if (why := _not_in_time(plan, view)) is not None:",
        "if (why := None) is not None:",
    ),
    Mutation(
        "in time: suspended",
        _ADMISSION,
        "    if plan.by_suspending:\n        return view.now",
        "    if False:\n        return view.now",
    ),
    Mutation("in time: it moves", _ADMISSION, "moves_s = settings.requeue_delay_s if", "moves_s = 0 if"),
    Mutation("in time: planned anew", _SEARCH, "while tried.late and may_be_bound(job, self.view):", "while False:"),
    Mutation(
        "in time: where it is bound", _SEARCH, "while tried.late and may_be_bound(job, self.view):", "while tried.late:"
    ),
    Mutation("in time: quick victims", _SEARCH, "if left_out.slow_victims:", "if False:"),
    Mutation(
        "in time: one that is met by none", _LATEST, "for left_s in ahead if left_s >= 0)", "for left_s in ahead)"
    ),
    Mutation(
        "in time: why a node is late",
        "policies/tesched_policies/passed_over.py",
        "        if self._late:\n",
        "        if False:\n",
    ),
    Mutation(
        "in time: what was refused first",
        _SEARCH,
        "return in_time.refused if in_time.is_planned else first.refused",
        "return in_time.refused",
    ),
    Mutation(
        "in time: what its user excludes",
        _SEARCH,
        "tuple(sorted(left_out.nodes.union(job.request.excluded_nodes)))",
        "tuple(left_out.nodes)",
    ),
    Mutation(
        "in time: a plan that is in time",
        _SEARCH,
        "return tried if tried.is_planned else self._try",
        "return self._try",
    ),
    Mutation(
        "in time: nodes that are met",
        _LATEST,
        "for one in latest_starts(job, snapshot) if at > one.at and",
        "for one in latest_starts(job, snapshot) if",
    ),
    Mutation("in time: one that may be suspended", _ELIGIBLE, " or limits.lever is YieldBy.AUTO:", ":"),
    Mutation(
        "in time: of its own reservation", _BY, "te.user, most_run_s(te), te.reservation", 'te.user, most_run_s(te), ""'
    ),
    Mutation("in time: again before a notice", _IN_TIME, "if one.state is VictimState.PLANNED else", "if False else"),
    Mutation(
        "in time: one that saves its work",
        _IN_TIME,
        "{VictimState.PLANNED, VictimState.NOTICED}",
        "{VictimState.PLANNED}",
    ),
    Mutation(
        "in time: all are leaving", _IN_TIME, "if one.state in {VictimState.PLANNED, VictimState.NOTICED} and", "if"
    ),
    Mutation("ahead: all nodes", _AHEAD, " and partition.nodes <= one.nodes", ""),
    Mutation("ahead: a standing one", _AHEAD, "now < one.start_time <", "one.start_time <"),
    Mutation("ahead: unreadable", _AHEAD, "not one.doubt and ", ""),
    Mutation("ahead: its limit", _AHEAD, "one.start_time < now + run_s", "one.start_time"),
    Mutation(
        "ahead: the partition's longest",
        _AHEAD,
        "partition.max_time_s if partition.default",
        "None if partition.default",
    ),
    Mutation("ahead: the usual limit", _AHEAD, "else partition.default_time_s", "else None"),
    Mutation("ahead: cores and MAGNETIC", _AHEAD, 'not one.cores and "MAGNETIC" not in one.flags and ', ""),
    Mutation("ahead: a partition that is down", _AHEAD, 'partition.state != "UP" or ', ""),
    Mutation("ahead: no nodes", _AHEAD, "not partition.nodes or ", ""),
)
