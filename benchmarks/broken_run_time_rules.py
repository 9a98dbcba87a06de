"""The rules of learned run times that `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_FINISHED, _SNAPSHOT = "core/tesched_core/intake/finished_runs.py", "core/tesched_core/model/snapshot.py"
_COLUMNS, _ELIGIBLE = "core/tesched_core/placement/columns_of.py", "core/tesched_core/guard/eligibility.py"
_STORE, _SOURCE = "db/tesched_db/finished_runs.py", "daemon/tesched_daemon/run_time_source.py"
_LEVELS, _HISTORY = "predict/tesched_predict/calibration.py", "predict/tesched_predict/history.py"
_EXPLAIN = "cli/tesched_cli/render/expectation.py"
_GROUPS, _SCHEMA = "predict/tesched_predict/groups.py", "db/tesched_db/migrations/versions/r0_2.py"

RUN_TIME_MUTATIONS = (
    Mutation("run times: a run that was cut short tells none", _FINISHED, "job.state not in ENDED_BY_ITSELF or", ""),
    Mutation("run times: nor one that had its notice", _FINISHED, "victim.noticed_at is not None", "False"),
    Mutation("run times: the notice of another run is none", _FINISHED, " and victim.restarts == job.restarts", ""),
    Mutation("run times: the owner's word comes first", _SNAPSHOT, "traits.run_time_s is not None:", "False:"),
    Mutation("run times: the bound goes by the low quantile", _ELIGIBLE, "running.may_end_at", "running.ends_at"),
    Mutation("run times: ends go by the median", _COLUMNS, "learned[:, _MEDIAN])", "learned[:, _LOW])"),
    Mutation("run times: what must fit goes by the high one", _COLUMNS, "one.high_s if one", "one.median_s if one"),
    Mutation("run times: a run counts once", _STORE, "if name not in there]", "if name]"),
    Mutation("run times: the newest are kept", _STORE, "offset(MOST_RUNS - 1)", "offset(10**6)"),
    Mutation("run times: of this cluster alone", _STORE, ".where(FinishedRunRow.cluster.in_([\"\", cluster]))", ""),
    Mutation("run times: shared on one cluster", _SOURCE, "= cluster\n            self._shared.clear()", "= cluster"),
    Mutation("run times: one that is outlived is renewed", _SOURCE, "min(now + REFRESH_S, outlived_at)", "now + 1e9"),
    Mutation("run times: of its class after a reload", _SOURCE, "job is job and one.traits is traits:", "job is job:"),
    Mutation("run times: a poll does its share", _SOURCE, " and spent < units", ""),
    Mutation("run times: half is for waiting jobs", _SOURCE, "snapshot, MOST_UNITS // 2)", "snapshot, MOST_UNITS)"),
    Mutation("run times: an unused half", _SOURCE, "_due_on_nodes, snapshot, left)", "_due_on_nodes, snapshot, 0)"),
    Mutation("run times: a limit of 0 is none", _HISTORY, " and self.time_limit_s > 0 else", " else"),
    Mutation("run times: a job that raises is left out", _SOURCE, "except Exception:", "except ZeroDivisionError:"),
    Mutation("run times: levels are corrected", _LEVELS, "count < FEWEST_SCORES or ", "True or "),
    Mutation("run times: long runs have scores", _GROUPS, "len(self.by_end) >= self.most and", "False and"),
    Mutation("run times: a notice that was withdrawn", _FINISHED, "one.at >= job.start_time", "False"),
    Mutation("run times: no key is used again", _SCHEMA, "        sqlite_autoincrement=True,\n", ""),
    Mutation("run times: any number may end at once", _STORE, "in_parts(runs[-MOST_RUNS:])", "[runs] if runs else []"),
    Mutation("run times: explain has the daemon's levels", _EXPLAIN, "ran_s=ran_s, levels=levels)", "ran_s=ran_s)"),
    Mutation("run times: explain is of the daemon's cluster", _EXPLAIN, "(written.cluster,) if written else", ""),
    Mutation("run times: levels are written as they change", _SOURCE, "levels != self._written:", "not runs:"),
    Mutation("run times: the longest of equally new ones", _STORE, ", FinishedRunRow.run_s.desc())", ")"),
    Mutation("run times: of its name however old", _STORE, "if same_name or place", "if place"),
    Mutation("run times: a full group ends the reading", _STORE, "if alike == RUNS_PER_GROUP:", "if False:"),
    Mutation("run times: the newest scores count", _LEVELS, "> MOST_SCORES:", "> 10**6:"),
)  # fmt: skip
