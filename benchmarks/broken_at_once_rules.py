"""Rules of when Slurm's word is awaited before a victim leaves, each broken once, for `benchmarks/mutations.py`."""

from __future__ import annotations

from benchmarks.mutation import Mutation

_THERE = "core/tesched_core/placement/jobs_there.py"
_SUMS, _READING = "core/tesched_core/placement/by_sums.py", "core/tesched_core/placement/memory_reading.py"

_CONSIDERED = "core/tesched_core/fields/slurms_word.py"

AT_ONCE_MUTATIONS = (
    Mutation(
        "considered: not since its submission",
        _CONSIDERED,
        "return not _said_at_its_submission(job, snapshot) or",
        "return True or",
    ),
    Mutation("considered: not before the raise is in force", _CONSIDERED, "and is_ours(job, raised)", ""),
    Mutation("considered: a pass must have come", _CONSIDERED, "> LOOK_WITHIN_S:", "> 1e9:"),
    Mutation(
        "considered: of whole nodes alone",
        _CONSIDERED,
        "any(takes_whole_nodes(job.request, snapshot.partitions.get(name)) for name in job.partitions)",
        "True",
    ),
    Mutation(
        "considered: one at the head is raised, too",
        "core/tesched_core/fields/priority.py",
        "if (order.waits or (in_round and order.victims)) and _is_said_since_submission(job, context):",
        "if in_round and order.victims and _is_said_since_submission(job, context):",
    ),
    Mutation(
        "considered: limits are read of it",
        "core/tesched_core/orders/first_look.py",
        "if not considered_at_the_head(job, snapshot, None) and",
        'if job.reason != "Resources" and',
    ),
    Mutation(
        "at once: what victims leave is enough",
        "core/tesched_core/orders/first_look.py",
        "if not fits_without_free(",
        "if False and not fits_without_free(",
    ),
    Mutation(
        "at once: nor where sums leave it open",
        "core/tesched_core/orders/first_look.py",
        "return not may_start_by_sums(",
        "return True or not may_start_by_sums(",
    ),
    Mutation(
        "at once: what others free is theirs",
        "core/tesched_core/orders/first_look.py",
        "beside_preemptors(others, snapshot, capacity), there)",
        "capacity)",
    ),
    Mutation(
        "at once: what is freed for a BE job's turn is no TE job's alone",
        "core/tesched_core/orders/first_look.py",
        "one.preemptor != job.job_id and _is_te(one, snapshot)",
        "one.preemptor != job.job_id",
    ),
    Mutation(
        "at once: a BE job's turn on free nodes keeps no TE job",
        "core/tesched_core/orders/first_look.py",
        "_takes_any(one, context) and _is_te(one, context.snapshot)",
        "_takes_any(one, context)",
    ),
    Mutation(
        "at once: nor while one's node is out of service",
        "core/tesched_core/orders/first_look.py",
        "return bool(gone_nodes(order, context.snapshot, context.columns.capacity))",
        "return False",
    ),
    Mutation(
        "sums: the record of several partitions is doubted",
        _SUMS,
        'any(one.oversubscribe == "EXCLUSIVE" for one in parts):',
        "False:",
    ),
    Mutation(
        "sums: whole nodes are empty ones",
        _SUMS,
        "where &= _without_jobs(snapshot, capacity, there)",
        "pass",
    ),
    Mutation(
        "sums: nor those that an order has freed",
        _SUMS,
        "unused & ~rows_of(there.busy, capacity)",
        "~rows_of(there.busy, capacity)",
    ),
    Mutation(
        "sums: cores for the system are no job's",
        _SUMS,
        "capacity.total[:, 0] - np.array(held, dtype=np.int64)",
        "capacity.total[:, 0]",
    ),
    Mutation("sums: GPUs in all of two nodes", _SUMS, "len(holds) if _leaves_its_tasks_open(request) else", ""),
    Mutation("sums: CPUs of GPUs in all on 26.05", _SUMS, "0), with_cpus) < request.cpus", "0), most) < request.cpus"),
    Mutation("sums: GPUs in all on 26.05", _SUMS, "if free.in_all_anywhere:", "if False:"),
    Mutation("sums: cores for the system may be had", _SUMS, "cpus = np.maximum(cpus, self._of_shape())", "pass"),
    Mutation("sums: a suspended job has no CPUs", _THERE, "and job.state is not JobState.SUSPENDED", ""),
    Mutation(
        "sums: nodes of its user's jobs alone",
        _SUMS,
        "where &= ~with_other_users(job.user, snapshot, capacity)",
        "pass",
    ),
    Mutation(
        "sums: nodes that it must have are of its partition",
        _SUMS,
        "not where[rows_of(request.required_nodes, capacity)].all()",
        "False",
    ),
    Mutation("sums: all memory", _SUMS, "fits &= free.memory_unused", "pass"),
    Mutation("sums: no memory where none is shared out", _SUMS, "if not settings.memory_is_shared_out:", "if False:"),
    Mutation(
        "sums: cores that it may share",
        _SUMS,
        "shared = shares_cores(partition, request.sharing)",
        "shared = False",
    ),
    Mutation(
        "sums: CPUs and memory that each GPU brings",
        _SUMS,
        "found = np.minimum(found, have // each)",
        "pass",
    ),
    Mutation(
        "sums: CPUs of two types",
        _SUMS,
        "max((by_device(amounts, dict(with_bare_names([one]))) for one in wanted), default=0)",
        "by_device(amounts, dict(with_bare_names(wanted)))",
    ),
    Mutation("sums: words that are no devices", _SUMS, 'and name.partition("/")[0] not in NO_GRES', ""),
    Mutation(
        "sums: shards of another type's GPUs",
        _SUMS,
        "np.maximum(filled - (gpus - total), 0)",
        "filled",
    ),
    Mutation(
        "sums: GPUs that are held whole",
        _SUMS,
        "np.minimum(unfilled, total - self._held(name))",
        "unfilled",
    ),
    Mutation(
        "sums: a partition's own memory",
        _READING,
        "mem_per_cpu_mib=by_cpu or None, mem_per_node_mib=by_node or None",
        "mem_per_cpu_mib=None, mem_per_node_mib=None",
    ),
    Mutation(
        "sums: memory of each GPU", _READING, "found[1] = replace(none, mem_per_gres", "replace(none, mem_per_gres"
    ),
    Mutation(
        "sums: memory that 26.05 hides",
        _READING,
        "if by_gpu and defaults.counts_gpus and (counted := request.mem_counted_mib):",
        "if False and (counted := request.mem_counted_mib):",
    ),
    Mutation(
        "sums: a job's own memory is no default",
        _READING,
        "if names_memory(request, defaults) or not (defaults.differ or by_gpu):",
        "if False:",
    ),
    Mutation(
        "sums: shards keep GPUs, before 26.05, too",
        _SUMS,
        "self._shards_keep_gpus = self.in_all_anywhere",
        "self._shards_keep_gpus = True",
    ),
    Mutation(
        "sums: shards may lie on one GPU",
        _SUMS,
        "np.where(shards > 0, np.maximum(free, unfilled), free)",
        "free",
    ),
    Mutation(
        "at once: what is free is not counted",
        "core/tesched_core/placement/reserved.py",
        "_changed(capacity, [*emptied, *left])",
        "_changed(capacity, left)",
    ),
    Mutation(
        "at once: free memory beside no free CPU",
        "core/tesched_core/placement/reserved.py",
        " if capacity.free[row, 0] > 0]",
        "]",
    ),
    Mutation(
        "look: nor where Slurm enforces none",
        "core/tesched_core/orders/first_look.py",
        "settings.has_burst_buffers or (settings.limits_enforced and job.job_id not in snapshot.unlimited)",
        "True",
    ),
    Mutation(
        "look: nor where it leaves the job alone",
        "core/tesched_core/orders/first_look.py",
        "(settings.limits_enforced and job.job_id not in snapshot.unlimited)",
        "settings.limits_enforced",
    ),
    Mutation(
        "look: but where it may not",
        "core/tesched_core/orders/first_look.py",
        "(settings.limits_enforced and job.job_id not in snapshot.unlimited)",
        "False",
    ),
    Mutation(
        "look: but its partitions' limits",
        "core/tesched_core/orders/first_look.py",
        "one is not None and takes(one, job, snapshot)",
        "one is not None",
    ),
    Mutation(
        "look: but an account that a partition may not take",
        "core/tesched_core/placement/can_return.py",
        "    if partition.allow_accounts and job.account not in partition.allow_accounts:\n        return False\n",
        "",
    ),
    Mutation(
        "limits: other TE jobs start first",
        "slurm/tesched_slurm/clear_of_limits.py",
        "one.used + sum(map(tasks_in, others)) < one.most",
        "one.used < one.most",
    ),
    Mutation(
        "limits: a QOS that is not known",
        "slurm/tesched_slurm/clear_of_limits.py",
        "not (held.of_users and held.of_accounts)",
        "False",
    ),
    Mutation(
        "limits: nodes taken whole",
        "slurm/tesched_slurm/clear_of_limits.py",
        "return nodes * max(",
        "return max(",
    ),
    Mutation(
        "look: but while another starts on free resources",
        "core/tesched_core/orders/first_look.py",
        "                on_free <= {plan.preemptor}\n                and ",
        "                ",
    ),
)
