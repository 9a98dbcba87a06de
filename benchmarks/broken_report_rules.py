"""The rules of jobs' reports, and of `tesched check`'s patch, that `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_REPORT, _CHECK = "core/tesched_core/model/job_report.py", "cli/tesched_cli/check.py"
_SPOOL, _ROUNDS = "daemon/tesched_daemon/job_reports/spool.py", "daemon/tesched_daemon/job_reports/rounds.py"
_INBOX, _STORED = "daemon/tesched_daemon/job_reports/inbox.py", "db/tesched_db/reports.py"

REPORT_MUTATIONS = (
    Mutation("reports: points are of numbers", _REPORT, "if not _OF_POINTS.issuperset(", "if False and ("),
    Mutation("reports: truth values are no numbers", _REPORT, "if not _is_number(version) or ", "if "),
    Mutation("reports: a time of saving stays", _REPORT, "(before.saved_at, after.saved_at)", "(after.saved_at,)"),
    Mutation("reports: so do speeds", _REPORT, "tuple(sorted([*earlier, *", "tuple(sorted([*"),
    Mutation("reports: each speed once", _REPORT, "if (sample.at, sample.steps_per_s) not in again]", "]"),
    Mutation("reports: a workload stays", _REPORT, "after.workload or before.workload", "after.workload"),
    Mutation("reports: and a target", _REPORT, "=before.target_loss if after.target_loss is None else ", "="),
    Mutation("reports: another process's wait behind", _REPORT, "return end > 0 and ", "return True or "),
    Mutation("reports: those said again are let go", _INBOX, "if not goes_on(one, report)", ""),
    Mutation("reports: a bound on those of a job", _INBOX, "[-MOST_OF_A_JOB:]", ""),
    Mutation("reports: a standby takes none", _INBOX, "self._read_at = -inf", "pass"),
    Mutation("reports: nor keeps what it heard", _ROUNDS, "self._spool.forget()", "pass"),
    Mutation("reports: nor what comes late", _ROUNDS, "self._heard if self._stale else outcome", "outcome"),
    Mutation(
        "reports: each turn of a standby", "daemon/tesched_daemon/knowledge.py", "self.reports.stand_by()", "pass"
    ),
    Mutation("reports: of arrays neither", _ROUNDS, "                self._trainings = Trainings()\n", ""),
    Mutation("reports: the store's come first", _SPOOL, "self._stored(job) if self._inbox is not None else", "None or"),
    Mutation(
        "reports: a file is whole", _SPOOL, "self._stored(job) if self._inbox is not None else", "self._stored(job) or"
    ),
    Mutation(
        "reports: unread, they wait",
        _SPOOL,
        "                return None\n            known =",
        "                reported = None\n            known =",
    ),
    Mutation("reports: of its own job", _STORED, "if another_job(dict(", "if False and (dict("),
    Mutation(
        "reports: a time of saving is stored",
        _STORED,
        '        "saved_at": reported.saved_at,',
        '        "saved_at": None,',
    ),
    Mutation("reports: a refused one takes nothing", _STORED, "saved_at=last.saved_at,", ""),
    Mutation("reports: when it spoke last", _STORED, "[last.sampled_at] * (last.sampled_at > 0)", "[]"),
    Mutation("check: line feeds alone end lines", _CHECK, '.removesuffix("\\n").split("\\n")]', ".splitlines()]"),
)
