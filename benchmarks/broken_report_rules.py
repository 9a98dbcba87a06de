"""The rules of jobs' reports, and of `tesched check`'s patch, that `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_REPORT, _CHECK = "core/tesched_core/model/job_report.py", "cli/tesched_cli/check.py"

REPORT_MUTATIONS = (
    Mutation("reports: points are of numbers", _REPORT, "if not _OF_POINTS.issuperset(", "if False and ("),
    Mutation("reports: truth values are no numbers", _REPORT, "if not _is_number(version) or ", "if "),
    Mutation("check: line feeds alone end lines", _CHECK, '.removesuffix("\\n").split("\\n")]', ".splitlines()]"),
)
