"""The rules of the lever `plugin` that `python -m benchmarks.mutations` breaks: marks, and what Slurm did by them."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_MARKING, _TURNOVER = "core/tesched_core/orders/marking.py", "core/tesched_core/orders/turnover.py"
_LEVER, _CLUSTER = "core/tesched_core/levers/mark.py", "core/tesched_core/model/cluster.py"
_PLUGIN = "daemon/tesched_daemon/doctor/plugin.py"
_FILE, _FIT = "daemon/tesched_daemon/marks_file.py", "daemon/tesched_daemon/plugin_fit.py"

MARKING_MUTATIONS = (
    Mutation("marks: none for a job with a signal", _MARKING, "return RefusalCode.DECLARES_SIGNAL", "return None"),
    Mutation("marks: none before it is known why", _MARKING, "RefusalCode.COOL_DOWN if put_back else None", "None"),
    Mutation("marks: the hour's limit", _MARKING, "self.tally.count += 1", "pass"),
    Mutation("marks: a user's limit", _MARKING, "self.tally.by_user[job.user] += 1", "pass"),
    Mutation("marks: a node's limit", _MARKING, "self.tally.by_node.update(job.nodes)", "pass"),
    Mutation("marks: too many users to bar", _MARKING, "if len(barred) > MOST_BARRED:", "if False:"),
    Mutation(
        "marks: a TE user's limit",
        _MARKING,
        "if user and count >= limits.max_victims_for",
        "if user and count > limits.max_victims_for",
    ),
    Mutation("marks: no score, no mark", _MARKING, "or not np.isfinite(scores).all()", ""),
    Mutation("marks: scores of any size", _MARKING, "if ((scores >= 0) & (scores < LARGEST)).all():", "if True:"),
    Mutation("marks: the cause waited then", _MARKING, "if other.submit_time <= job.submit_time + 1 and", "if"),
    Mutation(
        "marks: a cause that cannot start",
        _MARKING,
        "if other.pending and not room_would_not_help(other)",
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
        "marks: not in another's room yet",
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
    Mutation("marks: who is no TE job to Slurm", _MARKING, "if not plugin.takes_for_te(job):", "if False:"),
    Mutation("marks: P", _LEVER, "max_restarts=mark.restarts + 1", "max_restarts=mark.restarts + 2"),
    Mutation(
        "marks: renewed", _LEVER, "half_s = context.limits.mark_for_s / 2", "half_s = context.limits.mark_for_s * 2"
    ),
    Mutation("marks: a file in doubt", _LEVER, "or due or context.snapshot.marks_doubtful", "or due"),
    Mutation("marks: barred users are written", _LEVER, "or rules != context.te_rules", ""),
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
        "for one in sorted(marks, key=lambda one: one.job_id)",
        "for one in marks",
    ),
    Mutation("marks file: no other file is written through", _FILE, "new.unlink(missing_ok=True)", "pass"),
    Mutation("marks: slurm.conf names the file", _FIT, "if plugin.marks != marks:", "if False:"),
    Mutation("marks: slurm.conf trusts the user", _FIT, "if user not in plugin.owners:", "if False:"),
    Mutation("plugin: of which release it is", _FIT, "if built and built != settings.release:", "if False:"),
    Mutation("plugin: whether it can be loaded", _PLUGIN, "if wrong := _damage(plugin.folders):", "if wrong := '':"),
    Mutation("plugin: a missing file", _PLUGIN, "if _is_here(values):", "if False:"),
    Mutation("plugin: a missing file elsewhere", _PLUGIN, "if _is_here(values):", "if True:"),
    Mutation("plugin: checked with each lever", _PLUGIN, "if plugin is not None:", "if False:"),
    Mutation("marks: others that Slurm preempts for", _FIT, " or _others_for_te(seen)", ""),
)
