"""Rules of when Slurm's word is awaited before a victim leaves, each broken once, for `benchmarks/mutations.py`."""

from __future__ import annotations

from benchmarks.mutation import Mutation

AT_ONCE_MUTATIONS = (
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
        "beside_preemptors(others, snapshot, capacity))",
        "capacity)",
    ),
    Mutation(
        "sums: the record of several partitions is doubted",
        "core/tesched_core/placement/by_sums.py",
        "exclusive=job.request.exclusive and not doubted",
        "exclusive=job.request.exclusive",
    ),
    Mutation(
        "sums: whole nodes are empty ones",
        "core/tesched_core/placement/by_sums.py",
        "fits &= free.cpus == capacity.total[rows, 0]",
        "pass",
    ),
    Mutation(
        "sums: shards may lie on one GPU",
        "core/tesched_core/placement/by_sums.py",
        "np.where(shards > 0, np.maximum(free, total - filled), free)",
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
