"""The rules of what Slurm's records say of jobs and reservations, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_RECORD, _READ = "slurm/tesched_slurm/record_details.py", "core/tesched_core/placement/read_jobs.py"
_POLICIES = "policies/tesched_policies"

RECORD_MUTATIONS = (
    Mutation("crontab: by Slurm's word", _RECORD, '" CronJob=Yes " in', "False and"),
    Mutation("crontab: no text of a user's", _RECORD, '.partition(" Deadline=")[2].partition(" Partition=")[0]', ""),
    Mutation(
        "crontab: not known without a record",
        "slurm/tesched_slurm/job_records.py",
        "of_crontab=details.of_crontab if details is not None else None",
        "of_crontab=details is not None and details.of_crontab",
    ),
    Mutation("crontab: no victim", _READ, "if job.of_crontab:", "if False:"),
    Mutation("crontab: no victim while that is not known", _READ, " or job.of_crontab is None", ""),
    Mutation(
        "crontab: no TE job is served",
        "core/tesched_core/orders/te_queue.py",
        "if why is None and job.of_crontab:",
        "if False:",
    ),
    Mutation(
        "crontab: no plan for one",
        "core/tesched_core/guard/admission.py",
        "preemptor is not None and preemptor.of_crontab",
        "False",
    ),
    Mutation(
        "crontab: no intent for one",
        "core/tesched_core/step.py",
        "return job is not None and bool(job.of_crontab)",
        "return False",
    ),
    Mutation("crontab: fill", f"{_POLICIES}/fill.py", " and not job.of_crontab", ""),
    Mutation("crontab: gavel", f"{_POLICIES}/gavel/jobs.py", "if job.of_crontab:", "if False:"),
    Mutation("crontab: pdors", f"{_POLICIES}/pdors/jobs.py", "seen.of_crontab or ", ""),
    Mutation("crontab: slaq", f"{_POLICIES}/slaq/jobs.py", "job.of_crontab or ", ""),
)
