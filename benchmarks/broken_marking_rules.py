"""The rules of the lever `plugin` that `python -m benchmarks.mutations` breaks: marks, and what Slurm did by them."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_MARKING, _TURNOVER = "core/tesched_core/orders/marking.py", "core/tesched_core/orders/turnover.py"
_BACK, _FUTILITY = "core/tesched_core/orders/came_back.py", "core/tesched_core/orders/futility.py"
_FUTILITY = "core/tesched_core/orders/futility.py"
_LEVER, _CLUSTER = "core/tesched_core/fields/mark.py", "core/tesched_core/model/cluster.py"
_PLUGIN = "daemon/tesched_daemon/doctor/plugin.py"
_FILE, _FIT = "daemon/tesched_daemon/marks_file.py", "daemon/tesched_daemon/plugin_fit.py"
_OWN = "daemon/tesched_daemon/own_file.py"

MARKING_MUTATIONS = (
    Mutation("marks: none for a job with a signal", _MARKING, "return RefusalCode.DECLARES_SIGNAL", "return None"),
    Mutation("marks: none before it is known why", _MARKING, "RefusalCode.COOL_DOWN if put_back else None", "None"),
    Mutation("marks: each mark counts", _MARKING, "tally.add(payment, context.now)", "pass"),
    Mutation("marks: the limits", _MARKING, "            spared = over.code", "            pass"),
    Mutation("marks: too many users to bar", _MARKING, "if len(no_te_jobs) > MOST_BARRED:", "if False:"),
    Mutation("marks: a TE user's limit", _MARKING, "if by[0] is CountedBy.TE_USER)", "if False)"),
    Mutation("marks: no score, no mark", _MARKING, "or not np.isfinite(scores).all()", ""),
    Mutation("marks: scores of any size", _MARKING, "if ((scores >= 0) & (scores < LARGEST)).all():", "if True:"),
    Mutation("marks: the cause waited then", _MARKING, "if other.submit_time <= job.submit_time + 1 and", "if"),
    Mutation(
        "marks: a cause that cannot start",
        _MARKING,
        "if other.pending and not resources_would_not_help(other)",
        "if other.pending",
    ),
    Mutation(
        "marks: started here, and ended",
        _MARKING,
        "there.isdisjoint(other.last_nodes)",
        "there.isdisjoint(other.nodes)",
    ),
    Mutation(
        "marks: started elsewhere counts",
        _MARKING,
        "return min(started, key=_first_started), Ending.STARTED_ELSEWHERE",
        "return None",
    ),
    Mutation(
        "marks: not on resources reserved for another",
        _MARKING,
        "if context.now - job.submit_time <= STARTS_WITHIN_S:\n        return None",
        "if False:\n        return None",
    ),
    Mutation(
        "marks: one that has ended counts",
        _MARKING,
        "if job is None or job.restarts <= one.value.restarts:",
        "if job is None or job.finished or job.restarts <= one.value.restarts:",
    ),
    Mutation(
        "marks: what tesched itself has put back is none of Slurm's",
        _MARKING,
        "if (job_id, one.value.restarts) in ours:",
        "if False:",
    ),
    Mutation(
        "marks: what leaves for a turn takes no other job's mark",
        _MARKING,
        "one.order_id is not None or (job_id, one.value.restarts) in ours:",
        "one.order_id is not None:",
    ),
    Mutation("marks: who is no TE job to Slurm", _MARKING, "if not plugin.takes_for_te(job):", "if False:"),
    Mutation("marks: P", _LEVER, "max_restarts=mark.restarts + 1", "max_restarts=mark.restarts + 2"),
    Mutation(
        "marks: renewed", _LEVER, "half_s = context.limits.mark_for_s / 2", "half_s = context.limits.mark_for_s * 2"
    ),
    Mutation("marks: a file in doubt", _LEVER, "or due or context.snapshot.marks_doubtful", "or due"),
    Mutation("marks: barred users are written", _LEVER, "or rules != context.draft.te_rules", ""),
    Mutation("turnover: where it may run", _TURNOVER, "bool(allowed[here].any())", "1"),
    Mutation(
        "marks: no wait where little ends",
        _TURNOVER,
        "if ends >= LEAST_ENDS and SURE * WINDOW_S / ends <= most_s:",
        "if ends:",
    ),
    Mutation(
        "marks: a word of AdminComment", _CLUSTER, 'or "tesched:te" in words', 'or "tesched:te" in job.admin_comment'
    ),
    Mutation("marks file: touched by others", _FILE, "if self._written is None or now == self._written:", "if True:"),
    Mutation(
        "marks file: whole lines by id",
        _FILE,
        "in sorted(by_job.items())",
        "in by_job.items()",
    ),
    Mutation("came back: each return doubles the wait", _BACK, "count = times + (known.count", "count = times + (0"),
    Mutation(
        "came back: a useful run ends the wait", _FUTILITY, "if one.ending is Ending.CAME_BACK and", "if False and"
    ),
    Mutation("came back: a task was its array's", _BACK, "before = memory.te_runs.get(job.array_job_id)", "pass"),
    Mutation(
        "came back: before it was seen", _BACK, "and job.job_id > memory.te_poll[1] and job.restarts", "and False"
    ),
    Mutation("came back: a new TE job alone", _BACK, "and job.job_id > memory.te_poll[1] and", "and"),
    Mutation(
        "came back: polls that were far apart saw nothing",
        _BACK,
        "unseen_are_short = context.now - before.at <",
        "unseen_are_short = 0 <",
    ),
    Mutation(
        "came back: a run that no poll saw was short",
        _BACK,
        "return (times if unseen_are_short else 0), False",
        "return 0, False",
    ),
    Mutation(
        "came back: an Epilog is no part of it",
        _BACK,
        "return replace(run, running_since=None, began=None) if run.over else run",
        "return run",
    ),
    Mutation("came back: booting is no part of it", _BACK, ' and "CONFIGURING" not in job.flags', ""),
    Mutation("came back: success has served", _FUTILITY, "job.state is JobState.COMPLETED or lasted_s", "lasted_s"),
    Mutation("came back: TE jobs alone", _BACK, "is not JobClass.TE", "is None"),
    Mutation("came back: one that an answer lacks", _BACK, "if job_id in context.absent}", "if False}"),
    Mutation("came back: unseen returns lift no bar", _BACK, "first = min(first, known.first_restart)", "pass"),
    Mutation(
        "came back: one that failed may be put back",
        _FUTILITY,
        "kept[family] = one  # its user may put it back yet",
        "pass",
    ),
    Mutation("came back: another job's id", _BACK, "and known.count > job.restarts", "and False"),
    Mutation(
        "came back: victims of a useful run have served", _BACK, "first = max(job.restarts - times, 0)", "first = 0"
    ),
    Mutation(
        "came back: left alone",
        _BACK,
        "return one.count >= limits.max_futile_orders_per_job and not one.changed",
        "return False",
    ),
    Mutation("came back: the wait has an end", _BACK, "if alone or until > now:", "if True:"),
    Mutation(
        "came back: no word for other levers",
        _FUTILITY,
        "if its_own is not None and its_own.ending is Ending.CAME_BACK:",
        "if False:",
    ),
    Mutation(
        "came back: its line ends with the marks",
        _LEVER,
        "last if one.until is None else min(one.until, last)",
        "one.until",
    ),
    Mutation("came back: written", _FILE, "for each in came_back:", "for each in ():"),
    Mutation("came back: no mark for any plugin", _FILE, "        max_restarts=0,", "        max_restarts=1,"),
    Mutation("came back: when its victim left", _FILE, "after=one.victim_left_at", "after=0"),
    Mutation("came back: its own victim", _BACK, "victims.get(job_id, ())", "memory.paid"),
    Mutation(
        "came back: when its victim left by Slurm's clock",
        _BACK,
        "paid.at if paid.put_back_at is None else paid.put_back_at",
        "paid.at",
    ),
    Mutation(
        "came back: when Slurm put it back",
        _MARKING,
        "put_back_at = min(job.submit_time, context.now)",
        "put_back_at = context.now",
    ),
    Mutation(
        "came back: it was put back before it was seen",
        _MARKING,
        "min(job.submit_time, context.now)",
        "job.submit_time",
    ),
    Mutation("came back: a victim in a run that counts", _BACK, " and paid.preemptor_restarts >= since", ""),
    Mutation(
        "came back: a victim in its place",
        _MARKING,
        "    if here:\n        put_back",
        "    if False:\n        put_back",
    ),
    Mutation("came back: the marks come first", _FILE, "if len(by_job) < MOST_LINES and", "if"),
    Mutation("marks file: no other file is written through", _OWN, "new.unlink(missing_ok=True)", "pass"),
    Mutation("marks: slurm.conf names the file", _FIT, "if plugin.marks != marks:", "if False:"),
    Mutation("marks: slurm.conf trusts the user", _FIT, "if user not in plugin.owners:", "if False:"),
    Mutation("plugin: of which release it is", _FIT, "if built and built != settings.release:", "if False:"),
    Mutation("plugin: whether it can be loaded", _PLUGIN, "if wrong := _damage(plugin.folders):", "if wrong := '':"),
    Mutation("plugin: a missing file", _PLUGIN, "if _is_here(values):", "if False:"),
    Mutation("plugin: a missing file elsewhere", _PLUGIN, "if _is_here(values):", "if True:"),
    Mutation("plugin: checked with each lever", _PLUGIN, "if plugin is not None:", "if False:"),
    Mutation("marks: others that Slurm preempts for", _FIT, " or _others_for_te(seen)", ""),
)
