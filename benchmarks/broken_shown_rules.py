"""The rules of what commands show of a job's run and end, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_VIEWS, _TIMES = "db/tesched_db/views.py", "core/tesched_core/intake/job_times.py"

SHOWN_MUTATIONS = (
    Mutation("forgotten: its run lasts until it was last seen", _VIEWS, "self.last_seen if self.gone else now", "now"),
    Mutation("forgotten: its state is not known", _VIEWS, "self.gone and self.state not in FINISHED", "False"),
    Mutation(
        "forgotten: nothing comes next",
        "cli/tesched_cli/mine.py",
        '    if job.gone:\n        return ""\n',
        "",
    ),
    Mutation("forgotten: no limit holds it back", "cli/tesched_cli/explain.py", "PENDING or job.gone:", "PENDING:"),
    Mutation(
        "forgotten: its drawing ends then",
        "cli/tesched_cli/web/story.py",
        "job.last_seen if job.end_time",
        "now if job.end_time",
    ),
    Mutation("forgotten: its bar ends then", _TIMES, "if last_seen is None or not found or", "if True or"),
    Mutation(
        "forgotten: on the timeline, too",
        "db/tesched_db/timeline.py",
        "runs(changes[row.key]), row.last_seen)",
        "runs(changes[row.key]), None)",
    ),
    Mutation("suspended: a run is without it", _VIEWS, " - self.start_time - self.suspended_s", " - self.start_time"),
    Mutation("suspended: it has not run since", _VIEWS, "until = self.suspended_since", "pass"),
    Mutation("suspended: in top, too", "cli/tesched_cli/top/poll.py", "job.run_s(now)", "now - job.start_time"),
    Mutation("suspended: of an earlier run nothing counts", _TIMES, "if change.restarts != restarts:", "if False:"),
    Mutation(
        "suspended: until it ended, by Slurm's word",
        _TIMES,
        "change.end_time if change.state in FINISHED and change.end_time is not None else change.at",
        "change.at",
    ),
    Mutation("states: GONE is one", "db/tesched_db/filters.py", "    if which.forgotten:\n", "    if False:\n"),
    Mutation(
        "states: beside others",
        "db/tesched_db/filters.py",
        "or_(forgotten, states) if which.states else forgotten",
        "forgotten",
    ),
    Mutation(
        "states: one that is gone has no other",
        "db/tesched_db/filters.py",
        "[states] if which.forgotten is None else [states, not_(forgotten)]",
        "[states]",
    ),
    Mutation(
        "states: GONE without --all",
        "db/tesched_db/filters.py",
        "or_(is_known, forgotten) if which.forgotten else is_known",
        "is_known",
    ),
    Mutation(
        "states: one whose end was seen is not GONE",
        "db/tesched_db/filters.py",
        ", JobRow.state.not_in([state.value for state in FINISHED]))",
        ")",
    ),
)
