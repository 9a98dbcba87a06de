"""More rules that `python -m benchmarks.mutations` breaks: futility, the look at the head, what is found and left."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_FUTILITY, _LOOK, _MISSING, _WORK = (
    f"core/tesched_core/{name}.py" for name in ("futility", "first_look", "missing", "work")
)
_ADVANCE, _QUEUE, _WAITING, _STEP = (
    f"core/tesched_core/{name}.py" for name in ("advance", "queue_order", "waiting", "step")
)
_BIND, _GUARD, _ROUNDS = (f"core/tesched_core/{name}.py" for name in ("binding", "guard", "rounds"))

FUTILITY_MUTATIONS = (
    Mutation("futile: the wait doubles", _FUTILITY, "2.0 ** min(count - 1, 30)", "1.0"),
    Mutation("futile: left alone after two", _FUTILITY, "one.count >= MOST_FUTILE and", "False and"),
    Mutation("futile: until something changes", _FUTILITY, "and not one.changed:", "and True:"),
    Mutation(
        "futile: what it asks for and its nodes count as a change", _FUTILITY, 'or one.basis not in {"", basis}', ""
    ),
    Mutation("futile: so does a job that has ended where there is a limit", _FUTILITY, "or fellows < one.fellows", ""),
    Mutation(
        "futile: so does what Slurm says", _FUTILITY, "changed = one.changed or said or", "changed = one.changed or"
    ),
    Mutation(
        "futile: tesched's own binding is no change",
        _FUTILITY,
        "request = job.request if bound is None else",
        "request = job.request if True else",
    ),
    Mutation(
        "futile: forgotten when the job starts",
        _FUTILITY,
        "        if job is None or not job.pending:\n            continue\n",
        "",
    ),
    Mutation(
        "futile: an array counts as one",
        _FUTILITY,
        "return job.array_job_id if job is not None and",
        "return job_id if True or",
    ),
    Mutation("futile: only if victims were asked", _FUTILITY, "    if asked and order.ending", "    if order.ending"),
    Mutation(
        "futile: a node that went before its victims left, once",
        _FUTILITY,
        "if left or count > 1 or order.ending is not Ending.NODE_GONE:",
        "if True:",
    ),
    Mutation(
        "look: no victim before it", _LOOK, "if not plan.victims or seen_at_the_head", "if True or seen_at_the_head"
    ),
    Mutation(
        "look: the site may say that it has no limits",
        _LOOK,
        "    if not limits.await_first_look:\n        return plans",
        "    if False:\n        return plans",
    ),
    Mutation(
        "look: it ends in time", _LOOK, "overdue = work.now > order.waits_until + LOOK_WITHIN_S", "overdue = False"
    ),
    Mutation("look: but not while another is ahead", _LOOK, "and not _behind_another(order, job, work)", ""),
    Mutation(
        "look: nor where Slurm enforces none", _LOOK, "if work.snapshot.settings.limits_enforced or", "if True or"
    ),
    Mutation("look: but its partition's limits", _LOOK, "if too_long or too_wide or", "if"),
    Mutation(
        "look: Priority is none",
        _WAITING,
        'job.reason in WANTS_ROOM and job.reason != "Priority"',
        "job.reason in WANTS_ROOM",
    ),
    Mutation("look: a limit keeps it at the head", _WAITING, "(at_the_head and why[0] in _SHOWS_AT_THE_HEAD)", "False"),
    Mutation(
        "look: the daemon watches for it",
        _WAITING,
        "for order in memory.open_orders() if memory else ():",
        "for order in ():",
    ),
    Mutation("missing: kept for MinJobAge", _MISSING, "if now - at < most_s}", "if False}"),
    Mutation("missing: and no longer", _MISSING, "if now - at < most_s}", "if True}"),
    Mutation(
        "missing: a victim",
        _ADVANCE,
        "    if victim.job_id in work.absent:\n        return victim\n",
        "",
    ),
    Mutation("missing: the preemptor", _ADVANCE, "if run is None and order.preemptor in work.absent:", "if False:"),
    Mutation(
        "missing: no victim is pressed for it",
        _ADVANCE,
        "return order.state is OrderState.OPEN and (absent or",
        "return order.state is OrderState.OPEN and (False or",
    ),
    Mutation(
        "missing: a priority is put back later",
        _QUEUE,
        "or raised.restored or order.preemptor in work.absent",
        "or raised.restored",
    ),
    Mutation("missing: a binding", _BIND, "        if job_id in work.absent:\n            continue\n", ""),
    Mutation(
        "silent: one missed ping is no end",
        _ADVANCE,
        "return [name for name in gone if not _is_silent(name, work)]",
        "return gone",
    ),
    Mutation(
        "silent: no victim is pressed",
        _ADVANCE,
        "(absent or any(_is_silent(name, work) for name in order.nodes))",
        "absent",
    ),
    Mutation("a hold of somebody else stays", _QUEUE, "or victim.held_before or job.flags", "or job.flags"),
    Mutation(
        "a hold that comes in the grace period, too", _ADVANCE, "victim = replace(victim, held_before=True)", "pass"
    ),
    Mutation(
        "all tasks that started are put back",
        _QUEUE,
        "jobs = {task.job_id: task for task in work.tasks_of(order.preemptor)}",
        "jobs = {}",
    ),
    Mutation(
        "victims that wait to run again stop nothing",
        _GUARD,
        "order.makes_room and (snapshot.job_class",
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
        _BIND,
        "work.bound_since.setdefault(job.job_id, work.now)",
        "work.bound_since[job.job_id] = work.now",
    ),
    Mutation("a binding that did not arrive does not count", _BIND, "del since[action.job_id]  # that", "pass  # that"),
    Mutation(
        "no clocks are compared",
        _QUEUE,
        "if job.start_time is None or job.state in",
        "if job.start_time is None or job.start_time < 9999 or job.state in",
    ),
    Mutation(
        "a task that ran before is none",
        _QUEUE,
        "if task.job_id > since and _has_started(task)",
        "if _has_started(task)",
    ),
    Mutation("partitions over the same nodes", _WORK, "if partition.priority_tier in tiers", "if False"),
    Mutation("but only of the same tier", _WORK, "if partition.priority_tier in tiers", "if True"),
    Mutation(
        "a nice value without an answer is not taken for ignored",
        _QUEUE,
        "and job.nice == raised.previous and raised.taken_at is not None\n",
        "and job.nice == raised.previous\n",
    ),
    Mutation(
        "no nice value that Slurm cannot have",
        _QUEUE,
        "max(job.nice - missing - PRIORITY_MARGIN, MIN_NICE)",
        "job.nice - missing - PRIORITY_MARGIN",
    ),
    Mutation("rounds: holds on their way are remembered", _ROUNDS, "        left[job_id] = at\n", ""),
    Mutation(
        "shadow: records again only later", _STEP, "shadowed[order.preemptor] = at + limits.retry_after_s", "pass"
    ),
)
