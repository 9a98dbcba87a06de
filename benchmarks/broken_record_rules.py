"""The rules of what Slurm's records say of jobs and reservations, which `python -m benchmarks.mutations` breaks."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_RECORD, _READ = "slurm/tesched_slurm/record_details.py", "core/tesched_core/placement/read_jobs.py"
_SITE = "slurm/tesched_slurm/scontrol_cluster.py"
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
        "if why is None and job.left_to_slurm:",
        "if False:",
    ),
    Mutation(
        "crontab: no plan for one",
        "core/tesched_core/guard/admission.py",
        "preemptor is not None and preemptor.left_to_slurm",
        "False",
    ),
    Mutation(
        "crontab: no intent for one",
        "core/tesched_core/step.py",
        "return job is not None and job.left_to_slurm",
        "return False",
    ),
    Mutation("crontab: fill", f"{_POLICIES}/fill.py", " and not job.left_to_slurm", ""),
    Mutation("crontab: gavel", f"{_POLICIES}/gavel/jobs.py", "if job.left_to_slurm:", "if False:"),
    Mutation("crontab: pdors", f"{_POLICIES}/pdors/jobs.py", "seen.left_to_slurm or ", ""),
    Mutation("crontab: slaq", f"{_POLICIES}/slaq/jobs.py", "job.left_to_slurm or ", ""),
    Mutation("federation: of this cluster alone", "slurm/tesched_slurm/run_command.py", "            **LOCAL,\n", ""),
    Mutation(
        "federation: by Slurm's word",
        "slurm/tesched_slurm/federated.py",
        "(of_array or viable != origin)",
        "of_array",
    ),
    Mutation(
        "federation: an array, too",
        "slurm/tesched_slurm/federated.py",
        "(of_array or viable != origin)",
        "viable != origin",
    ),
    Mutation("federation: not without one", "slurm/tesched_slurm/federated.py", 'origin not in {"", "NA"} and ', ""),
    Mutation(
        "federation: pyslurm's record",
        "slurm/tesched_slurm/pyslurm_jobs.py",
        '",".join(record.federation_siblings_viable)',
        'record.federation_origin or ""',
    ),
    Mutation(
        "federation: no job without an id", "slurm/tesched_slurm/columns.py", "if read.job_id != _NO_ID:", "if True:"
    ),
    Mutation(
        "federation: pyslurm's record without an id",
        "slurm/tesched_slurm/pyslurm_worker.py",
        "if values[_ID] == NO_ID:",
        "if False:",
    ),
    Mutation("federation: no victim", _READ, "if job.federated:", "if False:"),
    Mutation(
        "federation: no change",
        "core/tesched_core/model/cluster.py",
        "bool(self.of_crontab) or self.federated",
        "bool(self.of_crontab)",
    ),
    Mutation(
        "federation: why",
        "core/tesched_core/intake/pending_reason.py",
        "if job.of_crontab:",
        "if job.left_to_slurm:",
    ),
    Mutation(
        "federation: why, of an array",
        "core/tesched_core/intake/pending_reason.py",
        "FEDERATED if job.array_job_id is None else FEDERATED_ARRAY",
        "FEDERATED",
    ),
    Mutation(
        "stage out: it has ended",
        "slurm/tesched_slurm/job_records.py",
        'if base in {"COMPLETING", "STAGE_OUT"}:',
        'if base == "STAGE_OUT":\n        return JobState.RUNNING, frozenset({base})\n    if base == "COMPLETING":',
    ),
    Mutation("reservation: an end that is no time", _SITE, "if end_time is None:", "if False:"),
    Mutation(
        "reservation: one that is unreadable ends no poll",
        _SITE,
        "except UNREADABLE as error:",
        "except OSError as error:",
    ),
    Mutation("reservation: nodes that can't be read", _SITE, "any_node=nodes is None", "any_node=False"),
    Mutation("reservation: nodes of two records", _SITE, "else one.nodes | before.nodes", "else one.nodes"),
    Mutation("reservation: one of two is unreadable", _SITE, "one.any_node or before.any_node", "one.any_node"),
    Mutation(
        "reservation: any node may be its",
        "core/tesched_core/placement/allowed.py",
        " & ~np.bool_(other.any_node)",
        "",
    ),
    Mutation(
        "reservation: none is served in one that is unreadable",
        "core/tesched_core/placement/modelled.py",
        "(reservation.cores or reservation.doubt)",
        "reservation.cores",
    ),
    Mutation(
        "reservation: an unreadable one may start none again",
        "core/tesched_core/placement/can_return.py",
        "and not reservation.doubt and",
        "and",
    ),
    Mutation(
        "reservation: status names it",
        "daemon/tesched_daemon/plausibility.py",
        ', ("reservation", seen.reservations)',
        "",
    ),
    Mutation(
        "qos: a rule of any", "core/tesched_core/intake/matching.py", "match.qos, job.each_qos", "match.qos, (job.qos,)"
    ),
    Mutation("qos: protected by any", "core/tesched_core/guard/eligibility.py", 'owner.qos.split(",")', "(owner.qos,)"),
    Mutation(
        "qos: a scope of any",
        "core/tesched_core/policy.py",
        "not self.qos.isdisjoint(job.each_qos)",
        "job.qos in self.qos",
    ),
    Mutation(
        "qos: the plugin's of any",
        "core/tesched_core/model/cluster.py",
        "not self.te_qos.isdisjoint(job.each_qos)",
        "job.qos in self.te_qos",
    ),
    Mutation(
        "qos: of several the limits are not known",
        "core/tesched_core/orders/first_look.py",
        "if len(job.each_qos) > 1:",
        "if False:",
    ),
    Mutation(
        "qos: one that is denied of several",
        "core/tesched_core/placement/can_return.py",
        "not own <= _small(access.deny_qos)",
        "own.isdisjoint(_small(access.deny_qos))",
    ),
    Mutation(
        "pyslurm: a partition's default time",
        "slurm/tesched_slurm/pyslurm_jobs.py",
        "default_time_s=_seconds(record.default_time)",
        "default_time_s=None",
    ),
    Mutation(
        "partition: a job without one",
        "core/tesched_core/placement/capacity_of.py",
        "not alone.isdisjoint(job.partitions[:1])",
        "bool(alone and job.partitions[0] in alone)",
    ),
)
