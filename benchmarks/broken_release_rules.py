"""More rules that `python -m benchmarks.mutations` breaks: a limit on RPCs, SLUIDs, tasks that come back."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_LIMITS, _LIMITED = "slurm/tesched_slurm/rate_limits.py", "daemon/tesched_daemon/rate_limited.py"
_TASKS = "slurm/tesched_slurm/waiting_tasks.py"
_ACTUATOR, _LOOP = "slurm/tesched_slurm/commands_actuator.py", "daemon/tesched_daemon/loop.py"
_CLIENTS = "slurm/tesched_slurm/clients.py"
_RUN, _FUTILITY = "core/tesched_core/orders/useful_run.py", "core/tesched_core/orders/futility.py"
_DEPARTURES, _UNDO = "core/tesched_core/orders/departures.py", "core/tesched_core/orders/undo.py"

RELEASE_MUTATIONS = (
    Mutation("arrays: by their list", _TASKS, 'return f"{job.job_id}_[{job.array_tasks}]"', "return str(job.job_id)"),
    Mutation("arrays: not what cannot be named", _TASKS, "or job.array_tasks or puts_back", "or True or puts_back"),
    Mutation("arrays: a list is shortened", _TASKS, "if len(listed) > _MOST_LIST:", "if False:"),
    Mutation("arrays: no task apart", _TASKS, "if bisect(apart, last) == bisect(apart, after) else inf", ""),
    Mutation("arrays: the narrowest gaps first", _TASKS, "if gap <= widest:", "if gap < inf:"),
    Mutation("arrays: no list is too long still", _TASKS, "if found < len(widths) else", "if widths else"),
    Mutation("arrays: tasks that squeue shows", _TASKS, "{one.array_task_id for one in apart} | ", ""),
    Mutation(
        "arrays: tasks without a record", _TASKS, "(one for one in rows if one.job_id != str(job.job_id))", "rows"
    ),
    Mutation("arrays: tasks that scontrol shows", _TASKS, " | {one.task for one in found.hidden.values()}", ""),
    Mutation("arrays: but what is put back", _TASKS, "or job.array_tasks or puts_back", "or job.array_tasks"),
    Mutation(
        "arrays: a hold of its user's is none",
        _TASKS,
        "return job.pending and job.reason",
        "return job.priority == 0 or job.reason",
    ),
    Mutation("limit: root and SlurmUser are exempt", _LIMITS, "None if user_id in exempt else", ""),
    Mutation("limit: of releases that have it", _LIMITS, 'release < SINCE or "rl_enable"', '"rl_enable"'),
    Mutation("limit: its period", _LIMITS, ' / number("rl_refill_period", 1)', ""),
    Mutation("limit: what was spent counts", _LIMITED, "limit.burst) - spent,", "limit.burst),"),
    Mutation("limit: what is to be done counts", _LIMITED, "self._left - actions * OF_AN_ACTION", "self._left"),
    Mutation(
        "limit: of actions those that are sent",
        _LOOP,
        "len(decision.actions) if self.mode is",
        "len(decision.actions) if True or self.mode is",
    ),
    Mutation(
        "limit: a rest has a bound",
        _LIMITED,
        "max(lacking, 0.0) / limit.per_s, MOST_S",
        "max(lacking, 0.0) / limit.per_s, 1e9",
    ),
    Mutation(
        "limit: a poll and an order are enough",
        _LIMITED,
        "return min(limit.burst, OF_A_POLL",
        "return max(limit.burst, OF_A_POLL",
    ),
    Mutation("limit: no probes", _LOOP, "and snapshot.settings.rate_limit is None:", "and not self._pause_s:"),
    Mutation("limit: the bucket fills meanwhile", _LIMITED, "max(at - self._at, 0.0) * limit.per_s", "0.0"),
    Mutation("limit: the poll waits", _LOOP, "return max(interval_s, self._pause_s)", "return interval_s"),
    Mutation(
        "limit: pokes wait", "daemon/tesched_daemon/wakeup.py", "max(PAUSE_S, took_s, pause_s)", "max(PAUSE_S, took_s)"
    ),
    Mutation(
        "sluid: a run is meant",
        _ACTUATOR,
        "failure = self._do(*argv, sluid)",
        "failure = self._do(*argv, _address(seen))",
    ),
    Mutation("sluid: where the commands take it", _ACTUATOR, "by_run = self.by_sluid and", "by_run ="),
    Mutation("sluid: a run that is over is no error", _ACTUATOR, "if row.sluid == sluid:", "if True:"),
    Mutation("sluid: another refusal is one", _ACTUATOR, "if row.sluid == sluid:", "if False:"),
    Mutation("sluid: a slow look is enough", _ACTUATOR, "inf if sluid or of_tasks else", "inf if of_tasks else"),
    Mutation("sluid: without one no slow look is", _ACTUATOR, "inf if sluid or of_tasks", "inf if self.by_sluid"),
    Mutation("sluid: of the known form", _ACTUATOR, "_SLUID.fullmatch(row.sluid)", "row.sluid"),
    Mutation("sluid: where the commands take it, too", _CLIENTS, "min(major(release), major(said))", "major(release)"),
    Mutation("sluid: where slurmctld takes it, too", _CLIENTS, "min(major(release), major(said))", "major(said)"),
    Mutation(
        "task: a start alone",
        _RUN,
        "if not order.for_te:",
        "if not order.for_te or run.array_job_id:",
    ),
    Mutation("task: a start between two polls", _RUN, "if not job.array_tasks:", "if True:"),
    Mutation("task: counts for itself", _FUTILITY, "order.run_id if order.ending is Ending.NO_RUN else", ""),
    Mutation(
        "task: no word on the others",
        _FUTILITY,
        "if one is not None and one.by_itself and family != job.job_id:",
        "if False:",
    ),
    Mutation("task: is waited for", _FUTILITY, "    if its_own is not None and its_own.by_itself:", "    if False:"),
    Mutation("task: a start does not make it forget", _FUTILITY, "and not one.by_itself)):", ")):"),
    Mutation("undo: a rerun is owed until the job waits", _UNDO, "if is_owed or victim", "if victim"),
    Mutation("undo: it is sent again", _UNDO, "return look_for_return(victim, job, order, context)", "return victim"),
    Mutation("undo: nothing is owed by a record in doubt", _UNDO, " and victim.job_id not in context.absent", ""),
    Mutation("undo: a grace period", _DEPARTURES, "abs(snapshot.taken_at - victim.noticed_at) <", "0 >"),
    Mutation("undo: not of another time", _DEPARTURES, "abs(snapshot.taken_at - victim.noticed_at) <", "0 <"),
    Mutation(
        "undo: a requeue without an answer", _DEPARTURES, "abs(snapshot.taken_at - victim.requeue_sent_at) <=", "0 >"
    ),
    Mutation("undo: which is not awaited for long", _DEPARTURES, "<= RESEND_AFTER_S", "<= 9e9"),
    Mutation("held: by too many requeues", _DEPARTURES, "if not job.pending or not job.held or not", "if True or not"),
    Mutation("held: by others is no loss", _DEPARTURES, " or not _MOST_REQUEUES.search(job.reason)", ""),
)
