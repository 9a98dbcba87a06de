"""Rules of when Slurm's word is awaited before a victim leaves, each broken once, for `benchmarks/mutations.py`."""

from __future__ import annotations

from benchmarks.mutation import Mutation

AT_ONCE_MUTATIONS = (
    Mutation(
        "at once: what victims leave is enough",
        "core/tesched_core/orders/first_look.py",
        "return fits_without_free(",
        "return True or fits_without_free(",
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
