"""The rules of raises that others undo, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_NICE, _PRIORITY = "core/tesched_core/fields/nice.py", "core/tesched_core/fields/priority.py"
_QUEUE, _VICTIM = "core/tesched_core/fields/queue_boost.py", "core/tesched_core/fields/victim_boost.py"

RAISE_MUTATIONS = (
    Mutation(
        "no plan: a job that could not be read",
        "core/tesched_core/orders/no_plan.py",
        "return any(not names.isdisjoint(one.nodes) for one in doubted)",
        "return False",
    ),
    Mutation("raise: by Priority", _NICE, "job.nice == one.value and job.priority == one.shown", "False"),
    Mutation(
        "raise: nothing while it is completing",
        _NICE,
        "return job.completing or awaits_release(",
        "return awaits_release(",
    ),
    Mutation("raise: not for ever", _NICE, "one.undone >= MOST_AGAIN *", "one.undone >= 100 *"),
    Mutation(
        "raise: a victim's, not for ever",
        _VICTIM,
        "job.nice != one.value or is_left(one, job)",
        "job.nice != one.value",
    ),
    Mutation(
        "raise: a BE job's is made again",
        _QUEUE,
        "if not one.restored and _is_to_be_made_again",
        "if False and _is_to_be_made_again",
    ),
    Mutation(
        "raise: the order ends",
        "core/tesched_core/orders/advance.py",
        "elif why := why_overruled",
        "elif why := False and why_overruled",
    ),
    Mutation(
        "raise: none is needed by a job that is first",
        _PRIORITY,
        '    if needed_priority(job, order.victims, context) <= job.priority:\n        return ""',
        '    if False:\n        return ""',
    ),
    Mutation(
        "own priority: where it was undone",
        _NICE,
        "return own if known and job.priority != in_force",
        "return None and own if known and job.priority != in_force",
    ),
    Mutation(
        "own priority: put back too late",
        _NICE,
        "raised = {own, shown, *(own + by for by in raises), shown + before - one.value}",
        "raised = {own, shown}",
    ),
    Mutation("own priority: put back before it was seen", _NICE, "return raised | lowered", "return raised"),
    Mutation(
        "own priority: what an admin has set is left",
        _NICE,
        "known = job.priority in _known(one, own)",
        "known = own <= job.priority <= max(_known(one, own))",
    ),
    Mutation(
        "a task's own nice value is not what its array has",
        _NICE,
        "if array is None else (array.previous, array.own)",
        "if True else (array.previous, array.own)",
    ),
    Mutation(
        "own priority: Slurm's alone with multifactor",
        _NICE,
        "own=own if context.snapshot.settings.priority_type == BASIC else None",
        "own=own",
    ),
    Mutation("put back: not for ever", _NICE, "if any(not is_futile(one, job) for job, _ in needed):", "if needed:"),
    Mutation(
        "put back: as often as backfill may undo it",
        _NICE,
        "put_back_sent > MOST_AGAIN *",
        "put_back_sent > MOST_AGAIN - 1 +",
    ),
    Mutation(
        "put back: an order does not wait for a release",
        "core/tesched_core/orders/settled.py",
        "and not _awaits_release(one, context)",
        "",
    ),
    Mutation("put back: lifts no hold", _NICE, "return _is_held(job) and one.field", "return False and one.field"),
)
